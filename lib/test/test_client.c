/* test_client.c - a client from open to close, its calls, its channels and its servers. */
#include "test/scripted_client.h"

/* -- client.c -- */

EMPTY_CASE(test_open__refuses_what_is_missing)
{
    static const struct {
        const char *url;
        uint32_t timeout_ms;
        bool has_loop, has_random;
        unsigned refused_conn;
        enum rlock_status status;
        const char *text, *done;
    } cases[] = {
        {"redis://h", 1, false, true, 0, RLOCK_INVALID, "lock client: loop: must be set",
         ""},
        {NULL, 1, true, true, 0, RLOCK_INVALID, "lock client: redis_url: must be set",
         ""},
        {"redis://h", 0, true, true, 0, RLOCK_INVALID,
         "lock client: timeout_ms: must be > 0", ""},
        {"http://h", 1, true, true, 0, RLOCK_INVALID, "redis url: at byte 1", ""},
        {"redis://h", 1, true, false, 0, RLOCK_IO, "lock client: no random numbers", ""},
        {"redis://h", 1, true, true, 1, RLOCK_NO_MEMORY, "lock client: no memory", ""},
        {"redis-cluster://h", 1, true, true, 3, RLOCK_NO_MEMORY, "lock client: no memory",
         "s0 open key {0}lock:fence:waiting, sibling -1\n"
         "s1 open key {1}lock:fence:waiting, sibling 0\n"
         "s0 close\n"
         "s1 close\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_client_options options = options_of(cases[i].url);
        struct rlock_err err = {0};

        options.timeout_ms = cases[i].timeout_ms;
        options.loop = cases[i].has_loop ? &self->loop : NULL;
        has_random = cases[i].has_random;
        refused_conn = cases[i].refused_conn;
        ASSERT_STATUS(rlock_client_open(&options, &self->client, &err), cases[i].status);
        assert_null(self->client);
        ASSERT_STATUS(err.status, cases[i].status);
        ASSERT_CONTAINS(err.text, cases[i].text);
        EXPECT(cases[i].done);
    }
    ASSERT_STATUS(rlock_client_open(NULL, &self->client, NULL), RLOCK_INVALID);
}

EMPTY_CASE(test_open__without_memory)
{
    struct rlock_client_options options = options_of("redis://h");

    for (unsigned number = 1; number < 3; number++) {
        struct rlock_err err = {0};

        torture_fail(number, 0);
        ASSERT_STATUS(rlock_client_open(&options, &self->client, &err), RLOCK_NO_MEMORY);
        (void)torture_stop();
        assert_string_equal(err.text, "lock client: no memory");
        assert_null(self->client);
    }
}

EMPTY_CASE(test_open__names_itself_and_its_keys)
{
    struct rlock_client_options options = options_of("redis://h");

    options.fence_key = "f";
    generation = 5;
    ASSERT_STATUS(rlock_client_open(&options, &self->client, NULL), RLOCK_OK);
    EXPECT("s0 open key f:waiting, sibling -1\n");
    assert_string_equal(self->client->id, ID);
    assert_ptr_equal(conns[0].options.loop, &self->loop);
    ASSERT_NUMBER(conns[0].options.timeout_ms, ==, TIMEOUT_MS);
    assert_false(rlock_client_is_up(self->client));
    go_up(0);
    EXPECT("s0 EVAL raise_fence(f; 0)\ns0 flush\nstate up\n");
    assert_true(rlock_client_is_up(self->client));
}

EMPTY_CASE(test_close__of_no_client_calls_back_at_once)
{
    rlock_client_close(NULL, NULL, NULL);
    rlock_client_close(NULL, client_test_on_closed, self);
    EXPECT("closed\n");
}

CLIENT_CASE(test_state__is_reported_when_it_changes)
{
    go_down(0, RLOCK_IO, "reset");
    go_down(0, RLOCK_IO, "reset");
    go_down(0, RLOCK_IO, "refused");
    EXPECT("state down: reset\nstate down: refused\n");
    assert_false(rlock_client_is_up(self->client));
    assert_string_equal(rlock_client_why(self->client)->text, "refused");
    now_us += 100;
    go_up(0);
    go_up(0); /* a second report changes nothing */
    EXPECT("s0 EVAL raise_fence(lock:fence; 0)\ns0 flush\nstate up\n"
           "stats: reconnects+1\n");
    acquire(0, "a", plain);
    flush();
    close_client();
    assert_false(rlock_client_is_up(self->client));
    EXPECT("s0 acquire(lock:fence a; 1000 2305843009219694051 me:1)\ns0 flush\n"
           "s0 release(lock:fence:waiting a; me:1)\ns0 flush\n0 cancelled\n");
    go_down(0, RLOCK_IO, "closed");
    go_up(0);
    EXPECT("s0 close\n");
}

CLUSTER_CASE(test_state__of_a_cluster_is_up_with_its_last_server)
{
    EXPECT("");
    go_down(3, RLOCK_IO, "reset");
    go_down(15, RLOCK_IO, "reset");
    go_down(3, RLOCK_IO, "refused");
    go_up(3);
    assert_false(rlock_client_is_up(self->client));
    go_up(15);
    assert_true(rlock_client_is_up(self->client));
    EXPECT("state down: reset\nstate down: refused\n"
           "s3 EVAL raise_fence({3}lock:fence; 0)\ns3 flush\n"
           "s15 EVAL raise_fence({15}lock:fence; 0)\ns15 flush\nstate up\n"
           "stats: reconnects+1\n");
}

EMPTY_CASE(test_state__is_not_reported_to_nobody)
{
    struct rlock_client_options options = options_of("redis://h");

    options.on_state = NULL;
    options.on_event = NULL;
    ASSERT_STATUS(rlock_client_open(&options, &self->client, NULL), RLOCK_OK);
    go_up(0);
    reply(0, "*3 +# :6000000 :9000000000000");
    acquire(0, "a", plain);
    flush();
    reply(0, "*4 +# :6000000 :100 +1");
    go_down(0, RLOCK_IO, "reset");
    EXPECT("s0 open key lock:fence:waiting, sibling -1\n"
           "s0 EVAL raise_fence(lock:fence; 0)\ns0 flush\n"
           "s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\n"
           "0 ok fence 101 safe 988000\nstats: granted+1 held+1 waits[0]+1\n");
}

CLIENT_CASE(test_close__releases_what_acquires_may_still_get)
{
    acquire(0, "a", plain);
    flush();
    acquire(1, "b", plain);
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\n");
    close_client();
    acquire(2, "c", plain);
    flush();
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 flush\n1 cancelled\n"
           "0 cancelled\n");
    reply(0, "*4 +# :6000000 :100 +1");
    EXPECT("");
    reply(0, "+#_1");
    acquire(3, "d", plain);
    EXPECT("event released a 0\ns0 close\nstats: released+1\n");
    turn();
    turn();
    EXPECT("2 cancelled\n3 cancelled\nclosed\n");
}

