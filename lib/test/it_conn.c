/* it_conn.c - connections to Redis: connect, lose, reconnect. */
#include "base/clock.h"
#include "redis/conn_impl.h"
#include "test/fake.h"
#include "test/fixture.h"
#include "test/port.h"
#include "test/probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <malloc.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MAX_MS 501 /* between two attempts */

static void open_conn(struct probe *probe, struct fixture *fixture, const char *text)
{
    probe_open(probe, fixture, text, TIMEOUT_MS);
}

/** The same; run the loop until it is up. */
static void connect_to(struct probe *probe, struct fixture *fixture, const char *text)
{
    open_conn(probe, fixture, text);
    probe_wait(probe, &probe->ups, 1);
}

FIXTURE_CASE(test_redis_conn_open__by_address_name_and_socket)
{
    struct fixture *fixture = *state;
    char by_name[64];
    const char *urls[] = {fixture->server->tcp_url, by_name, fixture->server->unix_url};

    snprintf(by_name, sizeof(by_name), "redis://localhost:%u", fixture->server->port);
    for (size_t i = 0; i < 3; i++) {
        struct probe probe;
        struct command command = {0};

        open_conn(&probe, fixture, urls[i]);
        assert_false(redis_conn_is_up(probe.conn));
        probe_wait(&probe, &probe.ups, 1);
        assert_true(redis_conn_is_up(probe.conn));
        assert_false(redis_conn_is_cluster(probe.conn));
        assert_false(redis_conn_is_sharded(probe.conn)); /* though of Redis 7 */
        probe_command(&probe, &command, "ECHO", "hello");
        ASSERT_STATUS(command.status, STATUS_OK);
        assert_string_equal(command.text, "hello");
        probe_close(&probe);
        assert_int_equal(probe.downs, 0);
    }
}

FIXTURE_CASE(test_redis_conn_open__selects_the_database)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command command = {0};
    char url[128];

    server_do(fixture->server, "SELECT 5");
    server_do(fixture->server, "SET here five");
    server_do(fixture->server, "SELECT 0");
    snprintf(url, sizeof(url), "%s/5", fixture->server->tcp_url);
    connect_to(&probe, fixture, url);
    probe_command(&probe, &command, "GET", "here");
    assert_string_equal(command.text, "five");
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn_open__logs_in_with_password_and_user)
{
    static const char *const options[] = {"--requirepass", "open sesame", NULL};
    struct fixture *fixture = *state;
    static struct server server;
    struct probe probe;
    char url[160];
    long long tried;

    server_start(&server, options);
    server_do(&server, "AUTH %s", "open sesame");
    server_do(&server, "ACL SETUSER shop on >pw ~* +@all");

    snprintf(url, sizeof(url), "redis://:open%%20sesame@127.0.0.1:%u", server.port);
    connect_to(&probe, fixture, url);
    probe_close(&probe);

    snprintf(url, sizeof(url), "redis://shop:pw@127.0.0.1:%u", server.port);
    connect_to(&probe, fixture, url);
    probe_close(&probe);

    snprintf(url, sizeof(url), "redis://:wrong@127.0.0.1:%u", server.port);
    open_conn(&probe, fixture, url);
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "AUTH");
    probe_assert_why(&probe, "WRONGPASS");
    tried = server_calls(&server, "auth");
    while (server_calls(&server, "auth") < tried + 3)
        fixture_pass_ms(fixture, PAUSE_MAX_MS);
    assert_int_equal(probe.downs, 1); /* the same reason is reported once */
    assert_int_equal(probe.ups, 0);
    probe_close(&probe);

    open_conn(&probe, fixture, server.unix_url); /* without a password */
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
        enum status status;
    } cases[] = {
        {no_database, "SELECT: ERR DB index is out of range", STATUS_REFUSED},
        {no_listener, "refused", STATUS_IO},
        {"unix:/tmp/rlock-nobody-listens-here", "connect: No such file", STATUS_IO},
        {"redis://no-such-host.invalid", "resolve no-such-host.invalid", STATUS_IO},
        {"redis://%ff", "resolve \xff: invalid argument", STATUS_IO},
    };

    snprintf(no_database, sizeof(no_database), "%s/99", fixture->server->tcp_url);
    snprintf(no_listener, sizeof(no_listener), "redis://127.0.0.1:%u", port_free());
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct command command = {0};
        struct probe probe;

        open_conn(&probe, fixture, cases[i].url);
        ASSERT_STATUS(probe_send(&probe, &command, "PING", NULL), STATUS_DOWN);
        probe_wait(&probe, &probe.downs, 1);
        probe_assert_why(&probe, cases[i].why);
        ASSERT_STATUS(probe.why.status, cases[i].status);
        ASSERT_STATUS(probe_send(&probe, &command, "PING", NULL), STATUS_DOWN);
        probe_close(&probe);
        assert_int_equal(command.answers, 0);
    }
}

