/*
 * api_fixture.h - the API of a loop with fake backends, which record their calls in `did`.
 *
 * To be included by one source of a test program: it defines the functions of http.h, store.h and
 * others in place of the real ones.
 */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include "app/auth/signature.h"
#include "app/core/log.h"
#include "app/test/api/fake_http.h"
#include "app/test/simulated_time.h"
#include "test/case_list.h"

#define TIMEOUT_MS 2000

/* -- fake tokens: "Bearer ROLE ID" or "Bearer ROLE ID JTI" -- */

const char *const auth_role_names[] = {"shopper", "payment", "admin", "auditor"};

bool auth_parse_role(struct text name, enum auth_role *ret_role)
{
    for (int role = AUTH_SHOPPER; role <= AUTH_AUDITOR; role++) {
        if (text_is(name, auth_role_names[role])) {
            *ret_role = (enum auth_role)role;
            return true;
        }
    }
    return false;
}

enum rlock_status auth_check(const struct auth *auth, struct text authorization,
                             int64_t now_s, struct identity *ret_identity)
{
    const char *role = authorization.bytes + strlen("Bearer ");
    struct text role_name = {role, strcspn(role, " ")};
    struct identity identity = {0};
    char *end;

    fake.auth = auth;
    ASSERT_NUMBER(now_s, ==, 1700000000 + simulated_us / 1000000);
    if (strncmp(authorization.bytes, "Bearer out of memory", 20) == 0)
        return RLOCK_NO_MEMORY;
    if (!auth_parse_role(role_name, &identity.role))
        return RLOCK_REFUSED;
    identity.user_id = strtoll(role + role_name.len, &end, 10);
    if (*end == ' ')
        snprintf(identity.jti, sizeof(identity.jti), "%.*s", (int)strcspn(end + 1, "\n"),
                 end + 1);
    *ret_identity = identity;
    return RLOCK_OK;
}

enum rlock_status auth_make(const struct auth *auth UNUSED,
                            const struct identity *identity, int64_t now_s, int64_t ttl_s,
                            char **ret_token, struct rlock_err *reterr UNUSED)
{
    if (fake.status != RLOCK_OK)
        return fake.status;
    return asprintf(ret_token, "%s %" PRId64 " at %" PRId64 " for %" PRId64,
                    auth_role_names[identity->role], identity->user_id, now_s, ttl_s) < 0
               ? RLOCK_NO_MEMORY
               : RLOCK_OK;
}

int64_t limiter_take(struct limiter *limiter, uint64_t key, int64_t now_us)
{
    uint8_t address[16];

    http_client_address(NULL, address);
    ASSERT_NUMBER(now_us, ==, simulated_us);
    if (limiter == api->options.user_limiter)
        DID("limit shopper %" PRIu64 ";", key);
    else
        DID("limit address%s;",
            key == address_key(address) ? "" : ", which is another one");
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
    return fake.status == RLOCK_OK;
}

enum rlock_status redis_conn_words(struct redis_conn *conn UNUSED,
                                   struct redis_command *command, redis_command_cb done,
                                   const char *const *words)
{
    if (fake.is_redis_down)
        return RLOCK_DOWN;
    for (; *words != NULL; words++)
        DID("%s%s", *words, words[1] != NULL ? " " : ";");
    done(command, fake.status == RLOCK_BUSY ? RLOCK_OK : fake.status, NULL);
    return RLOCK_OK;
}

enum rlock_status stats_read(struct stats *stats UNUSED, const char *after,
                             struct stats_read *read,
                             void (*done)(struct stats_read *read, char *text))
{
    DID("stats \"%s\";", after);
    if (fake.is_redis_down)
        return RLOCK_DOWN;
    done(read, strdup("{}"));
    return RLOCK_OK;
}

char *stats_print_own(struct stats *stats UNUSED)
{
    return strdup("{\"own\":1}");
}

/* -- fake metrics and log -- */

struct health health_of(const struct all_metrics *all UNUSED, bool bypasses)
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

