/* api_identity.c - the token is judged here, its revocation looked up in Redis. */
#include "app/api/api_identity.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* What is known of who asks; lives in the request's note. */
struct caller {
    struct revoked_question question;
    struct api *api;
    struct http_request *request;
    api_handler handle;
    int64_t id;
    int64_t begun_us;
    struct identity identity;
    bool is_known;
    bool is_cleared; /* of having been revoked */
};

static struct caller *caller_of(struct http_request *request)
{
    static_assert(sizeof(struct caller) <= HTTP_NOTE_BYTES, "a caller outgrew its place");
    return http_note(request);
}

void api_begin(struct api *api, struct http_request *request, api_handler handle,
               int64_t id)
{
    struct caller *caller = caller_of(request);

    caller->api = api;
    caller->request = request;
    caller->handle = handle;
    caller->id = id;
    caller->begun_us = clock_mono_us();
    handle(api, request, id);
}

int64_t api_begun_us(struct http_request *request)
{
    return caller_of(request)->begun_us;
}

static void on_revoked_known(struct revoked_question *question, enum status status)
{
    struct caller *caller = list_item(question, struct caller, question);
    struct api *api = caller->api;

    if (status == STATUS_REFUSED) {
        api_answer_problem(api, caller->request, PROBLEM_UNAUTHENTICATED);
    } else if (status != STATUS_OK && !api->options.bypass_locks) {
        api_answer_problem(api, caller->request, PROBLEM_UNAVAILABLE);
    } else {
        caller->is_cleared = true;
        caller->handle(api, caller->request, caller->id);
    }
}

/* False: answered, or will be. */
static bool is_cleared(struct api *api, struct caller *caller)
{
    if (caller->is_cleared || caller->identity.jti[0] == '\0')
        return true;
    if (revoked_ask(api->options.revoked, caller->identity.jti, &caller->question,
                    on_revoked_known) == STATUS_OK)
        return false;
    if (!api->options.bypass_locks)
        api_answer_problem(api, caller->request, PROBLEM_UNAVAILABLE);
    return api->options.bypass_locks;
}

static bool read_token(struct api *api, struct http_request *request,
                       struct identity *ret_identity)
{
    bool twice;
    struct text authorization = http_header(request, "Authorization", &twice);

    if (twice) {
        api_answer_bad_request(api, request, "Authorization must not be repeated.");
        return false;
    }
    if (authorization.bytes != NULL &&
        auth_check(api->options.auth, authorization, clock_real_us() / 1000000,
                   ret_identity) == STATUS_OK)
        return true;
    api_answer_problem(api, request, PROBLEM_UNAUTHENTICATED);
    return false;
}

/* Shoppers only: one cashier speaks for all who pay. */
static bool is_shopper_limited(struct api *api, struct http_request *request,
                               const struct identity *identity)
{
    struct limiter *limiter = api->options.user_limiter;
    int64_t wait_us = 0;

    if (limiter != NULL && identity->role == AUTH_SHOPPER)
        wait_us = limiter_take(limiter, (uint64_t)identity->user_id, clock_mono_us());
    if (wait_us > 0)
        api_answer_rate_limited(api, request, "shopper", limiter, wait_us);
    return wait_us > 0;
}

bool api_identify(struct api *api, struct http_request *request,
                  struct identity *ret_identity)
{
    struct caller *caller = caller_of(request);

    if (!caller->is_known) {
        if (!read_token(api, request, &caller->identity) ||
            is_shopper_limited(api, request, &caller->identity))
            return false;
        caller->is_known = true;
    }
    if (!is_cleared(api, caller))
        return false;
    *ret_identity = caller->identity;
    return true;
}

bool api_identify_as(struct api *api, struct http_request *request, enum auth_role role,
                     struct identity *ret_identity)
{
    if (!api_identify(api, request, ret_identity))
        return false;
    if (ret_identity->role == role)
        return true;
    api_answer_problem(api, request, PROBLEM_FORBIDDEN);
    return false;
}

void api_name_actor(const struct identity *identity, char ret_actor[ACTOR_BYTES])
{
    static const char *const roles[] = {
        [AUTH_SHOPPER] = "shopper", [AUTH_PAYMENT] = "payment", [AUTH_ADMIN] = "admin"};

    snprintf(ret_actor, ACTOR_BYTES, "%s:%" PRId64, roles[identity->role],
             identity->user_id);
}
