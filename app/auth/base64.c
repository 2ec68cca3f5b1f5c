/* base64.c - six bits a character. */
#include "app/auth/base64.h"

#include <stdint.h>

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
    if (bit_count > 0)
        ret_text[out++] = alphabet[bits << (6 - bit_count) & 63];
    ret_text[out] = '\0';
    return out;
}

/* 255: not in the alphabet. */
static uint8_t value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint8_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint8_t)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (uint8_t)(c - '0' + 52);
    return c == '-' ? 62 : c == '_' ? 63 : 255;
}

bool base64_decode(const char *text, size_t len, void *ret_bytes, size_t size,
                   size_t *ret_len)
{
    uint8_t *to = ret_bytes;
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t value = value_of(text[i]);

        if (value > 63)
            return false;
        bits = bits << 6 | value;
        bit_count += 6;
        if (bit_count < 8)
            continue;
        bit_count -= 8;
        if (out == size)
            return false;
        to[out++] = (uint8_t)(bits >> bit_count);
    }
    if (bit_count >= 6 || (bits & ((1U << bit_count) - 1)) != 0)
        return false;
    *ret_len = out;
    return true;
}
