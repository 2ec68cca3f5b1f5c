/* status.h - how a call ended; struct err holds the message. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "base/attributes.h"

C_DECLARATIONS_BEGIN

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

/** The status as a word for logs, e.g. "timeout"; never NULL, static. */
const char *status_name(enum status status) SYMBOL("rlock_status_name");

C_DECLARATIONS_END

#endif
