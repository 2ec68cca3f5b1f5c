/* http_trace.c - request ids and traceparents, which identify a request in logs. */
#include "app/http/http_impl.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

bool http_is_request_id(const char *text, size_t len)
{
    if (len == 0 || len > HTTP_REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0' || strchr(LETTERS DIGITS "._:/+=@-", text[i]) == NULL)
            return false;
    }
    return true;
}

static bool is_hex(const char *text, size_t len, bool *ret_is_zero)
{
    *ret_is_zero = true;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0' || strchr(DIGITS "abcdef", text[i]) == NULL)
            return false;
        *ret_is_zero = *ret_is_zero && text[i] == '0';
    }
    return true;
}

/* 00-TRACE-PARENT-FLAGS, 2, 32, 16 and 2 hex digits. Source: W3C Trace Context, level 1. */
bool http_is_traceparent(const char *text, size_t len)
{
    bool is_zero, no_trace, no_parent;

    return len == 55 && memcmp(text, "00-", 3) == 0 && is_hex(text + 3, 32, &no_trace) &&
           !no_trace && text[35] == '-' && is_hex(text + 36, 16, &no_parent) &&
           !no_parent && text[52] == '-' && is_hex(text + 53, 2, &is_zero);
}

static const char *sent_request_id(const struct http_request *request)
{
    size_t len = 0;
    const char *id = http_lookup(request, "X-Request-Id", &len);

    return id != NULL && http_is_request_id(id, len) ? id : NULL;
}

static const char *sent_traceparent(const struct http_request *request)
{
    size_t len = 0;
    const char *parent = http_lookup(request, "traceparent", &len);

    return parent != NULL && http_is_traceparent(parent, len) ? parent : NULL;
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