CLIENT_CASE(test_close__ends_calls_in_every_state)
{
    for (unsigned i = 0; i < 4; i++)
        acquire(i, (const char *[]){"a", "b", "c", "d"}[i], plain);
    acquire(4, "e", (struct rlock_acquire_options){.lease_ms = 1000, .watchdog = true});
    acquire(6, "g", plain);
    acquire(7, "h", plain);
    flush();
    reply(0, "*4 +# :6000000 :100 +1111111");
    pass_us(334000); /* the renewal of "e" is under way */
    forget_all();
    release(0);
    extend(1, 2000);
    flush();
    release(2);
    extend(3, 3000);
    acquire(5, "f", (struct rlock_acquire_options){.lease_ms = 1000, .wait_ms = 5000});
    EXPECT("s0 release(lock:fence:waiting a; me:1)\ns0 renew(b; me:2 2000)\ns0 flush\n"
           "stats: held-2 holds[9]+2 holds+668000\n");
    close_client();
    EXPECT("s0 release(lock:fence:waiting c; me:3)\ns0 flush\n2 cancelled\n"
           "3 cancelled\n5 cancelled\n0 cancelled\n1 cancelled\n");
    assert_false(rlock_is_held(&self->locks[4]));
    for (int i = 0; i < 6; i++)
        assert_null(self->locks[i].batch);
    extend(6, 3000);
    release(7);
    extend(3, 3000);
    release(3);
    EXPECT("stats: held-1 holds[9]+1 holds+334000\n");
    end_all_commands();
    EXPECT("s0 close\n");
    turn();
    turn();
    EXPECT("6 cancelled\n7 cancelled\n3 not_owner\n3 not_owner\nclosed\n");
}

