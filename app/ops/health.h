/* health.h - whether the service can place orders, decided from the metrics of all loops. */
#ifndef HEALTH_H
#define HEALTH_H

#include "app/core/metrics.h"

struct health {
    /* whether all loops have Postgres, because any loop may receive orders */
    bool has_postgres;
    enum rlock_status postgres_failure; /* why a loop is not connected */
    bool has_redis;                     /* in all loops */
    bool has_locks;
    bool is_ready;
};

/** @bypasses_locks  whether orders are accepted without Redis. Threads: any. */
struct health health_of(const struct all_metrics *all, bool bypasses_locks);

#endif
