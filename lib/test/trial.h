/*
 * trial.h - a trial: a fault hits the connection of Alice, who has a lock, and Bob wants it, too.
 *
 * Time is simulated, see fixture_simulate().
 */
#ifndef TEST_TRIAL_H
#define TEST_TRIAL_H

#include "test/fixture.h"
#include "test/proxy.h"

#define NAME "item:7"

struct fault {
    const char *words;
    enum proxy_fault fault;
    enum rlock_status status;
};

struct trial;

struct test {
    const char *words;
    void (*run)(struct trial *trial);
    const char *command; /* the command that the fault hits, or whose reply it hits */
    const struct rlock_kind *kind;
    const struct rlock_kind *his_kind; /* the kind that Bob uses; NULL: `kind` */
    bool waits;
    enum rlock_status doubled; /* status of the call if its reply comes twice */
    /* The faults that this test leaves out, because they would test nothing. Bit n stands for
       the value n of enum proxy_fault. */
    unsigned without;
};

struct trial {
    struct fixture *fixture;
    struct proxy *proxy;
    const struct test *test;
    const struct fault *fault;
    struct rlock_client *alice, *bob;
    struct call hers, inner, his;
    struct rlock_stats expected; /* the statistics expected of Alice */
};

/** Begin a trial on an empty server. `test` and `fault` are borrowed. */
struct trial *trial_begin(const struct test *test, const struct fault *fault);
void trial_end(struct trial *trial);

#define AWAIT(trial, holds, arg) FIXTURE_SIMULATE((trial)->fixture, holds, arg)

/** Wait until the number at `at` has reached `wanted`. Returns the ms that passed in simulated
 *  time. */
unsigned trial_await(struct trial *trial, const unsigned *at, unsigned wanted);

void alice_opens(struct trial *trial);

struct rlock_stats trial_stats(const struct rlock_client *client);

/** Wait for answer number `wanted` to this call of Alice, and return the answer. Asserts that
 *  the answer comes in time, and that no other answer follows. */
enum rlock_status alice_answer(struct trial *trial, struct call *call, unsigned wanted);

enum rlock_status alice_next_answer(struct trial *trial, struct call *call);

struct rlock_acquire_options trial_options(const struct trial *trial);

enum rlock_status trial_count(struct trial *trial, const struct call *call);

enum rlock_status alice_tried(struct trial *trial, struct call *call);

enum rlock_status alice_acquires(struct trial *trial, struct call *call,
                                 const char *name);

enum rlock_status alice_releases(struct trial *trial, struct call *call);

/** Assert that the calls of Alice work again, on a new connection. */
void alice_recovers(struct trial *trial);

/** Let Alice learn the server's clock. From then on, the server does nothing if a command of hers
 *  comes too late. */
void alice_warms_up(struct trial *trial);

enum rlock_status bob_tries(struct trial *trial, uint32_t lease_ms);

void bob_releases(struct trial *trial);

/** Assert that Bob gets the lock soon, so nobody else has it. */
void bob_gets_it(struct trial *trial);

/** Whether anybody has the lock. The second function is for AWAIT(). */
bool trial_has_lock(const struct trial *trial);
bool trial_is_locked(void *arg);

/** Let the proxy pass on the commands that it has held back, and let the server execute them. */
void trial_let_go(struct trial *trial);

void trial_assert_stats(const struct trial *trial);

/** Let the fault happen at the next command or reply. If the command is to come too late, this
 *  machine's clock goes back by twice the timeout. For this client, the server's clock has then
 *  gone forward. */
void trial_strike(struct trial *trial);

#endif
