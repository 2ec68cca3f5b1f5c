/* it_conn.c - connections to Redis: how they connect, get lost and connect again. */
#include "base/clock.h"
#include "redis/conn_impl.h"
#include "test/port.h"
#include "test/probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MAX_MS 501 /* more than the longest pause between two attempts */
#define NOBODY       "unix:/tmp/rlock-nobody-listens-here"

/* -- connecting -- */

FIXTURE_CASE(test_redis_conn_open__by_address_name_and_socket)
{
    struct fixture *fixture = *state;
    char by_name[64];
    const char *urls[] = {fixture->server->tcp_url, by_name, fixture->server->unix_url};

    snprintf(by_name, sizeof(by_name), "redis://localhost:%u", fixture->server->port);
    for (size_t i = 0; i < 3; i++) {
        struct probe probe;
        struct command good = {0}, bad = {0};

        probe_open(&probe, fixture, urls[i], TIMEOUT_MS);
        assert_false(redis_conn_is_up(probe.conn));
        probe_wait(&probe, &probe.ups, 1);
        assert_true(redis_conn_is_up(probe.conn));
        assert_false(redis_conn_is_cluster(probe.conn));
        /* sharded pub/sub needs a cluster */
        assert_false(redis_conn_is_sharded(probe.conn));
        probe_command(&probe, &bad, "NOSUCH", NULL);
        ASSERT_STATUS(bad.status, RLOCK_REFUSED);
        ASSERT_CONTAINS(bad.text, "unknown command");
        probe_command(&probe, &good, "ECHO", "hello");
        ASSERT_STATUS(good.status, RLOCK_OK);
        assert_string_equal(good.text, "hello");
        probe_close(&probe);
        assert_int_equal(probe.downs, 0);
    }
}

FIXTURE_CASE(test_redis_conn_open__logs_in_and_selects_the_database)
{
    static const char *const options[] = {"--requirepass", "open sesame", NULL};
    struct fixture *fixture = *state;
    static struct server server;
    struct command command = {0};
    struct probe probe;
    char url[160];
    long long tried;

    server_start(&server, options);
    server_do(&server, "AUTH %s", "open sesame");
    server_do(&server, "ACL SETUSER shop on >pw ~* +@all");
    server_do(&server, "SELECT 5");
    server_do(&server, "SET here five");
    snprintf(url, sizeof(url), "redis://:open%%20sesame@127.0.0.1:%u", server.port);
    probe_connect(&probe, fixture, url);
    probe_close(&probe);
    snprintf(url, sizeof(url), "redis://shop:pw@127.0.0.1:%u/5", server.port);
    probe_connect(&probe, fixture, url);
    probe_command(&probe, &command, "GET", "here");
    assert_string_equal(command.text, "five");
    probe_close(&probe);

    snprintf(url, sizeof(url), "redis://:wrong@127.0.0.1:%u", server.port);
    probe_open(&probe, fixture, url, TIMEOUT_MS);
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "reply to AUTH: WRONGPASS");
    tried = server_calls(&server, "auth");
    while (server_calls(&server, "auth") < tried + 3)
        fixture_pass_ms(fixture, PAUSE_MAX_MS);
    assert_int_equal(probe.downs, 1); /* the same reason is reported once */
    assert_int_equal(probe.ups, 0);
    probe_close(&probe);
    /* no password */
    probe_open(&probe, fixture, server.unix_url, TIMEOUT_MS);
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "NOAUTH");
    probe_close(&probe);
    server_stop(&server);
}

FIXTURE_CASE(test_redis_conn_open__reports_what_it_cannot_connect_to)
{
    struct fixture *fixture = *state;
    char no_database[128], no_listener[32];
    const struct {
        const char *url, *why;
        enum rlock_status status;
    } cases[] = {
        {no_database, "SELECT: ERR DB index is out of range", RLOCK_REFUSED},
        {no_listener, "refused", RLOCK_IO},
        {NOBODY, "connect: No such file", RLOCK_IO},
        {"redis://no-such-host.invalid", "resolve no-such-host.invalid", RLOCK_IO},
        {"redis://%ff", "resolve \xff: invalid argument", RLOCK_IO},
    };

    snprintf(no_database, sizeof(no_database), "%s/99", fixture->server->tcp_url);
    snprintf(no_listener, sizeof(no_listener), "redis://127.0.0.1:%u", port_free());
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct command command = {0};
        struct probe probe;

        probe_open(&probe, fixture, cases[i].url, TIMEOUT_MS);
        ASSERT_STATUS(probe_send(&probe, &command, "PING", NULL), RLOCK_DOWN);
        probe_wait(&probe, &probe.downs, 1);
        probe_assert_why(&probe, cases[i].why);
        ASSERT_STATUS(probe.why.status, cases[i].status);
        ASSERT_STATUS(probe_send(&probe, &command, "PING", NULL), RLOCK_DOWN);
        probe_close(&probe);
        assert_int_equal(command.answers, 0);
    }
}

