/* sync_calls.c - the calls of rlock_sync.h. Each call is carried to the loop and back. */
#include "base/clock.h"
#include "lock/group_round.h"
#include "lock/internal.h"
#include "lock/sync.h"

#include <string.h>

/** The arguments and results of all calls. They are borrowed, because the caller sleeps
 *  meanwhile. */
struct call {
    struct rlock_sync_call base;
    int64_t safe_us;

    struct rlock *lock;
    const struct rlock *viewed;
    const char *name;
    size_t name_len;
    const struct rlock_acquire_options *options;
    uint32_t lease_ms;
    struct rlock_sync_info *ret_info;
    bool (*each)(const struct rlock_info *info, void *arg);
    void *each_arg;
    struct rlock_stats *ret_stats;
    bool is_held;

    struct rlock_group *group;
    const struct rlock_member *members;
    size_t count;
    enum rlock_group_need need;
    const struct rlock_group_options *group_options;
    size_t index;
    int64_t fence;
};

#define BASE(sync_, client_, begin_, reterr_)                                            \
    .base = {.sync = (sync_), .client = (client_), .begin = (begin_), .reterr = (reterr_)}
/** Run a call whose only result is its status. */
#define RUN(...) rlock_sync_run(&(struct call){__VA_ARGS__}.base)

static struct call *of(struct rlock_sync_call *base)
{
    return list_item(base, struct call, base);
}

/* -- locks -- */

uint64_t rlock_sync_holder(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = ++last;
    return mine;
}

static void sync_on_lock_answer(struct rlock *lock UNUSED, enum rlock_status status,
                                void *arg)
{
    rlock_sync_answer(arg, status);
}

static void sync_on_acquired(struct rlock *lock, enum rlock_status status, void *arg)
{
    if (status == RLOCK_OK)
        /* The default would be `arg`, but this is the call, which ends now. */
        lock->lost_arg = of(arg)->options->lost_arg;
    rlock_sync_answer(arg, status);
}

static void sync_on_answer(enum rlock_status status, void *arg)
{
    rlock_sync_answer(arg, status);
}

static void sync_begin_acquire(struct rlock_sync_call *base)
{
    struct call *call = of(base);

    if (call->lock->is_cancelled) {
        call->lock->is_cancelled = false;
        rlock_sync_answer(base, RLOCK_CANCELLED);
        return;
    }
    rlock_acquire(base->client, call->lock, call->name, call->name_len, call->options,
                  sync_on_acquired, base);
}

/* NOLINTNEXTLINE(readability-function-size): a name is two arguments */
enum rlock_status rlock_sync_acquire(struct rlock_sync *sync, struct rlock_client *client,
                                     struct rlock *lock, const char *name,
                                     size_t name_len,
                                     const struct rlock_acquire_options *options,
                                     struct rlock_err *reterr)
{
    struct rlock_acquire_options own = {0};

    if (options != NULL)
        own = *options;
    if (own.holder == 0)
        own.holder = rlock_sync_holder();
    return RUN(BASE(sync, client, sync_begin_acquire, reterr), .lock = lock, .name = name,
               .name_len = name_len, .options = &own);
}

static void sync_begin_release(struct rlock_sync_call *base)
{
    rlock_release(base->client, of(base)->lock, sync_on_lock_answer, base);
}

enum rlock_status rlock_sync_release(struct rlock_sync *sync, struct rlock_client *client,
                                     struct rlock *lock, struct rlock_err *reterr)
{
    return RUN(BASE(sync, client, sync_begin_release, reterr), .lock = lock);
}

static void sync_begin_extend(struct rlock_sync_call *base)
{
    rlock_extend(base->client, of(base)->lock, of(base)->lease_ms, sync_on_lock_answer,
                 base);
}

enum rlock_status rlock_sync_extend(struct rlock_sync *sync, struct rlock_client *client,
                                    struct rlock *lock, uint32_t lease_ms,
                                    struct rlock_err *reterr)
{
    return RUN(BASE(sync, client, sync_begin_extend, reterr), .lock = lock,
               .lease_ms = lease_ms);
}

static void sync_begin_cancel(struct rlock_sync_call *base)
{
    struct rlock *lock = of(base)->lock;

    if (lock->state == RLOCK_STATE_IDLE || lock->state == RLOCK_STATE_LOST)
        lock->is_cancelled = true; /* the acquire has not begun */
    else
        rlock_cancel(base->client, lock);
    rlock_sync_end(base);
}

void rlock_sync_cancel(struct rlock_sync *sync, struct rlock_client *client,
                       struct rlock *lock)
{
    (void)RUN(BASE(sync, client, sync_begin_cancel, NULL), .lock = lock);
}

static void sync_begin_force_release(struct rlock_sync_call *base)
{
    rlock_force_release(base->client, of(base)->name, of(base)->name_len, sync_on_answer,
                        base);
}

enum rlock_status rlock_sync_force_release(struct rlock_sync *sync,
                                           struct rlock_client *client, const char *name,
                                           size_t name_len, struct rlock_err *reterr)
{
    return RUN(BASE(sync, client, sync_begin_force_release, reterr), .name = name,
               .name_len = name_len);
}

