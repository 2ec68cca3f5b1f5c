/* test_lock_state.c - the states of a lock, and what the statistics count at their transitions. */
#include "test/scripted_client.h"

/* -- state.c -- */

CLIENT_CASE(test_times__are_counted_in_buckets_of_a_power_of_two_ms)
{
    for (unsigned i = 0; i < 34; i++) {
        int64_t us = (INT64_C(1000) << i / 2) + i % 2;
        unsigned bucket = i < 33 ? i / 2 + i % 2 : 16;
        uint64_t before = self->client->stats.waits.buckets[bucket];

        acquire(0, "a", plain);
        flush();
        now_us += us;
        reply(0, "*4 +# :6000000 :1000000 +1");
        self->client->servers[0].last_fence = 0;
        if (self->client->stats.waits.buckets[bucket] != before + 1)
            fail_msg("%lld us are not in bucket %u", (long long)us, bucket);
        drop(0);
        turn();
        reply(0, "+#_1");
    }
    forget_all();
}

CLIENT_CASE(test_acquire__of_a_lock_that_was_used_begins_anew)
{
    memset(&self->locks[0], 0xff, offsetof(struct rlock, name));
    self->locks[0].state = RLOCK_STATE_LOST;
    acquire(0, "a", plain);
    assert_false(self->locks[0].in_doubt || self->locks[0].is_cancelled);
    ASSERT_NUMBER(self->locks[0].tries, ==, 0);
    flush();
    forget_all();
    reply(0, "*4 +# :6000000 :100 +1");
    EXPECT("event granted a 0\n0 ok fence 101 safe 988000\nstats: granted+1 held+1 "
           "waits[0]+1\n");
}

static void work_and_release(void)
{
    now_us += 100;
    release(0);
}

CLIENT_CASE(test_times__of_a_hold_begin_before_the_callback)
{
    acquire(0, "a", plain);
    flush();
    forget_all();
    self->hook = work_and_release;
    reply(0, "*4 +# :6000000 :100 +1");
    EXPECT("event granted a 0\n0 ok fence 101 safe 988000\n"
           "stats: granted+1 waits[0]+1 holds[0]+1 holds+100\n");
}

CLIENT_CASE(test_extend__ends_as_the_server_replies)
{
    static const char renewal[] = "s0 renew(a; me:1 %u)\ns0 flush\n";
    static const struct {
        uint32_t lease_ms;
        enum rlock_status status; /* how the call ends; used if `reply` is NULL */
        const char *reply, *done;
        bool is_renewed;
    } cases[] = {
        {500, RLOCK_OK, "+#_1", "0 ok fence 101 safe 492000\n", false},
        {5000, RLOCK_OK, "+#_1", "0 ok fence 101 safe 4947000\n", false},
        {500, RLOCK_OK, "+#_0",
         "event lost a 101000\n0 lost\n"
         "stats: lost+1 held-1 holds[7]+1 holds+101000\nlost: 'lost'\n",
         false},
        {500, RLOCK_TIMEOUT, NULL, "0 timeout fence 101 safe 492000\n", true},
        {5000, RLOCK_IO, NULL, "0 io fence 101 safe 887000\n", true},
        {500, RLOCK_OK, "-BUSY_Redis_is_busy", "0 down fence 101 safe 492000\n", true},
    };
    char text[256];

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        bool is_watched = i % 2 == 1;
        int len;

        if (i > 0)
            start_over(state);
        acquire_first(
            (struct rlock_acquire_options){.lease_ms = 1000, .watchdog = is_watched});
        now_us += 100000;
        extend(0, cases[i / 2].lease_ms);
        flush();
        snprintf(text, sizeof(text), renewal, cases[i / 2].lease_ms);
        EXPECT(text);
        now_us += 1000;
        if (cases[i / 2].reply != NULL)
            reply(0, cases[i / 2].reply);
        else
            end_command(0, cases[i / 2].status, NULL);
        turn();
        len = snprintf(text, sizeof(text), "%s", cases[i / 2].done);
        if (is_watched && cases[i / 2].is_renewed)
            snprintf(text + len, sizeof(text) - (size_t)len, renewal,
                     cases[i / 2].lease_ms);
        EXPECT(text);
    }
}

