/*
 * it_store.h - a store on a loop of its own, run until a condition holds.
 */
#ifndef TEST_IT_STORE_H
#define TEST_IT_STORE_H

#include "app/store/store.h"
#include "app/test/sql/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>
#include <uv.h>

#define UNHURRIED_MS 60000 /* a timeout of the store that never elapses in a test */
#define BATCH_MAX    16

/** A store and what its callbacks received. */
struct shop {
    uv_loop_t loop;
    uv_timer_t tick; /* limits the waits */
    struct store *store;
    struct metrics metrics;
    bool is_up, was_told, is_closed;
    unsigned downs;      /* how often on_state reported that the store is down */
    unsigned changes;    /* notifications */
    unsigned refreshes;  /* on_voucher_changed(0) */
    int64_t changed_id;  /* of the last notification */
    struct err down_why; /* the last reason */
    uint32_t timeout_ms; /* of the store */
};

/** A batch and its answer. */
struct basket {
    struct placement placements[BATCH_MAX];
    struct placement *pointers[BATCH_MAX];
    struct store_batch batch;
    size_t count;
    bool is_answered, has_snapshot, is_released;
    enum status status;
    struct voucher_snapshot snapshot;
    struct err why;
    int64_t took_us;
    int64_t sent_us;
};

static inline void shop_on_state(bool is_up, const struct err *why, void *arg)
{
    struct shop *shop = arg;

    assert_true(is_up || why != NULL);
    assert_true(!shop->was_told || shop->is_up != is_up ||
                why->status != shop->down_why.status); /* changes only */
    shop->was_told = true;
    shop->is_up = is_up;
    shop->downs += !is_up;
    if (!is_up)
        shop->down_why = *why;
}

static inline void shop_on_changed(int64_t voucher_id, void *arg)
{
    struct shop *shop = arg;

    if (voucher_id == 0) {
        shop->refreshes++;
        return;
    }
    shop->changes++;
    shop->changed_id = voucher_id;
}

static inline void shop_on_tick(uv_timer_t *tick UNUSED)
{
}

/** Run the loop until `*flag` is true; fails the test when it takes too long. */
static inline void shop_await(struct shop *shop, const bool *flag)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (!*flag) {
        if (clock_mono_us() > deadline_us)
            fail_msg("no answer in %d ms", DEADLINE_MS);
        store_flush(shop->store);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
}

static inline struct shop *shop_open_with(struct store_options options)
{
    struct shop *shop = calloc(1, sizeof(*shop));
    struct err err = {0};

    assert_non_null(shop);
    shop->timeout_ms = options.timeout_ms;
    uv_loop_init(&shop->loop);
    uv_timer_init(&shop->loop, &shop->tick);
    uv_timer_start(&shop->tick, shop_on_tick, 10, 10);
    options.loop = &shop->loop;
    options.on_voucher_changed = shop_on_changed;
    options.on_state = shop_on_state;
    options.metrics = &shop->metrics;
    options.arg = shop;
    if (store_open(&options, &shop->store, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return shop;
}

static inline struct shop *shop_open_at(const char *url, unsigned lanes,
                                        uint32_t timeout_ms, bool expires_orders)
{
    return shop_open_with((struct store_options){.database_url = url,
                                                 .timeout_ms = timeout_ms,
                                                 .lanes = lanes,
                                                 .expires_orders = expires_orders});
}

/** Open and wait until all connections are up. */
static inline struct shop *shop_open(const struct sandbox *sandbox, unsigned lanes,
                                     uint32_t timeout_ms)
{
    struct shop *shop = shop_open_at(sandbox->service_url, lanes, timeout_ms, false);

    shop_await(shop, &shop->is_up);
    return shop;
}

static inline void shop_on_closed(void *arg)
{
    struct shop *shop = arg;

    shop->is_closed = true;
}

/** Close the store; fails if a handle stays open. */
static inline void shop_close(struct shop *shop)
{
    if (shop->store != NULL)
        store_close(shop->store, shop_on_closed, shop);
    uv_close((uv_handle_t *)&shop->tick, NULL);
    uv_run(&shop->loop, UV_RUN_DEFAULT);
    assert_true(shop->is_closed);
    assert_int_equal(uv_loop_close(&shop->loop), 0);
    free(shop);
}

static inline struct text text_of(const char *string)
{
    return (struct text){string, string == NULL ? 0 : strlen(string)};
}

static inline void basket_add(struct basket *basket, int64_t user_id, int64_t fence,
                              const char *key)
{
    struct placement *placement = &basket->placements[basket->count];

    assert_true(basket->count < BATCH_MAX);
    *placement =
        (struct placement){.user_id = user_id, .fence = fence, .key = text_of(key)};
    basket->pointers[basket->count++] = placement;
}

static inline void basket_on_answer(enum status status,
                                    const struct voucher_snapshot *snapshot,
                                    const struct err *why, void *arg)
{
    struct basket *basket = arg;

    assert_false(basket->is_answered);
    assert_true(status == STATUS_OK ? why == NULL : why != NULL);
    basket->is_answered = true;
    basket->status = status;
    basket->took_us = clock_mono_us() - basket->sent_us;
    basket->has_snapshot = snapshot != NULL;
    if (snapshot != NULL)
        basket->snapshot = *snapshot;
    if (why != NULL)
        basket->why = *why;
}

/** The batch that the store gets. Its orders arrive now. */
static inline struct store_batch *basket_batch(const struct shop *shop, int64_t voucher,
                                               struct basket *basket)
{
    basket->is_answered = false;
    basket->sent_us = clock_mono_us();
    basket->batch = (struct store_batch){
        .voucher_id = voucher,
        .placements = basket->pointers,
        .count = basket->count,
        .deadline_us = basket->sent_us + shop->timeout_ms * INT64_C(2000),
        .arg = basket,
    };
    return &basket->batch;
}

static inline void basket_send(struct shop *shop, int64_t voucher, struct basket *basket)
{
    struct list batches;

    list_init(&batches);
    list_append(&batches, &basket_batch(shop, voucher, basket)->link);
    store_place_orders(shop->store, &batches, basket_on_answer);
    assert_false(basket->is_answered);
    store_flush(shop->store);
}

/** Send batches that share a transaction. */
static inline void baskets_send(struct shop *shop, const int64_t *vouchers,
                                struct basket *baskets, size_t count)
{
    struct list batches;

    list_init(&batches);
    for (size_t i = 0; i < count; i++)
        list_append(&batches, &basket_batch(shop, vouchers[i], &baskets[i])->link);
    store_place_orders(shop->store, &batches, basket_on_answer);
    store_flush(shop->store);
}

static inline enum status basket_place(struct shop *shop, int64_t voucher,
                                       struct basket *basket)
{
    basket_send(shop, voucher, basket);
    shop_await(shop, &basket->is_answered);
    return basket->status;
}

static inline enum status basket_resolve_once(struct shop *shop, int64_t voucher,
                                              struct basket *basket)
{
    store_resolve_orders(shop->store, basket_batch(shop, voucher, basket),
                         basket_on_answer);
    assert_false(basket->is_answered);
    shop_await(shop, &basket->is_answered);
    return basket->status;
}

/** Resolve again and again until there is an answer, as checkout does. */
static inline void basket_resolve(struct shop *shop, int64_t voucher,
                                  struct basket *basket)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (basket_resolve_once(shop, voucher, basket) != STATUS_OK) {
        assert_true(clock_mono_us() < deadline_us);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
}

#endif