static void copy_info(const struct rlock_info *info, struct rlock_sync_info *ret_info)
{
    size_t room = sizeof(ret_info->owner) - 1;

    *ret_info = (struct rlock_sync_info){.remaining_ms = info->remaining_ms,
                                         .count = info->count,
                                         .is_ours = info->is_ours};
    memcpy(ret_info->owner, info->owner, info->owner_len < room ? info->owner_len : room);
}

static void sync_on_inspected(enum rlock_status status, const struct rlock_info *info,
                              void *arg)
{
    if (status == RLOCK_OK)
        copy_info(info, of(arg)->ret_info);
    rlock_sync_answer(arg, status);
}

static void sync_begin_inspect(struct rlock_sync_call *base)
{
    rlock_inspect(base->client, of(base)->name, of(base)->name_len, sync_on_inspected,
                  base);
}

enum rlock_status rlock_sync_inspect(struct rlock_sync *sync, struct rlock_client *client,
                                     const char *name, size_t name_len,
                                     struct rlock_sync_info *ret_info,
                                     struct rlock_err *reterr)
{
    return RUN(BASE(sync, client, sync_begin_inspect, reterr), .name = name,
               .name_len = name_len, .ret_info = ret_info);
}

static bool sync_on_listed(const struct rlock_info *info, void *arg)
{
    return of(arg)->each(info, of(arg)->each_arg);
}

static void sync_begin_list(struct rlock_sync_call *base)
{
    rlock_list(base->client, of(base)->name, of(base)->name_len, sync_on_listed,
               sync_on_answer, base);
}

/* NOLINTNEXTLINE(readability-function-size): a name is two arguments */
enum rlock_status rlock_sync_list(struct rlock_sync *sync, struct rlock_client *client,
                                  const char *name, size_t name_len,
                                  bool (*each)(const struct rlock_info *info, void *arg),
                                  void *arg, struct rlock_err *reterr)
{
    return RUN(BASE(sync, client, sync_begin_list, reterr), .name = name,
               .name_len = name_len, .each = each, .each_arg = arg);
}

static void sync_begin_view(struct rlock_sync_call *base)
{
    struct call *call = of(base);

    if (call->group == NULL) {
        call->is_held = rlock_is_held(call->viewed);
        call->safe_us = rlock_safe_for_us(call->viewed, clock_mono_us());
    } else {
        call->fence = rlock_group_fence(call->group, call->index);
        call->safe_us = rlock_group_safe_for_us(call->group, clock_mono_us());
    }
    rlock_sync_answer(base, RLOCK_OK);
}

bool rlock_sync_is_held(struct rlock_sync *sync, const struct rlock *lock)
{
    struct call call = {BASE(sync, NULL, sync_begin_view, NULL), .viewed = lock};

    return rlock_sync_run(&call.base) == RLOCK_OK && call.is_held;
}

int64_t rlock_sync_safe_for_us(struct rlock_sync *sync, const struct rlock *lock)
{
    struct call call = {BASE(sync, NULL, sync_begin_view, NULL), .viewed = lock};

    return rlock_sync_run(&call.base) == RLOCK_OK ? call.safe_us : 0;
}

static void sync_begin_raise_fences(struct rlock_sync_call *base)
{
    rlock_raise_fences(base->client, of(base)->fence);
    rlock_sync_answer(base, RLOCK_OK);
}

enum rlock_status rlock_sync_raise_fences(struct rlock_sync *sync,
                                          struct rlock_client *client, int64_t above,
                                          struct rlock_err *reterr)
{
    return RUN(BASE(sync, client, sync_begin_raise_fences, reterr), .fence = above);
}

static void sync_begin_stats(struct rlock_sync_call *base)
{
    rlock_client_stats(base->client, of(base)->ret_stats);
    rlock_sync_end(base);
}

void rlock_sync_stats(struct rlock_sync *sync, struct rlock_client *client,
                      struct rlock_stats *ret_stats)
{
    *ret_stats = (struct rlock_stats){0};
    (void)RUN(BASE(sync, client, sync_begin_stats, NULL), .ret_stats = ret_stats);
}

/* -- groups -- */

static void sync_on_group_answer(struct rlock_group *group, enum rlock_status status,
                                 void *arg)
{
    /* The message of a group's refused call is kept by the client of the first member. */
    if (status == RLOCK_INVALID)
        of(arg)->base.client = group->members[0].client;
    rlock_sync_answer(arg, status);
}

static void sync_on_group_acquired(struct rlock_group *group, enum rlock_status status,
                                   void *arg)
{
    if (status == RLOCK_OK)
        group->lost_arg = of(arg)->group_options->lost_arg; /* as in sync_on_acquired() */
    sync_on_group_answer(group, status, arg);
}

static void sync_begin_group_create(struct rlock_sync_call *base)
{
    struct call *call = of(base);
    enum rlock_status status = rlock_group_create(call->members, call->count, call->need,
                                                  &call->group, base->reterr);

    if (status == RLOCK_OK)
        rlock_sync_add_group(base->sync, call->group);
    rlock_sync_answer(base, status);
}

