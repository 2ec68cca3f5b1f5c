/*
 * sim_redis_scripts.c - runs the Lua scripts of clients over the simulated keys.
 *
 * The scripts are the texts that the clients send. Only the Redis commands that these scripts call
 * for orders are modelled. The reply of a script shows which locks were granted and which were
 * busy.
 */
#include "app/test/sim/sim_redis_scripts.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOPPERS    64
#define KEYS_MAX    128
#define NAME_BYTES  64
#define VALUE_BYTES 64
/* the server's clock at the simulated time 0 */
#define EPOCH_US    (INT64_C(1700000000) * S)
#define LOCK_PREFIX "lock:order:"
#define SCRIPTS_MAX 16

struct key {
    char name[NAME_BYTES];
    size_t name_len;
    char value[VALUE_BYTES];
    size_t value_len;
    int64_t expires_us; /* by the server's clock; 0: the key does not expire */
    /* members of a lock: */
    int64_t user_id; /* 0: the key is no lock */
    int64_t fence;
    int64_t lease_us;
};

struct script {
    struct redis_script text;
    int function;
    bool is_known;
};

static struct {
    lua_State *lua;
    sim_publish_cb publish;
    size_t script_count;
    struct script scripts[SCRIPTS_MAX];
} engine;

static struct sim_keys {
    size_t count;
    struct key keys[KEYS_MAX];
} now, saved;

static int64_t clock_ahead_us;

/* When the lock of a shopper was last deleted or found expired, at the index user_id % SHOPPERS. */
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

static void set_value(struct key *key, struct sim_bytes value)
{
    if (value.len > VALUE_BYTES)
        sim_fail("a value of %zu bytes in Redis", value.len);
    memcpy(key->value, value.at, value.len);
    key->value_len = value.len;
}

static int64_t remaining_us(const struct key *key)
{
    return key->expires_us - server_us();
}

