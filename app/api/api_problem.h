/*
 * api_problem.h - answers with problems (RFC 9457) and with JSON documents.
 *
 * Each api_answer function answers the request. So exactly one of these functions is called for a
 * request. If memory is out, the answer is PROBLEM_OVERLOADED instead.
 */
#ifndef API_PROBLEM_H
#define API_PROBLEM_H

#include "app/api/api_request.h"
#include "app/api/json.h"

/* The problems. The columns are word, status, code, Retry-After in seconds (0: no header), title
   and detail. The answers of the last six problems have a part that varies, so each of these
   problems has its own function. */
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
    X(PAYMENT_REF_USED,   409, "payment_ref_used",       0, "Payment used",           "The payment has paid another order.")                                   \
    X(TOO_LARGE,          413, "too_large",              0, "Too large",              "The body exceeds 64 KiB, or 1 MiB for new vouchers.")                   \
    X(NOT_JSON,           415, "unsupported_media_type", 0, "Unsupported media type", "The body must be of type application/json.")                            \
    X(MISDIRECTED,        421, "misdirected",            0, "Misdirected",            "The voucher belongs to another cell. The load balancer must send this path there.")  \
    X(INTERNAL,           500, "internal",               0, "Internal error",         "The database refused the request. Nothing was changed.")                \
    X(OVERLOADED,         503, "overloaded",             1, "Overloaded",             "Too many requests are in progress. Nothing was changed; retry.")        \
    X(UNAVAILABLE,        503, "unavailable",            1, "Unavailable",            "A backend is unavailable. No order was placed; retry.")                 \
    X(OUTCOME_UNKNOWN,    503, "outcome_unknown",        1, "Outcome unknown",        "The outcome is unknown. Look the order up before a retry.")             \
    X(BAD_REQUEST,        400, "bad_request",            0, "Bad request",            "")                                                                      \
    X(METHOD_NOT_ALLOWED, 405, "method_not_allowed",     0, "Method not allowed",     "The Allow header lists the permitted methods.")                         \
    X(ALREADY_ORDERED,    409, "already_ordered",        0, "Already ordered",        "The shopper has reached the order limit of this voucher.")              \
    X(NOT_STARTED,        409, "not_started",            0, "Not started",            "The sale of this voucher has not started.")                             \
    X(INVALID,            422, "invalid",                0, "Invalid",                "Validation failed.")                                                    \
    X(RATE_LIMITED,       429, "rate_limited",           0, "Too many requests",      "Rate limit exceeded.")
/* clang-format on */

enum api_problem {
#define X(word, status, code, retry_after_s, title, detail) PROBLEM_##word,
    API_PROBLEMS(X)
#undef X
        PROBLEM_COUNT
};

/** Render the problems. NULL: out of memory. */
struct api_problems *api_problems_create(void);
void api_problems_free(struct api_problems *problems); /* accepts NULL */

/** Answer with a problem whose status, headers and body are always the same. */
void api_answer_problem(struct api_request *request, enum api_problem problem);

/** Answer 400 bad_request. */
void api_answer_bad_request(struct api_request *request, const char *detail);

/** Answer 400 bad_request. The answer names the parameter of the query. */
void api_answer_unknown_parameter(struct api_request *request, struct text name);

/** Answer 422 invalid. */
void api_answer_invalid(struct api_request *request, const struct json_errors *errors);
void api_answer_invalid_field(struct api_request *request, const char *field,
                              const char *message);

/** Answer 409 already_ordered. */
void api_answer_already_ordered(struct api_request *request, int64_t order_id);

/** Answer 409 not_started. The header Retry-After is `wait_us` in seconds, rounded up. */
void api_answer_not_started(struct api_request *request, int64_t wait_us);

/** Answer 429 rate_limited. The headers describe the limit of `limiter`, and name it `policy`. */
void api_answer_rate_limited(struct api_request *request, const char *policy,
                             const struct limiter *limiter, int64_t wait_us);

/** Answer 405 method_not_allowed or, to OPTIONS, 204. Both answers have the header Allow. */
void api_answer_allow(struct api_request *request, const char *allow);

/**
 * Answer 404, 500 or 503 after a store call that failed. If a part of the answer has been sent, end
 * the answer so that the client sees that a part is missing.
 *
 * @was_write  the call may have changed something, so after a lost connection the outcome
 *             is unknown
 */
void api_answer_failure(struct api_request *request, enum rlock_status status,
                        bool was_write);

/**
 * Answer with the status, type and headers of `reply`, and with the body `text`.
 *
 * @text  from malloc(), is freed; NULL: out of memory
 */
void api_answer_text(struct api_request *request, struct http_reply *reply, char *text);

/**
 * Answer with a JSON document.
 *
 * @text      from malloc(), is freed; NULL: out of memory
 * @location  the header Location; NULL: none
 */
void api_answer_json(struct api_request *request, unsigned status, char *text,
                     const char *location);

/** Answer 200 with a JSON list. The header Age is added if the list may be older than the request.
 *  To be called in the callback of the read. */
void api_answer_list(struct api_request *request, char *text);

#endif
