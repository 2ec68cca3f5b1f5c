/*
 * store_changes.c - changes of vouchers and of placed orders.
 *
 * A voucher has a queue of changes, and at most one transaction of the queue is under way. Changes
 * that arrive during this transaction wait. Waiting changes of the same kind, to orders of the
 * voucher, share the next transaction.
 *
 * If a transaction cannot lock its rows in a short time, it is tried again until the deadline of
 * its changes. After the first attempt the queue is slow. Slow queues use only one of the two
 * connections, so a voucher whose row is held delays the changes of other vouchers only during the
 * first attempt.
 *
 * Guarantee: a change is answered by its deadline. If it was not made, the answer is RLOCK_BUSY.
 */
#include "app/store/store_impl.h"
#include "base/clock.h"

#include <string.h>

#define CHANGES_MAX 4096 /* most unanswered changes */
/* maximum changes in a transaction, because orders wait for its end */
#define SHARED_MAX 500
/* a transaction that has waited in vain for a row takes at least this long */
#define FAILED_US_MIN 10000

struct change_queue {
    struct rlock_link link; /* link in store->changes.queues */
    struct rlock_link calls;
    int64_t voucher_id; /* 0: the queue of all new vouchers */
    int64_t took_us;    /* duration of the last transaction */
    bool is_busy;
    bool is_slow; /* see note_time() */
};

struct changes_call {
    struct call call;
    struct rlock_link changes; /* order_change */
    size_t count;
};

/* Returns the changes_call that contains `call`, or NULL if the call changes a voucher. */
static struct changes_call *changes_of(struct call *call)
{
    return call->statement <= STATEMENT_REDEEM_ORDER
               ? list_item(call, struct changes_call, call)
               : NULL;
}

static size_t count_of(struct call *call)
{
    const struct changes_call *orders = changes_of(call);

    return orders != NULL ? orders->count : 1;
}

/* The timeout of the store is half of the timeout of a request, see open_servers() in worker.c. */
static int64_t request_timeout_us(const struct store *store)
{
    return store->options.timeout_ms * INT64_C(2000);
}

static bool is_any_up(const struct store *store)
{
    return store_conn_is_up(store->conns[ROLE_CHANGES]) ||
           store_conn_is_up(store->conns[ROLE_SLOW_CHANGES]);
}

/* -- queues -- */

/* Returns the queue of the voucher, which may be new, or NULL if too many changes wait. A list is
   enough, because few vouchers have changes at the same time. */
static struct change_queue *queue_of(struct store *store, int64_t voucher_id)
{
    struct change_queue *queue;

    if (store->changes.count >= CHANGES_MAX)
        return NULL;
    LIST_EACH(struct change_queue, present, &store->changes.queues, link) {
        if (present->voucher_id == voucher_id)
            return present;
    }
    queue = store_alloc(store, sizeof(*queue));
    queue->voucher_id = voucher_id;
    list_init(&queue->link);
    list_init(&queue->calls);
    list_append(&store->changes.queues, &queue->link);
    return queue;
}

/* Returns the next queue to serve, among the slow queues or among the others. Returns NULL if all
   of these queues are busy. */
static struct change_queue *next_queue(const struct store *store, bool is_slow)
{
    LIST_EACH(struct change_queue, queue, &store->changes.queues, link) {
        if (!queue->is_busy && queue->is_slow == is_slow)
            return queue;
    }
    return NULL;
}

static void free_if_empty(struct store *store, struct change_queue *queue)
{
    if (queue->is_busy || !list_is_empty(&queue->calls))
        return;
    list_remove(&queue->link);
    store_free(store, queue);
}

/* A queue is slow after a transaction that took a tenth of the timeout of a request. If the
   transaction failed, less time is enough: then it must have waited for a row lock. */
static void note_time(const struct store *store, struct change_queue *queue,
                      int64_t took_us, bool has_failed)
{
    int64_t slow_us = request_timeout_us(store) / 10;

    if (has_failed)
        slow_us = slow_us / 10 > FAILED_US_MIN ? slow_us / 10 : FAILED_US_MIN;
    queue->took_us = took_us;
    queue->is_slow = took_us >= slow_us;
}

static int64_t needs_us(const struct store *store, const struct change_queue *queue)
{
    int64_t least_us = request_timeout_us(store) / 50;
    int64_t twice_us = 2 * queue->took_us;

    return twice_us > least_us ? twice_us : least_us;
}

/* -- answers -- */

enum changed_column { CHANGED_POS, CHANGED_VERDICT, CHANGED_ORDER };

