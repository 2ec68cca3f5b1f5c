/*
 * test_conn.c - the states of a connection. Only the test moves the clock. A case sets a state, and
 * then causes an event.
 */
#include "base/clock.h"
#include "redis/conn_impl.h"
#include "test/cases.h"
#include "test/fake.h"
#include "test/frozen_clock.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOW_US     5000000
#define TIMEOUT_MS 1000
#define LATER_US   (NOW_US + 77000)
#define SENTINEL                                                                         \
    "+PONG\r\n*6\r\n$7\r\nversion\r\n+7.0.15\r\n$4\r\nrole\r\n+sentinel\r\n"             \
    "$4\r\nmode\r\n+sentinel\r\n"

struct conn_test {
    uv_loop_t loop;
    struct redis_conn *conns[2];
    struct fake *fake; /* a fake server; NULL in most tests */
    unsigned downs;
    struct rlock_err why;
};

static void conn_test_on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct conn_test *test = arg;

    assert_false(is_up);
    test->downs++;
    test->why = *why;
}

static int set_up(void **state)
{
    struct conn_test *test = calloc(1, sizeof(*test));

    frozen_us = NOW_US;
    assert_int_equal(uv_loop_init(&test->loop), 0);
    *state = test;
    return 0;
}

static void open_conn(struct conn_test *test, unsigned number,
                      const struct redis_url *url)
{
    struct redis_conn_options options = {
        .loop = &test->loop,
        .url = url,
        .timeout_ms = TIMEOUT_MS,
        .sibling = number == 0 ? NULL : test->conns[0],
        .on_state = conn_test_on_state,
        .arg = test,
    };

    ASSERT_STATUS(redis_conn_open(&options, &test->conns[number], NULL), RLOCK_OK);
}

static void conn_test_on_closed(void *arg)
{
    struct redis_conn **conn = arg;

    *conn = NULL;
}

static void close_conns(struct conn_test *test)
{
    for (int i = 0; i < 2; i++)
        redis_conn_close(test->conns[i], conn_test_on_closed, &test->conns[i]);
    while (test->conns[0] != NULL || test->conns[1] != NULL)
        uv_run(&test->loop, UV_RUN_ONCE);
    test->downs = 0;
}

static int tear_down(void **state)
{
    struct conn_test *test = *state;

    if (asserts_failed) {
        free(test);
        return 0;
    }
    close_conns(test);
    if (test->fake != NULL)
        fake_stop(test->fake);
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    free(test);
    return 0;
}

#define CONN_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

/** Siblings that have lost the same master make their next attempt at the same time. One sibling
 *  follows the other (`follows`), or sets the time for the other (`leads`). */
CONN_CASE(test_redis_conn_lose__pauses_with_its_siblings)
{
    static const struct {
        enum conn_state was, other;
        uint16_t other_port; /* port of the other sibling's master */
        bool is_named, follows, leads;
    } cases[] = {
        {CONN_UP, CONN_PAUSING, 7, false, true, false},
        {CONN_LOST, CONN_PAUSING, 7, false, true, false},
        {CONN_UP, CONN_PAUSING, 7, true, false, false},
        {CONN_UP, CONN_PAUSING, 8, false, false, false},
        {CONN_UP, CONN_CONNECTING, 7, false, false, false},
        {CONN_HANDSHAKE, CONN_PAUSING, 7, false, false, true},
        {CONN_HANDSHAKE, CONN_PAUSING, 7, true, false, false},
        {CONN_HANDSHAKE, CONN_PAUSING, 8, false, false, false},
        {CONN_HANDSHAKE, CONN_CONNECTING, 7, false, false, false},
    };
    static const struct redis_url url = {
        .topology = REDIS_CLUSTER, .host_count = 1, .hosts = {{1, "127.0.0.1"}}};
    static const struct redis_host master = {7, "m"};
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_conn *conn, *other;

        open_conn(test, 0, &url);
        open_conn(test, 1, &url);
        conn = test->conns[0];
        other = test->conns[1];
        conn->state = cases[i].was;
        other->state = cases[i].other;
        conn->master = other->master = master;
        other->master.port = cases[i].other_port;
        other->is_named = cases[i].is_named;
        conn->up_since_us = NOW_US;
        conn->failures = 1;
        other->failures = 5;
        redis_conn_wake_only_at(other, LATER_US);
        redis_conn_lose(conn, RLOCK_IO, &(struct rlock_err){.text = "lost"});
        if (conn->failures != (cases[i].follows ? 5 : 2) ||
            (conn->timer_at_us == LATER_US) != cases[i].follows)
            fail_msg("case %zu: the connection has failed %u times", i, conn->failures);
        ASSERT_BETWEEN(conn->timer_at_us, cases[i].follows ? LATER_US : NOW_US + 1000,
                       NOW_US + 700000);
        if (other->failures != (cases[i].leads ? 2 : 5) ||
            (other->timer_at_us == conn->timer_at_us) !=
                (cases[i].leads || cases[i].follows))
            fail_msg("case %zu: its sibling has failed %u times", i, other->failures);
        close_conns(test);
    }
}

