/* it_processes.c - processes that compete for a lock: nobody breaks it, each gets its share. */
#include "lock/rlock_sync.h"
#include "test/child.h"
#include "test/waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROCESSES_MAX 3
#define THREADS_MAX   3
#define ROUNDS        60
#define PLAY_NS       UINT64_C(10000000000) /* so that a process may be stopped for seconds */
#define SHARE_MIN     30                    /* per cent, of one of two equal processes */
#define SHARE_ONE     10 /* of one with a single thread beside one with two */
#define HANGS_S       100

struct contest {
    const struct rlock_kind *kind;
    const struct rlock_kind *third;  /* of each third round; NULL: the same */
    unsigned permits;                /* of a semaphore */
    unsigned threads[PROCESSES_MAX]; /* of each process; 0: there is none */
    unsigned hold_ms;
    unsigned rounds;    /* of each thread; 0: they end after PLAY_NS */
    unsigned share_min; /* per cent of all grants, for each process */
};

/** In memory that the processes share. */
struct shared {
    atomic_uint ready, wanted; /* threads */
    atomic_uint grants[PROCESSES_MAX];
    atomic_uint owners, most_owners, writes, failures;
    int64_t values[2]; /* of the resource: always equal outside of a write */
};

struct player {
    const struct contest *contest;
    struct shared *shared;
    struct rlock_sync *sync;
    struct rlock_client *client;
    unsigned process;
};

static bool is_exclusive(const struct rlock_kind *kind)
{
    return kind != &rlock_semaphore && kind != &rlock_fair_semaphore &&
           kind != &rlock_read;
}

static void use(const struct player *player, const struct rlock_kind *kind)
{
    struct shared *shared = player->shared;
    unsigned permits = player->contest->permits;
    unsigned owners = ++shared->owners, most = shared->most_owners;
    int64_t value = shared->values[0];

    while (owners > most &&
           !atomic_compare_exchange_weak(&shared->most_owners, &most, owners))
        ;
    shared->failures += permits > 0 && owners > permits;
    if (is_exclusive(kind)) {
        shared->failures += owners != 1;
        shared->writes++;
        shared->values[0]++;
    }
    if (player->contest->hold_ms > 0)
        uv_sleep(player->contest->hold_ms);
    if (is_exclusive(kind)) {
        shared->values[1]++;
        shared->failures += shared->owners != 1;
    } else {
        shared->failures += shared->values[0] != value || shared->values[1] != value;
    }
    shared->owners--;
}

static bool goes_on(const struct player *player, unsigned round, uint64_t began_ns)
{
    if (player->shared->failures > 0)
        return false;
    if (player->contest->rounds > 0)
        return round < player->contest->rounds;
    return uv_hrtime() - began_ns < PLAY_NS;
}

/** Hold the lock again and again from when all are ready. */
static void *play(void *arg)
{
    const struct player *player = arg;
    const struct contest *contest = player->contest;
    struct shared *shared = player->shared;
    struct rlock_acquire_options options = {.permits = (uint16_t)contest->permits,
                                            .holder = rlock_sync_holder(),
                                            .lease_ms = LEASE_MS,
                                            .wait_ms = WITHIN_MS};
    struct rlock lock = {0};
    uint64_t began_ns;

    shared->ready++;
    while (shared->ready < shared->wanted)
        uv_sleep(1);
    began_ns = uv_hrtime();
    for (unsigned round = 1; goes_on(player, round - 1, began_ns); round++) {
        bool is_third = contest->third != NULL && round % 3 == 0;

        options.kind = is_third ? contest->third : contest->kind;
        if (rlock_sync_acquire(player->sync, player->client, &lock, NAME, 6, &options,
                               NULL) != STATUS_OK) {
            shared->failures++;
            break;
        }
        shared->grants[player->process]++;
        use(player, options.kind);
        if (rlock_sync_release(player->sync, player->client, &lock, NULL) != STATUS_OK)
            shared->failures++;
    }
    return NULL;
}

_Noreturn static void run_process(struct player player, const char *url)
{
    struct rlock_client_options options = {.redis_url = url, .timeout_ms = TIMEOUT_MS};
    unsigned count = player.contest->threads[player.process];
    pthread_t threads[THREADS_MAX];

    alarm(HANGS_S);
    if (rlock_sync_start(&player.sync, NULL) != STATUS_OK ||
        rlock_sync_open(player.sync, &options, &player.client, NULL) != STATUS_OK)
        child_exit(1);
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, play, &player) != 0)
            child_exit(2);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    rlock_sync_close(player.sync);
    rlock_sync_free(player.sync);
    child_exit(0);
}

