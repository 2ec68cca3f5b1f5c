/*
 * test_http_conn.c - limits, timeouts and draining of connections, on a clock that the test sets.
 *
 * To drain a connection means to read and drop what its client still sends, so that the client can
 * read the answer. The connections of libmicrohttpd are fakes. A fake has an address, one end of a
 * pair of sockets, and the slot in which the server keeps its state.
 */
#include "app/http/http_impl.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAKES_MAX          200
#define IDLE_TIMEOUT_MS    UINT64_C(4000)
#define REQUEST_TIMEOUT_MS UINT64_C(6000)
#define DRAIN_BYTES_MAX    8388608
#define DRAIN_COUNT_MAX    1024

struct MHD_Connection {
    struct sockaddr_in6 address;
    bool has_address;
    int fd, client_fd;
    void *slot;
    union MHD_ConnectionInfo info;
};

static struct {
    uv_loop_t loop;
    uint64_t now_ms;
    int recv_errno; /* error of recv(); 0: recv() works */
    size_t recv_count;
    struct http_options options;
    struct http http;
    struct MHD_Connection fakes[FAKES_MAX];
    size_t fake_count;
} site;

/* -- what the server calls -- */

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type,
                                                        ...)
{
    if (type == MHD_CONNECTION_INFO_CLIENT_ADDRESS) {
        connection->info.client_addr = (struct sockaddr *)&connection->address;
        return connection->has_address ? &connection->info : NULL;
    }
    if (type == MHD_CONNECTION_INFO_CONNECTION_FD)
        connection->info.connect_fd = connection->fd;
    else if (type == MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        connection->info.socket_context = connection->slot;
    else
        return NULL;
    return &connection->info;
}

uint64_t uv_now(const uv_loop_t *loop UNUSED)
{
    return site.now_ms;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): reserved names
ssize_t recv(int fd, void *buffer, size_t len, int flags)
{
    site.recv_count++;
    if (site.recv_errno == 0)
        return syscall(SYS_recvfrom, fd, buffer, len, flags, NULL, NULL);
    errno = site.recv_errno;
    return -1;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* -- helpers -- */

static int setup(void **state UNUSED)
{
    memset(&site, 0, sizeof(site));
    uv_loop_init(&site.loop);
    site.now_ms = 1000000;
    site.options = (struct http_options){.loop = &site.loop,
                                         .connections_max = FAKES_MAX,
                                         .idle_timeout_s = IDLE_TIMEOUT_MS / 1000,
                                         .request_timeout_s = REQUEST_TIMEOUT_MS / 1000};
    conns_init(&site.http.conns, &site.options);
    return 0;
}

static int teardown(void **state UNUSED)
{
    struct conns *conns = &site.http.conns;

    conns_stop(conns);
    LIST_EACH_SAFE(struct conn, conn, &conns->all, link) {
        conn->is_stream = false;
        conn_end(conns, conn);
    }
    ASSERT_NUMBER(conns->count, ==, 0);
    ASSERT_NUMBER(conns->drained_count, ==, 0);
    ASSERT_NUMBER(conns->peers.count, ==, 0);
    assert_null(conns->peers.slots);
    conns_clear(conns);
    for (size_t i = 0; i < site.fake_count; i++) {
        close(site.fakes[i].fd);
        close(site.fakes[i].client_fd);
    }
    uv_run(&site.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&site.loop);
}

#define CASE(name) DEFINE_CASE(name, name, setup, teardown, NULL)

static void set_address(struct MHD_Connection *fake, const char *text)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&fake->address;

    fake->has_address = text != NULL;
    memset(&fake->address, 0, sizeof(fake->address));
    if (text == NULL)
        return;
    if (strchr(text, ':') == NULL) {
        v4->sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
        return;
    }
    fake->address.sin6_family = AF_INET6;
    assert_int_equal(inet_pton(AF_INET6, text, &fake->address.sin6_addr), 1);
}

static bool is_accepted(const char *address)
{
    struct MHD_Connection fake;

    set_address(&fake, address);
    return conns_accept(&site.http.conns,
                        fake.has_address ? (struct sockaddr *)&fake.address : NULL,
                        sizeof(fake.address)) == MHD_YES;
}

static struct MHD_Connection *begin_from(const char *address)
{
    struct MHD_Connection *fake = &site.fakes[site.fake_count++];

    assert_true(site.fake_count <= FAKES_MAX);
    fake->fd = fake->client_fd = -1;
    set_address(fake, address);
    conns_notify(&site.http.conns, fake, &fake->slot, MHD_CONNECTION_NOTIFY_STARTED);
    return fake;
}

static struct MHD_Connection *begin(void)
{
    struct MHD_Connection *fake = begin_from("192.0.2.1");
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fake->fd = fds[0];
    fake->client_fd = fds[1];
    return fake;
}

static void end(struct MHD_Connection *fake)
{
    conns_notify(&site.http.conns, fake, &fake->slot, MHD_CONNECTION_NOTIFY_CLOSED);
    assert_null(fake->slot);
    close(fake->fd);
    fake->fd = -1;
}

static struct conn *begin_in(enum conn_state state)
{
    struct conn *conn = conn_of(begin());

    conn_set_state(&site.http.conns, conn, state);
    return conn;
}

static struct MHD_Connection *begin_drained(void)
{
    struct MHD_Connection *fake = begin();

    conn_of(fake)->is_refused = true;
    end(fake);
    return fake;
}

/* Asserts the numbers of connections, as "count/peak/drained opening idle reading working writing
   ending drained stream". */
static void assert_conns(const char *wanted)
{
    const struct conns *conns = &site.http.conns;
    char *json = NULL, found[200];
    size_t len = 0;
    FILE *out = open_memstream(&json, &len);
    int used = snprintf(found, sizeof(found), "%zu/%zu/%zu", conns->count,
                        conns->peak_count, conns->drained_count);

    http_print(&site.http, out);
    fclose(out);
    for (const char *at = json; (at = strchr(at, ':')) != NULL; at++)
        used += snprintf(found + used, sizeof(found) - (size_t)used, " %lu",
                         strtoul(at + 1, NULL, 10));
    free(json);
    asserts_text(found, wanted,
                 "the connections, as count/peak/drained opening idle reading working "
                 "writing ending drained stream",
                 __FILE__, __LINE__);
}

static void run_loop(void)
{
    for (int i = 0; i < 3; i++)
        uv_run(&site.loop, UV_RUN_NOWAIT);
}

static bool has_ended(const struct MHD_Connection *fake)
{
    char byte;
    ssize_t count =
        syscall(SYS_recvfrom, fake->client_fd, &byte, 1, MSG_DONTWAIT, NULL, NULL);

    return count == 0;
}

/* -- limits -- */

CASE(test_accept__up_to_connections_max)
{
    struct MHD_Connection *first = begin();

    site.options.connections_max = 3;
    begin();
    assert_true(is_accepted("192.0.2.1"));
    begin();
    assert_false(is_accepted("192.0.2.1"));
    end(first);
    assert_true(is_accepted("192.0.2.1"));
    assert_conns("2/3/0 2 0 0 0 0 0 0 0");
}

CASE(test_accept__up_to_the_limit_per_address)
{
    static const struct {
        const char *open, *other;
        bool is_same;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1", true},
        {"192.0.2.1", "192.0.2.2", false},
        {"192.0.2.1", "193.0.2.1", false},
        {"192.0.2.1", "::ffff:192.0.2.1", true},
        {"192.0.2.1", NULL, false},
        {"2001:db8::1", "2001:db8::2", true},
        {"2001:db8::1", "2001:db8:0:1::1", false},
        {"2001:db8::1", "2002:db8::1", false},
        {NULL, "::", true},
        {"10.0.0.1", "192.0.2.1", false},
    };
    struct MHD_Connection *conns[2];

    site.options.connections_per_address = 2;
    assert_int_equal(
        address_networks_parse("10.0.0.0/8", &site.options.trusted_proxies, NULL),
        RLOCK_OK);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_proxy = rows[i].open != NULL && strncmp(rows[i].open, "10.", 3) == 0;

        conns[0] = begin_from(rows[i].open);
        assert_true(is_accepted(rows[i].open));
        assert_true(is_accepted(rows[i].other));
        conns[1] = begin_from(rows[i].open);
        if (is_accepted(rows[i].other) == rows[i].is_same)
            fail_msg("%s beside two of %s: expected that it is %s", rows[i].other,
                     rows[i].open, rows[i].is_same ? "refused" : "accepted");
        assert_int_equal(is_accepted(rows[i].open), is_proxy);
        end(conns[0]);
        assert_true(is_accepted(rows[i].open));
        ASSERT_NUMBER(site.http.conns.peers.count, ==, 1);
        end(conns[1]);
        assert_null(site.http.conns.peers.slots);
    }
}