static void answer_change(const struct order_change *change, enum rlock_status status,
                          const PGresult *result, int row)
{
    int64_t verdict = CHANGE_NO_ORDER;
    struct order order;
    bool has_order;

    if (status == RLOCK_OK)
        verdict = result_int64(result, row, CHANGED_VERDICT);
    has_order = verdict != CHANGE_NO_ORDER;
    if (verdict < CHANGE_DONE || verdict > CHANGE_KEY_USED ||
        (has_order && !store_decode_order(result, row, CHANGED_ORDER, &order))) {
        status = RLOCK_IO;
        has_order = false;
    }
    change->callback(status, (enum change_verdict)verdict, has_order ? &order : NULL,
                     change->arg);
}

static bool is_well_formed(const struct changes_call *call, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (result_int64(result, row, CHANGED_POS) != row + 1)
            return false;
    }
    return (size_t)PQntuples(result) == call->count;
}

static void store_on_orders_changed(struct store_query *query, enum rlock_status status,
                                    const PGresult *result,
                                    const struct rlock_err *why UNUSED)
{
    struct changes_call *call = list_item(query, struct changes_call, call.query);
    int row = 0;

    if (status == RLOCK_OK && !is_well_formed(call, result))
        status = RLOCK_IO;
    LIST_DRAIN(struct order_change, change, &call->changes, link)
        answer_change(change, status, result, row++);
    store_call_free(&call->call);
}

/* Returns a call that has waited for a lock to its queue. Answers any other call. */
static void store_on_change(struct store_query *query, enum rlock_status status,
                            const PGresult *result, const struct rlock_err *why)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;
    struct change_queue *queue = call->queue;

    for (unsigned i = 0; i < 2; i++) {
        if (store->changes.sent[i] == call)
            store->changes.sent[i] = NULL;
    }
    queue->is_busy = false;
    if (status == RLOCK_OK || status == RLOCK_BUSY)
        note_time(store, queue, clock_mono_us() - call->sent_us, status != RLOCK_OK);
    query->done = call->done;
    if (status == RLOCK_BUSY && queue->is_slow) {
        list_insert_after(&queue->calls, &call->query.link);
        return;
    }
    free_if_empty(store, queue);
    store->changes.count -= count_of(call);
    call->done(query, status, result, why);
}

/* -- deadlines -- */

static void answer_unchanged(struct call *call, enum rlock_status status)
{
    call->store->changes.count -= count_of(call);
    store_answer_later(call, status);
}

static struct changes_call *changes_call_new(struct store *store,
                                             enum statement statement)
{
    struct changes_call *call =
        store_call_new(store, sizeof(*call), store_on_orders_changed);

    list_init(&call->changes);
    call->call.statement = statement;
    call->call.deadline_us = INT64_MAX;
    return call;
}

static void add_change(struct changes_call *call, struct order_change *change)
{
    list_append(&call->changes, &change->link);
    call->count++;
    if (change->deadline_us < call->call.deadline_us)
        call->call.deadline_us = change->deadline_us;
}

/* Takes the late changes out of the call, and answers them. Returns false without an answer if all
   changes of the call are late, or if the call changes a voucher. */
static bool drop_late_changes(struct call *call, int64_t latest_us)
{
    struct changes_call *orders = changes_of(call);
    struct changes_call *late;

    if (orders == NULL)
        return false;
    late = changes_call_new(call->store, call->statement);
    orders->count = 0;
    call->deadline_us = INT64_MAX;
    LIST_DRAIN_PRESENT(struct order_change, change, &orders->changes, link)
        add_change(change->deadline_us <= latest_us ? late : orders, change);
    if (orders->count > 0) {
        answer_unchanged(&late->call, RLOCK_BUSY);
        return true;
    }
    list_append_all(&orders->changes, &late->changes);
    orders->count = late->count;
    store_call_free(&late->call);
    return false;
}

static void drop_late(const struct store *store, const struct change_queue *queue,
                      int64_t now_us)
{
    int64_t latest_us = now_us + needs_us(store, queue);

    LIST_EACH_SAFE(struct call, call, &queue->calls, query.link) {
        if (call->deadline_us > latest_us || drop_late_changes(call, latest_us))
            continue;
        list_remove(&call->query.link);
        answer_unchanged(call, RLOCK_BUSY);
    }
}

/* Answers a call whose deadline has passed, so its outcome is unknown. The connection stays open,
   because the server soon cancels the statement. */
static void abandon_late(struct store *store, unsigned i, int64_t now_us)
{
    struct call *call = store->changes.sent[i];

    if (call == NULL || call->deadline_us > now_us ||
        !store_conn_abandon(store->conns[ROLE_CHANGES + i], &call->query))
        return;
    store->changes.sent[i] = NULL;
    store_answer_later(call, RLOCK_TIMEOUT);
}

void store_time_out_changes(struct store *store, int64_t now_us)
{
    abandon_late(store, 0, now_us);
    abandon_late(store, 1, now_us);
    LIST_EACH_SAFE(struct change_queue, queue, &store->changes.queues, link) {
        drop_late(store, queue, now_us);
        free_if_empty(store, queue);
    }
}

