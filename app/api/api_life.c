/*
 * api_life.c - changes of an order (pay, cancel, refund, redeem) and its history.
 *
 * An order is read before it is changed, because the change needs the id of the voucher. The read
 * also refuses a request for the order of another shopper before any row is locked. Whether the
 * change is valid is decided in the database alone.
 */
#include "app/api/api_routes.h"
#include "app/api/csv.h"
#include "app/core/log.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

/* -- changes -- */

/* A refused payment is logged, because an operator must act: the shopper has paid for an order that
   does not become paid. */
static void log_refused_payment(const struct api_request *request,
                                const struct order *order, enum change_verdict verdict)
{
    static const char *const codes[] = {[CHANGE_WRONG_STATE] = "wrong_state",
                                        [CHANGE_WRONG_AMOUNT] = "wrong_amount",
                                        [CHANGE_REF_USED] = "payment_ref_used"};
    const struct order_change *change = &request->change.change;
    char ref[PAYMENT_REF_MAX + 1];

    snprintf(ref, sizeof(ref), "%.*s", (int)change->payment_ref.len,
             change->payment_ref.bytes);
    log_event(LOG_WARN, "payment_refused",
              "%s order_id=%" PRId64 " user_id=%" PRId64 " amount_cents=%" PRId64
              " code=%s status=%s payment_ref=\"%s\"",
              http_trace(request->http), order->id, order->user_id, change->amount_cents,
              codes[verdict], json_status_names[order->status], LOG_PLAIN(ref));
}

static void life_on_changed(enum rlock_status status, enum change_verdict verdict,
                            const struct order *order, void *arg)
{
    static const enum api_problem problems[] = {
        [CHANGE_WRONG_STATE] = PROBLEM_WRONG_STATE,
        [CHANGE_WRONG_AMOUNT] = PROBLEM_WRONG_AMOUNT,
        [CHANGE_NO_ORDER] = PROBLEM_NOT_FOUND,
        [CHANGE_REF_USED] = PROBLEM_PAYMENT_REF_USED};
    struct api_request *request = arg;

    if (order != NULL) {
        /* Later requests to this loop must not see the stock as it was before the change. */
        catalogue_invalidate(request->api->options.catalogue, order->voucher_id);
        if (request->change.change.change == CHANGE_PAY && verdict > CHANGE_REPEATED &&
            verdict != CHANGE_KEY_USED)
            log_refused_payment(request, order, verdict);
    }
    if (status != RLOCK_OK)
        api_answer_failure(request, status, true);
    else if (verdict <= CHANGE_REPEATED)
        api_answer_order(request, 200, order);
    else if (verdict == CHANGE_KEY_USED)
        api_answer_key_used(request);
    else
        api_answer_problem(request, problems[verdict]);
}

static void life_on_found(enum rlock_status status, const struct order *order, void *arg)
{
    struct api_request *request = arg;
    struct order_change *change = &request->change.change;

    if (status != RLOCK_OK) {
        api_answer_failure(request, status, false);
        return;
    }
    api_name_actor(request, request->change.actor);
    change->voucher_id = order->voucher_id;
    change->order_id = order->id;
    change->actor = request->change.actor;
    change->deadline_us = api_deadline_us(request);
    store_change_order(request->api->options.store, change, life_on_changed, request);
}

static void change_order(struct api_request *request, enum change change)
{
    request->change.change.change = change;
    api_find_order(request, life_on_found);
}

void api_change_order(struct api_request *request)
{
    static const enum change changes[] = {[ROUTE_CANCEL] = CHANGE_CANCEL,
                                          [ROUTE_REFUND] = CHANGE_REFUND,
                                          [ROUTE_REDEEM] = CHANGE_REDEEM};

    if (api_read_key(request, &request->change.change.key) && api_read_no_body(request))
        change_order(request, changes[request->route->tag]);
}

void api_pay_order(struct api_request *request)
{
    static const struct json_field fields[] = {
        {"payment_ref", JSON_FIELD_TEXT, true, 1, PAYMENT_REF_MAX,
         offsetof(struct order_change, payment_ref)},
        {"amount_cents", JSON_FIELD_INTEGER, true, 0, CENTS_MAX,
         offsetof(struct order_change, amount_cents)},
        {0}};
    struct order_change *change = &request->change.change;

    if (!api_read_key(request, &change->key) || !api_read_body(request, fields, change))
        return;
    if (change->payment_ref.len <= PAYMENT_REF_MAX)
        change_order(request, CHANGE_PAY);
    else
        api_answer_invalid_field(request, "payment_ref", "must not exceed 200 bytes");
}

/* -- history -- */

static void list_events(struct api_request *request);

static void life_on_sent(struct http_request *http)
{
    struct api_request *request = http->context;

    request->arrived_us = clock_mono_us(); /* each page gets a whole timeout_ms */
    list_events(request);
}

static void life_on_events(enum rlock_status status, const struct event *events,
                           size_t count, void *arg)
{
    struct api_request *request = arg;
    size_t limit = request->list.limit;
    bool has_more = count > limit;

    if (status != RLOCK_OK) {
        api_answer_failure(request, status, false);
    } else if (!request->is_csv) {
        api_answer_list(request, json_print_events(events, count, limit));
    } else {
        if (has_more)
            request->list.after_id = events[limit - 1].id;
        api_answer_csv(
            request,
            csv_print_events(events, has_more ? limit : count, !request->has_part),
            has_more ? life_on_sent : NULL);
    }
}

static void list_events(struct api_request *request)
{
    struct event_filter filter = {.voucher_id = request->list.voucher_id,
                                  .order_id = request->list.order_id,
                                  .without_orders = request->list.without_orders,
                                  .after_id = request->list.after_id,
                                  /* the extra event shows that a page follows */
                                  .limit = request->list.limit + 1,
                                  .deadline_us = api_deadline_us(request)};

    store_list_events(request->api->options.store, &filter, life_on_events, request);
}

static bool read_list(struct api_request *request)
{
    return api_read_page_size(request, &request->list.limit) &&
           api_read_query(request, "after", &request->list.after_id);
}

static void life_on_order(enum rlock_status status, const struct order *order, void *arg)
{
    struct api_request *request = arg;

    if (status == RLOCK_OK) {
        request->list.voucher_id = order->voucher_id;
        list_events(request);
    } else {
        api_answer_failure(request, status, false);
    }
}

void api_list_order_events(struct api_request *request)
{
    request->list.order_id = request->id;
    if (read_list(request))
        api_find_order(request, life_on_order);
}

static void life_on_voucher(enum rlock_status status,
                            const struct voucher *vouchers UNUSED, size_t count UNUSED,
                            int64_t now_us UNUSED, void *arg)
{
    struct api_request *request = arg;

    if (status == RLOCK_OK)
        list_events(request);
    else
        api_answer_failure(request, status, false);
}

static bool read_orders_parameter(struct api_request *request)
{
    bool is_repeated;
    struct text value = http_query(request->http, "orders", &is_repeated);

    request->list.without_orders = text_is(value, "false");
    if (value.bytes == NULL ||
        (!is_repeated && (request->list.without_orders || text_is(value, "true"))))
        return true;
    api_answer_bad_request(request, "orders must be true or false.");
    return false;
}

void api_list_voucher_events(struct api_request *request)
{
    request->list.voucher_id = request->id;
    if (read_list(request) && read_orders_parameter(request))
        store_read_voucher(request->api->options.store, request->id, life_on_voucher,
                           request);
}
