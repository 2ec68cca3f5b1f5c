/* test_http_life.c - how connections are used, limited and ended, and streams. */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): RTLD_NEXT

#include "app/test/http/http_site.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LATER_MAX      4
#define MIB            ((size_t)1 << 20)
#define MANY           120 /* connections; memory is freed only after at least 100 */
#define LISTENERS      2
#define DESCRIPTORS    4096 /* more than this program opens */
#define MORE           1030 /* connections; libmicrohttpd keeps 1,020 by default */
#define HALF_MINUTE_MS UINT64_C(30000)
#define BIG_BYTES      (12 * MIB) /* more than the kernel buffers */

static struct {
    struct http_request *later[LATER_MAX];
    size_t later_count;
    int events_left;
    int visited;
    int trims;
    int runs; /* of libmicrohttpd */
    bool no_polls;
    char *big;
} shop;

int malloc_trim(size_t pad UNUSED)
{
    shop.trims++;
    return 1;
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    int (*real)(uv_loop_t *, uv_poll_t *, int);

    *(void **)&real = dlsym(RTLD_NEXT, "uv_poll_init");
    return shop.no_polls ? UV_ENOSPC : real(loop, poll, fd);
}

enum MHD_Result MHD_run(struct MHD_Daemon *daemon)
{
    enum MHD_Result (*real)(struct MHD_Daemon *);

    *(void **)&real = dlsym(RTLD_NEXT, "MHD_run");
    shop.runs++;
    return real(daemon);
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    const char *path = request->path;
    struct http_followed followed[] = {{.id = 7}, {.id = 8}};
    struct http_listener listener = {.count = 2, .followed = followed};

    if (strcmp(path, "/stream") == 0 && http_stream(request, &listener))
        return;
    if (strcmp(path, "/later") == 0)
        shop.later[shop.later_count++] = request;
    else if (request->is_too_large)
        answer_text(request, 413, "text/plain", "too large");
    else
        answer_text(request, 200, "text/plain",
                    strcmp(path, "/big") == 0 ? shop.big : path);
}

static size_t print_event(struct http_listener *listener,
                          char ret_event[HTTP_EVENT_BYTES], void *arg UNUSED)
{
    struct http_followed *followed = listener->followed;

    shop.visited++;
    ASSERT_NUMBER(listener->count, ==, 2);
    ASSERT_NUMBER(followed[1].id, ==, 8);
    if (followed->content >= shop.events_left)
        return 0;
    followed->content++;
    return (size_t)snprintf(ret_event, HTTP_EVENT_BYTES, "data: %d of %d%80s\n\n",
                            (int)followed->content, (int)followed->id, "");
}

static int setup(void **state UNUSED)
{
    const struct http_options options = {.connections_max = MANY,
                                         .listeners_max = LISTENERS,
                                         .print_event = print_event,
                                         .handle = handle};
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    shop.big = malloc(BIG_BYTES + 1);
    memset(shop.big, 'x', BIG_BYTES);
    shop.big[BIG_BYTES] = '\0';
    return site_open(options);
}

static int teardown(void **state UNUSED)
{
    free(shop.big);
    return site_close();
}

/* -- helpers -- */

#define POST   "POST / HTTP/1.1\r\nHost: x\r\n"
#define LISTEN "GET /stream HTTP/1.1\r\nHost: a\r\nX-Request-Id: r-1\r\n\r\n"

static void run_turns(void)
{
    for (int i = 0; i < 5; i++)
        uv_run(&site.loop, UV_RUN_NOWAIT);
}

static void sweep(void)
{
    site.passed_ms += 1000;
    run_turns();
}

struct heard {
    struct client *conn;
    size_t len;
    char text[4096];
    const char *wanted;
};

static bool has_heard(void *arg)
{
    struct heard *heard = arg;
    ssize_t count = recv(client_fd(heard->conn), heard->text + heard->len,
                         sizeof(heard->text) - heard->len - 1, MSG_DONTWAIT);

    if (count > 0)
        heard->len += (size_t)count;
    return strstr(heard->text, heard->wanted) != NULL;
}