int64_t sim_keys_held_us(int64_t user_id)
{
    for (size_t i = 0; i < now.count; i++) {
        int64_t left_us = remaining_us(&now.keys[i]);

        if (now.keys[i].user_id == user_id)
            return sim_now_us() + (left_us > 0 ? 0 : left_us);
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
        return 0;
    return number_of((struct sim_bytes){name.at + len, name.len - len});
}

static struct key *create(struct sim_bytes name)
{
    struct key *key = &now.keys[now.count++];

    if (now.count > KEYS_MAX || name.len > NAME_BYTES)
        sim_fail("too many keys in Redis, or one of %zu bytes", name.len);
    memset(key, 0, sizeof(*key));
    memcpy(key->name, name.at, name.len);
    key->name_len = name.len;
    key->user_id = user_of(name);
    return key;
}

/* -- commands of scripts -- */

static struct sim_bytes argument(lua_State *lua, int at)
{
    struct sim_bytes text;

    text.at = luaL_checklstring(lua, at, &text.len);
    return text;
}

static bool is_word(lua_State *lua, int at, const char *word)
{
    return lua_isstring(lua, at) && strcmp(lua_tostring(lua, at), word) == 0;
}

static void push_value(lua_State *lua, const struct key *key)
{
    if (key != NULL)
        lua_pushlstring(lua, key->value, key->value_len);
    else
        lua_pushboolean(lua, false);
}

static void expire_in_ms(struct key *key, int64_t lease_ms)
{
    key->lease_us = lease_ms * 1000;
    key->expires_us = server_us() + key->lease_us;
}

static void release(struct key *key)
{
    SIM_TRACE("redis: lock of shopper %" PRId64 " released, fence %" PRId64, key->user_id,
              key->fence);
    sim_check_released(key->user_id, key->fence, remaining_us(key) > key->lease_us / 4);
    delete (key);
}

static void run_del(lua_State *lua)
{
    int deleted = 0;

    for (int at = 2; at <= lua_gettop(lua); at++) {
        struct key *key = find(argument(lua, at));

        if (key == NULL)
            continue;
        release(key);
        deleted++;
    }
    lua_pushinteger(lua, deleted);
}

static void run_exists(lua_State *lua)
{
    int count = 0;

    for (int at = 2; at <= lua_gettop(lua); at++)
        count += find(argument(lua, at)) != NULL;
    lua_pushinteger(lua, count);
}

static void run_get(lua_State *lua)
{
    push_value(lua, find(argument(lua, 2)));
}

static void run_incrby(lua_State *lua)
{
    struct key *key = find(argument(lua, 2));
    int64_t number = number_of(argument(lua, 3));
    char digits[24];

    if (key == NULL)
        key = create(argument(lua, 2));
    number += number_of((struct sim_bytes){key->value, key->value_len});
    snprintf(digits, sizeof(digits), "%" PRId64, number);
    set_value(key, (struct sim_bytes){digits, strlen(digits)});
    lua_pushnumber(lua, (lua_Number)number);
}

static void run_mget(lua_State *lua)
{
    int last = lua_gettop(lua);

    lua_createtable(lua, last - 1, 0);
    for (int at = 2; at <= last; at++) {
        push_value(lua, find(argument(lua, at)));
        lua_rawseti(lua, -2, at - 1);
    }
}

static void run_pexpire(lua_State *lua)
{
    struct key *key = find(argument(lua, 2));
    int64_t lease_ms = number_of(argument(lua, 3));

    lua_pushinteger(lua, key != NULL);
    if (key != NULL && lease_ms == 0)
        release(key);
    else if (key != NULL)
        expire_in_ms(key, lease_ms);
}

static void run_pttl(lua_State *lua)
{
    const struct key *key = find(argument(lua, 2));

    if (key == NULL)
        lua_pushinteger(lua, -2);
    else if (key->expires_us == 0)
        lua_pushinteger(lua, -1);
    else
        lua_pushinteger(lua, (lua_Integer)(remaining_us(key) / 1000));
}

static void run_publish(lua_State *lua)
{
    size_t receivers = engine.publish(argument(lua, 2).at, argument(lua, 3));

    lua_pushinteger(lua, (lua_Integer)receivers);
}

static void run_set(lua_State *lua)
{
    struct key *key = find(argument(lua, 2));
    int at = is_word(lua, 4, "NX") ? 5 : 4;

    if (key != NULL && at == 5) {
        lua_pushboolean(lua, false);
        return;
    }
    if (key == NULL)
        key = create(argument(lua, 2));
    set_value(key, argument(lua, 3));
    key->expires_us = 0;
    if (is_word(lua, at, "PX"))
        expire_in_ms(key, number_of(argument(lua, at + 1)));
    lua_createtable(lua, 0, 1);
    lua_pushliteral(lua, "OK");
    lua_setfield(lua, -2, "ok");
}

static void run_time(lua_State *lua)
{
    lua_createtable(lua, 2, 0);
    lua_pushfstring(lua, "%d", (int)(server_us() / S));
    lua_rawseti(lua, -2, 1);
    lua_pushfstring(lua, "%d", (int)(server_us() % S));
    lua_rawseti(lua, -2, 2);
}

/* redis.call() and redis.pcall(). They do not differ, because no command fails. */
static int scripts_on_call(lua_State *lua)
{
    static const struct {
        const char *name;
        void (*run)(lua_State *lua);
    } commands[] = {
        {"DEL", run_del},         {"GET", run_get},   {"INCRBY", run_incrby},
        {"MGET", run_mget},       {"SET", run_set},   {"PEXPIRE", run_pexpire},
        {"PUBLISH", run_publish}, {"PTTL", run_pttl}, {"TIME", run_time},
        {"EXISTS", run_exists},
    };

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (is_word(lua, 1, commands[i].name)) {
            commands[i].run(lua);
            return 1;
        }
    }
    sim_fail("the simulator has no model of command %s", luaL_checkstring(lua, 1));
}

/* -- scripts -- */

void sim_scripts_begin(sim_publish_cb publish)
{
    sim_scripts_forget();
    engine.publish = publish;
    if (engine.lua != NULL)
        return;
    engine.lua = luaL_newstate();
    luaL_openlibs(engine.lua);
    lua_newtable(engine.lua);
    lua_pushcfunction(engine.lua, scripts_on_call);
    lua_setfield(engine.lua, -2, "call");
    lua_pushcfunction(engine.lua, scripts_on_call);
    lua_setfield(engine.lua, -2, "pcall");
    lua_setglobal(engine.lua, "redis");
}

void sim_scripts_forget(void)
{
    for (size_t i = 0; i < engine.script_count; i++)
        engine.scripts[i].is_known = false;
}

static struct script *compile(struct sim_bytes body)
{
    struct script *script = &engine.scripts[engine.script_count++];

