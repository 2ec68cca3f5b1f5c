/*
 * scripted_client.h - a client whose clock only the test moves, and whose connections record each
 * command and reply with what the test says.
 *
 * Each step of a case compares all that has happened since the last step: commands in the order in
 * which they were sent, callbacks, events, and every counter that has changed. Only one source file
 * of a program may include this header, because it defines functions that replace functions of the
 * library: those of redis/conn.h, base/random.h and base/process.h.
 */
#ifndef TEST_SCRIPTED_CLIENT_H
#define TEST_SCRIPTED_CLIENT_H

#include "base/clock.h"
#include "base/random.h"
#include "lock/batch.h"
#include "lock/keys.h"
#include "redis/conn.h"
#include "test/cases.h"
#include "test/torture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX   18
#define WORDS_MAX   800
#define COMMAND_MAX 40000
#define LOCKS_MAX   140
#define START_US    5000000
#define TIMEOUT_MS  1000
#define ID          "62966561-89ab-4def-a999-0123456789ab"

/* -- in place of the C library and of the kernel -- */

static int64_t now_us;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *ret_time)
{
    (void)id; /* the clock of libuv's timers stands still, too */
    *ret_time =
        (struct timespec){.tv_sec = now_us / 1000000, .tv_nsec = now_us % 1000000 * 1000};
    return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int gethostname(char *ret_name, size_t size)
{
    assert_int_equal(size, 64); /* the longest name of a host has 64 bytes */
    (void)snprintf(ret_name, size, "shop.example");
    return 0;
}

static bool has_random = true;

bool random_fill(void *ret_bytes, size_t count)
{
    static const uint64_t bytes[] = {0x23456789abcdef, 0xa6640123456789ab};

    assert_int_equal(count, sizeof(bytes));
    memcpy(ret_bytes, bytes, count);
    return has_random;
}

uint64_t random_u64(void)
{
    return 0;
}

static unsigned generation;

unsigned process_generation(void)
{
    return generation;
}

/* -- in place of redis/conn.h: commands are kept until a test replies -- */

struct redis_conn {
    struct redis_conn_options options;
    struct rlock_link pending;
    char key[REDIS_KEY_MAX + 1];
    bool is_up, is_moving, is_sharded, is_closed, is_flushed, has_memory;
    void (*closed)(void *arg);
    void *closed_arg;
    uint64_t last_number;
    const char *words[WORDS_MAX]; /* the words of the command that is being written */
    size_t count, wanted;
    char text[COMMAND_MAX];
    size_t text_len;
};

struct client_test {
    uv_loop_t loop;
    struct rlock_client *client;
    struct rlock locks[LOCKS_MAX];
    struct rlock_stats stats; /* the counters at the last step */
    long blocks;
    int fence;          /* the fence in the last reply of wait_for() */
    void (*hook)(void); /* called once, at the next answer or loss */
    bool is_closing, is_closed;
};

static struct redis_conn conns[CONNS_MAX];
static unsigned conn_count;
/* opening this connection fails; 1 is the first, 0 is none */
static unsigned refused_conn;
static struct client_test *self;
static char done[65536]; /* what has happened since the last step */
static size_t done_len;
static bool only_commands;

__attribute__((format(printf, 1, 2))) static inline void note(const char *format, ...)
{
    va_list args;

    if (only_commands)
        return;
    va_start(args, format);
    done_len += (size_t)vsnprintf(done + done_len, sizeof(done) - done_len, format, args);
    va_end(args);
    ASSERT_NUMBER(done_len, <, sizeof(done));
}

static inline const char *label_of(const struct redis_conn *conn)
{
    static char label[16];

    snprintf(label, sizeof(label), "%s%d", conn->options.on_message == NULL ? "s" : "c",
             (int)(conn - conns));
    return label;
}

enum rlock_status redis_conn_open(const struct redis_conn_options *options,
                                  struct redis_conn **ret_conn, struct rlock_err *reterr)
{
    struct redis_conn *conn = &conns[conn_count];

    if (refused_conn == conn_count + 1)
        return err_set(reterr, RLOCK_NO_MEMORY, "no memory for a connection");
    ASSERT_NUMBER(conn_count, <, CONNS_MAX);
    conn_count++;
    *conn = (struct redis_conn){.options = *options, .is_flushed = true};
    conn->has_memory = true;
    snprintf(conn->key, sizeof(conn->key), "%s", options->key);
    list_init(&conn->pending);
    note("%s open key %s, sibling %d\n", label_of(conn), conn->key,
         options->sibling == NULL ? -1 : (int)(options->sibling - conns));
    *ret_conn = conn;
    return RLOCK_OK;
}

void redis_conn_close(struct redis_conn *conn, void (*closed)(void *arg), void *arg)
{
    assert_false(conn->is_closed);
    note("%s close\n", label_of(conn));
    conn->is_closed = true;
    conn->is_up = false;
    conn->closed = closed;
    conn->closed_arg = arg;
    LIST_DRAIN(struct redis_command, command, &conn->pending, link)
        command->done(command, RLOCK_CANCELLED, NULL);
}

bool redis_conn_is_up(const struct redis_conn *conn)
{
    return conn->is_up && !conn->is_moving;
}

bool redis_conn_is_moving(const struct redis_conn *conn)
{
    return conn->is_moving;
}

void redis_conn_follow(struct redis_conn *conn, const struct redis_conn *other)
{
    note("%s follow %d\n", label_of(conn), (int)(other - conns));
}

bool redis_conn_is_cluster(const struct redis_conn *conn)
{
    return conn->options.url->topology == REDIS_CLUSTER;
}

static const char *lacked_rights = "";

const char *redis_conn_lacks(const struct redis_conn *conn UNUSED)
{
    return lacked_rights;
}

bool redis_conn_is_sharded(const struct redis_conn *conn)
{
    return conn->is_sharded;
}

uint64_t redis_conn_unique_number(struct redis_conn *conn)
{
    return ++conn->last_number;
}

void redis_conn_report_mismatch(struct redis_conn *conn)
{
    note("%s mismatch\n", label_of(conn));
}

enum rlock_status redis_conn_begin(struct redis_conn *conn, size_t count)
{
    if (!redis_conn_is_up(conn))
        return RLOCK_DOWN;
    conn->count = conn->text_len = 0;
    conn->wanted = count;
    return RLOCK_OK;
}

void redis_conn_arg(struct redis_conn *conn, const void *data, size_t len)
{
    ASSERT_NUMBER(conn->text_len + len, <, COMMAND_MAX);
    ASSERT_NUMBER(conn->count, <, WORDS_MAX);
    assert_int_equal(strnlen(data, len), len); /* no test sends a NUL */
    conn->words[conn->count++] = memcpy(conn->text + conn->text_len, data, len);
    conn->text_len += len;
    conn->text[conn->text_len++] = '\0';
}

void redis_conn_arg_uint(struct redis_conn *conn, uint64_t value)
{
    char digits[24];

    redis_conn_arg(conn, digits,
                   (size_t)snprintf(digits, 24, "%llu", (unsigned long long)value));
}

void redis_conn_arg_text(struct redis_conn *conn, const char *text)
{
    redis_conn_arg(conn, text, strlen(text));
}

/** Note the words, separated by blanks. If a word begins with the client's id, "me" is noted in
 *  place of the id. */
static inline void note_words(const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool is_mine = strncmp(words[i], ID, strlen(ID)) == 0;

        note("%s%s%s", i == 0 ? "" : " ", is_mine ? "me" : "",
             words[i] + (is_mine ? strlen(ID) : 0));
    }
}

