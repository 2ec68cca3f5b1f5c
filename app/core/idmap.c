/* idmap.c - open addressing with linear probing; removal shifts later entries back. */
#include "app/core/idmap.h"

#include "app/core/siphash.h"
#include "base/random.h"

#include <stdlib.h>

#define CAPACITY_MIN 64

struct idmap_slot {
    int64_t id; /* 0: free */
    void *value;
};

static size_t home(const struct idmap *map, int64_t id)
{
    return siphash(map->key, (uint64_t)id) & (map->capacity - 1);
}

void idmap_clear(struct idmap *map)
{
    free(map->slots);
    *map = (struct idmap){0};
}

static struct idmap_slot *find(const struct idmap *map, int64_t id)
{
    size_t at = home(map, id);

    while (map->slots[at].id != id && map->slots[at].id != 0)
        at = (at + 1) & (map->capacity - 1);
    return &map->slots[at];
}

void *idmap_get(const struct idmap *map, int64_t id)
{
    return map->capacity == 0 ? NULL : find(map, id)->value;
}

static bool grow(struct idmap *map)
{
    struct idmap bigger = *map;

    bigger.capacity = map->capacity == 0 ? CAPACITY_MIN : map->capacity * 2;
    if (!random_fill(bigger.key, sizeof(bigger.key)))
        return false;
    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return false;
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].id != 0)
            *find(&bigger, map->slots[i].id) = map->slots[i];
    }
    free(map->slots);
    *map = bigger;
    return true;
}

bool idmap_put(struct idmap *map, int64_t id, void *value)
{
    if (map->count >= map->capacity / 2 && !grow(map))
        return false;
    *find(map, id) = (struct idmap_slot){.id = id, .value = value};
    map->count++;
    return true;
}

void *idmap_remove(struct idmap *map, int64_t id)
{
    struct idmap_slot *slot = map->capacity == 0 ? NULL : find(map, id);
    void *value;
    size_t hole, at;

    if (slot == NULL || slot->id == 0)
        return NULL;
    value = slot->value;
    hole = (size_t)(slot - map->slots);
    at = hole;
    while (map->slots[at = (at + 1) & (map->capacity - 1)].id != 0) {
        size_t wanted = home(map, map->slots[at].id);

        /* The entry may move back to the hole, unless its home is after the hole. */
        if (((at - wanted) & (map->capacity - 1)) >=
            ((at - hole) & (map->capacity - 1))) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (struct idmap_slot){0};
    map->count--;
    return value;
}

void *idmap_next(const struct idmap *map, size_t *at)
{
    while (*at < map->capacity) {
        void *value = map->slots[(*at)++].value;

        if (value != NULL)
            return value;
    }
    return NULL;
}
