/* admission.c - checks the sale window, by the database's clock, and the stock. */
#include "app/sale/admission.h"

bool admission_check(const struct catalogue *catalogue,
                     const struct catalogue_entry *entry, enum outcome *ret_refusal)
{
    int64_t error_us;
    int64_t now_us = catalogue_now_us(catalogue, &error_us);

    if (!entry->exists)
        *ret_refusal = OUTCOME_NO_VOUCHER;
    else if (now_us + error_us < entry->begin_us)
        *ret_refusal = OUTCOME_NOT_STARTED;
    else if (now_us - error_us >= entry->end_us)
        *ret_refusal = OUTCOME_SALE_ENDED;
    else if (entry->stock_left <= 0)
        *ret_refusal = OUTCOME_SOLD_OUT;
    else
        return true;
    return false;
}
