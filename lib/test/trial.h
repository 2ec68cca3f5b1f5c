/*
 * trial.h - Alice, whose connection has a fault, and Bob, who wants her lock.
 *
 * Time is simulated: see fixture_simulate().
 */
#ifndef TEST_TRIAL_H
#define TEST_TRIAL_H

#include "test/fixture.h"
#include "test/proxy.h"

#define NAME "item:7"

struct fault {
    const char *words;
    enum proxy_fault fault;
    enum rlock_status status; /* of the call */
};

struct trial;

struct test {
    const char *words;
    void (*run)(struct trial *trial);
    const char *command; /* whose reply has the fault */
    const struct rlock_kind *kind;
    const struct rlock_kind *his_kind; /* of Bob; NULL: the same */
    bool waits;
    enum rlock_status doubled; /* of the call when the reply comes twice */
    unsigned without;          /* faults that have no effect here, as bits */
};

struct trial {
    struct fixture *fixture;
    struct proxy *proxy;
    const struct test *test;
    const struct fault *fault;
    struct rlock_client *alice, *bob;
    struct call hers, inner, his;
    struct rlock_stats expected; /* of Alice */
};

/** The trial, on an empty server. `test` and `fault` are borrowed. */
struct trial *trial_begin(const struct test *test, const struct fault *fault);
void trial_end(struct trial *trial);

#define AWAIT(trial, holds, arg) FIXTURE_SIMULATE((trial)->fixture, holds, arg)

/** Returns the ms that this took in simulated time. */
unsigned trial_await(struct trial *trial, const unsigned *at, unsigned wanted);

/** Connect Alice, by the proxy. */
void alice_opens(struct trial *trial);

struct rlock_stats trial_stats(const struct rlock_client *client);

/** The `wanted`-th answer to Alice, not more, in time. */
enum rlock_status alice_answer(struct trial *trial, struct call *call, unsigned wanted);

/** The next one. */
enum rlock_status alice_next_answer(struct trial *trial, struct call *call);

/** For the acquires of this test. */
struct rlock_acquire_options trial_options(const struct trial *trial);

/** Expect the outcome of this acquire in the stats of Alice; returns its status. */
enum rlock_status trial_count(struct trial *trial, const struct call *call);

/** Await the answer to her acquire, and count it. */
enum rlock_status alice_tried(struct trial *trial, struct call *call);

enum rlock_status alice_acquires(struct trial *trial, struct call *call,
                                 const char *name);

enum rlock_status alice_releases(struct trial *trial, struct call *call);

/** All calls work again, on a new connection. */
void alice_recovers(struct trial *trial);

/** Alice learns the server's clock: a command that comes too late does nothing. */
void alice_warms_up(struct trial *trial);

enum rlock_status bob_tries(struct trial *trial, uint32_t lease_ms);

void bob_releases(struct trial *trial);

/** Nobody has the lock, and soon Bob has it. */
void bob_gets_it(struct trial *trial);

/** Whether anybody holds the lock; the second for AWAIT(). */
bool trial_has_lock(const struct trial *trial);
bool trial_is_locked(void *arg);

/** The proxy passes on what it has held; the server executes it. */
void trial_let_go(struct trial *trial);

void trial_assert_stats(const struct trial *trial);

/**
 * The fault happens at the next command or reply. Before a command that is to come too
 * late the server's clock goes forward, seen from here, by more than the timeout.
 */
void trial_strike(struct trial *trial);

#endif
