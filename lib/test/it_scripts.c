/*
 * it_scripts.c - each Lua script on its own, with every key that it leaves.
 *
 * A step runs a script and compares one text, whose three parts are separated by "|": the reply of
 * the script; the messages that it published, and the channels whose receivers it counted; the keys
 * that it changed. The clock stands still. In a step, A, B and C are ids of clients. t+n is a time
 * in us and m+n a time in ms, both relative to the clock. nh are n hours in ms. Times to live are
 * rounded up to hours.
 *
 * Other steps prepare the next script:
 *
 *   new        the server becomes empty
 *   redis      executes a command
 *   fields     adds this many fields to a hash
 *   clock      lets this many us pass
 *   refused    the command that the server refuses once
 *   receivers  how many clients get a message
 */
#include "lock/rlock.h"
#include "lock/scripts.h"
#include "test/fixture.h"
#include "test/it_scripts_rw.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_US  1700000000000700
#define WORDS_MAX 48
#define MARK      "--SCRIPT--\n"

/** The Lua text around the script under test. MARK stands in place of this script. */
extern const char it_scripts_text[];
__asm__(".pushsection .rodata\nit_scripts_text:\n.incbin \"lib/test/it_scripts.lua\"\n"
        ".byte 0\n.popsection");

struct server_state {
    struct server *server;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    const char *publish;
    int64_t clock_us;
    const char *refused;
    const char *receivers;
};

/* clang-format off */

