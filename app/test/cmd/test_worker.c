/* test_worker.c - the start, the turns and the shutdown of a worker whose parts are fakes. */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): RTLD_NEXT
#include "app/test/cmd/fake_parts.h"

/* -- helpers -- */

static struct config config;
static struct metrics metrics;
static const struct all_metrics all_metrics;
static struct auth auths[] = {{"auth0"}, {"auth1"}, {"auth2"}};
static struct http_tls tlses[] = {{"tls0"}, {"tls1"}, {"tls2"}};

static struct worker_keys *make_keys(size_t number, bool has_tls)
{
    struct worker_keys *keys = calloc(1, sizeof(*keys));

    assert_non_null(keys);
    keys->auth = &auths[number];
    keys->tls = has_tls ? &tlses[number] : NULL;
    return keys;
}

static int setup(void **state UNUSED)
{
    memset(&fake, 0, sizeof(fake));
    memset((void *)&metrics, 0, sizeof(metrics));
    fake.mono_us = 1000 * S;
    fake.real_us = 5000 * S;
    config = (struct config){.redis_url = "redis://r",
                             .database_url = "db",
                             .lists_url = "",
                             .currency = "EUR",
                             .order_timeout_ms = 5000,
                             .lock_lease_ms = 1,
                             .lock_wait_ms = 2,
                             .batch_max = 3,
                             .batch_vouchers = 4,
                             .queue_max = 5,
                             .early_release = CONFIG_OFF,
                             .ticket_secret = "secret",
                             .ticket_ttl_s = 6,
                             .tls_priority = "priority",
                             .connections_per_ip = 7,
                             .idle_timeout_s = 8,
                             .request_timeout_s = 9,
                             .rate_per_user = 1,
                             .rate_per_ip = 12,
                             .drain_s = 2,
                             .trusted_proxies = "10.0.0.0/8"};
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, setup, NULL, NULL)

static enum rlock_status start(size_t index, struct worker **ret_worker,
                               struct rlock_err *reterr)
{
    const struct worker_options options = {.config = &config,
                                           .keys = make_keys(0, true),
                                           .index = index,
                                           .seller = index == 0 ? NULL : &fake.seller,
                                           .listen_fd = 77,
                                           .connections_max = 100,
                                           .listeners_max = 20,
                                           .metrics = &metrics,
                                           .all_metrics = &all_metrics};

    return worker_start(&options, ret_worker, reterr);
}

#define OPENED                                                                           \
    "locks(redis://r,2500) probe(1) conn({revoked:},2500) conn(seckill:stats,2500) "     \
    "store(db,none,2500,4,1,2) "
#define SALE                                                                             \
    "stats(seckill:stats,1) catalogue feed checkout(catalogue,1,2,5000,3,4,5,0,0) "      \
    "handover(none,checkout) "
#define LIMITERS "limiter(1) limiter(12) "
#define API      LIMITERS "api(auth0,{revoked:},secret,6,1,12,5000,5,0,0) "
#define KEYS     "auth_free(auth0) tls_free(tls0) "
#define HTTP     "http(77,tls0,priority,100,7,20,8,9,40,1) "
#define CLOSED                                                                           \
    "http_stop store_close probe_close locks_close catalogue_close feed_close "          \
    "checkout_close handover_close "                                                     \
    "close({revoked:}) close(seckill:stats) stats_close "
#define FREED "http_free api_free limiter_free(1) limiter_free(12) "
#define TURN                                                                             \
    "rlock_flush http_turn rlock_flush catalogue_turn checkout_turn handover_turn "      \
    "flush({revoked:}) flush(seckill:stats) store_flush "
/* the turn of a worker that hands its orders over */
#define OTHER_TURN                                                                       \
    "http_turn catalogue_turn handover_turn flush({revoked:}) flush(seckill:stats) "     \
    "store_flush "
#define OTHER_CLOSED                                                                     \
    "http_stop store_close catalogue_close feed_close handover_close "                   \
    "close({revoked:}) close(seckill:stats) stats_close "

