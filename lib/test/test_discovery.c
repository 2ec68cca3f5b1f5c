/* test_discovery.c - handshakes, and what servers and sentinels say about the primary. */
#include "redis/discovery.h"
#include "redis/handshake.h"
#include "test/cases.h"
#include "test/fake.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

/** Parse one reply. Free it with freeReplyObject(). */
static struct redis_reply *parse(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

#define NODE(version, role)                                                              \
    "*6\r\n+mode\r\n+cluster\r\n+version\r\n+" version "\r\n+role\r\n+" role "\r\n"
#define SENTINEL(version) "*4\r\n+mode\r\n+sentinel\r\n+version\r\n+" version "\r\n"

UNIT_CASE(test_redis_discovery_check__knows_primaries_and_sentinels)
{
    static const struct {
        const char *hello;
        enum redis_topology wanted;
        const char *why; /* NULL: accepted */
    } cases[] = {
        {FAKE_HELLO("7.0.15", "master"), REDIS_HOSTS, NULL},
        {FAKE_HELLO("6.2", "master"), REDIS_HOSTS, NULL},
        {FAKE_HELLO("6.2.0", "master"), REDIS_HOSTS, NULL},
        {FAKE_HELLO("10.0.1", "master"), REDIS_HOSTS, NULL},
        {FAKE_HELLO("6.0.20", "master"), REDIS_HOSTS, "6.0.20 is too old"},
        {FAKE_HELLO("6.1.9", "master"), REDIS_HOSTS, "too old"},
        {FAKE_HELLO("5.0.14", "master"), REDIS_HOSTS, "too old"},
        {FAKE_HELLO("7.0.15", "replica"), REDIS_HOSTS, "the server is a replica"},
        {NODE("7.0.15", "replica"), REDIS_CLUSTER, NULL},
        {NODE("7.0.15", "master"), REDIS_CLUSTER, NULL},
        {NODE("7.0.15", "master"), REDIS_HOSTS, NULL},
        {NODE("6.0.9", "master"), REDIS_CLUSTER, "too old"},
        {FAKE_HELLO("7.0.15", "master"), REDIS_CLUSTER, "no node of a cluster"},
        {"*6\r\n+mode\r\n+standalone\r\n+version\r\n+7.0.15\r\n+role\r\n+master\r\n",
         REDIS_CLUSTER, "no node of a cluster"},
        {SENTINEL("7.0.15"), REDIS_CLUSTER, "the server is a sentinel"},
        {FAKE_HELLO("7.0.15", "slave"), REDIS_HOSTS, "the server is a slave"},
        {SENTINEL("7.0.15"), REDIS_ANY_SENTINEL, NULL},
        {SENTINEL("6.0.20"), REDIS_ANY_SENTINEL, "too old"},
        {SENTINEL("7.0.15"), REDIS_HOSTS, "the server is a sentinel"},
        {FAKE_HELLO("7.0.15", "master"), REDIS_ANY_SENTINEL, "the server is no sentinel"},
        {"+OK\r\n", REDIS_HOSTS, "not from a Redis server"},
        {":7\r\n", REDIS_HOSTS, "not from a Redis server"},
        {"$-1\r\n", REDIS_HOSTS, "not from a Redis server"},
        {"*0\r\n", REDIS_HOSTS, "not from a Redis server"},
        {"*1\r\n+version\r\n", REDIS_HOSTS, "not from a Redis server"},
        {"*2\r\n+version\r\n+7.0.15\r\n", REDIS_HOSTS, "not from a Redis server"},
        {"*4\r\n+version\r\n:7\r\n+role\r\n+master\r\n", REDIS_HOSTS,
         "not from a Redis server"},
        {"*4\r\n:1\r\n+7.0.15\r\n+role\r\n+master\r\n", REDIS_HOSTS,
         "not from a Redis server"},
        {"*4\r\n+version\r\n+7.0.15\r\n+role\r\n*0\r\n", REDIS_HOSTS,
         "not from a Redis server"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_reply *hello = parse(cases[i].hello);
        struct rlock_err err = {0};
        enum rlock_status status = redis_discovery_check(hello, cases[i].wanted, &err);

        ASSERT_STATUS(status, cases[i].why == NULL ? RLOCK_OK : RLOCK_REFUSED);
        ASSERT_CONTAINS(err.text, cases[i].why == NULL ? "" : cases[i].why);
        freeReplyObject(hello);
    }
}

UNIT_CASE(test_redis_discovery_address__takes_a_name_and_a_port_only)
{
    static const char *const malformed[] = {
        "*-1\r\n",
        "$-1\r\n",
        "+OK\r\n",
        ":1\r\n",
        "-ERR No such master with that name\r\n",
        "*0\r\n",
        "*1\r\n+127.0.0.1\r\n",
        "*2\r\n+127.0.0.1\r\n:6379\r\n",
        "*2\r\n:1\r\n+6379\r\n",
        "*2\r\n+127.0.0.1\r\n+0\r\n",
        "*2\r\n+127.0.0.1\r\n+65536\r\n",
        "*2\r\n+127.0.0.1\r\n+-1\r\n",
        "*2\r\n+127.0.0.1\r\n+6379x\r\n",
        "*2\r\n+127.0.0.1\r\n$0\r\n\r\n",
        "*2\r\n$0\r\n\r\n+6379\r\n",
        "*2\r\n*0\r\n*0\r\n",
    };
    struct redis_host host = {.port = 7};
    struct redis_reply *reply;

    assert_false(redis_discovery_address(NULL, &host));
    for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
        reply = parse(malformed[i]);
        if (redis_discovery_address(reply, &host))
            fail_msg("%s is taken for an address", malformed[i]);
        freeReplyObject(reply);
    }
    assert_int_equal(host.port, 7);
    reply = parse("*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
    assert_true(redis_discovery_address(reply, &host));
    assert_string_equal(host.name, "127.0.0.1");
    assert_int_equal(host.port, 6379);
    freeReplyObject(reply);
}

UNIT_CASE(test_redis_discovery_address__takes_ports_and_names_up_to_the_limit)
{
    static const struct {
        const char *port;
        size_t name_len;
        bool is_accepted;
    } cases[] = {
        {"1", 255, true},
        {"65535", 1, true},
        {"6379", 256, false},
        {"65536", 255, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char name[257] = "", text[320];
        struct redis_host host = {0};
        struct redis_reply *reply;

        memset(name, 'n', cases[i].name_len);
        snprintf(text, sizeof(text), "*2\r\n+%s\r\n+%s\r\n", name, cases[i].port);
        reply = parse(text);
        if (redis_discovery_address(reply, &host) != cases[i].is_accepted)
            fail_msg("a name of %zu bytes and port %s is %s", cases[i].name_len,
                     cases[i].port, cases[i].is_accepted ? "refused" : "accepted");
        assert_string_equal(host.name, cases[i].is_accepted ? name : "");
        freeReplyObject(reply);
    }
}

#define REPLICA(flags, port)                                                             \
    "*6\r\n+ip\r\n+10.0.0.3\r\n+port\r\n+" port "\r\n+flags\r\n+" flags "\r\n"

UNIT_CASE(test_redis_discovery_promoted__finds_the_next_primary)
{
    static const char *const others[] = {
        "*0\r\n",
        "+OK\r\n",
        "*1\r\n+promoted\r\n",
        "*1\r\n*2\r\n+flags\r\n+promoted\r\n",
        "*1\r\n" REPLICA("slave", "6379"),
        "*1\r\n" REPLICA("slave,promoted", "x"),
        "*1\r\n*4\r\n+ip\r\n+10.0.0.3\r\n+port\r\n+6379\r\n",
        "*1\r\n*4\r\n+ip\r\n+10.0.0.3\r\n+flags\r\n+promoted\r\n",
        "*1\r\n*4\r\n+port\r\n+6379\r\n+flags\r\n+promoted\r\n",
    };
    struct redis_host host = {.port = 7};
    struct redis_reply *reply;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        reply = parse(others[i]);
        if (redis_discovery_promoted(reply, &host))
            fail_msg("%s has no promoted replica", others[i]);
        freeReplyObject(reply);
    }
    assert_int_equal(host.port, 7);
    reply = parse("*2\r\n" REPLICA("slave", "6379") REPLICA("slave,promoted", "6380"));
    assert_true(redis_discovery_promoted(reply, &host));
    assert_string_equal(host.name, "10.0.0.3");
    assert_int_equal(host.port, 6380);
    freeReplyObject(reply);
    reply = parse("*1\r\n" REPLICA("slave,promoted", "6381"));
    assert_true(redis_discovery_promoted(reply, &host));
    assert_int_equal(host.port, 6381);
    freeReplyObject(reply);
}

#define MESSAGE(text) "*3\r\n+message\r\n+" REDIS_SWITCH_CHANNEL "\r\n+" text "\r\n"

UNIT_CASE(test_redis_discovery_switch__reads_messages_about_its_primary)
{
    static const char *const others[] = {
        MESSAGE("sales 10.0.0.1 6379 10.0.0.2 6380"),
        MESSAGE("sales 10.0.0.1 10.0.0.2 6380 6379"),
        MESSAGE("bale 10.0.0.1 6379 10.0.0.2 6380"),
        MESSAGE("sal 10.0.0.1 6379 10.0.0.2 6380"),
        MESSAGE("sale"),
        MESSAGE("sale 10.0.0.1 6379 10.0.0.2"),
        MESSAGE("sale 10.0.0.1 6379 10.0.0.2 x"),
        MESSAGE("sale 10.0.0.1 6379 10.0.0.2 0"),
        "*3\r\n+message\r\n+c\r\n:1\r\n",
        "*2\r\n+message\r\n+c\r\n",
        "+sale 10.0.0.1 6379 10.0.0.2 6380\r\n",
    };
    struct redis_host host = {.port = 7};
    struct redis_reply *message;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        message = parse(others[i]);
        if (redis_discovery_switch(message, "sale", &host))
            fail_msg("%s is taken for a switch", others[i]);
        freeReplyObject(message);
    }
    assert_int_equal(host.port, 7);
    message = parse(MESSAGE("sale 10.0.0.1 6379 10.0.0.2 6380"));
    assert_true(redis_discovery_switch(message, "sale", &host));
    assert_string_equal(host.name, "10.0.0.2");
    assert_int_equal(host.port, 6380);
    freeReplyObject(message);
}

UNIT_CASE(test_redis_reply_int__of_an_integer_only)
{
    static const struct {
        const char *reply;
        bool is_int;
    } cases[] = {{":7\r\n", true}, {"+7\r\n", false}, {"*0\r\n", false}};
    int64_t value = 5;

    assert_false(redis_reply_int(NULL, &value));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_reply *reply = parse(cases[i].reply);

        value = 5;
        assert_int_equal(redis_reply_int(reply, &value), cases[i].is_int);
        ASSERT_NUMBER(value, ==, cases[i].is_int ? 7 : 5);
        freeReplyObject(reply);
    }
}

