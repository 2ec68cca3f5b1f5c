/* feed.c - asks Postgres for all waiting readers together. */
#include "app/sale/feed.h"

#include "base/clock.h"

#include <stdlib.h>

#define EVERY_MS 100
/* A reader whose time is over waits for this many answers while transactions are open, and then
   gets an empty page. The first answer says which changes have begun. A later answer says that the
   transactions of these changes have ended. */
#define ANSWERS_MIN 3

struct feed {
    uv_timer_t timer;
    struct store *store;
    struct metrics *metrics;
    struct rlock_link waiting; /* feed_poll */
    size_t count;              /* readers that read or wait */
    int64_t until;             /* result of store_feed_until() after the last answer */
    bool is_asking;
    bool is_scheduled;
    bool is_draining;
};

static void answer(struct feed_poll *poll, enum rlock_status status,
                   const struct event *events, size_t count)
{
    struct feed *feed = poll->feed;

    list_remove(&poll->link);
    feed->count--;
    metrics_set(&feed->metrics->feed_readers, feed->count);
    if (feed->count == 0)
        atomic_store(&feed->metrics->feed_held_since_us, 0);
    poll->done(poll, status, events, count);
}

/* -- questions -- */

static void feed_on_asked(enum rlock_status status, bool is_complete, void *arg);

static void ask(struct feed *feed)
{
    if (feed->is_asking || list_is_empty(&feed->waiting))
        return;
    feed->is_asking = true;
    store_advance_feed(feed->store, feed_on_asked, feed);
}

static void feed_on_timer(uv_timer_t *timer)
{
    struct feed *feed = timer->data;

    feed->is_scheduled = false;
    ask(feed);
}

static void schedule(struct feed *feed)
{
    if (feed->is_scheduled || list_is_empty(&feed->waiting))
        return;
    feed->is_scheduled = true;
    uv_timer_start(&feed->timer, feed_on_timer, EVERY_MS, 0);
}

/* -- readers -- */

static void wait_for_change(struct feed_poll *poll)
{
    struct feed *feed = poll->feed;

    list_append(&feed->waiting, &poll->link);
    if (feed->is_draining) {
        answer(poll, RLOCK_OK, NULL, 0);
    } else if (poll->answers == 0) {
        if (feed->is_asking)
            poll->answers = -1; /* the pending question is older than the reader */
        ask(feed);
    } else {
        schedule(feed);
    }
}

static void feed_on_events(enum rlock_status status, const struct event *events,
                           size_t count, void *arg)
{
    struct feed_poll *poll = arg;

    if (status != RLOCK_OK || count > 0)
        answer(poll, status, events, count);
    else
        wait_for_change(poll);
}

static void read_events(struct feed_poll *poll)
{
    struct store *store = poll->feed->store;
    const struct feed_filter filter = {.after = poll->after, .limit = poll->limit};

    list_remove(&poll->link);
    poll->read_until = store_feed_until(store);
    store_list_feed(store, &filter, feed_on_events, poll);
}

static bool is_over(const struct feed_poll *poll, bool is_complete)
{
    return clock_mono_us() >= poll->end_us &&
           poll->answers >= (is_complete ? 1 : ANSWERS_MIN);
}

static void note_progress(struct feed *feed, bool is_complete)
{
    _Atomic int64_t *since_us = &feed->metrics->feed_held_since_us;
    int64_t until = store_feed_until(feed->store);

    if (is_complete || until != feed->until)
        atomic_store(since_us, 0);
    else if (*since_us == 0)
        atomic_store(since_us, clock_mono_us());
    feed->until = until;
}

static void feed_on_asked(enum rlock_status status, bool is_complete, void *arg)
{
    struct feed *feed = arg;
    bool has_new = false;

    feed->is_asking = false;
    note_progress(feed, is_complete);
    LIST_EACH_SAFE(struct feed_poll, poll, &feed->waiting, link) {
        poll->answers++;
        if (status != RLOCK_OK)
            answer(poll, status, NULL, 0);
        else if (feed->until > poll->read_until)
            read_events(poll);
        else if (poll->is_gone(poll) || is_over(poll, is_complete))
            answer(poll, RLOCK_OK, NULL, 0);
        else if (poll->answers == 0)
            has_new = true;
    }
    if (has_new)
        ask(feed);
    else
        schedule(feed);
}

bool feed_read(struct feed *feed, struct feed_poll *poll)
{
    if (feed->count >= FEED_POLLS_MAX)
        return false;
    feed->count++;
    metrics_set(&feed->metrics->feed_readers, feed->count);
    poll->feed = feed;
    poll->answers = 0;
    poll->read_until = poll->after.first - 1;
    list_init(&poll->link);
    if (feed->is_draining || store_feed_until(feed->store) > poll->read_until)
        read_events(poll);
    else
        wait_for_change(poll);
    return true;
}

/* -- open and close -- */

struct feed *feed_open(uv_loop_t *loop, struct store *store, struct metrics *metrics)
{
    struct feed *feed = calloc(1, sizeof(*feed));

    if (feed == NULL)
        return NULL;
    feed->store = store;
    feed->metrics = metrics;
    list_init(&feed->waiting);
    uv_timer_init(loop, &feed->timer);
    feed->timer.data = feed;
    return feed;
}

void feed_drain(struct feed *feed)
{
    feed->is_draining = true;
    LIST_EACH_SAFE(struct feed_poll, poll, &feed->waiting, link)
        answer(poll, RLOCK_OK, NULL, 0);
}

static void feed_on_closed(uv_handle_t *timer)
{
    free(timer->data);
}

void feed_close(struct feed *feed)
{
    if (feed != NULL)
        uv_close((uv_handle_t *)&feed->timer, feed_on_closed);
}
