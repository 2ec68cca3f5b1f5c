/* test_discovery.c - what servers and sentinels say about themselves and the primary. */
#include "redis/discovery.h"
#include "test/asserts.h"
#include "test/fake.h"

#include <hiredis/hiredis.h>

/** Parse one reply; free it with freeReplyObject(). */
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

#define SENTINEL(version) "*4\r\n+mode\r\n+sentinel\r\n+version\r\n+" version "\r\n"

static void test_redis_discovery_check__knows_primaries_and_sentinels(void **state)
{
    static const struct {
        const char *hello;
        bool wants_sentinel;
        const char *why; /* NULL: accepted */
    } cases[] = {
        {FAKE_HELLO("7.0.15", "master"), false, NULL},
        {FAKE_HELLO("6.2", "master"), false, NULL},
        {FAKE_HELLO("6.2.0", "master"), false, NULL},
        {FAKE_HELLO("10.0.1", "master"), false, NULL},
        {FAKE_HELLO("6.0.20", "master"), false, "6.0.20 is too old"},
        {FAKE_HELLO("6.1.9", "master"), false, "too old"},
        {FAKE_HELLO("5.0.14", "master"), false, "too old"},
        {FAKE_HELLO("7.0.15", "replica"), false, "the server is a replica"},
        {FAKE_HELLO("7.0.15", "slave"), false, "the server is a slave"},
        {SENTINEL("7.0.15"), true, NULL},
        {SENTINEL("6.0.20"), true, "too old"},
        {SENTINEL("7.0.15"), false, "the server is a sentinel"},
        {FAKE_HELLO("7.0.15", "master"), true, "the server is no sentinel"},
        {"+OK\r\n", false, "not from a Redis server"},
        {":7\r\n", false, "not from a Redis server"},
        {"$-1\r\n", false, "not from a Redis server"},
        {"*0\r\n", false, "not from a Redis server"},
        {"*1\r\n+version\r\n", false, "not from a Redis server"},
        {"*2\r\n+version\r\n+7.0.15\r\n", false, "not from a Redis server"},
        {"*4\r\n+version\r\n:7\r\n+role\r\n+master\r\n", false,
         "not from a Redis server"},
        {"*4\r\n:1\r\n+7.0.15\r\n+role\r\n+master\r\n", false, "not from a Redis server"},
        {"*4\r\n+version\r\n+7.0.15\r\n+role\r\n*0\r\n", false,
         "not from a Redis server"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct redis_reply *hello = parse(cases[i].hello);
        struct err err = {0};
        enum status status = redis_discovery_check(hello, cases[i].wants_sentinel, &err);

        assert_int_equal(status, cases[i].why == NULL ? STATUS_OK : STATUS_REFUSED);
        ASSERT_CONTAINS(err.text, cases[i].why == NULL ? "" : cases[i].why);
        freeReplyObject(hello);
    }
}

static void test_redis_discovery_address__takes_a_name_and_a_port_only(void **state)
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

    (void)state;
    assert_false(redis_discovery_address(NULL, &host));
    for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
        reply = parse(malformed[i]);
        if (redis_discovery_address(reply, &host))
            fail_msg("%s is taken for an address", malformed[i]);
        freeReplyObject(reply);
    }
    assert_int_equal(host.port, 7); /* untouched */
    reply = parse("*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
    assert_true(redis_discovery_address(reply, &host));
    assert_string_equal(host.name, "127.0.0.1");
    assert_int_equal(host.port, 6379);
    freeReplyObject(reply);
}

#define REPLICA(flags, port)                                                             \
    "*6\r\n+ip\r\n+10.0.0.3\r\n+port\r\n+" port "\r\n+flags\r\n+" flags "\r\n"

static void test_redis_discovery_promoted__finds_the_next_primary(void **state)
{
    static const char *const others[] = {
        "*0\r\n",
        "+OK\r\n",
        "*1\r\n+promoted\r\n",
        "*1\r\n*2\r\n+flags\r\n+promoted\r\n",
        "*1\r\n" REPLICA("slave", "6379"),
        "*1\r\n" REPLICA("slave,promoted", "x"),
    };
    struct redis_host host = {.port = 7};
    struct redis_reply *reply;

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        reply = parse(others[i]);
        if (redis_discovery_promoted(reply, &host))
            fail_msg("%s has no promoted replica", others[i]);
        freeReplyObject(reply);
    }
    assert_int_equal(host.port, 7); /* untouched */
    reply = parse("*2\r\n" REPLICA("slave", "6379") REPLICA("slave,promoted", "6380"));
    assert_true(redis_discovery_promoted(reply, &host));
    assert_string_equal(host.name, "10.0.0.3");
    assert_int_equal(host.port, 6380);
    freeReplyObject(reply);
}

#define MESSAGE(text) "*3\r\n+message\r\n+" REDIS_SWITCH_CHANNEL "\r\n+" text "\r\n"

static void test_redis_discovery_switch__reads_messages_about_its_primary(void **state)
{
    static const char *const others[] = {
        MESSAGE("sales 10.0.0.1 6379 10.0.0.2 6380"),
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

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        message = parse(others[i]);
        if (redis_discovery_switch(message, "sale", &host))
            fail_msg("%s is taken for a switch", others[i]);
        freeReplyObject(message);
    }
    assert_int_equal(host.port, 7); /* untouched */
    message = parse(MESSAGE("sale 10.0.0.1 6379 10.0.0.2 6380"));
    assert_true(redis_discovery_switch(message, "sale", &host));
    assert_string_equal(host.name, "10.0.0.2");
    assert_int_equal(host.port, 6380);
    freeReplyObject(message);
}

static void test_redis_error_has_code__at_the_begin_or_quoted(void **state)
{
    (void)state;
    assert_true(redis_error_has_code("BUSY Redis is busy", "BUSY"));
    assert_true(redis_error_has_code("BUSY", "BUSY"));
    assert_true(redis_error_has_code("ERR Error running script (call to f_1): "
                                     "@user_script:4: -READONLY You can't write",
                                     "READONLY"));
    assert_true(redis_error_has_code("reply to AUTH: WRONGPASS invalid", "WRONGPASS"));
    assert_false(redis_error_has_code("BUSYGROUP exists", "BUSY"));
    assert_false(redis_error_has_code("ERR it is BUSY now", "BUSY"));
    assert_false(redis_error_has_code("ERR NOT-BUSY now", "BUSY"));
    assert_false(redis_error_has_code("", "BUSY"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_discovery_check__knows_primaries_and_sentinels),
        cmocka_unit_test(test_redis_discovery_address__takes_a_name_and_a_port_only),
        cmocka_unit_test(test_redis_discovery_promoted__finds_the_next_primary),
        cmocka_unit_test(test_redis_discovery_switch__reads_messages_about_its_primary),
        cmocka_unit_test(test_redis_error_has_code__at_the_begin_or_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
