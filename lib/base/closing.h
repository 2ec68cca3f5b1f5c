/*
 * closing.h - waits until all uv handles and parts of an owner have closed.
 *
 * libuv closes a handle in a later turn of the loop, and its memory must stay until then.
 * An owner starts a struct closing, closes each handle and part through it, and ends with
 * closing_done(). When all of them have closed, `closed` is called once, and may free the
 * owner.
 *
 * Threads: the loop's only.
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

/** Close `handle`, and overwrite its `data`. */
void closing_handle(struct closing *closing, uv_handle_t *handle);

/** Count a part that is no handle. When it has closed, pass the returned pointer to
 *  closing_done(). */
struct closing *closing_part(struct closing *closing);

/** Report that a part has closed, or that the owner has nothing more to close. `closing`
 *  is a struct closing. */
void closing_done(void *closing);

#endif
