/*
 * store.c - the connections of one loop, and the calls that are under way.
 *
 * One connection, `main`, takes whatever reads; `changes` what changes a voucher or an
 * order, and may wait for their locks; each lane is one for batches. The server works on
 * what a connection was sent one call after the other, so a lane holds a few batches:
 * while one is committed the next is there already.
 *
 * What cannot be sent is answered from a timer of no delay, as no callback runs inside
 * the call that caused it.
 */
#include "app/store/store_impl.h"

#include <stdlib.h>
#include <string.h>

/* Batches under way on one lane. */
#define LANE_DEPTH STORE_CONN_DEPTH

/* Calls on the connection for changes: what waits longer would be answered too late. */
#define CHANGES_MAX 128

/* Order of columns: store_orders.c and store_vouchers.c read them by number. */
#define ORDER_COLUMNS "o.id, o.voucher_id, o.user_id, order_detail(o)"
#define VOUCHER_COLUMNS                                                                  \
    "id, version, title, description, price_cents, face_value_cents, stock_total,"       \
    " stock_left, per_user_limit, pay_within_s, begin_at, end_at,"                       \
    " requires_ticket::int::bigint as requires_ticket, pow_bits"
/* Of changes: a row for each, in their order, told by `pos`. */
#define CHANGED_ORDERS(arrays, names, call)                                              \
    "select r.pos, c.verdict, (c.changed).id, (c.changed).voucher_id,"                   \
    " (c.changed).user_id, order_detail(c.changed)"                                      \
    " from unnest($2::bigint[], $3::text[]" arrays                                       \
    ") with ordinality r (id, actor" names ", pos) cross join lateral " call " c"
#define EVENTS(from)                                                                     \
    "select id, voucher_id, order_id, at, stock_change, actor, from_status::text,"       \
    " to_status::text, detail from " from " where voucher_id = $1::bigint"               \
    " and id > $2::bigint order by id limit $3::bigint"
/* The placement, by the order's id, and what came after, by the index of orders. */
#define EVENTS_OF_ORDER                                                                  \
    "((select * from voucher_history where voucher_id = $1::bigint"                      \
    "   and id between $4::bigint and $4 order by id limit 1) union all"                 \
    " (select * from voucher_history where voucher_id = $1 and order_id = $4"            \
    "   and from_status is not null order by id)) of_order"
/* The clock is told even where there is no voucher: then its columns are NULL. */
#define VOUCHERS(from)                                                                   \
    "select v.*, clock_timestamp() from (values (1)) as always"                          \
    " left join lateral (select " VOUCHER_COLUMNS " from " from ") v on true"

