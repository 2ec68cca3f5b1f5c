/* it_sentinel.c - a client that follows the primary that the sentinels name. */
#include "base/clock.h"
#include "test/port.h"
#include "test/probe.h"
#include "test/topology.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define DOWN_AFTER_MS 1000
#define WAIT_MS       60000
#define WORKERS       16
#define NAMES         4
#define HOLD_MS       3

static struct topology topology;
/* number of promotions; the argument of the program replaces it */
static unsigned promotions = 4;

static int start_servers(void **state)
{
    (void)state;
    topology_start(&topology, DOWN_AFTER_MS);
    fixture_use_server(&topology.servers[0]);
    return 0;
}

static int stop_servers(void **state)
{
    (void)state;
    topology_stop(&topology);
    return 0;
}

/** Make the first server the primary again, so that each test begins in the same way. */
static int setup(void **state)
{
    signal(SIGPIPE, SIG_IGN); /* sentinels close the test's connections to a primary */
    topology_mend(&topology);
    return fixture_setup(state);
}

static struct rlock_client *open_client(struct fixture *fixture, const char *url)
{
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = url, .timeout_ms = 2000});

    return client;
}

#define SENTINEL_CASE(name) GUARDED_CASE(name, setup, fixture_teardown)

/* -- finding the primary -- */

SENTINEL_CASE(test_redis_conn__passes_over_sentinels_that_do_not_help)
{
    struct fixture *fixture = *state;
    struct server stranger = {0}, isolated = {0};
    static const char *const options[] = {"--sentinel", NULL};
    unsigned ports[3];
    char url[160];

    server_start(&stranger, options); /* this sentinel knows no master with that name */
    /* this sentinel believes that the primary is at a port where no server listens */
    server_start(&isolated, options);
    server_do(&isolated, "SENTINEL MONITOR " TOPOLOGY_MASTER " 127.0.0.1 %u 2",
              port_free());
    ports[0] = stranger.port;
    ports[1] = topology.servers[1].port; /* this server is no sentinel */
    ports[2] = isolated.port;
    for (int i = 0; i < 3; i++) {
        struct rlock_client *client;

        snprintf(url, sizeof(url),
                 "redis-sentinel://127.0.0.1:%u,127.0.0.1:%u?master=" TOPOLOGY_MASTER,
                 ports[i], topology.sentinels[0].port);
        client = open_client(fixture, url);
        fixture_wait_up(fixture, client);
        fixture_close(fixture, client);
    }
    server_stop(&isolated);
    server_stop(&stranger);
}

SENTINEL_CASE(test_redis_conn__gives_the_sentinel_its_password)
{
    static const char *const options[] = {"--sentinel", NULL};
    struct fixture *fixture = *state;
    struct rlock_client *client;
    struct server guarded;
    struct probe probe;
    char urls[2][128];

    server_start(&guarded, options);
    server_do(&guarded, "SENTINEL MONITOR " TOPOLOGY_MASTER " 127.0.0.1 %u 2",
              topology.servers[0].port);
    server_do(&guarded, "ACL SETUSER default resetpass >word");
    for (size_t i = 0; i < 2; i++)
        snprintf(urls[i], sizeof(urls[i]),
                 "redis-sentinel://127.0.0.1:%u?master=" TOPOLOGY_MASTER "%s",
                 guarded.port, i == 0 ? "" : "&sentinel_password=word");
    probe_open(&probe, fixture, urls[0], TIMEOUT_MS);
    probe_wait(&probe, &probe.downs, 1);
    probe_assert_why(&probe, "sentinel: reply to PING: NOAUTH");
    probe_close(&probe);
    client = open_client(fixture, urls[1]);
    fixture_wait_up(fixture, client);
    fixture_close(fixture, client);
    server_stop(&guarded);
}

