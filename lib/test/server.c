/* server.c - forks redis-server with a directory of its own below /tmp. */
#include "test/server.h"
#include "test/asserts.h"
#include "test/child.h"
#include "test/port.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES 5
#define READY_MS    60000
#define WORDS_MAX   32

static struct server *newest;

static void become_server(const struct server *server)
{
    char port[8], log[96], sock[96], config[96];
    const char *argv[WORDS_MAX] = {
        "redis-server", config,      "--port",
        port,           "--bind",    "127.0.0.1",
        "--unixsocket", sock,        "--dir",
        server->dir,    "--logfile", log,
        "--save",       "",          "--enable-debug-command",
        "local",
    };
    size_t words = 16;
    int fd;

    /* A sentinel needs a file in which it keeps its state. */
    snprintf(config, sizeof(config), "%s/config", server->dir);
    fd = open(config, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
    if (fd < 0 || close(fd) != 0)
        _exit(127);
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    snprintf(sock, sizeof(sock), "%s/sock", server->dir);
    for (size_t i = 0; server->options != NULL && server->options[i] != NULL; i++)
        argv[words++] = server->options[i];
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static void fork_server(struct server *server)
{
    server->pid = child_fork();
    if (server->pid == 0)
        become_server(server);
}

static void pause_10ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void disconnect(struct server *server)
{
    if (server->redis != NULL)
        redisFree(server->redis);
    server->redis = NULL;
}

static bool wait_ready(struct server *server)
{
    char sock[96];

    snprintf(sock, sizeof(sock), "%s/sock", server->dir);
    for (int waited_ms = 0; waited_ms < READY_MS; waited_ms += 10) {
        if (child_has_ended(server->pid))
            return false;
        disconnect(server);
        server->redis = redisConnectUnix(sock);
        if (server->redis != NULL && server->redis->err == 0)
            return true;
        pause_10ms();
    }
    fail_msg("redis-server is not ready after %d ms", READY_MS);
    return false;
}

void server_restart(struct server *server)
{
    fork_server(server);
    if (!wait_ready(server))
        fail_msg("redis-server does not start again, see %s/log", server->dir);
}

void server_start(struct server *server, const char *const *options)
{
    *server = (struct server){.options = options};
    snprintf(server->dir, sizeof(server->dir), "/tmp/rlock-test.XXXXXX");
    assert_non_null(mkdtemp(server->dir));
    snprintf(server->unix_url, sizeof(server->unix_url), "unix:%s/sock", server->dir);
    for (int i = 0; i < START_TRIES; i++) {
        /* Another process may take the port before the server does. */
        server->port = port_free();
        snprintf(server->tcp_url, sizeof(server->tcp_url), "redis://127.0.0.1:%u",
                 server->port);
        fork_server(server);
        if (wait_ready(server)) {
            server->older = newest;
            newest = server;
            return;
        }
    }
    fail_msg("redis-server does not start, see %s/log", server->dir);
}

void server_kill(struct server *server)
{
    if (server->pid <= 0)
        return;
    child_end(server->pid);
    server->pid = 0;
    server->is_paused = false;
    disconnect(server);
}

static void forget(struct server *server)
{
    struct server **at = &newest;

    while (*at != server)
        at = &(*at)->older;
    *at = server->older;
}

void server_stop(struct server *server)
{
    static const char *const files[] = {"sock", "log", "config", "dump.rdb"};
    char path[128];

    server_kill(server);
    forget(server);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        snprintf(path, sizeof(path), "%s/%s", server->dir, files[i]);
        unlink(path);
    }
    rmdir(server->dir);
}

unsigned server_count(void)
{
    unsigned count = 0;

    for (const struct server *at = newest; at != NULL; at = at->older)
        count++;
    return count;
}

void server_reset(unsigned keep)
{
    for (unsigned i = server_count(); i > keep; i--)
        server_stop(newest);
    for (struct server *at = newest; at != NULL; at = at->older) {
        server_kill(at);
        server_restart(at);
    }
}

void server_pause(struct server *server)
{
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    server->is_paused = true;
}

void server_resume(struct server *server)
{
    assert_int_equal(kill(server->pid, SIGCONT), 0);
    server->is_paused = false;
}

void server_resume_all(void)
{
    for (struct server *at = newest; at != NULL; at = at->older) {
        if (at->is_paused)
            server_resume(at);
    }
}

/** Call on_command with the words of the command. A word with a space is put in quotes. */
static void report(const struct server *server, const char *format, va_list args,
                   const redisReply *reply)
{
    /* A command in the protocol of Redis: "*WORDS", and for each word "$LENGTH" and the word.
       "\r\n" ends each of them. */
    char *formatted;
    char text[512] = "";
    size_t len = 0;

    ASSERT_NUMBER(redisvFormatCommand(&formatted, format, args), >, 0);
    for (const char *at = strchr(formatted, '$'); at != NULL; at = strchr(at, '$')) {
        char *word;
        int word_len = (int)strtol(at + 1, &word, 10);
        const char *quote;

        word += 2;
        quote = memchr(word, ' ', (size_t)word_len) == NULL ? "" : "\"";
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s%.*s%s",
                                len == 0 ? "" : " ", quote, word_len, word, quote);
        ASSERT_NUMBER(len, <, sizeof(text));
        at = word + word_len;
    }
    redisFreeCommand(formatted);
    server->on_command(text, reply);
}