CLIENT_CASE(test_extend__that_a_release_overtakes)
{
    acquire_first(plain);
    extend(0, 2000);
    assert_true(rlock_is_held(&self->locks[0]));
    flush();
    extend(0, 3000);
    release(0);
    assert_false(rlock_is_held(&self->locks[0]));
    EXPECT("s0 renew(a; me:1 2000)\ns0 flush\nstats: held-1 holds[0]+1\n");
    turn();
    EXPECT("0 not_owner\n0 cancelled\ns0 release(lock:fence:waiting a; me:1)\n"
           "s0 flush\n");
    reply(0, "+#_1"); /* reply to the extension */
    reply(0, "+#_1");
    EXPECT("event released a 0\n0 ok\nstats: released+1\n");
}

CLIENT_CASE(test_extend__without_memory_stays_held)
{
    acquire_first((struct rlock_acquire_options){.lease_ms = 1000, .watchdog = true});
    acquire(1, "b", plain); /* now no spare batch is left */
    torture_fail(1, 0);
    extend(0, 2000);
    if (!torture_stop())
        fail_msg("the extension needs no memory");
    assert_true(rlock_is_held(&self->locks[0]));
    EXPECT("");
    turn();
    turn();
    EXPECT("s0 renew(a; me:1 2000)\ns0 acquire(lock:fence b; 1000 7000000 me:2)\n"
           "s0 flush\n0 no_memory fence 101 safe 988000\n");
    torture_fail(1, 1);
    extend(0, 2000);
    assert_true(torture_stop());
    EXPECT("");
}

CLIENT_CASE(test_renew__ends_as_the_server_replies)
{
    acquire_first((struct rlock_acquire_options){.lease_ms = 900, .watchdog = true});
    pass_us(299999);
    EXPECT("");
    pass_us(1001);
    EXPECT("s0 renew(a; me:1 900)\ns0 flush\n");
    now_us += 5000;
    reply(0, "+#_1");
    assert_true(rlock_is_held(&self->locks[0]));
    ASSERT_NUMBER(rlock_safe_for_us(&self->locks[0], now_us), ==, 884000);
    EXPECT("event renewed a 306000\nstats: renewed+1\n");
    pass_us(300000);
    EXPECT("s0 renew(a; me:1 900)\ns0 flush\n");
    reply(0, "-BUSY_Redis_is_busy");
    EXPECT("");
    pass_us(30000);
    EXPECT("s0 renew(a; me:1 900)\ns0 flush\n");
    reply(0, "+#_0");
    EXPECT("event lost a 636000\n0 on_lost lost\n"
           "stats: lost+1 held-1 holds[10]+1 holds+636000\nlost: 'lost'\n");
    assert_false(rlock_is_held(&self->locks[0]));
    pass_us(600000);
    EXPECT("");
    extend(0, 1000);
    release(0);
    turn();
    EXPECT("0 lost\n0 lost\n");
    release(0);
    turn();
    EXPECT("0 not_owner\n");
}

static const struct rlock_acquire_options watched = {.lease_ms = 900, .watchdog = true};

/** Two renewals were sent, and the server does not know their script. Meanwhile the first lock is
 *  extended or released, so its renewal must not be sent again. */
