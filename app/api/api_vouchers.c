/* api_vouchers.c - to create, read, list, change and restock vouchers. */
#include "app/api/api_routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define YEAR_9999_US    INT64_C(253402300799999999)
#define STOCK_DELTA_MAX STOCK_MAX

/* What a request waits with; lives in the request's scratch. */
struct asked {
    struct api *api;
    struct http_request *request;
    enum voucher_state state;
    unsigned limit;
    unsigned status; /* of the answer when all is well */
    /* what to tell when a rule between fields does not hold: a field's fault, or, where
       the field is NULL, that there is not enough stock */
    const char *rule_field, *rule_message;
};

static struct asked *ask(struct api *api, struct http_request *request)
{
    struct asked *asked = http_scratch(request);

    *asked = (struct asked){.api = api, .request = request, .status = 200};
    return asked;
}

/* Told with 422 when end_at lies before begin_at. */
static void set_window_rule(struct asked *asked)
{
    asked->rule_field = "end_at";
    asked->rule_message = "must be after begin_at";
}

static void answer_rule(struct asked *asked)
{
    struct json_errors errors = {0};

    if (asked->rule_field == NULL) {
        api_answer_problem(asked->api, asked->request, PROBLEM_INSUFFICIENT_STOCK);
        return;
    }
    json_errors_add(&errors, asked->rule_field, asked->rule_message);
    api_answer_invalid(asked->api, asked->request, &errors);
}

static void answer_voucher(struct asked *asked, const struct voucher *voucher,
                           int64_t now_us)
{
    char location[48];

    snprintf(location, sizeof(location), "/v1/vouchers/%" PRId64, voucher->id);
    api_answer_json(asked->api, asked->request, asked->status,
                    json_print_voucher(voucher, now_us),
                    asked->status == 201 ? location : NULL);
}

/* -- read -- */

static void on_read(enum status status, const struct voucher *vouchers, size_t count,
                    int64_t now_us, void *arg)
{
    struct asked *asked = arg;

    if (status == STATUS_OK && count == 0)
        status = STATUS_NOT_FOUND;
    if (status == STATUS_OK)
        answer_voucher(asked, &vouchers[0], now_us);
    else
        api_answer_failure(asked->api, asked->request, status, false);
}

void api_read_voucher(struct api *api, struct http_request *request, int64_t id)
{
    store_read_vouchers(api->options.store, &id, 1, on_read, ask(api, request));
}

/* -- write -- */

static void on_written(enum status status, const struct voucher *vouchers, size_t count,
                       int64_t now_us, void *arg)
{
    struct asked *asked = arg;

    if (status == STATUS_INVALID) {
        answer_rule(asked);
    } else if (status != STATUS_OK || count == 0) {
        api_answer_failure(asked->api, asked->request,
                           status == STATUS_OK ? STATUS_NOT_FOUND : status, true);
    } else {
        /* who was told so by this loop must find it so here */
        catalogue_changed(asked->api->options.catalogue, vouchers[0].id);
        answer_voucher(asked, &vouchers[0], now_us);
    }
}

#define VOUCHER(field) offsetof(struct voucher, field)

/* A ticket that nobody can make would close the sale to all. */
static bool can_require(const struct api *api, int64_t requires_ticket)
{
    return requires_ticket <= 0 || api->options.tickets.secret[0] != '\0';
}

static void set_ticket_rule(struct asked *asked)
{
    asked->rule_field = "requires_ticket";
    asked->rule_message = "requires SECKILL_TICKET_SECRET, which is not set";
}

