/*
 * revoked.h - is this token among those that were taken back?
 *
 * A deny-list in Redis: the key "revoked:ID", whatever its value, refuses the token with
 * that `jti`. Who revokes lets the key expire with the token, so the list stays short.
 *
 * One connection per loop, by itself: asking costs one round trip and no allocation, and
 * all that is asked in a turn leaves in one write. Threads: that of the loop.
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

/** In memory of the caller, untouched until it is answered. */
struct revoked_check {
    struct redis_command command;
    /** @status  STATUS_OK: not revoked; STATUS_REFUSED: revoked; else it is not known */
    void (*done)(struct revoked_check *check, enum status status);
};

/**
 * Start to connect; a Redis that is away is no error.
 *
 * @timeout_ms    for an answer
 * @ret_revoked   set on STATUS_OK; end with revoked_close()
 *
 * Returns  STATUS_OK; STATUS_INVALID: the URL is not understood
 */
MUST_CHECK enum status revoked_open(uv_loop_t *loop, const char *redis_url,
                                    uint32_t timeout_ms, struct revoked **ret_revoked,
                                    struct err *reterr);

/** Ask for the token `jti`. Answered exactly once, unless STATUS_DOWN is returned: then
 *  nothing was asked. */
MUST_CHECK enum status
revoked_check(struct revoked *revoked, const char *jti, struct revoked_check *check,
              void (*done)(struct revoked_check *check, enum status status));

/** To be called once a turn: sends what was asked. */
void revoked_flush(struct revoked *revoked);

/** Answers what is under way; the memory is freed by the loop. Accepts NULL. */
void revoked_close(struct revoked *revoked);

#endif
