/*
 * it_kinds.c - the behaviour that all kinds of locks share, against a real Redis.
 *
 * Each test runs once for each row of `rows`. The behaviour of a single kind is tested in the it_
 * file of this kind.
 */
#include "base/clock.h"
#include "test/child.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>

/* clang-format off */
static const struct row {
    /* a lock of kind `rival` waits for the owner of a lock of `kind` */
    const struct rlock_kind *kind, *rival;
} rows[] = {
    {&rlock_plain,          &rlock_plain},
    {&rlock_cohort,         &rlock_cohort},
    {&rlock_reentrant,      &rlock_reentrant},
    {&rlock_fair,           &rlock_fair},
    {&rlock_semaphore,      &rlock_semaphore},
    {&rlock_fair_semaphore, &rlock_fair_semaphore},
    {&rlock_read,           &rlock_write},
    {&rlock_write,          &rlock_read},
    /* the last row, because it has no watchdog and no messages */
    {&rlock_getset,         &rlock_getset},
};
/* clang-format on */

enum { ROWS = sizeof(rows) / sizeof(rows[0]), WATCHED_ROWS = ROWS - 1 };

static struct rlock_acquire_options patient(const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 1, RLOCK_WAIT_FOREVER);

    if (kind == &rlock_getset) {
        options.spin_min_ms = 5;
        options.spin_max_ms = 20;
    }
    return options;
}

static enum rlock_status try(struct fixture *fixture, struct rlock_client *client,
                             struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 0, 0);

    return acquire_with(fixture, client, call, NAME, &options);
}

static enum rlock_status try_watched(struct fixture *fixture, struct rlock_client *client,
                                     struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 0, 0);

    options.watchdog = true;
    return acquire_with(fixture, client, call, NAME, &options);
}

static long long ttl_ms(struct fixture *fixture)
{
    return server_int(fixture->server, "PTTL " NAME);
}

static int64_t safe_ms(const struct call *call)
{
    return rlock_safe_for_us(&call->lock, clock_mono_us()) / 1000;
}

static void pass_ms(struct fixture *fixture, unsigned ms)
{
    server_pass_ms(fixture->server, ms);
    fixture_pass_ms(fixture, ms);
}

static void assert_nothing_left(struct fixture *fixture)
{
    assert_int_equal(server_int(fixture->server, "EXISTS " NAME " " NAME ":queue " NAME
                                                 ":beats " NAME ":readers"),
                     0);
    assert_no_channels(fixture);
}

FIXTURE_CASE(test_acquire__holds_the_lock_until_its_release)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < ROWS; i++) {
        const struct rlock_kind *kind = rows[i].kind;
        struct call held = {0}, other = {0};
        struct answer answer = {0};
        int64_t fence;

        ASSERT_STATUS(try(fixture, alice, &held, kind), RLOCK_OK);
        assert_true(rlock_is_held(&held.lock));
        fence = rlock_fence(&held.lock);
        ASSERT_NUMBER(fence, >, 0);
        ASSERT_BETWEEN(safe_ms(&held), LEASE_MS / 2, LEASE_MS * 99 / 100 - 2);
        if (kind != &rlock_getset)
            ASSERT_BETWEEN(ttl_ms(fixture), safe_ms(&held), LEASE_MS);
        ASSERT_STATUS(inspect(fixture, alice, &answer, NAME), RLOCK_OK);
        assert_int_equal(answer.count, 1);
        assert_int_equal(answer.is_ours, kind != &rlock_getset);
        ASSERT_STATUS(inspect(fixture, bob, &answer, NAME), RLOCK_OK);
        assert_false(answer.is_ours);
        /* this has no effect, because the acquire has ended */
        rlock_cancel(alice, &held.lock);
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
        assert_false(rlock_is_held(&held.lock));
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_NOT_OWNER);
        ASSERT_STATUS(inspect(fixture, alice, &answer, NAME), RLOCK_NOT_FOUND);
        ASSERT_STATUS(try(fixture, bob, &other, rows[i].rival), RLOCK_OK);
        ASSERT_NUMBER(rlock_fence(&other.lock), >, fence);
        ASSERT_STATUS(release(fixture, bob, &other), RLOCK_OK);
        assert_nothing_left(fixture);
    }
}