UNIT_CASE(test_redis_error_has_code__at_the_begin_or_quoted)
{
    assert_true(redis_error_has_code("BUSY Redis is busy", "BUSY"));
    assert_true(redis_error_has_code("BUSY", "BUSY"));
    assert_true(redis_error_has_code(": BUSY", "BUSY"));
    assert_true(redis_error_has_code(&"-BUSY"[1], "BUSY"));
    assert_true(redis_error_has_code("ERR is BUSY: BUSY now", "BUSY"));
    assert_true(redis_error_has_code("ERR Error running script (call to f_1): "
                                     "@user_script:4: -READONLY You can't write",
                                     "READONLY"));
    assert_true(redis_error_has_code("reply to AUTH: WRONGPASS invalid", "WRONGPASS"));
    assert_false(redis_error_has_code("BUSYGROUP exists", "BUSY"));
    assert_false(redis_error_has_code("ERR it is BUSY now", "BUSY"));
    assert_false(redis_error_has_code("ERR NOT-BUSY now", "BUSY"));
    assert_false(redis_error_has_code("ERR it is:_BUSY now", "BUSY"));
    assert_false(redis_error_has_code("", "BUSY"));
    assert_false(redis_error_has_code(&": BUSY"[1], "BUSY"));
}

UNIT_CASE(test_redis_discovery_moved__names_the_master_of_the_slot)
{
    static const struct {
        const char *error, *name; /* NULL: refused */
        uint16_t port;
    } cases[] = {
        {"-MOVED 3999 127.0.0.1:6381\r\n", "127.0.0.1", 6381},
        {"-MOVED 3999 ::1:6381\r\n", "::1", 6381},
        {"-MOVED 3999 node-2.example:6381\r\n", "node-2.example", 6381},
        /* An empty host means the node that sent the error. */
        {"-MOVED 3999 :6381\r\n", "asked", 6381},
        {"-MOVED 3999 n:0\r\n", NULL, 0},
        {"-MOVED 3999 n:65536\r\n", NULL, 0},
        {"-MOVED 3999 n:x\r\n", NULL, 0},
        {"-MOVED 3999 n\r\n", NULL, 0},
        {"-MOVED\r\n", NULL, 0},
        {"-ASK 3999 n:6381\r\n", NULL, 0},
        {"-ERR MOVED 3999 n:6381\r\n", NULL, 0},
        {":1\r\n", NULL, 0},
        {"*0\r\n", NULL, 0},
        {"$-1\r\n", NULL, 0},
    };
    const struct redis_host from = {.name = "asked", .port = 6379};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_reply *error = parse(cases[i].error);
        struct redis_host host = {0};

        assert_int_equal(redis_discovery_moved(error, &from, &host),
                         cases[i].name != NULL);
        assert_string_equal(host.name, cases[i].name == NULL ? "" : cases[i].name);
        assert_int_equal(host.port, cases[i].port);
        freeReplyObject(error);
    }
}

