/* test_api.c - each route with fake backends: what a request does, and how it is answered. */
#include "app/api/api_routes.h"
#include "app/core/log.h"
#include "app/test/sale/simulated_time.h"
#include "test/asserts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_BYTES 8192
#define TIMEOUT_MS 2000

/* -- what the fakes do and say -- */

static struct {
    enum status status; /* of the answers of the store, the catalogue and Redis */
    enum status second; /* not OK: of a call that follows a read */
    bool has_no_pages;  /* memory is out */
    bool shows_debug;
    bool is_redis_down, is_revoked, is_cluster;
    bool has_entry; /* the catalogue has entry */
    struct catalogue_entry entry;
    struct order order;
    struct voucher voucher;
    size_t count; /* of rows, which are equal but for their ids */
    enum change_verdict verdict;
    enum verdict found; /* by key */
    enum outcome outcome;
    bool is_checkout_full;
    int64_t age_s, rate_wait_us;
    size_t pending;
    bool is_foreign;
    struct metrics_health health;
    bool holds_reads; /* until the test answers them */
    store_vouchers_cb held[4];
    void *held_args[4];
    size_t held_count;
} fake;

static char did[TEXT_BYTES];    /* calls of the fakes, each ends with ";" */
static char answer[TEXT_BYTES]; /* the answer */
static unsigned answers, status_of_answer;

__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, TEXT_BYTES - len, format, args);
    va_end(args);
}

#define DID(...) add(did, __VA_ARGS__)

/* -- fake requests -- */

struct sent {
    const char *query, *headers; /* "NAME: VALUE" lines */
};

static struct sent sent;

static struct text nth_value(const char *from, const char *name, const char *marks,
                             bool *ret_repeated)
{
    struct text found = {0};
    size_t len = strlen(name);

    if (ret_repeated != NULL)
        *ret_repeated = false;
    for (const char *at = from; at != NULL && *at != '\0';) {
        size_t line = strcspn(at, marks + 2);

        if (strncasecmp(at, name, len) == 0 && at[len] == marks[0]) {
            size_t skip = len + (marks[1] == ' ' ? 2 : 1);

            if (found.bytes == NULL)
                found = (struct text){at + skip, line - skip};
            else if (ret_repeated != NULL)
                *ret_repeated = true;
        }
        at += line + (at[line] != '\0');
    }
    return found;
}

struct text http_header(const struct http_request *request UNUSED, const char *name,
                        bool *ret_repeated)
{
    return nth_value(sent.headers, name, ": \n", ret_repeated);
}

struct text http_query(const struct http_request *request UNUSED, const char *name,
                       bool *ret_repeated)
{
    return nth_value(sent.query, name, "==&", ret_repeated);
}

void http_client_address(const struct http_request *request UNUSED,
                         uint8_t ret_address[16])
{
    memset(ret_address, 7, 16);
}

const char *http_trace(struct http_request *request UNUSED)
{
    return "request_id=r";
}

const char *http_trace_sent(struct http_request *request UNUSED)
{
    return "sent_id=r";
}

bool http_stream(struct http_request *request UNUSED, int64_t id UNUSED)
{
    return false;
}

struct http_counts http_counts(const struct http *http UNUSED)
{
    return (struct http_counts){.pending = fake.pending};
}

/* -- answers as text -- */

static struct api *api;

struct http_page {
    unsigned status;
    char text[TEXT_BYTES];
};

/* "404 not_found", the headers, and what of the body differs from other answers of this code */
static void print_problem(char *text, const char *body)
{
    json_t *root = json_loads(body, 0, NULL);
    const json_t *errors = json_object_get(root, "errors"), *row;
    size_t i;

    assert_non_null(root);
    add(text, " %s", json_string_value(json_object_get(root, "code")));
    if (json_object_get(root, "order_id") != NULL)
        add(text, " %s", json_string_value(json_object_get(root, "order_id")));
    if (strstr(text, " bad_request") != NULL)
        add(text, ": %s", json_string_value(json_object_get(root, "detail")));
    json_array_foreach(errors, i, row) add(
        text, ": %s %s", json_string_value(json_object_get(row, "field")),
        json_string_value(json_object_get(row, "message")));
    json_decref(root);
}

static void print_reply(char *text, const struct http_reply *reply)
{
    const char *type = reply->content_type;

    add(text, "%u", reply->status);
    if (type != NULL && strcmp(type, "application/json") != 0 &&
        strcmp(type, "application/problem+json") != 0)
        add(text, " %s", type);
    for (size_t i = 0; i < reply->header_count; i++)
        add(text, " %s: %s", reply->headers[i].name, reply->headers[i].value);
    if (reply->body == NULL || type == NULL || strstr(text, "ETag: \"") != NULL)
        return; /* a file */
    ASSERT_NUMBER(reply->body_len, ==, strlen(reply->body));
    if (strcmp(type, "application/problem+json") == 0)
        print_problem(text, reply->body);
    else
        add(text, " %s", reply->body);
}

static void take_answer(struct http_request *request, unsigned status)
{
    answers++;
    status_of_answer = status;
    api_answered(request, status, api);
}

void http_answer(struct http_request *request, const struct http_reply *reply)
{
    print_reply(answer, reply);
    take_answer(request, reply->status);
}

struct http_page *http_page_create(const struct http_reply *reply)
{
    struct http_page *page = fake.has_no_pages ? NULL : calloc(1, sizeof(*page));

    if (page == NULL)
        return NULL;
    page->status = reply->status;
    print_reply(page->text, reply);
    return page;
}

void http_page_free(struct http_page *page)
{
    free(page);
}

void http_answer_page(struct http_request *request, struct http_page *page)
{
    add(answer, "%s", page->text);
    take_answer(request, page->status);
}

/* -- fake tokens: "Bearer ROLE ID" or "Bearer ROLE ID JTI" -- */

const char *const auth_role_names[] = {"shopper", "payment", "admin"};

bool auth_parse_role(struct text name, enum auth_role *ret_role)
{
    for (int role = AUTH_SHOPPER; role <= AUTH_ADMIN; role++) {
        if (text_is(name, auth_role_names[role])) {
            *ret_role = (enum auth_role)role;
            return true;
        }
    }
    return false;
}

enum status auth_check(const struct auth *auth UNUSED, struct text authorization,
                       int64_t now_s, struct identity *ret_identity)
{
    char role[16] = "";
    struct identity identity = {0};

    ASSERT_NUMBER(now_s, ==, 1700000000 + simulated_us / 1000000);
    if (strncmp(authorization.bytes, "Bearer out of memory", 20) == 0)
        return STATUS_NO_MEMORY;
    if (sscanf(authorization.bytes, "Bearer %15s %" SCNd64 " %15[a-z]", role,
               &identity.user_id, identity.jti) < 2 ||
        !auth_parse_role((struct text){role, strlen(role)}, &identity.role))
        return STATUS_REFUSED;
    *ret_identity = identity;
    return STATUS_OK;
}

enum status auth_make(const struct auth *auth UNUSED, const struct identity *identity,
                      int64_t now_s, int64_t ttl_s, char **ret_token,
                      struct err *reterr UNUSED)
{
    if (fake.status != STATUS_OK)
        return fake.status;
    return asprintf(ret_token, "%s %" PRId64 " at %" PRId64 " for %" PRId64,
                    auth_role_names[identity->role], identity->user_id, now_s, ttl_s) < 0
               ? STATUS_NO_MEMORY
               : STATUS_OK;
}

int64_t limiter_take(struct limiter *limiter, uint64_t key, int64_t now_us)
{
    uint8_t address[16];

    http_client_address(NULL, address);
    ASSERT_NUMBER(now_us, ==, simulated_us);
    if (limiter == api->options.user_limiter)
        DID("limit shopper %" PRIu64 ";", key);
    else
        DID("limit address%s;", key == address_key(address) ? "" : ", which is another one");
    return fake.rate_wait_us;
}

int64_t limiter_rate_per_s(const struct limiter *limiter UNUSED)
{
    return 10;
}

/* -- fake Redis -- */

bool redis_conn_is_cluster(const struct redis_conn *conn UNUSED)
{
    return fake.is_cluster;
}

bool redis_reply_int(const struct redis_reply *reply UNUSED, int64_t *ret_value)
{
    *ret_value = fake.is_revoked;
    return fake.status == STATUS_OK;
}

enum status redis_conn_words(struct redis_conn *conn UNUSED, struct redis_command *command,
                             redis_command_cb done, const char *const *words)
{
    if (fake.is_redis_down)
        return STATUS_DOWN;
    for (; *words != NULL; words++)
        DID("%s%s", *words, words[1] != NULL ? " " : ";");
    done(command, fake.status == STATUS_BUSY ? STATUS_OK : fake.status, NULL);
    return STATUS_OK;
}

enum status stats_read(struct stats *stats UNUSED, const char *after,
                       struct stats_read *read,
                       void (*done)(struct stats_read *read, char *text))
{
    DID("stats \"%s\";", after);
    if (fake.is_redis_down)
        return STATUS_DOWN;
    done(read, strdup("{}"));
    return STATUS_OK;
}

char *stats_print_own(struct stats *stats UNUSED)
{
    return strdup("{\"own\":1}");
}

/* -- fake metrics and log -- */