static struct worker *started(size_t index)
{
    struct worker *worker = NULL;

    assert_int_equal(start(index, &worker, NULL), RLOCK_OK);
    fake.trace[0] = '\0';
    return worker;
}

static void turn(void)
{
    uv_run(fake.store_options.loop, UV_RUN_NOWAIT);
}

static void assert_woken(void)
{
    struct pollfd events = {.fd = uv_backend_fd(fake.store_options.loop),
                            .events = POLLIN};

    assert_int_equal(poll(&events, 1, 0), 1);
}

static void wake(struct worker *worker)
{
    worker_wake(worker);
    if (worker_last_turn_us(worker) > 0)
        assert_woken();
    turn();
}

static void end(struct worker *worker)
{
    char name[16];

    fake.in_flight = 0;
    fake.is_handing_over = false;
    fake.counts = (struct http_counts){0};
    worker_stop(worker);
    fake.trace[0] = '\0';
    worker_join(worker);
    pthread_getname_np(pthread_self(), name, sizeof(name));
    ASSERT_BEGINS(name, "loop ");
    metrics_clear(&metrics);
}

/* -- the start and its failures -- */

CASE(test_start__gives_each_part_its_settings)
{
    struct worker *worker = NULL;
    char name[16];

    assert_int_equal(start(0, &worker, NULL), RLOCK_OK);
    assert_trace(OPENED SALE API HTTP);
    worker_stop(worker);
    worker_join(worker);
    assert_trace(TURN "clock_differs(0,0) webhooks store_check "
                      "http_quiesce feed_drain " TURN CLOSED FREED "auth_free(auth0) ");
    pthread_getname_np(pthread_self(), name, sizeof(name));
    assert_string_equal(name, "loop 0");
    metrics_clear(&metrics);
}

CASE(test_start__of_another_worker_and_other_settings)
{
    struct worker *worker = NULL;
    char name[16];

    config.redis_url = "redis-cluster://r";
    config.lists_url = "lists";
    config.require_durability = 1;
    config.redis_down = CONFIG_BYPASS;
    config.dev_login = 1;
    config.rate_per_user = 0;
    config.rate_per_ip = 1;
    assert_int_equal(start(3, &worker, NULL), RLOCK_OK);
    assert_trace("conn({revoked:},2500) conn(seckill:stats,2500) "
                 "store(db,lists,2500,0,0,3) "
                 "stats(seckill:stats,0) catalogue feed handover(seller,none) "
                 "limiter(1) api(auth0,{revoked:},secret,6,0,1,5000,5,1,1) " HTTP);
    worker_stop(worker);
    worker_join(worker);
    assert_trace(OTHER_TURN "store_check http_quiesce feed_drain " OTHER_TURN OTHER_CLOSED
                            "http_free api_free limiter_free(1) "
                            "auth_free(auth0) ");
    pthread_getname_np(pthread_self(), name, sizeof(name));
    assert_string_equal(name, "loop 3");
    assert_int_equal(metrics.log_dropped, 0);
    metrics_clear(&metrics);
}

CASE(test_start__of_a_seller_with_other_settings)
{
    struct worker *worker;

    config.redis_url = "redis-cluster://r";
    config.redis_down = CONFIG_BYPASS;
    config.early_release = CONFIG_AUTO;
    assert_int_equal(start(0, &worker, NULL), RLOCK_OK);
    ASSERT_CONTAINS(fake.trace, "locks(redis-cluster://r,2500) probe(16) ");
    ASSERT_CONTAINS(fake.trace, "checkout(catalogue,1,2,5000,3,4,5,1,1) ");
    end(worker);
}

