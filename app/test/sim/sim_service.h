/*
 * sim_service.h - a worker of the service: the real modules, assembled as worker.c does.
 *
 * An instance has one or two workers. The first worker sells. A second worker hands its orders over
 * to the first. Each worker has its own number among all instances.
 *
 * Catalogue, checkout, expiry, store and lock client are real, and so is the handler of order
 * requests in app/api. HTTP and authentication are not real: sim_shoppers.c calls the handler.
 */
#ifndef SIM_SERVICE_H
#define SIM_SERVICE_H

#include "app/api/api_request.h"
#include "app/test/sim/sim_loop.h"

#define SIM_SERVICES_MAX 20

struct sim_service;

struct sim_service_options {
    unsigned workers;
    uint32_t order_timeout_ms;
    uint32_t lease_ms;
    uint32_t lock_wait_ms;
    unsigned lanes;
    size_t batch_max;
    size_t vouchers_max;
    size_t queue_max;
    bool bypass_locks;
    bool early_release;
    bool expires_orders;
    void (*on_requests)(struct sim_service *service);
    size_t (*pending)(const struct sim_service *service);
};

void sim_services_begin(void);

void sim_service_start(const struct sim_service_options *options);

bool sim_service_is_same(const struct sim_service *one, const struct sim_service *other);

void sim_service_kill(struct sim_service *service);

void sim_service_stop(struct sim_service *service);

bool sim_services_are_closed(void);

struct sim_loop *sim_service_loop(struct sim_service *service);
struct sim_service *sim_service_of(const struct sim_loop *loop);
struct sim_service *sim_service_by_url(const char *url);

unsigned sim_service_seller(const struct sim_service *service);

struct sim_service *sim_service_random(void);
size_t sim_service_all(struct sim_service *ret_serving[SIM_SERVICES_MAX]);

unsigned sim_service_number(const struct sim_service *service);
bool sim_service_is_up(const struct sim_service *service);

size_t sim_service_in_flight(const struct sim_service *service);

struct api *sim_service_api(struct sim_service *service);
struct store *sim_service_store(struct sim_service *service);

#endif