CLIENT_CASE(test_renew__that_another_call_overtakes_is_not_sent_again)
{
    for (int is_extended = 0; is_extended < 2; is_extended++) {
        if (is_extended)
            start_over(state);
        acquire(0, "a", watched);
        acquire(1, "b", watched);
        flush();
        reply(0, "*4 +# :6000000 :100 +11");
        forget_all();
        pass_us(301000);
        EXPECT("s0 renew(a b; me:1 900 me:2 900)\ns0 flush\n");
        if (is_extended)
            extend(0, 3000);
        else
            release(0);
        flush();
        reply(0, "-NOSCRIPT_No_matching_script");
        EXPECT(is_extended ? "s0 renew(a; me:1 3000)\ns0 flush\n"
                             "s0 EVAL renew(b; me:2 900)\ns0 flush\n"
                           : "s0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
                             "s0 EVAL renew(b; me:2 900)\ns0 flush\n"
                             "stats: held-1 holds[9]+1 holds+301000\n");
        reply(0, "+#_1");
        reply(0, "+#_1");
        EXPECT(is_extended ? "0 ok fence 101 safe 2968000\nevent renewed b 301000\n"
                             "stats: renewed+1\n"
                           : "event released a 301000\n0 ok\nevent renewed b 301000\n"
                             "stats: renewed+1 released+1\n");
        pass_us(301000);
        EXPECT("s0 renew(b; me:2 900)\ns0 flush\n");
        reply(0, "+#_1");
        pass_us(700000);
        EXPECT(is_extended ? "event renewed b 602000\n"
                             "s0 renew(b a; me:2 900 me:1 3000)\ns0 flush\n"
                             "stats: renewed+1\n"
                           : "event renewed b 602000\ns0 renew(b; me:2 900)\n"
                             "s0 flush\nstats: renewed+1\n");
    }
}

/** When the second renewal is due, hold_max_ms is over, so the lock counts as lost. No release is
 *  sent, because the lease ends by itself on the server. */
CLIENT_CASE(test_renew__ends_with_hold_max_ms)
{
    struct rlock_acquire_options options = watched;

    options.hold_max_ms = 601;
    acquire_first(options);
    pass_us(301000);
    reply(0, "+#_1");
    EXPECT("s0 renew(a; me:1 900)\ns0 flush\nevent renewed a 301000\n"
           "stats: renewed+1\n");
    pass_us(301000);
    EXPECT("event lost a 602000\n0 on_lost lost\n"
           "stats: lost+1 held-1 holds[10]+1 holds+602000\nlost: 'lost'\n");
    pass_us(900000);
    EXPECT("");
}

/** The reply to the extension does not come before the lease ends. Then the call is answered
 *  RLOCK_LOST, and on_lost is not called. */
CLIENT_CASE(test_extend__past_the_end_of_the_lease_is_lost)
{
    acquire_first(watched);
    extend(0, 900);
    flush();
    forget_all();
    pass_us(301000);
    EXPECT("");
    pass_us(589000);
    EXPECT("event lost a 890000\n0 lost\ns0 release(lock:fence:waiting a; me:1)\n"
           "s0 flush\nstats: lost+1 held-1 holds[10]+1 holds+890000\nlost: 'lost'\n");
}

static void overwrite_first(void)
{
    memset(&self->locks[0], 0xff, sizeof(self->locks[0]));
}

CLIENT_CASE(test_callbacks__may_free_their_lock)
{
    acquire_first(plain);
    release(0);
    flush();
    self->hook = overwrite_first;
    reply(0, "+#_1");
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 flush\nevent released a 0\n0 ok\n"
           "stats: released+1 held-1 holds[0]+1\n");
    start_over(state);
    acquire_first(watched);
    pass_us(301000);
    self->hook = overwrite_first;
    reply(0, "+#_0");
    turn();
    EXPECT("s0 renew(a; me:1 900)\ns0 flush\nevent lost a 301000\n0 on_lost lost\n"
           "stats: lost+1 held-1 holds[9]+1 holds+301000\nlost: 'lost'\n");
}

CLIENT_CASE(test_release__without_a_callback_of_a_lost_lock)
{
    acquire_first(plain);
    extend(0, 1000);
    flush();
    reply(0, "+#_0");
    drop(0);
    extend(0, 1000); /* drop() has made the lock idle, so it is not lost any more */
    forget_all();
    turn();
    EXPECT("0 not_owner\n");
}

/** The library repeats a release whose outcome is unknown. It also repeats a release if the
 *  outcome of a try of the acquire was unknown. */
