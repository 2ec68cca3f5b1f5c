/* api_problem.h - answers: the problems of the API, and JSON documents. */
#ifndef API_PROBLEM_H
#define API_PROBLEM_H

#include "app/api/json.h"
#include "app/auth/limiter.h"
#include "app/http/http.h"

struct api;

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

#endif
