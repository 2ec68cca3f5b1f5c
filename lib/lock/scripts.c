/* scripts.c - the Lua sources. Redis 6.2 or later (redis/discovery.h). */
#include "lock/scripts.h"
#include "lock/rlock.h"

/* clang-format off */

/*
 * If a server that hung executed a call after the caller had given up, it would lock
 * names without an owner. Therefore a call names the latest time, on the server's clock,
 * at which it may be executed; the client learns that clock from each reply.
 *
 * Fences come from one counter. It is increased by the number of locks before any lock is
 * set, so nothing has changed if that is refused. The fence of lock i is the returned
 * number plus i, with gaps for busy locks. A missing counter starts at the server's clock
 * in microseconds, which is more than any earlier counter can have reached, so fences
 * keep growing after the server lost its data.
 */
#define DRAW_FENCES(count)                                                               \
    "local now = redis.call('TIME')\n"                                                   \
    "local clock = now[1] * 1000000 + now[2]\n"                                          \
    "if clock > ARGV[2] + 0 then return {ARGV[#ARGV], clock} end\n"                      \
    "local count = " count "\n"                                                          \
    "local fence = redis.call('INCRBY', KEYS[1], count)\n"                               \
    "if fence > 9e15 then\n"                                                             \
    "  return redis.error_reply('ERR the fence key holds no fence counter')\n"         \
    "end\n"                                                                              \
    "if fence == count then\n"                                                           \
    "  fence = clock + count\n"                                                          \
    "  redis.call('SET', KEYS[1], string.format('%.0f', fence))\n"                       \
    "end\n"                                                                              \
    "fence = fence - count\n"                                                            \
    "local call, lease, results, numbers = redis.pcall, ARGV[1], {}, {}\n"

/* A lock that has our value is a grant: the call has been executed before. */
#define TRY_TO_SET                                                                       \
    "  local set = call('SET', name, owner, 'NX', 'PX', lease)\n"                        \
    "  local found = not set and call('GET', name)\n"                                    \
    "  if set then\n"                                                                    \
    "    results[i] = set.err and 'E' or '1'\n"                                          \
    "  elseif type(found) == 'table' then\n"                                             \
    "    results[i] = 'E'\n"                                                             \
    "  elseif found == owner then\n"                                                     \
    "    call('PEXPIRE', name, lease)\n"                                                 \
    "    results[i] = '1'\n"                                                             \
    "  else\n"                                                                           \
    "    results[i] = '0'\n"

static const char acquire[] =
    DRAW_FENCES("#KEYS - 1")
    "for i = 1, count do\n"
    "  local name, owner = KEYS[i + 1], ARGV[i + 2]\n"
    TRY_TO_SET
    "  end\n"
    "end\n"
    "return {ARGV[#ARGV], clock, fence, table.concat(results)}\n";

/*
 * As acquire; a caller that finds the lock busy and will wait sets the waiting key for as
 * long as it waits. A release publishes only if that key exists, so locks without waiters
 * do not pay for it.
 */
static const char acquire_wait[] =
    DRAW_FENCES("#KEYS - 2")
    "local wait = 0\n"
    "for i = 1, count do\n"
    "  local name, owner = KEYS[i + 2], ARGV[2 * i + 1]\n"
    "  numbers[i] = fence + i\n"
    TRY_TO_SET
    "    numbers[i] = call('PTTL', name)\n"
    "    wait = math.max(wait, ARGV[2 * i + 2])\n"
    "  end\n"
    "end\n"
    "if wait > math.max(0, redis.call('PTTL', KEYS[2])) then\n"
    "  redis.call('SET', KEYS[2], '', 'PX', wait)\n"
    "end\n"
    "return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}\n";

/* pcall: a user who may not publish has released the lock nevertheless, and waiters try
   again by themselves. */
#define PUBLISH                                                                          \
    "local function publish(channel, text)\n"                                            \
    "  local hearers = redis.pcall('PUBLISH', channel, text)\n"                          \
    "  return type(hearers) == 'number' and math.min(hearers, 8) + 1 or 1\n"             \
    "end\n"

