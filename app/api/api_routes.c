/* api_routes.c - the table of routes, and what happens to a request before its handler is
   called. */
#include "app/api/api_routes.h"

#include "app/core/log.h"
#include "app/core/probes.h"
#include "app/http/address.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum callers {
    ANYONE = 0,
    SHOPPER = 1 << AUTH_SHOPPER,
    PAYMENT = 1 << AUTH_PAYMENT,
    ADMIN = 1 << AUTH_ADMIN,
    AUDITOR = 1 << AUTH_AUDITOR, /* may read only */
    /* Admission decides from memory before the caller is identified, and even if the service is
       full: a refusal by admission reveals nothing private and costs least. If the voucher is not
       in the catalogue, the caller is identified first. */
    MEMORY_FIRST = 1 << 8,
    READS_BODY = 1 << 9,
    REFUSES_BODY = 1 << 10, /* a body must be an object without members */
    /* Unknown parameters are ignored, because a link to a page may have parameters of a
       campaign. */
    ANY_QUERY = 1 << 11,
    LONG_BODY = 1 << 12,
    ANY_CELL = API_ANY_CELL,
};
#define ROLES ((unsigned)(SHOPPER | PAYMENT | ADMIN | AUDITOR))

/* clang-format off */
#define ROUTE(method, path, tag, callers, handler, ...) {path, HTTP_##method, ROUTE_##tag, callers, handler, {__VA_ARGS__}}

/* The rows with the same path are in the order in which the header Allow lists their methods. A row
   ends with the names of the parameters that the query may have. */
static const struct api_route routes[] = {
    ROUTE(POST,  "/v1/vouchers/{id}/orders",  PLACE,          SHOPPER | MEMORY_FIRST | REFUSES_BODY, api_place_order, NULL),
    ROUTE(POST,  "/v1/vouchers/{id}/ticket",  TICKET,         SHOPPER | MEMORY_FIRST | READS_BODY,   api_make_ticket, NULL),
    ROUTE(GET,   "/v1/vouchers/{id}/entry",   ENTRY,          SHOPPER,                               api_read_entry, NULL),
    ROUTE(GET,   "/v1/vouchers/{id}/entries", ENTRIES,        ANYONE,                                api_list_entries, NULL),
    ROUTE(GET,   "/v1/vouchers/{id}",         VOUCHER,        ANYONE,                                api_read_voucher, NULL),
    ROUTE(PATCH, "/v1/vouchers/{id}",         VOUCHER,        ADMIN | READS_BODY,                    api_patch_voucher, NULL),
    ROUTE(GET,   "/v1/vouchers/{id}/stream",  STREAM,         ANYONE,                                api_stream_voucher, NULL),
    ROUTE(GET,   "/v1/stream",                STREAM,         ANYONE,                                api_stream_vouchers, "vouchers"),
    ROUTE(GET,   "/v1/vouchers",              VOUCHERS,       ANYONE,                                api_list_vouchers, "state", "limit", "cursor"),
    ROUTE(POST,  "/v1/vouchers",              VOUCHERS,       ADMIN | READS_BODY | LONG_BODY,        api_create_vouchers, NULL),
    ROUTE(POST,  "/v1/vouchers/{id}/restock", RESTOCK,        ADMIN | READS_BODY,                    api_restock_voucher, NULL),
    ROUTE(GET,   "/v1/vouchers/{id}/events",  VOUCHER_EVENTS, ADMIN | AUDITOR,                       api_list_voucher_events, "orders", "after", "limit"),
    ROUTE(GET,   "/v1/orders/{id}",           ORDER,          SHOPPER | ADMIN | AUDITOR,             api_read_order, NULL),
    ROUTE(GET,   "/v1/orders",                ORDERS,         SHOPPER | PAYMENT | ADMIN | AUDITOR,   api_list_orders,
          "voucher_id", "user_id", "order_id", "payment_ref", "status", "created_after", "created_before", "limit", "cursor"),
    ROUTE(POST,  "/v1/orders/{id}/pay",       PAY,            PAYMENT | READS_BODY,                  api_pay_order, NULL),
    ROUTE(POST,  "/v1/orders/{id}/cancel",    CANCEL,         SHOPPER | ADMIN | REFUSES_BODY,        api_change_order, NULL),
    ROUTE(POST,  "/v1/orders/{id}/refund",    REFUND,         PAYMENT | ADMIN | REFUSES_BODY,        api_change_order, NULL),
    ROUTE(POST,  "/v1/orders/{id}/redeem",    REDEEM,         ADMIN | REFUSES_BODY,                  api_change_order, NULL),
    ROUTE(GET,   "/v1/orders/{id}/events",    ORDER_EVENTS,   SHOPPER | ADMIN | AUDITOR,             api_list_order_events, "after", "limit"),
    ROUTE(GET,   "/v1/events",                FEED,           ADMIN | AUDITOR,                       api_read_feed, "after", "limit", "wait_s"),
    ROUTE(GET,   "/v1/webhooks",              WEBHOOKS,       ADMIN | AUDITOR,                       api_list_webhooks, NULL),
    ROUTE(POST,  "/v1/webhooks",              WEBHOOKS,       ADMIN | READS_BODY,                    api_add_webhook, NULL),
    ROUTE(GET,   "/v1/webhooks/{id}",         WEBHOOK,        ADMIN | AUDITOR | ANY_CELL,            api_read_webhook, NULL),
    ROUTE(PATCH, "/v1/webhooks/{id}",         WEBHOOK,        ADMIN | READS_BODY | ANY_CELL,         api_patch_webhook, NULL),
    ROUTE(DELETE, "/v1/webhooks/{id}",        WEBHOOK,        ADMIN | ANY_CELL,                      api_remove_webhook, NULL),
    ROUTE(POST,  "/v1/webhooks/{id}/replay",  REPLAY,         ADMIN | READS_BODY | ANY_CELL,         api_replay_webhook, NULL),
    ROUTE(GET,   "/v1/webhooks/{id}/deliveries", DELIVERIES,  ADMIN | AUDITOR | ANY_CELL,            api_list_deliveries, NULL),
    ROUTE(GET,   "/v1/stats",                 STATS,          ADMIN,                                 api_read_stats, "after"),
    ROUTE(GET,   "/v1/debug/state",           DEBUG_STATE,    ADMIN,                                 api_read_debug_state, NULL),
    ROUTE(POST,  "/v1/dev/token",             DEV_TOKEN,      READS_BODY,                            api_make_dev_token, NULL),
    ROUTE(GET,   "/healthz",                  HEALTHZ,        ANYONE,                                api_read_healthz, NULL),
    ROUTE(GET,   "/readyz",                   READYZ,         ANYONE,                                api_read_readyz, NULL),
    ROUTE(GET,   "/metrics",                  METRICS,        ANYONE,                                api_read_metrics, NULL),
    ROUTE(GET,   "/openapi.yaml",             OPENAPI,        ANYONE,                                api_read_page, NULL),
    ROUTE(GET,   "/",                         WEB,            ANYONE | ANY_QUERY,                    api_read_page, NULL),
    ROUTE(GET,   "/admin",                    WEB,            ANYONE | ANY_QUERY,                    api_read_page, NULL),
    ROUTE(GET,   "/docs",                     WEB,            ANYONE | ANY_QUERY,                    api_read_page, NULL),
    ROUTE(GET,   "/web/{name}",               WEB,            ANYONE | ANY_QUERY,                    api_read_page, NULL),
};
/* clang-format on */
#define ROUTE_ROWS (sizeof(routes) / sizeof(routes[0]))