const struct store_statement store_statements[STATEMENT_COUNT + 1] = {
    [STATEMENT_PLACE] = {"place",
                         "select verdicts, order_ids, details, price, decided_at, expiry,"
                         " new_stock, new_version, opens, closes"
                         " from place_orders($1, $2, $3, $4)"},
    [STATEMENT_FIND] = {"find", "select pos, verdict, order_id, detail"
                                " from find_orders($1, $2, $3)"},
    [STATEMENT_RESOLVE] = {"resolve", "select pos, verdict, order_id, detail"
                                      " from resolve_orders($1, $2, $3, $4)"},
    [STATEMENT_RETIRE] = {"retire",
                          "select count(pg_terminate_backend(a.pid))"
                          " from unnest($1::bigint[], $2::timestamptz[]) s (pid, start)"
                          " join pg_stat_activity a"
                          "  on a.pid = s.pid and a.backend_start = s.start"},
    [STATEMENT_READ_ORDER] = {"read_order",
                              "select o.* from generate_series($1::bigint & 1048575,"
                              "  (select max(id) from voucher), 1048576) v (id),"
                              " lateral (select " ORDER_COLUMNS " from voucher_order o"
                              "  where o.voucher_id = v.id and o.id between $1 and $1"
                              "   and $2::bigint in (0, o.user_id)"
                              "  order by o.id limit 1) o"},
    [STATEMENT_LIST_ORDERS] = {"list_orders",
                               "select " ORDER_COLUMNS " from voucher_order o"
                               " where o.user_id = $1::bigint"
                               "  and ($2::bigint = 0 or o.voucher_id = $2)"
                               "  and o.id < $3::bigint"
                               " order by o.id desc limit $4::bigint"},
    [STATEMENT_PAY_ORDER] = {"pay_order",
                             CHANGED_ORDERS(", $4::text[], $5::bigint[]",
                                            ", payment_ref, amount_cents",
                                            "pay_order($1, r.id, r.actor, r.payment_ref,"
                                            " r.amount_cents)")},
    [STATEMENT_CANCEL_ORDER] = {"cancel_order",
                                CHANGED_ORDERS("", "",
                                               "cancel_order($1, r.id, r.actor)")},
    [STATEMENT_REFUND_ORDER] = {"refund_order",
                                CHANGED_ORDERS("", "",
                                               "refund_order($1, r.id, r.actor)")},
    [STATEMENT_REDEEM_ORDER] = {"redeem_order",
                                CHANGED_ORDERS("", "",
                                               "redeem_order($1, r.id, r.actor)")},
    [STATEMENT_DUE_BATCHES] = {"due_batches",
                               "select voucher_id, array_agg(id) from (select voucher_id,"
                               "  id from voucher_order where due_to_id is not null"
                               "  and expires_at <= now() order by expires_at"
                               "  limit $1::bigint) due group by voucher_id"},
    [STATEMENT_EXPIRE_BATCHES] = {"expire_batches",
                                  "select expired, ended from expire_batches($1, $2)"},
    [STATEMENT_VOUCHER_EVENTS] = {"voucher_events", EVENTS("voucher_history")},
    [STATEMENT_ORDER_EVENTS] = {"order_events", EVENTS(EVENTS_OF_ORDER)},
    [STATEMENT_READ_VOUCHERS] = {"read_vouchers",
                                 VOUCHERS("voucher where id = any ($1::bigint[])")},
    [STATEMENT_LIST_ANY] =
        {"list_any",
         VOUCHERS("voucher where id < $1::bigint order by id desc limit $2::bigint")},
    [STATEMENT_LIST_UPCOMING] = {"list_upcoming",
                                 VOUCHERS("voucher where begin_at > now()"
                                          " and (begin_at, id) > ($1, $2)"
                                          " order by begin_at, id limit $3::bigint")},
    [STATEMENT_LIST_OPEN] = {"list_open",
                             VOUCHERS("voucher where begin_at <= now()"
                                      " and end_at > now()"
                                      " and (end_at, id) > ($1, $2)"
                                      " order by end_at, id limit $3::bigint")},
    [STATEMENT_LIST_ENDED] = {"list_ended", VOUCHERS("voucher where end_at <= now()"
                                                     " and (end_at, id) < ($1, $2)"
                                                     " order by end_at desc, id desc"
                                                     " limit $3::bigint")},
    [STATEMENT_CREATE_VOUCHER] = {"create_voucher",
                                  VOUCHERS("create_voucher(nextval('voucher_id_seq'),"
                                           " $1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
                                           " $11::bigint = 1, $12)")},
    [STATEMENT_PATCH_VOUCHER] = {"patch_voucher",
                                 VOUCHERS("patch_voucher($1, $2, $3, $4, $5, $6,"
                                          " $7::bigint = 1, $8)")},
    [STATEMENT_RESTOCK_VOUCHER] = {"restock_voucher",
                                   VOUCHERS("restock_voucher($1, $2, $3)")},
};

/* -- calls -- */

struct call *store_call_new(struct store *store,
                            void (*done)(struct store_call *call, enum status status,
                                         const PGresult *result, const struct err *why))
{
    struct list *link = list_shift(&store->free);
    struct call *call =
        link != NULL ? list_item(link, struct call, link) : malloc(sizeof(*call));

    if (call == NULL)
        abort();
    memset(call, 0, sizeof(*call));
    list_init(&call->link);
    list_init(&call->asks);
    call->base.done = done;
    call->store = store;
    return call;
}

