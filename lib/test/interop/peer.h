/* peer.h - a Java process with real Redisson locks; LockPeer.java tells what it is asked.
 */
#ifndef TEST_INTEROP_PEER_H
#define TEST_INTEROP_PEER_H

#include "test/fixture.h"

#include <sys/types.h>

#define PEER_WATCHDOG_MS 1500  /* its lockWatchdogTimeout */
#define PEER_WITHIN_MS   15000 /* its first answer takes a start of Java */

struct peer {
    pid_t pid;
    int to, from;
    unsigned last_tag;
    size_t len;
    char heard[65536]; /* all lines of the process so far */
    char words[256];   /* of the answer that was looked at last */
};

/** Start it; fails the test if it cannot. `classpath`: of the jar and of what it needs.
 */
void peer_start(struct peer *peer, const char *classpath, const char *redis_url);

void peer_stop(struct peer *peer);

/** Ask, without waiting for the answer; its tag. */
unsigned peer_request(struct peer *peer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** What was answered to `tag` by now, NULL: nothing; valid until the next look. */
const char *peer_answer(struct peer *peer, unsigned tag);

/** Run the loop until `tag` is answered; the words. */
const char *peer_await(struct fixture *fixture, struct peer *peer, unsigned tag);

/** Ask and await the answer. */
#define PEER_TELL(fixture, peer, ...)                                                    \
    peer_await(fixture, peer, peer_request(peer, __VA_ARGS__))

#endif
