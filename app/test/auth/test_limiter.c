/* test_limiter.c - rates and bursts, with an injected clock. */
#include "app/auth/limiter.h"
#include "test/case_list.h"
#include "test/torture.h"

UNIT_CASE(test_limiter_take__allows_a_burst_of_twice_the_rate)
{
    struct limiter *limiter = limiter_create(10);
    int allowed = 0;

    while (limiter_take(limiter, 1, 1000000) == 0)
        allowed++;
    assert_int_equal(allowed, 20);
    assert_int_equal(limiter_take(limiter, 1, 1000000), 100000);
    assert_int_equal(limiter_take(limiter, 2, 1000000), 0); /* another key */
    limiter_free(limiter);
}

UNIT_CASE(test_limiter_take__holds_the_rate_over_time)
{
    struct limiter *limiter = limiter_create(10);
    int allowed = 0;

    for (int64_t now_us = 0; now_us < 100 * INT64_C(1000000); now_us += 1000)
        allowed += limiter_take(limiter, 1, now_us) == 0;
    assert_in_range(allowed, 1000, 1020);
    limiter_free(limiter);
}

UNIT_CASE(test_limiter_take__admits_again_after_the_returned_time)
{
    struct limiter *limiter = limiter_create(1);
    int64_t now_us = 5000000;
    int64_t wait_us;

    while ((wait_us = limiter_take(limiter, 9, now_us)) == 0)
        ;
    assert_true(limiter_take(limiter, 9, now_us + wait_us - 1) > 0);
    assert_int_equal(limiter_take(limiter, 9, now_us + wait_us), 0);
    limiter_free(limiter);
}

UNIT_CASE(test_limiter_take__many_keys_do_not_free_a_busy_one)
{
    struct limiter *limiter = limiter_create(1);

    while (limiter_take(limiter, 77, 1000000) == 0)
        ;
    for (uint64_t key = 1000; key < 11000; key++)
        assert_int_equal(limiter_take(limiter, key, 1000000), 0);
    assert_true(limiter_take(limiter, 77, 1000000) > 0);
    limiter_free(limiter);
}

/* The table has sets of four places. A key belongs to one set, and its bucket is in one of the four
   places. If another key replaces the bucket, the key begins again with a full bucket. */
UNIT_CASE(test_limiter_take__replaces_the_bucket_that_is_full_first)
{
    struct limiter *limiter = limiter_create(1);
    int forgotten = 0;

    while (limiter_take(limiter, 77, 1000000) == 0)
        ;
    for (uint64_t key = 1000; key < 301000; key++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(limiter_take(limiter, key, 1500000), 0);
    }
    ASSERT_NUMBER(limiter_fill(limiter, 1500000), ==, 1000);
    for (uint64_t key = 1000; key < 301000; key++)
        forgotten += limiter_take(limiter, key, 1500000) == 0;
    assert_in_range(forgotten, 300000 - 65536, 300000);
    assert_int_equal(limiter_take(limiter, 77, 1500000), 0);
    limiter_free(limiter);
}

/* Consecutive keys spread over all sets, so that few of 65536 keys replace another. */
UNIT_CASE(test_limiter_take__keeps_a_key_in_each_place)
{
    struct limiter *limiter = limiter_create(1);
    int kept = 0;

    for (uint64_t key = 0; key < 65536; key++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(limiter_take(limiter, key, 1000000), 0);
    }
    for (uint64_t key = 65536; key-- > 0;)
        kept += limiter_take(limiter, key, 1000000) > 0;
    ASSERT_BETWEEN(kept, 60000, 65536);
    limiter_free(limiter);
}

/* All keys of this test are in one set: the set depends on the high bits of the key's product with
   the golden ratio, which are 0 here. */
UNIT_CASE(test_limiter_take__replaces_within_a_full_set)
{
    static const uint64_t golden_inverse = UINT64_C(0xf1de83e19937733d);
    struct limiter *limiter = limiter_create(10);

    for (uint64_t key = 1; key <= 4; key++) {
        for (int i = 0; i < (key == 3 ? 1 : 20); i++)
            assert_int_equal(limiter_take(limiter, key * golden_inverse, 1000000), 0);
    }
    assert_int_equal(limiter_take(limiter, 5 * golden_inverse, 1000000), 0);
    for (uint64_t key = 1; key <= 4; key++) {
        if (key != 3)
            assert_int_equal(limiter_take(limiter, key * golden_inverse, 1000000),
                             100000);
    }
    limiter_free(limiter);
}

UNIT_CASE(test_limiter_fill__counts_the_buckets_in_use)
{
    struct limiter *limiter = limiter_create(10);

    assert_int_equal(limiter_fill(NULL, 0), 0);
    assert_int_equal(limiter_fill(limiter, 1000000), 0);
    assert_int_equal(limiter_take(limiter, 0, 1000000), 0);
    assert_int_equal(limiter_fill(limiter, 1000000), 1);
    assert_int_equal(limiter_fill(limiter, 1100000), 0);
    assert_int_equal(limiter_rate_per_s(limiter), 10);
    limiter_free(limiter);
}

UNIT_CASE(test_limiter_create__without_memory)
{
    torture_fail(1, 0);
    assert_null(limiter_create(10));
    assert_true(torture_stop());
}

int main(void)
{
    return cases_run(NULL, NULL);
}
