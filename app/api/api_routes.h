/* api_routes.h - the handlers of the routes. */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "app/api/api_identity.h"
#include "app/api/api_input.h"
#include "app/api/api_problem.h"
#include "app/api/api_request.h"

/* api_vouchers.c */
void api_create_voucher(struct api_request *request);
void api_list_vouchers(struct api_request *request);
void api_read_voucher(struct api_request *request);
void api_patch_voucher(struct api_request *request);
void api_restock_voucher(struct api_request *request);

/* api_readings.c */

/** What a request reads: a voucher, or with voucher_id 0 a list of vouchers. */
struct api_reading_key {
    int64_t voucher_id;
    struct voucher_filter filter; /* limit: one more than the page shows */
};

/** Read, and answer the request. */
void api_share_reading(struct api_request *request, const struct api_reading_key *key);

/* api_ticket.c */
void api_make_ticket(struct api_request *request);

/** Whether the request carries a valid ticket of its caller for this voucher. */
MUST_CHECK bool api_has_ticket(struct api_request *request);

/* api_orders.c */
void api_place_order(struct api_request *request);
void api_list_orders(struct api_request *request);
void api_read_order(struct api_request *request);

/** Read the order of the path; STATUS_NOT_FOUND if it belongs to another shopper. */
void api_find_order(struct api_request *request, store_order_cb callback);

/** Call `on_entry` with the voucher of the path: at once if memory has it; otherwise when the
 *  caller is identified and Postgres has been asked. Answers if that fails. */
void api_find_entry(struct api_request *request, api_admit on_entry);

/** The answer to an order request; `order` as checkout_cb has it. */
void api_answer_outcome(struct api_request *request, enum outcome outcome,
                        const struct order *order);

/** 200, or 201 with its Location. */
void api_answer_order(struct api_request *request, unsigned status,
                      const struct order *order);

/* api_life.c */
void api_pay_order(struct api_request *request);
void api_change_order(struct api_request *request); /* cancel, refund, redeem */
void api_list_order_events(struct api_request *request);
void api_list_voucher_events(struct api_request *request);

/* api_ops.c */
void api_read_healthz(struct api_request *request);
void api_read_readyz(struct api_request *request);
void api_read_metrics(struct api_request *request);
void api_read_stats(struct api_request *request);
void api_read_debug_state(struct api_request *request);

/* api_web.c */
struct http_page **api_web_create(void);     /* NULL: out of memory */
void api_web_free(struct http_page **pages); /* accepts NULL */
void api_read_page(struct api_request *request);

/* api_dev.c */
void api_make_dev_token(struct api_request *request);

#endif
