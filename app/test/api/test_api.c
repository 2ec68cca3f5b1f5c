/* test_api.c - routes, callers, limits, operators and pages, with fake backends. */
#include "app/core/embed.h"
#include "app/test/api/api_fixture.h"
#include "test/torture.h"

/* -- routes -- */

/* The letters of `callers` are those of the roles that may call: shopper, payment, admin, reader
   (an auditor). "" means everyone, even without a token. */
/* clang-format off */
static const struct {
    const char *line, *callers, *body;
} access_rows[] = {
    {"GET /v1/vouchers", "", NULL},
    {"GET /v1/vouchers/7", "", NULL},
    {"GET /v1/vouchers/7/stream", "", NULL},
    {"GET /v1/stream?vouchers=7", "", NULL},
    {"POST /v1/vouchers", "a", "{\"title\":\"t\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":0"
     ",\"begin_at\":\"2030-01-01T00:00:00Z\",\"end_at\":\"2031-01-01T00:00:00Z\"}"},
    {"PATCH /v1/vouchers/7", "a", "{}"},
    {"POST /v1/vouchers/7/restock", "a", "{\"add\":1}"},
    {"POST /v1/vouchers/7/orders", "s", NULL},
    {"POST /v1/vouchers/7/ticket", "s", NULL},
    {"GET /v1/vouchers/7/entry", "s", NULL},
    {"GET /v1/vouchers/7/entries", "", NULL},
    {"GET /v1/vouchers/7/events", "ar", NULL},
    {"GET /v1/orders/71", "sar", NULL},
    {"GET /v1/orders?user_id=5", "spar", NULL},
    {"POST /v1/orders/71/pay", "p", "{\"payment_ref\":\"p\",\"amount_cents\":1}"},
    {"POST /v1/orders/71/cancel", "sa", NULL},
    {"POST /v1/orders/71/refund", "pa", NULL},
    {"POST /v1/orders/71/redeem", "a", NULL},
    {"GET /v1/orders/71/events", "sar", NULL},
    {"GET /v1/events", "ar", NULL},
    {"GET /v1/webhooks", "ar", NULL},
    {"POST /v1/webhooks", "a", "{\"url\":\"https://a\"}"},
    {"GET /v1/webhooks/3", "ar", NULL},
    {"PATCH /v1/webhooks/3", "a", "{\"enabled\":true}"},
    {"DELETE /v1/webhooks/3", "a", NULL},
    {"POST /v1/webhooks/3/replay", "a", "{\"cursor\":\"0_0\"}"},
    {"GET /v1/webhooks/3/deliveries", "ar", NULL},
    {"GET /v1/stats", "a", NULL},
    {"GET /v1/debug/state", "a", NULL},
    {"GET /", "", NULL},
    {"GET /admin", "", NULL},
    {"GET /docs", "", NULL},
    {"GET /healthz", "", NULL},
    {"GET /readyz", "", NULL},
    {"GET /metrics", "", NULL},
    {"GET /openapi.yaml", "", NULL},
};
/* clang-format on */
#define ACCESS_ROWS (sizeof(access_rows) / sizeof(access_rows[0]))

API_CASE(test_routes__are_open_to_their_callers)
{
    static const struct {
        const char *token, *letter;
    } callers[] = {{NULL, "-"},    {"stranger 5", "-"}, {SHOPPER, "s"},
                   {PAYMENT, "p"}, {ADMIN, "a"},        {AUDITOR, "r"}};

    fake.health.is_ready = true;
    for (size_t i = 0; i < ACCESS_ROWS * 6; i++) {
        size_t row = i / 6, who = i % 6;
        const char *permitted = access_rows[row].callers;
        unsigned refusal = who < 2 ? 401 : 403;
        bool may_call = permitted[0] == '\0' || strstr(permitted, callers[who].letter);

        ask(access_rows[row].line, callers[who].token, NULL, access_rows[row].body);
        if (may_call ? status_of_answer >= 300 : status_of_answer != refusal)
            fail_msg("%s by %s: expected %s, got %s", access_rows[row].line,
                     callers[who].token ? callers[who].token : "nobody",
                     may_call ? "2xx" : "a refusal", answer);
    }
}

/* Each operation in openapi.yaml must be in the table above. */
API_CASE(test_routes__are_in_the_table_of_callers)
{
    char *yaml =
        strdup(strstr(embedded_find("app/api/openapi.yaml")->bytes, "\npaths:\n"));
    char *rest = yaml, *line;
    size_t described = 0;

    while ((line = strsep(&rest, "\n")) != NULL && strcmp(line, "components:") != 0)
        described += strcmp(line, "    get:") == 0 || strcmp(line, "    post:") == 0 ||
                     strcmp(line, "    patch:") == 0 || strcmp(line, "    delete:") == 0;
    free(yaml);
    ASSERT_NUMBER(described, ==, ACCESS_ROWS);
}

