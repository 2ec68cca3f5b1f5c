/* test_inspect.c - queries about names, and replies that no real server sends. */
#include "lock/internal.h"
#include "test/cases.h"
#include "test/fake.h"
#include "test/torture.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME      "item:7"
#define OTHER     "00000000-0000-4000-8000-000000000000:1" /* owner of NAME */
#define ROW(name) "*5\r\n+" name "\r\n+" OTHER "\r\n:5\r\n:2\r\n:3\r\n"

struct inspect_test {
    uv_loop_t loop;
    long blocks; /* number of allocated blocks before the test */
    struct rlock_client *client;
    struct fake *fake;
    unsigned answers, owners, wanted; /* the list ends after `wanted` owners */
    enum rlock_status status;
    struct rlock_info info;
    char name[32], owner[64];
};

static void inspect_on_info(enum rlock_status status, const struct rlock_info *info,
                            void *arg)
{
    struct inspect_test *test = arg;

    test->answers++;
    test->status = status;
    assert_int_equal(info != NULL, status == RLOCK_OK);
    if (info == NULL)
        return;
    test->info = *info;
    snprintf(test->name, sizeof(test->name), "%.*s", (int)info->name_len, info->name);
    snprintf(test->owner, sizeof(test->owner), "%.*s", (int)info->owner_len, info->owner);
}

static void inspect_on_end(enum rlock_status status, void *arg)
{
    struct inspect_test *test = arg;

    test->answers++;
    test->status = status;
}

static bool inspect_on_owner(const struct rlock_info *info, void *arg)
{
    struct inspect_test *test = arg;

    assert_ptr_equal(info->client, test->client);
    return ++test->owners < test->wanted;
}

/** Wait for a call. Reply with an array of the number of the call and `count` more elements, or
 *  with an error. */
static void reply(struct inspect_test *test, size_t count, const char *elements)
{
    struct fake *fake = test->fake;
    char text[1024], *number;

    while (fake->heard_len == 0)
        uv_run(&test->loop, UV_RUN_ONCE);
    fake->heard[fake->heard_len - 2] = '\0';
    number = strrchr(fake->heard, '\n') + 1;
    snprintf(text, sizeof(text), "*%zu\r\n+%s\r\n%s", count + 1, number, elements);
    fake_say(fake, elements[0] == '-' ? elements : text);
    fake->heard_len = 0;
}

static enum rlock_status await_answer(struct inspect_test *test)
{
    while (test->answers == 0)
        uv_run(&test->loop, UV_RUN_ONCE);
    assert_int_equal(test->answers, 1);
    test->answers = 0;
    return test->status;
}

static int set_up(void **state)
{
    struct inspect_test *test = calloc(1, sizeof(*test));
    struct rlock_client_options options = {.loop = &test->loop, .timeout_ms = 60000};

    test->blocks = torture_blocks();
    assert_int_equal(uv_loop_init(&test->loop), 0);
    test->fake = fake_start(&test->loop, NULL);
    options.redis_url = test->fake->url;
    ASSERT_STATUS(rlock_client_open(&options, &test->client, NULL), RLOCK_OK);
    /* reply to the call that raises the fence counter */
    reply(test, 2, ":1000000\r\n:9000000000000000\r\n");
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct inspect_test *test = *state;

    fake_stop(test->fake);
    rlock_client_close(test->client, NULL, NULL);
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    torture_expect_blocks(test->blocks);
    free(test);
    return 0;
}

static void inspect(struct inspect_test *test)
{
    rlock_inspect(test->client, NAME, strlen(NAME), inspect_on_info, test);
    rlock_flush(test->client);
}

static void list(struct inspect_test *test, const char *name, unsigned wanted)
{
    test->owners = 0;
    test->wanted = wanted;
    rlock_list(test->client, name, name == NULL ? 0 : strlen(name), inspect_on_owner,
               inspect_on_end, test);
    rlock_flush(test->client);
}

static void force(struct inspect_test *test)
{
    rlock_force_release(test->client, NAME, strlen(NAME), inspect_on_end, test);
    rlock_flush(test->client);
}

#define INSPECT_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

