/*
 * worker.c - assembles the parts of one event loop and runs its turns.
 *
 * In a turn, the loop first delivers the requests, the replies of Redis and the rows of Postgres
 * that have arrived. Then worker_on_turn_end() makes each part send everything that it has
 * collected, in one write.
 *
 * Shutdown: worker_stop() makes the HTTP server accept no more connections. When no request is in
 * flight, close_all() closes the parts and the loop ends. The seller also waits for the end of the
 * workers that it sells for.
 */
#include "app/cmd/worker.h"

#include "app/api/api.h"
#include "app/auth/limiter.h"
#include "app/cmd/lock_probe.h"
#include "app/core/log.h"
#include "app/http/http.h"
#include "app/ops/stats.h"
#include "app/sale/catalogue.h"
#include "app/sale/checkout.h"
#include "app/sale/feed.h"
#include "app/sale/handover.h"
#include "app/store/store.h"
#include "base/clock.h"
#include "lock/rlock.h"
#include "redis/conn.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ORDER_LANES    4
#define PUBLISH_US     INT64_C(1000000) /* how often /v1/debug/state changes */
#define WEBHOOKS_US    (10 * PUBLISH_US)
#define SLOW_CLIENT_US INT64_C(5000000) /* time for a client to get its last answer */

struct worker {
    struct worker_options options;
    uv_loop_t loop;
    uv_prepare_t turn_end;
    uv_async_t wake;
    _Atomic bool is_stopping;
    /* NULL, or the keys that worker_on_wake() will take */
    _Atomic(struct worker_keys *) new_keys;
    pthread_t thread;
    struct http *http;
    struct api *api;
    struct handover *handover;
    struct catalogue *catalogue;
    struct feed *feed;
    struct store *store;
    /* The next three members are used only by the seller. */
    struct checkout *checkout;
    struct rlock_client *locks;
    struct lock_probe lock_probe;
    struct redis_conn *revocations, *stats_conn;
    struct stats *stats;
    struct limiter *user_limiter;
    struct limiter *address_limiter;
    _Atomic int64_t last_turn_us;
    /* clock_mono_us() when the state was published; 0: it is to be published now */
    int64_t published_us;
    /* clock_mono_us() of the last read of the endpoints; 0: they are to be read now */
    int64_t webhooks_us;
    /* clock_mono_us() when draining began; 0: the worker does not drain */
    int64_t draining_us;
    bool clock_differs;
};

/* -- callbacks between the parts -- */

static void worker_on_voucher_changed(int64_t voucher_id, void *arg)
{
    struct worker *worker = arg;

    if (worker->catalogue != NULL)
        catalogue_invalidate(worker->catalogue, voucher_id);
}

/* Logs the state of a dependency, and makes the worker publish its state before this turn ends. */
static void report_dependency(struct worker *worker, const char *dependency, bool is_up,
                              const struct rlock_err *why)
{
    worker->published_us = 0;
    if (is_up)
        log_event(LOG_INFO, "dependency_up", "dependency=%s worker=%zu", dependency,
                  worker->options.index);
    else
        log_event(LOG_WARN, "dependency_down", "dependency=%s worker=%zu why=\"%s\"",
                  dependency, worker->options.index, LOG_PLAIN(why->text));
}

static void worker_on_store_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct worker *worker = arg;

    report_dependency(worker, "postgres", is_up, why);
    metrics_set(&worker->options.metrics->postgres_up, is_up);
    metrics_set(&worker->options.metrics->postgres_failure, is_up ? 0 : why->status);
}

/* The store calls this after every failed attempt, but only a change is reported. */
static void worker_on_lists_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct worker *worker = arg;
    _Atomic uint64_t *known = &worker->options.metrics->lists;
    enum lists_state state = is_up ? LISTS_UP : LISTS_DOWN;

    if (*known != state)
        report_dependency(worker, "lists", is_up, why);
    metrics_set(known, state);
}

