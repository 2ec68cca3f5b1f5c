/* sync_calls.c - the calls of rlock_sync.h: each is carried to the loop and back. */
#include "base/clock.h"
#include "lock/sync.h"

#include <stdatomic.h>
#include <string.h>

/** What the calls need; all borrowed, for the caller sleeps meanwhile. */
struct call {
    struct rlock_sync_call base;
    struct rlock *lock;
    const struct rlock *looked_at;
    const char *name;
    size_t name_len;
    const struct rlock_acquire_options *options;
    uint32_t lease_ms;
    struct rlock_sync_info *ret_info;
    struct rlock_stats *ret_stats;
    bool is_held;
    int64_t safe_us;
};

uint64_t rlock_sync_holder(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = ++last;
    return mine;
}

static struct call prepare(struct rlock_sync *sync, struct rlock_client *client,
                           void (*begin)(struct rlock_sync_call *base),
                           struct err *reterr)
{
    return (struct call){
        .base = {.sync = sync, .client = client, .begin = begin, .reterr = reterr}};
}

static struct call *of(struct rlock_sync_call *base)
{
    return list_item(base, struct call, base);
}

static void sync_on_lock_answer(struct rlock *lock, enum status status, void *arg)
{
    lock->arg = NULL; /* what on_lost is told: by then this call is over */
    rlock_sync_answer(arg, status);
}

static void sync_on_answer(enum status status, void *arg)
{
    rlock_sync_answer(arg, status);
}

static void sync_begin_acquire(struct rlock_sync_call *base)
{
    struct call *call = of(base);

    rlock_acquire(base->client, call->lock, call->name, call->name_len, call->options,
                  sync_on_lock_answer, base);
}

/* NOLINTNEXTLINE(readability-function-size): a name is two arguments */
enum status rlock_sync_acquire(struct rlock_sync *sync, struct rlock_client *client,
                               struct rlock *lock, const char *name, size_t name_len,
                               const struct rlock_acquire_options *options,
                               struct err *reterr)
{
    struct call call = prepare(sync, client, sync_begin_acquire, reterr);

    call.lock = lock;
    call.name = name;
    call.name_len = name_len;
    call.options = options;
    return rlock_sync_carry(&call.base);
}

static void sync_begin_release(struct rlock_sync_call *base)
{
    rlock_release(base->client, of(base)->lock, sync_on_lock_answer, base);
}

enum status rlock_sync_release(struct rlock_sync *sync, struct rlock_client *client,
                               struct rlock *lock, struct err *reterr)
{
    struct call call = prepare(sync, client, sync_begin_release, reterr);

    call.lock = lock;
    return rlock_sync_carry(&call.base);
}

static void sync_begin_extend(struct rlock_sync_call *base)
{
    rlock_extend(base->client, of(base)->lock, of(base)->lease_ms, sync_on_lock_answer,
                 base);
}

enum status rlock_sync_extend(struct rlock_sync *sync, struct rlock_client *client,
                              struct rlock *lock, uint32_t lease_ms, struct err *reterr)
{
    struct call call = prepare(sync, client, sync_begin_extend, reterr);

    call.lock = lock;
    call.lease_ms = lease_ms;
    return rlock_sync_carry(&call.base);
}

static void sync_begin_cancel(struct rlock_sync_call *base)
{
    rlock_cancel(base->client, of(base)->lock);
    rlock_sync_answer(base, STATUS_OK);
}

void rlock_sync_cancel(struct rlock_sync *sync, struct rlock_client *client,
                       struct rlock *lock)
{
    struct call call = prepare(sync, client, sync_begin_cancel, NULL);

    call.lock = lock;
    (void)rlock_sync_carry(&call.base);
}

static void sync_begin_force_release(struct rlock_sync_call *base)
{
    rlock_force_release(base->client, of(base)->name, of(base)->name_len, sync_on_answer,
                        base);
}

enum status rlock_sync_force_release(struct rlock_sync *sync, struct rlock_client *client,
                                     const char *name, size_t name_len,
                                     struct err *reterr)
{
    struct call call = prepare(sync, client, sync_begin_force_release, reterr);

    call.name = name;
    call.name_len = name_len;
    return rlock_sync_carry(&call.base);
}

static void copy_info(const struct rlock_info *info, struct rlock_sync_info *ret_info)
{
    size_t room = sizeof(ret_info->owner) - 1;

    *ret_info = (struct rlock_sync_info){.remaining_ms = info->remaining_ms,
                                         .count = info->count,
                                         .is_ours = info->is_ours};
    memcpy(ret_info->owner, info->owner, info->owner_len < room ? info->owner_len : room);
}

static void sync_on_inspected(enum status status, const struct rlock_info *info,
                              void *arg)
{
    if (status == STATUS_OK)
        copy_info(info, of(arg)->ret_info);
    rlock_sync_answer(arg, status);
}

static void sync_begin_inspect(struct rlock_sync_call *base)
{
    rlock_inspect(base->client, of(base)->name, of(base)->name_len, sync_on_inspected,
                  base);
}

enum status rlock_sync_inspect(struct rlock_sync *sync, struct rlock_client *client,
                               const char *name, size_t name_len,
                               struct rlock_sync_info *ret_info, struct err *reterr)
{
    struct call call = prepare(sync, client, sync_begin_inspect, reterr);

    call.name = name;
    call.name_len = name_len;
    call.ret_info = ret_info;
    return rlock_sync_carry(&call.base);
}

static void sync_begin_look(struct rlock_sync_call *base)
{
    struct call *call = of(base);

    call->is_held = rlock_is_held(call->looked_at);
    call->safe_us = rlock_safe_for_us(call->looked_at, clock_mono_us());
    rlock_sync_answer(base, STATUS_OK);
}

bool rlock_sync_is_held(struct rlock_sync *sync, const struct rlock *lock)
{
    struct call call = prepare(sync, NULL, sync_begin_look, NULL);

    call.looked_at = lock;
    return rlock_sync_carry(&call.base) == STATUS_OK && call.is_held;
}

int64_t rlock_sync_safe_for_us(struct rlock_sync *sync, const struct rlock *lock)
{
    struct call call = prepare(sync, NULL, sync_begin_look, NULL);

    call.looked_at = lock;
    return rlock_sync_carry(&call.base) == STATUS_OK ? call.safe_us : 0;
}

static void sync_begin_stats(struct rlock_sync_call *base)
{
    rlock_client_stats(base->client, of(base)->ret_stats);
    rlock_sync_answer(base, STATUS_OK);
}

void rlock_sync_stats(struct rlock_sync *sync, struct rlock_client *client,
                      struct rlock_stats *ret_stats)
{
    struct call call = prepare(sync, client, sync_begin_stats, NULL);

    *ret_stats = (struct rlock_stats){0};
    call.ret_stats = ret_stats;
    (void)rlock_sync_carry(&call.base);
}
