/*
 * metrics.h - counters of one event loop, and their sums over all loops as text.
 *
 * Each loop writes its own struct, and any thread may read all of them. The values are relaxed
 * atomics. Each has only one writer, so an increment is a plain load and a plain store.
 */
#ifndef METRICS_H
#define METRICS_H

#include "app/core/model.h"
#include "base/status.h"

#include <stdatomic.h>

/* -- labels -- */

/* clang-format off */
/* X(enum word, label) */
#define METRICS_ROUTES(X) \
    X(NONE,           "none") \
    X(VOUCHERS,       "/v1/vouchers") \
    X(VOUCHER,        "/v1/vouchers/{id}") \
    X(STREAM,         "/v1/vouchers/{id}/stream") \
    X(RESTOCK,        "/v1/vouchers/{id}/restock") \
    X(TICKET,         "/v1/vouchers/{id}/ticket") \
    X(PLACE,          "/v1/vouchers/{id}/orders") \
    X(ENTRY,          "/v1/vouchers/{id}/entry") \
    X(ENTRIES,        "/v1/vouchers/{id}/entries") \
    X(ORDERS,         "/v1/orders") \
    X(ORDER,          "/v1/orders/{id}") \
    X(PAY,            "/v1/orders/{id}/pay") \
    X(CANCEL,         "/v1/orders/{id}/cancel") \
    X(REFUND,         "/v1/orders/{id}/refund") \
    X(REDEEM,         "/v1/orders/{id}/redeem") \
    X(ORDER_EVENTS,   "/v1/orders/{id}/events") \
    X(VOUCHER_EVENTS, "/v1/vouchers/{id}/events") \
    X(FEED,           "/v1/events") \
    X(WEBHOOKS,       "/v1/webhooks") \
    X(WEBHOOK,        "/v1/webhooks/{id}") \
    X(REPLAY,         "/v1/webhooks/{id}/replay") \
    X(DELIVERIES,     "/v1/webhooks/{id}/deliveries") \
    X(HEALTHZ,        "/healthz") \
    X(STATS,          "/v1/stats") \
    X(DEBUG_STATE,    "/v1/debug/state") \
    X(DEV_TOKEN,      "/v1/dev/token") \
    X(WEB,            "/") \
    X(READYZ,         "/readyz") \
    X(METRICS,        "/metrics") \
    X(OPENAPI,        "/openapi.yaml")

/* The stages of an order. Each stage is measured from the end of the stage before. The stage total
   lasts from the arrival of the request until the checkout answers it. If another loop has the
   connection of the order, there are two handovers: of the request to the checkout, and of the
   answer back. */
#define METRICS_STAGES(X) \
    X(HANDOVER, "handover") \
    X(LOCK,     "lock") \
    X(QUEUE,    "queue") \
    X(COMMIT,   "commit") \
    X(UNLOCK,   "unlock") \
    X(TOTAL,    "total")

/* Problems that the dashboard shows. For each problem, the stats say when it began. */
#define METRICS_CONDITIONS(X) \
    X(NO_POSTGRES,  "no_postgres") \
    X(NO_REDIS,     "no_redis") \
    X(BYPASSING,    "bypassing") \
    X(NOT_DURABLE,  "not_durable") \
    X(NO_STANDBY,   "no_standby") \
    X(NOT_EXPIRING, "not_expiring")

/* Why a server of Postgres is not used: the status of the connection, and the word in /readyz and
   in seckill_postgres_refused. */
#define METRICS_REFUSALS(X) \
    X(RLOCK_INVALID,   "not_utf8") \
    X(RLOCK_REFUSED,   "no_rights") \
    X(RLOCK_BUSY,      "read_only") \
    X(RLOCK_UNSAFE,    "not_durable") \
    X(RLOCK_LOST,      "commits_wait") \
    X(RLOCK_NOT_OWNER, "pooler_transaction_mode")

#define X(word, ...) ROUTE_##word,
enum metrics_route { METRICS_ROUTES(X) ROUTE_COUNT };
#undef X

#define X(word, ...) STAGE_##word,
enum metrics_stage { METRICS_STAGES(X) STAGE_COUNT };
#undef X

#define X(word, ...) CONDITION_##word,
enum metrics_condition { METRICS_CONDITIONS(X) CONDITION_COUNT };
#undef X
/* clang-format on */

#define METRICS_STATUSES    20
#define METRICS_BUCKETS_MAX 16

struct metrics_histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS_MAX + 1]; /* the last bucket has no bound */
    _Atomic uint64_t sum;
};