/** The longest pause depends on who else can tell where the master is. */
CONN_CASE(test_redis_conn_lose__pauses_longer_after_each_failure)
{
    static const struct redis_url url = {.host_count = 1, .hosts = {{1, "127.0.0.1"}}};
    static const struct {
        enum redis_topology topology;
        unsigned failures;
        int64_t least_ms, most_ms;
    } cases[] = {
        {REDIS_HOSTS, 0, 10, 20},         {REDIS_HOSTS, 9, 250, 500},
        {REDIS_SENTINEL, 0, 10, 20},      {REDIS_SENTINEL, 9, 50, 100},
        {REDIS_ANY_SENTINEL, 9, 50, 100}, {REDIS_CLUSTER, 0, 50, 100},
        {REDIS_CLUSTER, 9, 350, 700},
    };
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_conn *conn;
        int64_t pause_ms;

        open_conn(test, 0, &url);
        conn = test->conns[0];
        conn->url.topology = cases[i].topology;
        conn->state = CONN_CONNECTING;
        conn->failures = cases[i].failures;
        conn->on_state = NULL;
        redis_conn_lose(conn, RLOCK_IO, &(struct rlock_err){.text = "refused"});
        pause_ms = (conn->timer_at_us - NOW_US) / 1000;
        if (pause_ms < cases[i].least_ms || pause_ms > cases[i].most_ms)
            fail_msg("case %zu: a pause of %lld ms", i, (long long)pause_ms);
        close_conns(test);
    }
}

CONN_CASE(test_redis_conn_go__stays_where_it_is)
{
    static const struct redis_url url = {.host_count = 1, .hosts = {{1, "127.0.0.1"}}};
    static const struct {
        enum conn_state was;
        bool is_named, is_same, goes;
        unsigned downs;
    } cases[] = {
        {CONN_UP, false, true, false, 0},         {CONN_UP, false, false, true, 1},
        {CONN_CONNECTING, true, true, false, 0},  {CONN_CONNECTING, true, false, true, 0},
        {CONN_CONNECTING, false, true, true, 0},  {CONN_PAUSING, false, false, true, 0},
        {CONN_RESOLVING, false, false, false, 0}, /* its end cannot be awaited elsewhere */
    };
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_host host = {7, "h"};
        struct redis_conn *conn;

        open_conn(test, 0, &url);
        conn = test->conns[0];
        conn->state = cases[i].was;
        conn->is_named = cases[i].is_named;
        conn->host = host;
        host.port = cases[i].is_same ? 7 : 8;
        redis_conn_wake_only_at(conn, LATER_US);
        redis_conn_go(conn, &host);
        if ((conn->timer_at_us == 0) != cases[i].goes || test->downs != cases[i].downs ||
            conn->host.port != (cases[i].goes ? host.port : 7))
            fail_msg("case %zu: wakes at %lld, %u times down, port %u", i,
                     (long long)conn->timer_at_us, test->downs, conn->host.port);
        close_conns(test);
    }
}

CONN_CASE(test_redis_conn__leads_the_siblings_of_its_master)
{
    static const struct redis_host master = {7, "m"};
    struct conn_test *test = *state;
    struct redis_url url;

    test->fake = fake_start(&test->loop, NULL);
    ASSERT_STATUS(redis_url_parse(test->fake->url, &url, NULL), RLOCK_OK);
    for (int is_same = 0; is_same <= 1; is_same++) {
        struct redis_conn *conn, *other;

        open_conn(test, 0, &url);
        open_conn(test, 1, &url);
        conn = test->conns[0];
        other = test->conns[1];
        conn->on_state = NULL;
        conn->master = other->master = master;
        other->master.port = is_same ? 7 : 8;
        redis_conn_wake_only_at(other, LATER_US);
        while (conn->state != CONN_UP)
            uv_run(&test->loop, UV_RUN_ONCE);
        assert_int_equal(other->is_named, is_same);
        close_conns(test);
    }
}

