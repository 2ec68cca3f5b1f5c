/*
 * fake.h - a server on the test's own loop that sends what the test specifies.
 *
 * The first read of a connection has PING and HELLO. The server answers it with FAKE_GREETING,
 * unless fake_start() got another greeting. Then the server is silent until the test calls
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
    char heard[65536]; /* what all connections have sent after the greeting */
    size_t heard_len;
    unsigned connections;
};

/** Start a server. If `greeting` is NULL, the server greets like Redis. */
struct fake *fake_start(uv_loop_t *loop, const char *greeting);

/** Stop the server. The loop frees the memory in a later turn. */
void fake_stop(struct fake *fake);

void fake_say(struct fake *fake, const char *bytes);

void fake_hang_up(struct fake *fake);

#endif
