/* deliverer.c - the endpoints: what each has received, and what it gets next. */
#include "app/deliver/deliverer.h"

#include "app/api/json.h"
#include "app/auth/signature.h"
#include "app/core/log.h"
#include "app/deliver/sender.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define TICK_MS        100
#define LIST_US        INT64_C(1000000)
#define WAIT_US        INT64_C(10000000) /* for the next event */
#define PAGE_MAX       32                /* events in memory per endpoint */
#define LOG_MAX        32                /* deliveries in memory per endpoint */
#define TRANSFER_MS    10000
#define BACKOFF_MS_MIN 1000
#define BACKOFF_MS_MAX 300000

struct message {
    int64_t event_id;
    struct feed_position position;
    char *body;
};

struct endpoint {
    struct rlock_link link; /* in deliverer->endpoints, unless it is retired */
    struct deliverer *deliverer;
    struct webhook
        webhook; /* its position follows the last event that the endpoint has received */
    char *url;
    struct signature_key key;
    bool is_listed;
    bool is_retired; /* freed as soon as no callback is awaited */
    bool is_reading;
    bool is_noting;
    bool must_note; /* the position or the error has changed since the last note */
    struct feed_poll poll;
    struct message messages[PAGE_MAX];
    size_t count, next; /* messages[next] is sent next */
    struct transfer *transfer;
    unsigned failures;          /* since the last success */
    int64_t retry_us;           /* clock_mono_us() before which nothing is sent */
    char error[LOG_TEXT_BYTES]; /* of the last failure */
    int64_t sent_us;            /* clock_mono_us() when the transfer began */

    /* the last deliveries that are not noted yet; the first log_noting are being noted */
    struct webhook_delivery log[LOG_MAX];
    size_t log_count, log_noting;
};

struct deliverer {
    struct deliverer_options options;
    struct sender *sender;
    uv_timer_t timer;
    struct rlock lock;
    bool is_acquiring;
    bool is_listing;
    int64_t list_us; /* clock_mono_us() when the next list is due */
    struct rlock_link endpoints;
};

/* -- retired endpoints -- */

static void free_messages(struct endpoint *endpoint)
{
    for (size_t i = endpoint->next; i < endpoint->count; i++)
        free(endpoint->messages[i].body);
    endpoint->count = endpoint->next = 0;
}

/* Returns whether the endpoint is retired. Then it may be freed already. */
static bool free_if_retired(struct endpoint *endpoint)
{
    if (!endpoint->is_retired)
        return false;
    if (!endpoint->is_reading && !endpoint->is_noting) {
        free_messages(endpoint);
        free(endpoint->url);
        free(endpoint);
    }
    return true;
}

static void retire(struct endpoint *endpoint)
{
    list_remove(&endpoint->link);
    sender_cancel(endpoint->transfer);
    endpoint->transfer = NULL;
    endpoint->is_retired = true;
    free_if_retired(endpoint);
}

static void retire_all(struct deliverer *deliverer)
{
    LIST_DRAIN(struct endpoint, endpoint, &deliverer->endpoints, link)
        retire(endpoint);
}

/* -- the log of deliveries -- */

static void drop_deliveries(struct endpoint *endpoint, size_t count)
{
    endpoint->log_count -= count;
    endpoint->log_noting -= MIN(endpoint->log_noting, count);
    memmove(endpoint->log, endpoint->log + count,
            endpoint->log_count * sizeof(endpoint->log[0]));
}

static void log_delivery(struct endpoint *endpoint, const char *error)
{
    int64_t duration_us = clock_mono_us() - endpoint->sent_us;
    struct webhook_delivery *delivery;

    if (endpoint->log_count == LOG_MAX)
        drop_deliveries(endpoint, 1);
    delivery = &endpoint->log[endpoint->log_count++];
    *delivery =
        (struct webhook_delivery){.event_id = endpoint->messages[endpoint->next].event_id,
                                  .at_us = clock_real_us() - duration_us,
                                  .duration_ms = duration_us / 1000};
    if (error != NULL)
        log_plain(error, delivery->error);
}

/* -- notes of what was received -- */

