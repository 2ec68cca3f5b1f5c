/*
 * fake.h - a server on the test's own loop that sends what the test specifies.
 *
 * It greets like Redis: the PING and HELLO of a connection's first read are answered by
 * FAKE_GREETING, unless `greeting` says otherwise. After that it is silent until
 * fake_say().
 */
#ifndef TEST_FAKE_H
#define TEST_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define FAKE_HELLO(version, role)                                                        \
    "*4\r\n$7\r\nversion\r\n+" version "\r\n$4\r\nrole\r\n+" role "\r\n"
#define FAKE_GREETING "+PONG\r\n" FAKE_HELLO("7.0.15", "master")

struct fake {
    uv_pipe_t listener;
    uv_pipe_t *peer; /* the newest connection */
    const char *greeting;
    char url[96];
    char heard[65536]; /* after the greeting, of all connections */
    size_t heard_len;
    unsigned connections;
};

/** `greeting` NULL: as Redis. */
struct fake *fake_start(uv_loop_t *loop, const char *greeting);

/** The loop frees the memory in a later turn. */
void fake_stop(struct fake *fake);

/** Send these bytes to the newest connection. */
void fake_say(struct fake *fake, const char *bytes);

/** Close the newest connection. */
void fake_hang_up(struct fake *fake);

#endif