void store_call_end(struct call *call)
{
    list_append(&call->store->free, &call->link);
}

struct ask *store_ask_new(struct store *store, void *arg)
{
    struct list *link = list_shift(&store->free_asks);
    struct ask *ask =
        link != NULL ? list_item(link, struct ask, link) : malloc(sizeof(*ask));

    if (ask == NULL)
        abort();
    *ask = (struct ask){.arg = arg};
    return ask;
}

static void answer_now(struct call *call)
{
    struct err why = {0};

    err_set(&why, call->status, "%s", status_name(call->status));
    call->base.done(&call->base, call->status, NULL, &why);
}

/* Those that are there now; what they cause waits for the next time. */
static void on_soon(uv_timer_t *timer)
{
    struct store *store = timer->data;
    struct list *last = store->later.prev;

    for (struct list *link = NULL; link != last && !list_is_empty(&store->later);) {
        link = list_shift(&store->later);
        answer_now(list_item(link, struct call, link));
    }
}

void store_answer_later(struct call *call, enum status status)
{
    struct store *store = call->store;

    call->status = status;
    list_append(&store->later, &call->link);
    if (!store->is_closed)
        uv_timer_start(&store->soon, on_soon, 0, 0);
}

void store_ask(struct store_conn *conn, struct call *call, enum statement statement)
{
    if (!store_conn_send(conn, &call->base, statement, &call->store->params))
        store_answer_later(call, STATUS_DOWN);
}

void store_ask_change(struct call *call, enum statement statement)
{
    struct store_conn *changes = call->store->changes;

    if (store_conn_pending(changes) >= CHANGES_MAX)
        store_answer_later(call, STATUS_BUSY);
    else
        store_ask(changes, call, statement);
}

/* -- connections -- */

static bool are_all_up(const struct store *store)
{
    for (unsigned i = 0; i < store->options.lanes; i++) {
        if (!store_conn_is_up(store->lanes[i].conn))
            return false;
    }
    return store_conn_is_up(store->main) && store_conn_is_up(store->changes);
}

static void tell_state(struct store *store, const struct err *why)
{
    bool is_up = are_all_up(store);

    if (store->is_state_told && store->is_up == is_up)
        return;
    if (!store->is_state_told && !is_up && why == NULL)
        return; /* they are just being opened */
    store->is_state_told = true;
    store->is_up = is_up;
    if (store->options.on_state != NULL)
        store->options.on_state(is_up, why, store->options.arg);
}

static void on_main_up(struct store_conn *conn UNUSED, void *arg)
{
    struct store *store = arg;

    if (store->options.on_voucher_changed != NULL)
        store->options.on_voucher_changed(0, store->options.arg);
    tell_state(store, NULL);
}

static void on_changes_up(struct store_conn *conn UNUSED, void *arg)
{
    tell_state(arg, NULL);
}

static void on_main_down(struct store_conn *conn UNUSED, bool was_up,
                         const struct err *why, void *arg)
{
    struct store *store = arg;

    store->reconnects += was_up;
    tell_state(store, why);
}

static void on_lane_up(struct store_conn *conn UNUSED, void *arg)
{
    struct lane *lane = arg;

    tell_state(lane->store, NULL);
}

static void on_lane_down(struct store_conn *conn, bool was_up, const struct err *why,
                         void *arg)
{
    struct lane *lane = arg;

    if (store_conn_pending(conn) > 0)
        store_suspect(lane->store, store_conn_backend(conn));
    on_main_down(conn, was_up, why, lane->store);
}

static void on_notify(const char *payload, void *arg)
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
        .on_up = on_main_up,
        .on_down = on_main_down,
        .on_notify = on_notify,
        .arg = store,
    };
    enum status status = store_conn_open(&options, &store->main);

    options.listen = NULL;
    options.on_notify = NULL;
    options.on_up = on_changes_up;
    if (status == STATUS_OK)
        status = store_conn_open(&options, &store->changes);
    options.on_up = on_lane_up;
    options.on_down = on_lane_down;
    for (unsigned i = 0; status == STATUS_OK && i < store->options.lanes; i++) {
        store->lanes[i].store = store;
        options.arg = &store->lanes[i];
        status = store_conn_open(&options, &store->lanes[i].conn);
    }
    return status;
}

