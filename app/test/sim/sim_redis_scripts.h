/* sim_redis_scripts.h - the keys of the simulated Redis, and the scripts that change them. */
#ifndef SIM_REDIS_SCRIPTS_H
#define SIM_REDIS_SCRIPTS_H

#include "redis/script.h"

#include <hiredis/hiredis.h>

struct sim_bytes {
    const char *at;
    size_t len;
};

struct sim_script_call {
    struct sim_bytes script;
    bool is_sha;
    const struct sim_bytes *keys;
    size_t key_count;
    const struct sim_bytes *args;
    size_t arg_count;
    unsigned service;
    size_t in_flight; /* as in struct sim_chunk */
};

/** Returns the number of receivers. */
typedef size_t (*sim_publish_cb)(const char *channel, struct sim_bytes text);

void sim_scripts_begin(sim_publish_cb publish);
void sim_scripts_forget(void);

redisReply *sim_script_run(const struct sim_script_call *call);

/* -- keys: they expire by the server's own clock, which may be stepped -- */

void sim_keys_begin(void);
void sim_keys_clear(void);
void sim_keys_save(void);
void sim_keys_restore(void);
void sim_keys_step_clock(int64_t by_us);

size_t sim_keys_count_locks(void);
/** When the lock of a shopper was last held. -1: never; the present time: the lock is held now. */
int64_t sim_keys_held_us(int64_t user_id);

/* -- replies -- */

redisReply *sim_reply_text(int type, const char *text, size_t len);
redisReply *sim_reply_number(int64_t number);
redisReply *sim_reply_array(size_t count);
void sim_reply_free(redisReply *reply);

#endif
