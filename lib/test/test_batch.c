/* test_batch.c - locks in script calls: keys, arguments, results and replicas. */
#include "test/scripted_client.h"

/* -- kinds.c and keys.c -- */

/** For each kind of lock, the commands that a client must send in a test. */
static const struct {
    const struct rlock_kind *kind;
    uint16_t permits;
    const char *done;
} kinds[] = {
    {&rlock_plain, 0,
     ("s0 acquire(lock:fence a; 1000 7000000 me:1)\n"
      "s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 7000000 me:2 2000)\n"
      "s0 renew(a a; me:1 1000 me:2 1000)\ns0 release(lock:fence:waiting a; me:2)\n"
      "s0 renew(a; me:1 3000)\n")},
    {&rlock_cohort, 0,
     ("s0 acquire(lock:fence a; 1000 7000000 me:1)\n"
      "s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 7000000 me:2 2000 0)\n"
      "s0 renew(a a; me:1 1000 me:2 1000)\ns0 release(lock:fence:waiting a; me:2)\n"
      "s0 renew(a; me:1 3000)\n")},
    {&rlock_reentrant, 0,
     ("s0 reentrant_acquire(lock:fence a; 1000 7000000 me:77 1)\n"
      "s0 reentrant_acquire(lock:fence a; 1000 7000000 me:77 2)\n"
      "s0 reentrant_renew(a a; me:77 1 1000 me:77 2 1000)\n"
      "s0 reentrant_release(a; me:77 2)\ns0 reentrant_renew(a; me:77 1 3000)\n")},
    {&rlock_fair, 0,
     ("s0 fair_acquire(lock:fence a a:queue a:beats; 1000 7000000 me:1 0)\n"
      "s0 fair_acquire(lock:fence a a:queue a:beats; 1000 7000000 me:2 2000)\n"
      "s0 renew(a a; me:1 1000 me:2 1000)\n"
      "s0 fair_release(a a:queue a:beats; me:2)\ns0 renew(a; me:1 3000)\n")},
    {&rlock_semaphore, 3,
     ("s0 semaphore_acquire(lock:fence a; 1000 7000000 me:77 1 0 3)\n"
      "s0 semaphore_acquire(lock:fence a; 1000 7000000 me:77 2 2000 3)\n"
      "s0 permit_renew(a a; me:77 1 1000 me:77 2 1000)\n"
      "s0 semaphore_release(a; me:77 2)\ns0 permit_renew(a; me:77 1 3000)\n")},
    {&rlock_fair_semaphore, 3,
     ("s0 semaphore_acquire(lock:fence a a:queue a:beats; 1000 7000000 me:77 1 0 3)\n"
      "s0 semaphore_acquire(lock:fence a a:queue a:beats; 1000 7000000 me:77 2 2000 3)\n"
      "s0 permit_renew(a a; me:77 1 1000 me:77 2 1000)\n"
      "s0 fair_semaphore_release(a a:queue a:beats; me:77 2)\n"
      "s0 permit_renew(a; me:77 1 3000)\n")},
    {&rlock_read, 0,
     ("s0 read_acquire(lock:fence a a:queue a:beats a:readers; 1000 7000000 me:77 1 0 "
      "0)\n"
      "s0 read_acquire(lock:fence a a:queue a:beats a:readers; 1000 7000000 me:77 2 2000 "
      "0)\n"
      "s0 permit_renew(a a; me:77 1 1000 me:77 2 1000)\n"
      "s0 rw_release(a a:queue a:beats a:readers; me:77 2)\n"
      "s0 permit_renew(a; me:77 1 3000)\n")},
    {&rlock_write, 0,
     ("s0 write_acquire(lock:fence a a:queue a:beats a:readers; 1000 7000000 me:77 1 0 "
      "0)\n"
      "s0 write_acquire(lock:fence a a:queue a:beats a:readers; 1000 7000000 me:77 2 "
      "2000 0)\n"
      "s0 permit_renew(a a; me:77 1 1000 me:77 2 1000)\n"
      "s0 rw_release(a a:queue a:beats a:readers; me:77 2)\n"
      "s0 permit_renew(a; me:77 1 3000)\n")},
};