static const struct step plain_locks[] = {
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire", "F n n", "1h t+0 A:1 A:2 7",
     "{7 t+0 100 10} |  | F=102, n=A:1/1h"},
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire", "F n m", "1h t-1 A:1 A:2 7",
     "{7 t+0} |  | "},
    {"acquire", "F n m", "1h t+0 A:1 A:2 7",
     "{7 t+0 100 11} |  | F=102, m=A:2/1h, n=A:1/1h"},
    {"acquire", "F n", "2h t+0 A:1 7",
     "{7 t+0 102 1} |  | F=103, n=A:1/2h"},
    {"acquire", "F n m", "1h t+0 B:1 A:2 7",
     "{7 t+0 103 01} |  | F=105"},
    {"redis", "", "LPUSH l x", NULL},
    {"acquire", "F l k", "1h t+0 A:3 A:4 7",
     "{7 t+0 105 E1} |  | F=107, k=A:4/1h"},
    {"refused", "", "SET", NULL},
    {"acquire", "F j", "1h t+0 A:3 7",
     "{7 t+0 107 E} |  | F=108"},
    {"refused", "", "INCRBY", NULL},
    {"acquire", "F j", "1h t+0 A:3 7",
     "error: OOM refused |  | "},
    /* fences */
    {"new", "", "", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1, n=A:1/1h"},
    {"redis", "", "SET F 0", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1"},
    {"redis", "", "SET F 1", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 1 1} |  | F=2"},
    {"redis", "", "SET F -7", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1"},
    {"redis", "", "SET F abc", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1"},
    {"redis", "", "SET F 9223372036854775807", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1"},
    {"redis", "", "SET F t+3199999999999999", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+3199999999999999 1} |  | F=t+3200000000000000"},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1"},
    {"redis", "", "DEL F", NULL},
    {"redis", "", "LPUSH F x", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "error: WRONGTYPE the key holds no fence counter: F |  | "},
    {"new", "", "", NULL},
    {"clock", "", "7299999999999300", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "error: ERR the clock of the server is wrong |  | F=1"},
    {"redis", "", "SET F 8999999999999999", NULL},
    {"clock", "", "-1", NULL},
    {"redis", "", "DEL F", NULL},
    {"acquire", "F n", "1h t+0 A:1 7",
     "{7 t+0 t+0 1} |  | F=t+1, n=A:1/1h"},
    {"new", "", "", NULL},
    {"raise_fence", "F", "0 7",
     "{7 t+0 t+3200000000000000} |  | F=t+0"},
    {"raise_fence", "F", "t+50 7",
     "{7 t+0 t+3200000000000000} |  | F=t+50"},
    {"raise_fence", "F", "t+50 7",
     "{7 t+0 t+3200000000000000} |  | "},
    {"raise_fence", "F", "t+49 7",
     "{7 t+0 t+3200000000000000} |  | "},
    {"raise_fence", "F", "t+3200000000000000 7",
     "{7 t+0 t+3200000000000000} |  | F=t+3200000000000000"},
    {"raise_fence", "F", "8000000000000000 7",
     "{7 t+0 t+3200000000000000} |  | "},
    {"redis", "", "SET F 8000000000000000", NULL},
    {"raise_fence", "F", "0 7",
     "{7 t+0 t+3200000000000000} |  | "},
    {"redis", "", "SET F 5", NULL},
    {"raise_fence", "F", "8000000000000000 7",
     "{7 t+0 t+3200000000000000} |  | F=t+0"},
    {"redis", "", "SET F abc", NULL},
    {"raise_fence", "F", "0 7",
     "{7 t+0 t+3200000000000000} |  | "},
    /* acquire_wait */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire_wait", "F W n m", "1h t+0 A:1 2h A:2 3h 7",
     "{7 t+0 100 11} |  | F=102, m=A:2/1h, n=A:1/1h"},
    {"acquire_wait", "F W n m k", "2h t+0 B:1 2h A:2 3h B:3 4h 7",
     "{7 t+0 102 011 {1h 104 105}} |  | F=105, W=''/2h, k=B:3/2h, m=A:2/2h"},
    {"acquire_wait", "F W n", "2h t+0 B:1 0 7",
     "{7 t+0 105 0 {1h}} |  | F=106"},
    {"acquire_wait", "F W n m", "2h t+0 B:1 1h B:2 0 7",
     "{7 t+0 106 00 {1h 2h}} |  | F=108"},
    {"acquire_wait", "F W n m", "2h t+0 B:1 3h B:2 4h 7",
     "{7 t+0 108 00 {1h 2h}} |  | F=110, W=''/4h"},
    {"release", "W n", "B:1 7",
     "7 0 |  | "},
    {"receivers", "", "1", NULL},
    {"release", "W n m", "A:1 B:2 7",
     "7 20 | rlock:n='' | n deleted"},
    {"receivers", "", "3", NULL},
    {"release", "W m n", "A:2 A:1 7",
     "7 40 | rlock:m='', rlock:n='' | m deleted"},
    {"receivers", "", "9", NULL},
    {"release", "W k", "B:3 7",
     "7 9 | rlock:k='' | k deleted"},
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire_wait", "F W n", "1h t+0 B:1 0 7",
     "{7 t+0 100 1} |  | F=101, n=B:1/1h"},
    {"release", "W n", "B:1 7",
     "7 1 |  | n deleted"},
    {"acquire_wait", "F W n", "1h t+0 B:1 0 7",
     "{7 t+0 101 1} |  | F=102, n=B:1/1h"},
    {"redis", "", "SET W 1", NULL},
    {"redis", "", "LPUSH l x", NULL},
    {"refused", "", "PUBLISH", NULL},
    {"release", "W n l", "B:1 B:2 7",
     "7 10 |  | n deleted"},
    {"redis", "", "SET n B:1", NULL},
    {"release", "W n", "B:1 7",
     "7 1 | rlock:n='' | n deleted"},
    /* acquire_again */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire_again", "F W n m", "1h t+0 A:1 2h A:2 3h 7",
     "{7 t+0 100 11} |  | F=102, m=A:2/1h, n=A:1/1h"},
    {"acquire_again", "F W n m", "2h t-1 B:1 2h B:2 3h 7",
     "{7 00 {1h 1h}} |  | "},
    {"redis", "", "DEL m", NULL},
    {"acquire_again", "F W n m", "1h t+0 B:1 2h B:2 0 7",
     "{7 t+0 102 01 {1h 104}} |  | F=104, W=''/2h, m=B:2/1h"},
    {"redis", "", "PERSIST n", NULL},
    {"redis", "", "LPUSH l x", NULL},
    {"acquire_again", "F W n l", "1h t+0 B:1 2h B:2 0 7",
     "{7 00 {-1 -1}} |  | "},
    {"acquire_again", "F W k", "1h t-1 B:1 2h 7",
     "{7 t+0} |  | "},
    {"acquire_again", "F W k", "1h t+0 A:1 2h 3 7",
     "{7 t+0 104 1 {106}} |  | F=109, k=A:1/1h"},
    /* check */
    {"check", "W n m l", "7",
     "7 000 |  | "},
    {"redis", "", "DEL W", NULL},
    {"check", "W n j m", "7",
     "7 010 |  | W=''/1h"},
    {"check", "W i", "7",
     "7 1 |  | "},
    {"reentrant_check", "n j m i", "7",
     "7 0101 |  | "},
    {"reentrant_check", "n m", "7",
     "7 00 |  | "},
    /* cohort */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire_wait", "F W n m", "1h t+0 A:1 0 16 A:2 0 0 7",
     "{7 t+0 100 11 {103 102}} |  | F=119, m=A:2/1h, n=A:1/1h"},
    {"acquire_wait", "F W n", "1h t+0 B:1 2h 16 7",
     "{7 t+0 119 0 {1h}} |  | F=120, W=''/2h"},
    {"acquire_wait", "F W n k", "1h t+0 A:1 2h 3 A:3 0 5 7",
     "{7 t+0 120 11 {123 127}} |  | F=132, k=A:3/1h"},
    {"acquire_wait", "F W n", "1h t+0 A:1 2h 0 7",
     "{7 t+0 132 1 {133}} |  | F=133"},
    {"redis", "", "LPUSH l x", NULL},
    {"acquire_wait", "F W l", "1h t+0 A:1 2h 16 7",
     "{7 t+0 133 E {134}} |  | F=134"},
    /* renew */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"acquire", "F n m", "1h t+0 A:1 A:2 7",
     "{7 t+0 100 11} |  | F=102, m=A:2/1h, n=A:1/1h"},
    {"renew", "n m k", "A:1 2h B:2 2h A:3 2h 7",
     "7 100 |  | n=A:1/2h"},
    {"renew", "n m", "A:1 0 A:2 1h 7",
     "7 11 |  | n deleted"},
    /* getset */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"getset_acquire", "F n m", "1h t+0 m+0 m+1000 m+0 m+2000 7",
     "{7 t+0 100 11 {101 102}} |  | F=102, m=m+2000, n=m+1000"},
    {"getset_acquire", "F n m", "1h t+0 m+1000 m+3000 m+1001 m+4000 7",
     "{7 t+0 102 00 {0 999}} |  | F=104"},
    {"getset_acquire", "F n m", "1h t+0 m+1001 m+5000 m+4001 m+6000 7",
     "{7 t+0 104 11 {105 106}} |  | F=106, m=m+6000, n=m+5000"},
    {"redis", "", "SET n 123456789012", NULL},
    {"getset_acquire", "F n", "1h t+0 m+0 m+1000 7",
     "{7 t+0 106 E {107}} |  | F=107"},
    {"redis", "", "SET n -1700000000000", NULL},
    {"getset_acquire", "F n", "1h t+0 m+0 m+1000 7",
     "{7 t+0 107 E {108}} |  | F=108"},
    {"redis", "", "SET n 17000000000000", NULL},
    {"getset_acquire", "F n", "1h t+0 m+0 m+1000 7",
     "{7 t+0 108 E {109}} |  | F=109"},
    {"redis", "", "SET F 107", NULL},
    {"redis", "", "SET n 1234567890.12", NULL},
    {"getset_acquire", "F n", "1h t+0 m+0 m+1000 7",
     "{7 t+0 107 E {108}} |  | F=108"},
    {"redis", "", "LPUSH l x", NULL},
    {"getset_acquire", "F l", "1h t+0 m+0 m+1000 7",
     "{7 t+0 108 E {109}} |  | F=109"},
};

