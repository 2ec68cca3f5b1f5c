/* sim_sql_place.c - models of place_orders(), place_many(), find_orders() and resolve_orders(). */
#include "app/test/sim/sim_sql_place.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* -- a view: the committed orders, and those that this transaction has inserted -- */

static size_t view_count(const struct sim_txn *txn)
{
    return sim_tables.order_count + (txn == NULL ? 0 : txn->insert_count);
}

static const struct sim_order *view_at(const struct sim_txn *txn, size_t at)
{
    return at < sim_tables.order_count ? &sim_tables.orders[at]
                                       : &txn->inserts[at - sim_tables.order_count];
}

bool sim_sql_is_of(const struct sim_order *order, size_t voucher, int64_t user_id)
{
    return order->voucher == voucher && order->user_id == user_id;
}

bool sim_sql_has_key(const struct sim_order *order, struct text key)
{
    return key.bytes != NULL && order->key_len == key.len &&
           memcmp(order->key, key.bytes, key.len) == 0;
}

struct found {
    int verdict;
    const struct sim_order *order;
};

static struct found find(const struct sim_txn *txn, size_t voucher, int64_t user_id,
                         struct text key)
{
    const struct sim_order *newest = NULL;
    int64_t live = 0;

    for (size_t i = 0; i < view_count(txn); i++) {
        const struct sim_order *order = view_at(txn, i);

        if (!sim_sql_is_of(order, voucher, user_id))
            continue;
        if (sim_sql_has_key(order, key))
            return (struct found){VERDICT_REPEATED, order};
        if (!sim_sql_is_live(order))
            continue;
        live++;
        if (newest == NULL || order->id > newest->id)
            newest = order;
    }
    if (live >= sim_tables.vouchers[voucher].per_user_limit)
        return (struct found){VERDICT_ALREADY_ORDERED, newest};
    return (struct found){VERDICT_NONE, NULL};
}

/* -- placing -- */

struct place {
    const struct sim_params *params;
    /* The index of the parameter that is the array of shoppers. The arrays of fences and keys
       follow. */
    int users;
    size_t first;
    size_t voucher;
    struct sim_txn *txn;
    int64_t now_us;
    size_t count;
    int verdicts[SIM_BATCH_MAX];
    const struct sim_order *orders[SIM_BATCH_MAX]; /* NULL: no order */
};

static int64_t user_at(const struct place *place, size_t at)
{
    return sim_param_element(place->params, place->users, place->first + at);
}

static int64_t fence_at(const struct place *place, size_t at)
{
    return sim_param_element(place->params, place->users + 1, place->first + at);
}

static struct text key_at(const struct place *place, size_t at)
{
    return sim_param_text_element(place->params, place->users + 2, place->first + at);
}

static bool is_slot_taken(const struct place *place, size_t at, int64_t slot)
{
    for (size_t i = 0; i < view_count(place->txn); i++) {
        const struct sim_order *order = view_at(place->txn, i);

        if (sim_sql_is_of(order, place->voucher, user_at(place, at)) &&
            order->slot == slot)
            return true;
    }
    return false;
}

static bool has_ordered(const struct place *place, size_t at)
{
    for (size_t i = 0; i < view_count(place->txn); i++) {
        if (sim_sql_is_of(view_at(place->txn, i), place->voucher, user_at(place, at)))
            return true;
    }
    return false;
}

static int64_t newest_fence(const struct place *place, size_t at)
{
    int64_t fence = 0;

    for (size_t i = 0; i < view_count(place->txn); i++) {
        const struct sim_order *order = view_at(place->txn, i);

        if (sim_sql_is_of(order, place->voucher, user_at(place, at)) &&
            order->fence > fence)
            fence = order->fence;
    }
    return fence;
}

static const struct sim_order *insert(struct place *place, size_t at)
{
    struct sim_txn *txn = place->txn;
    struct sim_order *order = &txn->inserts[txn->insert_count];
    int64_t id = sim_sql_next_id(txn->voucher.id);
    struct text key = key_at(place, at);

    *order = (struct sim_order){.id = id,
                                .user_id = user_at(place, at),
                                .voucher = place->voucher,
                                .fence = fence_at(place, at),
                                .created_us = place->now_us,
                                .expires_us = place->now_us + txn->voucher.pay_within_us,
                                .status = ORDER_UNPAID,
                                .slot = 1,
                                .due_to_id = id,
                                .key_len = key.len};
    while (is_slot_taken(place, at, order->slot))
        order->slot++;
    if (key.len > 0)
        memcpy(order->key, key.bytes, key.len);
    txn->insert_count++;
    txn->voucher.stock_left--;
    return order;
}

