/* test_base.c - the words of statuses and errors, the list, the clock that can be moved.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* needs the four above */

static void test_status_name__has_a_word_of_its_own_for_each(void **state)
{
    (void)state;
    for (int a = STATUS_OK; a <= STATUS_NO_MEMORY; a++) {
        assert_true(strlen(status_name((enum status)a)) > 1);
        assert_string_not_equal(status_name((enum status)a), "unknown");
        for (int b = STATUS_OK; b < a; b++)
            assert_string_not_equal(status_name((enum status)a),
                                    status_name((enum status)b));
    }
    assert_string_equal(status_name((enum status)(STATUS_NO_MEMORY + 1)), "unknown");
}

static void test_err_set__keeps_status_and_words(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(err_set(&err, STATUS_IO, "read %s: %d", "socket", 5), STATUS_IO);
    assert_int_equal(err.status, STATUS_IO);
    assert_string_equal(err.text, "read socket: 5");
    assert_int_equal(err_set(NULL, STATUS_BUSY, "nobody listens"), STATUS_BUSY);
}

static void test_err_set__cuts_to_fit_and_has_no_line_breaks(void **state)
{
    struct err err = {0};
    char longer[2 * sizeof(err.text)];

    (void)state;
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    (void)err_set(&err, STATUS_IO, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    (void)err_set(&err, STATUS_IO, "two\nlines\r\n");
    assert_null(strpbrk(err.text, "\r\n"));
}

static void test_err_prefix__goes_before_the_words(void **state)
{
    struct err err = {0};

    (void)state;
    (void)err_set(&err, STATUS_IO, "no such host");
    err_prefix(&err, "connect");
    assert_string_equal(err.text, "connect: no such host");
    assert_int_equal(err.status, STATUS_IO);
}

static void test_list__keeps_the_order_and_lets_any_link_go(void **state)
{
    struct list head, other, links[4];

    (void)state;
    list_init(&head);
    list_init(&other);
    assert_null(list_shift(&head));
    for (int i = 0; i < 4; i++)
        list_append(i < 2 ? &head : &other, &links[i]);
    list_append_all(&head, &other);
    assert_true(list_is_empty(&other));
    list_append_all(&head, &other); /* nothing */
    list_remove(&links[1]);
    list_remove(&links[1]); /* in no ring: harmless */
    assert_ptr_equal(list_shift(&head), &links[0]);
    assert_ptr_equal(list_shift(&head), &links[2]);
    assert_ptr_equal(list_shift(&head), &links[3]);
    assert_true(list_is_empty(&head));
}

static void test_clock_shift__moves_both_clocks(void **state)
{
    int64_t mono_us = clock_mono_us(), real_us = clock_real_us();

    (void)state;
    clock_shift_us(3600000000);
    assert_in_range(clock_mono_us() - mono_us, 3600000000, 3660000000);
    assert_in_range(clock_real_us() - real_us, 3600000000, 3660000000);
    clock_shift_us(-3600000000);
    assert_in_range(clock_mono_us() - mono_us, 0, 60000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_name__has_a_word_of_its_own_for_each),
        cmocka_unit_test(test_err_set__keeps_status_and_words),
        cmocka_unit_test(test_err_set__cuts_to_fit_and_has_no_line_breaks),
        cmocka_unit_test(test_err_prefix__goes_before_the_words),
        cmocka_unit_test(test_list__keeps_the_order_and_lets_any_link_go),
        cmocka_unit_test(test_clock_shift__moves_both_clocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
