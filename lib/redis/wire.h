/* wire.h - a buffer of commands in the Redis protocol (RESP). */
#ifndef REDIS_WIRE_H
#define REDIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A buffer. Zero-initialise it before the first use, and end it with redis_wire_clear(). */
struct redis_wire {
    char *data;
    size_t begin; /* where the unsent bytes begin */
    size_t len;   /* where the unsent bytes end; 0: no bytes are unsent */
    size_t size_bytes;
    bool failed; /* memory ran out, so the last additions are missing */
};

void redis_wire_clear(struct redis_wire *wire);

/** Begin a command. `count` is the number of its arguments, including its name. */
void redis_wire_array(struct redis_wire *wire, size_t count);

void redis_wire_bulk(struct redis_wire *wire, const void *data, size_t len);

/** Drop what was added after `len`, and clear `failed`. */
void redis_wire_cut(struct redis_wire *wire, size_t len);

/** Report that `count` more bytes have been sent. No command may be unfinished. */
void redis_wire_shift(struct redis_wire *wire, size_t count);

#define REDIS_DIGITS_MAX 20 /* of a uint64_t */

/** Write `value` in decimal, without a NUL; returns the number of digits. */
size_t redis_wire_digits(char out[REDIS_DIGITS_MAX], uint64_t value);

#endif