static const struct step reentrant_locks[] = {
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"reentrant_acquire", "F n m", "1h t+0 A:1 1 A:2 2 7",
     "{7 t+0 100 11 {101 102}} |  | F=102, m={A:2:2=1 A:2:fence=102 A:2=1}/1h, n={A:1:1=1 A:1:fence=101 A:1=1}/1h"},
    {"reentrant_acquire", "F n m", "2h t+0 A:1 3 A:1 4 7",
     "{7 t+0 102 10 {101 1h}} |  | F=104, n={A:1:1=1 A:1:3=1 A:1:fence=101 A:1=2}/2h"},
    {"reentrant_acquire", "F n", "1h t+0 A:1 3 7",
     "{7 t+0 104 1 {101}} |  | F=105"},
    {"reentrant_acquire", "F n m", "1h t-1 B:1 3 B:2 4 7",
     "{7 00 {2h 1h}} |  | "},
    {"redis", "", "HDEL n A:1:fence", NULL},
    {"reentrant_acquire", "F n", "1h t+0 A:1 3 7",
     "{7 t+0 105 1 {106}} |  | F=106"},
    {"redis", "", "LPUSH l x", NULL},
    {"reentrant_acquire", "F l k", "1h t+0 A:1 5 A:1 6 7",
     "{7 t+0 106 E1 {107 108}} |  | F=108, k={A:1:6=1 A:1:fence=108 A:1=1}/1h"},
    {"reentrant_acquire", "F j j j", "1h t+0 A:1 7 B:1 8 A:1 9 7",
     "{7 t+0 108 101 {109 1h 109}} |  | F=111, j={A:1:7=1 A:1:9=1 A:1:fence=109 A:1=2}/1h"},
    {"redis", "", "DEL j", NULL},
    {"reentrant_renew", "n m k l", "A:1 1 3h B:1 2 3h A:1 6 1h A:1 5 9h 7",
     "7 1010 |  | n={A:1:1=1 A:1:3=1 A:1=2}/3h"},
    {"reentrant_renew", "n", "A:1 3 1h 7",
     "7 1 |  | "},
    {"reentrant_renew", "n", "A:1 9 9h 7",
     "7 0 |  | "},
    {"receivers", "", "2", NULL},
    {"reentrant_release", "n m k l", "A:1 1 B:2 2 A:1 6 A:1 5 7",
     "7 1030 | redisson_lock__channel:{k}=0 | k deleted, n={A:1:3=1 A:1=1}/3h"},
    {"reentrant_release", "n n m", "A:1 1 A:1 3 A:2 2 7",
     "7 033 | redisson_lock__channel:{n}=0, redisson_lock__channel:{m}=0 | m deleted, n deleted"},
    {"redis", "", "SET n x", NULL},
    {"reentrant_release", "n", "A:1 1 7",
     "7 0 |  | "},
    {"redis", "", "HSET b{1} A:1 1 A:1:1 1", NULL},
    {"reentrant_release", "b{1}", "A:1 1 7",
     "7 3 | redisson_lock__channel:b{1}=0 | b{1} deleted"},
    {"reentrant_acquire", "F p", "1h t+0 A:1 1 7",
     "{7 t+0 111 1} |  | F=112, p={A:1:1=1 A:1:fence=112 A:1=1}/1h"},
    {"reentrant_acquire", "F p q", "1h t+0 A:1 2 A:1 1 7",
     "{7 t+0 112 11 {112 114}} |  | F=114, p={A:1:1=1 A:1:2=1 A:1:fence=112 A:1=2}/1h, q={A:1:1=1 A:1:fence=114 A:1=1}/1h"},
    {"reentrant_release", "p", "A:1 1 7",
     "7 1 |  | p={A:1:2=1 A:1:fence=112 A:1=1}/1h"},
    {"reentrant_release", "p q", "A:1 2 A:1 1 7",
     "7 33 | redisson_lock__channel:{p}=0, redisson_lock__channel:{q}=0 | p deleted, q deleted"},
};