struct metrics_health metrics_health(const struct all_metrics *all UNUSED, bool bypasses)
{
    ASSERT_NUMBER(bypasses, ==, api->options.bypass_locks);
    return fake.health;
}

void metrics_print(FILE *out, const struct all_metrics *all UNUSED)
{
    fputs("metrics", out);
}

void metrics_print_loops(FILE *out, const struct all_metrics *all UNUSED)
{
    fputs("[]", out);
}

static enum metrics_route counted;

void metrics_count_request(struct metrics *metrics UNUSED, enum metrics_route route,
                           unsigned status)
{
    ASSERT_NUMBER(status, ==, status_of_answer);
    counted = route;
}

bool log_shows(enum log_level level UNUSED)
{
    return fake.shows_debug;
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES] UNUSED)
{
    return text;
}

void log_event(enum log_level level UNUSED, const char *event, const char *format, ...)
{
    char words[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    DID("log %s %s;", event, words);
}

/* -- fake catalogue and checkout -- */

const struct catalogue_entry *catalogue_get(struct catalogue *catalogue UNUSED,
                                            int64_t id UNUSED)
{
    return fake.has_entry ? &fake.entry : NULL;
}

void catalogue_read(struct catalogue *catalogue UNUSED, int64_t id,
                    struct catalogue_wait *wait UNUSED, catalogue_cb callback, void *arg)
{
    DID("catalogue %" PRId64 ";", id);
    callback(fake.status, fake.status == STATUS_OK ? &fake.entry : NULL, arg);
}

void catalogue_invalidate(struct catalogue *catalogue UNUSED, int64_t id)
{
    DID("invalidate %" PRId64 ";", id);
}

int64_t catalogue_now_us(const struct catalogue *catalogue UNUSED, int64_t *ret_error_us)
{
    *ret_error_us = 0;
    return clock_real_us();
}

bool checkout_submit(struct checkout *checkout UNUSED,
                     const struct checkout_request *request, checkout_cb callback,
                     void *arg)
{
    bool has_order = fake.outcome <= OUTCOME_ALREADY_ORDERED;

    DID("submit %" PRId64 " %" PRId64 " key \"%.*s\"%s %s;", request->voucher_id,
        request->user_id, (int)request->key.len,
        request->key.bytes != NULL ? request->key.bytes : "",
        request->has_ticket ? " ticket" : "", request->trace);
    ASSERT_NUMBER(request->arrived_us, ==, simulated_us);
    if (fake.is_checkout_full)
        return false;
    callback(fake.outcome, has_order ? &fake.order : NULL, arg);
    return true;
}

/* -- fake store -- */

static int64_t left_ms(int64_t deadline_us)
{
    return (deadline_us - simulated_us) / 1000;
}

bool store_is_foreign(const struct store *store UNUSED, int64_t id)
{
    return fake.is_foreign && id != 0;
}

int64_t store_lists_age_s(const struct store *store UNUSED)
{
    return fake.age_s;
}

static void answer_order(store_order_cb callback, void *arg)
{
    callback(fake.status, fake.status == STATUS_OK ? &fake.order : NULL, arg);
}

static void answer_vouchers(store_vouchers_cb callback, void *arg)
{
    struct voucher vouchers[4] = {{0}};

    if (fake.holds_reads) {
        fake.held[fake.held_count] = callback;
        fake.held_args[fake.held_count++] = arg;
        return;
    }
    for (size_t i = 0; i < fake.count; i++) {
        vouchers[i] = fake.voucher;
        vouchers[i].id += (int64_t)i;
        vouchers[i].begin_us += (int64_t)i;
        vouchers[i].end_us += (int64_t)i;
    }
    callback(fake.status, fake.status == STATUS_OK && fake.count > 0 ? vouchers : NULL,
             fake.status == STATUS_OK ? fake.count : 0, clock_real_us(), arg);
}

void store_find_by_key(struct store *store UNUSED, int64_t voucher_id,
                       struct key_lookup *lookup, store_key_cb callback, void *arg)
{
    DID("find %" PRId64 " %" PRId64 " \"%.*s\" in %" PRId64 ";", voucher_id,
        lookup->placement.user_id, (int)lookup->placement.key.len,
        lookup->placement.key.bytes, left_ms(lookup->deadline_us));
    lookup->placement.verdict = fake.found;
    lookup->placement.order = fake.order;
    callback(fake.status, &lookup->placement, arg);
}

void store_read_order(struct store *store UNUSED, int64_t order_id, int64_t user_id,
                      store_order_cb callback, void *arg)
{
    DID("read order %" PRId64 " of %" PRId64 ";", order_id, user_id);
    answer_order(callback, arg);
}

void store_list_orders(struct store *store UNUSED, const struct order_filter *filter,
                       store_orders_cb callback, void *arg)
{
    struct order orders[4];

    DID("list orders %" PRId64 " %" PRId64 " %" PRId64 " %u;", filter->user_id,
        filter->voucher_id, filter->before_id, filter->limit);
    for (size_t i = 0; i < fake.count; i++) {
        orders[i] = fake.order;
        orders[i].id -= (int64_t)i;
    }
    callback(fake.status, orders, fake.status == STATUS_OK ? fake.count : 0, arg);
}

void store_change_order(struct store *store UNUSED, struct order_change *change,
                        store_change_cb callback, void *arg)
{
    bool has_order = fake.status == STATUS_OK && fake.verdict != CHANGE_NO_ORDER;
    static const char *const names[] = {"pay", "cancel", "refund", "redeem"};

    DID("%s %" PRId64 " %" PRId64 " by %s", names[change->change], change->voucher_id,
        change->order_id, change->actor);
    if (change->change == CHANGE_PAY)
        DID(" \"%.*s\" %" PRId64, (int)change->payment_ref.len, change->payment_ref.bytes,
            change->amount_cents);
    DID(" in %" PRId64 ";", left_ms(change->deadline_us));
    callback(fake.second != STATUS_OK ? fake.second : fake.status, fake.verdict,
             has_order && fake.second == STATUS_OK ? &fake.order : NULL, arg);
}

void store_list_events(struct store *store UNUSED, const struct event_filter *filter,
                       store_events_cb callback, void *arg)
{
    static const struct event events[] = {
        {.id = 71, .voucher_id = 7, .order_id = 71, .stock_change = -1, .actor = "shopper:5"},
        {.id = 72, .voucher_id = 7}};

    DID("list events %" PRId64 " %" PRId64 " %" PRId64 " %u in %" PRId64 ";",
        filter->voucher_id, filter->order_id, filter->after_id, filter->limit,
        left_ms(filter->deadline_us));
    callback(fake.second != STATUS_OK ? fake.second : fake.status, events,
             fake.status == STATUS_OK ? fake.count : 0, arg);
}

void store_read_voucher(struct store *store UNUSED, int64_t voucher_id,
                        store_vouchers_cb callback, void *arg)
{
    DID("read voucher %" PRId64 ";", voucher_id);
    answer_vouchers(callback, arg);
}

void store_list_vouchers(struct store *store UNUSED, const struct voucher_filter *filter,
                         store_vouchers_cb callback, void *arg)
{
    DID("list vouchers %d %" PRId64 " %" PRId64 " %u;", filter->state, filter->after_us,
        filter->after_id, filter->limit);
    answer_vouchers(callback, arg);
}

static void say_voucher(const struct voucher *v)
{
    ASSERT_NUMBER(strnlen(v->title.bytes, v->title.len), ==, v->title.len);
    ASSERT_NUMBER(strnlen(v->description.bytes, v->description.len), ==,
                  v->description.len);
    DID(" \"%.*s\" \"%.*s\" %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
        " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
        (int)v->title.len, v->title.bytes, (int)v->description.len, v->description.bytes,
        v->price_cents, v->face_value_cents, v->stock_total, v->per_user_limit,
        v->pay_within_s, v->begin_us, v->end_us, v->requires_ticket, v->pow_bits);
}

void store_create_voucher(struct store *store UNUSED, const struct voucher *voucher,
                          const char *actor, store_vouchers_cb callback, void *arg)
{
    DID("create");
    say_voucher(voucher);
    DID(" by %s;", actor);
    answer_vouchers(callback, arg);
}

void store_patch_voucher(struct store *store UNUSED, int64_t voucher_id,
                         const struct voucher *changes, store_vouchers_cb callback,
                         void *arg)
{
    DID("patch %" PRId64, voucher_id);
    say_voucher(changes);
    DID(";");
    answer_vouchers(callback, arg);
}

void store_restock_voucher(struct store *store UNUSED, int64_t voucher_id, int64_t change,
                           const char *actor, store_vouchers_cb callback, void *arg)
{
    DID("restock %" PRId64 " %" PRId64 " by %s;", voucher_id, change, actor);
    answer_vouchers(callback, arg);
}

/* -- requests -- */

static struct metrics metrics;

static int open_api(void **state UNUSED)
{
    static char limiters[2];
    const struct api_options options = {
        .tickets = {"a secret of tickets, 32 bytes long", 60},
        .user_limiter = (struct limiter *)(uintptr_t)&limiters[0],
        .metrics = &metrics,
        .timeout_ms = TIMEOUT_MS,
        .queue_max = 10,
        .dev_login = true};

    simulated_time_reset();
    simulated_us = 5000000;
    memset(&fake, 0, sizeof(fake));
    memset(&metrics, 0, sizeof(metrics));
    fake.has_entry = true;
    fake.entry = (struct catalogue_entry){.id = 7,
                                          .begin_us = clock_real_us() - 1000000,
                                          .end_us = clock_real_us() + 100000000,
                                          .stock_left = 5,
                                          .exists = true};
    fake.order = (struct order){
        .id = 71, .voucher_id = 7, .user_id = 5, .price_cents = 100, .expires_us = 1000000};
    fake.voucher = (struct voucher){.id = 7,
                                    .version = 3,
                                    .title = {"T", 1},
                                    .description = {"D", 1},
                                    .begin_us = 1000000,
                                    .end_us = 2000000};
    fake.count = 1;
    fake.verdict = CHANGE_DONE;
    fake.age_s = -1;
    api = api_create(&options);
    return api == NULL;
}

static int close_api(void **state UNUSED)
{
    api_free(api);
    return 0;
}

static struct http_request *request_new(void)
{
    struct http_request *request = calloc(1, sizeof(*request) + api_context_bytes);

    request->context = request->memory;
    return request;
}

static void handle(struct http_request *request, const char *body)
{
    if (body != NULL && api_reads_body(request, api))
        request->body = (struct text){body, strlen(body)};
    api_handle(request, api);
}

/* "METHOD PATH" or "METHOD PATH?QUERY"; what `as` presents is "Bearer ..." or NULL. */
static const char *ask(const char *line, const char *as, const char *headers,
                       const char *body)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PATCH", "OPTIONS"};
    static char all[1000];
    struct http_request *request = request_new();
    char path[200] = "", method[10] = "", query[200] = "";

    sscanf(line, "%9s %199[^?]?%199s", method, path, query);
    request->method = HTTP_OTHER;
    for (int i = 0; i < 5; i++) {
        if (strcmp(method, methods[i]) == 0)
            request->method = (enum http_method)i;
    }
    request->path = path;
    snprintf(all, sizeof(all), "%s%s\n%s%s", as != NULL ? "Authorization: Bearer " : "",
             as != NULL ? as : "", headers != NULL ? headers : "",
             body != NULL && (headers == NULL || strstr(headers, "Content-Type") == NULL)
                 ? "Content-Type: application/json\n"
                 : "");
    sent = (struct sent){query, all};
    did[0] = answer[0] = '\0';
    answers = 0;
    handle(request, body);
    ASSERT_NUMBER(answers, ==, !fake.holds_reads);
    if (answers == 1)
        free(request);
    return answer;
}