/** The commands of a sibling that uses the lost socket went to the same server. So the sibling
 *  reports the loss, too. */
CONN_CASE(test_redis_conn_lose__is_a_loss_for_the_siblings_that_it_carries)
{
    static const struct redis_url url = {.host_count = 1, .hosts = {{1, "127.0.0.1"}}};
    struct conn_test *test = *state;

    for (int i = 0; i < 2; i++) {
        open_conn(test, (unsigned)i, &url);
        test->conns[i]->state = CONN_UP;
    }
    test->conns[1]->carrier = test->conns[0];
    redis_conn_lose(test->conns[0], RLOCK_IO, &(struct rlock_err){RLOCK_IO, "lost"});
    assert_ptr_equal(test->conns[1]->carrier, test->conns[1]);
    assert_int_equal(test->conns[1]->state, CONN_LOST);
    assert_string_equal(test->conns[1]->broken.text, "lost");
}

CONN_CASE(test_redis_conn_words__while_down)
{
    static const struct redis_url url = {.host_count = 1, .hosts = {{1, "127.0.0.1"}}};
    static const char *const words[] = {"PING", NULL};
    struct conn_test *test = *state;
    struct redis_command command;

    open_conn(test, 0, &url);
    ASSERT_STATUS(redis_conn_words(test->conns[0], &command, NULL, words), RLOCK_DOWN);
}

/** An address is not resolved in a thread of libuv, because all threads may be busy with other
 *  names. */
CONN_CASE(test_redis_conn__needs_no_resolver_for_an_address)
{
    static const struct {
        const char *host;
        bool resolves;
    } cases[] = {{"127.0.0.1", false}, {"::1", false}, {"localhost", true}};
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_url url = {.host_count = 1, .hosts = {{.port = 1}}};
        struct redis_conn *conn;

        (void)stpcpy(url.hosts[0].name, cases[i].host);
        open_conn(test, 0, &url);
        conn = test->conns[0];
        conn->on_timer(&conn->timer);
        if (conn->is_resolving != cases[i].resolves)
            fail_msg("%s: expected %d, resolves %d", cases[i].host, cases[i].resolves,
                     conn->is_resolving);
        close_conns(test);
    }
}

