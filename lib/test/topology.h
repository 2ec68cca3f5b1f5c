/* topology.h - a primary, its replica and three sentinels. */
#ifndef TEST_TOPOLOGY_H
#define TEST_TOPOLOGY_H

#include "test/server.h"

#define TOPOLOGY_SENTINELS 3
#define TOPOLOGY_MASTER    "sale"

struct topology {
    struct server servers[2];
    struct server sentinels[TOPOLOGY_SENTINELS];
    char url[160]; /* redis-sentinel://... */
};

/** Start all; each sentinel knows the others and the replica when this returns. */
void topology_start(struct topology *topology, unsigned down_after_ms);
void topology_stop(struct topology *topology);

/** Which of the two servers says that it is the primary; -1: not one alone. */
int topology_primary(struct topology *topology);

/** Whether one server follows the other, and all sentinels know both. */
bool topology_is_complete(struct topology *topology);

/**
 * Have a sentinel promote this server, unless it has; returns before it is done. Call it
 * again after a while: on a busy machine a sentinel may refuse or abort it.
 */
void topology_fail_over(struct topology *topology, int to);

/** Make the first server the primary, and wait until the topology is complete. */
void topology_mend(struct topology *topology);

#endif
