/* base64.h - base64url without padding (RFC 4648, section 5), which tokens use. */
#ifndef BASE64_H
#define BASE64_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>

/** The size of the text of `len` bytes, with its NUL. */
#define BASE64_TEXT_BYTES(len) (((len)*4 + 2) / 3 + 1)

/** Encode `bytes`, and return the length of the text. @ret_text  BASE64_TEXT_BYTES(len) bytes */
size_t base64_encode(const void *bytes, size_t len, char *ret_text);

/**
 * Decode a text that base64_encode() could have written. A text with padding, with other
 * characters, or with non-zero bits at the end is refused.
 *
 * @ret_bytes  `size` bytes
 * @ret_len    set if true is returned
 */
MUST_CHECK bool base64_decode(const char *text, size_t len, void *ret_bytes, size_t size,
                              size_t *ret_len);

#endif