static void worker_on_locks_state(enum lock_probe_state state,
                                  const struct rlock_err *why, void *arg)
{
    struct worker *worker = arg;
    bool is_up = state == LOCK_PROBE_UP;

    report_dependency(worker, "redis", is_up, why);
    metrics_set(&worker->options.metrics->redis_up, is_up);
    metrics_set(&worker->options.metrics->redis_degraded, state == LOCK_PROBE_DEGRADED);
    metrics_set(&worker->options.metrics->bypassing,
                !is_up && worker->options.config->redis_down == CONFIG_BYPASS);
}

static void worker_on_revocations_state(bool is_up, const struct rlock_err *why,
                                        void *arg)
{
    struct worker *worker = arg;

    report_dependency(worker, "redis", is_up, why);
    metrics_set(&worker->options.metrics->redis_up, is_up);
}

/* -- shutdown -- */

static void close_all(struct worker *worker)
{
    http_stop(worker->http);
    store_close(worker->store, NULL, NULL);
    lock_probe_close(&worker->lock_probe);
    rlock_client_close(worker->locks, NULL, NULL);
    catalogue_close(worker->catalogue);
    feed_close(worker->feed);
    checkout_close(worker->checkout);
    handover_close(worker->handover);
    redis_conn_close(worker->revocations, NULL, NULL);
    redis_conn_close(worker->stats_conn, NULL, NULL);
    stats_close(worker->stats);
    uv_close((uv_handle_t *)&worker->turn_end, NULL);
    uv_close((uv_handle_t *)&worker->wake, NULL);
}

/* -- stop and new keys -- */

void worker_keys_free(struct worker_keys *keys)
{
    if (keys == NULL)
        return;
    auth_free(keys->auth);
    http_tls_free(keys->tls);
    free(keys);
}

/* Starts to drain, or replaces the keys. A request needs keys only while its token is checked, so
   no request still uses the old keys. */
static void worker_on_wake(uv_async_t *wake)
{
    struct worker *worker = wake->data;
    struct worker_keys *fresh = atomic_exchange(&worker->new_keys, NULL);

    if (atomic_load(&worker->is_stopping) && worker->draining_us == 0) {
        worker->draining_us = clock_mono_us();
        http_quiesce(worker->http);
        feed_drain(worker->feed);
    }
    if (fresh == NULL)
        return;
    if (fresh->tls != NULL)
        http_set_tls(worker->http, fresh->tls);
    fresh->tls = NULL;
    api_set_auth(worker->api, fresh->auth);
    worker_keys_free(worker->options.keys);
    worker->options.keys = fresh;
}

void worker_set_keys(struct worker *worker, struct worker_keys *keys)
{
    /* free earlier keys that the loop has not taken yet */
    worker_keys_free(atomic_exchange(&worker->new_keys, keys));
    uv_async_send(&worker->wake);
}

/* -- turn -- */

static void note_durability(struct worker *worker)
{
    _Atomic uint64_t *known = &worker->options.metrics->durability;
    enum durability durability = store_durability(worker->store);

    if (*known != durability)
        log_event(durability < DURABILITY_LOCAL ? LOG_WARN : LOG_INFO, "durability",
                  "level=%s before=%s", durability_names[durability],
                  durability_names[*known]);
    metrics_set(known, durability);
}

/* Warns if the clocks differ. Tokens expire by the clock of this machine, but sales open by the
   clock of the database. */
static void note_clock(struct worker *worker)
{
    int64_t difference_us = worker->options.metrics->clock_difference_us;
    bool differs =
        catalogue_clock_differs(worker->catalogue, worker->clock_differs, &difference_us);

    if (differs && !worker->clock_differs)
        log_event(LOG_WARN, "clock_differs", "difference_us=%" PRId64, difference_us);
    if (!differs && worker->clock_differs)
        log_event(LOG_INFO, "clock_agrees", "difference_us=%" PRId64, difference_us);
    worker->clock_differs = differs;
    atomic_store(&worker->options.metrics->clock_difference_us, difference_us);
}