static void fail_quietly(const struct err *why, void *arg)
{
    (void)why;
    (void)arg;
}

FIXTURE_CASE(test_redis_socket_open__that_fails_keeps_nothing)
{
    enum { OPENS = 2000, LEFT_MAX = OPENS * 16 };
    static const struct redis_host nobody = {.name = "/tmp/rlock-nobody-listens-here"};
    struct fixture *fixture = *state;
    struct redis_socket_options options = {
        .loop = &fixture->loop, .host = &nobody, .on_failed = fail_quietly};
    struct redis_socket *socket = NULL;
    size_t before = mallinfo2().uordblks;

    for (int i = 0; i < OPENS; i++)
        ASSERT_STATUS(redis_socket_open(&options, &socket, NULL), STATUS_IO);
    ASSERT_NUMBER(mallinfo2().uordblks, <, before + LEFT_MAX);
}

FIXTURE_CASE(test_redis_socket_open__is_closed_by_exec)
{
    struct fixture *fixture = *state;
    struct probe probe;
    int descriptor = dup(0); /* the socket gets the same */

    close(descriptor);
    connect_to(&probe, fixture, fixture->server->unix_url);
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

/** In place of that of the C library: "FIRST+SECOND" has two addresses. */
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
        connect_to(&probe, fixture, url);
        ASSERT_NUMBER(probe.conn->attempts, ==, cases[i].attempts);
        probe_close(&probe);
    }
}

FIXTURE_CASE(test_redis_conn_open__without_on_state)
{
    struct fixture *fixture = *state;
    const char *urls[] = {fixture->server->unix_url, "unix:/tmp/rlock-nobody"};

    for (size_t i = 0; i < 2; i++) {
        struct probe probe = {.fixture = fixture};
        struct redis_url url;
        struct redis_conn_options options = {
            .loop = &fixture->loop, .url = &url, .timeout_ms = TIMEOUT_MS};

        ASSERT_STATUS(redis_url_parse(urls[i], &url, NULL), STATUS_OK);
        ASSERT_STATUS(redis_conn_open(&options, &probe.conn, NULL), STATUS_OK);
        while (i == 0 ? !redis_conn_is_up(probe.conn) : probe.conn->failures == 0)
            uv_run(&fixture->loop, UV_RUN_NOWAIT);
        probe_close(&probe);
    }
}