/* Puts "~" before the text, so a test can see that log_plain() was called. */
const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES])
{
    snprintf(ret_copy, LOG_TEXT_BYTES, "~%s", text);
    return ret_copy;
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

/* -- fake catalogue and handover -- */

static const struct catalogue_entry *entry_of(int64_t id)
{
    return id == fake.other.id ? &fake.other : &fake.entry;
}

const struct catalogue_entry *catalogue_get(struct catalogue *catalogue UNUSED,
                                            int64_t id)
{
    const struct catalogue_entry *entry = entry_of(id);

    ASSERT_NUMBER(id, ==, entry->id);
    return fake.has_entry ? entry : NULL;
}

void catalogue_read(struct catalogue *catalogue UNUSED, int64_t id,
                    struct catalogue_wait *wait UNUSED, catalogue_cb callback, void *arg)
{
    DID("catalogue %" PRId64 ";", id);
    callback(fake.status, fake.status == RLOCK_OK ? entry_of(id) : NULL, arg);
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

bool handover_submit(struct handover *handover UNUSED,
                     const struct checkout_request *request, checkout_cb callback,
                     void *arg)
{
    bool has_order = fake.outcome <= OUTCOME_ALREADY_ORDERED;

    DID("submit %" PRId64 " %" PRId64 " key \"%.*s\"%s%s %s;", request->voucher_id,
        request->user_id, (int)request->key.len,
        request->key.bytes != NULL ? request->key.bytes : "",
        request->has_ticket ? " ticket" : "", request->is_entry ? " entry" : "",
        request->trace);
    ASSERT_NUMBER(request->arrived_us, ==, simulated_us);
    if (fake.is_checkout_full)
        return false;
    callback(fake.outcome, has_order ? &fake.order : NULL, arg);
    return true;
}

/* -- fake store -- */

static inline int64_t left_ms(int64_t deadline_us)
{
    return (deadline_us - simulated_us) / 1000;
}

bool store_is_foreign(const struct store *store UNUSED, int64_t id)
{
    bool is_foreign = fake.is_foreign;

    fake.is_foreign = is_foreign || fake.is_split;
    return is_foreign && id != 0;
}

int64_t store_lists_age_s(const struct store *store UNUSED)
{
    return fake.age_s;
}

static inline void answer_order(store_order_cb callback, void *arg)
{
    callback(fake.status, fake.status == RLOCK_OK ? &fake.order : NULL, arg);
}

static inline void answer_vouchers(store_vouchers_cb callback, void *arg)
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
    callback(fake.status, fake.status == RLOCK_OK && fake.count > 0 ? vouchers : NULL,
             fake.status == RLOCK_OK ? fake.count : 0, clock_real_us(), arg);
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
    const struct order_page page = {.orders = orders,
                                    .count = fake.count,
                                    .next_id = filter->before_id == 0 ? fake.next_id : 0};
    enum rlock_status status =
        filter->before_id != 0 && fake.second != RLOCK_OK ? fake.second : fake.status;

    DID("list orders %" PRId64 " %" PRId64 " %" PRId64 " %u", filter->user_id,
        filter->voucher_id, filter->before_id, filter->limit);
    if (filter->order_id != 0)
        DID(" id %" PRId64, filter->order_id);
    if (filter->payment_ref.bytes != NULL)
        DID(" ref %.*s", (int)filter->payment_ref.len, filter->payment_ref.bytes);
    if (filter->status.bytes != NULL)
        DID(" %.*s", (int)filter->status.len, filter->status.bytes);
    if (filter->from_us != 0)
        DID(" from %" PRId64, filter->from_us);
    if (filter->until_us != INT64_MAX)
        DID(" until %" PRId64, filter->until_us);
    DID(";");
    for (size_t i = 0; i < fake.count; i++) {
        orders[i] = fake.order;
        orders[i].id -= (int64_t)i;
    }
    callback(status, status == RLOCK_OK ? &page : NULL, arg);
}

static inline void say_key(struct text key)
{
    if (key.bytes != NULL)
        DID(" key \"%.*s\"", (int)key.len, key.bytes);
    DID(";");
}

void store_change_order(struct store *store UNUSED, struct order_change *change,
                        store_change_cb callback, void *arg)
{
    bool has_order = fake.status == RLOCK_OK && fake.verdict != CHANGE_NO_ORDER;
    static const char *const names[] = {"pay", "cancel", "refund", "redeem"};

    DID("%s %" PRId64 " %" PRId64 " by %s", names[change->change], change->voucher_id,
        change->order_id, change->actor);
    if (change->change == CHANGE_PAY)
        DID(" \"%.*s\" %" PRId64, (int)change->payment_ref.len, change->payment_ref.bytes,
            change->amount_cents);
    DID(" in %" PRId64, left_ms(change->deadline_us));
    say_key(change->key);
    callback(fake.second != RLOCK_OK ? fake.second : fake.status, fake.verdict,
             has_order && fake.second == RLOCK_OK ? &fake.order : NULL, arg);
}

void store_list_events(struct store *store UNUSED, const struct event_filter *filter,
                       store_events_cb callback, void *arg)
{
    static struct event events[501] = {{.id = 71,
                                        .voucher_id = 7,
                                        .order_id = 71,
                                        .stock_change = -1,
                                        .actor = "shopper:5"}};

    for (int i = 1; i < 501; i++)
        events[i] = (struct event){.id = 71 + i, .voucher_id = 7, .actor = "system"};
    DID("list events %" PRId64 " %" PRId64 " %" PRId64 " %u in %" PRId64 "%s;",
        filter->voucher_id, filter->order_id, filter->after_id, filter->limit,
        left_ms(filter->deadline_us), filter->without_orders ? " without orders" : "");
    callback(fake.second != RLOCK_OK ? fake.second : fake.status, events,
             fake.status != RLOCK_OK                                   ? 0
             : fake.has_many_events && filter->after_id < events[1].id ? 501
                                                                       : fake.count,
             arg);
}

void store_read_webhook_states(struct store *store UNUSED,
                               store_webhook_states_cb callback, void *arg)
{
    static const struct webhook_state states[] = {
        {.id = 3,
         .lag_us = 1500000,
         .url = "https://me:pw@a/b@c?key=d",
         .first = 4,
         .number = 5},
        {.id = 6,
         .url = "https://b",
         .failing_since_us = INT64_C(1900000000000000),
         .error = "timed out"},
        {.id = 7,
         .is_disabled = true,
         .url = "https://c",
         .failing_since_us = INT64_C(1900000000000000),
         .error = "HTTP status 500"}};

    DID("read webhooks;");
    callback(fake.status, states, fake.status == RLOCK_OK ? 3 : 0, arg);
}

static void answer_endpoint(store_webhook_states_cb callback, void *arg)
{
    const struct webhook_state state = {.id = 3,
                                        .url = "https://me@a/?b",
                                        .first = 4,
                                        .number = 5,
                                        .secret = fake.has_secret ? "whsec_s" : NULL};

    callback(fake.status, &state, fake.status == RLOCK_OK ? 1 : 0, arg);
}

static void say_position(const struct feed_position *position)
{
    if (position != NULL)
        DID(" %" PRId64 "_%" PRId64, position->first, position->number);
}

void store_add_webhook(struct store *store UNUSED, const struct webhook_change *change,
                       store_webhook_states_cb callback, void *arg)
{
    struct text key = change->author.key;

    assert_string_equal(change->secret, "whsec_of_the_test");
    DID("add %.*s", (int)change->url.len, change->url.bytes);
    say_position(change->position);
    DID(" by %s %.*s;", change->author.actor, (int)key.len,
        key.bytes != NULL ? key.bytes : "");
    answer_endpoint(callback, arg);
}

void store_change_webhook(struct store *store UNUSED, const struct webhook_change *change,
                          store_webhook_states_cb callback, void *arg)
{
    DID("%s %" PRId64, change->is_enabled ? "enable" : "disable", change->webhook_id);
    say_position(change->position);
    DID(" by %s;", change->author.actor);
    answer_endpoint(callback, arg);
}

void store_remove_webhook(struct store *store UNUSED, int64_t webhook_id,
                          store_webhook_states_cb callback, void *arg)
{
    DID("remove %" PRId64 ";", webhook_id);
    answer_endpoint(callback, arg);
}

bool signature_make_secret(char ret_secret[SIGNATURE_SECRET_BYTES])
{
    snprintf(ret_secret, SIGNATURE_SECRET_BYTES, "whsec_of_the_test");
    return !fake.has_no_random;
}

void store_read_deliveries(struct store *store UNUSED, int64_t webhook_id,
                           store_deliveries_cb callback, void *arg)
{
    static const struct webhook_delivery deliveries[] = {
        {72, INT64_C(1900000001000000), 10000, "timed out"},
        {71, INT64_C(1900000000000000), 8, ""}};

    DID("read deliveries %" PRId64 ";", webhook_id);
    callback(fake.status, deliveries, fake.status == RLOCK_OK ? 2 : 0, arg);
}

void store_read_entry(struct store *store UNUSED, int64_t voucher_id, int64_t user_id,
                      store_entries_cb callback, void *arg)
{
    static const struct lottery_entry states[] = {
        {NULL, false}, {"aa", true}, {"bb", false}};

    DID("read entry %" PRId64 " %" PRId64 ";", voucher_id, user_id);
    callback(fake.status, &states[fake.entry_state],
             fake.status == RLOCK_OK ? fake.count : 0, arg);
}

/* The first page has fake.count entries, the second has two. */
void store_list_entries(struct store *store UNUSED, int64_t voucher_id, struct text from,
                        unsigned limit, store_entries_cb callback, void *arg)
{
    static struct lottery_entry entries[501];
    static char hashes[501][12];
    bool is_second = from.len > 0;

    DID("list entries %" PRId64 " \"%.*s\" %u;", voucher_id, (int)from.len, from.bytes,
        limit);
    for (int i = 0; i < 501; i++) {
        snprintf(hashes[i], sizeof(hashes[i]), "%03d", i);
        entries[i] = (struct lottery_entry){hashes[i], i < 2};
    }
    callback(is_second && fake.second != RLOCK_OK ? fake.second : fake.status, entries,
             is_second ? 2 : fake.count, arg);
}

bool feed_read(struct feed *feed UNUSED, struct feed_poll *poll)
{
    static const struct event events[2] = {
        {.id = 72 << 20 | 7, .voucher_id = 7, .first = 70, .actor = "system"},
        {.id = 73 << 20 | 7, .voucher_id = 7, .first = 71, .actor = "system"}};

    DID("feed %" PRId64 " %" PRId64 " %u for %" PRId64 "%s;", poll->after.first,
        poll->after.number, poll->limit, left_ms(poll->end_us),
        poll->is_gone(poll) ? " gone" : "");
    if (fake.count > 2)
        return false;
    poll->done(poll, fake.status, fake.status == RLOCK_OK ? events : NULL,
               fake.status == RLOCK_OK ? fake.count : 0);
    return true;
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

static inline void assert_without_nul(const struct text *text)
{
    if (text->len > 0)
        ASSERT_NUMBER(strnlen(text->bytes, text->len), ==, text->len);
}

static inline void say_voucher(const struct voucher *v)
{
    assert_without_nul(&v->title);
    assert_without_nul(&v->description);
    DID(" \"%.*s\" \"%.*s\" %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
        " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
        (int)v->title.len, v->title.bytes, (int)v->description.len, v->description.bytes,
        v->price_cents, v->face_value_cents, v->stock_total, v->per_user_limit,
        v->pay_within_s, v->begin_us, v->end_us, v->requires_ticket, v->pow_bits);
    if (v->is_lottery)
        DID(" lottery");
}

void store_create_vouchers(struct store *store UNUSED, const struct voucher *vouchers,
                           size_t count, const struct author *author,
                           store_vouchers_cb callback, void *arg)
{
    DID("create");
    for (size_t i = 0; i < count; i++)
        say_voucher(&vouchers[i]);
    DID(" by %s", author->actor);
    say_key(author->key);
    answer_vouchers(callback, arg);
}

void store_patch_voucher(struct store *store UNUSED, int64_t voucher_id,
                         const struct voucher *changes, const char *actor,
                         store_vouchers_cb callback, void *arg)
{
    DID("patch %" PRId64, voucher_id);
    say_voucher(changes);
    DID(" by %s;", actor);
    answer_vouchers(callback, arg);
}

void store_restock_voucher(struct store *store UNUSED, int64_t voucher_id, int64_t add,
                           const struct author *author, store_vouchers_cb callback,
                           void *arg)
{
    DID("restock %" PRId64 " %" PRId64 " by %s", voucher_id, add, author->actor);
    say_key(author->key);
    answer_vouchers(callback, arg);
}

/* -- requests -- */

#define UNANSWERED_MAX 128

static struct metrics metrics;
static struct http_request
    *unanswered[UNANSWERED_MAX]; /* requests that were not answered when ask() returned */
static size_t unanswered_count;

static inline int open_api(void **state UNUSED)
{
    static char limiters[2];
    const struct api_options options = {
        .tickets = {"a secret of tickets, 32 bytes long", 60},
        .user_limiter = (struct limiter *)(uintptr_t)&limiters[0],
        .metrics = &metrics,
        .timeout_ms = TIMEOUT_MS,
        .queue_max = 10,
        .currency = "EUR",
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
    fake.order = (struct order){.id = 71,
                                .voucher_id = 7,
                                .user_id = 5,
                                .price_cents = 100,
                                .expires_us = 1000000};
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

static inline int close_api(void **state UNUSED)
{
    api_free(api);
    while (unanswered_count > 0)
        free(unanswered[--unanswered_count]);
    return 0;
}

static inline struct http_request *request_new(void)
{
    struct http_request *request = calloc(1, sizeof(*request) + api_context_bytes);

    request->context = request->memory;
    return request;
}

static inline void handle(struct http_request *request, const char *body)
{
    if (body != NULL && api_body_max(request, api) > 0)
        request->body = (struct text){body, strlen(body)};
    api_handle(request, api);
}

/* Sends a request and returns its answer. `line` is "METHOD PATH" or "METHOD PATH?QUERY". `as` is
   the token after "Bearer "; NULL: none. */
static inline const char *ask(const char *line, const char *as, const char *headers,
                              const char *body)
{
    static const char *const methods[] = {"GET",   "HEAD",   "POST",
                                          "PATCH", "DELETE", "OPTIONS"};
    static char all[1000];
    struct http_request *request = request_new();
    char path[200] = "", method[10] = "", query[300] = "";

    sscanf(line, "%9s %199[^?]?%299s", method, path, query);
    request->method = HTTP_OTHER;
    for (int i = 0; i < 6; i++) {
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
    fake.is_kept = false;
    asserts_about("%s\n%s%.300s\n(fakes: %zu rows, %zu pending orders)", line, all,
                  body != NULL ? body : "", fake.count, fake.pending);
    handle(request, body);
    ASSERT_NUMBER(answers, ==, !fake.holds_reads && !fake.is_kept);
    if (answers == 1) {
        free(request);
    } else {
        assert_true(unanswered_count < UNANSWERED_MAX);
        unanswered[unanswered_count++] = request;
    }
    return answer;
}

#define ASSERT_TEXT(found, wanted) assert_string_equal(found, wanted)

struct row {
    const char *line, *as, *headers, *body, *did, *answer;
};

static inline void assert_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];

        ask(row->line, row->as, row->headers, row->body);
        if (row->did != NULL)
            ASSERT_TEXT(did, row->did);
        ASSERT_TEXT(answer, row->answer);
    }
}

#define ASSERT_ROWS(rows) assert_rows(rows, sizeof(rows) / sizeof((rows)[0]))

#define ORDER                                                                            \
    "{\"id\":\"71\",\"voucher_id\":\"7\",\"user_id\":\"5\",\"status\":\"unpaid\","       \
    "\"price_cents\":100,\"created_at\":\"1970-01-01T00:00:00Z\","                       \
    "\"expires_at\":\"1970-01-01T00:00:01Z\"}"
#define SHOPPER "shopper 5"
#define ADMIN   "admin 1"
#define PAYMENT "payment 3"
#define AUDITOR "auditor 8"
#define PLACE   "POST /v1/vouchers/7/orders"
#define LIMITED "limit shopper 5;"
#define SUBMIT  LIMITED "submit 7 5 key \"\" sent_id=r;"
#define BODY    "Content-Type: "
#define READ    LIMITED "read order 71 of 5;"
#define RETRY   " Retry-After: 1"
#define BAD_BODY                                                                         \
    "400 bad_request: The body must be a JSON object or array without duplicate names."
#define BAD_KEY                                                                          \
    "400 bad_request: Idempotency-Key must be sent once, 1 to 64 printable bytes."
#define UNAUTHENTICATED "401 WWW-Authenticate: Bearer unauthenticated"
#define KEY_64          "0123456789012345678901234567890123456789012345678901234567890123"
#define REF_200         KEY_64 KEY_64 KEY_64 "01234567"

#define API_CASE(name) DEFINE_CASE(name, name, open_api, close_api, NULL)

#endif
