/* api_orders.c - placing, reading and listing orders. */
#include "app/api/api_routes.h"
#include "app/sale/admission.h"

#include <assert.h>

/* -- place -- */

static void orders_on_outcome(enum outcome outcome, const struct order *order, void *arg)
{
    api_answer_outcome(arg, outcome, order);
}

static void orders_on_key_found(enum rlock_status status,
                                const struct placement *placement, void *arg)
{
    struct api_request *request = arg;

    if (status != RLOCK_OK)
        api_answer_uncounted(request, OUTCOME_UNAVAILABLE, NULL);
    else if (placement->verdict == VERDICT_REPEATED)
        api_answer_uncounted(request, OUTCOME_REPEATED, &placement->order);
    else if (placement->verdict == VERDICT_ALREADY_ORDERED)
        api_answer_uncounted(request, OUTCOME_ALREADY_ORDERED, &placement->order);
    else
        api_answer_uncounted(request, request->place.refusal, NULL);
}

/* Looks up the order that an earlier request with the same key may have placed. Called when
   admission has refused the request and the caller is identified. */
static void find_by_key(struct api_request *request)
{
    struct key_lookup *lookup = &request->place.lookup;

    if (api_is_full(request)) {
        api_answer_uncounted(request, OUTCOME_OVERLOADED, NULL);
        return;
    }
    lookup->placement.user_id = request->identity.user_id;
    lookup->placement.key = request->place.key;
    lookup->deadline_us = api_deadline_us(request);
    store_find_by_key(request->api->options.store, request->id, lookup,
                      orders_on_key_found, request);
}

/* Called when the request is admitted and the caller is identified. */
static void submit(struct api_request *request)
{
    const struct checkout_request order = {.voucher_id = request->id,
                                           .user_id = request->identity.user_id,
                                           .key = request->place.key,
                                           .has_ticket = api_has_ticket(request),
                                           .is_entry = request->place.is_entry,
                                           .arrived_us = request->arrived_us,
                                           .trace = http_trace_sent(request->http)};

    if (request->place.needs_ticket && !order.has_ticket)
        api_answer_uncounted(request, OUTCOME_TICKET_REQUIRED, NULL);
    else if (!handover_submit(request->api->options.handover, &order, orders_on_outcome,
                              request))
        api_answer_uncounted(request, OUTCOME_OVERLOADED, NULL);
}

static void admit(struct api_request *request, const struct catalogue_entry *entry)
{
    struct api_place *place = &request->place;

    place->needs_ticket = entry->requires_ticket;
    place->is_entry = entry->is_lottery;
    if (place->is_entry)
        place->key = (struct text){0}; /* a repeated entry changes nothing */
    if (admission_check(request->api->options.catalogue, entry, &place->refusal))
        api_identify(request, submit);
    else if (place->refusal != OUTCOME_NO_VOUCHER && place->key.bytes != NULL)
        api_identify(request, find_by_key);
    else
        api_answer_uncounted(request, place->refusal, NULL);
}

void api_place_order(struct api_request *request)
{
    struct api_place *place = &request->place;

    static_assert(HTTP_TRACE_BYTES <= CHECKOUT_TRACE_BYTES, "a trace would be cut");
    if (api_read_key(request, &place->key) && api_read_no_body(request))
        api_find_entry(request, admit);
}

/* -- read -- */

void api_find_order(struct api_request *request, store_order_cb callback)
{
    const struct identity *identity = &request->identity;

    store_read_order(request->api->options.store, request->id,
                     identity->role == AUTH_SHOPPER ? identity->user_id : 0, callback,
                     request);
}

static void orders_on_read(enum rlock_status status, const struct order *order, void *arg)
{
    struct api_request *request = arg;

    if (status == RLOCK_OK)
        api_answer_order(request, 200, order);
    else
        api_answer_failure(request, status, false);
}

void api_read_order(struct api_request *request)
{
    api_find_order(request, orders_on_read);
}