/** libuv fills one request per connection. */
FIXTURE_CASE(test_redis_conn_go__waits_for_the_name_that_is_being_resolved)
{
    static const struct redis_host other = {.name = "127.0.0.1", .port = 1};
    struct fixture *fixture = *state;
    struct probe probe;

    open_conn(&probe, fixture, "redis://no-such-host.invalid");
    while (!probe.conn->is_resolving)
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    redis_conn_go(probe.conn, &other);
    assert_string_equal(probe.conn->host.name, "no-such-host.invalid");
    probe_wait(&probe, &probe.downs, 1);
    ASSERT_STATUS(probe.why.status, STATUS_IO);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn_close__at_every_stage_of_connecting)
{
    struct fixture *fixture = *state;
    const char *urls[] = {fixture->server->tcp_url, fixture->server->unix_url,
                          "redis://no-such-host.invalid", "unix:/tmp/rlock-nobody"};

    for (unsigned turns = 0; turns < 6; turns++) {
        for (size_t i = 0; i < 4; i++) {
            struct probe probe;

            open_conn(&probe, fixture, urls[i]);
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

    connect_to(&probe, fixture, fixture->server->unix_url);
    ASSERT_STATUS(probe_send(&probe, &flushed, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    ASSERT_STATUS(probe_send(&probe, &collected, "PING", NULL), STATUS_OK);
    redis_conn_close(probe.conn, probe_on_closed, &probe);
    assert_int_equal(flushed.answers, 1);
    ASSERT_STATUS(flushed.status, STATUS_CANCELLED);
    assert_int_equal(collected.answers, 1);
    ASSERT_STATUS(collected.status, STATUS_CANCELLED);
    assert_int_equal(probe.closes, 0);
    FIXTURE_AWAIT(fixture, probe_is_closed, &probe);
    assert_int_equal(flushed.answers, 1);
}

FIXTURE_CASE(test_redis_conn__error_reply_is_refused_with_its_text)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command bad = {0}, good = {0};

    connect_to(&probe, fixture, fixture->server->unix_url);
    probe_command(&probe, &bad, "NOSUCH", NULL);
    ASSERT_STATUS(bad.status, STATUS_REFUSED);
    ASSERT_CONTAINS(bad.text, "unknown command");
    probe_command(&probe, &good, "PING", NULL);
    ASSERT_STATUS(good.status, STATUS_OK);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__reconnects_after_a_restart)
{
    struct fixture *fixture = *state;
    const char *urls[] = {fixture->server->tcp_url, fixture->server->unix_url};

    for (size_t i = 0; i < 2; i++) {
        struct probe probe;
        struct command command = {0};

        connect_to(&probe, fixture, urls[i]);
        server_kill(fixture->server);
        probe_wait(&probe, &probe.downs, 1);
        assert_false(redis_conn_is_up(probe.conn));
        fixture_run_for(fixture, 20);
        server_restart(fixture->server);
        probe_wait(&probe, &probe.ups, 2);
        probe_command(&probe, &command, "PING", NULL);
        ASSERT_STATUS(command.status, STATUS_OK);
        probe_close(&probe);
    }
}

FIXTURE_CASE(test_redis_conn__commands_of_a_killed_server_are_io)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0};

    connect_to(&probe, fixture, fixture->server->unix_url);
    server_pause(fixture->server);
    ASSERT_STATUS(probe_send(&probe, &first, "PING", NULL), STATUS_OK);
    ASSERT_STATUS(probe_send(&probe, &second, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    server_kill(fixture->server);
    probe_wait(&probe, &second.answers, 1);
    assert_int_equal(first.answers, 1);
    ASSERT_STATUS(first.status, STATUS_IO);
    ASSERT_STATUS(second.status, STATUS_IO);
    probe_close(&probe);
    server_restart(fixture->server);
}

/** The last reply and the reset of the connection come together. */
FIXTURE_CASE(test_redis_conn__notices_a_killed_server_behind_its_last_reply)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0};

    connect_to(&probe, fixture, fixture->server->unix_url);
    ASSERT_STATUS(probe_send(&probe, &first, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    server_settle();
    server_pause(fixture->server);
    ASSERT_STATUS(probe_send(&probe, &second, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    server_kill(fixture->server);
    fixture_hold_timers(fixture); /* not by the timeout */
    probe_wait(&probe, &probe.downs, 1);
    ASSERT_STATUS(first.status, STATUS_OK);
    assert_int_equal(second.answers, 1);
    ASSERT_STATUS(second.status, STATUS_IO);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__times_out_on_a_hung_server_and_reconnects)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0}, third = {0};

    connect_to(&probe, fixture, fixture->server->tcp_url);
    server_pause(fixture->server);
    ASSERT_STATUS(probe_send(&probe, &first, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2);
    assert_int_equal(first.answers, 0);
    ASSERT_STATUS(probe_send(&probe, &second, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2 + 1);
    assert_int_equal(first.answers, 1);
    ASSERT_STATUS(first.status, STATUS_TIMEOUT);
    assert_int_equal(second.answers, 1); /* the later one too */
    ASSERT_STATUS(second.status, STATUS_TIMEOUT);
    probe_assert_why(&probe, "no reply within 10000 ms");
    ASSERT_STATUS(probe.why.status, STATUS_TIMEOUT);
    assert_false(redis_conn_is_up(probe.conn));
    for (int i = 0; i < 2; i++) { /* attempts to connect time out, too */
        fixture_pass_ms(fixture, PAUSE_MAX_MS);
        fixture_run_for(fixture, 10);
        fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    }
    probe_assert_why(&probe, "connect: no reply within 10000 ms");
    server_resume(fixture->server);
    probe_wait(&probe, &probe.ups, 2);
    probe_command(&probe, &third, "PING", NULL);
    ASSERT_STATUS(third.status, STATUS_OK);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__notices_a_hung_server_while_idle)
{
    struct fixture *fixture = *state;
    struct probe probe;

    connect_to(&probe, fixture, fixture->server->unix_url);
    server_pause(fixture->server);
    fixture_pass_ms(fixture, 1001); /* it sends a PING */
    assert_int_equal(probe.downs, 0);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "no reply");
    server_resume(fixture->server);
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
}

/** This process slept: the reply has come, so nothing has timed out. */
FIXTURE_CASE(test_redis_conn__reply_that_is_read_late_is_no_timeout)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command command = {0};

    connect_to(&probe, fixture, fixture->server->unix_url);
    ASSERT_STATUS(probe_send(&probe, &command, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    server_settle();
    fixture_jump_ms(fixture, TIMEOUT_MS + 50);
    probe_wait(&probe, &command.answers, 1);
    ASSERT_STATUS(command.status, STATUS_OK);
    assert_int_equal(probe.downs, 0);
    probe_close(&probe);
}

/** A text of `len` letters, to be freed. */
static char *long_text(size_t len)
{
    char *text = malloc(len + 1);

    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

FIXTURE_CASE(test_redis_conn_flush__more_than_the_socket_takes)
{
    enum { COMMANDS = 60 };
    struct fixture *fixture = *state;
    struct probe probe;
    struct command *commands = calloc(COMMANDS, sizeof(*commands));
    char *big = long_text(50000);

    probe_open(&probe, fixture, fixture->server->unix_url, WITHIN_MS);
    probe_wait(&probe, &probe.ups, 1);
    for (int i = 0; i < COMMANDS; i++) {
        ASSERT_STATUS(probe_send(&probe, &commands[i], "ECHO", big), STATUS_OK);
        redis_conn_flush(probe.conn);
    }
    probe_wait(&probe, &commands[COMMANDS - 1].answers, 1);
    for (int i = 0; i < COMMANDS; i++) {
        assert_int_equal(commands[i].answers, 1);
        ASSERT_STATUS(commands[i].status, STATUS_OK);
        assert_string_equal(commands[i].text + 60, "xxx");
    }
    probe_close(&probe);
    free(commands);
    free(big);
}

/** No reply comes before all of it was written: only the poll tells when to go on. */
FIXTURE_CASE(test_redis_conn_flush__one_command_larger_than_the_socket)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command command = {0};
    char *big = long_text(3000000);

    probe_open(&probe, fixture, fixture->server->unix_url, WITHIN_MS);
    probe_wait(&probe, &probe.ups, 1);
    probe_command(&probe, &command, "ECHO", big);
    ASSERT_STATUS(command.status, STATUS_OK);
    assert_string_equal(command.text + 60, "xxx");
    probe_close(&probe);
    free(big);
}

/** Connect to a fake server with this greeting. */
static struct fake *open_fake(struct probe *probe, struct fixture *fixture,
                              const char *greeting)
{
    struct fake *fake = fake_start(&fixture->loop, greeting);

    open_conn(probe, fixture, fake->url);
    return fake;
}

/** Connect to a fake server that greets as Redis does; run the loop until it is up. */
static struct fake *connect_to_fake(struct probe *probe, struct fixture *fixture)
{
    struct fake *fake = open_fake(probe, fixture, NULL);

    probe_wait(probe, &probe->ups, 1);
    return fake;
}

FIXTURE_CASE(test_redis_conn_open__server_that_loads_is_not_up)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = open_fake(&probe, fixture, "-LOADING Redis is loading\r\n");

    probe_wait(&probe, &fake->connections, 3);
    assert_int_equal(probe.ups, 0);
    assert_int_equal(probe.downs, 1); /* the same reason is reported once */
    probe_assert_why(&probe, "reply to PING: LOADING");
    fake->greeting = FAKE_GREETING;
    probe_wait(&probe, &probe.ups, 1);
    probe_close(&probe);
    fake_stop(fake);
}

FIXTURE_CASE(test_redis_conn_open__refuses_other_servers)
{
    static const struct {
        const char *says, *why;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", "Protocol error"},
        {"+hello\r\n", "reply to PING: hello"},
        {":1\r\n", "reply to PING: not a status"},
        {"*1\r\n$4\r\nPING\r\n", "reply to PING: not a status"}, /* connected to itself */
        {"+PONG\r\n+PONG\r\n", "not from a Redis server"},
        {"+PONG\r\n-NOPERM no\r\n", "reply to HELLO: NOPERM"},
        {"+PONG\r\n*2\r\n+role\r\n+master\r\n", "not from a Redis server"},
        {"+PONG\r\n" FAKE_HELLO("6.0.16", "master"), "6.0.16 is too old: 6.2"},
        {"+PONG\r\n" FAKE_HELLO("7.0.15", "replica"), "the server is a replica"},
        {FAKE_GREETING "+PONG\r\n", "without a command"},
    };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fake *fake;
        struct probe probe;

        fake = open_fake(&probe, fixture, cases[i].says);
        probe_wait(&probe, &probe.downs, 1);
        probe_assert_why(&probe, cases[i].why);
        probe_close(&probe);
        fake_stop(fake);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
}

FIXTURE_CASE(test_redis_conn__malformed_reply_ends_all_commands)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = connect_to_fake(&probe, fixture);

    struct command first = {0}, second = {0};

    ASSERT_STATUS(probe_send(&probe, &first, "GET", "a"), STATUS_OK);
    ASSERT_STATUS(probe_send(&probe, &second, "GET", "b"), STATUS_OK);
    redis_conn_flush(probe.conn);
    fake_say(fake, "$5\r\nval"); /* a reply may come in pieces */
    fixture_run_for(fixture, 20);
    assert_int_equal(first.answers, 0);
    fake_say(fake, "ue\r\n!?\r\n");
    probe_wait(&probe, &second.answers, 1);
    ASSERT_STATUS(first.status, STATUS_OK);
    assert_string_equal(first.text, "value");
    ASSERT_STATUS(second.status, STATUS_IO);
    probe_assert_why(&probe, "Protocol error");
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
    fake_stop(fake);
}

#define GET_LEN strlen("*2\r\n$3\r\nGET\r\n$1\r\na\r\n")

static bool has_heard_all(void *arg)
{
    const struct fake *fake = arg;

    return fake->heard_len >= 3 * GET_LEN;
}

FIXTURE_CASE(test_redis_conn__sends_nothing_before_the_flush)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = connect_to_fake(&probe, fixture);

    struct command commands[4] = {0};

    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(probe_send(&probe, &commands[i], "GET", "a"), STATUS_OK);
    fixture_run_for(fixture, 20);
    assert_int_equal(fake->heard_len, 0); /* not before the flush */
    redis_conn_flush(probe.conn);
    FIXTURE_AWAIT(fixture, has_heard_all, fake);
    assert_int_equal(fake->heard_len, 3 * GET_LEN);
    ASSERT_STATUS(probe_send(&probe, &commands[3], "GET", "a"), STATUS_OK);
    fake_say(fake, "$-1\r\n");
    probe_wait(&probe, &commands[0].answers, 1);
    fixture_run_for(fixture, 20);
    assert_int_equal(fake->heard_len, 3 * GET_LEN); /* nor when a reply arrives */
    probe_close(&probe);
    ASSERT_STATUS(commands[3].status, STATUS_CANCELLED);
    fake_stop(fake);
}

#define PING "*1\r\n$4\r\nPING\r\n"

static bool has_heard_a_ping(void *arg)
{
    const struct fake *fake = arg;

    return fake->heard_len >= strlen(PING);
}

/** Let the connection be idle until the fake has heard a PING. */
static void await_ping(struct fixture *fixture, struct fake *fake)
{
    fake->heard_len = 0;
    fixture_pass_ms(fixture, REDIS_IDLE_US / 1000 + 1);
    FIXTURE_AWAIT(fixture, has_heard_a_ping, fake);
    assert_int_equal(fake->heard_len, strlen(PING));
    assert_memory_equal(fake->heard, PING, strlen(PING));
}

static bool has_none_pending(void *arg)
{
    return list_is_empty(&((const struct redis_conn *)arg)->pending);
}

FIXTURE_CASE(test_redis_conn__sends_a_ping_while_idle)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = connect_to_fake(&probe, fixture);

    for (int i = 0; i < 2; i++) {
        await_ping(fixture, fake);
        fake_say(fake, i == 0 ? "+PONG\r\n" : "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        FIXTURE_AWAIT(fixture, has_none_pending, probe.conn);
        assert_int_equal(probe.downs, 0);
        fake->heard_len = 0;
        fixture_pass_ms(fixture, REDIS_IDLE_US / 1000 + 1);
        assert_int_equal(fake->heard_len, 0); /* there was a reply since the last look */
    }
    await_ping(fixture, fake);
    fake_say(fake, "+OK\r\n");
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "belongs to another command");
    probe_close(&probe);
    fake_stop(fake);
}

/** The pauses grow while the connection comes up and is lost again within a second. */
FIXTURE_CASE(test_redis_conn__pauses_are_short_again_after_a_steady_second)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = open_fake(&probe, fixture, NULL);

    for (unsigned i = 1; i <= 4; i++) {
        probe_wait(&probe, &probe.ups, i);
        probe.conn->up_since_us = clock_mono_us() + (i == 4 ? -1000000 : 3600000000);
        fake_hang_up(fake);
        probe_wait(&probe, &probe.downs, i);
        ASSERT_NUMBER(probe.conn->failures, ==, i == 4 ? 1 : i);
    }
    probe_close(&probe);
    fake_stop(fake);
}

