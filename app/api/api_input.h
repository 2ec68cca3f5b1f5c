/* api_input.h - the checked input of requests: bodies, ids, parameters of the query. */
#ifndef API_INPUT_H
#define API_INPUT_H

#include "app/api/api_request.h"
#include "app/api/json.h"

/**
 * Read the body by the table `fields`, see json_read().
 *
 * @ret_document  set if true is returned; the caller frees it
 *
 * Returns  false: the request is answered
 */
MUST_CHECK bool api_read_body(struct api_request *request,
                              const struct json_field *fields, void *target,
                              struct json_document **ret_document);

/** 1..2^63-1 in decimal digits without sign, spaces or leading zeros. */
MUST_CHECK bool api_parse_id(const char *text, size_t len, int64_t *ret_id);

/** The parameter `limit`, 1..100, default 20. False: the request is answered. */
MUST_CHECK bool api_read_limit(struct api_request *request, unsigned *ret_limit);

/** The parameter `name`, an id; 0 if absent. False: the request is answered. */
MUST_CHECK bool api_read_query_id(struct api_request *request, const char *name,
                                  int64_t *ret_id);

#endif