CASE(test_start__that_fails_closes_what_it_opened)
{
    static const struct {
        const char *fails, *trace, *why;
        enum rlock_status status;
    } rows[] = {
        {"loop", KEYS, "cannot create an event loop", RLOCK_NO_MEMORY},
        {"locks", "locks(redis://r,2500) " KEYS, "SECKILL_REDIS_URL: locks failed",
         RLOCK_IO},
        {"conn0", "probe_close locks_close " KEYS, "SECKILL_REDIS_URL: conn0 failed",
         RLOCK_IO},
        {"conn1", "probe_close locks_close close({revoked:}) " KEYS,
         "SECKILL_REDIS_URL: conn1 failed", RLOCK_IO},
        {"store", "locks_close close({revoked:}) close(seckill:stats) " KEYS,
         "store failed", RLOCK_IO},
        {"stats",
         "store_close probe_close locks_close catalogue_close feed_close "
         "close({revoked:}) close(seckill:stats) " KEYS,
         "", RLOCK_NO_MEMORY},
        {"catalogue",
         "store_close probe_close locks_close feed_close "
         "close({revoked:}) "
         "close(seckill:stats) stats_close " KEYS,
         "", RLOCK_NO_MEMORY},
        {"feed",
         "store_close probe_close locks_close catalogue_close "
         "close({revoked:}) close(seckill:stats) stats_close " KEYS,
         "", RLOCK_NO_MEMORY},
        {"checkout",
         "store_close probe_close locks_close catalogue_close feed_close "
         "close({revoked:}) "
         "close(seckill:stats) stats_close " KEYS,
         "", RLOCK_NO_MEMORY},
        {"handover",
         "store_close probe_close locks_close catalogue_close feed_close checkout_close "
         "close({revoked:}) close(seckill:stats) stats_close " KEYS,
         "", RLOCK_NO_MEMORY},
        {"user_limiter", "stats_close limiter_free(12) " KEYS, "", RLOCK_NO_MEMORY},
        {"address_limiter", "stats_close limiter_free(1) " KEYS, "", RLOCK_NO_MEMORY},
        {"api", "stats_close limiter_free(1) limiter_free(12) " KEYS, "",
         RLOCK_NO_MEMORY},
        {"http",
         HTTP
         "store_close probe_close locks_close catalogue_close feed_close checkout_close "
         "handover_close close({revoked:}) close(seckill:stats) stats_close api_free "
         "limiter_free(1) limiter_free(12) " KEYS,
         "http failed", RLOCK_IO},
        {"thread", HTTP CLOSED FREED "auth_free(auth0) ",
         "cannot start a thread: Resource temporarily unavailable", RLOCK_NO_MEMORY},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct worker *worker = NULL;
        struct rlock_err err = {0};
        const char *ends;

        setup(NULL);
        fake.fails = rows[i].fails;
        assert_int_equal(start(0, &worker, &err), rows[i].status);
        assert_null(worker);
        assert_string_equal(err.text, rows[i].why);
        ends = strlen(fake.trace) >= strlen(rows[i].trace)
                   ? fake.trace + strlen(fake.trace) - strlen(rows[i].trace)
                   : "";
        if (strcmp(ends, rows[i].trace) != 0)
            fail_msg("without %s: expected the end \"%s\", got \"%s\"", rows[i].fails,
                     rows[i].trace, fake.trace);
    }
}

CASE(test_start__refuses_invalid_proxies)
{
    struct worker *worker = NULL;
    struct rlock_err err = {0};

    config.trusted_proxies = "10.0.0.0/33";
    assert_int_equal(start(0, &worker, &err), RLOCK_INVALID);
    ASSERT_BEGINS(err.text, "SECKILL_TRUSTED_PROXIES: ");
    assert_null(strstr(fake.trace, "http("));
    ASSERT_CONTAINS(fake.trace, "store_close");
}

/* -- the state of the servers -- */

