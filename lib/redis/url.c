/* url.c - parses a Redis URL. */
#include "redis/url.h"

#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT 6379
#define SOCKET_MAX   107 /* sun_path without its NUL */
#define DB_MAX       1000000

struct span {
    const char *begin, *end;
};

static bool span_is_empty(struct span span)
{
    return span.begin == span.end;
}

/** Split `span` at the first `mark`: `ret_head` is before it, `span` after it. */
static bool cut_at(struct span *span, char mark, struct span *ret_head)
{
    const char *found = span_is_empty(*span) ? NULL
                                             : memchr(span->begin, mark,
                                                      (size_t)(span->end - span->begin));

    if (found == NULL)
        return false;
    *ret_head = (struct span){span->begin, found};
    span->begin = found + 1;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/** The byte at `*at`, plain or percent-encoded; -1: malformed. */
static int decode_byte(const char **at, const char *end)
{
    int high, low;

    if (**at != '%')
        return (unsigned char)*(*at)++;
    if (end - *at < 3)
        return -1;
    high = hex_digit((*at)[1]);
    low = hex_digit((*at)[2]);
    *at += 3;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/** Decode into `out` of `size` bytes; false: it does not fit, or contains a NUL. */
static bool decode(struct span span, char *out, size_t size)
{
    size_t len = 0;

    while (span.begin < span.end) {
        int byte = decode_byte(&span.begin, span.end);

        if (byte <= 0 || len + 1 >= size)
            return false;
        out[len++] = (char)byte;
    }
    out[len] = '\0';
    return true;
}

static bool parse_number(struct span span, unsigned long max, unsigned long *ret_number)
{
    unsigned long number = 0;

    if (span_is_empty(span))
        return false;
    for (; span.begin < span.end; span.begin++) {
        if (*span.begin < '0' || *span.begin > '9')
            return false;
        number = number * 10 + (unsigned long)(*span.begin - '0');
        if (number > max)
            return false;
    }
    *ret_number = number;
    return true;
}

static enum status parse_unix(const char *path, struct redis_url *url, struct err *reterr)
{
    if (strncmp(path, "///", 3) == 0)
        path += 2;
    if (path[0] != '/' || path[1] == '/')
        return err_set(reterr, STATUS_INVALID,
                       "redis url: unix: requires an absolute path");
    if (strlen(path) > SOCKET_MAX)
        return err_set(reterr, STATUS_INVALID,
                       "redis url: the socket path is longer than %d bytes", SOCKET_MAX);
    url->is_unix = true;
    memcpy(url->host, path, strlen(path) + 1);
    return STATUS_OK;
}

static enum status parse_login(struct span login, struct redis_url *url,
                               struct err *reterr)
{
    struct span user;

    if (!cut_at(&login, ':', &user))
        return err_set(reterr, STATUS_INVALID,
                       "redis url: the part before @ must be [user]:password");
    if (!decode(user, url->user, sizeof(url->user)))
        return err_set(reterr, STATUS_INVALID,
                       "redis url: the user is malformed or too long");
    if (span_is_empty(login) || !decode(login, url->password, sizeof(url->password)))
        return err_set(reterr, STATUS_INVALID,
                       "redis url: the password is empty, malformed or too long");
    return STATUS_OK;
}

static enum status parse_address(struct span rest, struct redis_url *url,
                                 struct err *reterr)
{
    struct span host = rest;
    unsigned long port = PORT_DEFAULT;
    bool is_v6 = !span_is_empty(rest) && *rest.begin == '[';
    bool has_port;

    if (is_v6) {
        rest.begin++;
        if (!cut_at(&rest, ']', &host))
            return err_set(reterr, STATUS_INVALID, "redis url: [ without ]");
        if (!span_is_empty(rest) && *rest.begin != ':')
            return err_set(reterr, STATUS_INVALID, "redis url: malformed address");
        has_port = !span_is_empty(rest);
        rest.begin += has_port;
    } else {
        has_port = cut_at(&rest, ':', &host);
    }
    if (has_port && (!parse_number(rest, UINT16_MAX, &port) || port == 0))
        return err_set(reterr, STATUS_INVALID, "redis url: the port must be 1..65535");
    if (span_is_empty(host) || !decode(host, url->host, sizeof(url->host)))
        return err_set(reterr, STATUS_INVALID, "redis url: malformed host");
    url->port = (uint16_t)port;
    return STATUS_OK;
}

/** The login ends at the last @, so a password may contain one unencoded. */
static bool cut_login(struct span *rest, struct span *ret_login)
{
    struct span head;
    bool found = false;

    ret_login->begin = rest->begin;
    while (cut_at(rest, '@', &head)) {
        ret_login->end = head.end;
        found = true;
    }
    return found;
}

static enum status parse_tcp(const char *text, struct redis_url *url, struct err *reterr)
{
    struct span rest = {text, text + strlen(text)};
    struct span login, db = {NULL, NULL};
    unsigned long number = 0;
    enum status status = STATUS_OK;

    if (cut_login(&rest, &login))
        status = parse_login(login, url, reterr);
    if (status != STATUS_OK)
        return status;
    if (cut_at(&rest, '/', &db)) {
        struct span swap = db;

        db = rest;
        rest = swap;
    }
    if (!span_is_empty(db) && !parse_number(db, DB_MAX, &number))
        return err_set(reterr, STATUS_INVALID,
                       "redis url: the part after the host must be /database-number");
    url->db = (uint32_t)number;
    return parse_address(rest, url, reterr);
}

enum status redis_url_parse(const char *text, struct redis_url *ret_url,
                            struct err *reterr)
{
    struct redis_url url = {0};
    enum status status;

    if (strncmp(text, "unix:", 5) == 0) {
        status = parse_unix(text + 5, &url, reterr);
    } else if (strncmp(text, "redis://", 8) == 0) {
        status = parse_tcp(text + 8, &url, reterr);
    } else if (strncmp(text, "rediss://", 9) == 0) {
        url.is_tls = true;
        status = parse_tcp(text + 9, &url, reterr);
    } else {
        status = err_set(reterr, STATUS_INVALID,
                         "redis url: must begin with redis://, rediss:// or unix:");
    }
    if (status == STATUS_OK)
        *ret_url = url;
    return status;
}
