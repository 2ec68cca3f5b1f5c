/* api.c - the table of routes, and the way from a path to its handler. */
#include "app/api/api.h"

#include "app/api/api_routes.h"
#include "app/core/log.h"
#include "app/http/address.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METHODS_MAX 2

static const struct route {
    const char *path; /* {id}: a number in its place; {name}: anything without a slash */
    enum metrics_route tag;
    struct {
        enum http_method method;
        api_handler handle;
    } methods[METHODS_MAX];
    const char *allow;
} routes[] = {
    {"/v1/vouchers/{id}/orders",
     ROUTE_PLACE,
     {{HTTP_POST, api_place_order}},
     "POST, OPTIONS"},
    {"/v1/vouchers/{id}/ticket",
     ROUTE_TICKET,
     {{HTTP_POST, api_make_ticket}},
     "POST, OPTIONS"},
    {"/v1/vouchers/{id}",
     ROUTE_VOUCHER,
     {{HTTP_GET, api_read_voucher}, {HTTP_PATCH, api_patch_voucher}},
     "GET, HEAD, PATCH, OPTIONS"},
    {"/v1/vouchers",
     ROUTE_VOUCHERS,
     {{HTTP_GET, api_list_vouchers}, {HTTP_POST, api_create_voucher}},
     "GET, HEAD, POST, OPTIONS"},
    {"/v1/vouchers/{id}/restock",
     ROUTE_RESTOCK,
     {{HTTP_POST, api_restock_voucher}},
     "POST, OPTIONS"},
    {"/v1/orders/{id}", ROUTE_ORDER, {{HTTP_GET, api_read_order}}, "GET, HEAD, OPTIONS"},
    {"/v1/orders", ROUTE_ORDERS, {{HTTP_GET, api_list_orders}}, "GET, HEAD, OPTIONS"},
    {"/v1/orders/{id}/pay", ROUTE_PAY, {{HTTP_POST, api_pay_order}}, "POST, OPTIONS"},
    {"/v1/orders/{id}/cancel",
     ROUTE_CANCEL,
     {{HTTP_POST, api_cancel_order}},
     "POST, OPTIONS"},
    {"/v1/orders/{id}/refund",
     ROUTE_REFUND,
     {{HTTP_POST, api_refund_order}},
     "POST, OPTIONS"},
    {"/v1/orders/{id}/redeem",
     ROUTE_REDEEM,
     {{HTTP_POST, api_redeem_order}},
     "POST, OPTIONS"},
    {"/v1/orders/{id}/events",
     ROUTE_ORDER_EVENTS,
     {{HTTP_GET, api_list_order_events}},
     "GET, HEAD, OPTIONS"},
    {"/v1/vouchers/{id}/events",
     ROUTE_VOUCHER_EVENTS,
     {{HTTP_GET, api_list_voucher_events}},
     "GET, HEAD, OPTIONS"},
    {"/healthz", ROUTE_HEALTHZ, {{HTTP_GET, api_healthz}}, "GET, HEAD, OPTIONS"},
    {"/readyz", ROUTE_READYZ, {{HTTP_GET, api_readyz}}, "GET, HEAD, OPTIONS"},
    {"/metrics", ROUTE_METRICS, {{HTTP_GET, api_metrics}}, "GET, HEAD, OPTIONS"},
    {"/v1/stats", ROUTE_STATS, {{HTTP_GET, api_stats}}, "GET, HEAD, OPTIONS"},
    {"/v1/dev/token", ROUTE_DEV_TOKEN, {{HTTP_POST, api_dev_token}}, "POST, OPTIONS"},
    {"/", ROUTE_WEB, {{HTTP_GET, api_web}}, "GET, HEAD, OPTIONS"},
    {"/admin", ROUTE_WEB, {{HTTP_GET, api_web}}, "GET, HEAD, OPTIONS"},
    {"/web/{name}", ROUTE_WEB, {{HTTP_GET, api_web}}, "GET, HEAD, OPTIONS"},
    {"/openapi.yaml", ROUTE_OPENAPI, {{HTTP_GET, api_openapi}}, "GET, HEAD, OPTIONS"},
};
#define ROUTE_TABLE_COUNT (sizeof(routes) / sizeof(routes[0]))

