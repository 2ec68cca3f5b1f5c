/*
 * test_deliverer.c - what a deliverer sends and notes, with a scripted store, feed, sender and lock,
 * and simulated time.
 *
 * The fakes keep each call until the test answers it. Event 7 is the event with the number 7 in the
 * feed; its body is "event 7".
 */
#include "app/deliver/deliverer.h"

#include "app/api/json.h"
#include "app/auth/signature.h"
#include "app/core/log.h"
#include "app/deliver/sender.h"
#include "app/test/append.h"
#include "app/test/simulated_time.h"
#include "base/random.h"
#include "test/asserts.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <inttypes.h>
#include <stdlib.h>

#define TICK_MS   INT64_C(100)
#define LEASE_MS  6000
#define CALLS_MAX 4
#define SECRET    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

enum { LOCK_FREE, LOCK_REQUESTED, LOCK_HELD };

struct transfer {
    sender_cb done; /* NULL: the place is free */
    void *arg;
};

static struct {
    char did[4000]; /* the calls and the log since the last step */
    struct rlock *lock;
    int64_t fence; /* of the next grant */
    store_webhooks_cb listed;
    void *listed_arg;
    struct noting {
        store_webhook_noted_cb done;
        void *arg;
    } notes[CALLS_MAX];
    size_t note_count;
    struct feed_poll *polls[CALLS_MAX];
    size_t poll_count;
    struct transfer transfers[CALLS_MAX];
    bool is_feed_full, cannot_post, cannot_open;
    int bodies_left; /* before memory is out; negative: enough */
} fake;

#define DID(...)           append(fake.did, sizeof(fake.did), __VA_ARGS__)
#define ASSERT_DID(wanted) assert_did(wanted, __FILE__, __LINE__)

static void assert_did(const char *wanted, const char *file, int line)
{
    asserts_text(fake.did, wanted, "calls since the last step", file, line);
    fake.did[0] = '\0';
}

/* -- the log and the random numbers -- */

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char fields[500];
    va_list args;

    if (level == LOG_DEBUG)
        return;
    va_start(args, format);
    vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    DID("%s %s\n", event, fields);
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES])
{
    snprintf(ret_copy, LOG_TEXT_BYTES, "%s", text);
    return ret_copy;
}

bool random_fill(void *ret_bytes UNUSED, size_t count UNUSED)
{
    return false;
}

uint64_t random_u64(void)
{
    return 0; /* each pause is the shortest one */
}

/* -- the lock -- */

// NOLINTNEXTLINE(readability-function-size): as in rlock.h
void rlock_acquire(struct rlock_client *client UNUSED, struct rlock *lock,
                   const char *name, size_t name_len,
                   const struct rlock_acquire_options *options, rlock_cb callback,
                   void *arg)
{
    assert_int_equal(lock->state, LOCK_FREE);
    lock->state = LOCK_REQUESTED;
    lock->callback = callback;
    lock->arg = arg;
    lock->on_lost = options->on_lost;
    fake.lock = lock;
    DID("acquire %.*s for %u ms%s%s\n", (int)name_len, name, options->lease_ms,
        options->watchdog ? ", renewed" : "",
        options->wait_ms == RLOCK_WAIT_FOREVER ? ", wait" : "");
}

void rlock_release(struct rlock_client *client UNUSED, struct rlock *lock,
                   rlock_cb callback, void *arg UNUSED)
{
    assert_int_equal(lock->state, LOCK_HELD);
    assert_null(callback);
    lock->state = LOCK_FREE;
    DID("release\n");
}

void rlock_raise_fences(struct rlock_client *client UNUSED, int64_t above)
{
    DID("raise fences above %" PRId64 "\n", above);
}

bool rlock_is_held(const struct rlock *lock)
{
    return lock->state == LOCK_HELD;
}

int64_t rlock_fence(const struct rlock *lock)
{
    return lock->fence;
}

int64_t rlock_safe_for_us(const struct rlock *lock, int64_t now_us)
{
    return lock->safe_until_us - now_us;
}