static int listen_at(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/** The kernel drops the commands that it has not sent. So a server that reads late executes no
 *  command that has already failed for its caller. */
CONN_CASE(test_redis_conn_close__resets_the_connection)
{
    struct redis_url url = {.host_count = 1, .hosts = {{.name = "127.0.0.1"}}};
    struct conn_test *test = *state;
    int listening = listen_at(&url.hosts[0].port), peer;
    char heard[256];
    ssize_t n;

    open_conn(test, 0, &url);
    while (test->conns[0]->state != CONN_HANDSHAKE)
        uv_run(&test->loop, UV_RUN_ONCE);
    peer = accept(listening, NULL, NULL);
    close_conns(test);
    while ((n = recv(peer, heard, sizeof(heard), 0)) > 0)
        ;
    if (n == 0 || errno != ECONNRESET)
        fail_msg("the connection was not reset");
    close(peer);
    close(listening);
}

/** The only node of the cluster answers each handshake with a MOVED to itself. After a pause the
 *  connection follows five more. */
CONN_CASE(test_redis_conn_open__follows_five_moves)
{
    struct conn_test *test = *state;
    struct redis_url url;
    char moved[128] = "";

    test->fake = fake_start(&test->loop, moved);
    snprintf(moved, sizeof(moved), "-MOVED 1 %s:7\r\n",
             test->fake->url + strlen("unix:"));
    ASSERT_STATUS(redis_url_parse(test->fake->url, &url, NULL), RLOCK_OK);
    open_conn(test, 0, &url);
    while (test->downs == 0)
        uv_run(&test->loop, UV_RUN_ONCE);
    ASSERT_CONTAINS(test->why.text, "MOVED");
    assert_int_equal(test->conns[0]->attempts, 6);
    while (test->conns[0]->attempts < 12)
        uv_run(&test->loop, UV_RUN_ONCE);
    assert_int_equal(test->conns[0]->failures, 1);
}

CONN_CASE(test_redis_conn__attempt_ends_at_its_deadline)
{
    static const struct {
        enum conn_state state;
        unsigned hosts;
        const char *why;
        /* a write has failed, so the timer does not wait for the deadline */
        bool is_broken;
    } cases[] = {
        {CONN_CONNECTING, 1, "connect: no reply within 1000 ms", false},
        {CONN_HANDSHAKE, 1, "connect: no reply within 1000 ms", false},
        {CONN_HANDSHAKE, 1, "connect: no reply within 1000 ms", true},
        {CONN_HANDSHAKE, 2, "127.0.0.1:1: connect: no reply within 200 ms", false},
        {CONN_ASKING, 2, "127.0.0.1:1: connect: no reply within 1000 ms", false},
    };
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_url url = {.host_count = cases[i].hosts};
        struct redis_conn *conn;

        open_conn(test, 0, &url);
        conn = test->conns[0];
        conn->state = cases[i].state;
        conn->host = (struct redis_host){1, "127.0.0.1"};
        conn->tried = cases[i].hosts - 1; /* this host is the last one of the round */
        conn->attempt_deadline_us = NOW_US + 1;
        conn->broken.status = cases[i].is_broken ? RLOCK_IO : RLOCK_OK;
        conn->on_timer(&conn->timer);
        if (!cases[i].is_broken) {
            assert_int_equal(test->downs, 0);
            ASSERT_NUMBER(conn->timer_at_us, ==, NOW_US + 1);
            frozen_us++;
            conn->on_timer(&conn->timer);
            frozen_us--;
        }
        assert_int_equal(test->downs, 1);
        assert_string_equal(test->why.text, cases[i].why);
        ASSERT_STATUS(test->why.status, RLOCK_TIMEOUT);
        conn->state = CONN_HANDSHAKE; /* the next attempt, with a deadline of its own */
        conn->attempt_deadline_us = NOW_US + 1;
        conn->on_timer(&conn->timer);
        assert_int_equal(conn->state, CONN_HANDSHAKE);
        close_conns(test);
    }
}

static redisReply *parse(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    redisReaderFeed(reader, text, strlen(text));
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    return reply;
}

/** End a command of the guide. `reply` is NULL if the sentinel has not replied. */
static void answer(struct redis_command *question, enum rlock_status status,
                   const char *reply)
{
    redisReply *parsed = reply == NULL ? NULL : parse(reply);

    question->done(question, status, (const void *)parsed);
    if (parsed != NULL)
        freeReplyObject(parsed);
}

static void on_reply(struct redis_command *command UNUSED, enum rlock_status status,
                     const struct redis_reply *reply)
{
    assert_non_null(reply);
    assert_true(status == RLOCK_OK || status == RLOCK_REFUSED);
}

static unsigned messages, replies;

static void count_message(const struct redis_reply *message UNUSED, void *arg UNUSED)
{
    messages++;
}

static void count_reply(struct redis_command *command UNUSED,
                        enum rlock_status status UNUSED,
                        const struct redis_reply *reply UNUSED)
{
    replies++;
}

CONN_CASE(test_redis_conn_take_reply__tells_messages_from_replies)
{
    static const struct redis_url url = {.host_count = 1, .hosts = {{1, "127.0.0.1"}}};
    static const struct {
        const char *text;
        bool subscribes, is_message;
    } cases[] = {
        {"*3\r\n+message\r\n+c\r\n+x\r\n", true, true},
        {"*3\r\n+smessage\r\n+c\r\n+x\r\n", true, true}, /* of a shard */
        {"*3\r\n+subscribe\r\n+c\r\n:1\r\n", true, false},
        {"+message\r\n", true, false},
        {"*3\r\n+message\r\n+c\r\n+x\r\n", false, false}, /* of a script */
    };
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_command command = {.done = count_reply};
        redisReply *reply = parse(cases[i].text);
        struct redis_conn *conn;

        open_conn(test, 0, &url);
        conn = test->conns[0];
        conn->on_message = cases[i].subscribes ? count_message : NULL;
        conn->state = CONN_UP;
        list_append(&conn->pending, &command.link);
        messages = replies = 0;
        redis_conn_take_reply(conn, (const void *)reply, false);
        freeReplyObject(reply);
        if (messages != cases[i].is_message || replies != !cases[i].is_message)
            fail_msg("case %zu: %u messages, %u replies", i, messages, replies);
        list_remove(&command.link);
        close_conns(test);
    }
}

