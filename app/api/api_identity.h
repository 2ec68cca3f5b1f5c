/* api_identity.h - who calls: bearer token, rate limit, revocation, role. */
#ifndef API_IDENTITY_H
#define API_IDENTITY_H

#include "app/api/api_request.h"

/**
 * Identify the caller, then call `identified` with request->identity set.
 *
 * A token that has an id is looked up in the revocation list first: then `identified` is
 * called after this function has returned. A caller without a valid token, above the rate
 * limit, or of a role that the route does not permit is answered here. The handler that
 * `identified` is may call this again: that calls the next one at once.
 */
void api_identify(struct api_request *request, api_handler identified);

/**
 * Check the token of the request; STATUS_OK sets request->identity.
 *
 * Returns  as auth_check(); STATUS_REFUSED also if there is no token; STATUS_INVALID: the
 *          header is repeated
 */
MUST_CHECK enum status api_check_token(struct api_request *request);

/** Take a token of `key`; a limiter of NULL has no limit. True: none is left, the request
 *  is answered. */
MUST_CHECK bool api_is_limited(struct api_request *request, const char *policy,
                               struct limiter *limiter, uint64_t key);

/** The caller as the history records it, "admin:7". */
void api_name_actor(const struct api_request *request, char ret_actor[ACTOR_BYTES]);

#endif
