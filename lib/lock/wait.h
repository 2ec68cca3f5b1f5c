/*
 * wait.h - acquires that found the lock busy and wait for it.
 *
 * Promise: between a try that found it busy and the next sleep nothing is missed: a
 * waiter is in its channel, and the channel is subscribed, before the last try.
 */
#ifndef LOCK_WAIT_H
#define LOCK_WAIT_H

#include "lock/channel.h"
#include "lock/rlock.h"

#include <uv.h>

struct rlock_result;

struct rlock_waits {
    struct list all;   /* struct rlock_waiter, in use or not */
    struct list spare; /* those that are not */
    struct rlock_channels channels;
};

void rlock_waits_init(struct rlock_waits *waits);

/** Answer all who wait STATUS_CANCELLED, and close what is open. */
void rlock_waits_close(struct rlock_client *client);
void rlock_waits_clear(struct rlock_waits *waits);

/** `lock`'s try found it busy. Returns whether it goes on waiting; else its time is up.
 */
bool rlock_wait_on(struct rlock_client *client, struct rlock *lock,
                   const struct rlock_result *result);

/** `lock` waits no more, for it was granted or for another reason. Harmless if it did
 * not. */
void rlock_wait_end(struct rlock_client *client, struct rlock *lock, bool is_granted);

/** `lock` is being released: who waits for it in this client tries right behind that. */
void rlock_wait_pass_on(struct rlock_client *client, const struct rlock *lock);

/** For how long the server is to believe that `lock` waits, unless it asks again. */
uint32_t rlock_wait_left_ms(const struct rlock *lock);

/** The channel's messages come from now on. */
void rlock_waits_confirmed(struct rlock_channel *channel);

/** The channel's messages do not come for a while. */
void rlock_waits_cut_off(struct rlock_channel *channel);

/** A message: of a queued kind the owner whose turn it is, else anything. */
void rlock_waits_called(struct rlock_channel *channel, const char *text, size_t text_len);

#endif