CLIENT_CASE(test_kinds__send_their_keys_and_arguments)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct rlock_acquire_options options = {.kind = kinds[i].kind,
                                                .permits = kinds[i].permits,
                                                .lease_ms = 1000,
                                                .watchdog = true,
                                                .holder = 77};

        if (i > 0)
            start_over(state);
        only_commands = true;
        acquire(0, "a", options);
        flush();
        reply(0, "*4 +# :6000000 :100 +1");
        options.wait_ms = 2000;
        acquire(1, "a", options);
        flush();
        reply(0, "*5 +# :6000000 :101 +1 *1 :102");
        pass_us(400000);
        reply(0, "+#_11");
        extend(0, 3000);
        release(1);
        flush();
        reply(0, "+#_1");
        reply(0, "+#_1");
        EXPECT(kinds[i].done);
    }
}

/* -- keys.c -- */

CLIENT_CASE(test_keys__tell_how_long_a_lock_waits_and_is_held)
{
    static const struct {
        uint32_t wait_ms;
        int64_t passed_us;
        unsigned long long left_ms;
    } cases[] = {
        {6000, 0, 6000},
        {6001, 0, 6000},
        {6001, 999, 6000},
        {6001, 1000, 6000},
        {6001, 2000, 5999},
        {7, 6999, 1},
        {7, 7000, 0},
        {7, 8000, 0},
        {RLOCK_WAIT_FOREVER, 0, 6000},
        {RLOCK_WAIT_FOREVER, INT64_C(5000000000000), 6000},
    };

    only_commands = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        acquire(0, "a",
                (struct rlock_acquire_options){.lease_ms = 1000,
                                               .wait_ms = cases[i].wait_ms});
        now_us += cases[i].passed_us;
        flush();
        if (strtoull(conns[0].words[conns[0].count - 2], NULL, 10) != cases[i].left_ms)
            fail_msg("case %zu: it waits for %s ms, expected %llu", i,
                     conns[0].words[conns[0].count - 2], cases[i].left_ms);
        cancel(0);
        turn();
    }
    forget();
}

CLIENT_CASE(test_keys__of_a_lock_that_is_kept_until_hold_min_ms)
{
    static const struct {
        uint32_t hold_min_ms;
        int64_t held_us;
        const char *reply, *done;
    } cases[] = {
        {100, 0, "*4 +# :6000000 :100 +1",
         "s0 renew(a; me:1 102)\ns0 flush\nstats: held-1 holds[0]+1\n"},
        {100, 99999, "*4 +# :6000000 :101 +1",
         "s0 renew(a; me:2 2)\ns0 flush\nstats: held-1 holds[7]+1 holds+99999\n"},
        {100, 100000, "*4 +# :6000000 :102 +1",
         "s0 release(lock:fence:waiting a; me:3)\ns0 flush\n"
         "stats: held-1 holds[7]+1 holds+100000\n"},
        {1, 0, "*4 +# :6000000 :103 +1",
         "s0 renew(a; me:4 3)\ns0 flush\nstats: held-1 holds[0]+1\n"},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        acquire(i, "a",
                (struct rlock_acquire_options){.lease_ms = 1000,
                                               .hold_min_ms = cases[i].hold_min_ms});
        flush();
        reply(0, cases[i].reply);
        forget_all();
        now_us += cases[i].held_us;
        release(i);
        turn();
        EXPECT(cases[i].done);
        reply(0, "+#_1");
    }
}

CLIENT_CASE(test_keys__of_getset_are_times)
{
    acquire(0, "a",
            (struct rlock_acquire_options){.kind = &rlock_getset, .lease_ms = 1000});
    flush();
    reply(0, "*4 +# :6000000 :100 +1");
    release(0);
    turn();
    EXPECT("s0 getset_acquire(lock:fence a; 1000 7000000 5000 6001)\ns0 flush\n"
           "event granted a 0\n0 ok fence 101 safe 988000\n"
           "s0 release(lock:fence:waiting a; 6001)\ns0 flush\n"
           "stats: granted+1 waits[0]+1 holds[0]+1\n");
}