FIXTURE_CASE(test_redis_conn__reply_before_a_failed_write_counts)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = connect_to_fake(&probe, fixture);

    struct command first = {0}, second = {0};

    ASSERT_STATUS(probe_send(&probe, &first, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    fake_say(fake, "+PONG\r\n");
    fake_hang_up(fake); /* the loop does not run */
    ASSERT_STATUS(probe_send(&probe, &second, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    ASSERT_STATUS(probe.conn->broken.status, STATUS_IO);
    ASSERT_CONTAINS(probe.conn->broken.text, "write: ");
    probe_wait(&probe, &second.answers, 1);
    ASSERT_STATUS(first.status, STATUS_OK);
    ASSERT_STATUS(second.status, STATUS_IO);
    probe_close(&probe);
    fake_stop(fake);
}

FIXTURE_CASE(test_redis_conn__write_to_a_closed_peer_raises_no_signal)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct fake *fake = connect_to_fake(&probe, fixture);

    struct command first = {0}, second = {0};

    signal(SIGPIPE, SIG_DFL); /* whatever the parent set */
    fake_hang_up(fake);       /* the loop does not run */
    ASSERT_STATUS(probe_send(&probe, &first, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    ASSERT_STATUS(probe_send(&probe, &second, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    assert_int_equal(first.answers, 0); /* not from inside the call */
    probe_wait(&probe, &second.answers, 1);
    ASSERT_STATUS(first.status, STATUS_IO);
    ASSERT_STATUS(second.status, STATUS_IO);
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
    fake_stop(fake);
}

/** The callback of the first command closes the connection. */
static struct redis_conn *close_this;
static struct probe *close_probe;

static void on_done_close(struct redis_command *done, enum status status,
                          const struct redis_reply *reply)
{
    probe_on_done(done, status, reply);
    if (close_this != NULL)
        redis_conn_close(close_this, probe_on_closed, close_probe);
    close_this = NULL;
}

FIXTURE_CASE(test_redis_conn_close__from_inside_an_answer)
{
    struct fixture *fixture = *state;
    struct probe probe;
    struct command first = {0}, second = {0};

    connect_to(&probe, fixture, fixture->server->unix_url);
    close_this = probe.conn;
    close_probe = &probe;
    ASSERT_STATUS(redis_conn_begin(probe.conn, 1), STATUS_OK);
    redis_conn_arg_text(probe.conn, "PING");
    ASSERT_STATUS(redis_conn_end(probe.conn, &first.command, on_done_close), STATUS_OK);
    ASSERT_STATUS(probe_send(&probe, &second, "PING", NULL), STATUS_OK);
    redis_conn_flush(probe.conn);
    FIXTURE_AWAIT(fixture, probe_is_closed, &probe);
    ASSERT_STATUS(first.status, STATUS_OK);
    assert_int_equal(second.answers, 1);
    ASSERT_STATUS(second.status, STATUS_CANCELLED);
}

/** Open a connection to a fake, and send a command whose callback closes it. */
static struct fake *open_to_close(struct probe *probe, struct fixture *fixture,
                                  struct command *command)
{
    struct fake *fake = connect_to_fake(probe, fixture);

    close_this = probe->conn;
    close_probe = probe;
    ASSERT_STATUS(redis_conn_begin(probe->conn, 1), STATUS_OK);
    redis_conn_arg_text(probe->conn, "PING");
    ASSERT_STATUS(redis_conn_end(probe->conn, &command->command, on_done_close),
                  STATUS_OK);
    redis_conn_flush(probe->conn);
    return fake;
}

FIXTURE_CASE(test_redis_conn_close__from_inside_a_failure)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < 2; i++) {
        struct probe probe;
        struct command command = {0};
        struct fake *fake = open_to_close(&probe, fixture, &command);

        if (i == 0)
            fake_hang_up(fake);
        else
            fake_say(fake, "-READONLY it is a replica now\r\n");
        FIXTURE_AWAIT(fixture, probe_is_closed, &probe);
        ASSERT_STATUS(command.status, i == 0 ? STATUS_IO : STATUS_REFUSED);
        assert_int_equal(probe.downs, 0); /* nothing is reported after the close */
        fake_stop(fake);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
}

/** Nothing arrives that would end the connection before. */
FIXTURE_CASE(test_redis_conn__is_lost_when_a_write_has_failed)
{
    struct fixture *fixture = *state;
    struct probe probe;

    connect_to(&probe, fixture, fixture->server->unix_url);
    err_set(&probe.conn->broken, STATUS_IO, "write: no route to host");
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

    connect_to(&probe, fixture, fixture->server->unix_url);
    ASSERT_STATUS(probe_send(&probe, &commands[0], "ECHO", "first"), STATUS_OK);
    redis_socket_wire(probe.conn->socket)->failed = true;
    ASSERT_STATUS(probe_send(&probe, &commands[1], "ECHO", "second"), STATUS_NO_MEMORY);
    probe_command(&probe, &commands[2], "ECHO", "third");
    assert_string_equal(commands[0].text, "first");
    assert_int_equal(commands[1].answers, 0);
    assert_string_equal(commands[2].text, "third");
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__siblings_at_one_server_share_a_socket)
{
    struct fixture *fixture = *state;
    struct probe probes[2];
    struct command command = {0};

    for (int i = 0; i < 2; i++) {
        probe_open_sibling(&probes[i], fixture, fixture->server->unix_url, NULL,
                           i == 0 ? NULL : &probes[0]);
        probe_wait(&probes[i], &probes[i].ups, 1);
    }
    assert_null(probes[1].conn->socket);
    assert_ptr_equal(probes[1].conn->carrier, probes[0].conn);
    probe_command(&probes[1], &command, "ECHO", "hello");
    assert_string_equal(command.text, "hello");
    server_kill(fixture->server);
    for (int i = 0; i < 2; i++)
        probe_wait(&probes[i], &probes[i].downs, 1);
    server_restart(fixture->server);
    for (int i = 0; i < 2; i++)
        probe_wait(&probes[i], &probes[i].ups, 2);
    for (int i = 1; i >= 0; i--)
        probe_close(&probes[i]);
}

/** Connections that may share a socket are in a ring. A closed one leaves it. */
FIXTURE_CASE(test_redis_conn_close__leaves_its_siblings)
{
    struct fixture *fixture = *state;
    struct probe probes[2];

    for (int i = 0; i < 2; i++) {
        probe_open_sibling(&probes[i], fixture, fixture->server->unix_url, NULL,
                           i == 0 ? NULL : &probes[0]);
        probe_wait(&probes[i], &probes[i].ups, 1);
    }
    probe_close(&probes[1]);
    if (!list_is_empty(&probes[0].conn->siblings))
        fail_msg("a closed connection is still a sibling of an open one");
    probe_close(&probes[0]);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