static void answer_acquire(enum rlock_status status)
{
    struct rlock *lock = fake.lock;

    assert_int_equal(lock->state, LOCK_REQUESTED);
    lock->state = status == RLOCK_OK ? LOCK_HELD : LOCK_FREE;
    lock->fence = fake.fence;
    lock->safe_until_us = INT64_MAX;
    lock->callback(lock, status, lock->arg);
}

static void lose_lock(void)
{
    fake.lock->state = LOCK_FREE;
    fake.lock->on_lost(fake.lock, RLOCK_LOST, fake.lock->arg);
}

/* -- the store -- */

void store_list_webhooks(struct store *store UNUSED, store_webhooks_cb callback,
                         void *arg)
{
    assert_null(fake.listed);
    fake.listed = callback;
    fake.listed_arg = arg;
    DID("list\n");
}

void store_note_webhook(struct store *store UNUSED, const struct webhook_note *note,
                        store_webhook_noted_cb callback, void *arg)
{
    const struct webhook *webhook = note->webhook;

    assert_true(fake.note_count < CALLS_MAX);
    fake.notes[fake.note_count++] = (struct noting){callback, arg};
    DID("note %" PRId64 ".%" PRId64 " fence %" PRId64 " at %" PRId64 "_%" PRId64 ": %s",
        webhook->id, webhook->version, webhook->fence, webhook->position.first,
        webhook->position.number, note->error != NULL ? note->error : "ok");
    for (size_t i = 0; i < note->delivery_count; i++) {
        const struct webhook_delivery *delivery = &note->deliveries[i];

        DID("; %" PRId64 " at %" PRId64 " ms took %" PRId64 " ms%s%s",
            delivery->event_id >> EVENT_VOUCHER_BITS,
            delivery->at_us / 1000 - INT64_C(1700000000000), delivery->duration_ms,
            delivery->error[0] != '\0' ? " " : "", delivery->error);
    }
    DID("\n");
}

struct row {
    int id, version;
    int64_t fence;
    const char *secret; /* NULL: a valid one */
};

static void answer_list(enum rlock_status status, const struct row *rows, size_t count)
{
    store_webhooks_cb listed = fake.listed;
    struct webhook webhooks[CALLS_MAX];
    char urls[CALLS_MAX][40];

    assert_non_null(listed);
    assert_true(count <= CALLS_MAX);
    for (size_t i = 0; i < count; i++) {
        snprintf(urls[i], sizeof(urls[i]), "https://shop.example/%d.%d", rows[i].id,
                 rows[i].version);
        webhooks[i] = (struct webhook){.id = rows[i].id,
                                       .version = rows[i].version,
                                       .fence = rows[i].fence,
                                       .url = urls[i],
                                       .secret = rows[i].secret,
                                       .position = {5, 5}};
        if (rows[i].secret == NULL)
            webhooks[i].secret = SECRET;
    }
    fake.listed = NULL;
    listed(status, webhooks, count, fake.listed_arg);
}

#define ROW(id, version)                                                                 \
    {                                                                                    \
        id, version, 90, NULL                                                            \
    }
#define FENCED_ROW(id, version, fence)                                                   \
    {                                                                                    \
        id, version, fence, NULL                                                         \
    }
#define ANSWER_LIST(...)                                                                 \
    answer_list(RLOCK_OK, (const struct row[]){__VA_ARGS__},                             \
                sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row))

static void answer_note(enum rlock_status status, bool is_disabled)
{
    struct noting noting = fake.notes[0];

    assert_true(fake.note_count > 0);
    memmove(fake.notes, fake.notes + 1, --fake.note_count * sizeof(noting));
    noting.done(status, is_disabled, noting.arg);
}

/* -- the feed -- */

bool feed_read(struct feed *feed UNUSED, struct feed_poll *poll)
{
    if (fake.is_feed_full)
        return false;
    assert_int_equal(poll->end_us, simulated_us + 10000000);
    assert_true(fake.poll_count < CALLS_MAX);
    fake.polls[fake.poll_count++] = poll;
    DID("read %u behind %" PRId64 "_%" PRId64 "\n", poll->limit, poll->after.first,
        poll->after.number);
    return true;
}

