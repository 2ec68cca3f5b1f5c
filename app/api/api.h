/*
 * api.h - the HTTP API: its routes, who may call them, request bodies and answers.
 *
 * HTTP status codes are chosen in this layer only. Each loop has one api, which only the thread of
 * the loop uses.
 */
#ifndef API_H
#define API_H

#include "app/auth/auth.h"
#include "app/auth/limiter.h"
#include "app/auth/ticket.h"
#include "app/core/metrics.h"
#include "app/http/http.h"
#include "app/ops/stats.h"
#include "app/sale/catalogue.h"
#include "app/sale/feed.h"
#include "app/sale/handover.h"
#include "app/store/store.h"

/* In a Redis cluster the keys of revoked tokens begin with this tag. Redis places keys with the
   same tag on the same server. */
#define API_REVOKED_TAG "{revoked:}"

struct api;

/** All pointers are borrowed and must outlive the api. */
struct api_options {
    const struct auth *auth;
    struct redis_conn *revocations; /* for look-ups of revoked tokens */
    struct catalogue *catalogue;
    struct handover *handover; /* for orders */
    struct feed *feed;
    struct store *store;
    struct stats *stats;
    struct tickets tickets;
    struct limiter *user_limiter;    /* NULL: no limit */
    struct limiter *address_limiter; /* NULL: no limit */
    struct metrics *metrics;         /* the metrics of this loop */
    const struct all_metrics *all_metrics;
    uint32_t timeout_ms;  /* from the arrival of a request to its answer */
    size_t queue_max;     /* maximum number of requests that wait for a backend */
    bool bypass_locks;    /* serve without Redis while it is down */
    const char *currency; /* in which the pages show amounts, an ISO 4217 code */
    bool dev_login;       /* issue tokens to anyone, for development */
};

/** NULL: out of memory. */
struct api *api_create(const struct api_options *options);
void api_free(struct api *api); /* accepts NULL */

/** Verify tokens with `auth` from now on. `auth` is borrowed. */
void api_set_auth(struct api *api, const struct auth *auth);

/** The size of a request's context and the callbacks of struct http_options. The `arg` of the
 *  callbacks is the api. */
extern const size_t api_context_bytes;
size_t api_body_max(struct http_request *http, void *arg);
void api_handle(struct http_request *http, void *arg);
size_t api_print_event(struct http_listener *listener, char ret_event[HTTP_EVENT_BYTES],
                       void *arg);
void api_answered(struct http_request *http, unsigned status, void *arg);

#endif