/** Note a call of a script as "acquire(keys; arguments)", without the number of the call. */
static inline void note_script(const struct redis_conn *conn)
{
    bool has_body = strcmp(conn->words[0], "EVAL") == 0;
    size_t key_count = strtoul(conn->words[2], NULL, 10);
    const char *name = "unknown";

    for (int i = 0; i < RLOCK_SCRIPT_COUNT; i++) {
        const struct redis_script *script = &self->client->scripts[i];

        if (strcmp(has_body ? script->body : script->sha, conn->words[1]) == 0)
            name = script->name;
    }
    assert_int_equal(strtoull(conn->words[conn->count - 1], NULL, 10), conn->last_number);
    note("%s%s(", has_body ? "EVAL " : "", name);
    note_words(conn->words + 3, key_count);
    note("; ");
    note_words(conn->words + 3 + key_count, conn->count - 4 - key_count);
    note(")");
}

enum rlock_status redis_conn_end(struct redis_conn *conn, struct redis_command *command,
                                 redis_command_cb callback)
{
    bool was_quiet = only_commands;

    assert_int_equal(conn->count, conn->wanted);
    if (!conn->has_memory)
        return RLOCK_NO_MEMORY;
    only_commands = false;
    note("%s ", label_of(conn));
    if (strncmp(conn->words[0], "EVAL", 4) == 0)
        note_script(conn);
    else
        note_words(conn->words, conn->count);
    note("\n");
    only_commands = was_quiet;
    conn->is_flushed = false;
    command->conn = conn;
    command->done = callback;
    list_append(&conn->pending, &command->link);
    return RLOCK_OK;
}

