/*
 * fixture.h - a server, a loop that the test runs, and lock clients.
 *
 * A test program has one server, which the setup of its group starts. At the start of each test the
 * server is empty and the loop is new.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include "lock/rlock.h"
#include "test/cases.h"
#include "test/server.h"

#define FIXTURE_CLIENTS_MAX 64
#define LEASE_MS            180000
#define TIMEOUT_MS          10000
#define WITHIN_MS           60000 /* a test fails if something takes longer */

struct fixture {
    struct server *server;
    uv_loop_t loop;
    uv_timer_t tick;
    struct rlock_client *clients[FIXTURE_CLIENTS_MAX];
    unsigned client_count;
    unsigned closed_count;
};

struct call {
    struct rlock lock;
    unsigned answers;
    enum rlock_status status;
    enum rlock_status statuses[4];
    unsigned losses;
};

struct answer {
    unsigned answers;
    enum rlock_status status;
    char owner[64];
    int64_t remaining_ms;
    int64_t count;
    bool is_ours;
};

int fixture_start_server(void **state);
int fixture_stop_server(void **state);
int fixture_setup(void **state); /* for each test; sets *state to a struct fixture */
int fixture_teardown(void **state);

/** Use `server`, which the setup of the group has started. fixture_start_server() calls this. */
void fixture_use_server(struct server *server);

/** Return the server of the group, which runs and is empty. */
struct server *fixture_empty_server(void);

struct rlock_client *fixture_client(struct fixture *fixture);

/** Open a client with these options. `loop` is filled in. The client need not be connected yet. */
struct rlock_client *fixture_open(struct fixture *fixture,
                                  struct rlock_client_options options);

void fixture_close(struct fixture *fixture, struct rlock_client *client);

/** Like fixture_close(), for a client of a server that hangs: the timeout of the client passes. */
void fixture_close_hung(struct fixture *fixture, struct rlock_client *client);

bool fixture_run_until(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                       unsigned within_ms);

/** Run the loop until `holds(arg)`, and fail after WITHIN_MS. */
#define FIXTURE_AWAIT(fixture, holds, arg)                                               \
    fixture_await_condition(fixture, holds, arg, #holds)
void fixture_await_condition(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                             const char *condition);

/** Run the loop for a time, to show that nothing happens in it. */
void fixture_run_for(struct fixture *fixture, unsigned ms);

/** Let `ms` pass at once for everything on the loop, as if the process had been suspended. Both
 *  clocks go forward, and the timers that are due run. Commands that were sent before count as
 *  answered in time, unless the server is paused. The keys of the servers do not expire;
 *  server_pass_ms() lets them expire. */
void fixture_pass_ms(struct fixture *fixture, unsigned ms);

/** Like fixture_pass_ms(), but wait for no server and do not run the loop. */
void fixture_jump_ms(struct fixture *fixture, unsigned ms);

/** Run the loop until `holds(arg)`, and fail after WITHIN_MS. Whenever all commands are answered,
 *  time jumps to the next timer of the loop, and the leases at the server get shorter by the same
 *  time. Returns the ms of all jumps. */
#define FIXTURE_SIMULATE(fixture, holds, arg)                                            \
    fixture_simulate(fixture, holds, arg, #holds)
unsigned fixture_simulate(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                          const char *condition);

/** Do one jump of fixture_simulate(). Before this call, all commands must have been answered. */
unsigned fixture_step(struct fixture *fixture);

/** Run the loop until all commands are answered, however busy the machine is. */
void fixture_settle(struct fixture *fixture);

/** Postpone all timers of the loop by a day, so that no timer causes what happens next. */
#define FIXTURE_DAY_MS 86400000
void fixture_hold_timers(struct fixture *fixture);

void fixture_wait_up(struct fixture *fixture, struct rlock_client *client);
void fixture_wait_down(struct fixture *fixture, struct rlock_client *client);
void fixture_wait_count(struct fixture *fixture, const unsigned *at, unsigned wanted);
void fixture_wait_answers(struct fixture *fixture, const struct call *call,
                          unsigned answers);
void fixture_wait_losses(struct fixture *fixture, const struct call *call,
                         unsigned losses);

uint64_t fixture_renewed(const struct rlock_client *client);
void fixture_wait_renewed(struct fixture *fixture, const struct rlock_client *client,
                          uint64_t wanted);

/** Let a third of a lease pass, here and at the server, and wait until `locks` leases are
 *  renewed. */
void fixture_pass_renewal(struct fixture *fixture, const struct rlock_client *client,
                          unsigned lease_ms, unsigned locks);

/** Run the loop until the call sleeps: it has found its lock busy, and its channel is
 *  subscribed. */
void fixture_wait_asleep(struct fixture *fixture, struct rlock_client *client,
                         const struct call *call);

/** Kinds whose owner excludes all others. The semaphores are among them, with one permit: see
 *  permits_of(). */
#define RENEWABLE_KINDS                                                                  \
    &rlock_plain, &rlock_reentrant, &rlock_fair, &rlock_semaphore,                       \
        &rlock_fair_semaphore, &rlock_write, &rlock_cohort

uint16_t permits_of(const struct rlock_kind *kind);

/** Start a call. The test must run the loop. call_acquire() uses no watchdog. */
void call_acquire(struct rlock_client *client, struct call *call, const char *name,
                  uint32_t lease_ms);
void call_acquire_watched(struct rlock_client *client, struct call *call,
                          const char *name, uint32_t lease_ms);
/** Start an acquire with any options. on_lost is filled in. */
void call_acquire_with(struct rlock_client *client, struct call *call, const char *name,
                       const struct rlock_acquire_options *options);
void call_extend(struct rlock_client *client, struct call *call, uint32_t lease_ms);
void call_release(struct rlock_client *client, struct call *call);

/** Start a call, flush it, and run the loop until it is answered. Return its status. */
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

#define FIXTURE_CASE(name) GUARDED_CASE(name, fixture_setup, fixture_teardown)

#endif