static void release_first(void)
{
    release(0);
}

CLIENT_CASE(test_close__releases_what_its_callbacks_release)
{
    acquire_first(plain);
    acquire(1, "b", plain);
    self->hook = release_first;
    close_client();
    EXPECT("1 cancelled\n0 cancelled\ns0 release(lock:fence:waiting a; me:1)\n"
           "s0 flush\nstats: held-1 holds[0]+1\n");
}

CLIENT_CASE(test_close__by_the_callback_of_a_turn)
{
    acquire(0, "", plain);
    self->hook = close_client;
    turn();
    EXPECT("0 invalid: name: must have 1 to 200 bytes\ns0 close\nclosed\n");
    turn();
    EXPECT("");
}

CLIENT_CASE(test_flush__stops_the_turn_when_nothing_is_left)
{
    acquire(0, "a", plain);
    assert_true(uv_is_active((uv_handle_t *)&self->client->soon));
    flush();
    assert_false(uv_is_active((uv_handle_t *)&self->client->soon));
    acquire(1, "", plain);
    flush();
    EXPECT("s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\n");
    turn();
    assert_false(uv_is_active((uv_handle_t *)&self->client->soon));
    EXPECT("1 invalid: name: must have 1 to 200 bytes\n");
    go_down(0, RLOCK_IO, "reset");
    turn();
    forget_all();
    acquire(0, "a", plain);
    flush();
    EXPECT("");
    turn();
    EXPECT("event failed a 0\n0 down\nstats: failed+1\ndown: 'reset'\n");
    acquire(0, "a", plain);
    turn();
    EXPECT("");
    turn();
    EXPECT("event failed a 0\n0 down\nstats: failed+1\n");
}

static void on_forced(enum rlock_status status, void *arg)
{
    assert_ptr_equal(arg, self);
    note("forced %s\n", rlock_status_name(status));
}

CLIENT_CASE(test_client__in_a_child_does_nothing)
{
    acquire(0, "a", plain);
    flush();
    reply(0, "*4 +# :6000000 :100 +1");
    acquire(1, "b", plain);
    forget_all();
    generation++;
    assert_false(rlock_client_is_up(self->client));
    assert_false(rlock_is_held(&self->locks[0]));
    ASSERT_NUMBER(rlock_safe_for_us(&self->locks[0], now_us), ==, 0);
    acquire(2, "c", plain);
    extend(0, 1000);
    release(0);
    rlock_release(self->client, &self->locks[0], NULL, NULL);
    rlock_cancel(self->client, &self->locks[1]);
    rlock_raise_fences(self->client, 7);
    rlock_force_release(self->client, "a", 1, on_forced, self);
    flush();
    EXPECT("2 invalid: inherited by fork(); open a client here\n"
           "0 invalid: inherited by fork(); open a client here\n"
           "0 invalid: inherited by fork(); open a client here\n"
           "forced invalid\n");
    rlock_client_close(self->client, client_test_on_closed, self);
    EXPECT("closed\n");
    rlock_client_close(self->client, NULL, NULL);
    self->is_closed = false;
    generation--;
    assert_true(rlock_is_held(&self->locks[0]));
}

/* -- calls.c -- */

