/*
 * sim_redis_scripts.c - a model of the Lua scripts in lib/lock/lua.
 *
 * Orders use only the scripts of kind plain, with and without waiting, so only these are modelled.
 * sim_script_run() fails for any other script, and for a script whose text has changed since it
 * was modelled.
 */
#include "app/test/sim/sim_redis_scripts.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOPPERS       64
#define KEYS_MAX       128
#define NAME_BYTES     64
#define VALUE_BYTES    64
#define EPOCH_US       (INT64_C(1700000000) * S) /* of the server's clock */
#define LOCK_PREFIX    "lock:order:"
#define FENCE_AHEAD_US INT64_C(3200000000000000)

struct key {
    char name[NAME_BYTES];
    size_t name_len;
    char value[VALUE_BYTES];
    size_t value_len;
    int64_t expires_us; /* by the server's clock; 0: never */
    /* of a lock: */
    int64_t user_id; /* 0: the key is no lock */
    int64_t fence;
    unsigned service;
    int64_t lease_us;
};

static struct sim_keys {
    size_t count;
    struct key keys[KEYS_MAX];
} now, saved;

static int64_t clock_ahead_us;

/* When the lock of a shopper was last deleted or found expired, by user_id % SHOPPERS. */
static int64_t free_since_us[SHOPPERS];

/* -- replies -- */

redisReply *sim_reply_text(int type, const char *text, size_t len)
{
    redisReply *reply = sim_calloc(sizeof(*reply) + len + 1);

    reply->type = type;
    reply->str = (char *)(reply + 1);
    reply->len = len;
    memcpy(reply->str, text, len);
    return reply;
}

redisReply *sim_reply_number(int64_t number)
{
    redisReply *reply = sim_calloc(sizeof(*reply));

    reply->type = REDIS_REPLY_INTEGER;
    reply->integer = number;
    return reply;
}

redisReply *sim_reply_array(size_t count)
{
    redisReply *reply = sim_calloc(sizeof(*reply) + count * sizeof(void *));

    reply->type = REDIS_REPLY_ARRAY;
    reply->elements = count;
    reply->element = (redisReply **)(void *)(reply + 1);
    return reply;
}

void sim_reply_free(redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        sim_reply_free(reply->element[i]);
    sim_free(reply);
}

/* -- keys -- */

void sim_keys_begin(void)
{
    now.count = saved.count = 0;
    memset(free_since_us, -1, sizeof(free_since_us));
    clock_ahead_us = sim_between(-5 * S, 5 * S);
}

void sim_keys_clear(void)
{
    now.count = 0;
}

static void copy_keys(struct sim_keys *to, const struct sim_keys *from)
{
    to->count = from->count;
    memcpy(to->keys, from->keys, from->count * sizeof(from->keys[0]));
}

void sim_keys_save(void)
{
    copy_keys(&saved, &now);
}

void sim_keys_restore(void)
{
    copy_keys(&now, &saved);
}

void sim_keys_step_clock(int64_t by_us)
{
    clock_ahead_us += by_us;
}

static int64_t server_us(void)
{
    return EPOCH_US + sim_now_us() + clock_ahead_us;
}

static void delete (struct key *key)
{
    int64_t expired_us = sim_now_us() + key->expires_us - server_us();

    free_since_us[key->user_id % SHOPPERS] =
        expired_us < sim_now_us() ? expired_us : sim_now_us();
    *key = now.keys[--now.count];
}

static struct key *find(struct sim_bytes name)
{
    for (size_t i = 0; i < now.count; i++) {
        struct key *key = &now.keys[i];

        if (key->name_len != name.len || memcmp(key->name, name.at, name.len) != 0)
            continue;
        if (key->expires_us == 0 || key->expires_us > server_us())
            return key;
        delete (key);
        return NULL;
    }
    return NULL;
}

static struct key *create(struct sim_bytes name)
{
    struct key *key = &now.keys[now.count++];

    if (now.count > KEYS_MAX || name.len > NAME_BYTES)
        sim_fail("too many keys in Redis, or one of %zu bytes", name.len);
    memset(key, 0, sizeof(*key));
    memcpy(key->name, name.at, name.len);
    key->name_len = name.len;
    return key;
}

static void set_value(struct key *key, struct sim_bytes value)
{
    if (value.len > VALUE_BYTES)
        sim_fail("a value of %zu bytes in Redis", value.len);
    memcpy(key->value, value.at, value.len);
    key->value_len = value.len;
}

static bool has_value(const struct key *key, struct sim_bytes value)
{
    return key->value_len == value.len && memcmp(key->value, value.at, value.len) == 0;
}

