/*
 * store_probe.c - the state of the store: it asks whether the server answers and commits end.
 *
 * The question has a connection of its own, so it waits for no other statement, and it waits for no
 * lock, disk or standby. If the answer is late, the server hangs.
 *
 * A late answer only changes the reported state. It closes no connection and ends no call, because
 * queries have deadlines of their own. While commits wait for a standby, the store takes no
 * batches: they would occupy the lanes, and their outcomes would be unknown.
 */
#include "app/store/store_impl.h"

#define COMMITS_WAIT                                                                     \
    "commits wait for a synchronous standby: start it, or change"                        \
    " synchronous_standby_names"

/* -- state -- */

bool store_is_up(const struct store *store)
{
    for (unsigned i = 0; i < store->conn_count; i++) {
        if (i != ROLE_EXPIRY && i != ROLE_LISTS && i != ROLE_PROBE &&
            !store_conn_is_up(store->conns[i]))
            return false;
    }
    return store->probe.failure == RLOCK_OK;
}

/* A server that has answered gives a better reason than a server that has not answered. So the
   reason of a server that has answered replaces the reported reason. */
void store_report_state(struct store *store, const struct rlock_err *why)
{
    bool is_up = store_is_up(store);
    bool is_answer =
        why != NULL && why->status != RLOCK_IO && why->status != RLOCK_TIMEOUT;
    enum rlock_status refusal = is_answer ? why->status : RLOCK_OK;

    if (store->is_state_reported && store->is_up == is_up &&
        (is_up || refusal == RLOCK_OK || refusal == store->refusal))
        return;
    if (!is_up && why == NULL)
        return; /* the attempts under way will report the reason */
    store->is_state_reported = true;
    store->is_up = is_up;
    store->refusal = refusal;
    store->options.on_state(is_up, why, store->options.arg);
}

/* -- probe -- */

static void set_failure(struct store *store, enum rlock_status failure, const char *words)
{
    struct rlock_err why;

    store->probe.failure = err_set(&why, failure, "%s", words);
    store_report_state(store, failure == RLOCK_OK ? NULL : &why);
}

/* If there was no answer, the connection has failed. Then the state stays until the next answer, or
   until the store has connected again. If an answer says that commits wait, the commit of a long
   statement may have just begun to wait. So two answers in a row are needed. */
static void store_on_probed(struct store_query *query, enum rlock_status status,
                            const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct store *store = list_item(query, struct store, probe.query);
    bool had_waited = store->probe.has_waited;

    store->probe.is_sent = false;
    if (status != RLOCK_OK)
        return;
    store->probe.has_waited = result_int64(result, 0, 0) == 1;
    if (!store->probe.has_waited)
        set_failure(store, RLOCK_OK, "");
    else if (had_waited)
        set_failure(store, RLOCK_LOST, COMMITS_WAIT);
}

static void send_probe(struct store *store)
{
    static const struct store_params none;
    struct store_limits limits = store_limits(store, ROLE_PROBE);
    struct probe *probe = &store->probe;

    probe->query.statement_ms = limits.statement_ms;
    probe->query.timeout_ms = limits.timeout_ms;
    probe->query.done = store_on_probed;
    lateness_begin(&probe->lateness);
    probe->is_sent =
        store_conn_send(store->conns[ROLE_PROBE], &probe->query, STATEMENT_PROBE, &none);
}

static void store_on_probe_timer(uv_timer_t *timer)
{
    struct store *store = timer->data;
    struct probe *probe = &store->probe;

    if (lateness_tick(&probe->lateness, probe->is_sent))
        set_failure(store, RLOCK_TIMEOUT, LATENESS_WORDS);
    if (!probe->is_sent)
        send_probe(store);
}

void store_start_probe(struct store *store)
{
    uv_timer_start(&store->probe.timer, store_on_probe_timer, LATENESS_TICK_MS,
                   LATENESS_TICK_MS);
}
