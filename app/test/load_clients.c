/* load_clients.c - one poll() waits for many connections; see load_clients.h. */
#include "app/test/load_clients.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_SIZE 4096

struct member {
    struct client *conn;
    const struct client_address *address;
    size_t k;
    bool waits;
};

struct load_clients {
    const struct load_plan *plan;
    struct member *members;
    struct pollfd *pollers;
    size_t sent;
    size_t answered;
    size_t waiting;
    bool was_halfway;
};

static void load_answer(struct load_clients *clients, struct member *member,
                        const struct client_reply *reply)
{
    static const struct client_reply lost;
    const struct load_plan *plan = clients->plan;

    member->waits = false;
    clients->waiting--;
    clients->answered++;
    plan->answer(member->k, reply == NULL ? &lost : reply, plan->arg);
    if (reply == NULL || reply->status <= 0) {
        client_close(member->conn);
        member->conn = NULL;
    }
    if (plan->halfway != NULL && !clients->was_halfway &&
        clients->answered >= plan->halfway_at) {
        clients->was_halfway = true;
        plan->halfway(plan->arg);
    }
}

static void load_send(struct load_clients *clients, struct member *member)
{
    char bytes[REQUEST_SIZE];
    size_t len;

    member->k = clients->sent++;
    member->waits = true;
    clients->waiting++;
    len = clients->plan->write(member->k, bytes, sizeof(bytes), clients->plan->arg);
    if (member->conn == NULL)
        member->conn = client_open(member->address);
    if (member->conn == NULL || !client_write(member->conn, bytes, len))
        load_answer(clients, member, NULL);
}

static void load_send_all(struct load_clients *clients)
{
    const struct load_plan *plan = clients->plan;

    if (plan->lock_step && clients->waiting > 0)
        return;
    if (plan->stop_to_send)
        service_signal(plan->services[0], SIGSTOP);
    for (size_t i = 0; i < plan->connections && clients->sent < plan->requests; i++)
        if (!clients->members[i].waits)
            load_send(clients, &clients->members[i]);
    if (plan->stop_to_send)
        service_signal(plan->services[0], SIGCONT);
}

static void load_listen(struct load_clients *clients, int timeout_ms)
{
    size_t count = clients->plan->connections;

    for (size_t i = 0; i < count; i++) {
        const struct member *member = &clients->members[i];

        clients->pollers[i].fd = member->waits ? client_fd(member->conn) : -1;
        clients->pollers[i].events = POLLIN;
        clients->pollers[i].revents = 0;
    }
    if (poll(clients->pollers, count, timeout_ms) <= 0)
        return;
    for (size_t i = 0; i < count; i++) {
        struct member *member = &clients->members[i];
        const struct client_reply *reply;

        if (clients->pollers[i].revents == 0)
            continue;
        reply = client_poll(member->conn, false);
        if (reply != NULL)
            load_answer(clients, member, reply);
    }
}

static void load_init(struct load_clients *clients, const struct load_plan *plan)
{
    clients->plan = plan;
    clients->members = calloc(plan->connections, sizeof(*clients->members));
    clients->pollers = calloc(plan->connections, sizeof(*clients->pollers));
    assert_true(clients->members != NULL && clients->pollers != NULL);
    for (size_t i = 0, at = 0; i < plan->connections; i++) {
        clients->members[i].address = &plan->services[at++]->address;
        clients->members[i].conn = client_open(clients->members[i].address);
        if (at == FIXTURE_SERVICES_MAX || plan->services[at] == NULL)
            at = 0;
    }
}

size_t load_run(const struct load_plan *plan)
{
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);
    struct load_clients clients = {0};

    load_init(&clients, plan);
    while (clients.answered < plan->requests && clock_mono_us() < end_us) {
        load_send_all(&clients);
        if (clients.waiting > 0)
            load_listen(&clients, (int)((end_us - clock_mono_us()) / 1000) + 1);
    }
    for (size_t i = 0; i < plan->connections; i++)
        client_close(clients.members[i].conn);
    free(clients.members);
    free(clients.pollers);
    return clients.answered;
}

/* -- orders -- */

