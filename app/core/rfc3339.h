/* rfc3339.h - times as text: "2030-01-01T00:00:00Z". */
#ifndef RFC3339_H
#define RFC3339_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RFC3339_BYTES 32 /* the longest that is printed, with its NUL */

/** Microseconds since 1970 UTC as text in UTC, with a fraction only where there is one.
 *  Returns the length. Years 0000..9999. */
size_t rfc3339_print(int64_t us, char ret_text[RFC3339_BYTES]);

/**
 * Parse a date-time of RFC 3339 with any offset; a fraction beyond microseconds is cut; a
 * leap second is the first second of the next minute. Years 0001..9999.
 *
 * Returns  false: not a date-time; `*ret_us` is untouched
 */
MUST_CHECK bool rfc3339_parse(const char *text, size_t len, int64_t *ret_us);

#endif