FIXTURE_CASE(test_acquire__of_a_lock_of_another_is_busy_and_changes_nothing)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < ROWS; i++) {
        struct rlock_acquire_options options = waiting(rows[i].rival, 1, 0);
        struct call held = {0}, other = {0}, mine = {0};
        redisReply *before, *after;

        options.lease_ms *= 2;
        ASSERT_STATUS(release(fixture, bob, &other), RLOCK_NOT_OWNER);
        ASSERT_STATUS(try(fixture, alice, &held, rows[i].kind), RLOCK_OK);
        before = server_command(fixture->server, "DUMP " NAME);
        ASSERT_STATUS(acquire_with(fixture, alice, &mine, NAME, &options), RLOCK_BUSY);
        options.holder = 0; /* the holder of the owner, but in another client */
        ASSERT_STATUS(acquire_with(fixture, bob, &other, NAME, &options), RLOCK_BUSY);
        assert_false(rlock_is_held(&other.lock));
        ASSERT_STATUS(release(fixture, bob, &other), RLOCK_NOT_OWNER);
        ASSERT_STATUS(extend(fixture, bob, &other, LEASE_MS), RLOCK_NOT_OWNER);
        rlock_release(bob, &other.lock, NULL, NULL);
        rlock_cancel(bob, &other.lock);
        after = server_command(fixture->server, "DUMP " NAME);
        assert_int_equal(before->len, after->len);
        assert_memory_equal(before->str, after->str, before->len);
        ASSERT_NUMBER(ttl_ms(fixture), <=, LEASE_MS);
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
        assert_nothing_left(fixture);
        freeReplyObject(before);
        freeReplyObject(after);
    }
}

FIXTURE_CASE(test_acquire__again_by_the_holder_of_the_lock)
{
    /* clang-format off */
    static const struct {
        const struct rlock_kind *outer, *inner;
        enum rlock_status wanted;
    } pairs[] = {
        {&rlock_plain,          &rlock_plain,          RLOCK_BUSY},
        {&rlock_cohort,         &rlock_cohort,         RLOCK_BUSY},
        {&rlock_reentrant,      &rlock_reentrant,      RLOCK_OK},
        {&rlock_fair,           &rlock_fair,           RLOCK_BUSY},
        {&rlock_semaphore,      &rlock_semaphore,      RLOCK_BUSY},
        {&rlock_fair_semaphore, &rlock_fair_semaphore, RLOCK_BUSY},
        {&rlock_read,           &rlock_read,           RLOCK_OK},
        {&rlock_read,           &rlock_write,          RLOCK_INVALID},
        {&rlock_write,          &rlock_read,           RLOCK_OK},
        {&rlock_write,          &rlock_write,          RLOCK_OK},
        {&rlock_getset,         &rlock_getset,         RLOCK_BUSY},
    };
    /* clang-format on */
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        struct rlock_acquire_options outer = waiting(pairs[i].outer, 1, 0);
        struct rlock_acquire_options inner = waiting(pairs[i].inner, 1, 0);
        struct call held = {0}, nested = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &held, NAME, &outer), RLOCK_OK);
        asserts_about("pair %zu", i);
        ASSERT_STATUS(acquire_with(fixture, client, &nested, NAME, &inner),
                      pairs[i].wanted);
        ASSERT_STATUS(release(fixture, client, &held), RLOCK_OK);
        assert_int_equal(rlock_is_held(&nested.lock), pairs[i].wanted == RLOCK_OK);
        if (pairs[i].wanted == RLOCK_OK)
            ASSERT_STATUS(release(fixture, client, &nested), RLOCK_OK);
        assert_nothing_left(fixture);
    }
}

FIXTURE_CASE(test_expiry__lets_another_in_and_the_late_owner_has_lost)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < ROWS; i++) {
        struct call held = {0}, other = {0};
        int64_t fence;

        ASSERT_STATUS(try(fixture, alice, &held, rows[i].kind), RLOCK_OK);
        fence = rlock_fence(&held.lock);
        pass_ms(fixture, LEASE_MS / 2);
        ASSERT_STATUS(try(fixture, bob, &other, rows[i].rival), RLOCK_BUSY);
        pass_ms(fixture, LEASE_MS / 2 + 100);
        ASSERT_NUMBER(safe_ms(&held), <=, 0);
        ASSERT_STATUS(try(fixture, bob, &other, rows[i].rival), RLOCK_OK);
        ASSERT_NUMBER(rlock_fence(&other.lock), >, fence);
        if (i < WATCHED_ROWS) {
            ASSERT_STATUS(extend(fixture, alice, &held, LEASE_MS), RLOCK_LOST);
            assert_false(rlock_is_held(&held.lock));
        }
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_LOST);
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_NOT_OWNER);
        assert_int_equal(held.losses, 0);
        ASSERT_STATUS(release(fixture, bob, &other), RLOCK_OK);
        assert_nothing_left(fixture);
    }
}

