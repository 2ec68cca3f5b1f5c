/* status.h - how a call ended, and the message that goes with it. */
#ifndef RLOCK_BASE_STATUS_H
#define RLOCK_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/** The caller must look at the status that a function returns. */
#define RLOCK_MUST_CHECK __attribute__((warn_unused_result))

enum status {
    STATUS_OK = 0,
    STATUS_BUSY,      /* held by another owner; a result, not a failure */
    STATUS_LOST,      /* was held, no longer is: expired, deleted or taken */
    STATUS_NOT_OWNER, /* never held by the caller */
    STATUS_NOT_FOUND,
    STATUS_INVALID,   /* an argument is out of its documented range */
    STATUS_TIMEOUT,   /* no reply in time; the outcome is unknown */
    STATUS_IO,        /* the connection failed; the outcome is unknown */
    STATUS_DOWN,      /* not connected; nothing was sent or done */
    STATUS_REFUSED,   /* the server replied with an error; nothing was changed */
    STATUS_UNSAFE,    /* too few replicas confirmed it; it was undone */
    STATUS_CANCELLED, /* ended by the caller, or by closing the client */
    STATUS_NO_MEMORY,
};

/** Zero-initialise before the first use; owns no memory. */
struct err {
    enum status status;
    char text[256]; /* NUL-terminated, truncated to fit, no line breaks */
};

/** The status as a word for logs, e.g. "timeout"; never NULL, static. */
const char *status_name(enum status status) __asm__("rlock_status_name");

#ifdef __cplusplus
}
#endif

#endif