CLIENT_CASE(test_acquire__refuses_bad_options)
{
    static const struct {
        struct rlock_acquire_options options;
        const char *why; /* NULL: the options are accepted */
    } cases[] = {
        {{.lease_ms = 9}, "lease_ms: must be 10 to 86400000"},
        {{.lease_ms = 10}, NULL},
        {{.lease_ms = 86400000}, NULL},
        {{.lease_ms = 86400001}, "lease_ms: must be 10 to 86400000"},
        {{.lease_ms = 10, .hold_min_ms = 10}, NULL},
        {{.lease_ms = 10, .hold_min_ms = 11}, "lease_ms: must be at least hold_min_ms"},
        {{.kind = &rlock_fair, .hold_min_ms = 1}, "hold_min_ms: only for kind plain"},
        {{.kind = &rlock_semaphore},
         "permits: a semaphore needs at least 1, another kind has none"},
        {{.kind = &rlock_semaphore, .permits = 1}, NULL},
        {{.kind = &rlock_plain, .permits = 1},
         "permits: a semaphore needs at least 1, another kind has none"},
        {{.kind = &rlock_getset, .watchdog = true},
         "kind: cannot be renewed or extended"},
        {{.kind = &rlock_getset}, NULL},
        {{.hold_max_ms = 1}, "hold_max_ms: only with the watchdog"},
        {{.hold_max_ms = 1, .watchdog = true}, NULL},
        {{.spin_min_ms = 5, .spin_max_ms = 5}, NULL},
        {{.spin_min_ms = 6, .spin_max_ms = 5}, "spin_min_ms: exceeds spin_max_ms"},
        {{.spin_min_ms = 6}, NULL},
        {{.replicas = 1, .replicas_wait_ms = 1}, NULL},
        {{.replicas = 1, .replicas_wait_ms = TIMEOUT_MS - 1}, NULL},
        {{.replicas = 1, .replicas_wait_ms = TIMEOUT_MS},
         "replicas_wait_ms: must be at least 1 and less than timeout_ms"},
        {{.replicas = 1},
         "replicas_wait_ms: must be at least 1 and less than timeout_ms"},
        {{.replicas_wait_ms = TIMEOUT_MS}, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock *lock = &self->locks[i];

        acquire((unsigned)i, "a", cases[i].options);
        if ((lock->reason == NULL) != (cases[i].why == NULL) ||
            (lock->reason != NULL && strcmp(lock->reason, cases[i].why) != 0))
            fail_msg("case %zu: expected '%s', got '%s'", i, cases[i].why, lock->reason);
    }
    forget_all();
}

CLIENT_CASE(test_acquire__refuses_bad_names)
{
    static char longest[RLOCK_NAME_MAX + 1], longer[RLOCK_NAME_MAX + 2];

    memset(longest, 'n', RLOCK_NAME_MAX);
    memset(longer, 'n', RLOCK_NAME_MAX + 1);
    acquire(0, NULL, plain);
    acquire(1, "", plain);
    acquire(2, longer, plain);
    acquire(3, longest, plain);
    acquire(4, "lock:fence", plain);
    acquire(5, "lock:fence:waiting", plain);
    acquire(6, "lock:fence:", plain);
    acquire(7, "lock:fencf", plain);
    for (int i = 0; i < 8; i++) {
        bool is_good = i == 3 || i > 5;

        if ((self->locks[i].reason == NULL) != is_good)
            fail_msg("name %d: %s", i, self->locks[i].reason);
    }
    assert_string_equal(self->locks[2].reason, "name: must have 1 to 200 bytes");
    assert_string_equal(self->locks[5].reason,
                        "name: is the key of the fence counter, or of the waiters");
    forget_all();
}

/** The keys of some kinds are longer than the name: they end with ":queue" or ":readers". */
CLIENT_CASE(test_acquire__takes_the_longest_name_of_every_kind)
{
    static const struct {
        const struct rlock_kind *kind;
        uint16_t permits;
        size_t longest_key;
    } cases[] = {
        {&rlock_plain, 0, RLOCK_NAME_MAX},
        {&rlock_cohort, 0, RLOCK_NAME_MAX},
        {&rlock_reentrant, 0, RLOCK_NAME_MAX},
        {&rlock_fair, 0, RLOCK_NAME_MAX + 6},
        {&rlock_semaphore, 1, RLOCK_NAME_MAX},
        {&rlock_fair_semaphore, 1, RLOCK_NAME_MAX + 6},
        {&rlock_read, 0, RLOCK_NAME_MAX + 8},
        {&rlock_write, 0, RLOCK_NAME_MAX + 8},
        {&rlock_getset, 0, RLOCK_NAME_MAX},
    };
    char name[RLOCK_NAME_MAX + 1] = "";

    memset(name, 'n', RLOCK_NAME_MAX);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t longest = 0;

        acquire(i, name,
                (struct rlock_acquire_options){
                    .kind = cases[i].kind, .permits = cases[i].permits, .wait_ms = 1000});
        flush();
        for (size_t at = 0; at < conns[0].count; at++) {
            size_t len = strlen(conns[0].words[at]);

            longest = len > longest ? len : longest;
        }
        if (longest != cases[i].longest_key)
            fail_msg("case %u: the longest key has %zu bytes, expected %zu", i, longest,
                     cases[i].longest_key);
        reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
        cancel(i);
        end_all_commands();
    }
    forget_all();
}

