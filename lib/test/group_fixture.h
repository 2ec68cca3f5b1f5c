/*
 * group_fixture.h - who takes groups of locks on five private servers, for tests.
 *
 * The servers are a program's own; each test begins with all of them up and empty.
 */
#ifndef TEST_GROUP_FIXTURE_H
#define TEST_GROUP_FIXTURE_H

#include "lock/rlock_group.h"
#include "test/fixture.h"

#define SERVERS    5
#define GROUP_NAME "item:7" /* of the members on several servers */
#define QUICK_MS   700      /* within this is at once on a busy machine; < TIMEOUT_MS */

extern struct server servers[SERVERS];

/** A client on each server, a group, and what became of its calls. */
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

/** A multi-lock on the first server, of names of one letter each. */
void group_create_names(struct group_fixture *groups, struct fixture *fixture,
                        const char *names);

void group_free(struct group_fixture *groups);

/** Begin; the loop has to be run. on_lost is filled in. */
void group_begin_acquire(struct group_fixture *groups,
                         struct rlock_group_options options);
void group_begin_release(struct group_fixture *groups);

/** Run until the `answers`-th answer is there, which must not be yet. */
enum status group_await(struct group_fixture *groups, unsigned answers);

/** Acquire or release, run until answered. group_acquire() is for LEASE_MS, one try. */
enum status group_acquire_with(struct group_fixture *groups,
                               struct rlock_group_options options);
enum status group_acquire(struct group_fixture *groups);
enum status group_acquire_watched(struct group_fixture *groups, uint32_t lease_ms);
enum status group_release(struct group_fixture *groups);

/** Acquire with a wait of 600 ms, which is in vain. */
void group_acquire_busy(struct group_fixture *groups);

/** On which servers `key` is, as "101" for the first and the third of three. */
void assert_keys(const char *key, const char *wanted);

/** Another's lease of GROUP_NAME on one server, and that it is untouched. */
void set_foreign(int server);
void assert_foreign(int server);

/** Delete GROUP_NAME, which is there. */
void delete_key(int server);

/** Run until GROUP_NAME is not there. */
void wait_absent(struct fixture *fixture, int server);

/** Run until the server has carried out `command`. */
void wait_command(struct fixture *fixture, int server, const char *command);

/** Run until the member is held, or is not. */
void wait_member(struct group_fixture *groups, size_t index, bool is_held);

int64_t ms_since(int64_t begin_us);

#define GROUP_TEST(name) CASE(name, group_setup, fixture_teardown)

#endif
