/* waits.h - helpers of the tests that wait for a lock. */
#ifndef TEST_WAITS_H
#define TEST_WAITS_H

#include "test/fixture.h"

#define NAME         "item:7"
#define WAIT_LOOK_MS 2001 /* a waiter without messages notices a free name within this */

/** The options of a wait for the usual lease. */
struct rlock_acquire_options waiting(const struct rlock_kind *kind, uint64_t holder,
                                     uint32_t wait_ms);

/** Acquire and flush. */
void call_wait(struct rlock_client *client, struct call *call, const char *name,
               const struct rlock_acquire_options *options);

/** Run the loop until the call waits and has no try under way, or is answered. */
void call_rest(struct fixture *fixture, struct call *call);

/**
 * Move the time until which those queued for NAME count as alive by `ms`, at the server; a
 * try of a waiter sets it anew. The keys of the queue do not expire until then.
 */
void move_beats(struct fixture *fixture, int ms);

/** Release while all that wait count as alive, however busy the machine is. */
enum rlock_status release_to_live(struct fixture *fixture, struct rlock_client *client,
                                  struct call *call);

/** Calls of scripts since the server started. */
long long script_calls(struct fixture *fixture);

/** Commands that the server has executed, also in scripts; but not PING and INFO, which tests
 *  send, too. */
long long commands_executed(struct fixture *fixture);

long long channels_in_use(struct fixture *fixture);

/** Run the loop until no channel has a subscriber. */
void assert_no_channels(struct fixture *fixture);

#endif