CLIENT_CASE(test_release__ends_as_the_server_replies)
{
    static const struct {
        enum rlock_status status; /* how the call ends; used if `reply` is NULL */
        bool is_repeated;
        const char *reply, *events, *stats;
    } cases[] = {
        {RLOCK_OK, false, "+#_1", "event released a 0\n0 ok\n", "released+1\n"},
        {RLOCK_OK, false, "+#_0", "event lost a 0\n0 lost\n", "lost+1\nlost: 'lost'\n"},
        {RLOCK_TIMEOUT, true, NULL, "event failed a 0\n0 timeout\n",
         "failed+1\ntimeout: 'timeout'\n"},
        {RLOCK_IO, true, NULL, "event failed a 0\n0 io\n", "failed+1\nio: 'io'\n"},
        {RLOCK_OK, true, "-LOADING_Redis_is_loading", "event failed a 0\n0 down\n",
         "failed+1\ndown: 'LOADING Redis is loading'\n"},
        {RLOCK_OK, false, "-OOM_command_not_allowed",
         "event failed a 0\n0 refused: OOM command not allowed\n",
         "failed+1\nrefused: 'OOM command not allowed'\n"},
    };

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        bool in_doubt = i % 2 == 1;
        char text[256];

        if (i > 0)
            start_over(state);
        acquire_first(plain);
        self->locks[0].in_doubt = in_doubt;
        release(0);
        flush();
        forget_all();
        if (cases[i / 2].reply != NULL)
            reply(0, cases[i / 2].reply);
        else
            end_command(0, cases[i / 2].status, NULL);
        turn();
        pass_us(1001000);
        snprintf(text, sizeof(text), "%s%sstats: %s", cases[i / 2].events,
                 in_doubt || cases[i / 2].is_repeated
                     ? "s0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
                     : "",
                 cases[i / 2].stats);
        EXPECT(text);
    }
}

CLIENT_CASE(test_release__without_a_connection_is_repeated)
{
    acquire_first(plain);
    go_down(0, RLOCK_IO, "reset");
    release(0);
    turn();
    turn();
    EXPECT("state down: reset\nevent failed a 0\n0 down\n"
           "stats: failed+1 held-1 holds[0]+1\ndown: 'reset'\n");
    go_up(0);
    EXPECT("s0 EVAL raise_fence(lock:fence; 101)\n"
           "s0 release(lock:fence:waiting a; me:1)\ns0 flush\nstate up\n"
           "stats: reconnects+1\n");
}

CLIENT_CASE(test_release__without_memory_is_repeated)
{
    acquire_first(plain);
    conns[0].has_memory = false;
    release(0);
    turn();
    turn();
    EXPECT("event failed a 0\n0 no_memory\nstats: failed+1 held-1 holds[0]+1\n"
           "no_memory: 'no_memory'\n");
    conns[0].has_memory = true;
    pass_us(100001);
    EXPECT("");
    start_over(state);
    acquire_first(plain);
    acquire(1, "b", plain); /* now no spare batch is left */
    torture_fail(1, 0);
    release(0);
    turn();
    assert_true(torture_stop());
    EXPECT("0 no_memory\ns0 release(lock:fence:waiting a; me:1)\n"
           "s0 acquire(lock:fence b; 1000 7000000 me:2)\ns0 flush\n"
           "stats: held-1 holds[0]+1\n");
    turn();
    EXPECT("");
}

CLIENT_CASE(test_release__without_a_callback)
{
    acquire_first((struct rlock_acquire_options){.lease_ms = 1000, .watchdog = true});
    self->locks[0].in_doubt = true;
    now_us += 7;
    drop(0);
    assert_false(rlock_is_held(&self->locks[0]));
    turn();
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
           "stats: held-1 holds[0]+1 holds+7\n");
    reply(0, "+#_1");
    EXPECT("event released a 7\nstats: released+1\n");
    drop(0);
    turn();
    EXPECT("");
    pass_us(1001000);
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 flush\n");
    reply(0, "+#_0"); /* reply to the second release */
    acquire_first(plain);
    drop(0);
    turn();
    reply(0, "+#_0");
    pass_us(1001000);
    EXPECT("s0 release(lock:fence:waiting a; me:2)\n"
           "s0 acquire(lock:fence a; 1000 7000000 me:3)\ns0 flush\n");
}

