/* sim_service.c - start, turn and end of a worker; its log is the trace. */
#include "app/test/sim/sim_service.h"

#include "app/api/api_problem.h"
#include "app/core/log.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_postgres.h"
#include "app/test/sim/sim_redis.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_service {
    struct sim_loop loop;
    struct sim_service_options options;
    struct sim_service *seller;
    unsigned number;
    char url[16];
    struct metrics metrics;
    struct rlock_client *locks;
    struct store *store;
    struct catalogue *catalogue;
    struct checkout *checkout;
    struct handover *handover;
    struct api api;
    bool is_stopping, is_closed;
};

static struct sim_service *services[SIM_SERVICES_MAX];
static unsigned service_count;

/* -- callbacks between the parts -- */

static void service_on_voucher_changed(int64_t voucher_id, void *arg)
{
    struct sim_service *service = arg;

    if (service->catalogue != NULL)
        catalogue_invalidate(service->catalogue, voucher_id);
}

static void service_on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct sim_service *service = arg;

    SIM_TRACE("service %u: a server is %s%s%s", service->number, is_up ? "up" : "down",
              why == NULL ? "" : ": ", why == NULL ? "" : why->text);
}

static void service_on_closed(void *arg UNUSED)
{
}

static void close_parts(struct sim_service *service)
{
    service->is_closed = true;
    store_close(service->store, service_on_closed, NULL);
    rlock_client_close(service->locks, service_on_closed, NULL);
    catalogue_close(service->catalogue);
    checkout_close(service->checkout);
    handover_close(service->handover);
}

static void flush_locks(struct sim_service *service)
{
    if (service->locks != NULL)
        rlock_flush(service->locks);
}

static void service_on_turn_end(void *arg)
{
    struct sim_service *service = arg;

    if (service->is_closed)
        return;
    flush_locks(service);
    service->options.on_requests(service);
    flush_locks(service);
    catalogue_turn(service->catalogue);
    if (service->checkout != NULL)
        checkout_turn(service->checkout);
    handover_turn(service->handover);
    store_flush(service->store);
    if (service->is_stopping && sim_service_in_flight(service) == 0 &&
        handover_is_idle(service->handover) && service->options.pending(service) == 0)
        close_parts(service);
}

/* -- log -- */

void log_set_level(enum log_level level UNUSED)
{
}

bool log_shows(enum log_level level UNUSED)
{
    return true;
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES] UNUSED)
{
    return text;
}

void log_event(enum log_level level UNUSED, const char *event, const char *format, ...)
{
    char text[512] = "";
    va_list args;

    va_start(args, format);
    if (strcmp(event, "orders_expired") == 0)
        sim_check_reported_expired(va_arg(args, uint64_t));
    else if (sim_is_tracing)
        vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    SIM_TRACE("log: %s %s", event, text);
}

/* -- start and end -- */

void sim_services_begin(void)
{
    service_count = 0;
    sim_descriptors_reset();
}

static void start_sale(struct sim_service *service)
{
    const struct sim_service_options *options = &service->options;
    struct checkout_options checkout = {.loop = &service->loop.uv,
                                        .locks = service->locks,
                                        .store = service->store,
                                        .metrics = &service->metrics,
                                        .lease_ms = options->lease_ms,
                                        .lock_wait_ms = options->lock_wait_ms,
                                        .timeout_ms = options->order_timeout_ms,
                                        .batch_max = options->batch_max,
                                        .vouchers_max = options->vouchers_max,
                                        .queue_max = options->queue_max,
                                        .bypass_locks = options->bypass_locks,
                                        .early_release = options->early_release};
    struct handover_options handover = {.loop = &service->loop.uv,
                                        .metrics = &service->metrics};

    service->catalogue =
        catalogue_create(&service->loop.uv, service->store, &service->metrics);
    checkout.catalogue = handover.catalogue = service->catalogue;
    if (service->seller == service)
        handover.checkout = service->checkout = checkout_create(&checkout);
    else
        handover.seller = service->seller->handover;
    service->handover = handover_create(&handover);
}

static struct api_problems *problems(void)
{
    static struct api_problems *all;

    sim_memory_keep(true);
    if (all == NULL)
        all = api_problems_create();
    sim_memory_keep(false);
    return all;
}

