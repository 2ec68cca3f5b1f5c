/* url.h - the address of a Redis server and the credentials, as a URL. */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define REDIS_HOST_MAX     255 /* also the longest socket path; the system allows 107 */
#define REDIS_USER_MAX     127
#define REDIS_PASSWORD_MAX 511

struct redis_url {
    bool is_unix; /* `host` is the path of a socket */
    bool is_tls;
    uint16_t port;
    uint32_t db;
    char host[REDIS_HOST_MAX + 1];
    char user[REDIS_USER_MAX + 1];         /* "" for none */
    char password[REDIS_PASSWORD_MAX + 1]; /* "" for none */
};

/**
 * Parse `redis://[[user]:password@]host[:port][/db]`, the same with `rediss://` for TLS,
 * or `unix:/path`. User and password may be percent-encoded; an IPv6 host is in brackets.
 *
 * @ret_url  set on STATUS_OK, else untouched; owns no memory
 *
 * Returns  STATUS_OK; STATUS_INVALID: the message never contains the password
 */
MUST_CHECK enum status redis_url_parse(const char *text, struct redis_url *ret_url,
                                       struct err *reterr);

#endif
