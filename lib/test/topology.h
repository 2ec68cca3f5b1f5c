/* topology.h - a primary, its replica and three sentinels. */
#ifndef TEST_TOPOLOGY_H
#define TEST_TOPOLOGY_H

#include "test/server.h"

#define TOPOLOGY_SENTINELS 3
#define TOPOLOGY_MASTER    "sale"

struct topology {
    struct server servers[2];
    struct server sentinels[TOPOLOGY_SENTINELS];
    char url[160];
};

/** Start all servers. When this returns, each sentinel knows the other sentinels and the
 *  replica. */
void topology_start(struct topology *topology, unsigned down_after_ms);
void topology_stop(struct topology *topology);

/** Return which of the two servers says that it is the primary; -1 if both or none does. */
int topology_primary(struct topology *topology);

/** Whether one server replicates the other, and all sentinels know both. */
bool topology_is_complete(struct topology *topology);

/** Ask a sentinel to promote this server, unless it is already the primary. Returns before the
 *  promotion is done. Call this again after a while, because on a busy machine a sentinel may
 *  refuse or abort a promotion. */
void topology_fail_over(struct topology *topology, int to);

/** Make the first server the primary, and wait until the topology is complete. */
void topology_mend(struct topology *topology);

#endif
