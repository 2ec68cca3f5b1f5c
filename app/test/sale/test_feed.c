/*
 * test_feed.c - readers of the feed, with a scripted store and simulated time.
 *
 * A question is a call of store_advance_feed(), which says up to which number changes can be read.
 * A read is a call of store_list_feed().
 */
#include "app/sale/feed.h"

#include "app/test/append.h"
#include "app/test/simulated_time.h"
#include "test/asserts.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <stdlib.h>

#define SECOND_US INT64_C(1000000)

/* -- the fake store: the test answers the question how far the feed goes, and the reads -- */

static struct {
    int64_t until;
    int questions;
    store_feed_cb asked;
    void *asked_arg;
    int reads;
    struct feed_filter filter;
    store_events_cb listed[FEED_POLLS_MAX];
    void *listed_args[FEED_POLLS_MAX];
    size_t listed_count;
} fake;

int64_t store_feed_until(const struct store *store UNUSED)
{
    return fake.until;
}

void store_advance_feed(struct store *store UNUSED, store_feed_cb callback, void *arg)
{
    assert_null(fake.asked); /* one question at a time, as store.h demands */
    fake.questions++;
    fake.asked = callback;
    fake.asked_arg = arg;
}

void store_list_feed(struct store *store UNUSED, const struct feed_filter *filter,
                     store_events_cb callback, void *arg)
{
    fake.reads++;
    fake.filter = *filter;
    fake.listed[fake.listed_count] = callback;
    fake.listed_args[fake.listed_count++] = arg;
}

static void answer_question(enum rlock_status status, int64_t until, bool is_complete)
{
    store_feed_cb asked = fake.asked;

    assert_non_null(asked);
    fake.asked = NULL;
    fake.until = until;
    asked(status, is_complete, fake.asked_arg);
}

static void answer_read(enum rlock_status status, size_t count)
{
    static const struct event events[3] = {{.id = 1}, {.id = 2}, {.id = 3}};
    store_events_cb listed = fake.listed[0];
    void *arg = fake.listed_args[0];

    assert_true(fake.listed_count > 0);
    memmove(fake.listed, fake.listed + 1, --fake.listed_count * sizeof(listed));
    memmove(fake.listed_args, fake.listed_args + 1, fake.listed_count * sizeof(arg));
    listed(status, events, count, arg);
}

/* -- the fixture -- */

static uv_loop_t loop;
static struct metrics metrics;
static struct feed *feed;
static struct feed_poll polls[FEED_POLLS_MAX + 1];
static bool is_gone;
static char done[2000];

static bool test_is_gone(const struct feed_poll *poll)
{
    return is_gone && poll == &polls[0];
}

static void test_on_done(struct feed_poll *poll, enum rlock_status status,
                         const struct event *events, size_t count)
{
    assert_true(count == 0 || events != NULL);
    append(done, sizeof(done), "%d: %s %zu;", (int)(poll - polls),
           rlock_status_name(status), count);
}

#define ASSERT_DONE(wanted) assert_done(wanted, __FILE__, __LINE__)

static void assert_done(const char *wanted, const char *file, int line)
{
    asserts_text(done, wanted, "answers since the last step", file, line);
    done[0] = '\0';
}

static int open_feed(void **state UNUSED)
{
    memset(&fake, 0, sizeof(fake));
    memset(polls, 0, sizeof(polls));
    is_gone = false;
    done[0] = '\0';
    simulated_time_reset();
    uv_loop_init(&loop);
    feed = feed_open(&loop, NULL, &metrics);
    return feed == NULL;
}