SENTINEL_CASE(test_redis_conn__goes_on_without_its_sentinel)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture, topology.url);
    struct rlock_stats stats;
    struct call call = {0};

    fixture_wait_up(fixture, client);
    for (int i = 0; i < TOPOLOGY_SENTINELS; i++)
        server_do(&topology.sentinels[i], "CLIENT KILL TYPE pubsub");
    fixture_run_for(fixture, 100);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), RLOCK_OK);
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.reconnects, 0);
}

/* -- promotions under load -- */

/** What the fence protects. It accepts a write unless it has seen a greater fence. */
struct resource {
    int64_t fence;
    int64_t sent_us; /* when the last owner of the lock asked for the lock */
    unsigned holders;
};

struct load {
    struct fixture *fixture;
    struct resource resources[NAMES];
    bool is_ending;
    bool is_planned; /* the promotion is planned, so the primary is not killed */
    unsigned running;
    unsigned grants, overlaps, stale_writes, refused_writes, losses, failures;
    int64_t last_grant_us;
    int64_t promoted_us; /* 0: the promotion is not complete */
    int64_t first_grant_us;
};

struct worker {
    struct rlock lock;
    struct rlock_client *client;
    struct load *load;
    struct resource *resource;
    uv_timer_t timer;
    char name[8];
    int64_t fence, sent_us, granted_us;
    bool is_inside;
};

static void worker_acquire(struct worker *worker);

static void leave(struct worker *worker)
{
    worker->resource->holders -= worker->is_inside;
    worker->is_inside = false;
}

static void worker_on_released(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct worker *worker = arg;

    (void)lock;
    (void)status; /* if the outcome is unknown, the library releases the lock */
    if (worker->load->is_ending)
        worker->load->running--;
    else
        worker_acquire(worker);
}

/** Write with the fence of the grant, even if the lock is no longer held. */
static void worker_on_timer(uv_timer_t *timer)
{
    struct worker *worker = timer->data;
    struct resource *resource = worker->resource;
    struct load *load = worker->load;

    if (worker->fence < resource->fence) {
        load->refused_writes++;
    } else {
        if (worker->granted_us < resource->sent_us)
            load->stale_writes++;
        resource->fence = worker->fence;
        resource->sent_us = worker->sent_us;
    }
    leave(worker);
    rlock_release(worker->client, &worker->lock, worker_on_released, worker);
    rlock_flush(worker->client);
}

static void worker_on_lost(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct worker *worker = arg;

    (void)lock;
    (void)status;
    worker->load->losses++; /* the worker still writes, like an owner that was paused */
}

static void worker_on_locked(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct worker *worker = arg;
    struct load *load = worker->load;
    int64_t now_us = clock_mono_us();

    if (status != RLOCK_OK) {
        load->failures++;
        load->running--;
        return;
    }
    load->grants++;
    load->last_grant_us = now_us;
    if (load->promoted_us != 0 && load->first_grant_us == 0)
        load->first_grant_us = now_us;
    load->overlaps += worker->resource->holders++ > 0;
    worker->is_inside = true;
    worker->fence = rlock_fence(lock);
    worker->granted_us = now_us;
    worker->sent_us = lock->safe_until_us - (int64_t)lock->lease_ms * 990 + 2000;
    uv_timer_start(&worker->timer, worker_on_timer, HOLD_MS, 0);
}

static void worker_acquire(struct worker *worker)
{
    struct rlock_acquire_options options = {.lease_ms = 2000,
                                            .watchdog = true,
                                            .wait_ms = WAIT_MS,
                                            .on_lost = worker_on_lost};

    rlock_acquire(worker->client, &worker->lock, worker->name, strlen(worker->name),
                  &options, worker_on_locked, worker);
    rlock_flush(worker->client);
}

static void load_begin(struct load *load, struct worker *workers, struct fixture *fixture)
{
    struct rlock_client *clients[2];

    load->fixture = fixture;
    for (int i = 0; i < 2; i++)
        clients[i] = open_client(fixture, topology.url);
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &workers[i];

        worker->client = clients[i % 2];
        worker->load = load;
        worker->resource = &load->resources[i / 2 % NAMES];
        snprintf(worker->name, sizeof(worker->name), "item:%u", i / 2 % NAMES);
        uv_timer_init(&fixture->loop, &worker->timer);
        worker->timer.data = worker;
        load->running++;
        worker_acquire(worker);
    }
}

