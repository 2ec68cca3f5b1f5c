/*
 * store_open.c - opens and closes the connections of one loop, reports their state, and sends
 * the calls of each turn.
 */
#include "app/store/store_impl.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define EXPIRY_LOGIN_MS_MAX 5000
#define EXPIRY_IDLE_MS      1200

/* -- connections -- */

static enum role role_of(const struct store *store, const struct store_conn *conn)
{
    unsigned role = 0;

    while (store->conns[role] != conn)
        role++;
    return role;
}

/* Called when a session has found that the server is less durable than required, or that a pooler
   also gives the server process of the session to other clients. All sessions leave the server,
   except the session for lists, which may use another database. */
static void leave_server(struct store *store, const struct rlock_err *why)
{
    for (unsigned i = 0; i < store->conn_count; i++) {
        if (store->conns[i] != NULL && i != ROLE_LISTS)
            store_conn_leave(store->conns[i], why);
    }
}

/* Makes the other connections use the server of `conn`, too. store_resolve_orders() relies on one
   server: it uses the main connection to end server processes of the lanes. */
static void store_on_conn_up(struct store_conn *conn, void *arg)
{
    struct store *store = arg;
    enum role role = role_of(store, conn);

    if (role == ROLE_LISTS) {
        store->options.on_lists_state(true, NULL, store->options.arg);
        return;
    }
    for (unsigned i = 0; i < store->conn_count; i++) {
        if (store->conns[i] != NULL && i != ROLE_LISTS)
            store_conn_follow(store->conns[i], conn);
    }
    if (role == ROLE_MAIN) {
        store->probe.failure = RLOCK_OK; /* nothing is known of the new server */
        store->options.on_voucher_changed(0, store->options.arg);
    }
    store_report_state(store, NULL);
}

/* Reconnects of the connection for expiry are not counted. If this process is paused for a moment,
   Postgres ends that session, although nothing has failed. */
static void store_on_conn_down(struct store_conn *conn, bool was_up,
                               const struct rlock_err *why, void *arg)
{
    struct store *store = arg;
    enum role role = role_of(store, conn);

    if (role == ROLE_LISTS) {
        store->options.on_lists_state(false, why, store->options.arg);
        return;
    }
    if (role >= ROLE_LANE && store_conn_pending(conn) > 0)
        store_suspect(store, store_conn_session(conn)->backend);
    if (was_up && (why->status == RLOCK_UNSAFE || why->status == RLOCK_NOT_OWNER))
        leave_server(store, why);
    if (!store_conn_is_up(store->conns[ROLE_MAIN]) && role != ROLE_MAIN)
        store_conn_rest(conn);
    if (role == ROLE_EXPIRY)
        store_set_expiry_leader(store, false); /* the advisory lock is gone */
    else
        metrics_add(&store->options.metrics->postgres_reconnects, was_up);
    store_report_state(store, why);
}

static void store_on_notify(const char *payload, void *arg)
{
    struct store *store = arg;

    store->options.on_voucher_changed(strtoll(payload, NULL, 10), store->options.arg);
}

static struct store_conn_options conn_options(const struct store *store, enum role role)
{
    struct store_limits limits = store_limits(store, role);
    struct store_conn_options options = {
        .loop = store->options.loop,
        .database_url = store->options.database_url,
        .required = store->options.required,
        .timeout_ms = store->options.timeout_ms,
        .statement_ms = limits.statement_ms,
        .lock_ms = limits.lock_ms,
        .on_up = store_on_conn_up,
        .on_down = store_on_conn_down,
        .arg = (void *)(uintptr_t)store,
    };

    if (role == ROLE_LISTS) {
        options.database_url = store->options.lists_url;
        options.is_reader = true;
        options.finds_poolers = true;
    }
    if (role == ROLE_MAIN) {
        options.finds_poolers = true;
        options.listen = "seckill_voucher";
        options.on_notify = store_on_notify;
    }
    if (role == ROLE_EXPIRY) {
        if (options.timeout_ms > EXPIRY_LOGIN_MS_MAX)
            options.timeout_ms = EXPIRY_LOGIN_MS_MAX;
        options.idle_ms = EXPIRY_IDLE_MS;
    }
    return options;
}

