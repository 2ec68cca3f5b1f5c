/* lesson.c - the sequences, and the clients that run them with a stage or with the plain kind. */
#include "test/lesson.h"
#include "base/clock.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct contender {
    struct fixture *fixture;
    const struct naive_stage *stage; /* PLAIN: the plain kind of the library */
    struct rlock_client *client;
    struct call call;
    const char *owner;
};

/* -- words -- */

static bool prints_events;
static const char *actor; /* name of the client whose commands are printed */

const char *lesson_words(enum outcome outcome)
{
#define LESSON_WORDS(name, words) words,
    static const char *const all[] = {LESSON_OUTCOMES(LESSON_WORDS)};
#undef LESSON_WORDS

    return all[outcome];
}

void lesson_print_events(void)
{
    prints_events = true;
}

__attribute__((format(printf, 2, 3))) static void tell(const char *who,
                                                       const char *format, ...)
{
    va_list args;

    if (!prints_events)
        return;
    va_start(args, format);
    printf("  %-6s ", who);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static void tell_command(const char *command, const struct redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        tell(actor, "%s -> %lld", command, reply->integer);
    else if (reply->type == REDIS_REPLY_ARRAY)
        tell(actor, "%s -> %s", command, reply->element[0]->str);
    else
        tell(actor, "%s -> %s", command, reply->str == NULL ? "nil" : reply->str);
}

/** Print the commands that follow as commands of `contender`. If `contender` is NULL, print no
 *  commands. */
static void speak(struct server *server, const struct contender *contender)
{
    actor = contender == NULL ? NULL : contender->owner;
    server->on_command = contender == NULL ? NULL : tell_command;
}

/* -- what a client does -- */

static struct contender contend(struct fixture *fixture, const struct naive_stage *stage,
                                const char *owner)
{
    return (struct contender){.fixture = fixture,
                              .stage = stage,
                              .client = stage == PLAIN ? fixture_client(fixture) : NULL,
                              .owner = owner};
}

static bool plain_take(struct contender *contender)
{
    enum rlock_status status = acquire(contender->fixture, contender->client,
                                       &contender->call, LESSON_NAME, LEASE_MS);

    tell(contender->owner, "rlock_acquire -> %s", rlock_status_name(status));
    if (status != RLOCK_OK)
        ASSERT_STATUS(status, RLOCK_BUSY);
    return status == RLOCK_OK;
}

static bool begin_take(struct contender *contender)
{
    struct server *server = contender->fixture->server;
    bool is_ours;

    if (contender->stage == PLAIN)
        return plain_take(contender); /* the plain kind has only one step */
    speak(server, contender);
    is_ours = contender->stage->take(server, LESSON_NAME, contender->owner, LEASE_MS);
    speak(server, NULL);
    return is_ours;
}

static void finish_take(struct contender *contender)
{
    struct server *server = contender->fixture->server;

    if (contender->stage == PLAIN || contender->stage->finish_take == NULL)
        return;
    speak(server, contender);
    contender->stage->finish_take(server, LESSON_NAME, LEASE_MS);
    speak(server, NULL);
}

static bool take(struct contender *contender)
{
    bool is_ours = begin_take(contender);

    if (is_ours)
        finish_take(contender);
    return is_ours;
}

static void die(struct contender *contender)
{
    tell(contender->owner, "dies");
    if (contender->stage == PLAIN)
        fixture_close(contender->fixture, contender->client);
}

static bool begin_release(struct contender *contender)
{
    struct server *server = contender->fixture->server;
    bool goes_on;

    if (contender->stage == PLAIN) {
        call_release(contender->client, &contender->call);
        return true;
    }
    if (contender->stage->may_release == NULL)
        return true;
    speak(server, contender);
    goes_on = contender->stage->may_release(server, LESSON_NAME, contender->owner);
    speak(server, NULL);
    return goes_on;
}

static enum rlock_status finish_release(struct contender *contender)
{
    struct server *server = contender->fixture->server;

    if (contender->stage == PLAIN) {
        rlock_flush(contender->client);
        fixture_wait_answers(contender->fixture, &contender->call, 2);
        tell(contender->owner, "rlock_release -> %s",
             rlock_status_name(contender->call.status));
        return contender->call.status;
    }
    speak(server, contender);
    contender->stage->release(server, LESSON_NAME, contender->owner);
    speak(server, NULL);
    return RLOCK_OK; /* this stage does not notice a failure */
}

/** Finish a release that comes after the end of the lease. Only the plain kind reports the loss. */
static void finish_late_release(struct contender *contender)
{
    enum rlock_status status = finish_release(contender);

    if (contender->stage == PLAIN)
        ASSERT_STATUS(status, RLOCK_LOST);
}

static void end_leases(struct fixture *fixture)
{
    tell("", "(all leases end)");
    server_pass_ms(fixture->server, LEASE_MS);
    clock_shift_us((LEASE_MS + 1) * 1000LL);
}

/* -- sequences -- */

static enum outcome die_and_take(struct contender *alice)
{
    struct fixture *fixture = alice->fixture;
    struct contender bob = contend(fixture, alice->stage, "bob");

    die(alice);
    end_leases(fixture);
    if (take(&bob))
        return FINE;
    assert_int_equal(server_int(fixture->server, "PTTL %s", LESSON_NAME), -1);
    return STAYS_FOR_EVER;
}

enum outcome lesson_owner_dies(struct fixture *fixture, const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");

    assert_true(take(&alice));
    return die_and_take(&alice);
}

enum outcome lesson_owner_dies_between(struct fixture *fixture,
                                       const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");

    assert_true(begin_take(&alice));
    return die_and_take(&alice);
}

enum outcome lesson_release_is_late(struct fixture *fixture,
                                    const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");
    struct contender carol = contend(fixture, stage, "carol");

    assert_true(take(&alice));
    end_leases(fixture);
    assert_true(take(&bob));
    if (begin_release(&alice))
        finish_late_release(&alice);
    return take(&carol) ? FOREIGN_UNLOCK : FINE;
}

enum outcome lesson_release_is_interrupted(struct fixture *fixture,
                                           const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");
    struct contender carol = contend(fixture, stage, "carol");

    assert_true(take(&alice));
    assert_true(begin_release(&alice));
    end_leases(fixture);
    assert_true(take(&bob));
    finish_late_release(&alice);
    return take(&carol) ? FOREIGN_UNLOCK : FINE;
}

/** The resource that the lock protects. It refuses a fence that is smaller than an earlier
 *  fence. */
struct resource {
    int64_t newest_fence;
    const char *writer;
};

static void write_to(struct resource *resource, const struct contender *contender)
{
    int64_t fence = contender->stage == PLAIN ? rlock_fence(&contender->call.lock) : 0;
    bool is_stale = fence < resource->newest_fence;

    if (contender->stage == PLAIN)
        tell(contender->owner, "writes with fence %lld -> %s", (long long)fence,
             is_stale ? "refused" : "ok");
    else
        tell(contender->owner, "writes -> ok");
    if (is_stale)
        return;
    resource->newest_fence = fence;
    resource->writer = contender->owner;
}

enum outcome lesson_write_is_late(struct fixture *fixture,
                                  const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");
    struct resource resource = {.writer = "nobody"};

    assert_true(take(&alice));
    end_leases(fixture);
    assert_true(take(&bob));
    write_to(&resource, &bob);
    write_to(&resource, &alice);
    return strcmp(resource.writer, "bob") == 0 ? FINE : STALE_WRITE;
}

enum outcome lesson_clock_is_ahead(struct fixture *fixture,
                                   const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");

    assert_true(take(&alice));
    tell("bob", "has a clock that is ahead by more than the lease");
    clock_shift_us((LEASE_MS + 1) * 1000LL);
    return take(&bob) ? TWO_OWNERS : FINE;
}

/** Begin to wait, with the plain kind. When this returns, the server has executed bob's first try,
 *  and bob has not read the reply. */
static void begin_plain_wait(struct contender *bob)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS};
    long long before = server_calls(bob->fixture->server, "subscribe");

    call_acquire_with(bob->client, &bob->call, LESSON_NAME, &options);
    rlock_flush(bob->client);
    server_settle();
    assert_int_equal(server_calls(bob->fixture->server, "subscribe"), before);
    tell("bob", "rlock_acquire, which waits: the first try finds the lock busy");
}

