/* api_input.h - the checked input of requests: bodies, parameters of the query. */
#ifndef API_INPUT_H
#define API_INPUT_H

#include "app/api/api_request.h"
#include "app/api/json.h"

/**
 * Read the body by the table `fields`, see json_read(). Its texts are valid until the
 * request is answered.
 *
 * Returns  false: the request is answered
 */
MUST_CHECK bool api_read_body(struct api_request *request,
                              const struct json_field *fields, void *target);

/** The parameter `limit`, 1..100, default 20. False: the request is answered. */
MUST_CHECK bool api_read_limit(struct api_request *request, unsigned *ret_limit);

/** The parameter `name`, an id; 0 if absent. False: the request is answered. */
MUST_CHECK bool api_read_query_id(struct api_request *request, const char *name,
                                  int64_t *ret_id);

#endif
