/* rfc3339.h - times as text: "2030-01-01T00:00:00Z". */
#ifndef RFC3339_H
#define RFC3339_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RFC3339_BYTES 32 /* the longest text that is printed, with its NUL */

/** Print microseconds since 1970 as a time in UTC, and return the length. A fraction of 0 is
 *  omitted. The time must be from March 0000 to the end of 9999. */
size_t rfc3339_print(int64_t us, char ret_text[RFC3339_BYTES]);

/**
 * Parse an RFC 3339 date-time with any offset, in the years 0001..9999. Digits beyond microseconds
 * are ignored. A leap second counts as the first second of the next minute.
 *
 * Returns  false: not a date-time; `*ret_us` is untouched
 */
MUST_CHECK bool rfc3339_parse(const char *text, size_t len, int64_t *ret_us);

#endif
