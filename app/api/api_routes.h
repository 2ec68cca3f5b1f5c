/* api_routes.h - the handlers of the routes. */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "app/api/api_identity.h"
#include "app/api/api_input.h"
#include "app/api/api_problem.h"
#include "app/api/api_request.h"

/* api_vouchers.c */
void api_create_voucher(struct api *api, struct http_request *request, int64_t id);
void api_list_vouchers(struct api *api, struct http_request *request, int64_t id);
void api_read_voucher(struct api *api, struct http_request *request, int64_t id);
void api_patch_voucher(struct api *api, struct http_request *request, int64_t id);
void api_restock_voucher(struct api *api, struct http_request *request, int64_t id);

/* api_ticket.c */
void api_make_ticket(struct api *api, struct http_request *request, int64_t id);

/** Whether the request shows a good ticket of this shopper for this voucher. */
MUST_CHECK bool api_has_ticket(struct api *api, struct http_request *request,
                               int64_t user_id, int64_t voucher_id);

/* api_orders.c */
void api_place_order(struct api *api, struct http_request *request, int64_t id);
void api_list_orders(struct api *api, struct http_request *request, int64_t id);
void api_read_order(struct api *api, struct http_request *request, int64_t id);

/* api_life.c */
void api_pay_order(struct api *api, struct http_request *request, int64_t id);
void api_cancel_order(struct api *api, struct http_request *request, int64_t id);
void api_refund_order(struct api *api, struct http_request *request, int64_t id);
void api_redeem_order(struct api *api, struct http_request *request, int64_t id);
void api_list_order_events(struct api *api, struct http_request *request, int64_t id);
void api_list_voucher_events(struct api *api, struct http_request *request, int64_t id);

/* api_ops.c */
void api_healthz(struct api *api, struct http_request *request, int64_t id);
void api_readyz(struct api *api, struct http_request *request, int64_t id);
void api_metrics(struct api *api, struct http_request *request, int64_t id);
void api_openapi(struct api *api, struct http_request *request, int64_t id);

/* api_web.c */
void api_web(struct api *api, struct http_request *request, int64_t id);

/* api_stats.c */
void api_stats(struct api *api, struct http_request *request, int64_t id);

/* api_dev.c */
void api_dev_token(struct api *api, struct http_request *request, int64_t id);

#endif
