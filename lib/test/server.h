/* server.h - a private redis-server for tests, which can be killed, paused and restarted. */
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
    /* more words for the command line; ends with NULL, or is NULL */
    const char *const *options;
    struct redisContext *redis; /* the connection of server_command() */
    struct server *older;       /* the next older server that is not stopped */
    /** Called for each command that the test itself sends to the server. May be NULL. */
    void (*on_command)(const char *command, const struct redisReply *reply);
    pid_t pid;
    uint16_t port;
    bool is_paused;
};

/** Start an empty server on a port of loopback and on a Unix socket. Fails the test if the server
 *  does not start. */
void server_start(struct server *server, const char *const *options);

void server_stop(struct server *server);

unsigned server_count(void);

/** Kill and restart the `keep` oldest servers, whatever their state, and stop the rest. */
void server_reset(unsigned keep);

void server_kill(struct server *server);

/** Start the server again, empty, at its old addresses. */
void server_restart(struct server *server);

/** Pause the server with SIGSTOP, so that it hangs, and resume it with SIGCONT. */
void server_pause(struct server *server);
void server_resume(struct server *server);
void server_resume_all(void);

/** Send a command on a connection of the test itself. Free the reply with freeReplyObject(). */
struct redisReply *server_command(struct server *server, const char *format, ...);

/** Send a command whose reply does not matter, but must not be an error. */
void server_do(struct server *server, const char *format, ...);

long long server_int(struct server *server, const char *format, ...);

/** Return how often the server has executed the command `name`, in lower case, since its start. */
long long server_calls(struct server *server, const char *name);

/** Wait until all servers, except paused ones, have answered the commands that were sent to
 *  them. */
void server_settle(void);

/** Shorten the time to live of all keys by `ms`, as if that time had passed. */
void server_pass_ms(struct server *server, unsigned ms);

/** Send a command without arguments. Returns whether the reply is a text that contains `words`. */
bool server_says(struct server *server, const char *command, const char *words);

bool server_has(struct server *server, const char *key);

#endif