#define ASSERT_TEXT(found, wanted) assert_text(found, wanted, __FILE__, __LINE__)

static void assert_text(const char *found, const char *wanted, const char *file, int line)
{
    if (strcmp(found, wanted) == 0)
        return;
    print_error("expected \"%s\", got \"%s\"\n", wanted, found);
    _fail(file, line);
}

struct row {
    const char *line, *as, *headers, *body, *did, *answer;
};

static void assert_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];

        ask(row->line, row->as, row->headers, row->body);
        if (row->did != NULL && strcmp(did, row->did) != 0)
            fail_msg("%s %s %s: expected \"%s\", did \"%s\"", row->line,
                     row->as != NULL ? row->as : "", row->body != NULL ? row->body : "",
                     row->did, did);
        if (strcmp(answer, row->answer) != 0)
            fail_msg("%s %s %s: expected \"%s\", got \"%s\"", row->line,
                     row->as != NULL ? row->as : "", row->body != NULL ? row->body : "",
                     row->answer, answer);
    }
}

#define ASSERT_ROWS(rows) assert_rows(rows, sizeof(rows) / sizeof((rows)[0]))

#define ORDER                                                                            \
    "{\"id\":\"71\",\"voucher_id\":\"7\",\"user_id\":\"5\",\"status\":\"unpaid\","       \
    "\"price_cents\":100,\"created_at\":\"1970-01-01T00:00:00Z\","                       \
    "\"expires_at\":\"1970-01-01T00:00:01Z\"}"
#define SHOPPER  "shopper 5"
#define ADMIN    "admin 1"
#define PAYMENT  "payment 3"
#define PLACE    "POST /v1/vouchers/7/orders"
#define LIMITED  "limit shopper 5;"
#define SUBMIT   LIMITED "submit 7 5 key \"\" sent_id=r;"
#define BODY     "Content-Type: "
#define READ     LIMITED "read order 71 of 5;"
#define RETRY    " Retry-After: 1"
#define BAD_BODY "400 bad_request: The body must be one JSON object without duplicate names."
#define BAD_KEY  "400 bad_request: Idempotency-Key must be sent once, 1 to 64 printable bytes."
#define UNAUTHENTICATED "401 WWW-Authenticate: Bearer unauthenticated"
#define KEY_64   "0123456789012345678901234567890123456789012345678901234567890123"
#define REF_200  KEY_64 KEY_64 KEY_64 "01234567"

/* clang-format off */

/* -- routes -- */

static void test_routes__are_open_to_their_callers(void **state UNUSED)
{
    static const struct row rows[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, READ, "200 " ORDER},
        {"HEAD /v1/orders/71", SHOPPER, NULL, NULL, READ, "200 " ORDER},
        {"GET /v1/orders/71", ADMIN, NULL, NULL, "read order 71 of 0;", "200 " ORDER},
        {"GET /v1/orders/71", PAYMENT, NULL, NULL, "", "403 forbidden"},
        {"GET /v1/orders/71", NULL, NULL, NULL, "", UNAUTHENTICATED},
        {"GET /v1/orders/71", "stranger 5", NULL, NULL, "", UNAUTHENTICATED},
        {"GET /v1/orders/71", "out of memory", NULL, NULL, "", "503" RETRY " overloaded"},
        {"GET /v1/orders/71", SHOPPER, "Authorization: Bearer x\n", NULL, "", "400 bad_request: Authorization must not be repeated."},
        {"POST /v1/orders/71/cancel", PAYMENT, NULL, NULL, "", "403 forbidden"},
        {"POST /v1/orders/71/refund", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"POST /v1/orders/71/redeem", PAYMENT, NULL, NULL, "", "403 forbidden"},
        {"POST /v1/orders/71/pay", ADMIN, NULL, NULL, "", "403 forbidden"},
        {"GET /v1/orders/71/events", PAYMENT, NULL, NULL, "", "403 forbidden"},
        {"GET /v1/vouchers/7/events", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"POST /v1/vouchers", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"PATCH /v1/vouchers/7", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"POST /v1/vouchers/7/restock", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"GET /v1/stats", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"GET /v1/debug/state", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {PLACE, ADMIN, NULL, NULL, "", "403 forbidden"},
        {"POST /v1/vouchers/7/ticket", PAYMENT, NULL, NULL, "", "403 forbidden"},
        {"GET /v1/nothing", NULL, NULL, NULL, "", "404 not_found"},
        {"GET /v1/orders/71/", NULL, NULL, NULL, "", "404 not_found"},
        {"GET /v1/orders/0", SHOPPER, NULL, NULL, "", "400 bad_request: The id in the path must be an integer, 1 to 2^63-1."},
        {"GET /v1/orders/x", SHOPPER, NULL, NULL, "", "400 bad_request: The id in the path must be an integer, 1 to 2^63-1."},
        {"PATCH /v1/orders/71", SHOPPER, NULL, NULL, "", "405 Allow: GET, HEAD, OPTIONS method_not_allowed"},
        {"GET /v1/orders/71/pay", SHOPPER, NULL, NULL, "", "405 Allow: POST, OPTIONS method_not_allowed"},
        {"OPTIONS /v1/vouchers/7", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, PATCH, OPTIONS"},
        {"OPTIONS /v1/vouchers", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, POST, OPTIONS"},
        {"OPTIONS *", NULL, NULL, NULL, "", "204 Allow: GET, HEAD, POST, PATCH, OPTIONS"},
        {"GET *", NULL, NULL, NULL, "", "404 not_found"},
        {"GET /healthz", NULL, NULL, NULL, "", "200 {\"status\":\"alive\"}"},
        {"GET /metrics", NULL, NULL, NULL, "", "200 text/plain; version=0.0.4; charset=utf-8 metrics"},
        {"GET /web/nothing", NULL, NULL, NULL, "", "404 not_found"},
    };

    ASSERT_ROWS(rows);
    ask("GET /v1/nothing", NULL, NULL, NULL);
    ASSERT_NUMBER(counted, ==, ROUTE_NONE);
    ask("GET /healthz", NULL, NULL, NULL);
    ASSERT_NUMBER(counted, ==, ROUTE_HEALTHZ);
    fake.shows_debug = true;
    ask("GET /healthz", NULL, NULL, NULL);
    ASSERT_TEXT(did, "log request request_id=r path=\"/healthz\" status=200;");
    fake.shows_debug = false;
    fake.is_foreign = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", SHOPPER, NULL, NULL), "421 misdirected");
    ASSERT_TEXT(ask("GET /healthz", NULL, NULL, NULL), "200 {\"status\":\"alive\"}");
}

static const char *ask_defect(const char *defect, bool is_too_large, bool is_chunked, const char *path)
{
    struct http_request *request = request_new();

    *request = (struct http_request){.method = HTTP_POST, .path = path, .defect = defect, .is_too_large = is_too_large,
                                     .is_chunked = is_chunked, .context = request->memory};
    sent = (struct sent){"", "Authorization: Bearer " SHOPPER};
    did[0] = answer[0] = '\0';
    handle(request, NULL);
    free(request);
    return answer;
}

static void test_routes__refuse_defects(void **state UNUSED)
{
    ASSERT_TEXT(ask_defect("Defect.", false, false, "/v1/vouchers/7/orders"), "400 bad_request: Defect.");
    ASSERT_TEXT(ask_defect(NULL, true, false, "/v1/vouchers/7/orders"), "413 too_large");
    ASSERT_TEXT(ask_defect(NULL, false, true, "/v1/vouchers/7/orders"),
                "400 bad_request: This body must have a Content-Length.");
    ASSERT_TEXT(ask_defect(NULL, false, true, "/v1/vouchers"), "403 forbidden");
}

static bool keeps_body(const char *path, const char *as)
{
    struct http_request *request = request_new();
    char headers[100];
    bool keeps;

    request->method = HTTP_POST;
    request->path = path;
    snprintf(headers, sizeof(headers), "Authorization: Bearer %s", as);
    sent = (struct sent){"", headers};
    keeps = api_reads_body(request, api);
    free(request);
    return keeps;
}

static void test_bodies__are_kept_for_permitted_callers(void **state UNUSED)
{
    assert_true(keeps_body("/v1/vouchers", ADMIN));
    assert_true(keeps_body("/v1/vouchers", "out of memory")); /* the token is checked again */
    assert_false(keeps_body("/v1/vouchers", SHOPPER));
    assert_false(keeps_body("/v1/vouchers", "stranger 1"));
    assert_false(keeps_body("/v1/vouchers/7/orders", SHOPPER));
    assert_false(keeps_body("/v1/vouchers/7", ADMIN));
    assert_false(keeps_body("/nothing", ADMIN));
    assert_true(keeps_body("/v1/dev/token", "nobody"));
    api->options.dev_login = false;
    assert_false(keeps_body("/v1/dev/token", "nobody"));
}

/* -- limits -- */

static void test_limits__refuse_before_anything_is_done(void **state UNUSED)
{
    static const struct row rows[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, LIMITED,
         "429 Retry-After: 2 RateLimit-Policy: \"shopper\";q=20;w=2 RateLimit: \"shopper\";r=0;t=2 rate_limited"},
        {"GET /v1/orders/71", ADMIN, NULL, NULL, "read order 71 of 0;", "200 " ORDER},
    };
    static const struct row of_addresses[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, "limit address;",
         "429 Retry-After: 1 RateLimit-Policy: \"address\";q=20;w=2 RateLimit: \"address\";r=0;t=1 rate_limited"},
        {"GET /healthz", NULL, NULL, NULL, "", "200 {\"status\":\"alive\"}"},
    };
    static const struct row full[] = {
        {"GET /v1/orders/71", SHOPPER, NULL, NULL, "", "503" RETRY " overloaded"},
        {PLACE, SHOPPER, NULL, NULL, SUBMIT, "201 Location: /v1/orders/71 " ORDER},
        {"GET /healthz", NULL, NULL, NULL, "", "200 {\"status\":\"alive\"}"},
    };
    static char limiter;

    fake.pending = 10;
    ASSERT_TEXT(ask("GET /v1/orders/71", SHOPPER, NULL, NULL), "200 " ORDER);
    fake.pending = 11;
    ASSERT_ROWS(full);
    fake.has_entry = false;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " overloaded");
    fake.has_entry = true;
    fake.pending = 0;
    fake.rate_wait_us = 1000001;
    ASSERT_ROWS(rows);
    fake.rate_wait_us = 1000000;
    api->options.address_limiter = (struct limiter *)(void *)&limiter;
    ASSERT_ROWS(of_addresses);
}

