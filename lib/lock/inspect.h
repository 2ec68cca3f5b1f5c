/* inspect.h - how a client ends the queries of rlock_inspect() and force release. */
#ifndef LOCK_INSPECT_H
#define LOCK_INSPECT_H

#include "lock/internal.h"

/** Answer the queries that could not be sent. */
void rlock_queries_complete_failed(struct rlock_client *client);

/** Answer all queries STATUS_CANCELLED. */
void rlock_queries_cancel(struct rlock_client *client);

#endif