FIXTURE_CASE(test_redis_socket_open__is_closed_by_exec)
{
    struct fixture *fixture = *state;
    struct probe probe;
    int descriptor = dup(0); /* the socket gets this descriptor */

    close(descriptor);
    probe_connect(&probe, fixture, fixture->server->unix_url);
    assert_int_equal(fcntl(descriptor, F_GETFD), FD_CLOEXEC);
    probe_close(&probe);
}

static int (*next_getaddrinfo(void))(const char *, const char *, const struct addrinfo *,
                                     struct addrinfo **)
{
    int (*found)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    *(void **)&found = dlsym(RTLD_NEXT, "getaddrinfo");
    return found;
}

/** Replaces the function of the C library. A name "FIRST+SECOND" has the addresses of FIRST and
 *  of SECOND. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    char first[64];
    const char *plus = strchr(name, '+');
    int failure;

    if (plus == NULL)
        return next_getaddrinfo()(name, service, hints, ret_found);
    snprintf(first, sizeof(first), "%.*s", (int)(plus - name), name);
    failure = next_getaddrinfo()(first, service, hints, ret_found);
    return failure != 0
               ? failure
               : next_getaddrinfo()(plus + 1, service, hints, &(*ret_found)->ai_next);
}

FIXTURE_CASE(test_redis_conn_open__tries_the_addresses_of_a_name_in_turn)
{
    static const struct {
        const char *name;
        unsigned attempts;
    } cases[] = {{"127.0.0.2+127.0.0.1", 1}, {"127.0.0.1+127.0.0.2", 2}};
    struct fixture *fixture = *state;

    for (size_t i = 0; i < 2; i++) {
        struct probe probe;
        char url[64];

        snprintf(url, sizeof(url), "redis://%s:%u", cases[i].name, fixture->server->port);
        probe_connect(&probe, fixture, url);
        ASSERT_NUMBER(probe.conn->attempts, ==, cases[i].attempts);
        probe_close(&probe);
    }
}

/** A connection has only one request for libuv to resolve a name, so it cannot go elsewhere
 *  meanwhile. */
FIXTURE_CASE(test_redis_conn_go__waits_for_the_name_that_is_being_resolved)
{
    static const struct redis_host other = {.name = "127.0.0.1", .port = 1};
    struct fixture *fixture = *state;
    struct probe probe;

    probe_open(&probe, fixture, "redis://no-such-host.invalid", TIMEOUT_MS);
    while (!probe.conn->is_resolving)
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    redis_conn_go(probe.conn, &other);
    assert_string_equal(probe.conn->host.name, "no-such-host.invalid");
    probe_wait(&probe, &probe.downs, 1);
    ASSERT_STATUS(probe.why.status, RLOCK_IO);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn_open__refuses_other_servers)
{
    static const struct {
        const char *says, *why;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", "Protocol error"},
        {"*1\r\n$4\r\nPING\r\n", "reply to PING: not a status"}, /* connected to itself */
        {"+PONG\r\n" FAKE_HELLO("6.0.16", "master"), "6.0.16 is too old: 6.2"},
        {FAKE_GREETING "+PONG\r\n", "without a command"},
        {"-LOADING Redis is loading\r\n", "reply to PING: LOADING"},
    };
    struct probe probe;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        probe_open_fake(&probe, *state, cases[i].says);
        probe_wait(&probe, &probe.downs, 1);
        probe_assert_why(&probe, cases[i].why);
        if (i == sizeof(cases) / sizeof(*cases) - 1) {
            probe_wait(&probe, &probe.fake->connections, 3);
            assert_int_equal(probe.downs, 1);
            assert_int_equal(probe.ups, 0);
            probe.fake->greeting = FAKE_GREETING;
            probe_wait(&probe, &probe.ups, 1);
        }
        probe_close(&probe);
    }
}

