/*
 * sim_shoppers.h - the clients: order requests, repeats, payments, cancellations.
 *
 * A request calls the real handler of app/api; http.h and api_identify() are defined in
 * sim_http.c, which brings the answer back.
 */
#ifndef SIM_SHOPPERS_H
#define SIM_SHOPPERS_H

#include "app/test/sim/sim_service.h"

struct sim_shoppers_options {
    unsigned retry_percent;  /* share of answers after which the request is repeated */
    unsigned change_percent; /* share of placed orders that are paid or cancelled */
    int64_t pause_us;        /* longest pause before a repeat or a change */
    size_t requests_max;     /* includes the repeats */
};

struct sim_purchase {
    int64_t user_id;
    int64_t voucher_id;
    unsigned key; /* 0: none; equal numbers are equal keys */
};

void sim_shoppers_begin(const struct sim_shoppers_options *options);

/** Send a request at `at_us` to a random running service. */
void sim_shoppers_buy(const struct sim_purchase *purchase, int64_t at_us);

/** Callbacks for sim_service_options: handle the requests to `service`; count its unanswered
 *  requests. */
void sim_shoppers_on_requests(struct sim_service *service);

size_t sim_shoppers_pending(const struct sim_service *service);

/** A service was killed: its unanswered requests get no answer. */
void sim_shoppers_lose(const struct sim_service *service);

/** A service is stopped until `until_us`. */
void sim_shoppers_pause(const struct sim_service *service, int64_t until_us);

/** Stop repeating requests. */
void sim_shoppers_stop(void);

/** The number of requests and changes without an answer. */
size_t sim_shoppers_waiting(void);

/** Check all orders against all answers. */
void sim_shoppers_check(void);

/** The outcome of the last request that was answered. */
enum outcome sim_shoppers_last_outcome(void);

/* -- for sim_http.c -- */

struct http_request;

/** A request that is being handled. */
struct http_request *sim_http_request(void *owner, struct text key);
void sim_shoppers_on_answer(void *owner, unsigned status, const char *code,
                            int64_t order_id);
void sim_shoppers_on_identify(void *owner);
struct http *sim_shoppers_http(const void *owner);

#endif
