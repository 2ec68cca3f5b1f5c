/*
 * peer.c - sends commands to the standard input of the Java process, and reads its standard output.
 */
#include "test/interop/peer.h"
#include "test/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void become_peer(const int to[2], const int from[2], const char *classpath,
                        const char *redis_url)
{
    char watchdog_ms[16];

    snprintf(watchdog_ms, sizeof(watchdog_ms), "%d", PEER_WATCHDOG_MS);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execlp("java", "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp",
           classpath, "LockPeer", redis_url, watchdog_ms, (char *)NULL);
    _exit(127);
}

void peer_start(struct peer *peer, const char *classpath, const char *redis_url)
{
    int to[2], from[2];

    *peer = (struct peer){0};
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    peer->pid = child_fork();
    if (peer->pid == 0)
        become_peer(to, from, classpath, redis_url);
    close(to[0]);
    close(from[1]);
    peer->to = to[1];
    peer->from = from[0];
    assert_int_equal(fcntl(peer->from, F_SETFL, O_NONBLOCK), 0);
}

void peer_stop(struct peer *peer)
{
    child_end(peer->pid);
    close(peer->to);
    close(peer->from);
}

unsigned peer_request(struct peer *peer, const char *format, ...)
{
    char line[256];
    va_list args;
    int len = snprintf(line, sizeof(line), "%u ", ++peer->last_tag);

    va_start(args, format);
    len += vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
    va_end(args);
    ASSERT_BETWEEN(len, 1, sizeof(line) - 2);
    line[len++] = '\n';
    assert_int_equal(write(peer->to, line, (size_t)len), len);
    return peer->last_tag;
}

static void hear(struct peer *peer)
{
    size_t room = sizeof(peer->heard) - 1 - peer->len;
    ssize_t count = read(peer->from, peer->heard + peer->len, room);

    ASSERT_NUMBER(room, >, 0);
    if (count == 0)
        fail_msg("the peer has ended");
    if (count > 0)
        peer->len += (size_t)count;
    peer->heard[peer->len] = '\0';
}

const char *peer_answer(struct peer *peer, unsigned tag)
{
    const char *line = peer->heard;
    const char *end;
    char head[16];
    size_t head_len = (size_t)snprintf(head, sizeof(head), "%u ", tag);

    hear(peer);
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (strncmp(line, head, head_len) != 0)
            continue;
        snprintf(peer->words, sizeof(peer->words), "%.*s",
                 (int)(end - line - (ptrdiff_t)head_len), line + head_len);
        return peer->words;
    }
    return NULL;
}

struct pending {
    struct peer *peer;
    unsigned tag;
};

static bool is_answered(void *arg)
{
    const struct pending *pending = arg;

    return peer_answer(pending->peer, pending->tag) != NULL;
}

const char *peer_await(struct fixture *fixture, struct peer *peer, unsigned tag)
{
    struct pending pending = {peer, tag};

    FIXTURE_AWAIT(fixture, is_answered, &pending);
    return peer->words;
}