static void test_revocations__are_looked_up_by_the_id_of_the_token(void **state UNUSED)
{
    static const struct row rows[] = {
        {"GET /v1/orders/71", "shopper 5 abc", NULL, NULL, LIMITED "EXISTS revoked:abc;read order 71 of 5;", "200 " ORDER},
        {"GET /v1/stats", "shopper 5 abc", NULL, NULL, LIMITED "EXISTS revoked:abc;", "403 forbidden"},
    };

    ASSERT_ROWS(rows);
    fake.is_cluster = true;
    ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL);
    ASSERT_TEXT(did, LIMITED "EXISTS {revoked:}abc;read order 71 of 5;");
    fake.is_revoked = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL), UNAUTHENTICATED);
    fake.is_revoked = false;
    fake.status = STATUS_IO; /* of the command, then also of the read */
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL), "503" RETRY " unavailable");
    ASSERT_TEXT(did, LIMITED "EXISTS {revoked:}abc;");
    fake.status = STATUS_BUSY; /* the reply is no number */
    ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL);
    ASSERT_TEXT(did, LIMITED "EXISTS {revoked:}abc;");
    fake.status = STATUS_OK;
    fake.is_redis_down = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL), "503" RETRY " unavailable");
    api->options.bypass_locks = true;
    ASSERT_TEXT(ask("GET /v1/orders/71", "shopper 5 abc", NULL, NULL), "200 " ORDER);
    ASSERT_TEXT(ask("GET /v1/stats", "shopper 5 abc", NULL, NULL), "403 forbidden");
}

/* -- placing -- */

static void test_place__answers_each_outcome(void **state UNUSED)
{
    static const char *const answers_by_outcome[] = {
        "201 Location: /v1/orders/71 " ORDER, "200 " ORDER, "409 already_ordered 71", "409 sold_out",
        "409 Retry-After: 3 not_started", "409 sale_ended", "404 not_found", "403 ticket_required",
        "409" RETRY " order_in_progress", "503" RETRY " overloaded", "503" RETRY " unavailable",
        "503" RETRY " outcome_unknown", "500 internal"};

    fake.entry.begin_us = clock_real_us() + 2000001;
    fake.entry.requires_ticket = false;
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        struct api_request request = {.api = api, .id = 7, .http = request_new()};

        request.route = NULL;
        request.http->context = &request;
        answer[0] = '\0';
        fake.outcome = (enum outcome)i;
        api_answer_outcome(&request, fake.outcome, i <= OUTCOME_ALREADY_ORDERED ? &fake.order : NULL);
        ASSERT_TEXT(answer, answers_by_outcome[i]);
        free(request.http);
    }
}

/* A page per second up to 63, then one rendered for each. */
static void test_place__says_when_a_sale_begins(void **state UNUSED)
{
    static const struct {
        int64_t wait_us;
        const char *answer;
    } rows[] = {
        {2000000, "409 Retry-After: 2 not_started"},
        {2000001, "409 Retry-After: 3 not_started"},
        {63000000, "409 Retry-After: 63 not_started"},
        {63000001, "409 Retry-After: 64 not_started"},
        {86400000000, "409 Retry-After: 86400 not_started"},
        {2000000, "409 Retry-After: 2 not_started"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.entry.begin_us = clock_real_us() + rows[i].wait_us;
        ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), rows[i].answer);
        ASSERT_TEXT(did, "");
        ASSERT_NUMBER(metrics.outcomes[OUTCOME_NOT_STARTED], ==, i + 1);
    }
    fake.outcome = OUTCOME_NOT_STARTED;
    fake.entry.begin_us = clock_real_us();
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "409 Retry-After: 1 not_started");
}

static void test_place__needs_a_valid_key(void **state UNUSED)
{
    static const struct row rows[] = {
        {PLACE, SHOPPER, "Idempotency-Key: a ~\n", NULL, LIMITED "submit 7 5 key \"a ~\" sent_id=r;", "201 Location: /v1/orders/71 " ORDER},
        {PLACE, SHOPPER, "Idempotency-Key: " KEY_64 "\n", NULL, LIMITED "submit 7 5 key \"" KEY_64 "\" sent_id=r;", "201 Location: /v1/orders/71 " ORDER},
        {PLACE, SHOPPER, "Idempotency-Key: " KEY_64 "5\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: a\nIdempotency-Key: a\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: \n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: a\x7f\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: a\tb\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, NULL, NULL, SUBMIT, "201 Location: /v1/orders/71 " ORDER},
        {PLACE, NULL, NULL, NULL, "", UNAUTHENTICATED},
    };

    ASSERT_ROWS(rows);
    fake.is_checkout_full = true;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " overloaded");
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_OVERLOADED], ==, 1);
}

static void test_place__an_unknown_voucher_is_read_for_callers_with_a_token(void **state UNUSED)
{
    fake.has_entry = false;
    ASSERT_TEXT(ask(PLACE, NULL, NULL, NULL), UNAUTHENTICATED);
    ASSERT_TEXT(did, "");
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "201 Location: /v1/orders/71 " ORDER);
    ASSERT_TEXT(did, LIMITED "catalogue 7;submit 7 5 key \"\" sent_id=r;");
    fake.status = STATUS_NO_MEMORY;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " overloaded");
    fake.status = STATUS_DOWN;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " unavailable");
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_UNAVAILABLE], ==, 1);
    ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL);
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_UNAVAILABLE], ==, 1); /* it is no order */
}

