/* url.h - parses a URL, which has the addresses of Redis servers and the login. */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define REDIS_HOST_MAX     255 /* bytes of a host name or a socket path */
#define REDIS_HOSTS_MAX    8
#define REDIS_USER_MAX     127
#define REDIS_PASSWORD_MAX 511
#define REDIS_MASTER_MAX   127
#define REDIS_PATH_MAX     255

enum redis_topology {
    REDIS_HOSTS, /* the primary is one of the hosts */
    REDIS_SENTINEL,
    REDIS_CLUSTER,
    REDIS_ANY_SENTINEL, /* connect to a sentinel itself; no URL has this topology */
};

struct redis_host {
    uint16_t port;
    char name[REDIS_HOST_MAX + 1];
};

struct redis_url {
    enum redis_topology topology;
    bool is_unix;
    bool is_tls;
    uint32_t db;
    unsigned host_count; /* at least 1 */
    struct redis_host hosts[REDIS_HOSTS_MAX];
    /* The login for servers. Sentinels have a password of their own. */
    char user[REDIS_USER_MAX + 1];
    char password[REDIS_PASSWORD_MAX + 1];
    char master[REDIS_MASTER_MAX + 1]; /* the name by which sentinels know the primary */
    char sentinel_password[REDIS_PASSWORD_MAX + 1];
    /* Files for TLS. Without `cacert` the authorities of the system are used. Without `cert` and
       `key` the client has no certificate. */
    char cacert[REDIS_PATH_MAX + 1], cert[REDIS_PATH_MAX + 1], key[REDIS_PATH_MAX + 1];
};

/**
 * Parse one of
 *
 *     redis://[[user]:password@]host[:port][,host[:port]...][/db]
 *     redis-sentinel://[[user]:password@]host[:port][,...][/db]?master=NAME
 *     redis-cluster://[[user]:password@]host[:port][,...]
 *     unix:/path
 *
 * The second form may end with &sentinel_password=WORD.
 *
 * With `rediss` instead of `redis` the first three use TLS, and may have the parameters cacert=PATH
 * and, for mutual TLS, cert=PATH&key=PATH. User, password, NAME, WORD and PATH may be
 * percent-encoded. An @ in NAME, WORD or PATH must be percent-encoded. An IPv6 address is in
 * brackets.
 *
 * @ret_url  set on RLOCK_OK, else untouched; owns no memory
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: the message has the reason and its position, counted
 *          in bytes from 1, but never the password
 */
MUST_CHECK enum rlock_status redis_url_parse(const char *text, struct redis_url *ret_url,
                                             struct rlock_err *reterr);

#endif
