/*
 * it_processes.c - processes that compete for a lock. No process breaks the lock, and each gets its
 * share.
 */
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
/* long enough for a process that is stopped for seconds */
#define PLAY_NS UINT64_C(10000000000)
/* least share of one of two equal processes, in per cent */
#define SHARE_MIN 30
#define HANGS_S   100

struct contest {
    const struct rlock_kind *kind;
    const struct rlock_kind *third; /* the kind of every third round; NULL: `kind` */
    unsigned permits;
    /* number of threads of each process; 0: the process does not exist */
    unsigned threads[PROCESSES_MAX];
    unsigned hold_ms;
    unsigned rounds;    /* rounds of each thread; 0: the threads end after PLAY_NS */
    unsigned share_min; /* least share of each process in all grants, in per cent */
};

struct shared {
    atomic_uint ready, wanted;
    atomic_uint grants[PROCESSES_MAX];
    atomic_uint owners, most_owners, writes, failures;
    int64_t values[2]; /* the resource: both values are equal except during a write */
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
                               NULL) != RLOCK_OK) {
            shared->failures++;
            break;
        }
        shared->grants[player->process]++;
        use(player, options.kind);
        if (rlock_sync_release(player->sync, player->client, &lock, NULL) != RLOCK_OK)
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
    if (rlock_sync_start(&player.sync, NULL) != RLOCK_OK ||
        rlock_sync_open(player.sync, &options, &player.client, NULL) != RLOCK_OK)
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

/** Return the greatest number of owners at the same time. */
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

static unsigned exclude(struct fixture *fixture, const struct rlock_kind *kind,
                        unsigned permits, const struct rlock_kind *third)
{
    return compete(fixture, (struct contest){.kind = kind,
                                             .third = third,
                                             .permits = permits,
                                             .threads = {3, 3, 3},
                                             .hold_ms = 1,
                                             .rounds = ROUNDS});
}

FIXTURE_CASE(test_processes__never_have_more_permits_than_there_are)
{
    ASSERT_BETWEEN(exclude(*state, &rlock_semaphore, 3, NULL), 2, 3);
    ASSERT_BETWEEN(exclude(*state, &rlock_fair_semaphore, 3, NULL), 2, 3);
}

FIXTURE_CASE(test_processes__read_together_and_write_alone)
{
    ASSERT_NUMBER(exclude(*state, &rlock_read, 0, &rlock_write), >=, 2);
}

/* -- shares -- */

FIXTURE_CASE(test_processes__share_a_lock)
{
    static const struct {
        const struct rlock_kind *kind;
        unsigned hold_ms;
    } rows[] = {
        {&rlock_plain, 0}, {&rlock_plain, 4}, {&rlock_cohort, 0}, {&rlock_reentrant, 1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        unsigned most = compete(*state, (struct contest){.kind = rows[i].kind,
                                                         .threads = {2, 2},
                                                         .hold_ms = rows[i].hold_ms,
                                                         .share_min = SHARE_MIN});

        asserts_about("row %zu", i);
        assert_int_equal(most, 1);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