_Static_assert(RLOCK_TIME_BUCKETS == METRICS_BUCKETS_MAX + 1, "copied one by one");

static void copy_lock_metrics(struct worker *worker)
{
    struct metrics *metrics = worker->options.metrics;
    struct rlock_stats stats;

    rlock_client_stats(worker->locks, &stats);
    for (int i = 0; i < RLOCK_TIME_BUCKETS; i++)
        metrics_set(&metrics->lock_holds.buckets[i], stats.holds.buckets[i]);
    metrics_set(&metrics->lock_holds.sum, stats.holds.sum_us);
    metrics_set(&metrics->locks_held, stats.held);
    metrics_set(&metrics->lock_failed, stats.failed);
    if (stats.fence_restarts > metrics->fence_restarts)
        log_event(LOG_WARN, "fence_restarted", "worker=%zu", worker->options.index);
    metrics_set(&metrics->fence_restarts, stats.fence_restarts);
    metrics_set(&metrics->redis_reconnects, stats.reconnects);
}

/* After a failure nothing is known, so nothing is shown until the next read. */
static void worker_on_webhook_states(enum rlock_status status,
                                     const struct webhook_state *states, size_t count,
                                     void *arg)
{
    struct worker *worker = arg;

    metrics_publish_webhooks(worker->options.metrics, states, count);
    if (status != RLOCK_OK)
        worker->webhooks_us = 0;
}

static void read_webhooks(struct worker *worker, int64_t now_us)
{
    if (now_us - worker->webhooks_us < WEBHOOKS_US)
        return;
    worker->webhooks_us = now_us;
    store_read_webhook_states(worker->store, worker_on_webhook_states, worker);
}

static void publish_state(struct worker *worker, int64_t now_us)
{
    struct text_document document;

    worker->published_us = now_us;
    if (worker->locks != NULL)
        copy_lock_metrics(worker);
    if (!text_document_begin(&document))
        return;
    fprintf(document.out,
            "{\"at_ms\":%" PRId64 ",\"vouchers\":%zu,\"user_limits_permille\":%u"
            ",\"address_limits_permille\":%u,\"queues\":[",
            clock_real_us() / 1000, catalogue_count(worker->catalogue),
            limiter_fill(worker->user_limiter, now_us),
            limiter_fill(worker->address_limiter, now_us));
    if (worker->checkout != NULL)
        checkout_print_queues(worker->checkout, document.out);
    fputs("],\"http\":", document.out);
    http_print(worker->http, document.out);
    fputs(",\"postgres\":", document.out);
    store_print(worker->store, document.out);
    fputc('}', document.out);
    metrics_publish_state(worker->options.metrics, text_document_end(&document));
    if (worker->options.index == 0) {
        note_clock(worker);
        read_webhooks(worker, now_us);
    }
}

/* Whether all requests are answered, clients had time to receive the answers, and proxies had time
   to notice the drain. A proxy notices the drain when it uses an idle connection once more. The
   answer closes the connection, so the proxy sends its next request to another instance. */
static bool is_drained(const struct worker *worker, int64_t now_us)
{
    int64_t for_us = now_us - worker->draining_us;
    struct http_counts http = http_counts(worker->http);

    return http.pending == 0 && handover_is_idle(worker->handover) &&
           (worker->checkout == NULL || checkout_in_flight(worker->checkout) == 0) &&
           (http.connections == 0 ||
            (for_us >= worker->options.config->drain_s * INT64_C(1000000) &&
             (http.open == 0 || for_us > SLOW_CLIENT_US)));
}

static void flush_locks(struct worker *worker)
{
    if (worker->locks != NULL)
        rlock_flush(worker->locks);
}

