/*
 * store_calls.c - the connections of one loop, and the calls that use them.
 *
 * One connection takes all reads. One takes changes of vouchers and orders, which may
 * wait for row locks. Each lane takes batches of orders. The server processes the
 * statements of a connection in their order, so a lane takes more than one batch: while
 * one is committed, the next has already arrived.
 *
 * A call that cannot be sent is answered by a timer without delay, because no callback
 * may run inside the call that caused it.
 */
#include "app/store/database_check.h"
#include "app/store/store_impl.h"

#include <stdlib.h>
#include <string.h>

/* Batches under way on one lane. */
#define LANE_DEPTH STORE_CONN_DEPTH

/* Calls under way on the connection for changes; later ones could not meet the deadline. */
#define CHANGES_MAX 128

/* -- calls -- */

void *store_call_new(struct store *store, size_t size, store_query_cb done)
{
    struct call *call = calloc(1, size);

    if (call == NULL)
        abort();
    list_init(&call->query.link);
    call->query.done = done;
    call->store = store;
    return call;
}

static void answer_unsent(struct call *call)
{
    struct err why = {0};

    err_set(&why, call->status, "%s", status_name(call->status));
    call->query.done(&call->query, call->status, NULL, &why);
}

/* Answers those that wait now; what their callbacks add waits for the next turn. */
static void store_on_unsent_timer(uv_timer_t *timer)
{
    struct store *store = timer->data;

    LIST_DRAIN_PRESENT(struct call, call, &store->unsent, query.link)
        answer_unsent(call);
}

void store_answer_later(struct call *call, enum status status)
{
    struct store *store = call->store;

    call->status = status;
    list_append(&store->unsent, &call->query.link);
    if (!store->is_closed)
        uv_timer_start(&store->unsent_timer, store_on_unsent_timer, 0, 0);
}

void store_send(struct store_conn *conn, struct call *call, enum statement statement)
{
    if (!store_conn_send(conn, &call->query, statement, &call->store->params))
        store_answer_later(call, STATUS_DOWN);
}

void store_send_change(struct call *call, enum statement statement)
{
    struct store_conn *changes = call->store->changes;

    if (store_conn_pending(changes) >= CHANGES_MAX)
        store_answer_later(call, STATUS_BUSY);
    else
        store_send(changes, call, statement);
}

/* -- connections -- */

static bool are_all_up(const struct store *store)
{
    for (unsigned i = 0; i < store->options.lanes; i++) {
        if (!store_conn_is_up(store->lanes[i].conn))
            return false;
    }
    return store_conn_is_up(store->reads) && store_conn_is_up(store->changes);
}

static void report_state(struct store *store, const struct err *why)
{
    bool is_up = are_all_up(store);
    bool is_refused =
        why != NULL && (why->status == STATUS_INVALID || why->status == STATUS_REFUSED);

    if (store->is_state_reported && store->is_up == is_up &&
        (!is_refused || store->is_refused))
        return;
    if (!store->is_state_reported && !is_up && why == NULL)
        return; /* the first attempts are under way */
    store->is_state_reported = true;
    store->is_up = is_up;
    store->is_refused = is_refused;
    if (store->options.on_state != NULL)
        store->options.on_state(is_up, why, store->options.arg);
}

static void store_on_reads_up(struct store_conn *conn UNUSED, void *arg)
{
    struct store *store = arg;

    if (store->options.on_voucher_changed != NULL)
        store->options.on_voucher_changed(0, store->options.arg);
    report_state(store, NULL);
}

static void store_on_changes_up(struct store_conn *conn UNUSED, void *arg)
{
    report_state(arg, NULL);
}

static void store_on_conn_down(struct store_conn *conn UNUSED, bool was_up,
                               const struct err *why, void *arg)
{
    struct store *store = arg;

    store->reconnects += was_up;
    report_state(store, why);
}

static void store_on_lane_up(struct store_conn *conn UNUSED, void *arg)
{
    struct lane *lane = arg;

    report_state(lane->store, NULL);
}

static void store_on_lane_down(struct store_conn *conn, bool was_up,
                               const struct err *why, void *arg)
{
    struct lane *lane = arg;

    if (store_conn_pending(conn) > 0)
        store_suspect(lane->store, store_conn_backend(conn));
    store_on_conn_down(conn, was_up, why, lane->store);
}

static void store_on_notify(const char *payload, void *arg)
{
    struct store *store = arg;

    if (store->options.on_voucher_changed != NULL)
        store->options.on_voucher_changed(strtoll(payload, NULL, 10), store->options.arg);
}

static enum status open_connections(struct store *store)
{
    struct store_conn_options options = {
        .loop = store->options.loop,
        .database_url = store->options.database_url,
        .timeout_ms = store->options.timeout_ms,
        .statements = store_statements,
        .listen = "seckill_voucher",
        .on_up = store_on_reads_up,
        .on_down = store_on_conn_down,
        .on_notify = store_on_notify,
        .arg = store,
    };
    enum status status = store_conn_open(&options, &store->reads);

