/* test_backoff.c - pauses between attempts. */
#include "base/backoff.h"
#include "test/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/** Return the shortest pause that a random number gives. The next function returns the longest. */
static uint32_t least_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms)
{
    return backoff_ms(attempt, min_ms, max_ms, 0);
}

static uint32_t most_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms)
{
    uint32_t most = 0;

    for (uint32_t random = 0; random <= max_ms; random++) {
        uint32_t pause_ms = backoff_ms(attempt, min_ms, max_ms, random);

        most = pause_ms > most ? pause_ms : most;
    }
    return most;
}

UNIT_CASE(test_backoff_ms__grows_twofold_up_to_the_most)
{
    static const uint32_t wanted_ms[] = {10, 20, 40, 80, 100, 100};

    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(most_ms(i, 10, 100), wanted_ms[i]);
        assert_int_equal(least_ms(i, 10, 100), wanted_ms[i] / 2);
    }
}

UNIT_CASE(test_backoff_ms__every_number_stays_within_its_bounds)
{
    for (unsigned attempt = 0; attempt < 70; attempt++) {
        for (uint32_t random = 0; random < 1000; random++) {
            uint32_t pause_ms = backoff_ms(attempt, 7, 333, random * UINT64_C(4294967));

            ASSERT_BETWEEN(pause_ms, attempt == 0 ? 4 : 7, 333);
        }
    }
}

UNIT_CASE(test_backoff_ms__uses_all_of_its_range)
{
    bool is_seen[101] = {false};

    for (uint32_t random = 0; random < 1000; random++)
        is_seen[backoff_ms(9, 1, 100, random)] = true;
    for (unsigned i = 0; i <= 100; i++)
        assert_int_equal(is_seen[i], i >= 50);
}

UNIT_CASE(test_backoff_ms__never_pauses_for_nothing)
{
    assert_int_equal(least_ms(0, 0, 100), 1);
    assert_int_equal(most_ms(0, 0, 100), 1);
    assert_int_equal(least_ms(0, 1, 1), 1);
    assert_int_equal(most_ms(50, 1, 1), 1);
    assert_int_equal(least_ms(0, 1, 3), 1);
}

UNIT_CASE(test_backoff_ms__takes_any_numbers)
{
    static const uint32_t randoms[] = {0, 1, UINT32_MAX};

    for (unsigned i = 0; i < 3; i++) {
        uint32_t pause_ms = backoff_ms(UINT32_MAX, UINT32_MAX, UINT32_MAX, randoms[i]);

        ASSERT_BETWEEN(pause_ms, UINT32_MAX / 2, UINT32_MAX);
        assert_int_equal(backoff_ms(3, 5, 0, randoms[i]), 0);
        ASSERT_BETWEEN(backoff_ms(0, 50, 20, randoms[i]), 10, 20);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