static int64_t remaining_us(const struct key *key)
{
    return key->expires_us - server_us();
}

int64_t sim_keys_held_us(int64_t user_id)
{
    for (size_t i = 0; i < now.count; i++) {
        if (now.keys[i].user_id == user_id && remaining_us(&now.keys[i]) > 0)
            return sim_now_us();
    }
    return free_since_us[user_id % SHOPPERS];
}

size_t sim_keys_count_locks(void)
{
    size_t count = 0;

    for (size_t i = 0; i < now.count; i++)
        count += now.keys[i].user_id != 0 && remaining_us(&now.keys[i]) > 0;
    return count;
}

static int64_t number_of(struct sim_bytes text)
{
    char digits[24] = "";

    if (text.len >= sizeof(digits))
        sim_fail("not a number: %.*s", (int)text.len, text.at);
    memcpy(digits, text.at, text.len);
    return strtoll(digits, NULL, 10);
}

static int64_t user_of(struct sim_bytes name)
{
    const size_t len = strlen(LOCK_PREFIX);

    if (name.len <= len || memcmp(name.at, LOCK_PREFIX, len) != 0)
        sim_fail("not the name of a lock: %.*s", (int)name.len, name.at);
    return number_of((struct sim_bytes){name.at + len, name.len - len});
}

static struct sim_bytes call_number(const struct sim_script_call *call)
{
    return call->args[call->arg_count - 1];
}

/* -- acquire -- */

/* Draws `count` fences. Returns the number before the first one. */
static int64_t draw_fences(const struct sim_script_call *call, int64_t count)
{
    struct key *key = find(call->keys[0]);
    int64_t fence = count;
    char digits[24];

    if (key != NULL)
        fence += number_of((struct sim_bytes){key->value, key->value_len});
    else
        key = create(call->keys[0]);
    if (fence <= count || fence > server_us() + FENCE_AHEAD_US)
        fence = server_us() + count;
    snprintf(digits, sizeof(digits), "%" PRId64, fence);
    set_value(key, (struct sim_bytes){digits, strlen(digits)});
    return fence - count;
}

/* Returns whether the caller holds the lock now. Otherwise `*ret_remaining_ms` is the rest of the
   lease of its owner. */
static bool take(const struct sim_script_call *call, struct sim_bytes name,
                 struct sim_bytes owner, int64_t fence, int64_t *ret_remaining_ms)
{
    struct key *key = find(name);
    int64_t lease_us = number_of(call->args[0]) * 1000;

    if (key != NULL && !has_value(key, owner)) {
        *ret_remaining_ms = remaining_us(key) / 1000;
        sim_check_busy(user_of(name), call->service);
        return false;
    }
    if (key == NULL) {
        key = create(name);
        set_value(key, owner);
    }
    key->user_id = user_of(name);
    key->fence = fence;
    key->service = call->service;
    key->lease_us = lease_us;
    key->expires_us = server_us() + lease_us;
    sim_check_granted(key->user_id, call->service, fence);
    SIM_TRACE("redis: lock of shopper %" PRId64 " granted to service %u, fence %" PRId64,
              key->user_id, call->service, fence);
    return true;
}

/* The waiting key lasts as long as its waiter may wait. */
static void keep_waiting_key(struct sim_bytes name, int64_t wait_ms)
{
    struct key *key = find(name);
    int64_t remaining_ms = key == NULL ? 0 : remaining_us(key) / 1000;

    if (wait_ms <= remaining_ms || wait_ms == 0)
        return;
    if (key == NULL)
        key = create(name);
    key->expires_us = server_us() + wait_ms * 1000;
}

static redisReply *run_acquire(const struct sim_script_call *call)
{
    bool is_waiting = call->script == RLOCK_SCRIPT_ACQUIRE_WAIT;
    size_t shared = is_waiting ? 2 : 1, stride = is_waiting ? 2 : 1;
    size_t count = call->key_count - shared;
    bool is_late = server_us() > number_of(call->args[1]);
    redisReply *reply = sim_reply_array(is_late ? 2 : is_waiting ? 5 : 4);
    redisReply *results, *numbers;
    int64_t fence, longest_ms = 0;

    reply->element[0] =
        sim_reply_text(REDIS_REPLY_STRING, call_number(call).at, call_number(call).len);
    reply->element[1] = sim_reply_number(server_us());
    if (is_late)
        return reply;
    fence = draw_fences(call, (int64_t)count);
    results = sim_reply_text(REDIS_REPLY_STRING, call->keys[0].at, count);
    numbers = sim_reply_array(count);
    for (size_t i = 0; i < count; i++) {
        int64_t number = fence + 1 + (int64_t)i;
        bool is_ours = take(call, call->keys[shared + i], call->args[2 + i * stride],
                            number, &number);

        results->str[i] = is_ours ? '1' : '0';
        numbers->element[i] = sim_reply_number(number);
        if (!is_ours && is_waiting && number_of(call->args[3 + i * 2]) > longest_ms)
            longest_ms = number_of(call->args[3 + i * 2]);
    }
    reply->element[2] = sim_reply_number(fence);
    reply->element[3] = results;
    if (is_waiting) {
        keep_waiting_key(call->keys[1], longest_ms);
        reply->element[4] = numbers;
    } else {
        sim_reply_free(numbers);
    }
    return reply;
}