/* The key may name an order that was placed before. */
static void test_place__refused_by_memory_is_looked_up_by_key(void **state UNUSED)
{
    static const char key[] = "Idempotency-Key: k\n";

    fake.entry.stock_left = 0;
    ASSERT_TEXT(ask(PLACE, NULL, NULL, NULL), "409 sold_out");
    ASSERT_TEXT(ask(PLACE, NULL, key, NULL), UNAUTHENTICATED);
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "409 sold_out");
    ASSERT_TEXT(did, LIMITED "find 7 5 \"k\" in 2000;");
    fake.found = VERDICT_REPEATED;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "200 " ORDER);
    fake.found = VERDICT_ALREADY_ORDERED;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "409 already_ordered 71");
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_SOLD_OUT], ==, 2);
    fake.status = STATUS_IO;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "503" RETRY " unavailable");
    fake.pending = 11;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "503" RETRY " overloaded");
    fake.entry.exists = false;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "404 not_found");
    ASSERT_TEXT(did, "");
}

/* -- tickets -- */

static void test_tickets__are_issued_and_required(void **state UNUSED)
{
    char header[100];
    char *text;

    fake.entry.requires_ticket = true;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "403 ticket_required");
    ASSERT_TEXT(did, LIMITED);
    ASSERT_CONTAINS(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL), "201 {\"ticket\":\"");
    ASSERT_CONTAINS(answer, "\",\"expires_at\":\"2023-11-14T22:14:25Z\"}");
    ASSERT_NUMBER(strlen(strstr(answer, "\":\"") + 3), ==, 32 + strlen("\",\"expires_at\":\"2023-11-14T22:14:25Z\"}"));
    text = strstr(answer, "\":\"") + 3;
    snprintf(header, sizeof(header), "Purchase-Ticket: %.32s\n", text);
    ask(PLACE, SHOPPER, header, NULL);
    ASSERT_TEXT(did, LIMITED "submit 7 5 key \"\" ticket sent_id=r;");
    ASSERT_TEXT(ask(PLACE, "shopper 6", header, NULL), "403 ticket_required");
    ASSERT_TEXT(ask("POST /v1/vouchers/7/ticket", NULL, NULL, NULL), UNAUTHENTICATED);
    fake.entry.stock_left = 0;
    ASSERT_TEXT(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL), "409 sold_out");
    fake.entry.stock_left = 1;
    api->options.tickets.secret = "";
    ASSERT_TEXT(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL), "404 not_found");
}

static void test_tickets__may_need_a_proof_of_work(void **state UNUSED)
{
    static const char path[] = "POST /v1/vouchers/7/ticket";
    char challenge[TICKET_BYTES], body[200];

    fake.entry.pow_bits = 1;
    ASSERT_CONTAINS(ask(path, SHOPPER, NULL, NULL), "200 {\"challenge\":\"");
    ASSERT_CONTAINS(answer, "\",\"algorithm\":\"sha256\",\"bits\":1,\"expires_at\":\"2023-11-14T22:14:25Z\"}");
    snprintf(challenge, sizeof(challenge), "%s", strstr(answer, "\":\"") + 3);
    for (int nonce = 0; nonce < 64; nonce++) {
        char digits[12];
        bool is_proof;

        snprintf(digits, sizeof(digits), "%d", nonce);
        is_proof = ticket_is_proof((struct text){challenge, 32}, (struct text){digits, strlen(digits)}, 1);
        snprintf(body, sizeof(body), "{\"challenge\":\"%s\",\"nonce\":\"%d\"}", challenge, nonce);
        ask(path, SHOPPER, NULL, body);
        if (is_proof)
            ASSERT_CONTAINS(answer, "201 {\"ticket\":\"");
        else
            ASSERT_TEXT(answer, "422 invalid: nonce does not solve the challenge");
    }
    ASSERT_TEXT(ask(path, "shopper 6", NULL, body),
                "422 invalid: challenge must be an unexpired challenge of this shopper for this voucher");
    ASSERT_TEXT(ask(path, SHOPPER, NULL, "{\"challenge\":\"" KEY_64 "\",\"nonce\":\"" KEY_64 "5\"}"),
                "422 invalid: challenge must be a string of 1 to 32 characters without NUL"
                ": nonce must be a string of 1 to 64 characters without NUL");
    ASSERT_TEXT(ask(path, SHOPPER, NULL, "{\"challenge\":\"\",\"nonce\":\"\"}"),
                "422 invalid: challenge must be a string of 1 to 32 characters without NUL"
                ": nonce must be a string of 1 to 64 characters without NUL");
    ASSERT_TEXT(ask(path, SHOPPER, NULL, "{}"), "422 invalid: challenge is required: nonce is required");
}

/* -- changes of orders -- */

