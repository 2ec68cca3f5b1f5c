/* url.c - parses a Redis URL by cutting off one part after the other. */
#include "redis/url.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SOCKET_MAX 107 /* longest path of a Unix socket: sun_path has room for its NUL */
#define DB_MAX     1000000
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

struct span {
    const char *begin, *end;
};

struct parser {
    const char *text;
    struct redis_url url;
    struct rlock_err *err;
};

static enum rlock_status refuse(const struct parser *parser, const char *at,
                                const char *reason)
{
    return err_set(parser->err, RLOCK_INVALID, "redis url: at byte %td: %s",
                   at - parser->text + 1, reason);
}

static bool span_is_empty(struct span span)
{
    return span.begin == span.end;
}

/** Split `span` at the first `mark`. `ret_head` gets the part before the mark, and `span`
 *  becomes the part after the mark. Returns false if there is no mark. */
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

/** Split `span` at the first `mark`. `span` becomes the part before the mark. Returns the part
 *  after the mark, with `begin` NULL if there is no mark. */
static struct span cut_tail(struct span *span, char mark)
{
    struct span head, tail = *span;

    if (!cut_at(&tail, mark, &head))
        return (struct span){NULL, NULL};
    *span = head;
    return tail;
}

/** Read the byte at `*at`, which may be percent-encoded, and advance `*at`. Returns -1 if the
 *  encoding is malformed. */
static int decode_byte(const char **at, const char *end)
{
    char digits[3] = {0};

    if (**at != '%')
        return (unsigned char)*(*at)++;
    if (end - *at < 3 || !isxdigit((unsigned char)(*at)[1]) ||
        !isxdigit((unsigned char)(*at)[2]))
        return -1;
    memcpy(digits, *at + 1, 2);
    *at += 3;
    return (int)strtol(digits, NULL, 16);
}

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

/** An empty number is 0. */
static bool parse_number(struct span span, unsigned long max, unsigned long *ret_number)
{
    unsigned long number = 0;

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

static enum rlock_status parse_unix(struct parser *parser, const char *path)
{
    if (strncmp(path, "///", 3) == 0)
        path += 2;
    if (path[0] != '/' || path[1] == '/')
        return refuse(parser, path, "unix: requires an absolute path");
    if (strlen(path) > SOCKET_MAX)
        return refuse(parser, path + SOCKET_MAX,
                      "the socket path is longer than " TEXT(SOCKET_MAX) " bytes");
    parser->url.is_unix = true;
    parser->url.host_count = 1;
    (void)stpcpy(parser->url.hosts[0].name, path);
    return RLOCK_OK;
}

static enum rlock_status parse_login(struct parser *parser, struct span login)
{
    struct redis_url *url = &parser->url;
    struct span user;

    if (!cut_at(&login, ':', &user))
        return refuse(parser, login.begin, "the part before @ must be [user]:password");
    if (!decode(user, url->user, sizeof(url->user)))
        return refuse(parser, user.begin, "the user is malformed or too long");
    if (span_is_empty(login) || !decode(login, url->password, sizeof(url->password)))
        return refuse(parser, login.begin,
                      "the password is empty, malformed or too long");
    return RLOCK_OK;
}

/** @host  on entry, host->port is the default port */
static enum rlock_status parse_host(const struct parser *parser, struct span rest,
                                    struct redis_host *host)
{
    const char *begin = rest.begin;
    struct span name = rest;
    unsigned long port = host->port;
    bool has_port;

    if (!span_is_empty(rest) && *rest.begin == '[') {
        rest.begin++;
        if (!cut_at(&rest, ']', &name))
            return refuse(parser, begin, "[ without ]");
        has_port = !span_is_empty(rest);
        if (has_port && *rest.begin++ != ':')
            return refuse(parser, rest.begin - 1, "malformed address");
    } else {
        has_port = cut_at(&rest, ':', &name);
    }
    if (has_port && (!parse_number(rest, UINT16_MAX, &port) || port == 0))
        return refuse(parser, rest.begin, "the port must be 1..65535");
    if (!decode(name, host->name, sizeof(host->name)) || host->name[0] == '\0' ||
        strpbrk(host->name, " \t\r\n/?#@[]\\") != NULL)
        return refuse(parser, begin, "malformed host");
    host->port = (uint16_t)port;
    return RLOCK_OK;
}

static bool is_named_before(const struct redis_url *url, const struct redis_host *host)
{
    for (const struct redis_host *at = url->hosts; at < host; at++) {
        if (at->port == host->port && strcmp(at->name, host->name) == 0)
            return true;
    }
    return false;
}

static enum rlock_status parse_hosts(struct parser *parser, struct span rest,
                                     uint16_t port)
{
    struct redis_url *url = &parser->url;

    while (rest.begin != NULL) {
        struct redis_host *host = &url->hosts[url->host_count];
        struct span one = rest;
        enum rlock_status status;

        rest = cut_tail(&one, ',');
        if (url->host_count == REDIS_HOSTS_MAX)
            return refuse(parser, one.begin, "more than " TEXT(REDIS_HOSTS_MAX) " hosts");
        host->port = port;
        status = parse_host(parser, one, host);
        if (status != RLOCK_OK)
            return status;
        if (is_named_before(url, host))
            return refuse(parser, one.begin, "the same host twice");
        url->host_count++;
    }
    return RLOCK_OK;
}

static enum rlock_status parse_parameter(struct parser *parser, struct span one)
{
    struct redis_url *url = &parser->url;
    const char *begin = one.begin;
    bool is_sentinel = url->topology == REDIS_SENTINEL;
    const struct {
        const char *name;
        bool is_possible;
        char *out;
        size_t size;
    } parameters[] = {{"master=", is_sentinel, url->master, sizeof(url->master)},
                      {"sentinel_password=", is_sentinel, url->sentinel_password,
                       sizeof(url->sentinel_password)},
                      {"cacert=", url->is_tls, url->cacert, sizeof(url->cacert)},
                      {"cert=", url->is_tls, url->cert, sizeof(url->cert)},
                      {"key=", url->is_tls, url->key, sizeof(url->key)}};

    for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++) {
        size_t len = strlen(parameters[i].name);

        if (!parameters[i].is_possible || strncmp(begin, parameters[i].name, len) != 0)
            continue;
        one.begin += len;
        if (parameters[i].out[0] == '\0' && !span_is_empty(one) &&
            decode(one, parameters[i].out, parameters[i].size))
            return RLOCK_OK;
        return refuse(parser, one.begin,
                      "the parameter is empty, malformed, too long or given twice");
    }
    return refuse(parser, begin, "unknown parameter for this scheme");
}

