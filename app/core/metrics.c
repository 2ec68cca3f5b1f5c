/* metrics.c - counts events, and prints the sums as Prometheus text and as JSON. */
#include "app/core/metrics.h"

#include "app/core/text.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

/* clang-format off */
static const uint64_t stage_bounds_us[METRICS_BUCKETS_MAX] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000,
    50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000};
static const uint64_t batch_bounds[METRICS_BUCKETS_MAX] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6000, 8000, 10000};
static const uint64_t hold_bounds_us[METRICS_BUCKETS_MAX] = {
    1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000,
    512000, 1024000, 2048000, 4096000, 8192000, 16384000, 32768000};

#define X(word, label) label,
static const char *const route_labels[] = {METRICS_ROUTES(X)};
const char *const metrics_outcome_names[] = {ORDER_OUTCOMES(X)};
const char *const metrics_stage_names[] = {METRICS_STAGES(X)};
static const char *const condition_names[] = {METRICS_CONDITIONS(X)};
#undef X
/* clang-format on */

const char *const durability_names[] = {"unknown", "none", "local", "remote"};

/* The HTTP statuses that have a counter. The last element is 0, which counts all other statuses. */
static const unsigned statuses[METRICS_STATUSES] = {200, 201, 202, 204, 304, 400, 401,
                                                    403, 404, 405, 409, 413, 415, 421,
                                                    422, 429, 431, 500, 503};

void metrics_count_request(struct metrics *metrics, enum metrics_route route,
                           unsigned http_status)
{
    int at = 0;

    while (statuses[at] != 0 && statuses[at] != http_status)
        at++;
    metrics_add(&metrics->requests[route][at], 1);
}

static void observe(struct metrics_histogram *histogram, const uint64_t *bounds,
                    uint64_t value)
{
    int bucket = 0;

    while (bucket < METRICS_BUCKETS_MAX && value > bounds[bucket])
        bucket++;
    metrics_add(&histogram->buckets[bucket], 1);
    metrics_add(&histogram->sum, value);
}

void metrics_observe_stage_us(struct metrics *metrics, enum metrics_stage stage,
                              int64_t us)
{
    observe(&metrics->stages[stage], stage_bounds_us, us > 0 ? (uint64_t)us : 0);
}

void metrics_observe_batch(struct metrics *metrics, size_t orders)
{
    observe(&metrics->batch_orders, batch_bounds, orders);
}

/* -- sums -- */

struct printer {
    FILE *out;
    const struct all_metrics *all;
    struct metrics sum; /* of all loops */
};

/* Sums up the loops field by field. The fields before started_us are an array of 64-bit atomics. */
static struct printer printer_of(FILE *out, const struct all_metrics *all)
{
    struct printer printer = {.out = out, .all = all};
    _Atomic uint64_t *sum = (_Atomic uint64_t *)&printer.sum;

    for (size_t i = 0; i < all->count; i++) {
        const _Atomic uint64_t *one = (const _Atomic uint64_t *)all->loops[i];

        for (size_t at = 0; at < offsetof(struct metrics, started_us) / sizeof(*sum);
             at++)
            metrics_add(&sum[at], atomic_load_explicit(&one[at], memory_order_relaxed));
    }
    return printer;
}

void metrics_note_conditions(const struct all_metrics *all, int64_t now_ms)
{
    struct metrics *first = all->loops[0];
    const struct metrics sum = printer_of(NULL, all).sum;
    uint64_t durability = atomic_load(&first->durability);
    const bool holds[CONDITION_COUNT] = {
        [CONDITION_NO_POSTGRES] = sum.postgres_up < all->count,
        [CONDITION_NO_REDIS] =
            sum.redis_up<all->count, [CONDITION_BYPASSING] = sum.bypassing> 0,
        [CONDITION_NOT_DURABLE] = durability == DURABILITY_NONE,
        [CONDITION_NO_STANDBY] =
            durability == DURABILITY_LOCAL && atomic_load(&first->had_standby),
        [CONDITION_NOT_EXPIRING] = sum.expiry_leader == 0,
    };

    if (durability == DURABILITY_REMOTE)
        atomic_store(&first->had_standby, true);
    for (int i = 0; i < CONDITION_COUNT; i++) {
        if (!holds[i])
            atomic_store(&first->since_ms[i], 0);
        else if (atomic_load(&first->since_ms[i]) == 0)
            atomic_store(&first->since_ms[i], now_ms);
    }
}

