/* api_identity.h - who calls: token, rate limit, revocation. */
#ifndef API_IDENTITY_H
#define API_IDENTITY_H

#include "app/api/api_request.h"

/**
 * Who asks, if the token is good; else the request is answered and false returned.
 *
 * A token that can be revoked is looked up first: then false is returned as well, and the
 * request's handler is called again when that is known. So nothing may have been done
 * for a request before it is identified.
 */
MUST_CHECK bool api_identify(struct api *api, struct http_request *request,
                             struct identity *ret_identity);

/** The same, and only for this role. */
MUST_CHECK bool api_identify_as(struct api *api, struct http_request *request,
                                enum auth_role role, struct identity *ret_identity);

/** Who did it, for the history: "admin:7". */
void api_name_actor(const struct identity *identity, char ret_actor[ACTOR_BYTES]);

#endif
