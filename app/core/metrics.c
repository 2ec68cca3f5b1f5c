/* metrics.c - counts events, and prints the sums as Prometheus text and as JSON. */
#include "app/core/metrics.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
static const uint64_t stage_bounds_us[METRICS_BUCKETS_MAX] = {
    100, 250, 500, 1000, 2500, 5000, 10000, 25000,
    50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000};
static const uint64_t batch_bounds[METRICS_BUCKETS_MAX] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6000, 8000, 10000};

#define X(word, label) label,
static const char *const route_labels[] = {METRICS_ROUTES(X)};
static const char *const outcome_names[] = {ORDER_OUTCOMES(X)};
static const char *const stage_labels[] = {METRICS_STAGES(X)};
#undef X
#define X(code) #code,
static const char *const status_labels[] = {METRICS_STATUSES(X) "other"};
#undef X
/* clang-format on */

const char *outcome_name(enum outcome outcome)
{
    return outcome_names[outcome];
}

static enum metrics_status_index status_index(unsigned http_status)
{
    /* clang-format off */
#define X(code) case code: return STATUS_INDEX_##code;
    switch (http_status) { METRICS_STATUSES(X) }
#undef X
    /* clang-format on */
    return STATUS_INDEX_OTHER;
}

void metrics_count_request(struct metrics *metrics, enum metrics_route route,
                           unsigned http_status)
{
    metrics_add(&metrics->requests[route][status_index(http_status)], 1);
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

/* -- Prometheus text -- */

struct printer {
    FILE *out;
    struct metrics *const *all;
    size_t count;
};

/* A metric has the same offset in the struct of each loop. */
static uint64_t sum_at(const struct printer *printer, const _Atomic uint64_t *in_first)
{
    size_t offset = (size_t)((const char *)in_first - (const char *)printer->all[0]);
    uint64_t sum = 0;

    for (size_t i = 0; i < printer->count; i++) {
        const char *base = (const char *)printer->all[i];

        sum +=
            atomic_load_explicit((const _Atomic uint64_t *)(const void *)(base + offset),
                                 memory_order_relaxed);
    }
    return sum;
}

static void print_head(const struct printer *printer, const char *name, const char *type,
                       const char *help)
{
    fprintf(printer->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_value(const struct printer *printer, const char *name, const char *type,
                        const _Atomic uint64_t *in_first, const char *help)
{
    print_head(printer, name, type, help);
    fprintf(printer->out, "%s %" PRIu64 "\n", name, sum_at(printer, in_first));
}

/* `label` is `key="value"` or "". Printed are the values divided by `unit`. */
static void print_histogram(const struct printer *printer, const char *name,
                            const char *label, const struct metrics_histogram *in_first,
                            const uint64_t *bounds, double unit)
{
    const char *comma = label[0] != '\0' ? "," : "";
    const char *open = label[0] != '\0' ? "{" : "";
    const char *close = label[0] != '\0' ? "}" : "";
    uint64_t below = 0;

    for (int i = 0; i < METRICS_BUCKETS_MAX; i++) {
        below += sum_at(printer, &in_first->buckets[i]);
        fprintf(printer->out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, label,
                comma, (double)bounds[i] / unit, below);
    }
    below += sum_at(printer, &in_first->buckets[METRICS_BUCKETS_MAX]);
    fprintf(printer->out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma,
            below);
    fprintf(printer->out, "%s_sum%s%s%s %g\n", name, open, label, close,
            (double)sum_at(printer, &in_first->sum) / unit);
    fprintf(printer->out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close,
            below);
}

static void print_requests(const struct printer *printer)
{
    const struct metrics *first = printer->all[0];

    print_head(printer, "seckill_http_requests_total", "counter",
               "HTTP responses by route and status.");
    for (int route = 0; route < ROUTE_COUNT; route++) {
        for (int status = 0; status < STATUS_INDEX_COUNT; status++) {
            uint64_t sum = sum_at(printer, &first->requests[route][status]);

            if (sum > 0)
                fprintf(printer->out,
                        "seckill_http_requests_total{route=\"%s\",status=\"%s\"} %" PRIu64
                        "\n",
                        route_labels[route], status_labels[status], sum);
        }
    }
}

static void print_orders(const struct printer *printer)
{
    const struct metrics *first = printer->all[0];
    char label[40];

    print_head(printer, "seckill_orders_total", "counter", "Order requests by outcome.");
    for (int i = 0; i < OUTCOME_COUNT; i++)
        fprintf(printer->out, "seckill_orders_total{outcome=\"%s\"} %" PRIu64 "\n",
                outcome_names[i], sum_at(printer, &first->outcomes[i]));
    print_head(printer, "seckill_order_stage_seconds", "histogram",
               "Duration of each stage of an order; total is from arrival to answer.");
    for (int i = 0; i < STAGE_COUNT; i++) {
        snprintf(label, sizeof(label), "stage=\"%s\"", stage_labels[i]);
        print_histogram(printer, "seckill_order_stage_seconds", label, &first->stages[i],
                        stage_bounds_us, 1e6);
    }
    print_head(printer, "seckill_batch_orders", "histogram", "Orders per transaction.");
    print_histogram(printer, "seckill_batch_orders", "", &first->batch_orders,
                    batch_bounds, 1);
}

static void print_dependencies(const struct printer *printer)
{
    const struct metrics *first = printer->all[0];

    print_head(printer, "seckill_dependency_up", "gauge",
               "1 while every loop is connected to the dependency.");
    fprintf(printer->out, "seckill_dependency_up{dependency=\"postgres\"} %d\n",
            sum_at(printer, &first->postgres_up) == printer->count);
    fprintf(printer->out, "seckill_dependency_up{dependency=\"redis\"} %d\n",
            sum_at(printer, &first->redis_up) == printer->count);
    print_head(printer, "seckill_reconnects_total", "counter",
               "Connections opened again after a loss.");
    fprintf(printer->out,
            "seckill_reconnects_total{dependency=\"postgres\"} %" PRIu64 "\n"
            "seckill_reconnects_total{dependency=\"redis\"} %" PRIu64 "\n",
            sum_at(printer, &first->postgres_reconnects),
            sum_at(printer, &first->redis_reconnects));
}

static void print_catalogue_age(const struct printer *printer)
{
    int64_t now_us = clock_mono_us();
    int64_t oldest_us = now_us;

    for (size_t i = 0; i < printer->count; i++) {
        int64_t read_us = atomic_load_explicit(&printer->all[i]->catalogue_read_us,
                                               memory_order_relaxed);

        if (read_us < oldest_us)
            oldest_us = read_us;
    }
    print_head(printer, "seckill_catalogue_age_seconds", "gauge",
               "Time since the oldest catalogue of all loops was read.");
    fprintf(printer->out, "seckill_catalogue_age_seconds %g\n",
            (double)(now_us - oldest_us) / 1e6);
}

struct metrics_health metrics_health(struct metrics *const *all, size_t count,
                                     bool bypasses_locks)
{
    struct metrics_health health = {.has_postgres = true, .has_redis = true};

    for (size_t i = 0; i < count; i++) {
        if (!atomic_load(&all[i]->postgres_up)) {
            health.has_postgres = false;
            health.postgres_failure = (enum status)atomic_load(&all[i]->postgres_failure);
        }
        health.has_redis = health.has_redis && atomic_load(&all[i]->redis_up);
    }
    health.is_ready = health.has_postgres && (health.has_redis || bypasses_locks);
    return health;
}

size_t metrics_print(struct metrics *const *all, size_t count, char **ret_text)
{
    char *text = NULL;
    size_t len = 0;
    struct printer printer = {
        .out = open_memstream(&text, &len), .all = all, .count = count};
    const struct metrics *first = all[0];

    if (printer.out == NULL)
        return 0;
    print_requests(&printer);
    print_orders(&printer);
    print_value(&printer, "seckill_queue_depth", "gauge", &first->queue_depth,
                "Orders that hold their lock and wait for a transaction.");
    print_value(&printer, "seckill_in_flight", "gauge", &first->in_flight,
                "Order requests accepted and not yet completed.");
    print_value(&printer, "seckill_connections", "gauge", &first->connections,
                "Open HTTP connections.");
    print_value(&printer, "seckill_log_dropped_total", "counter", &first->log_dropped,
                "Log lines that could not be written to standard error in time.");
    print_value(&printer, "seckill_lock_lost_total", "counter", &first->lock_lost,
                "Locks lost before their release.");
    print_value(&printer, "seckill_batch_splits_total", "counter", &first->batch_splits,
                "Batches split in two because Postgres refused one of their rows.");
    print_value(&printer, "seckill_outcome_lookups_total", "counter",
                &first->outcome_lookups,
                "Batches whose connection was lost and whose outcome was looked up.");
    print_value(&printer, "seckill_lock_bypassed", "gauge", &first->bypassing,
                "Loops that currently sell without Redis.");
    print_value(&printer, "seckill_expiry_leader", "gauge", &first->expiry_leader,
                "1 in the instance that expires unpaid orders.");
    print_dependencies(&printer);
    print_catalogue_age(&printer);
    if (fclose(printer.out) != 0) {
        free(text);
        return 0;
    }
    *ret_text = text;
    return len;
}

/* -- stats as JSON -- */

/* Omits the empty buckets at the end, often half of them. */
static void print_buckets(const struct printer *printer, const char *name,
                          const struct metrics_histogram *in_first)
{
    int count = METRICS_BUCKETS_MAX + 1;

    while (count > 0 && sum_at(printer, &in_first->buckets[count - 1]) == 0)
        count--;
    fprintf(printer->out, "\"%s\":{\"sum\":%" PRIu64 ",\"buckets\":[", name,
            sum_at(printer, &in_first->sum));
    for (int i = 0; i < count; i++)
        fprintf(printer->out, "%s%" PRIu64, i > 0 ? "," : "",
                sum_at(printer, &in_first->buckets[i]));
    fputs("]}", printer->out);
}

static uint64_t sum_requests(const struct printer *printer)
{
    uint64_t sum = 0;

    for (int route = 0; route < ROUTE_COUNT; route++) {
        for (int status = 0; status < STATUS_INDEX_COUNT; status++)
            sum += sum_at(printer, &printer->all[0]->requests[route][status]);
    }
    return sum;
}

static void print_sale(const struct printer *printer)
{
    const struct metrics *first = printer->all[0];
    const char *comma = "";

    fputs("\"outcomes\":{", printer->out);
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        uint64_t sum = sum_at(printer, &first->outcomes[i]);

        if (sum == 0)
            continue;
        fprintf(printer->out, "%s\"%s\":%" PRIu64, comma, outcome_names[i], sum);
        comma = ",";
    }
    fputs("},\"stages\":{", printer->out);
    for (int i = 0; i < STAGE_COUNT; i++) {
        fputs(i > 0 ? "," : "", printer->out);
        print_buckets(printer, stage_labels[i], &first->stages[i]);
    }
    fputs("},", printer->out);
    print_buckets(printer, "batches", &first->batch_orders);
}

size_t metrics_print_stats(struct metrics *const *all, size_t count, char **ret_text)
{
    char *text = NULL;
    size_t len = 0;
    struct printer printer = {
        .out = open_memstream(&text, &len), .all = all, .count = count};
    const struct metrics *first = all[0];

    if (printer.out == NULL)
        return 0;
    fprintf(printer.out, "{\"started_ms\":%lld,\"loops\":%zu,\"requests\":%" PRIu64 ",",
            (long long)atomic_load(&first->started_us) / 1000, count,
            sum_requests(&printer));
    print_sale(&printer);
    fprintf(printer.out,
            ",\"queue\":%" PRIu64 ",\"in_flight\":%" PRIu64 ",\"connections\":%" PRIu64
            ",\"locks_lost\":%" PRIu64 ",\"postgres_up\":%" PRIu64
            ",\"redis_up\":%" PRIu64 ",\"bypassing\":%" PRIu64 "}",
            sum_at(&printer, &first->queue_depth), sum_at(&printer, &first->in_flight),
            sum_at(&printer, &first->connections), sum_at(&printer, &first->lock_lost),
            sum_at(&printer, &first->postgres_up), sum_at(&printer, &first->redis_up),
            sum_at(&printer, &first->bypassing));
    if (fclose(printer.out) != 0) {
        free(text);
        return 0;
    }
    *ret_text = text;
    return len;
}

static void print_bounds(FILE *out, const char *name, const uint64_t *bounds)
{
    fprintf(out, "\"%s\":[", name);
    for (int i = 0; i < METRICS_BUCKETS_MAX; i++)
        fprintf(out, "%s%" PRIu64, i > 0 ? "," : "", bounds[i]);
    fputc(']', out);
}

size_t metrics_print_bounds(char **ret_text)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (out == NULL)
        return 0;
    print_bounds(out, "stage_bounds_us", stage_bounds_us);
    fputc(',', out);
    print_bounds(out, "batch_bounds", batch_bounds);
    if (fclose(out) != 0) {
        free(text);
        return 0;
    }
    *ret_text = text;
    return len;
}