/* Answers the oldest read with the events from `first` to `last`. */
static void answer_read(enum rlock_status status, int first, int last)
{
    struct feed_poll *poll = fake.polls[0];
    struct event events[33] = {0};
    size_t count = 0;

    assert_true(fake.poll_count > 0);
    memmove(fake.polls, fake.polls + 1, --fake.poll_count * sizeof(struct feed_poll *));
    for (int number = first; number <= last; number++)
        events[count++] = (struct event){
            .id = ((int64_t)number << EVENT_VOUCHER_BITS) + 3, .first = number + 100};
    poll->done(poll, status, events, count);
}

char *json_print_webhook(const struct event *event)
{
    char *body;

    if (fake.bodies_left-- == 0)
        return NULL;
    assert_true(asprintf(&body, "event %" PRId64, event->id >> EVENT_VOUCHER_BITS) > 0);
    return body;
}

/* -- the sender -- */

struct sender *sender_open(uv_loop_t *loop UNUSED,
                           const struct address_networks *allowed UNUSED)
{
    static char sender;

    return fake.cannot_open ? NULL : (struct sender *)(void *)&sender;
}

void sender_close(struct sender *sender UNUSED)
{
    DID("close\n");
}

static void check_signature(const struct sender_message *message)
{
    struct signature_key key;
    char wanted[SIGNATURE_BYTES];

    assert_true(signature_parse_secret(SECRET, &key));
    assert_true(
        signature_sign(&key, message->id, message->timestamp_s, message->body, wanted));
    assert_string_equal(message->signature, wanted);
    assert_int_equal(message->timestamp_s, clock_real_us() / 1000000);
}

struct transfer *sender_post(struct sender *sender UNUSED,
                             const struct sender_message *message, sender_cb done,
                             void *arg)
{
    struct transfer *transfer = fake.transfers;

    if (fake.cannot_post)
        return NULL;
    while (transfer->done != NULL)
        transfer++;
    assert_true(transfer < fake.transfers + CALLS_MAX);
    *transfer = (struct transfer){done, arg};
    check_signature(message);
    DID("%d: post %s to %s within %u ms\n", (int)(transfer - fake.transfers),
        message->body, message->url, message->timeout_ms);
    return transfer;
}

void sender_cancel(struct transfer *transfer)
{
    if (transfer == NULL)
        return;
    transfer->done = NULL;
    DID("%d: cancel\n", (int)(transfer - fake.transfers));
}

static void answer_post(size_t number, const char *error)
{
    struct transfer transfer = fake.transfers[number];

    assert_non_null(transfer.done);
    fake.transfers[number].done = NULL;
    transfer.done(error, transfer.arg);
}

/* -- the fixture -- */

static uv_loop_t loop;
static struct deliverer *deliverer;

static int open_deliverer(void **state)
{
    const uint32_t *lease_ms = *state;

    memset(&fake, 0, sizeof(fake));
    fake.fence = 90;
    fake.bodies_left = -1;
    simulated_time_reset();
    simulated_us = 0;
    uv_loop_init(&loop);
    deliverer = deliverer_open(&(struct deliverer_options){
        .loop = &loop, .lease_ms = lease_ms != NULL ? *lease_ms : LEASE_MS});
    return deliverer == NULL;
}