/* MGET returns nil, not an error, for a key of another type. */
static const char release[] =
    PUBLISH
    "local found = redis.call('MGET', unpack(KEYS))\n"
    "local results, ours = {}, {}\n"
    "for i = 2, #KEYS do\n"
    "  local is_ours = found[i] == ARGV[i - 1]\n"
    "  results[i - 1] = is_ours and 1 or 0\n"
    "  if is_ours then ours[#ours + 1] = i end\n"
    "end\n"
    "for _, i in ipairs(ours) do redis.call('DEL', KEYS[i]) end\n"
    "for _, i in ipairs(found[1] and ours or {}) do\n"
    "  results[i - 1] = publish('rlock:' .. KEYS[i], '')\n"
    "end\n"
    "return ARGV[#ARGV] .. ' ' .. table.concat(results)\n";

static const char renew[] =
    "local found = redis.call('MGET', unpack(KEYS))\n"
    "local results = {}\n"
    "for i = 1, #KEYS do\n"
    "  local is_ours = found[i] == ARGV[2 * i - 1]\n"
    "  results[i] = is_ours and '1' or '0'\n"
    "  if is_ours then redis.call('PEXPIRE', KEYS[i], ARGV[2 * i]) end\n"
    "end\n"
    "return ARGV[#ARGV] .. ' ' .. table.concat(results)\n";

/*
 * The hash is Redisson's {holder: count}. It also has a field for each of our grants,
 * "holder:serial", so that a grant is counted once and released once even if a call is
 * repeated, and "holder:fence". Redisson reads its own field only.
 */
#define FOR_EACH_GRANT(first_key, first_arg, stride)                                     \
    "for i = 1, #KEYS - " first_key " do\n"                                              \
    "  local name = KEYS[i + " first_key "]\n"                                           \
    "  local at = " first_arg " + " stride " * (i - 1)\n"                                \
    "  local holder = ARGV[at]\n"                                                        \
    "  local grant = holder .. ':' .. ARGV[at + 1]\n"

/* The channel of kind_redisson_channel() in kinds.c. */
#define REDISSON_CHANNEL                                                                 \
    "'redisson_lock__channel:' ..\n"                                                     \
    "  (name:find('{', 1, true) and name or '{' .. name .. '}')"

static const char reentrant_acquire[] =
    DRAW_FENCES("#KEYS - 1")
    FOR_EACH_GRANT("1", "3", "2")
    "  local held = call('HGET', name, holder)\n"
    "  numbers[i] = fence + i\n"
    "  if type(held) == 'table' then\n"
    "    results[i] = 'E'\n"
    "  elseif held or call('EXISTS', name) == 0 then\n"
    "    if held then\n"
    "      numbers[i] = tonumber(call('HGET', name, holder .. ':fence')) or fence + i\n"
    "    else\n"
    "      call('HSET', name, holder .. ':fence', string.format('%.0f', fence + i))\n"
    "    end\n"
    "    if call('HSETNX', name, grant, 1) == 1 then call('HINCRBY', name, holder, 1) end\n"
    "    if call('PTTL', name) < lease + 0 then call('PEXPIRE', name, lease) end\n"
    "    results[i] = '1'\n"
    "  else\n"
    "    results[i] = '0'\n"
    "    numbers[i] = call('PTTL', name)\n"
    "  end\n"
    "end\n"
    "return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}\n";

static const char reentrant_release[] =
    PUBLISH
    "local call, results = redis.pcall, {}\n"
    FOR_EACH_GRANT("0", "1", "2")
    "  local is_ours = call('HEXISTS', name, grant) == 1\n"
    "  if is_ours then redis.call('HDEL', name, grant) end\n"
    "  results[i] = is_ours and 1 or 0\n"
    "  if is_ours and call('HINCRBY', name, holder, -1) <= 0 then\n"
    "    call('DEL', name)\n"
    "    results[i] = publish(" REDISSON_CHANNEL ", '0')\n"
    "  end\n"
    "end\n"
    "return ARGV[#ARGV] .. ' ' .. table.concat(results)\n";

static const char reentrant_renew[] =
    "local call, results = redis.pcall, {}\n"
    FOR_EACH_GRANT("0", "1", "3")
    "  local lease = ARGV[at + 2]\n"
    "  local is_ours = call('HEXISTS', name, grant) == 1\n"
    "  results[i] = is_ours and '1' or '0'\n"
    "  if is_ours and call('PTTL', name) < lease + 0 then\n"
    "    redis.call('PEXPIRE', name, lease)\n"
    "  end\n"
    "end\n"
    "return ARGV[#ARGV] .. ' ' .. table.concat(results)\n";