static bool has_grants(void *arg)
{
    return ((struct load *)arg)->grants >= 100;
}

static bool has_ended(void *arg)
{
    return ((struct load *)arg)->running == 0;
}

static void load_end(struct load *load, struct worker *workers)
{
    load->is_ending = true;
    FIXTURE_AWAIT(load->fixture, has_ended, load);
    for (unsigned i = 0; i < WORKERS; i++)
        uv_close((uv_handle_t *)&workers[i].timer, NULL);
}

static int old_primary;

/** Whether at least `pause_us` have passed since this function last returned true for `last_us`.
 *  It keeps the tests from asking the servers too often. */
static bool is_time(int64_t *last_us, int64_t pause_us)
{
    int64_t now_us = clock_mono_us();

    if (now_us - *last_us < pause_us)
        return false;
    *last_us = now_us;
    return true;
}

static bool is_complete(void *arg)
{
    static int64_t asked_us;

    return is_time(&asked_us, 100000) && topology_is_complete(arg);
}

static bool is_promoted(void *arg)
{
    static int64_t asked_us, begun_us;
    struct load *load = arg;

    if (load->is_planned && is_time(&begun_us, 5000000))
        topology_fail_over(&topology, !old_primary);
    if (!is_time(&asked_us, 2000) || topology_primary(&topology) != !old_primary)
        return false;
    load->promoted_us = clock_mono_us();
    return true;
}

static bool has_granted_again(void *arg)
{
    return ((struct load *)arg)->first_grant_us != 0;
}

static unsigned promote(struct load *load, bool is_planned)
{
    FIXTURE_AWAIT(load->fixture, is_complete, &topology);
    old_primary = topology_primary(&topology);
    load->promoted_us = load->first_grant_us = 0;
    load->is_planned = is_planned;
    if (!is_planned)
        server_kill(&topology.servers[old_primary]);
    FIXTURE_AWAIT(load->fixture, is_promoted, load);
    FIXTURE_AWAIT(load->fixture, has_granted_again, load);
    if (!is_planned)
        server_restart(&topology.servers[old_primary]);
    return (unsigned)((load->first_grant_us - load->promoted_us) / 1000);
}

SENTINEL_CASE(test_rlock__promotions_let_no_stale_write_pass)
{
    /* static, because after a failure the loop still has their timers */
    static struct worker workers[WORKERS];
    static struct load load;
    unsigned longest_ms[2] = {0}, sum_ms[2] = {0}, count[2] = {0};

    load_begin(&load, workers, *state);
    FIXTURE_AWAIT(load.fixture, has_grants, &load);
    for (unsigned i = 0; i < promotions; i++) {
        bool is_planned = i % 2 == 0;
        unsigned ms = promote(&load, is_planned);

        sum_ms[is_planned] += ms;
        count[is_planned]++;
        if (ms > longest_ms[is_planned])
            longest_ms[is_planned] = ms;
    }
    FIXTURE_AWAIT(load.fixture, is_complete, &topology);
    load_end(&load, workers);
    print_message("%u promotions: %u grants, %u overlaps, %u losses, %u stale writes "
                  "refused, %u passed\n",
                  promotions, load.grants, load.overlaps, load.losses,
                  load.refused_writes, load.stale_writes);
    for (int i = 0; i < 2; i++)
        print_message("%s: next grant after the promotion: mean %u ms, longest %u ms\n",
                      i == 0 ? "kill -9" : "planned",
                      count[i] == 0 ? 0 : sum_ms[i] / count[i], longest_ms[i]);
    assert_int_equal(load.failures, 0);
    assert_int_equal(load.stale_writes, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        promotions = (unsigned)strtoul(argv[1], NULL, 10);
    return cases_run(start_servers, stop_servers);
}
