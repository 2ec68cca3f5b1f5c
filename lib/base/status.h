/* status.h - how a call ended; the words beside it are in struct err. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

enum status {
    STATUS_OK = 0,
    STATUS_BUSY,      /* held by another; a verdict, not a failure */
    STATUS_LOST,      /* was ours, is not any more: lapsed, deleted or stolen */
    STATUS_NOT_OWNER, /* never ours */
    STATUS_NOT_FOUND,
    STATUS_INVALID,   /* the caller's argument is out of its documented range */
    STATUS_TIMEOUT,   /* no answer in time: the outcome is unknown */
    STATUS_IO,        /* the connection failed: the outcome is unknown */
    STATUS_DOWN,      /* not connected, nothing was sent: the outcome is "not done" */
    STATUS_REFUSED,   /* the server answered with an error; nothing was changed */
    STATUS_UNSAFE,    /* done, but fewer replicas than asked have it; undone again */
    STATUS_CANCELLED, /* the caller, or the closing of its client, ended the call */
    STATUS_NO_MEMORY,
};

/** The status as the word that goes into logs, e.g. "timeout"; never NULL, static. */
const char *status_name(enum status status);

#endif
