/*
 * group_fixture.h - groups of locks on five private servers, for tests.
 *
 * Each program has servers of its own; each test begins with all of them up and empty.
 */
#ifndef TEST_GROUP_FIXTURE_H
#define TEST_GROUP_FIXTURE_H

#include "lock/rlock_group.h"
#include "test/fixture.h"

#define SERVERS    5
#define GROUP_NAME "item:7" /* of the members on several servers */
#define ROUND_MS   1500     /* the most that a group waits for its members */
#define HURRY_MS   50       /* the same once the result is certain */

extern struct server servers[SERVERS];

/** A client on each server, a group, and the answers to its calls. */
struct group_fixture {
    struct fixture *fixture;
    struct rlock_client *clients[SERVERS];
    struct rlock_group *group;
    unsigned answers, losses;
    enum status status; /* of the last answer */
};

int group_start_servers(void **state); /* for the group */
int group_stop_servers(void **state);
int group_setup(void **state); /* for each test; as fixture_setup() */

/** Clients that are connected to the first `count` servers, and no group. */
void group_open(struct group_fixture *groups, struct fixture *fixture, int count);

/** The same with a group that has a member on each. */
void group_create(struct group_fixture *groups, struct fixture *fixture, int count,
                  enum rlock_group_need need);

/** A group with RLOCK_GROUP_ALL on the first server; each letter of `names` is a lock. */
void group_create_names(struct group_fixture *groups, struct fixture *fixture,
                        const char *names);

void group_free(struct group_fixture *groups);

/** Start a call; the test must run the loop. on_lost is filled in. */
void group_begin_acquire(struct group_fixture *groups,
                         struct rlock_group_options options);
void group_begin_release(struct group_fixture *groups);

/** Run the loop until the `answers`-th answer comes, which must not have come before. */
enum status group_await(struct group_fixture *groups, unsigned answers);

/** Run the loop until no command of a member is under way. */
void group_rest(struct group_fixture *groups);

/** Run the loop until at most `unanswered` members have not answered. */
void group_await_members(struct group_fixture *groups, unsigned unanswered);

/** fixture_pass_ms() when no command of a member is under way. */
void group_pass_ms(struct group_fixture *groups, unsigned ms);

/** Acquire or release, run until answered. group_acquire() is for LEASE_MS, one try. */
enum status group_acquire_with(struct group_fixture *groups,
                               struct rlock_group_options options);
enum status group_acquire(struct group_fixture *groups);
enum status group_acquire_watched(struct group_fixture *groups, uint32_t lease_ms);
enum status group_release(struct group_fixture *groups);

/** Assert that `key` exists on these servers: "101" are the first and the third of three. */
void assert_keys(const char *key, const char *wanted);

/** Run the loop until it does so for GROUP_NAME. */
void wait_keys(struct fixture *fixture, const char *wanted);

/** Lock GROUP_NAME on one server for another owner, and check that it is untouched. */
void set_foreign(int server);
void assert_foreign(int server);

/** Delete GROUP_NAME, which exists. */
void delete_key(int server);

/** Run the loop until GROUP_NAME does not exist. */
void wait_absent(struct fixture *fixture, int server);

/** Run the loop until the server has executed `command`. */
void wait_command(struct fixture *fixture, int server, const char *command);

/** Run the loop until the member is held, or is not. */
void wait_member(struct group_fixture *groups, size_t index, bool is_held);
void wait_all_members(struct group_fixture *groups);

#define GROUP_CASE(name) GUARDED_CASE(name, group_setup, fixture_teardown)

#endif