static void worker_on_turn_end(uv_prepare_t *prepare)
{
    struct worker *worker = prepare->data;
    struct metrics *metrics = worker->options.metrics;
    int64_t now_us;

    flush_locks(worker);
    http_turn(worker->http);
    flush_locks(worker); /* sends the lock requests that http_turn() caused */
    catalogue_turn(worker->catalogue);
    if (worker->checkout != NULL)
        checkout_turn(worker->checkout);
    handover_turn(worker->handover);
    redis_conn_flush(worker->revocations);
    redis_conn_flush(worker->stats_conn);
    store_flush(worker->store);
    metrics_set(&metrics->connections, http_counts(worker->http).connections);
    if (worker->options.index == 0) { /* these values are the same in all loops */
        metrics_set(&metrics->log_dropped, log_dropped());
        note_durability(worker);
    }
    now_us = clock_mono_us();
    if (now_us - worker->published_us >= PUBLISH_US) {
        publish_state(worker, now_us);
        /* Without transactions nothing else checks the durability. */
        store_check(worker->store);
    }
    atomic_store_explicit(&worker->last_turn_us, now_us, memory_order_relaxed);
    if (worker->draining_us != 0 && is_drained(worker, now_us))
        close_all(worker);
}

/* -- start -- */

static enum rlock_status open_locks(struct worker *worker, uint32_t timeout_ms,
                                    const struct redis_url *url, struct rlock_err *reterr)
{
    const struct rlock_client_options locks = {.loop = &worker->loop,
                                               .redis_url =
                                                   worker->options.config->redis_url,
                                               .timeout_ms = timeout_ms,
                                               .on_state = lock_probe_on_connection,
                                               .arg = &worker->lock_probe};
    enum rlock_status status = rlock_client_open(&locks, &worker->locks, reterr);

    if (status != RLOCK_OK)
        return status;
    worker->lock_probe = (struct lock_probe){
        .locks = worker->locks,
        .count = url->topology == REDIS_CLUSTER ? LOCK_PROBE_LOCKS : 1,
        .on_state = worker_on_locks_state,
        .arg = worker};
    lock_probe_start(&worker->lock_probe, &worker->loop);
    return RLOCK_OK;
}

static enum rlock_status open_redis(struct worker *worker, uint32_t timeout_ms,
                                    struct rlock_err *reterr)
{
    bool is_seller = worker->options.seller == NULL;
    struct redis_url url;
    struct redis_conn_options conn = {.loop = &worker->loop,
                                      .url = &url,
                                      .timeout_ms = timeout_ms,
                                      .key = API_REVOKED_TAG,
                                      .on_state =
                                          is_seller ? NULL : worker_on_revocations_state,
                                      .arg = worker};
    enum rlock_status status =
        redis_url_parse(worker->options.config->redis_url, &url, reterr);

    if (status == RLOCK_OK && is_seller)
        status = open_locks(worker, timeout_ms, &url, reterr);
    if (status == RLOCK_OK)
        status = redis_conn_open(&conn, &worker->revocations, reterr);
    conn.key = STATS_KEY;
    conn.on_state = NULL;
    if (status == RLOCK_OK)
        status = redis_conn_open(&conn, &worker->stats_conn, reterr);
    return status;
}

static enum rlock_status open_servers(struct worker *worker, struct rlock_err *reterr)
{
    const struct config *config = worker->options.config;
    /* A call may take half of the timeout of an order. After a failed call, the other half is left
       to look up the outcome. */
    uint32_t timeout_ms = (uint32_t)config->order_timeout_ms / 2;
    const char *lists_url = config->lists_url[0] != '\0' ? config->lists_url : NULL;
    const struct store_options store = {
        .loop = &worker->loop,
        .database_url = config->database_url,
        .lists_url = lists_url,
        .timeout_ms = timeout_ms,
        .lanes = worker->options.seller == NULL ? ORDER_LANES : 0,
        .expires_orders = worker->options.index == 0,
        .required = DURABILITY_LOCAL + (unsigned)config->require_durability,
        .metrics = worker->options.metrics,
        .on_voucher_changed = worker_on_voucher_changed,
        .on_state = worker_on_store_state,
        .on_lists_state = worker_on_lists_state,
        .arg = worker};
    enum rlock_status status = open_redis(worker, timeout_ms, reterr);