void api_create_voucher(struct api *api, struct http_request *request, int64_t id)
{
    static const struct json_field fields[] = {
        {"title", JSON_FIELD_TEXT, true, 1, TITLE_CHARS_MAX, VOUCHER(title)},
        {"description", JSON_FIELD_TEXT, false, 0, DESCRIPTION_CHARS_MAX,
         VOUCHER(description)},
        {"price_cents", JSON_FIELD_INTEGER, true, 0, CENTS_MAX, VOUCHER(price_cents)},
        {"face_value_cents", JSON_FIELD_INTEGER, true, 0, CENTS_MAX,
         VOUCHER(face_value_cents)},
        {"stock", JSON_FIELD_INTEGER, true, 0, STOCK_MAX, VOUCHER(stock_total)},
        {"per_user_limit", JSON_FIELD_INTEGER, false, 1, PER_USER_LIMIT_MAX,
         VOUCHER(per_user_limit)},
        {"begin_at", JSON_FIELD_TIME, true, 1, YEAR_9999_US, VOUCHER(begin_us)},
        {"end_at", JSON_FIELD_TIME, true, 1, YEAR_9999_US, VOUCHER(end_us)},
        {"pay_within_s", JSON_FIELD_INTEGER, false, 1, PAY_WITHIN_S_MAX,
         VOUCHER(pay_within_s)},
        {"requires_ticket", JSON_FIELD_BOOLEAN, false, 0, 1, VOUCHER(requires_ticket)},
        {"pow_bits", JSON_FIELD_INTEGER, false, 0, POW_BITS_MAX, VOUCHER(pow_bits)},
        {0}};
    struct voucher voucher = {
        .description = {"", 0}, .per_user_limit = 1, .pay_within_s = 900};
    struct identity identity;
    struct json_document *document;
    struct asked *asked;
    char actor[ACTOR_BYTES];

    (void)id;
    if (!api_identify_as(api, request, AUTH_ADMIN, &identity) ||
        !api_read_body(api, request, fields, &voucher, &document))
        return;
    asked = ask(api, request);
    asked->status = 201;
    set_window_rule(asked);
    api_name_actor(&identity, actor);
    if (!can_require(api, voucher.requires_ticket)) {
        set_ticket_rule(asked);
        answer_rule(asked);
    } else if (voucher.end_us <= voucher.begin_us) {
        answer_rule(asked);
    } else {
        store_create_voucher(api->options.store, &voucher, actor, on_written, asked);
    }
    json_document_free(document);
}

void api_patch_voucher(struct api *api, struct http_request *request, int64_t id)
{
    static const struct json_field fields[] = {
        {"title", JSON_FIELD_TEXT, false, 1, TITLE_CHARS_MAX, VOUCHER(title)},
        {"description", JSON_FIELD_TEXT, false, 0, DESCRIPTION_CHARS_MAX,
         VOUCHER(description)},
        {"begin_at", JSON_FIELD_TIME, false, 1, YEAR_9999_US, VOUCHER(begin_us)},
        {"end_at", JSON_FIELD_TIME, false, 1, YEAR_9999_US, VOUCHER(end_us)},
        {"pay_within_s", JSON_FIELD_INTEGER, false, 1, PAY_WITHIN_S_MAX,
         VOUCHER(pay_within_s)},
        {"requires_ticket", JSON_FIELD_BOOLEAN, false, 0, 1, VOUCHER(requires_ticket)},
        {"pow_bits", JSON_FIELD_INTEGER, false, 0, POW_BITS_MAX, VOUCHER(pow_bits)},
        {0}};
    struct voucher voucher = {.requires_ticket = -1, .pow_bits = -1};
    struct voucher_patch patch = {0};
    struct identity identity;
    struct json_document *document;
    struct asked *asked;

    if (!api_identify_as(api, request, AUTH_ADMIN, &identity) ||
        !api_read_body(api, request, fields, &voucher, &document))
        return;
    patch = (struct voucher_patch){
        .title = voucher.title.bytes != NULL ? &voucher.title : NULL,
        .description = voucher.description.bytes != NULL ? &voucher.description : NULL,
        .begin_us = voucher.begin_us,
        .end_us = voucher.end_us,
        .pay_within_s = voucher.pay_within_s,
        .requires_ticket = voucher.requires_ticket >= 0 ? &voucher.requires_ticket : NULL,
        .pow_bits = voucher.pow_bits >= 0 ? &voucher.pow_bits : NULL};
    asked = ask(api, request);
    set_window_rule(asked);
    if (can_require(api, voucher.requires_ticket)) {
        store_patch_voucher(api->options.store, id, &patch, on_written, asked);
    } else {
        set_ticket_rule(asked);
        answer_rule(asked);
    }
    json_document_free(document);
}