/* NOLINTNEXTLINE(readability-function-size): an array takes two parameters */
enum rlock_status rlock_sync_group_create(struct rlock_sync *sync,
                                          const struct rlock_member *members,
                                          size_t count, enum rlock_group_need need,
                                          struct rlock_group **ret_group,
                                          struct rlock_err *reterr)
{
    struct call call = {BASE(sync, NULL, sync_begin_group_create, reterr),
                        .members = members, .count = count, .need = need};
    enum rlock_status status = rlock_sync_run(&call.base);

    if (status == RLOCK_OK)
        *ret_group = call.group;
    return status;
}

static void sync_begin_group_free(struct rlock_sync_call *base)
{
    rlock_group_free(of(base)->group);
    rlock_sync_end(base);
}

void rlock_sync_group_free(struct rlock_sync *sync, struct rlock_group *group)
{
    if (group != NULL)
        (void)RUN(BASE(sync, NULL, sync_begin_group_free, NULL), .group = group);
}

static void sync_begin_group_acquire(struct rlock_sync_call *base)
{
    struct rlock_group *group = of(base)->group;

    if (group->is_cancelled) {
        group->is_cancelled = false;
        rlock_sync_answer(base, RLOCK_CANCELLED);
        return;
    }
    rlock_group_acquire(group, of(base)->group_options, sync_on_group_acquired, base);
}

enum rlock_status rlock_sync_group_acquire(struct rlock_sync *sync,
                                           struct rlock_group *group,
                                           const struct rlock_group_options *options,
                                           struct rlock_err *reterr)
{
    struct rlock_group_options own = {0};

    if (options != NULL)
        own = *options;
    if (own.holder == 0)
        own.holder = rlock_sync_holder();
    return RUN(BASE(sync, NULL, sync_begin_group_acquire, reterr), .group = group,
               .group_options = &own);
}

static void sync_begin_group_release(struct rlock_sync_call *base)
{
    rlock_group_release(of(base)->group, sync_on_group_answer, base);
}

enum rlock_status rlock_sync_group_release(struct rlock_sync *sync,
                                           struct rlock_group *group,
                                           struct rlock_err *reterr)
{
    return RUN(BASE(sync, NULL, sync_begin_group_release, reterr), .group = group);
}

static void sync_begin_group_extend(struct rlock_sync_call *base)
{
    rlock_group_extend(of(base)->group, of(base)->lease_ms, sync_on_group_answer, base);
}

enum rlock_status rlock_sync_group_extend(struct rlock_sync *sync,
                                          struct rlock_group *group, uint32_t lease_ms,
                                          struct rlock_err *reterr)
{
    return RUN(BASE(sync, NULL, sync_begin_group_extend, reterr), .group = group,
               .lease_ms = lease_ms);
}

static void sync_begin_group_inspect(struct rlock_sync_call *base)
{
    rlock_group_inspect(of(base)->group, sync_on_listed, sync_on_answer, base);
}

enum rlock_status
rlock_sync_group_inspect(struct rlock_sync *sync, struct rlock_group *group,
                         bool (*each)(const struct rlock_info *info, void *arg),
                         void *arg, struct rlock_err *reterr)
{
    return RUN(BASE(sync, NULL, sync_begin_group_inspect, reterr), .group = group,
               .each = each, .each_arg = arg);
}

static void sync_begin_group_force(struct rlock_sync_call *base)
{
    rlock_group_force_release(of(base)->group, sync_on_answer, base);
}

enum rlock_status rlock_sync_group_force_release(struct rlock_sync *sync,
                                                 struct rlock_group *group,
                                                 struct rlock_err *reterr)
{
    return RUN(BASE(sync, NULL, sync_begin_group_force, reterr), .group = group);
}

static void sync_begin_group_cancel(struct rlock_sync_call *base)
{
    struct rlock_group *group = of(base)->group;

    if (group->state == GROUP_IDLE || group->state == GROUP_LOST)
        group->is_cancelled = true; /* the acquire has not begun */
    else
        rlock_group_cancel(group);
    rlock_sync_end(base);
}

void rlock_sync_group_cancel(struct rlock_sync *sync, struct rlock_group *group)
{
    (void)RUN(BASE(sync, NULL, sync_begin_group_cancel, NULL), .group = group);
}

int64_t rlock_sync_group_safe_for_us(struct rlock_sync *sync, struct rlock_group *group)
{
    struct call call = {BASE(sync, NULL, sync_begin_view, NULL), .group = group};

    return rlock_sync_run(&call.base) == RLOCK_OK ? call.safe_us : 0;
}

int64_t rlock_sync_group_fence(struct rlock_sync *sync, struct rlock_group *group,
                               size_t index)
{
    struct call call = {BASE(sync, NULL, sync_begin_view, NULL), .group = group,
                        .index = index};

    return rlock_sync_run(&call.base) == RLOCK_OK ? call.fence : 0;
}