CLIENT_CASE(test_keys__of_a_channel_are_those_of_redisson)
{
    struct rlock_acquire_options options = waiting;

    options.kind = &rlock_reentrant;
    acquire(0, "a", options);
    acquire(1, "{b}c", options);
    flush();
    reply(0, "*5 +# :6000000 :100 +00 *2 :60000 :60000");
    forget_all();
    go_up(1);
    turn();
    EXPECT("c1 SUBSCRIBE redisson_lock__channel:{b}c\n"
           "c1 SUBSCRIBE redisson_lock__channel:{a}\nc1 flush\n");
}

/* -- batch.c -- */

CLIENT_CASE(test_batch__is_of_one_lease_and_leaves_in_the_order_of_classes)
{
    struct rlock_acquire_options longer = {.lease_ms = 2000};

    acquire(0, "a", plain);
    acquire(1, "b", longer);
    flush();
    reply(0, "*4 +# :6000000 :100 +1");
    reply(0, "*4 +# :6000000 :101 +1");
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\n"
           "s0 acquire(lock:fence b; 2000 7000000 me:2)\ns0 flush\nevent granted a 0\n"
           "0 ok fence 101 safe 988000\nevent granted b 0\n"
           "1 ok fence 102 safe 1978000\nstats: granted+2 held+2 waits[0]+2\n");
    acquire(2, "c", plain);
    acquire(3, "d", longer);
    acquire(4, "e", plain);
    acquire(5, "f",
            (struct rlock_acquire_options){.lease_ms = 1000, .kind = &rlock_reentrant});
    extend(0, 1500);
    release(1);
    turn();
    EXPECT("s0 release(lock:fence:waiting b; me:2)\ns0 renew(a; me:1 1500)\n"
           "s0 acquire(lock:fence c e; 1000 7000000 me:3 me:5)\n"
           "s0 acquire(lock:fence d; 2000 7000000 me:4)\n"
           "s0 reentrant_acquire(lock:fence f; 1000 7000000 me:0 6)\ns0 flush\n"
           "stats: held-1 holds[0]+1\n");
    reply(0, "+#_0"); /* reply to the release */
    reply(0, "+#_0"); /* reply to the extension */
    reply(0, "*4 +# :6000000 :200 +10");
    reply(0, "*4 +# :6000000 :202 +E");
    reply(0, "*4 +# :6000000 :203 +X");
    EXPECT("event lost b 0\n1 lost\nevent lost a 0\n0 lost\nevent granted c 0\n"
           "2 ok fence 201 safe 988000\nevent busy e 0\n4 busy\nevent failed d 0\n"
           "3 refused: WRONGTYPE the key holds no lock of this kind\nevent failed f 0\n"
           "5 invalid: holder: has the lock to read, so it cannot get it to write\n"
           "stats: granted+1 busy+1 lost+2 failed+2 waits[0]+1 holds[0]+1\n"
           "lost: 'lost'\n"
           "invalid of another kind: 'holder: has the lock to read, so it cannot get it "
           "to write'\n"
           "refused: 'WRONGTYPE the key holds no lock of this kind'\n");
}

static void client_test_on_query(enum rlock_status status, void *arg)
{
    assert_ptr_equal(arg, self);
    note("query %s\n", rlock_status_name(status));
}

CLIENT_CASE(test_batch__joins_only_its_like)
{
    struct rlock_acquire_options confirmed = {
        .lease_ms = 1000, .replicas = 1, .replicas_wait_ms = 50};

    acquire(0, "a", confirmed);
    confirmed.replicas = 2;
    acquire(1, "b", confirmed);
    confirmed.replicas_wait_ms = 60;
    acquire(2, "c", confirmed);
    acquire(3, "d", confirmed);
    acquire(4, "e", plain);
    acquire(5, "f", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 9000});
    for (int i = 0; i < 2; i++)
        rlock_force_release(self->client, "g", 1, client_test_on_query, self);
    turn();
    EXPECT("s0 force_release(g g:queue g:beats; )\n"
           "s0 force_release(g g:queue g:beats; )\n"
           "s0 acquire(lock:fence a; 1000 7000000 me:1)\n"
           "s0 acquire(lock:fence b; 1000 7000000 me:2)\n"
           "s0 acquire(lock:fence c d; 1000 7000000 me:3 me:4)\n"
           "s0 acquire(lock:fence e; 1000 7000000 me:5)\n"
           "s0 acquire_wait(lock:fence lock:fence:waiting f; 1000 7000000 me:6 6000)\n"
           "s0 flush\n");
}