API_CASE(test_routes__have_methods_and_ids)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, READ, "200 " ORDER},
        {"HEAD /v1/orders/71", SHOPPER, NULL, NULL, READ, "200 " ORDER},
        {"GET /v1/orders/71", ADMIN, NULL, NULL, "read order 71 of 0;", "200 " ORDER},
        {"GET /v1/orders/71", NULL, NULL, NULL, "", UNAUTHENTICATED},
        {"GET /v1/orders/71", "out of memory", NULL, NULL, "", "503" RETRY " overloaded"},
        {"GET /v1/orders/71", SHOPPER, "Authorization: Bearer x\n", NULL, "", "400 bad_request: Authorization must not be repeated."},
        {"POST /v1/orders/71/refund", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"GET /v1/nothing", NULL, NULL, NULL, "", "404 not_found"},
        {"GET /v1/orders/71/", NULL, NULL, NULL, "", "404 not_found"},
        {"GET /v1/orders/0", SHOPPER, NULL, NULL, "", "400 bad_request: The id in the path must be an integer, 1 to 2^63-1."},
        {"GET /v1/orders/x", SHOPPER, NULL, NULL, "", "400 bad_request: The id in the path must be an integer, 1 to 2^63-1."},
        {"PATCH /v1/orders/71", SHOPPER, NULL, NULL, "", "405 Allow: GET, HEAD, OPTIONS method_not_allowed"},
        {"DELETE /v1/orders/71", SHOPPER, NULL, NULL, "", "405 Allow: GET, HEAD, OPTIONS method_not_allowed"},
        {"GET /v1/vouchers/7/orders", SHOPPER, NULL, NULL, "", "405 Allow: POST, OPTIONS method_not_allowed"},
        {"GET /v1/orders/71/pay", SHOPPER, NULL, NULL, "", "405 Allow: POST, OPTIONS method_not_allowed"},
        {"OPTIONS /v1/vouchers/7", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, PATCH, OPTIONS"},
        {"OPTIONS /v1/webhooks/3", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, PATCH, DELETE, OPTIONS"},
        {"OPTIONS /v1/vouchers", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, POST, OPTIONS"},
        {"OPTIONS *", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, POST, PATCH, DELETE, OPTIONS"},
        {"GET *", NULL, NULL, NULL, "", "404 not_found"},
        {"OPTIONS /v1/nothing", NULL, NULL, NULL, "", "404 not_found"},
        {"GET /healthz", NULL, NULL, NULL, "", "200 {\"status\":\"alive\"}"},
        {"GET /metrics", NULL, NULL, NULL, "", "200 text/plain; version=0.0.4; charset=utf-8 metrics"},
        {"GET /web/nothing", NULL, NULL, NULL, "", "404 not_found"},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    ask("GET /v1/nothing", NULL, NULL, NULL);
    ASSERT_NUMBER(counted, ==, ROUTE_NONE);
    ask("GET /healthz", NULL, NULL, NULL);
    ASSERT_NUMBER(counted, ==, ROUTE_HEALTHZ);
    fake.shows_debug = true;
    ask("GET /healthz", NULL, NULL, NULL);
    ASSERT_TEXT(did, "log request request_id=r path=\"~/healthz\" status=200;");
    fake.shows_debug = false;
    api_set_auth(api, (struct auth *)(uintptr_t)&metrics);
    ask("GET /v1/orders/71", SHOPPER, NULL, NULL);
    assert_ptr_equal(fake.auth, &metrics);
    fake.is_foreign = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", SHOPPER, NULL, NULL), "421 misdirected");
    ASSERT_TEXT(ask("GET /healthz", NULL, NULL, NULL), "200 {\"status\":\"alive\"}");
}

API_CASE(test_webhooks__are_shown_without_their_secrets)
{
    ASSERT_TEXT(
        ask("GET /v1/webhooks", AUDITOR, NULL, NULL),
        "200 {\"items\":[{\"id\":\"3\",\"url\":\"https://a/b@c\",\"state\":\"enabled\","
        "\"cursor\":\"4_5\",\"lag_s\":1.5},"
        "{\"id\":\"6\",\"url\":\"https://b\",\"state\":\"failing\","
        "\"cursor\":\"0_0\",\"lag_s\":0.0,\"failing_since\":\"2030-03-17T17:46:40Z\","
        "\"error\":\"timed out\"},"
        "{\"id\":\"7\",\"url\":\"https://c\",\"state\":\"disabled\","
        "\"cursor\":\"0_0\",\"lag_s\":0.0,\"failing_since\":\"2030-03-17T17:46:40Z\","
        "\"error\":\"HTTP status 500\"}],\"next_cursor\":null}");
    ASSERT_TEXT(did, "read webhooks;");
    ASSERT_NUMBER(counted, ==, ROUTE_WEBHOOKS);
    ASSERT_BEGINS(ask("GET /v1/webhooks", ADMIN, NULL, NULL),
                  "200 {\"items\":[{\"id\":\"3\",\"url\":\"https://me:pw@a/b@c?key=d\",");
    fake.status = RLOCK_IO;
    ASSERT_TEXT(ask("GET /v1/webhooks", ADMIN, NULL, NULL),
                "503 Retry-After: 1 unavailable");
}

API_CASE(test_webhooks__are_shown_one_by_one_in_any_cell)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/webhooks/3", ADMIN, NULL, NULL, "read webhooks;",
         "200 {\"id\":\"3\",\"url\":\"https://me:pw@a/b@c?key=d\",\"state\":\"enabled\",\"cursor\":\"4_5\",\"lag_s\":1.5}"},
        {"GET /v1/webhooks/3", AUDITOR, NULL, NULL, "read webhooks;",
         "200 {\"id\":\"3\",\"url\":\"https://a/b@c\",\"state\":\"enabled\",\"cursor\":\"4_5\",\"lag_s\":1.5}"},
        {"GET /v1/webhooks/7", AUDITOR, NULL, NULL, "read webhooks;",
         "200 {\"id\":\"7\",\"url\":\"https://c\",\"state\":\"disabled\",\"cursor\":\"0_0\",\"lag_s\":0.0,"
         "\"failing_since\":\"2030-03-17T17:46:40Z\",\"error\":\"HTTP status 500\"}"},
        {"GET /v1/webhooks/8", ADMIN, NULL, NULL, "read webhooks;", "404 not_found"},
    };
    /* clang-format on */

    fake.is_foreign = true;
    ASSERT_ROWS(rows);
    ASSERT_NUMBER(counted, ==, ROUTE_WEBHOOK);
    fake.status = RLOCK_IO;
    ASSERT_TEXT(ask("GET /v1/webhooks/3", ADMIN, NULL, NULL),
                "503 Retry-After: 1 unavailable");
}