struct metrics {
    _Atomic uint64_t requests[ROUTE_COUNT][METRICS_STATUSES];
    _Atomic uint64_t outcomes[OUTCOME_COUNT];
    struct metrics_histogram stages[STAGE_COUNT]; /* us */
    struct metrics_histogram batch_orders;
    /* us; the same buckets as in struct rlock_times */
    struct metrics_histogram lock_holds;
    /* gauges, and counters that the loop copies from other modules */
    _Atomic uint64_t queue_depth;
    _Atomic uint64_t in_flight;
    _Atomic uint64_t lock_lost;
    _Atomic uint64_t lock_failed;
    _Atomic uint64_t fence_restarts;
    _Atomic uint64_t locks_held;
    _Atomic uint64_t batch_splits;
    _Atomic uint64_t outcome_lookups;
    _Atomic uint64_t redis_reconnects;
    _Atomic uint64_t postgres_reconnects;
    _Atomic uint64_t redis_up;
    _Atomic uint64_t redis_degraded; /* Redis grants only some locks */
    _Atomic uint64_t postgres_up;
    _Atomic uint64_t postgres_failure; /* the enum rlock_status while Postgres is down */
    _Atomic uint64_t lists;            /* enum lists_state */
    _Atomic uint64_t bypassing;        /* 1: the first loop sells without locks */
    _Atomic uint64_t expiry_leader;
    _Atomic uint64_t connections;
    _Atomic uint64_t feed_readers;
    _Atomic uint64_t log_dropped;
    _Atomic int64_t started_us;
    /* when the catalogue was last read, by clock_mono_us(); 0: never */
    _Atomic int64_t catalogue_read_us;
    /* since when an open transaction has delayed the feed, by clock_mono_us(); 0: no delay */
    _Atomic int64_t feed_held_since_us;
    /* an enum durability; only the value of the first loop is used */
    _Atomic uint64_t durability;
    /* the database's clock minus this machine's; only the value of the first loop is used */
    _Atomic int64_t clock_difference_us;
    /* state of the instance, used only in the first loop; see metrics_note_conditions() */
    _Atomic int64_t since_ms[CONDITION_COUNT]; /* 0: the condition does not hold */
    _Atomic bool had_standby;
    _Atomic(char *) state;    /* see metrics_publish_state() */
    _Atomic(char *) webhooks; /* see metrics_publish_webhooks() */
};

struct webhook_state {
    int64_t id;
    int64_t lag_us;     /* for how long its next event has waited; 0: no event waits */
    int64_t failing_us; /* for how long its attempts have failed; 0: they do not fail */
    bool is_disabled;
    /* not in the metrics: */
    const char *url;
    int64_t first, number;    /* its position, as in struct feed_position */
    int64_t failing_since_us; /* also if it is disabled; 0: it does not fail */
    const char *error;        /* NULL: it does not fail */
    const char *secret;       /* NULL, unless the endpoint has just been added */
};

struct all_metrics {
    struct metrics **loops;
    size_t count;
};

/** The state of the connection to the database of the lists. LISTS_NONE means that the settings
 *  name no such database. */
enum lists_state { LISTS_NONE, LISTS_DOWN, LISTS_UP };

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

extern const char *const metrics_stage_names[STAGE_COUNT];

/** Indexed by enum durability: "unknown", "none", "local", "remote". */
extern const char *const durability_names[];

/** The labels of outcomes, which are also the codes of the API errors. */
extern const char *const metrics_outcome_names[OUTCOME_COUNT];

/** Replace the published state of the loop.
 *  @state  JSON from malloc(), which the metrics then own; NULL: no state */
void metrics_publish_state(struct metrics *metrics, char *state);

/** Replace the published state of the endpoints. Only the first loop publishes it. */
void metrics_publish_webhooks(struct metrics *metrics, const struct webhook_state *states,
                              size_t count);

void metrics_clear(struct metrics *metrics);

/** Note which conditions hold for the instance, and since when. The first loop calls this function
 *  once a second. @now_ms is the time of the real clock. */
void metrics_note_conditions(const struct all_metrics *all, int64_t now_ms);

/* -- reading: any thread -- */

/** Print the sums of all loops as Prometheus text (version 0.0.4). */
void metrics_print(FILE *out, const struct all_metrics *all);

/** Print the stats of the dashboard as a JSON object: the sums of all loops. */
void metrics_print_stats(FILE *out, const struct all_metrics *all);

/** Print a JSON array with the stats of each loop, and its published state or null. */
void metrics_print_loops(FILE *out, const struct all_metrics *all);

/** Print the upper bounds of the histograms in the stats, as two members of a JSON object. */
void metrics_print_bounds(FILE *out);

#endif