void store_take_changes(struct store *store, struct rlock_link *calls)
{
    LIST_EACH_SAFE(struct change_queue, queue, &store->changes.queues, link) {
        list_append_all(calls, &queue->calls);
        free_if_empty(store, queue);
    }
}

/* -- requests -- */

static void enqueue(struct call *call, struct change_queue *queue)
{
    call->queue = queue;
    list_append(&queue->calls, &call->query.link);
    store_watch_deadlines(call->store);
}

void store_change_voucher(struct call *call, enum statement statement, int64_t voucher_id)
{
    struct store *store = call->store;
    struct change_queue *queue = NULL;

    call->statement = statement;
    call->deadline_us = store_deadline_us(store, 0);
    store->changes.count++;
    if (!is_any_up(store))
        answer_unchanged(call, RLOCK_DOWN);
    else if (!params_copy(&call->params, &store->params) ||
             (queue = queue_of(store, voucher_id)) == NULL)
        answer_unchanged(call, RLOCK_NO_MEMORY);
    else
        enqueue(call, queue);
}

static struct changes_call *waiting_call(const struct change_queue *queue,
                                         enum statement statement)
{
    LIST_EACH(struct call, waiting, &queue->calls, query.link) {
        if (waiting->statement == statement && count_of(waiting) < SHARED_MAX)
            return changes_of(waiting);
    }
    return NULL;
}

void store_change_order(struct store *store, struct order_change *change,
                        store_change_cb callback, void *arg)
{
    enum statement statement = STATEMENT_PAY_ORDER + (unsigned)change->change;
    struct change_queue *queue = queue_of(store, change->voucher_id);
    struct changes_call *call = queue != NULL ? waiting_call(queue, statement) : NULL;

    change->callback = callback;
    change->arg = arg;
    change->deadline_us = store_deadline_us(store, change->deadline_us);
    store->changes.count++;
    if (call != NULL) {
        add_change(call, change);
        return;
    }
    call = changes_call_new(store, statement);
    add_change(call, change);
    if (queue == NULL)
        answer_unchanged(&call->call, RLOCK_NO_MEMORY);
    else
        enqueue(&call->call, queue);
}

/* -- sending -- */

static void put_payments(struct store_params *params, const struct changes_call *call)
{
    params_array_begin(params, PARAMS_TEXT, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_text(params, &change->payment_ref);
    params_array_begin(params, PARAMS_INT64, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_int64(params, change->amount_cents);
}

static void put_changes(struct store_params *params, const struct changes_call *call)
{
    params_begin(params);
    params_int64(params, call->call.queue->voucher_id);
    params_array_begin(params, PARAMS_INT64, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_int64(params, change->order_id);
    params_array_begin(params, PARAMS_TEXT, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_text(params, &(struct text){change->actor, strlen(change->actor)});
    if (call->call.statement == STATEMENT_PAY_ORDER)
        put_payments(params, call);
    params_array_begin(params, PARAMS_TEXT, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_text(params, &change->key);
}

static void send_first(struct store *store, enum role role, struct change_queue *queue)
{
    struct call *call = LIST_SHIFT(struct call, &queue->calls, query.link);
    const struct changes_call *orders = changes_of(call);

    queue->is_busy = true;
    list_remove(&queue->link);
    list_append(&store->changes.queues, &queue->link);
    call->done = call->query.done;
    call->query.done = store_on_change;
    call->sent_us = clock_mono_us();
    store->changes.sent[role - ROLE_CHANGES] = call;
    store_limit(call, call->deadline_us - call->sent_us);
    if (orders != NULL)
        put_changes(&store->params, orders);
    store_send(role, call, call->statement,
               orders != NULL ? &store->params : &call->params);
}

static void send_on(struct store *store, enum role role)
{
    const struct store_conn *conn = store->conns[role];

    while (store_conn_is_up(conn) && store_conn_pending(conn) == 0) {
        struct change_queue *queue = NULL;

        if (role == ROLE_SLOW_CHANGES)
            queue = next_queue(store, true);
        if (queue == NULL)
            queue = next_queue(store, false);
        if (queue == NULL)
            return;
        drop_late(store, queue, clock_mono_us());
        if (!list_is_empty(&queue->calls))
            send_first(store, role, queue);
        free_if_empty(store, queue);
    }
}

void store_send_changes(struct store *store)
{
    struct rlock_link unsent;

    if (is_any_up(store)) {
        send_on(store, ROLE_CHANGES);
        send_on(store, ROLE_SLOW_CHANGES);
        return;
    }
    list_init(&unsent);
    store_take_changes(store, &unsent);
    LIST_DRAIN(struct call, call, &unsent, query.link)
        answer_unchanged(call, RLOCK_DOWN);
}
