/* api_orders.c - to place, read and list orders. */
#include "app/api/api_routes.h"
#include "app/sale/admission.h"
#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- place -- */

/* A request on its way through the stages; lives in the request's scratch. */
struct place {
    struct api *api;
    struct http_request *request;
    struct catalogue_wait wait;
    struct placement placement; /* for the look-up of a key */
    struct text key;
    int64_t voucher_id;
    int64_t arrived_us;
    enum outcome refusal; /* by memory; told if the key is not found */
    bool needs_ticket;
};

static void answer_outcome(struct place *place, enum outcome outcome)
{
    static const enum api_problem problems[] = {
        [OUTCOME_SOLD_OUT] = PROBLEM_SOLD_OUT,
        [OUTCOME_SALE_ENDED] = PROBLEM_SALE_ENDED,
        [OUTCOME_NO_VOUCHER] = PROBLEM_NOT_FOUND,
        [OUTCOME_TICKET_REQUIRED] = PROBLEM_TICKET_REQUIRED,
        [OUTCOME_IN_PROGRESS] = PROBLEM_IN_PROGRESS,
        [OUTCOME_OVERLOADED] = PROBLEM_OVERLOADED,
        [OUTCOME_UNAVAILABLE] = PROBLEM_UNAVAILABLE,
        [OUTCOME_UNKNOWN] = PROBLEM_OUTCOME_UNKNOWN,
        [OUTCOME_INTERNAL] = PROBLEM_INTERNAL,
    };

    api_answer_problem(place->api, place->request, problems[outcome]);
}

static void answer_order(struct place *place, const struct order *order, unsigned status)
{
    char body[JSON_ORDER_BYTES];
    char location[48];
    struct http_reply reply = {.status = status,
                               .content_type = "application/json",
                               .body = body,
                               .body_len = json_print_order(order, body)};

    if (status == 201) {
        snprintf(location, sizeof(location), "/v1/orders/%" PRId64, order->id);
        reply.headers[reply.header_count++] =
            (struct http_reply_header){"Location", location};
    }
    http_answer(place->request, &reply);
}

/* Until the sale opens, as far as is known. */
static int64_t opens_in_us(struct place *place)
{
    const struct catalogue *catalogue = place->api->options.catalogue;
    const struct catalogue_entry *entry =
        catalogue_get(place->api->options.catalogue, place->voucher_id);
    int64_t error_us;

    return entry != NULL ? entry->begin_us - catalogue_now_us(catalogue, &error_us) : 0;
}

static void answer_place(struct place *place, enum outcome outcome,
                         const struct order *order)
{
    assert(order != NULL || (outcome != OUTCOME_PLACED && outcome != OUTCOME_REPEATED &&
                             outcome != OUTCOME_ALREADY_ORDERED));
    switch (outcome) {
    case OUTCOME_PLACED:
        answer_order(place, order, 201);
        break;
    case OUTCOME_REPEATED:
        answer_order(place, order, 200);
        break;
    case OUTCOME_ALREADY_ORDERED:
        api_answer_already_ordered(place->api, place->request, order->id);
        break;
    case OUTCOME_NOT_STARTED:
        api_answer_not_started(place->api, place->request, opens_in_us(place));
        break;
    default:
        answer_outcome(place, outcome);
    }
}

static void on_checked_out(enum outcome outcome, const struct order *order, void *arg)
{
    answer_place(arg, outcome, order);
}

/* What the checkout never saw is counted here. */
static void answer_uncounted(struct place *place, enum outcome outcome,
                             const struct order *order)
{
    metrics_add(&place->api->options.metrics->outcomes[outcome], 1);
    answer_place(place, outcome, order);
}

static void on_key_found(enum status status, struct placement *placement, void *arg)
{
    struct place *place = arg;

    if (status != STATUS_OK)
        answer_uncounted(place, OUTCOME_UNAVAILABLE, NULL);
    else if (placement->verdict == VERDICT_REPEATED)
        answer_uncounted(place, OUTCOME_REPEATED, &placement->order);
    else if (placement->verdict == VERDICT_ALREADY_ORDERED)
        answer_uncounted(place, OUTCOME_ALREADY_ORDERED, &placement->order);
    else
        answer_uncounted(place, place->refusal, NULL);
}

/* Past admission, or with a key that may tell of an order made before. */
static void enter(struct place *place, bool is_admitted)
{
    struct api *api = place->api;
    struct identity identity;
    struct checkout_request checkout = {.voucher_id = place->voucher_id,
                                        .key = place->key,
                                        .arrived_us = place->arrived_us,
                                        .trace = http_trace_sent(place->request)};

    if (!api_identify_as(api, place->request, AUTH_SHOPPER, &identity))
        return;
    if (!is_admitted && api_is_full(api, place->request)) {
        answer_uncounted(place, OUTCOME_OVERLOADED, NULL);
        return;
    }
    if (!is_admitted) {
        place->placement =
            (struct placement){.user_id = identity.user_id, .key = place->key};
        store_find_by_key(api->options.store, place->voucher_id, &place->placement,
                          on_key_found, place);
        return;
    }
    if (place->needs_ticket &&
        !api_has_ticket(api, place->request, identity.user_id, place->voucher_id)) {
        answer_uncounted(place, OUTCOME_TICKET_REQUIRED, NULL);
        return;
    }
    checkout.user_id = identity.user_id;
    if (!checkout_submit(api->options.checkout, &checkout, on_checked_out, place))
        answer_uncounted(place, OUTCOME_OVERLOADED, NULL);
}