    if (engine.script_count > SCRIPTS_MAX)
        sim_fail("too many scripts");
    redis_script_init(&script->text, "", strndup(body.at, body.len));
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the text is kept until the process ends
    if (luaL_loadbuffer(engine.lua, body.at, body.len, "script") != 0)
        sim_fail("%s", lua_tostring(engine.lua, -1));
    script->function = luaL_ref(engine.lua, LUA_REGISTRYINDEX);
    return script;
}

static struct script *find_script(const struct sim_script_call *call)
{
    for (size_t i = 0; i < engine.script_count; i++) {
        struct script *script = &engine.scripts[i];
        const char *text = call->is_sha ? script->text.sha : script->text.body;

        if (strlen(text) == call->script.len &&
            memcmp(text, call->script.at, call->script.len) == 0)
            return script->is_known || !call->is_sha ? script : NULL;
    }
    return call->is_sha ? NULL : compile(call->script);
}

static void set_list(const char *name, const struct sim_bytes *items, size_t count)
{
    lua_createtable(engine.lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(engine.lua, items[i].at, items[i].len);
        lua_rawseti(engine.lua, -2, (int)i + 1);
    }
    lua_setglobal(engine.lua, name);
}

static redisReply *pop_reply(void)
{
    redisReply *reply;
    size_t len;

    if (lua_type(engine.lua, -1) == LUA_TNUMBER) {
        reply = sim_reply_number((int64_t)lua_tonumber(engine.lua, -1));
    } else if (lua_type(engine.lua, -1) == LUA_TSTRING) {
        const char *text = lua_tolstring(engine.lua, -1, &len);

        reply = sim_reply_text(REDIS_REPLY_STRING, text, len);
    } else if (lua_type(engine.lua, -1) == LUA_TTABLE) {
        reply = sim_reply_array(lua_objlen(engine.lua, -1));
        for (size_t i = 0; i < reply->elements; i++) {
            lua_rawgeti(engine.lua, -1, (int)i + 1);
            reply->element[i] = pop_reply();
        }
    } else {
        sim_fail("a script returns a value of type %s", luaL_typename(engine.lua, -1));
    }
    lua_pop(engine.lua, 1);
    return reply;
}

/* Reports the locks of a reply to sim_check.c. The reply is {number, clock us, fence, results},
   with `numbers` as a fifth element in some scripts, or {number, results, numbers}. */
static void check_acquired(const struct sim_script_call *call, const redisReply *reply)
{
    const redisReply *results = reply->element[reply->elements > 3 ? 3 : 1];
    const struct sim_bytes *names = call->keys + call->key_count - results->len;

    for (size_t i = 0; i < results->len; i++) {
        struct key *key = find(names[i]);

        if (results->str[i] == '0')
            sim_check_busy(user_of(names[i]), call->service);
        if (results->str[i] != '1')
            continue;
        if (key == NULL)
            sim_fail("a lock is granted that is not in Redis");
        key->fence = reply->elements > 4 ? reply->element[4]->element[i]->integer
                                         : reply->element[2]->integer + 1 + (int64_t)i;
        sim_check_granted(key->user_id, call->service, key->fence);
        SIM_TRACE("redis: lock of shopper %" PRId64
                  " granted to service %u, fence %" PRId64,
                  key->user_id, call->service, key->fence);
    }
}

static bool is_renewal(const struct sim_script_call *call)
{
    return user_of(call->keys[0]) != 0 && number_of(call->args[1]) > 0;
}

redisReply *sim_script_run(const struct sim_script_call *call)
{
    struct script *script = find_script(call);
    redisReply *reply;

    if (script == NULL)
        return NULL;
    script->is_known = true;
    if (is_renewal(call) && call->key_count > call->in_flight)
        sim_fail("service %u renews %zu locks, and has %zu orders", call->service,
                 call->key_count, call->in_flight);
    set_list("KEYS", call->keys, call->key_count);
    set_list("ARGV", call->args, call->arg_count);
    lua_rawgeti(engine.lua, LUA_REGISTRYINDEX, script->function);
    if (lua_pcall(engine.lua, 0, 1, 0) != 0)
        sim_fail("a script fails: %s", lua_tostring(engine.lua, -1));
    reply = pop_reply();
    if (reply->type == REDIS_REPLY_ARRAY &&
        (reply->elements > 3 || reply->element[1]->type == REDIS_REPLY_STRING))
        check_acquired(call, reply);
    return reply;
}
