/* it_ticket.c - purchase tickets and their proof of work. */
#include "app/test/fixture.h"

#include "app/auth/ticket.h"

#include <stdlib.h>
#include <string.h>

#define TICKET_SECRET "SECKILL_TICKET_SECRET=a secret of tickets, 32 bytes or more of it"
#define BITS          12

static struct service *service;

static int setup(void **state)
{
    const char *const env[] = {TICKET_SECRET, NULL};

    service = fixture_begin_group(state, env);
    return 0;
}

/* -- vouchers and tickets -- */

/* Every loop knows that the voucher requires a ticket. */
static bool is_complete(void *arg)
{
    for (int i = 0; i < 16; i++) {
        if (!reply_is(place_order(service, 1, arg, NULL), 403, "ticket_required"))
            return false;
    }
    return true;
}

/* A voucher on sale that requires a ticket with this much work. */
static void make_guarded(int pow_bits, char id[ID_SIZE])
{
    char body[80];

    make_voucher(service, &(struct sale){.stock = 0}, id);
    snprintf(body, sizeof(body), "{\"requires_ticket\":true,\"pow_bits\":%d}", pow_bits);
    EXPECT(request(service, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    EXPECT(request(service, admin(), "{\"add\":100}", "POST /v1/vouchers/%s/restock", id),
           200, NULL);
    AWAIT(is_complete, id);
}

static const struct client_reply *request_ticket(int64_t user_id, const char *voucher_id,
                                                 const char *body)
{
    return request(service, shopper(user_id), body, "POST /v1/vouchers/%s/ticket",
                   voucher_id);
}

static void take_ticket(int64_t user_id, const char *voucher_id,
                        char ticket[TICKET_BYTES])
{
    const struct client_reply *reply =
        EXPECT(request_ticket(user_id, voucher_id, NULL), 201, NULL);

    snprintf(ticket, TICKET_BYTES, "%s", reply_text(reply, "ticket"));
    assert_int_equal(strlen(ticket), TICKET_BYTES - 1);
    assert_true(reply_text(reply, "expires_at")[0] != '\0');
}

static const struct client_reply *order_with(int64_t user_id, const char *voucher_id,
                                             const char *ticket)
{
    char header[200];

    snprintf(header, sizeof(header), "Purchase-Ticket: %s\r\n", ticket);
    return request_with(service, shopper(user_id), header, NULL,
                        "POST /v1/vouchers/%s/orders", voucher_id);
}

/* -- tickets -- */

static void test_ticket__lets_its_shopper_order_this_voucher(void **state)
{
    char id[ID_SIZE], other[ID_SIZE], ticket[TICKET_BYTES];

    make_guarded(0, id);
    make_guarded(0, other);
    EXPECT(request(service, shopper(10), NULL, "POST /v1/vouchers/%s/orders", id), 403,
           "ticket_required");
    take_ticket(10, id, ticket);
    EXPECT(order_with(11, id, ticket), 403, "ticket_required");
    EXPECT(order_with(10, other, ticket), 403, "ticket_required");
    EXPECT(order_with(10, id, "rubbish"), 403, "ticket_required");
    EXPECT(order_with(10, id, ""), 403, "ticket_required");
    assert_int_equal(sql_live_orders(*state, id), 0);
    EXPECT(order_with(10, id, ticket), 201, NULL);
    EXPECT(order_with(10, id, ticket), 409, "already_ordered");
    assert_int_equal(sql_live_orders(*state, id), 1);
}

/* No loop is notified of this change, so the catalogue admits the orders, and Postgres refuses
   them. */
static void test_ticket__is_needed_before_the_catalogue_knows(void **state)
{
    char id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 1000}, id);
    for (int i = 1; i <= 16; i++)
        EXPECT(place_order(service, 90 + i, id, NULL), 201, NULL);
    sql_do(*state, "update voucher set requires_ticket = true where id = %s", id);
    for (int i = 1; i <= 16; i++)
        EXPECT(place_order(service, 110 + i, id, NULL), 403, "ticket_required");
    assert_int_equal(
        sql_number(*state, "select count(*) from voucher_order where voucher_id = %s",
                   id),
        16);
}

