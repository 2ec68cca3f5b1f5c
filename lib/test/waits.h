/* waits.h - what the tests of waiting share: calls that wait, and what is left of them.
 */
#ifndef TEST_WAITS_H
#define TEST_WAITS_H

#include "test/fixture.h"

#define NAME        "item:7"
#define LONG_MS     6000 /* a wait that is not to run out */
#define PROMPTLY_US 1000000

struct rlock_acquire_options waiting(const struct rlock_kind *kind, uint64_t holder,
                                     uint32_t wait_ms);

/** Acquire and flush. */
void call_wait(struct rlock_client *client, struct call *call, const char *name,
               const struct rlock_acquire_options *options);

/** Calls of scripts since the server started. */
long long script_calls(struct fixture *fixture);

long long channels_in_use(struct fixture *fixture);

/** Run until nobody listens to anything. */
void assert_no_channels(struct fixture *fixture);

#endif
