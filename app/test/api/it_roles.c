/* it_roles.c - every route with every role, and with invalid tokens. */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUTURE_S 600
#define EVERYONE                                                                         \
    {                                                                                    \
        200, 200, 200, 200, 200                                                          \
    }
#define ADMIN_ONLY(status)                                                               \
    {                                                                                    \
        401, 403, 403, 403, status                                                       \
    }

enum who { NOBODY, STRANGER, OWNER, PAYMENT, ADMIN, WHO_COUNT };

static const char *const who_names[] = {"nobody", "a stranger", "its shopper", "payment",
                                        "admin"};

/* The state of the order before the request of a row. */
enum state { NONE, UNPAID, PAID };

/* In a line, V stands for a voucher, O for an order. */
static const struct row {
    const char *line;
    const char *body;
    enum state state;
    int statuses[WHO_COUNT];
} rows[] = {
    {"GET /v1/vouchers", NULL, NONE, EVERYONE},
    {"GET /v1/vouchers/V", NULL, NONE, EVERYONE},
    {"GET /v1/vouchers/V/stream", NULL, NONE, EVERYONE},
    {"POST /v1/vouchers",
     "{\"title\":\"t\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":0,\"begin_at\":"
     "\"2030-01-01T00:00:00Z\",\"end_at\":\"2031-01-01T00:00:00Z\"}",
     NONE, ADMIN_ONLY(201)},
    {"PATCH /v1/vouchers/V", "{\"title\":\"new\"}", NONE, ADMIN_ONLY(200)},
    {"POST /v1/vouchers/V/restock", "{\"add\":1}", NONE, ADMIN_ONLY(200)},
    {"POST /v1/vouchers/V/orders", NULL, UNPAID, {401, 201, 409, 403, 403}},
    {"POST /v1/vouchers/V/ticket", NULL, NONE, {401, 201, 201, 403, 403}},
    {"GET /v1/orders/O", NULL, UNPAID, {401, 404, 200, 403, 200}},
    {"GET /v1/orders", NULL, UNPAID, {401, 200, 200, 403, 200}},
    {"POST /v1/orders/O/pay",
     "{\"payment_ref\":\"p\",\"amount_cents\":8000}",
     UNPAID,
     {401, 403, 403, 200, 403}},
    {"POST /v1/orders/O/cancel", NULL, UNPAID, {401, 404, 200, 403, 200}},
    {"POST /v1/orders/O/refund", NULL, PAID, {401, 403, 403, 200, 200}},
    {"POST /v1/orders/O/redeem", NULL, PAID, ADMIN_ONLY(200)},
    {"GET /v1/orders/O/events", NULL, UNPAID, {401, 404, 200, 403, 200}},
    {"GET /v1/vouchers/V/events", NULL, NONE, ADMIN_ONLY(200)},
    {"GET /v1/stats", NULL, NONE, ADMIN_ONLY(200)},
    {"GET /v1/debug/state", NULL, NONE, ADMIN_ONLY(200)},
    {"GET /", NULL, NONE, EVERYONE},
    {"GET /admin", NULL, NONE, EVERYONE},
    {"GET /healthz", NULL, NONE, EVERYONE},
    {"GET /readyz", NULL, NONE, EVERYONE},
    {"GET /metrics", NULL, NONE, EVERYONE},
    {"GET /openapi.yaml", NULL, NONE, EVERYONE},
};

static struct service *service; /* the default configuration */
static struct service *strict;  /* also requires issuer and audience */
static char voucher_id[ID_SIZE];
static int64_t next_user = 1000;

static int setup(void **state)
{
    const char *const env[] = {"SECKILL_JWT_ISSUER=mint", "SECKILL_JWT_AUDIENCE=shop",
                               "SECKILL_LISTENERS_MAX=0", NULL};
    const char *const with_tickets[] = {
        "SECKILL_TICKET_SECRET=a secret of tickets, 32 bytes or more of it",
        "SECKILL_LISTENERS_MAX=0", NULL}; /* one event ends a stream */
    struct fixture *fixture = fixture_open();

    *state = fixture;
    service = fixture_serve(fixture, with_tickets);
    strict = fixture_serve(fixture, env);
    fixture_share_services(fixture);
    redis_do(fixture, "SET revoked:gone 1");
    make_voucher(service, &(struct sale){.stock = 10000}, voucher_id);
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* A token with valid claims, followed by `more` claims, which may repeat a name. */
static const char *token_with(const char *sub, const char *more)
{
    char claims[400];

    snprintf(claims, sizeof(claims), "{\"sub\":\"%s\",\"exp\":%lld%s}", sub,
             (long long)time(NULL) + FUTURE_S, more);
    return token_hs256(NULL, claims, FIXTURE_SECRET);
}

/* It has a token id, so the service looks it up in the deny-list. */
static const char *payment_token(void)
{
    return token_with("3", ",\"role\":\"payment\",\"jti\":\"p-1\"");
}

static const char *token_of(enum who who, int64_t owner)
{
    switch (who) {
    case STRANGER:
        return shopper(owner + 1);
    case OWNER:
        return shopper(owner);
    case PAYMENT:
        return payment_token();
    case ADMIN:
        return token_with("1", ",\"role\":\"admin\",\"jti\":\"a-1\"");
    default:
        return NULL;
    }
}

/* -- an order in its state -- */

static void make_order(enum state state, int64_t user_id, char ret_id[ID_SIZE])
{
    char body[100];

    snprintf(ret_id, ID_SIZE, "1"); /* no such order */
    if (state == NONE)
        return;
    snprintf(
        ret_id, ID_SIZE, "%s",
        reply_text(EXPECT(place_order(service, user_id, voucher_id, NULL), 201, NULL),
                   "id"));
    if (state != PAID)
        return;
    fill("{\"payment_ref\":\"paid {}\",\"amount_cents\":8000}", ret_id, body,
         sizeof(body));
    EXPECT(request(service, payment_token(), body, "POST /v1/orders/%s/pay", ret_id), 200,
           NULL);
}

/* Replace "/V" and "/O" by ids. */
static const char *line_of(const struct row *row, const char *order_id)
{
    static char line[200];
    size_t len = 0;

    for (const char *at = row->line; *at != '\0'; at++) {
        bool is_id = at > row->line && at[-1] == '/' && (*at == 'V' || *at == 'O');

        if (is_id)
            len += (size_t)snprintf(line + len, sizeof(line) - len, "%s",
                                    *at == 'V' ? voucher_id : order_id);
        else
            line[len++] = *at;
    }
    line[len] = '\0';
    return line;
}

/* -- roles -- */

static bool is_as_told(const struct row *row, enum who who)
{
    static const char *const codes[] = {[401 - 401] = "unauthenticated",
                                        [403 - 401] = "forbidden",
                                        [404 - 401] = "not_found"};
    int64_t owner = next_user += 2;
    const struct client_reply *reply;
    char order_id[ID_SIZE];
    int wanted = row->statuses[who];
    bool has_code = wanted >= 401 && wanted <= 404;

    make_order(row->state, owner, order_id);
    reply =
        request(service, token_of(who, owner), row->body, "%s", line_of(row, order_id));
    if (reply->status == wanted &&
        (!has_code || reply_is(reply, wanted, codes[wanted - 401])))
        return true;
    print_error("%s for %s: %d, not %d: %.200s\n", row->line, who_names[who],
                reply->status, wanted, reply->body);
    return false;
}

static void test_roles__each_on_every_route(void **state)
{
    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int who = NOBODY; who < WHO_COUNT; who++)
            wrong += !is_as_told(&rows[i], (enum who)who);
    }
    assert_int_equal(wrong, 0);
}

