/* test_store_probe.c - what the store reports of a server that hangs, or whose commits wait. */
#include "app/test/store/shop_fixture.h"

#define TICK_MS INT64_C(150)
#define PROBE   "probe probe 751/1000: "

static int open_probed(void **state)
{
    struct store_options options = options_of_shop();

    reset(state);
    fake_probes = true;
    open_store(&options);
    pass_ms(TICK_MS);
    return 0;
}

#define PROBE_CASE(name) DEFINE_CASE(name, name, open_probed, close_shop, NULL)

PROBE_CASE(test_probe__asks_again_when_it_was_answered)
{
    ASSERT_SENT(PROBE);
    pass_ms(2 * TICK_MS);
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    fake_answer(RLOCK_OK, "0;");
    ASSERT_SENT("nothing");
    pass_ms(TICK_MS - 1);
    ASSERT_SENT("nothing");
    pass_ms(1);
    ASSERT_SENT(PROBE);
    ASSERT_SAID("");
}

PROBE_CASE(test_probe__reports_a_late_answer_until_it_comes)
{
    pass_ms(5 * TICK_MS - 1);
    ASSERT_SAID("");
    assert_true(store_is_up(shop));
    pass_ms(1);
    ASSERT_SAID("down timeout;");
    assert_false(store_is_up(shop));
    pass_ms(5 * TICK_MS);
    ASSERT_SAID("");
    fake_answer(RLOCK_OK, "0;");
    ASSERT_SAID("up ;");
    assert_true(store_is_up(shop));
    pass_ms(5 * TICK_MS);
    ASSERT_SAID("");
    pass_ms(TICK_MS);
    ASSERT_SAID("down timeout;");
}

PROBE_CASE(test_probe__reports_a_late_answer_while_it_reconnects)
{
    pass_ms(5 * TICK_MS);
    ASSERT_SAID("down timeout;");
    fake_lose(conn_of(ROLE_PROBE), RLOCK_TIMEOUT);
    pass_ms(TICK_MS);
    assert_false(store_is_up(shop));
    fake_come_up(conn_of(ROLE_PROBE));
    ASSERT_SAID("");
    pass_ms(TICK_MS);
    fake_answer(RLOCK_OK, "0;");
    ASSERT_SAID("up ;");
}

/* The connection of the probe is refused, for example because there are too many connections. */
PROBE_CASE(test_probe__is_no_obstacle_when_the_store_has_connected_again)
{
    pass_ms(5 * TICK_MS);
    ASSERT_SAID("down timeout;");
    fake_lose(conn_of(ROLE_PROBE), RLOCK_TIMEOUT);
    fake_lose(conn_of(ROLE_MAIN), RLOCK_TIMEOUT);
    fake_come_up(conn_of(ROLE_MAIN));
    assert_true(store_is_up(shop));
}

static void delay_tick(int64_t ms)
{
    for (size_t i = 0; i < SIMULATED_TIMERS_MAX; i++) {
        if (simulated_timers[i].timer == &shop->probe.timer)
            simulated_timers[i].due_us += ms * 1000;
    }
    pass_ms(TICK_MS + ms);
}

PROBE_CASE(test_probe__does_not_count_late_ticks)
{
    for (unsigned i = 0; i < 20; i++)
        delay_tick(75);
    ASSERT_SAID("");
    for (unsigned i = 0; i < 5; i++)
        delay_tick(74);
    ASSERT_SAID("down timeout;");
}

PROBE_CASE(test_probe__takes_no_batch_while_commits_wait)
{
    fake_answer(RLOCK_OK, "1;");
    ASSERT_SAID(""); /* the probe may have seen a commit that has just begun */
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 2);
    pass_ms(TICK_MS);
    fake_answer(RLOCK_OK, "1;");
    ASSERT_SAID("down lost;");
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 0);
    pass_ms(TICK_MS);
    fake_answer(RLOCK_OK, "1;");
    ASSERT_SAID("");
    pass_ms(TICK_MS);
    fake_answer(RLOCK_OK, "0;");
    ASSERT_SAID("up ;");
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 2);
}

PROBE_CASE(test_probe__tells_that_commits_wait_after_a_lost_connection)
{
    fake_lose(conn_of(ROLE_LANE), RLOCK_TIMEOUT);
    ASSERT_SAID("down timeout;");
    fake_answer(RLOCK_OK, "1;");
    pass_ms(TICK_MS);
    fake_answer(RLOCK_OK, "1;");
    ASSERT_SAID("down lost;");
    fake_come_up(conn_of(ROLE_LANE));
    ASSERT_SAID("");
}

PROBE_CASE(test_probe__is_of_a_store_with_lanes)
{
    struct store_options options = options_of_shop();

    close_shop(NULL);
    reset(NULL);
    fake_probes = true;
    options.lanes = 0;
    open_store(&options);
    pass_ms(10 * TICK_MS);
    ASSERT_SENT("nothing");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
