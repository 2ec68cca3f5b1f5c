/* sha1.c - SHA-1 of a block of memory. */
#include "redis/sha1.h"

#include <stdint.h>
#include <string.h>

#define BLOCK_BYTES 64

static uint32_t rotate_left(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static uint32_t load_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void expand(const uint8_t *block, uint32_t w[80])
{
    for (size_t i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * i);
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
}

/** The function and constant of step `i`, on words b, c and d. */
static uint32_t mix(int i, uint32_t b, uint32_t c, uint32_t d)
{
    if (i < 20)
        return ((b & c) | (~b & d)) + 0x5a827999U;
    if (i < 40)
        return (b ^ c ^ d) + 0x6ed9eba1U;
    if (i < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcU;
    return (b ^ c ^ d) + 0xca62c1d6U;
}

static void digest_block(uint32_t hash[5], const uint8_t *block)
{
    uint32_t w[80];
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];

    expand(block, w);
    for (int i = 0; i < 80; i++) {
        uint32_t next = rotate_left(a, 5) + mix(i, b, c, d) + e + w[i];

        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

/** The rest of the data, the padding and the length in bits: one or two blocks. */
static void digest_tail(uint32_t hash[5], const uint8_t *rest, size_t rest_len,
                        size_t total_len)
{
    uint8_t tail[2 * BLOCK_BYTES] = {0};
    size_t tail_len = rest_len + 9 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    uint64_t bits = (uint64_t)total_len * 8;

    memcpy(tail, rest, rest_len);
    tail[rest_len] = 0x80;
    for (size_t i = 1; i <= 8; i++, bits >>= 8)
        tail[tail_len - i] = (uint8_t)bits;
    for (size_t at = 0; at < tail_len; at += BLOCK_BYTES)
        digest_block(hash, tail + at);
}

void redis_sha1_hex(const void *data, size_t len, char ret_hex[REDIS_SHA1_HEX_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint32_t hash[5] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
    const uint8_t *bytes = data;
    size_t whole = len - len % BLOCK_BYTES;

    for (size_t at = 0; at < whole; at += BLOCK_BYTES)
        digest_block(hash, bytes + at);
    digest_tail(hash, bytes + whole, len - whole, len);
    for (unsigned i = 0; i < REDIS_SHA1_HEX_LEN; i++)
        ret_hex[i] = digits[hash[i / 8] >> (28 - 4 * (i % 8)) & 0xf];
    ret_hex[REDIS_SHA1_HEX_LEN] = '\0';
}
