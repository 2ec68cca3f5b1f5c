/* api_input.h - input of requests, checked: bodies, ids, parameters of the query. */
#ifndef API_INPUT_H
#define API_INPUT_H

#include "app/api/api_request.h"
#include "app/api/json.h"

/** The body by its table, see json_read(); else answered, and false. The document is to
 * be freed by the caller if true. */
MUST_CHECK bool api_read_body(struct api *api, struct http_request *request,
                              const struct json_field *fields, void *target,
                              struct json_document **ret_document);

/** 1..2^63-1 in plain decimal digits. */
MUST_CHECK bool api_parse_id(const char *text, size_t len, int64_t *ret_id);

/** ?limit=, 1..100, 20 if absent; else answered, and false. */
MUST_CHECK bool api_read_limit(struct api *api, struct http_request *request,
                               unsigned *ret_limit);

/** An id in the query; 0 if absent; else answered, and false. */
MUST_CHECK bool api_read_query_id(struct api *api, struct http_request *request,
                                  const char *name, int64_t *ret_id);

#endif
