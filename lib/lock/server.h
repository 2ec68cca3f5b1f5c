/* server.h - the clock, the fences and the last error of a server, as a client knows them. */
#ifndef LOCK_SERVER_H
#define LOCK_SERVER_H

#include "lock/internal.h"

/** Open a connection to the server. The callbacks get `server`. Returns what redis_conn_open()
 *  returns. */
MUST_CHECK enum rlock_status
rlock_server_connect(struct rlock_server *server,
                     void (*on_state)(bool is_up, const struct rlock_err *why, void *arg),
                     void (*on_message)(const struct redis_reply *reply, void *arg),
                     struct redis_conn **ret_conn, struct rlock_err *reterr);

/**
 * Raise the fence counter, because the connection is new. The server may have restarted with an old
 * snapshot, so the counter is raised before this connection acquires any lock.
 */
void rlock_server_connected(struct rlock_server *server);

/**
 * Record that grants have used the fences from `fence` + 1 to `fence` + `count`. Returns whether
 * all earlier fences are smaller. If not, this function has begun to raise the counter.
 */
MUST_CHECK bool rlock_server_saw_fences(struct rlock_server *server, int64_t fence,
                                        unsigned count);

/**
 * Update the estimate of the server's clock. The clock was `clock_us` when the server executed a
 * call that was sent at `sent_us`. If `is_wrong`, the present estimate has proved wrong, and is
 * replaced.
 */
void rlock_server_saw_clock(struct rlock_server *server, int64_t clock_us,
                            int64_t sent_us, bool is_wrong);

/** Return the time, by the server's clock, after which a call sent at `sent_us` has timed out. */
uint64_t rlock_server_latest_us(const struct rlock_server *server, int64_t sent_us);

/**
 * Keep the text of the server's error for rlock_client_why(). The server has done nothing. Returns
 * RLOCK_DOWN if the server may accept the call later, otherwise RLOCK_REFUSED.
 */
enum rlock_status rlock_server_refused(struct rlock_client *client,
                                       const struct redis_reply *error);

/**
 * Check that the user has the rights `needed`, such as "+hget +hset". The connection must be up.
 * Returns RLOCK_OK, or RLOCK_REFUSED after it has set rlock_client_why() to the missing rights.
 */
MUST_CHECK enum rlock_status rlock_server_check_rights(struct rlock_server *server,
                                                       const char *needed);

/** Return why a call could not be sent: RLOCK_REFUSED if the login was refused or the
 *  user lacks rights, otherwise RLOCK_DOWN. */
enum rlock_status rlock_server_why_down(const struct rlock_server *server);

#endif
