/*
 * test_worker.c - the start, the turns and the shutdown of a worker whose parts are fakes.
 *
 * Each call of a part is a word of a trace. The thread of the worker is that of the test, and the
 * clocks stand still.
 */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): RTLD_NEXT
#include "app/cmd/worker.h"

#include "app/api/api.h"
#include "app/cmd/lock_probe.h"
#include "app/core/log.h"
#include "app/http/http.h"
#include "app/test/append.h"
#include "base/clock.h"
#include "test/case_list.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define S               INT64_C(1000000)

/* clang-format off */
struct api { int unused; };
struct auth { const char *name; };
struct catalogue { int unused; };
struct checkout { int unused; };
struct http { int unused; };
struct http_tls { const char *name; };
struct limiter { int64_t rate; };
struct redis_conn { const char *key; };
struct rlock_client { int unused; };
struct stats { int unused; };
struct store { int unused; };
/* clang-format on */

static struct {
    char trace[4000], log[1000];
    const char *fails; /* the call that fails */
    int64_t mono_us, real_us;
    size_t limiter_count, conn_count;
    struct api api;
    struct catalogue catalogue;
    struct checkout checkout;
    struct http http;
    struct limiter limiters[2];
    struct redis_conn conns[2];
    struct rlock_client locks;
    struct stats stats;
    struct store store;
    /* what the parts are given */
    struct http_options http_options;
    struct store_options store_options;
    struct lock_probe *probe;
    void *(*thread)(void *);
    void *thread_arg;
    /* what the parts answer */
    struct http_counts counts;
    struct rlock_stats lock_stats;
    size_t in_flight;
    enum durability durability;
    bool clock_differs;
} fake;

/* -- the trace -- */

#define DID(...) append(fake.trace, sizeof(fake.trace), __VA_ARGS__)

static void assert_trace(const char *wanted)
{
    if (strcmp(fake.trace, wanted) != 0) {
        asserts_print_difference(fake.trace, wanted);
        fail_msg("expected\n  \"%s\", got\n  \"%s\"", wanted, fake.trace);
    }
    fake.trace[0] = '\0';
}

static void assert_log(const char *wanted)
{
    if (strcmp(fake.log, wanted) != 0)
        fail_msg("expected the log \"%s\", got \"%s\"", wanted, fake.log);
    fake.log[0] = '\0';
}

static bool fails(const char *name)
{
    return fake.fails != NULL && strcmp(fake.fails, name) == 0;
}

static enum rlock_status opened(const char *name, struct rlock_err *reterr)
{
    return fails(name) ? err_set(reterr, RLOCK_IO, "%s failed", name) : RLOCK_OK;
}

/* -- clocks and the log -- */

int64_t clock_mono_us(void)
{
    return fake.mono_us;
}

int64_t clock_real_us(void)
{
    return fake.real_us;
}

uint64_t clock_ms_until(int64_t at_us)
{
    return at_us > fake.mono_us ? (uint64_t)(at_us - fake.mono_us + 999) / 1000 : 0;
}

int64_t clock_shift_us(int64_t add_us)
{
    fake.mono_us += add_us;
    return add_us;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char words[500];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    append(fake.log, sizeof(fake.log), "%d %s %s\n", (int)level, event, words);
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES])
{
    snprintf(ret_copy, LOG_TEXT_BYTES, "%s", text);
    return ret_copy;
}

uint64_t log_dropped(void)
{
    return 17;
}

int uv_loop_init(uv_loop_t *loop)
{
    int (*real)(uv_loop_t *);

    *(void **)&real = dlsym(RTLD_NEXT, "uv_loop_init");
    return fails("loop") ? UV_ENOMEM : real(loop);
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): reserved names
int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes UNUSED,
                   void *(*start)(void *), void *arg)
{
    *ret_thread = 0;
    fake.thread = start;
    fake.thread_arg = arg;
    return fails("thread") ? EAGAIN : 0;
}