/* -- close -- */

/** The connection has no on_state, to show that closing does not need it. */
FIXTURE_CASE(test_redis_conn_close__at_every_stage_of_connecting)
{
    struct fixture *fixture = *state;
    const char *urls[] = {fixture->server->tcp_url, fixture->server->unix_url,
                          "redis://no-such-host.invalid", NOBODY};

    for (unsigned turns = 0; turns < 6; turns++) {
        for (size_t i = 0; i < 4; i++) {
            struct probe probe;

            probe_open(&probe, fixture, urls[i], TIMEOUT_MS);
            probe.conn->on_state = NULL;
            for (unsigned turn = 0; turn < turns; turn++)
                uv_run(&fixture->loop, UV_RUN_NOWAIT);
            probe_close(&probe);
            assert_int_equal(probe.closes, 1);
        }
    }
}

FIXTURE_CASE(test_redis_conn_close__answers_what_is_under_way)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command flushed = {0}, collected = {0};

    probe_connect(&probe, fixture, fixture->server->unix_url);
    probe_push(&probe, &flushed, "PING", NULL);
    ASSERT_STATUS(probe_send(&probe, &collected, "PING", NULL), RLOCK_OK);
    redis_conn_close(probe.conn, probe_on_closed, &probe);
    assert_int_equal(flushed.answers, 1);
    ASSERT_STATUS(flushed.status, RLOCK_CANCELLED);
    assert_int_equal(collected.answers, 1);
    ASSERT_STATUS(collected.status, RLOCK_CANCELLED);
    assert_int_equal(probe.closes, 0);
    FIXTURE_AWAIT(fixture, probe_is_closed, &probe);
    assert_int_equal(flushed.answers, 1);
}

static struct probe *to_close;

static void on_done_close(struct redis_command *done, enum rlock_status status,
                          const struct redis_reply *reply)
{
    probe_on_done(done, status, reply);
    redis_conn_close(to_close->conn, probe_on_closed, to_close);
}

FIXTURE_CASE(test_redis_conn_close__from_inside_an_answer)
{
    static const struct {
        const char *says; /* NULL: the server hangs up */
        enum rlock_status status;
    } cases[] = {
        {"+PONG\r\n", RLOCK_OK},
        {"-READONLY it is a replica now\r\n", RLOCK_REFUSED},
        {NULL, RLOCK_IO},
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct probe probe;
        struct command first = {0}, second = {0};

        probe_connect_fake(&probe, fixture);
        to_close = &probe;
        ASSERT_STATUS(redis_conn_begin(probe.conn, 1), RLOCK_OK);
        redis_conn_arg_text(probe.conn, "PING");
        ASSERT_STATUS(redis_conn_end(probe.conn, &first.command, on_done_close),
                      RLOCK_OK);
        probe_push(&probe, &second, "PING", NULL);
        if (cases[i].says != NULL)
            fake_say(probe.fake, cases[i].says);
        else
            fake_hang_up(probe.fake);
        FIXTURE_AWAIT(fixture, probe_is_closed, &probe);
        ASSERT_STATUS(first.status, cases[i].status);
        assert_int_equal(second.answers, 1);
        ASSERT_STATUS(second.status, RLOCK_CANCELLED);
        assert_int_equal(probe.downs, 0);
        fake_stop(probe.fake);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
}

/* -- servers that end or hang -- */

FIXTURE_CASE(test_redis_conn__reconnects_after_a_restart)
{
    struct fixture *fixture = *state;
    const char *urls[] = {fixture->server->tcp_url, fixture->server->unix_url};

    for (size_t i = 0; i < 2; i++) {
        struct probe probe;
        struct command lost[2] = {0}, command = {0};

        probe_connect(&probe, fixture, urls[i]);
        server_pause(fixture->server);
        for (int j = 0; j < 2; j++)
            probe_push(&probe, &lost[j], "PING", NULL);
        server_kill(fixture->server);
        probe_wait(&probe, &probe.downs, 1);
        for (int j = 0; j < 2; j++) {
            assert_int_equal(lost[j].answers, 1);
            ASSERT_STATUS(lost[j].status, RLOCK_IO);
        }
        assert_false(redis_conn_is_up(probe.conn));
        fixture_run_for(fixture, 20);
        server_restart(fixture->server);
        probe_wait(&probe, &probe.ups, 2);
        probe_command(&probe, &command, "PING", NULL);
        ASSERT_STATUS(command.status, RLOCK_OK);
        probe_close(&probe);
    }
}

FIXTURE_CASE(test_redis_conn__notices_the_end_behind_the_last_reply)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0};

    for (int fails_to_write = 0; fails_to_write <= 1; fails_to_write++) {
        probe_connect_fake(&probe, fixture);
        first.answers = second.answers = 0;
        probe_push(&probe, &first, "PING", NULL);
        if (!fails_to_write)
            probe_push(&probe, &second, "PING", NULL);
        fake_say(probe.fake, "+PONG\r\n");
        /* the loop has not run, so the connection does not know yet */
        fake_hang_up(probe.fake);
        if (fails_to_write) {
            probe_push(&probe, &second, "PING", NULL);
            ASSERT_STATUS(probe.conn->broken.status, RLOCK_IO);
            ASSERT_CONTAINS(probe.conn->broken.text, "write: ");
        }
        fixture_hold_timers(fixture); /* the connection must not wait for the timeout */
        if (fails_to_write)
            redis_conn_wake_only_at(probe.conn, 0);
        probe_wait(&probe, &second.answers, 1);
        ASSERT_STATUS(first.status, RLOCK_OK);
        ASSERT_STATUS(second.status, RLOCK_IO);
        assert_int_equal(probe.downs, 1);
        probe_close(&probe);
    }
}

