/*
 * api_life.c - what becomes of an order: to pay, cancel, refund and redeem it, and its
 * history.
 *
 * An order is read before it is changed: to find its voucher, and so that a stranger's
 * request takes no lock. Whether the change may be made is judged by the database alone.
 */
#include "app/api/api_routes.h"
#include "app/core/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROLE(role) (1U << (role))

/* What a request waits with; lives in its scratch. */
struct asked {
    struct api *api;
    struct http_request *request;
    struct order_change change;
    char actor[ACTOR_BYTES];
    struct json_document *body; /* of a payment: keeps payment_ref alive */
    int64_t order_id;           /* of whose history is asked; 0: a voucher's */
    int64_t after_id;
    unsigned limit;
};

static struct asked *ask(struct api *api, struct http_request *request,
                         const struct identity *identity)
{
    struct asked *asked = http_scratch(request);

    static_assert(sizeof(*asked) <= HTTP_SCRATCH_BYTES, "outgrew its place");
    *asked = (struct asked){.api = api, .request = request};
    api_name_actor(identity, asked->actor);
    return asked;
}

/* Who asks, if it is one of these roles. */
static bool identify(struct api *api, struct http_request *request, unsigned roles,
                     struct identity *ret_identity)
{
    if (!api_identify(api, request, ret_identity))
        return false;
    if (roles & ROLE(ret_identity->role))
        return true;
    api_answer_problem(api, request, PROBLEM_FORBIDDEN);
    return false;
}

/* Shoppers have orders of their own, others any. */
static void read_order(struct asked *asked, const struct identity *identity, int64_t id,
                       store_order_cb callback)
{
    store_read_order(asked->api->options.store, id,
                     identity->role == AUTH_SHOPPER ? identity->user_id : 0, callback,
                     asked);
}

/* -- changes -- */

/* Somebody has the money, and the shopper nothing for it. */
static void log_refused_payment(const struct asked *asked, const struct order *order,
                                enum change_verdict verdict)
{
    char ref[PAYMENT_REF_MAX + 1];

    snprintf(ref, sizeof(ref), "%.*s", (int)asked->change.payment_ref.len,
             asked->change.payment_ref.bytes);
    log_event(LOG_WARN, "payment_refused",
              "%s order=%" PRId64 " user=%" PRId64 " amount_cents=%" PRId64
              " code=%s status=%s payment_ref=\"%s\"",
              http_trace(asked->request), order->id, order->user_id,
              asked->change.amount_cents,
              verdict == CHANGE_WRONG_STATE ? "wrong_state" : "wrong_amount",
              json_status_name(order->status), log_plain(ref));
}

static void answer_changed(struct asked *asked, enum change_verdict verdict,
                           const struct order *order)
{
    char body[JSON_ORDER_BYTES];

    switch (verdict) {
    case CHANGE_DONE:
    case CHANGE_REPEATED:
        json_print_order(order, body);
        api_answer_json(asked->api, asked->request, 200, strdup(body), NULL);
        break;
    case CHANGE_WRONG_STATE:
        api_answer_problem(asked->api, asked->request, PROBLEM_WRONG_STATE);
        break;
    case CHANGE_WRONG_AMOUNT:
        api_answer_problem(asked->api, asked->request, PROBLEM_WRONG_AMOUNT);
        break;
    case CHANGE_NO_ORDER:
        api_answer_problem(asked->api, asked->request, PROBLEM_NOT_FOUND);
        break;
    }
}

static void on_changed(enum status status, enum change_verdict verdict,
                       const struct order *order, void *arg)
{
    struct asked *asked = arg;

    if (status == STATUS_OK && order != NULL) {
        /* whoever was told so by this loop must find it so here */
        catalogue_changed(asked->api->options.catalogue, order->voucher_id);
        if (asked->change.change == CHANGE_PAY && verdict > CHANGE_REPEATED)
            log_refused_payment(asked, order, verdict);
    }
    json_document_free(asked->body);
    if (status == STATUS_OK)
        answer_changed(asked, verdict, order);
    else
        api_answer_failure(asked->api, asked->request, status, true);
}

static void on_found(enum status status, const struct order *order, void *arg)
{
    struct asked *asked = arg;

    if (status != STATUS_OK) {
        json_document_free(asked->body);
        api_answer_failure(asked->api, asked->request, status, false);
        return;
    }
    asked->change.voucher_id = order->voucher_id;
    asked->change.order_id = order->id;
    asked->change.actor = asked->actor;
    store_change_order(asked->api->options.store, &asked->change, on_changed, asked);
}

static void change_order(struct api *api, struct http_request *request, int64_t id,
                         enum change change, unsigned roles)
{
    struct identity identity;
    struct asked *asked;

