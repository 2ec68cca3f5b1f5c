/*
 * group.c - several locks as one, on top of the calls of rlock.h.
 *
 * A group goes from round to round (group_round.h):
 *
 *   round    what it does                                            followed by
 *   try      acquires all members that are not held, without         the end, or undo
 *            waiting
 *   undo     releases the held members, and cancels the calls        the end, pause or wait
 *            in progress
 *   pause    sleeps for a random time, longer after each failure     try or wait
 *   wait     waits for one busy member, while no other member is     try
 *            held; only with RLOCK_GROUP_ALL
 *   extend   extends all members that are held                       the end
 *   release  releases all members                                    the end
 *
 * As soon as the result of a try, an extension or a release is certain, the remaining
 * members have only a short time left, so a hung server delays nobody.
 *
 * Two groups with the same members may each get a part of the members. Then both groups release
 * their parts before they pause or wait. The random pauses decide which group is the first to try
 * again.
 */
#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"
#include "lock/group_round.h"
#include "lock/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_MS     1500 /* longest time of a try, as in Redisson's multi-lock */
#define HURRY_MS_MIN 5    /* a late member gets lease_ms / 20, within these bounds */
#define HURRY_MS_MAX 50
#define PAUSE_MS_MIN 4
#define PAUSE_MS_MAX 32  /* longest pause before a wait for one member */
#define RETRY_MS_MAX 128 /* longest pause before all members are tried again */

/** The answer to a call that involves no member, until the loop sends the answer. */
struct answer {
    struct rlock_link link;
    rlock_group_cb callback;
    void *arg;
    enum rlock_status status;
};

static void group_try_all(struct rlock_group *group);
static void group_wait_for_busy(struct rlock_group *group);

static bool is_inherited(const struct rlock_group *group)
{
    return rlock_client_is_inherited(group->members[0].client);
}

static bool is_held(const struct rlock_group *group)
{
    return group->state == GROUP_HELD || group->state == GROUP_EXTENDING;
}

static unsigned count_held(const struct rlock_group *group)
{
    unsigned held = 0;

    for (unsigned i = 0; i < group->count; i++)
        held += rlock_is_held(&group->members[i].lock);
    return held;
}

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/** Return the time for which enough members surely stay held. */
static int64_t safe_for_us(const struct rlock_group *group, int64_t now_us)
{
    int64_t safe_us[RLOCK_GROUP_MAX];
    unsigned held = 0;

    for (unsigned i = 0; i < group->count; i++) {
        if (rlock_is_held(&group->members[i].lock))
            safe_us[held++] = rlock_safe_for_us(&group->members[i].lock, now_us);
    }
    if (held < group->needed)
        return 0;
    qsort(safe_us, held, sizeof(*safe_us), by_value);
    return safe_us[held - group->needed];
}