static void open_servers(struct sim_service *service)
{
    const struct sim_service_options *options = &service->options;
    bool is_seller = service->seller == service;
    struct rlock_client_options locks = {.loop = &service->loop.uv,
                                         .redis_url = "redis://127.0.0.1:6379",
                                         .timeout_ms = options->order_timeout_ms / 2,
                                         .on_state = service_on_state,
                                         .arg = service};
    struct store_options store = {.loop = &service->loop.uv,
                                  .database_url = service->url,
                                  .timeout_ms = options->order_timeout_ms / 2,
                                  .lanes = is_seller ? options->lanes : 0,
                                  .expires_orders = is_seller && options->expires_orders,
                                  .required = DURABILITY_LOCAL,
                                  .metrics = &service->metrics,
                                  .on_voucher_changed = service_on_voucher_changed,
                                  .on_state = service_on_state,
                                  .arg = service};
    struct rlock_err err = {0};

    if ((is_seller && rlock_client_open(&locks, &service->locks, &err) != RLOCK_OK) ||
        store_open(&store, &service->store, &err) != RLOCK_OK)
        sim_fail("start of a service: %s", err.text);
}

static struct sim_service *start_worker(const struct sim_service_options *options,
                                        struct sim_service *seller)
{
    struct sim_service *service = sim_calloc(sizeof(*service));

    if (service_count == SIM_SERVICES_MAX)
        sim_fail("too many services");
    service->number = service_count;
    services[service_count++] = service;
    service->options = *options;
    service->seller = seller != NULL ? seller : service;
    snprintf(service->url, sizeof(service->url), "sim:%u", service->number);
    sim_loop_init(&service->loop, service_on_turn_end, service);
    open_servers(service);
    start_sale(service);
    service->api.options = (struct api_options){.catalogue = service->catalogue,
                                                .handover = service->handover,
                                                .store = service->store,
                                                .metrics = &service->metrics,
                                                .timeout_ms = options->order_timeout_ms,
                                                .queue_max = options->queue_max,
                                                .bypass_locks = options->bypass_locks};
    service->api.problems = problems();
    return service;
}

void sim_service_start(const struct sim_service_options *options)
{
    struct sim_service *seller = start_worker(options, NULL);

    for (unsigned i = 1; i < options->workers; i++)
        start_worker(options, seller);
}

bool sim_service_is_same(const struct sim_service *one, const struct sim_service *other)
{
    return one->seller == other->seller;
}

void sim_service_kill(struct sim_service *service)
{
    SIM_TRACE("service %u: killed", service->number);
    sim_loop_stop(&service->loop);
    sim_redis_end_service(service->number);
    sim_postgres_end_service(service->number);
}

void sim_service_stop(struct sim_service *service)
{
    SIM_TRACE("service %u: stops", service->number);
    service->is_stopping = true;
    sim_loop_wake(&service->loop);
}

bool sim_services_are_closed(void)
{
    for (unsigned i = 0; i < service_count; i++) {
        const struct sim_service *service = services[i];

        if (service->is_stopping && !sim_loop_is_stopped(&service->loop) &&
            !(service->is_closed && sim_loop_is_done(&service->loop)))
            return false;
    }
    return true;
}

/* -- access -- */

struct sim_loop *sim_service_loop(struct sim_service *service)
{
    return &service->loop;
}

struct sim_service *sim_service_of(const struct sim_loop *loop)
{
    return loop->arg;
}

struct sim_service *sim_service_by_url(const char *url)
{
    return services[strtoul(url + strlen("sim:"), NULL, 10)];
}

size_t sim_service_all(struct sim_service *ret_serving[SIM_SERVICES_MAX])
{
    size_t count = 0;

    for (unsigned i = 0; i < service_count; i++) {
        if (!services[i]->is_stopping && !sim_loop_is_stopped(&services[i]->loop))
            ret_serving[count++] = services[i];
    }
    return count;
}

struct sim_service *sim_service_random(void)
{
    struct sim_service *all[SIM_SERVICES_MAX];
    size_t count = sim_service_all(all);

    return all[sim_below(count)];
}

unsigned sim_service_seller(const struct sim_service *service)
{
    return service->seller->number;
}

unsigned sim_service_number(const struct sim_service *service)
{
    return service->number;
}

bool sim_service_is_up(const struct sim_service *service)
{
    return store_is_up(service->store) &&
           (service->locks == NULL || rlock_client_is_up(service->locks));
}

size_t sim_service_in_flight(const struct sim_service *service)
{
    return service->checkout == NULL || service->is_closed
               ? 0
               : checkout_in_flight(service->checkout);
}

struct api *sim_service_api(struct sim_service *service)
{
    return &service->api;
}

struct store *sim_service_store(struct sim_service *service)
{
    return service->store;
}
