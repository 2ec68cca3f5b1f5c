/* test_lock_handed.c - locks that a client hands to its own next waiter. */
#include "test/scripted_client.h"

/* -- turns -- */

#define SILENT   "s0 renew(a; me:1 0)\n"
#define TRY      "s0 acquire_again(lock:fence lock:fence:waiting a; 1000 7000000 me:2 6000)\n"
#define RELEASED "stats: held-1 holds[0]+1\n"

static struct rlock_turns *turns_of_a(void)
{
    return &self->client->waits.turns[rlock_keys_hash("a", 1) % RLOCK_TURNS];
}

/** Let lock 0 be held and lock 1 wait, in the turn of this client. */
static void begin_turn(struct rlock_acquire_options options)
{
    acquire_first(options);
    acquire(1, "a", waiting);
    flush();
    reply(0, "*5 +# :6000000 :200 +0 *1 :60000");
    turns_of_a()->name_hash = rlock_keys_hash("a", 1);
    forget_all();
}

/** The release is silent: it deletes the name without a message, and the next waiter tries in the
 *  same write. */
CLIENT_CASE(test_release__in_a_turn_is_silent)
{
    begin_turn(plain);
    self->client->waits.has_turns = turns_of_a()->is_contended = true;
    release(0);
    turn();
    EXPECT(SILENT TRY "s0 flush\n" RELEASED);
    reply(0, "+#_1");
    EXPECT("event released a 0\n0 ok\nstats: released+1\n");
    assert_true(turns_of_a()->is_contended); /* although no other client got a message */
}

CLIENT_CASE(test_release__whose_try_is_cancelled_is_followed_by_a_message)
{
    begin_turn(plain);
    release(0);
    cancel(1);
    turn();
    EXPECT("1 cancelled\n" SILENT "s0 release(lock:fence:waiting a; me:2)\n"
           "s0 flush\nstats: held-1 waiters-1 holds[0]+1\n");
}

CLIENT_CASE(test_close__in_a_turn_sends_a_message)
{
    begin_turn(plain);
    release(0);
    close_client();
    EXPECT("c1 close\n" SILENT "s0 release(lock:fence:waiting a; me:2)\ns0 flush\n"
           "0 cancelled\n1 cancelled\nstats: held-1 waiters-1 holds[0]+1\n");
}

/** The server did not know the script of the release, but executed the try, which found the lock
 *  busy. So a second release sends the message, but not if hold_min_ms keeps the name taken. */
