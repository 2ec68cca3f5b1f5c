/* wire.h - commands as bytes of the Redis protocol (RESP), collected in one buffer. */
#ifndef REDIS_WIRE_H
#define REDIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Zero-initialise before the first use; end with redis_wire_clear(). */
struct redis_wire {
    char *data;
    size_t begin; /* where that begins which is still to be sent */
    size_t len;   /* where it ends; 0 when all is sent */
    size_t size_bytes;
    bool failed; /* memory ran out: what was added since is missing */
};

void redis_wire_clear(struct redis_wire *wire);

/** The head of a command of `count` arguments, its name included. */
void redis_wire_array(struct redis_wire *wire, size_t count);

/** An argument; any bytes. */
void redis_wire_bulk(struct redis_wire *wire, const void *data, size_t len);

/** Forget what was added since `len` was as given, and that it failed. */
void redis_wire_cut(struct redis_wire *wire, size_t len);

/** `count` more bytes have been sent; not while a command is being added. */
void redis_wire_shift(struct redis_wire *wire, size_t count);

#define REDIS_DIGITS_MAX 20 /* of a uint64_t */

/** Write `value` in decimal, without a NUL; returns the number of digits. */
size_t redis_wire_digits(char out[REDIS_DIGITS_MAX], uint64_t value);

#endif