/* Whether `path` matches `pattern`. Sets `ret_id` to the part that matches {id}. */
static bool matches(const char *pattern, const char *path, struct text *ret_id)
{
    *ret_id = (struct text){0};
    while (*pattern != '\0') {
        if (*pattern == '{') {
            struct text found = {path, strcspn(path, "/")};

            if (pattern[1] == 'i')
                *ret_id = found;
            path += found.len;
            pattern = strchr(pattern, '}') + 1;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

/* Returns the row with this path and method. If no row has both, returns a row with this path.
   NULL: no row has this path. */
static const struct api_route *find_route(const char *path, enum http_method method,
                                          struct text *ret_id)
{
    const struct api_route *found = NULL;

    for (size_t i = 0; i < ROUTE_ROWS; i++) {
        if (!matches(routes[i].path, path, ret_id))
            continue;
        found = &routes[i];
        if (found->method == method)
            break;
    }
    return found;
}

static void answer_allow(struct api_request *request)
{
    static const char *const names[] = {[HTTP_GET] = "GET, HEAD",
                                        [HTTP_POST] = "POST",
                                        [HTTP_PATCH] = "PATCH",
                                        [HTTP_DELETE] = "DELETE"};
    char allow[64];
    char *to = allow;

    for (size_t i = 0; i < ROUTE_ROWS; i++) {
        if (strcmp(routes[i].path, request->route->path) == 0)
            to = stpcpy(stpcpy(to, names[routes[i].method]), ", ");
    }
    stpcpy(to, "OPTIONS");
    api_answer_allow(request, allow);
}

/* Refuses the request, and returns true, if the service is full or the client's address is above
   its rate limit. Paths outside of /v1/ are never refused: the probes among them are frequent, and
   must get a true answer. */
static bool is_refused(struct api_request *request)
{
    static const char limited[] = "/v1/";
    struct limiter *limiter = request->api->options.address_limiter;
    uint8_t address[16];

    if (strncmp(request->route->path, limited, sizeof(limited) - 1) != 0)
        return false;
    if (!(request->route->callers & MEMORY_FIRST) && api_is_full(request)) {
        api_answer_problem(request, PROBLEM_OVERLOADED);
        return true;
    }
    if (limiter == NULL)
        return false;
    http_client_address(request->http, address);
    return api_is_limited(request, "address", limiter, address_key(address));
}

static bool has_unknown_parameter(struct api_request *request)
{
    const struct api_route *route = request->route;
    struct text name = {0};

    if (!(route->callers & ANY_QUERY))
        name = http_query_other(request->http, route->query);
    if (name.bytes != NULL)
        api_answer_unknown_parameter(request, name);
    return name.bytes != NULL;
}

/* A body is stored only for a route that reads it, or that must see it to refuse its members. The
   token is checked before the body arrives, so that the bodies of strangers take no memory. */
size_t api_body_max(struct http_request *http, void *arg)
{
    struct api_request *request = http->context;
    struct text id;
    const struct api_route *route = find_route(http->path, http->method, &id);
    enum rlock_status status;

    request->api = arg;
    request->http = http;
    if (route == NULL || route->method != http->method ||
        !(route->callers & (READS_BODY | REFUSES_BODY)))
        return 0;
    if (!(route->callers & ROLES))
        return request->api->options.dev_login ? HTTP_BODY_BYTES_MAX : 0;
    status = api_check_token(request);
    /* After RLOCK_NO_MEMORY api_identify() checks the token again when the body has arrived. */
    if (status != RLOCK_NO_MEMORY &&
        (status != RLOCK_OK || !(route->callers & 1U << request->identity.role)))
        return 0;
    return route->callers & LONG_BODY ? HTTP_LONG_BODY_BYTES_MAX : HTTP_BODY_BYTES_MAX;
}

void api_handle(struct http_request *http, void *arg)
{
    struct api_request *request = http->context;
    enum http_method method = http->method == HTTP_HEAD ? HTTP_GET : http->method;
    const struct api_route *route;
    struct text id;

    request->api = arg;
    request->http = http;
    request->arrived_us = clock_mono_us();
    PROBE(request_start, http);
    request->route = route = find_route(http->path, method, &id);
    if (http->defect != NULL)
        api_answer_bad_request(request, http->defect);
    else if (method == HTTP_OPTIONS && strcmp(http->path, "*") == 0)
        api_answer_allow(request, "GET, HEAD, POST, PATCH, DELETE, OPTIONS");
    else if (route == NULL)
        api_answer_problem(request, PROBLEM_NOT_FOUND);
    else if (route->method != method)
        answer_allow(request);
    else if (http->is_too_large)
        api_answer_problem(request, PROBLEM_TOO_LARGE);
    else if (http->is_chunked && !(route->callers & READS_BODY))
        api_answer_bad_request(request, "This body must have a Content-Length.");
    else if (id.bytes != NULL && !text_parse_id(id, &request->id))
        api_answer_bad_request(request,
                               "The id in the path must be an integer, 1 to 2^63-1.");
    else if (api_is_foreign(request))
        api_answer_problem(request, PROBLEM_MISDIRECTED);
    else if (has_unknown_parameter(request) || is_refused(request))
        return;
    else if (!(route->callers & ROLES) || route->callers & MEMORY_FIRST)
        route->handle(request);
    else
        api_identify(request, route->handle);
}

void api_answered(struct http_request *http, unsigned status, void *arg)
{
    const struct api *api = arg;
    const struct api_request *request = http->context;

    PROBE(request_end, http, request->route != NULL ? request->route->path : "none",
          status);
    if (log_shows(LOG_DEBUG))
        log_event(LOG_DEBUG, "request", "%s path=\"%s\" status=%u", http_trace(http),
                  LOG_PLAIN(http->path), status);
    metrics_count_request(api->options.metrics,
                          request->route != NULL ? request->route->tag : ROUTE_NONE,
                          status);
    json_decref(request->body);
}

const size_t api_context_bytes = sizeof(struct api_request);

struct api *api_create(const struct api_options *options)
{
    struct api *api = calloc(1, sizeof(*api));

    if (api == NULL)
        return NULL;
    api->options = *options;
    api->problems = api_problems_create();
    api->web = api_web_create();
    for (size_t i = 0; i < API_READINGS; i++)
        list_init(&api->readings[i]);
    if (api->problems != NULL && api->web != NULL)
        return api;
    api_free(api);
    return NULL;
}

void api_set_auth(struct api *api, const struct auth *auth)
{
    api->options.auth = auth;
}

void api_free(struct api *api)
{
    if (api == NULL)
        return;
    api_problems_free(api->problems);
    api_web_free(api->web);
    free(api);
}