static void admit(struct place *place, const struct catalogue_entry *entry)
{
    place->needs_ticket = entry->requires_ticket;
    if (admission_enter(place->api->options.catalogue, entry, &place->refusal))
        enter(place, true);
    else if (place->refusal != OUTCOME_NO_VOUCHER && place->key.bytes != NULL)
        enter(place, false);
    else
        answer_uncounted(place, place->refusal, NULL);
}

static void on_entry(enum status status, const struct catalogue_entry *entry, void *arg)
{
    struct place *place = arg;

    if (status == STATUS_OK)
        admit(place, entry);
    else
        answer_uncounted(
            place, status == STATUS_NO_MEMORY ? OUTCOME_OVERLOADED : OUTCOME_UNAVAILABLE,
            NULL);
}

static bool is_printable(struct text text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.bytes[i] < ' ' || text.bytes[i] > '~')
            return false;
    }
    return true;
}

void api_place_order(struct api *api, struct http_request *request, int64_t id)
{
    struct place *place = http_scratch(request);
    const struct catalogue_entry *entry;
    bool twice;

    static_assert(sizeof(*place) <= HTTP_SCRATCH_BYTES, "struct place outgrew its place");
    static_assert(HTTP_TRACE_BYTES <= CHECKOUT_TRACE_BYTES, "a trace would be cut");
    place->api = api;
    place->request = request;
    place->voucher_id = id;
    place->key = http_header(request, "Idempotency-Key", &twice);
    if (twice || place->key.len > REQUEST_KEY_MAX || !is_printable(place->key) ||
        (place->key.bytes != NULL && place->key.len == 0)) {
        api_answer_bad_request(api, request,
                               "Idempotency-Key must be sent once, 1 to 64 printable "
                               "bytes.");
        return;
    }
    entry = catalogue_get(api->options.catalogue, id);
    place->arrived_us = api_begun_us(request);
    if (entry != NULL)
        admit(place, entry);
    else if (api_is_full(api, request))
        answer_uncounted(place, OUTCOME_OVERLOADED, NULL);
    else
        catalogue_read(api->options.catalogue, id, &place->wait, on_entry, place);
}

/* -- read -- */

struct asked {
    struct api *api;
    struct http_request *request;
    unsigned limit;
};

static struct asked *ask(struct api *api, struct http_request *request)
{
    struct asked *asked = http_scratch(request);

    *asked = (struct asked){.api = api, .request = request};
    return asked;
}

static void on_order(enum status status, const struct order *order, void *arg)
{
    struct asked *asked = arg;
    char body[JSON_ORDER_BYTES];

    if (status != STATUS_OK) {
        api_answer_failure(asked->api, asked->request, status, false);
        return;
    }
    json_print_order(order, body);
    api_answer_json(asked->api, asked->request, 200, strdup(body), NULL);
}

void api_read_order(struct api *api, struct http_request *request, int64_t id)
{
    struct identity identity;

    if (!api_identify(api, request, &identity))
        return;
    if (identity.role == AUTH_PAYMENT)
        api_answer_problem(api, request, PROBLEM_FORBIDDEN);
    else
        store_read_order(api->options.store, id,
                         identity.role == AUTH_ADMIN ? 0 : identity.user_id, on_order,
                         ask(api, request));
}

static void on_orders(enum status status, const struct order *orders, size_t count,
                      void *arg)
{
    struct asked *asked = arg;
    char cursor[24];
    bool has_more = count > asked->limit; /* one more than asked was read */

    if (status != STATUS_OK) {
        api_answer_failure(asked->api, asked->request, status, false);
        return;
    }
    if (has_more) {
        count = asked->limit;
        snprintf(cursor, sizeof(cursor), "%" PRId64, orders[count - 1].id);
    }
    api_answer_json(asked->api, asked->request, 200,
                    json_print_orders(orders, count, has_more ? cursor : NULL), NULL);
}

void api_list_orders(struct api *api, struct http_request *request, int64_t id)
{
    struct identity identity;
    struct order_filter filter = {0};
    struct asked *asked;
    int64_t user_id;
    unsigned limit;

    (void)id;
    if (!api_identify(api, request, &identity))
        return;
    if (identity.role == AUTH_PAYMENT) {
        api_answer_problem(api, request, PROBLEM_FORBIDDEN);
        return;
    }
    if (!api_read_limit(api, request, &limit) ||
        !api_read_query_id(api, request, "voucher_id", &filter.voucher_id) ||
        !api_read_query_id(api, request, "cursor", &filter.before_id) ||
        !api_read_query_id(api, request, "user_id", &user_id))
        return;
    if (user_id != 0 && user_id != identity.user_id && identity.role != AUTH_ADMIN) {
        api_answer_problem(api, request, PROBLEM_FORBIDDEN);
        return;
    }
    filter.user_id = user_id != 0 ? user_id : identity.user_id;
    filter.limit = limit + 1; /* one more tells whether the list goes on */
    asked = ask(api, request);
    asked->limit = limit;
    store_list_orders(api->options.store, &filter, on_orders, asked);
}
