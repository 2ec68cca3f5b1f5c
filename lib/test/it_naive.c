/* it_naive.c - the stages before the plain lock, each failing in its known way. */
#include "base/clock.h"
#include "test/fixture.h"
#include "test/naive.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define NAME  "item:7"
#define PLAIN NULL /* in place of a stage: the plain kind */

enum outcome { FINE, DEADLOCK, TWO_HOLDERS, STALE_WRITE };

struct contender {
    struct fixture *fixture;
    const struct naive_stage *stage; /* or PLAIN */
    struct rlock_client *client;     /* for the plain kind */
    struct call call;
    const char *owner;
};

static struct contender contend(struct fixture *fixture, const struct naive_stage *stage,
                                const char *owner)
{
    return (struct contender){.fixture = fixture,
                              .stage = stage,
                              .client = stage == PLAIN ? fixture_client(fixture) : NULL,
                              .owner = owner};
}

static bool plain_take(struct contender *contender, uint32_t lease_ms)
{
    enum rlock_status status =
        acquire(contender->fixture, contender->client, &contender->call, NAME, lease_ms);

    if (status != RLOCK_OK)
        ASSERT_STATUS(status, RLOCK_BUSY);
    return status == RLOCK_OK;
}

static bool begin_take(struct contender *contender, uint32_t lease_ms)
{
    if (contender->stage == PLAIN)
        return plain_take(contender, lease_ms); /* in one step */
    return contender->stage->take(contender->fixture->server, NAME, contender->owner,
                                  lease_ms);
}

static void finish_take(struct contender *contender, uint32_t lease_ms)
{
    if (contender->stage != PLAIN && contender->stage->finish_take != NULL)
        contender->stage->finish_take(contender->fixture->server, NAME, lease_ms);
}

static bool take(struct contender *contender, uint32_t lease_ms)
{
    bool is_ours = begin_take(contender, lease_ms);

    if (is_ours)
        finish_take(contender, lease_ms);
    return is_ours;
}

static void die(struct contender *contender)
{
    if (contender->stage == PLAIN)
        fixture_close(contender->fixture, contender->client);
}

static bool begin_release(struct contender *contender)
{
    if (contender->stage == PLAIN) {
        call_release(contender->client, &contender->call);
        return true;
    }
    return contender->stage->may_release == NULL ||
           contender->stage->may_release(contender->fixture->server, NAME,
                                         contender->owner);
}

/** In all these sequences it comes too late, and the plain kind says so. */
static void finish_release(struct contender *contender)
{
    if (contender->stage != PLAIN) {
        contender->stage->release(contender->fixture->server, NAME, contender->owner);
        return;
    }
    rlock_flush(contender->client);
    fixture_wait_answers(contender->fixture, &contender->call, 2);
    ASSERT_STATUS(contender->call.status, RLOCK_LOST);
}

/** All leases of LEASE_MS end, by the server's clock and by this machine's clock. */
static void end_leases(struct fixture *fixture)
{
    server_pass_ms(fixture->server, LEASE_MS);
    clock_shift_us((LEASE_MS + 1) * 1000LL);
}

/** The holder dies; when its lease has ended, another acquires the lock. */
static enum outcome die_and_take(struct contender *alice)
{
    struct fixture *fixture = alice->fixture;
    struct contender bob = contend(fixture, alice->stage, "bob");

    die(alice);
    end_leases(fixture);
    if (take(&bob, LEASE_MS))
        return FINE;
    assert_int_equal(server_int(fixture->server, "PTTL %s", NAME), -1); /* for ever */
    return DEADLOCK;
}

static enum outcome holder_dies(struct fixture *fixture, const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");

    assert_true(take(&alice, LEASE_MS));
    return die_and_take(&alice);
}

/** Between the two steps of taking it. */
static enum outcome holder_dies_between(struct fixture *fixture,
                                        const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");

    assert_true(begin_take(&alice, LEASE_MS));
    return die_and_take(&alice);
}

/** The holder is delayed until another has the lock, then releases; a third comes. */
static enum outcome release_is_late(struct fixture *fixture,
                                    const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");
    struct contender carol = contend(fixture, stage, "carol");

    assert_true(take(&alice, LEASE_MS));
    end_leases(fixture);
    assert_true(take(&bob, LEASE_MS));
    if (begin_release(&alice))
        finish_release(&alice);
    return take(&carol, LEASE_MS) ? TWO_HOLDERS : FINE;
}