static const struct step fair_locks[] = {
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"fair_acquire", "F n nq nb m mq mb", "1h t+0 A:1 0 A:2 1000 7",
     "{7 t+0 100 11 {101 102}} |  | F=102, m=A:2/1h, n=A:1/1h"},
    {"fair_acquire", "F n nq nb m mq mb", "1h t+0 B:1 0 B:2 1000 7",
     "{7 t+0 102 00 {1h 1h}} |  | F=104, mb={'' m+0 B:2 m+1500}/1h, mq={B:2 t+0}/1h"},
    {"fair_acquire", "F m mq mb", "1h t+0 C:1 1000 7",
     "{7 t+0 104 0 {1h}} |  | F=105, mb={'' m+0 B:2 m+1500 C:1 m+1500}/1h, mq={B:2 t+0 C:1 t+1}/1h"},
    {"clock", "", "500000", NULL},
    {"fair_acquire", "F m mq mb", "1h t+0 B:2 1000 7",
     "{7 t+0 105 0 {1h}} |  | F=106, mb={'' m+0 C:1 m+1000 B:2 m+1500}/1h"},
    {"fair_acquire", "F m mq mb", "2h t+0 A:2 1000 7",
     "{7 t+0 106 1 {107}} |  | F=107, m=A:2/2h"},
    {"fair_release", "m mq mb", "B:7 7",
     "7 0 |  | "},
    {"fair_release", "m mq mb", "A:2 7",
     "7 1 | rlock:m=B:2 | m deleted"},
    {"fair_acquire", "F m mq mb", "1h t+0 C:1 1000 7",
     "{7 t+0 107 0 {1500}} |  | F=108, mb={'' m+0 B:2 m+1500 C:1 m+1500}/1h"},
    {"fair_acquire", "F m mq mb", "1h t+0 C:3 0 7",
     "{7 t+0 108 0 {1500}} |  | F=109"},
    {"fair_acquire", "F m mq mb", "1h t+0 B:2 1000 7",
     "{7 t+0 109 1 {110}} |  | F=110, m=B:2/1h, mb={'' m+0 C:1 m+1500}/1h, mq={C:1 t-499999}/1h"},
    {"fair_release", "m mq mb n nq nb", "C:1 A:1 7",
     "7 01 |  | mb deleted, mq deleted, n deleted"},
    {"fair_release", "m mq mb", "B:2 7",
     "7 1 |  | m deleted"},
    {"redis", "", "LPUSH l x", NULL},
    {"redis", "", "SET s x", NULL},
    {"fair_acquire", "F l lq lb k s kb j jq s i iq ib", "1h t+0 A:4 1000 A:5 1000 A:6 1000 A:7 0 7",
     "{7 t+0 110 EEE1 {111 112 113 114}} |  | F=114, i=A:7/1h"},
    {"fair_release", "l lq lb k s kb i iq ib", "A:4 A:5 A:7 7",
     "7 001 |  | i deleted"},
    /* dead waiters */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 A:1 0 7",
     "{7 t+0 100 1 {101}} |  | F=101, n=A:1/1h"},
    {"fair_acquire", "F n nq nb", "1h t+0 B:1 1000 7",
     "{7 t+0 101 0 {1h}} |  | F=102, nb={'' m+0 B:1 m+1500}/1h, nq={B:1 t+0}/1h"},
    {"clock", "", "900000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 C:1 1000 7",
     "{7 t+0 102 0 {1h}} |  | F=103, nb={'' m+0 B:1 m+600 C:1 m+1500}/1h, nq={B:1 t-900000 C:1 t+0}/1h"},
    {"clock", "", "600000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 C:1 1000 7",
     "{7 t+0 103 0 {1h}} |  | F=104, nb={'' m+0 B:1 m+0 C:1 m+1500}/1h"},
    {"clock", "", "1000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 C:1 1000 7",
     "{7 t+0 104 0 {1h}} |  | F=105, nb={'' m+0 C:1 m+1500}/1h, nq={C:1 t-601000}/1h"},
    {"fair_acquire", "F n nq nb", "1h t+0 B:1 1000 7",
     "{7 t+0 105 0 {1h}} |  | F=106, nb={'' m+0 B:1 m+1500 C:1 m+1500}/1h, nq={C:1 t-601000 B:1 t+0}/1h"},
    {"clock", "", "1000000", NULL},
    {"fair_release", "n nq nb", "A:1 7",
     "7 1 | rlock:n=C:1 | n deleted, nb={'' 0 B:1 m+1500 C:1 m+1500}/1h"},
    {"clock", "", "1501000", NULL},
    {"fair_release", "n nq nb", "A:1 7",
     "7 0 |  | nb deleted, nq deleted"},
    /* Only a dead waiter is before this one, and the lock is free. */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"redis", "", "SET n A:1", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 B:1 1000 7",
     "{7 t+0 100 0 {-1}} |  | F=101, nb={'' m+0 B:1 m+1500}/1h, nq={B:1 t+0}/1h"},
    {"redis", "", "DEL n", NULL},
    {"clock", "", "1501000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 C:1 0 7",
     "{7 t+0 101 0 {1500}} |  | F=102, nb={'' 0 B:1 m+1500}/1h"},
    {"clock", "", "1501000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 C:1 0 7",
     "{7 t+0 102 1 {103}} |  | F=103, n=C:1/1h, nb deleted, nq deleted"},
    /* A waiter that tries again keeps its place in the queue. */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"redis", "", "SET n A:1", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 B:1 1000 7",
     "{7 t+0 100 0 {-1}} |  | F=101, nb={'' m+0 B:1 m+1500}/1h, nq={B:1 t+0}/1h"},
    {"clock", "", "900000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 C:1 1000 7",
     "{7 t+0 101 0 {-1}} |  | F=102, nb={'' m+0 B:1 m+600 C:1 m+1500}/1h, nq={B:1 t-900000 C:1 t+0}/1h"},
    {"clock", "", "700000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 B:1 1000 7",
     "{7 t+0 102 0 {-1}} |  | F=103, nb={'' m+0 C:1 m+800 B:1 m+1500}/1h"},
    /* Two waiters that arrive in the same microsecond get different arrivals. */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"redis", "", "SET n B:7", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 A:1 1000 7",
     "{7 t+0 100 0 {-1}} |  | F=101, nb={'' m+0 A:1 m+1500}/1h, nq={A:1 t+0}/1h"},
    {"fair_acquire", "F n nq nb", "1h t+0 A:2 1000 7",
     "{7 t+0 101 0 {-1}} |  | F=102, nb={'' m+0 A:1 m+1500 A:2 m+1500}/1h, nq={A:1 t+0 A:2 t+1}/1h"},
    {"clock", "", "-10000000", NULL},
    {"fair_acquire", "F n nq nb", "1h t+0 A:3 1000 7",
     "{7 t+0 102 0 {-1}} |  | F=103, nb={'' m+0 A:3 m+1500 A:1 m+11500 A:2 m+11500}/1h, nq={A:1 t+10000000 A:2 t+10000001 A:3 t+10000002}/1h"},
    {"redis", "", "ZREM nb A:1", NULL},
    {"redis", "", "DEL n", NULL},
    {"fair_release", "n nq nb", "A:9 7",
     "7 0 | rlock:n=A:2 | nq={A:2 t+10000001 A:3 t+10000002}/1h"},
};