FIXTURE_CASE(test_redis_conn__times_out_on_a_hung_server_and_reconnects)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0}, third = {0};

    probe_connect(&probe, fixture, fixture->server->tcp_url);
    server_pause(fixture->server);
    redis_conn_wake_only_at(probe.conn, INT64_MAX - 1); /* the command sets the timer */
    probe_push(&probe, &first, "PING", NULL);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2);
    assert_int_equal(first.answers, 0);
    probe_push(&probe, &second, "PING", NULL);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2 + 1);
    assert_int_equal(first.answers, 1);
    ASSERT_STATUS(first.status, RLOCK_TIMEOUT);
    assert_int_equal(second.answers, 1);
    ASSERT_STATUS(second.status, RLOCK_TIMEOUT);
    probe_assert_why(&probe, "no reply within 10000 ms");
    ASSERT_STATUS(probe.why.status, RLOCK_TIMEOUT);
    for (int i = 0; i < 2; i++) {
        fixture_pass_ms(fixture, PAUSE_MAX_MS);
        fixture_run_for(fixture, 10);
        fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    }
    probe_assert_why(&probe, "connect: no reply within 10000 ms");
    server_resume(fixture->server);
    probe_wait(&probe, &probe.ups, 2);
    probe_command(&probe, &third, "PING", NULL);
    ASSERT_STATUS(third.status, RLOCK_OK);
    probe_close(&probe);
}

/** This process was suspended while the reply came, so nothing has timed out. */
FIXTURE_CASE(test_redis_conn__reply_that_is_read_late_is_no_timeout)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command command = {0};

    probe_connect(&probe, fixture, fixture->server->unix_url);
    probe_push(&probe, &command, "PING", NULL);
    server_settle();
    fixture_jump_ms(fixture, TIMEOUT_MS + 50);
    probe_wait(&probe, &command.answers, 1);
    ASSERT_STATUS(command.status, RLOCK_OK);
    assert_int_equal(probe.downs, 0);
    probe_close(&probe);
}

/** The pauses grow as long as each connection is lost within a second. */
FIXTURE_CASE(test_redis_conn__pauses_are_short_again_after_a_steady_second)
{
    struct probe probe;

    probe_open_fake(&probe, *state, NULL);
    for (unsigned i = 1; i <= 4; i++) {
        probe_wait(&probe, &probe.ups, i);
        probe.conn->up_since_us = clock_mono_us() + (i == 4 ? -1000000 : 3600000000);
        fake_hang_up(probe.fake);
        probe_wait(&probe, &probe.downs, i);
        ASSERT_NUMBER(probe.conn->failures, ==, i == 4 ? 1 : i);
    }
    probe_close(&probe);
}

/* -- commands -- */

/** After many commands, their replies show that the socket takes more bytes. After one large
 *  command, only the poll shows this. */