#define ADD    "POST /v1/webhooks"
#define REPLAY "POST /v1/webhooks/3/replay"
#define ENDPOINT                                                                         \
    "{\"id\":\"3\",\"url\":\"https://me@a/"                                              \
    "?b\",\"state\":\"enabled\",\"cursor\":\"4_5\",\"lag_s\":0.0"
#define BAD_URL                                                                          \
    "422 invalid: url must begin with https:// and have at most 2000 visible ASCII "     \
    "characters"
#define BAD_PLACE "422 invalid: cursor must be a next_cursor of /v1/events"

API_CASE(test_webhooks__are_changed)
{
    /* clang-format off */
    static const struct row rows[] = {
        {ADD, ADMIN, NULL, "{\"url\":\"https://a\"}", "add https://a by admin:1 ;",
         "201 Location: /v1/webhooks/3 " ENDPOINT "}"},
        {ADD, ADMIN, "Idempotency-Key: k\n", "{\"url\":\"http://a\",\"cursor\":\"4_5\"}", "add http://a 4_5 by admin:1 k;",
         "201 Location: /v1/webhooks/3 " ENDPOINT "}"},
        {ADD, ADMIN, "Idempotency-Key: \n", "{\"url\":\"https://a\"}", "",
         "400 bad_request: Idempotency-Key must be sent once, 1 to 64 printable bytes."},
        {ADD, ADMIN, NULL, "{}", "", "422 invalid: url is required"},
        {ADD, ADMIN, NULL, "{\"url\":\"https:/a\"}", "", BAD_URL},
        {ADD, ADMIN, NULL, "{\"url\":\"ftp://a\"}", "", BAD_URL},
        {ADD, ADMIN, NULL, "{\"url\":\"https://a\",\"cursor\":\"5_4\"}", "", BAD_PLACE},
        {ADD, ADMIN, NULL, "{\"url\":\"https://a\",\"secret\":\"s\"}", "", "422 invalid: secret unknown field"},
        {"PATCH /v1/webhooks/3", ADMIN, NULL, "{\"enabled\":true}", "enable 3 by admin:1;", "200 " ENDPOINT "}"},
        {"PATCH /v1/webhooks/3", ADMIN, NULL, "{\"enabled\":false}", "disable 3 by admin:1;", "200 " ENDPOINT "}"},
        {"PATCH /v1/webhooks/3", ADMIN, NULL, "{}", "", "422 invalid: enabled is required"},
        {"PATCH /v1/webhooks/3", ADMIN, NULL, NULL, "", "415 unsupported_media_type"},
        {REPLAY, ADMIN, NULL, "{\"cursor\":\"4_5\"}", "enable 3 4_5 by admin:1;", "200 " ENDPOINT "}"},
        {REPLAY, ADMIN, NULL, "{\"cursor\":\"4_x\"}", "", BAD_PLACE},
        {REPLAY, ADMIN, NULL, "{}", "", "422 invalid: cursor is required"},
        {"DELETE /v1/webhooks/3", ADMIN, NULL, NULL, "remove 3;", "204"},
    };
    /* clang-format on */

    fake.is_foreign = true; /* the id of an endpoint says nothing about its cell */
    ASSERT_ROWS(rows);
    ASSERT_NUMBER(counted, ==, ROUTE_WEBHOOK);
    ask(REPLAY, ADMIN, NULL, "{\"cursor\":\"4_5\"}");
    ASSERT_NUMBER(counted, ==, ROUTE_REPLAY);
    fake.has_secret = true;
    ASSERT_TEXT(ask(ADD, ADMIN, NULL, "{\"url\":\"https://a\"}"),
                "201 Location: /v1/webhooks/3 " ENDPOINT ",\"secret\":\"whsec_s\"}");
    fake.has_no_random = true;
    ASSERT_TEXT(ask(ADD, ADMIN, NULL, "{\"url\":\"https://a\"}"),
                "503 Retry-After: 1 unavailable");
    ASSERT_TEXT(did, "");
}

