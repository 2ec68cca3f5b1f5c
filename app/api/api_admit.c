/* api_admit.c - finds the voucher of a request for an order or a ticket, and answers with the
   outcome. */
#include "app/api/api_routes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- answers -- */

void api_answer_order(struct api_request *request, unsigned status,
                      const struct order *order)
{
    char body[JSON_ORDER_BYTES];
    char location[48];
    struct http_reply reply = {.status = status,
                               .content_type = "application/json",
                               .body = body,
                               .body_len = json_print_order(order, body)};

    if (status == 201) {
        snprintf(location, sizeof(location), "/v1/orders/%" PRId64, order->id);
        http_reply_add(&reply, "Location", location);
    }
    http_answer(request->http, &reply);
}

void api_answer_entry(struct api_request *request, unsigned status,
                      const struct lottery_entry *entry)
{
    const char *state = entry->has_won ? "won" : "lost";
    char location[64], hash[80] = "", body[256];

    if (entry->hash == NULL)
        state = "entered";
    else
        snprintf(hash, sizeof(hash), ",\"hash\":\"%s\"", entry->hash);
    snprintf(body, sizeof(body),
             "{\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%" PRId64
             "\",\"status\":\"%s\"%s}",
             request->id, request->identity.user_id, state, hash);
    snprintf(location, sizeof(location), "/v1/vouchers/%" PRId64 "/entry", request->id);
    api_answer_json(request, status, strdup(body), status == 202 ? location : NULL);
}

/* Returns the time until the sale opens. 0: the catalogue has no valid entry. */
static int64_t opens_in_us(const struct api_request *request)
{
    struct catalogue *catalogue = request->api->options.catalogue;
    const struct catalogue_entry *entry = catalogue_get(catalogue, request->id);
    int64_t error_us;

    return entry != NULL ? entry->begin_us - catalogue_now_us(catalogue, &error_us) : 0;
}

void api_answer_outcome(struct api_request *request, enum outcome outcome,
                        const struct order *order)
{
    static const enum api_problem problems[] = {
        [OUTCOME_SOLD_OUT] = PROBLEM_SOLD_OUT,
        [OUTCOME_SALE_ENDED] = PROBLEM_SALE_ENDED,
        [OUTCOME_NO_VOUCHER] = PROBLEM_NOT_FOUND,
        [OUTCOME_TICKET_REQUIRED] = PROBLEM_TICKET_REQUIRED,
        [OUTCOME_MISDIRECTED] = PROBLEM_MISDIRECTED,
        [OUTCOME_IN_PROGRESS] = PROBLEM_IN_PROGRESS,
        [OUTCOME_OVERLOADED] = PROBLEM_OVERLOADED,
        [OUTCOME_UNAVAILABLE] = PROBLEM_UNAVAILABLE,
        [OUTCOME_UNKNOWN] = PROBLEM_OUTCOME_UNKNOWN,
        [OUTCOME_INTERNAL] = PROBLEM_INTERNAL,
    };

    assert(order != NULL || (outcome != OUTCOME_PLACED && outcome != OUTCOME_REPEATED &&
                             outcome != OUTCOME_ALREADY_ORDERED));
    switch (outcome) {
    case OUTCOME_PLACED:
        api_answer_order(request, 201, order);
        break;
    case OUTCOME_REPEATED:
        api_answer_order(request, 200, order);
        break;
    case OUTCOME_ALREADY_ORDERED:
        api_answer_already_ordered(request, order->id);
        break;
    case OUTCOME_ENTERED:
        api_answer_entry(request, 202, &(struct lottery_entry){0});
        break;
    case OUTCOME_NOT_STARTED:
        api_answer_not_started(request, opens_in_us(request));
        break;
    default:
        api_answer_problem(request, problems[outcome]);
    }
}

void api_answer_uncounted(struct api_request *request, enum outcome outcome,
                          const struct order *order)
{
    if (request->route->tag == ROUTE_PLACE)
        metrics_add(&request->api->options.metrics->outcomes[outcome], 1);
    api_answer_outcome(request, outcome, order);
}

/* -- the voucher -- */

static void admit_on_entry(enum rlock_status status, const struct catalogue_entry *entry,
                           void *arg)
{
    struct api_request *request = arg;

    if (status == RLOCK_OK)
        request->place.admit(request, entry);
    else
        api_answer_uncounted(
            request, status == RLOCK_NO_MEMORY ? OUTCOME_OVERLOADED : OUTCOME_UNAVAILABLE,
            NULL);
}

/* Called after api_identify(), so that only callers with a token make the catalogue read
   Postgres. */
static void read_entry(struct api_request *request)
{
    catalogue_read(request->api->options.catalogue, request->id, &request->place.wait,
                   admit_on_entry, request);
}

void api_find_entry(struct api_request *request, api_admit on_entry)
{
    const struct catalogue_entry *entry =
        catalogue_get(request->api->options.catalogue, request->id);

    request->place.admit = on_entry;
    if (entry != NULL)
        on_entry(request, entry);
    else if (api_is_full(request))
        api_answer_uncounted(request, OUTCOME_OVERLOADED, NULL);
    else
        api_identify(request, read_entry);
}
