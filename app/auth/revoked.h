/*
 * revoked.h - the list of revoked tokens in Redis.
 *
 * The key "revoked:ID", with any value, revokes the token with that `jti`. The key should
 * expire with the token, so that the list stays short.
 *
 * Each loop has its own connection. A check costs one round trip and no allocation; the
 * checks of a turn leave in one write. Threads: the loop's only.
 */
#ifndef REVOKED_H
#define REVOKED_H

#include "base/attributes.h"
#include "base/err.h"
#include "redis/conn.h"

#include <stdint.h>
#include <uv.h>

#define REVOKED_KEY_PREFIX "revoked:"

struct revoked;

/** A check under way, in the caller's memory until it is answered. */
struct revoked_check {
    struct redis_command command;
    /** @status  STATUS_OK: not revoked; STATUS_REFUSED: revoked; otherwise unknown */
    void (*done)(struct revoked_check *check, enum status status);
};

/**
 * Start to connect. That Redis is down is no error.
 *
 * @timeout_ms    for an answer
 * @ret_revoked   set on STATUS_OK; end with revoked_close()
 *
 * Returns  STATUS_OK; STATUS_NO_MEMORY; STATUS_INVALID: the URL is malformed
 */
MUST_CHECK enum status revoked_open(uv_loop_t *loop, const char *redis_url,
                                    uint32_t timeout_ms, struct revoked **ret_revoked,
                                    struct err *reterr);

/** Look the token `jti` up. `done` is called exactly once, later; never if STATUS_DOWN is
 *  returned. */
MUST_CHECK enum status
revoked_check(struct revoked *revoked, const char *jti, struct revoked_check *check,
              void (*done)(struct revoked_check *check, enum status status));

/** To be called once a turn: sends the checks. */
void revoked_flush(struct revoked *revoked);

/** Answers the checks under way; the memory is freed in a later turn. Accepts NULL. */
void revoked_close(struct revoked *revoked);

#endif