CLIENT_CASE(test_batch__holds_128_locks)
{
    char results[200] = "*4 +# :6000000 :100 +";

    for (unsigned i = 0; i < 129; i++)
        acquire(i, "a", plain);
    flush();
    ASSERT_NUMBER(list_count(&conns[0].pending), ==, 2);
    ASSERT_NUMBER(conns[0].count, ==, 4 + 2 + 2 + 1);
    memset(results + strlen(results), '0', 128);
    results[strlen(results) - 1] = '1';
    reply(0, results);
    assert_false(rlock_is_held(&self->locks[126]));
    assert_true(rlock_is_held(&self->locks[127]));
    ASSERT_NUMBER(rlock_fence(&self->locks[127]), ==, 228);
    /* the first batch has taken one fence for each lock */
    reply(0, "*4 +# :6000000 :228 +1");
    ASSERT_NUMBER(rlock_fence(&self->locks[128]), ==, 229);
    forget_all();
}

/** Open `count` batches, each with a lease of its own. Then acquire two locks with the leases of
 *  the second and of the first batch. */
static void open_batches(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        acquire(i, "a", (struct rlock_acquire_options){.lease_ms = 1000 + i});
    acquire(count, "a", (struct rlock_acquire_options){.lease_ms = 1001});
    acquire(count + 1, "a", (struct rlock_acquire_options){.lease_ms = 1000});
    flush();
    forget_all();
}

CLIENT_CASE(test_batch__is_sought_among_the_8_newest)
{
    open_batches(9);
    ASSERT_NUMBER(list_count(&conns[0].pending), ==, 10);
}

CLUSTER_CASE(test_batch__of_a_cluster_is_sought_among_8_per_server)
{
    open_batches(8 * RLOCK_BUCKETS + 1);
    ASSERT_NUMBER(list_count(&conns[12].pending), ==, 8 * RLOCK_BUCKETS + 2);
}

CLUSTER_CASE(test_batch__of_a_cluster_is_of_one_server)
{
    acquire(0, "a", plain);
    acquire(1, "b", plain);
    acquire(2, "q", plain); /* 'q' is in the bucket of 'a' */
    turn();
    EXPECT("s12 acquire({12}lock:fence {12}a {12}q; 1000 7000000 me:1 me:3)\n"
           "s5 acquire({5}lock:fence {5}b; 1000 7000000 me:2)\ns5 flush\ns12 flush\n");
    reply(12, "*4 +# :6000000 :100 +10");
    reply(5, "*4 +# :6000000 :7 +1");
    release(0);
    turn();
    reply(12, "+#_1");
    EXPECT("event granted a 0\n0 ok fence 101 safe 988000\nevent busy q 0\n2 busy\n"
           "event granted b 0\n1 ok fence 8 safe 988000\n"
           "s12 release({12}lock:fence:waiting {12}a; me:1)\ns12 flush\n"
           "event released a 0\n0 ok\n"
           "stats: granted+2 busy+1 released+1 held+1 waits[0]+2 holds[0]+1\n");
    /* nobody got the message of the release */
    assert_false(self->client->waits.has_turns);
    rlock_list(self->client, NULL, 0, NULL, client_test_on_query, self);
    turn();
    EXPECT("s0 list({0}lock:fence; {0} 0)\ns0 flush\n");
}

