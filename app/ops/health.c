/* health.c - the service is ready if every loop has Postgres, and the first loop, which sells for
   all, has locks or bypasses them. */
#include "app/ops/health.h"

struct health health_of(const struct all_metrics *all, bool bypasses_locks)
{
    const struct metrics *first = all->loops[0];
    struct health health = {.has_postgres = true,
                            .has_redis = true,
                            .has_locks = atomic_load(&first->redis_up) > 0 ||
                                         atomic_load(&first->redis_degraded) > 0};

    for (size_t i = 0; i < all->count; i++) {
        if (!atomic_load(&all->loops[i]->postgres_up)) {
            health.has_postgres = false;
            health.postgres_failure =
                (enum rlock_status)atomic_load(&all->loops[i]->postgres_failure);
        }
        health.has_redis &= atomic_load(&all->loops[i]->redis_up) > 0;
    }
    health.is_ready = health.has_postgres && (health.has_locks || bypasses_locks);
    return health;
}
