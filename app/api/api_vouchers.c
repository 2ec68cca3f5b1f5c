/* api_vouchers.c - reading, creating, changing, restocking and listing vouchers. */
#include "app/api/api_routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YEAR_9999_US INT64_C(253402300799999999)
#define CREATED_MAX  1000 /* vouchers of a request */

/* -- read -- */

void api_read_voucher(struct api_request *request)
{
    const struct api_reading_key key = {.voucher_id = request->id};

    api_share_reading(request, &key);
}

/* -- write -- */

static const char end_message[] = "must be after begin_at";
static const char admission_message[] = "must be first_come or lottery";
static const char limit_message[] = "must be 1 in a lottery";
static const char ticket_message[] = "requires SECKILL_TICKET_SECRET, which is not set";

/* Tickets are signed with a secret. Without it nobody could order a voucher that requires
   tickets. */
static bool can_require_ticket(const struct api_request *request, int64_t requires_ticket)
{
    return requires_ticket <= 0 || request->api->options.tickets.secret[0] != '\0';
}

static void answer_written(struct api_request *request, enum rlock_status status,
                           const struct voucher *vouchers, size_t count, int64_t now_us)
{
    bool is_created = request->id == 0;
    char location[48];

    if (status == RLOCK_NOT_OWNER) {
        api_answer_key_used(request);
        return;
    }
    if (status != RLOCK_OK) {
        api_answer_failure(request, status, true);
        return;
    }
    /* Later requests to this loop must not see a voucher as it was before the change. */
    for (size_t i = 0; i < count; i++)
        catalogue_invalidate(request->api->options.catalogue, vouchers[i].id);
    if (json_is_array(request->body)) {
        api_answer_json(request, 201, json_print_vouchers(vouchers, count, now_us, NULL),
                        NULL);
        return;
    }
    snprintf(location, sizeof(location), "/v1/vouchers/%" PRId64, vouchers->id);
    api_answer_json(request, is_created ? 201 : 200, json_print_voucher(vouchers, now_us),
                    is_created ? location : NULL);
}

static void vouchers_on_written(enum rlock_status status, const struct voucher *vouchers,
                                size_t count, int64_t now_us, void *arg)
{
    if (status == RLOCK_INVALID)
        api_answer_invalid_field(arg, "end_at", end_message);
    else
        answer_written(arg, status, vouchers, count, now_us);
}

static void vouchers_on_restocked(enum rlock_status status,
                                  const struct voucher *vouchers, size_t count,
                                  int64_t now_us, void *arg)
{
    struct api_request *request = arg;

    if (status != RLOCK_INVALID)
        answer_written(request, status, vouchers, count, now_us);
    else if (request->stock_add > 0)
        api_answer_invalid_field(request, "add",
                                 "must not raise the total above 100000000");
    else
        api_answer_problem(request, PROBLEM_INSUFFICIENT_STOCK);
}

/* clang-format off */
#define VOUCHER(field) offsetof(struct voucher, field)
/* The fields of a voucher that can be changed. Those marked `required` must be given to create
   one. */
#define CHANGEABLE_FIELDS(required) \
    {"title",           JSON_FIELD_TEXT,    required, 1, TITLE_CHARS_MAX,       VOUCHER(title)}, \
    {"description",     JSON_FIELD_TEXT,    false,    0, DESCRIPTION_CHARS_MAX, VOUCHER(description)}, \
    {"begin_at",        JSON_FIELD_TIME,    required, 1, YEAR_9999_US,          VOUCHER(begin_us)}, \
    {"end_at",          JSON_FIELD_TIME,    required, 1, YEAR_9999_US,          VOUCHER(end_us)}, \
    {"pay_within_s",    JSON_FIELD_INTEGER, false,    1, PAY_WITHIN_S_MAX,      VOUCHER(pay_within_s)}, \
    {"requires_ticket", JSON_FIELD_BOOLEAN, false,    0, 1,                     VOUCHER(requires_ticket)}, \
    {"pow_bits",        JSON_FIELD_INTEGER, false,    0, POW_BITS_MAX,          VOUCHER(pow_bits)}
/* clang-format on */

/* The fields of a voucher to create. VOUCHER() gives their offsets, because `voucher` is first. */
struct voucher_input {
    struct voucher voucher;
    struct text admission; /* bytes NULL: absent */
};

/* Reads a voucher to create. Adds the errors of its fields to `errors`. */
static struct voucher read_voucher(const struct api_request *request, json_t *object,
                                   struct json_errors *errors)
{
    static const struct json_field fields[] = {
        CHANGEABLE_FIELDS(true),
        {"price_cents", JSON_FIELD_INTEGER, true, 0, CENTS_MAX, VOUCHER(price_cents)},
        {"face_value_cents", JSON_FIELD_INTEGER, true, 0, CENTS_MAX,
         VOUCHER(face_value_cents)},
        {"stock", JSON_FIELD_INTEGER, true, 0, STOCK_MAX, VOUCHER(stock_total)},
        {"per_user_limit", JSON_FIELD_INTEGER, false, 1, PER_USER_LIMIT_MAX,
         VOUCHER(per_user_limit)},
        {"admission", JSON_FIELD_TEXT, false, 0, 20,
         offsetof(struct voucher_input, admission)},
        {0}};
    struct voucher_input input = {.voucher = {.per_user_limit = 1, .pay_within_s = 900}};
    struct voucher *voucher = &input.voucher;
    size_t before = errors->count;

