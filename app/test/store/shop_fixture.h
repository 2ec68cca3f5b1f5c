/*
 * shop_fixture.h - a store with fake connections, in simulated time. Callbacks record their
 * arguments.
 *
 * A test program includes this file in one source only.
 */
#ifndef SHOP_FIXTURE_H
#define SHOP_FIXTURE_H

#include "app/core/log.h"
#include "app/test/simulated_time.h"
#include "app/test/store/fake_conns.h"

#define TIMEOUT_MS 1000
#define EPOCH_US   INT64_C(946684800000000)

static uv_loop_t loop;
static struct store *shop;
static struct metrics metrics;

/* The store calls this function only for its timers, which are simulated. */
int uv_is_active(const uv_handle_t *handle)
{
    for (size_t i = 0; i < SIMULATED_TIMERS_MAX; i++) {
        if ((const uv_handle_t *)simulated_timers[i].timer == handle)
            return simulated_timers[i].callback != NULL;
    }
    return 0;
}

static inline void turn(void)
{
    store_flush(shop);
}

static inline void no_turn(void)
{
}

static inline void pass_ms(int64_t ms)
{
    simulated_time_pass_us(ms * 1000, turn);
}

void log_event(enum log_level level UNUSED, const char *event, const char *format, ...)
{
    char words[200];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    SAY("log %s %s;", event, words);
}

/* Puts "~" before the text, so a test can see that log_plain() was called. */
const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES])
{
    snprintf(ret_copy, LOG_TEXT_BYTES, "~%s", text);
    return ret_copy;
}

static inline void on_voucher_changed(int64_t voucher_id, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("changed %lld;", (long long)voucher_id);
}

static inline void on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("%s %s;", is_up ? "up" : "down",
        why != NULL ? rlock_status_name(why->status) : "");
}

static inline void on_lists_state(bool is_up, const struct rlock_err *why, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("lists %s %s;", is_up ? "up" : "down",
        why != NULL ? rlock_status_name(why->status) : "");
}

static inline struct store_options options_of_shop(void)
{
    return (struct store_options){.loop = &loop,
                                  .database_url = "postgresql://one/seckill",
                                  .timeout_ms = TIMEOUT_MS,
                                  .lanes = 2,
                                  .metrics = &metrics,
                                  .on_voucher_changed = on_voucher_changed,
                                  .on_state = on_state,
                                  .on_lists_state = on_lists_state,
                                  .arg = &loop};
}

static inline void open_store(const struct store_options *options)
{
    struct rlock_err err;

    ASSERT_STATUS(store_open(options, &shop, &err), RLOCK_OK);
    for (size_t i = 0; i < fake_opened; i++)
        fake_come_up(&fake_conns[i]);
    said[0] = '\0';
}

static inline int reset(void **state UNUSED)
{
    simulated_time_reset();
    fake_reset();
    memset(&metrics, 0, sizeof(metrics));
    said[0] = '\0';
    return uv_loop_init(&loop);
}

static inline int open_shop(void **state)
{
    struct store_options options = options_of_shop();

    reset(state);
    open_store(&options);
    return 0;
}