API_CASE(test_webhooks__that_cannot_be_changed)
{
    /* clang-format off */
    static const struct {
        enum rlock_status status;
        const char *add, *replay, *patch, *remove;
    } rows[] = {
        {RLOCK_INVALID, "422 invalid: url there are 64 endpoints, or cursor is beyond the last change",
         "422 invalid: cursor is beyond the last change", NULL, NULL},
        {RLOCK_NOT_OWNER, "422 invalid: Idempotency-Key belongs to another request of this user", NULL, NULL, NULL},
        {RLOCK_NOT_FOUND, NULL, "404 not_found", "404 not_found", "404 not_found"},
        {RLOCK_TIMEOUT, "503 Retry-After: 1 outcome_unknown", "503 Retry-After: 1 outcome_unknown",
         "503 Retry-After: 1 outcome_unknown", "503 Retry-After: 1 outcome_unknown"},
        {RLOCK_BUSY, "503 Retry-After: 1 unavailable", NULL, NULL, NULL},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.status = rows[i].status;
        if (rows[i].add != NULL)
            ASSERT_TEXT(ask(ADD, ADMIN, NULL, "{\"url\":\"https://a\"}"), rows[i].add);
        if (rows[i].replay != NULL)
            ASSERT_TEXT(ask(REPLAY, ADMIN, NULL, "{\"cursor\":\"4_5\"}"), rows[i].replay);
        if (rows[i].patch != NULL)
            ASSERT_TEXT(ask("PATCH /v1/webhooks/3", ADMIN, NULL, "{\"enabled\":true}"),
                        rows[i].patch);
        if (rows[i].remove != NULL)
            ASSERT_TEXT(ask("DELETE /v1/webhooks/3", ADMIN, NULL, NULL), rows[i].remove);
    }
}

/* The id of an endpoint says nothing about its cell. */
API_CASE(test_deliveries__are_those_of_an_endpoint_in_any_cell)
{
    fake.is_foreign = true;
    ASSERT_TEXT(
        ask("GET /v1/webhooks/3/deliveries", ADMIN, NULL, NULL),
        "200 {\"items\":[{\"event_id\":\"72\",\"at\":\"2030-03-17T17:46:41Z\","
        "\"duration_ms\":10000,\"error\":\"timed out\"},"
        "{\"event_id\":\"71\",\"at\":\"2030-03-17T17:46:40Z\",\"duration_ms\":8}],"
        "\"next_cursor\":null}");
    ASSERT_TEXT(did, "read deliveries 3;");
    ASSERT_NUMBER(counted, ==, ROUTE_DELIVERIES);
    fake.status = RLOCK_NOT_FOUND;
    ASSERT_TEXT(ask("GET /v1/webhooks/3/deliveries", ADMIN, NULL, NULL), "404 not_found");
}

static const char *ask_defect(const char *defect, bool is_too_large, bool is_chunked,
                              const char *path)
{
    struct http_request *request = request_new();

    *request = (struct http_request){.method = HTTP_POST,
                                     .path = path,
                                     .defect = defect,
                                     .is_too_large = is_too_large,
                                     .is_chunked = is_chunked,
                                     .context = request->memory};
    sent = (struct sent){"", "Authorization: Bearer " SHOPPER};
    did[0] = answer[0] = '\0';
    handle(request, NULL);
    free(request);
    return answer;
}

