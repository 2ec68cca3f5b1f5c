/* server.h - a private redis-server for tests, to be killed, stopped and restarted. */
#ifndef TEST_SERVER_H
#define TEST_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct redisReply;

struct server {
    char dir[64];
    char unix_url[96];
    char tcp_url[96];
    const char *const *options; /* more words for the command line; NULL or NULL-ended */
    struct redisContext *redis; /* of server_command() */
    struct server *older;       /* of those that are not stopped */
    /** NULL, or what is called for each command of server_command() and the like. */
    void (*on_command)(const char *command, const struct redisReply *reply);
    pid_t pid;
    uint16_t port;
    bool is_paused;
};

/** Start an empty server on loopback and on a socket; fails the test if it cannot. */
void server_start(struct server *server, const char *const *options);

/** Kill it and remove its directory. */
void server_stop(struct server *server);

/** How many servers have been started and not stopped. */
unsigned server_count(void);

/** Kill and restart the `keep` oldest servers, whatever their state, and stop the rest. */
void server_reset(unsigned keep);

/** SIGKILL, and wait until it is gone. */
void server_kill(struct server *server);

/** Start it again, empty, at the same addresses. */
void server_restart(struct server *server);

/** SIGSTOP and SIGCONT: a server that hangs. */
void server_pause(struct server *server);
void server_resume(struct server *server);
void server_resume_all(void);

/** Send a command on a connection of the test's own; free the reply with
 * freeReplyObject().
 */
struct redisReply *server_command(struct server *server, const char *format, ...);

/** The same for a reply that is of no interest, but must not be an error. */
void server_do(struct server *server, const char *format, ...);

/** The same for an integer reply. */
long long server_int(struct server *server, const char *format, ...);

/** How often it has executed the command `name`, in lower case, since it started. */
long long server_calls(struct server *server, const char *name);

/** Wait until all servers, but those paused, have answered what was sent to them. */
void server_settle(void);

/** Shorten the time to live of all keys by `ms`, as if that time had passed. */
void server_pass_ms(struct server *server, unsigned ms);

/** Whether the reply to a command without arguments is a text with these words. */
bool server_says(struct server *server, const char *command, const char *words);

/** Whether the key exists. */
bool server_has(struct server *server, const char *key);

#endif
