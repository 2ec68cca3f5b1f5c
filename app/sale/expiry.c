/*
 * expiry.c - expires overdue orders several times a second, some hundreds per call.
 *
 * While calls make progress, the next follows at once. A call without progress ends the
 * run: no order is overdue, or another instance expires them.
 */
#include "app/sale/expiry.h"

#include "app/core/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define INTERVAL_MS 600

struct expiry_watch {
    uv_timer_t timer;
    struct store *store;
    uint64_t expired; /* in this run; logged at its end */
    bool is_running;
    bool is_refused;  /* Postgres refused a voucher in this run */
    bool was_refused; /* in the last; logged once */
};

static void expire_some(struct expiry_watch *watch);

static void expiry_on_expired(enum status status, uint64_t expired, bool is_progress,
                              void *arg)
{
    struct expiry_watch *watch = arg;

    watch->is_running = false;
    watch->expired += expired;
    watch->is_refused |= status == STATUS_REFUSED;
    if (is_progress) {
        expire_some(watch);
        return;
    }
    if (watch->is_refused && !watch->was_refused)
        log_event(LOG_ERROR, "expiry_refused", "expired=%" PRIu64, watch->expired);
    watch->was_refused = watch->is_refused;
    watch->is_refused = false;
    if (watch->expired > 0)
        log_event(LOG_INFO, "orders_expired", "count=%" PRIu64, watch->expired);
    watch->expired = 0;
}

static void expire_some(struct expiry_watch *watch)
{
    watch->is_running = true;
    store_expire_orders(watch->store, expiry_on_expired, watch);
}

static void expiry_on_timer(uv_timer_t *timer)
{
    struct expiry_watch *watch = timer->data;

    if (!watch->is_running)
        expire_some(watch);
}

struct expiry_watch *expiry_open(uv_loop_t *loop, struct store *store)
{
    struct expiry_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    watch->store = store;
    uv_timer_init(loop, &watch->timer);
    watch->timer.data = watch;
    uv_timer_start(&watch->timer, expiry_on_timer, INTERVAL_MS, INTERVAL_MS);
    return watch;
}

static void expiry_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void expiry_close(struct expiry_watch *watch)
{
    if (watch != NULL)
        uv_close((uv_handle_t *)&watch->timer, expiry_on_closed);
}