/* The table keeps the address, because the other address still has a connection. */
CASE(test_accept__after_an_address_has_left)
{
    struct MHD_Connection *first;

    site.options.connections_per_address = 1;
    begin_from("192.0.2.2");
    first = begin_from("192.0.2.1");
    assert_false(is_accepted("192.0.2.1"));
    end(first);
    ASSERT_NUMBER(site.http.conns.peers.count, ==, 1);
    assert_true(is_accepted("192.0.2.1"));
    assert_false(is_accepted("192.0.2.2"));
}

CASE(test_accept__counts_no_addresses_without_a_limit)
{
    begin();
    begin();
    ASSERT_NUMBER(site.http.conns.peers.count, ==, 0);
    assert_true(is_accepted("192.0.2.1"));
}

/* -- states -- */

CASE(test_conn__is_opening_at_first)
{
    struct MHD_Connection *fake;

    begin_in(CONN_WRITING)->is_refused = true;
    site.fakes[0].fd = dup(site.fakes[0].fd);
    conn_end(&site.http.conns, conn_of(&site.fakes[0]));
    assert_conns("0/1/0 0 0 0 0 0 0 0 0");
    site.now_ms += 5;
    fake = begin();
    assert_ptr_equal(fake->slot, site.fakes[0].slot);
    assert_false(conn_of(fake)->is_refused);
    assert_ptr_equal(conn_of(fake)->connection, fake);
    assert_int_equal(conn_of(fake)->since_ms, site.now_ms);
    assert_conns("1/1/0 1 0 0 0 0 0 0 0");
}