/* The store and the feed answer all calls when they are closed. */
static int close_deliverer(void **state UNUSED)
{
    deliverer_stop(deliverer);
    if (fake.listed != NULL)
        answer_list(RLOCK_CANCELLED, NULL, 0);
    while (fake.note_count > 0)
        answer_note(RLOCK_CANCELLED, false);
    while (fake.poll_count > 0)
        answer_read(RLOCK_CANCELLED, 1, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    deliverer_free(deliverer);
    return uv_loop_close(&loop);
}

#define TEST(name) DEFINE_CASE(name, name, open_deliverer, close_deliverer, NULL)

static void turn(void)
{
}

static void pass_ms(int64_t ms)
{
    simulated_time_pass_us(ms * 1000, turn);
}

static void elect(void)
{
    pass_ms(0);
    answer_acquire(RLOCK_OK);
    fake.did[0] = '\0';
}

/* Lets the deliverer get the lock at 0 ms, and endpoint 1 at 100 ms. It reads at 200 ms. */
static void begin(void)
{
    elect();
    pass_ms(TICK_MS);
    ANSWER_LIST(ROW(1, 1));
    ASSERT_DID("list\n");
    pass_ms(TICK_MS);
    ASSERT_DID("read 32 behind 5_5\n");
}

/* -- election -- */

TEST(test_deliverer__asks_for_the_lock_until_it_gets_the_lock)
{
    pass_ms(3 * TICK_MS);
    ASSERT_DID("acquire lock:webhooks for 6000 ms, renewed, wait\n");
    answer_acquire(RLOCK_REFUSED);
    ASSERT_DID("");
    pass_ms(2 * TICK_MS);
    ASSERT_DID("acquire lock:webhooks for 6000 ms, renewed, wait\n");
    answer_acquire(RLOCK_OK);
    ASSERT_DID("webhooks_elected fence=90\n");
    pass_ms(TICK_MS);
    ASSERT_DID("list\n");
}

TEST(test_deliverer__without_the_lock_sends_nothing_and_asks_for_it_again)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\n");
    lose_lock();
    ASSERT_DID("webhooks_lost \n0: cancel\n");
    fake.fence = 91;
    pass_ms(TICK_MS);
    ASSERT_DID("acquire lock:webhooks for 6000 ms, renewed, wait\n");
    pass_ms(600);
    answer_acquire(RLOCK_OK);
    ASSERT_DID("webhooks_elected fence=91\n");
    pass_ms(TICK_MS);
    ASSERT_DID("list\n"); /* although the last list is not a second old */
    assert_int_equal(simulated_us, 1000000);
    ANSWER_LIST(ROW(1, 1));
    pass_ms(TICK_MS);
    ASSERT_DID("read 32 behind 5_5\n"); /* the position that is stored */
}

TEST(test_deliverer__ignores_a_list_that_comes_after_the_lock_is_lost)
{
    elect();
    pass_ms(TICK_MS);
    lose_lock();
    ANSWER_LIST(ROW(1, 1));
    pass_ms(TICK_MS);
    answer_acquire(RLOCK_OK);
    ASSERT_DID(
        "list\nwebhooks_lost \n"
        "acquire lock:webhooks for 6000 ms, renewed, wait\nwebhooks_elected fence=90\n");
    pass_ms(TICK_MS);
    ASSERT_DID("list\n"); /* no endpoint is known that would read */
}

/* A failover of Redis has lowered the fences. An equal fence is that of this deliverer. */
TEST(test_deliverer__gets_a_fence_above_those_of_the_endpoints)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    pass_ms(900);
    fake.did[0] = '\0';
    ANSWER_LIST(FENCED_ROW(1, 1, 90), FENCED_ROW(2, 1, 7));
    ASSERT_DID("");
    pass_ms(1000);
    ASSERT_DID("read 32 behind 5_5\nlist\n");
    ANSWER_LIST(FENCED_ROW(1, 1, 120), FENCED_ROW(2, 1, 7), FENCED_ROW(3, 1, 91));
    ASSERT_DID("0: cancel\nraise fences above 120\nrelease\n");
    assert_true(fake.polls[0]->is_gone(fake.polls[0]));
    pass_ms(TICK_MS);
    ASSERT_DID("acquire lock:webhooks for 6000 ms, renewed, wait\n");
}

TEST(test_deliverer_stop__releases_the_lock)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    fake.did[0] = '\0';
    close_deliverer(NULL);
    ASSERT_DID("0: cancel\nrelease\nclose\n");
    open_deliverer(state);
    pass_ms(0);
    fake.did[0] = '\0';
    close_deliverer(NULL);
    ASSERT_DID("close\n"); /* it had no lock yet */
    open_deliverer(state);
}

TEST(test_deliverer_open__without_memory_fails)
{
    const struct deliverer_options options = {.loop = &loop};

    torture_fail(1, 0);
    assert_null(deliverer_open(&options));
    assert_true(torture_stop());
    fake.cannot_open = true;
    assert_null(deliverer_open(&options));
}

/* -- the list -- */

