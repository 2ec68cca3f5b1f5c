/* cluster.h - a cluster of three masters. The first master has a replica, the last node. */
#ifndef TEST_CLUSTER_H
#define TEST_CLUSTER_H

#include "test/fixture.h"

#define CLUSTER_MASTERS 3
#define CLUSTER_NODES   (CLUSTER_MASTERS + 1)
#define CLUSTER_NAMES   300

extern struct server cluster_nodes[CLUSTER_NODES];
extern char cluster_url[128]; /* the first host is the replica, which names the masters */

int cluster_start(void **state);
int cluster_stop(void **state);
int cluster_setup(void **state); /* for each test; sets *state to a struct fixture */

#define CLUSTER_CASE(name) GUARDED_CASE(name, cluster_setup, fixture_teardown)

/** Wait until the cluster is complete. If the first node was replaced by its replica, make the
 *  first node the master again. */
void cluster_await_complete(void);

void cluster_set_node_timeout(const char *ms);

void cluster_node_id(struct server *server, char ret_id[64]);

struct rlock_client *cluster_client(struct fixture *fixture);

long long cluster_count_keys(void);

/** Acquire the locks "item:0", "item:1" and so on with these options. All must be granted. */
void cluster_acquire_all(struct fixture *fixture, struct rlock_client *client,
                         struct call *calls, const struct rlock_acquire_options *how);
void cluster_release_all(struct fixture *fixture, struct rlock_client *client,
                         struct call *calls);

/** Return the index of the master to which the slot belongs at the start of a test. */
int cluster_master_of(unsigned slot);

unsigned cluster_slot_of(unsigned bucket);

const char *cluster_name_in(unsigned bucket, char ret_name[16]);

#endif