enum rlock_status redis_conn_words(struct redis_conn *conn, struct redis_command *command,
                                   redis_command_cb callback, const char *const *words)
{
    (void)conn;
    (void)command;
    (void)callback;
    fail_msg("%s: not of a lock client", words[0]);
    return RLOCK_DOWN;
}

void redis_conn_flush(struct redis_conn *conn)
{
    assert_false(conn->is_closed);
    if (!conn->is_flushed)
        note("%s flush\n", label_of(conn));
    conn->is_flushed = true;
}

/* -- what a test does to a connection -- */

/** End the oldest command of a connection. If there was no reply, `reply` is NULL. */
static inline void end_command(unsigned number, enum rlock_status status,
                               const void *reply)
{
    struct redis_command *command =
        LIST_SHIFT(struct redis_command, &conns[number].pending, link);

    if (command == NULL)
        fail_msg("connection %u has no command", number);
    else
        command->done(command, status, reply);
}

/** Move the oldest command behind all commands that were sent until now. */
static inline void end_later(unsigned number)
{
    list_append(&conns[number].pending, list_shift(&conns[number].pending));
}

static inline redisReply *parse(const char *text, uint64_t call_number)
{
    redisReader *reader = redisReaderCreate();
    redisReply *reply = NULL;

    for (const char *at = text; *at != '\0'; at++) {
        char digits[24];

        snprintf(digits, sizeof(digits), "%llu", (unsigned long long)call_number);
        if (*at == '#')
            redisReaderFeed(reader, digits, strlen(digits));
        else if (*at == ' ')
            redisReaderFeed(reader, "\r\n", 2);
        else
            redisReaderFeed(reader, *at == '_' ? " " : at, 1);
    }
    redisReaderFeed(reader, "\r\n", 2);
    assert_int_equal(redisReaderGetReply(reader, (void **)&reply), REDIS_OK);
    if (reply == NULL)
        fail_msg("'%s' is no whole reply", text);
    redisReaderFree(reader);
    return reply;
}

/** Reply to the oldest command of a connection. `text` is in the Redis protocol, but a blank ends
 *  a line, '_' stands for a blank, and '#' for the number of the call. */
static inline void reply(unsigned number, const char *text)
{
    struct redis_conn *conn = &conns[number];
    struct redis_script_call *call;
    redisReply *parsed;

    if (list_is_empty(&conn->pending)) {
        fail_msg("connection %u has no command to reply \"%s\" to; since the last step "
                 "happened:\n%s",
                 number, text, done);
    }
    call = list_item(LIST_FIRST(struct redis_command, &conn->pending, link),
                     struct redis_script_call, command);
    parsed = parse(text, strchr(text, '#') != NULL ? call->number : 0);
    end_command(number, parsed->type == REDIS_REPLY_ERROR ? RLOCK_REFUSED : RLOCK_OK,
                parsed);
    freeReplyObject(parsed);
}

static inline void hear(unsigned number, const char *text)
{
    redisReply *message = parse(text, 0);

    conns[number].options.on_message((const void *)message, conns[number].options.arg);
    freeReplyObject(message);
}

static inline void go_up(unsigned number)
{
    conns[number].is_up = true;
    conns[number].is_moving = false;
    conns[number].options.on_state(true, NULL, conns[number].options.arg);
}

/** Let a connection go down. Its commands end with `status`. */
static inline void go_down(unsigned number, enum rlock_status status, const char *text)
{
    struct rlock_err why = {.status = status};

    snprintf(why.text, sizeof(why.text), "%s", text);
    conns[number].is_up = conns[number].is_moving = false;
    while (!list_is_empty(&conns[number].pending))
        end_command(number, status, NULL);
    conns[number].options.on_state(false, &why, conns[number].options.arg);
}

/* -- what a test sees of the client -- */

static inline void client_test_on_state(bool is_up, const struct rlock_err *why,
                                        void *arg)
{
    assert_ptr_equal(arg, self);
    note("state %s%s\n", is_up ? "up" : "down: ", is_up ? "" : why->text);
}

static inline void client_test_on_event(const char *name, size_t name_len,
                                        enum rlock_event event, int64_t us, void *arg)
{
    static const char *const names[] = {"granted", "busy",     "failed",
                                        "renewed", "released", "lost"};

