/*
 * api_reply.h - what the routes share: the api itself, its problems, its replies.
 */
#ifndef API_REPLY_H
#define API_REPLY_H

#include "app/api/api.h"
#include "app/api/json.h"

/* Problems with a fixed answer, which is rendered once. The columns: word, status, code,
   Retry-After in seconds (0: none), title, detail. */
/* clang-format off */
#define API_PROBLEMS(X)                                                                                                                                        \
    X(UNAUTHENTICATED,    401, "unauthenticated",        0, "Unauthenticated",        "A valid bearer token is required.")                                     \
    X(FORBIDDEN,          403, "forbidden",              0, "Forbidden",              "The role of the token does not permit this request.")                   \
    X(TICKET_REQUIRED,    403, "ticket_required",        0, "Ticket required",        "A valid purchase ticket of this shopper for this voucher is required.") \
    X(NOT_FOUND,          404, "not_found",              0, "Not found",              "The resource does not exist.")                                          \
    X(SALE_ENDED,         409, "sale_ended",             0, "Sale ended",             "The sale of this voucher has ended.")                                   \
    X(SOLD_OUT,           409, "sold_out",               0, "Sold out",               "No stock of this voucher is left.")                                     \
    X(IN_PROGRESS,        409, "order_in_progress",      1, "Order in progress",      "Another order of this shopper is in progress.")                         \
    X(INSUFFICIENT_STOCK, 409, "insufficient_stock",     0, "Insufficient stock",     "Cannot remove more stock than remains unsold.")                         \
    X(WRONG_STATE,        409, "wrong_state",            0, "Wrong state",            "The state of the order does not permit this request.")                  \
    X(WRONG_AMOUNT,       409, "wrong_amount",           0, "Wrong amount",           "The amount differs from the price of the order.")                       \
    X(TOO_LARGE,          413, "too_large",              0, "Too large",              "The body exceeds 64 KiB.")                                              \
    X(NOT_JSON,           415, "unsupported_media_type", 0, "Unsupported media type", "The body must be of type application/json.")                            \
    X(INTERNAL,           500, "internal",               0, "Internal error",         "The database refused the request. Nothing was changed.")                \
    X(OVERLOADED,         503, "overloaded",             1, "Overloaded",             "Too many requests are in progress. Nothing was changed; retry.")        \
    X(UNAVAILABLE,        503, "unavailable",            1, "Unavailable",            "A backend is unavailable. No order was placed; retry.")                 \
    X(OUTCOME_UNKNOWN,    503, "outcome_unknown",        1, "Outcome unknown",        "The outcome is unknown. Look the order up before a retry.")
/* clang-format on */

enum api_problem {
#define X(word, status, code, retry_after_s, title, detail) PROBLEM_##word,
    API_PROBLEMS(X)
#undef X
        PROBLEM_COUNT
};

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

/** Render the problems. False: out of memory. */
bool api_pages_create(struct api *api);
void api_pages_free(struct api *api);

/** Answer with one of the problems that say the same to everyone. */
void api_answer_problem(struct api *api, struct http_request *request,
                        enum api_problem problem);

/** 400, with what is wrong in words. */
void api_answer_bad_request(struct api *api, struct http_request *request,
                            const char *detail);

/** 422, with the fields. */
void api_answer_invalid(struct api *api, struct http_request *request,
                        const struct json_errors *errors);

/** 409 already_ordered. */
void api_answer_already_ordered(struct api *api, struct http_request *request,
                                int64_t order_id);

/** 409 not_started. */
void api_answer_not_started(struct api *api, struct http_request *request,
                            int64_t wait_us);

/** 429, with the policy of `limiter`, by this name, in the headers. */
void api_answer_rate_limited(struct api *api, struct http_request *request,
                             const char *name, const struct limiter *limiter,
                             int64_t wait_us);

/** 405, or 204 to OPTIONS; `allow` as in the header. */
void api_answer_allow(struct api *api, struct http_request *request, const char *allow);

/** A store call that failed: 404, 500 or 503. `was_write`: then a connection that failed
 *  leaves the outcome unknown. */
void api_answer_failure(struct api *api, struct http_request *request, enum status status,
                        bool was_write);

/** JSON; takes `text` over (malloc'ed; NULL: 503). `location` may be NULL. */
void api_answer_json(struct api *api, struct http_request *request, unsigned status,
                     char *text, const char *location);

/** Whether as many requests wait as may; what memory can answer need not ask. */
bool api_is_full(const struct api *api, const struct http_request *request);

/* -- what requests bring -- */

/** @id  of the path; 0 where the route has none */
typedef void (*api_handler)(struct api *api, struct http_request *request, int64_t id);

/** Call `handle`: now, and perhaps once more, see api_identify(). */
void api_begin(struct api *api, struct http_request *request, api_handler handle,
               int64_t id);

/** clock_mono_us() of the first call. */
int64_t api_begun_us(struct http_request *request);

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