CASE(test_print__counts_each_state)
{
    char *json = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&json, &len);

    for (int kind = CONN_OPENING; kind <= CONN_STREAM; kind++) {
        for (int i = 0; i <= kind; i++)
            begin_in((enum conn_state)kind);
    }
    http_print(&site.http, out);
    fclose(out);
    assert_string_equal(json, "{\"opening\":1,\"idle\":2,\"reading\":3,\"working\":4,"
                              "\"writing\":5,\"ending\":6,\"drained\":7,\"stream\":8}");
    free(json);
}

CASE(test_conn__of_a_stream_ends_with_its_second_end)
{
    struct conn *conn = begin_in(CONN_WRITING);

    conn->is_stream = true;
    conn_end(&site.http.conns, conn);
    assert_conns("1/1/0 0 0 0 0 0 0 0 1");
    conn_end(&site.http.conns, conn);
    assert_conns("0/1/0 0 0 0 0 0 0 0 0");
}

CASE(test_conn__without_memory_is_counted)
{
    struct MHD_Connection fake = {.fd = -1};

    begin_in(CONN_IDLE);
    site.http.conns.count++;
    conn_set_state(&site.http.conns, NULL, CONN_WRITING);
    conns_notify(&site.http.conns, &fake, &fake.slot, MHD_CONNECTION_NOTIFY_CLOSED);
    assert_conns("1/1/0 0 1 0 0 0 0 0 0");
}

CASE(test_conn__of_an_address_without_memory_is_not_limited)
{
    site.options.connections_per_address = 1;
    torture_fail(2, 0); /* the first allocation is the connection */
    assert_null(conn_of(begin())->peer);
    assert_true(torture_stop());
    begin();
    assert_conns("2/2/0 2 0 0 0 0 0 0 0");
}

/* -- timeouts -- */

/* Asserts that the connection was shut down. If the client did not read its answer, SO_LINGER makes
   the kernel discard the rest. */
static void assert_shut_down(struct conn *conn, enum conn_state state)
{
    struct linger linger = {0};
    socklen_t len = sizeof(linger);

    if (conn->state != CONN_ENDING || !has_ended(conn->connection))
        fail_msg("state %d was not shut down behind its limit", (int)state);
    assert_int_equal(send(conn->connection->client_fd, "x", 1, MSG_NOSIGNAL), -1);
    getsockopt(conn->connection->fd, SOL_SOCKET, SO_LINGER, &linger, &len);
    ASSERT_NUMBER(linger.l_onoff, ==, state == CONN_WRITING);
}

static void assert_kept(const struct conn *conn, enum conn_state state)
{
    if (conn->state != state || has_ended(conn->connection))
        fail_msg("state %d was shut down", (int)state);
}

