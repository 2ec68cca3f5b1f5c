/* fake.c - a listening pipe that sends replies that no real Redis sends. */
#include "test/fake.h"
#include "test/asserts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_peer(uv_pipe_t *peer)
{
    struct fake *fake = peer->data;

    if (uv_is_closing((uv_handle_t *)peer))
        return;
    if (fake->peer == peer)
        fake->peer = NULL;
    uv_close((uv_handle_t *)peer, on_closed);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret_buf)
{
    static char room[65536];

    (void)handle;
    (void)size;
    *ret_buf = uv_buf_init(room, sizeof(room));
}

static void on_heard(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct fake *fake = stream->data;

    if (len < 0) {
        close_peer((uv_pipe_t *)stream);
        return;
    }
    ASSERT_NUMBER(fake->heard_len + (size_t)len, <, sizeof(fake->heard));
    memcpy(fake->heard + fake->heard_len, buf->base, (size_t)len);
    fake->heard_len += (size_t)len;
}

static void on_greeted(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct fake *fake = stream->data;

    if (len < 0) {
        close_peer((uv_pipe_t *)stream);
        return;
    }
    assert_memory_equal(buf->base + len - 7, "HELLO\r\n", 7);
    uv_read_stop(stream);
    uv_read_start(stream, on_alloc, on_heard);
    if (memmem(buf->base, (size_t)len, "EVALSHA", 7) == NULL) {
        fake_say(fake, fake->greeting);
        return;
    }
    /* the replies to EVALSHA and EVAL: the user has all rights */
    fake_say(fake, "+PONG\r\n-NOSCRIPT no\r\n$0\r\n\r\n");
    assert_memory_equal(fake->greeting, "+PONG\r\n", 7);
    fake_say(fake, fake->greeting + 7);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct fake *fake = listener->data;
    uv_pipe_t *peer = calloc(1, sizeof(*peer));

    assert_int_equal(status, 0);
    uv_pipe_init(listener->loop, peer, 0);
    peer->data = fake;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)peer), 0);
    fake->peer = peer;
    fake->connections++;
    uv_read_start((uv_stream_t *)peer, on_alloc, on_greeted);
}

struct fake *fake_start(uv_loop_t *loop, const char *greeting)
{
    struct fake *fake = calloc(1, sizeof(*fake));

    fake->greeting = greeting == NULL ? FAKE_GREETING : greeting;
    snprintf(fake->url, sizeof(fake->url), "unix:/tmp/rlock-fake.%ld", (long)getpid());
    unlink(fake->url + 5);
    uv_pipe_init(loop, &fake->listener, 0);
    fake->listener.data = fake;
    assert_int_equal(uv_pipe_bind(&fake->listener, fake->url + 5), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&fake->listener, 16, on_connection), 0);
    return fake;
}

static void on_listener_closed(uv_handle_t *listener)
{
    free(listener->data);
}

void fake_stop(struct fake *fake)
{
    if (fake->peer != NULL)
        close_peer(fake->peer);
    /* this unlinks the path */
    uv_close((uv_handle_t *)&fake->listener, on_listener_closed);
}

void fake_say(struct fake *fake, const char *bytes)
{
    uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned)strlen(bytes));

    assert_non_null(fake->peer);
    assert_int_equal(uv_try_write((uv_stream_t *)fake->peer, &buf, 1), buf.len);
}

void fake_hang_up(struct fake *fake)
{
    assert_non_null(fake->peer);
    close_peer(fake->peer);
}