static const struct step semaphores[] = {
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"semaphore_acquire", "F n m", "1h t+0 A:1 1 0 2 A:1 2 0 1 7",
     "{7 t+0 100 11 {101 102}} |  | F=102, m={A:1:2 t+3600000000}/1h, n={A:1:1 t+3600000000}/1h"},
    {"clock", "", "1000000", NULL},
    {"semaphore_acquire", "F n m", "1h t+0 B:1 1 0 2 B:1 2 0 1 7",
     "{7 t+0 102 10 {103 3599000}} |  | F=104, n={A:1:1 t+3599000000 B:1:1 t+3600000000}/1h"},
    {"semaphore_acquire", "F n", "1h t+0 C:1 1 5000 2 7",
     "{7 t+0 104 0 {3599000}} |  | F=105"},
    {"redis", "", "DECRBY F 1", NULL},
    {"semaphore_acquire", "F n", "1h t+0 C:1 1 5000 1 7",
     "{7 t+0 104 0 {3599000}} |  | F=105"},
    {"semaphore_acquire", "F n", "2h t+0 B:1 1 0 2 7",
     "{7 t+0 105 1 {106}} |  | F=106, n={A:1:1 t+3599000000 B:1:1 t+7200000000}/2h"},
    {"permit_renew", "n m n", "A:1 1 3h A:1 9 3h A:1 1 2h 7",
     "7 101 |  | n={A:1:1 t+7200000000 B:1:1 t+7200000000}/2h"},
    {"receivers", "", "1", NULL},
    {"semaphore_release", "n m n", "A:1 1 B:1 2 A:1 1 7",
     "7 200 | rlock:n='' | n={B:1:1 t+7200000000}/2h"},
    {"clock", "", "3599000000", NULL},
    {"semaphore_release", "m", "A:1 2 7",
     "7 0 |  | m deleted"},
    {"semaphore_acquire", "F m", "1h t+0 A:1 2 0 1 7",
     "{7 t+0 106 1 {107}} |  | F=107, m={A:1:2 t+3600000000}/1h"},
    {"clock", "", "3600000000", NULL},
    {"semaphore_acquire", "F m n", "1h t+0 B:1 2 0 1 B:1 3 0 5 7",
     "{7 t+0 107 11 {108 109}} |  | F=109, m={B:1:2 t+3600000000}/1h, n={B:1:1 t+1000000 B:1:3 t+3600000000}/1h"},
    {"permit_renew", "n", "A:1 1 3h 7",
     "7 0 |  | "},
    {"redis", "", "LPUSH l x", NULL},
    {"redis", "", "ZADD z 5 x", NULL},
    {"redis", "", "ZADD a:queue 5 A:1:1", NULL},
    {"semaphore_acquire", "F l z a:queue", "1h t+0 B:1 2 0 1 B:1 3 0 5 B:1 4 0 5 7",
     "{7 t+0 109 EEE {110 111 112}} |  | F=112"},
    {"redis", "", "DECRBY F 3", NULL},
    {"semaphore_acquire", "F b:queue b:beats b:readers", "1h t+0 B:1 2 0 1 B:1 3 0 5 B:1 4 0 5 7",
     "{7 t+0 109 EEE {110 111 112}} |  | F=112"},
    {"semaphore_release", "l z a:queue", "B:1 2 B:1 3 B:1 4 7",
     "7 000 |  | "},
    {"permit_renew", "l z a:queue", "B:1 2 1h B:1 3 1h B:1 4 1h 7",
     "7 000 |  | "},
    {"refused", "", "PUBLISH", NULL},
    {"semaphore_release", "m", "B:1 2 7",
     "7 1 |  | m deleted"},
    {"refused", "", "ZREM", NULL},
    {"semaphore_release", "n", "B:1 3 7",
     "7 0 |  | "},
    /* fair */
    {"new", "", "", NULL},
    {"redis", "", "SET F 100", NULL},
    {"semaphore_acquire", "F n nq nb m mq mb", "1h t+0 A:1 1 1000 1 A:1 2 1000 2 7",
     "{7 t+0 100 11 {101 102}} |  | F=102, m={A:1:2 t+3600000000}/1h, n={A:1:1 t+3600000000}/1h"},
    {"semaphore_acquire", "F n nq nb m mq mb", "1h t+0 B:1 1 1000 1 B:1 2 1000 2 7",
     "{7 t+0 102 01 {1h 104}} |  | F=104, m={A:1:2 t+3600000000 B:1:2 t+3600000000}/1h, nb={'' m+0 B:1 m+1500}/1h, nq={B:1 t+0}/1h"},
    {"semaphore_acquire", "F n nq nb m mq mb", "1h t+0 B:1 3 0 1 B:1 4 1000 2 7",
     "{7 t+0 104 00 {1h 1h}} |  | F=106, mb={'' m+0 B:4 m+1500}/1h, mq={B:4 t+0}/1h"},
    {"clock", "", "300000", NULL},
    {"semaphore_acquire", "F m mq mb", "1h t+0 C:1 5 1000 2 7",
     "{7 t+0 106 0 {3599700}} |  | F=107, mb={'' m+0 B:4 m+1200 C:5 m+1500}/1h, mq={B:4 t-300000 C:5 t+0}/1h"},
    {"fair_semaphore_release", "m mq mb", "B:1 2 7",
     "7 1 | rlock:m=B:4 | m={A:1:2 t+3599700000}/1h"},
    {"semaphore_acquire", "F m mq mb", "1h t+0 C:1 6 0 2 7",
     "{7 t+0 107 0 {1200}} |  | F=108"},
    {"semaphore_acquire", "F m mq mb", "1h t+0 C:1 5 1000 2 7",
     "{7 t+0 108 0 {1200}} |  | F=109"},
    {"fair_semaphore_release", "m mq mb", "A:1 2 7",
     "7 1 | rlock:m=B:4 | m deleted"},
    {"semaphore_acquire", "F m mq mb", "1h t+0 B:1 4 1000 2 7",
     "{7 t+0 109 1 {110}} | rlock:m=C:5 | F=110, m={B:1:4 t+3600000000}/1h, mb={'' m+0 C:5 m+1500}/1h, mq={C:5 t+0}/1h"},
    {"semaphore_acquire", "F m mq mb", "2h t+0 B:1 4 1000 2 7",
     "{7 t+0 110 1 {111}} |  | F=111, m={B:1:4 t+7200000000}/2h"},
    {"fair_semaphore_release", "m mq mb", "C:1 5 7",
     "7 0 |  | mb deleted, mq deleted"},
    {"fair_semaphore_release", "n nq nb m mq mb", "B:1 9 B:1 4 7",
     "7 01 | rlock:n=B:1 | m deleted"},
    {"redis", "", "SET s x", NULL},
    {"semaphore_acquire", "F k s kb", "1h t+0 B:1 4 1000 2 7",
     "{7 t+0 111 E {112}} |  | F=112"},
    {"redis", "", "ZADD k t+5000 A:1:3", NULL},
    {"fair_semaphore_release", "k s kb", "A:1 3 7",
     "7 1 |  | k deleted"},
};

