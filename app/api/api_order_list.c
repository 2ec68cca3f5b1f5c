/*
 * api_order_list.c - lists of orders.
 *
 * A shopper sees only the orders that it has placed. Other roles see all orders, but must filter by
 * order, payment, shopper or voucher. Each of these filters has an index. A list without such a
 * filter would read the whole table.
 */
#include "app/api/api_routes.h"
#include "app/api/csv.h"
#include "app/core/rfc3339.h"

#include <string.h>

/* -- filters -- */

static bool read_status(struct api_request *request, struct text *ret_status)
{
    bool is_repeated;
    struct text status = http_query(request->http, "status", &is_repeated);

    for (size_t i = 0; i <= ORDER_REFUNDED && !is_repeated; i++) {
        const char *name = json_status_names[i];

        if (text_is(status, name))
            *ret_status = (struct text){name, strlen(name)};
    }
    if (status.bytes == NULL || ret_status->bytes != NULL)
        return true;
    api_answer_bad_request(request, "status must be one status of an order.");
    return false;
}

static bool read_payment_ref(struct api_request *request, struct text *ret_ref)
{
    bool is_repeated;
    struct text ref = http_query(request->http, "payment_ref", &is_repeated);
    json_t *utf8;

    if (ref.bytes == NULL)
        return true;
    utf8 = json_stringn(ref.bytes, ref.len); /* NULL: invalid */
    json_decref(utf8);
    if (is_repeated || utf8 == NULL || ref.len == 0 || ref.len > PAYMENT_REF_MAX) {
        api_answer_bad_request(
            request, "payment_ref must be one text of 1 to 200 bytes of UTF-8.");
        return false;
    }
    *ret_ref = ref;
    return true;
}

static bool read_time(struct api_request *request, const char *name, int64_t *ret_us)
{
    bool is_repeated;
    struct text time = http_query(request->http, name, &is_repeated);
    char detail[80];

    if (time.bytes == NULL ||
        (!is_repeated && rfc3339_parse(time.bytes, time.len, ret_us)))
        return true;
    snprintf(detail, sizeof(detail), "%s must be one RFC 3339 time.", name);
    api_answer_bad_request(request, detail);
    return false;
}

static bool read_filter(struct api_request *request, struct order_filter *filter)
{
    return api_read_page_size(request, &filter->limit) &&
           api_read_query(request, "cursor", &filter->before_id) &&
           api_read_query(request, "order_id", &filter->order_id) &&
           api_read_query(request, "voucher_id", &filter->voucher_id) &&
           api_read_query(request, "user_id", &filter->user_id) &&
           read_payment_ref(request, &filter->payment_ref) &&
           read_status(request, &filter->status) &&
           read_time(request, "created_after", &filter->from_us) &&
           read_time(request, "created_before", &filter->until_us);
}

/* Limits the filter to what the caller may see. False: the request is answered. */
static bool restrict_filter(struct api_request *request, struct order_filter *filter)
{
    const struct identity *identity = &request->identity;

    if (identity->role == AUTH_SHOPPER) {
        if (filter->user_id != 0 && filter->user_id != identity->user_id) {
            api_answer_problem(request, PROBLEM_FORBIDDEN);
            return false;
        }
        filter->user_id = identity->user_id;
    } else if (filter->order_id == 0 && filter->payment_ref.bytes == NULL &&
               filter->user_id == 0 && filter->voucher_id == 0) {
        api_answer_bad_request(
            request, "One of voucher_id, user_id, order_id and payment_ref is required.");
        return false;
    }
    return true;
}

/* -- pages -- */

static void read_page(struct api_request *request);

static void order_list_on_sent(struct http_request *http)
{
    read_page(http->context);
}

static void order_list_on_page(enum rlock_status status, const struct order_page *page,
                               void *arg)
{
    struct api_request *request = arg;

    if (status != RLOCK_OK) {
        api_answer_failure(request, status, false);
        return;
    }
    request->orders.before_id = page->next_id;
    if (request->is_csv)
        api_answer_csv(request, csv_print_orders(page, !request->has_part),
                       page->next_id != 0 ? order_list_on_sent : NULL);
    else
        api_answer_list(request, json_print_orders(page));
}

static void read_page(struct api_request *request)
{
    store_list_orders(request->api->options.store, &request->orders, order_list_on_page,
                      request);
}

void api_list_orders(struct api_request *request)
{
    request->orders.until_us = INT64_MAX;
    if (read_filter(request, &request->orders) &&
        restrict_filter(request, &request->orders))
        read_page(request);
}
