/*
 * api_request.h - the API of one loop, and the context of a request.
 *
 * api_handle() fills the context, identifies the caller where the route requires it, and
 * calls the route's handler once. A handler that waits for a backend keeps its state in
 * the context and answers from a callback. Every request is answered exactly once.
 */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "app/api/api.h"

#include <jansson.h>

#define API_READINGS         64
#define QUERY_PARAMETERS_MAX 9
#define API_ANY_CELL         (1 << 13) /* in callers: {id} is neither a voucher nor an order */

struct api {
    struct api_options options;
    struct api_problems *problems;
    struct http_page **web;                   /* one page per embedded file */
    struct rlock_link readings[API_READINGS]; /* hash table of struct api_reading */
};

struct api_request;
typedef void api_handler(struct api_request *request);

struct api_route {
    const char *path; /* {id}: a number; {name}: any characters but a slash */
    enum http_method method;
    enum metrics_route tag;
    unsigned callers; /* enum callers; 0: anyone */
    api_handler *handle;
    const char
        *query[QUERY_PARAMETERS_MAX + 1]; /* permitted parameters; the last is NULL */
};

/* -- state of handlers that wait -- */

typedef void (*api_admit)(struct api_request *request,
                          const struct catalogue_entry *entry);

/* A request for an order or a ticket. */
struct api_place {
    struct catalogue_wait wait;
    api_admit admit; /* called when the catalogue has the voucher */
    struct key_lookup lookup;
    struct text key;      /* the header Idempotency-Key; bytes NULL: absent */
    enum outcome refusal; /* why admission refused; the answer if no order has the key */
    bool needs_ticket;
    bool is_entry;     /* the voucher is a lottery */
    unsigned pow_bits; /* proof of work that a ticket requires */
    bool is_early;     /* the sale has not opened, so only a challenge is issued */
};

struct api_change {
    struct order_change change;
    char actor[ACTOR_BYTES];
};

struct api_list {
    unsigned limit;
    int64_t voucher_id;
    int64_t order_id; /* the order whose events are listed; 0: the events of a voucher */
    bool without_orders;
    int64_t after_id;
    struct rlock_link link; /* in a list of struct api_reading */
};

/* A request to follow vouchers. */
struct api_follow {
    struct http_listener listener;
    struct http_followed followed[HTTP_FOLLOWED_MAX];
    struct catalogue_wait waits[HTTP_FOLLOWED_MAX];
    size_t pending;           /* vouchers that the catalogue has not read yet */
    enum rlock_status status; /* the first failure, or RLOCK_OK */
};

struct api_request {
    struct api *api;
    struct http_request *http;
    const struct api_route *route;   /* NULL: the path is unknown */
    int64_t id;                      /* the {id} of the path; 0: the route has no id */
    int64_t arrived_us;              /* clock_mono_us() */
    struct identity identity;        /* user_id 0: no token has been checked */
    struct redis_command revocation; /* looks up the token in the revocation list */
    api_handler *identified; /* called if the caller is permitted; NULL: not set */
    json_t *body;            /* released with the answer; NULL: no body was read */
    bool is_csv;             /* the client accepts a list as CSV */
    bool has_part;           /* a part of the list was sent */
    union {
        struct api_place place;
        struct api_change change;
        struct api_list list;
        struct order_filter orders;
        struct feed_poll feed;
        struct api_follow *follow;
        /* the hash with which the next page of entries begins; "": the first page */
        char next_hash[80];
        int64_t stock_add; /* how much stock a restock adds */
        struct stats_read stats;
    };
};

/** Whether the {id} of the path is that of a voucher or an order in another cell. */
static inline bool api_is_foreign(const struct api_request *request)
{
    return request->route != NULL && !(request->route->callers & API_ANY_CELL) &&
           store_is_foreign(request->api->options.store, request->id);
}

/** Return the time, by clock_mono_us(), at which the request must be answered. */
static inline int64_t api_deadline_us(const struct api_request *request)
{
    return request->arrived_us + request->api->options.timeout_ms * INT64_C(1000);
}

/** Whether more than queue_max requests wait for a backend. */
static inline bool api_is_full(const struct api_request *request)
{
    return http_counts(request->http->http).pending > request->api->options.queue_max;
}

#endif
