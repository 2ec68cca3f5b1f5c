/* currency.h - the codes of currencies. */
#ifndef CURRENCY_H
#define CURRENCY_H

#include <stdbool.h>

/** Whether `code` is the code of a currency in use.
 *
 * Source  ISO 4217:2015, list one of the maintenance agency, of 2025-01-01 */
bool currency_is_known(const char *code);

#endif