CLIENT_CASE(test_batch__closes_the_gaps_of_locks_that_leave)
{
    for (unsigned i = 0; i < 4; i++)
        acquire(i, (const char *[]){"a", "b", "c", "d"}[i], plain);
    cancel(0);
    cancel(2);
    turn();
    EXPECT("0 cancelled\n2 cancelled\n"
           "s0 acquire(lock:fence b d; 1000 7000000 me:2 me:4)\ns0 flush\n");
    cancel(1); /* this acquire was already sent */
    reply(0, "*4 +# :6000000 :100 +11");
    EXPECT("event granted d 0\n3 ok fence 102 safe 988000\n"
           "stats: granted+1 held+1 waits[0]+1\n");
    turn();
    EXPECT("1 cancelled\ns0 release(lock:fence:waiting b; me:2)\ns0 flush\n");
    reply(0, "+#_1");
    acquire(0, "a", plain);
    cancel(0);
    turn();
    EXPECT("event released b 0\n0 cancelled\nstats: released+1\n");
}

CLIENT_CASE(test_batch__is_sent_again_with_the_body_of_its_script)
{
    acquire(0, "a", plain);
    acquire(1, "b", plain);
    flush();
    cancel(0);
    now_us += 300;
    reply(0, "-NOSCRIPT_No_matching_script");
    EXPECT("s0 acquire(lock:fence a b; 1000 7000000 me:1 me:2)\ns0 flush\n"
           "s0 EVAL acquire(lock:fence b; 1000 7000000 me:2)\ns0 flush\n");
    reply(0, "*4 +# :6000000 :100 +1");
    EXPECT("event granted b 300\n1 ok fence 101 safe 987700\n"
           "stats: granted+1 held+1 waits[0]+1 waits+300\n");
    acquire(2, "c", plain);
    flush();
    cancel(2);
    end_all_commands();
    forget_all();
    acquire(2, "c", plain);
    flush();
    rlock_batch_leave(&self->locks[2]);
    reply(0, "-NOSCRIPT_No_matching_script");
    EXPECT("s0 release(lock:fence:waiting c; me:3)\ns0 flush\n"
           "s0 EVAL release(lock:fence:waiting c; me:3)\ns0 flush\n");
    self->locks[2].state = RLOCK_STATE_IDLE;
}

CLIENT_CASE(test_batch__that_came_too_late_is_sent_again_until_its_timeout)
{
    acquire(0, "a", plain);
    flush();
    now_us += 999999;
    reply(0, "*2 +# :8000000");
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\n"
           "s0 acquire(lock:fence a; 1000 9000000 me:1)\ns0 flush\n");
    now_us += 1;
    reply(0, "*2 +# :8000000");
    EXPECT("event failed a 1000000\n0 timeout\nstats: failed+1\ntimeout: 'timeout'\n");
    turn();
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 flush\n");
}

CLIENT_CASE(test_batch__with_a_reply_of_another_shape_is_unknown)
{
    static const char *const replies[] = {"+#_OK",
                                          "*1 +#",
                                          "*2 +# +6",
                                          "*4 +# :6000000 :100 +11",
                                          "*4 +# :6000000 :100 +",
                                          "*4 +# +6000000 :100 +1",
                                          "*4 +# :6000000 +100 +1",
                                          "*4 +# :6000000 :100 :1",
                                          "*5 +# :6000000 :100 +1 *1 +101",
                                          "*5 +# :6000000 :100 +1 *0",
                                          "*3 +# +1 *1 :60000",
                                          "*3 +# +00 *2 :60000 :60000",
                                          "*3 +# +0 *1 +60000"};

    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
        if (i > 0)
            start_over(state);
        acquire(0, "a", plain);
        flush();
        forget_all();
        reply(0, replies[i]);
        turn();
        EXPECT("event failed a 0\n0 io\ns0 release(lock:fence:waiting a; me:1)\n"
               "s0 flush\nstats: failed+1\nio: 'io'\n");
    }
    acquire(0, "a", plain);
    turn();
    forget_all();
    reply(0, "+#_");
    EXPECT("");
}

