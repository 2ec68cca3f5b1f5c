/*
 * expiry.c - looks for orders whose time is over, several times a second.
 *
 * While a look gets on, the next follows at once; the first that does not waits: either
 * there is nothing to expire, or others are at it.
 */
#include "app/sale/expiry.h"

#include "app/core/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define LOOK_EVERY_MS 250

struct expiry_watch {
    uv_timer_t timer;
    struct store *store;
    uint64_t expired; /* since the last line of the log */
    bool is_looking;
};

static void look(struct expiry_watch *watch);

static void on_expired(enum status status, uint64_t expired, bool is_progress, void *arg)
{
    struct expiry_watch *watch = arg;

    watch->is_looking = false;
    watch->expired += expired;
    if (status == STATUS_OK && is_progress) {
        look(watch);
        return;
    }
    if (watch->expired > 0)
        log_event(LOG_INFO, "orders_expired", "count=%" PRIu64, watch->expired);
    watch->expired = 0;
}

static void look(struct expiry_watch *watch)
{
    watch->is_looking = true;
    store_expire_orders(watch->store, on_expired, watch);
}

static void on_timer(uv_timer_t *timer)
{
    struct expiry_watch *watch = timer->data;

    if (!watch->is_looking)
        look(watch);
}

struct expiry_watch *expiry_open(uv_loop_t *loop, struct store *store)
{
    struct expiry_watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL)
        return NULL;
    watch->store = store;
    uv_timer_init(loop, &watch->timer);
    watch->timer.data = watch;
    uv_timer_start(&watch->timer, on_timer, LOOK_EVERY_MS, LOOK_EVERY_MS);
    return watch;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void expiry_close(struct expiry_watch *watch)
{
    if (watch != NULL)
        uv_close((uv_handle_t *)&watch->timer, on_closed);
}