INSPECT_CASE(test_rlock_inspect__tells_all_of_the_owner)
{
    struct inspect_test *test = *state;

    inspect(test);
    reply(test, 2, "+0\r\n" ROW(NAME));
    ASSERT_STATUS(await_answer(test), RLOCK_OK);
    assert_ptr_equal(test->info.client, test->client);
    assert_string_equal(test->name, NAME);
    assert_string_equal(test->owner, OTHER);
    ASSERT_NUMBER(test->info.remaining_ms, ==, 5);
    ASSERT_NUMBER(test->info.count, ==, 2);
    ASSERT_NUMBER(test->info.waiters, ==, 3);
    assert_false(test->info.is_ours);
    assert_false(test->info.is_near);
}

INSPECT_CASE(test_rlock_inspect__knows_its_own_id_and_host)
{
    enum { HOST_LAST = 7 }; /* index of the last byte of the host's part */
    struct inspect_test *test = *state;

    for (int differs = 0; differs <= RLOCK_CLIENT_ID_LEN; differs++) {
        char id[RLOCK_CLIENT_ID_LEN + 1], row[256];

        memcpy(id, test->client->id, sizeof(id));
        if (differs < RLOCK_CLIENT_ID_LEN)
            id[differs] = 'x';
        snprintf(row, sizeof(row), "+0\r\n*5\r\n+%s\r\n+%s:1\r\n:5\r\n:2\r\n:3\r\n", NAME,
                 id);
        inspect(test);
        reply(test, 2, row);
        ASSERT_STATUS(await_answer(test), RLOCK_OK);
        if (test->info.is_ours != (differs == RLOCK_CLIENT_ID_LEN) ||
            test->info.is_near != (differs > HOST_LAST))
            fail_msg("byte %d differs: is_ours %d, is_near %d", differs,
                     test->info.is_ours, test->info.is_near);
    }
}

INSPECT_CASE(test_rlock_inspect__refuses_replies_of_other_shapes)
{
    static const struct {
        size_t count;
        const char *elements;
        size_t tag_len; /* length of the tag of names on this server */
        enum rlock_status status;
    } cases[] = {
        {0, "", 0, RLOCK_IO},
        {1, "+0\r\n", 0, RLOCK_NOT_FOUND},
        {1, ":0\r\n", 0, RLOCK_IO},
        {2, ":0\r\n" ROW(NAME), 0, RLOCK_IO},
        {2, "+0\r\n+x\r\n", 0, RLOCK_IO},
        {2, "+0\r\n*0\r\n", 0, RLOCK_IO},
        {2, "+0\r\n*5\r\n:1\r\n+o\r\n:5\r\n:2\r\n:3\r\n", 0, RLOCK_IO},
        {2, "+0\r\n*5\r\n+n\r\n:1\r\n:5\r\n:2\r\n:3\r\n", 0, RLOCK_IO},
        {2, "+0\r\n*5\r\n+n\r\n+o\r\n+5\r\n:2\r\n:3\r\n", 0, RLOCK_IO},
        {2, "+0\r\n*5\r\n+n\r\n+o\r\n:5\r\n+2\r\n:3\r\n", 0, RLOCK_IO},
        {2, "+0\r\n*5\r\n+n\r\n+o\r\n:5\r\n:2\r\n+3\r\n", 0, RLOCK_IO},
        {2, "+0\r\n" ROW("{3}"), 3, RLOCK_OK},
        {2, "+0\r\n" ROW("{3"), 3, RLOCK_IO},
        {0, "-WRONGTYPE no lock\r\n", 0, RLOCK_REFUSED},
    };
    struct inspect_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        enum rlock_status status;

        inspect(test);
        test->client->servers[0].tag_len = cases[i].tag_len;
        reply(test, cases[i].count, cases[i].elements);
        status = await_answer(test);
        test->client->servers[0].tag_len = 0;
        if (status != cases[i].status)
            fail_msg("case %zu: expected %s, got %s", i,
                     rlock_status_name(cases[i].status), rlock_status_name(status));
    }
    ASSERT_NUMBER(test->info.name_len, ==, 0); /* a name that is only a tag is empty */
}