static void deliverer_on_noted(enum rlock_status status, bool is_disabled, void *arg)
{
    struct endpoint *endpoint = arg;

    endpoint->is_noting = false;
    if (free_if_retired(endpoint))
        return;
    if (status == RLOCK_OK)
        drop_deliveries(endpoint, endpoint->log_noting);
    if (is_disabled)
        log_event(LOG_ERROR, "webhook_disabled", "webhook_id=%" PRId64 " why=\"%s\"",
                  endpoint->webhook.id, LOG_PLAIN(endpoint->error));
    /* If an operator has changed the endpoint, the next list has its new state. */
    if (is_disabled || status == RLOCK_NOT_OWNER)
        retire(endpoint);
    else if (status != RLOCK_OK)
        endpoint->must_note = true;
}

/* Is called at most once per tick and endpoint, except after a failure has ended, so that fast
   endpoints cause few commits. */
static void note(struct endpoint *endpoint)
{
    struct deliverer *deliverer = endpoint->deliverer;
    const struct webhook_note what = {
        .webhook = &endpoint->webhook,
        .error = endpoint->failures > 0 ? endpoint->error : NULL,
        .deliveries = endpoint->log,
        .delivery_count = endpoint->log_count,
    };

    if (endpoint->is_noting)
        return;
    endpoint->is_noting = true;
    endpoint->must_note = false;
    endpoint->webhook.fence = rlock_fence(&deliverer->lock);
    endpoint->log_noting = endpoint->log_count;
    store_note_webhook(deliverer->options.store, &what, deliverer_on_noted, endpoint);
}

/* -- messages -- */

static uint32_t limit_ms(const struct deliverer *deliverer)
{
    return MIN(TRANSFER_MS, deliverer->options.lease_ms / 2);
}

/* Whether a message that is sent now ends before the lease of the lock. */
static bool may_send(const struct deliverer *deliverer)
{
    return rlock_safe_for_us(&deliverer->lock, clock_mono_us()) >
           limit_ms(deliverer) * INT64_C(1000);
}

static void step(struct endpoint *endpoint);

static void note_success(struct endpoint *endpoint)
{
    struct message *message = &endpoint->messages[endpoint->next++];

    log_event(LOG_DEBUG, "webhook_delivered", "webhook_id=%" PRId64 " event_id=%" PRId64,
              endpoint->webhook.id, message->event_id);
    if (endpoint->failures > 0)
        log_event(LOG_INFO, "webhook_recovered", "webhook_id=%" PRId64 " failures=%u",
                  endpoint->webhook.id, endpoint->failures);
    endpoint->failures = 0;
    endpoint->webhook.position = message->position;
    free(message->body);
}

static void note_failure(struct endpoint *endpoint, const char *error)
{
    uint32_t pause_ms =
        backoff_ms(endpoint->failures, BACKOFF_MS_MIN, BACKOFF_MS_MAX, random_u64());

    endpoint->failures++;
    endpoint->retry_us = clock_mono_us() + pause_ms * INT64_C(1000);
    log_plain(error, endpoint->error);
    log_event(LOG_WARN, "webhook_failed",
              "webhook_id=%" PRId64 " event_id=%" PRId64
              " failures=%u pause_ms=%u why=\"%s\"",
              endpoint->webhook.id, endpoint->messages[endpoint->next].event_id,
              endpoint->failures, pause_ms, endpoint->error);
}

static void deliverer_on_sent(const char *error, void *arg)
{
    struct endpoint *endpoint = arg;
    bool was_failing = endpoint->failures > 0;

    endpoint->transfer = NULL;
    endpoint->must_note = true;
    log_delivery(endpoint, error);
    if (error != NULL)
        note_failure(endpoint, error);
    else
        note_success(endpoint);
    /* Otherwise the next failure could hide that this failure has ended. */
    if (was_failing && error == NULL)
        note(endpoint);
    step(endpoint);
}

