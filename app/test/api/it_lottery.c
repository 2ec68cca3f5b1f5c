/* it_lottery.c - a lottery over HTTP, with real servers: entries, a crash, the draw, its proof. */
#include "app/test/load_clients.h"
#include "test/case_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENTRANTS   1500
#define WINNERS    20
#define FIRST_USER 1001

static struct fixture *fixture;
static struct service *service;
static char voucher_id[ID_SIZE], commitment[80];

static struct {
    struct order_burst orders;
    enum tally each[ENTRANTS];
    size_t answered;
} burst;

static int setup(void **state)
{
    *state = fixture = fixture_open();
    return 0;
}

static int teardown(void **state UNUSED)
{
    return fixture_close(fixture);
}

static const char *voucher_text(const char *member)
{
    const struct client_reply *reply =
        request(service, NULL, NULL, "GET /v1/vouchers/%s", voucher_id);

    return reply_text(EXPECT(reply, 200, NULL), member);
}

static void make_lottery(int stock)
{
    make_voucher(service, &(struct sale){.stock = stock, .is_lottery = true}, voucher_id);
    snprintf(commitment, sizeof(commitment), "%s", voucher_text("commitment"));
    assert_string_equal(voucher_text("seed"), "");
}

static bool is_drawn(void *arg UNUSED)
{
    return *voucher_text("drawn_at") != '\0';
}

static void lottery_on_answer(size_t k, const struct client_reply *reply, void *arg)
{
    burst_answer(k, reply, arg);
    if (++burst.answered != ENTRANTS / 3)
        return;
    service_kill(service);
    service_respawn(fixture, service, NULL);
    service_await(service, "/readyz", 200);
}

/* Each entry that was answered must be there. Then the others enter again. */
static void check_entries(void)
{
    char *rows = sql_text(fixture,
                          "select string_agg((select count(*) from lottery_entry where"
                          " voucher_id = %s and user_id = u)::text, '' order by u)"
                          " from generate_series(%d, %d) u",
                          voucher_id, FIRST_USER, FIRST_USER + ENTRANTS - 1);

    for (size_t k = 0; k < ENTRANTS; k++)
        if (burst.each[k] == TALLY_PLACED && rows[k] != '1')
            fail_msg("the entry of shopper %zu is lost", FIRST_USER + k);
    free(rows);
    burst_finish(service, &burst.orders, ENTRANTS);
    assert_int_equal(
        sql_number(fixture, "select count(*) from lottery_entry where voucher_id = %s",
                   voucher_id),
        ENTRANTS);
}

/* The service was killed when it had drawn 7 winners. */
static void resume_draw(void)
{
    service_kill(service);
    assert_int_equal(sql_number(fixture,
                                "select count(id) from patch_voucher(%s, null, null,"
                                " null, now(), null)",
                                voucher_id),
                     1);
    assert_int_equal(sql_number(fixture, "select winners from draw_lotteries(7)"), 7);
    service_respawn(fixture, service, NULL);
    service_await(service, "/readyz", 200);
    AWAIT(is_drawn, NULL);
}

static const struct command_result *verify(const char *user)
{
    char url[40], script[300];
    const char *const argv[] = {script, url, voucher_id, commitment, user, NULL};

    snprintf(url, sizeof(url), "http://%s:%u", service->address.host,
             service->address.port);
    snprintf(script, sizeof(script), "%s-verify-draw", fixture->program);
    return fixture_run(fixture, NULL, argv);
}

static void verify_without_the_last_winner(void)
{
    sql_do(fixture,
           "update lottery l set last_rank = (select e.rank from lottery_entry e"
           " where e.voucher_id = l.voucher_id and e.rank < l.last_rank"
           " order by e.rank desc limit 1) where voucher_id = %s",
           voucher_id);
    ASSERT_BEGINS(verify("7")->err,
                  "19 of 1500 entries have won, and the stock is 20. The draw was wrong");
}

/* The service is killed while shoppers enter, and again during the draw. */
SERVICE_CASE(test_lottery__survives_the_service)
{
    struct load_plan plan = {.connections = 64,
                             .requests = ENTRANTS,
                             .write = burst_write,
                             .answer = lottery_on_answer,
                             .arg = &burst.orders};

    plan.services[0] = service = fixture_serve(fixture, NULL);
    make_lottery(WINNERS);
    memcpy(burst.orders.voucher_id, voucher_id, ID_SIZE);
    burst.orders.first_user = FIRST_USER;
    burst.orders.each = burst.each;
    assert_int_equal(load_run(&plan), ENTRANTS);
    ASSERT_NUMBER(burst.orders.tally[TALLY_LOST], >, 0);
    check_entries();
    resume_draw();
    assert_int_equal(sql_live_orders(fixture, voucher_id), WINNERS);
    assert_string_equal(verify("7")->out,
                        "entries: 1500, winners: 20\nshopper 7: not entered\n");
    assert_int_equal(sql_broken_guarantees(fixture), 0);
    verify_without_the_last_winner();
    assert_int_equal(service_stop(service), 0);
}

static const char *entry_of(int64_t user)
{
    const struct client_reply *reply =
        request(service, shopper(user), NULL, "GET /v1/vouchers/%s/entry", voucher_id);

    return reply_text(EXPECT(reply, 200, NULL), "status");
}

SERVICE_CASE(test_lottery__is_drawn_and_verified)
{
    char body[80], end[32];
    int winners = 0;

    service = fixture_serve(fixture, NULL);
    make_lottery(1);
    assert_string_equal(
        verify("1")->err,
        "The seed does not fit the commitment, or the draw has not begun.\n");
    for (int64_t user = 1; user <= 3; user++) {
        EXPECT(place_order(service, user, voucher_id, "key"), 202, NULL);
        EXPECT(place_order(service, user, voucher_id, NULL), 202, NULL);
        assert_string_equal(entry_of(user), "entered");
    }
    EXPECT(request(service, shopper(4), NULL, "GET /v1/vouchers/%s/entry", voucher_id),
           404, "not_found");
    snprintf(body, sizeof(body), "{\"end_at\":\"%s\"}", time_in_ms(-1000, end));
    EXPECT(request(service, admin(), body, "PATCH /v1/vouchers/%s", voucher_id), 200,
           NULL);
    AWAIT(is_drawn, NULL);
    for (int64_t user = 1; user <= 3; user++) {
        bool has_won = strcmp(entry_of(user), "won") == 0;
        char id[ID_SIZE], line[40];

        snprintf(id, sizeof(id), "%" PRId64, user);
        snprintf(line, sizeof(line), "shopper %s: %s\n", id, has_won ? "won" : "lost");
        ASSERT_CONTAINS(verify(id)->out, line);
        assert_int_equal(
            sql_number(fixture,
                       "select count(*) from voucher_order where voucher_id = %s"
                       " and user_id = %s and status = 'unpaid'",
                       voucher_id, id),
            has_won);
        winners += has_won;
    }
    assert_int_equal(winners, 1);
    EXPECT(place_order(service, 4, voucher_id, NULL), 409, "sale_ended");
    assert_int_equal(service_stop(service), 0);
}

int main(void)
{
    return cases_run(setup, teardown);
}