CLUSTER_CASE(test_acquire__of_a_cluster_cannot_be_confirmed)
{
    acquire(0, "a", (struct rlock_acquire_options){.replicas = 1, .replicas_wait_ms = 1});
    acquire(1, "lock:fence", plain);
    turn();
    EXPECT("0 invalid: replicas: cannot be confirmed in a cluster\n"
           "1 invalid: name: is the key of the fence counter, or of the waiters\n");
}

CLIENT_CASE(test_calls__in_the_wrong_state)
{
    extend(0, 1000);
    release(0);
    turn();
    EXPECT("0 not_owner\n0 not_owner\n");
    acquire(0, "a", plain);
    acquire(0, "b", plain);
    extend(0, 1000);
    release(0);
    drop(0);
    EXPECT("");
    turn();
    EXPECT("0 invalid: lock: is held, or in another call\n0 not_owner\n0 not_owner\n"
           "s0 acquire(lock:fence a; 1000 7000000 me:1)\ns0 flush\n");
    reply(0, "*4 +# :6000000 :100 +1");
    forget_all();
    acquire(0, "b", plain);
    extend(0, 9);
    extend(0, 86400001);
    turn();
    EXPECT("0 invalid fence 101 safe 988000: lock: is held, or in another call\n"
           "0 invalid fence 101 safe 988000: lease_ms: must be 10 to 86400000\n"
           "0 invalid fence 101 safe 988000: lease_ms: must be 10 to 86400000\n");
    acquire(2, "h", (struct rlock_acquire_options){.hold_min_ms = 20000});
    flush();
    reply(0, "*4 +# :6000000 :101 +1");
    forget_all();
    extend(2, 19999);
    turn();
    EXPECT("2 invalid fence 102 safe 29698000: lease_ms: must be at least hold_min_ms\n");
    acquire(1, "g", (struct rlock_acquire_options){.kind = &rlock_getset});
    flush();
    reply(0, "*4 +# :6000000 :102 +1");
    extend(1, 1000);
    turn();
    EXPECT("s0 getset_acquire(lock:fence g; 30000 7000000 5000 35001)\ns0 flush\n"
           "event granted g 0\n1 ok fence 103 safe 29698000\n"
           "1 invalid fence 103 safe 29698000: kind: cannot be renewed or extended\n"
           "stats: granted+1 held+1 waits[0]+1\n");
}

#define OF_ANOTHER                                                                       \
    "0 invalid fence 101 safe 988000: client: the lock was acquired by another one\n"

CLIENT_CASE(test_calls__on_a_lock_of_another_client)
{
    struct rlock_client_options options = options_of("redis://h");
    struct rlock_client *first = self->client;

    acquire_first(plain);
    acquire(1, "b", plain);
    flush();
    forget_all();
    ASSERT_STATUS(rlock_client_open(&options, &self->client, NULL), RLOCK_OK);
    extend(0, 2000);
    release(0);
    drop(0);
    cancel(1);
    turn();
    /* the reasons of extend() and release() */
    ASSERT_CONTAINS(done, OF_ANOTHER OF_ANOTHER);
    assert_true(rlock_is_held(&self->locks[0]));
    ASSERT_NUMBER(self->locks[0].lease_ms, ==, 1000);
    forget();
    rlock_client_close(self->client, NULL, NULL);
    self->client = first;
    turn();
    forget_all();
    reply(0, "*4 +# :6000000 :101 +1");
    EXPECT("event granted b 0\n1 ok fence 102 safe 988000\n"
           "stats: granted+1 held+1 waits[0]+1\n");
}

CLIENT_CASE(test_acquire__without_options_has_the_defaults)
{
    rlock_acquire(self->client, &self->locks[0], "a", 1, NULL, client_test_on_answer,
                  self);
    flush();
    EXPECT("s0 acquire(lock:fence a; 30000 7000000 me:1)\ns0 flush\n");
}