    assert_ptr_equal(arg, self);
    note("event %s %.*s %lld\n", names[event], (int)name_len, name, (long long)us);
}

static inline void call_hook(void)
{
    void (*hook)(void) = self->hook;

    self->hook = NULL;
    if (hook != NULL)
        hook();
}

static inline void client_test_on_answer(struct rlock *lock, enum rlock_status status,
                                         void *arg)
{
    assert_ptr_equal(arg, self);
    note("%d %s", (int)(lock - self->locks), rlock_status_name(status));
    if (rlock_is_held(lock))
        note(" fence %lld safe %lld", (long long)rlock_fence(lock),
             (long long)rlock_safe_for_us(lock, now_us));
    if (status == RLOCK_INVALID || status == RLOCK_REFUSED)
        note(": %s", rlock_client_why(self->client)->text);
    note("\n");
    call_hook();
}

static inline void client_test_on_lost(struct rlock *lock, enum rlock_status status,
                                       void *arg)
{
    note("%d on_lost %s%s\n", (int)(lock - self->locks), rlock_status_name(status),
         arg == self ? "" : " with an argument of its own");
    call_hook();
}

static inline void client_test_on_closed(void *arg)
{
    assert_ptr_equal(arg, self);
    note("closed\n");
    self->is_closed = true;
}

static inline void note_change(const char *name, uint64_t before, uint64_t now)
{
    if (now != before)
        note(" %s%+lld", name, (long long)(now - before));
}

static inline void note_times(const char *name, const struct rlock_times *before,
                              const struct rlock_times *now)
{
    for (unsigned i = 0; i < RLOCK_TIME_BUCKETS; i++) {
        if (now->buckets[i] != before->buckets[i])
            note(" %s[%u]%+lld", name, i,
                 (long long)(now->buckets[i] - before->buckets[i]));
    }
    note_change(name, before->sum_us, now->sum_us);
}

/** Note the last failure with this status, if it has changed since the last step. */
static inline void note_error(enum rlock_status status)
{
    struct rlock_stats now, *before = &self->stats;

    rlock_client_stats(self->client, &now);
    if (now.errors[status].kind == before->errors[status].kind &&
        strcmp(now.errors[status].err.text, before->errors[status].err.text) == 0)
        return;
    ASSERT_STATUS(now.errors[status].err.status, status);
    note("\n%s%s '%s'", rlock_status_name(status),
         now.errors[status].kind == &rlock_plain ? ":" : " of another kind:",
         now.errors[status].err.text);
}

static inline void note_stats(void)
{
    struct rlock_stats now, *before = &self->stats;
    size_t begin = done_len;

    rlock_client_stats(self->client, &now);
    note("stats:");
    note_change("granted", before->granted, now.granted);
    note_change("busy", before->busy, now.busy);
    note_change("lost", before->lost, now.lost);
    note_change("renewed", before->renewed, now.renewed);
    note_change("released", before->released, now.released);
    note_change("failed", before->failed, now.failed);
    note_change("reconnects", before->reconnects, now.reconnects);
    note_change("fence_restarts", before->fence_restarts, now.fence_restarts);
    note_change("held", before->held, now.held);
    note_change("waiters", before->waiters, now.waiters);
    note_times("waits", &before->waits, &now.waits);
    note_times("holds", &before->holds, &now.holds);
    for (int i = 0; i <= RLOCK_NO_MEMORY; i++)
        note_error((enum rlock_status)i);
    note("\n");
    if (strcmp(done + begin, "stats:\n") == 0) {
        done[begin] = '\0';
        done_len = begin;
    }
    *before = now;
}

static inline void forget(void)
{
    done[0] = '\0';
    done_len = 0;
}

/** Forget all that has happened so far, also the changes of counters. The case does not check
 *  its preparation. */
static inline void forget_all(void)
{
    note_stats();
    forget();
}

/** Assert that exactly this has happened since the last step. */
#define EXPECT(text) expect_done(text, __FILE__, __LINE__)

static inline void expect_done(const char *text, const char *file, int line)
{
    if (self->client != NULL && !self->is_closed)
        note_stats();
    if (strcmp(done, text) != 0) {
        print_error("what happened since the last step:\n");
        asserts_print_difference(done, text);
        asserts_fail(file, line);
    }
    forget();
}

/** Run one turn of the loop. Then connections that were closed report it. */
static inline void turn(void)
{
    uv_run(&self->loop, UV_RUN_NOWAIT);
    for (unsigned i = 0; i < conn_count; i++) {
        void (*closed)(void *arg) = conns[i].closed;

        conns[i].closed = NULL;
        if (closed != NULL)
            closed(conns[i].closed_arg);
    }
}