static int close_feed(void **state UNUSED)
{
    feed_close(feed);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

#define TEST(name) DEFINE_CASE(name, name, open_feed, close_feed, NULL)

static bool read_at(int reader, int64_t first, int64_t wait_us)
{
    polls[reader] = (struct feed_poll){.after = {first, first},
                                       .limit = 20,
                                       .end_us = simulated_us + wait_us,
                                       .is_gone = test_is_gone,
                                       .done = test_on_done};
    return feed_read(feed, &polls[reader]);
}

static void wait_at_30(int reader, int64_t wait_us)
{
    fake.until = 30;
    assert_true(read_at(reader, 30, wait_us));
    answer_read(RLOCK_OK, 0);
}

static void turn(void)
{
}

static void pass_us(int64_t us)
{
    simulated_time_pass_us(us, turn);
}

/* -- tests -- */

TEST(test_feed_read__of_what_is_known_asks_nothing)
{
    fake.until = 30;
    /* The changes of a batch share a number, so a batch with the number 30 may have further
       changes. */
    assert_true(read_at(0, 30, 0));
    ASSERT_NUMBER(fake.reads, ==, 1);
    ASSERT_NUMBER(fake.filter.after.first, ==, 30);
    ASSERT_NUMBER(fake.filter.limit, ==, 20);
    ASSERT_NUMBER(metrics.feed_readers, ==, 1);
    ASSERT_DONE("");
    answer_read(RLOCK_OK, 2);
    ASSERT_DONE("0: ok 2;");
    ASSERT_NUMBER(fake.questions, ==, 0);
    ASSERT_NUMBER(metrics.feed_readers, ==, 0);
}

TEST(test_feed_read__waits_for_the_next_change)
{
    wait_at_30(0, SECOND_US);
    ASSERT_NUMBER(fake.questions, ==, 1);
    answer_question(RLOCK_OK, 30, true);
    pass_us(99000);
    ASSERT_NUMBER(fake.questions, ==, 1);
    pass_us(1000);
    ASSERT_NUMBER(fake.questions, ==, 2);
    answer_question(RLOCK_OK, 31, true);
    ASSERT_NUMBER(fake.reads, ==, 2);
    answer_read(RLOCK_OK, 1);
    ASSERT_DONE("0: ok 1;");
    pass_us(SECOND_US);
    ASSERT_NUMBER(fake.questions, ==, 2);
}

/* The change with number 31 was rolled back, so the page up to 31 is empty. The reader must wait
   again. */
TEST(test_feed_read__waits_again_after_an_empty_page)
{
    assert_true(read_at(0, 30, SECOND_US));
    answer_question(RLOCK_OK, 31, true);
    answer_read(RLOCK_OK, 0);
    pass_us(100000);
    answer_question(RLOCK_OK, 31, true);
    ASSERT_NUMBER(fake.reads, ==, 1);
    pass_us(100000);
    answer_question(RLOCK_OK, 32, true);
    answer_read(RLOCK_OK, 1);
    ASSERT_DONE("0: ok 1;");
}

/* One reader gets an empty page and must ask again. This must not delay the next question, which
   the other reader needs. */
TEST(test_feed_read__does_not_delay_others)
{
    wait_at_30(0, SECOND_US);
    fake.until = 20;
    assert_true(read_at(1, 21, SECOND_US));
    answer_question(RLOCK_OK, 20, true);
    answer_question(RLOCK_OK, 20, false);
    ASSERT_NUMBER(fake.reads, ==, 1);
    pass_us(100000);
    answer_question(RLOCK_OK, 21, false);
    ASSERT_NUMBER(fake.reads, ==, 2);
    pass_us(50000);
    answer_read(RLOCK_OK, 0);
    pass_us(50000);
    ASSERT_NUMBER(fake.questions, ==, 4);
    feed_drain(feed);
    answer_question(RLOCK_OK, 21, false);
}

TEST(test_feed_read__ends_with_an_empty_page)
{
    wait_at_30(0, 150000);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("");
    pass_us(100000);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("");
    pass_us(100000);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("0: ok 0;");
}

/* If no change is under way, the first answer is enough. Otherwise the reader gets three
   answers. */
TEST(test_feed_read__without_a_wait)
{
    wait_at_30(0, 0);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("0: ok 0;");
    wait_at_30(0, 0);
    answer_question(RLOCK_OK, 30, false);
    pass_us(100000);
    answer_question(RLOCK_OK, 30, false);
    ASSERT_DONE("");
    pass_us(100000);
    answer_question(RLOCK_OK, 30, false);
    ASSERT_DONE("0: ok 0;");
}

TEST(test_feed_read__shares_questions)
{
    wait_at_30(0, SECOND_US);
    wait_at_30(1, 0);
    ASSERT_NUMBER(fake.questions, ==, 1);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("");
    ASSERT_NUMBER(fake.questions, ==, 2);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("1: ok 0;");
    /* Changes after 20 are already known, so reader 2 does not ask. */
    assert_true(read_at(2, 20, SECOND_US));
    answer_read(RLOCK_OK, 3);
    ASSERT_DONE("2: ok 3;");
    pass_us(100000);
    answer_question(RLOCK_OK, 31, true);
    answer_read(RLOCK_OK, 1);
    ASSERT_DONE("0: ok 1;");
}

TEST(test_feed_read__fails_with_the_store)
{
    wait_at_30(0, SECOND_US);
    wait_at_30(1, SECOND_US);
    answer_question(RLOCK_DOWN, 0, false);
    ASSERT_DONE("0: down 0;1: down 0;");
    fake.until = 40;
    assert_true(read_at(0, 30, SECOND_US));
    answer_read(RLOCK_IO, 0);
    ASSERT_DONE("0: io 0;");
}

TEST(test_feed_read__has_a_limit)
{
    for (int i = 0; i < FEED_POLLS_MAX; i++)
        wait_at_30(i, SECOND_US);
    assert_false(read_at(FEED_POLLS_MAX, 30, SECOND_US));
    ASSERT_NUMBER(metrics.feed_readers, ==, FEED_POLLS_MAX);
    is_gone = true;
    answer_question(RLOCK_OK, 30, true);
    ASSERT_DONE("0: ok 0;");
    is_gone = false;
    wait_at_30(FEED_POLLS_MAX, SECOND_US);
    feed_drain(feed);
    assert_non_null(strstr(done, "64: ok 0;"));
}

/* If the drain begins during a read, its reader gets the result and does not wait again. */
TEST(test_feed_drain__ends_all_waits)
{
    fake.until = 30;
    assert_true(read_at(0, 40, SECOND_US));
    assert_true(read_at(1, 30, SECOND_US));
    feed_drain(feed);
    ASSERT_DONE("0: ok 0;");
    answer_read(RLOCK_OK, 0);
    ASSERT_DONE("1: ok 0;");
    assert_true(read_at(2, 40, SECOND_US));
    ASSERT_DONE("");
    answer_read(RLOCK_OK, 0);
    ASSERT_DONE("2: ok 0;");
    ASSERT_NUMBER(fake.questions, ==, 1);
}

TEST(test_feed__notes_what_holds_it_back)
{
    wait_at_30(0, 10 * SECOND_US);
    answer_question(RLOCK_OK, 30, false); /* another transaction is making a change */
    ASSERT_NUMBER(metrics.feed_held_since_us, ==, 0);
    pass_us(100000);
    answer_question(RLOCK_OK, 30, false);
    ASSERT_NUMBER(metrics.feed_held_since_us, ==, simulated_us);
    pass_us(100000);
    answer_question(RLOCK_OK, 30, false);
    ASSERT_NUMBER(metrics.feed_held_since_us, ==, simulated_us - 100000);
    pass_us(100000);
    answer_question(RLOCK_OK, 30, true);
    ASSERT_NUMBER(metrics.feed_held_since_us, ==, 0);
    pass_us(100000);
    answer_question(RLOCK_OK, 30, false);
    ASSERT_NUMBER(metrics.feed_held_since_us, !=, 0);
    feed_drain(feed);
    ASSERT_NUMBER(metrics.feed_held_since_us, ==, 0);
}

TEST(test_feed_open__without_memory)
{
    torture_fail(1, 0);
    assert_null(feed_open(&loop, NULL, &metrics));
    assert_true(torture_stop());
}

int main(void)
{
    return cases_run(NULL, NULL);
}
