/* sync_group.c - the calls of rlock_sync.h on groups, carried to the loop and back. */
#include "base/clock.h"
#include "lock/sync.h"

/** What the calls need; all borrowed, for the caller sleeps meanwhile. */
struct call {
    struct rlock_sync_call base;
    struct rlock_group *group;
    const struct rlock_member *members;
    size_t count;
    enum rlock_group_need need;
    const struct rlock_group_options *options;
    size_t index;
    int64_t fence;
    int64_t safe_us;
};

static struct call prepare(struct rlock_sync *sync, struct rlock_group *group,
                           void (*begin)(struct rlock_sync_call *base),
                           struct err *reterr)
{
    return (struct call){.base = {.sync = sync, .begin = begin, .reterr = reterr},
                         .group = group};
}

static struct call *of(struct rlock_sync_call *base)
{
    return list_item(base, struct call, base);
}

static void sync_group_on_answer(struct rlock_group *group UNUSED, enum status status,
                                 void *arg)
{
    rlock_sync_answer(arg, status);
}

static void sync_group_begin_create(struct rlock_sync_call *base)
{
    struct call *call = of(base);
    enum status status = rlock_group_create(call->members, call->count, call->need,
                                            &call->group, base->reterr);

    if (status == STATUS_OK) {
        status = rlock_sync_adopt(base->sync, call->group);
        if (status != STATUS_OK)
            rlock_group_free(call->group);
    }
    rlock_sync_answer(base, status);
}

/* NOLINTNEXTLINE(readability-function-size): members are two arguments */
enum status rlock_sync_group_create(struct rlock_sync *sync,
                                    const struct rlock_member *members, size_t count,
                                    enum rlock_group_need need,
                                    struct rlock_group **ret_group, struct err *reterr)
{
    struct call call = prepare(sync, NULL, sync_group_begin_create, reterr);
    enum status status;

    call.members = members;
    call.count = count;
    call.need = need;
    status = rlock_sync_carry(&call.base);
    if (status == STATUS_OK)
        *ret_group = call.group;
    return status;
}

static void sync_group_begin_free(struct rlock_sync_call *base)
{
    rlock_sync_disown(base->sync, of(base)->group);
    rlock_sync_answer(base, STATUS_OK);
}

void rlock_sync_group_free(struct rlock_sync *sync, struct rlock_group *group)
{
    struct call call = prepare(sync, group, sync_group_begin_free, NULL);

    if (group != NULL)
        (void)rlock_sync_carry(&call.base);
}

static void sync_group_begin_acquire(struct rlock_sync_call *base)
{
    rlock_group_acquire(of(base)->group, of(base)->options, sync_group_on_answer, base);
}

enum status rlock_sync_group_acquire(struct rlock_sync *sync, struct rlock_group *group,
                                     const struct rlock_group_options *options,
                                     struct err *reterr)
{
    struct call call = prepare(sync, group, sync_group_begin_acquire, reterr);

    call.options = options;
    return rlock_sync_carry(&call.base);
}

static void sync_group_begin_release(struct rlock_sync_call *base)
{
    rlock_group_release(of(base)->group, sync_group_on_answer, base);
}

enum status rlock_sync_group_release(struct rlock_sync *sync, struct rlock_group *group,
                                     struct err *reterr)
{
    struct call call = prepare(sync, group, sync_group_begin_release, reterr);

    return rlock_sync_carry(&call.base);
}

static void sync_group_begin_cancel(struct rlock_sync_call *base)
{
    rlock_group_cancel(of(base)->group);
    rlock_sync_answer(base, STATUS_OK);
}

void rlock_sync_group_cancel(struct rlock_sync *sync, struct rlock_group *group)
{
    struct call call = prepare(sync, group, sync_group_begin_cancel, NULL);

    (void)rlock_sync_carry(&call.base);
}

static void sync_group_begin_look(struct rlock_sync_call *base)
{
    struct call *call = of(base);

    call->fence = rlock_group_fence(call->group, call->index);
    call->safe_us = rlock_group_is_held(call->group)
                        ? rlock_group_safe_for_us(call->group, clock_mono_us())
                        : 0;
    rlock_sync_answer(base, STATUS_OK);
}

int64_t rlock_sync_group_safe_for_us(struct rlock_sync *sync, struct rlock_group *group)
{
    struct call call = prepare(sync, group, sync_group_begin_look, NULL);

    return rlock_sync_carry(&call.base) == STATUS_OK ? call.safe_us : 0;
}

int64_t rlock_sync_group_fence(struct rlock_sync *sync, struct rlock_group *group,
                               size_t index)
{
    struct call call = prepare(sync, group, sync_group_begin_look, NULL);

    call.index = index;
    return rlock_sync_carry(&call.base) == STATUS_OK ? call.fence : 0;
}
