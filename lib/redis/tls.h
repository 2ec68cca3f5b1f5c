/* tls.h - TLS for one connection; a build without hiredis_ssl refuses to open it. */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>

struct redisContext;
struct redis_tls;

/**
 * Load the system's certificate authorities (SSL_CERT_FILE and SSL_CERT_DIR are
 * honoured).
 *
 * @ret_tls  set on STATUS_OK; close with redis_tls_close(), which accepts NULL
 *
 * Returns  STATUS_OK, STATUS_INVALID (this build has no TLS), STATUS_NO_MEMORY,
 *          STATUS_IO
 */
MUST_CHECK enum status redis_tls_open(struct redis_tls **ret_tls, struct err *reterr);
void redis_tls_close(struct redis_tls *tls);

/** Put TLS over a connected socket; the certificate must be valid and name `host`. */
MUST_CHECK enum status redis_tls_start(struct redis_tls *tls,
                                       struct redisContext *context, const char *host,
                                       struct err *reterr);

/** Whether what is to be written waits for something to be read first. */
bool redis_tls_wants_read(const struct redis_tls *tls);

/** Why the connection in use failed, as far as TLS knows; NULL when it does not. */
const char *redis_tls_reason(const struct redis_tls *tls);

#endif
