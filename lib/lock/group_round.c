/* group_round.c - calls on the members of a group, awaited together until a deadline. */
#include "lock/group_round.h"
#include "lock/internal.h"

#include <assert.h>
#include <stdlib.h>

static void end_round(struct rlock_group *group)
{
    group->round++;
    uv_timer_stop(&group->timer);
    group->then(group);
}

static void round_on_timer(uv_timer_t *timer)
{
    end_round(timer->data);
}

static void set_timer(struct rlock_group *group, uint64_t ms)
{
    /* The clock of the loop stands at the start of the turn. Without an update the timer would end
       early. */
    uv_update_time(group->timer.loop);
    uv_timer_start(&group->timer, round_on_timer, ms, 0);
}

static unsigned count_status(const struct rlock_group *group, enum rlock_status status)
{
    unsigned count = 0;

    for (unsigned i = 0; i < group->count; i++)
        count += group->members[i].status == status;
    return count;
}

enum rlock_status rlock_round_status(const struct rlock_group *group,
                                     enum rlock_status denied)
{
    const struct group_member *other = group->members;

    if (count_status(group, RLOCK_OK) >= group->needed)
        return RLOCK_OK;
    if (group->count - count_status(group, denied) < group->needed)
        return denied;
    while (other->status == RLOCK_OK || other->status == denied)
        other++; /* a member with another status exists, because no line above returned */
    return other->status;
}

static bool is_decided(const struct rlock_group *group)
{
    unsigned done = count_status(group, RLOCK_OK);

    return done >= group->needed || done + group->awaited < group->needed;
}

void rlock_round_free_if_done(struct rlock_group *group)
{
    for (unsigned i = 0; i < group->count; i++) {
        if (group->members[i].call != GROUP_CALL_NONE)
            return;
    }
    if (group->is_closed)
        free(group);
}

static void count_answer(struct rlock_group *group)
{
    if (--group->awaited == 0) {
        end_round(group);
    } else if (group->may_hurry && is_decided(group)) {
        group->may_hurry = false;
        set_timer(group, group->hurry_ms);
    }
}

static void round_on_answer(struct rlock *lock UNUSED, enum rlock_status status,
                            void *arg)
{
    struct group_member *member = arg;
    struct rlock_group *group = member->group;
    enum group_call call = member->call;

    assert(call != GROUP_CALL_CANCEL || status != RLOCK_OK);
    member->call = GROUP_CALL_NONE;
    if (group->state == GROUP_FREED) {
        rlock_round_free_if_done(group);
    } else if (member->round == group->round) {
        if (call != GROUP_CALL_CANCEL)
            member->status = status;
        if (call == GROUP_CALL_ACQUIRE || call == GROUP_CALL_EXTEND)
            err_set(&member->why, status, "%s",
                    rlock_client_words(member->client, status));
        count_answer(group);
    }
}

static void await(struct group_member *member)
{
    member->round = member->group->round;
    member->group->awaited++;
}

/** Begin a call. Until it is answered, `why` is a timeout. */
static void begin(struct group_member *member, enum group_call call)
{
    member->call = call;
    err_set(&member->why, RLOCK_TIMEOUT, "no reply within the time of the group");
    await(member);
}

void rlock_round_begin(struct rlock_group *group, void (*then)(struct rlock_group *group))
{
    group->round++;
    group->then = then;
    group->awaited = 0;
    group->may_hurry = false;
    for (unsigned i = 0; i < group->count; i++)
        group->members[i].status = RLOCK_TIMEOUT;
}

void rlock_round_acquire(struct group_member *member,
                         const struct rlock_acquire_options *options)
{
    if (member->call != GROUP_CALL_NONE)
        return;
    begin(member, GROUP_CALL_ACQUIRE);
    rlock_acquire(member->client, &member->lock, member->name, member->name_len, options,
                  round_on_answer, member);
}

static void round_on_extended(struct rlock *lock, enum rlock_status status, void *arg)
{
    const struct group_member *member = arg;

    if (member->call != GROUP_CALL_EXTEND)
        return; /* a release has ended the extension, and is answered later */
    if (status == RLOCK_LOST)
        /* the group counts the loss even of a member that is not awaited */
        lock->on_lost(lock, status, arg);
    round_on_answer(lock, status, arg);
}

void rlock_round_extend(struct rlock_group *group, uint32_t lease_ms)
{
    group->awaited++; /* keeps the round open if a call answers at once */
    for (unsigned i = 0; i < group->count; i++) {
        struct group_member *member = &group->members[i];

        if (!rlock_is_held(&member->lock)) {
            member->status = RLOCK_LOST;
        } else if (member->call == GROUP_CALL_NONE) {
            begin(member, GROUP_CALL_EXTEND);
            rlock_extend(member->client, &member->lock, lease_ms, round_on_extended,
                         member);
        }
    }
    group->awaited--;
}

static void cancel(struct group_member *member)
{
    if (member->call != GROUP_CALL_ACQUIRE)
        return;
    member->call = GROUP_CALL_CANCEL;
    rlock_cancel(member->client, &member->lock);
}

static bool may_release(const struct group_member *member)
{
    return member->call == GROUP_CALL_NONE || member->call == GROUP_CALL_EXTEND;
}

void rlock_round_undo(struct rlock_group *group)
{
    for (unsigned i = 0; i < group->count; i++) {
        struct group_member *member = &group->members[i];

        cancel(member);
        if (may_release(member) && rlock_is_held(&member->lock)) {
            member->call = GROUP_CALL_RELEASE;
            rlock_release(member->client, &member->lock, round_on_answer, member);
        } else {
            member->status = RLOCK_LOST;
        }
        if (member->call != GROUP_CALL_NONE)
            await(member);
    }
}

static void flush(struct rlock_group *group)
{
    for (unsigned i = 0; i < group->count; i++)
        rlock_flush(group->members[i].client);
}

void rlock_round_run(struct rlock_group *group, uint64_t ms)
{
    set_timer(group, group->awaited == 0 ? 0 : ms);
    flush(group);
}

void rlock_round_pause(struct rlock_group *group, uint64_t ms)
{
    set_timer(group, ms);
}

void rlock_round_abandon(struct rlock_group *group)
{
    group->round++;
    uv_timer_stop(&group->timer);
    for (unsigned i = 0; i < group->count; i++) {
        struct group_member *member = &group->members[i];

        cancel(member);
        if (may_release(member))
            rlock_release(member->client, &member->lock, NULL, NULL);
    }
    flush(group);
}
