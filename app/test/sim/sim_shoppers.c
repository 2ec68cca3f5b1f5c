/* sim_shoppers.c - each request waits for the next turn of its service, and then for its answer. */
#include "app/test/sim/sim_shoppers.h"

#include "app/api/api_routes.h"
#include "app/core/metrics.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REQUESTS_MAX 96

struct request {
    struct rlock_link link;
    struct sim_attempt attempt;
    struct sim_purchase purchase;
    struct sim_service *service;
    struct api_request api;
    bool is_begun, is_identified;
    char key[16];
};

struct life {
    struct rlock_link link;
    struct order_change change;
    struct sim_service *service;
    int64_t user_id, arrived_us;
    bool is_answered;
    char actor[ACTOR_BYTES];
    char payment_ref[24];
};

static struct {
    struct sim_shoppers_options options;
    size_t request_count, life_count;
    struct request *requests[REQUESTS_MAX];
    struct life *lives[REQUESTS_MAX];
    struct rlock_link inboxes[SIM_SERVICES_MAX];
    struct rlock_link outboxes[SIM_SERVICES_MAX];
    int64_t paused_until_us[SIM_SERVICES_MAX];
    bool is_identified_later;
    bool is_stopped;
    enum outcome last_outcome;
} shoppers;

void sim_shoppers_begin(const struct sim_shoppers_options *options)
{
    memset(&shoppers, 0, sizeof(shoppers));
    shoppers.options = *options;
    shoppers.is_identified_later = sim_chance(20);
    for (int i = 0; i < SIM_SERVICES_MAX; i++) {
        list_init(&shoppers.inboxes[i]);
        list_init(&shoppers.outboxes[i]);
    }
}

/* -- arrival -- */

static void put_in_inbox(struct request *request)
{
    list_append(&shoppers.inboxes[sim_service_number(request->service)], &request->link);
    sim_loop_wake(sim_service_loop(request->service));
}

static void request_on_arrival(void *subject, uint64_t number UNUSED)
{
    struct request *request = subject;

    request->service = sim_service_random();
    request->attempt.service = sim_service_number(request->service);
    request->attempt.seller = sim_service_seller(request->service);
    put_in_inbox(request);
}

void sim_shoppers_buy(const struct sim_purchase *purchase, int64_t at_us)
{
    struct request *request;

    if (shoppers.request_count == REQUESTS_MAX)
        sim_fail("too many requests");
    request = sim_calloc(sizeof(*request));
    shoppers.requests[shoppers.request_count++] = request;
    request->purchase = *purchase;
    request->attempt.user_id = purchase->user_id;
    request->attempt.voucher_id = purchase->voucher_id;
    if (purchase->key != 0) {
        snprintf(request->key, sizeof(request->key), "key-%u", purchase->key);
        request->attempt.key = (struct text){request->key, strlen(request->key)};
    }
    sim_at(at_us, request_on_arrival, request, 0);
}

static bool is_behind(const struct sim_attempt *attempt)
{
    for (size_t i = 0; i < shoppers.request_count; i++) {
        const struct request *other = shoppers.requests[i];

        if (other->is_begun && other->attempt.user_id == attempt->user_id &&
            other->attempt.seller == attempt->seller && !other->attempt.is_answered &&
            !other->attempt.is_lost)
            return true;
    }
    return false;
}

static void begin_request(struct request *request)
{
    static const struct api_route route = {.tag = ROUTE_PLACE};
    struct sim_attempt *attempt = &request->attempt;

    attempt->is_behind = is_behind(attempt);
    request->is_begun = true;
    attempt->arrived_us = sim_now_us();
    SIM_TRACE("request: shopper %" PRId64 ", voucher %" PRId64 ", key %s, service %u",
              attempt->user_id, attempt->voucher_id, request->key, attempt->service);
    request->api = (struct api_request){.api = sim_service_api(request->service),
                                        .http = sim_http_request(request, attempt->key),
                                        .route = &route,
                                        .id = attempt->voucher_id,
                                        .arrived_us = attempt->arrived_us};
    api_place_order(&request->api);
}

static void identify(struct request *request)
{
    request->is_identified = true;
    request->api.identity.user_id = request->attempt.user_id;
    request->api.identity.role = AUTH_SHOPPER;
    request->api.identified(&request->api);
}

static void request_on_identified(void *subject, uint64_t number UNUSED)
{
    put_in_inbox(subject);
}

void sim_shoppers_on_identify(void *owner)
{
    struct request *request = owner;

    if (shoppers.is_identified_later)
        sim_at(sim_now_us() + sim_between(0, 2 * MS), request_on_identified, request, 0);
    else
        identify(request);
}

static void send_change(struct life *life);

void sim_shoppers_on_requests(struct sim_service *service)
{
    struct rlock_link *inbox = &shoppers.inboxes[sim_service_number(service)];
    struct rlock_link *outbox = &shoppers.outboxes[sim_service_number(service)];

    LIST_DRAIN(struct request, request, inbox, link) {
        if (!request->is_begun)
            begin_request(request);
        else
            identify(request);
    }
    LIST_DRAIN(struct life, life, outbox, link)
        send_change(life);
}

struct http *sim_shoppers_http(const void *owner)
{
    const struct request *request = owner;

    return (struct http *)(void *)request->service;
}

size_t sim_shoppers_pending(const struct sim_service *service)
{
    size_t pending = 0;

    for (size_t i = 0; i < shoppers.request_count; i++)
        pending += shoppers.requests[i]->service == service &&
                   !shoppers.requests[i]->attempt.is_answered;
    for (size_t i = 0; i < shoppers.life_count; i++)
        pending +=
            shoppers.lives[i]->service == service && !shoppers.lives[i]->is_answered;
    return pending;
}

