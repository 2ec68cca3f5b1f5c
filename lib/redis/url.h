/* url.h - the addresses of Redis servers and the credentials, as a URL. */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define REDIS_HOST_MAX     255 /* also the longest socket path; the system allows 107 */
#define REDIS_HOSTS_MAX    8
#define REDIS_USER_MAX     127
#define REDIS_PASSWORD_MAX 511
#define REDIS_MASTER_MAX   127
#define REDIS_PATH_MAX     255

enum redis_topology {
    REDIS_HOSTS,        /* the primary is one of the hosts */
    REDIS_SENTINEL,     /* the hosts are sentinels, which know the primary */
    REDIS_CLUSTER,      /* the hosts are nodes of a cluster, which know the others */
    REDIS_ANY_SENTINEL, /* the hosts are sentinels, and one of them is wanted: of no URL */
};

struct redis_host {
    uint16_t port;
    char name[REDIS_HOST_MAX + 1]; /* or the path of a socket */
};

struct redis_url {
    enum redis_topology topology;
    bool is_unix;
    bool is_tls;
    uint32_t db;
    unsigned host_count; /* at least 1 */
    struct redis_host hosts[REDIS_HOSTS_MAX];
    char user[REDIS_USER_MAX + 1]; /* of the servers, not of sentinels; "": none */
    char password[REDIS_PASSWORD_MAX + 1]; /* the same */
    char master[REDIS_MASTER_MAX + 1];     /* sentinel: the name of the primary */
    /* Of TLS; "": the authorities of the system, and no certificate of our own. */
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
 * and the first three with `rediss` for TLS, also with the parameters cacert=PATH, and
 * cert=PATH&key=PATH for mutual TLS. User, password, NAME and PATH may be percent-encoded,
 * and an @ in the last two must be; an IPv6 host is in brackets.
 *
 * @ret_url  set on STATUS_OK, else untouched; owns no memory
 *
 * Returns  STATUS_OK; STATUS_INVALID: the message has the position, counted in bytes from
 *          1, and the reason; it never contains the password
 */
MUST_CHECK enum status redis_url_parse(const char *text, struct redis_url *ret_url,
                                       struct err *reterr);

#endif