static bool is_sold_out(void *arg)
{
    for (int i = 0; i < 16; i++) { /* in every loop */
        if (!reply_is(place_order(service, 51, arg, NULL), 409, "sold_out"))
            return false;
    }
    return true;
}

/* A repeated key finds its order without a ticket and without stock. */
static void test_ticket__is_not_needed_to_find_an_order_by_its_key(void **state)
{
    char id[ID_SIZE], ticket[TICKET_BYTES], headers[200];

    (void)state;
    make_guarded(0, id);
    take_ticket(50, id, ticket);
    snprintf(headers, sizeof(headers), "Purchase-Ticket: %s\r\nIdempotency-Key: k\r\n",
             ticket);
    EXPECT(request_with(service, shopper(50), headers, NULL,
                        "POST /v1/vouchers/%s/orders", id),
           201, NULL);
    EXPECT(request(service, admin(), "{\"add\":-99}", "POST /v1/vouchers/%s/restock", id),
           200, NULL);
    AWAIT(is_sold_out, id);
    EXPECT(place_order(service, 50, id, "k"), 200, NULL);
    EXPECT(place_order(service, 51, id, NULL), 409, "sold_out");
}

/* -- work -- */

static void take_challenge(int64_t user_id, const char *voucher_id,
                           char challenge[TICKET_BYTES])
{
    const struct client_reply *reply =
        EXPECT(request_ticket(user_id, voucher_id, NULL), 200, NULL);

    assert_int_equal(reply_number(reply, "bits"), BITS);
    assert_string_equal(reply_text(reply, "algorithm"), "sha256");
    assert_string_equal(reply_text(reply, "ticket"), "");
    snprintf(challenge, TICKET_BYTES, "%s", reply_text(reply, "challenge"));
}

/* @is_solved  false: find a nonce that is no solution */
static const char *proof_of(const char *challenge, bool is_solved)
{
    static char body[200];
    char nonce[24];
    struct text texts[2] = {{challenge, strlen(challenge)}, {nonce, 0}};
    unsigned tries = 0;

    do
        texts[1].len = (size_t)snprintf(nonce, sizeof(nonce), "%u", tries++);
    while (ticket_is_proof(texts[0], texts[1], BITS) != is_solved);
    snprintf(body, sizeof(body), "{\"challenge\":\"%s\",\"nonce\":\"%s\"}", challenge,
             nonce);
    return body;
}

static void assert_blamed(const struct client_reply *reply, const char *field)
{
    EXPECT(reply, 422, "invalid");
    assert_true(reply_blames(reply, field));
}

static void test_work__earns_a_ticket(void **state)
{
    char id[ID_SIZE], other[ID_SIZE], challenge[TICKET_BYTES], ticket[TICKET_BYTES];
    const struct client_reply *reply;

    (void)state;
    make_guarded(BITS, id);
    make_guarded(BITS, other);
    take_challenge(70, id, challenge);
    EXPECT(order_with(70, id, challenge), 403, "ticket_required");
    assert_blamed(request_ticket(70, id, proof_of(challenge, false)), "nonce");
    assert_blamed(request_ticket(71, id, proof_of(challenge, true)), "challenge");
    assert_blamed(request_ticket(70, other, proof_of(challenge, true)), "challenge");
    assert_blamed(request_ticket(70, id, proof_of("invented", true)), "challenge");
    reply = EXPECT(request_ticket(70, id, proof_of(challenge, true)), 201, NULL);
    snprintf(ticket, sizeof(ticket), "%s", reply_text(reply, "ticket"));
    EXPECT(order_with(70, id, ticket), 201, NULL);
    /* a ticket does not serve as a challenge */
    assert_blamed(request_ticket(70, id, proof_of(ticket, true)), "challenge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_ticket__lets_its_shopper_order_this_voucher),
        CASE(test_ticket__is_needed_before_the_catalogue_knows),
        CASE(test_ticket__is_not_needed_to_find_an_order_by_its_key),
        CASE(test_work__earns_a_ticket),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