API_CASE(test_routes__refuse_defects)
{
    ASSERT_TEXT(ask_defect("Defect.", false, false, "/v1/vouchers/7/orders"),
                "400 bad_request: Defect.");
    ASSERT_TEXT(ask_defect(NULL, true, false, "/v1/vouchers/7/orders"), "413 too_large");
    ASSERT_TEXT(ask_defect(NULL, false, true, "/v1/vouchers/7/orders"),
                "400 bad_request: This body must have a Content-Length.");
    ASSERT_TEXT(ask_defect(NULL, false, true, "/v1/vouchers"), "403 forbidden");
}

static size_t body_max_of(enum http_method method, const char *path, const char *as)
{
    struct http_request *request = request_new();
    char headers[100];
    size_t bytes;

    request->method = method;
    request->path = path;
    snprintf(headers, sizeof(headers), "Authorization: Bearer %s", as);
    sent = (struct sent){"", headers};
    bytes = api_body_max(request, api);
    free(request);
    return bytes;
}

static size_t body_max(const char *path, const char *as)
{
    return body_max_of(HTTP_POST, path, as);
}

API_CASE(test_bodies__are_kept_for_permitted_callers)
{
    ASSERT_NUMBER(body_max("/v1/vouchers", ADMIN), ==, HTTP_LONG_BODY_BYTES_MAX);
    /* The token cannot be checked yet. */
    ASSERT_NUMBER(body_max("/v1/vouchers", "out of memory"), ==,
                  HTTP_LONG_BODY_BYTES_MAX);
    ASSERT_NUMBER(body_max("/v1/vouchers", SHOPPER), ==, 0);
    ASSERT_NUMBER(body_max("/v1/vouchers", "stranger 1"), ==, 0);
    ASSERT_NUMBER(body_max_of(HTTP_GET, "/v1/orders", ADMIN), ==, 0);
    ASSERT_NUMBER(body_max("/v1/vouchers/7/orders", SHOPPER), ==, HTTP_BODY_BYTES_MAX);
    ASSERT_NUMBER(body_max("/v1/vouchers/7/orders", "stranger 1"), ==, 0);
    ASSERT_NUMBER(body_max("/v1/vouchers/7/orders", ADMIN), ==, 0);
    ASSERT_NUMBER(body_max("/v1/vouchers/7", ADMIN), ==, 0);
    ASSERT_NUMBER(body_max("/nothing", ADMIN), ==, 0);
    ASSERT_NUMBER(body_max("/v1/dev/token", "nobody"), ==, HTTP_BODY_BYTES_MAX);
    api->options.dev_login = false;
    ASSERT_NUMBER(body_max("/v1/dev/token", "nobody"), ==, 0);
}

/* If the service ignored a body, the client could believe that its members have an effect. */
API_CASE(test_bodies__have_no_members_if_the_route_knows_none)
{
    static const struct {
        const char *line, *as, *did;
    } routes[] = {
        {PLACE, SHOPPER, ""},
        {"POST /v1/orders/71/cancel", SHOPPER, LIMITED},
        {"POST /v1/orders/71/refund", PAYMENT, ""},
        {"POST /v1/orders/71/redeem", ADMIN, ""},
    };

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        struct row row = {routes[i].line, routes[i].as,
                          NULL,           "{\"quantity\":3}",
                          routes[i].did,  "422 invalid: quantity unknown field"};

        assert_rows(&row, 1);
        row.body = "[]";
        row.answer = "400 bad_request: The body must be an object.";
        assert_rows(&row, 1);
        row.headers = BODY "text/plain\n";
        row.answer = "415 unsupported_media_type";
        assert_rows(&row, 1);
        row = (struct row){
            row.line, row.as,
            NULL,     "{}",
            NULL,     i == 0 ? "201 Location: /v1/orders/71 " ORDER : "200 " ORDER};
        assert_rows(&row, 1);
    }
}

/* -- queries -- */

