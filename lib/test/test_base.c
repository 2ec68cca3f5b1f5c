/*
 * test_base.c - the names of statuses, the messages of errors, the list, and the clock that tests
 * shift.
 */
#include "base/clock.h"
#include "base/closing.h"
#include "base/err.h"
#include "base/list.h"
#include "base/random.h"
#include "test/cases.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t suspended_s;
static bool is_frozen;

/** Replaces the function of the C library. The clock may jump ahead, as after a suspend, or
 *  stand still. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *ret_time)
{
    int failure = (int)syscall(SYS_clock_gettime, id, ret_time);

    if (id == CLOCK_BOOTTIME)
        ret_time->tv_sec += suspended_s;
    if (is_frozen)
        *ret_time = (struct timespec){.tv_sec = 1000, .tv_nsec = 500};
    return failure;
}

UNIT_CASE(test_clock_mono_us__goes_on_during_a_suspend)
{
    int64_t before_us = clock_mono_us();

    suspended_s += 3600;
    ASSERT_NUMBER(clock_mono_us() - before_us, >=, INT64_C(3600000000));
}

UNIT_CASE(test_status_name__has_a_word_of_its_own_for_each)
{
    for (int a = RLOCK_OK; a <= RLOCK_NO_MEMORY; a++) {
        ASSERT_NUMBER(strlen(rlock_status_name((enum rlock_status)a)), >, 1);
        assert_string_not_equal(rlock_status_name((enum rlock_status)a), "unknown");
        for (int b = RLOCK_OK; b < a; b++)
            assert_string_not_equal(rlock_status_name((enum rlock_status)a),
                                    rlock_status_name((enum rlock_status)b));
    }
    assert_string_equal(rlock_status_name((enum rlock_status)(RLOCK_NO_MEMORY + 1)),
                        "unknown");
}

UNIT_CASE(test_err_set__keeps_status_and_words)
{
    struct rlock_err err = {0};

    ASSERT_STATUS(err_set(&err, RLOCK_IO, "read %s: %d", "socket", 5), RLOCK_IO);
    ASSERT_STATUS(err.status, RLOCK_IO);
    assert_string_equal(err.text, "read socket: 5");
    ASSERT_STATUS(err_set(NULL, RLOCK_BUSY, "nobody listens"), RLOCK_BUSY);
}

UNIT_CASE(test_err_set__cuts_to_fit_and_has_no_line_breaks)
{
    struct rlock_err err = {0};
    char longer[2 * sizeof(err.text)];

    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    (void)err_set(&err, RLOCK_IO, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    (void)err_set(&err, RLOCK_IO, "two\nlines\r\n");
    assert_string_equal(err.text, "two lines");
    (void)err_set(&err, RLOCK_IO, "\n");
    assert_string_equal(err.text, "");
}

UNIT_CASE(test_err_prefix__goes_before_the_words)
{
    struct rlock_err err = {0};

    (void)err_set(&err, RLOCK_IO, "no such host");
    err_prefix(&err, "connect");
    assert_string_equal(err.text, "connect: no such host");
    ASSERT_STATUS(err.status, RLOCK_IO);
}

UNIT_CASE(test_list__keeps_the_order_and_lets_any_link_go)
{
    struct rlock_link head, other, links[4];

    list_init(&head);
    list_init(&other);
    assert_null(list_shift(&head));
    for (int i = 0; i < 4; i++)
        list_append(i < 2 ? &head : &other, &links[i]);
    list_append_all(&head, &other);
    assert_true(list_is_empty(&other));
    list_append_all(&head, &other);
    list_remove(&links[1]);
    list_remove(&links[1]); /* the link is in no list, so this has no effect */
    assert_ptr_equal(list_shift(&head), &links[0]);
    assert_ptr_equal(list_shift(&head), &links[2]);
    assert_ptr_equal(list_shift(&head), &links[3]);
    assert_true(list_is_empty(&head));
}

struct item {
    int number;
    struct rlock_link link;
};

static void fill(struct rlock_link *head, struct item items[3])
{
    list_init(head);
    for (int i = 0; i < 3; i++) {
        items[i].number = i + 1;
        list_append(head, &items[i].link);
    }
}

static int digits_of(const struct rlock_link *head)
{
    int digits = 0;

    LIST_EACH(const struct item, item, head, link)
        digits = digits * 10 + item->number;
    return digits;
}

UNIT_CASE(test_list_insert_after__puts_the_link_behind_the_other)
{
    struct rlock_link head;
    struct item items[3], more = {.number = 4};

    fill(&head, items);
    list_insert_after(&items[0].link, &more.link);
    assert_int_equal(digits_of(&head), 1423);
    list_remove(&more.link);
    list_insert_after(&head, &more.link);
    assert_int_equal(digits_of(&head), 4123);
    list_remove(&more.link);
    list_insert_after(&items[2].link, &more.link);
    assert_int_equal(digits_of(&head), 1234);
}