/* Whether `path` has the form of `pattern`; what stands for {id} goes to `ret_id`. */
static bool matches(const char *pattern, const char *path, struct text *ret_id)
{
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

static const struct route *find_route(const char *path, struct text *ret_id)
{
    for (size_t i = 0; i < ROUTE_TABLE_COUNT; i++) {
        *ret_id = (struct text){0};
        if (matches(routes[i].path, path, ret_id))
            return &routes[i];
    }
    return NULL;
}

static api_handler find_handler(const struct route *route, enum http_method method)
{
    if (method == HTTP_HEAD)
        method = HTTP_GET;
    for (size_t i = 0; i < METHODS_MAX && route->methods[i].handle != NULL; i++) {
        if (route->methods[i].method == method)
            return route->methods[i].handle;
    }
    return NULL;
}

static bool is_address_limited(struct api *api, struct http_request *request)
{
    struct limiter *limiter = api->options.address_limiter;
    uint8_t address[16];
    int64_t wait_us;

    if (limiter == NULL)
        return false;
    http_client(request, address);
    wait_us = limiter_take(limiter, address_key(address), clock_mono_us());
    if (wait_us > 0)
        api_answer_rate_limited(api, request, "address", limiter, wait_us);
    return wait_us > 0;
}

/* What operators ask is never turned away: probes come often, and must be true. Placing
   an order looks at the ceiling by itself, where memory cannot answer. */
static bool is_turned_away(struct api *api, struct http_request *request,
                           const struct route *route)
{
    if (strncmp(route->path, "/v1/", strlen("/v1/")) != 0)
        return false;
    if (route->tag != ROUTE_PLACE && route->tag != ROUTE_TICKET &&
        api_is_full(api, request)) {
        api_answer_problem(api, request, PROBLEM_OVERLOADED);
        return true;
    }
    return is_address_limited(api, request);
}

void api_handle(struct http_request *request, void *arg)
{
    struct api *api = arg;
    struct text id_text;
    const struct route *route = find_route(http_path(request), &id_text);
    api_handler handle;
    int64_t id = 0;

    if (route == NULL) {
        api_answer_problem(api, request, PROBLEM_NOT_FOUND);
        return;
    }
    http_set_tag(request, route->tag);
    handle = find_handler(route, http_method(request));
    if (handle == NULL)
        api_answer_allow(api, request, route->allow);
    else if (http_body_is_too_large(request))
        api_answer_problem(api, request, PROBLEM_TOO_LARGE);
    else if (id_text.bytes != NULL && !api_parse_id(id_text.bytes, id_text.len, &id))
        api_answer_bad_request(api, request,
                               "The id in the path must be an integer, 1 to 2^63-1.");
    else if (!is_turned_away(api, request, route))
        api_begin(api, request, handle, id);
}

static void log_request(struct http_request *request, unsigned status)
{
    char path[256];

    snprintf(path, sizeof(path), "%s", http_path(request));
    log_event(LOG_DEBUG, "request", "%s path=\"%s\" status=%u", http_trace(request),
              log_plain(path), status);
}

void api_answered(struct http_request *request, unsigned status, void *arg)
{
    struct api *api = arg;

    if (log_shows(LOG_DEBUG))
        log_request(request, status);

    metrics_count_request(api->options.metrics, (enum metrics_route)http_tag(request),
                          status);
}

struct api *api_create(const struct api_options *options)
{
    struct api *api = calloc(1, sizeof(*api));

    if (api == NULL)
        return NULL;
    api->options = *options;
    if (api_pages_create(api))
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
    api_pages_free(api);
    free(api);
}