CLIENT_CASE(test_release__that_is_sent_again_is_followed_by_a_message)
{
    static const struct {
        uint32_t hold_min_ms;
        const char *first, *again, *done;
    } cases[] = {
        {0, SILENT TRY "s0 flush\n" RELEASED, "s0 EVAL renew(a; me:1 0)\ns0 flush\n",
         "event released a 0\n0 ok\ns0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
         "stats: released+1\n"},
        {500, "s0 renew(a; me:1 502)\n" TRY "s0 flush\n" RELEASED,
         "s0 EVAL renew(a; me:1 502)\ns0 flush\n",
         "event released a 0\n0 ok\nstats: released+1\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (i > 0)
            start_over(state);
        begin_turn((struct rlock_acquire_options){.lease_ms = 1000,
                                                  .hold_min_ms = cases[i].hold_min_ms});
        release(0);
        turn();
        EXPECT(cases[i].first);
        reply(0, "-NOSCRIPT_No_matching_script");
        EXPECT(cases[i].again);
        reply(0, "*3 +# +0 *1 :60000"); /* reply to the try */
        reply(0, "+#_1");
        turn();
        EXPECT(cases[i].done);
    }
}

/* -- locks that are passed on -- */

static const struct rlock_acquire_options cohort = {
    .kind = &rlock_cohort, .lease_ms = 1000, .wait_ms = 60000};

/** Let three locks wait for another client. Then lock 0 gets `fence`, and may be passed on 16
 *  times. */
static void hold_before_waiters(struct rlock_acquire_options options, const char *fence)
{
    char text[40];

    for (unsigned i = 0; i < 3; i++)
        acquire(i, "a", options);
    flush();
    reply(0, "*5 +# :6000000 :10 +000 *3 :60000 :60000 :60000");
    go_up(1);
    reply(1, "*3 +subscribe +rlock:a :1");
    turn();
    snprintf(text, sizeof(text), "*5 +# :6000000 :100 +1 *1 :%s", fence);
    reply(0, text);
    forget_all();
}

CLIENT_CASE(test_pass__gives_the_next_fence_without_the_server)
{
    hold_before_waiters(cohort, "102");
    now_us += 9999;
    release(0);
    turn();
    EXPECT("event released a 9999\nevent granted a 9999\n1 ok fence 103 safe 978001\n"
           "0 ok\n"
           "stats: granted+1 released+1 waiters-1 waits[4]+1 waits+9999 holds[4]+1 "
           "holds+9999\n");
    ASSERT_NUMBER(self->locks[1].passes, ==, 15);
    ASSERT_NUMBER(self->client->servers[0].last_fence, ==, 118);
    now_us += 1;
    release(1); /* 10 ms after the server has granted the lock */
    turn();
    EXPECT("s0 release(lock:fence:waiting a; me:1)\n"
           "s0 acquire_again(lock:fence lock:fence:waiting a; 1000 7010000 me:3 6000 0)\n"
           "s0 flush\nstats: held-1 holds[0]+1 holds+1\n");
    reply(0, "+#_1");
    reply(0, "*5 +# :6000000 :200 +1 *1 :201");
    EXPECT("event released a 1\n1 ok\nc1 UNSUBSCRIBE rlock:a\nevent granted a 10000\n"
           "2 ok fence 201 safe 988000\n"
           "stats: granted+1 released+1 held+1 waiters-1 waits[4]+1 waits+10000\n");
}

CLIENT_CASE(test_pass__ends_when_no_passes_are_left)
{
    hold_before_waiters(cohort, "102");
    self->locks[0].passes = 1;
    forget_all();
    release(0);
    turn();
    EXPECT("event released a 0\nevent granted a 0\n1 ok fence 103 safe 988000\n0 ok\n"
           "stats: granted+1 released+1 waiters-1 waits[0]+1 holds[0]+1\n");
    release(1);
    turn();
    EXPECT("s0 release(lock:fence:waiting a; me:1)\n"
           "s0 acquire_again(lock:fence lock:fence:waiting a; 1000 7000000 me:3 6000 0)\n"
           "s0 flush\nstats: held-1 holds[0]+1\n");
}

CLIENT_CASE(test_pass__to_a_lock_that_is_cancelled_releases_it)
{
    hold_before_waiters(cohort, "102");
    release(0);
    cancel(1);
    turn();
    EXPECT("event released a 0\n1 cancelled\n0 ok\n"
           "s0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
           "stats: released+1 held-1 waiters-1 holds[0]+1\n");
    turn();
    EXPECT("");
}

CLIENT_CASE(test_pass__of_a_short_lease_ends_at_a_tenth_of_it)
{
    struct rlock_acquire_options options = cohort;

    options.lease_ms = 50;
    hold_before_waiters(options, "102");
    now_us += 4999;
    release(0);
    turn();
    forget_all();
    now_us += 1;
    release(1);
    turn();
    EXPECT("s0 release(lock:fence:waiting a; me:1)\n"
           "s0 acquire_again(lock:fence lock:fence:waiting a; 50 7005000 me:3 6000 0)\n"
           "s0 flush\nstats: held-1 holds[0]+1 holds+1\n");
}

CLIENT_CASE(test_pass__when_the_client_is_closed)
{
    hold_before_waiters(cohort, "102");
    release(0);
    close_client();
    EXPECT("event released a 0\nc1 UNSUBSCRIBE rlock:a\nc1 close\n1 cancelled\n0 ok\n"
           "2 cancelled\ns0 release(lock:fence:waiting a; me:1)\ns0 flush\n"
           "stats: released+1 held-1 waiters-2 holds[0]+1\n");
}

/** A lock is not passed on after an extension. It is also not passed on if other clients got the
 *  fences that would follow its own. */
CLIENT_CASE(test_pass__is_not_done_with_fences_of_others)
{
    for (int i = 0; i < 2; i++) {
        if (i > 0)
            start_over(state);
        hold_before_waiters(cohort, i == 0 ? "102" : "101");
        if (i == 0) {
            extend(0, 1000);
            flush();
            reply(0, "+#_1");
        }
        ASSERT_NUMBER(self->locks[0].passes, ==, 0);
        forget_all();
        release(0);
        turn();
        EXPECT("s0 release(lock:fence:waiting a; me:1)\n"
               "s0 acquire_again(lock:fence lock:fence:waiting a; 1000 7000000 me:2 6000 "
               "16)\n"
               "s0 flush\nstats: held-1 holds[0]+1\n");
    }
}

/** The server may still execute the first try. Then only a later release can remove its grant. */
CLIENT_CASE(test_pass__is_not_done_if_an_earlier_try_is_in_doubt)
{
    hold_before_waiters(cohort, "102");
    self->locks[0].in_doubt = true;
    release(0);
    turn();
    EXPECT(
        "s0 release(lock:fence:waiting a; me:1)\n"
        "s0 acquire_again(lock:fence lock:fence:waiting a; 1000 7000000 me:2 6000 16)\n"
        "s0 flush\nstats: held-1 holds[0]+1\n");
}

CLIENT_CASE(test_pass__hands_the_renewals_on)
{
    struct rlock_acquire_options options = cohort;

    options.watchdog = true;
    hold_before_waiters(options, "102");
    release(0);
    turn();
    forget_all();
    pass_us(334000);
    EXPECT("s0 renew(a; me:1 1000)\ns0 flush\n");
    reply(0, "+#_0");
    EXPECT(
        "event lost a 334000\n1 on_lost lost\n"
        "stats: lost+1 held-1 holds[9]+1 holds+334000\nlost of another kind: 'lost'\n");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