CLIENT_CASE(test_acquire__gives_on_lost_its_own_argument)
{
    acquire_first((struct rlock_acquire_options){
        .lease_ms = 1000, .watchdog = true, .lost_arg = &self->stats});
    pass_us(334000);
    reply(0, "+#_0");
    EXPECT("s0 renew(a; me:1 1000)\ns0 flush\nevent lost a 334000\n"
           "0 on_lost lost with an argument of its own\n"
           "stats: lost+1 held-1 holds[9]+1 holds+334000\nlost: 'lost'\n");
}

/** The random number is 0, and so each pause is half of its upper bound. */
CLIENT_CASE(test_acquire__spins_between_the_bounds_of_its_options)
{
    acquire(0, "a",
            (struct rlock_acquire_options){.kind = &rlock_getset,
                                           .wait_ms = 60000,
                                           .spin_min_ms = 8,
                                           .spin_max_ms = 12});
    flush();
    for (int i = 0; i < 3; i++) {
        reply(0, (const char *[]){"*5 +# :6000000 :100 +0 *1 :60000",
                                  "*5 +# :6000000 :101 +0 *1 :60000",
                                  "*5 +# :6000000 :102 +0 *1 :60000"}[i]);
        forget_all();
        pass_us(i == 0 ? 4000 : 6000);
        EXPECT("");
        pass_us(1001);
        forget_all();
        ASSERT_NUMBER(list_count(&conns[0].pending), ==, 1);
    }
}

/* -- channel.c -- */

static void wait_for(unsigned number, const char *name)
{
    char text[64];

    acquire(number, name, waiting);
    flush();
    if (self->locks[number].waiter != NULL)
        return; /* the lock waits behind another lock, and sends nothing */
    self->fence += 10;
    snprintf(text, sizeof(text), "*5 +# :6000000 :%d +0 *1 :60000", self->fence);
    reply(0, text);
}

CLIENT_CASE(test_channel__is_subscribed_while_a_lock_waits)
{
    wait_for(0, "a");
    EXPECT("s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 7000000 me:1 6000)\n"
           "s0 flush\nc1 open key lock:fence:waiting, sibling 0\nstats: waiters+1\n");
    wait_for(1, "i40");
    wait_for(2, "i35"); /* 'i35' is in the bucket of 'i40' */
    wait_for(3, "a");
    forget_all();
    go_up(1);
    turn();
    EXPECT("c1 SUBSCRIBE rlock:a\nc1 SUBSCRIBE rlock:i40\nc1 SUBSCRIBE rlock:i35\n"
           "c1 flush\n");
    for (int i = 0; i < 3; i++)
        reply(1, "*3 +subscribe +rlock :1");
    EXPECT("");
    turn();
    reply(0, "*5 +# :6000000 :100 +000 *3 :60000 :60000 :60000");
    forget_all();
    hear(1, "*3 +message +rlock:i35 +");
    turn();
    EXPECT("s0 acquire_again(lock:fence lock:fence:waiting i35; 1000 7000000 me:3 6000)\n"
           "s0 flush\n");
    reply(0, "*5 +# :6000000 :200 +1 *1 :201");
    self->fence = 300;
    turn();
    EXPECT("c1 UNSUBSCRIBE rlock:i35\nevent granted i35 0\n2 ok fence 201 safe 988000\n"
           "c1 flush\nstats: granted+1 held+1 waiters-1 waits[0]+1\n");
    hear(1, "*3 +message +rlock:i35 +"); /* no lock waits there any more */
    turn();
    EXPECT("");
    reply(1, "*3 +unsubscribe +rlock:i35 :2");
    cancel(0);
    turn();
    EXPECT("0 cancelled\n"
           "s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 7000000 me:4 6000)\n"
           "s0 flush\nstats: waiters-1\n");
    cancel(3);
    turn();
    EXPECT("c1 UNSUBSCRIBE rlock:a\n3 cancelled\n"
           "s0 release(lock:fence:waiting a; me:4)\ns0 flush\nc1 flush\n"
           "stats: waiters-1\n");
    reply(0, "*5 +# :6000000 :300 +0 *1 :60000");
    reply(0, "+#_1");
    wait_for(0, "a"); /* the channel is being unsubscribed */
    turn();
    EXPECT("event released a 0\n"
           "s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 7000000 me:5 6000)\n"
           "s0 flush\nstats: released+1 waiters+1\n");
    reply(1, "*3 +unsubscribe +rlock:a :1");
    turn();
    EXPECT("c1 SUBSCRIBE rlock:a\nc1 flush\n");
    go_down(1, RLOCK_IO, "reset");
    turn();
    EXPECT("");
    pass_us(50001); /* waiters without messages try after pauses */
    turn();
    EXPECT("s0 acquire_wait(lock:fence lock:fence:waiting a i40; 1000 7050001 me:5 6000 "
           "me:2 6000)\n"
           "s0 flush\n");
    reply(0, "*5 +# :6000000 :400 +00 *2 :60000 :60000");
    self->fence = 500;
    forget_all();
    go_up(1);
    turn();
    EXPECT("c1 SUBSCRIBE rlock:a\nc1 SUBSCRIBE rlock:i40\nc1 flush\n");
    reply(1, "-NOPERM_no_channels");
    reply(1, "-NOPERM_no_channels");
    turn();
    EXPECT("");
    wait_for(5, "a");
    turn();
    EXPECT("stats: waiters+1\n");
    cancel(0);
    cancel(5);
    turn();
    EXPECT("0 cancelled\n5 cancelled\n"
           "s0 release(lock:fence:waiting a; me:6)\ns0 flush\nstats: waiters-2\n");
    ASSERT_NUMBER(self->client->channels.count, ==, 1);
}

