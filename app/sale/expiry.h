/*
 * expiry.h - expires unpaid orders whose time to pay is over. One loop of each instance
 * tries; the store makes one of them do it.
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

/** To be called when no call is open: store_close() answers them all. The loop frees the
 *  memory in a later turn. Accepts NULL. */
void expiry_close(struct expiry_watch *watch);

#endif
