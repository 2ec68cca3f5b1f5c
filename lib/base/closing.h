/*
 * closing.h - waits until all uv handles and other parts of an owner have closed.
 *
 * libuv closes a handle in a later turn of the loop, and the memory of the handle must stay until
 * then. A part is anything else that takes time to close, such as a connection.
 *
 * An owner calls closing_start(), closes each handle with closing_handle(), counts each part with
 * closing_part(), and then calls closing_done(). When all handles and parts have closed, `closed`
 * is called once. This callback may free the owner.
 *
 * Threads: only the thread of the loop.
 */
#ifndef BASE_CLOSING_H
#define BASE_CLOSING_H

#include <uv.h>

struct closing {
    unsigned open; /* handles and parts that are still open, and the owner itself */
    void (*closed)(void *owner);
    void *owner;
};

void closing_start(struct closing *closing, void (*closed)(void *owner), void *owner);

/** Close `handle`, and overwrite the `data` of the handle. */
void closing_handle(struct closing *closing, uv_handle_t *handle);

/** Count a part. When the part has closed, pass the returned pointer to closing_done(). */
struct closing *closing_part(struct closing *closing);

/** Report that a part has closed, or that the owner has nothing more to close. `closing` points
 *  to the struct closing. The type is void so that this function can be a callback. */
void closing_done(void *closing);

#endif
