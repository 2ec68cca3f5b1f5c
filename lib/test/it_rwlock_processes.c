/* it_rwlock_processes.c - the read/write lock among processes. */
#include "lock/rlock_sync.h"
#include "test/child.h"
#include "test/waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 3, ROUNDS = 60, HANGS_S = 100 };

/** In memory that the processes share. */
struct shared {
    atomic_uint readers, writers, most_readers, failures;
    int64_t values[2]; /* of the resource: always equal outside of a write */
};

struct worker {
    struct shared *shared;
    struct rlock_sync *sync;
    struct rlock_client *client;
};

static void read_it(struct shared *shared)
{
    unsigned readers = ++shared->readers, most = shared->most_readers;
    int64_t value = shared->values[0];

    while (readers > most &&
           !atomic_compare_exchange_weak(&shared->most_readers, &most, readers))
        ;
    uv_sleep(1);
    shared->failures += shared->writers != 0 || shared->values[1] != value;
    shared->readers--;
}

static void write_it(struct shared *shared)
{
    shared->failures += shared->writers++ != 0 || shared->readers != 0;
    shared->values[0]++;
    uv_sleep(1);
    shared->values[1]++;
    shared->failures += shared->readers != 0;
    shared->writers--;
}

/** Two reads, then a write. A thread that holds neither long nor dies never starves. */
static void *work(void *arg)
{
    const struct worker *worker = arg;
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS};
    struct rlock lock = {0};

    for (int i = 0; i < ROUNDS && worker->shared->failures == 0; i++) {
        options.kind = i % 3 == 2 ? &rlock_write : &rlock_read;
        if (rlock_sync_acquire(worker->sync, worker->client, &lock, NAME, 6, &options,
                               NULL) != STATUS_OK) {
            worker->shared->failures++;
            break;
        }
        if (i % 3 == 2)
            write_it(worker->shared);
        else
            read_it(worker->shared);
        if (rlock_sync_release(worker->sync, worker->client, &lock, NULL) != STATUS_OK)
            worker->shared->failures++;
    }
    return NULL;
}

_Noreturn static void run_process(struct worker worker, const char *url)
{
    struct rlock_client_options options = {.redis_url = url, .timeout_ms = TIMEOUT_MS};
    pthread_t threads[THREADS];

    alarm(HANGS_S);
    if (rlock_sync_start(&worker.sync, NULL) != STATUS_OK ||
        rlock_sync_open(worker.sync, &options, &worker.client, NULL) != STATUS_OK)
        child_exit(1);
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, &worker) != 0)
            child_exit(2);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rlock_sync_close(worker.sync);
    rlock_sync_free(worker.sync);
    child_exit(0);
}

static struct shared *share(void)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(shared != MAP_FAILED);
    return shared;
}

static void test_processes__read_together_and_write_alone(void **state)
{
    struct fixture *fixture = *state;
    struct shared *shared = share();
    pid_t children[PROCESSES];

    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = child_fork();
        if (children[i] == 0)
            run_process((struct worker){.shared = shared}, fixture->server->unix_url);
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(child_wait(children[i]), 0);
    assert_int_equal(shared->failures, 0);
    assert_int_equal(shared->values[0], PROCESSES * THREADS * ROUNDS / 3);
    assert_int_equal(shared->values[1], PROCESSES * THREADS * ROUNDS / 3);
    ASSERT_NUMBER(shared->most_readers, >=, 2);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 1); /* the fence counter */
    assert_no_channels(fixture);
    munmap(shared, sizeof(*shared));
}

/** Hold it, with the watchdog, until it is killed. */
_Noreturn static void hold_until_killed(const char *url, const struct rlock_kind *kind,
                                        struct shared *shared)
{
    struct rlock_client_options options = {.redis_url = url, .timeout_ms = TIMEOUT_MS};
    struct rlock_acquire_options acquire = {
        .kind = kind, .lease_ms = LEASE_MS, .watchdog = true};
    struct rlock lock = {0};
    struct rlock_sync *sync;
    struct rlock_client *client;

    alarm(HANGS_S);
    if (rlock_sync_start(&sync, NULL) != STATUS_OK ||
        rlock_sync_open(sync, &options, &client, NULL) != STATUS_OK ||
        rlock_sync_acquire(sync, client, &lock, NAME, 6, &acquire, NULL) != STATUS_OK)
        child_exit(1);
    shared->readers++;
    for (;;)
        pause();
}

static bool is_held(void *arg)
{
    return ((struct shared *)arg)->readers > 0;
}

static void test_owner__killed_leaves_the_lock_within_its_lease(void **state)
{
    static const struct rlock_kind *const kinds[] = {&rlock_read, &rlock_write};
    struct fixture *fixture = *state;
    struct rlock_acquire_options writing = waiting(&rlock_write, 0, 0);

    for (int i = 0; i < 2; i++) {
        struct shared *shared = share();
        struct rlock_client *client;
        struct call call = {0};
        pid_t child = child_fork();

        if (child == 0)
            hold_until_killed(fixture->server->unix_url, kinds[i], shared);
        client = fixture_client(fixture);
        FIXTURE_AWAIT(fixture, is_held, shared);
        child_end(child);
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &writing), STATUS_BUSY);
        server_pass_ms(fixture->server, LEASE_MS);
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &writing), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        assert_int_equal(server_int(fixture->server, "DBSIZE"), 1);
        fixture_close(fixture, client);
        munmap(shared, sizeof(*shared));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_processes__read_together_and_write_alone),
        FIXTURE_TEST(test_owner__killed_leaves_the_lock_within_its_lease),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
