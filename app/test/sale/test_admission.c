/* test_admission.c - admission at the limits of the sale window and of the stock. */
#include "app/sale/admission.h"
#include "test/case_list.h"

#define ADMITTED OUTCOME_COUNT

static int64_t clock_error_us;

/* The clock of the database shows 1000 us. Each row of the table below says by how much this time
   may be wrong. */
int64_t catalogue_now_us(const struct catalogue *catalogue UNUSED, int64_t *ret_error_us)
{
    *ret_error_us = clock_error_us;
    return 1000;
}

UNIT_CASE(test_admission_check__at_its_limits)
{
    static const struct {
        int64_t begin_us, end_us, stock_left, clock_error_us;
        enum outcome outcome;
    } rows[] = {
        {1000, 1001, 1, 0, ADMITTED},        {1001, 2000, 1, 0, OUTCOME_NOT_STARTED},
        {0, 1000, 1, 0, OUTCOME_SALE_ENDED}, {0, 2000, 0, 0, OUTCOME_SOLD_OUT},
        {1010, 2000, 1, 10, ADMITTED},       {1011, 2000, 1, 10, OUTCOME_NOT_STARTED},
        {0, 991, 1, 10, ADMITTED}, /* the same */
        {0, 990, 1, 10, OUTCOME_SALE_ENDED},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct catalogue_entry entry = {.exists = true,
                                              .begin_us = rows[i].begin_us,
                                              .end_us = rows[i].end_us,
                                              .stock_left = rows[i].stock_left};
        enum outcome refusal = ADMITTED;

        clock_error_us = rows[i].clock_error_us;
        assert_int_equal(admission_check(NULL, &entry, &refusal),
                         rows[i].outcome == ADMITTED);
        assert_int_equal(refusal, rows[i].outcome);
    }
}

UNIT_CASE(test_admission_check__missing_voucher)
{
    const struct catalogue_entry entry = {.stock_left = 1};
    enum outcome refusal = ADMITTED;

    assert_false(admission_check(NULL, &entry, &refusal));
    assert_int_equal(refusal, OUTCOME_NO_VOUCHER);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