/* Only the main connection looks for a server. The other connections follow, see
   store_on_conn_up(). */
static enum rlock_status open_connections(struct store *store)
{
    enum rlock_status status = RLOCK_OK;

    for (unsigned i = 0; status == RLOCK_OK && i < store->conn_count; i++) {
        struct store_conn_options options = conn_options(store, i);

        if ((i != ROLE_EXPIRY || store->expiry != NULL) &&
            (i != ROLE_LISTS || store->options.lists_url != NULL) &&
            (i != ROLE_PROBE || store->options.lanes > 0))
            status = store_conn_open(&options, &store->conns[i]);
        if (store->conns[i] != NULL && i != ROLE_MAIN && i != ROLE_LISTS)
            store_conn_rest(store->conns[i]);
    }
    return status;
}

/* -- turns -- */

void store_flush(struct store *store)
{
    store_send_lookups(store);
    store_send_reads(store);
    store_send_changes(store);
    for (unsigned i = 0; i < store->conn_count; i++) {
        if (store->conns[i] != NULL)
            store_conn_flush(store->conns[i]);
    }
}

static void store_on_deadline_timer(uv_timer_t *timer)
{
    struct store *store = timer->data;
    int64_t now_us = clock_mono_us();
    bool has_reads = store_time_out_reads(store, now_us);

    store_time_out_lookups(store, now_us);
    store_time_out_changes(store, now_us);
    if (!list_is_empty(&store->lookup_calls) || !list_is_empty(&store->lookups_sent) ||
        has_reads || store->changes.count > 0)
        store_watch_deadlines(store);
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
    store->conn_count = ROLE_LANE + options->lanes;
    store->conns = calloc(store->conn_count, sizeof(struct store_conn *));
    if (options->expires_orders)
        store->expiry = calloc(1, sizeof(*store->expiry));
    list_init(&store->unsent);
    list_init(&store->lookup_calls);
    list_init(&store->lookups_sent);
    store_init_reads(store);
    list_init(&store->changes.queues);
    list_init(&store->resolving);
    list_init(&store->suspects);
    list_init(&store->reserve);
    for (size_t i = 0; i < STORE_RESERVE; i++)
        list_append(&store->reserve, &store->reserved[i].call.query.link);
    init_timer(store, &store->unsent_timer);
    init_timer(store, &store->retire_timer);
    init_timer(store, &store->deadline_timer);
    init_timer(store, &store->probe.timer);
    if (options->lanes > 0)
        store_start_probe(store);
    store->on_deadlines = store_on_deadline_timer;
    if (store->expiry != NULL)
        store_start_expiry(store);
    return store;
}

enum rlock_status store_open(const struct store_options *options,
                             struct store **ret_store, struct rlock_err *reterr)
{
    enum rlock_status status = database_url_check(options->database_url, NULL, reterr);
    struct store *store;
    struct rlock_err why;

    if (status != RLOCK_OK)
        return status;
    /* The text of the check begins with SECKILL_DATABASE_URL. Here it must be
       SECKILL_LISTS_DATABASE_URL. */
    if (options->lists_url != NULL &&
        database_url_check(options->lists_url, NULL, &why) != RLOCK_OK)
        return err_set(reterr, RLOCK_INVALID, "SECKILL_LISTS_%s",
                       why.text + strlen("SECKILL_"));
    store = store_new(options);
    status = RLOCK_NO_MEMORY;
    if (store != NULL && store->options.database_url != NULL && store->conns != NULL &&
        (store->expiry != NULL || !options->expires_orders))
        status = open_connections(store);
    if (status != RLOCK_OK) {
        store_close(store, NULL, NULL);
        return err_set(reterr, status, "out of memory");
    }
    *ret_store = store;
    return RLOCK_OK;
}