FIXTURE_CASE(test_redis_conn_flush__of_more_than_the_socket_takes)
{
    enum { COMMANDS_MAX = 60 };
    static const struct {
        int count;
        size_t len;
    } cases[] = {{COMMANDS_MAX, 50000}, {1, 3000000}};
    struct fixture *fixture = *state;

    for (int i = 0; i < 2; i++) {
        struct command *commands = calloc(COMMANDS_MAX, sizeof(*commands));
        char *big = calloc(cases[i].len + 1, 1);
        struct probe probe;

        memset(big, 'x', cases[i].len);
        probe_open(&probe, fixture, fixture->server->unix_url, WITHIN_MS);
        probe_wait(&probe, &probe.ups, 1);
        for (int at = 0; at < cases[i].count; at++)
            probe_push(&probe, &commands[at], "ECHO", big);
        for (int at = 0; at < cases[i].count; at++) {
            probe_wait(&probe, &commands[at].answers, 1);
            assert_int_equal(commands[at].answers, 1);
            ASSERT_STATUS(commands[at].status, RLOCK_OK);
            assert_string_equal(commands[at].text + 60, "xxx");
        }
        probe_close(&probe);
        free(commands);
        free(big);
    }
}

FIXTURE_CASE(test_redis_conn__malformed_reply_ends_all_commands)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0};

    probe_connect_fake(&probe, fixture);
    probe_push(&probe, &first, "GET", "a");
    probe_push(&probe, &second, "GET", "b");
    fake_say(probe.fake, "$5\r\nval");
    fixture_run_for(fixture, 20);
    assert_int_equal(first.answers, 0);
    fake_say(probe.fake, "ue\r\n!?\r\n");
    probe_wait(&probe, &second.answers, 1);
    ASSERT_STATUS(first.status, RLOCK_OK);
    assert_string_equal(first.text, "value");
    ASSERT_STATUS(second.status, RLOCK_IO);
    probe_assert_why(&probe, "Protocol error");
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
}

struct hearing {
    const struct fake *fake;
    size_t wanted_len;
};

static bool has_heard(void *arg)
{
    const struct hearing *hearing = arg;

    return hearing->fake->heard_len >= hearing->wanted_len;
}

static void await_heard(struct probe *probe, size_t len)
{
    struct hearing hearing = {probe->fake, len};

    FIXTURE_AWAIT(probe->fixture, has_heard, &hearing);
    assert_int_equal(probe->fake->heard_len, len);
}

#define GET_LEN strlen("*2\r\n$3\r\nGET\r\n$1\r\na\r\n")

FIXTURE_CASE(test_redis_conn__sends_nothing_before_the_flush)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command commands[4] = {0};

    probe_connect_fake(&probe, fixture);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(probe_send(&probe, &commands[i], "GET", "a"), RLOCK_OK);
    fixture_run_for(fixture, 20);
    assert_int_equal(probe.fake->heard_len, 0);
    redis_conn_flush(probe.conn);
    await_heard(&probe, 3 * GET_LEN);
    ASSERT_STATUS(probe_send(&probe, &commands[3], "GET", "a"), RLOCK_OK);
    fake_say(probe.fake, "$-1\r\n");
    probe_wait(&probe, &commands[0].answers, 1);
    fixture_run_for(fixture, 20);
    assert_int_equal(probe.fake->heard_len, 3 * GET_LEN);
    probe_close(&probe);
    ASSERT_STATUS(commands[3].status, RLOCK_CANCELLED);
}

#define PING "*1\r\n$4\r\nPING\r\n"

static void await_ping(struct probe *probe)
{
    probe->fake->heard_len = 0;
    fixture_pass_ms(probe->fixture, REDIS_IDLE_US / 1000 + 1);
    await_heard(probe, strlen(PING));
    assert_memory_equal(probe->fake->heard, PING, strlen(PING));
}

static bool has_none_pending(void *arg)
{
    return list_is_empty(&((const struct redis_conn *)arg)->pending);
}

