/* test_lock_server.c - what a client knows of the clock and of the fences of a server. */
#include "lock/server.h"
#include "test/cases.h"

#include <hiredis/hiredis.h>

#define TIMEOUT_US 1000000

UNIT_CASE(test_rlock_server_latest_us__is_of_the_shortest_delay)
{
    static const struct {
        int64_t clock_us, sent_us;
        bool is_wrong;
        int64_t ahead_us;
    } cases[] = {
        {5000, 1000, false, 4000},     {9000, 1000, false, 4000}, /* a longer delay */
        {4999, 1000, false, 3999},     {9000, 1000, true, 8000}, /* the clock was moved */
        {0, 1000000, false, -1000000},
    };
    struct rlock_client client = {.timeout_ms = TIMEOUT_US / 1000};
    struct rlock_server server = {.client = &client, .ahead_us = INT64_MAX / 4};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rlock_server_saw_clock(&server, cases[i].clock_us, cases[i].sent_us,
                               cases[i].is_wrong);
        ASSERT_NUMBER(rlock_server_latest_us(&server, 7), ==,
                      cases[i].ahead_us + 7 + TIMEOUT_US);
    }
    rlock_server_saw_clock(&server, 0, TIMEOUT_US + 8, false);
    ASSERT_NUMBER(rlock_server_latest_us(&server, 8), ==, 0);
    ASSERT_NUMBER(rlock_server_latest_us(&server, 7), ==, 0); /* never below zero */
}

UNIT_CASE(test_rlock_server_saw_fences__refuses_smaller_ones)
{
    /* no further call is sent to raise the counter */
    struct rlock_server server = {.is_raising = true};

    assert_true(rlock_server_saw_fences(&server, 10, 3));
    ASSERT_NUMBER(server.last_fence, ==, 13);
    assert_false(rlock_server_saw_fences(&server, 12, 5));
    ASSERT_NUMBER(server.last_fence, ==, 13);
    assert_true(rlock_server_saw_fences(&server, 13, 1));
    ASSERT_NUMBER(server.last_fence, ==, 14);
}

UNIT_CASE(test_rlock_refusal__tells_the_reasons_apart)
{
    static const struct {
        const char *text;
        enum rlock_refusal refusal;
    } cases[] = {
        {"OOM command not allowed", RLOCK_REFUSED_MEMORY},
        {"NOAUTH Authentication required.", RLOCK_REFUSED_LOGIN},
        {"WRONGPASS invalid", RLOCK_REFUSED_LOGIN},
        {"NOPERM this user", RLOCK_REFUSED_PERMISSION},
        {"WRONGTYPE Operation", RLOCK_REFUSED_TYPE},
        {"MISCONF Redis is configured", RLOCK_REFUSED_DISK},
        {"ERR The user executing the script can't run it", RLOCK_REFUSED_PERMISSION},
        {"ERR ACL failure in script: no", RLOCK_REFUSED_PERMISSION},
        {"ERR unknown", RLOCK_REFUSED_OTHER},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_err err = {.status = RLOCK_REFUSED};

        err_set(&err, RLOCK_REFUSED, "%s", cases[i].text);
        if (rlock_refusal(&err) != cases[i].refusal)
            fail_msg("%s: expected refusal %d, got %d", cases[i].text,
                     (int)cases[i].refusal, (int)rlock_refusal(&err));
    }
}

UNIT_CASE(test_rlock_server_refused__is_down_where_it_may_pass)
{
    static const struct {
        char text[32];
        enum rlock_status status;
    } cases[] = {
        {"BUSY Redis is busy", RLOCK_DOWN}, {"LOADING", RLOCK_DOWN},
        {"READONLY", RLOCK_DOWN},           {"MASTERDOWN", RLOCK_DOWN},
        {"TRYAGAIN", RLOCK_DOWN},           {"CLUSTERDOWN", RLOCK_DOWN},
        {"ASK 7 h:1", RLOCK_DOWN},          {"OOM command not allowed", RLOCK_REFUSED},
    };
    struct rlock_client client = {.timeout_ms = 1};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[32];
        redisReply error = {.type = REDIS_REPLY_ERROR, .str = text};

        memcpy(text, cases[i].text, sizeof(text));
        error.len = strlen(text);
        ASSERT_STATUS(rlock_server_refused(&client, (void *)&error), cases[i].status);
        ASSERT_STATUS(client.why.status, cases[i].status);
        assert_string_equal(client.why.text, text);
    }
    ASSERT_STATUS(rlock_server_refused(&client, NULL), RLOCK_REFUSED);
    assert_string_equal(client.why.text, "no message");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