/* -- invalid tokens -- */

#define BAD_COUNT 3

/* Each token has one fault. Its role is admin, which may call nearly every route. test_auth.c has
   all other faults. */
struct bad_token {
    const char *what;
    const char *token;
    struct service *service;
};

static void make_bad_tokens(struct bad_token bad[BAD_COUNT])
{
    char claims[200];

    snprintf(claims, sizeof(claims), "{\"sub\":\"1\",\"role\":\"admin\",\"exp\":%lld}",
             (long long)time(NULL) + FUTURE_S);
    bad[0] = (struct bad_token){
        "forged", token_hs256(NULL, claims, "another secret, of somebody who has none"),
        service};
    bad[1] = (struct bad_token){
        "revoked", token_with("1", ",\"role\":\"admin\",\"jti\":\"gone\""), service};
    bad[2] = (struct bad_token){
        "wrong audience",
        token_with("1", ",\"role\":\"admin\",\"aud\":\"other\",\"iss\":\"mint\""),
        strict};
}

static bool is_turned_down(const struct row *row, const struct bad_token *bad)
{
    const struct client_reply *reply =
        request(bad->service, bad->token, row->body, "%s", line_of(row, "1"));
    const char *challenge = reply_header(reply, "WWW-Authenticate");

    if (reply_is(reply, 401, "unauthenticated") && challenge != NULL &&
        strncmp(challenge, "Bearer", 6) == 0)
        return true;
    print_error("%s, %s: %d %.200s\n", row->line, bad->what, reply->status, reply->body);
    return false;
}

static void test_tokens__every_bad_one_on_every_route(void **state)
{
    struct bad_token bad[BAD_COUNT];
    size_t wrong = 0;
    int64_t vouchers = sql_number(*state, "select count(*) from voucher");

    make_bad_tokens(bad);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < BAD_COUNT && rows[i].statuses[NOBODY] == 401; k++)
            wrong += !is_turned_down(&rows[i], &bad[k]);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(sql_number(*state, "select count(*) from voucher"), vouchers);
    /* valid tokens are accepted where issuer and audience are required */
    EXPECT(
        request(strict,
                token_with("1", ",\"role\":\"admin\",\"aud\":\"shop\",\"iss\":\"mint\""),
                NULL, "GET /v1/orders"),
        200, NULL);
}

/* Public routes ignore the token. */
static void test_tokens__are_ignored_where_none_is_needed(void **state)
{
    struct bad_token bad[BAD_COUNT];

    (void)state;
    make_bad_tokens(bad);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < BAD_COUNT && rows[i].statuses[NOBODY] == 200; k++)
            EXPECT(
                request(bad[k].service, bad[k].token, NULL, "%s", line_of(&rows[i], "1")),
                200, NULL);
    }
}

/* -- the table itself -- */

/* The table above must have each route of the service. */
static void test_roles__the_table_has_every_route(void **state)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /openapi.yaml");
    char *copy = strdup(reply->body), *rest = copy, *line;
    char path[100] = "";
    size_t described = 0;

    (void)state;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strncmp(line, "  /", 3) == 0)
            snprintf(path, sizeof(path), "%.*s", (int)strcspn(line + 2, ":"), line + 2);
        else if (path[0] != '\0' && (strncmp(line, "    get:", 8) == 0 ||
                                     strncmp(line, "    post:", 9) == 0 ||
                                     strncmp(line, "    patch:", 10) == 0))
            described++;
        else if (strncmp(line, "components:", 11) == 0)
            break;
    }
    free(copy);
    assert_int_equal(described, COUNT_OF(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_roles__each_on_every_route),
        CASE(test_tokens__every_bad_one_on_every_route),
        CASE(test_tokens__are_ignored_where_none_is_needed),
        CASE(test_roles__the_table_has_every_route),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