FIXTURE_CASE(test_redis_conn__sends_a_ping_while_idle)
{
    static const char *const replies[] = {"+PONG\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"};
    struct fixture *fixture = *state;
    struct probe probe;

    probe_connect_fake(&probe, fixture);
    for (int i = 0; i < 2; i++) {
        await_ping(&probe);
        fake_say(probe.fake, replies[i]);
        FIXTURE_AWAIT(fixture, has_none_pending, probe.conn);
        assert_int_equal(probe.downs, 0);
        probe.fake->heard_len = 0;
        fixture_pass_ms(fixture, REDIS_IDLE_US / 1000 + 1);
        assert_int_equal(probe.fake->heard_len, 0);
    }
    await_ping(&probe);
    fake_say(probe.fake, "+OK\r\n");
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "belongs to another command");
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__write_to_a_closed_peer_raises_no_signal)
{
    struct probe probe;
    struct command first = {0}, second = {0};

    probe_connect_fake(&probe, *state);
    signal(SIGPIPE, SIG_DFL); /* the parent may have ignored SIGPIPE */
    fake_hang_up(probe.fake);
    probe_push(&probe, &first, "PING", NULL);
    probe_push(&probe, &second, "PING", NULL);
    assert_int_equal(first.answers, 0); /* no callback came from inside the call */
    probe_wait(&probe, &second.answers, 1);
    ASSERT_STATUS(first.status, RLOCK_IO);
    ASSERT_STATUS(second.status, RLOCK_IO);
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
}

/** The failed write alone ends the connection, because nothing arrives from the server. */
FIXTURE_CASE(test_redis_conn__is_lost_when_a_write_has_failed)
{
    struct probe probe;

    probe_connect_fake(&probe, *state);
    err_set(&probe.conn->broken, RLOCK_IO, "write: no route to host");
    redis_conn_wake_at(probe.conn, 0);
    probe_wait(&probe, &probe.downs, 1);
    assert_string_equal(probe.why.text, "write: no route to host");
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn_end__without_memory_drops_this_command_only)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command commands[3] = {0};

    probe_connect(&probe, fixture, fixture->server->unix_url);
    ASSERT_STATUS(probe_send(&probe, &commands[0], "ECHO", "first"), RLOCK_OK);
    redis_socket_wire(probe.conn->socket)->failed = true;
    ASSERT_STATUS(probe_send(&probe, &commands[1], "ECHO", "second"), RLOCK_NO_MEMORY);
    probe_command(&probe, &commands[2], "ECHO", "third");
    assert_string_equal(commands[0].text, "first");
    assert_int_equal(commands[1].answers, 0);
    assert_string_equal(commands[2].text, "third");
    probe_close(&probe);
}

/* -- siblings -- */

/** Each sibling reports the loss of the shared socket. The commands of both siblings end, also
 *  when both siblings are closed. */
FIXTURE_CASE(test_redis_conn__siblings_at_one_server_share_a_socket)
{
    struct fixture *fixture = *state;
    struct probe probes[2];
    struct command first = {0}, lost[2] = {0}, last[2] = {0};

    for (int i = 0; i < 2; i++) {
        probe_open_sibling(&probes[i], fixture, fixture->server->unix_url, NULL,
                           i == 0 ? NULL : &probes[0]);
        probe_wait(&probes[i], &probes[i].ups, 1);
    }
    assert_null(probes[1].conn->socket);
    assert_ptr_equal(probes[1].conn->carrier, probes[0].conn);
    probe_command(&probes[1], &first, "ECHO", "hello");
    assert_string_equal(first.text, "hello");
    server_pause(fixture->server);
    for (int i = 0; i < 2; i++)
        probe_push(&probes[i], &lost[i], "PING", NULL);
    server_kill(fixture->server);
    for (int i = 0; i < 2; i++) {
        probe_wait(&probes[i], &probes[i].downs, 1);
        ASSERT_STATUS(lost[i].status, RLOCK_IO);
    }
    server_restart(fixture->server);
    for (int i = 0; i < 2; i++) {
        probe_wait(&probes[i], &probes[i].ups, 2);
        ASSERT_STATUS(probe_send(&probes[i], &last[i], "PING", NULL), RLOCK_OK);
    }
    for (int i = 0; i < 2; i++) {
        redis_conn_close(probes[i].conn, probe_on_closed, &probes[i]);
        assert_int_equal(last[i].answers, 1);
        ASSERT_STATUS(last[i].status, RLOCK_CANCELLED);
        if (i == 0)
            assert_true(list_is_empty(&probes[1].conn->siblings));
        redis_conn_flush(probes[i].conn); /* after the close there is no socket */
    }
    for (int i = 0; i < 2; i++)
        FIXTURE_AWAIT(fixture, probe_is_closed, &probes[i]);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
