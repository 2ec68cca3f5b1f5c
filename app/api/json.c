/* json.c - parses and prints JSON with jansson. Orders are printed without jansson. */
#include "app/api/json.h"

#include "app/core/rfc3339.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- bodies -- */

void json_errors_add(struct json_errors *errors, const char *field, const char *message)
{
    size_t len = strnlen(field, sizeof(errors->rows[0].field) - JSON_PREFIX_BYTES);

    if (errors->count >= JSON_ERRORS_MAX)
        return;
    while (len > 0 && ((unsigned char)field[len] & 0xc0) == 0x80)
        len--; /* do not cut within a character, so that the copy is valid UTF-8 */
    snprintf(errors->rows[errors->count].field, sizeof(errors->rows[0].field), "%s%.*s",
             errors->prefix != NULL ? errors->prefix : "", (int)len, field);
    snprintf(errors->rows[errors->count].message, sizeof(errors->rows[0].message), "%s",
             message);
    errors->count++;
}

static void read_integer(const struct json_field *field, const json_t *value,
                         void *target, struct json_errors *errors)
{
    char message[80];
    json_int_t number = json_integer_value(value);

    if (json_is_integer(value) && number >= field->min && number <= field->max) {
        *(int64_t *)target = number;
        return;
    }
    snprintf(message, sizeof(message),
             "must be a whole number from %" PRId64 " to %" PRId64, field->min,
             field->max);
    json_errors_add(errors, field->name, message);
}

static void read_text(const struct json_field *field, const json_t *value, void *target,
                      struct json_errors *errors)
{
    const char *bytes = json_string_value(value);
    size_t len = json_string_length(value);
    int64_t characters = 0;
    char message[80];

    for (size_t i = 0; i < len; i++)
        characters += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    /* Postgres cannot store a NUL */
    if (bytes != NULL && characters >= field->min && characters <= field->max &&
        memchr(bytes, '\0', len) == NULL) {
        *(struct text *)target = (struct text){bytes, len};
        return;
    }
    if (bytes != NULL && memchr(bytes, '\0', len) != NULL)
        snprintf(message, sizeof(message), "must not contain the character NUL");
    else
        snprintf(message, sizeof(message),
                 "must be a text of %" PRId64 " to %" PRId64 " characters", field->min,
                 field->max);
    json_errors_add(errors, field->name, message);
}

static void read_time(const struct json_field *field, const json_t *value, void *target,
                      struct json_errors *errors)
{
    const char *bytes = json_string_value(value);
    int64_t us;

    if (bytes != NULL && rfc3339_parse(bytes, json_string_length(value), &us) &&
        us >= field->min && us <= field->max)
        *(int64_t *)target = us;
    else
        json_errors_add(errors, field->name,
                        "must be a time from 1970 to 9999, such as "
                        "2030-01-01T00:00:00Z");
}

static void read_boolean(const struct json_field *field, const json_t *value,
                         void *target, struct json_errors *errors)
{
    if (json_is_boolean(value))
        *(int64_t *)target = json_is_true(value);
    else
        json_errors_add(errors, field->name, "must be true or false");
}

static void read_field(const struct json_field *field, const json_t *root, void *target,
                       struct json_errors *errors)
{
    static void (*const readers[])(const struct json_field *, const json_t *, void *,
                                   struct json_errors *) = {
        [JSON_FIELD_INTEGER] = read_integer,
        [JSON_FIELD_TEXT] = read_text,
        [JSON_FIELD_TIME] = read_time,
        [JSON_FIELD_BOOLEAN] = read_boolean,
    };
    const json_t *value = json_object_get(root, field->name);

    if (value != NULL)
        readers[field->kind](field, value, (char *)target + field->offset, errors);
    else if (field->is_required)
        json_errors_add(errors, field->name, "is required");
}

enum rlock_status json_parse(struct text body, json_t **ret_document)
{
    json_error_t error = {0}; /* if memory is out, jansson may set no code */

    *ret_document = NULL;
    if (body.len == 0)
        return RLOCK_INVALID;
    *ret_document =
        json_loadb(body.bytes, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (*ret_document != NULL)
        return RLOCK_OK;
    /* Syntax errors have other codes. */
    return json_error_code(&error) == json_error_unknown ? RLOCK_NO_MEMORY
                                                         : RLOCK_INVALID;
}

void json_read(json_t *object, const struct json_field *fields, void *target,
               struct json_errors *errors)
{
    const char *name;
    json_t *value;

