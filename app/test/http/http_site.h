/*
 * http_site.h - an HTTP server in the loop of the test, and its clients.
 *
 * A test program includes this file in one source only. The file defines uv_now() in place of
 * libuv's function, so the test can let the timeouts of the server pass.
 */
#ifndef HTTP_SITE_H
#define HTTP_SITE_H

#include "app/http/http_impl.h"
#include "app/test/http_client.h"
#include "base/clock.h"
#include "test/case_list.h"

#include <stdio.h>

static struct {
    uv_loop_t loop;
    uv_prepare_t turn_end;
    struct http *http;
    struct client_address address;
    uint64_t passed_ms; /* added to the real time */
    /* what uv_now() returns while the test has stopped the clock; 0: the clock runs */
    uint64_t stopped_ms;
    unsigned answered;
    unsigned status;
} site;

uint64_t uv_now(const uv_loop_t *loop)
{
    return site.stopped_ms > 0 ? site.stopped_ms : loop->time + site.passed_ms;
}

static inline void site_on_turn_end(uv_prepare_t *prepare UNUSED)
{
    http_turn(site.http);
}

static inline void answer_text(struct http_request *request, unsigned status,
                               const char *type, const char *text)
{
    http_answer(request, &(const struct http_reply){.status = status,
                                                    .content_type = type,
                                                    .body = text,
                                                    .body_len = strlen(text)});
}

static inline size_t site_body_max(struct http_request *request, void *arg UNUSED)
{
    if (strcmp(request->path, "/unread") == 0)
        return 0;
    return strcmp(request->path, "/long") == 0 ? HTTP_LONG_BODY_BYTES_MAX
                                               : HTTP_BODY_BYTES_MAX;
}

static inline void site_on_answered(struct http_request *request UNUSED, unsigned status,
                                    void *arg UNUSED)
{
    site.answered++;
    site.status = status;
}

/* Starts a server whose timeouts are a minute. Returns 0, or -1 if the start fails. */
static inline int site_open(struct http_options options)
{
    unsigned port = 0;

    uv_loop_init(&site.loop);
    options.loop = &site.loop;
    options.idle_timeout_s = options.request_timeout_s = 60;
    options.body_max = site_body_max;
    options.answered = site_on_answered;
    if (http_listen("127.0.0.1:0", 1, &options.listen_fd, &port, NULL) != RLOCK_OK ||
        http_start(&options, &site.http, NULL) != RLOCK_OK)
        return -1;
    uv_prepare_init(&site.loop, &site.turn_end);
    uv_prepare_start(&site.turn_end, site_on_turn_end);
    snprintf(site.address.host, sizeof(site.address.host), "127.0.0.1");
    site.address.port = (uint16_t)port;
    return 0;
}

static inline int site_close(void)
{
    uv_close((uv_handle_t *)&site.turn_end, NULL);
    http_stop(site.http);
    uv_run(&site.loop, UV_RUN_DEFAULT);
    http_free(site.http);
    return uv_loop_close(&site.loop);
}

static inline bool runs_until(bool (*check)(void *arg), void *arg)
{
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);

    while (!check(arg) && clock_mono_us() < end_us)
        uv_run(&site.loop, UV_RUN_ONCE);
    return check(arg);
}

/* Returns the next answer, which is valid until the connection is closed. */
static inline const struct client_reply *read_answer(struct client *conn, bool is_head)
{
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);
    const struct client_reply *reply = NULL;

    while (reply == NULL && clock_mono_us() < end_us) {
        uv_run(&site.loop, UV_RUN_NOWAIT);
        reply = client_poll(conn, is_head);
    }
    assert_non_null(reply);
    return reply;
}

static inline const struct client_reply *exchange(struct client *conn, const char *bytes,
                                                  size_t len)
{
    assert_true(client_write(conn, bytes, len));
    return read_answer(conn, strncmp(bytes, "HEAD", 4) == 0);
}

static inline const struct client_reply *ask(struct client *conn, const char *line,
                                             const char *headers)
{
    char request[800];
    int len = snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: a\r\n%s\r\n", line,
                       headers);

    return exchange(conn, request, (size_t)len);
}

static inline bool is_alone(void *arg UNUSED)
{
    return http_counts(site.http).connections == 0;
}

static inline bool has_ended(void *arg)
{
    return client_ends(arg, 0);
}

#endif
