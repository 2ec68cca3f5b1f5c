/* http_request.c - looks up headers, parameters of the query, and the client's address. */
#include "app/http/http_impl.h"

#include <poll.h>
#include <string.h>
#include <strings.h>

#define FORWARDED_MAX 16

/* -- headers and query -- */

const char *http_lookup(const struct http_request *request, const char *name,
                        size_t *ret_len)
{
    const char *value = NULL;

    if (MHD_lookup_connection_value_n(request->connection, MHD_HEADER_KIND, name,
                                      strlen(name), &value, ret_len) != MHD_YES)
        return NULL;
    return value;
}

struct search {
    const char *name;
    size_t name_len;
    bool any_case;
    size_t count;
    struct text first;
    struct text last[FORWARDED_MAX]; /* value n (from 0) is last[n % FORWARDED_MAX] */
};

static enum MHD_Result search_one(void *arg, enum MHD_ValueKind kind UNUSED,
                                  const char *name, size_t name_len, const char *value,
                                  size_t value_len)
{
    struct search *search = arg;
    struct text found = {value != NULL ? value : "", value_len};

    if (name_len != search->name_len)
        return MHD_YES;
    if (search->any_case ? strncasecmp(name, search->name, name_len) != 0
                         : memcmp(name, search->name, name_len) != 0)
        return MHD_YES;
    if (search->count == 0)
        search->first = found;
    search->last[search->count++ % FORWARDED_MAX] = found;
    return MHD_YES;
}

static void search_values(const struct http_request *request, const char *name,
                          enum MHD_ValueKind kind, struct search *ret_search)
{
    ret_search->name = name;
    ret_search->name_len = strlen(name);
    ret_search->any_case = kind == MHD_HEADER_KIND;
    ret_search->count = 0;
    ret_search->first = (struct text){0};
    MHD_get_connection_values_n(request->connection, kind, search_one, ret_search);
}

static struct text find_value(const struct http_request *request, const char *name,
                              enum MHD_ValueKind kind, bool *ret_repeated)
{
    struct search search;

    search_values(request, name, kind, &search);
    if (ret_repeated != NULL)
        *ret_repeated = search.count > 1;
    return search.first;
}

struct text http_header(const struct http_request *request, const char *name,
                        bool *ret_repeated)
{
    /* This look-up is faster than the search of all values, and most headers are absent. */
    if (http_lookup(request, name, NULL) == NULL) {
        if (ret_repeated != NULL)
            *ret_repeated = false;
        return (struct text){0};
    }
    return find_value(request, name, MHD_HEADER_KIND, ret_repeated);
}

struct text http_query(const struct http_request *request, const char *name,
                       bool *ret_repeated)
{
    return find_value(request, name, MHD_GET_ARGUMENT_KIND, ret_repeated);
}

struct other {
    const char *const *names;
    struct text found;
};

static enum MHD_Result search_other(void *arg, enum MHD_ValueKind kind UNUSED,
                                    const char *name, size_t name_len,
                                    const char *value UNUSED, size_t value_len UNUSED)
{
    struct other *other = arg;
    struct text text = {name, name_len};

    for (const char *const *known = other->names; *known != NULL; known++) {
        if (text_is(text, *known))
            return MHD_YES;
    }
    other->found = text;
    return MHD_NO;
}

struct text http_query_other(const struct http_request *request, const char *const *names)
{
    struct other other = {.names = names};

    MHD_get_connection_values_n(request->connection, MHD_GET_ARGUMENT_KIND, search_other,
                                &other);
    return other.found;
}

/* -- the client's address -- */

void http_client_address(const struct http_request *request, uint8_t ret_address[16])
{
    const struct address_networks *trusted = &request->http->options.trusted_proxies;
    struct search forwarded;
    size_t kept;

    conn_peer_address(request->connection, ret_address);
    if (!address_is_in(trusted, ret_address))
        return;
    search_values(request, "X-Forwarded-For", MHD_HEADER_KIND, &forwarded);
    kept = forwarded.count < FORWARDED_MAX ? forwarded.count : FORWARDED_MAX;
    /* Each proxy appends the address of its peer, so the last value is looked at first. */
    for (size_t i = 1; i <= kept; i++) {
        const struct text *value = &forwarded.last[(forwarded.count - i) % FORWARDED_MAX];

        address_walk_back(trusted, value->bytes, value->len, ret_address);
    }
}

bool http_is_gone(const struct http_request *request)
{
    struct pollfd socket = {.fd =
                                MHD_get_connection_info(request->connection,
                                                        MHD_CONNECTION_INFO_CONNECTION_FD)
                                    ->connect_fd,
                            .events = POLLRDHUP};

    return poll(&socket, 1, 0) == 1;
}