/* -- Prometheus text -- */

static void print_head(const struct printer *printer, const char *name, const char *type,
                       const char *help)
{
    fprintf(printer->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_value(const struct printer *printer, const char *name, const char *type,
                        uint64_t value, const char *help)
{
    print_head(printer, name, type, help);
    fprintf(printer->out, "%s %" PRIu64 "\n", name, value);
}

/* `label` is `key="value"` or "". The values are printed divided by `unit`. */
static void print_histogram(const struct printer *printer, const char *name,
                            const char *label, const struct metrics_histogram *histogram,
                            const uint64_t *bounds, double unit)
{
    const char *comma = label[0] != '\0' ? "," : "";
    const char *open = label[0] != '\0' ? "{" : "";
    const char *close = label[0] != '\0' ? "}" : "";
    uint64_t below = 0;

    for (int i = 0; i < METRICS_BUCKETS_MAX; i++) {
        below += histogram->buckets[i];
        fprintf(printer->out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, label,
                comma, (double)bounds[i] / unit, below);
    }
    below += histogram->buckets[METRICS_BUCKETS_MAX];
    fprintf(printer->out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma,
            below);
    fprintf(printer->out, "%s_sum%s%s%s %g\n", name, open, label, close,
            (double)histogram->sum / unit);
    fprintf(printer->out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close,
            below);
}

static void print_requests(const struct printer *printer)
{
    char label[12];

    print_head(printer, "seckill_http_requests_total", "counter",
               "HTTP responses by route and status.");
    for (int route = 0; route < ROUTE_COUNT; route++) {
        for (int at = 0; at < METRICS_STATUSES; at++) {
            uint64_t sum = printer->sum.requests[route][at];

            snprintf(label, sizeof(label), "%u", statuses[at]);
            if (sum > 0)
                fprintf(printer->out,
                        "seckill_http_requests_total{route=\"%s\",status=\"%s\"} %" PRIu64
                        "\n",
                        route_labels[route], statuses[at] != 0 ? label : "other", sum);
        }
    }
}

static void print_orders(const struct printer *printer)
{
    char label[40];

    print_head(printer, "seckill_orders_total", "counter", "Order requests by outcome.");
    for (int i = 0; i < OUTCOME_COUNT; i++)
        fprintf(printer->out, "seckill_orders_total{outcome=\"%s\"} %" PRIu64 "\n",
                metrics_outcome_names[i], printer->sum.outcomes[i]);
    print_head(printer, "seckill_order_stage_seconds", "histogram",
               "Duration of each stage of an order; total is from arrival to answer.");
    for (int i = 0; i < STAGE_COUNT; i++) {
        snprintf(label, sizeof(label), "stage=\"%s\"", metrics_stage_names[i]);
        print_histogram(printer, "seckill_order_stage_seconds", label,
                        &printer->sum.stages[i], stage_bounds_us, 1e6);
    }
    print_head(printer, "seckill_batch_orders", "histogram", "Orders per transaction.");
    print_histogram(printer, "seckill_batch_orders", "", &printer->sum.batch_orders,
                    batch_bounds, 1);
    print_head(printer, "seckill_lock_hold_seconds", "histogram",
               "Time from the grant of a lock to its release or loss.");
    print_histogram(printer, "seckill_lock_hold_seconds", "", &printer->sum.lock_holds,
                    hold_bounds_us, 1e6);
}

static void print_dependencies(const struct printer *printer)
{
    print_head(printer, "seckill_dependency_up", "gauge",
               "1 while every loop is connected to the dependency.");
    fprintf(printer->out, "seckill_dependency_up{dependency=\"postgres\"} %d\n",
            printer->sum.postgres_up == printer->all->count);
    fprintf(printer->out, "seckill_dependency_up{dependency=\"redis\"} %d\n",
            printer->sum.redis_up == printer->all->count);
    if (printer->sum.lists > 0)
        fprintf(printer->out, "seckill_dependency_up{dependency=\"lists\"} %d\n",
                printer->sum.lists == LISTS_UP * printer->all->count);
    print_head(printer, "seckill_reconnects_total", "counter",
               "Connections opened again after a loss.");
    fprintf(printer->out,
            "seckill_reconnects_total{dependency=\"postgres\"} %" PRIu64 "\n"
            "seckill_reconnects_total{dependency=\"redis\"} %" PRIu64 "\n",
            printer->sum.postgres_reconnects, printer->sum.redis_reconnects);
}

static void print_refusal(const struct printer *printer, enum rlock_status failure,
                          const char *name)
{
    bool is_refused = false;

    for (size_t i = 0; i < printer->all->count; i++) {
        const struct metrics *loop = printer->all->loops[i];

        is_refused |= !atomic_load(&loop->postgres_up) &&
                      atomic_load(&loop->postgres_failure) == failure;
    }
    fprintf(printer->out, "seckill_postgres_refused{reason=\"%s\"} %d\n", name,
            is_refused);
}

static void print_refusals(const struct printer *printer)
{
    print_head(printer, "seckill_postgres_refused", "gauge",
               "1 while a loop does not use the Postgres that it reaches, by reason.");
#define X(failure, name) print_refusal(printer, failure, name);
    METRICS_REFUSALS(X)
#undef X
}

static void print_durability(const struct printer *printer)
{
    uint64_t durability = atomic_load(&printer->all->loops[0]->durability);

    print_head(printer, "seckill_durability", "gauge",
               "1 for what acknowledged orders survive: nothing, a crash of Postgres"
               " (local), or its loss (remote).");
    for (unsigned i = DURABILITY_NONE; i <= DURABILITY_REMOTE; i++)
        fprintf(printer->out, "seckill_durability{level=\"%s\"} %d\n",
                durability_names[i], durability == i);
}

static void print_catalogue_age(const struct printer *printer)
{
    int64_t now_us = clock_mono_us();
    int64_t oldest_us = now_us;

    for (size_t i = 0; i < printer->all->count; i++) {
        int64_t read_us = atomic_load(&printer->all->loops[i]->catalogue_read_us);

        if (read_us < oldest_us)
            oldest_us = read_us;
    }
    print_head(printer, "seckill_catalogue_age_seconds", "gauge",
               "Time since the oldest catalogue of all loops was read.");
    fprintf(printer->out, "seckill_catalogue_age_seconds %g\n",
            (double)(now_us - oldest_us) / 1e6);
}

static void print_feed(const struct printer *printer)
{
    int64_t now_us = clock_mono_us();
    int64_t first_us = now_us;

    for (size_t i = 0; i < printer->all->count; i++) {
        int64_t since_us = atomic_load(&printer->all->loops[i]->feed_held_since_us);

        if (since_us != 0 && since_us < first_us)
            first_us = since_us;
    }
    print_head(printer, "seckill_feed_held_seconds", "gauge",
               "For how long readers of the feed have waited for an open transaction.");
    fprintf(printer->out, "seckill_feed_held_seconds %g\n",
            (double)(now_us - first_us) / 1e6);
}

static void print_clock(const struct printer *printer)
{
    print_head(printer, "seckill_clock_difference_seconds", "gauge",
               "Clock of Postgres minus clock of this machine.");
    fprintf(printer->out, "seckill_clock_difference_seconds %g\n",
            (double)atomic_load(&printer->all->loops[0]->clock_difference_us) / 1e6);
}

/* Takes a published text from its loop, prints it, and puts it back unless the loop has published a
   newer text meanwhile. So the loop that publishes never waits. */
static void print_published(FILE *out, _Atomic(char *) *published, const char *otherwise)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char *text, *newer = NULL;

    pthread_mutex_lock(&mutex);
    text = atomic_exchange(published, NULL);
    fputs(text != NULL ? text : otherwise, out);
    if (!atomic_compare_exchange_strong(published, &newer, text))
        free(text);
    pthread_mutex_unlock(&mutex);
}

static void print_webhook(FILE *out, const char *name, int64_t id, double value)
{
    fprintf(out, "%s{webhook_id=\"%" PRId64 "\"} %g\n", name, id, value);
}

static void print_webhooks(FILE *out, const struct webhook_state *states, size_t count)
{
    const struct printer printer = {.out = out};

    print_head(&printer, "seckill_webhook_lag_seconds", "gauge",
               "For how long the next event of an endpoint has waited.");
    for (size_t i = 0; i < count; i++)
        print_webhook(out, "seckill_webhook_lag_seconds", states[i].id,
                      (double)states[i].lag_us / 1e6);
    print_head(&printer, "seckill_webhook_failing_seconds", "gauge",
               "For how long all attempts of an endpoint have failed.");
    for (size_t i = 0; i < count; i++)
        print_webhook(out, "seckill_webhook_failing_seconds", states[i].id,
                      (double)states[i].failing_us / 1e6);
    print_head(&printer, "seckill_webhook_disabled", "gauge",
               "1 if an endpoint gets no events because it has failed for 3 days.");
    for (size_t i = 0; i < count; i++)
        print_webhook(out, "seckill_webhook_disabled", states[i].id,
                      states[i].is_disabled);
}

void metrics_print(FILE *out, const struct all_metrics *all)
{
    const struct printer printer = printer_of(out, all);

    print_requests(&printer);
    print_orders(&printer);
    /* clang-format off */
    print_value(&printer, "seckill_queue_depth", "gauge", printer.sum.queue_depth, "Orders that hold their lock and wait for a transaction.");
    print_value(&printer, "seckill_in_flight", "gauge", printer.sum.in_flight, "Order requests accepted and not yet completed.");
    print_value(&printer, "seckill_connections", "gauge", printer.sum.connections, "Open HTTP connections.");
    print_value(&printer, "seckill_feed_readers", "gauge", printer.sum.feed_readers, "Requests that read the feed or wait for it.");
    print_value(&printer, "seckill_log_dropped_total", "counter", printer.sum.log_dropped, "Log lines that could not be written to standard error in time.");
    print_value(&printer, "seckill_locks_held", "gauge", printer.sum.locks_held, "Locks held now.");
    print_value(&printer, "seckill_lock_failed_total", "counter", printer.sum.lock_failed, "Acquires and releases of locks that Redis refused or did not answer.");
    print_value(&printer, "seckill_lock_fence_restarts_total", "counter", printer.sum.fence_restarts, "Fence counters that were missing or unusable and began anew at the clock of Redis.");
    print_value(&printer, "seckill_lock_lost_total", "counter", printer.sum.lock_lost, "Locks lost before their release.");
    print_value(&printer, "seckill_batch_splits_total", "counter", printer.sum.batch_splits, "Batches split in two because Postgres refused one of their rows.");
    print_value(&printer, "seckill_outcome_lookups_total", "counter", printer.sum.outcome_lookups, "Batches whose connection was lost and whose outcome was looked up.");
    print_value(&printer, "seckill_lock_bypassed", "gauge", printer.sum.bypassing, "1 while the instance sells without Redis.");
    print_value(&printer, "seckill_expiry_leader", "gauge", printer.sum.expiry_leader, "1 in the instance that expires unpaid orders.");
    /* clang-format on */
    print_dependencies(&printer);
    print_refusals(&printer);
    print_durability(&printer);
    print_catalogue_age(&printer);
    print_feed(&printer);
    print_clock(&printer);
    print_published(out, &all->loops[0]->webhooks, "");
}

/* -- stats as JSON -- */

/* Omits the empty buckets at the end, which are often half of all buckets. */
static void print_buckets(const struct printer *printer, const char *name,
                          const struct metrics_histogram *histogram)
{
    int count = 0;

    for (int i = 0; i <= METRICS_BUCKETS_MAX; i++) {
        if (histogram->buckets[i] > 0)
            count = i + 1;
    }
    fprintf(printer->out, "\"%s\":{\"sum\":%" PRIu64 ",\"buckets\":[", name,
            histogram->sum);
    for (int i = 0; i < count; i++)
        fprintf(printer->out, "%s%" PRIu64, i > 0 ? "," : "", histogram->buckets[i]);
    fputs("]}", printer->out);
}

static void print_sale(const struct printer *printer)
{
    const char *comma = "";

    fputs("\"outcomes\":{", printer->out);
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        uint64_t sum = printer->sum.outcomes[i];

        if (sum == 0)
            continue;
        fprintf(printer->out, "%s\"%s\":%" PRIu64, comma, metrics_outcome_names[i], sum);
        comma = ",";
    }
    fputs("},\"stages\":{", printer->out);
    for (int i = 0; i < STAGE_COUNT; i++) {
        fputs(i > 0 ? "," : "", printer->out);
        print_buckets(printer, metrics_stage_names[i], &printer->sum.stages[i]);
    }
    fputs("},", printer->out);
    print_buckets(printer, "batches", &printer->sum.batch_orders);
}