static const struct redis_rights no_rights;

UNIT_CASE(test_redis_handshake_start__writes_what_the_url_needs)
{
    static const struct {
        const char *url, *sent;
        unsigned count;
    } cases[] = {
        {"redis://h", "*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nHELLO\r\n", 2},
        {"redis://:p@h/1",
         "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"
         "*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nHELLO\r\n",
         4},
        {"redis://u:pw@h",
         "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n"
         "*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nHELLO\r\n",
         3},
        {"redis-cluster://h",
         "*1\r\n$4\r\nPING\r\n*1\r\n$5\r\nHELLO\r\n"
         "*2\r\n$6\r\nEXISTS\r\n$3\r\nkey\r\n",
         3},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_handshake handshake;
        struct redis_wire wire = {0};
        struct redis_url url;

        ASSERT_STATUS(redis_url_parse(cases[i].url, &url, NULL), RLOCK_OK);
        redis_handshake_start(&handshake, &url, "key", &no_rights, &wire);
        if (wire.len != strlen(cases[i].sent) ||
            memcmp(wire.data, cases[i].sent, wire.len) != 0)
            fail_msg("%s: expected %s, sent %.*s", cases[i].url, cases[i].sent,
                     (int)wire.len, wire.data);
        assert_int_equal(handshake.count, cases[i].count);
        assert_false(redis_handshake_is_done(&handshake));
        redis_wire_clear(&wire);
    }
}