    for (const struct json_field *field = fields; field->name != NULL; field++)
        read_field(field, object, target, errors);
    json_object_foreach(object, name, value)
    {
        const struct json_field *field = fields;

        while (field->name != NULL && strcmp(field->name, name) != 0)
            field++;
        if (field->name == NULL)
            json_errors_add(errors, name, "unknown field");
    }
}

/* -- text -- */

const char *const json_status_names[] = {
    [ORDER_UNPAID] = "unpaid",     [ORDER_PAID] = "paid",
    [ORDER_REDEEMED] = "redeemed", [ORDER_CANCELLED] = "cancelled",
    [ORDER_EXPIRED] = "expired",   [ORDER_REFUNDED] = "refunded",
};

/* Every answer to a placed order is printed here, so it does not use jansson, which is slower. The
   texts of an order need no escapes. */
size_t json_print_order(const struct order *order, char ret_text[JSON_ORDER_BYTES])
{
    char created[RFC3339_BYTES], expires[RFC3339_BYTES], paid[RFC3339_BYTES];
    bool was_paid = order->paid_us != 0;

    rfc3339_print(order->created_us, created);
    rfc3339_print(order->expires_us, expires);
    if (was_paid)
        rfc3339_print(order->paid_us, paid);
    return (size_t)snprintf(
        ret_text, JSON_ORDER_BYTES,
        "{\"id\":\"%" PRId64 "\",\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%" PRId64
        "\",\"status\":\"%s\",\"price_cents\":%" PRId64 ",\"created_at\":\"%s\""
        ",\"expires_at\":\"%s\"%s%s%s}",
        order->id, order->voucher_id, order->user_id, json_status_names[order->status],
        order->price_cents, created, expires, was_paid ? ",\"paid_at\":\"" : "",
        was_paid ? paid : "", was_paid ? "\"" : "");
}

static json_t *id_json(int64_t id)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, id);
    return json_string(text);
}

static json_t *time_json(int64_t us)
{
    char text[RFC3339_BYTES];

    rfc3339_print(us, text);
    return json_string(text);
}

static const char *state_name(const struct voucher *voucher, int64_t now_us)
{
    if (now_us < voucher->begin_us)
        return "upcoming";
    return now_us < voucher->end_us ? "open" : "ended";
}

static json_t *voucher_json(const struct voucher *voucher, int64_t now_us)
{
    return json_pack(
        "{s:o, s:s%, s:s%, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:I, "
        "s:s, s:s*, s:s*, s:o*, s:s, s:o}",
        "id", id_json(voucher->id), "title", voucher->title.bytes, voucher->title.len,
        "description", voucher->description.bytes, voucher->description.len,
        "price_cents", (json_int_t)voucher->price_cents, "face_value_cents",
        (json_int_t)voucher->face_value_cents, "stock_total",
        (json_int_t)voucher->stock_total, "stock_left", (json_int_t)voucher->stock_left,
        "per_user_limit", (json_int_t)voucher->per_user_limit, "begin_at",
        time_json(voucher->begin_us), "end_at", time_json(voucher->end_us),
        "pay_within_s", (json_int_t)voucher->pay_within_s, "requires_ticket",
        voucher->requires_ticket != 0, "pow_bits", (json_int_t)voucher->pow_bits,
        "admission", voucher->is_lottery ? "lottery" : "first_come", "commitment",
        voucher->commitment.bytes, "seed", voucher->seed.bytes, "drawn_at",
        voucher->drawn_us != 0 ? time_json(voucher->drawn_us) : NULL, "state",
        state_name(voucher, now_us), "server_time", time_json(now_us));
}

/* Appends `item`, and returns the array. NULL: memory is out, and the array is freed. Both
   arguments may be NULL. */
static json_t *append(json_t *array, json_t *item)
{
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* Prints `root`, and frees it. Accepts NULL. */
static char *print_and_free(json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT);

    json_decref(root);
    return text;
}

char *json_print_voucher(const struct voucher *voucher, int64_t now_us)
{
    return print_and_free(voucher_json(voucher, now_us));
}

static json_t *list_json(json_t *items, const char *next_cursor)
{
    return json_pack("{s:o, s:s?}", "items", items, "next_cursor", next_cursor);
}

char *json_print_vouchers(const struct voucher *vouchers, size_t count, int64_t now_us,
                          const char *next_cursor)
{
    json_t *items = json_array();

    for (size_t i = 0; i < count; i++)
        items = append(items, voucher_json(&vouchers[i], now_us));
    return print_and_free(list_json(items, next_cursor));
}

char *json_print_orders(const struct order_page *page)
{
    struct text_document document;
    char text[JSON_ORDER_BYTES];

    if (!text_document_begin(&document))
        return NULL;
    fputs("{\"items\":[", document.out);
    for (size_t i = 0; i < page->count; i++) {
        json_print_order(&page->orders[i], text);
        fprintf(document.out, "%s%s", i > 0 ? "," : "", text);
    }
    if (page->next_id != 0)
        fprintf(document.out, "],\"next_cursor\":\"%" PRId64 "\"}", page->next_id);
    else
        fputs("],\"next_cursor\":null}", document.out);
    return text_document_end(&document);
}