static void assert_heard(struct heard *heard, const char *wanted)
{
    heard->wanted = wanted;
    if (!runs_until(has_heard, heard))
        fail_msg("expected %s: %s", wanted, heard->text);
}

static int64_t date_s(const struct heard *heard)
{
    const char *date = strstr(heard->text, "\r\nDate: ");
    struct tm time = {0};

    assert_non_null(date);
    assert_non_null(strptime(date, "\r\nDate: %a, %d %b %Y %H:%M:%S GMT\r\n", &time));
    return timegm(&time);
}

static void listen_to(struct heard *heard, int events)
{
    unsigned answered = site.answered + 1;

    shop.events_left = events;
    memset(heard, 0, sizeof(*heard));
    heard->conn = client_open(&site.address);
    assert_true(client_write(heard->conn, LISTEN, strlen(LISTEN)));
    assert_heard(heard, "data: 1 of 7");
    ASSERT_NUMBER(site.answered, ==, answered);
}

/* -- connections -- */

UNIT_CASE(test_connection__answers_pipelined_requests_in_order)
{
    static const char requests[] = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
                                   "HEAD /b HTTP/1.1\r\nHost: x\r\n\r\n"
                                   "GET /c HTTP/1.1\r\nHost: x\r\n\r\n";
    struct client *conn = client_open(&site.address);

    assert_string_equal(exchange(conn, requests, sizeof(requests) - 1)->body, "/a");
    ASSERT_NUMBER(read_answer(conn, true)->status, ==, 200);
    assert_string_equal(read_answer(conn, false)->body, "/c");
    client_close(conn);
}

UNIT_CASE(test_connection__is_closed_on_request)
{
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        POST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        struct client *conn = client_open(&site.address);

        ASSERT_NUMBER(exchange(conn, requests[i], strlen(requests[i]))->status, ==, 200);
        assert_true(runs_until(has_ended, conn));
        client_close(conn);
    }
}

UNIT_CASE(test_connection__beyond_the_limit_is_closed)
{
    struct client *conns[MANY], *other;
    struct heard heard;

    listen_to(&heard, 1);
    for (size_t i = 1; i < MANY; i++) {
        conns[i] = client_open(&site.address);
        ASSERT_NUMBER(ask(conns[i], "GET /", "")->status, ==, 200);
    }
    other = client_open(&site.address);
    assert_true(runs_until(has_ended, other));
    client_close(other);
    client_close(heard.conn);
    for (size_t i = 1; i < MANY; i++) {
        ASSERT_NUMBER(ask(conns[i], "GET /", "")->status, ==, 200);
        client_close(conns[i]);
    }
    assert_true(runs_until(is_alone, NULL));
}

static bool are_kept(void *arg UNUSED)
{
    return http_counts(site.http).connections == MORE;
}

UNIT_CASE(test_connection__more_than_a_thousand_are_kept)
{
    struct client *conns[MORE];

    site.http->options.connections_max = MORE;
    for (size_t i = 0; i < MORE; i++) {
        conns[i] = client_open(&site.address);
        uv_run(&site.loop, UV_RUN_NOWAIT);
    }
    assert_true(runs_until(are_kept, NULL));
    for (size_t i = 0; i < MORE; i++)
        client_close(conns[i]);
    assert_true(runs_until(is_alone, NULL));
    site.http->options.connections_max = MANY;
}

UNIT_CASE(test_memory__returns_when_most_clients_have_left)
{
    struct client *conns[MANY];
    int trims;

    sweep();
    trims = shop.trims + 1;
    site.stopped_ms = uv_now(&site.loop);
    for (size_t i = 0; i < MANY; i++) {
        conns[i] = client_open(&site.address);
        ASSERT_NUMBER(ask(conns[i], "GET /", "")->status, ==, 200);
    }
    for (size_t i = 0; i < MANY; i++)
        client_close(conns[i]);
    assert_true(runs_until(is_alone, NULL));
    site.stopped_ms = 0;
    sweep();
    ASSERT_NUMBER(shop.trims, ==, trims);
    assert_true(list_is_empty(&site.http->free_requests));
}