/* Runs what the thread would. */
int pthread_join(pthread_t thread UNUSED, void **ret_value UNUSED)
{
    fake.thread(fake.thread_arg);
    assert_int_equal(uv_loop_alive(fake.store_options.loop), 0);
    return 0;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* -- Redis -- */

enum rlock_status rlock_client_open(const struct rlock_client_options *options,
                                    struct rlock_client **ret_client,
                                    struct rlock_err *reterr)
{
    enum rlock_status status = opened("locks", reterr);

    assert_ptr_equal(options->loop, fake.store_options.loop == NULL
                                        ? options->loop
                                        : fake.store_options.loop);
    assert_ptr_equal(options->on_state, lock_probe_on_connection);
    fake.probe = options->arg;
    if (status == RLOCK_OK)
        *ret_client = &fake.locks;
    DID("locks(%s,%u) ", options->redis_url, options->timeout_ms);
    return status;
}

/* clang-format off */

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names

/* A part that is closed if it was opened. */
#define CLOSES(function, part) \
    void function(struct part *part) \
    { \
        if (part != NULL) \
            DID(#function " "); \
    }
#define CLOSES_LATER(function, type, part, ...) \
    void function(struct type *part, void (*closed)(void *), void *arg) \
    { \
        assert_true(closed == NULL && arg == NULL); \
        if (part != NULL) \
            DID(__VA_ARGS__); \
    }

/* A call whose only argument is the part. */
#define CALLED(function, part) \
    void function(struct part *part) \
    { \
        assert_ptr_equal(part, &fake.part); \
        DID(#function " "); \
    }
#define PRINTS(function, part, text) \
    void function(const struct part *part, FILE *out) \
    { \
        assert_ptr_equal(part, &fake.part); \
        fputs(text, out); \
    }

CLOSES(api_free, api)
CLOSES(catalogue_close, catalogue)
CLOSES(checkout_close, checkout)
CLOSES(http_free, http)
CLOSES(http_stop, http)
CLOSES(stats_close, stats)
CLOSES_LATER(redis_conn_close, redis_conn, conn, "close(%s) ", conn->key)
CLOSES_LATER(rlock_client_close, rlock_client, client, "locks_close ")
CLOSES_LATER(store_close, store, store, "store_close ")
CALLED(catalogue_turn, catalogue)
CALLED(checkout_turn, checkout)
CALLED(http_quiesce, http)
CALLED(http_turn, http)
CALLED(store_check, store)
CALLED(store_flush, store)
PRINTS(checkout_print_queues, checkout, "{\"is\":\"queue\"}")
PRINTS(http_print, http, "{\"is\":\"http\"}")
PRINTS(store_print, store, "{\"is\":\"store\"}")
// NOLINTEND(bugprone-macro-parentheses)
/* clang-format on */

void rlock_flush(struct rlock_client *client)
{
    assert_ptr_equal(client, &fake.locks);
    DID("rlock_flush ");
}

bool api_reads_body(struct http_request *http UNUSED, void *arg UNUSED)
{
    return false;
}

void api_handle(struct http_request *http UNUSED, void *arg UNUSED)
{
}

size_t api_print_event(struct http_listener *listener UNUSED,
                       char ret_event[HTTP_EVENT_BYTES] UNUSED, void *arg UNUSED)
{
    return 0;
}

void api_answered(struct http_request *http UNUSED, unsigned status UNUSED,
                  void *arg UNUSED)
{
}

void rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats)
{
    assert_ptr_equal(client, &fake.locks);
    *ret_stats = fake.lock_stats;
}

void lock_probe_start(struct lock_probe *probe, uv_loop_t *loop UNUSED)
{
    assert_ptr_equal(probe, fake.probe);
    assert_ptr_equal(probe->locks, &fake.locks);
    DID("probe(%u) ", probe->count);
}

void lock_probe_on_connection(bool is_up UNUSED, const struct rlock_err *why UNUSED,
                              void *arg UNUSED)
{
}

void lock_probe_close(struct lock_probe *probe)
{
    if (probe->locks != NULL)
        DID("probe_close ");
}

enum rlock_status redis_conn_open(const struct redis_conn_options *options,
                                  struct redis_conn **ret_conn, struct rlock_err *reterr)
{
    char name[20];
    enum rlock_status status;

    snprintf(name, sizeof(name), "conn%zu", fake.conn_count);
    status = opened(name, reterr);
    assert_null(options->sibling);
    if (status == RLOCK_OK) {
        *ret_conn = &fake.conns[fake.conn_count++];
        (*ret_conn)->key = options->key;
    }
    DID("conn(%s,%u) ", options->key, options->timeout_ms);
    return status;
}

void redis_conn_flush(struct redis_conn *conn)
{
    DID("flush(%s) ", conn->key);
}

/* -- the store and the sale -- */

enum rlock_status store_open(const struct store_options *options,
                             struct store **ret_store, struct rlock_err *reterr)
{
    enum rlock_status status = opened("store", reterr);

    fake.store_options = *options;
    if (status == RLOCK_OK)
        *ret_store = &fake.store;
    DID("store(%s,%s,%u,%u,%d,%d) ", options->database_url,
        options->lists_url != NULL ? options->lists_url : "none", options->timeout_ms,
        options->lanes, options->expires_orders, (int)options->required);
    return status;
}

enum durability store_durability(const struct store *store)
{
    assert_ptr_equal(store, &fake.store);
    return fake.durability;
}

struct catalogue *catalogue_create(uv_loop_t *loop, struct store *store,
                                   struct metrics *metrics)
{
    assert_ptr_equal(loop, fake.store_options.loop);
    assert_ptr_equal(store, &fake.store);
    assert_ptr_equal(metrics, fake.store_options.metrics);
    DID("catalogue ");
    return fails("catalogue") ? NULL : &fake.catalogue;
}

void catalogue_invalidate(struct catalogue *catalogue, int64_t id)
{
    assert_ptr_equal(catalogue, &fake.catalogue);
    DID("invalidate(%d) ", (int)id);
}

bool catalogue_clock_differs(const struct catalogue *catalogue, bool did_differ,
                             int64_t *ret_difference_us)
{
    assert_ptr_equal(catalogue, &fake.catalogue);
    DID("clock_differs(%d,%d) ", did_differ, (int)*ret_difference_us);
    *ret_difference_us = fake.clock_differs ? 3000000 : 5;
    return fake.clock_differs;
}

size_t catalogue_count(const struct catalogue *catalogue)
{
    assert_ptr_equal(catalogue, &fake.catalogue);
    return 3;
}

struct checkout *checkout_create(const struct checkout_options *options)
{
    assert_ptr_equal(options->loop, fake.store_options.loop);
    assert_ptr_equal(options->locks, &fake.locks);
    assert_ptr_equal(options->store, &fake.store);
    assert_ptr_equal(options->metrics, fake.store_options.metrics);
    DID("checkout(%s,%u,%u,%u,%zu,%zu,%zu,%d,%d) ",
        options->catalogue == &fake.catalogue ? "catalogue" : "none", options->lease_ms,
        options->lock_wait_ms, options->timeout_ms, options->batch_max,
        options->vouchers_max, options->queue_max, options->bypass_locks,
        options->early_release != NULL);
    return fails("checkout") ? NULL : &fake.checkout;
}

size_t checkout_in_flight(const struct checkout *checkout)
{
    assert_ptr_equal(checkout, &fake.checkout);
    return fake.in_flight;
}

/* -- the API and HTTP -- */

struct stats *stats_open(const struct stats_options *options)
{
    assert_ptr_equal(options->loop, fake.store_options.loop);
    assert_non_null(options->all_metrics);
    DID("stats(%s,%d) ", options->conn->key, options->is_publisher);
    return fails("stats") ? NULL : &fake.stats;
}

struct limiter *limiter_create(int64_t rate_per_s)
{
    struct limiter *limiter = &fake.limiters[fake.limiter_count++];

    DID("limiter(%d) ", (int)rate_per_s);
    limiter->rate = rate_per_s;
    return fails(rate_per_s == 1 ? "user_limiter" : "address_limiter") ? NULL : limiter;
}

void limiter_free(struct limiter *limiter)
{
    if (limiter != NULL)
        DID("limiter_free(%d) ", (int)limiter->rate);
}

unsigned limiter_fill(const struct limiter *limiter, int64_t now_us)
{
    assert_int_equal(now_us, fake.mono_us);
    return limiter == NULL ? 0 : (unsigned)limiter->rate * 10;
}

const size_t api_context_bytes = 40;

struct api *api_create(const struct api_options *options)
{
    assert_ptr_equal(options->catalogue, &fake.catalogue);
    assert_ptr_equal(options->checkout, &fake.checkout);
    assert_ptr_equal(options->store, &fake.store);
    assert_ptr_equal(options->stats, &fake.stats);
    assert_ptr_equal(options->metrics, fake.store_options.metrics);
    assert_non_null(options->all_metrics);
    DID("api(%s,%s,%s,%d,%d,%d,%u,%zu,%d,%d) ", options->auth->name,
        options->revocations->key, options->tickets.secret, (int)options->tickets.ttl_s,
        options->user_limiter == NULL ? 0 : (int)options->user_limiter->rate,
        options->address_limiter == NULL ? 0 : (int)options->address_limiter->rate,
        options->timeout_ms, options->queue_max, options->bypass_locks,
        options->dev_login);
    return fails("api") ? NULL : &fake.api;
}

void api_set_auth(struct api *api, const struct auth *auth)
{
    assert_ptr_equal(api, &fake.api);
    DID("set_auth(%s) ", auth->name);
}

enum rlock_status http_start(const struct http_options *options, struct http **ret_http,
                             struct rlock_err *reterr)
{
    enum rlock_status status = opened("http", reterr);

    fake.http_options = *options;
    if (status == RLOCK_OK)
        *ret_http = &fake.http;
    assert_ptr_equal(options->loop, fake.store_options.loop);
    assert_ptr_equal(options->arg, &fake.api);
    assert_ptr_equal(options->reads_body, api_reads_body);
    assert_ptr_equal(options->handle, api_handle);
    assert_ptr_equal(options->print_event, api_print_event);
    assert_ptr_equal(options->answered, api_answered);
    DID("http(%d,%s,%s,%zu,%zu,%zu,%u,%u,%zu,%zu) ", options->listen_fd,
        options->tls != NULL ? options->tls->name : "none", options->tls_priority,
        options->connections_max, options->connections_per_address,
        options->listeners_max, options->idle_timeout_s, options->request_timeout_s,
        options->context_bytes, options->trusted_proxies.count);
    return status;
}

struct http_counts http_counts(const struct http *http)
{
    assert_ptr_equal(http, &fake.http);
    return fake.counts;
}

void http_set_tls(struct http *http, struct http_tls *tls)
{
    assert_ptr_equal(http, &fake.http);
    DID("set_tls(%s) ", tls->name);
}

void http_tls_free(struct http_tls *tls)
{
    if (tls != NULL)
        DID("tls_free(%s) ", tls->name);
}

void auth_free(struct auth *auth)
{
    if (auth != NULL)
        DID("auth_free(%s) ", auth->name);
}

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
                             .order_timeout_ms = 5000,
                             .lock_lease_ms = 1,
                             .lock_wait_ms = 2,
                             .batch_max = 3,
                             .batch_vouchers = 4,
                             .queue_max = 5,
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
    static struct early_release *const none = NULL;
    const struct worker_options options = {.config = &config,
                                           .keys = make_keys(0, true),
                                           .index = index,
                                           .listen_fd = 77,
                                           .connections_max = 100,
                                           .listeners_max = 20,
                                           .metrics = &metrics,
                                           .all_metrics = &all_metrics,
                                           .early_release = none};

    return worker_start(&options, ret_worker, reterr);
}

#define OPENED                                                                           \
    "locks(redis://r,2500) probe(1) conn({revoked:},2500) conn(seckill:stats,2500) "     \
    "store(db,none,2500,4,1,2) "
#define SALE     "stats(seckill:stats,1) catalogue checkout(catalogue,1,2,5000,3,4,5,0,0) "
#define LIMITERS "limiter(1) limiter(12) "
#define API      LIMITERS "api(auth0,{revoked:},secret,6,1,12,5000,5,0,0) "
#define KEYS     "auth_free(auth0) tls_free(tls0) "
#define HTTP     "http(77,tls0,priority,100,7,20,8,9,40,1) "
#define CLOSED                                                                           \
    "http_stop store_close probe_close locks_close catalogue_close checkout_close "      \
    "close({revoked:}) close(seckill:stats) stats_close "
#define FREED "http_free api_free limiter_free(1) limiter_free(12) "
#define TURN                                                                             \
    "rlock_flush http_turn rlock_flush catalogue_turn checkout_turn flush({revoked:}) "  \
    "flush(seckill:stats) store_flush "

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

/* The loop does not wait for other events. */
static void assert_woken(void)
{
    struct pollfd events = {.fd = uv_backend_fd(fake.store_options.loop),
                            .events = POLLIN};

    assert_int_equal(poll(&events, 1, 0), 1);
}

static void wake(struct worker *worker)
{
    worker_wake(worker);
    if (worker_last_turn_us(worker) > 0) /* libuv watches from the first turn on */
        assert_woken();
    turn();
}

/* With nothing in flight. */
static void end(struct worker *worker)
{
    char name[16];

    fake.in_flight = 0;
    fake.counts = (struct http_counts){0};
    worker_stop(worker);
    fake.trace[0] = '\0';
    worker_join(worker);
    pthread_getname_np(pthread_self(), name, sizeof(name));
    assert_int_equal(strncmp(name, "loop ", 5), 0);
    metrics_publish_state(&metrics, NULL);
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
    assert_trace(TURN "clock_differs(0,0) store_check http_quiesce " TURN CLOSED FREED
                      "auth_free(auth0) ");
    pthread_getname_np(pthread_self(), name, sizeof(name));
    assert_string_equal(name, "loop 0");
    metrics_publish_state(&metrics, NULL);
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
    assert_trace("locks(redis-cluster://r,2500) probe(16) conn({revoked:},2500) "
                 "conn(seckill:stats,2500) store(db,lists,2500,4,0,3) "
                 "stats(seckill:stats,0) catalogue "
                 "checkout(catalogue,1,2,5000,3,4,5,1,0) "
                 "limiter(1) api(auth0,{revoked:},secret,6,0,1,5000,5,1,1) " HTTP);
    worker_stop(worker);
    worker_join(worker);
    assert_trace(TURN "store_check http_quiesce " TURN CLOSED
                      "http_free api_free limiter_free(1) "
                      "auth_free(auth0) ");
    pthread_getname_np(pthread_self(), name, sizeof(name));
    assert_string_equal(name, "loop 3");
    assert_int_equal(metrics.log_dropped, 0);
    metrics_publish_state(&metrics, NULL);
}

/* What has been opened is closed, and nothing else. */
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
         "store_close probe_close locks_close catalogue_close checkout_close "
         "close({revoked:}) close(seckill:stats) " KEYS,
         "", RLOCK_NO_MEMORY},
        {"catalogue",
         "store_close probe_close locks_close checkout_close close({revoked:}) "
         "close(seckill:stats) stats_close " KEYS,
         "", RLOCK_NO_MEMORY},
        {"checkout",
         "store_close probe_close locks_close catalogue_close close({revoked:}) "
         "close(seckill:stats) stats_close " KEYS,
         "", RLOCK_NO_MEMORY},
        {"user_limiter", "stats_close limiter_free(12) " KEYS, "", RLOCK_NO_MEMORY},
        {"address_limiter", "stats_close limiter_free(1) " KEYS, "", RLOCK_NO_MEMORY},
        {"api", "stats_close limiter_free(1) limiter_free(12) " KEYS, "",
         RLOCK_NO_MEMORY},
        {"http",
         HTTP "store_close probe_close locks_close catalogue_close checkout_close "
              "close({revoked:}) close(seckill:stats) stats_close api_free "
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
    assert_int_equal(strncmp(err.text, "SECKILL_TRUSTED_PROXIES: ", 25), 0);
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
    wake(worker); /* the state is published in this turn */
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

/* The store may notify before there is a catalogue. */
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

/* -- turns -- */

CASE(test_turn__publishes_the_state_once_a_second)
{
    struct worker *worker = started(0);

    fake.lock_stats =
        (struct rlock_stats){.held = 1, .failed = 2, .reconnects = 4, .holds.sum_us = 5};
    for (int i = 0; i < RLOCK_TIME_BUCKETS; i++)
        fake.lock_stats.holds.buckets[i] = 100 + (uint64_t)i;
    wake(worker);
    assert_trace(TURN "clock_differs(0,0) store_check ");
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

/* Only the first worker does: there is one log, and one database. */
CASE(test_turn__of_another_worker_notes_no_database)
{
    struct worker *worker = started(1);

    fake.durability = DURABILITY_LOCAL;
    fake.clock_differs = true;
    wake(worker);
    assert_trace(TURN "store_check ");
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
    assert_trace(TURN "set_tls(tls1) set_auth(auth1) auth_free(auth0) ");
    wake(worker);
    assert_trace(TURN);
    worker_set_keys(worker, make_keys(2, true));
    worker_set_keys(worker, make_keys(0, false)); /* before those were used */
    assert_trace("auth_free(auth2) tls_free(tls2) ");
    turn();
    assert_trace(TURN "set_auth(auth0) auth_free(auth1) ");
    worker_set_keys(worker, make_keys(2, true));
    fake.trace[0] = '\0';
    worker_stop(worker);
    worker_join(worker);
    ASSERT_CONTAINS(fake.trace, "http_quiesce set_tls(tls2) ");
    ASSERT_CONTAINS(fake.trace, "limiter_free(12) auth_free(auth2) ");
    metrics_publish_state(&metrics, NULL);
}

/* -- shutdown -- */

CASE(test_stop__waits_for_requests_and_clients)
{
    static const struct {
        struct http_counts http;
        size_t in_flight;
        int64_t for_us;
        bool is_drained;
    } rows[] = {
        {{.pending = 1}, 0, 60 * S, false},
        {{0}, 1, 60 * S, false},
        {{0}, 0, 0, true},
        {{.connections = 1}, 0, 2 * S - 1, false},
        {{.connections = 1}, 0, 2 * S, true},
        {{.connections = 1, .open = 1}, 0, 5 * S, false},
        {{.connections = 1, .open = 1}, 0, 5 * S + 1, true},
        {{.pending = 1, .connections = 1, .open = 1}, 0, 60 * S, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct worker *worker;
        bool is_drained;

        setup(NULL);
        worker = started(0);
        fake.counts = rows[i].http;
        fake.in_flight = rows[i].in_flight;
        turn();
        assert_null(strstr(fake.trace, "store_close")); /* not stopped yet */
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
        assert_null(strstr(fake.trace, "http_quiesce")); /* only once */
        if (is_drained) {
            worker_join(worker);
            metrics_publish_state(&metrics, NULL);
        } else {
            end(worker);
        }
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
