/* tls.h - TLS for one connection. A build without hiredis_ssl refuses TLS. */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "redis/url.h"

struct redisContext;
struct redis_tls;

/**
 * Load the files that `url` names: the certificate (cert) with its key, and the authorities
 * (cacert). Without cacert, load the authorities of the system, or those in SSL_CERT_FILE and
 * SSL_CERT_DIR.
 *
 * @ret_tls  set on RLOCK_OK; end it with redis_tls_close(), which accepts NULL
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: this build has no TLS; RLOCK_IO: a file cannot be
 *          loaded, and the message names its parameter; RLOCK_NO_MEMORY
 */
MUST_CHECK enum rlock_status redis_tls_open(const struct redis_url *url,
                                            struct redis_tls **ret_tls,
                                            struct rlock_err *reterr);
void redis_tls_close(struct redis_tls *tls);

/** Start TLS on a connected socket. The certificate must be valid and name `host`. */
MUST_CHECK enum rlock_status redis_tls_start(struct redis_tls *tls,
                                             struct redisContext *context,
                                             const char *host, struct rlock_err *reterr);

bool redis_tls_wants_read(const struct redis_tls *tls);

/** Return why the connection failed, or NULL if TLS does not know the reason. */
const char *redis_tls_reason(const struct redis_tls *tls);

#endif
