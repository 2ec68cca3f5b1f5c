/* it_hosts.c - several hosts in one URL, of which one is the primary. */
#include "redis/conn_impl.h"
#include "test/fake.h"
#include "test/port.h"
#include "test/probe.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

#define SILENT_MS    20000 /* a fifth of the timeout */
#define PAUSE_MAX_MS 501   /* more than the longest pause between two rounds */

static struct server replica;
static char primary_port[8];
static const char *const replica_options[] = {"--replicaof", "127.0.0.1", primary_port,
                                              NULL};

static int start_servers(void **state)
{
    fixture_start_server(state);
    snprintf(primary_port, sizeof(primary_port), "%u", fixture_empty_server()->port);
    server_start(&replica, replica_options);
    return 0;
}

static int stop_servers(void **state)
{
    server_stop(&replica);
    return fixture_stop_server(state);
}

static void open_hosts(struct probe *probe, struct fixture *fixture, unsigned first_port,
                       unsigned second_port, uint32_t timeout_ms)
{
    char url[64];

    snprintf(url, sizeof(url), "redis://127.0.0.1:%u,127.0.0.1:%u", first_port,
             second_port);
    probe_open(probe, fixture, url, timeout_ms);
}

FIXTURE_CASE(test_redis_conn__takes_the_primary_among_its_hosts)
{
    struct fixture *fixture = *state;
    unsigned nobody = port_free();
    struct probe probe;

    open_hosts(&probe, fixture, replica.port, fixture->server->port, TIMEOUT_MS);
    probe_wait(&probe, &probe.ups, 1);
    assert_int_equal(probe.downs, 0);
    probe_close(&probe);
    open_hosts(&probe, fixture, nobody, fixture->server->port, TIMEOUT_MS);
    probe_wait(&probe, &probe.ups, 1);
    assert_int_equal(probe.downs, 0);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__replica_is_never_up)
{
    struct fixture *fixture = *state;
    char reason[64];
    struct probe probe;

    probe_open(&probe, fixture, replica.tcp_url, TIMEOUT_MS);
    probe_wait(&probe, &probe.downs, 1);
    assert_string_equal(probe.why.text, "the server is a replica");
    fixture_run_for(fixture, 100);
    assert_int_equal(probe.ups, 0);
    assert_int_equal(probe.downs, 1);
    probe_close(&probe);

    open_hosts(&probe, fixture, port_free(), replica.port, TIMEOUT_MS);
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "connection refused; 127.0.0.1:");
    snprintf(reason, sizeof(reason), "127.0.0.1:%u: the server is a replica",
             replica.port);
    probe_assert_why(&probe, reason);
    while (probe.conn->attempts < 6)
        fixture_pass_ms(fixture, PAUSE_MAX_MS);
    assert_int_equal(probe.downs, 1);
    assert_int_equal(probe.ups, 0);
    probe_close(&probe);
}

/** The first host accepts connections, but never replies. */
FIXTURE_CASE(test_redis_conn__silent_host_delays_by_a_fifth_of_the_timeout)
{
    struct fixture *fixture = *state;
    struct probe probe;

    server_pause(&replica);
    open_hosts(&probe, fixture, replica.port, fixture->server->port, 5 * SILENT_MS);
    fixture_run_for(fixture, 50);
    fixture_pass_ms(fixture, SILENT_MS / 2); /* the other half is for a busy machine */
    fixture_run_for(fixture, 20);
    assert_int_equal(probe.ups, 0);
    fixture_pass_ms(fixture, SILENT_MS / 2);
    probe_wait(&probe, &probe.ups, 1);
    server_resume(&replica);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__follows_the_primary_when_it_becomes_a_replica)
{
    struct fixture *fixture = *state;
    struct command refused = {0}, accepted = {0};
    struct probe probe;

    open_hosts(&probe, fixture, fixture->server->port, replica.port, TIMEOUT_MS);
    probe_wait(&probe, &probe.ups, 1);
    server_do(&replica, "REPLICAOF NO ONE");
    server_do(fixture->server, "REPLICAOF 127.0.0.1 %u", replica.port);
    probe_command(&probe, &refused, "DEL", "x");
    ASSERT_STATUS(refused.status, RLOCK_REFUSED);
    probe_assert_why(&probe, "READONLY");
    ASSERT_STATUS(probe.why.status, RLOCK_IO);
    probe_wait(&probe, &probe.ups, 2);
    probe_command(&probe, &accepted, "DEL", "x");
    ASSERT_STATUS(accepted.status, RLOCK_OK);
    assert_int_equal(server_calls(&replica, "del"), 1);
    server_do(fixture->server, "REPLICAOF NO ONE");
    server_do(&replica, "REPLICAOF 127.0.0.1 %s", primary_port);
    probe_close(&probe);
}

FIXTURE_CASE(test_redis_conn__comes_back_to_a_host_that_restarts)
{
    struct fixture *fixture = *state;
    struct probe probe;

    open_hosts(&probe, fixture, replica.port, fixture->server->port, TIMEOUT_MS);
    probe_wait(&probe, &probe.ups, 1);
    server_kill(fixture->server);
    probe_wait(&probe, &probe.downs, 2); /* first the loss, then a round that failed */
    probe_assert_why(&probe, "refused");
    server_restart(fixture->server);
    probe_wait(&probe, &probe.ups, 2);
    probe_close(&probe);
}

int main(void)
{
    return cases_run(start_servers, stop_servers);
}
