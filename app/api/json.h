/* json.h - validates JSON bodies by a table of fields, and prints JSON answers. */
#ifndef JSON_H
#define JSON_H

#include "app/core/model.h"
#include "app/store/store.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

/* -- bodies -- */

enum json_kind {
    JSON_FIELD_INTEGER, /* stored as int64_t */
    JSON_FIELD_TEXT,    /* stored as struct text, borrowed from the document */
    JSON_FIELD_TIME,    /* an RFC 3339 time, stored as int64_t in us */
    JSON_FIELD_BOOLEAN, /* stored as int64_t, 0 or 1 */
};

struct json_field {
    const char *name;
    enum json_kind kind;
    bool is_required;
    int64_t min, max; /* limits of a number, a time, or the characters of a text */
    size_t offset;    /* offset of the value in the struct that is filled */
};

#define JSON_ERRORS_MAX   12
#define JSON_PREFIX_BYTES 24

struct json_errors {
    const char *prefix; /* of the names of the fields, for example "3."; NULL: none */
    size_t count;
    struct {
        char field[JSON_PREFIX_BYTES + 63];
        char message[96];
    } rows[JSON_ERRORS_MAX];
};

/**
 * Parse `body`.
 *
 * @ret_document  may be NULL. The caller releases it in any case
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: not JSON, or a duplicate name; RLOCK_NO_MEMORY
 */
MUST_CHECK enum rlock_status json_parse(struct text body, json_t **ret_document);

/**
 * Fill `target` by the table. If a field is absent, its value in `target` is unchanged. Unknown
 * fields and null are errors.
 *
 * @object  owns the texts in `target`. A value that is no object counts as an object without fields
 * @fields  ends with a row whose name is NULL
 * @errors  gets one row per invalid field
 */
void json_read(json_t *object, const struct json_field *fields, void *target,
               struct json_errors *errors);

void json_errors_add(struct json_errors *errors, const char *field, const char *message);

/* -- text -- */

/** Indexed by enum order_status: "unpaid", "paid", ... */
extern const char *const json_status_names[];

#define JSON_ORDER_BYTES 512

/** Print the order as JSON. Returns the length of the text. */
size_t json_print_order(const struct order *order, char ret_text[JSON_ORDER_BYTES]);

/* The following functions return text that the caller frees; NULL: out of memory. */

char *json_print_voucher(const struct voucher *voucher, int64_t now_us);
/** @next_cursor  NULL: no page follows */
char *json_print_vouchers(const struct voucher *vouchers, size_t count, int64_t now_us,
                          const char *next_cursor);
char *json_print_orders(const struct order_page *page);
/** Print the first `limit` of `count` events. If there are more, the cursor of the next page is the
 *  id of the last event that is printed. */
char *json_print_events(const struct event *events, size_t count, size_t limit);

/** @next_cursor  never NULL: a feed has no last page */
char *json_print_feed(const struct event *events, size_t count, const char *next_cursor);

/** Print the state of an endpoint, with its secret if the state has it.
 *  @has_bare_url  the URL is printed without user, password and query */
char *json_print_endpoint(const struct webhook_state *state, bool has_bare_url);

/** @have_bare_urls  as has_bare_url */
char *json_print_webhooks(const struct webhook_state *states, size_t count,
                          bool have_bare_urls);

char *json_print_deliveries(const struct webhook_delivery *deliveries, size_t count);

/** Print the body of a webhook, as Standard Webhooks says. */
char *json_print_webhook(const struct event *event);

struct json_problem {
    unsigned status;
    const char *code;
    const char *title;
    const char *detail;
    int64_t order_id;                 /* 0: none */
    const struct json_errors *errors; /* NULL: none */
};

/** Print a problem as RFC 9457 defines it. */
char *json_print_problem(const struct json_problem *problem);

#endif