/*
 * The queue is a sorted set of owners by the time of their arrival on the server's clock,
 * made unique; the beats are the times, in ms, until which each counts as alive, and for
 * '' the time when a waiter was heard last. When none was heard for a while, the server
 * stood still, or all are dead: excuse() gives each of them one more patience. So the
 * keys are kept for longer than that. head() removes the dead, but never `owner`, which is
 * calling. Where the lock is free but its head has not taken it yet, the number is the
 * rest of the head's beat. A release ignores a queue key of another type; take() refuses
 * it before it changes anything.
 */
#define FAIR_HEAD                                                                        \
    "local patience = " TEXT(RLOCK_FAIR_BEAT_MS) " * 3\n"                                \
    "local function excuse(queue, beats, ms)\n"                                          \
    "  local heard = redis.call('ZSCORE', beats, '') or 0\n"                             \
    "  if heard + 0 == 0 or ms - heard < " TEXT(RLOCK_FAIR_BEAT_MS) " * 2 then return end\n" \
    "  for _, owner in ipairs(redis.call('ZRANGE', queue, 0, -1)) do\n"                  \
    "    redis.call('ZADD', beats, ms + patience, owner)\n"                              \
    "  end\n"                                                                            \
    "  redis.call('ZADD', beats, 0, '')\n"                                               \
    "end\n"                                                                              \
    "local function quit(queue, beats, owner)\n"                                         \
    "  redis.call('ZREM', queue, owner)\n"                                               \
    "  redis.call('ZREM', beats, owner)\n"                                               \
    "  if redis.call('EXISTS', queue) == 0 then redis.call('ZREM', beats, '') end\n"     \
    "end\n"                                                                              \
    "local function head(queue, beats, owner, ms)\n"                                     \
    "  excuse(queue, beats, ms)\n"                                                       \
    "  while true do\n"                                                                  \
    "    local first = redis.call('ZRANGE', queue, 0, 0)[1]\n"                           \
    "    if not first or first == owner then return first end\n"                         \
    "    local beat = redis.call('ZSCORE', beats, first)\n"                              \
    "    if beat and beat + 0 >= ms then return first end\n"                             \
    "    quit(queue, beats, first)\n"                                                    \
    "  end\n"                                                                            \
    "end\n"                                                                              \
    "local function head_if_any(queue, beats, ms)\n"                                     \
    "  local is_queue, first = pcall(head, queue, beats, '', ms)\n"                      \
    "  return is_queue and first\n"                                                      \
    "end\n"

static const char fair_acquire[] =
    FAIR_HEAD
    "local function join(queue, beats, owner, clock)\n"
    "  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2] or 0\n"
    "  local arrival = string.format('%.0f', math.max(clock, last + 1))\n"
    "  redis.call('ZADD', queue, 'NX', arrival, owner)\n"
    "  local ms = math.floor(clock / 1000)\n"
    "  redis.call('ZADD', beats, ms + patience, owner, ms, '')\n"
    "  redis.call('PEXPIRE', queue, 30000)\n"
    "  redis.call('PEXPIRE', beats, 30000)\n"
    "end\n"
    "local function take(name, queue, beats, owner, wait, lease, clock)\n"
    "  redis.call('ZCARD', beats)\n"
    "  local first = head(queue, beats, owner, math.floor(clock / 1000))\n"
    "  local found = redis.call('GET', name)\n"
    "  if found == owner or not found and (not first or first == owner) then\n"
    "    redis.call('SET', name, owner, 'PX', lease)\n"
    "    quit(queue, beats, owner)\n"
    "    return '1'\n"
    "  end\n"
    "  if wait > 0 then join(queue, beats, owner, clock) end\n"
    "  if found then return '0', redis.call('PTTL', name) end\n"
    "  return '0', redis.call('ZSCORE', beats, first) - math.floor(clock / 1000)\n"
    "end\n"
    DRAW_FENCES("(#KEYS - 1) / 3")
    "for i = 1, count do\n"
    "  local is_done, result, ttl = pcall(take, KEYS[3 * i - 1], KEYS[3 * i],\n"
    "    KEYS[3 * i + 1], ARGV[2 * i + 1], ARGV[2 * i + 2] + 0, lease, clock)\n"
    "  results[i] = is_done and result or 'E'\n"
    "  numbers[i] = is_done and ttl or fence + i\n"
    "end\n"
    "return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}\n";