static bool is_woken(struct contender *bob)
{
    struct server *server = bob->fixture->server;
    bool has_message;

    if (bob->stage == PLAIN) {
        fixture_wait_answers(bob->fixture, &bob->call, 1);
        tell("bob", "subscribes, then tries again -> %s",
             rlock_status_name(bob->call.status));
        return bob->call.status == RLOCK_OK;
    }
    speak(server, bob);
    has_message = naive_subscribe(server, LESSON_NAME);
    speak(server, NULL);
    return has_message;
}

enum outcome lesson_release_is_early(struct fixture *fixture,
                                     const struct naive_stage *stage)
{
    struct contender alice = contend(fixture, stage, "alice");
    struct contender bob = contend(fixture, stage, "bob");

    assert_true(take(&alice));
    if (stage == PLAIN)
        begin_plain_wait(&bob);
    else
        assert_false(take(&bob));
    assert_true(begin_release(&alice));
    ASSERT_STATUS(finish_release(&alice), RLOCK_OK);
    if (is_woken(&bob))
        return FINE;
    assert_false(server_has(fixture->server, LESSON_NAME));
    return LOST_WAKE_UP;
}

/* clang-format off */
const struct lesson lessons[] = {
    {"setnx", "SETNX takes the lock, DEL releases it",
     &naive_setnx, lesson_owner_dies, STAYS_FOR_EVER},
    {"setnx_expire", "SETNX takes the lock, PEXPIRE gives it an end",
     &naive_setnx_expire, lesson_owner_dies_between, STAYS_FOR_EVER},
    {"blind_del", "SET NX PX takes it with its end, DEL releases it",
     &naive_blind_del, lesson_release_is_late, FOREIGN_UNLOCK},
    {"get_del", "GET finds the owner, then DEL releases the lock",
     &naive_get_del, lesson_release_is_interrupted, FOREIGN_UNLOCK},
    {"unfenced", "a script compares and deletes",
     &naive_unfenced, lesson_write_is_late, STALE_WRITE},
    {"getset", "SETNX of the time of its end, GETSET takes it over",
     &naive_getset, lesson_clock_is_ahead, TWO_OWNERS},
    {"waiter", "a client that waits tries, then subscribes",
     &naive_waiter, lesson_release_is_early, LOST_WAKE_UP},
    {.name = NULL},
};
/* clang-format on */