static int closed_verdict(const struct place *place)
{
    if (place->now_us < place->txn->voucher.begin_us)
        return VERDICT_NOT_STARTED;
    return place->now_us < place->txn->voucher.end_us ? VERDICT_NONE : VERDICT_SALE_ENDED;
}

/* enter_lottery() for one shopper. */
static struct found enter(const struct place *place, size_t at)
{
    struct sim_voucher *voucher = &place->txn->voucher;
    uint64_t shopper = UINT64_C(1) << user_at(place, at);
    int closed = closed_verdict(place);

    if (closed == VERDICT_NONE && sim_sql_has_draw_begun(voucher))
        closed = VERDICT_SALE_ENDED;
    if (closed == VERDICT_NONE && !(voucher->entered & shopper)) {
        voucher->entered |= shopper;
        voucher->entered_us = place->now_us;
    }
    return (struct found){voucher->entered & shopper ? VERDICT_ENTERED : closed, NULL};
}

static struct found place_one(struct place *place, size_t at)
{
    struct found found =
        find(place->txn, place->voucher, user_at(place, at), key_at(place, at));
    int64_t newest = newest_fence(place, at);
    int closed = closed_verdict(place);

    if (place->txn->voucher.is_lottery)
        return enter(place, at);
    if (found.verdict != VERDICT_NONE)
        return found;
    if (closed == VERDICT_NONE && place->txn->voucher.stock_left == 0)
        closed = VERDICT_SOLD_OUT;
    if (closed != VERDICT_NONE)
        return (struct found){closed, NULL};
    if (fence_at(place, at) != 0 && newest != 0 && fence_at(place, at) <= newest)
        return (struct found){VERDICT_STALE_FENCE, NULL};
    return (struct found){VERDICT_PLACED, insert(place, at)};
}

/* The functions in sql/ decide a whole batch by queries. This function decides one request after
   the other, and reaches the same verdicts. The verdicts would differ if a shopper had several
   requests in the batch, one with an old fence. */
static void place_batch(struct place *place)
{
    for (size_t i = 0; i < place->count; i++) {
        struct found found = place_one(place, i);

        place->verdicts[i] = found.verdict;
        place->orders[i] = found.order;
    }
    if (place->txn->insert_count > 0)
        place->txn->voucher.version++;
}

void sim_sql_put_detail(const struct sim_order *order)
{
    sim_result_array_int(sim_tables.vouchers[order->voucher].price_cents);
    sim_result_array_int(order->created_us);
    sim_result_array_int(order->expires_us);
    sim_result_array_int(order->paid_us);
    sim_result_array_int(order->status);
}

static void put_details(const struct place *place)
{
    bool is_any = false;

    for (size_t i = 0; i < place->count; i++) {
        if (place->verdicts[i] != VERDICT_REPEATED)
            continue;
        if (!is_any)
            sim_result_array_begin(8);
        is_any = true;
        assert(place->orders[i] != NULL);
        sim_result_array_int((int64_t)i + 1);
        sim_sql_put_detail(place->orders[i]);
    }
    if (is_any)
        sim_result_array_end();
    else
        sim_result_null();
}

static void put_placed(const struct place *place, bool exists, int64_t batch)
{
    const struct sim_voucher *voucher = &place->txn->voucher;

    sim_result_array_begin(2);
    for (size_t i = 0; i < place->count; i++)
        sim_result_array_int(place->verdicts[i]);
    sim_result_array_end();
    sim_result_array_begin(8);
    for (size_t i = 0; i < place->count; i++) {
        if (place->orders[i] == NULL)
            sim_result_array_null();
        else
            sim_result_array_int(place->orders[i]->id);
    }
    sim_result_array_end();
    if (exists)
        put_details(place);
    for (int i = 0; !exists && i < 2; i++) /* details and price */
        sim_result_null();
    if (exists)
        sim_result_int(voucher->price_cents, 8);
    sim_result_time(place->now_us);
    for (int i = 0; !exists && i < 5; i++)
        sim_result_null();
    if (exists) {
        sim_result_time(place->now_us + voucher->pay_within_us);
        sim_result_int(voucher->stock_left, 4);
        sim_result_int(voucher->version, 8);
        sim_result_time(voucher->begin_us);
        sim_result_time(voucher->end_us);
    }
    sim_result_int(batch, 8);
}

PGresult *sim_sql_place_orders(const struct sim_params *params, struct sim_txn *txn)
{
    int at = sim_sql_voucher(sim_param_int(params, 0));
    struct place place = {.params = params,
                          .users = 1,
                          .voucher = (size_t)at,
                          .txn = txn,
                          .now_us = sim_sql_now_us(),
                          .count = sim_param_count(params, 1)};

    sim_result_begin(11);
    for (size_t i = 0; at < 0 && i < place.count; i++)
        place.verdicts[i] = VERDICT_NO_VOUCHER;
    if (at >= 0)
        place_batch(&place);
    put_placed(&place, at >= 0, 1);
    return sim_result_end();
}