static inline void pass_us(int64_t us)
{
    now_us += us;
    turn();
}

/* -- clients -- */

static inline struct rlock_client_options options_of(const char *url)
{
    return (struct rlock_client_options){.loop = &self->loop,
                                         .redis_url = url,
                                         .timeout_ms = TIMEOUT_MS,
                                         .on_state = client_test_on_state,
                                         .on_event = client_test_on_event,
                                         .arg = self};
}

static inline void open_client(const char *url)
{
    struct rlock_client_options options = options_of(url);
    struct rlock_err err = {0};

    if (rlock_client_open(&options, &self->client, &err) != RLOCK_OK)
        fail_msg("open: %s", err.text);
}

static inline int set_up(void **state)
{
    self = test_calloc(1, sizeof(*self));
    now_us = START_US;
    conn_count = refused_conn = generation = 0;
    has_random = true;
    lacked_rights = "";
    only_commands = false;
    self->blocks = torture_blocks();
    assert_int_equal(uv_loop_init(&self->loop), 0);
    forget();
    *state = self;
    return 0;
}

/** Set up a client that is connected and knows the clock of its server. */
static inline int set_up_client(void **state)
{
    set_up(state);
    open_client("redis://h");
    go_up(0);
    reply(0, "*3 +# :6000000 :9000000000000");
    turn();
    forget_all();
    return 0;
}

static inline int set_up_cluster(void **state)
{
    set_up(state);
    open_client("redis-cluster://h");
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        conns[i].is_sharded = true;
        go_up(i);
        reply(i, "*3 +# :6000000 :9000000000000");
    }
    turn();
    forget_all();
    return 0;
}

static inline void close_client(void)
{
    self->is_closing = true;
    rlock_client_close(self->client, client_test_on_closed, self);
}

static inline void end_all_commands(void)
{
    for (unsigned i = 0; i < conn_count; i++) {
        while (!list_is_empty(&conns[i].pending))
            end_command(i, RLOCK_IO, NULL);
    }
}

static inline int tear_down(void **state)
{
    if (asserts_failed) {
        test_free(*state);
        return 0;
    }
    if (self->client != NULL && !self->is_closing)
        close_client();
    for (int i = 0; i < 100 && (i < 3 || uv_loop_alive(&self->loop)); i++) {
        end_all_commands();
        turn();
    }
    assert_int_equal(uv_loop_close(&self->loop), 0);
    torture_expect_blocks(self->blocks);
    test_free(*state);
    return 0;
}

static inline void start_over(void **state)
{
    tear_down(state);
    set_up_client(state);
}

/* -- calls -- */

static inline void acquire(unsigned number, const char *name,
                           struct rlock_acquire_options options)
{
    options.on_lost = client_test_on_lost;
    rlock_acquire(self->client, &self->locks[number], name,
                  name == NULL ? 1 : strlen(name), &options, client_test_on_answer, self);
}

/** Options with a lease of a second: `plain` tries once, `waiting` waits for a minute. */
static const struct rlock_acquire_options plain = {.lease_ms = 1000};
static const struct rlock_acquire_options waiting = {.lease_ms = 1000, .wait_ms = 60000};

static inline void extend(unsigned number, uint32_t lease_ms)
{
    rlock_extend(self->client, &self->locks[number], lease_ms, client_test_on_answer,
                 self);
}

/** Acquire lock 0, which gets fence 101. */
static inline void acquire_first(struct rlock_acquire_options options)
{
    acquire(0, "a", options);
    rlock_flush(self->client);
    reply(0, "*4 +# :6000000 :100 +1");
    forget_all();
}

static inline void cancel(unsigned number)
{
    rlock_cancel(self->client, &self->locks[number]);
}

/** Release the lock without a callback. */
static inline void drop(unsigned number)
{
    rlock_release(self->client, &self->locks[number], NULL, NULL);
}

static inline void flush(void)
{
    rlock_flush(self->client);
}

static inline void release(unsigned number)
{
    rlock_release(self->client, &self->locks[number], client_test_on_answer, self);
}

#define EMPTY_CASE(name)   DEFINE_CASE(name, name, set_up, tear_down, NULL)
#define CLIENT_CASE(name)  DEFINE_CASE(name, name, set_up_client, tear_down, NULL)
#define CLUSTER_CASE(name) DEFINE_CASE(name, name, set_up_cluster, tear_down, NULL)

#endif
