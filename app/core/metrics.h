/*
 * metrics.h - counters of one event loop, and the text that sums them over all loops.
 *
 * Each loop writes its own struct; any thread may read them all. Values are relaxed
 * atomics with one writer, so counting costs a plain load and store.
 */
#ifndef METRICS_H
#define METRICS_H

#include "app/core/model.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- what is counted -- */

/* X(enum word, label) */
#define METRICS_ROUTES(X)                                                                \
    X(NONE, "none")                                                                      \
    X(VOUCHERS, "/v1/vouchers")                                                          \
    X(VOUCHER, "/v1/vouchers/{id}")                                                      \
    X(RESTOCK, "/v1/vouchers/{id}/restock")                                              \
    X(TICKET, "/v1/vouchers/{id}/ticket")                                                \
    X(PLACE, "/v1/vouchers/{id}/orders")                                                 \
    X(ORDERS, "/v1/orders")                                                              \
    X(ORDER, "/v1/orders/{id}")                                                          \
    X(PAY, "/v1/orders/{id}/pay")                                                        \
    X(CANCEL, "/v1/orders/{id}/cancel")                                                  \
    X(REFUND, "/v1/orders/{id}/refund")                                                  \
    X(REDEEM, "/v1/orders/{id}/redeem")                                                  \
    X(ORDER_EVENTS, "/v1/orders/{id}/events")                                            \
    X(VOUCHER_EVENTS, "/v1/vouchers/{id}/events")                                        \
    X(HEALTHZ, "/healthz")                                                               \
    X(STATS, "/v1/stats")                                                                \
    X(DEV_TOKEN, "/v1/dev/token")                                                        \
    X(WEB, "/")                                                                          \
    X(READYZ, "/readyz")                                                                 \
    X(METRICS, "/metrics")                                                               \
    X(OPENAPI, "/openapi.yaml")

#define METRICS_STATUSES(X)                                                              \
    X(200)                                                                               \
    X(201)                                                                               \
    X(204)                                                                               \
    X(304)                                                                               \
    X(400)                                                                               \
    X(401)                                                                               \
    X(403)                                                                               \
    X(404)                                                                               \
    X(405)                                                                               \
    X(409)                                                                               \
    X(413)                                                                               \
    X(415)                                                                               \
    X(422)                                                                               \
    X(429)                                                                               \
    X(431)                                                                               \
    X(500)                                                                               \
    X(503)

/* The stages of an order: each counted from the end of the one before. */
#define METRICS_STAGES(X)                                                                \
    X(LOCK, "lock")                                                                      \
    X(QUEUE, "queue")                                                                    \
    X(COMMIT, "commit")                                                                  \
    X(UNLOCK, "unlock")                                                                  \
    X(TOTAL, "total")

enum metrics_route {
#define X(word, label) ROUTE_##word,
    METRICS_ROUTES(X)
#undef X
        ROUTE_COUNT
};

enum metrics_status_index {
#define X(code) STATUS_INDEX_##code,
    METRICS_STATUSES(X)
#undef X
        STATUS_INDEX_OTHER,
    STATUS_INDEX_COUNT
};

enum metrics_stage {
#define X(word, label) STAGE_##word,
    METRICS_STAGES(X)
#undef X
        STAGE_COUNT
};

#define METRICS_BUCKETS_MAX 16

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* the last: above all bounds */
    _Atomic uint64_t sum;
};

struct metrics {
    _Atomic uint64_t requests[ROUTE_COUNT][STATUS_INDEX_COUNT];
    _Atomic uint64_t outcomes[OUTCOME_COUNT];
    struct metrics_histogram stages[STAGE_COUNT]; /* us */
    struct metrics_histogram batch_orders;
    /* gauges, and counters that another module keeps and the loop copies here */
    _Atomic uint64_t queue_depth;
    _Atomic uint64_t in_flight;
    _Atomic uint64_t lock_lost;
    _Atomic uint64_t batch_splits;
    _Atomic uint64_t outcome_lookups;
    _Atomic uint64_t redis_reconnects;
    _Atomic uint64_t postgres_reconnects;
    _Atomic uint64_t redis_up;
    _Atomic uint64_t postgres_up;
    _Atomic uint64_t bypassing;
    _Atomic uint64_t connections;
    _Atomic int64_t started_us; /* clock_real_us() when the process began to serve */
    _Atomic int64_t
        catalogue_read_us; /* clock_mono_us() of the last good read, 0: none */
};

/* -- counting: by the owning loop only -- */

static inline void metrics_add(_Atomic uint64_t *counter, uint64_t add)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

static inline void metrics_set(_Atomic uint64_t *gauge, uint64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

void metrics_count_request(struct metrics *metrics, enum metrics_route route,
                           unsigned http_status);
void metrics_observe_stage_us(struct metrics *metrics, enum metrics_stage stage,
                              int64_t us);
void metrics_observe_batch(struct metrics *metrics, size_t orders);

/** The label of an outcome, which is also the code of the problem told; static. */
const char *outcome_name(enum outcome outcome);

/* -- reading: any thread -- */

struct metrics_health {
    bool has_postgres; /* in all loops: an order may come to any of them */
    bool has_redis;
    bool is_ready;
};

/** @bypasses_locks  whether orders are taken without Redis, too */
struct metrics_health metrics_health(struct metrics *const *all, size_t count,
                                     bool bypasses_locks);

/**
 * All loops' metrics as Prometheus text (version 0.0.4).
 *
 * @all       `count` pointers, one for each loop
 * @ret_text  set on success: NUL-terminated, to be freed by the caller
 *
 * Returns the length, or 0 when out of memory.
 */
size_t metrics_print(struct metrics *const *all, size_t count, char **ret_text);

/** The dashboard's stats of all loops, as a JSON object; the rest as metrics_print().
 */
size_t metrics_print_stats(struct metrics *const *all, size_t count, char **ret_text);

/** The upper bounds of the histograms in it, as two members of a JSON object. Returns
 *  as metrics_print(). */
size_t metrics_print_bounds(char **ret_text);

#endif