CASE(test_store_state__is_logged_and_counted)
{
    struct worker *worker = started(0);
    const struct store_options *store = &fake.store_options;
    const struct rlock_err why = {.text = "gone", .status = RLOCK_REFUSED};

    fake.log[0] = '\0';
    turn();
    fake.trace[0] = '\0';
    store->on_state(true, NULL, store->arg);
    assert_log("2 dependency_up dependency=postgres worker=0\n");
    assert_int_equal(metrics.postgres_up, 1);
    assert_int_equal(metrics.postgres_failure, 0);
    wake(worker);
    assert_trace(TURN "clock_differs(0,5) store_check ");
    store->on_state(false, &why, store->arg);
    assert_log("1 dependency_down dependency=postgres worker=0 why=\"gone\"\n");
    assert_int_equal(metrics.postgres_up, 0);
    assert_int_equal(metrics.postgres_failure, RLOCK_REFUSED);
    store->on_lists_state(false, &why, store->arg);
    assert_log("1 dependency_down dependency=lists worker=0 why=\"gone\"\n");
    assert_int_equal(metrics.lists, LISTS_DOWN);
    store->on_lists_state(false, &why, store->arg);
    assert_log("");
    store->on_lists_state(true, NULL, store->arg);
    assert_log("2 dependency_up dependency=lists worker=0\n");
    assert_int_equal(metrics.lists, LISTS_UP);
    store->on_voucher_changed(9, store->arg);
    assert_trace("invalidate(9) ");
    end(worker);
}

CASE(test_voucher_changed__without_a_catalogue)
{
    struct worker *worker = NULL;

    fake.fails = "catalogue";
    assert_int_equal(start(0, &worker, NULL), RLOCK_NO_MEMORY);
    assert_null(strstr(fake.trace, "invalidate"));
}

CASE(test_locks_state__is_logged_and_counted)
{
    static const struct {
        enum lock_probe_state state;
        enum config_redis_down redis_down;
        int is_up, is_degraded, is_bypassing;
    } rows[] = {
        {LOCK_PROBE_UP, CONFIG_BYPASS, 1, 0, 0},
        {LOCK_PROBE_DEGRADED, CONFIG_BYPASS, 0, 1, 1},
        {LOCK_PROBE_DOWN, CONFIG_BYPASS, 0, 0, 1},
        {LOCK_PROBE_DOWN, CONFIG_REJECT, 0, 0, 0},
        {LOCK_PROBE_UP, CONFIG_REJECT, 1, 0, 0},
    };
    struct worker *worker = started(0);
    const struct rlock_err why = {.text = "gone", .status = RLOCK_IO};

    fake.log[0] = '\0';
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        config.redis_down = rows[i].redis_down;
        fake.probe->on_state(rows[i].state, &why, fake.probe->arg);
        assert_log(rows[i].is_up == 1
                       ? "2 dependency_up dependency=redis worker=0\n"
                       : "1 dependency_down dependency=redis worker=0 why=\"gone\"\n");
        assert_int_equal(metrics.redis_up, rows[i].is_up);
        assert_int_equal(metrics.redis_degraded, rows[i].is_degraded);
        assert_int_equal(metrics.bypassing, rows[i].is_bypassing);
    }
    end(worker);
}

CASE(test_revocations_state__is_that_of_redis)
{
    struct worker *worker = started(1);
    const struct redis_conn_options *conn = &fake.redis_options;
    const struct rlock_err why = {.text = "gone", .status = RLOCK_IO};

    config.redis_down = CONFIG_BYPASS;
    assert_string_equal(conn->key, "{revoked:}");
    fake.log[0] = '\0';
    conn->on_state(true, NULL, conn->arg);
    assert_log("2 dependency_up dependency=redis worker=1\n");
    assert_int_equal(metrics.redis_up, 1);
    conn->on_state(false, &why, conn->arg);
    assert_log("1 dependency_down dependency=redis worker=1 why=\"gone\"\n");
    assert_int_equal(metrics.redis_up, 0);
    assert_int_equal(metrics.bypassing, 0);
    end(worker);
}

/* -- turns -- */

