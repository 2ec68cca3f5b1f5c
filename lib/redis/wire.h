/* wire.h - a buffer of commands in the Redis protocol (RESP). */
#ifndef REDIS_WIRE_H
#define REDIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Zero-initialise before the first use; end with redis_wire_clear(). */
struct redis_wire {
    char *data;
    size_t begin; /* where the unsent bytes begin */
    size_t len;   /* where the unsent bytes end; 0: no bytes are unsent */
    size_t size_bytes;
    bool failed; /* memory was out, so later additions are missing */
};

void redis_wire_clear(struct redis_wire *wire);

/** Begin a command of `count` arguments, including its name. */
void redis_wire_array(struct redis_wire *wire, size_t count);

/** Add an argument, which may have any bytes. */
void redis_wire_bulk(struct redis_wire *wire, const void *data, size_t len);

/** Drop what was added after `len`, and clear `failed`. */
void redis_wire_cut(struct redis_wire *wire, size_t len);

/** `count` more bytes have been sent. Do not call this while a command is being added. */
void redis_wire_shift(struct redis_wire *wire, size_t count);

#define REDIS_DIGITS_MAX 20 /* of a uint64_t */

/** Write `value` in decimal, without a NUL; returns the number of digits. */
size_t redis_wire_digits(char out[REDIS_DIGITS_MAX], uint64_t value);

#endif
