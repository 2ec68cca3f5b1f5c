/* it_turns.c - processes that compete for a lock each get their share of it. */
#include "test/child.h"
#include "test/fixture.h"
#include "test/waits.h"

#include "lock/rlock_sync.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROCESSES 2
#define THREADS   2                     /* of a process, at most */
#define PLAY_NS   UINT64_C(10000000000) /* so that a process may be stopped for seconds */
#define SHARE_MIN 30                    /* per cent, of one of two equal processes */
#define SHARE_ONE 10 /* of one with a single thread beside one with two */
#define HANGS_S   60

/** In memory that the processes share. */
struct turns {
    atomic_uint ready, wanted; /* threads */
    atomic_uint grants[PROCESSES];
    atomic_uint failures;
    atomic_uint inside;
};

struct player {
    struct turns *turns;
    struct rlock_sync *sync;
    struct rlock_client *client;
    const struct rlock_kind *kind;
    unsigned process, threads, hold_ms;
};

/** Hold the lock again and again for PLAY_NS from when all are ready. */
static void *play(void *arg)
{
    const struct player *player = arg;
    struct turns *turns = player->turns;
    struct rlock_acquire_options options = {.kind = player->kind,
                                            .permits = permits_of(player->kind),
                                            .holder = rlock_sync_holder(),
                                            .lease_ms = LEASE_MS,
                                            .wait_ms = WITHIN_MS};
    struct rlock lock = {0};
    uint64_t began_ns;

    turns->ready++;
    while (turns->ready < turns->wanted)
        uv_sleep(1);
    began_ns = uv_hrtime();
    while (uv_hrtime() - began_ns < PLAY_NS && turns->failures == 0) {
        if (rlock_sync_acquire(player->sync, player->client, &lock, NAME, 6, &options,
                               NULL) != STATUS_OK) {
            turns->failures++;
            break;
        }
        turns->failures += turns->inside++ != 0;
        turns->grants[player->process]++;
        if (player->hold_ms > 0)
            uv_sleep(player->hold_ms);
        turns->inside--;
        if (rlock_sync_release(player->sync, player->client, &lock, NULL) != STATUS_OK)
            turns->failures++;
    }
    return NULL;
}

static void run_process(struct player player, const char *url)
{
    struct rlock_client_options options = {.redis_url = url, .timeout_ms = TIMEOUT_MS};
    pthread_t threads[THREADS];

    alarm(HANGS_S);
    if (rlock_sync_start(&player.sync, NULL) != STATUS_OK ||
        rlock_sync_open(player.sync, &options, &player.client, NULL) != STATUS_OK)
        child_exit(1);
    for (unsigned i = 0; i < player.threads; i++) {
        if (pthread_create(&threads[i], NULL, play, &player) != 0)
            child_exit(2);
    }
    for (unsigned i = 0; i < player.threads; i++)
        pthread_join(threads[i], NULL);
    rlock_sync_close(player.sync);
    rlock_sync_free(player.sync);
    child_exit(0);
}

/** The first process has two threads, the second `threads`. */
static void assert_shares(struct fixture *fixture, const struct rlock_kind *kind,
                          unsigned threads, unsigned hold_ms, unsigned share_min)
{
    struct turns *turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[PROCESSES];

    assert_true(turns != MAP_FAILED);
    turns->wanted = THREADS + threads;
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = child_fork();
        if (children[i] == 0)
            run_process((struct player){.turns = turns,
                                        .kind = kind,
                                        .process = i,
                                        .threads = i == 0 ? THREADS : threads,
                                        .hold_ms = hold_ms},
                        fixture->server->unix_url);
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(child_wait(children[i]), 0);
    assert_int_equal(turns->failures, 0);
    for (int i = 0; i < PROCESSES; i++)
        ASSERT_NUMBER(turns->grants[i] * 100 / (turns->grants[0] + turns->grants[1]), >=,
                      share_min);
    munmap(turns, sizeof(*turns));
}

static void test_processes__share_a_lock_that_is_held_for_moments(void **state)
{
    assert_shares(*state, &rlock_plain, THREADS, 0, SHARE_MIN);
}

static void test_processes__share_a_lock_that_is_held_for_milliseconds(void **state)
{
    assert_shares(*state, &rlock_plain, THREADS, 4, SHARE_MIN);
}

static void test_processes__share_a_lock_that_each_passes_on(void **state)
{
    assert_shares(*state, &rlock_cohort, THREADS, 0, SHARE_MIN);
}

static void test_processes__share_a_reentrant_lock(void **state)
{
    assert_shares(*state, &rlock_reentrant, THREADS, 1, SHARE_MIN);
}

static void test_processes__share_a_semaphore(void **state)
{
    assert_shares(*state, &rlock_semaphore, THREADS, 1, SHARE_MIN);
}

static void test_process__with_one_thread_is_not_starved(void **state)
{
    assert_shares(*state, &rlock_plain, 1, 4, SHARE_ONE);
}

/** Without another client nothing is delayed: each release wakes the next waiter. */
static void test_release__without_another_client_hands_over_each_time(void **state)
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
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_processes__share_a_lock_that_is_held_for_moments),
        FIXTURE_TEST(test_processes__share_a_lock_that_is_held_for_milliseconds),
        FIXTURE_TEST(test_processes__share_a_lock_that_each_passes_on),
        FIXTURE_TEST(test_processes__share_a_reentrant_lock),
        FIXTURE_TEST(test_processes__share_a_semaphore),
        FIXTURE_TEST(test_process__with_one_thread_is_not_starved),
        FIXTURE_TEST(test_release__without_another_client_hands_over_each_time),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