CLIENT_CASE(test_batch__gives_each_lock_its_number)
{
    acquire(0, "a", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 1});
    acquire(1, "b", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 1});
    flush();
    reply(0, "*5 +# :6000000 :100 +11 *2 :105 :101");
    EXPECT(
        "s0 acquire_wait(lock:fence lock:fence:waiting a b; 1000 7000000 me:1 1 me:2 1)\n"
        "s0 flush\nevent granted a 0\n0 ok fence 105 safe 988000\n"
        "event granted b 0\n1 ok fence 101 safe 988000\n"
        "stats: granted+2 held+2 waits[0]+2\n");
    acquire(2, "c", plain);
    flush();
    reply(0, "*4 +# :6000200 :6000200 +1"); /* the fence counter was missing */
    EXPECT("s0 acquire(lock:fence c; 1000 7000000 me:3)\ns0 flush\nevent granted c 0\n"
           "2 ok fence 6000201 safe 988000\n"
           "stats: granted+1 fence_restarts+1 held+1 waits[0]+1\n");
}

CLIENT_CASE(test_batch__reads_each_result_of_a_release)
{
    for (unsigned i = 0; i < 6; i++)
        acquire(i, (const char *[]){"a", "b", "c", "d", "e", "f"}[i],
                (struct rlock_acquire_options){.lease_ms = i == 0 ? 2000 : 1000});
    flush();
    reply(0, "*4 +# :6000000 :100 +1");
    reply(0, "*4 +# :6000000 :101 +11111");
    forget_all();
    for (unsigned i = 0; i < 6; i++)
        release(i);
    turn();
    EXPECT("s0 release(lock:fence:waiting a b c d e f; me:1 me:2 me:3 me:4 me:5 "
           "me:6)\n"
           "s0 flush\nstats: held-6 holds[0]+6\n");
    reply(0, "+#_190E:/");
    EXPECT("event released a 0\n0 ok\nevent released b 0\n1 ok\nevent lost c 0\n"
           "2 lost\nevent failed d 0\n"
           "3 refused: WRONGTYPE the key holds no lock of this kind\nevent failed e 0\n"
           "4 io\nevent failed f 0\n5 io\n"
           "stats: lost+1 released+2 failed+3\nlost: 'lost'\n"
           "io: 'a script of another version replied'\n"
           "refused: 'WRONGTYPE the key holds no lock of this kind'\n");
    /* another client got the message of 'b' */
    assert_true(self->client->waits.has_turns);
}

CLIENT_CASE(test_batch__that_is_refused)
{
    acquire(0, "a", plain);
    acquire(1, "b", (struct rlock_acquire_options){.lease_ms = 2000});
    turn();
    reply(0, "-OOM_command_not_allowed");
    reply(0, "-BUSY_Redis_is_busy");
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\n"
           "s0 acquire(lock:fence b; 2000 7000000 me:2)\ns0 flush\nevent failed a 0\n"
           "0 refused: OOM command not allowed\nevent failed b 0\n1 down\n"
           "stats: failed+2\ndown: 'BUSY Redis is busy'\n"
           "refused: 'OOM command not allowed'\n");
}

/** The rights are read after each connect. While the connection is lost, they are unknown. So the
 *  call fails because the server is down, and not because the user lacks a right. */
CLIENT_CASE(test_batch__lacks_a_right_only_while_connected)
{
    struct rlock_acquire_options reentrant = {.kind = &rlock_reentrant, .holder = 77};

    lacked_rights = "+hset";
    acquire(0, "a", reentrant);
    flush();
    turn();
    EXPECT("event failed a 0\n0 refused: NOPERM the user lacks +hset\nstats: failed+1\n"
           "refused of another kind: 'NOPERM the user lacks +hset'\n");
    go_down(0, RLOCK_IO, "lost");
    forget_all();
    acquire(0, "a", reentrant);
    flush();
    turn();
    EXPECT("event failed a 0\n0 down\nstats: failed+1\n"
           "down of another kind: 'lost'\n");
}

CLIENT_CASE(test_batch__that_cannot_be_written)
{
    conns[0].has_memory = false;
    acquire(0, "a", plain);
    flush();
    EXPECT("");
    conns[0].has_memory = true;
    acquire(1, "b", plain);
    flush();
    EXPECT("s0 acquire(lock:fence b; 1000 7000000 me:2)\ns0 flush\n");
    turn();
    EXPECT("event failed a 0\n0 no_memory\nstats: failed+1\nno_memory: 'no_memory'\n");
    go_down(0, RLOCK_IO, "WRONGPASS invalid");
    forget_all();
    acquire(0, "a", plain);
    acquire(3, "d", (struct rlock_acquire_options){.lease_ms = 2000});
    flush();
    acquire(2, "c", plain);
    cancel(0); /* this call has already failed */
    turn();
    EXPECT("0 cancelled\nevent failed d 0\n3 refused: WRONGPASS invalid\n"
           "stats: failed+1\nrefused: 'refused'\n");
    turn();
    EXPECT("event failed c 0\n2 refused: WRONGPASS invalid\nstats: failed+1\n");
}