static const struct {
    const char *code;
    int status;
    enum tally tally;
} tallies[] = {
    {"already_ordered", 409, TALLY_ALREADY_ORDERED},
    {"order_in_progress", 409, TALLY_IN_PROGRESS},
    {"sold_out", 409, TALLY_SOLD_OUT},
    {"unavailable", 503, TALLY_UNAVAILABLE},
    {"overloaded", 503, TALLY_UNAVAILABLE},
    {"outcome_unknown", 503, TALLY_UNKNOWN},
};

enum tally tally_of(const struct client_reply *reply)
{
    if (reply->status == 201 || reply->status == 202)
        return TALLY_PLACED;
    if (reply->status == 200)
        return TALLY_REPEATED;
    if (reply->status == 0)
        return TALLY_LOST;
    for (size_t i = 0; i < COUNT_OF(tallies); i++)
        if (reply_is(reply, tallies[i].status, tallies[i].code))
            return tallies[i].tally;
    return TALLY_OTHER;
}

size_t burst_write(size_t k, char *buf, size_t size, void *arg)
{
    const struct order_burst *burst = arg;
    char target[64];
    struct client_request request = {.method = "POST", .target = target};

    snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", burst->voucher_id);
    request.token = shopper(burst->first_user + (int64_t)k);
    return client_format(&request, buf, size);
}

void burst_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct order_burst *burst = arg;
    enum tally tally = tally_of(reply);

    if (tally == TALLY_OTHER)
        print_error("request %zu: %d %.300s\n", k, reply->status,
                    reply->body ? reply->body : "");
    burst->tally[tally]++;
    if (burst->each != NULL)
        burst->each[k] = tally;
}

void burst_check(struct fixture *fixture, const struct order_burst *burst, size_t count)
{
    char *rows = sql_text(fixture,
                          "select string_agg((select count(*) from voucher_order where "
                          "voucher_id = %s and user_id = u)::text, '' order by u) from "
                          "generate_series(%lld, %lld) u",
                          burst->voucher_id, (long long)burst->first_user,
                          (long long)burst->first_user + (long long)count - 1);
    size_t wrong = 0;

    assert_int_equal(strlen(rows), count);
    for (size_t k = 0; k < count; k++) {
        enum tally tally = burst->each[k];
        bool may_be = tally == TALLY_UNKNOWN || tally == TALLY_LOST;

        if ((rows[k] == '0' || rows[k] == '1') &&
            (may_be || (tally == TALLY_PLACED) == (rows[k] == '1')))
            continue;
        if (wrong++ < 5)
            print_error("user %lld: tally %d, rows %c\n",
                        (long long)burst->first_user + (long long)k, (int)tally, rows[k]);
    }
    free(rows);
    assert_int_equal(wrong, 0);
    assert_int_equal(burst->tally[TALLY_OTHER], 0);
    assert_int_equal(sql_broken_guarantees(fixture), 0);
}

struct missing {
    struct order_burst *burst;
    size_t *users; /* indexes of the requests in the burst */
    size_t count;
};

static size_t missing_write(size_t k, char *buf, size_t size, void *arg)
{
    struct missing *missing = arg;

    return burst_write(missing->users[k], buf, size, missing->burst);
}

static void missing_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct missing *missing = arg;

    burst_answer(missing->users[k], reply, missing->burst);
}

void burst_finish(struct service *service, struct order_burst *burst, size_t count)
{
    struct missing missing = {.burst = burst, .users = calloc(count, sizeof(size_t))};
    struct load_plan plan = {{service},
                             .connections = 32,
                             .write = missing_write,
                             .answer = missing_answer,
                             .arg = &missing};

    assert_non_null(missing.users);
    for (size_t k = 0; k < count; k++)
        if (burst->each[k] != TALLY_PLACED)
            missing.users[missing.count++] = k;
    memset(burst->tally, 0, sizeof(burst->tally));
    plan.requests = missing.count;
    assert_int_equal(load_run(&plan), missing.count);
    free(missing.users);
    assert_int_equal(burst->tally[TALLY_PLACED] + burst->tally[TALLY_ALREADY_ORDERED],
                     missing.count);
}