static inline int close_shop(void **state UNUSED)
{
    store_close(shop, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ASSERT_NUMBER(uv_loop_close(&loop), ==, 0);
    return 0;
}

static inline void open_with_lists(void)
{
    struct store_options options = options_of_shop();

    close_shop(NULL);
    reset(NULL);
    options.lists_url = "postgresql://two/lists";
    options.expires_orders = true;
    open_store(&options);
}

static inline struct store_conn *conn_of(enum role role)
{
    return shop->conns[role];
}

/* -- callbacks record their arguments -- */

static inline void say_text(struct text text)
{
    if (text.bytes == NULL)
        SAY(" null");
    else
        SAY(" '%.*s'", (int)text.len, text.bytes);
}

static inline long long short_us(int64_t us)
{
    return us >= EPOCH_US ? us - EPOCH_US : us;
}

static inline void say_order(const struct order *order)
{
    SAY(" %lld %lld %lld %lld %lld %lld %lld %d", (long long)order->id,
        (long long)order->voucher_id, (long long)order->user_id,
        (long long)order->price_cents, short_us(order->created_us),
        short_us(order->expires_us), short_us(order->paid_us), order->status);
}

static inline void on_vouchers(enum rlock_status status, const struct voucher *vouchers,
                               size_t count, int64_t now_us, void *arg)
{
    assert_ptr_equal(arg, shop);
    assert_true((vouchers == NULL) == (count == 0));
    SAY("%s now %lld:", rlock_status_name(status),
        (long long)(now_us == 0 ? 0 : now_us - EPOCH_US));
    for (size_t i = 0; i < count; i++) {
        const struct voucher *v = &vouchers[i];

        SAY(" %lld %lld", (long long)v->id, (long long)v->version);
        say_text(v->title);
        say_text(v->description);
        SAY(" %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld",
            (long long)v->price_cents, (long long)v->face_value_cents,
            (long long)v->stock_total, (long long)v->stock_left,
            (long long)v->per_user_limit, (long long)v->pay_within_s,
            (long long)(v->begin_us - EPOCH_US), (long long)(v->end_us - EPOCH_US),
            (long long)v->requires_ticket, (long long)v->pow_bits);
        assert_int_equal(v->is_lottery, v->commitment.bytes != NULL);
        say_text(v->commitment);
        say_text(v->seed);
        if (v->drawn_us != 0)
            SAY(" %lld", (long long)(v->drawn_us - EPOCH_US));
        else
            SAY(" null");
    }
    SAY(";");
}

static inline void on_order(enum rlock_status status, const struct order *order,
                            void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", rlock_status_name(status));
    if (order != NULL)
        say_order(order);
    SAY(";");
}

static inline void on_orders(enum rlock_status status, const struct order_page *page,
                             void *arg)
{
    assert_ptr_equal(arg, shop);
    assert_int_equal(page != NULL, status == RLOCK_OK);
    SAY("%s", rlock_status_name(status));
    for (size_t i = 0; page != NULL && i < page->count; i++)
        say_order(&page->orders[i]);
    if (page != NULL && page->next_id != 0)
        SAY(" next %lld", (long long)page->next_id);
    SAY(";");
}

static inline void on_events(enum rlock_status status, const struct event *events,
                             size_t count, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", rlock_status_name(status));
    for (size_t i = 0; i < count; i++) {
        const struct event *e = &events[i];

        SAY(" %lld %lld %lld %lld %lld %s %s %s %s", (long long)e->id,
            (long long)e->voucher_id, (long long)e->order_id,
            (long long)(e->at_us - EPOCH_US), (long long)e->stock_change,
            e->actor != NULL ? e->actor : "-",
            e->from_status != NULL ? e->from_status : "-",
            e->to_status != NULL ? e->to_status : "-",
            e->detail != NULL ? e->detail : "-");
        if (e->first != 0)
            SAY(" first %lld", (long long)e->first);
    }
    SAY(";");
}

static inline void on_change(enum rlock_status status, enum change_verdict verdict,
                             const struct order *order, void *arg)
{
    SAY("%s %s", (const char *)arg, rlock_status_name(status));
    if (status == RLOCK_OK)
        SAY(" %d", verdict);
    if (order != NULL)
        say_order(order);
    SAY(";");
}

static inline void on_key(enum rlock_status status, const struct placement *placement,
                          void *arg)
{
    SAY("%s %s", (const char *)arg, rlock_status_name(status));
    if (status == RLOCK_OK) {
        SAY(" %d", placement->verdict);
        say_order(&placement->order);
    }
    SAY(";");
}

static inline void on_batch(enum rlock_status status,
                            const struct voucher_snapshot *snapshot,
                            const struct rlock_err *why, void *arg)
{
    assert_true((why == NULL) == (status == RLOCK_OK));
    SAY("%s %s", (const char *)arg, rlock_status_name(status));
    if (snapshot != NULL)
        SAY(" snapshot %lld %lld %lld %lld %lld", (long long)snapshot->voucher_id,
            (long long)snapshot->version, (long long)snapshot->stock_left,
            (long long)(snapshot->begin_us - EPOCH_US),
            (long long)(snapshot->end_us - EPOCH_US));
    SAY(";");
}

static inline void on_released(void *arg)
{
    SAY("%s released;", (const char *)arg);
}

/* -- rows of vouchers -- */

#define V7 "7 1 'T' 'D' 100 200 30 29 2 900 3 4 1 20 'c0' '5e' 5"
#define V9 "9 2 '' null 101 201 31 28 3 901 5 6 0 0 null null null"
#define NO_VOUCHER                                                                       \
    "null null null null null null null null null null null null null null null null "   \
    "null 8;"
#define V9_FOUND "9 2 '' null 101 201 31 28 3 901 5 6 0 0 null null null"
#define EPOCH    "-946684800000000" /* 1970 */
#define FIRST    "-9223372036854775808"
#define LAST     "9223372036854775807"

#define STORE_CASE(name) DEFINE_CASE(name, name, open_shop, close_shop, NULL)

#endif