    json_read(object, fields, &input, errors);
    if (!can_require_ticket(request, voucher->requires_ticket))
        json_errors_add(errors, "requires_ticket", ticket_message);
    if (errors->count == before && voucher->end_us <= voucher->begin_us)
        json_errors_add(errors, "end_at", end_message);
    voucher->is_lottery = text_is(input.admission, "lottery");
    if (!voucher->is_lottery && input.admission.bytes != NULL &&
        !text_is(input.admission, "first_come"))
        json_errors_add(errors, "admission", admission_message);
    if (voucher->is_lottery && voucher->per_user_limit > 1)
        json_errors_add(errors, "per_user_limit", limit_message);
    return *voucher;
}

/* Reads the vouchers of the body, an object or an array. The fields of an array are named "0.title"
   and so on. */
static void read_vouchers(const struct api_request *request, struct voucher *vouchers,
                          struct json_errors *errors)
{
    char prefix[JSON_PREFIX_BYTES];
    json_t *object;
    size_t i;

    if (json_is_object(request->body))
        vouchers[0] = read_voucher(request, request->body, errors);
    errors->prefix = prefix;
    json_array_foreach(request->body, i, object)
    {
        snprintf(prefix, sizeof(prefix), "%zu.", i);
        vouchers[i] = read_voucher(request, object, errors);
    }
    errors->prefix = NULL;
}

void api_create_vouchers(struct api_request *request)
{
    char actor[ACTOR_BYTES];
    struct author author = {.actor = actor};
    struct json_errors errors = {0};
    struct voucher *vouchers;
    size_t count;

    if (!api_read_key(request, &author.key) || !api_parse_body(request))
        return;
    count = json_is_object(request->body) ? 1 : json_array_size(request->body);
    if (count == 0 || count > CREATED_MAX) {
        api_answer_bad_request(
            request, "The body must be an object, or an array of 1 to 1000 objects.");
        return;
    }
    vouchers = calloc(count, sizeof(*vouchers));
    if (vouchers == NULL) {
        api_answer_problem(request, PROBLEM_OVERLOADED);
        return;
    }
    read_vouchers(request, vouchers, &errors);
    api_name_actor(request, actor);
    if (errors.count > 0)
        api_answer_invalid(request, &errors);
    else
        store_create_vouchers(request->api->options.store, vouchers, count, &author,
                              vouchers_on_written, request);
    free(vouchers);
}

void api_patch_voucher(struct api_request *request)
{
    static const struct json_field fields[] = {CHANGEABLE_FIELDS(false), {0}};
    struct voucher changes = {.requires_ticket = -1, .pow_bits = -1};
    char actor[ACTOR_BYTES];

    if (!api_read_body(request, fields, &changes))
        return;
    api_name_actor(request, actor);
    if (can_require_ticket(request, changes.requires_ticket))
        store_patch_voucher(request->api->options.store, request->id, &changes, actor,
                            vouchers_on_written, request);
    else
        api_answer_invalid_field(request, "requires_ticket", ticket_message);
}

void api_restock_voucher(struct api_request *request)
{
    static const struct json_field fields[] = {
        {"add", JSON_FIELD_INTEGER, true, -STOCK_MAX, STOCK_MAX, 0}, {0}};
    char actor[ACTOR_BYTES];
    struct author author = {.actor = actor};

    if (!api_read_key(request, &author.key) ||
        !api_read_body(request, fields, &request->stock_add))
        return;
    api_name_actor(request, actor);
    store_restock_voucher(request->api->options.store, request->id, request->stock_add,
                          &author, vouchers_on_restocked, request);
}

/* -- list -- */

static const char *const state_names[] = {
    [VOUCHER_UPCOMING] = "upcoming",
    [VOUCHER_OPEN] = "open",
    [VOUCHER_ENDED] = "ended",
};

/* Parses "TIME_ID", which api_readings.c prints. If the text has no "_", the time is empty and thus
   invalid. */
static bool parse_cursor(struct text cursor, struct voucher_filter *filter)
{
    const char *mark = memchr(cursor.bytes, '_', cursor.len);
    struct text time = {cursor.bytes, mark != NULL ? (size_t)(mark - cursor.bytes) : 0};
    struct text id = {cursor.bytes + time.len + 1, cursor.len - time.len - 1};
    bool is_zero = text_is(time, "0");

    return is_zero == (filter->state == VOUCHER_ANY) &&
           (is_zero || text_parse_id(time, &filter->after_us)) &&
           text_parse_id(id, &filter->after_id);
}

static bool parse_state(struct text name, enum voucher_state *ret_state)
{
    for (int state = VOUCHER_UPCOMING; state <= VOUCHER_ENDED; state++) {
        if (text_is(name, state_names[state])) {
            *ret_state = (enum voucher_state)state;
            return true;
        }
    }
    return false;
}

void api_list_vouchers(struct api_request *request)
{
    struct api_reading_key key = {.filter = {.state = VOUCHER_ANY}};
    struct voucher_filter *filter = &key.filter;
    struct text state, cursor;
    bool is_state_repeated, is_cursor_repeated;

    state = http_query(request->http, "state", &is_state_repeated);
    cursor = http_query(request->http, "cursor", &is_cursor_repeated);
    if (is_state_repeated ||
        (state.bytes != NULL && !parse_state(state, &filter->state))) {
        api_answer_bad_request(request, "state must be upcoming, open or ended.");
        return;
    }
    if (is_cursor_repeated || (cursor.bytes != NULL && !parse_cursor(cursor, filter))) {
        api_answer_bad_request(request, "cursor must be a next_cursor of this list.");
        return;
    }
    if (!api_read_limit(request, &request->list.limit))
        return;
    filter->limit = request->list.limit + 1; /* to see whether a page follows */
    api_share_reading(request, &key);
}