/* -- waiting -- */

/** Let bob wait for a lock of alice. After this no timer causes anything, and bob counts as
 *  alive. */
static void begin_wait(struct fixture *fixture, struct rlock_client *bob,
                       struct call *waiter, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = patient(kind);

    call_wait(bob, waiter, NAME, &options);
    fixture_wait_asleep(fixture, bob, waiter);
    if (kind == &rlock_getset)
        return;
    fixture_hold_timers(fixture);
    move_beats(fixture, FIXTURE_DAY_MS);
}

FIXTURE_CASE(test_waiter__is_woken_by_a_release_and_by_a_forced_one)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < 2 * ROWS; i++) {
        const struct row *row = &rows[i / 2];
        bool is_forced = i % 2 == 1;
        struct call held = {0}, waiter = {0};
        struct answer answer = {0};
        int64_t fence;

        ASSERT_STATUS(try(fixture, alice, &held, row->kind), RLOCK_OK);
        fence = rlock_fence(&held.lock);
        begin_wait(fixture, bob, &waiter, row->rival);
        if (is_forced)
            ASSERT_STATUS(force(fixture, bob, &answer, NAME), RLOCK_OK);
        else
            ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
        fixture_wait_answers(fixture, &waiter, 1);
        ASSERT_STATUS(waiter.status, RLOCK_OK);
        ASSERT_NUMBER(rlock_fence(&waiter.lock), >, fence);
        ASSERT_STATUS(release(fixture, alice, &held),
                      is_forced ? RLOCK_LOST : RLOCK_NOT_OWNER);
        ASSERT_STATUS(release(fixture, bob, &waiter), RLOCK_OK);
        ASSERT_STATUS(force(fixture, bob, &answer, NAME), RLOCK_NOT_FOUND);
        assert_nothing_left(fixture);
    }
}

FIXTURE_CASE(test_waiter__gets_the_lock_when_the_lease_of_its_owner_ends)
{
    enum { SHORT_MS = 50 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < ROWS; i++) {
        struct rlock_acquire_options options = waiting(rows[i].kind, 0, 0);
        struct rlock_acquire_options rival = patient(rows[i].rival);
        struct call held = {0}, waiter = {0};
        int64_t begin_us = clock_mono_us();

        options.lease_ms = SHORT_MS;
        ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), RLOCK_OK);
        ASSERT_STATUS(acquire_with(fixture, bob, &waiter, NAME, &rival), RLOCK_OK);
        ASSERT_NUMBER(clock_mono_us() - begin_us, >=, SHORT_MS * 1000);
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_LOST);
        ASSERT_STATUS(release(fixture, bob, &waiter), RLOCK_OK);
        assert_nothing_left(fixture);
    }
}

/** The lock becomes free without a message, so the first waiter stays asleep. When the first waiter
 *  is cancelled, the second waiter tries. */
FIXTURE_CASE(test_waiter__that_is_cancelled_hands_its_turn_on)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < WATCHED_ROWS; i++) {
        struct call held = {0}, waiters[2] = {0};

        ASSERT_STATUS(try(fixture, alice, &held, rows[i].kind), RLOCK_OK);
        for (int j = 0; j < 2; j++)
            begin_wait(fixture, bob, &waiters[j], rows[i].rival);
        (void)server_int(fixture->server, "DEL " NAME);
        rlock_cancel(bob, &waiters[0].lock);
        fixture_wait_answers(fixture, &waiters[1], 1);
        ASSERT_STATUS(waiters[0].status, RLOCK_CANCELLED);
        ASSERT_STATUS(waiters[1].status, RLOCK_OK);
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_LOST);
        ASSERT_STATUS(release(fixture, bob, &waiters[1]), RLOCK_OK);
        assert_nothing_left(fixture);
    }
}

static bool is_answered(void *arg)
{
    return ((struct call *)arg)->answers > 0;
}

FIXTURE_CASE(test_release__before_hold_min_ms_keeps_the_name_taken)
{
    enum { HOLD_MS = 60000 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = patient(&rlock_plain);
    struct call held = {0}, waiter = {0};

    options.hold_min_ms = HOLD_MS;
    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), RLOCK_OK);
    call_wait(bob, &waiter, NAME, &options);
    fixture_wait_asleep(fixture, bob, &waiter);
    ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
    ASSERT_BETWEEN(FIXTURE_SIMULATE(fixture, is_answered, &waiter), HOLD_MS / 2,
                   HOLD_MS * 3 / 2);
    ASSERT_STATUS(waiter.status, RLOCK_OK);
}

