/* probe.h - a connection under test, its reports, and commands on it. */
#ifndef TEST_PROBE_H
#define TEST_PROBE_H

#include "redis/conn.h"
#include "test/fake.h"
#include "test/fixture.h"

struct probe {
    struct fixture *fixture;
    struct redis_conn *conn;
    struct fake *fake; /* NULL if the connection goes to a real server */
    unsigned ups, downs, closes;
    struct rlock_err why; /* the last reason for being down */
};

struct command {
    struct redis_command command;
    unsigned answers;
    enum rlock_status status;
    char text[64];
};

void probe_open(struct probe *probe, struct fixture *fixture, const char *location,
                uint32_t timeout_ms);

/** Open a connection to a fake server with this greeting; NULL: the greeting of Redis. */
void probe_open_fake(struct probe *probe, struct fixture *fixture, const char *greeting);

/** Open a connection with the timeout TIMEOUT_MS, and run the loop until it is up. */
void probe_connect(struct probe *probe, struct fixture *fixture, const char *location);
void probe_connect_fake(struct probe *probe, struct fixture *fixture);

/** Open a connection to the master of `key` in a cluster. `sibling` may be NULL. */
void probe_open_sibling(struct probe *probe, struct fixture *fixture,
                        const char *location, const char *key,
                        const struct probe *sibling);

void probe_close(struct probe *probe);

void probe_wait(struct probe *probe, const unsigned *at, unsigned wanted);

void probe_assert_why(const struct probe *probe, const char *words);

/** Write a command of one word and an argument, which may be NULL. The command is not flushed. */
MUST_CHECK enum rlock_status probe_send(struct probe *probe, struct command *command,
                                        const char *word, const char *argument);

void probe_push(struct probe *probe, struct command *command, const char *word,
                const char *argument);

void probe_command(struct probe *probe, struct command *command, const char *word,
                   const char *argument);

void probe_on_closed(void *arg);
bool probe_is_closed(void *arg);
void probe_on_done(struct redis_command *done, enum rlock_status status,
                   const struct redis_reply *reply);

#endif