static void send_next(struct endpoint *endpoint)
{
    struct deliverer *deliverer = endpoint->deliverer;
    const struct message *next = &endpoint->messages[endpoint->next];
    char id[32], signature[SIGNATURE_BYTES];
    struct sender_message message = {.url = endpoint->url,
                                     .id = id,
                                     .timestamp_s = clock_real_us() / 1000000,
                                     .signature = signature,
                                     .body = next->body,
                                     .timeout_ms = limit_ms(deliverer)};

    snprintf(id, sizeof(id), "evt_%" PRId64, next->event_id);
    endpoint->sent_us = clock_mono_us();
    if (signature_sign(&endpoint->key, id, message.timestamp_s, message.body, signature))
        endpoint->transfer =
            sender_post(deliverer->sender, &message, deliverer_on_sent, endpoint);
}

/* -- events -- */

static bool deliverer_is_gone(const struct feed_poll *poll)
{
    return list_item(poll, struct endpoint, poll)->is_retired;
}

/* Without memory, the events that are missing are read again later. */
static void keep_events(struct endpoint *endpoint, const struct event *events,
                        size_t count)
{
    free_messages(endpoint);
    while (endpoint->count < count) {
        const struct event *event = &events[endpoint->count];
        char *body = json_print_webhook(event);

        if (body == NULL)
            return;
        endpoint->messages[endpoint->count++] =
            (struct message){.event_id = event->id,
                             .position = {event->first, event->id >> EVENT_VOUCHER_BITS},
                             .body = body};
    }
}

static void deliverer_on_events(struct feed_poll *poll, enum rlock_status status,
                                const struct event *events, size_t count)
{
    struct endpoint *endpoint = list_item(poll, struct endpoint, poll);

    endpoint->is_reading = false;
    if (free_if_retired(endpoint) || status != RLOCK_OK)
        return;
    keep_events(endpoint, events, count);
    if (count > 0)
        step(endpoint);
}

static void read_next(struct endpoint *endpoint)
{
    struct feed_poll *poll = &endpoint->poll;

    *poll = (struct feed_poll){.after = endpoint->webhook.position,
                               .end_us = clock_mono_us() + WAIT_US,
                               .is_gone = deliverer_is_gone,
                               .done = deliverer_on_events,
                               .limit = PAGE_MAX};
    endpoint->is_reading = feed_read(endpoint->deliverer->options.feed, poll);
}

static void step(struct endpoint *endpoint)
{
    if (endpoint->transfer != NULL || endpoint->is_reading ||
        clock_mono_us() < endpoint->retry_us || !may_send(endpoint->deliverer))
        return;
    if (endpoint->next < endpoint->count)
        send_next(endpoint);
    else
        read_next(endpoint);
}

/* -- the list of endpoints -- */

static struct endpoint *find(struct deliverer *deliverer, int64_t id)
{
    LIST_EACH(struct endpoint, endpoint, &deliverer->endpoints, link) {
        if (endpoint->webhook.id == id)
            return endpoint;
    }
    return NULL;
}

/* Without memory, the next list is another chance. */
static void add(struct deliverer *deliverer, const struct webhook *webhook)
{
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return;
    endpoint->deliverer = deliverer;
    endpoint->webhook = (struct webhook){
        .id = webhook->id, .version = webhook->version, .position = webhook->position};
    endpoint->is_listed = true;
    endpoint->url = strdup(webhook->url);
    list_init(&endpoint->link);
    if (endpoint->url != NULL && signature_parse_secret(webhook->secret, &endpoint->key))
        list_append(&deliverer->endpoints, &endpoint->link);
    else
        retire(endpoint);
}

/* An endpoint that an operator has changed begins anew. */
static void take_row(struct deliverer *deliverer, const struct webhook *webhook)
{
    struct endpoint *endpoint = find(deliverer, webhook->id);

    if (endpoint != NULL && endpoint->webhook.version == webhook->version) {
        endpoint->is_listed = true;
        return;
    }
    if (endpoint != NULL)
        retire(endpoint);
    add(deliverer, webhook);
}

/* A failover of Redis has lowered the fences. The lock is acquired again with a greater one. */
static void renew_fence(struct deliverer *deliverer, int64_t above)
{
    retire_all(deliverer);
    rlock_raise_fences(deliverer->options.locks, above);
    rlock_release(deliverer->options.locks, &deliverer->lock, NULL, NULL);
}