/* -- open and close -- */

static enum status check_url(const char *database_url, struct err *reterr)
{
    char *words = NULL;
    PQconninfoOption *parsed = PQconninfoParse(database_url, &words);
    enum status status = STATUS_OK;

    if (parsed == NULL)
        status = err_set(reterr, STATUS_INVALID, "database URL: %s",
                         words == NULL ? "not understood" : words);
    PQconninfoFree(parsed);
    PQfreemem(words);
    return status;
}

static void init_timer(struct store *store, uv_timer_t *timer)
{
    uv_timer_init(store->options.loop, timer);
    timer->data = store;
    store->handles++;
}

static struct store *store_new(const struct store_options *options)
{
    struct store *store = calloc(1, sizeof(*store));

    if (store == NULL)
        return NULL;
    store->options = *options;
    store->options.database_url = strdup(options->database_url);
    store->lanes = calloc(options->lanes, sizeof(*store->lanes));
    list_init(&store->free);
    list_init(&store->free_asks);
    list_init(&store->later);
    list_init(&store->lookups);
    list_init(&store->changing);
    list_init(&store->resolving);
    list_init(&store->suspects);
    init_timer(store, &store->soon);
    init_timer(store, &store->retire_again);
    return store;
}

enum status store_open(const struct store_options *options, struct store **ret_store,
                       struct err *reterr)
{
    enum status status = check_url(options->database_url, reterr);
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

static void free_calls(struct list *calls)
{
    for (struct list *link; (link = list_shift(calls)) != NULL;)
        free(list_item(link, struct call, link));
}

static void store_free(struct store *store)
{
    free_calls(&store->free);
    for (struct list *link; (link = list_shift(&store->free_asks)) != NULL;)
        free(list_item(link, struct ask, link));
    for (struct list *link; (link = list_shift(&store->suspects)) != NULL;)
        free(list_item(link, struct suspect, link));
    params_clear(&store->params);
    free(store->vouchers);
    free(store->lanes);
    free((char *)(uintptr_t)store->options.database_url); /* our copy */
    free(store);
}

static void on_part_closed(void *arg)
{
    struct store *store = arg;
    void (*closed)(void *) = store->closed;
    void *closed_arg = store->closed_arg;

    if (--store->handles > 0)
        return;
    store_free(store);
    if (closed != NULL)
        closed(closed_arg);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void close_connection(struct store *store, struct store_conn *conn)
{
    if (conn == NULL)
        return;
    store->handles++;
    store_conn_close(conn, on_part_closed, store);
}

/* All that no connection knows of, and what their callbacks ask in turn. */
static void cancel_waiting(struct store *store)
{
    struct list *link;

    do {
        list_append_all(&store->later, &store->lookups);
        list_append_all(&store->later, &store->changing);
        list_append_all(&store->later, &store->resolving);
        link = list_shift(&store->later);
        if (link != NULL) {
            list_item(link, struct call, link)->status = STATUS_CANCELLED;
            answer_now(list_item(link, struct call, link));
        }
    } while (link != NULL);
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
    close_connection(store, store->main);
    close_connection(store, store->changes);
    for (unsigned i = 0; store->lanes != NULL && i < store->options.lanes; i++)
        close_connection(store, store->lanes[i].conn);
    cancel_waiting(store);
    uv_close((uv_handle_t *)&store->soon, on_timer_closed);
    uv_close((uv_handle_t *)&store->retire_again, on_timer_closed);
}

/* -- small questions -- */

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
    store_conn_flush(store->main);
    store_conn_flush(store->changes);
    for (unsigned i = 0; i < store->options.lanes; i++)
        store_conn_flush(store->lanes[i].conn);
}