static void print_conditions(const struct printer *printer)
{
    const char *comma = "";

    fputs(",\"since_ms\":{", printer->out);
    for (int i = 0; i < CONDITION_COUNT; i++) {
        int64_t since_ms = atomic_load(&printer->all->loops[0]->since_ms[i]);

        if (since_ms != 0) {
            fprintf(printer->out, "%s\"%s\":%" PRId64, comma, condition_names[i],
                    since_ms);
            comma = ",";
        }
    }
    fputc('}', printer->out);
}

void metrics_print_stats(FILE *out, const struct all_metrics *all)
{
    const struct printer printer = printer_of(out, all);
    uint64_t requests = 0;

    for (int route = 0; route < ROUTE_COUNT; route++) {
        for (int at = 0; at < METRICS_STATUSES; at++)
            requests += printer.sum.requests[route][at];
    }
    fprintf(out, "{\"started_ms\":%lld,\"loops\":%zu,\"requests\":%" PRIu64 ",",
            (long long)atomic_load(&all->loops[0]->started_us) / 1000, all->count,
            requests);
    print_sale(&printer);
    fprintf(out,
            ",\"queue\":%" PRIu64 ",\"in_flight\":%" PRIu64 ",\"connections\":%" PRIu64
            ",\"locks_lost\":%" PRIu64 ",\"postgres_up\":%" PRIu64
            ",\"redis_up\":%" PRIu64 ",\"bypassing\":%" PRIu64
            ",\"expiry_leader\":%" PRIu64 ",\"durability\":\"%s\"",
            printer.sum.queue_depth, printer.sum.in_flight, printer.sum.connections,
            printer.sum.lock_lost, printer.sum.postgres_up, printer.sum.redis_up,
            printer.sum.bypassing, printer.sum.expiry_leader,
            durability_names[atomic_load(&all->loops[0]->durability)]);
    print_conditions(&printer);
    fputc('}', out);
}