/** While another command is pending, the connection stays. */
CONN_CASE(test_redis_conn_take_reply__follows_an_error_of_a_cluster)
{
    static const struct {
        const char *reply;
        enum redis_topology topology;
        bool is_moving;
    } cases[] = {
        {"-MOVED 1 h:7\r\n", REDIS_CLUSTER, true},
        {"+MOVED 1 h:7\r\n", REDIS_CLUSTER, false},
        {"-ERR 1 h:7\r\n", REDIS_CLUSTER, false},
        {"-MOVED 1 h:7\r\n", REDIS_HOSTS, false},
    };
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_url url = {.topology = cases[i].topology, .host_count = 1};
        struct redis_command commands[2] = {0};
        redisReply *reply = parse(cases[i].reply);

        open_conn(test, 0, &url);
        test->conns[0]->state = CONN_UP;
        for (int at = 0; at < 2; at++) {
            commands[at] =
                (struct redis_command){.conn = test->conns[0], .done = on_reply};
            list_append(&test->conns[0]->pending, &commands[at].link);
        }
        redis_conn_take_reply(test->conns[0], (const void *)reply,
                              reply->type == REDIS_REPLY_ERROR);
        freeReplyObject(reply);
        assert_int_equal(redis_conn_is_moving(test->conns[0]), cases[i].is_moving);
        list_remove(&commands[1].link);
        close_conns(test);
    }
}

#define ADDRESS  "*2\r\n+h\r\n+7\r\n"
#define PROMOTED "*1\r\n*6\r\n+ip\r\n+h\r\n+port\r\n+7\r\n+flags\r\n+slave,promoted\r\n"

CONN_CASE(test_redis_conn__a_sibling_goes_on_alone)
{
    struct rlock_err why = {.status = RLOCK_IO, .text = "gone"};
    struct conn_test *test = *state;
    struct redis_url url;

    ASSERT_STATUS(redis_url_parse("redis://127.0.0.1:1", &url, NULL), RLOCK_OK);
    for (unsigned i = 0; i < 2; i++)
        open_conn(test, i, &url);
    for (int is_lost = 0; is_lost <= 1; is_lost++) {
        test->conns[1]->carrier = test->conns[0];
        test->conns[1]->moved_to = (struct redis_host){7, "h"};
        redis_conn_part_siblings(test->conns[0], is_lost ? &why : NULL);
        assert_ptr_equal(test->conns[1]->carrier, test->conns[1]);
        assert_int_equal(test->conns[1]->host.port, 7);
        assert_int_equal(redis_conn_is_moving(test->conns[1]), !is_lost);
        assert_int_equal(test->conns[1]->state == CONN_LOST, is_lost);
        assert_string_equal(test->conns[1]->broken.text, is_lost ? "gone" : "");
    }
    close_conns(test);
}

/** The login and the database of the URL are for the servers. Sentinels have a password of their
 *  own. */
CONN_CASE(test_redis_guide__is_connected_without_the_login)
{
    static const struct {
        const char *url, *password;
    } cases[] = {{"redis-sentinel://me:secret@h:7/3?master=m", ""},
                 {"redis-sentinel://me:secret@h:7/3?master=m&sentinel_password=w", "w"}};

    struct redis_conn_options options;
    struct redis_url url, guide_url;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ASSERT_STATUS(redis_url_parse(cases[i].url, &url, NULL), RLOCK_OK);
        redis_guide_options(&(struct redis_conn){.url = url, .timeout_us = 2500000},
                            &options, &guide_url);
        assert_string_equal(guide_url.user, "");
        assert_string_equal(guide_url.password, cases[i].password);
        assert_int_equal(guide_url.db, 0);
        assert_int_equal(guide_url.topology, REDIS_ANY_SENTINEL);
        assert_string_equal(guide_url.hosts[0].name, "h");
        assert_int_equal(options.timeout_ms, 2500);
        assert_ptr_equal(options.url, &guide_url);
    }
}