CLIENT_CASE(test_acquire__of_a_fence_that_was_taken_tries_again)
{
    acquire_first(plain);
    acquire(1, "b", plain);
    flush();
    reply(0, "*4 +# :6000000 :100 +1");
    EXPECT("s0 acquire(lock:fence b; 1000 7000000 me:2)\ns0 flush\n"
           "s0 EVAL raise_fence(lock:fence; 101)\n");
    turn();
    EXPECT("s0 release(lock:fence:waiting b; me:2)\n"
           "s0 acquire(lock:fence b; 1000 7000000 me:3)\ns0 flush\n");
    reply(0, "*3 +# :6000000 :9000000000000");
    reply(0, "+#_1");
    EXPECT("event released b 0\nstats: released+1\n");
    for (int i = 0; i < 3; i++) {
        reply(0, "*4 +# :6000000 :50 +1");
        turn();
        reply(0, "*3 +# :6000000 :9000000000000");
        reply(0, "+#_1");
    }
    EXPECT("s0 EVAL raise_fence(lock:fence; 101)\n"
           "s0 release(lock:fence:waiting b; me:3)\n"
           "s0 acquire(lock:fence b; 1000 7000000 me:4)\ns0 flush\nevent released b 0\n"
           "s0 EVAL raise_fence(lock:fence; 101)\n"
           "s0 release(lock:fence:waiting b; me:4)\n"
           "s0 acquire(lock:fence b; 1000 7000000 me:5)\ns0 flush\nevent released b 0\n"
           "s0 EVAL raise_fence(lock:fence; 101)\nevent failed b 0\n"
           "1 refused: the fence counter is lowered repeatedly\n"
           "s0 release(lock:fence:waiting b; me:5)\ns0 flush\nevent released b 0\n"
           "stats: released+3 failed+1\n"
           "refused: 'the fence counter is lowered repeatedly'\n");
}

CLIENT_CASE(test_acquire__of_a_fence_that_was_taken_without_memory)
{
    for (unsigned number = 1; number < 4; number++) {
        if (number > 1)
            start_over(state);
        acquire_first(plain);
        acquire(1, "b", plain);
        flush();
        forget_all();
        torture_fail(number, 0);
        reply(0, "*4 +# :6000000 :100 +1");
        (void)torture_stop();
        turn();
        EXPECT(number < 3 ? "s0 EVAL raise_fence(lock:fence; 101)\n"
                            "s0 acquire(lock:fence b; 1000 7000000 me:3)\ns0 flush\n"
                          : "s0 EVAL raise_fence(lock:fence; 101)\nevent failed b 0\n"
                            "1 no_memory\ns0 release(lock:fence:waiting b; me:2)\n"
                            "s0 flush\nstats: failed+1\nno_memory: 'no_memory'\n");
    }
}

CLIENT_CASE(test_acquire__waits_for_a_server_that_may_accept_it)
{
    acquire(0, "a", waiting);
    acquire(1, "b", (struct rlock_acquire_options){.lease_ms = 2000, .wait_ms = 60000});
    flush();
    forget_all();
    reply(0, "-LOADING_Redis_is_loading");
    reply(0, "-OOM_command_not_allowed");
    EXPECT("c1 open key lock:fence:waiting, sibling 0\nevent failed b 0\n"
           "1 refused: OOM command not allowed\nstats: failed+1 waiters+1\n"
           "refused: 'OOM command not allowed'\n");
}