/* An owner or a waiter that leaves wakes the head if the name is free. */
static const char fair_release[] =
    FAIR_HEAD
    "local now = redis.call('TIME')\n"
    "local ms = math.floor(now[1] * 1000 + now[2] / 1000)\n"
    "local function leave(name, queue, beats, owner)\n"
    "  local found = redis.pcall('GET', name)\n"
    "  if found == owner then redis.call('DEL', name) end\n"
    "  pcall(quit, queue, beats, owner)\n"
    "  if found == owner or not found then\n"
    "    local first = head_if_any(queue, beats, ms)\n"
    "    if first then redis.pcall('PUBLISH', 'rlock:' .. name, first) end\n"
    "  end\n"
    "  return found == owner and '1' or '0'\n"
    "end\n"
    "local results = {}\n"
    "for i = 1, #ARGV - 1 do\n"
    "  results[i] = leave(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[i])\n"
    "end\n"
    "return ARGV[#ARGV] .. ' ' .. table.concat(results)\n";

/* A time in ms has 13 digits since 2001; other values are not of this kind. */
static const char getset_acquire[] =
    DRAW_FENCES("#KEYS - 1")
    "for i = 1, count do\n"
    "  local name, now_ms, expiry_ms = KEYS[i + 1], ARGV[2 * i + 1], ARGV[2 * i + 2]\n"
    "  local found = call('GET', name)\n"
    "  local is_time = type(found) == 'string' and found:find('^%d+$') and #found == 13\n"
    "  local until_ms = is_time and tonumber(found)\n"
    "  numbers[i] = fence + i\n"
    "  if call('SETNX', name, expiry_ms) == 1 then\n"
    "    results[i] = '1'\n"
    "  elseif not until_ms then\n"
    "    results[i] = 'E'\n"
    "  elseif until_ms < now_ms + 0 and call('GETSET', name, expiry_ms) == found then\n"
    "    results[i] = '1'\n"
    "  else\n"
    "    results[i] = '0'\n"
    "    numbers[i] = until_ms - now_ms\n"
    "  end\n"
    "end\n"
    "return {ARGV[#ARGV], clock, fence, table.concat(results), numbers}\n";

/* A counter from an old snapshot or a lagging replica is raised. */
static const char raise_fence[] =
    "local now = redis.call('TIME')\n"
    "local clock = now[1] * 1000000 + now[2]\n"
    "local least = math.max(clock, ARGV[1])\n"
    "if tonumber(redis.call('GET', KEYS[1]) or 0) < least then\n"
    "  redis.call('SET', KEYS[1], string.format('%.0f', least))\n"
    "end\n"
    "return {ARGV[#ARGV], clock}\n";

/* The holder is the shortest field of a hash: our other fields begin with it. */
static const char inspect[] =
    "local ttl = redis.call('PTTL', KEYS[1])\n"
    "if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then\n"
    "  return {ARGV[#ARGV], redis.call('GET', KEYS[1]), ttl, 1}\n"
    "end\n"
    "local holder\n"
    "for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do\n"
    "  if not holder or #field < #holder then holder = field end\n"
    "end\n"
    "return {ARGV[#ARGV], holder, ttl, tonumber(redis.call('HGET', KEYS[1], holder)) or 0}\n";

static const char force_release[] =
    FAIR_HEAD
    "local now = redis.call('TIME')\n"
    "local name, type = KEYS[1], redis.call('TYPE', KEYS[1]).ok\n"
    "if type ~= 'none' and type ~= 'string' and type ~= 'hash' then\n"
    "  return redis.error_reply('WRONGTYPE the key holds no lock')\n"
    "end\n"
    "local deleted = redis.call('DEL', name)\n"
    "if deleted == 1 then\n"
    "  local first = head_if_any(KEYS[2], KEYS[3], math.floor(now[1] * 1000 + now[2] / 1000))\n"
    "  redis.pcall('PUBLISH', 'rlock:' .. name, first or '')\n"
    "  redis.pcall('PUBLISH', " REDISSON_CHANNEL ", '0')\n"
    "end\n"
    "return {ARGV[#ARGV], deleted}\n";

/* clang-format on */

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT])
{
#define X(id, name) redis_script_init(&scripts[RLOCK_SCRIPT_##id], #name, name);
    RLOCK_SCRIPTS(X)
#undef X
}