CASE(test_sweep__shuts_down_what_is_overdue)
{
    static const struct {
        enum conn_state state;
        uint64_t limit_ms; /* 0: no limit */
    } rows[] = {
        {CONN_OPENING, IDLE_TIMEOUT_MS},
        {CONN_IDLE, IDLE_TIMEOUT_MS},
        {CONN_READING, REQUEST_TIMEOUT_MS},
        {CONN_WRITING, REQUEST_TIMEOUT_MS},
        {CONN_WORKING, 0},
        {CONN_ENDING, 0},
        {CONN_STREAM, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct conn *conn = begin_in(rows[i].state);

        site.now_ms += rows[i].limit_ms;
        assert_false(conns_sweep(&site.http.conns));
        assert_kept(conn, rows[i].state);
        site.now_ms += rows[i].limit_ms > 0 ? 1 : 3600000;
        site.http.conns.swept_ms = 0;
        assert_false(conns_sweep(&site.http.conns));
        if (rows[i].limit_ms == 0)
            assert_kept(conn, rows[i].state);
        else
            assert_shut_down(conn, rows[i].state);
        conn_end(&site.http.conns, conn);
    }
}

CASE(test_sweep__runs_every_500_ms)
{
    struct conn *conn = begin_in(CONN_IDLE);

    assert_false(conns_sweep(&site.http.conns));
    site.now_ms += 499;
    conn->since_ms = 0;
    assert_false(conns_sweep(&site.http.conns));
    assert_conns("1/1/0 0 1 0 0 0 0 0 0");
    site.now_ms++;
    assert_false(conns_sweep(&site.http.conns));
    assert_conns("1/1/0 0 0 0 0 0 1 0 0");
}

/* While a connection may be in a handshake, an old certificate must be kept. */
CASE(test_sweep__tells_since_when_handshakes_may_last)
{
    static const struct {
        enum conn_state state;
        bool may_be_in_handshake;
    } rows[] = {
        {CONN_OPENING, true},  {CONN_ENDING, true},   {CONN_IDLE, false},
        {CONN_READING, false}, {CONN_WORKING, false}, {CONN_WRITING, false},
        {CONN_STREAM, false},
    };
    struct conns *conns = &site.http.conns;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct conn *conn = begin_in(rows[i].state);
        struct conn *newer = begin_in(rows[i].state);
        uint64_t began_ms = site.now_ms;

        site.now_ms += 1000;
        newer->since_ms = site.now_ms - 1;
        assert_false(conns_sweep(conns));
        assert_int_equal(conns->handshakes_since_ms,
                         rows[i].may_be_in_handshake ? began_ms : site.now_ms);
        conn_end(conns, conn);
        conn_end(conns, newer);
    }
    begin_drained();
    begin_in(CONN_IDLE);
    site.now_ms += 1000;
    assert_false(conns_sweep(conns));
    assert_int_equal(conns->handshakes_since_ms, site.now_ms);
    site.now_ms += 1000;
    conns->count++;
    assert_false(conns_sweep(conns));
    assert_int_equal(conns->handshakes_since_ms, 0);
    conns->count--;
}

CASE(test_sweep__frees_memory_when_half_have_left)
{
    static const struct {
        size_t most, left;
        bool is_freed;
    } rows[] = {{99, 0, false}, {100, 51, false}, {100, 50, true}, {101, 50, true}};
    struct conns *conns = &site.http.conns;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        site.fake_count = 0;
        for (size_t k = 0; k < rows[i].most; k++)
            begin_from("192.0.2.1");
        for (size_t k = rows[i].left; k < rows[i].most; k++)
            end(&site.fakes[k]);
        ASSERT_NUMBER(conns->peak_count, ==, rows[i].most);
        site.now_ms += 1000;
        if (conns_sweep(conns) != rows[i].is_freed)
            fail_msg("%zu of %zu left: expected that memory is %s", rows[i].left,
                     rows[i].most, rows[i].is_freed ? "freed" : "kept");
        assert_int_equal(list_is_empty(&conns->free_conns), rows[i].is_freed);
        ASSERT_NUMBER(conns->peak_count, ==,
                      rows[i].is_freed ? rows[i].left : rows[i].most);
        for (size_t k = 0; k < rows[i].left; k++)
            end(&site.fakes[k]);
        conns->peak_count = 0;
    }
}

/* -- draining -- */

CASE(test_drain__reads_only_what_has_arrived)
{
    const struct MHD_Connection *fake = begin_drained();

    uv_run(&site.loop, UV_RUN_NOWAIT);
    ASSERT_NUMBER(site.recv_count, ==, 0);
    assert_int_equal(write(fake->client_fd, "x", 1), 1);
    uv_run(&site.loop, UV_RUN_ONCE);
    ASSERT_NUMBER(site.recv_count, ==, 1);
}