static void store_on_closed(void *owner)
{
    struct store *store = owner;
    void (*closed)(void *) = store->closed;
    void *closed_arg = store->closed_arg;

    LIST_DRAIN(struct suspect, suspect, &store->suspects, link)
        store_free(store, suspect);
    params_clear(&store->params);
    free(store->conns);
    free(store->expiry);
    free((char *)(uintptr_t)store->options.database_url);
    free(store);
    if (closed != NULL)
        closed(closed_arg);
}

static void cancel_waiting(struct store *store)
{
    struct call *call;

    do {
        list_append_all(&store->unsent, &store->lookup_calls);
        list_append_all(&store->unsent, &store->reads[0].waiting);
        list_append_all(&store->unsent, &store->reads[1].waiting);
        store_take_changes(store, &store->unsent);
        list_append_all(&store->unsent, &store->resolving);
        call = LIST_SHIFT(struct call, &store->unsent, query.link);
        if (call != NULL) {
            call->status = RLOCK_CANCELLED;
            store_answer_unsent(call);
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
    closing_start(&store->closing, store_on_closed, store);
    for (unsigned i = 0; store->conns != NULL && i < store->conn_count; i++) {
        if (store->conns[i] != NULL)
            store_conn_close(store->conns[i], &store->closing);
    }
    cancel_waiting(store);
    closing_handle(&store->closing, (uv_handle_t *)&store->unsent_timer);
    closing_handle(&store->closing, (uv_handle_t *)&store->retire_timer);
    closing_handle(&store->closing, (uv_handle_t *)&store->deadline_timer);
    closing_handle(&store->closing, (uv_handle_t *)&store->probe.timer);
    if (store->expiry != NULL)
        closing_handle(&store->closing, (uv_handle_t *)&store->expiry->timer);
    closing_done(&store->closing);
}

/* -- state -- */

enum durability store_durability(const struct store *store)
{
    return store_conn_session(store->conns[ROLE_MAIN])->durability;
}

void store_check(struct store *store)
{
    store_conn_check(store->conns[ROLE_MAIN]);
}

/* A split narrows the cell, so of two cells that sessions report, the smaller cell is right. */
bool store_is_foreign(const struct store *store, int64_t id)
{
    for (unsigned i = 0; i < store->conn_count; i++) {
        const struct store_session *session;

        if (store->conns[i] == NULL)
            continue;
        session = store_conn_session(store->conns[i]);
        if (id != 0 && session->cells != 0 && id % session->cells != session->cell)
            return true;
    }
    return false;
}

int64_t store_lists_age_s(const struct store *store)
{
    const struct store_conn *conn = store->conns[ROLE_LISTS];

    return conn == NULL ? -1 : store_conn_session(conn)->age_s;
}

void store_print(const struct store *store, FILE *out)
{
    static const char *const uses[] = {
        [ROLE_MAIN] = "main",       [ROLE_READS] = "reads",
        [ROLE_CHANGES] = "changes", [ROLE_SLOW_CHANGES] = "slow_changes",
        [ROLE_EXPIRY] = "expiry",   [ROLE_LISTS] = "lists",
        [ROLE_PROBE] = "probe",     [ROLE_LANE] = "orders"};

    fprintf(out, "{\"suspects\":%zu,\"connections\":[", list_count(&store->suspects));
    for (unsigned i = 0; i < store->conn_count; i++) {
        const struct store_conn *conn = store->conns[i];

        if (conn != NULL)
            fprintf(out, "%s{\"use\":\"%s\",\"is_up\":%d,\"pid\":%d,\"pending\":%u}",
                    i > 0 ? "," : "", uses[i < ROLE_LANE ? i : ROLE_LANE],
                    store_conn_is_up(conn), (int)store_conn_session(conn)->backend.pid,
                    store_conn_pending(conn));
    }
    fputs("]}", out);
}