CLUSTER_CASE(test_channel__of_a_cluster_is_of_its_slot)
{
    acquire(0, "a", waiting);
    acquire(1, "b", waiting);
    flush();
    reply(12, "*5 +# :6000000 :100 +0 *1 :60000");
    reply(5, "*5 +# :6000000 :100 +0 *1 :60000");
    EXPECT("s12 acquire_wait({12}lock:fence {12}lock:fence:waiting {12}a; 1000 7000000 "
           "me:1 6000)\n"
           "s5 acquire_wait({5}lock:fence {5}lock:fence:waiting {5}b; 1000 7000000 me:2 "
           "6000)\n"
           "s5 flush\ns12 flush\nc16 open key {12}lock:fence:waiting, sibling 0\n"
           "c17 open key {5}lock:fence:waiting, sibling 0\nstats: waiters+2\n");
    conns[16].is_sharded = true;
    go_up(16);
    go_up(17);
    turn();
    EXPECT("c16 SSUBSCRIBE rlock:{12}a\nc17 SUBSCRIBE rlock:{5}b\nc17 flush\n"
           "c16 flush\n");
    reply(16, "*3 +ssubscribe +rlock:{12}a :1");
    reply(17, "*3 +subscribe +rlock:{5}b :1");
    turn();
    forget_all();
    go_down(16, RLOCK_IO, "reset"); /* connection 17 stays up */
    go_up(16);
    go_down(12, RLOCK_IO, "reset");
    go_up(12);
    turn();
    EXPECT("c16 SSUBSCRIBE rlock:{12}a\nstate down: reset\n"
           "s12 EVAL raise_fence({12}lock:fence; 101)\nc16 follow 12\n"
           "s12 acquire_wait({12}lock:fence {12}lock:fence:waiting {12}a; 1000 "
           "2305843009219693951 me:1 6000)\n"
           "s12 flush\nstate up\nc16 flush\nstats: reconnects+1\n");
    close_client();
    EXPECT("c17 UNSUBSCRIBE rlock:{5}b\nc17 close\nc16 close\n"
           "s5 release({5}lock:fence:waiting {5}b; me:2)\n"
           "s12 release({12}lock:fence:waiting {12}a; me:1)\ns5 flush\ns12 flush\n"
           "1 cancelled\n0 cancelled\nstats: waiters-2\n");
}