CLIENT_CASE(test_batch__waits_while_its_keys_are_moving)
{
    acquire(0, "a", plain);
    acquire(1, "b", (struct rlock_acquire_options){.lease_ms = 2000});
    turn();
    forget_all();
    conns[0].is_moving = true;
    reply(0, "-MOVED_1_h:2");
    reply(0, "-MOVED_1_h:2");
    acquire(2, "c", plain);
    acquire(3, "d", (struct rlock_acquire_options){.lease_ms = 3000});
    turn();
    turn();
    EXPECT("");
    go_up(0);
    EXPECT("s0 EVAL raise_fence(lock:fence; 0)\n"
           "s0 acquire(lock:fence a c; 1000 2305843009219693951 me:1 me:3)\n"
           "s0 acquire(lock:fence b; 2000 2305843009219693951 me:2)\n"
           "s0 acquire(lock:fence d; 3000 2305843009219693951 me:4)\ns0 flush\n");
    conns[0].is_moving = true;
    acquire(4, "e", plain);
    turn();
    close_client(); /* the close does not wait for the end of the move */
    EXPECT("4 cancelled\n0 cancelled\n2 cancelled\n1 cancelled\n3 cancelled\n");
}

CLIENT_CASE(test_close__cancels_what_could_not_be_sent)
{
    acquire(0, "a", plain);
    conns[0].has_memory = false;
    rlock_flush(self->client); /* the next turn would answer the call */
    forget_all();
    close_client();
    EXPECT("0 cancelled\ns0 close\n");
}

CLIENT_CASE(test_close__awaits_what_is_not_sent_again)
{
    acquire(0, "a", plain);
    flush();
    close_client();
    end_later(0); /* the acquire ends after its release */
    reply(0, "+#_1");
    forget_all();
    reply(0, "-NOSCRIPT_No_matching_script");
    EXPECT("s0 close\n");
}

CLIENT_CASE(test_close__by_a_callback_cancels_the_rest_of_the_batch)
{
    for (unsigned i = 0; i < 3; i++)
        acquire(i, (const char *[]){"a", "b", "c"}[i], plain);
    flush();
    forget_all();
    self->hook = close_client;
    reply(0, "*4 +# :6000000 :100 +111");
    EXPECT("event granted a 0\n0 ok fence 101 safe 988000\n"
           "s0 release(lock:fence:waiting b c; me:2 me:3)\ns0 flush\n1 cancelled\n"
           "2 cancelled\nstats: granted+1 held+1 waits[0]+1\n");
    reply(0, "+#_11");
    turn();
    turn();
    EXPECT("event released b 0\nevent released c 0\ns0 close\nclosed\n");
}

/* -- batch.c: grants that replicas confirm -- */

static struct rlock_acquire_options confirmed_by(uint8_t replicas, uint16_t wait_ms)
{
    return (struct rlock_acquire_options){
        .lease_ms = 1000, .replicas = replicas, .replicas_wait_ms = wait_ms};
}

