/* peer.h - a Java process with locks of Redisson. LockPeer.java has its commands. */
#ifndef TEST_INTEROP_PEER_H
#define TEST_INTEROP_PEER_H

#include "test/fixture.h"

#include <sys/types.h>

#define PEER_WATCHDOG_MS 4500 /* lockWatchdogTimeout of the process */

struct peer {
    pid_t pid;
    int to, from;
    unsigned last_tag;
    size_t len;
    char heard[65536]; /* all lines of the process so far */
    char words[256];   /* the words of the last answer that was read */
};

/** Start the process. `classpath` has the jar and its dependencies. */
void peer_start(struct peer *peer, const char *classpath, const char *redis_url);

void peer_stop(struct peer *peer);

/** Send a command without waiting for the answer. Returns its tag. */
unsigned peer_request(struct peer *peer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Return the answer to the command `tag`, or NULL if the answer has not come. The answer is
 *  valid until the next call. */
const char *peer_answer(struct peer *peer, unsigned tag);

const char *peer_await(struct fixture *fixture, struct peer *peer, unsigned tag);

#define PEER_CALL(fixture, peer, ...)                                                    \
    peer_await(fixture, peer, peer_request(peer, __VA_ARGS__))

#endif