CASE(test_end__drains_what_the_client_still_sends)
{
    static const struct {
        enum conn_state state;
        bool is_refused, has_unread, is_stopped, is_drained;
        size_t drained_count; /* number of other drained connections */
    } rows[] = {
        {CONN_WRITING, false, false, false, false, 0},
        {CONN_WRITING, true, false, false, true, 0},
        {CONN_OPENING, false, true, false, true, 0},
        {CONN_ENDING, true, false, false, false, 0},
        {CONN_WRITING, true, false, true, false, 0},
        {CONN_WRITING, true, false, false, true, DRAIN_COUNT_MAX - 1},
        {CONN_WRITING, true, false, false, false, DRAIN_COUNT_MAX},
    };
    struct conns *conns = &site.http.conns;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct conn *conn = begin_in(rows[i].state);
        struct MHD_Connection *fake = conn->connection;

        site.now_ms += 10;
        conn->is_refused = rows[i].is_refused;
        conns->is_stopped = rows[i].is_stopped;
        conns->drained_count = rows[i].drained_count;
        if (rows[i].has_unread)
            assert_int_equal(write(fake->client_fd, "x", 1), 1);
        end(fake);
        conns->drained_count -= rows[i].drained_count;
        if (conns->count != rows[i].is_drained ||
            conns->drained_count != rows[i].is_drained)
            fail_msg("row %zu: expected that it is%s drained", i,
                     rows[i].is_drained ? "" : " not");
        assert_true(has_ended(fake));
        if (!rows[i].is_drained)
            continue;
        assert_conns("1/1/1 0 0 0 0 0 0 1 0");
        assert_int_equal(conn->since_ms, site.now_ms);
        assert_int_equal(write(fake->client_fd, "more", 4), 4);
        run_loop();
        assert_conns("1/1/1 0 0 0 0 0 0 1 0");
        close(fake->client_fd);
        fake->client_fd = -1;
        run_loop();
        assert_conns("0/1/0 0 0 0 0 0 0 0 0");
    }
}

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* A closed descriptor cannot be duplicated, and a file cannot be watched. In both cases nothing is
   drained. */
CASE(test_end__without_resources_drains_nothing)
{
    for (int is_file = 0; is_file < 2; is_file++) {
        struct MHD_Connection *fake = begin_from("192.0.2.1");
        int count;

        if (is_file == 1)
            fake->fd = open("/etc/hostname", O_RDONLY | O_CLOEXEC);
        count = open_descriptors();
        conn_of(fake)->is_refused = true;
        conns_notify(&site.http.conns, fake, &fake->slot, MHD_CONNECTION_NOTIFY_CLOSED);
        assert_conns("0/1/0 0 0 0 0 0 0 0 0");
        ASSERT_NUMBER(open_descriptors(), ==, count);
    }
}

CASE(test_drain__ends_with_an_error)
{
    static const struct {
        int number;
        bool ends;
    } rows[] = {{EAGAIN, false}, {EINTR, false}, {ECONNRESET, true}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct MHD_Connection *fake = begin_drained();
        int count = open_descriptors();

        assert_int_equal(write(fake->client_fd, "x", 1), 1);
        site.recv_errno = rows[i].number;
        run_loop();
        site.recv_errno = 0;
        if (site.http.conns.drained_count != !rows[i].ends)
            fail_msg("%s: expected that draining %s",
                     strerror(rows[i].number), // NOLINT(concurrency-mt-unsafe)
                     rows[i].ends ? "ends" : "goes on");
        conns_stop(&site.http.conns);
        site.http.conns.is_stopped = false;
        ASSERT_NUMBER(open_descriptors(), ==, count - 1);
    }
}

CASE(test_drain__ends_after_8_mib)
{
    static const char junk[16384];
    const struct MHD_Connection *fake = begin_drained();

    for (size_t sent = 0; sent < DRAIN_BYTES_MAX; sent += sizeof(junk)) {
        assert_int_equal(write(fake->client_fd, junk, sizeof(junk)), sizeof(junk));
        run_loop();
    }
    assert_conns("1/1/1 0 0 0 0 0 0 1 0");
    assert_int_equal(write(fake->client_fd, "x", 1), 1);
    run_loop();
    assert_conns("0/1/0 0 0 0 0 0 0 0 0");
}

CASE(test_drain__ends_after_2_s)
{
    begin_drained();
    site.now_ms += 2000;
    assert_false(conns_sweep(&site.http.conns));
    assert_conns("1/1/1 0 0 0 0 0 0 1 0");
    site.now_ms++;
    site.http.conns.swept_ms = 0;
    assert_false(conns_sweep(&site.http.conns));
    assert_conns("0/1/0 0 0 0 0 0 0 0 0");
}

CASE(test_stop__ends_all_draining)
{
    begin_drained();
    begin_in(CONN_IDLE);
    begin_drained();
    assert_conns("3/3/2 0 1 0 0 0 0 2 0");
    conns_stop(&site.http.conns);
    assert_conns("1/3/0 0 1 0 0 0 0 0 0");
    begin_drained();
    assert_conns("1/3/0 0 1 0 0 0 0 0 0");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
