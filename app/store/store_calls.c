/*
 * store_calls.c - the common code of all calls: memory, limits, sending, deadlines.
 *
 * If a call cannot be sent, a timer of 0 ms answers the call. So no callback runs before the
 * function of the store has returned to its caller.
 */
#include "app/store/store_impl.h"
#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_TICK_MS  20 /* interval of the checks for waiting calls that are late */
#define LOCK_MS_MIN       20
#define GRACE_MS_MIN      50
#define EXPIRY_TIMEOUT_MS 5000
#define EXPIRY_LOCK_MS    50

void *store_alloc(struct store *store, size_t size)
{
    void *block = calloc(1, size);

    assert(size <= sizeof(store->reserved[0]));
    if (block != NULL)
        return block;
    block = list_shift(&store->reserve);
    if (block == NULL)
        abort();
    return memset(block, 0, size);
}

void store_free(struct store *store, void *block)
{
    if ((uintptr_t)block - (uintptr_t)store->reserved < sizeof(store->reserved))
        list_append(&store->reserve, block);
    else
        free(block);
}

void *store_call_new(struct store *store, size_t size, store_query_cb done)
{
    struct call *call = store_alloc(store, size);

    list_init(&call->query.link);
    list_init(&call->sent);
    call->query.done = done;
    call->store = store;
    return call;
}

struct rows_call *store_rows_call_new(struct store *store, store_query_cb done, void *arg)
{
    struct rows_call *call = store_call_new(store, sizeof(*call), done);

    call->arg = arg;
    params_begin(&store->params);
    return call;
}

void store_call_free(struct call *call)
{
    params_clear(&call->params);
    store_free(call->store, call);
}

void store_answer_unsent(struct call *call)
{
    struct rlock_err why = {0};

    err_set(&why, call->status, "%s", rlock_status_name(call->status));
    call->query.done(&call->query, call->status, NULL, &why);
}

/* Answers the calls in `unsent`. If a callback adds further calls, they are answered in the next
   turn. */
static void store_on_unsent_timer(uv_timer_t *timer)
{
    struct store *store = timer->data;

    LIST_DRAIN_PRESENT(struct call, call, &store->unsent, query.link)
        store_answer_unsent(call);
}

void store_answer_later(struct call *call, enum rlock_status status)
{
    struct store *store = call->store;

    call->status = status;
    list_remove(&call->sent);
    list_append(&store->unsent, &call->query.link);
    uv_timer_start(&store->unsent_timer, store_on_unsent_timer, 0, 0);
}

int64_t store_deadline_us(const struct store *store, int64_t given_us)
{
    return given_us != 0 ? given_us
                         : clock_mono_us() + store->options.timeout_ms * INT64_C(1000);
}

static uint32_t whole_ms(int64_t us)
{
    return us < 1000 ? 1 : (uint32_t)(us / 1000);
}

/* Divides the time that a call has left into three parts. After the first part the server cancels
   the statement. After the second part the server counts as hung. The third part is left to look up
   the outcome. The second part has a minimum, because a busy server answers late. */
void store_limit(struct call *call, int64_t left_us)
{
    uint32_t least_ms = call->store->options.timeout_ms / 4 + GRACE_MS_MIN;
    uint32_t grace_ms = whole_ms(left_us * 3 / 16);

    call->query.statement_ms = whole_ms(left_us * 9 / 16);
    call->query.timeout_ms =
        call->query.statement_ms + (grace_ms > least_ms ? grace_ms : least_ms);
}

struct store_limits store_limits(const struct store *store, enum role role)
{
    uint32_t timeout_ms = store->options.timeout_ms;

    switch (role) {
    case ROLE_MAIN:
        return (struct store_limits){timeout_ms, timeout_ms / 4 + 1, 0};
    case ROLE_READS:
    case ROLE_LISTS: /* see store_reads.c */
        return (struct store_limits){timeout_ms, timeout_ms / 4 + 1, LOCK_MS_MIN};
    case ROLE_EXPIRY:
        return (struct store_limits){EXPIRY_TIMEOUT_MS, EXPIRY_TIMEOUT_MS / 4 * 3,
                                     EXPIRY_LOCK_MS};
    default:
        return (struct store_limits){timeout_ms, timeout_ms / 4 * 3 + 1,
                                     timeout_ms / 25 > LOCK_MS_MIN ? timeout_ms / 25
                                                                   : LOCK_MS_MIN};
    }
}

void store_send(enum role role, struct call *call, enum statement statement,
                const struct store_params *params)
{
    struct store *store = call->store;

    if (call->query.timeout_ms == 0) {
        struct store_limits limits = store_limits(store, role);

        call->query.timeout_ms = limits.timeout_ms;
        call->query.statement_ms = limits.statement_ms;
    }
    if (!store_conn_send(store->conns[role], &call->query, statement, params))
        store_answer_later(call, RLOCK_DOWN);
}

void store_watch_deadlines(struct store *store)
{
    if (!uv_is_active((uv_handle_t *)&store->deadline_timer))
        uv_timer_start(&store->deadline_timer, store->on_deadlines, DEADLINE_TICK_MS, 0);
}

void store_abandon_late(enum role role, struct rlock_link *sent, int64_t now_us)
{
    LIST_EACH_SAFE(struct call, call, sent, sent) {
        if (call->deadline_us > now_us)
            continue;
        if (store_conn_abandon(call->store->conns[role], &call->query))
            store_answer_later(call, RLOCK_TIMEOUT);
    }
}
