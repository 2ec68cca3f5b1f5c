/* admission.h - decides from memory whether an order request may proceed. */
#ifndef ADMISSION_H
#define ADMISSION_H

#include "app/sale/catalogue.h"

/**
 * Check the voucher's sale window and stock as the catalogue knows them. The time is an
 * estimate of the database's clock. A request so near to the beginning or the end that
 * the estimate cannot decide is admitted, since Postgres decides in the end.
 *
 * @ret_refusal  set when false is returned: OUTCOME_NO_VOUCHER, _NOT_STARTED,
 *               _SALE_ENDED or _SOLD_OUT
 */
bool admission_check(const struct catalogue *catalogue,
                     const struct catalogue_entry *entry, enum outcome *ret_refusal);

#endif