API_CASE(test_queries__have_no_unknown_parameters)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/orders?state=paid", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: state."},
        {"GET /v1/orders?limit=2&q=tea", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: q."},
        {"GET /v1/orders?limi=2", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: limi."},
        {"GET /v1/orders?limits=2", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: limits."},
        {"GET /v1/orders?=2", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: ."},
        {"GET /v1/orders?\xff\x1f\"", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: ??\"."},
        {"GET /v1/orders?~\x7f", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: ~?."},
        {"GET /v1/orders?" KEY_64 "5", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: " KEY_64 "."},
        {"GET /v1/orders/71?limit=2", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: limit."},
        {"GET /v1/orders/71/events?cursor=2", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: cursor."},
        {"GET /v1/vouchers?q=tea", NULL, NULL, NULL, "", "400 bad_request: Unknown query parameter: q."},
        {"GET /v1/vouchers/7?x=1", NULL, NULL, NULL, "", "400 bad_request: Unknown query parameter: x."},
        {"GET /v1/vouchers/7/stream?after=1", NULL, NULL, NULL, "", "400 bad_request: Unknown query parameter: after."},
        {"GET /v1/vouchers/7/events?cursor=1", ADMIN, NULL, NULL, "", "400 bad_request: Unknown query parameter: cursor."},
        {PLACE "?quantity=2", SHOPPER, NULL, NULL, "", "400 bad_request: Unknown query parameter: quantity."},
        {"POST /v1/orders/71/refund?amount_cents=1", PAYMENT, NULL, NULL, "", "400 bad_request: Unknown query parameter: amount_cents."},
        {"GET /v1/stats?from=1", ADMIN, NULL, NULL, "", "400 bad_request: Unknown query parameter: from."},
        {"GET /healthz?x=1", NULL, NULL, NULL, "", "400 bad_request: Unknown query parameter: x."},
        {"GET /metrics?name=up", NULL, NULL, NULL, "", "400 bad_request: Unknown query parameter: name."},
        {"OPTIONS /v1/orders?x=1", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, OPTIONS"},
        {"GET /v1/nothing?x=1", NULL, NULL, NULL, "", "404 not_found"},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    /* other sites may add parameters to a link to a page, such as those of a campaign */
    ASSERT_CONTAINS(ask("GET /?utm_source=mail", NULL, NULL, NULL), "200 text/html");
}

/* -- limits -- */

API_CASE(test_limits__refuse_before_anything_is_done)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, LIMITED,
         "429 Retry-After: 2 RateLimit-Policy: \"shopper\";q=20;w=2 RateLimit: \"shopper\";r=0;t=2 rate_limited"},
        {"GET /v1/orders/71", ADMIN, NULL, NULL, "read order 71 of 0;", "200 " ORDER},
    };
    static const struct row of_addresses[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, "limit address;",
         "429 Retry-After: 1 RateLimit-Policy: \"address\";q=20;w=2 RateLimit: \"address\";r=0;t=1 rate_limited"},
        {"GET /healthz", NULL, NULL, NULL, "", "200 {\"status\":\"alive\"}"},
    };
    static const struct row full[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, "", "503" RETRY " overloaded"},
        {PLACE, SHOPPER, NULL, NULL, SUBMIT, "201 Location: /v1/orders/71 " ORDER},
        {"GET /healthz", NULL, NULL, NULL, "", "200 {\"status\":\"alive\"}"},
    };
    /* clang-format on */
    static char limiter;

    fake.pending = 10;
    ASSERT_TEXT(ask("GET /v1/orders/71", SHOPPER, NULL, NULL), "200 " ORDER);
    fake.pending = 11;
    ASSERT_ROWS(full);
    fake.has_entry = false;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " overloaded");
    fake.has_entry = true;
    fake.pending = 0;
    fake.rate_wait_us = 1000001;
    ASSERT_ROWS(rows);
    fake.rate_wait_us = 1000000;
    api->options.address_limiter = (struct limiter *)(void *)&limiter;
    ASSERT_ROWS(of_addresses);
}

API_CASE(test_revocations__are_looked_up_by_the_id_of_the_token)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/orders/71", "shopper 5 abc", NULL, NULL, LIMITED "EXISTS revoked:abc;read order 71 of 5;", "200 " ORDER},
        {"GET /v1/orders/71", "shopper 5 a", NULL, NULL, LIMITED "EXISTS revoked:a;read order 71 of 5;", "200 " ORDER},
        {"GET /v1/stats", "shopper 5 abc", NULL, NULL, LIMITED "EXISTS revoked:abc;", "403 forbidden"},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    fake.is_cluster = true;
    ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL);
    ASSERT_TEXT(did, LIMITED "EXISTS {revoked:}abc;read order 71 of 5;");
    fake.is_revoked = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL), UNAUTHENTICATED);
    fake.is_revoked = false;
    fake.status = RLOCK_IO; /* the command EXISTS fails, and a read would fail too */
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL),
                "503" RETRY " unavailable");
    ASSERT_TEXT(did, LIMITED "EXISTS {revoked:}abc;");
    fake.status = RLOCK_BUSY; /* the reply is not a number */
    ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL);
    ASSERT_TEXT(did, LIMITED "EXISTS {revoked:}abc;");
    fake.status = RLOCK_OK;
    fake.is_redis_down = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL),
                "503" RETRY " unavailable");
    api->options.bypass_locks = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL), "200 " ORDER);
    ASSERT_TEXT(ask("GET /v1/stats", "shopper 5 abc", NULL, NULL), "403 forbidden");
    fake.entry.stock_left = 0; /* a refusal from memory needs no command */
    ASSERT_TEXT(ask(PLACE, "shopper 5 abc", NULL, NULL), "409 sold_out");
    ASSERT_TEXT(did, "");
}

