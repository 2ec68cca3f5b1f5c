/*
 * idmap.h - a hash table from 64-bit ids other than 0 to pointers.
 *
 * An attacker may choose the ids. Each map hashes them with a random key, so the attacker cannot
 * choose ids that collide.
 */
#ifndef IDMAP_H
#define IDMAP_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise before the first use. The map does not own the pointers. */
struct idmap {
    struct idmap_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    uint64_t key[2]; /* of the hash; random, and replaced when the map grows */
};

void idmap_clear(struct idmap *map);

/** Return the value of `id`, or NULL if `id` is not in the map. */
void *idmap_get(const struct idmap *map, int64_t id);

/** Add `id` (not 0, not in the map) with `value` (not NULL). Returns false if memory is out or the
 *  kernel has no random bytes. */
MUST_CHECK bool idmap_put(struct idmap *map, int64_t id, void *value);

void *idmap_remove(struct idmap *map, int64_t id);

/** Return the next value of an iteration that starts with `*at` 0, or NULL at the end. Entries may
 *  be removed during the iteration, which may then skip other entries. */
void *idmap_next(const struct idmap *map, size_t *at);

#endif