    options.listen = NULL;
    options.on_notify = NULL;
    options.on_up = store_on_changes_up;
    if (status == STATUS_OK)
        status = store_conn_open(&options, &store->changes);
    options.on_up = store_on_lane_up;
    options.on_down = store_on_lane_down;
    for (unsigned i = 0; status == STATUS_OK && i < store->options.lanes; i++) {
        store->lanes[i].store = store;
        options.arg = &store->lanes[i];
        status = store_conn_open(&options, &store->lanes[i].conn);
    }
    return status;
}

/* -- open and close -- */

static void init_timer(struct store *store, uv_timer_t *timer)
{
    uv_timer_init(store->options.loop, timer);
    timer->data = store;
}

static struct store *store_new(const struct store_options *options)
{
    struct store *store = calloc(1, sizeof(*store));

    if (store == NULL)
        return NULL;
    store->options = *options;
    store->options.database_url = strdup(options->database_url);
    store->lanes = calloc(options->lanes, sizeof(*store->lanes));
    list_init(&store->unsent);
    list_init(&store->lookup_calls);
    list_init(&store->changes_calls);
    list_init(&store->resolving);
    list_init(&store->suspects);
    init_timer(store, &store->unsent_timer);
    init_timer(store, &store->retire_timer);
    return store;
}

enum status store_open(const struct store_options *options, struct store **ret_store,
                       struct err *reterr)
{
    enum status status = database_check_url(options->database_url, reterr);
    struct store *store;

    if (status != STATUS_OK)
        return status;
    store = store_new(options);
    if (store == NULL)
        return err_set(reterr, STATUS_NO_MEMORY, "out of memory");
    status = STATUS_NO_MEMORY;
    if (store->options.database_url != NULL && store->lanes != NULL)
        status = open_connections(store);
    if (status != STATUS_OK) {
        store_close(store, NULL, NULL);
        return err_set(reterr, status, "out of memory");
    }
    *ret_store = store;
    return STATUS_OK;
}

static void store_on_closed(void *owner)
{
    struct store *store = owner;
    void (*closed)(void *) = store->closed;
    void *closed_arg = store->closed_arg;

    LIST_DRAIN(struct suspect, suspect, &store->suspects, link)
        free(suspect);
    params_clear(&store->params);
    free(store->vouchers);
    free(store->lanes);
    free((char *)(uintptr_t)store->options.database_url); /* our copy */
    free(store);
    if (closed != NULL)
        closed(closed_arg);
}

static void close_connection(struct store *store, struct store_conn *conn)
{
    if (conn != NULL)
        store_conn_close(conn, closing_done, closing_part(&store->closing));
}

/* The calls that no connection holds, and those that their callbacks add. */
static void cancel_waiting(struct store *store)
{
    struct call *call;

    do {
        list_append_all(&store->unsent, &store->lookup_calls);
        list_append_all(&store->unsent, &store->changes_calls);
        list_append_all(&store->unsent, &store->resolving);
        call = LIST_SHIFT(struct call, &store->unsent, query.link);
        if (call != NULL) {
            call->status = STATUS_CANCELLED;
            answer_unsent(call);
        }
    } while (call != NULL);
}

void store_close(struct store *store, void (*closed)(void *arg), void *arg)
{
    if (store == NULL) {
        if (closed != NULL)
            closed(arg);
        return;
    }
    store->closed = closed;
    store->closed_arg = arg;
    store->is_closed = true;
    closing_start(&store->closing, store_on_closed, store);
    close_connection(store, store->reads);
    close_connection(store, store->changes);
    for (unsigned i = 0; store->lanes != NULL && i < store->options.lanes; i++)
        close_connection(store, store->lanes[i].conn);
    cancel_waiting(store);
    closing_handle(&store->closing, (uv_handle_t *)&store->unsent_timer);
    closing_handle(&store->closing, (uv_handle_t *)&store->retire_timer);
    closing_done(&store->closing);
}

/* -- state -- */

bool store_is_up(const struct store *store)
{
    return are_all_up(store);
}

uint64_t store_reconnects(const struct store *store)
{
    return store->reconnects;
}

unsigned store_batch_room(const struct store *store)
{
    unsigned room = 0;

    for (unsigned i = 0; i < store->options.lanes; i++) {
        const struct store_conn *conn = store->lanes[i].conn;

        if (store_conn_is_up(conn) && store_conn_pending(conn) < LANE_DEPTH)
            room += LANE_DEPTH - store_conn_pending(conn);
    }
    return room;
}

void store_flush(struct store *store)
{
    store_send_lookups(store);
    store_send_changes(store);
    store_conn_flush(store->reads);
    store_conn_flush(store->changes);
    for (unsigned i = 0; i < store->options.lanes; i++)
        store_conn_flush(store->lanes[i].conn);
}