/* -- release, renew, raise -- */

/* "number results" */
static redisReply *reply_results(const struct sim_script_call *call, size_t count,
                                 char **ret_results)
{
    struct sim_bytes number = call_number(call);
    redisReply *reply =
        sim_reply_text(REDIS_REPLY_STRING, call->keys[0].at, number.len + 1 + count);

    memcpy(reply->str, number.at, number.len);
    reply->str[number.len] = ' ';
    *ret_results = reply->str + number.len + 1;
    return reply;
}

static void publish(const struct sim_script_call *call, const struct key *key)
{
    char channel[NAME_BYTES + 8];

    snprintf(channel, sizeof(channel), "rlock:%.*s", (int)key->name_len, key->name);
    call->publish(channel, (struct sim_bytes){"", 0});
}

static redisReply *run_release(const struct sim_script_call *call)
{
    char *results;
    redisReply *reply = reply_results(call, call->key_count - 1, &results);
    bool is_awaited = find(call->keys[0]) != NULL;

    for (size_t i = 0; i + 1 < call->key_count; i++) {
        struct key *key = find(call->keys[i + 1]);
        bool is_ours = key != NULL && has_value(key, call->args[i]);

        results[i] = is_ours ? '1' : '0';
        if (!is_ours)
            continue;
        SIM_TRACE("redis: lock of shopper %" PRId64 " released, fence %" PRId64,
                  key->user_id, key->fence);
        sim_check_released(key->user_id, key->fence,
                           remaining_us(key) > key->lease_us / 4);
        if (is_awaited)
            publish(call, key);
        delete (key);
    }
    return reply;
}

static redisReply *run_renew(const struct sim_script_call *call)
{
    char *results;
    redisReply *reply = reply_results(call, call->key_count, &results);

    if (call->key_count > call->in_flight)
        sim_fail("service %u renews %zu locks, and has %zu orders", call->service,
                 call->key_count, call->in_flight);
    for (size_t i = 0; i < call->key_count; i++) {
        struct key *key = find(call->keys[i]);
        bool is_ours = key != NULL && has_value(key, call->args[2 * i]);

        results[i] = is_ours ? '1' : '0';
        if (is_ours)
            key->expires_us = server_us() + number_of(call->args[2 * i + 1]) * 1000;
    }
    return reply;
}

static redisReply *run_raise(const struct sim_script_call *call)
{
    struct key *key = find(call->keys[0]);
    int64_t least = number_of(call->args[0]);
    redisReply *reply = sim_reply_array(3);
    char digits[24];

    if (key == NULL)
        key = create(call->keys[0]);
    if (least < server_us() || least > server_us() + FENCE_AHEAD_US)
        least = server_us();
    if (number_of((struct sim_bytes){key->value, key->value_len}) < least) {
        snprintf(digits, sizeof(digits), "%" PRId64, least);
        set_value(key, (struct sim_bytes){digits, strlen(digits)});
    }
    reply->element[0] =
        sim_reply_text(REDIS_REPLY_STRING, call_number(call).at, call_number(call).len);
    reply->element[1] = sim_reply_number(server_us());
    reply->element[2] = sim_reply_number(server_us() + FENCE_AHEAD_US);
    return reply;
}

redisReply *sim_script_run(const struct sim_script_call *call)
{
    switch (call->script) {
    case RLOCK_SCRIPT_ACQUIRE:
    case RLOCK_SCRIPT_ACQUIRE_WAIT:
        return run_acquire(call);
    case RLOCK_SCRIPT_RELEASE:
        return run_release(call);
    case RLOCK_SCRIPT_RENEW:
        return run_renew(call);
    case RLOCK_SCRIPT_RAISE:
        return run_raise(call);
    default:
        sim_fail("the simulator has no model of script %d", call->script);
    }
}
