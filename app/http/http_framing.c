/*
 * http_framing.c - finds requests that another server could end at another byte.
 *
 * A proxy and this server must agree where each request ends. Otherwise a client could hide a
 * request in another one (request smuggling). So a request whose head violates RFC 9112 is refused,
 * and its connection is closed.
 *
 * libmicrohttpd before 1.0 is lenient, and shows only parsed headers. But it parses in place: in a
 * valid head the names and values are adjacent, with NUL in place of each CR and LF between them. A
 * bare LF, a NUL in a value or a folded line is found, because it changes the distance between two
 * of them. The lines of a chunked body are checked only if they arrive together with data. The
 * other lines cannot be exploited, because the answer to a chunked request closes its connection.
 */
#include "app/http/http_impl.h"

#include <string.h>
#include <strings.h>

#define IS_LENIENT     (MHD_VERSION < 0x01000000)
#define ARGUMENT_BYTES 64 /* memory of libmicrohttpd for each parameter of a query */
#define QUERY_COST_MAX 4096

struct framing {
    const char *next_line;
    struct text encoding, length;
    unsigned encodings, lengths, hosts;
    bool has_request_id;
    const char *defect;
};

/* Whether the name is a token as RFC 9110, section 5.6.2, defines it. */
static bool is_token(const char *name, size_t len)
{
    static const bool is_part[256] = {
        ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1,         ['\''] = 1,
        ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1,
        ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1, ['a' ... 'z'] = 1, ['~'] = 1};
    const char *end = name + len;

    for (const char *at = name; at < end; at++) {
        if (!is_part[(unsigned char)*at])
            return false;
    }
    return len > 0;
}

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind UNUSED,
                                    const char *name, size_t name_len, const char *value,
                                    size_t value_len)
{
    struct framing *framing = arg;

    if (!is_token(name, name_len))
        framing->defect = "The name of a header is malformed.";
    if (memchr(value, '\r', value_len) != NULL ||
        (IS_LENIENT && name != framing->next_line))
        framing->defect = "A line of the head is malformed.";
    if (framing->defect != NULL)
        return MHD_NO;
    framing->next_line = value + value_len + 2;
    if (strcasecmp(name, "Host") == 0) {
        framing->hosts++;
    } else if (strcasecmp(name, "X-Request-Id") == 0) {
        framing->has_request_id = true;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        framing->lengths++;
        framing->length = (struct text){value, value_len};
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->encodings++;
        framing->encoding = (struct text){value, value_len};
    }
    return MHD_YES;
}

static const char *defect_of(const struct framing *framing, const char *head_end,
                             const char *version)
{
    static const char chunked[] = "chunked";

    if (framing->defect != NULL)
        return framing->defect;
    if (IS_LENIENT && framing->next_line + 2 != head_end)
        return "A line of the head is malformed.";
    if (framing->hosts > 1)
        return "Host must not be repeated.";
    if (framing->lengths > 1)
        return "Content-Length must not be repeated.";
    if (framing->encodings == 0)
        return NULL;
    if (framing->lengths > 0)
        return "Content-Length and Transfer-Encoding exclude each other.";
    if (framing->encodings > 1 || framing->encoding.len != sizeof(chunked) - 1 ||
        strncasecmp(framing->encoding.bytes, chunked, sizeof(chunked) - 1) != 0 ||
        strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
        return "Transfer-Encoding must be chunked, in HTTP/1.1.";
    return NULL;
}

void http_check_head(struct http_request *request, const char *method,
                     const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *head_end = method + info->header_size;
    struct framing framing = {.next_line = version + strlen(version) + 2,
                              .defect = request->defect};

    MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, check_header,
                                &framing);
    request->defect = defect_of(&framing, head_end, version);
    request->is_chunked = framing.encodings > 0;
    request->chunks = head_end;
    request->has_id = framing.has_request_id;
    for (size_t i = 0; i < framing.length.len; i++) {
        if (request->declared_bytes <= HTTP_LONG_BODY_BYTES_MAX)
            request->declared_bytes =
                request->declared_bytes * 10 + (size_t)(framing.length.bytes[i] - '0');
    }
}

void http_check_chunk(struct http_request *request, const char *data)
{
    if (IS_LENIENT && request->is_chunked && data > request->chunks && data[-2] != '\r')
        request->defect = "A line of the chunked body is malformed.";
}

/* libmicrohttpd before 1.0 sends no answer if the parameters do not fit into its memory. So a query
   that might not fit is cut off before libmicrohttpd parses it, and the request is refused. */
void *http_on_target(void *arg UNUSED, const char *target,
                     struct MHD_Connection *connection)
{
    char *query = strchr(target, '?');
    struct conn *conn = query != NULL ? conn_of(connection) : NULL;
    size_t cost = 0;

    if (conn == NULL)
        return NULL;
    for (const char *at = query; *at != '\0'; at++)
        cost += *at == '?' || *at == '&' ? ARGUMENT_BYTES + 1 : 1;
    conn->is_query_cut = cost + (size_t)(query - target) > QUERY_COST_MAX;
    if (conn->is_query_cut)
        query[1] = '\0';
    return NULL;
}
