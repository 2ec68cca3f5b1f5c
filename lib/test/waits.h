/* waits.h - helpers of the tests that wait for a lock. */
#ifndef TEST_WAITS_H
#define TEST_WAITS_H

#include "test/fixture.h"

#define NAME         "item:7"
#define WAIT_LOOK_MS 2001 /* a waiter without messages notices a free name within this */

struct rlock_acquire_options waiting(const struct rlock_kind *kind, uint64_t holder,
                                     uint32_t wait_ms);

void call_wait(struct rlock_client *client, struct call *call, const char *name,
               const struct rlock_acquire_options *options);

/** Run the loop until the call is answered, or waits and has no try in progress. */
void call_rest(struct fixture *fixture, struct call *call);

/** Change the time until which the waiters for NAME count as alive, by `ms`. Each try of a waiter
 *  sets this time again. The keys of the queue no longer expire by themselves until then. */
void move_beats(struct fixture *fixture, int ms);

/** Release a lock after all waiters were made to count as alive, however busy the machine is. */
enum rlock_status release_to_live(struct fixture *fixture, struct rlock_client *client,
                                  struct call *call);

long long script_calls(struct fixture *fixture);

/** Return the number of commands that the server has executed, also inside scripts. PING and INFO
 *  are left out, because the tests send them, too. */
long long commands_executed(struct fixture *fixture);

long long channels_in_use(struct fixture *fixture);

/** Run the loop until no channel has a subscriber. */
void assert_no_channels(struct fixture *fixture);

/** Also assert that the server has one key: the fence counter of a lock. */
void assert_only_a_fence_left(struct fixture *fixture);

#endif