CLIENT_CASE(test_acquire__whose_outcome_is_unknown_is_released)
{
    acquire(0, "a", plain);
    flush();
    end_command(0, RLOCK_TIMEOUT, NULL);
    turn();
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\nevent failed a 0\n"
           "0 timeout\ns0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
           "stats: failed+1\ntimeout: 'timeout'\n");
    reply(0, "+#_0");
    pass_us(1001000);
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 flush\n");
    reply(0, "+#_0");
    acquire(0, "a",
            (struct rlock_acquire_options){
                .kind = &rlock_getset, .lease_ms = 1000, .wait_ms = 1000});
    flush();
    end_command(0, RLOCK_IO, NULL);
    turn();
    EXPECT("s0 getset_acquire(lock:fence a; 1000 8001000 6001 7002)\ns0 flush\n"
           "event failed a 0\n0 io\ns0 release(lock:fence:waiting a; 7002)\ns0 flush\n"
           "stats: failed+1\nio of another kind: 'io'\n");
    reply(0, "+#_1");
    acquire(0, "a", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 1000});
    flush();
    end_command(0, RLOCK_TIMEOUT, NULL);
    turn();
    EXPECT("event released a 0\n"
           "s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 8001000 me:3 1000)\n"
           "s0 flush\nc1 open key lock:fence:waiting, sibling 0\n"
           "stats: released+1 waiters+1\n");
    pass_us(900000);
    reply(0, "*5 +# :6900000 :100 +1 *1 :101");
    EXPECT("s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 8901000 me:3 100)\n"
           "s0 flush\nevent granted a 900000\n0 ok fence 101 safe 988000\n"
           "stats: granted+1 held+1 waiters-1 waits[10]+1 waits+900000\n");
    release(0);
    flush();
    reply(0, "+#_1");
    pass_us(1001000);
    EXPECT("s0 release(lock:fence:waiting a; me:3)\ns0 flush\nevent released a 0\n"
           "0 ok\ns0 release(lock:fence:waiting a; me:3)\ns0 flush\n"
           "stats: released+1 held-1 holds[0]+1\n");
}

CLIENT_CASE(test_acquire__of_a_queue_leaves_it_when_it_fails)
{
    acquire(0, "a",
            (struct rlock_acquire_options){
                .kind = &rlock_fair, .lease_ms = 1000, .wait_ms = 300});
    flush();
    reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
    EXPECT("s0 fair_acquire(lock:fence a a:queue a:beats; 1000 7000000 me:1 300)\n"
           "s0 flush\nc1 open key lock:fence:waiting, sibling 0\nstats: waiters+1\n");
    pass_us(300001);
    turn();
    EXPECT("event busy a 300001\n0 busy\ns0 fair_release(a a:queue a:beats; me:1)\n"
           "s0 flush\nstats: busy+1 waiters-1\n");
    reply(0, "+#_0");
    acquire(0, "a",
            (struct rlock_acquire_options){
                .kind = &rlock_fair, .lease_ms = 1000, .wait_ms = 300});
    flush();
    reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
    forget_all();
    cancel(0);
    turn();
    EXPECT("0 cancelled\ns0 fair_release(a a:queue a:beats; me:2)\ns0 flush\n"
           "stats: waiters-1\n");
}

#define BESIDE "kind: calls of another kind wait for this name"

/** The server queues the waiters of only one of the two kinds, so a release of one kind would
 *  not wake a waiter of the other kind. */
CLIENT_CASE(test_acquire__does_not_wait_beside_another_kind)
{
    static const struct {
        const struct rlock_kind *kind, *beside;
        const char *reply; /* NULL: nothing is sent */
        const char *done;
    } cases[] = {
        {&rlock_semaphore, &rlock_fair, "*5 +# :6000000 :200 +0 *1 :60000",
         "event failed a 0\n1 invalid: " BESIDE "\nstats: failed+1\n"
         "invalid of another kind: '" BESIDE "'\n"},
        {&rlock_fair, &rlock_plain, "*5 +# :6000000 :200 +0 *1 :60000",
         "event failed a 0\n1 invalid: " BESIDE "\n"
         "s0 fair_release(a a:queue a:beats; me:2)\ns0 flush\nstats: failed+1\n"
         "invalid of another kind: '" BESIDE "'\n"},
        {&rlock_plain, &rlock_fair, NULL, "1 invalid: " BESIDE "\n"},
    };

    for (int i = 0; i < 3; i++) {
        struct rlock_acquire_options options = waiting;

        if (i > 0)
            start_over(state);
        options.kind = cases[i].beside;
        acquire(0, "a", options);
        flush();
        reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
        options.kind = cases[i].kind;
        options.permits = options.kind == &rlock_semaphore;
        acquire(1, "a", options);
        flush();
        forget_all();
        if (cases[i].reply != NULL)
            reply(0, cases[i].reply);
        turn();
        EXPECT(cases[i].done);
    }
}