/** As before, but the holder is delayed after it has begun to release. */
static enum outcome release_is_interrupted(struct fixture *fixture,
                                           const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");
    struct contender carol = contend(fixture, stage, "carol");

    assert_true(take(&alice, LEASE_MS));
    assert_true(begin_release(&alice));
    end_leases(fixture);
    assert_true(take(&bob, LEASE_MS));
    finish_release(&alice);
    return take(&carol, LEASE_MS) ? TWO_HOLDERS : FINE;
}

/** What the lock protects; it refuses a fence older than one that it has seen. */
struct resource {
    int64_t newest_fence;
    const char *writer;
};

static void write_to(struct resource *resource, const struct contender *contender)
{
    int64_t fence = contender->stage == PLAIN ? rlock_fence(&contender->call.lock) : 0;

    if (fence < resource->newest_fence)
        return;
    resource->newest_fence = fence;
    resource->writer = contender->owner;
}

/** The holder is delayed until another has the lock and has written, then writes. */
static enum outcome write_is_late(struct fixture *fixture,
                                  const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");
    struct resource resource = {.writer = "nobody"};

    assert_true(take(&alice, LEASE_MS));
    end_leases(fixture);
    assert_true(take(&bob, LEASE_MS));
    write_to(&resource, &bob);
    write_to(&resource, &alice);
    return strcmp(resource.writer, "bob") == 0 ? FINE : STALE_WRITE;
}

/** Each sequence is run against the stage that it breaks, the next one, and plain. */
FIXTURE_CASE(test_stages__fail_in_their_known_ways)
{
    static const struct {
        enum outcome (*run)(struct fixture *fixture, const struct naive_stage *stage);
        const struct naive_stage *stage;
        enum outcome outcome;
    } cases[] = {
        {holder_dies, &naive_setnx, DEADLOCK},
        {holder_dies, &naive_setnx_expire, FINE},
        {holder_dies, PLAIN, FINE},
        {holder_dies_between, &naive_setnx_expire, DEADLOCK},
        {holder_dies_between, &naive_blind_del, FINE},
        {holder_dies_between, PLAIN, FINE},
        {release_is_late, &naive_blind_del, TWO_HOLDERS},
        {release_is_late, &naive_get_del, FINE},
        {release_is_late, PLAIN, FINE},
        {release_is_interrupted, &naive_get_del, TWO_HOLDERS},
        {release_is_interrupted, &naive_unfenced, FINE},
        {release_is_interrupted, PLAIN, FINE},
        {write_is_late, &naive_unfenced, STALE_WRITE},
        {write_is_late, PLAIN, FINE},
        {holder_dies, &naive_getset, FINE}, /* its aim */
        {release_is_late, &naive_getset, TWO_HOLDERS},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        enum outcome outcome;

        server_do(((struct fixture *)*state)->server, "DEL " NAME);
        outcome = cases[i].run(*state, cases[i].stage);
        if (outcome != cases[i].outcome)
            fail_msg("case %zu: expected outcome %d, got %d", i, (int)cases[i].outcome,
                     (int)outcome);
    }
}

/** Two find a lock that has ended; the GETSET of the loser writes its own time. */
FIXTURE_CASE(test_getset__loser_moves_the_expiry)
{
    struct server *server = ((struct fixture *)*state)->server;
    long long alice_ms = 0, bob_ms = 0, carol_ms = 0;

    server_do(server, "SET %s 1000", NAME);
    assert_false(naive_getset_look(server, NAME, 2000, LEASE_MS, &alice_ms));
    assert_false(naive_getset_look(server, NAME, 2000, 2 * LEASE_MS, &bob_ms));
    assert_int_equal(alice_ms, 1000);
    assert_int_equal(bob_ms, 1000);
    assert_true(naive_getset_take_over(server, NAME, alice_ms, 2000, LEASE_MS));
    assert_false(naive_getset_take_over(server, NAME, bob_ms, 2000, 2 * LEASE_MS));
    /* alice's lease has ended, and carol has to wait for a lease that nobody has */
    assert_false(naive_getset_look(server, NAME, 2001 + LEASE_MS, LEASE_MS, &carol_ms));
    assert_int_equal(carol_ms, 2000 + 2 * LEASE_MS);
}

FIXTURE_CASE(test_getset__clocks_that_differ_give_two_holders)
{
    struct server *server = ((struct fixture *)*state)->server;
    long long ahead_ms = 2000 + LEASE_MS,
              end_ms = 0; /* bob's clock when alice's is at 1000 */

    assert_true(naive_getset_look(server, NAME, 1000, LEASE_MS, &end_ms));
    assert_false(naive_getset_look(server, NAME, ahead_ms, LEASE_MS, &end_ms));
    ASSERT_NUMBER(end_ms, <, ahead_ms);
    assert_true(naive_getset_take_over(server, NAME, end_ms, ahead_ms, LEASE_MS));
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
