/* it_http.c - routes, methods, the form of errors, the API description, metrics. */
#include "app/test/fixture.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PATHS_MAX 40

static const char *const methods[] = {"get", "post", "put", "patch", "delete"};
#define METHOD_COUNT (COUNT_OF(methods))

struct path {
    char target[100]; /* may contain {id} */
    unsigned methods; /* bit i: methods[i] */
};

static struct service *service;
static char voucher_id[ID_SIZE], order_id[ID_SIZE];

static int setup(void **state)
{
    static const char *const env[] = {"SECKILL_LISTENERS_MAX=0", NULL}; /* streams end */

    service = fixture_begin_group(state, env);
    make_voucher(service, &(struct sale){.stock = 1000}, voucher_id);
    snprintf(
        order_id, sizeof(order_id), "%s",
        reply_text(EXPECT(place_order(service, 7, voucher_id, NULL), 201, NULL), "id"));
    return 0;
}

/* -- the API description -- */

static unsigned method_bit(const char *line)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++) {
        size_t len = strlen(methods[i]);

        if (strncmp(line + 4, methods[i], len) == 0 && line[4 + len] == ':')
            return 1u << i;
    }
    return 0;
}

/* Reads the paths and methods of the API description by their indentation: "  /path:", then
   "    method:". */
static size_t read_paths(char *yaml, struct path *paths)
{
    size_t count = 0;
    bool is_inside = false;
    char *rest = yaml;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (line[0] != ' ' && line[0] != '\0' && line[0] != '#')
            is_inside = strncmp(line, "paths:", 6) == 0;
        if (!is_inside)
            continue;
        if (strncmp(line, "  /", 3) == 0) {
            assert_true(count < PATHS_MAX);
            snprintf(paths[count].target, sizeof(paths[count].target), "%.*s",
                     (int)strcspn(line + 2, ":"), line + 2);
            paths[count++].methods = 0;
        } else if (strncmp(line, "    ", 4) == 0 && count > 0) {
            paths[count - 1].methods |= method_bit(line);
        }
    }
    return count;
}

static size_t described_paths(struct path *paths)
{
    const struct client_reply *reply =
        EXPECT(request(service, NULL, NULL, "GET /openapi.yaml"), 200, NULL);
    char *yaml = strdup(reply->body);
    size_t count = read_paths(yaml, paths);

    assert_int_equal(strncmp(yaml, "openapi: 3.1", 12), 0);
    free(yaml);
    return count;
}

static void fill_target(const char *pattern, char *target, size_t size)
{
    const char *hole = strchr(pattern, '{');
    const char *id = strncmp(pattern, "/v1/orders", 10) == 0 ? order_id : voucher_id;

    if (hole == NULL)
        snprintf(target, size, "%s", pattern);
    else
        snprintf(target, size, "%.*s%s%s", (int)(hole - pattern), pattern, id,
                 strchr(hole, '}') + 1);
}

static bool allows(const struct client_reply *reply, const char *method)
{
    const char *at = reply_header(reply, "Allow");
    size_t len = strlen(method);

    while (at != NULL && *at != '\0') {
        at += strspn(at, ", ");
        if (strncasecmp(at, method, len) == 0 && !isalpha((unsigned char)at[len]))
            return true;
        at += strcspn(at, ", ");
    }
    return false;
}

static void check_allow(const struct path *path, const struct client_reply *reply)
{
    for (unsigned i = 0; i < METHOD_COUNT; i++)
        if (allows(reply, methods[i]) != ((path->methods & 1u << i) != 0))
            fail_msg("%s: Allow: %s: wrong about %s", path->target,
                     reply_header(reply, "Allow"), methods[i]);
}