static uint64_t within(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

static uint64_t lease_ms(const struct rlock_group *group)
{
    uint32_t lease = group->options.lease_ms;

    return lease == 0 ? RLOCK_LEASE_MS_DEFAULT : lease;
}

static void group_on_member_lost(struct rlock *lock UNUSED,
                                 enum rlock_status status UNUSED, void *arg)
{
    struct group_member *member = arg;
    struct rlock_group *group = member->group;

    /* A try that is under way must not count this member as held. */
    member->status = RLOCK_TIMEOUT;
    if (group->state != GROUP_HELD || count_held(group) >= group->needed)
        return;
    group->state = GROUP_LOST;
    rlock_round_abandon(group);
    if (group->options.on_lost != NULL)
        group->options.on_lost(group, RLOCK_LOST, group->lost_arg);
}

static void acquire_member(struct group_member *member, uint32_t wait_ms)
{
    const struct rlock_group_options *options = &member->group->options;

    rlock_round_acquire(member, &(struct rlock_acquire_options){
                                    .kind = member->kind,
                                    .permits = member->permits,
                                    .holder = options->holder,
                                    .lease_ms = options->lease_ms,
                                    .watchdog = options->watchdog,
                                    .on_lost = group_on_member_lost,
                                    .wait_ms = wait_ms,
                                });
}

static void answer(struct rlock_group *group, enum group_state state,
                   enum rlock_status status)
{
    group->state = state;
    group->callback(group, status, group->arg);
}

static uint32_t left_ms(const struct rlock_group *group)
{
    int64_t left_us = group->give_up_at_us - clock_mono_us();

    if (group->options.wait_ms == RLOCK_WAIT_FOREVER)
        return RLOCK_WAIT_FOREVER;
    return left_us <= 0 ? 0 : (uint32_t)(left_us / 1000) + 1;
}

static void pause_then(struct rlock_group *group, uint32_t max_ms,
                       void (*then)(struct rlock_group *group))
{
    uint64_t ms = backoff_ms(group->failures, PAUSE_MS_MIN, max_ms, random_u64());
    uint32_t left = left_ms(group);

    rlock_round_begin(group, then);
    rlock_round_pause(group, ms < left ? ms : left);
}

static void group_end_undo(struct rlock_group *group)
{
    bool has_busy = group->need == RLOCK_GROUP_ALL && group->busy != NULL;

    if (group->status == RLOCK_INVALID || group->status == RLOCK_CANCELLED ||
        group->status == RLOCK_NO_MEMORY || left_ms(group) == 0)
        answer(group, GROUP_IDLE, group->status);
    else if (!has_busy)
        pause_then(group, RETRY_MS_MAX, group_try_all);
    else if (group->failures > 1)
        pause_then(group, PAUSE_MS_MAX, group_wait_for_busy);
    else
        group_wait_for_busy(group);
}

static struct group_member *find_busy(struct rlock_group *group)
{
    for (unsigned i = 0; i < group->count; i++) {
        if (group->members[i].status == RLOCK_BUSY)
            return &group->members[i];
    }
    return NULL;
}

static void fail(struct rlock_group *group, enum rlock_status status)
{
    group->status = status;
    group->busy = find_busy(group);
    group->failures++;
    rlock_round_begin(group, group_end_undo);
    rlock_round_undo(group);
    rlock_round_run(group, ROUND_MS);
}

static void group_end_try(struct rlock_group *group)
{
    enum rlock_status status = rlock_round_status(group, RLOCK_BUSY);

    if (status == RLOCK_OK && safe_for_us(group, clock_mono_us()) <= 0)
        status = RLOCK_TIMEOUT;
    if (status == RLOCK_OK)
        answer(group, GROUP_HELD, RLOCK_OK);
    else
        fail(group, status);
}

static void group_try_all(struct rlock_group *group)
{
    rlock_round_begin(group, group_end_try);
    group->may_hurry = true;
    for (unsigned i = 0; i < group->count; i++) {
        struct group_member *member = &group->members[i];

        if (rlock_is_held(&member->lock))
            member->status = RLOCK_OK;
        else
            acquire_member(member, 0);
    }
    rlock_round_run(group, within(lease_ms(group) / 2, HURRY_MS_MIN, ROUND_MS));
}

static void group_end_wait(struct rlock_group *group)
{
    if (rlock_is_held(&group->busy->lock))
        group_try_all(group);
    else
        fail(group, group->busy->status);
}

static void group_wait_for_busy(struct rlock_group *group)
{
    uint32_t wait_ms = left_ms(group);

    rlock_round_begin(group, group_end_wait);
    acquire_member(group->busy, wait_ms);
    rlock_round_run(group, (uint64_t)wait_ms + ROUND_MS);
}

static void answer_waiting(struct rlock_group *group)
{
    LIST_DRAIN_PRESENT(struct answer, waiting, &group->answers, link) {
        struct answer answer = *waiting;

        free(waiting);
        answer.callback(group, answer.status, answer.arg);
    }
}

static void group_on_soon(uv_idle_t *soon)
{
    uv_idle_stop(soon);
    answer_waiting(soon->data);
}

static void answer_unchanged(struct rlock_group *group, enum rlock_status status,
                             rlock_group_cb callback, void *arg)
{
    struct answer *answer = malloc(sizeof(*answer));

    if (answer == NULL) {
        callback(group, RLOCK_NO_MEMORY, arg);
        return;
    }
    *answer = (struct answer){.callback = callback, .arg = arg, .status = status};
    list_append(&group->answers, &answer->link);
    uv_idle_start(&group->soon, group_on_soon);
}

void rlock_group_acquire(struct rlock_group *group,
                         const struct rlock_group_options *options,
                         rlock_group_cb callback, void *arg)
{
    static const struct rlock_group_options defaults;

    assert(callback != NULL);
    if (is_inherited(group)) {
        callback(group, RLOCK_INVALID, arg);
        return;
    }
    if (options == NULL)
        options = &defaults;
    if (group->state != GROUP_IDLE && group->state != GROUP_LOST) {
        err_set(&group->members[0].client->why, RLOCK_INVALID,
                "group: is held, or in another call");
        answer_unchanged(group, RLOCK_INVALID, callback, arg);
        return;
    }
    group->state = GROUP_ACQUIRING;
    group->options = *options;
    group->callback = callback;
    group->arg = arg;
    group->lost_arg = options->lost_arg == NULL ? arg : options->lost_arg;
    group->give_up_at_us = clock_mono_us() + (int64_t)options->wait_ms * 1000;
    group->hurry_ms = within(lease_ms(group) / 20, HURRY_MS_MIN, HURRY_MS_MAX);
    group->failures = 0;
    group_try_all(group);
}

void rlock_group_cancel(struct rlock_group *group)
{
    if (group->state == GROUP_ACQUIRING && !is_inherited(group))
        fail(group, RLOCK_CANCELLED);
}

/** Begin a call on a group that is held. If the group is not held, answer the call. */
static bool begin_on_held(struct rlock_group *group, enum group_state state,
                          rlock_group_cb callback, void *arg)
{
    assert(callback != NULL);
    if (is_inherited(group)) {
        callback(group, RLOCK_INVALID, arg);
    } else if (group->state != GROUP_HELD) {
        answer_unchanged(group, group->state == GROUP_LOST ? RLOCK_LOST : RLOCK_NOT_OWNER,
                         callback, arg);
    } else {
        group->state = state;
        group->callback = callback;
        group->arg = arg;
        return true;
    }
    return false;
}

static void group_end_extension(struct rlock_group *group)
{
    enum rlock_status status = rlock_round_status(group, RLOCK_LOST);

    if (count_held(group) < group->needed)
        status = RLOCK_LOST;
    if (status == RLOCK_LOST)
        rlock_round_abandon(group);
    answer(group, status == RLOCK_LOST ? GROUP_LOST : GROUP_HELD, status);
}

void rlock_group_extend(struct rlock_group *group, uint32_t lease_ms,
                        rlock_group_cb callback, void *arg)
{
    if (!begin_on_held(group, GROUP_EXTENDING, callback, arg))
        return;
    rlock_round_begin(group, group_end_extension);
    rlock_round_extend(group, lease_ms);
    group->may_hurry = true;
    rlock_round_run(group, ROUND_MS);
}

static void group_end_release(struct rlock_group *group)
{
    answer(group, GROUP_IDLE, rlock_round_status(group, RLOCK_LOST));
}

void rlock_group_release(struct rlock_group *group, rlock_group_cb callback, void *arg)
{
    if (!begin_on_held(group, GROUP_RELEASING, callback, arg)) {
        if (group->state == GROUP_LOST)
            group->state = GROUP_IDLE;
        return;
    }
    rlock_round_begin(group, group_end_release);
    group->may_hurry = true;
    rlock_round_undo(group);
    rlock_round_run(group, ROUND_MS);
}

bool rlock_group_is_held(const struct rlock_group *group)
{
    return is_held(group) && !is_inherited(group);
}

int64_t rlock_group_safe_for_us(const struct rlock_group *group, int64_t now_us)
{
    return is_held(group) ? safe_for_us(group, now_us) : 0;
}

int64_t rlock_group_fence(const struct rlock_group *group, size_t index)
{
    if (index >= group->count || !is_held(group) ||
        !rlock_is_held(&group->members[index].lock))
        return 0;
    return rlock_fence(&group->members[index].lock);
}

const struct rlock_err *rlock_group_why(const struct rlock_group *group, size_t index)
{
    return index < group->count ? &group->members[index].why : NULL;
}

static const struct rlock_kind *kind_of(const struct rlock_member *member)
{
    return member->kind == NULL ? &rlock_plain : member->kind;
}

/** A quorum of semaphores is refused, because the quorum would give too many permits. For
 *  example, 3 servers with 3 permits each have 9 permits, and 4 owners could get 2 permits each. */
static enum rlock_status check_kind(const struct rlock_member *members, size_t index,
                                    enum rlock_group_need need, struct rlock_err *reterr)
{
    const struct rlock_kind *kind = kind_of(&members[index]);

    if (!kind->can_renew)
        return err_set(reterr, RLOCK_INVALID,
                       "lock group: kind of member %zu cannot be renewed or extended",
                       index);
    if (kind->has_permits != (members[index].permits > 0))
        return err_set(reterr, RLOCK_INVALID,
                       "lock group: permits of member %zu: a semaphore needs at least 1, "
                       "another kind has none",
                       index);
    if (need == RLOCK_GROUP_MAJORITY && kind->has_permits)
        return err_set(reterr, RLOCK_INVALID,
                       "lock group: member %zu of a quorum is a semaphore", index);
    if (need == RLOCK_GROUP_MAJORITY && kind != kind_of(members))
        return err_set(reterr, RLOCK_INVALID,
                       "lock group: members 0 and %zu of a quorum differ in kind", index);
    return RLOCK_OK;
}

static enum rlock_status check_member(const struct rlock_member *members, size_t index,
                                      enum rlock_group_need need,
                                      struct rlock_err *reterr)
{
    const struct rlock_member *member = &members[index];

    if (member->name == NULL || member->name_len < 1 || member->name_len > RLOCK_NAME_MAX)
        return err_set(reterr, RLOCK_INVALID, "lock group: bad name of member %zu",
                       index);
    if (member->client == NULL)
        return err_set(reterr, RLOCK_INVALID, "lock group: no client of member %zu",
                       index);
    if (member->client->loop != members->client->loop)
        return err_set(reterr, RLOCK_INVALID, "lock group: clients of different loops");
    for (size_t i = 0; i < index; i++) {
        if (members[i].client == member->client &&
            members[i].name_len == member->name_len &&
            memcmp(members[i].name, member->name, member->name_len) == 0)
            return err_set(reterr, RLOCK_INVALID,
                           "lock group: members %zu and %zu are the same", i, index);
        if (need == RLOCK_GROUP_MAJORITY && members[i].client == member->client)
            return err_set(reterr, RLOCK_INVALID,
                           "lock group: members %zu and %zu of a quorum share a client",
                           i, index);
    }
    return check_kind(members, index, need, reterr);
}

static enum rlock_status check(const struct rlock_member *members, size_t count,
                               enum rlock_group_need need, struct rlock_err *reterr)
{
    enum rlock_status status = RLOCK_OK;

    if (count < 1 || count > RLOCK_GROUP_MAX)
        return err_set(reterr, RLOCK_INVALID, "lock group: %zu members; must be 1..%d",
                       count, RLOCK_GROUP_MAX);
    if (need != RLOCK_GROUP_ALL && need != RLOCK_GROUP_MAJORITY)
        return err_set(reterr, RLOCK_INVALID, "lock group: need: unknown value %d",
                       (int)need);
    if (members == NULL || members->client == NULL)
        return err_set(reterr, RLOCK_INVALID, "lock group: no client of member 0");
    if (rlock_client_is_inherited(members->client))
        return err_set(reterr, RLOCK_INVALID, "lock group: %s",
                       rlock_client_why(members->client)->text);
    for (size_t i = 0; status == RLOCK_OK && i < count; i++)
        status = check_member(members, i, need, reterr);
    return status;
}

enum rlock_status rlock_group_create(const struct rlock_member *members, size_t count,
                                     enum rlock_group_need need,
                                     struct rlock_group **ret_group,
                                     struct rlock_err *reterr)
{
    struct rlock_group *group;

    if (check(members, count, need, reterr) != RLOCK_OK)
        return RLOCK_INVALID;
    group = calloc(1, sizeof(*group) + count * sizeof(*group->members));
    if (group == NULL)
        return err_set(reterr, RLOCK_NO_MEMORY, "lock group: no memory");
    list_init(&group->link);
    list_init(&group->answers);
    group->need = need;
    group->count = (unsigned)count;
    group->needed = group->count;
    if (need == RLOCK_GROUP_MAJORITY)
        group->needed = group->count / 2 + 1;
    for (size_t i = 0; i < count; i++) {
        group->members[i].group = group;
        group->members[i].client = members[i].client;
        group->members[i].name_len = members[i].name_len;
        memcpy(group->members[i].name, members[i].name, members[i].name_len);
        group->members[i].kind = kind_of(&members[i]);
        group->members[i].permits = members[i].permits;
    }
    uv_timer_init(members->client->loop, &group->timer);
    uv_idle_init(members->client->loop, &group->soon);
    group->timer.data = group->soon.data = group;
    *ret_group = group;
    return RLOCK_OK;
}

static void group_on_closed(void *arg)
{
    struct rlock_group *group = arg;

    group->is_closed = true;
    rlock_round_free_if_done(group);
}

void rlock_group_free(struct rlock_group *group)
{
    bool is_under_way;

    if (group == NULL || is_inherited(group))
        return;
    is_under_way = group->state == GROUP_ACQUIRING || group->state == GROUP_EXTENDING ||
                   group->state == GROUP_RELEASING;
    list_remove(&group->link);
    rlock_round_abandon(group);
    group->state = GROUP_FREED;
    if (is_under_way)
        group->callback(group, RLOCK_CANCELLED, group->arg);
    while (!list_is_empty(&group->answers))
        answer_waiting(group);
    closing_start(&group->closing, group_on_closed, group);
    closing_handle(&group->closing, (uv_handle_t *)&group->timer);
    closing_handle(&group->closing, (uv_handle_t *)&group->soon);
    closing_done(&group->closing);
}