static void test_life__changes_an_order_that_was_read(void **state UNUSED)
{
    static const struct row rows[] = {
        {"POST /v1/orders/71/cancel", SHOPPER, NULL, NULL, READ "cancel 7 71 by shopper:5 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/cancel", ADMIN, NULL, NULL, "read order 71 of 0;cancel 7 71 by admin:1 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/refund", PAYMENT, NULL, NULL, "read order 71 of 0;refund 7 71 by payment:3 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/redeem", ADMIN, NULL, NULL, "read order 71 of 0;redeem 7 71 by admin:1 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"r\",\"amount_cents\":100}",
         "read order 71 of 0;pay 7 71 by payment:3 \"r\" 100 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"" REF_200 "\",\"amount_cents\":1000000000000}", NULL, "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"" REF_200 "1\",\"amount_cents\":1000000000001}", "",
         "422 invalid: payment_ref must be a string of 1 to 200 characters without NUL"
         ": amount_cents must be an integer, 0 to 1000000000000"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"\xc3\xa4" REF_200 "\",\"amount_cents\":-1}", "",
         "422 invalid: payment_ref must be a string of 1 to 200 characters without NUL"
         ": amount_cents must be an integer, 0 to 1000000000000"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"\xc3\xa4" KEY_64 KEY_64 KEY_64 "0123456\",\"amount_cents\":0}", "",
         "422 invalid: payment_ref must not exceed 200 bytes"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"\",\"amount_cents\":0}", "",
         "422 invalid: payment_ref must be a string of 1 to 200 characters without NUL"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{}", "", "422 invalid: payment_ref is required: amount_cents is required"},
    };

    ASSERT_ROWS(rows);
}

static void test_life__answers_each_verdict(void **state UNUSED)
{
    static const char pay[] = "{\"payment_ref\":\"r\",\"amount_cents\":99}";
    static const struct {
        enum change_verdict verdict;
        const char *answer, *code; /* code: of the log line of a payment */
    } rows[] = {
        {CHANGE_DONE, "200 " ORDER, NULL},
        {CHANGE_REPEATED, "200 " ORDER, NULL},
        {CHANGE_WRONG_STATE, "409 wrong_state", "wrong_state"},
        {CHANGE_WRONG_AMOUNT, "409 wrong_amount", "wrong_amount"},
        {CHANGE_NO_ORDER, "404 not_found", NULL},
        {CHANGE_REF_USED, "409 payment_ref_used", "payment_ref_used"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char logged[200] = "";

        fake.verdict = rows[i].verdict;
        ASSERT_TEXT(ask("POST /v1/orders/71/pay", PAYMENT, NULL, pay), rows[i].answer);
        if (rows[i].code != NULL)
            snprintf(logged, sizeof(logged), "log payment_refused request_id=r order_id=71 user_id=5 amount_cents=99"
                     " code=%s status=unpaid payment_ref=\"r\";", rows[i].code);
        ASSERT_CONTAINS(did, logged);
        ASSERT_NUMBER(strstr(did, "log ") != NULL, ==, rows[i].code != NULL);
        ASSERT_TEXT(ask("POST /v1/orders/71/refund", PAYMENT, NULL, NULL), rows[i].answer);
        assert_null(strstr(did, "log "));
    }
}

/* A lost connection leaves the outcome of a write unknown, and is logged. */
static void test_failures__have_their_answers(void **state UNUSED)
{
    static const struct {
        enum status status;
        const char *of_read, *of_write;
        bool is_logged; /* of a write */
    } rows[] = {
        {STATUS_NOT_FOUND, "404 not_found", "404 not_found", false},
        {STATUS_NO_MEMORY, "503" RETRY " overloaded", "503" RETRY " overloaded", false},
        {STATUS_REFUSED, "500 internal", "500 internal", true},
        {STATUS_DOWN, "503" RETRY " unavailable", "503" RETRY " unavailable", true},
        {STATUS_BUSY, "503" RETRY " unavailable", "503" RETRY " unavailable", true},
        {STATUS_IO, "503" RETRY " unavailable", "503" RETRY " outcome_unknown", true},
        {STATUS_TIMEOUT, "503" RETRY " unavailable", "503" RETRY " outcome_unknown", true},
    };
    static const char *const reads[] = {"GET /v1/orders/71", "GET /v1/orders", "GET /v1/vouchers/7", "GET /v1/vouchers",
                                        "GET /v1/vouchers/7/events", "GET /v1/orders/71/events",
                                        "POST /v1/orders/71/cancel"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.status = rows[i].status;
        for (size_t j = 0; j < sizeof(reads) / sizeof(reads[0]); j++) {
            ASSERT_TEXT(ask(reads[j], ADMIN, NULL, NULL), rows[i].of_read);
            ASSERT_NUMBER(strstr(did, "log ") != NULL, ==, rows[i].status == STATUS_REFUSED);
        }
        ASSERT_TEXT(ask("POST /v1/vouchers/7/restock", ADMIN, NULL, "{\"add\":1}"), rows[i].of_write);
        ASSERT_NUMBER(strstr(did, "log request_failed request_id=r path=\"/v1/vouchers/7/restock\"") != NULL, ==,
                      rows[i].is_logged);
        ASSERT_TEXT(ask("PATCH /v1/vouchers/7", ADMIN, NULL, "{}"), rows[i].of_write);
    }
    fake.status = STATUS_OK;
    fake.second = STATUS_IO;
    ASSERT_TEXT(ask("GET /v1/orders/71/events", SHOPPER, NULL, NULL), "503" RETRY " unavailable");
    ASSERT_TEXT(ask("POST /v1/orders/71/cancel", SHOPPER, NULL, NULL), "503" RETRY " outcome_unknown");
}

/* -- lists -- */

static void test_lists__read_one_more_than_the_page(void **state UNUSED)
{
    static const struct row rows[] = {
        {"GET /v1/orders", SHOPPER, NULL, NULL, LIMITED "list orders 5 0 0 21;", "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?limit=100&voucher_id=7&cursor=90&user_id=5", SHOPPER, NULL, NULL, LIMITED "list orders 5 7 90 101;",
         "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?user_id=6", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"GET /v1/orders?user_id=6", ADMIN, NULL, NULL, "list orders 6 0 0 21;", "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?limit=101", SHOPPER, NULL, NULL, LIMITED, "422 invalid: limit must be 1 to 100"},
        {"GET /v1/orders?limit=0", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: limit must be one integer, 1 or greater."},
        {"GET /v1/orders?limit=1&limit=1", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: limit must be one integer, 1 or greater."},
        {"GET /v1/orders?voucher_id=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: voucher_id must be one integer, 1 or greater."},
        {"GET /v1/orders?cursor=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: cursor must be one integer, 1 or greater."},
        {"GET /v1/orders?user_id=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: user_id must be one integer, 1 or greater."},
        {"GET /v1/vouchers/7/events?after=3&limit=2", ADMIN, NULL, NULL, "read voucher 7;list events 7 0 3 3 in 2000;",
         "200 {\"items\":[{\"id\":\"71\",\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:00Z\",\"stock_change\":-1,"
         "\"order_id\":\"71\",\"actor\":\"shopper:5\"}],\"next_cursor\":null}"},
        {"GET /v1/orders/71/events", SHOPPER, NULL, NULL, READ "list events 7 71 0 21 in 2000;", NULL},
        {"GET /v1/orders/71/events?after=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: after must be one integer, 1 or greater."},
        {"GET /v1/vouchers/7/events?limit=101", ADMIN, NULL, NULL, "", "422 invalid: limit must be 1 to 100"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct row row = rows[i];

        if (row.answer == NULL)
            row.answer = rows[i - 1].answer;
        assert_rows(&row, 1);
    }
    fake.age_s = 0;
    ASSERT_TEXT(ask("GET /v1/orders", SHOPPER, NULL, NULL), "200 Age: 0 {\"items\":[" ORDER "],\"next_cursor\":null}");
    fake.count = 2;
    ASSERT_CONTAINS(ask("GET /v1/orders?limit=1", SHOPPER, NULL, NULL), "[" ORDER "],\"next_cursor\":\"71\"}");
    ASSERT_CONTAINS(ask("GET /v1/orders?limit=2", SHOPPER, NULL, NULL), "},{\"id\":\"70\"");
    ASSERT_CONTAINS(answer, "],\"next_cursor\":null}");
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/events?limit=1", ADMIN, NULL, NULL), "}],\"next_cursor\":\"71\"}");
    assert_null(strstr(answer, "\"72\""));
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/events?limit=2", ADMIN, NULL, NULL),
                    ",{\"id\":\"72\",\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:00Z\",\"stock_change\":0}]"
                    ",\"next_cursor\":null}");
}

/* -- vouchers -- */

#define VOUCHER(id, begin, end) \
    "{\"id\":\"" id "\",\"title\":\"T\",\"description\":\"D\",\"price_cents\":0,\"face_value_cents\":0,\"stock_total\":0," \
    "\"stock_left\":0,\"per_user_limit\":0,\"begin_at\":\"1970-01-01T00:00:01" begin "Z\",\"end_at\":" \
    "\"1970-01-01T00:00:02" end "Z\",\"pay_within_s\":0,\"requires_ticket\":false,\"pow_bits\":0,\"state\":\"ended\"," \
    "\"server_time\":\"2023-11-14T22:13:25Z\"}"
#define V7 VOUCHER("7", "", "")
#define V8 VOUCHER("8", ".000001", ".000001")
#define CREATE "{\"title\":\"T\",\"begin_at\":\"1970-01-01T00:00:01Z\",\"end_at\":\"1970-01-01T00:00:02Z\"" \
    ",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3"
#define WRITE_VOUCHER "POST /v1/vouchers"
#define PATCH_VOUCHER "PATCH /v1/vouchers/7"
#define RESTOCK "POST /v1/vouchers/7/restock"

static void test_vouchers__are_written(void **state UNUSED)
{
    static const struct row rows[] = {
        {WRITE_VOUCHER, ADMIN, NULL, CREATE "}", "create \"T\" \"\" 1 2 3 1 900 1000000 2000000 0 0 by admin:1;invalidate 7;",
         "201 Location: /v1/vouchers/7 " V7},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"description\":\"D\",\"per_user_limit\":100,\"pay_within_s\":2592000,"
         "\"requires_ticket\":true,\"pow_bits\":32}",
         "create \"T\" \"D\" 1 2 3 100 2592000 1000000 2000000 1 32 by admin:1;invalidate 7;", "201 Location: /v1/vouchers/7 " V7},
        {WRITE_VOUCHER, ADMIN, NULL, "{}", "", "422 invalid: title is required: begin_at is required: end_at is required"
         ": price_cents is required: face_value_cents is required: stock is required"},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"per_user_limit\":101,\"pay_within_s\":2592001,\"requires_ticket\":1,\"pow_bits\":33}", "",
         "422 invalid: pay_within_s must be an integer, 1 to 2592000: requires_ticket must be true or false"
         ": pow_bits must be an integer, 0 to 32: per_user_limit must be an integer, 1 to 100"},
        {WRITE_VOUCHER, ADMIN, NULL, "{\"title\":\"\",\"begin_at\":\"1970-01-01T00:00:00Z\",\"end_at\":\"1970-01-01T00:00:00Z\""
         ",\"price_cents\":-1,\"face_value_cents\":-1,\"stock\":-1,\"per_user_limit\":0,\"pay_within_s\":0,\"pow_bits\":-1}", "",
         "422 invalid: title must be a string of 1 to 200 characters without NUL"
         ": begin_at must be an RFC 3339 time from 1970 to 9999, e.g. 2030-01-01T00:00:00Z"
         ": end_at must be an RFC 3339 time from 1970 to 9999, e.g. 2030-01-01T00:00:00Z"
         ": pay_within_s must be an integer, 1 to 2592000: pow_bits must be an integer, 0 to 32"
         ": price_cents must be an integer, 0 to 1000000000000: face_value_cents must be an integer, 0 to 1000000000000"
         ": stock must be an integer, 0 to 100000000: per_user_limit must be an integer, 1 to 100"},
        {WRITE_VOUCHER, ADMIN, NULL, "{\"title\":\"T\",\"begin_at\":\"1970-01-01T00:00:01Z\",\"end_at\":\"1970-01-01T00:00:01Z\""
         ",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3}", "", "422 invalid: end_at must be after begin_at"},
        {WRITE_VOUCHER, ADMIN, BODY "text/plain\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "application/jsonx\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "application/jso\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "application/yaml;charset=utf-8\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "Application/JSON; charset=utf-8\n", "{", "", BAD_BODY},
        {WRITE_VOUCHER, ADMIN, BODY "application/json;charset=utf-8\n", "{", "", BAD_BODY},
        {WRITE_VOUCHER, ADMIN, BODY "application/json ;charset=utf-8\n", "{", "", BAD_BODY},
        {WRITE_VOUCHER, ADMIN, BODY "application/json\n" BODY "application/json\n", CREATE "}", "",
         "400 bad_request: Content-Type must not be repeated."},
        {WRITE_VOUCHER, ADMIN, NULL, NULL, "", "415 unsupported_media_type"},
        {PATCH_VOUCHER, ADMIN, NULL, "{}", "patch 7 \"\" \"\" 0 0 0 0 0 0 0 -1 -1;invalidate 7;", "200 " V7},
        {PATCH_VOUCHER, ADMIN, NULL, "{\"title\":\"T\",\"requires_ticket\":false,\"pow_bits\":0,\"end_at\":\"1970-01-01T00:00:01Z\"}",
         "patch 7 \"T\" \"\" 0 0 0 0 0 0 1000000 0 0;invalidate 7;", "200 " V7},
        {PATCH_VOUCHER, ADMIN, NULL, "{\"stock\":1}", "", "422 invalid: stock unknown field"},
        {RESTOCK, ADMIN, NULL, "{\"add\":100000000}", "restock 7 100000000 by admin:1;invalidate 7;", "200 " V7},
        {RESTOCK, ADMIN, NULL, "{\"add\":-100000000}", "restock 7 -100000000 by admin:1;invalidate 7;", "200 " V7},
        {RESTOCK, ADMIN, NULL, "{\"add\":100000001}", "", "422 invalid: add must be an integer, -100000000 to 100000000"},
        {RESTOCK, ADMIN, NULL, "{\"add\":-100000001}", "", "422 invalid: add must be an integer, -100000000 to 100000000"},
        {RESTOCK, ADMIN, NULL, "{}", "", "422 invalid: add is required"},
    };

    ASSERT_ROWS(rows);
    api->options.tickets.secret = "";
    ASSERT_TEXT(ask(WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"requires_ticket\":true}"),
                "422 invalid: requires_ticket requires SECKILL_TICKET_SECRET, which is not set");
    ASSERT_TEXT(ask(PATCH_VOUCHER, ADMIN, NULL, "{\"requires_ticket\":true}"),
                "422 invalid: requires_ticket requires SECKILL_TICKET_SECRET, which is not set");
    ASSERT_TEXT(ask(PATCH_VOUCHER, ADMIN, NULL, "{\"requires_ticket\":false}"), "200 " V7);
    fake.status = STATUS_INVALID; /* by the rules of the table */
    ASSERT_TEXT(ask(WRITE_VOUCHER, ADMIN, NULL, CREATE "}"), "422 invalid: end_at must be after begin_at");
    ASSERT_TEXT(ask(RESTOCK, ADMIN, NULL, "{\"add\":1}"), "422 invalid: add must not raise the total above 100000000");
    ASSERT_TEXT(ask(RESTOCK, ADMIN, NULL, "{\"add\":0}"), "409 insufficient_stock");
}

