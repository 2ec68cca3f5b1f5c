/* test_metrics.c - sums over two loops, as Prometheus text and as JSON. */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): fopencookie
#include "app/core/metrics.h"
#include "app/core/text.h"
#include "base/clock.h"
#include "test/case_list.h"

#include <stdio.h>
#include <stdlib.h>

static struct metrics first, second;
static struct metrics *loops[] = {&first, &second};
static const struct all_metrics all = {loops, 2};

static int setup(void **state UNUSED)
{
    first = (struct metrics){0};
    second = (struct metrics){0};
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, setup, NULL, NULL)

static char *printed(void (*print)(FILE *out, const struct all_metrics *all))
{
    struct text_document document;

    assert_true(text_document_begin(&document));
    print(document.out, &all);
    return text_document_end(&document);
}

static void assert_prints(void (*print)(FILE *out, const struct all_metrics *all),
                          const char *wanted)
{
    char *text = printed(print);

    assert_string_equal(text, wanted);
    free(text);
}

static void assert_metrics(const char *const *lines, size_t count)
{
    char *text = printed(metrics_print);
    char line[1000];

    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "\n%s\n", lines[i]);
        ASSERT_CONTAINS(text, line);
    }
    free(text);
}

#define ASSERT_METRICS(...)                                                              \
    assert_metrics((const char *const[]){__VA_ARGS__},                                   \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#define FILL(field, count) fill(&first.field, &second.field, count)

static void fill(_Atomic uint64_t *of_first, _Atomic uint64_t *of_second, uint64_t count)
{
    *of_first = count;
    *of_second = count * 10;
}

CASE(test_print__sums_the_loops)
{
    FILL(outcomes[OUTCOME_PLACED], 1);
    FILL(outcomes[OUTCOME_INTERNAL], 2);
    FILL(queue_depth, 3);
    FILL(in_flight, 4);
    FILL(connections, 5);
    FILL(log_dropped, 6);
    FILL(locks_held, 7);
    FILL(lock_failed, 8);
    FILL(fence_restarts, 9);
    FILL(lock_lost, 11);
    FILL(batch_splits, 12);
    FILL(outcome_lookups, 13);
    FILL(bypassing, 14);
    FILL(expiry_leader, 15);
    FILL(postgres_reconnects, 16);
    FILL(redis_reconnects, 17);
    FILL(feed_readers, 18);
    ASSERT_METRICS("# HELP seckill_locks_held Locks held now.",
                   "# TYPE seckill_queue_depth gauge\nseckill_queue_depth 33",
                   "seckill_orders_total{outcome=\"placed\"} 11",
                   "seckill_orders_total{outcome=\"repeated\"} 0",
                   "seckill_orders_total{outcome=\"internal\"} 22",
                   "seckill_in_flight 44", "seckill_connections 55",
                   "seckill_feed_readers 198", "seckill_log_dropped_total 66",
                   "seckill_locks_held 77", "seckill_lock_failed_total 88",
                   "seckill_lock_fence_restarts_total 99", "seckill_lock_lost_total 121",
                   "seckill_batch_splits_total 132", "seckill_outcome_lookups_total 143",
                   "seckill_lock_bypassed 154", "seckill_expiry_leader 165",
                   "seckill_reconnects_total{dependency=\"postgres\"} 176",
                   "seckill_reconnects_total{dependency=\"redis\"} 187");
}

CASE(test_print__counts_requests_by_route_and_status)
{
    char *text;

    FILL(outcomes[OUTCOME_PLACED], 1);
    metrics_count_request(&first, ROUTE_NONE, 200);
    metrics_count_request(&first, ROUTE_VOUCHERS, 200);
    metrics_count_request(&first, ROUTE_PLACE, 201);
    metrics_count_request(&second, ROUTE_PLACE, 201);
    metrics_count_request(&first, ROUTE_PLACE, 418);
    metrics_count_request(&first, ROUTE_OPENAPI, 503);
    ASSERT_METRICS(
        "# TYPE seckill_http_requests_total counter\n"
        "seckill_http_requests_total{route=\"none\",status=\"200\"} 1\n"
        "seckill_http_requests_total{route=\"/v1/vouchers\",status=\"200\"} 1\n"
        "seckill_http_requests_total{route=\"/v1/vouchers/{id}/orders\",status=\"201\"} "
        "2\n"
        "seckill_http_requests_total{route=\"/v1/vouchers/{id}/orders\",status="
        "\"other\"} 1\n"
        "seckill_http_requests_total{route=\"/openapi.yaml\",status=\"503\"} 1\n"
        "# HELP seckill_orders_total Order requests by outcome.");
    text = printed(metrics_print_stats);
    ASSERT_CONTAINS(text, ",\"loops\":2,\"requests\":6,");
    free(text);
}

CASE(test_observe__a_bound_is_in_its_bucket)
{
    static const int64_t durations_us[] = {-5, 0, 100, 101, 250, 251, 10000000, 10000001};

    for (size_t i = 0; i < sizeof(durations_us) / sizeof(durations_us[0]); i++)
        metrics_observe_stage_us(&first, STAGE_QUEUE, durations_us[i]);
    metrics_observe_batch(&first, 1);
    metrics_observe_batch(&second, 3);
    metrics_observe_batch(&second, 10001);
    first.lock_holds.buckets[1] = 2;
    first.lock_holds.sum = 3500;
    ASSERT_METRICS(
        "seckill_order_stage_seconds_bucket{stage=\"queue\",le=\"0.0001\"} 3\n"
        "seckill_order_stage_seconds_bucket{stage=\"queue\",le=\"0.00025\"} 5\n"
        "seckill_order_stage_seconds_bucket{stage=\"queue\",le=\"0.0005\"} 6",
        "seckill_order_stage_seconds_bucket{stage=\"queue\",le=\"5\"} 6\n"
        "seckill_order_stage_seconds_bucket{stage=\"queue\",le=\"10\"} 7\n"
        "seckill_order_stage_seconds_bucket{stage=\"queue\",le=\"+Inf\"} 8\n"
        "seckill_order_stage_seconds_sum{stage=\"queue\"} 20.0007\n"
        "seckill_order_stage_seconds_count{stage=\"queue\"} 8\n"
        "seckill_order_stage_seconds_bucket{stage=\"commit\",le=\"0.0001\"} 0",
        "# TYPE seckill_order_stage_seconds histogram\n"
        "seckill_order_stage_seconds_bucket{stage=\"handover\",le=\"0.0001\"} 0",
        "seckill_order_stage_seconds_count{stage=\"total\"} 0\n"
        "# HELP seckill_batch_orders Orders per transaction.\n"
        "# TYPE seckill_batch_orders histogram\n"
        "seckill_batch_orders_bucket{le=\"1\"} 1\n"
        "seckill_batch_orders_bucket{le=\"2\"} 1\n"
        "seckill_batch_orders_bucket{le=\"4\"} 2",
        "seckill_batch_orders_bucket{le=\"10000\"} 2\n"
        "seckill_batch_orders_bucket{le=\"+Inf\"} 3\n"
        "seckill_batch_orders_sum 10005\n"
        "seckill_batch_orders_count 3\n"
        "# HELP seckill_lock_hold_seconds Time from the grant of a lock to its release "
        "or loss.\n"
        "# TYPE seckill_lock_hold_seconds histogram\n"
        "seckill_lock_hold_seconds_bucket{le=\"0.001\"} 0\n"
        "seckill_lock_hold_seconds_bucket{le=\"0.002\"} 2",
        "seckill_lock_hold_seconds_sum 0.0035\n"
        "seckill_lock_hold_seconds_count 2");
}

CASE(test_print__gauges_of_dependencies)
{
    char *text;

    first.postgres_up = second.postgres_up = 1;
    second.redis_up = 1;
    first.durability = DURABILITY_LOCAL;
    /* Only the first loop reads the durability, so this value is ignored. */
    second.durability = DURABILITY_REMOTE;
    first.clock_difference_us = -1500000;
    second.clock_difference_us = 7;
    ASSERT_METRICS("# TYPE seckill_dependency_up gauge\n"
                   "seckill_dependency_up{dependency=\"postgres\"} 1\n"
                   "seckill_dependency_up{dependency=\"redis\"} 0\n"
                   "# HELP seckill_reconnects_total Connections opened again after a "
                   "loss.\n"
                   "# TYPE seckill_reconnects_total counter",
                   "# TYPE seckill_postgres_refused gauge\n"
                   "seckill_postgres_refused{reason=\"not_utf8\"} 0",
                   "seckill_postgres_refused{reason=\"read_only\"} 0",
                   "# TYPE seckill_durability gauge\n"
                   "seckill_durability{level=\"none\"} 0\n"
                   "seckill_durability{level=\"local\"} 1\n"
                   "seckill_durability{level=\"remote\"} 0",
                   "# TYPE seckill_clock_difference_seconds gauge\n"
                   "seckill_clock_difference_seconds -1.5");
    second.postgres_up = 0;
    second.postgres_failure = RLOCK_BUSY;
    first.postgres_failure = RLOCK_UNSAFE; /* a past failure */
    first.redis_up = 1;
    first.lists = second.lists = LISTS_UP;
    ASSERT_METRICS("seckill_dependency_up{dependency=\"postgres\"} 0\n"
                   "seckill_dependency_up{dependency=\"redis\"} 1\n"
                   "seckill_dependency_up{dependency=\"lists\"} 1",
                   "seckill_postgres_refused{reason=\"read_only\"} 1\n"
                   "seckill_postgres_refused{reason=\"not_durable\"} 0\n"
                   "seckill_postgres_refused{reason=\"commits_wait\"} 0\n"
                   "seckill_postgres_refused{reason=\"pooler_transaction_mode\"} 0");
    first.lists = LISTS_DOWN;
    second.lists = LISTS_NONE;
    ASSERT_METRICS("seckill_dependency_up{dependency=\"lists\"} 0");
    first.lists = second.lists = LISTS_NONE;
    text = printed(metrics_print);
    assert_null(strstr(text, "lists"));
    free(text);
}

CASE(test_print__age_of_the_oldest_catalogue)
{
    static const struct {
        int64_t first_s, second_s;
        int age_s;
    } rows[] = {{100, 200, 200}, {300, 200, 300}, {-100, -200, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t now_us = clock_mono_us();
        char *text;
        double age_s;

        first.catalogue_read_us = now_us - rows[i].first_s * 1000000;
        second.catalogue_read_us = now_us - rows[i].second_s * 1000000;
        text = printed(metrics_print);
        ASSERT_CONTAINS(text, "# TYPE seckill_catalogue_age_seconds gauge\n");
        age_s = strtod(strstr(text, "\nseckill_catalogue_age_seconds ") + 31, NULL);
        ASSERT_BETWEEN(age_s, rows[i].age_s, rows[i].age_s + 50);
        free(text);
    }
}

CASE(test_print__how_long_the_feed_is_held)
{
    static const struct {
        /* for how long the feed has been held back; -1: it is not held back */
        int64_t first_s, second_s;
        int held_s;
    } rows[] = {{100, 200, 200}, {300, -1, 300}, {-1, 100, 100}, {-1, -1, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t now_us = clock_mono_us();
        char *text;
        double held_s;

        first.feed_held_since_us =
            rows[i].first_s < 0 ? 0 : now_us - rows[i].first_s * 1000000;
        second.feed_held_since_us =
            rows[i].second_s < 0 ? 0 : now_us - rows[i].second_s * 1000000;
        text = printed(metrics_print);
        ASSERT_CONTAINS(text, "# TYPE seckill_feed_held_seconds gauge\n");
        held_s = strtod(strstr(text, "\nseckill_feed_held_seconds ") + 27, NULL);
        ASSERT_BETWEEN(held_s, rows[i].held_s,
                       rows[i].held_s == 0 ? 0 : rows[i].held_s + 50);
        free(text);
    }
}

CASE(test_print__the_state_of_the_endpoints)
{
    static const struct webhook_state states[] = {
        {.id = 3, .lag_us = 1500000, .failing_us = 2500000},
        {.id = 12, .is_disabled = true}};
    char *text;

    for (int i = 0; i < 2; i++) {
        metrics_publish_webhooks(&first, states, 2);
        ASSERT_METRICS("# TYPE seckill_webhook_lag_seconds gauge",
                       "seckill_webhook_lag_seconds{webhook_id=\"3\"} 1.5",
                       "seckill_webhook_lag_seconds{webhook_id=\"12\"} 0",
                       "# TYPE seckill_webhook_failing_seconds gauge",
                       "seckill_webhook_failing_seconds{webhook_id=\"3\"} 2.5",
                       "seckill_webhook_failing_seconds{webhook_id=\"12\"} 0",
                       "# TYPE seckill_webhook_disabled gauge",
                       "seckill_webhook_disabled{webhook_id=\"3\"} 0",
                       "seckill_webhook_disabled{webhook_id=\"12\"} 1");
    }
    metrics_publish_webhooks(&first, NULL, 0);
    text = printed(metrics_print);
    assert_null(strstr(text, "webhook_id"));
    free(text);
    metrics_clear(&first);
}

CASE(test_print_stats__of_a_sale)
{
    first.started_us = 1234567;
    second.started_us = 99;
    metrics_count_request(&first, ROUTE_NONE, 200);
    FILL(outcomes[OUTCOME_PLACED], 1);
    FILL(outcomes[OUTCOME_INTERNAL], 2);
    FILL(queue_depth, 3);
    FILL(in_flight, 4);
    FILL(connections, 5);
    FILL(lock_lost, 6);
    FILL(postgres_up, 7);
    FILL(redis_up, 8);
    FILL(bypassing, 9);
    FILL(expiry_leader, 1);
    first.durability = DURABILITY_REMOTE;
    metrics_observe_stage_us(&first, STAGE_LOCK, 50);
    metrics_observe_stage_us(&second, STAGE_LOCK, 600);
    metrics_observe_stage_us(&first, STAGE_QUEUE, -5);
    metrics_observe_stage_us(&first, STAGE_QUEUE, 1);
    metrics_observe_batch(&second, 10001);
    assert_prints(
        metrics_print_stats,
        "{\"started_ms\":1234,\"loops\":2,\"requests\":1,"
        "\"outcomes\":{\"placed\":11,\"internal\":22},"
        "\"stages\":{\"handover\":{\"sum\":0,\"buckets\":[]},"
        "\"lock\":{\"sum\":650,\"buckets\":[1,0,0,1]},"
        "\"queue\":{\"sum\":1,\"buckets\":[2]},\"commit\":{\"sum\":0,\"buckets\":[]},"
        "\"unlock\":{\"sum\":0,\"buckets\":[]},\"total\":{\"sum\":0,\"buckets\":[]}},"
        "\"batches\":{\"sum\":10001,\"buckets\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]},"
        "\"queue\":33,\"in_flight\":44,\"connections\":55,\"locks_lost\":66,"
        "\"postgres_up\":77,\"redis_up\":88,\"bypassing\":99,\"expiry_leader\":11,"
        "\"durability\":\"remote\",\"since_ms\":{}}");
}

static void assert_conditions(int64_t now_ms, const char *wanted)
{
    char *text, *found;

    metrics_note_conditions(&all, now_ms);
    text = printed(metrics_print_stats);
    found = strstr(text, "\"since_ms\":");
    assert_string_equal(found, wanted);
    free(text);
}

CASE(test_conditions__have_the_time_since_when_they_hold)
{
    assert_conditions(
        5, "\"since_ms\":{\"no_postgres\":5,\"no_redis\":5,\"not_expiring\":5}}");
    first.postgres_up = second.postgres_up = first.redis_up = second.expiry_leader = 1;
    assert_conditions(6, "\"since_ms\":{\"no_redis\":5}}");
    second.redis_up = 1;
    /* No standby was ever attached, so none is missing. */
    first.durability = DURABILITY_LOCAL;
    assert_conditions(7, "\"since_ms\":{}}");
    first.durability = DURABILITY_REMOTE;
    assert_conditions(8, "\"since_ms\":{}}");
    first.durability = DURABILITY_LOCAL;
    second.postgres_up = 0;
    second.bypassing = 1;
    assert_conditions(
        9, "\"since_ms\":{\"no_postgres\":9,\"bypassing\":9,\"no_standby\":9}}");
    first.durability = DURABILITY_NONE;
    second.postgres_up = 1;
    second.expiry_leader = 0;
    assert_conditions(
        10, "\"since_ms\":{\"bypassing\":9,\"not_durable\":10,\"not_expiring\":10}}");
    assert_conditions(
        11, "\"since_ms\":{\"bypassing\":9,\"not_durable\":10,\"not_expiring\":10}}");
}

CASE(test_print_bounds__of_stages_and_batches)
{
    struct text_document document;
    char *text;

    assert_true(text_document_begin(&document));
    metrics_print_bounds(document.out);
    text = text_document_end(&document);
    assert_string_equal(
        text, "\"stage_bounds_us\":[100,250,500,1000,2500,5000,10000,25000,50000,100000,"
              "250000,500000,1000000,2500000,5000000,10000000],"
              "\"batch_bounds\":[1,2,4,8,16,32,64,128,256,512,1024,2048,4096,6000,8000,"
              "10000]");
    free(text);
}

static const char *state_of(const char *text, int loop)
{
    for (const char *at = strstr(text, "\"state\":"); at != NULL && loop >= 0; loop--) {
        text = at + strlen("\"state\":");
        at = strstr(text, "\"state\":");
    }
    return text;
}

static void assert_states(const char *wanted_first, const char *wanted_second)
{
    char *text = printed(metrics_print_loops);

    ASSERT_BEGINS(text, "[{\"stats\":{\"started_ms\":0,\"loops\":1,");
    ASSERT_CONTAINS(text, "},{\"stats\":{\"started_ms\":0,\"loops\":1,");
    ASSERT_BEGINS(state_of(text, 0), wanted_first);
    assert_string_equal(state_of(text, 1), wanted_second);
    free(text);
}

CASE(test_print_loops__prints_the_last_state)
{
    assert_states("null},", "null}]");
    metrics_publish_state(&second, strdup("{\"n\":1}"));
    assert_states("null},", "{\"n\":1}}]");
    assert_states("null},", "{\"n\":1}}]");
    metrics_publish_state(&first, strdup("{\"n\":2}"));
    metrics_publish_state(&second, strdup("{\"n\":3}"));
    assert_states("{\"n\":2}},", "{\"n\":3}}]");
    metrics_publish_state(&first, NULL);
    metrics_publish_state(&second, NULL);
}

static ssize_t publish_newer(void *arg, const char *bytes UNUSED, size_t len)
{
    bool *is_done = arg;

    if (!*is_done)
        metrics_publish_state(&first, strdup("{\"n\":2}"));
    *is_done = true;
    return (ssize_t)len;
}

CASE(test_print_loops__keeps_a_state_that_is_published_meanwhile)
{
    bool is_done = false;
    FILE *out =
        fopencookie(&is_done, "w", (cookie_io_functions_t){.write = publish_newer});

    setvbuf(out, NULL, _IONBF, 0);
    metrics_publish_state(&first, strdup("{\"n\":1}"));
    metrics_print_loops(out, &all);
    assert_true(is_done);
    fclose(out);
    assert_states("{\"n\":2}},", "null}]");
    metrics_publish_state(&first, NULL);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
