/* base64.c - each character encodes six bits. */
#include "app/auth/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t base64_encode(const void *bytes, size_t len, char *ret_text)
{
    const uint8_t *from = bytes;
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | from[i];
        for (bit_count += 8; bit_count >= 6; bit_count -= 6)
            ret_text[out++] = alphabet[bits >> (bit_count - 6) & 63];
    }
    if (bit_count != 0)
        ret_text[out++] = alphabet[bits << (6 - bit_count) & 63];
    ret_text[out] = '\0';
    return out;
}

#define INVALID 64
#define VALUE(c)                                                                         \
    (uint8_t)((c) >= 'A' && (c) <= 'Z'   ? (c) - 'A'                                     \
              : (c) >= 'a' && (c) <= 'z' ? (c) - 'a' + 26                                \
              : (c) >= '0' && (c) <= '9' ? (c) - '0' + 52                                \
              : (c) == '-'               ? 62                                            \
              : (c) == '_'               ? 63                                            \
                                         : INVALID)
#define FOUR(c)    VALUE(c), VALUE((c) + 1), VALUE((c) + 2), VALUE((c) + 3)
#define SIXTEEN(c) FOUR(c), FOUR((c) + 4), FOUR((c) + 8), FOUR((c) + 12)
#define QUARTER(c) SIXTEEN(c), SIXTEEN((c) + 16), SIXTEEN((c) + 32), SIXTEEN((c) + 48)

static const uint8_t values[256] = {QUARTER(0), QUARTER(64), QUARTER(128), QUARTER(192)};

/* Four characters are 24 bits. Returns false if a character is not in the alphabet. */
static bool decode_four(const char *text, uint32_t *ret_bits)
{
    uint32_t a = values[(uint8_t)text[0]], b = values[(uint8_t)text[1]];
    uint32_t c = values[(uint8_t)text[2]], d = values[(uint8_t)text[3]];

    *ret_bits = a << 18 | b << 12 | c << 6 | d;
    return (a | b | c | d) < INVALID;
}

bool base64_decode(const char *text, size_t len, void *ret_bytes, size_t size,
                   size_t *ret_len)
{
    size_t whole = len / 4 * 4, rest = len % 4, rest_bytes = rest * 3 / 4;
    char last[4] = {'A', 'A', 'A', 'A'}; /* 'A' is six zero bits */
    uint8_t *to = ret_bytes;
    uint32_t bits;

    if (rest == 1 || whole / 4 * 3 + rest_bytes > size)
        return false;
    for (size_t i = 0; i < whole; i += 4) {
        if (!decode_four(text + i, &bits))
            return false;
        *to++ = (uint8_t)(bits >> 16);
        *to++ = (uint8_t)(bits >> 8);
        *to++ = (uint8_t)bits;
    }
    memcpy(last, text + whole, rest);
    if (!decode_four(last, &bits) || (bits & (0xffffffU >> (8 * rest_bytes))) != 0)
        return false;
    for (size_t i = 0; i < rest_bytes; i++)
        *to++ = (uint8_t)(bits >> (16 - 8 * i));
    *ret_len = whole / 4 * 3 + rest_bytes;
    return true;
}