UNIT_CASE(test_redis_handshake__finds_missing_rights)
{
    static const char sent[] = "*1\r\n$4\r\nPING\r\n"
                               "*4\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n0\r\n$1\r\nw\r\n"
                               "*4\r\n$4\r\nEVAL\r\n$3\r\nx()\r\n$1\r\n0\r\n$1\r\nw\r\n"
                               "*1\r\n$5\r\nHELLO\r\n";
    static const struct redis_rights rights = {"x()", "ab", "w"};
    static const struct {
        const char *by_sha, *by_text, *why, *lacks;
    } cases[] = {
        {"-NOSCRIPT no\r\n", "+\r\n", NULL, ""},
        {"-NOSCRIPT no\r\n", "++zadd +zrem\r\n", NULL, "+zadd +zrem"},
        {"++zadd\r\n", "++zrem\r\n", NULL, "+zrem"},
        {"-NOPERM no evalsha\r\n", NULL, "NOPERM no evalsha", NULL},
        {"+\r\n", "-NOPERM the user lacks +get\r\n", "NOPERM the user lacks +get", NULL},
        {"-OOM no\r\n", "-OOM no\r\n", NULL, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *replies[] = {"+PONG\r\n", cases[i].by_sha, cases[i].by_text,
                                 NODE("7.0.15", "master")};
        struct redis_handshake handshake;
        struct redis_wire wire = {0};
        struct redis_url url;
        struct rlock_err err = {0};
        enum rlock_status status = RLOCK_OK;

        ASSERT_STATUS(redis_url_parse("redis://h", &url, NULL), RLOCK_OK);
        redis_handshake_start(&handshake, &url, "key", &rights, &wire);
        assert_int_equal(wire.len, strlen(sent));
        assert_memory_equal(wire.data, sent, strlen(sent));
        redis_wire_clear(&wire);
        for (int at = 0; at < 4 && status == RLOCK_OK; at++) {
            struct redis_reply *reply = parse(replies[at]);

            status = redis_handshake_read(&handshake, reply, replies[at][0] == '-', &err);
            freeReplyObject(reply);
        }
        ASSERT_STATUS(status, cases[i].why == NULL ? RLOCK_OK : RLOCK_REFUSED);
        assert_int_equal(redis_handshake_is_done(&handshake), cases[i].why == NULL);
        if (cases[i].why == NULL)
            assert_string_equal(handshake.lacks, cases[i].lacks);
        else
            assert_string_equal(err.text, cases[i].why);
    }
}

UNIT_CASE(test_redis_handshake_read__of_each_reply)
{
    static const struct {
        const char *replies[3]; /* to PING, HELLO and EXISTS */
        const char *why;        /* NULL: all are accepted */
        bool has_shards;
    } cases[] = {
        {{"+PONG\r\n", NODE("7.0.15", "master"), ":0\r\n"}, NULL, true},
        {{"+PONG\r\n", NODE("6.2.9", "master"), ":1\r\n"}, NULL, false},
        {{"+PONG\r\n", NODE("7.0.15", "master"), "-ASK 7 h:1\r\n"}, NULL, true},
        {{"+PONG\r\n", NODE("7.0.15", "master"), "-MOVED 7 h:1\r\n"},
         "reply to EXISTS: MOVED 7 h:1",
         true},
        {{"-ASK 7 h:1\r\n"}, "reply to PING: ASK 7 h:1", false},
        {{"+PING\r\n"}, "reply to PING: PING", false},
        {{":1\r\n"}, "reply to PING: not a status", false},
        {{"+PONG\r\n", "-NOPERM no\r\n"}, "reply to HELLO: NOPERM no", false},
        {{"+PONG\r\n", NODE("6.0.9", "master")}, "too old", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_handshake handshake;
        struct redis_wire wire = {0};
        struct redis_url url;
        struct rlock_err err = {0};
        enum rlock_status status = RLOCK_OK;

        ASSERT_STATUS(redis_url_parse("redis-cluster://h", &url, NULL), RLOCK_OK);
        redis_handshake_start(&handshake, &url, "key", &no_rights, &wire);
        redis_wire_clear(&wire);
        for (int at = 0; at < 3 && cases[i].replies[at] != NULL; at++) {
            struct redis_reply *reply = parse(cases[i].replies[at]);
            bool is_error = cases[i].replies[at][0] == '-';

            ASSERT_STATUS(status, RLOCK_OK);
            assert_false(redis_handshake_is_done(&handshake));
            status = redis_handshake_read(&handshake, reply, is_error, &err);
            freeReplyObject(reply);
        }
        ASSERT_STATUS(status, cases[i].why == NULL ? RLOCK_OK : RLOCK_REFUSED);
        ASSERT_CONTAINS(err.text, cases[i].why == NULL ? "" : cases[i].why);
        ASSERT_STATUS(err.status, status);
        assert_int_equal(handshake.has_shards, cases[i].has_shards);
        if (cases[i].why == NULL)
            assert_true(redis_handshake_is_done(&handshake));
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