/** Returns how many owners there were at most. */
static unsigned compete(struct fixture *fixture, struct contest contest)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[PROCESSES_MAX];
    unsigned processes = 0, grants = 0, most;

    assert_true(shared != MAP_FAILED);
    while (processes < PROCESSES_MAX && contest.threads[processes] > 0)
        shared->wanted += contest.threads[processes++];
    for (unsigned i = 0; i < processes; i++) {
        children[i] = child_fork();
        if (children[i] == 0)
            run_process(
                (struct player){.contest = &contest, .shared = shared, .process = i},
                fixture->server->unix_url);
    }
    for (unsigned i = 0; i < processes; i++)
        assert_int_equal(child_wait(children[i]), 0);
    assert_int_equal(shared->failures, 0);
    assert_int_equal(shared->values[0], shared->writes);
    assert_int_equal(shared->values[1], shared->writes);
    for (unsigned i = 0; i < processes; i++)
        grants += shared->grants[i];
    for (unsigned i = 0; i < processes; i++)
        ASSERT_NUMBER(shared->grants[i] * 100 / grants, >=, contest.share_min);
    if (contest.rounds > 0)
        assert_int_equal(grants, shared->wanted * contest.rounds);
    assert_false(server_has(fixture->server, NAME));
    assert_no_channels(fixture);
    most = shared->most_owners;
    munmap(shared, sizeof(*shared));
    return most;
}

/* -- exclusion -- */

FIXTURE_CASE(test_processes__never_have_more_permits_than_there_are)
{
    static const struct rlock_kind *const kinds[] = {&rlock_semaphore,
                                                     &rlock_fair_semaphore};

    for (int i = 0; i < 2; i++) {
        unsigned most = compete(*state, (struct contest){.kind = kinds[i],
                                                         .permits = 3,
                                                         .threads = {3, 3, 3},
                                                         .hold_ms = 1,
                                                         .rounds = ROUNDS});

        ASSERT_BETWEEN(most, 2, 3);
    }
}

FIXTURE_CASE(test_processes__read_together_and_write_alone)
{
    unsigned most = compete(*state, (struct contest){.kind = &rlock_read,
                                                     .third = &rlock_write,
                                                     .threads = {3, 3, 3},
                                                     .hold_ms = 1,
                                                     .rounds = ROUNDS});

    ASSERT_NUMBER(most, >=, 2);
}

/* -- shares -- */

/** The first process has two threads, the second `threads`. */
static void assert_shares(struct fixture *fixture, const struct rlock_kind *kind,
                          unsigned threads, unsigned hold_ms, unsigned share_min)
{
    unsigned most = compete(fixture, (struct contest){.kind = kind,
                                                      .permits = permits_of(kind),
                                                      .threads = {2, threads},
                                                      .hold_ms = hold_ms,
                                                      .share_min = share_min});

    assert_int_equal(most, 1);
}

FIXTURE_CASE(test_processes__share_a_lock_that_is_held_for_moments)
{
    assert_shares(*state, &rlock_plain, 2, 0, SHARE_MIN);
}

FIXTURE_CASE(test_processes__share_a_lock_that_is_held_for_milliseconds)
{
    assert_shares(*state, &rlock_plain, 2, 4, SHARE_MIN);
}

FIXTURE_CASE(test_processes__share_a_lock_that_each_passes_on)
{
    assert_shares(*state, &rlock_cohort, 2, 0, SHARE_MIN);
}

FIXTURE_CASE(test_processes__share_a_reentrant_lock)
{
    assert_shares(*state, &rlock_reentrant, 2, 1, SHARE_MIN);
}

FIXTURE_CASE(test_processes__share_a_semaphore)
{
    assert_shares(*state, &rlock_semaphore, 2, 1, SHARE_MIN);
}

FIXTURE_CASE(test_process__with_one_thread_is_not_starved)
{
    assert_shares(*state, &rlock_plain, 1, 4, SHARE_ONE);
}

/** Without another client nothing is delayed: each release wakes the next waiter. */
FIXTURE_CASE(test_release__without_another_client_hands_over_each_time)
{
    enum { WAITERS = 64 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, waiters[WAITERS] = {0};

    ASSERT_STATUS(acquire(fixture, client, &held, NAME, LEASE_MS), STATUS_OK);
    for (int i = 0; i < WAITERS; i++)
        call_wait(client, &waiters[i], NAME, &options);
    call_rest(fixture, &waiters[WAITERS - 1]);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
    for (int i = 0; i < WAITERS; i++) {
        fixture_wait_answers(fixture, &waiters[i], 1);
        ASSERT_STATUS(waiters[i].status, STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &waiters[i]), STATUS_OK);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
