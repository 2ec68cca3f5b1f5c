/* it_semaphore.c - the semaphores: at most n permits at once, each with a lease. */
#include "base/clock.h"
#include "lock/internal.h"
#include "lock/rlock_sync.h"
#include "test/child.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PERMITS 3

static const struct rlock_kind *const kinds[] = {&rlock_semaphore, &rlock_fair_semaphore};
enum { UNFAIR = 0, KINDS = 2 };

static struct rlock_acquire_options for_permit(int kind, uint32_t wait_ms)
{
    return (struct rlock_acquire_options){.kind = kinds[kind],
                                          .permits = PERMITS,
                                          .lease_ms = LEASE_MS,
                                          .wait_ms = wait_ms};
}

/** Let the clients take a permit each in turn; all must be granted. */
static void take_all(struct fixture *fixture, struct rlock_client *const *clients,
                     unsigned client_count, struct call *calls, int kind)
{
    struct rlock_acquire_options options = for_permit(kind, 0);

    for (unsigned i = 0; i < PERMITS; i++)
        ASSERT_STATUS(
            acquire_with(fixture, clients[i % client_count], &calls[i], NAME, &options),
            STATUS_OK);
}

/** The lease of a permit ends at the server; the holder has not noticed. */
static void end_lease(struct fixture *fixture, const struct rlock_client *client,
                      const struct call *call)
{
    assert_int_equal(server_int(fixture->server, "ZADD " NAME " XX CH 1 %s:%llu:%llu",
                                client->id, (unsigned long long)call->lock.holder,
                                (unsigned long long)call->lock.serial),
                     1);
}

static void assert_nothing_left(struct fixture *fixture)
{
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 1); /* the fence counter */
    assert_no_channels(fixture);
}

static void test_acquire__gives_as_many_permits_as_there_are(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *clients[2] = {fixture_client(fixture), fixture_client(fixture)};

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call calls[PERMITS] = {0}, more = {0};
        struct answer answer = {0};

        take_all(fixture, clients, 2, calls, k);
        for (int i = 1; i < PERMITS; i++)
            ASSERT_NUMBER(rlock_fence(&calls[i].lock), >,
                          rlock_fence(&calls[i - 1].lock));
        for (int i = 0; i < 2; i++)
            ASSERT_STATUS(acquire_with(fixture, clients[i], &more, NAME, &options),
                          STATUS_BUSY);
        ASSERT_STATUS(inspect(fixture, clients[1], &answer, NAME), STATUS_OK);
        assert_int_equal(answer.count, PERMITS);
        assert_false(answer.is_ours); /* the oldest one ends first */
        ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
        ASSERT_STATUS(release(fixture, clients[1], &calls[1]), STATUS_OK);
        ASSERT_STATUS(acquire_with(fixture, clients[0], &more, NAME, &options),
                      STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&more.lock), >, rlock_fence(&calls[2].lock));
        ASSERT_STATUS(acquire_with(fixture, clients[1], &calls[1], NAME, &options),
                      STATUS_BUSY);
        ASSERT_STATUS(release(fixture, clients[0], &more), STATUS_OK);
        ASSERT_STATUS(release(fixture, clients[0], &calls[0]), STATUS_OK);
        ASSERT_STATUS(release(fixture, clients[0], &calls[2]), STATUS_OK);
        ASSERT_STATUS(release(fixture, clients[0], &calls[2]), STATUS_NOT_OWNER);
        ASSERT_STATUS(inspect(fixture, clients[0], &answer, NAME), STATUS_NOT_FOUND);
        assert_nothing_left(fixture);
    }
}

static void test_acquire__in_one_batch_gives_as_many_as_there_are(void **state)
{
    enum { CALLS = 3000, MANY = 2000 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call *calls = calloc(CALLS, sizeof(*calls));
        unsigned granted = 0;

        options.permits = MANY;
        for (int i = 0; i < CALLS; i++)
            call_acquire_with(client, &calls[i], NAME, &options);
        rlock_flush(client);
        for (int i = 0; i < CALLS; i++) {
            fixture_wait_answers(fixture, &calls[i], 1);
            granted += calls[i].status == STATUS_OK;
            if (calls[i].status != STATUS_OK)
                ASSERT_STATUS(calls[i].status, STATUS_BUSY);
        }
        assert_int_equal(granted, MANY);
        assert_int_equal(server_int(fixture->server, "ZCARD " NAME), MANY);
        for (int i = 0; i < CALLS; i++) {
            if (rlock_is_held(&calls[i].lock))
                call_release(client, &calls[i]);
        }
        rlock_flush(client);
        for (int i = 0; i < CALLS; i++) {
            if (calls[i].status == STATUS_OK)
                fixture_wait_answers(fixture, &calls[i], 2);
            assert_true(calls[i].status == STATUS_OK || calls[i].status == STATUS_BUSY);
        }
        assert_nothing_left(fixture);
        free(calls);
    }
}

