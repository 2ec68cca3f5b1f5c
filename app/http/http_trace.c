/* http_trace.c - request ids and traceparents, which identify a request in logs. */
#include "app/http/http_impl.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
#define HEX     DIGITS "abcdef"

static bool has_only(const char *text, size_t len, const char *set)
{
    return strspn(text, set) >= len;
}

bool http_is_request_id(const char *text, size_t len)
{
    return len > 0 && len <= HTTP_REQUEST_ID_MAX &&
           has_only(text, len, LETTERS DIGITS "._:/+=@-");
}

/* A traceparent is 00-TRACE-PARENT-FLAGS, with 2, 32, 16 and 2 hex digits. Source: W3C Trace
   Context, level 1. */
bool http_is_traceparent(const char *text, size_t len)
{
    return len == 55 && memcmp(text, "00-", 3) == 0 && has_only(text + 3, 32, HEX) &&
           !has_only(text + 3, 32, "0") && text[35] == '-' &&
           has_only(text + 36, 16, HEX) && !has_only(text + 36, 16, "0") &&
           text[52] == '-' && has_only(text + 53, 2, HEX);
}

static const char *find_sent(const struct http_request *request, const char *name,
                             bool (*is_valid)(const char *text, size_t len))
{
    size_t len = 0;
    const char *value = http_lookup(request, name, &len);

    return is_valid(value, len) ? value : NULL; /* a value of 0 bytes is not valid */
}

static const char *sent_request_id(const struct http_request *request)
{
    return find_sent(request, "X-Request-Id", http_is_request_id);
}

static const char *sent_traceparent(const struct http_request *request)
{
    return find_sent(request, "traceparent", http_is_traceparent);
}

static const char trace_name[] = "request_id=";

const char *http_trace(struct http_request *request)
{
    const char *id, *parent;
    char generated[17];

    if (request->trace[0] != '\0')
        return request->trace;
    id = sent_request_id(request);
    parent = sent_traceparent(request);
    if (id == NULL)
        snprintf(generated, sizeof(generated), "%016" PRIx64, random_u64());
    snprintf(request->trace, sizeof(request->trace), "%s%s%s%s", trace_name,
             id != NULL ? id : generated, parent != NULL ? " traceparent=" : "",
             parent != NULL ? parent : "");
    return request->trace;
}

const char *http_trace_sent(struct http_request *request)
{
    if (sent_request_id(request) == NULL && sent_traceparent(request) == NULL)
        return NULL;
    return http_trace(request);
}

bool http_copy_request_id(const struct http_request *request,
                          char ret_id[HTTP_REQUEST_ID_MAX + 1])
{
    const char *id = request->trace + sizeof(trace_name) - 1;

    if (request->trace[0] == '\0')
        id = sent_request_id(request);
    if (id == NULL)
        return false;
    snprintf(ret_id, HTTP_REQUEST_ID_MAX + 1, "%.*s", (int)strcspn(id, " "), id);
    return true;
}