static const char *body_of(const char *text)
{
    const char *at = strchr(text, '{');

    return at != NULL ? at : text;
}

static void assert_list(const char *line, const char *wanted_did, const char *wanted_body)
{
    ask(line, NULL, NULL, NULL);
    ASSERT_TEXT(did, wanted_did);
    ASSERT_TEXT(body_of(answer), wanted_body);
}

static void test_vouchers__are_listed(void **state UNUSED)
{
    static const char bad_cursor[] = "400 bad_request: cursor must be a next_cursor of this list.";
    static const char bad_state[] = "400 bad_request: state must be upcoming, open or ended.";
#define ONE "{\"items\":[" V7 "],\"next_cursor\":null}"

    assert_list("GET /v1/vouchers", "list vouchers 0 0 0 21;", ONE);
    assert_list("GET /v1/vouchers?limit=1&cursor=0_9", "list vouchers 0 0 9 2;", ONE);
    assert_list("GET /v1/vouchers?state=upcoming&cursor=8_9", "list vouchers 1 8 9 21;", ONE);
    assert_list("GET /v1/vouchers?state=open", "list vouchers 2 0 0 21;", ONE);
    assert_list("GET /v1/vouchers?state=ended&limit=100", "list vouchers 3 0 0 101;", ONE);
    assert_list("GET /v1/vouchers?limit=101", "", "422 invalid: limit must be 1 to 100");
    assert_list("GET /v1/vouchers?state=x", "", bad_state);
    assert_list("GET /v1/vouchers?state=open&state=open", "", bad_state);
    assert_list("GET /v1/vouchers?cursor=0_9&cursor=0_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=8_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=09", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=0_", "", bad_cursor);
    assert_list("GET /v1/vouchers?state=open&cursor=0_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?state=open&cursor=x_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?state=open&cursor=9", "", bad_cursor);
    fake.count = 2;
    assert_list("GET /v1/vouchers?limit=2", "list vouchers 0 0 0 3;", "{\"items\":[" V7 "," V8 "],\"next_cursor\":null}");
    fake.count = 3;
    assert_list("GET /v1/vouchers?limit=2", "list vouchers 0 0 0 3;", "{\"items\":[" V7 "," V8 "],\"next_cursor\":\"0_8\"}");
    assert_list("GET /v1/vouchers?limit=2&state=upcoming", "list vouchers 1 0 0 3;",
                "{\"items\":[" V7 "," V8 "],\"next_cursor\":\"1000001_8\"}");
    assert_list("GET /v1/vouchers?limit=2&state=ended", "list vouchers 3 0 0 3;",
                "{\"items\":[" V7 "," V8 "],\"next_cursor\":\"2000001_8\"}");
    ask("GET /v1/vouchers/7", NULL, NULL, NULL);
    ASSERT_TEXT(did, "read voucher 7;");
    ASSERT_TEXT(body_of(answer), V7);
}

static void no_turn(void)
{
}

/* The tag changes with the vouchers, their versions, and the second. */
static void test_vouchers__have_tags_and_ages(void **state UNUSED)
{
    char tags[6][60];

    for (int i = 0; i < 6; i++) {
        fake.voucher.id += i == 1;
        fake.voucher.version += i == 2;
        fake.count += i == 3;
        simulated_time_pass_us(i == 4 ? 1000000 : i == 5 ? 999999 : 0, no_turn);
        ask("GET /v1/vouchers", NULL, NULL, NULL);
        ASSERT_CONTAINS(answer, "200 ETag: W/\"");
        ASSERT_CONTAINS(answer, "\" Cache-Control: public, max-age=1 {");
        snprintf(tags[i], sizeof(tags[i]), "%.30s", answer);
        for (int j = 0; j < i; j++) {
            if ((strcmp(tags[i], tags[j]) == 0) != (i == 5 && j == 4))
                fail_msg("the answers %d and %d: tags %s and %s", i, j, tags[i], tags[j]);
        }
    }
    fake.age_s = 3;
    ASSERT_CONTAINS(ask("GET /v1/vouchers", NULL, NULL, NULL), " Age: 3 Cache-Control: public, max-age=4 {");
    fake.age_s = 0;
    ASSERT_CONTAINS(ask("GET /v1/vouchers", NULL, NULL, NULL), " Age: 0 Cache-Control: public, max-age=1 {");
    assert_null(strstr(ask("GET /v1/vouchers/7", NULL, NULL, NULL), "Age: 0"));
}

static void answer_held(size_t at)
{
    struct voucher voucher = fake.voucher;

    fake.held[at](STATUS_OK, &voucher, 1, clock_real_us(), fake.held_args[at]);
}

/* At most one read of a page is under way; requests that arrive meanwhile share the next. */
static void test_readings__are_shared(void **state UNUSED)
{
    static const char *const others[] = {
        "GET /v1/vouchers", "GET /v1/vouchers?limit=19", "GET /v1/vouchers?cursor=0_7", "GET /v1/vouchers?state=open",
        "GET /v1/vouchers?state=open&cursor=8_7", "GET /v1/vouchers?state=open&cursor=9_7", "GET /v1/vouchers/8"};

    fake.holds_reads = true;
    ask("GET /v1/vouchers/7", NULL, NULL, NULL);
    ASSERT_TEXT(did, "read voucher 7;");
    for (int i = 0; i < 2; i++) {
        ask("GET /v1/vouchers/7", NULL, NULL, NULL);
        ASSERT_TEXT(did, "");
    }
    answers = 0;
    answer_held(0);
    ASSERT_NUMBER(answers, ==, 1);
    ASSERT_TEXT(did, "read voucher 7;");
    ASSERT_NUMBER(fake.held_count, ==, 2);
    answer_held(1);
    ASSERT_NUMBER(answers, ==, 3);
    ASSERT_NUMBER(fake.held_count, ==, 2);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        fake.held_count = 0;
        ask("GET /v1/vouchers/7", NULL, NULL, NULL);
        ask(others[i], NULL, NULL, NULL);
        if (fake.held_count != 2)
            fail_msg("%s shares the read of a voucher", others[i]);
        for (size_t j = 0; j < i; j++) {
            ask(others[j], NULL, NULL, NULL);
            if (fake.held_count != 3)
                fail_msg("%s shares the read of %s", others[j], others[i]);
            answer_held(2);
            fake.held_count = 2;
        }
        answer_held(0);
        answer_held(1);
    }
}

/* -- memory -- */

static void *no_memory(size_t size UNUSED)
{
    return NULL;
}

static void test_api__answers_without_memory(void **state UNUSED)
{
    static const struct row rows[] = {
        {"GET /v1/vouchers/7", NULL, NULL, NULL, "read voucher 7;", "503" RETRY " overloaded"},
        {"GET /v1/vouchers", NULL, NULL, NULL, "list vouchers 0 0 0 21;", "503" RETRY " overloaded"},
        {"GET /v1/orders/71/events", ADMIN, NULL, NULL, "read order 71 of 0;list events 7 71 0 21 in 2000;",
         "503" RETRY " overloaded"},
        {"PATCH /v1/vouchers/7", ADMIN, NULL, "{}", "", "503" RETRY " overloaded"},
    };
    static const struct row without_pages[] = {
        {"GET /v1/vouchers/7", NULL, NULL, NULL, "read voucher 7;", "503" RETRY " overloaded"},
        {"GET /", NULL, NULL, NULL, "", "503" RETRY " overloaded"},
        {PLACE, SHOPPER, NULL, NULL, "", "409 Retry-After: 2 not_started"},
    };
    const struct api_options options = {.queue_max = 1};
    json_malloc_t json_malloc;
    json_free_t json_free;

    fake.entry.begin_us = clock_real_us() + 2000000;
    fake.has_no_pages = true;
    ASSERT_ROWS(without_pages);
    assert_null(api_create(&options));
    json_get_alloc_funcs(&json_malloc, &json_free);
    fake.has_no_pages = false;
    json_set_alloc_funcs(no_memory, json_free);
    assert_null(api_create(&options));
    ASSERT_ROWS(rows);
    json_set_alloc_funcs(json_malloc, json_free);
}