static bool is_handled(void *arg)
{
    return shop.later_count == *(size_t *)arg;
}

/* The answers may come in another sequence than their requests, and after the client has left. */
UNIT_CASE(test_answer__may_come_later)
{
    static const char request[] = "GET /later HTTP/1.1\r\nHost: a\r\n\r\n";
    struct client *conns[3];
    struct http_counts counts;
    size_t handled = 3;

    assert_true(runs_until(is_alone, NULL));
    for (int i = 0; i < 3; i++) {
        conns[i] = client_open(&site.address);
        assert_true(client_write(conns[i], request, sizeof(request) - 1));
    }
    assert_true(runs_until(is_handled, &handled));
    counts = http_counts(site.http);
    ASSERT_NUMBER(counts.pending, ==, 3);
    ASSERT_NUMBER(counts.open, ==, 3);
    client_abort(conns[1]);
    for (size_t i = 3; i-- > 0;)
        answer_text(shop.later[i], 200, "text/plain", "late");
    shop.later_count = 0;
    for (int i = 0; i < 3; i += 2) {
        assert_string_equal(read_answer(conns[i], false)->body, "late");
        client_close(conns[i]);
    }
    assert_true(runs_until(is_alone, NULL));
    counts = http_counts(site.http);
    ASSERT_NUMBER(counts.pending, ==, 0);
    ASSERT_NUMBER(counts.open, ==, 0);
}

/* -- time -- */

static bool is_in_state(void *arg)
{
    char *json = NULL, wanted[40];
    size_t len = 0;
    FILE *out = open_memstream(&json, &len);
    bool is_there;

    http_print(site.http, out);
    fclose(out);
    snprintf(wanted, sizeof(wanted), "\"%s\":1", (const char *)arg);
    is_there = strstr(json, wanted) != NULL;
    free(json);
    return is_there;
}

static bool has_hung_up(void *arg)
{
    return poll(arg, 1, 0) == 1;
}

/* In each state except "working", a client must act within a time limit. A client that sends a
   single byte now and then exceeds the limit, too. */
UNIT_CASE(test_time__of_each_state_is_limited)
{
    static const struct {
        const char *sent, *state;
        bool is_answered, is_ended;
    } rows[] = {
        {"", "opening", false, true},
        {"GET / HTTP/1.1\r\nX: ", "opening", false, true},
        {POST "Content-Length: 100\r\n\r\n{", "reading", false, true},
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "idle", true, true},
        {"GET /big HTTP/1.1\r\nHost: a\r\n\r\n", "writing", false, true},
        {"GET /later HTTP/1.1\r\nHost: a\r\n\r\n", "working", false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct client *conn = client_open(&site.address);
        struct pollfd hung_up = {.fd = client_fd(conn), .events = POLLRDHUP};

        assert_true(client_write(conn, rows[i].sent, strlen(rows[i].sent)));
        if (rows[i].is_answered)
            read_answer(conn, false);
        if (!runs_until(is_in_state, (void *)(uintptr_t)rows[i].state))
            fail_msg("row %zu: expected the state %s", i, rows[i].state);
        site.passed_ms += HALF_MINUTE_MS;
        run_turns();
        if (has_hung_up(&hung_up))
            fail_msg("row %zu: closed after half of the time", i);
        if (strstr(rows[i].sent, "X: ") != NULL || rows[i].sent[0] == 'P')
            assert_true(client_write(conn, "x", 1));
        site.passed_ms += 2 * HALF_MINUTE_MS;
        run_turns();
        if (rows[i].is_ended && !runs_until(has_hung_up, &hung_up))
            fail_msg("row %zu: expected that the connection has ended", i);
        assert_int_equal(has_hung_up(&hung_up), rows[i].is_ended);
        if (!rows[i].is_ended)
            answer_text(shop.later[--shop.later_count], 200, "text/plain", "");
        client_close(conn);
        assert_true(runs_until(is_alone, NULL));
    }
}