TEST(test_list__is_read_once_per_second)
{
    elect();
    pass_ms(3000);
    ASSERT_DID("list\n"); /* one at a time */
    ANSWER_LIST(ROW(1, 1));
    pass_ms(TICK_MS);
    ASSERT_DID("list\nread 32 behind 5_5\n");
    ANSWER_LIST(ROW(1, 1));
    pass_ms(900);
    ASSERT_DID("");
    pass_ms(TICK_MS);
    ASSERT_DID("list\n");
}

TEST(test_list__that_fails_changes_nothing)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    pass_ms(900);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\nlist\n");
    answer_list(RLOCK_IO, NULL, 0);
    ASSERT_DID("");
    answer_post(0, NULL);
    ASSERT_DID("read 32 behind 106_6\n");
}

/* Endpoint 1 is as before, endpoint 2 has been changed, and endpoint 3 is gone. */
TEST(test_list__lets_endpoints_that_were_changed_begin_anew)
{
    elect();
    pass_ms(TICK_MS);
    ANSWER_LIST(ROW(1, 1), ROW(2, 1), ROW(3, 1));
    pass_ms(TICK_MS);
    for (int i = 0; i < 3; i++)
        answer_read(RLOCK_OK, 6, 6);
    ASSERT_DID("list\nread 32 behind 5_5\nread 32 behind 5_5\nread 32 behind 5_5\n"
               "0: post event 6 to https://shop.example/1.1 within 3000 ms\n"
               "1: post event 6 to https://shop.example/2.1 within 3000 ms\n"
               "2: post event 6 to https://shop.example/3.1 within 3000 ms\n");
    pass_ms(900);
    ANSWER_LIST(ROW(1, 1), ROW(2, 2));
    ASSERT_DID("list\n1: cancel\n2: cancel\n");
    answer_post(0, NULL);
    ASSERT_DID("read 32 behind 106_6\n");
    pass_ms(TICK_MS);
    ASSERT_DID("note 1.1 fence 90 at 106_6: ok; 6 at 200 ms took 900 ms\n"
               "read 32 behind 5_5\n");
    answer_read(RLOCK_OK, 1, 0); /* of endpoint 1 */
    answer_read(RLOCK_OK, 6, 6);
    ASSERT_DID("0: post event 6 to https://shop.example/2.2 within 3000 ms\n");
}

TEST(test_list__leaves_out_an_endpoint_without_a_valid_secret_or_memory)
{
    elect();
    pass_ms(TICK_MS);
    ANSWER_LIST({1, 1, 90, "whsec_short"}, ROW(2, 1));
    pass_ms(TICK_MS);
    ASSERT_DID("list\nread 32 behind 5_5\n");
    answer_read(RLOCK_OK, 6, 6);
    ASSERT_DID("0: post event 6 to https://shop.example/2.1 within 3000 ms\n");
    for (unsigned n = 1; n <= 2; n++) {
        pass_ms(1000);
        torture_fail(n, 0);
        ANSWER_LIST(ROW(2, 1), ROW(3, 1));
        assert_true(torture_stop());
        fake.did[0] = '\0';
        pass_ms(TICK_MS);
        ASSERT_DID("");
    }
    pass_ms(1000);
    ANSWER_LIST(ROW(2, 1), ROW(3, 1));
    pass_ms(TICK_MS);
    ASSERT_DID("list\nread 32 behind 5_5\n");
}

/* -- messages -- */

TEST(test_message__follows_the_answer_to_the_one_before)
{
    begin();
    answer_read(RLOCK_OK, 6, 7);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\n");
    pass_ms(250);
    ASSERT_DID("");
    answer_post(0, NULL);
    ASSERT_DID("0: post event 7 to https://shop.example/1.1 within 3000 ms\n");
    answer_post(0, NULL);
    ASSERT_DID("read 32 behind 107_7\n");
    answer_read(RLOCK_OK, 1, 0); /* nothing has happened for ten seconds */
    ASSERT_DID("");
    pass_ms(TICK_MS);
    ASSERT_DID("note 1.1 fence 90 at 107_7: ok; 6 at 200 ms took 250 ms; "
               "7 at 450 ms took 0 ms\nread 32 behind 107_7\n");
}