/* -- memory -- */

static void *no_memory(size_t size UNUSED)
{
    return NULL;
}

API_CASE(test_api_create__fails_without_memory)
{
    const struct api_options options = {.queue_max = 1};
    unsigned failed = 0;
    struct api *created;

    for (;; failed++) {
        torture_fail(failed + 1, 0);
        created = api_create(&options);
        if (!torture_stop())
            break;
        if (created != NULL)
            fail_msg("created, although allocation %u failed", failed + 1);
    }
    assert_non_null(created);
    api_free(created);
    ASSERT_NUMBER(failed, >, 20);
}

API_CASE(test_api__answers_without_memory)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/vouchers/7", NULL, NULL, NULL, "read voucher 7;", "503" RETRY " overloaded"},
        {"GET /v1/vouchers", NULL, NULL, NULL, "list vouchers 0 0 0 21;", "503" RETRY " overloaded"},
        {"GET /v1/orders/71/events", ADMIN, NULL, NULL, "read order 71 of 0;list events 7 71 0 21 in 2000;",
         "503" RETRY " overloaded"},
        {"PATCH /v1/vouchers/7", ADMIN, NULL, "{}", "", "503" RETRY " overloaded"},
        {"GET /v1/vouchers?limit=x", NULL, NULL, NULL, "", "503" RETRY " overloaded"},
        /* this answer was printed before */
        {PLACE, SHOPPER, NULL, NULL, "", "409 Retry-After: 2 not_started"},
    };
    static const struct row without_pages[] = {
        {"GET /v1/vouchers/7", NULL, NULL, NULL, "read voucher 7;", "503" RETRY " overloaded"},
        {"GET /", NULL, NULL, NULL, "", "503" RETRY " overloaded"},
        {PLACE, SHOPPER, NULL, NULL, "", "409 Retry-After: 2 not_started"},
    };
    /* clang-format on */
    const struct api_options options = {.queue_max = 1};
    json_malloc_t json_malloc;
    json_free_t json_free;

    fake.entry.begin_us = clock_real_us() + 2000000;
    fake.has_no_pages = true;
    ASSERT_ROWS(without_pages);
    assert_null(api_create(&options));
    api_free(NULL);
    json_get_alloc_funcs(&json_malloc, &json_free);
    fake.has_no_pages = false;
    ask(PLACE, SHOPPER, NULL, NULL);
    json_set_alloc_funcs(no_memory, json_free);
    assert_null(api_create(&options));
    ASSERT_ROWS(rows);
    json_set_alloc_funcs(json_malloc, json_free);
}

/* -- operators -- */

