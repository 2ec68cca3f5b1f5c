/*
 * fake_parts.h - the parts of a worker. Each call of a part adds a word to a trace.
 *
 * A test program includes this file in one source only, which defines _GNU_SOURCE. The functions of
 * the parts are defined here. The worker runs in the thread of the test, and the clocks stand
 * still.
 */
#ifndef TEST_FAKE_PARTS_H
#define TEST_FAKE_PARTS_H

#include "app/cmd/worker.h"

#include "app/api/api.h"
#include "app/cmd/lock_probe.h"
#include "app/core/log.h"
#include "app/http/http.h"
#include "app/sale/handover.h"
#include "app/test/append.h"
#include "base/clock.h"
#include "test/case_list.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define S INT64_C(1000000)

/* clang-format off */
struct api { int unused; };
struct auth { const char *name; };
struct catalogue { int unused; };
struct feed { int unused; };
struct checkout { int unused; };
struct handover { int unused; };
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
    const char *fails;
    int64_t mono_us, real_us;
    size_t limiter_count, conn_count;
    struct api api;
    struct catalogue catalogue;
    struct feed feed;
    struct checkout checkout;
    struct handover handover, seller;
    struct http http;
    struct limiter limiters[2];
    struct redis_conn conns[2];
    struct rlock_client locks;
    struct stats stats;
    struct store store;
    struct http_options http_options;
    struct store_options store_options;
    struct redis_conn_options redis_options;
    struct lock_probe *probe;
    store_webhook_states_cb on_webhook_states;
    void *on_webhook_states_arg;
    void *(*thread)(void *);
    void *thread_arg;
    struct http_counts counts;
    struct rlock_stats lock_stats;
    size_t in_flight;
    bool is_handing_over;
    enum durability durability;
    bool clock_differs;
} fake;

/* -- the trace -- */

#define DID(...) append(fake.trace, sizeof(fake.trace), __VA_ARGS__)

static inline void assert_trace(const char *wanted)
{
    assert_string_equal(fake.trace, wanted);
    fake.trace[0] = '\0';
}

static inline void assert_log(const char *wanted)
{
    assert_string_equal(fake.log, wanted);
    fake.log[0] = '\0';
}

static inline bool fails(const char *name)
{
    return fake.fails != NULL && strcmp(fake.fails, name) == 0;
}

static inline enum rlock_status opened(const char *name, struct rlock_err *reterr)
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
CLOSES(feed_close, feed)
CLOSES(checkout_close, checkout)
CLOSES(handover_close, handover)
CLOSES(http_free, http)
CLOSES(http_stop, http)
CLOSES(stats_close, stats)
CLOSES_LATER(redis_conn_close, redis_conn, conn, "close(%s) ", conn->key)
CLOSES_LATER(rlock_client_close, rlock_client, client, "locks_close ")
CLOSES_LATER(store_close, store, store, "store_close ")
CALLED(catalogue_turn, catalogue)
CALLED(checkout_turn, checkout)
CALLED(feed_drain, feed)
CALLED(handover_turn, handover)
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

size_t api_body_max(struct http_request *http UNUSED, void *arg UNUSED)
{
    return 0;
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
    if (options->on_state != NULL)
        fake.redis_options = *options;
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

void store_read_webhook_states(struct store *store, store_webhook_states_cb callback,
                               void *arg)
{
    assert_ptr_equal(store, &fake.store);
    fake.on_webhook_states = callback;
    fake.on_webhook_states_arg = arg;
    DID("webhooks ");
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

struct feed *feed_open(uv_loop_t *loop, struct store *store, struct metrics *metrics)
{
    assert_ptr_equal(loop, fake.store_options.loop);
    assert_ptr_equal(store, &fake.store);
    assert_ptr_equal(metrics, fake.store_options.metrics);
    DID("feed ");
    return fails("feed") ? NULL : &fake.feed;
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
        options->early_release);
    return fails("checkout") ? NULL : &fake.checkout;
}

struct handover *handover_create(const struct handover_options *options)
{
    assert_ptr_equal(options->loop, fake.store_options.loop);
    assert_ptr_equal(options->metrics, fake.store_options.metrics);
    assert_ptr_equal(options->catalogue, &fake.catalogue);
    DID("handover(%s,%s) ", options->seller == &fake.seller ? "seller" : "none",
        options->checkout == &fake.checkout ? "checkout" : "none");
    return fails("handover") ? NULL : &fake.handover;
}

bool handover_is_idle(const struct handover *handover)
{
    assert_ptr_equal(handover, &fake.handover);
    return !fake.is_handing_over;
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
    assert_ptr_equal(options->handover, &fake.handover);
    assert_ptr_equal(options->feed, &fake.feed);
    assert_ptr_equal(options->store, &fake.store);
    assert_ptr_equal(options->stats, &fake.stats);
    assert_ptr_equal(options->metrics, fake.store_options.metrics);
    assert_non_null(options->all_metrics);
    assert_string_equal(options->currency, "EUR");
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
    assert_ptr_equal(options->body_max, api_body_max);
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

#endif