TEST(test_message__is_read_again_if_the_feed_has_no_room_or_fails)
{
    elect();
    fake.is_feed_full = true;
    pass_ms(TICK_MS);
    ANSWER_LIST(ROW(1, 1));
    pass_ms(TICK_MS);
    ASSERT_DID("list\n");
    fake.is_feed_full = false;
    pass_ms(TICK_MS);
    ASSERT_DID("read 32 behind 5_5\n");
    answer_read(RLOCK_IO, 1, 0);
    ASSERT_DID("");
    pass_ms(TICK_MS);
    ASSERT_DID("read 32 behind 5_5\n");
    pass_ms(TICK_MS);
    ASSERT_DID(""); /* one read at a time */
}

TEST(test_message__without_memory_is_sent_later)
{
    begin();
    fake.bodies_left = 1;
    answer_read(RLOCK_OK, 6, 7);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\n");
    fake.cannot_post = true;
    answer_post(0, NULL);
    ASSERT_DID("read 32 behind 106_6\n");
    answer_read(RLOCK_OK, 7, 7);
    fake.cannot_post = false;
    pass_ms(TICK_MS);
    ASSERT_DID("note 1.1 fence 90 at 106_6: ok; 6 at 200 ms took 0 ms\n"
               "0: post event 7 to https://shop.example/1.1 within 3000 ms\n");
}

/* A message must end before the lease does. */
TEST(test_message__is_not_sent_near_the_end_of_the_lease)
{
    begin();
    fake.lock->safe_until_us = simulated_us + 3000000;
    answer_read(RLOCK_OK, 6, 6);
    ASSERT_DID("");
    fake.lock->safe_until_us = simulated_us + TICK_MS * 1000 + 3000001;
    pass_ms(TICK_MS);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\n");
}

static const uint32_t long_lease_ms = 30000;

DEFINE_CASE(test_message__has_ten_seconds_at_most, test_message__has_ten_seconds_at_most,
            open_deliverer, close_deliverer, &long_lease_ms)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 10000 ms\n");
}

/* -- failures -- */

TEST(test_failure__is_repeated_after_growing_pauses)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    pass_ms(20);
    answer_post(0, "HTTP status 500");
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\n"
               "webhook_failed webhook_id=1 event_id=6291459 failures=1 pause_ms=500 "
               "why=\"HTTP status 500\"\n");
    pass_ms(480); /* the pause ends at 720 ms */
    ASSERT_DID("note 1.1 fence 90 at 5_5: HTTP status 500; 6 at 200 ms took 20 ms "
               "HTTP status 500\n");
    answer_note(RLOCK_OK, false);
    pass_ms(TICK_MS);
    ASSERT_DID("0: post event 6 to https://shop.example/1.1 within 3000 ms\n");
    answer_post(0, "timed out");
    ASSERT_DID("webhook_failed webhook_id=1 event_id=6291459 failures=2 pause_ms=1000 "
               "why=\"timed out\"\n");
    pass_ms(1000);
    ASSERT_DID("note 1.1 fence 90 at 5_5: timed out; 6 at 800 ms took 0 ms timed out\n"
               "list\n0: post event 6 to https://shop.example/1.1 within 3000 ms\n");
    answer_note(RLOCK_OK, false);
    answer_post(0, NULL);
    /* The end of the failures is noted at once. */
    ASSERT_DID("webhook_recovered webhook_id=1 failures=2\n"
               "note 1.1 fence 90 at 106_6: ok; 6 at 1800 ms took 0 ms\n"
               "read 32 behind 106_6\n");
    answer_read(RLOCK_OK, 7, 7);
    answer_post(0, "again");
    ASSERT_DID("0: post event 7 to https://shop.example/1.1 within 3000 ms\n"
               "webhook_failed webhook_id=1 event_id=7340035 failures=1 pause_ms=500 "
               "why=\"again\"\n");
}

TEST(test_failure__that_disables_the_endpoint_ends_it)
{
    begin();
    answer_read(RLOCK_OK, 6, 6);
    answer_post(0, "gone");
    pass_ms(TICK_MS);
    fake.did[0] = '\0';
    answer_note(RLOCK_OK, true);
    ASSERT_DID("webhook_disabled webhook_id=1 why=\"gone\"\n");
    pass_ms(600);
    ASSERT_DID("");
}