static struct sim_txn *begin_voucher(struct sim_txn *txn, struct place *place)
{
    if (txn->voucher.id != 0) {
        txn->next = sim_calloc(sizeof(*txn));
        txn->next->rows = txn->rows;
        txn->next->service = txn->service;
        txn = txn->next;
    }
    txn->at = place->voucher;
    txn->voucher = sim_tables.vouchers[place->voucher];
    place->txn = txn;
    return txn;
}

static bool begin_batch(const struct sim_params *params, size_t at, unsigned rows,
                        struct place *ret_place)
{
    int voucher = sim_sql_voucher(sim_param_element(params, 0, at));
    size_t first = (size_t)sim_param_element(params, 1, at);

    *ret_place =
        (struct place){.params = params,
                       .users = 3,
                       .first = first - 1,
                       .voucher = (size_t)voucher,
                       .now_us = sim_sql_now_us(),
                       .count = (size_t)sim_param_element(params, 2, at) - first + 1};
    return voucher >= 0 && (rows >> voucher & 1);
}

/* Whether place_many() itself places the batch. place_orders() decides the other batches. */
static bool is_plain_batch(const struct place *place)
{
    const struct sim_voucher *voucher = &place->txn->voucher;
    int64_t shoppers = 0;

    for (size_t i = 0; i < place->count; i++) {
        int64_t shopper = INT64_C(1) << user_at(place, i);

        if (shoppers & shopper || has_ordered(place, i))
            return false;
        shoppers |= shopper;
    }
    return closed_verdict(place) == VERDICT_NONE && !voucher->is_lottery &&
           voucher->stock_left >= (int64_t)place->count;
}

/* The orders that the transaction has placed get one payment deadline. */
static void join_batch(struct sim_txn *txn)
{
    for (size_t i = 0; i < txn->insert_count; i++)
        txn->inserts[i].due_to_id = 0;
    txn->inserts[0].due_to_id = txn->inserts[txn->insert_count - 1].id;
}

PGresult *sim_sql_place_many(const struct sim_params *params, struct sim_txn *txn)
{
    sim_result_begin(11);
    for (size_t i = 0; i < sim_param_count(params, 0); i++) {
        struct place place;
        bool is_plain;

        if (!begin_batch(params, i, txn->rows, &place))
            continue;
        txn = begin_voucher(txn, &place);
        is_plain = is_plain_batch(&place);
        place_batch(&place);
        if (is_plain)
            join_batch(txn);
        put_placed(&place, true, (int64_t)i + 1);
    }
    return sim_result_end();
}

/* -- finding -- */

static void put_found(size_t pos, struct found found)
{
    bool has_detail = found.order != NULL && found.verdict != VERDICT_ALREADY_ORDERED;

    sim_result_int((int64_t)pos + 1, 8);
    sim_result_int(found.verdict, 2);
    if (found.order == NULL)
        sim_result_null();
    else
        sim_result_int(found.order->id, 8);
    if (has_detail) {
        sim_result_array_begin(8);
        sim_sql_put_detail(found.order);
        sim_result_array_end();
    } else {
        sim_result_null();
    }
}

PGresult *sim_sql_find_orders(const struct sim_params *params)
{
    int at = sim_sql_voucher(sim_param_int(params, 0));

    sim_result_begin(4);
    for (size_t i = 0; i < sim_param_count(params, 1); i++) {
        struct found found = {VERDICT_NONE, NULL};

        if (at >= 0)
            found = find(NULL, (size_t)at, sim_param_element(params, 1, i),
                         sim_param_text_element(params, 2, i));
        put_found(i, found);
    }
    return sim_result_end();
}

static struct found resolve(size_t voucher, int64_t user_id, int64_t fence,
                            struct text key)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *order = &sim_tables.orders[i];

        if (sim_sql_is_of(order, voucher, user_id) &&
            (fence > 0 ? order->fence == fence : sim_sql_has_key(order, key)))
            return (struct found){VERDICT_PLACED, order};
    }
    return (struct found){VERDICT_NONE, NULL};
}

PGresult *sim_sql_resolve_orders(const struct sim_params *params)
{
    int at = sim_sql_voucher(sim_param_int(params, 0));

    sim_result_begin(4);
    for (size_t i = 0; i < sim_param_count(params, 1); i++) {
        struct found found = {VERDICT_NONE, NULL};

        if (at >= 0)
            found = resolve((size_t)at, sim_param_element(params, 1, i),
                            sim_param_element(params, 2, i),
                            sim_param_text_element(params, 3, i));
        put_found(i, found);
    }
    return sim_result_end();
}
