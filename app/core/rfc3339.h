/* rfc3339.h - times as text: "2030-01-01T00:00:00Z". */
#ifndef RFC3339_H
#define RFC3339_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RFC3339_BYTES 32 /* the longest text that is printed, with its NUL */

/** Print microseconds since 1970 UTC in UTC; the fraction is omitted when it is 0.
 *  Returns the length. From March 0000 to the end of 9999. */
size_t rfc3339_print(int64_t us, char ret_text[RFC3339_BYTES]);

/**
 * Parse an RFC 3339 date-time with any offset. Digits beyond microseconds are ignored; a
 * leap second counts as the first second of the next minute. Years 0001..9999.
 *
 * Returns  false: not a date-time; `*ret_us` is untouched
 */
MUST_CHECK bool rfc3339_parse(const char *text, size_t len, int64_t *ret_us);

#endif