/** Send a command. If the server has closed the connection, as after some commands to a sentinel,
 *  connect again first. */
static redisReply *command(struct server *server, const char *format, va_list args)
{
    va_list again, reported;
    redisReply *reply;

    va_copy(again, args);
    va_copy(reported, args);
    reply = redisvCommand(server->redis, format, args);
    if (reply == NULL && redisReconnect(server->redis) == REDIS_OK)
        reply = redisvCommand(server->redis, format, again);
    if (reply == NULL)
        fail_msg("redis: %s", server->redis->errstr);
    if (server->on_command != NULL)
        report(server, format, reported, reply);
    va_end(reported);
    va_end(again);
    return reply;
}

struct redisReply *server_command(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;

    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    return reply;
}

static void fail_if_error(const redisReply *reply, const char *format)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
}

void server_do(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;

    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    fail_if_error(reply, format);
    freeReplyObject(reply);
}

long long server_int(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;
    long long value;

    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    fail_if_error(reply, format);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    value = reply->integer;
    freeReplyObject(reply);
    return value;
}

void server_settle(void)
{
    /* A server writes replies that are ready at the same time in any order. So the reply to a
       second PING comes after the replies to all earlier commands. */
    for (struct server *at = newest; at != NULL; at = at->older) {
        for (int i = 0; i < 2 && at->pid > 0 && !at->is_paused; i++)
            server_do(at, "PING");
    }
}

void server_pass_ms(struct server *server, unsigned ms)
{
    static const char script[] =
        "for _, key in ipairs(redis.call('KEYS', '*')) do "
        "  local left = redis.call('PTTL', key) "
        "  if left >= 0 then "
        "    redis.call('PEXPIRE', key, left - ARGV[1]) "
        "  end "
        "  if redis.call('TYPE', key).ok == 'zset' then "
        "    for _, owner in ipairs(redis.call('ZRANGE', key, 0, -1)) do "
        "      if owner:find(':%d+:%d+$') then "
        "        local ends = redis.call('ZSCORE', key, owner) + 0 "
        "        redis.call('ZINCRBY', key, "
        "                   ARGV[1] * (ends < 0 and 1000 or -1000), owner) "
        "      end "
        "    end "
        "  end "
        "end "
        "return 0";

    (void)server_int(server, "EVAL %s 0 %u", script, ms);
}

bool server_says(struct server *server, const char *command, const char *words)
{
    redisReply *reply = server_command(server, command);
    bool found = reply->str != NULL && strstr(reply->str, words) != NULL;

    freeReplyObject(reply);
    return found;
}

bool server_has(struct server *server, const char *key)
{
    return server_int(server, "EXISTS %s", key) == 1;
}

long long server_calls(struct server *server, const char *name)
{
    redisReply *reply = server_command(server, "INFO commandstats");
    char wanted[64];
    const char *found;
    long long calls;

    snprintf(wanted, sizeof(wanted), "cmdstat_%s:calls=", name);
    found = strstr(reply->str, wanted);
    calls = found == NULL ? 0 : strtoll(found + strlen(wanted), NULL, 10);
    freeReplyObject(reply);
    return calls;
}