CONN_CASE(test_redis_guide_ask__wakes_the_connection_at_its_deadline)
{
    struct conn_test *test = *state;
    struct redis_conn *conn;
    struct redis_url url;

    ASSERT_STATUS(redis_url_parse("redis-sentinel://127.0.0.1:1?master=m", &url, NULL),
                  RLOCK_OK);
    open_conn(test, 0, &url);
    conn = test->conns[0];
    conn->on_timer(&conn->timer);
    assert_int_equal(conn->state, CONN_ASKING);
    ASSERT_NUMBER(conn->timer_at_us, ==, NOW_US + TIMEOUT_MS * 1000);
    ASSERT_NUMBER(uv_timer_get_repeat(&conn->timer), ==, 0); /* once */
}

static struct redis_conn *open_guided(struct conn_test *test)
{
    struct redis_url url;

    if (test->fake == NULL)
        test->fake = fake_start(&test->loop, SENTINEL);
    ASSERT_STATUS(redis_url_parse(test->fake->url, &url, NULL), RLOCK_OK);
    url.topology = REDIS_SENTINEL;
    (void)stpcpy(url.master, "m");
    open_conn(test, 0, &url);
    while (test->conns[0]->ask.done == NULL)
        uv_run(&test->loop, UV_RUN_ONCE);
    return test->conns[0];
}

CONN_CASE(test_redis_guide_ask__after_an_answer_tries_the_next_sentinel_at_once)
{
    struct redis_conn *conn = open_guided(*state);

    answer(&conn->ask, RLOCK_OK, ADDRESS);
    assert_int_equal(conn->guide->state, CONN_UP);
    redis_guide_ask(conn);
    ASSERT_NUMBER(conn->guide->timer_at_us, ==, 0);
}

CONN_CASE(test_redis_guide__that_is_lost_is_the_reason)
{
    struct conn_test *test = *state;
    struct redis_conn *conn = open_guided(test);
    const struct rlock_err lost = {.status = RLOCK_TIMEOUT, .text = "no reply"};

    conn->guide->on_state(false, &lost, conn);
    assert_string_equal(test->why.text, "sentinel: no reply");
    ASSERT_STATUS(test->why.status, RLOCK_IO);
}

/** Each row is a reply to a command of the guide. */
CONN_CASE(test_redis_guide__goes_where_a_sentinel_says)
{
    static const struct {
        const char *reply;
        enum rlock_status status;
        enum conn_state was;
        unsigned downs;
        bool is_replicas; /* the reply is to SENTINEL REPLICAS */
        bool is_answered, goes;
    } cases[] = {
        {ADDRESS, RLOCK_OK, CONN_ASKING, 0, false, true, true},
        {ADDRESS, RLOCK_OK, CONN_UP, 1, false, true, true},
        {"*-1\r\n", RLOCK_OK, CONN_ASKING, 1, false, true, false},
        {"-ERR no\r\n", RLOCK_REFUSED, CONN_ASKING, 1, false, true, false},
        {"*-1\r\n", RLOCK_OK, CONN_PAUSING, 0, false, true, false},
        {NULL, RLOCK_IO, CONN_ASKING, 0, false, false, false},
        {NULL, RLOCK_TIMEOUT, CONN_ASKING, 0, false, false, false},
        {PROMOTED, RLOCK_OK, CONN_ASKING, 0, true, false, true},
        {PROMOTED, RLOCK_OK, CONN_UP, 0, true, false, false},
        {"*0\r\n", RLOCK_OK, CONN_ASKING, 0, true, false, false},
        {"-ERR no\r\n", RLOCK_REFUSED, CONN_ASKING, 0, true, false, false},
        {NULL, RLOCK_IO, CONN_ASKING, 0, true, false, false},
    };
    struct conn_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_conn *conn = open_guided(test);

        conn->state = cases[i].was;
        answer(cases[i].is_replicas ? &conn->ask_replicas : &conn->ask, cases[i].status,
               cases[i].reply);
        if (conn->is_answered != cases[i].is_answered ||
            conn->is_named != cases[i].goes ||
            (strcmp(conn->host.name, "h") == 0) != cases[i].goes ||
            test->downs != cases[i].downs)
            fail_msg("case %zu: answered %d, goes to %s:%u, %u times down", i,
                     conn->is_answered, conn->host.name, conn->host.port, test->downs);
        if (cases[i].downs > 0) {
            ASSERT_CONTAINS(test->why.text, cases[i].goes
                                                ? "the primary is now h:"
                                                : "the sentinel knows no primary m");
            ASSERT_STATUS(test->why.status, RLOCK_IO);
        }
        close_conns(test);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
