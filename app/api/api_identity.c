/*
 * api_identity.c - verifies tokens, and looks up revocations in Redis.
 *
 * The key "revoked:ID", with any value, revokes the token with that `jti`. It should expire
 * with the token, so that the list stays short. A look-up costs one round trip and no
 * allocation; the look-ups of a turn leave in one write.
 */
#include "app/api/api_routes.h"

#include "app/api/api_problem.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum rlock_status api_check_token(struct api_request *request)
{
    const struct auth *auth = request->api->options.auth;
    bool is_repeated;
    struct text authorization = http_header(request->http, "Authorization", &is_repeated);

    if (is_repeated)
        return RLOCK_INVALID;
    if (authorization.bytes == NULL)
        return RLOCK_REFUSED;
    return auth_check(auth, authorization, clock_real_us() / 1000000, &request->identity);
}

static bool read_token(struct api_request *request)
{
    enum rlock_status status = RLOCK_OK;

    if (request->identity.user_id == 0) /* api_body_max() has not checked the token */
        status = api_check_token(request);
    if (status == RLOCK_INVALID)
        api_answer_bad_request(request, "Authorization must not be repeated.");
    else if (status != RLOCK_OK)
        api_answer_problem(request, status == RLOCK_NO_MEMORY ? PROBLEM_OVERLOADED
                                                              : PROBLEM_UNAUTHENTICATED);
    return status == RLOCK_OK;
}

bool api_is_limited(struct api_request *request, const char *policy,
                    struct limiter *limiter, uint64_t key)
{
    int64_t wait_us = limiter != NULL ? limiter_take(limiter, key, clock_mono_us()) : 0;

    if (wait_us != 0)
        api_answer_rate_limited(request, policy, limiter, wait_us);
    return wait_us != 0;
}

static void check_role(struct api_request *request)
{
    if (request->route->callers & 1U << request->identity.role)
        request->identified(request);
    else
        api_answer_problem(request, PROBLEM_FORBIDDEN);
}

/* Called when the revocation list cannot be read. The token is accepted only if bypass_locks is
   set. */
static void pass_unchecked(struct api_request *request)
{
    if (request->api->options.bypass_locks)
        check_role(request);
    else
        api_answer_problem(request, PROBLEM_UNAVAILABLE);
}

/* `status` is not needed: redis_reply_int() returns false if there is no reply. */
static void identity_on_looked_up(struct redis_command *command,
                                  enum rlock_status status UNUSED,
                                  const struct redis_reply *reply)
{
    struct api_request *request = list_item(command, struct api_request, revocation);
    int64_t found;

    if (!redis_reply_int(reply, &found))
        pass_unchecked(request);
    else if (found != 0)
        api_answer_problem(request, PROBLEM_UNAUTHENTICATED);
    else
        check_role(request);
}

/* Sends the look-up. False: Redis is down. */
static bool look_up_revocation(struct api_request *request, const char *jti)
{
    struct redis_conn *conn = request->api->options.revocations;
    char key[sizeof(API_REVOKED_TAG) + AUTH_ID_BYTES_MAX];
    const char *const words[] = {"EXISTS", key, NULL};

    snprintf(key, sizeof(key), "%s%s",
             redis_conn_is_cluster(conn) ? API_REVOKED_TAG : "revoked:", jti);
    return redis_conn_words(conn, &request->revocation, identity_on_looked_up, words) ==
           RLOCK_OK;
}

void api_identify(struct api_request *request, api_handler *identified)
{
    const char *jti = request->identity.jti;
    bool is_identified = request->identified != NULL;

    request->identified = identified;
    if (is_identified) {
        identified(request);
        return;
    }
    if (!read_token(request))
        return;
    /* Only shoppers have a limit: the payment service pays for many shoppers with one token. */
    if (request->identity.role == AUTH_SHOPPER &&
        api_is_limited(request, "shopper", request->api->options.user_limiter,
                       (uint64_t)request->identity.user_id))
        return;
    if (jti[0] == '\0')
        check_role(request);
    else if (!look_up_revocation(request, jti))
        pass_unchecked(request);
}

void api_name_actor(const struct api_request *request, char ret_actor[ACTOR_BYTES])
{
    snprintf(ret_actor, ACTOR_BYTES, "%s:%" PRId64,
             auth_role_names[request->identity.role], request->identity.user_id);
}
