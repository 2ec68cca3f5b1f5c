/* wire.c - writes RESP directly into the output buffer, without printf. */
#include "redis/wire.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_MIN_BYTES 16384
#define HEAD_MAX_BYTES (1 + REDIS_DIGITS_MAX + 2)

void redis_wire_clear(struct redis_wire *wire)
{
    free(wire->data);
    *wire = (struct redis_wire){0};
}

static bool grow(struct redis_wire *wire, size_t need)
{
    size_t size = wire->size_bytes == 0 ? SIZE_MIN_BYTES : wire->size_bytes;
    char *data;

    while (size - wire->len < need)
        size *= 2;
    data = realloc(wire->data, size);
    if (data == NULL) {
        wire->failed = true;
        return false;
    }
    wire->data = data;
    wire->size_bytes = size;
    return true;
}

static inline bool reserve(struct redis_wire *wire, size_t need)
{
    return !wire->failed && (wire->size_bytes - wire->len >= need || grow(wire, need));
}

size_t redis_wire_digits(char out[REDIS_DIGITS_MAX], uint64_t value)
{
    size_t len = 1;

    for (uint64_t rest = value; rest >= 10; rest /= 10)
        len++;
    for (size_t i = len; i > 0; value /= 10)
        out[--i] = (char)('0' + value % 10);
    return len;
}

/** Write a mark, a number and the end of the line. The buffer must have room. */
static void put_head(struct redis_wire *wire, char mark, size_t number)
{
    char *at = wire->data + wire->len;
    size_t digits;

    at[0] = mark;
    digits = redis_wire_digits(at + 1, number);
    at[1 + digits] = '\r';
    at[2 + digits] = '\n';
    wire->len += digits + 3;
}

void redis_wire_array(struct redis_wire *wire, size_t count)
{
    if (reserve(wire, HEAD_MAX_BYTES))
        put_head(wire, '*', count);
}

void redis_wire_bulk(struct redis_wire *wire, const void *data, size_t len)
{
    if (!reserve(wire, HEAD_MAX_BYTES + len + 2))
        return;
    put_head(wire, '$', len);
    memcpy(wire->data + wire->len, data, len);
    wire->len += len;
    wire->data[wire->len++] = '\r';
    wire->data[wire->len++] = '\n';
}

void redis_wire_cut(struct redis_wire *wire, size_t len)
{
    wire->len = len;
    wire->failed = false;
}

void redis_wire_shift(struct redis_wire *wire, size_t count)
{
    size_t rest;

    wire->begin += count;
    rest = wire->len - wire->begin;
    if (rest >= wire->begin)
        /* The unsent bytes are moved to the front only if fewer bytes are unsent than were sent. */
        return;
    if (rest > 0)
        memmove(wire->data, wire->data + wire->begin, rest);
    wire->begin = 0;
    wire->len = rest;
}
