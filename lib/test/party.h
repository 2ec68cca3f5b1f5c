/*
 * party.h - who takes groups of locks on five private servers, for tests.
 *
 * The servers are a program's own; each test begins with all of them up and empty.
 */
#ifndef TEST_PARTY_H
#define TEST_PARTY_H

#include "lock/rlock_group.h"
#include "test/fixture.h"

#define SERVERS    5
#define PARTY_NAME "item:7" /* of the members on several servers */
#define QUICK_MS   700      /* within this is at once on a busy machine; < TIMEOUT_MS */

extern struct server servers[SERVERS];

/** A client on each server, a group, and what became of its calls. */
struct party {
    struct fixture *fixture;
    struct rlock_client *clients[SERVERS];
    struct rlock_group *group;
    unsigned answers, losses;
    enum status status; /* of the last answer */
};

int party_start_servers(void **state); /* for the group */
int party_stop_servers(void **state);
int party_setup(void **state); /* for each test; as fixture_setup() */

/** Clients that are connected to the first `count` servers, and no group. */
void party_open(struct party *party, struct fixture *fixture, int count);

/** The same with a group that has a member on each. */
void party_make(struct party *party, struct fixture *fixture, int count,
                enum rlock_group_need need);

/** A multi-lock on the first server, of names of one letter each. */
void party_make_names(struct party *party, struct fixture *fixture, const char *names);

void party_free(struct party *party);

/** Begin; the loop has to be run. on_lost is filled in. */
void party_begin(struct party *party, struct rlock_group_options options);
void party_begin_give(struct party *party);

/** Run until the `answers`-th answer is there, which must not be yet. */
enum status party_await(struct party *party, unsigned answers);

/** Acquire or release, run until answered. party_take() is for LEASE_MS, one try. */
enum status party_take_with(struct party *party, struct rlock_group_options options);
enum status party_take(struct party *party);
enum status party_take_watched(struct party *party, uint32_t lease_ms);
enum status party_give(struct party *party);

/** Acquire with a wait of 600 ms, which is in vain. */
void party_take_in_vain(struct party *party);

/** On which servers `key` is, as "101" for the first and the third of three. */
void assert_keys(const char *key, const char *wanted);

/** Another's lease of PARTY_NAME on one server, and that it is untouched. */
void set_foreign(int server);
void assert_foreign(int server);

/** Delete PARTY_NAME, which is there. */
void delete_key(int server);

/** Run until PARTY_NAME is not there. */
void wait_absent(struct fixture *fixture, int server);

/** Run until the server has carried out `command`. */
void wait_command(struct fixture *fixture, int server, const char *command);

/** Run until the member is held, or is not. */
void wait_member(struct party *party, size_t index, bool is_held);

int64_t ms_since(int64_t begin_us);

#define PARTY_TEST(name)                                                                 \
    cmocka_unit_test_setup_teardown(name, party_setup, fixture_teardown)

#endif
