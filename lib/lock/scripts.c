/*
 * scripts.c - puts the Lua scripts together from the files in lua/. The assembler includes these
 * files by name. The scripts need Redis 6.2 or later (redis/discovery.h).
 */
#include "lock/scripts.h"
#include "lock/rlock.h"

/* The first line of every script in a cluster. The line lets scripts publish with SPUBLISH if
   Redis is 7.0 or later. Without a cluster rlock_scripts_init() skips the line. */
#define SHARDED "KEYS.publish = redis.REDIS_VERSION_NUM and 'SPUBLISH'"

#define PART(file) ".incbin \"lib/lock/lua/" file ".lua\"\n"
#define LINE(text) ".ascii \"" text "\\n\"\n"
#define SCRIPT(name, parts)                                                              \
    extern const char rlock_script_##name[] __attribute__((visibility("hidden")));       \
    __asm__(".pushsection .rodata\nrlock_script_" #name ":\n" LINE(SHARDED) parts        \
            ".byte 0\n.popsection")

#define DRAW_FENCES(count)                                                               \
    LINE("local count = " count) PART("fence_clock") PART("draw_fences")
#define FAIR_HEAD      LINE("local beat_ms = " TEXT(RLOCK_FAIR_BEAT_MS)) PART("fair_head")
#define PERMITS        FAIR_HEAD PART("fair_join") PART("permits")
#define PERMIT_ACQUIRE DRAW_FENCES("(#ARGV - 3) / 4") PART("permit_acquire")

/* clang-format off */
SCRIPT(acquire,           DRAW_FENCES("#KEYS - 1") PART("set_one") PART("set_all") PART("acquire"));
SCRIPT(acquire_wait,      DRAW_FENCES("#KEYS - 2") PART("set_one") PART("set_all") PART("acquire_wait"));
SCRIPT(acquire_again,     LINE("local count = #KEYS - 2") PART("all_taken") PART("fence_clock") PART("draw_fences") PART("set_one") PART("set_all") PART("acquire_wait"));
SCRIPT(check,             LINE("local first, wait = 2, " TEXT(RLOCK_WAITING_MAX_MS)) PART("check"));
SCRIPT(reentrant_check,   LINE("local first = 1") PART("check"));
SCRIPT(release,           PART("release_one") PART("publish") PART("release"));
SCRIPT(renew,             PART("renew"));
SCRIPT(reentrant_acquire, LINE("local count = #KEYS - 1") PART("reentrant_taken") PART("fence_clock") PART("draw_fences") PART("reentrant_acquire"));
SCRIPT(reentrant_release, PART("publish") PART("redisson_channel") PART("reentrant_release"));
SCRIPT(reentrant_renew,   PART("reentrant_renew"));
SCRIPT(fair_acquire,      FAIR_HEAD PART("fair_join") PART("fair_take") DRAW_FENCES("(#KEYS - 1) / 3") PART("fair_acquire"));
SCRIPT(fair_release,      FAIR_HEAD PART("fair_release"));
SCRIPT(getset_acquire,    DRAW_FENCES("#KEYS - 1") PART("getset_acquire"));
SCRIPT(raise_fence,       PART("fence_clock") PART("raise_fence"));
SCRIPT(semaphore_acquire, PERMITS PART("semaphore_take") PERMIT_ACQUIRE);
SCRIPT(semaphore_release, PART("permits") PART("publish") PART("semaphore_leave") PART("permit_release"));
SCRIPT(fair_semaphore_release, PERMITS PART("fair_semaphore_leave") PART("permit_release"));
SCRIPT(read_acquire,      PERMITS PART("rw_turns") PART("rw_holds") PART("read_take") PERMIT_ACQUIRE);
SCRIPT(write_acquire,     PERMITS PART("rw_turns") PART("rw_holds") PART("write_take") PERMIT_ACQUIRE);
SCRIPT(rw_release,        PERMITS PART("rw_turns") PART("rw_leave") PART("permit_release"));
SCRIPT(permit_renew,      PART("permits") PART("permit_renew"));
SCRIPT(inspect,           PART("permits") PART("redisson_channel") PART("owners") PART("inspect"));
SCRIPT(list,              PART("permits") PART("redisson_channel") PART("owners") PART("list"));
SCRIPT(rights,            PART("rights"));
SCRIPT(force_release,     FAIR_HEAD PART("permits") PART("redisson_channel") PART("force_release"));

#define HASHES "+hget +hmget +hset +hsetnx +hincrby +hdel"
#define QUEUES "+zadd +zrem +zrange +zscore"
#define TURNS  "+zadd +zrem +zrange +zscore +zremrangebyscore +pexpireat"
#define COUNTS "+zadd +zrem +zrange +zscore +zremrangebyscore +pexpireat +zcard"

const char *const rlock_needed_rights[RLOCK_SCRIPT_COUNT] = {
    [RLOCK_SCRIPT_REENTRANT_ACQUIRE] = HASHES,
    [RLOCK_SCRIPT_FAIR_ACQUIRE]      = QUEUES,
    [RLOCK_SCRIPT_SEMAPHORE_ACQUIRE] = COUNTS,
    [RLOCK_SCRIPT_READ_ACQUIRE]      = TURNS,
    [RLOCK_SCRIPT_WRITE_ACQUIRE]     = TURNS,
    [RLOCK_SCRIPT_GETSET_ACQUIRE]    = "+setnx +getset",
    [RLOCK_SCRIPT_INSPECT]           = "+type +getrange",
    [RLOCK_SCRIPT_LIST]              = "+type +getrange +scan",
    [RLOCK_SCRIPT_FORCE]             = "+type",
};
/* clang-format on */

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT], bool is_cluster)
{
    size_t begin = is_cluster ? 0 : sizeof(SHARDED);

#define X(id, name)                                                                      \
    redis_script_init(&scripts[RLOCK_SCRIPT_##id], #name, rlock_script_##name + begin);
    RLOCK_SCRIPTS(X)
#undef X
}