CASE(test_turn__publishes_the_state_once_a_second)
{
    struct worker *worker = started(0);

    fake.lock_stats =
        (struct rlock_stats){.held = 1, .failed = 2, .reconnects = 4, .holds.sum_us = 5};
    for (int i = 0; i < RLOCK_TIME_BUCKETS; i++)
        fake.lock_stats.holds.buckets[i] = 100 + (uint64_t)i;
    wake(worker);
    assert_trace(TURN "clock_differs(0,0) webhooks store_check ");
    assert_string_equal(metrics.state,
                        "{\"at_ms\":5000000,\"vouchers\":3,\"user_limits_permille\":10,"
                        "\"address_limits_permille\":120,\"queues\":[{\"is\":\"queue\"}],"
                        "\"http\":{\"is\":\"http\"},\"postgres\":{\"is\":\"store\"}}");
    assert_int_equal(metrics.locks_held, 1);
    assert_int_equal(metrics.lock_failed, 2);
    assert_int_equal(metrics.redis_reconnects, 4);
    assert_int_equal(metrics.lock_holds.sum, 5);
    for (int i = 0; i < RLOCK_TIME_BUCKETS; i++)
        assert_int_equal(metrics.lock_holds.buckets[i], 100 + i);
    fake.mono_us += S - 1;
    wake(worker);
    assert_trace(TURN);
    assert_int_equal(worker_last_turn_us(worker), fake.mono_us);
    fake.mono_us++;
    wake(worker);
    assert_trace(TURN "clock_differs(0,5) store_check ");
    end(worker);
}

CASE(test_turn__copies_counters_and_logs_changes)
{
    struct worker *worker = started(0);

    fake.counts.connections = 6;
    fake.durability = DURABILITY_NONE;
    assert_int_equal(worker_last_turn_us(worker), 0);
    wake(worker);
    assert_int_equal(metrics.connections, 6);
    assert_int_equal(metrics.log_dropped, 17);
    assert_int_equal(metrics.durability, DURABILITY_NONE);
    assert_log("1 durability level=none before=unknown\n");
    fake.durability = DURABILITY_LOCAL;
    wake(worker);
    assert_log("2 durability level=local before=none\n");
    wake(worker);
    assert_log("");
    fake.lock_stats.fence_restarts = 2;
    for (int i = 0; i < 2; i++) {
        fake.mono_us += S;
        wake(worker);
        assert_log(i == 0 ? "1 fence_restarted worker=0\n" : "");
        assert_int_equal(metrics.fence_restarts, 2);
    }
    end(worker);
}

CASE(test_turn__logs_when_the_clocks_differ)
{
    static const struct {
        bool differs;
        const char *log;
    } rows[] = {{false, ""},
                {true, "1 clock_differs difference_us=3000000\n"},
                {true, ""},
                {false, "2 clock_agrees difference_us=5\n"},
                {false, ""}};
    struct worker *worker = started(0);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fake.clock_differs = rows[i].differs;
        fake.mono_us += S;
        wake(worker);
        assert_log(rows[i].log);
        assert_int_equal(metrics.clock_difference_us, rows[i].differs ? 3000000 : 5);
    }
    ASSERT_CONTAINS(fake.trace, "clock_differs(1,3000000) ");
    end(worker);
}

CASE(test_turn__reads_the_endpoints_every_10_s)
{
    static const struct webhook_state endpoint = {.id = 7, .is_disabled = true};
    struct worker *worker = started(0);

    wake(worker);
    ASSERT_CONTAINS(fake.trace, "webhooks ");
    fake.on_webhook_states(RLOCK_OK, &endpoint, 1, fake.on_webhook_states_arg);
    ASSERT_CONTAINS(metrics.webhooks, "\nseckill_webhook_disabled{webhook_id=\"7\"} 1\n");
    for (int second = 1; second <= 10; second++) {
        fake.trace[0] = '\0';
        fake.mono_us += S;
        wake(worker);
        assert_int_equal(strstr(fake.trace, "webhooks ") != NULL, second == 10);
    }
    fake.on_webhook_states(RLOCK_TIMEOUT, NULL, 0, fake.on_webhook_states_arg);
    assert_null(strstr(metrics.webhooks, "webhook_id"));
    fake.trace[0] = '\0';
    fake.mono_us += S;
    wake(worker);
    ASSERT_CONTAINS(fake.trace, "webhooks ");
    end(worker);
}