CLIENT_CASE(test_confirm__asks_once_for_all_batches_of_the_same_need)
{
    acquire(0, "a", confirmed_by(2, 50));
    acquire(1, "b", confirmed_by(2, 50));
    acquire(9, "z", plain);
    flush();
    acquire(2, "c", confirmed_by(2, 60));
    acquire(3, "d", confirmed_by(1, 50));
    flush();
    acquire(4, "e", confirmed_by(2, 50));
    flush();
    forget_all();
    reply(0, "*4 +# :6000000 :100 +10");
    EXPECT("s0 WAIT 2 50\ns0 flush\n");
    reply(0, "*4 +# :6000000 :102 +1"); /* this grant needs no replica */
    release(9);
    reply(0, "*4 +# :6000000 :103 +1");
    reply(0, "*4 +# :6000000 :104 +1");
    EXPECT("event granted z 0\n9 ok fence 103 safe 988000\n"
           "stats: granted+1 waits[0]+1 holds[0]+1\n");
    end_later(0);   /* the reply to 'e' comes last */
    reply(0, ":2"); /* reply to the first WAIT */
    EXPECT("event granted a 0\n0 ok fence 101 safe 988000\nevent busy b 0\n1 busy\n"
           "s0 release(lock:fence:waiting z; me:3)\ns0 flush\ns0 WAIT 2 60\ns0 flush\n"
           "stats: granted+1 busy+1 held+1 waits[0]+1\n");
    flush();
    EXPECT("");
    reply(0, "*4 +# :6000000 :105 +1");
    reply(0, "+#_1"); /* reply to the release */
    reply(0, ":1");
    EXPECT("event released z 0\n9 ok\nevent failed c 0\n2 unsafe\n"
           "s0 release(lock:fence:waiting c; me:4)\ns0 flush\ns0 WAIT 1 50\ns0 flush\n"
           "stats: released+1 failed+1\nunsafe: 'unsafe'\n");
    reply(0, "+#_1"); /* reply to the release */
    reply(0, ":1");
    EXPECT("event released c 0\nevent granted d 0\n3 ok fence 105 safe 988000\n"
           "s0 WAIT 2 50\ns0 flush\nstats: granted+1 released+1 held+1 waits[0]+1\n");
    end_command(0, RLOCK_TIMEOUT, NULL);
    EXPECT("event failed e 0\n4 timeout\nstats: failed+1\ntimeout: 'timeout'\n");
}

CLIENT_CASE(test_confirm__by_too_few_replicas_refuses_a_full_batch)
{
    char results[200] = "*4 +# :6000000 :100 +";

    for (unsigned i = 0; i < 128; i++)
        acquire(i, "a", confirmed_by(2, 50));
    flush();
    memset(results + strlen(results), '1', 128);
    reply(0, results);
    ASSERT_NUMBER(self->client->stats.failed, ==, 0);
    reply(0, ":1");
    ASSERT_NUMBER(self->client->stats.failed, ==, 128);
    forget_all();
}

CLIENT_CASE(test_confirm__of_no_grant_is_not_asked)
{
    acquire(0, "a", confirmed_by(1, 50));
    flush();
    reply(0, "*4 +# :6000000 :100 +0");
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\nevent busy a 0\n"
           "0 busy\nstats: busy+1\n");
}

CLIENT_CASE(test_confirm__that_fails)
{
    for (unsigned i = 0; i < 2; i++) {
        acquire(i, "a", confirmed_by(1, 50));
        acquire(i + 2, "b", confirmed_by(1, 50));
        flush();
        reply(0, i == 0 ? "*4 +# :6000000 :100 +10" : "*4 +# :6000000 :200 +10");
        forget_all();
        reply(0, i == 0 ? "-OOM_command_not_allowed" : "+OK");
        EXPECT(i == 0 ? "event failed a 0\n0 unsafe\nevent busy b 0\n2 busy\n"
                        "stats: busy+1 failed+1\nunsafe: 'unsafe'\n"
                      : "event failed a 0\n1 io\nevent failed b 0\n3 io\n"
                        "stats: failed+2\nio: 'io'\n");
        turn();
        end_all_commands();
        forget_all();
    }
    acquire(0, "a", confirmed_by(1, 50));
    acquire(1, "b", confirmed_by(1, 60));
    flush();
    forget_all();
    conns[0].has_memory = false;
    reply(0, "*4 +# :6000000 :300 +1");
    reply(0, "*4 +# :6000000 :301 +1");
    EXPECT("event failed a 0\n0 io\nevent failed b 0\n1 io\nstats: failed+2\n");
    conns[0].has_memory = true;
    turn();
    EXPECT("s0 release(lock:fence:waiting b; me:6)\ns0 flush\n");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