static const struct step queries[] = {
    {"new", "", "", NULL},
    {"inspect", "n", "7",
     "{7 0} |  | "},
    {"redis", "", "SET n A:1 PX 2h", NULL},
    {"redis", "", "HSET h A:1:22 1 A:1 2 A:1:fence 9", NULL},
    {"redis", "", "PEXPIRE h 3h", NULL},
    {"redis", "", "HSET h2 A:1 x", NULL},
    {"redis", "", "HSET hx1 field 1", NULL},
    {"redis", "", "ZADD z t+0 A:1:1 t+3600000000 A:2:2 t+1800000000 B:1:3", NULL},
    {"redis", "", "ZADD w -t+0 A:1:1:99 -t+7200000000 A:1:2:99", NULL},
    {"redis", "", "LPUSH l x", NULL},
    {"redis", "", "SET x foreign", NULL},
    {"redis", "", "ZADD q:queue t+5000 A:1:1", NULL},
    {"receivers", "", "3", NULL},
    {"inspect", "n", "7",
     "{7 0 {n A:1 2h 1 3}} | of rlock:n? | "},
    {"inspect", "h", "7",
     "{7 0 {h A:1 3h 2 3}} | of redisson_lock__channel:{h}? | "},
    {"inspect", "h2", "7",
     "{7 0 {h2 A:1 -1 0 3}} | of redisson_lock__channel:{h2}? | "},
    {"inspect", "z", "7",
     "{7 0 {z B:1:3 1800000 2 3} {z A:2:2 1h 2 3}} | of rlock:z?, of rlock:z? | "},
    {"inspect", "l", "7",
     "error: WRONGTYPE the key holds no lock |  | "},
    {"inspect", "w", "7",
     "{7 0 {w A:1:2 2h 1 3}} | of rlock:w? | "},
    {"inspect", "x", "7",
     "{7 0 {x foreign -1 1 3}} | of rlock:x? | "},
    {"inspect", "q:queue", "7",
     "error: WRONGTYPE the key holds no lock |  | "},
    {"refused", "", "PUBSUB", NULL},
    {"inspect", "n", "7",
     "{7 0 {n A:1 2h 1 -1}} |  | "},
    {"redis", "", "HSET g A:1 1", NULL},
    {"fields", "g", "998 A:1:", NULL},
    {"list", "F", "g 0 7",
     "{7 0 {g A:1 -1 1 3}} | of redisson_lock__channel:{g}? | "},
    {"fields", "g", "999 A:1:", NULL},
    {"list", "F", "g 0 7",
     "{7 0} |  | "},
    {"inspect", "g", "7",
     "{7 0 {g A:1 -1 1 3}} | of redisson_lock__channel:{g}? | "},
    {"list", "F", "n 0 7",
     "{7 0 {n A:1 2h 1 3}} | of rlock:n? | "},
    {"list", "F", "h2 0 7",
     "{7 0 {h2 A:1 -1 0 3}} | of redisson_lock__channel:{h2}? | "},
    {"list", "F", "h*1 0 7",
     "{7 0} |  | "},
    {"list", "F", "l 0 7",
     "{7 0} |  | "},
    {"list", "F", "w 0 7",
     "{7 0 {w A:1:2 2h 1 3}} | of rlock:w? | "},
    {"list", "F", "x 0 7",
     "{7 0} |  | "},
    {"list", "F", "z 0 7",
     "{7 0 {z B:1:3 1800000 2 3} {z A:2:2 1h 2 3}} | of rlock:z?, of rlock:z? | "},
    {"list", "F", "q 0 7",
     "{7 0} |  | "},
    {"refused", "", "GETRANGE", NULL},
    {"inspect", "F", "n 0 7",
     "{7 0} |  | "},
    {"new", "", "", NULL},
    {"redis", "", "SET n A:1", NULL},
    {"redis", "", "ZADD q t+5000 B:1", NULL},
    {"redis", "", "ZADD b m+100 B:1", NULL},
    {"force_release", "n q b", "7",
     "{7 1} | rlock:n=B:1, redisson_lock__channel:{n}=0 | n deleted"},
    {"force_release", "n q b", "7",
     "{7 0} |  | "},
    {"redis", "", "DEL q b", NULL},
    {"redis", "", "SET n A:1", NULL},
    {"force_release", "n q b", "7",
     "{7 1} | rlock:n='', redisson_lock__channel:{n}=0 | n deleted"},
    {"redis", "", "HSET n A:1 1", NULL},
    {"force_release", "n q b", "7",
     "{7 1} | rlock:n='', redisson_lock__channel:{n}=0 | n deleted"},
    {"redis", "", "ZADD n t+5000 A:1:1", NULL},
    {"redis", "", "ZADD q t+5000 B:1", NULL},
    {"redis", "", "ZADD b m+100 B:1", NULL},
    {"force_release", "n q b", "7",
     "{7 1} | rlock:n=B:1, rlock:n='', redisson_lock__channel:{n}=0 | n deleted"},
    {"redis", "", "ZADD n t+0 A:1:1", NULL},
    {"force_release", "n q b", "7",
     "{7 0} |  | n deleted"},
    {"redis", "", "ZADD n 5 x", NULL},
    {"force_release", "n q b", "7",
     "error: WRONGTYPE the key holds no lock |  | "},
    {"redis", "", "DEL n", NULL},
    {"redis", "", "LPUSH n x", NULL},
    {"force_release", "n q b", "7",
     "error: WRONGTYPE the key holds no lock |  | "},
};