/** A call that tries again and again needs no message. */
CLIENT_CASE(test_acquire__that_spins_waits_beside_another_kind)
{
    struct rlock_acquire_options options = waiting;

    options.kind = &rlock_fair;
    acquire(0, "a", options);
    flush();
    reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
    options.kind = &rlock_plain;
    options.spin_min_ms = options.spin_max_ms = 5;
    acquire(1, "a", options);
    flush();
    forget_all();
    reply(0, "*5 +# :6000000 :200 +0 *1 :60000");
    turn();
    EXPECT("stats: waiters+1\n");
}

CLIENT_CASE(test_acquire__of_a_queue_without_memory_leaves_it)
{
    for (int i = 0; i < 2; i++) {
        struct rlock_acquire_options options = {
            .kind = i == 0 ? &rlock_fair : NULL, .lease_ms = 1000, .wait_ms = 300};

        acquire(0, "a", options);
        flush();
        forget_all();
        torture_fail(1, 0);
        reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
        assert_true(torture_stop());
        turn();
        EXPECT(i == 0 ? "event failed a 0\n0 no_memory\n"
                        "s0 fair_release(a a:queue a:beats; me:1)\ns0 flush\n"
                        "stats: failed+1\nno_memory of another kind: 'no_memory'\n"
                      : "s0 EVAL raise_fence(lock:fence; 101)\nevent failed a 0\n"
                        "0 no_memory\nstats: failed+1\nno_memory: 'no_memory'\n");
        end_all_commands();
    }
}

CLIENT_CASE(test_cancel__in_each_state)
{
    cancel(0); /* the lock is idle */
    acquire_first(plain);
    cancel(0); /* the lock is held */
    EXPECT("");
    acquire(1, "b", plain);
    cancel(1); /* the acquire was not sent */
    cancel(1); /* the acquire is already cancelled */
    turn();
    EXPECT("1 cancelled\n");
    acquire(1, "b", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 1000});
    flush();
    reply(0, "*5 +# :6000000 :101 +0 *1 :60000");
    forget_all();
    cancel(1); /* lock 1 waits, and the server knows nothing of it */
    turn();
    EXPECT("1 cancelled\nstats: waiters-1\n");
    acquire(1, "b", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 1000});
    flush();
    end_command(0, RLOCK_TIMEOUT, NULL);
    forget_all();
    cancel(1); /* the outcome of the acquire is unknown */
    turn();
    EXPECT("1 cancelled\ns0 release(lock:fence:waiting b; me:4)\ns0 flush\n"
           "stats: waiters-1\n");
}

/** The second lock waits behind the first lock, whose try has failed, so the name may be free. */
CLIENT_CASE(test_acquire__behind_a_failed_try_is_not_busy)
{
    static const struct rlock_acquire_options briefly = {.lease_ms = 1000, .wait_ms = 10};

    for (int is_busy = 0; is_busy < 2; is_busy++) {
        if (is_busy)
            start_over(state);
        acquire(0, "a", waiting);
        flush();
        reply(0, is_busy ? "*5 +# :6000000 :200 +0 *1 :60000" : "-BUSY_Redis_is_busy");
        acquire(1, "a", briefly);
        flush();
        forget_all();
        now_us += 11000;
        turn();
        EXPECT(is_busy ? "event busy a 11000\n1 busy\nstats: busy+1 waiters-1\n"
                       : "event failed a 11000\n1 down\nstats: failed+1 waiters-1\n"
                         "down: 'BUSY Redis is busy'\n");
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
