/* api_routes.h - the handlers of the routes, and functions that several handlers use. */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "app/api/api_problem.h"
#include "app/api/api_request.h"
#include "app/api/json.h"

/* api_identity.c */

/**
 * Identify the caller, then call `identified` with request->identity set.
 *
 * If the token has an id, the token is looked up in the revocation list, and `identified` is called
 * after api_identify() has returned. Otherwise `identified` is called before. If the token is not
 * valid, the caller is above its rate limit, or the route does not permit its role, the request is
 * answered with a problem and `identified` is not called. `identified` may call api_identify()
 * again with another handler, which is then called at once.
 */
void api_identify(struct api_request *request, api_handler *identified);

/**
 * Check the token of the request, and set request->identity.
 *
 * Returns  the status of auth_check(), RLOCK_REFUSED if there is no token, or RLOCK_INVALID if the
 *          header Authorization is repeated
 */
MUST_CHECK enum rlock_status api_check_token(struct api_request *request);

/** Count a request of `key` in `limiter` (NULL: there is no limit). True: the limit is exceeded,
 *  and the request is answered. */
MUST_CHECK bool api_is_limited(struct api_request *request, const char *policy,
                               struct limiter *limiter, uint64_t key);

/** Print the caller as the history names it: "admin:7". */
void api_name_actor(const struct api_request *request, char ret_actor[ACTOR_BYTES]);

/* api_input.c */

/** Parse the body into request->body. False: the request is answered. */
MUST_CHECK bool api_parse_body(struct api_request *request);

/**
 * Read the body, an object, by the table `fields`, see json_read(). The texts in `target` stay valid
 * until the request is answered.
 *
 * Returns  false: the request is answered
 */
MUST_CHECK bool api_read_body(struct api_request *request,
                              const struct json_field *fields, void *target);

/** Check the body of a route without fields. The body must be absent, or an object without members.
 *  False: the request is answered. */
MUST_CHECK bool api_read_no_body(struct api_request *request);

/** Read the header Idempotency-Key, 1 to 64 printable bytes. If it is absent, `ret_key->bytes` is
 *  NULL. False: the header is invalid, and the request is answered. */
MUST_CHECK bool api_read_key(struct api_request *request, struct text *ret_key);

/** Answer 422, because the Idempotency-Key belongs to another request. */
void api_answer_key_used(struct api_request *request);

/** Read the parameter `limit`, 1..100, default 20. False: the parameter is invalid, and the request
 *  is answered. */
MUST_CHECK bool api_read_limit(struct api_request *request, unsigned *ret_limit);

/** Read the parameter `name`, 1 or greater. If it is absent, `ret_number` is unchanged. False: the
 *  parameter is invalid, and the request is answered. */
MUST_CHECK bool api_read_query(struct api_request *request, const char *name,
                               int64_t *ret_number);

/* api_csv.c */

/** Set request->is_csv to whether the client accepts text/csv. Set `ret_limit` to the number of
 *  items that are read at a time: a constant for CSV, otherwise the parameter `limit`. An answer in
 *  CSV contains the whole list, so the parameter `limit` is refused. False: the request is
 *  answered. */
MUST_CHECK bool api_read_page_size(struct api_request *request, unsigned *ret_limit);

/**
 * Answer with the next page of a list as CSV.
 *
 * @text  from malloc(), is freed; NULL: out of memory
 * @next  is called when the next page may be sent; NULL: this page is the last
 */
void api_answer_csv(struct api_request *request, char *text,
                    void (*next)(struct http_request *http));

/* api_vouchers.c */
api_handler api_create_vouchers, api_list_vouchers, api_read_voucher, api_patch_voucher,
    api_restock_voucher;

/* api_readings.c */

/** A request for a voucher, or, if voucher_id is 0, for a list of vouchers. */
struct api_reading_key {
    int64_t voucher_id;
    struct voucher_filter filter; /* filter.limit is one more than the page shows */
};

/** Answer the request with a read of vouchers. Requests with equal keys may share a read. */
void api_share_reading(struct api_request *request, const struct api_reading_key *key);

/* api_stream.c */
api_handler api_stream_voucher;
api_handler api_stream_vouchers;

/* api_admit.c */

/** Call `on_entry` with the voucher of the path. If the catalogue has no valid entry,
 *  first identify the caller and read the voucher. If this fails, answer the request
 *  instead. */
void api_find_entry(struct api_request *request, api_admit on_entry);

/** Answer an order request. `order` is as in checkout_cb. */
void api_answer_outcome(struct api_request *request, enum outcome outcome,
                        const struct order *order);

/** Answer a request that did not reach the checkout. If it is an order request, its outcome is
 *  counted here, because the checkout counts only what it accepts. */
void api_answer_uncounted(struct api_request *request, enum outcome outcome,
                          const struct order *order);

/** Answer with an order. `status` is 200 or 201. With 201 the header Location names the order. */
void api_answer_order(struct api_request *request, unsigned status,
                      const struct order *order);

/** Answer with the entry of the caller. With the status 202 the header Location names the entry. */
void api_answer_entry(struct api_request *request, unsigned status,
                      const struct lottery_entry *entry);

/* api_ticket.c */
api_handler api_make_ticket;

/** Whether the request carries a valid ticket of its caller for this voucher. */
MUST_CHECK bool api_has_ticket(struct api_request *request);

/* api_orders.c */
api_handler api_place_order, api_read_order;

/** Read the order that the path names. The status is RLOCK_NOT_FOUND if the caller is a shopper and
 *  the order belongs to another shopper. */
void api_find_order(struct api_request *request, store_order_cb callback);

/* api_lottery.c */
api_handler api_read_entry, api_list_entries;

/* api_order_list.c */
api_handler api_list_orders;

/* api_life.c; api_change_order() cancels, refunds and redeems */
api_handler api_pay_order, api_change_order, api_list_order_events,
    api_list_voucher_events;

/* api_feed.c */
api_handler api_read_feed;

/** Parse a `next_cursor` of the feed. */
MUST_CHECK bool api_parse_position(struct text cursor,
                                   struct feed_position *ret_position);

/* api_webhooks.c */
api_handler api_list_webhooks, api_read_webhook, api_add_webhook, api_patch_webhook,
    api_remove_webhook, api_replay_webhook, api_list_deliveries;

/* api_ops.c */
api_handler api_read_healthz, api_read_readyz, api_read_metrics, api_read_stats,
    api_read_debug_state;

/* api_web.c */
struct http_page **api_web_create(void);     /* NULL: out of memory */
void api_web_free(struct http_page **pages); /* accepts NULL */
api_handler api_read_page;

/* api_dev.c */
api_handler api_make_dev_token;

#endif
