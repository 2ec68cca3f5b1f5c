/*
 * expiry.h - expires unpaid orders whose time to pay is over. One loop of each instance
 * does this; several instances may do it at the same time.
 *
 * Threads: the owning loop's only.
 */
#ifndef EXPIRY_H
#define EXPIRY_H

#include "app/store/store.h"
#include "base/attributes.h"

#include <uv.h>

struct expiry_watch;

/** @store  borrowed, outlives the watch. NULL: out of memory */
struct expiry_watch *expiry_open(uv_loop_t *loop, struct store *store);

/** To be called after the store, when closed, has answered all calls. The loop frees the
 *  memory. Accepts NULL. */
void expiry_close(struct expiry_watch *watch);

#endif