/* -- bodies that are refused -- */

struct upload {
    struct client *conn;
    size_t left;
    bool is_cut; /* the server reads no more */
};

static void send_all(struct upload *upload)
{
    static const char zeros[65536];

    while (upload->left > 0 && !upload->is_cut) {
        size_t len = upload->left < sizeof(zeros) ? upload->left : sizeof(zeros);
        ssize_t sent =
            send(client_fd(upload->conn), zeros, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        upload->left -= sent > 0 ? (size_t)sent : 0;
        upload->is_cut = sent < 0 && errno != EAGAIN;
        run_turns();
    }
}

/* A client that sends its whole body before it reads gets the answer. An endless body is cut
   off. */
UNIT_CASE(test_body__too_large_is_answered_after_all_was_sent)
{
    static const struct {
        size_t declared, sent;
        bool is_cut;
    } rows[] = {
        {65537, 65537, false}, {7 * MIB, 7 * MIB, false}, {SIZE_MAX / 4, 64 * MIB, true}};

    site.stopped_ms = uv_now(&site.loop); /* draining has a time limit, too */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct upload upload = {.conn = client_open(&site.address), .left = rows[i].sent};
        char head[100];
        int len = snprintf(head, sizeof(head), POST "Content-Length: %zu\r\n\r\n",
                           rows[i].declared);

        assert_true(client_write(upload.conn, head, (size_t)len));
        send_all(&upload);
        ASSERT_NUMBER(upload.is_cut, ==, rows[i].is_cut);
        if (!rows[i].is_cut) {
            ASSERT_CONTAINS(read_answer(upload.conn, false)->body, "too large");
            assert_true(runs_until(has_ended, upload.conn));
        }
        client_close(upload.conn);
        assert_true(runs_until(is_alone, NULL));
    }
    site.stopped_ms = 0;
}

/* -- streams -- */

/* Returns the number of sockets whose unacknowledged bytes have this time limit. */
static int sockets_with_limit(int timeout_ms)
{
    int count = 0;

    for (int fd = 0; fd < 100; fd++) {
        int limit_ms = 0;
        socklen_t size = sizeof(limit_ms);

        if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, &size) == 0)
            count += limit_ms == timeout_ms;
    }
    return count;
}

UNIT_CASE(test_stream__ends_when_the_client_vanishes)
{
    struct heard heard;
    int count;

    listen_to(&heard, 1);
    count = sockets_with_limit(60000);
    client_close(heard.conn);
    assert_true(runs_until(is_alone, NULL));
    ASSERT_NUMBER(count, ==, 1);
}

