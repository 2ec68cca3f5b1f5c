/*
 * revoked.h - the list of revoked tokens in Redis.
 *
 * The key "revoked:ID", with any value, revokes the token with that `jti`. The key should
 * expire with the token, so that the list stays short.
 *
 * A check costs one round trip and no allocation; the checks of a turn leave in one write,
 * by redis_conn_flush(). Threads: the loop's only.
 */
#ifndef REVOKED_H
#define REVOKED_H

#include "base/attributes.h"
#include "redis/conn.h"

#define REVOKED_KEY_PREFIX "revoked:"

/** A check under way, in the caller's memory until it is answered. */
struct revoked_check {
    struct redis_command command;
    /** @status  STATUS_OK: not revoked; STATUS_REFUSED: revoked; otherwise unknown */
    void (*done)(struct revoked_check *check, enum status status);
};

/** Look the token `jti` up. `done` is called exactly once, later; never if STATUS_DOWN is
 *  returned. */
MUST_CHECK enum status
revoked_check(struct redis_conn *conn, const char *jti, struct revoked_check *check,
              void (*done)(struct revoked_check *check, enum status status));

#endif