static void test_acquire__refuses_a_number_of_permits_that_does_not_fit(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = for_permit(UNFAIR, 0);
    struct call call = {0};

    for (int k = 0; k < KINDS; k++) {
        options = for_permit(k, 0);
        options.permits = 0;
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options),
                      STATUS_INVALID);
        ASSERT_CONTAINS(rlock_client_why(client)->text, "permits");
    }
    options.permits = 1;
    options.kind = &rlock_plain;
    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_INVALID);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "permits");
    assert_false(server_has(fixture->server, NAME));
}

/** A call with a smaller number waits until fewer permits are in use. */
static void test_acquire__with_fewer_permits_waits_for_the_others(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call calls[PERMITS] = {0}, fewer = {0};

        take_all(fixture, &client, 1, calls, k);
        options.permits = 2;
        for (int i = 0; i < PERMITS; i++) {
            ASSERT_STATUS(acquire_with(fixture, client, &fewer, NAME, &options),
                          i < 2 ? STATUS_BUSY : STATUS_OK);
            ASSERT_STATUS(release(fixture, client, &calls[i]), STATUS_OK);
        }
        ASSERT_STATUS(release(fixture, client, &fewer), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

/* -- leases -- */

/** Its permit is given to another, and its late release gives back nothing. */
static void test_release__of_an_expired_permit_is_lost_and_frees_none(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call calls[PERMITS] = {0}, next = {0}, more = {0};

        take_all(fixture, &client, 1, calls, k);
        end_lease(fixture, client, &calls[1]);
        ASSERT_STATUS(acquire_with(fixture, client, &next, NAME, &options), STATUS_OK);
        ASSERT_STATUS(extend(fixture, client, &calls[1], LEASE_MS), STATUS_LOST);
        ASSERT_STATUS(release(fixture, client, &calls[1]), STATUS_LOST);
        ASSERT_STATUS(acquire_with(fixture, client, &more, NAME, &options), STATUS_BUSY);
        end_lease(fixture, client, &calls[0]);
        ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_LOST);
        ASSERT_STATUS(release(fixture, client, &calls[2]), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &next), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

/** No message tells of it, and the permits beside it stay. */
static void test_waiter__gets_a_permit_when_its_lease_ends(void **state)
{
    enum { SHORT_MS = 50 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, WITHIN_MS);
        struct call calls[PERMITS] = {0}, next = {0};
        int64_t begin_us;

        take_all(fixture, &alice, 1, calls, k);
        ASSERT_STATUS(release(fixture, alice, &calls[1]), STATUS_OK);
        options.lease_ms = SHORT_MS;
        begin_us = clock_mono_us();
        ASSERT_STATUS(acquire_with(fixture, alice, &calls[1], NAME, &options), STATUS_OK);
        options.lease_ms = LEASE_MS;
        ASSERT_STATUS(acquire_with(fixture, bob, &next, NAME, &options), STATUS_OK);
        ASSERT_NUMBER(clock_mono_us() - begin_us, >=, SHORT_MS * 1000);
        ASSERT_NUMBER(server_int(fixture->server, "ZCARD " NAME), ==, PERMITS);
        ASSERT_STATUS(release(fixture, alice, &calls[1]), STATUS_LOST);
        ASSERT_STATUS(release(fixture, alice, &calls[0]), STATUS_OK);
        ASSERT_STATUS(release(fixture, alice, &calls[2]), STATUS_OK);
        ASSERT_STATUS(release(fixture, bob, &next), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

static void test_extend__sets_the_lease_of_one_permit(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call calls[PERMITS] = {0}, more = {0};
        struct answer answer = {0};

        take_all(fixture, &client, 1, calls, k);
        ASSERT_STATUS(extend(fixture, client, &calls[0], 2 * LEASE_MS), STATUS_OK);
        ASSERT_BETWEEN(server_int(fixture->server, "PTTL " NAME), LEASE_MS, 2 * LEASE_MS);
        ASSERT_STATUS(inspect(fixture, client, &answer, NAME), STATUS_OK);
        ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
        ASSERT_STATUS(extend(fixture, client, &calls[0], LEASE_MS / 4), STATUS_OK);
        ASSERT_BETWEEN(server_int(fixture->server, "PTTL " NAME), LEASE_MS / 2, LEASE_MS);
        ASSERT_STATUS(inspect(fixture, client, &answer, NAME), STATUS_OK);
        ASSERT_BETWEEN(answer.remaining_ms, 0, LEASE_MS / 4);
        server_pass_ms(fixture->server, LEASE_MS / 4);
        ASSERT_STATUS(acquire_with(fixture, client, &more, NAME, &options), STATUS_OK);
        ASSERT_STATUS(extend(fixture, client, &calls[0], LEASE_MS), STATUS_LOST);
        ASSERT_STATUS(extend(fixture, client, &calls[1], LEASE_MS), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &calls[1]), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &calls[2]), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &more), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

static void test_watchdog__keeps_its_permits_and_reports_the_lost_one(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call calls[PERMITS] = {0};

        options.watchdog = true;
        for (int i = 0; i < PERMITS; i++)
            ASSERT_STATUS(acquire_with(fixture, client, &calls[i], NAME, &options),
                          STATUS_OK);
        for (int i = 0; i < 4; i++)
            fixture_pass_renewal(fixture, client, LEASE_MS, PERMITS);
        end_lease(fixture, client, &calls[1]);
        fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
        fixture_wait_losses(fixture, &calls[1], 1);
        assert_int_equal(calls[0].losses + calls[2].losses, 0);
        assert_int_equal(server_int(fixture->server, "ZCARD " NAME), 2);
        ASSERT_STATUS(release(fixture, client, &calls[1]), STATUS_LOST);
        ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &calls[2]), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

/* -- waiting -- */

struct sleeper {
    struct fixture *fixture;
    const struct call *call;
};

static bool is_answered(void *arg)
{
    const struct sleeper *sleeper = arg;

    fixture_hold_timers(sleeper->fixture);
    return sleeper->call->answers > 0;
}

/** Run the loop until the call is granted, while no timer fires. */
static void await_message(struct fixture *fixture, const struct call *call)
{
    struct sleeper sleeper = {fixture, call};

    FIXTURE_AWAIT(fixture, is_answered, &sleeper);
    ASSERT_STATUS(call->status, STATUS_OK);
}

static void test_waiters__are_woken_by_releases_one_each(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, RLOCK_WAIT_FOREVER);
        struct call calls[PERMITS] = {0}, waiters[2 * PERMITS] = {0};
        long long before;

        take_all(fixture, &alice, 1, calls, k);
        for (int i = 0; i < 2 * PERMITS; i++) {
            call_wait(bob, &waiters[i], NAME, &options);
            fixture_wait_asleep(fixture, bob, &waiters[i]);
        }
        fixture_hold_timers(fixture);
        before = script_calls(fixture);
        move_beats(fixture, FIXTURE_DAY_MS);
        for (int i = 0; i < PERMITS; i++)
            call_release(alice, &calls[i]);
        rlock_flush(alice);
        for (int i = 0; i < PERMITS; i++)
            await_message(fixture, &waiters[i]);
        fixture_settle(fixture);
        for (int i = PERMITS; i < 2 * PERMITS; i++)
            assert_int_equal(waiters[i].answers, 0);
        /* a release, a try for each permit and message, and one in vain */
        ASSERT_NUMBER(script_calls(fixture) - before, <=, 2 + 2 * PERMITS);
        for (int i = 0; i < PERMITS; i++) {
            ASSERT_STATUS(release_to_live(fixture, bob, &waiters[i]), STATUS_OK);
            await_message(fixture, &waiters[PERMITS + i]);
        }
        for (int i = PERMITS; i < 2 * PERMITS; i++)
            ASSERT_STATUS(release(fixture, bob, &waiters[i]), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

static void test_force_release__frees_all_permits_and_wakes_as_many(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *clients[2] = {fixture_client(fixture), fixture_client(fixture)};

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, RLOCK_WAIT_FOREVER);
        struct call calls[PERMITS] = {0}, waiters[PERMITS + 1] = {0};
        unsigned granted = 0;
        struct answer answer = {0};

        take_all(fixture, &alice, 1, calls, k);
        for (int i = 0; i <= PERMITS; i++) {
            call_wait(clients[i % 2], &waiters[i], NAME, &options);
            fixture_wait_asleep(fixture, clients[i % 2], &waiters[i]);
        }
        fixture_hold_timers(fixture);
        move_beats(fixture, FIXTURE_DAY_MS);
        ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_OK);
        while (granted < PERMITS) {
            fixture_run_for(fixture, 1);
            granted = 0;
            for (int i = 0; i <= PERMITS; i++)
                granted += waiters[i].answers;
        }
        fixture_settle(fixture);
        assert_int_equal(server_int(fixture->server, "ZCARD " NAME), PERMITS);
        for (int i = 0; i < PERMITS; i++)
            ASSERT_STATUS(release(fixture, alice, &calls[i]), STATUS_LOST);
        ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_OK);
        for (int i = 0; i <= PERMITS; i++)
            fixture_wait_answers(fixture, &waiters[i], 1);
        ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_OK);
        ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_NOT_FOUND);
        for (int i = 0; i <= PERMITS; i++)
            ASSERT_STATUS(release(fixture, clients[i % 2], &waiters[i]), STATUS_LOST);
        assert_nothing_left(fixture);
    }
}