API_CASE(test_readyz__names_what_is_missing)
{
    /* clang-format off */
    static const struct {
        struct health health;
        bool bypasses;
        const char *answer;
    } rows[] = {
        {{true, RLOCK_OK, true, true, true}, false, "200 {\"status\":\"ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"up\"}}"},
        {{true, RLOCK_OK, false, true, true}, false, "200 {\"status\":\"ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"degraded\"}}"},
        {{true, RLOCK_OK, false, false, true}, true, "200 {\"status\":\"ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"bypassed\"}}"},
        {{true, RLOCK_OK, false, false, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"down\"}}"},
        {{false, RLOCK_INVALID, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"not_utf8\",\"redis\":\"up\"}}"},
        {{false, RLOCK_REFUSED, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"no_rights\",\"redis\":\"up\"}}"},
        {{false, RLOCK_BUSY, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"read_only\",\"redis\":\"up\"}}"},
        {{false, RLOCK_UNSAFE, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"not_durable\",\"redis\":\"up\"}}"},
        {{false, RLOCK_LOST, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"commits_wait\",\"redis\":\"up\"}}"},
        {{false, RLOCK_NOT_OWNER, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"pooler_transaction_mode\",\"redis\":\"up\"}}"},
        {{false, RLOCK_IO, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"down\",\"redis\":\"up\"}}"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.health = rows[i].health;
        api->options.bypass_locks = rows[i].bypasses;
        ASSERT_TEXT(ask("GET /readyz", NULL, NULL, NULL), rows[i].answer);
    }
}

API_CASE(test_stats__come_from_redis_or_this_instance)
{
#define BAD_AFTER "400 bad_request: after must be the id of an item."
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/stats", ADMIN, NULL, NULL, "stats \"\";", "200 {}"},
        {"GET /v1/stats?after=12-3", ADMIN, NULL, NULL, "stats \"12-3\";", "200 {}"},
        {"GET /v1/stats?after=1-2", ADMIN, NULL, NULL, "stats \"1-2\";", "200 {}"},
        {"GET /v1/stats?after=12-", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=-3", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12x3", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12-3x", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12-3&after=12-3", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=1234567890123456789012345678901234567890-123", ADMIN, NULL, NULL, "",
         BAD_AFTER},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    fake.is_redis_down = true;
    ASSERT_TEXT(ask("GET /v1/stats", ADMIN, NULL, NULL), "200 {\"own\":1}");
    ASSERT_CONTAINS(ask("GET /v1/debug/state", ADMIN, NULL, NULL), "200 {\"version\":\"");
    ASSERT_CONTAINS(answer, ",\"now_ms\":1700000005000,\"resident_kib\":");
    ASSERT_CONTAINS(answer, ",\"workers\":[]}");
    assert_null(strstr(answer, "\"resident_kib\":0"));
}

/* -- tokens for development -- */

API_CASE(test_dev_token__is_for_local_hosts)
{
    static const char token[] = "{\"user_id\":5,\"role\":\"shopper\"}";
#define TOKEN                                                                            \
    "201 {\"token\":\"shopper 5 at 1700000005 for "                                      \
    "43200\",\"user_id\":\"5\",\"role\":\"shopper\"}"
    /* clang-format off */
    static const struct {
        const char *host, *answer;
    } hosts[] = {
        {"Host: 127.0.0.1\n", TOKEN}, {"Host: localhost\n", TOKEN}, {"Host: [::1]\n", TOKEN},
        {"Host: localhost:8080\n", TOKEN}, {"Host: localhost.org\n", "404 not_found"}, {"Host: localhos\n", "404 not_found"},
        {"Host: example.org\n", "404 not_found"}, {"", "404 not_found"},
    };
    static const struct row rows[] = {
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":999999999999,\"role\":\"admin\"}", "",
         "201 {\"token\":\"admin 999999999999 at 1700000005 for 43200\",\"user_id\":\"999999999999\",\"role\":\"admin\"}"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":1000000000000,\"role\":\"12345678901\"}", "",
         "422 invalid: user_id must be a whole number from 1 to 999999999999: role must be a text of 1 to 10 characters"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":0,\"role\":\"\"}", "",
         "422 invalid: user_id must be a whole number from 1 to 999999999999: role must be a text of 1 to 10 characters"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":1,\"role\":\"1234567890\"}", "",
         "422 invalid: role must be shopper, payment, admin or auditor"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{}", "", "422 invalid: user_id is required: role is required"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        ASSERT_TEXT(ask("POST /v1/dev/token", NULL, hosts[i].host, token),
                    hosts[i].answer);
    ASSERT_ROWS(rows);
    fake.status = RLOCK_REFUSED; /* there is no signing key */
    ASSERT_TEXT(ask("POST /v1/dev/token", NULL, "Host: localhost\n", token),
                "404 not_found");
    fake.status = RLOCK_OK;
    api->options.dev_login = false;
    ASSERT_TEXT(ask("POST /v1/dev/token", NULL, "Host: localhost\n", token),
                "404 not_found");
}

/* -- pages -- */

API_CASE(test_settings__of_the_pages_are_a_module)
{
    ASSERT_TEXT(ask("GET /web/settings.js", NULL, NULL, NULL),
                "200 text/javascript; charset=utf-8 Cache-Control: no-cache "
                "export const currency = 'EUR';\n");
}

API_CASE(test_pages__have_their_type_and_encoding)
{
    /* clang-format off */
    static const struct {
        const char *line, *accepts, *type;
        bool is_packed;
    } rows[] = {
        {"GET /", "", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /", "Accept-Encoding: gzip\n", "200 text/html; charset=utf-8 ETag: \"", true},
        {"GET /", "Accept-Encoding: gzip;q=0\n", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /", "Accept-Encoding: gzip;q=0.5\n", "200 text/html; charset=utf-8 ETag: \"", true},
        {"GET /admin", "", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /docs", "", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /openapi.yaml", "Accept-Encoding: gzip\n", "200 application/yaml ETag: \"", false},
        {"GET /web/shop.js", "Accept-Encoding: gzip\n", "200 text/javascript; charset=utf-8 ETag: \"", true},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *found = ask(rows[i].line, NULL, rows[i].accepts, NULL);

        if (strncmp(found, rows[i].type, strlen(rows[i].type)) != 0)
            fail_msg("%s: expected \"%s...\", got \"%.100s\"", rows[i].line, rows[i].type,
                     found);
        ASSERT_CONTAINS(found, "\" Cache-Control: no-cache Vary: Accept-Encoding");
        if ((strstr(found, " Content-Encoding: gzip") != NULL) != rows[i].is_packed)
            fail_msg("%s %s: packed %d, expected %d", rows[i].line, rows[i].accepts,
                     !rows[i].is_packed, rows[i].is_packed);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