    if (!identify(api, request, roles, &identity))
        return;
    asked = ask(api, request, &identity);
    asked->change.change = change;
    read_order(asked, &identity, id, on_found);
}

void api_cancel_order(struct api *api, struct http_request *request, int64_t id)
{
    change_order(api, request, id, CHANGE_CANCEL, ROLE(AUTH_SHOPPER) | ROLE(AUTH_ADMIN));
}

void api_refund_order(struct api *api, struct http_request *request, int64_t id)
{
    change_order(api, request, id, CHANGE_REFUND, ROLE(AUTH_PAYMENT) | ROLE(AUTH_ADMIN));
}

void api_redeem_order(struct api *api, struct http_request *request, int64_t id)
{
    change_order(api, request, id, CHANGE_REDEEM, ROLE(AUTH_ADMIN));
}

struct payment {
    struct text ref;
    int64_t amount_cents;
};

void api_pay_order(struct api *api, struct http_request *request, int64_t id)
{
    static const struct json_field fields[] = {
        {"payment_ref", JSON_FIELD_TEXT, true, 1, PAYMENT_REF_MAX,
         offsetof(struct payment, ref)},
        {"amount_cents", JSON_FIELD_INTEGER, true, 0, CENTS_MAX,
         offsetof(struct payment, amount_cents)},
        {0}};
    struct payment payment = {0};
    struct json_errors errors = {0};
    struct json_document *body;
    struct identity identity;
    struct asked *asked;

    if (!identify(api, request, ROLE(AUTH_PAYMENT), &identity) ||
        !api_read_body(api, request, fields, &payment, &body))
        return;
    if (payment.ref.len > PAYMENT_REF_MAX) {
        json_errors_add(&errors, "payment_ref", "must not exceed 200 bytes");
        json_document_free(body);
        api_answer_invalid(api, request, &errors);
        return;
    }
    asked = ask(api, request, &identity);
    asked->body = body;
    asked->change = (struct order_change){.change = CHANGE_PAY,
                                          .payment_ref = payment.ref,
                                          .amount_cents = payment.amount_cents};
    read_order(asked, &identity, id, on_found);
}

/* -- history -- */

static void on_events(enum status status, const struct event *events, size_t count,
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
        snprintf(cursor, sizeof(cursor), "%" PRId64, events[count - 1].id);
    }
    api_answer_json(asked->api, asked->request, 200,
                    json_print_events(events, count, has_more ? cursor : NULL), NULL);
}

static void list_events(struct asked *asked, int64_t voucher_id)
{
    struct event_filter filter = {.voucher_id = voucher_id,
                                  .order_id = asked->order_id,
                                  .after_id = asked->after_id,
                                  .limit = asked->limit + 1};

    store_list_events(asked->api->options.store, &filter, on_events, asked);
}

static void on_order_of_events(enum status status, const struct order *order, void *arg)
{
    struct asked *asked = arg;

    if (status == STATUS_OK)
        list_events(asked, order->voucher_id);
    else
        api_answer_failure(asked->api, asked->request, status, false);
}

/* The first page begins with the placement, whose id is the order's own. */
void api_list_order_events(struct api *api, struct http_request *request, int64_t id)
{
    struct identity identity;
    struct asked *asked;
    int64_t after_id;
    unsigned limit;

    if (!identify(api, request, ROLE(AUTH_SHOPPER) | ROLE(AUTH_ADMIN), &identity) ||
        !api_read_limit(api, request, &limit) ||
        !api_read_query_id(api, request, "after", &after_id))
        return;
    asked = ask(api, request, &identity);
    asked->limit = limit;
    asked->after_id = after_id;
    asked->order_id = id;
    read_order(asked, &identity, id, on_order_of_events);
}

static void on_voucher_of_events(enum status status, const struct voucher *vouchers,
                                 size_t count, int64_t now_us UNUSED, void *arg)
{
    struct asked *asked = arg;

    if (status == STATUS_OK && count == 0)
        status = STATUS_NOT_FOUND;
    if (status == STATUS_OK)
        list_events(asked, vouchers[0].id);
    else
        api_answer_failure(asked->api, asked->request, status, false);
}

void api_list_voucher_events(struct api *api, struct http_request *request, int64_t id)
{
    struct identity identity;
    struct asked *asked;
    int64_t after_id;
    unsigned limit;

    if (!identify(api, request, ROLE(AUTH_ADMIN), &identity) ||
        !api_read_limit(api, request, &limit) ||
        !api_read_query_id(api, request, "after", &after_id))
        return;
    asked = ask(api, request, &identity);
    asked->limit = limit;
    asked->after_id = after_id;
    store_read_vouchers(api->options.store, &id, 1, on_voucher_of_events, asked);
}