/* clang-format on */

static const char *text_of_script(const struct server_state *test, const char *name)
{
    for (int i = 0; i < RLOCK_SCRIPT_COUNT; i++) {
        if (strcmp(test->scripts[i].name, name) == 0)
            return test->scripts[i].body;
    }
    if (strcmp(name, "fields") == 0)
        return "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], ARGV[2] .. i, 1) end";
    assert_string_equal(name, "redis");
    return "return redis.call(unpack(ARGV))";
}

/** Append the words of `text` to `words`. In `text` the blanks are replaced by NULs. */
static int split(char *text, const char *words[WORDS_MAX], int count)
{
    char *rest = NULL;

    for (char *word = strtok_r(text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < WORDS_MAX);
        words[count++] = word;
    }
    return count;
}

static redisReply *run_script(const struct server_state *test, const struct step *step)
{
    static char script[32768];
    char keys[512], args[512], clock_us[32], key_count[16];
    const char *words[WORDS_MAX] = {"EVAL", script, key_count};
    const char *tail = strstr(it_scripts_text, MARK);
    redisReply *reply;
    int count = 3;

    assert_non_null(tail);
    snprintf(script, sizeof(script), "%.*s%s%s", (int)(tail - it_scripts_text),
             it_scripts_text, text_of_script(test, step->script), tail);
    snprintf(keys, sizeof(keys), "%s", step->keys);
    snprintf(args, sizeof(args), "%s", step->args);
    snprintf(clock_us, sizeof(clock_us), "%lld", (long long)test->clock_us);
    count = split(keys, words, count);
    snprintf(key_count, sizeof(key_count), "%d", count - 3);
    words[count++] = clock_us;
    words[count++] = test->refused;
    words[count++] = test->receivers;
    words[count++] = test->publish;
    count = split(args, words, count);
    reply = redisCommandArgv(test->server->redis, count, words, NULL);
    assert_non_null(reply);
    return reply;
}

