/* api_request.h - the API of one loop, and a request on its way through it. */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "app/api/api.h"
#include "app/api/api_problem.h"

#define API_OPENING_PAGES 64
#define API_WEB_FILES     64

struct api {
    struct api_options options;
    struct http_page *problems[PROBLEM_COUNT];
    /* not_started by seconds of Retry-After, made when first needed */
    struct http_page *opening[API_OPENING_PAGES];
    /* the files of the pages as embedded, and 304 for each; made when first needed */
    struct http_page *web[API_WEB_FILES];
    struct http_page *web_unchanged[API_WEB_FILES];
};

/** Whether as many requests wait as may; what memory can answer need not ask. */
bool api_is_full(const struct api *api, const struct http_request *request);

/** @id  of the path; 0 where the route has none */
typedef void (*api_handler)(struct api *api, struct http_request *request, int64_t id);

/** Call `handle`: now, and perhaps once more, see api_identify(). */
void api_begin(struct api *api, struct http_request *request, api_handler handle,
               int64_t id);

/** clock_mono_us() of the first call. */
int64_t api_begun_us(struct http_request *request);

#endif