/** @query  the part after the ?; if there is none, `begin` is NULL */
static enum rlock_status parse_query(struct parser *parser, struct span query,
                                     const char *end)
{
    const struct redis_url *url = &parser->url;

    while (query.begin != NULL) {
        struct span one = query;

        query = cut_tail(&one, '&');
        if (parse_parameter(parser, one) != RLOCK_OK)
            return RLOCK_INVALID;
    }
    if (url->topology == REDIS_SENTINEL && url->master[0] == '\0')
        return refuse(parser, end, "?master=NAME is missing");
    if ((url->cert[0] == '\0') != (url->key[0] == '\0'))
        return refuse(parser, end, "cert and key must be given together");
    return RLOCK_OK;
}

/** Cut off the login. It ends at the last @, so a password may contain an unencoded @. */
static bool cut_login(struct span *rest, struct span *ret_login)
{
    const char *at = memrchr(rest->begin, '@', (size_t)(rest->end - rest->begin));

    if (at == NULL)
        return false;
    *ret_login = (struct span){rest->begin, at};
    rest->begin = at + 1;
    return true;
}

static enum rlock_status parse_tcp(struct parser *parser, const char *text, uint16_t port)
{
    struct span rest = {text, text + strlen(text)};
    const char *end = rest.end;
    struct span login, db, query;
    unsigned long number = 0;
    enum rlock_status status = RLOCK_OK;

    if (cut_login(&rest, &login))
        status = parse_login(parser, login);
    query = cut_tail(&rest, '?');
    db = cut_tail(&rest, '/');
    if (status == RLOCK_OK)
        status = parse_hosts(parser, rest, port);
    if (status != RLOCK_OK)
        return status;
    if (!parse_number(db, DB_MAX, &number))
        return refuse(parser, db.begin,
                      "the part after the host must be /database-number");
    if (number != 0 && parser->url.topology == REDIS_CLUSTER)
        return refuse(parser, db.begin, "a cluster has database 0 only");
    parser->url.db = (uint32_t)number;
    return parse_query(parser, query, end);
}

static const struct {
    const char *prefix;
    enum redis_topology topology;
    bool is_tls;
    uint16_t port; /* the default port */
} schemes[] = {
    {"redis://", REDIS_HOSTS, false, 6379},
    {"rediss://", REDIS_HOSTS, true, 6379},
    {"redis-sentinel://", REDIS_SENTINEL, false, 26379},
    {"rediss-sentinel://", REDIS_SENTINEL, true, 26379},
    {"redis-cluster://", REDIS_CLUSTER, false, 6379},
    {"rediss-cluster://", REDIS_CLUSTER, true, 6379},
};

enum rlock_status redis_url_parse(const char *text, struct redis_url *ret_url,
                                  struct rlock_err *reterr)
{
    struct parser parser = {.text = text, .err = reterr};
    enum rlock_status status = RLOCK_NOT_FOUND;

    if (strncmp(text, "unix:", 5) == 0)
        status = parse_unix(&parser, text + 5);
    for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
        size_t len = strlen(schemes[i].prefix);

        if (strncmp(text, schemes[i].prefix, len) != 0)
            continue;
        parser.url.topology = schemes[i].topology;
        parser.url.is_tls = schemes[i].is_tls;
        status = parse_tcp(&parser, text + len, schemes[i].port);
    }
    if (status == RLOCK_NOT_FOUND)
        return refuse(&parser, text,
                      "must begin with unix:, redis://, redis-sentinel:// or "
                      "redis-cluster://, or with rediss instead of redis");
    if (status == RLOCK_OK)
        *ret_url = parser.url;
    return status;
}
