/* status.h - how a call ended, and the message that goes with it. */
#ifndef RLOCK_BASE_STATUS_H
#define RLOCK_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/** The caller must look at the status that a function returns. */
#define RLOCK_MUST_CHECK __attribute__((warn_unused_result))

enum rlock_status {
    RLOCK_OK = 0,
    RLOCK_BUSY,      /* held by another owner; a result, not a failure */
    RLOCK_LOST,      /* no longer held: it expired, was deleted or was taken */
    RLOCK_NOT_OWNER, /* not held by the caller, or in another call */
    RLOCK_NOT_FOUND,
    RLOCK_INVALID,   /* an argument is out of its documented range */
    RLOCK_TIMEOUT,   /* no reply in time; the outcome is unknown */
    RLOCK_IO,        /* the connection failed; the outcome is unknown */
    RLOCK_DOWN,      /* not connected; nothing was sent or done */
    RLOCK_REFUSED,   /* the server replied with an error; nothing was changed */
    RLOCK_UNSAFE,    /* too few replicas confirmed the grant; it was released */
    RLOCK_CANCELLED, /* ended by the caller, or by closing the client */
    RLOCK_NO_MEMORY,
};

/** An error. Zero-initialise it before the first use. It owns no memory. */
struct rlock_err {
    enum rlock_status status;
    char text[256]; /* NUL-terminated, truncated to fit, no line breaks */
};

/** Return the status as a word for logs, such as "timeout". The string is static, and never
 *  NULL. */
const char *rlock_status_name(enum rlock_status status);

#ifdef __cplusplus
}
#endif

#endif