static void run_step(struct server_state *test, const struct step *step, size_t index)
{
    redisReply *reply;

    if (strcmp(step->script, "new") == 0) {
        server_do(test->server, "FLUSHALL");
        test->clock_us = CLOCK_US;
        test->receivers = "0";
        return;
    }
    if (strcmp(step->script, "clock") == 0) {
        test->clock_us += strtoll(step->args, NULL, 10);
        return;
    }
    if (strcmp(step->script, "refused") == 0) {
        test->refused = step->args;
        return;
    }
    if (strcmp(step->script, "receivers") == 0) {
        test->receivers = step->args;
        return;
    }
    reply = run_script(test, step);
    if (step->wanted == NULL && strncmp(reply->str, "raised", 6) == 0)
        fail_msg("step %zu, %s: %s", index, step->args, reply->str);
    asserts_about("step %zu: script %s, keys %s, arguments %s, by %s%s%s\n"
                  "The text is reply | messages | changed keys. Of each lock in a reply "
                  "1: granted, 0: taken, E: failed.",
                  index, step->script, step->keys, step->args, test->publish,
                  test->refused[0] != '\0' ? ", the server refuses " : "", test->refused);
    if (step->wanted != NULL)
        assert_string_equal(reply->str, step->wanted);
    freeReplyObject(reply);
    test->refused = "";
}

static void run(const struct step *steps, size_t count)
{
    struct server_state test = {.server = fixture_empty_server(), .refused = ""};

    for (int is_cluster = 0; is_cluster <= 1; is_cluster++) {
        rlock_scripts_init(test.scripts, is_cluster);
        test.publish = is_cluster ? "SPUBLISH" : "PUBLISH";
        for (size_t i = 0; i < count; i++)
            run_step(&test, &steps[i], i);
    }
}

#define SCRIPTS_CASE(steps)                                                              \
    UNIT_CASE(test_scripts__of_##steps##_leave_exactly_these_keys)                       \
    {                                                                                    \
        run(steps, sizeof(steps) / sizeof(*(steps)));                                    \
    }

SCRIPTS_CASE(plain_locks)
SCRIPTS_CASE(reentrant_locks)
SCRIPTS_CASE(fair_locks)
SCRIPTS_CASE(semaphores)
SCRIPTS_CASE(read_write_locks)
SCRIPTS_CASE(queries)

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
