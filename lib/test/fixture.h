/*
 * fixture.h - a server, a loop that the test runs, and lock clients.
 *
 * A program has one server, which its group's setup starts. For each test the server is
 * empty and the loop is new.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include "lock/rlock.h"
#include "test/cases.h"
#include "test/server.h"

#define FIXTURE_CLIENTS_MAX 64
#define LEASE_MS            180000
#define TIMEOUT_MS          10000
#define WITHIN_MS           60000 /* a test fails when something takes longer */

struct fixture {
    struct server *server;
    uv_loop_t loop;
    uv_timer_t tick;
    struct rlock_client *clients[FIXTURE_CLIENTS_MAX];
    unsigned client_count;
    unsigned closed_count;
};

/** A call under way and how it ended. */
struct call {
    struct rlock lock;
    unsigned answers;
    enum rlock_status status;      /* of the last answer */
    enum rlock_status statuses[4]; /* of the first answers */
    unsigned losses;               /* calls of on_lost */
};

/** The answer to rlock_inspect() or rlock_force_release(). */
struct answer {
    unsigned answers;
    enum rlock_status status;
    char owner[64];
    int64_t remaining_ms;
    int64_t count;
    bool is_ours;
};

int fixture_start_server(void **state); /* for the group */
int fixture_stop_server(void **state);
int fixture_setup(void **state); /* for each test; *state becomes a struct fixture */
int fixture_teardown(void **state);

/** Use a server that the group's setup has started; fixture_start_server() does so. */
void fixture_use_server(struct server *server);

/** The group's server, which runs and is empty. */
struct server *fixture_empty_server(void);

/** A client that is connected. */
struct rlock_client *fixture_client(struct fixture *fixture);

/** A client with these options (the loop is filled in), connected or not. */
struct rlock_client *fixture_open(struct fixture *fixture,
                                  struct rlock_client_options options);

/** Close a client and wait until it is gone. */
void fixture_close(struct fixture *fixture, struct rlock_client *client);

/** The same for a client of a server that hangs: its timeout passes. */
void fixture_close_hung(struct fixture *fixture, struct rlock_client *client);

/** Run the loop until `holds(arg)`; false when that takes longer than `within_ms`. */
bool fixture_run_until(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                       unsigned within_ms);

/** Run the loop until `holds(arg)`, and fail after WITHIN_MS. */
#define FIXTURE_AWAIT(fixture, holds, arg)                                               \
    fixture_await_condition(fixture, holds, arg, #holds)
void fixture_await_condition(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                             const char *condition);

/** Run the loop for a time, to show that nothing happens in it. */
void fixture_run_for(struct fixture *fixture, unsigned ms);

/**
 * Let `ms` pass at once for everything on the loop: both clocks go forward, and the
 * timers that are due run, as when a process was suspended. Commands sent before count
 * as answered in time, unless the server is paused. The keys of the servers do not
 * expire: see server_pass_ms().
 */
void fixture_pass_ms(struct fixture *fixture, unsigned ms);

/** The same, but wait for no server and do not run the loop. */
void fixture_jump_ms(struct fixture *fixture, unsigned ms);

/**
 * Run the loop until `holds(arg)`, and fail after WITHIN_MS. Whenever all that was sent
 * is answered, time jumps to the next timer of the loop, also for the leases at the
 * server. Returns the ms of all jumps.
 */
#define FIXTURE_SIMULATE(fixture, holds, arg)                                            \
    fixture_simulate(fixture, holds, arg, #holds)
unsigned fixture_simulate(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                          const char *condition);

/** One jump of it; before it, see that nothing is on its way. */
unsigned fixture_step(struct fixture *fixture);

/** Run the loop until all that was sent is answered, however busy the machine is. */
void fixture_settle(struct fixture *fixture);

/** Postpone all timers of the loop by a day: what happens next is not caused by a timer. */
#define FIXTURE_DAY_MS 86400000
void fixture_hold_timers(struct fixture *fixture);

void fixture_wait_up(struct fixture *fixture, struct rlock_client *client);
void fixture_wait_down(struct fixture *fixture, struct rlock_client *client);
/** Run the loop until the number at `at` has reached `wanted`. */
void fixture_wait_count(struct fixture *fixture, const unsigned *at, unsigned wanted);
void fixture_wait_answers(struct fixture *fixture, const struct call *call,
                          unsigned answers);
void fixture_wait_losses(struct fixture *fixture, const struct call *call,
                         unsigned losses);

/** How many leases the client has renewed; run the loop until there are `wanted`. */
uint64_t fixture_renewed(const struct rlock_client *client);
void fixture_wait_renewed(struct fixture *fixture, const struct rlock_client *client,
                          uint64_t wanted);

/** Let a third of a lease pass, here and at the server, and have `locks` leases renewed. */
void fixture_pass_renewal(struct fixture *fixture, const struct rlock_client *client,
                          unsigned lease_ms, unsigned locks);

/** Run the loop until the call sleeps: its lock is busy and its channel subscribed. */
void fixture_wait_asleep(struct fixture *fixture, struct rlock_client *client,
                         const struct call *call);

/** Kinds of which one owner excludes all others; of a semaphore with permits_of(). */
#define RENEWABLE_KINDS                                                                  \
    &rlock_plain, &rlock_reentrant, &rlock_fair, &rlock_semaphore,                       \
        &rlock_fair_semaphore, &rlock_write, &rlock_cohort

/** One for a semaphore, none for other kinds. */
uint16_t permits_of(const struct rlock_kind *kind);

/** Start a call; the test must run the loop. call_acquire() uses no watchdog. */
void call_acquire(struct rlock_client *client, struct call *call, const char *name,
                  uint32_t lease_ms);
void call_acquire_watched(struct rlock_client *client, struct call *call,
                          const char *name, uint32_t lease_ms);
/** With any options; on_lost is filled in. */
void call_acquire_with(struct rlock_client *client, struct call *call, const char *name,
                       const struct rlock_acquire_options *options);
void call_extend(struct rlock_client *client, struct call *call, uint32_t lease_ms);
void call_release(struct rlock_client *client, struct call *call);

/** The same, flushed and run until answered. */
enum rlock_status acquire(struct fixture *fixture, struct rlock_client *client,
                          struct call *call, const char *name, uint32_t lease_ms);
enum rlock_status acquire_watched(struct fixture *fixture, struct rlock_client *client,
                                  struct call *call, const char *name, uint32_t lease_ms);
enum rlock_status acquire_with(struct fixture *fixture, struct rlock_client *client,
                               struct call *call, const char *name,
                               const struct rlock_acquire_options *options);
enum rlock_status extend(struct fixture *fixture, struct rlock_client *client,
                         struct call *call, uint32_t lease_ms);
enum rlock_status release(struct fixture *fixture, struct rlock_client *client,
                          struct call *call);
enum rlock_status inspect(struct fixture *fixture, struct rlock_client *client,
                          struct answer *answer, const char *name);
enum rlock_status force(struct fixture *fixture, struct rlock_client *client,
                        struct answer *answer, const char *name);

/** A test with the fixture around it. */
#define FIXTURE_CASE(name) GUARDED_CASE(name, fixture_setup, fixture_teardown)
#define FIXTURE_TEST(name) CASE(name, fixture_setup, fixture_teardown)

#endif