UNIT_CASE(test_stream__lasts_until_the_client_leaves)
{
    struct client *other = client_open(&site.address);
    struct http_counts counts;
    struct heard heard;
    int64_t begin_s = clock_real_us() / 1000000;

    listen_to(&heard, 3);
    ASSERT_BETWEEN(date_s(&heard), begin_s, clock_real_us() / 1000000);
    assert_heard(&heard, "data: 3 of 7");
    ASSERT_CONTAINS(heard.text, "HTTP/1.1 200 OK\r\nDate: ");
    ASSERT_CONTAINS(heard.text, "Content-Type: text/event-stream\r\n");
    ASSERT_CONTAINS(heard.text, "X-Accel-Buffering: no\r\n");
    ASSERT_CONTAINS(heard.text, "X-Request-Id: r-1\r\n\r\ndata: 1 of 7");
    ASSERT_NUMBER(ask(other, "GET /", "")->status, ==, 200);
    shop.events_left = 4;
    assert_heard(&heard, "data: 4 of 7");
    counts = http_counts(site.http);
    ASSERT_NUMBER(counts.connections, ==, 2);
    ASSERT_NUMBER(counts.pending, ==, 0);
    ASSERT_NUMBER(counts.open, ==, 0);
    client_close(heard.conn);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

/* The third stream gets an ordinary answer, after which the server closes the connection. */
UNIT_CASE(test_stream__beyond_the_limit_is_not_kept)
{
    struct client *other = client_open(&site.address);
    const struct client_reply *reply;
    struct heard heard[2];

    for (int i = 0; i < 2; i++)
        listen_to(&heard[i], 1);
    reply = ask(other, "GET /stream", "");
    assert_string_equal(reply->body, "/stream");
    assert_string_equal(client_header(reply, "Connection"), "close");
    assert_true(runs_until(has_ended, other));
    client_abort(heard[0].conn);
    client_close(heard[1].conn);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

UNIT_CASE(test_http_start__without_an_event_handle_fails)
{
    struct http_options options = {.loop = &site.loop};
    struct http *http = NULL;
    struct rlock_err err = {0};
    unsigned port;

    assert_int_equal(http_listen("127.0.0.1:0", 1, &options.listen_fd, &port, NULL),
                     RLOCK_OK);
    shop.no_polls = true;
    ASSERT_STATUS(http_start(&options, &http, &err), RLOCK_NO_MEMORY);
    shop.no_polls = false;
    assert_string_equal(err.text, "no event handle");
    assert_null(http);
    close(options.listen_fd);
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < DESCRIPTORS; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

UNIT_CASE(test_stream__that_cannot_be_watched_leaves_no_descriptor)
{
    struct client *conn = client_open(&site.address);
    unsigned count;

    ask(conn, "GET /a", "");
    count = count_descriptors();
    shop.no_polls = true;
    assert_string_equal(ask(conn, "GET /stream", "")->body, "/stream");
    shop.no_polls = false;
    ASSERT_NUMBER(count_descriptors(), ==, count);
    client_close(conn);
    assert_true(runs_until(is_alone, NULL));
}

static bool has_listeners(void *count)
{
    return site.http->stream_count >= *(size_t *)count;
}

static void add_listeners(struct client **conns, size_t count)
{
    for (size_t i = site.http->stream_count; i < count; i++) {
        conns[i] = client_open(&site.address);
        assert_true(client_write(conns[i], LISTEN, strlen(LISTEN)));
        uv_run(&site.loop, UV_RUN_NOWAIT);
    }
    assert_true(runs_until(has_listeners, &count));
}

UNIT_CASE(test_stream__a_visit_serves_a_tenth_of_all_with_at_most_100_events)
{
    static const struct {
        size_t listeners;
        int events_left, visited;
    } cases[] = {{1, 0, 1}, {10, 0, 1}, {11, 0, 2}, {MORE, 0, 103}, {MORE, 1, 100}};
    struct client *conns[MORE];

    site.http->options.listeners_max = MORE;
    site.http->options.connections_max = MORE;
    shop.events_left = 0;
    site.stopped_ms = uv_now(&site.loop) + STREAMS_VISIT_MS;
    streams_visit(site.http);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        add_listeners(conns, cases[i].listeners);
        shop.events_left = cases[i].events_left;
        shop.visited = 0;
        site.stopped_ms += STREAMS_VISIT_MS - 1;
        streams_visit(site.http);
        ASSERT_NUMBER(shop.visited, ==, 0);
        site.stopped_ms++;
        streams_visit(site.http);
        ASSERT_NUMBER(shop.visited, ==, cases[i].visited);
        streams_visit(site.http);
        ASSERT_NUMBER(shop.visited, ==, cases[i].visited);
    }
    site.stopped_ms = 0;
    for (size_t i = 0; i < MORE; i++)
        client_close(conns[i]);
    assert_true(runs_until(is_alone, NULL));
    site.http->options.listeners_max = LISTENERS;
    site.http->options.connections_max = MANY;
}

/* While there is no listener, the loop sleeps for up to a second. */
UNIT_CASE(test_stream__wakes_the_loop_for_its_visits)
{
    struct client *conn = NULL;

    uv_timer_stop(&site.http->timer); /* the sleep begins now */
    uv_run(&site.loop, UV_RUN_NOWAIT);
    ASSERT_NUMBER(uv_backend_timeout(&site.loop), >, STREAMS_VISIT_MS);
    add_listeners(&conn, 1);
    uv_run(&site.loop, UV_RUN_NOWAIT);
    ASSERT_BETWEEN(uv_backend_timeout(&site.loop), 0, STREAMS_VISIT_MS);
    client_close(conn);
    assert_true(runs_until(is_alone, NULL));
}

static bool is_connected(void *arg)
{
    return !is_alone(arg);
}

UNIT_CASE(test_stream__of_a_client_that_does_not_read_ends)
{
    struct sockaddr_in peer = {.sin_family = AF_INET,
                               .sin_port = htons(site.address.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), bytes = 1;

    shop.events_left = 1000000;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&peer, sizeof(peer)), 0);
    assert_int_equal(send(fd, LISTEN, strlen(LISTEN), 0), strlen(LISTEN));
    assert_true(runs_until(is_connected, NULL));
    assert_true(runs_until(is_alone, NULL));
    close(fd);
}

/* A client that shuts down its side of the connection could still read events, but the server ends
   its stream, too. */
UNIT_CASE(test_stream__of_a_client_that_sends_or_shuts_down_ends)
{
    struct heard heard;

    listen_to(&heard, 1);
    assert_true(client_write(heard.conn, LISTEN, strlen(LISTEN)));
    assert_true(runs_until(is_alone, NULL));
    client_close(heard.conn);
    listen_to(&heard, 1000000);
    assert_int_equal(shutdown(client_fd(heard.conn), SHUT_WR), 0);
    assert_true(runs_until(is_alone, NULL));
    client_close(heard.conn);
}

/* The kernel keeps what a listener sends until the loop sees it. The kernel may keep at most 64
   KB. */
UNIT_CASE(test_stream__buffers_little_of_a_client)
{
    static const char junk[4096];
    struct heard heard;
    struct pollfd writable = {.events = POLLOUT};
    size_t sent = 0;
    int unsent = 0;

    listen_to(&heard, 1);
    writable.fd = client_fd(heard.conn);
    while (poll(&writable, 1, 100) == 1) {
        ssize_t count = send(writable.fd, junk, sizeof(junk), MSG_DONTWAIT);

        sent += count > 0 ? (size_t)count : 0;
    }
    assert_int_equal(ioctl(writable.fd, TIOCOUTQ, &unsent), 0);
    ASSERT_BETWEEN(sent - (size_t)unsent, 1, 65536);
    assert_true(runs_until(is_alone, NULL));
    client_close(heard.conn);
}

UNIT_CASE(test_turn__without_work_does_not_run_libmicrohttpd)
{
    assert_true(runs_until(is_alone, NULL));
    shop.runs = 0;
    http_turn(site.http);
    assert_int_equal(shop.runs, 0);
}

/* This test must be the last one, because the server accepts no connections afterwards.
   libmicrohttpd accepts only about ten of the queued connections at once. */
UNIT_CASE(test_quiesce__ends_streams_and_accepts_queued_connections)
{
    struct client *other = client_open(&site.address), *queued[40];
    struct heard heard;

    listen_to(&heard, 1);
    ASSERT_NUMBER(ask(other, "GET /", "")->status, ==, 200);
    for (size_t i = 0; i < COUNT_OF(queued); i++)
        queued[i] = client_open(&site.address);
    http_quiesce(site.http);
    for (size_t i = 0; i < COUNT_OF(queued); i++) {
        ASSERT_NUMBER(ask(queued[i], "GET /", "")->status, ==, 200);
        client_close(queued[i]);
    }
    assert_true(client_ends(heard.conn, CLIENT_TIMEOUT_MS));
    assert_null(client_open(&site.address));
    assert_string_equal(ask(other, "GET /stream", "")->body, "/stream");
    assert_true(runs_until(has_ended, other));
    client_close(heard.conn);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

int main(void)
{
    return cases_run(setup, teardown);
}