/* -- changes of placed orders -- */

static void shoppers_on_changed(enum rlock_status status, enum change_verdict verdict,
                                const struct order *order, void *arg)
{
    struct life *life = arg;
    const struct sim_order *row = sim_sql_order(life->change.order_id);

    if (life->is_answered)
        sim_fail("a change of order %" PRId64 " was answered twice",
                 life->change.order_id);
    life->is_answered = true;
    sim_check_deadline(life->user_id, life->arrived_us,
                       shoppers.paused_until_us[sim_service_number(life->service)]);
    SIM_TRACE("answer: change %d of order %" PRId64 ": %s, verdict %d",
              life->change.change, life->change.order_id, rlock_status_name(status),
              verdict);
    if (status != RLOCK_OK || verdict != CHANGE_DONE)
        return;
    if (order->id != life->change.order_id ||
        (life->change.change == CHANGE_PAY && row->paid_us == 0) ||
        (life->change.change == CHANGE_CANCEL && row->status != ORDER_CANCELLED))
        sim_fail("order %" PRId64 " was answered as changed, and is not",
                 life->change.order_id);
}

static void send_change(struct life *life)
{
    uint32_t timeout_ms = sim_service_api(life->service)->options.timeout_ms;

    life->arrived_us = sim_now_us();
    life->change.deadline_us = life->arrived_us + timeout_ms * INT64_C(1000);
    store_change_order(sim_service_store(life->service), &life->change,
                       shoppers_on_changed, life);
}

static void life_on_arrival(void *subject, uint64_t number UNUSED)
{
    struct life *life = subject;

    life->service = sim_service_random();
    list_append(&shoppers.outboxes[sim_service_number(life->service)], &life->link);
    sim_loop_wake(sim_service_loop(life->service));
}

static void change_order(const struct request *request, int64_t order_id)
{
    struct life *life;

    if (shoppers.life_count == REQUESTS_MAX)
        return;
    life = sim_calloc(sizeof(*life));
    shoppers.lives[shoppers.life_count++] = life;
    life->user_id = request->attempt.user_id;
    snprintf(life->actor, sizeof(life->actor), "shopper:%" PRId64,
             request->attempt.user_id);
    snprintf(life->payment_ref, sizeof(life->payment_ref), "payment-%" PRId64, order_id);
    life->change = (struct order_change){
        .change = sim_chance(60) ? CHANGE_CANCEL : CHANGE_PAY,
        .voucher_id = request->attempt.voucher_id,
        .order_id = order_id,
        .actor = life->actor,
        .payment_ref = {life->payment_ref, strlen(life->payment_ref)},
        .amount_cents = 100};
    sim_at(sim_now_us() + sim_between(0, shoppers.options.pause_us), life_on_arrival,
           life, 0);
}

/* -- answers -- */

static enum outcome outcome_of(unsigned status, const char *code)
{
    if (status == 201)
        return OUTCOME_PLACED;
    if (status == 200)
        return OUTCOME_REPEATED;
    if (status == 202)
        return OUTCOME_ENTERED;
    for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
        if (strcmp(code, metrics_outcome_names[outcome]) == 0)
            return (enum outcome)outcome;
    }
    sim_fail("an answer has status %u and code %s", status, code);
}

void sim_shoppers_on_answer(void *owner, unsigned status, const char *code,
                            int64_t order_id)
{
    struct request *request = owner;
    const struct sim_shoppers_options *options = &shoppers.options;
    int64_t again_us = sim_now_us() + sim_between(0, options->pause_us);
    enum outcome outcome = outcome_of(status, code);

    request->attempt.paused_until_us = shoppers.paused_until_us[request->attempt.service];
    sim_check_answer(&request->attempt, outcome, order_id);
    shoppers.last_outcome = outcome;
    if (shoppers.is_stopped)
        return;
    if (outcome == OUTCOME_PLACED && sim_chance(options->change_percent))
        change_order(request, order_id);
    if (shoppers.request_count < options->requests_max &&
        sim_chance(options->retry_percent))
        sim_shoppers_buy(&request->purchase, again_us);
}

/* -- the schedule -- */

void sim_shoppers_lose(const struct sim_service *service)
{
    for (size_t i = 0; i < shoppers.request_count; i++) {
        struct request *request = shoppers.requests[i];

        if (request->service == service && !request->attempt.is_answered)
            request->attempt.is_lost = true;
    }
    for (size_t i = 0; i < shoppers.life_count; i++) {
        if (shoppers.lives[i]->service == service)
            shoppers.lives[i]->is_answered = true;
    }
}

void sim_shoppers_pause(const struct sim_service *service, int64_t until_us)
{
    int64_t *paused_until_us = &shoppers.paused_until_us[sim_service_number(service)];

    if (*paused_until_us < until_us)
        *paused_until_us = until_us;
}

void sim_shoppers_stop(void)
{
    shoppers.is_stopped = true;
}

size_t sim_shoppers_waiting(void)
{
    size_t waiting = 0;

    for (size_t i = 0; i < shoppers.request_count; i++)
        waiting += !shoppers.requests[i]->attempt.is_answered &&
                   !shoppers.requests[i]->attempt.is_lost;
    for (size_t i = 0; i < shoppers.life_count; i++)
        waiting += !shoppers.lives[i]->is_answered;
    return waiting;
}

void sim_shoppers_check(void)
{
    struct sim_attempt *attempts[REQUESTS_MAX];

    for (size_t i = 0; i < shoppers.request_count; i++)
        attempts[i] = &shoppers.requests[i]->attempt;
    sim_check_orders(attempts, shoppers.request_count);
}

enum outcome sim_shoppers_last_outcome(void)
{
    return shoppers.last_outcome;
}
