/*
 * sim_shoppers.h - the clients: order requests, repeats, payments, cancellations.
 *
 * A request calls the real handler of app/api. sim_http.c defines http.h and api_identify(), and
 * brings back the answer.
 */
#ifndef SIM_SHOPPERS_H
#define SIM_SHOPPERS_H

#include "app/test/sim/sim_service.h"

struct sim_shoppers_options {
    unsigned retry_percent;
    unsigned change_percent;
    int64_t pause_us;
    size_t requests_max;
};

struct sim_purchase {
    int64_t user_id;
    int64_t voucher_id;
    unsigned key; /* number of the Idempotency-Key; 0: no key */
};

void sim_shoppers_begin(const struct sim_shoppers_options *options);

void sim_shoppers_buy(const struct sim_purchase *purchase, int64_t at_us);

void sim_shoppers_on_requests(struct sim_service *service);

size_t sim_shoppers_pending(const struct sim_service *service);

void sim_shoppers_lose(const struct sim_service *service);

void sim_shoppers_pause(const struct sim_service *service, int64_t until_us);

void sim_shoppers_stop(void);

size_t sim_shoppers_waiting(void);

void sim_shoppers_check(void);

enum outcome sim_shoppers_last_outcome(void);

/* -- for sim_http.c -- */

struct http_request;

struct http_request *sim_http_request(void *owner, struct text key);
void sim_shoppers_on_answer(void *owner, unsigned status, const char *code,
                            int64_t order_id);
void sim_shoppers_on_identify(void *owner);
struct http *sim_shoppers_http(const void *owner);

#endif