/* -- published texts -- */

void metrics_publish_state(struct metrics *metrics, char *state)
{
    free(atomic_exchange(&metrics->state, state));
}

void metrics_publish_webhooks(struct metrics *metrics, const struct webhook_state *states,
                              size_t count)
{
    struct text_document document;
    char *text = NULL;

    if (text_document_begin(&document)) {
        print_webhooks(document.out, states, count);
        text = text_document_end(&document);
    }
    free(atomic_exchange(&metrics->webhooks, text));
}

void metrics_clear(struct metrics *metrics)
{
    free(atomic_exchange(&metrics->state, NULL));
    free(atomic_exchange(&metrics->webhooks, NULL));
}

void metrics_print_loops(FILE *out, const struct all_metrics *all)
{
    for (size_t i = 0; i < all->count; i++) {
        fputs(i == 0 ? "[{\"stats\":" : ",{\"stats\":", out);
        metrics_print_stats(out, &(struct all_metrics){&all->loops[i], 1});
        fputs(",\"state\":", out);
        print_published(out, &all->loops[i]->state, "null");
        fputc('}', out);
    }
    fputc(']', out);
}

static void print_bounds(FILE *out, const char *name, const uint64_t *bounds)
{
    fprintf(out, "\"%s\":[", name);
    for (int i = 0; i < METRICS_BUCKETS_MAX; i++)
        fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", bounds[i]);
    fputc(']', out);
}

void metrics_print_bounds(FILE *out)
{
    print_bounds(out, "stage_bounds_us", stage_bounds_us);
    fputc(',', out);
    print_bounds(out, "batch_bounds", batch_bounds);
}