/* -- operators -- */

static void test_readyz__names_what_is_missing(void **state UNUSED)
{
    static const struct {
        struct metrics_health health;
        bool bypasses;
        const char *answer;
    } rows[] = {
        {{true, STATUS_OK, true, true, true}, false, "200 {\"status\":\"ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"up\"}}"},
        {{true, STATUS_OK, false, true, true}, false, "200 {\"status\":\"ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"degraded\"}}"},
        {{true, STATUS_OK, false, false, true}, true, "200 {\"status\":\"ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"bypassed\"}}"},
        {{true, STATUS_OK, false, false, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"up\",\"redis\":\"down\"}}"},
        {{false, STATUS_INVALID, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"not_utf8\",\"redis\":\"up\"}}"},
        {{false, STATUS_REFUSED, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"no_rights\",\"redis\":\"up\"}}"},
        {{false, STATUS_BUSY, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"read_only\",\"redis\":\"up\"}}"},
        {{false, STATUS_UNSAFE, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"not_durable\",\"redis\":\"up\"}}"},
        {{false, STATUS_IO, true, true, false}, false, "503 {\"status\":\"not_ready\",\"dependencies\":{\"postgres\":\"down\",\"redis\":\"up\"}}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.health = rows[i].health;
        api->options.bypass_locks = rows[i].bypasses;
        ASSERT_TEXT(ask("GET /readyz", NULL, NULL, NULL), rows[i].answer);
    }
}

static void test_stats__come_from_redis_or_this_instance(void **state UNUSED)
{
#define BAD_AFTER "400 bad_request: after must be the id of an item."
    static const struct row rows[] = {
        {"GET /v1/stats", ADMIN, NULL, NULL, "stats \"\";", "200 {}"},
        {"GET /v1/stats?after=12-3", ADMIN, NULL, NULL, "stats \"12-3\";", "200 {}"},
        {"GET /v1/stats?after=1-2", ADMIN, NULL, NULL, "stats \"1-2\";", "200 {}"},
        {"GET /v1/stats?after=12-", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=-3", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12x3", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12-3x", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=12-3&after=12-3", ADMIN, NULL, NULL, "", BAD_AFTER},
        {"GET /v1/stats?after=" KEY_64 "-1", ADMIN, NULL, NULL, "", BAD_AFTER},
    };

    ASSERT_ROWS(rows);
    fake.is_redis_down = true;
    ASSERT_TEXT(ask("GET /v1/stats", ADMIN, NULL, NULL), "200 {\"own\":1}");
    ASSERT_CONTAINS(ask("GET /v1/debug/state", ADMIN, NULL, NULL), "200 {\"version\":\"");
    ASSERT_CONTAINS(answer, ",\"now_ms\":1700000005000,\"resident_kib\":");
    ASSERT_CONTAINS(answer, ",\"workers\":[]}");
    assert_null(strstr(answer, "\"resident_kib\":0"));
}

/* -- tokens for development -- */

static void test_dev_token__is_for_local_hosts(void **state UNUSED)
{
    static const char token[] = "{\"user_id\":5,\"role\":\"shopper\"}";
#define TOKEN "201 {\"token\":\"shopper 5 at 1700000005 for 43200\",\"user_id\":\"5\",\"role\":\"shopper\"}"
    static const struct {
        const char *host, *answer;
    } hosts[] = {
        {"Host: 127.0.0.1\n", TOKEN}, {"Host: localhost\n", TOKEN}, {"Host: [::1]\n", TOKEN},
        {"Host: localhost:8080\n", TOKEN}, {"Host: localhost.org\n", "404 not_found"}, {"Host: localhos\n", "404 not_found"},
        {"Host: example.org\n", "404 not_found"}, {"", "404 not_found"},
    };
    static const struct row rows[] = {
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":999999999999,\"role\":\"admin\"}", "",
         "201 {\"token\":\"admin 999999999999 at 1700000005 for 43200\",\"user_id\":\"999999999999\",\"role\":\"admin\"}"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":1000000000000,\"role\":\"12345678901\"}", "",
         "422 invalid: user_id must be an integer, 1 to 999999999999: role must be a string of 1 to 10 characters without NUL"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":0,\"role\":\"\"}", "",
         "422 invalid: user_id must be an integer, 1 to 999999999999: role must be a string of 1 to 10 characters without NUL"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{\"user_id\":1,\"role\":\"1234567890\"}", "",
         "422 invalid: role must be shopper, payment or admin"},
        {"POST /v1/dev/token", NULL, "Host: localhost\n", "{}", "", "422 invalid: user_id is required: role is required"},
    };

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        ASSERT_TEXT(ask("POST /v1/dev/token", NULL, hosts[i].host, token), hosts[i].answer);
    ASSERT_ROWS(rows);
    fake.status = STATUS_REFUSED; /* there is no signing key */
    ASSERT_TEXT(ask("POST /v1/dev/token", NULL, "Host: localhost\n", token), "404 not_found");
    fake.status = STATUS_OK;
    api->options.dev_login = false;
    ASSERT_TEXT(ask("POST /v1/dev/token", NULL, "Host: localhost\n", token), "404 not_found");
}

/* -- pages -- */

static void test_pages__have_their_type_and_encoding(void **state UNUSED)
{
    static const struct {
        const char *line, *accepts, *type;
        bool is_packed;
    } rows[] = {
        {"GET /", "", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /", "Accept-Encoding: gzip\n", "200 text/html; charset=utf-8 ETag: \"", true},
        {"GET /", "Accept-Encoding: gzip;q=0\n", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /", "Accept-Encoding: gzip;q=0.5\n", "200 text/html; charset=utf-8 ETag: \"", true},
        {"GET /admin", "", "200 text/html; charset=utf-8 ETag: \"", false},
        {"GET /openapi.yaml", "Accept-Encoding: gzip\n", "200 application/yaml ETag: \"", false},
        {"GET /web/shop.js", "Accept-Encoding: gzip\n", "200 text/javascript; charset=utf-8 ETag: \"", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *found = ask(rows[i].line, NULL, rows[i].accepts, NULL);

        if (strncmp(found, rows[i].type, strlen(rows[i].type)) != 0)
            fail_msg("%s: expected \"%s...\", got \"%.100s\"", rows[i].line, rows[i].type, found);
        ASSERT_CONTAINS(found, "\" Cache-Control: no-cache Vary: Accept-Encoding");
        if ((strstr(found, " Content-Encoding: gzip") != NULL) != rows[i].is_packed)
            fail_msg("%s %s: packed %d, expected %d", rows[i].line, rows[i].accepts, !rows[i].is_packed,
                     rows[i].is_packed);
    }
}
/* clang-format on */

static void test_stream__is_one_event_if_the_connection_cannot_be_kept(void **state UNUSED)
{
    fake.has_entry = true;
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/stream", NULL, NULL, NULL),
                    "200 text/event-stream Cache-Control: no-store retry: 2000\ndata: "
                    "{\"stock_left\":5,");
    fake.entry.exists = false;
    ASSERT_TEXT(ask("GET /v1/vouchers/7/stream", NULL, NULL, NULL), "404 not_found");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_api, close_api)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_routes__are_open_to_their_callers),
        CASE(test_routes__refuse_defects),
        CASE(test_bodies__are_kept_for_permitted_callers),
        CASE(test_limits__refuse_before_anything_is_done),
        CASE(test_revocations__are_looked_up_by_the_id_of_the_token),
        CASE(test_place__answers_each_outcome),
        CASE(test_place__says_when_a_sale_begins),
        CASE(test_place__needs_a_valid_key),
        CASE(test_place__an_unknown_voucher_is_read_for_callers_with_a_token),
        CASE(test_place__refused_by_memory_is_looked_up_by_key),
        CASE(test_tickets__are_issued_and_required),
        CASE(test_tickets__may_need_a_proof_of_work),
        CASE(test_life__changes_an_order_that_was_read),
        CASE(test_life__answers_each_verdict),
        CASE(test_failures__have_their_answers),
        CASE(test_lists__read_one_more_than_the_page),
        CASE(test_vouchers__are_written),
        CASE(test_vouchers__are_listed),
        CASE(test_vouchers__have_tags_and_ages),
        CASE(test_readings__are_shared),
        CASE(test_api__answers_without_memory),
        CASE(test_readyz__names_what_is_missing),
        CASE(test_stats__come_from_redis_or_this_instance),
        CASE(test_dev_token__is_for_local_hosts),
        CASE(test_pages__have_their_type_and_encoding),
        CASE(test_stream__is_one_event_if_the_connection_cannot_be_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