    if (status == RLOCK_OK)
        return store_open(&store, &worker->store, reterr);
    err_prefix(reterr, "SECKILL_REDIS_URL");
    return status;
}

static enum rlock_status create_checkout(struct worker *worker)
{
    const struct config *config = worker->options.config;
    struct checkout_options checkout = {
        .loop = &worker->loop,
        .locks = worker->locks,
        .store = worker->store,
        .catalogue = worker->catalogue,
        .metrics = worker->options.metrics,
        .lease_ms = (uint32_t)config->lock_lease_ms,
        .lock_wait_ms = (uint32_t)config->lock_wait_ms,
        .timeout_ms = (uint32_t)config->order_timeout_ms,
        .batch_max = (size_t)config->batch_max,
        .vouchers_max = (size_t)config->batch_vouchers,
        .queue_max = (size_t)config->queue_max,
        .bypass_locks = config->redis_down == CONFIG_BYPASS,
        .early_release = config->early_release == CONFIG_AUTO};

    worker->checkout = checkout_create(&checkout);
    return worker->checkout != NULL ? RLOCK_OK : RLOCK_NO_MEMORY;
}

static enum rlock_status create_handover(struct worker *worker)
{
    const struct handover_options handover = {.loop = &worker->loop,
                                              .seller = worker->options.seller,
                                              .checkout = worker->checkout,
                                              .catalogue = worker->catalogue,
                                              .metrics = worker->options.metrics};

    worker->handover = handover_create(&handover);
    return worker->handover != NULL ? RLOCK_OK : RLOCK_NO_MEMORY;
}

static enum rlock_status create_sale(struct worker *worker)
{
    enum rlock_status status = RLOCK_OK;
    const struct stats_options stats = {.loop = &worker->loop,
                                        .conn = worker->stats_conn,
                                        .all_metrics = worker->options.all_metrics,
                                        .is_publisher = worker->options.index == 0};

    worker->stats = stats_open(&stats);
    worker->catalogue =
        catalogue_create(&worker->loop, worker->store, worker->options.metrics);
    worker->feed = feed_open(&worker->loop, worker->store, worker->options.metrics);
    if (worker->stats == NULL || worker->catalogue == NULL || worker->feed == NULL)
        return RLOCK_NO_MEMORY;
    if (worker->options.seller == NULL)
        status = create_checkout(worker);
    return status == RLOCK_OK ? create_handover(worker) : status;
}

static enum rlock_status create_api(struct worker *worker)
{
    const struct config *config = worker->options.config;
    struct api_options options = {
        .auth = worker->options.keys->auth,
        .revocations = worker->revocations,
        .tickets = {.secret = config->ticket_secret, .ttl_s = config->ticket_ttl_s},
        .catalogue = worker->catalogue,
        .feed = worker->feed,
        .handover = worker->handover,
        .store = worker->store,
        .stats = worker->stats,
        .metrics = worker->options.metrics,
        .all_metrics = worker->options.all_metrics,
        .timeout_ms = (uint32_t)config->order_timeout_ms,
        .queue_max = (size_t)config->queue_max,
        .bypass_locks = config->redis_down == CONFIG_BYPASS,
        .currency = config->currency,
        .dev_login = config->dev_login != 0};

    if (config->rate_per_user > 0)
        options.user_limiter = worker->user_limiter =
            limiter_create(config->rate_per_user);
    if (config->rate_per_ip > 0)
        options.address_limiter = worker->address_limiter =
            limiter_create(config->rate_per_ip);
    if ((config->rate_per_user > 0 && worker->user_limiter == NULL) ||
        (config->rate_per_ip > 0 && worker->address_limiter == NULL))
        return RLOCK_NO_MEMORY;
    worker->api = api_create(&options);
    return worker->api != NULL ? RLOCK_OK : RLOCK_NO_MEMORY;
}

