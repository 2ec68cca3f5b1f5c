/* http_who.c - who asks, and by what name a request is known in logs. */
#include "app/http/http_impl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

#define FORWARDED_MAX 16

/* The last values of the header, as they came. */
struct forwarded {
    size_t count;
    struct text values[FORWARDED_MAX];
};

static enum MHD_Result collect_forwarded(void *arg, enum MHD_ValueKind kind,
                                         const char *name, size_t name_len,
                                         const char *value, size_t value_len)
{
    static const char wanted[] = "X-Forwarded-For";
    struct forwarded *forwarded = arg;

    (void)kind;
    if (name_len == sizeof(wanted) - 1 && strncasecmp(name, wanted, name_len) == 0)
        forwarded->values[forwarded->count++ % FORWARDED_MAX] =
            (struct text){value != NULL ? value : "", value_len};
    return MHD_YES;
}

void http_client_address(const struct http_request *request, uint8_t ret_address[16])
{
    const struct address_networks *trusted = &request->http->options.trusted_proxies;
    struct forwarded forwarded;
    size_t kept;

    address_of_peer(request->connection, ret_address);
    if (!address_is_in(trusted, ret_address))
        return;
    forwarded.count = 0;
    MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, collect_forwarded,
                                &forwarded);
    kept = forwarded.count < FORWARDED_MAX ? forwarded.count : FORWARDED_MAX;
    for (size_t i = 1; i <= kept; i++) { /* each proxy adds at the end */
        const struct text *value =
            &forwarded.values[(forwarded.count - i) % FORWARDED_MAX];

        address_walk_back(trusted, value->bytes, value->len, ret_address);
    }
}

const char *http_lookup(const struct http_request *request, const char *name,
                        size_t *ret_len)
{
    const char *value = NULL;

    if (MHD_lookup_connection_value_n(request->connection, MHD_HEADER_KIND, name,
                                      strlen(name), &value, ret_len) != MHD_YES)
        return NULL;
    return value;
}

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

/* 00-TRACE-PARENT-FLAGS, of W3C Trace Context level 1: 2, 32, 16 and 2 hex digits. */
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

/* Not to be guessed, and hardly ever the same twice. */
static void make_id(char ret_id[17])
{
    uint64_t dice = 0;

    if (getrandom(&dice, sizeof(dice), GRND_NONBLOCK) != (ssize_t)sizeof(dice))
        dice = (uint64_t)(uintptr_t)ret_id ^ uv_hrtime();
    snprintf(ret_id, 17, "%016llx", (unsigned long long)dice);
}

static const char trace_name[] = "request_id=";

const char *http_trace(struct http_request *request)
{
    const char *id, *parent;
    char made[17];

    if (request->trace[0] != '\0')
        return request->trace;
    id = sent_request_id(request);
    parent = sent_traceparent(request);
    if (id == NULL)
        make_id(made);
    snprintf(request->trace, sizeof(request->trace), "%s%s%s%s", trace_name,
             id != NULL ? id : made, parent != NULL ? " traceparent=" : "",
             parent != NULL ? parent : "");
    return request->trace;
}

const char *http_trace_sent(struct http_request *request)
{
    if (sent_request_id(request) == NULL && sent_traceparent(request) == NULL)
        return NULL;
    return http_trace(request);
}

/* For the answer; false: it has none. */
bool http_copy_id(const struct http_request *request,
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