static void check_method(const struct path *path, unsigned i)
{
    char target[150], method[8];
    const struct client_reply *reply;

    fill_target(path->target, target, sizeof(target));
    snprintf(method, sizeof(method), "%s", methods[i]);
    for (char *at = method; *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
    reply = request(service, admin(), NULL, "%s %s", method, target);
    if ((path->methods & 1u << i) == 0)
        check_allow(path, EXPECT(reply, 405, "method_not_allowed"));
    else if (reply->status == 404 || reply->status == 405 || reply->status == 0)
        fail_msg("%s %s: %d", method, target, reply->status);
}

static void test_openapi__lists_exactly_the_methods_that_are_served(void **state)
{
    struct path paths[PATHS_MAX];
    size_t count = described_paths(paths);
    char target[150];

    (void)state;
    for (size_t k = 0; k < count; k++) {
        assert_true(paths[k].methods != 0);
        for (unsigned i = 0; i < METHOD_COUNT; i++)
            check_method(&paths[k], i);
        fill_target(paths[k].target, target, sizeof(target));
        check_allow(&paths[k], EXPECT(request(service, NULL, NULL, "OPTIONS %s", target),
                                      204, NULL));
    }
}

/* -- methods and targets -- */

static void test_head__is_get_without_the_body(void **state)
{
    static const char *const targets[] = {
        "/v1/vouchers", "/v1/vouchers/{}", "/healthz",     "/readyz",
        "/metrics",     "/openapi.yaml",   "/v1/orders/0", "/nothing"};
    char target[100], type[100];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        const struct client_reply *reply;
        int status;

        fill(targets[i], voucher_id, target, sizeof(target));
        reply = request(service, NULL, NULL, "GET %s", target);
        status = reply->status;
        snprintf(type, sizeof(type), "%s", reply_header(reply, "Content-Type"));
        reply = EXPECT(request(service, NULL, NULL, "HEAD %s", target), status, NULL);
        assert_string_equal(reply_header(reply, "Content-Type"), type);
        assert_true(client_ends(service->conn, 50) == false); /* and no body follows */
    }
}

static void test_id_in_path__bad_is_a_4xx(void **state)
{
    static const char *const ids[] = {"0",   "%00", "1%00", "01%20", "%F0%9F%92%A9",
                                      "%ff", "%"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        EXPECT(request(service, admin(), NULL, "GET /v1/orders/%s", ids[i]), 400,
               "bad_request");
}

static void test_id_in_path__unknown_is_not_found(void **state)
{
    static const char *const lines[] = {
        "GET /v1/vouchers/9223372036854775807", "GET /v1/orders/9223372036854775807",
        "GET /v1/orders/1", "POST /v1/vouchers/9223372036854775807/orders"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        EXPECT(request(service, shopper(7), NULL, "%s", lines[i]), 404, "not_found");
    EXPECT(request(service, admin(), "{\"add\":1}",
                   "POST /v1/vouchers/9223372036854775807/restock"),
           404, "not_found");
    EXPECT(request(service, admin(), "{\"title\":\"x\"}",
                   "PATCH /v1/vouchers/9223372036854775807"),
           404, "not_found");
}

/* -- metrics -- */

static void test_metrics__has_the_metrics_of_the_contract(void **state)
{
    static const char *const names[] = {
        "seckill_http_requests_total{",
        "seckill_orders_total{outcome=\"placed\"}",
        "seckill_order_stage_seconds_bucket{",
        "seckill_batch_orders_bucket{",
        "seckill_queue_depth",
        "seckill_in_flight",
        "seckill_log_dropped_total",
        "seckill_locks_held 0",
        "seckill_lock_hold_seconds_bucket{le=\"32.768\"}",
        "seckill_lock_failed_total",
        "seckill_lock_lost_total",
        "seckill_lock_fence_restarts_total 0",
        "seckill_expiry_leader",
        "seckill_dependency_up{dependency=\"postgres\"} 1",
        "seckill_dependency_up{dependency=\"redis\"} 1",
        "seckill_durability{level=\"none\"} 0",
        "seckill_durability{level=\"local\"} 1",
        "seckill_durability{level=\"remote\"} 0",
        "seckill_catalogue_age_seconds",
        "seckill_clock_difference_seconds"};
    static const char *const stages[] = {"lock", "queue", "commit", "unlock", "total"};
    const struct client_reply *reply =
        EXPECT(request(service, NULL, NULL, "GET /metrics"), 200, NULL);
    char stage[40];

    (void)state;
    assert_int_equal(strncmp(reply_header(reply, "Content-Type"), "text/plain", 10), 0);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strstr(reply->body, names[i]) == NULL)
            fail_msg("no %s in:\n%.3000s", names[i], reply->body);
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        snprintf(stage, sizeof(stage), "stage=\"%s\"", stages[i]);
        if (strstr(reply->body, stage) == NULL)
            fail_msg("no %s", stage);
    }
    ASSERT_CONTAINS(reply->body, "reconnect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_openapi__lists_exactly_the_methods_that_are_served),
        CASE(test_head__is_get_without_the_body),
        CASE(test_id_in_path__bad_is_a_4xx),
        CASE(test_id_in_path__unknown_is_not_found),
        CASE(test_metrics__has_the_metrics_of_the_contract),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
