/*
 * expiry.h - unpaid orders expire when their time is over. One loop of each instance sees
 * to it; instances that do so side by side do not get in each other's way.
 *
 * Threads: that of the loop.
 */
#ifndef EXPIRY_H
#define EXPIRY_H

#include "app/store/store.h"
#include "base/attributes.h"

#include <uv.h>

struct expiry_watch;

/** @store  borrowed, outlives the watch. NULL: out of memory */
struct expiry_watch *expiry_open(uv_loop_t *loop, struct store *store);

/** To be called after the store's close has answered all calls; the memory is freed by
 * the loop. Accepts NULL. */
void expiry_close(struct expiry_watch *watch);

#endif