void api_restock_voucher(struct api *api, struct http_request *request, int64_t id)
{
    static const struct json_field fields[] = {
        {"add", JSON_FIELD_INTEGER, true, -STOCK_DELTA_MAX, STOCK_DELTA_MAX, 0}, {0}};
    int64_t add = 0;
    struct identity identity;
    struct json_document *document;
    struct asked *asked;
    char actor[ACTOR_BYTES];

    if (!api_identify_as(api, request, AUTH_ADMIN, &identity) ||
        !api_read_body(api, request, fields, &add, &document))
        return;
    json_document_free(document);
    asked = ask(api, request);
    if (add > 0) {
        asked->rule_field = "add";
        asked->rule_message = "must not raise the total above 100000000";
    }
    api_name_actor(&identity, actor);
    store_restock_voucher(api->options.store, id, add, actor, on_written, asked);
}

/* -- list -- */

static const char *const state_names[] = {
    [VOUCHER_UPCOMING] = "upcoming",
    [VOUCHER_OPEN] = "open",
    [VOUCHER_ENDED] = "ended",
};

static void on_list(enum status status, const struct voucher *vouchers, size_t count,
                    int64_t now_us, void *arg)
{
    struct asked *asked = arg;
    char cursor[48];
    bool has_more = count > asked->limit; /* one more than asked was read */

    if (status != STATUS_OK) {
        api_answer_failure(asked->api, asked->request, status, false);
        return;
    }
    if (has_more) {
        const struct voucher *last = &vouchers[asked->limit - 1];
        int64_t time_us = asked->state == VOUCHER_ANY        ? 0
                          : asked->state == VOUCHER_UPCOMING ? last->begin_us
                                                             : last->end_us;

        count = asked->limit;
        snprintf(cursor, sizeof(cursor), "%" PRId64 "_%" PRId64, time_us, last->id);
    }
    api_answer_json(
        asked->api, asked->request, 200,
        json_print_vouchers(vouchers, count, now_us, has_more ? cursor : NULL), NULL);
}

/* "TIME_ID" as on_list() made it. */
static bool parse_cursor(struct text cursor, struct voucher_filter *filter)
{
    const char *mark = memchr(cursor.bytes, '_', cursor.len);
    size_t time_len = mark != NULL ? (size_t)(mark - cursor.bytes) : 0;
    bool is_zero = time_len == 1 && cursor.bytes[0] == '0';

    if (mark == NULL || is_zero != (filter->state == VOUCHER_ANY))
        return false;
    return (is_zero || api_parse_id(cursor.bytes, time_len, &filter->after_us)) &&
           api_parse_id(mark + 1, cursor.len - time_len - 1, &filter->after_id);
}

static bool parse_state(struct text name, enum voucher_state *ret_state)
{
    for (int state = VOUCHER_UPCOMING; state <= VOUCHER_ENDED; state++) {
        if (strlen(state_names[state]) == name.len &&
            memcmp(state_names[state], name.bytes, name.len) == 0) {
            *ret_state = (enum voucher_state)state;
            return true;
        }
    }
    return false;
}

void api_list_vouchers(struct api *api, struct http_request *request, int64_t id)
{
    struct voucher_filter filter = {.state = VOUCHER_ANY};
    struct text state, cursor;
    struct asked *asked;
    bool state_twice, cursor_twice;
    unsigned limit;

    (void)id;
    state = http_query(request, "state", &state_twice);
    cursor = http_query(request, "cursor", &cursor_twice);
    if (state_twice || (state.bytes != NULL && !parse_state(state, &filter.state))) {
        api_answer_bad_request(api, request, "state must be upcoming, open or ended.");
        return;
    }
    if (cursor_twice || (cursor.bytes != NULL && !parse_cursor(cursor, &filter))) {
        api_answer_bad_request(api, request,
                               "cursor must be a next_cursor of this list.");
        return;
    }
    if (!api_read_limit(api, request, &limit))
        return;
    asked = ask(api, request);
    asked->limit = limit;
    asked->state = filter.state;
    filter.limit = limit + 1; /* one more tells whether the list goes on */
    store_list_vouchers(api->options.store, &filter, on_list, asked);
}