static void deliverer_on_webhooks(enum rlock_status status,
                                  const struct webhook *webhooks, size_t count, void *arg)
{
    struct deliverer *deliverer = arg;
    int64_t fence = 0;

    deliverer->is_listing = false;
    if (status != RLOCK_OK || !rlock_is_held(&deliverer->lock))
        return;
    for (size_t i = 0; i < count; i++)
        fence = MAX(fence, webhooks[i].fence);
    if (fence > rlock_fence(&deliverer->lock)) {
        renew_fence(deliverer, fence);
        return;
    }
    LIST_EACH(struct endpoint, endpoint, &deliverer->endpoints, link)
        endpoint->is_listed = false;
    for (size_t i = 0; i < count; i++)
        take_row(deliverer, &webhooks[i]);
    LIST_DRAIN_PRESENT(struct endpoint, endpoint, &deliverer->endpoints, link) {
        if (endpoint->is_listed)
            list_append(&deliverer->endpoints, &endpoint->link);
        else
            retire(endpoint);
    }
}

static void list_endpoints(struct deliverer *deliverer)
{
    deliverer->is_listing = true;
    deliverer->list_us = clock_mono_us() + LIST_US;
    store_list_webhooks(deliverer->options.store, deliverer_on_webhooks, deliverer);
}

/* -- election -- */

static void deliverer_on_lost(struct rlock *lock UNUSED, enum rlock_status status UNUSED,
                              void *arg)
{
    log_event(LOG_WARN, "webhooks_lost", "%s", "");
    retire_all(arg);
}

static void deliverer_on_acquired(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct deliverer *deliverer = arg;

    deliverer->is_acquiring = false;
    deliverer->list_us = clock_mono_us();
    if (status == RLOCK_OK)
        log_event(LOG_INFO, "webhooks_elected", "fence=%" PRId64, rlock_fence(lock));
}

static void acquire(struct deliverer *deliverer)
{
    const struct rlock_acquire_options options = {
        .lease_ms = deliverer->options.lease_ms,
        .watchdog = true,
        .on_lost = deliverer_on_lost,
        .wait_ms = RLOCK_WAIT_FOREVER,
    };

    deliverer->is_acquiring = true;
    rlock_acquire(deliverer->options.locks, &deliverer->lock, DELIVERER_LOCK,
                  strlen(DELIVERER_LOCK), &options, deliverer_on_acquired, deliverer);
}

static void deliverer_on_tick(uv_timer_t *timer)
{
    struct deliverer *deliverer = timer->data;

    if (!rlock_is_held(&deliverer->lock)) {
        if (!deliverer->is_acquiring)
            acquire(deliverer);
        return;
    }
    if (!deliverer->is_listing && clock_mono_us() >= deliverer->list_us)
        list_endpoints(deliverer);
    LIST_EACH(struct endpoint, endpoint, &deliverer->endpoints, link) {
        if (endpoint->must_note)
            note(endpoint);
        step(endpoint);
    }
}

/* -- open and close -- */

struct deliverer *deliverer_open(const struct deliverer_options *options)
{
    struct deliverer *deliverer = calloc(1, sizeof(*deliverer));

    if (deliverer == NULL)
        return NULL;
    deliverer->options = *options;
    deliverer->sender = sender_open(options->loop, options->allowed);
    if (deliverer->sender == NULL) {
        free(deliverer);
        return NULL;
    }
    list_init(&deliverer->endpoints);
    uv_timer_init(options->loop, &deliverer->timer);
    deliverer->timer.data = deliverer;
    uv_timer_start(&deliverer->timer, deliverer_on_tick, 0, TICK_MS);
    return deliverer;
}

void deliverer_stop(struct deliverer *deliverer)
{
    retire_all(deliverer);
    if (rlock_is_held(&deliverer->lock))
        rlock_release(deliverer->options.locks, &deliverer->lock, NULL, NULL);
    sender_close(deliverer->sender);
    uv_close((uv_handle_t *)&deliverer->timer, NULL);
}

void deliverer_free(struct deliverer *deliverer)
{
    free(deliverer);
}