/* Returns the event as JSON, without members for absent texts. */
static json_t *event_json(const struct event *event)
{
    char order_id[24];

    snprintf(order_id, sizeof(order_id), "%" PRId64, event->order_id);
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:s*, s:s*, s:s*, s:s*, s:s*}", "id", id_json(event->id),
        "voucher_id", id_json(event->voucher_id), "at", time_json(event->at_us),
        "stock_change", (json_int_t)event->stock_change, "order_id",
        event->order_id != 0 ? order_id : NULL, "actor", event->actor, "from_status",
        event->from_status, "to_status", event->to_status, "detail", event->detail);
}

char *json_print_events(const struct event *events, size_t count, size_t limit)
{
    json_t *items = json_array();
    char cursor[24] = "";

    for (size_t i = 0; i < count && i < limit; i++)
        items = append(items, event_json(&events[i]));
    if (count > limit)
        snprintf(cursor, sizeof(cursor), "%" PRId64, events[limit - 1].id);
    return print_and_free(list_json(items, count > limit ? cursor : NULL));
}

char *json_print_feed(const struct event *events, size_t count, const char *next_cursor)
{
    json_t *items = json_array();

    for (size_t i = 0; i < count; i++)
        items = append(items, event_json(&events[i]));
    return print_and_free(list_json(items, next_cursor));
}

/* Prints the URL without its user, its password and its query, which may be secrets. */
static json_t *bare_url_json(const char *url)
{
    size_t scheme = (size_t)(strstr(url, "://") - url) + strlen("://");
    const char *host = url + scheme;
    const char *user_end = memrchr(host, '@', strcspn(host, "/?#"));

    if (user_end != NULL)
        host = user_end + 1;
    return json_sprintf("%.*s%.*s", (int)scheme, url, (int)strcspn(host, "?#"), host);
}

static json_t *webhook_json(const struct webhook_state *state, bool has_bare_url)
{
    bool is_failing = state->error != NULL;
    const char *word = is_failing ? "failing" : "enabled";
    char cursor[48];

    snprintf(cursor, sizeof(cursor), "%" PRId64 "_%" PRId64, state->first, state->number);
    return json_pack("{s:o, s:o, s:s, s:s, s:f, s:o*, s:s*, s:s*}", "id",
                     id_json(state->id), "url",
                     has_bare_url ? bare_url_json(state->url) : json_string(state->url),
                     "state", state->is_disabled ? "disabled" : word, "cursor", cursor,
                     "lag_s", (double)state->lag_us / 1e6, "failing_since",
                     is_failing ? time_json(state->failing_since_us) : NULL, "error",
                     state->error, "secret", state->secret);
}

char *json_print_endpoint(const struct webhook_state *state, bool has_bare_url)
{
    return print_and_free(webhook_json(state, has_bare_url));
}

char *json_print_webhooks(const struct webhook_state *states, size_t count,
                          bool have_bare_urls)
{
    json_t *items = json_array();

    for (size_t i = 0; i < count; i++)
        items = append(items, webhook_json(&states[i], have_bare_urls));
    return print_and_free(list_json(items, NULL));
}

static json_t *delivery_json(const struct webhook_delivery *delivery)
{
    return json_pack("{s:o, s:o, s:I, s:s*}", "event_id", id_json(delivery->event_id),
                     "at", time_json(delivery->at_us), "duration_ms",
                     (json_int_t)delivery->duration_ms, "error",
                     delivery->error[0] != '\0' ? delivery->error : NULL);
}

char *json_print_deliveries(const struct webhook_delivery *deliveries, size_t count)
{
    json_t *items = json_array();

    for (size_t i = 0; i < count; i++)
        items = append(items, delivery_json(&deliveries[i]));
    return print_and_free(list_json(items, NULL));
}

char *json_print_webhook(const struct event *event)
{
    char type[32];

    if (event->to_status == NULL)
        snprintf(type, sizeof(type), "%s",
                 event->detail != NULL ? "voucher.changed" : "stock.changed");
    else
        snprintf(type, sizeof(type), "order.%s",
                 event->from_status != NULL ? event->to_status : "placed");
    return print_and_free(json_pack("{s:s, s:o, s:o}", "type", type, "timestamp",
                                    time_json(event->at_us), "data", event_json(event)));
}

char *json_print_problem(const struct json_problem *problem)
{
    const struct json_errors *errors = problem->errors;
    json_t *rows = errors != NULL ? json_array() : NULL;
    char type[64], order_id[24];

    snprintf(type, sizeof(type), "urn:seckill:problem:%s", problem->code);
    snprintf(order_id, sizeof(order_id), "%" PRId64, problem->order_id);
    for (size_t i = 0; errors != NULL && i < errors->count; i++) {
        rows = append(rows, json_pack("{s:s, s:s}", "field", errors->rows[i].field,
                                      "message", errors->rows[i].message));
    }
    return print_and_free(json_pack(
        "{s:s, s:s, s:i, s:s, s:s, s:s*, s:o*}", "type", type, "title", problem->title,
        "status", (int)problem->status, "code", problem->code, "detail", problem->detail,
        "order_id", problem->order_id != 0 ? order_id : NULL, "errors", rows));
}