/* -- notes -- */

TEST(test_note__is_repeated_if_it_fails)
{
    begin();
    answer_read(RLOCK_OK, 6, 8);
    answer_post(0, NULL);
    answer_post(0, NULL);
    fake.did[0] = '\0';
    pass_ms(TICK_MS);
    ASSERT_DID(
        "note 1.1 fence 90 at 107_7: ok; 6 at 200 ms took 0 ms; 7 at 200 ms took 0 ms\n");
    answer_post(0, NULL);
    pass_ms(TICK_MS);
    ASSERT_DID("read 32 behind 108_8\n"); /* one note at a time */
    answer_note(RLOCK_IO, false);
    pass_ms(TICK_MS);
    ASSERT_DID(
        "note 1.1 fence 90 at 108_8: ok; 6 at 200 ms took 0 ms; 7 at 200 ms took 0 ms; "
        "8 at 200 ms took 100 ms\n");
    answer_note(RLOCK_IO, false);
    pass_ms(TICK_MS);
    ASSERT_DID(
        "note 1.1 fence 90 at 108_8: ok; 6 at 200 ms took 0 ms; 7 at 200 ms took 0 ms; "
        "8 at 200 ms took 100 ms\n");
    answer_note(RLOCK_OK, false);
    pass_ms(TICK_MS);
    ASSERT_DID(""); /* there is nothing new */
}

TEST(test_note__that_is_refused_ends_the_endpoint_until_the_next_list)
{
    begin();
    answer_read(RLOCK_OK, 6, 7);
    answer_post(0, NULL);
    pass_ms(TICK_MS);
    fake.did[0] = '\0';
    answer_note(RLOCK_NOT_OWNER, false);
    ASSERT_DID("0: cancel\n");
    pass_ms(800);
    ASSERT_DID("list\n");
    ANSWER_LIST(ROW(1, 2));
    pass_ms(TICK_MS);
    ASSERT_DID("read 32 behind 5_5\n");
}

/* While a note is in progress, room is left for the last 32 deliveries. */
TEST(test_note__has_the_last_deliveries)
{
    begin();
    answer_read(RLOCK_OK, 6, 37);
    answer_post(0, NULL);
    answer_post(0, NULL);
    answer_post(0, NULL);
    fake.did[0] = '\0';
    pass_ms(TICK_MS);
    ASSERT_DID(
        "note 1.1 fence 90 at 108_8: ok; 6 at 200 ms took 0 ms; 7 at 200 ms took 0 ms; "
        "8 at 200 ms took 0 ms\n");
    for (int i = 9; i <= 37; i++)
        answer_post(0, NULL);
    answer_read(RLOCK_OK, 38, 38);
    answer_post(0, NULL); /* the delivery of event 6 has no room any more */
    fake.did[0] = '\0';
    answer_note(RLOCK_OK, false); /* and those of 7 and 8 are noted */
    pass_ms(TICK_MS);
    ASSERT_BEGINS(fake.did,
                  "note 1.1 fence 90 at 138_38: ok; 9 at 200 ms took 100 ms; 10 at");
    ASSERT_CONTAINS(fake.did, "; 38 at 300 ms took 0 ms\n");
}

/* The store and the feed still have pointers to the endpoint. */
TEST(test_endpoint__that_is_gone_is_freed_after_its_last_answer)
{
    for (int i = 0; i < 2; i++) {
        if (i > 0) {
            close_deliverer(NULL);
            open_deliverer(state);
        }
        begin();
        answer_read(RLOCK_OK, 6, 6);
        answer_post(0, NULL);
        pass_ms(900);
        ANSWER_LIST(ROW(2, 1));
        assert_true(fake.polls[0]->is_gone(fake.polls[0]));
        fake.did[0] = '\0';
        if (i == 0)
            answer_note(RLOCK_OK, true);
        answer_read(RLOCK_OK, 7, 7);
        if (i == 1)
            answer_note(RLOCK_OK, true);
        ASSERT_DID("");
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