UNIT_CASE(test_list_each__visits_all_in_order_and_none_of_an_empty_list)
{
    struct rlock_link head;
    struct item items[3];

    fill(&head, items);
    assert_int_equal(digits_of(&head), 123);
    list_init(&head);
    assert_int_equal(digits_of(&head), 0);
}

UNIT_CASE(test_list_each_safe__lets_the_body_remove_the_item)
{
    struct rlock_link head;
    struct item items[3];
    int visited = 0;

    fill(&head, items);
    LIST_EACH_SAFE(struct item, item, &head, link) {
        visited++;
        if (item->number != 2)
            list_remove(&item->link);
    }
    assert_int_equal(visited, 3);
    assert_int_equal(digits_of(&head), 2);
}

UNIT_CASE(test_list_drain__takes_out_all_and_what_the_body_adds)
{
    struct rlock_link head;
    struct item items[3], more = {.number = 4};
    int digits = 0;

    fill(&head, items);
    LIST_DRAIN(struct item, item, &head, link) {
        digits = digits * 10 + item->number;
        if (item->number == 1)
            list_append(&head, &more.link);
    }
    assert_int_equal(digits, 1234);
    assert_true(list_is_empty(&head));
    assert_null(LIST_SHIFT(struct item, &head, link));
}

UNIT_CASE(test_list_drain_present__leaves_what_the_body_adds)
{
    struct rlock_link head;
    struct item items[3], more = {.number = 4};
    int digits = 0;

    fill(&head, items);
    LIST_DRAIN_PRESENT(struct item, item, &head, link) {
        digits = digits * 10 + item->number;
        if (item->number == 1)
            list_append(&head, &more.link);
    }
    assert_int_equal(digits, 123);
    assert_int_equal(digits_of(&head), 4);
    list_init(&head);
    LIST_DRAIN_PRESENT(struct item, item, &head, link)
        fail();
}

UNIT_CASE(test_random__differs_from_call_to_call)
{
    uint64_t bytes[2] = {0};

    assert_true(random_fill(bytes, sizeof(bytes)));
    assert_true(bytes[0] != bytes[1]);
    assert_true(random_u64() != random_u64());
}

UNIT_CASE(test_random_u64__uses_all_bits)
{
    uint64_t bits = 0;

    for (int i = 0; i < 16; i++)
        bits |= random_u64();
    /* if the number were a clock, these bits would be 0 */
    ASSERT_NUMBER(bits >> 56, !=, 0);
}

struct owner {
    struct closing closing;
    uv_timer_t timers[2];
    int closed;
};

static void count_closed(void *owner)
{
    ((struct owner *)owner)->closed++;
}

UNIT_CASE(test_closing__tells_once_when_the_last_has_closed)
{
    struct owner owner = {.closed = 0};
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    closing_start(&owner.closing, count_closed, &owner);
    for (int i = 0; i < 2; i++) {
        uv_timer_init(&loop, &owner.timers[i]);
        closing_handle(&owner.closing, (uv_handle_t *)&owner.timers[i]);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(owner.closed, 0); /* the owner itself is not done */
    assert_ptr_equal(closing_part(&owner.closing), &owner.closing);
    closing_done(&owner.closing);
    assert_int_equal(owner.closed, 0); /* the part is still open */
    closing_done(&owner.closing);
    assert_int_equal(owner.closed, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

UNIT_CASE(test_clock_ms_until__rounds_up_and_is_zero_when_it_has_passed)
{
    static const struct {
        int64_t left_us;
        unsigned ms;
    } cases[] = {{-1, 0}, {0, 0}, {1, 1}, {999, 1}, {1000, 2}, {3600000000, 3600001}};

    is_frozen = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        ASSERT_NUMBER(clock_ms_until(clock_mono_us() + cases[i].left_us), ==,
                      cases[i].ms);
    assert_int_equal(clock_ms_until(INT64_MIN), 0);
    ASSERT_NUMBER(clock_ms_until(INT64_MAX), >, INT64_MAX / 2000);
    is_frozen = false;
}

UNIT_CASE(test_clock_shift__moves_both_clocks)
{
    int64_t mono_us = clock_mono_us(), real_us = clock_real_us();

    clock_shift_us(3600000000);
    ASSERT_BETWEEN(clock_mono_us() - mono_us, 3600000000, 3660000000);
    ASSERT_BETWEEN(clock_real_us() - real_us, 3600000000, 3660000000);
    clock_shift_us(-3600000000);
    ASSERT_BETWEEN(clock_mono_us() - mono_us, 0, 60000000);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