INSPECT_CASE(test_rlock_list__ends_when_it_is_told_to)
{
    static const struct {
        size_t count;
        const char *elements;
        unsigned wanted, owners;
        enum rlock_status status;
    } cases[] = {
        {1, "+0\r\n", 9, 0, RLOCK_OK},
        {3, "+0\r\n" ROW("a") ROW("b"), 9, 2, RLOCK_OK},
        {3, "+0\r\n" ROW("a") ROW("b"), 1, 1, RLOCK_OK},
        {3, "+0\r\n" ROW("a") "*0\r\n", 9, 1, RLOCK_IO},
        {0, "", 9, 0, RLOCK_IO},
        {0, "-OOM\r\n", 9, 0, RLOCK_REFUSED},
    };
    struct inspect_test *test = *state;

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        enum rlock_status status;

        list(test, i % 2 == 0 ? NAME : NULL, cases[i / 2].wanted);
        reply(test, cases[i / 2].count, cases[i / 2].elements);
        status = await_answer(test);
        if (status != cases[i / 2].status || test->owners != cases[i / 2].owners)
            fail_msg("case %zu: expected %u owners and %s, got %u and %s", i / 2,
                     cases[i / 2].owners, rlock_status_name(cases[i / 2].status),
                     test->owners, rlock_status_name(status));
    }
}

INSPECT_CASE(test_rlock_list__scans_from_cursor_to_cursor)
{
    struct inspect_test *test = *state;

    list(test, NULL, 9);
    reply(test, 2, "+17\r\n" ROW("a"));
    reply(test, 1, "+18\r\n");
    ASSERT_CONTAINS(test->fake->heard, "\r\n$0\r\n\r\n$2\r\n17\r\n");
    assert_int_equal(test->answers, 0);
    reply(test, 2, "+0\r\n" ROW("b"));
    ASSERT_CONTAINS(test->fake->heard, "\r\n$0\r\n\r\n$2\r\n18\r\n");
    ASSERT_STATUS(await_answer(test), RLOCK_OK);
    assert_int_equal(test->owners, 2);
}

INSPECT_CASE(test_rlock_force_release__is_not_found_when_nothing_was_deleted)
{
    static const struct {
        size_t count;
        const char *elements;
        enum rlock_status status;
    } cases[] = {
        {1, ":1\r\n", RLOCK_OK}, {1, ":0\r\n", RLOCK_NOT_FOUND}, {0, "", RLOCK_IO},
        {1, "+1\r\n", RLOCK_IO}, {0, "-OOM\r\n", RLOCK_REFUSED},
    };
    struct inspect_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        force(test);
        reply(test, cases[i].count, cases[i].elements);
        if (await_answer(test) != cases[i].status)
            fail_msg("case %zu: expected %s, got %s", i,
                     rlock_status_name(cases[i].status), rlock_status_name(test->status));
    }
    ASSERT_CONTAINS(test->fake->heard, "\r\n$6\r\nitem:7\r\n$12\r\nitem:7:queue\r\n"
                                       "$12\r\nitem:7:beats\r\n");
}

INSPECT_CASE(test_queries__that_cannot_be_sent_are_answered)
{
    struct inspect_test *test = *state;
    void (*const queries[])(struct inspect_test * test) = {inspect, force};

    for (size_t i = 0; i < 2; i++) {
        torture_fail(1, 0);
        queries[i](test);
        assert_true(torture_stop());
        ASSERT_STATUS(await_answer(test), RLOCK_NO_MEMORY);
        test->client->process++; /* as in a child after fork() */
        queries[i](test);
        test->client->process--;
        ASSERT_STATUS(await_answer(test), RLOCK_INVALID);
        test->client->is_closing = true;
        queries[i](test);
        test->client->is_closing = false;
        assert_int_equal(test->answers, 0); /* no callback came from inside the call */
        ASSERT_STATUS(await_answer(test), RLOCK_CANCELLED);
    }
    list(test, "", 9);
    ASSERT_STATUS(await_answer(test), RLOCK_INVALID);
    rlock_force_release(test->client, "", 0, NULL, NULL);
    assert_int_equal(test->fake->heard_len, 0);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