static enum rlock_status start_http(struct worker *worker, struct rlock_err *reterr)
{
    const struct config *config = worker->options.config;
    struct http_options options = {
        .loop = &worker->loop,
        .listen_fd = worker->options.listen_fd,
        .tls = worker->options.keys->tls,
        .tls_priority = config->tls_priority,
        .connections_max = worker->options.connections_max,
        .connections_per_address = (size_t)config->connections_per_ip,
        .listeners_max = worker->options.listeners_max,
        .idle_timeout_s = (unsigned)config->idle_timeout_s,
        .request_timeout_s = (unsigned)config->request_timeout_s,
        .context_bytes = api_context_bytes,
        .body_max = api_body_max,
        .handle = api_handle,
        .print_event = api_print_event,
        .answered = api_answered,
        .arg = worker->api};
    enum rlock_status status =
        address_networks_parse(config->trusted_proxies, &options.trusted_proxies, reterr);

    if (status != RLOCK_OK) {
        err_prefix(reterr, "SECKILL_TRUSTED_PROXIES");
        return status;
    }
    status = http_start(&options, &worker->http, reterr);
    if (status == RLOCK_OK)
        worker->options.keys->tls = NULL;
    return status;
}

static void worker_free(struct worker *worker)
{
    uv_run(&worker->loop, UV_RUN_DEFAULT); /* returns when all handles have closed */
    uv_loop_close(&worker->loop);
    http_free(worker->http);
    api_free(worker->api);
    limiter_free(worker->user_limiter);
    limiter_free(worker->address_limiter);
    worker_keys_free(atomic_load(&worker->new_keys));
    worker_keys_free(worker->options.keys);
    free(worker);
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    char name[16]; /* the maximum of Linux; top and gdb show the name */

    snprintf(name, sizeof(name), "loop %u", (unsigned)worker->options.index);
    pthread_setname_np(pthread_self(), name);
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    return NULL;
}

enum rlock_status worker_start(const struct worker_options *options,
                               struct worker **ret_worker, struct rlock_err *reterr)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    enum rlock_status status;

    if (worker == NULL || uv_loop_init(&worker->loop) != 0) {
        worker_keys_free(options->keys);
        free(worker);
        return err_set(reterr, RLOCK_NO_MEMORY, "cannot create an event loop");
    }
    worker->options = *options;
    uv_prepare_init(&worker->loop, &worker->turn_end);
    worker->turn_end.data = worker;
    /* uv_async_init() cannot fail here: only the first async handle of a loop allocates, and
       uv_loop_init() has already made one. */
    uv_async_init(&worker->loop, &worker->wake, worker_on_wake);
    worker->wake.data = worker;
    status = open_servers(worker, reterr);
    if (status == RLOCK_OK)
        status = create_sale(worker);
    if (status == RLOCK_OK)
        status = create_api(worker);
    if (status == RLOCK_OK)
        status = start_http(worker, reterr);
    if (status == RLOCK_OK) {
        uv_prepare_start(&worker->turn_end, worker_on_turn_end);
        errno = pthread_create(&worker->thread, NULL, run, worker);
        if (errno == 0) {
            *ret_worker = worker;
            return RLOCK_OK;
        }
        status = err_set(reterr, RLOCK_NO_MEMORY, "cannot start a thread: %m");
    }
    close_all(worker);
    worker_free(worker);
    return status;
}

struct handover *worker_handover(const struct worker *worker)
{
    return worker->handover;
}

void worker_wake(struct worker *worker)
{
    uv_async_send(&worker->wake); /* the loop turns, worker_on_wake() does nothing */
}

int64_t worker_last_turn_us(const struct worker *worker)
{
    return atomic_load_explicit(&worker->last_turn_us, memory_order_relaxed);
}

void worker_stop(struct worker *worker)
{
    atomic_store(&worker->is_stopping, true);
    uv_async_send(&worker->wake);
}

void worker_join(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    worker_free(worker);
}