/* Only the first worker logs the state of the database and of its clock, because the workers share
   both. */
CASE(test_turn__of_another_worker_notes_no_database)
{
    struct worker *worker = started(1);

    fake.durability = DURABILITY_LOCAL;
    fake.clock_differs = true;
    wake(worker);
    assert_trace(OTHER_TURN "store_check ");
    assert_log("");
    assert_int_equal(metrics.log_dropped, 0);
    assert_int_equal(metrics.durability, DURABILITY_UNKNOWN);
    end(worker);
}

/* -- keys -- */

CASE(test_set_keys__replaces_them_in_the_next_turn)
{
    struct worker *worker = started(1);

    wake(worker);
    fake.trace[0] = '\0';
    worker_set_keys(worker, make_keys(1, true));
    assert_trace("");
    assert_woken();
    turn();
    assert_trace(OTHER_TURN "set_tls(tls1) set_auth(auth1) auth_free(auth0) ");
    wake(worker);
    assert_trace(OTHER_TURN);
    worker_set_keys(worker, make_keys(2, true));
    worker_set_keys(worker, make_keys(0, false));
    assert_trace("auth_free(auth2) tls_free(tls2) ");
    turn();
    assert_trace(OTHER_TURN "set_auth(auth0) auth_free(auth1) ");
    worker_set_keys(worker, make_keys(2, true));
    fake.trace[0] = '\0';
    worker_stop(worker);
    worker_join(worker);
    ASSERT_CONTAINS(fake.trace, "http_quiesce feed_drain set_tls(tls2) ");
    ASSERT_CONTAINS(fake.trace, "limiter_free(12) auth_free(auth2) ");
    metrics_clear(&metrics);
}

/* -- shutdown -- */

CASE(test_stop__waits_for_requests_and_clients)
{
    static const struct {
        struct http_counts http;
        size_t in_flight;
        int64_t for_us;
        bool is_handing_over;
        bool is_drained;
    } rows[] = {
        {{.pending = 1}, 0, 60 * S, false, false},
        {{0}, 1, 60 * S, false, false},
        {{0}, 0, 60 * S, true, false},
        {{0}, 0, 0, false, true},
        {{.connections = 1}, 0, 2 * S - 1, false, false},
        {{.connections = 1}, 0, 2 * S, false, true},
        {{.connections = 1, .open = 1}, 0, 5 * S, false, false},
        {{.connections = 1, .open = 1}, 0, 5 * S + 1, false, true},
        {{.pending = 1, .connections = 1, .open = 1}, 0, 60 * S, false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct worker *worker;
        bool is_drained;

        setup(NULL);
        worker = started(0);
        fake.counts = rows[i].http;
        fake.in_flight = rows[i].in_flight;
        fake.is_handing_over = rows[i].is_handing_over;
        turn();
        assert_null(strstr(fake.trace, "store_close"));
        fake.counts.pending = 1;
        worker_stop(worker);
        assert_woken();
        turn();
        ASSERT_CONTAINS(fake.trace, "http_quiesce ");
        turn();
        assert_null(strstr(fake.trace, "store_close"));
        fake.counts.pending = rows[i].http.pending;
        fake.mono_us += rows[i].for_us;
        fake.trace[0] = '\0';
        wake(worker);
        is_drained = strstr(fake.trace, CLOSED) != NULL;
        if (is_drained != rows[i].is_drained)
            fail_msg("row %zu: expected that it is %s", i,
                     rows[i].is_drained ? "drained" : "not drained");
        assert_null(strstr(fake.trace, "http_quiesce"));
        if (is_drained) {
            worker_join(worker);
            metrics_clear(&metrics);
        } else {
            end(worker);
        }
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
