/* server.h - the clock, the fences and the last error of a server, as a client knows them. */
#ifndef LOCK_SERVER_H
#define LOCK_SERVER_H

#include "lock/internal.h"

/** Open a connection to the server; the callbacks get `server`. Returns as redis_conn_open(). */
MUST_CHECK enum rlock_status
rlock_server_connect(struct rlock_server *server,
                     void (*on_state)(bool is_up, const struct rlock_err *why, void *arg),
                     void (*on_message)(const struct redis_reply *reply, void *arg),
                     struct redis_conn **ret_conn, struct rlock_err *reterr);

/**
 * The connection is new: raise the fence counter before this connection acquires any
 * lock, because the server may have restarted with an old snapshot.
 */
void rlock_server_connected(struct rlock_server *server);

/**
 * Grants took the fences from `fence` + 1 to `fence` + `count`. Returns whether they are
 * greater than all earlier fences; if not, the counter is being raised.
 */
MUST_CHECK bool rlock_server_saw_fences(struct rlock_server *server, int64_t fence,
                                        unsigned count);

/**
 * Update the estimate of the server's clock: it was `clock_us` when the server executed a
 * call that was sent at `sent_us`. `is_wrong`: the present estimate has proved wrong, so it
 * is replaced.
 */
void rlock_server_saw_clock(struct rlock_server *server, int64_t clock_us,
                            int64_t sent_us, bool is_wrong);

/** Return the time, by the server's clock, after which a call sent at `sent_us` has timed out. */
uint64_t rlock_server_latest_us(const struct rlock_server *server, int64_t sent_us);

/**
 * The server replied with this error: keep its text for rlock_client_why(). Nothing was
 * done. Returns RLOCK_DOWN if the server may accept the call later, else RLOCK_REFUSED.
 */
enum rlock_status rlock_server_refused(struct rlock_client *client,
                                       const struct redis_reply *error);

/**
 * Check that the user has the rights `needed`, such as "+hget +hset". RLOCK_REFUSED:
 * rlock_client_why() names the missing rights. The connection must be up.
 */
MUST_CHECK enum rlock_status rlock_server_check_rights(struct rlock_server *server,
                                                       const char *needed);

/** Return why a call could not be sent: RLOCK_REFUSED if the login was refused or the
 *  user lacks rights, otherwise RLOCK_DOWN. */
enum rlock_status rlock_server_why_down(const struct rlock_server *server);

#endif