static void test_fair__serves_in_order_of_arrival_and_lets_nobody_overtake(void **state)
{
    enum { WAITERS = 8, CLIENTS = 3 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[CLIENTS];
    struct rlock_acquire_options options = for_permit(1, RLOCK_WAIT_FOREVER);
    struct rlock_acquire_options once = for_permit(1, 0);
    struct call calls[PERMITS + WAITERS] = {0}, hasty = {0};

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    take_all(fixture, clients, 1, calls, 1);
    for (int i = PERMITS; i < PERMITS + WAITERS; i++) {
        call_wait(clients[i % CLIENTS], &calls[i], NAME, &options);
        fixture_wait_asleep(fixture, clients[i % CLIENTS], &calls[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        struct rlock_client *owner = clients[i < PERMITS ? 0 : i % CLIENTS];

        move_beats(fixture, FIXTURE_DAY_MS);
        call_release(owner, &calls[i]);
        rlock_flush(owner);
        call_acquire_with(owner, &hasty, NAME, &once);
        rlock_flush(owner);
        fixture_wait_answers(fixture, &hasty, (unsigned)i + 1);
        ASSERT_STATUS(hasty.status, STATUS_BUSY);
        fixture_wait_answers(fixture, &calls[PERMITS + i], 1);
        ASSERT_STATUS(calls[PERMITS + i].status, STATUS_OK);
        for (int j = PERMITS + i + 1; j < PERMITS + WAITERS; j++)
            assert_int_equal(calls[j].answers, 0);
    }
    for (int i = WAITERS; i < WAITERS + PERMITS; i++)
        ASSERT_STATUS(release(fixture, clients[i % CLIENTS], &calls[i]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiter__that_leaves_hands_its_turn_on(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, RLOCK_WAIT_FOREVER);
        struct call calls[PERMITS] = {0}, waiters[2] = {0};

        take_all(fixture, &alice, 1, calls, k);
        for (int i = 0; i < 2; i++) {
            call_wait(bob, &waiters[i], NAME, &options);
            fixture_wait_asleep(fixture, bob, &waiters[i]);
        }
        fixture_hold_timers(fixture);
        move_beats(fixture, FIXTURE_DAY_MS);
        end_lease(fixture, alice, &calls[0]); /* without a message */
        rlock_cancel(bob, &waiters[0].lock);
        fixture_wait_answers(fixture, &waiters[1], 1);
        ASSERT_STATUS(waiters[0].status, STATUS_CANCELLED);
        ASSERT_STATUS(waiters[1].status, STATUS_OK);
        ASSERT_STATUS(release(fixture, bob, &waiters[1]), STATUS_OK);
        ASSERT_STATUS(release(fixture, alice, &calls[1]), STATUS_OK);
        ASSERT_STATUS(release(fixture, alice, &calls[2]), STATUS_OK);
        assert_nothing_left(fixture);
    }
}

/* -- other keys -- */

/** A queue is a sorted set, too, but no semaphore. */
static void test_acquire__refuses_sorted_sets_that_are_no_semaphore(void **state)
{
    static const char *const names[] = {"a:queue", "a:beats", "a:readers", "scores"};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0};

    server_do(fixture->server, "ZADD a:queue 1 x:1");
    server_do(fixture->server, "ZADD a:beats 1 x:1");
    server_do(fixture->server, "ZADD a:readers 1 x:1");
    server_do(fixture->server, "ZADD scores 1 x");
    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call call = {0};

        for (int i = 0; i < 4; i++) {
            ASSERT_STATUS(acquire_with(fixture, client, &call, names[i], &options),
                          STATUS_REFUSED);
            ASSERT_CONTAINS(rlock_client_why(client)->text, "no lock of this kind");
            ASSERT_STATUS(inspect(fixture, client, &answer, names[i]), STATUS_REFUSED);
            ASSERT_STATUS(force(fixture, client, &answer, names[i]), STATUS_REFUSED);
            assert_int_equal(server_int(fixture->server, "ZCARD %s", names[i]), 1);
        }
        ASSERT_STATUS(acquire_with(fixture, client, &call, "b:queue", &options),
                      STATUS_REFUSED);
        assert_false(server_has(fixture->server, "b:queue"));
    }
}

/* -- crashes and processes -- */

enum { PROCESSES = 3, THREADS = 3, ROUNDS = 60, HANGS_S = 100 };

/** In memory that the processes share. */
struct shared {
    atomic_uint inside, most, failures;
    atomic_uint grants[PROCESSES];
};

struct worker {
    struct shared *shared;
    struct rlock_sync *sync;
    struct rlock_client *client;
    const struct rlock_kind *kind;
    unsigned process;
};

static void *hold_again_and_again(void *arg)
{
    const struct worker *worker = arg;
    struct shared *shared = worker->shared;
    struct rlock_acquire_options options = {.kind = worker->kind,
                                            .permits = PERMITS,
                                            .lease_ms = LEASE_MS,
                                            .wait_ms = WITHIN_MS};
    struct rlock lock = {0};

    for (int i = 0; i < ROUNDS && shared->failures == 0; i++) {
        unsigned inside, most = shared->most;

        if (rlock_sync_acquire(worker->sync, worker->client, &lock, NAME, 6, &options,
                               NULL) != STATUS_OK) {
            shared->failures++;
            break;
        }
        inside = ++shared->inside;
        while (inside > most &&
               !atomic_compare_exchange_weak(&shared->most, &most, inside))
            ;
        shared->grants[worker->process]++;
        uv_sleep(1);
        shared->inside--;
        if (rlock_sync_release(worker->sync, worker->client, &lock, NULL) != STATUS_OK)
            shared->failures++;
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
        if (pthread_create(&threads[i], NULL, hold_again_and_again, &worker) != 0)
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

static void test_processes__never_have_more_permits_than_there_are(void **state)
{
    struct fixture *fixture = *state;

    for (int k = 0; k < KINDS; k++) {
        struct shared *shared = share();
        pid_t children[PROCESSES];

        for (unsigned i = 0; i < PROCESSES; i++) {
            children[i] = child_fork();
            if (children[i] == 0)
                run_process(
                    (struct worker){.shared = shared, .kind = kinds[k], .process = i},
                    fixture->server->unix_url);
        }
        for (int i = 0; i < PROCESSES; i++)
            assert_int_equal(child_wait(children[i]), 0);
        assert_int_equal(shared->failures, 0);
        ASSERT_BETWEEN(shared->most, 2, PERMITS);
        for (int i = 0; i < PROCESSES; i++)
            assert_int_equal(shared->grants[i], THREADS * ROUNDS);
        assert_false(server_has(fixture->server, NAME));
        munmap(shared, sizeof(*shared));
    }
}

/** Take all permits, with the watchdog, and hold them until it is killed. */
_Noreturn static void hold_until_killed(const char *url, int kind, struct shared *shared)
{
    struct rlock_client_options options = {.redis_url = url, .timeout_ms = TIMEOUT_MS};
    struct rlock_acquire_options acquire = for_permit(kind, 0);
    struct rlock locks[PERMITS] = {0};
    struct rlock_sync *sync;
    struct rlock_client *client;

    alarm(HANGS_S);
    acquire.watchdog = true;
    if (rlock_sync_start(&sync, NULL) != STATUS_OK ||
        rlock_sync_open(sync, &options, &client, NULL) != STATUS_OK)
        child_exit(1);
    for (int i = 0; i < PERMITS; i++) {
        if (rlock_sync_acquire(sync, client, &locks[i], NAME, 6, &acquire, NULL) !=
            STATUS_OK)
            child_exit(2);
        shared->inside++;
    }
    for (;;)
        pause();
}

static bool is_full(void *arg)
{
    return ((struct shared *)arg)->inside == PERMITS;
}

static void test_holder__killed_leaves_its_permits_within_their_lease(void **state)
{
    struct fixture *fixture = *state;

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct shared *shared = share();
        struct call calls[PERMITS] = {0}, more = {0};
        struct rlock_client *client;
        pid_t child = child_fork();

        if (child == 0)
            hold_until_killed(fixture->server->unix_url, k, shared);
        client = fixture_client(fixture);
        FIXTURE_AWAIT(fixture, is_full, shared);
        child_end(child);
        ASSERT_STATUS(acquire_with(fixture, client, &more, NAME, &options), STATUS_BUSY);
        server_pass_ms(fixture->server, LEASE_MS);
        take_all(fixture, &client, 1, calls, k);
        ASSERT_STATUS(acquire_with(fixture, client, &more, NAME, &options), STATUS_BUSY);
        for (int i = 0; i < PERMITS; i++)
            ASSERT_STATUS(release(fixture, client, &calls[i]), STATUS_OK);
        assert_nothing_left(fixture);
        fixture_close(fixture, client);
        munmap(shared, sizeof(*shared));
    }
}

/* -- the simpler semaphore -- */

/** A counter: INCR, and DECR if that is too many; DECR to give back. */
static bool count_up(struct fixture *fixture)
{
    if (server_int(fixture->server, "INCR counter") <= PERMITS)
        return true;
    server_do(fixture->server, "DECR counter");
    return false;
}

/** Each owner that dies takes its permit with it. */
static void test_counter__of_owners_that_died_is_full_forever(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = for_permit(UNFAIR, 0);
    struct call calls[PERMITS] = {0}, call = {0};

    for (int i = 0; i < PERMITS; i++)
        assert_true(count_up(fixture));
    take_all(fixture, &client, 1, calls, UNFAIR);
    fixture_close(fixture, client); /* all of them die */
    server_pass_ms(fixture->server, LEASE_MS);
    assert_false(count_up(fixture));
    assert_int_equal(server_int(fixture->server, "PTTL counter"), -1);
    ASSERT_STATUS(acquire_with(fixture, fixture_client(fixture), &call, NAME, &options),
                  STATUS_OK);
}

/** With a time limit, a late release gives back the permit of another. */
static void test_counter__with_an_expiry_gives_a_permit_twice(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = for_permit(UNFAIR, 0);
    struct call late[PERMITS] = {0}, calls[PERMITS] = {0}, more = {0};

    for (int i = 0; i < PERMITS; i++)
        assert_true(count_up(fixture));
    server_do(fixture->server, "PEXPIRE counter %d", LEASE_MS);
    take_all(fixture, &client, 1, late, UNFAIR);
    server_pass_ms(fixture->server, LEASE_MS);
    for (int i = 0; i < PERMITS; i++)
        assert_true(count_up(fixture));
    take_all(fixture, &client, 1, calls, UNFAIR);
    server_do(fixture->server, "DECR counter");
    ASSERT_STATUS(release(fixture, client, &late[0]), STATUS_LOST);
    assert_true(count_up(fixture)); /* more owners than permits */
    ASSERT_STATUS(acquire_with(fixture, client, &more, NAME, &options), STATUS_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__gives_as_many_permits_as_there_are),
        FIXTURE_TEST(test_acquire__in_one_batch_gives_as_many_as_there_are),
        FIXTURE_TEST(test_acquire__refuses_a_number_of_permits_that_does_not_fit),
        FIXTURE_TEST(test_acquire__with_fewer_permits_waits_for_the_others),
        FIXTURE_TEST(test_release__of_an_expired_permit_is_lost_and_frees_none),
        FIXTURE_TEST(test_waiter__gets_a_permit_when_its_lease_ends),
        FIXTURE_TEST(test_extend__sets_the_lease_of_one_permit),
        FIXTURE_TEST(test_watchdog__keeps_its_permits_and_reports_the_lost_one),
        FIXTURE_TEST(test_waiters__are_woken_by_releases_one_each),
        FIXTURE_TEST(test_force_release__frees_all_permits_and_wakes_as_many),
        FIXTURE_TEST(test_fair__serves_in_order_of_arrival_and_lets_nobody_overtake),
        FIXTURE_TEST(test_waiter__that_leaves_hands_its_turn_on),
        FIXTURE_TEST(test_acquire__refuses_sorted_sets_that_are_no_semaphore),
        FIXTURE_TEST(test_processes__never_have_more_permits_than_there_are),
        FIXTURE_TEST(test_holder__killed_leaves_its_permits_within_their_lease),
        FIXTURE_TEST(test_counter__of_owners_that_died_is_full_forever),
        FIXTURE_TEST(test_counter__with_an_expiry_gives_a_permit_twice),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
