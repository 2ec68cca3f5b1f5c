/* admission.h - may this request enter the sale? By memory alone. */
#ifndef ADMISSION_H
#define ADMISSION_H

#include "app/core/metrics.h"
#include "app/sale/catalogue.h"

/**
 * Judge a request for a voucher by what the catalogue knows. Where the clock is not sure
 * enough the request enters: Postgres has the last word.
 *
 * @ret_refusal  set when false is returned: OUTCOME_NO_VOUCHER, _NOT_STARTED,
 *               _SALE_ENDED or _SOLD_OUT
 */
bool admission_enter(const struct catalogue *catalogue,
                     const struct catalogue_entry *entry, enum outcome *ret_refusal);

#endif
