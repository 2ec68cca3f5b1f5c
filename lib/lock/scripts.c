/* scripts.c - the Lua texts. Redis 5 or later (TIME before a write). */
#include "lock/scripts.h"

/*
 * A call that is carried out when its caller has given up, by a server that hung, would
 * lock names for nobody. So it says until when, on this server's clock, it is wanted,
 * and learns that clock from each reply.
 *
 * Fences come from one counter, advanced by the number of locks before any lock is set:
 * if that is refused nothing has been changed, and the fence of the i-th lock is the
 * returned number plus i, with gaps for those that were busy. A counter that is missing
 * starts at the server's clock in microseconds, which is more than any counter before it
 * can have reached; so fences grow on after the server lost its data.
 *
 * A lock that holds our very value is a grant: the call had been carried out before.
 */
static const char acquire[] =
    "local now = redis.call('TIME')\n"
    "local clock = now[1] * 1000000 + now[2]\n"
    "if clock > ARGV[2] + 0 then return {clock} end\n"
    "local count = #KEYS - 1\n"
    "local fence = redis.call('INCRBY', KEYS[1], count)\n"
    "if fence > 9e15 then\n"
    "  return redis.error_reply('ERR the fence counter holds something else')\n"
    "end\n"
    "if fence == count then\n"
    "  fence = clock + count\n"
    "  redis.call('SET', KEYS[1], string.format('%.0f', fence))\n"
    "end\n"
    "local call, lease, verdicts = redis.pcall, ARGV[1], {}\n"
    "for i = 2, #KEYS do\n"
    "  local set = call('SET', KEYS[i], ARGV[i + 1], 'NX', 'PX', lease)\n"
    "  if set then\n"
    "    verdicts[i - 1] = set.err and 'E' or '1'\n"
    "  elseif call('GET', KEYS[i]) == ARGV[i + 1] then\n"
    "    call('PEXPIRE', KEYS[i], lease)\n"
    "    verdicts[i - 1] = '1'\n"
    "  else\n"
    "    verdicts[i - 1] = '0'\n"
    "  end\n"
    "end\n"
    "return {clock, fence - count, table.concat(verdicts)}\n";

/* A counter that came back old, from a snapshot, is moved up before anyone draws. */
static const char raise_fence[] =
    "local now = redis.call('TIME')\n"
    "local clock = now[1] * 1000000 + now[2]\n"
    "if tonumber(redis.call('GET', KEYS[1]) or 0) < clock then\n"
    "  redis.call('SET', KEYS[1], string.format('%.0f', clock))\n"
    "end\n"
    "return clock\n";

/* MGET tells nil, not an error, where a key holds another type. */
static const char release[] = "local found = redis.call('MGET', unpack(KEYS))\n"
                              "local verdicts, ours = {}, {}\n"
                              "for i = 1, #KEYS do\n"
                              "  local is_ours = found[i] == ARGV[i]\n"
                              "  verdicts[i] = is_ours and '1' or '0'\n"
                              "  if is_ours then ours[#ours + 1] = KEYS[i] end\n"
                              "end\n"
                              "if #ours > 0 then redis.call('DEL', unpack(ours)) end\n"
                              "return table.concat(verdicts)\n";

static const char renew[] =
    "local found = redis.call('MGET', unpack(KEYS))\n"
    "local verdicts = {}\n"
    "for i = 1, #KEYS do\n"
    "  local is_ours = found[i] == ARGV[i + 1]\n"
    "  verdicts[i] = is_ours and '1' or '0'\n"
    "  if is_ours then redis.call('PEXPIRE', KEYS[i], ARGV[1]) end\n"
    "end\n"
    "return table.concat(verdicts)\n";

static const char inspect[] =
    "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}\n";

static const char force[] = "return redis.call('DEL', KEYS[1])\n";

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT])
{
    redis_script_init(&scripts[RLOCK_SCRIPT_ACQUIRE], "acquire", acquire);
    redis_script_init(&scripts[RLOCK_SCRIPT_RAISE], "raise", raise_fence);
    redis_script_init(&scripts[RLOCK_SCRIPT_RELEASE], "release", release);
    redis_script_init(&scripts[RLOCK_SCRIPT_RENEW], "renew", renew);
    redis_script_init(&scripts[RLOCK_SCRIPT_INSPECT], "inspect", inspect);
    redis_script_init(&scripts[RLOCK_SCRIPT_FORCE], "force", force);
}