CLIENT_CASE(test_channel__without_memory)
{
    refused_conn = 2;
    wait_for(0, "a");
    EXPECT("s0 acquire_wait(lock:fence lock:fence:waiting a; 1000 7000000 me:1 6000)\n"
           "s0 flush\nevent failed a 0\n0 no_memory\nstats: failed+1\n"
           "no_memory: 'no memory for a connection'\n");
    turn();
    refused_conn = 0;
    end_all_commands();
    wait_for(0, "a");
    go_up(1);
    turn();
    forget_all();
    conns[1].has_memory = false;
    wait_for(1, "b");
    EXPECT("s0 acquire_wait(lock:fence lock:fence:waiting b; 1000 7000000 me:3 6000)\n"
           "s0 flush\nstats: waiters+1\n");
    conns[1].has_memory = true;
    wait_for(2, "b");
    turn();
    EXPECT("c1 SUBSCRIBE rlock:b\nc1 flush\nstats: waiters+1\n");
    for (unsigned i = 1; i < 4; i++) {
        acquire(10 + i, "c", waiting);
        flush();
        torture_fail(i, 0);
        reply(0, i == 1   ? "*5 +# :6000000 :100 +0 *1 :60000"
                 : i == 2 ? "*5 +# :6000000 :200 +0 *1 :60000"
                          : "*5 +# :6000000 :300 +0 *1 :60000");
        (void)torture_stop();
    }
    turn();
    EXPECT("s0 acquire_wait(lock:fence lock:fence:waiting c; 1000 7000000 me:5 6000)\n"
           "s0 flush\nevent failed c 0\n11 no_memory\n"
           "s0 acquire_wait(lock:fence lock:fence:waiting c; 1000 7000000 me:6 6000)\n"
           "s0 flush\nevent failed c 0\n12 no_memory\n"
           "s0 acquire_wait(lock:fence lock:fence:waiting c; 1000 7000000 me:7 6000)\n"
           "s0 flush\nc1 SUBSCRIBE rlock:c\nc1 flush\nstats: failed+2 waiters+1\n");
}

/** The channels of 'a' and 'agm' are in the same bucket, so the whole name must be compared. */
CLIENT_CASE(test_channel__ignores_messages_of_another_shape)
{
    static const char *const others[] = {"*3 +message +rlock:b +",
                                         "*3 +message +rlock:agm +",
                                         "*2 +message +rlock:a", "*3 +message :1 +"};

    wait_for(0, "a");
    go_up(1);
    turn();
    reply(1, "*3 +subscribe +rlock:a :1");
    flush();
    reply(0, "*5 +# :6000000 :100 +0 *1 :60000");
    forget_all();
    for (int i = 0; i < 4; i++) {
        hear(1, others[i]);
        flush();
        EXPECT("");
    }
    hear(1, "*3 +message +rlock:a +");
    flush();
    EXPECT("s0 acquire_again(lock:fence lock:fence:waiting a; 1000 7000000 me:1 6000)\n"
           "s0 flush\n");
}

/* -- server.c -- */

CLIENT_CASE(test_raise__of_fences)
{
    acquire_first(plain);
    rlock_raise_fences(self->client, 50); /* the client has seen a greater fence */
    rlock_raise_fences(self->client, 500);
    turn();
    EXPECT("s0 EVAL raise_fence(lock:fence; 101)\ns0 flush\n");
    ASSERT_NUMBER(self->client->servers[0].last_fence, ==, 500);
    reply(0, "*3 +# :7000000 :500"); /* the server's clock was set forward */
    ASSERT_NUMBER(self->client->servers[0].last_fence, ==, 500);
    rlock_raise_fences(self->client, 501);
    turn();
    EXPECT("s0 EVAL raise_fence(lock:fence; 501)\ns0 flush\n");
    reply(0, "*3 +# :6500000 :500");
    ASSERT_NUMBER(self->client->servers[0].last_fence, ==, 0);
    acquire(1, "b", plain);
    turn();
    EXPECT("s0 acquire(lock:fence b; 1000 7500000 me:2)\ns0 flush\n");
    rlock_raise_fences(self->client, 9);
    turn();
    forget_all();
    reply(0, "*4 +# :6500000 :9 +1");
    reply(0, "-BUSY_Redis_is_busy");
    conns[0].has_memory = false;
    rlock_raise_fences(self->client, 0);
    conns[0].has_memory = true;
    rlock_raise_fences(self->client, 0);
    EXPECT("event granted b 0\n1 ok fence 10 safe 988000\n"
           "s0 EVAL raise_fence(lock:fence; 10)\n"
           "stats: granted+1 failed+1 held+1 waits[0]+1\n");
    close_client();
    rlock_raise_fences(self->client, 0);
    forget_all();
}

int main(void)
{
    return cases_run(NULL, NULL);
}
