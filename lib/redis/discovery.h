/* discovery.h - reads the role of a server, and what a sentinel knows of the primary. */
#ifndef REDIS_DISCOVERY_H
#define REDIS_DISCOVERY_H

#include "base/err.h"
#include "redis/reply.h"
#include "redis/url.h"

#define REDIS_VERSION_MIN    "6.2"
#define REDIS_SWITCH_CHANNEL "+switch-master"

/**
 * Check the reply to HELLO. The server must have a supported version, and be what `wanted` says:
 * a sentinel (REDIS_ANY_SENTINEL), a node of a cluster (REDIS_CLUSTER), or else a primary.
 *
 * Returns  RLOCK_OK, RLOCK_REFUSED
 */
MUST_CHECK enum rlock_status redis_discovery_check(const struct redis_reply *hello,
                                                   enum redis_topology wanted,
                                                   struct rlock_err *reterr);

/**
 * Read the error "MOVED slot host:port". Returns false if the reply is something else.
 *
 * @from  the node that sent the error; its name is used if the error names no host
 */
bool redis_discovery_moved(const struct redis_reply *error, const struct redis_host *from,
                           struct redis_host *ret_host);

/** Read the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Returns false if the reply has no
 *  address. */
bool redis_discovery_address(const struct redis_reply *reply,
                             struct redis_host *ret_host);

/** Find the replica that is being promoted in the reply to SENTINEL REPLICAS. Returns false if
 *  no replica is being promoted. */
bool redis_discovery_promoted(const struct redis_reply *reply,
                              struct redis_host *ret_host);

/**
 * Read a message of REDIS_SWITCH_CHANNEL, "master old-ip old-port new-ip new-port". Returns false
 * if the message is malformed or about another master.
 */
bool redis_discovery_switch(const struct redis_reply *message, const char *master,
                            struct redis_host *ret_host);

#endif