/* -- longer and shorter leases -- */

static bool is_gone(void *arg)
{
    return !server_has(((struct fixture *)arg)->server, NAME);
}

FIXTURE_CASE(test_extend__moves_the_end_of_the_lease)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < WATCHED_ROWS; i++) {
        struct rlock_acquire_options options = waiting(rows[i].kind, 0, 0);
        struct call call = {0};
        int64_t fence;

        options.lease_ms = LEASE_MS / 2;
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), RLOCK_OK);
        fence = rlock_fence(&call.lock);
        ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), RLOCK_OK);
        assert_true(rlock_is_held(&call.lock));
        assert_int_equal(rlock_fence(&call.lock), fence);
        ASSERT_BETWEEN(ttl_ms(fixture), LEASE_MS / 2, LEASE_MS);
        ASSERT_BETWEEN(safe_ms(&call), LEASE_MS / 2, ttl_ms(fixture));
        ASSERT_STATUS(extend(fixture, client, &call, RLOCK_LEASE_MS_MIN), RLOCK_OK);
        ASSERT_NUMBER(safe_ms(&call), <, RLOCK_LEASE_MS_MIN);
        if (rows[i].kind == &rlock_reentrant) { /* another grant may need the lease */
            ASSERT_NUMBER(ttl_ms(fixture), >, LEASE_MS / 2);
            ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
            continue;
        }
        ASSERT_NUMBER(ttl_ms(fixture), <=, RLOCK_LEASE_MS_MIN);
        FIXTURE_AWAIT(fixture, is_gone, fixture);
        ASSERT_STATUS(release(fixture, client, &call), RLOCK_LOST);
    }
}

FIXTURE_CASE(test_watchdog__keeps_the_lock_until_it_is_lost)
{
    enum { RENEWALS = 30 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < WATCHED_ROWS; i++) {
        struct call held = {0}, other = {0};
        struct answer answer = {0};
        uint64_t renewed;

        ASSERT_STATUS(try_watched(fixture, alice, &held, rows[i].kind), RLOCK_OK);
        for (int j = 0; j < RENEWALS; j++)
            fixture_pass_renewal(fixture, alice, LEASE_MS, 1);
        ASSERT_STATUS(try(fixture, bob, &other, rows[i].rival), RLOCK_BUSY);
        renewed = fixture_renewed(alice);
        ASSERT_STATUS(force(fixture, bob, &answer, NAME), RLOCK_OK);
        fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
        fixture_wait_losses(fixture, &held, 1);
        fixture_pass_ms(fixture, LEASE_MS);
        fixture_run_for(fixture, 20);
        assert_int_equal(held.losses, 1);
        assert_int_equal(fixture_renewed(alice), renewed);
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_LOST);
        assert_nothing_left(fixture);
    }
}

static pid_t start_holder(struct fixture *fixture, const struct rlock_kind *kind)
{
    struct rlock_client *client;
    struct call call = {0};
    pid_t child = child_fork();

    if (child > 0)
        return child;
    uv_loop_fork(&fixture->loop);
    client = fixture_client(fixture);
    ASSERT_STATUS(try_watched(fixture, client, &call, kind), RLOCK_OK);
    for (uint64_t renewed = 1;; renewed++) {
        fixture_jump_ms(fixture, LEASE_MS / 3 + 1);
        fixture_wait_renewed(fixture, client, renewed);
        fixture_run_for(fixture, 10);
    }
}

static bool is_renewed(void *arg)
{
    return ttl_ms(arg) > LEASE_MS / 2;
}

FIXTURE_CASE(test_owner__killed_leaves_the_lock_within_its_lease)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < WATCHED_ROWS; i++) {
        pid_t holder = start_holder(fixture, rows[i].kind);
        struct rlock_client *client = fixture_client(fixture);
        struct call call = {0};

        for (int j = 0; j < 2; j++) {
            FIXTURE_AWAIT(fixture, is_renewed, fixture);
            server_pass_ms(fixture->server, LEASE_MS / 2);
        }
        FIXTURE_AWAIT(fixture, is_renewed, fixture);
        ASSERT_STATUS(try(fixture, client, &call, rows[i].rival), RLOCK_BUSY);
        child_end(holder);
        server_pass_ms(fixture->server, LEASE_MS);
        ASSERT_STATUS(try(fixture, client, &call, rows[i].rival), RLOCK_OK);
        ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
        fixture_close(fixture, client); /* before the next fork */
        assert_nothing_left(fixture);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
