/* sim_sql.c - place_orders(), find_orders(), resolve_orders() and the life of an order. */
#include "app/test/sim/sim_sql.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"

#include <inttypes.h>
#include <string.h>

#define EPOCH_US    (INT64_C(1700000000) * S)
#define VOUCHER_MOD INT64_C(1048576)
#define CLOCK_ERROR (2 * S) /* between the machines */

struct sim_tables sim_tables;

static struct {
    bool is_behind;     /* there are later commits */
    size_t order_count; /* the first ones */
    struct sim_voucher vouchers[SIM_VOUCHERS_MAX];
} durable;

static int64_t clock_ahead_us;
static int64_t last_number; /* of voucher_order_id_seq */

void sim_sql_begin(void)
{
    sim_tables.voucher_count = sim_tables.order_count = 0;
    clock_ahead_us = sim_between(-CLOCK_ERROR, CLOCK_ERROR);
    last_number = sim_between(0, 1000000);
}

int64_t sim_sql_number(void)
{
    return last_number;
}

int64_t sim_sql_now_us(void)
{
    return EPOCH_US + sim_now_us() + clock_ahead_us;
}

int sim_sql_voucher(int64_t id)
{
    for (size_t i = 0; i < sim_tables.voucher_count; i++) {
        if (sim_tables.vouchers[i].id == id && sim_tables.vouchers[i].exists)
            return (int)i;
    }
    return -1;
}

struct sim_order *sim_sql_order(int64_t id)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        if (sim_tables.orders[i].id == id)
            return &sim_tables.orders[i];
    }
    return NULL;
}

static bool is_live(const struct sim_order *order)
{
    return order->status < ORDER_CANCELLED;
}

static int64_t next_id(int64_t voucher_id)
{
    return ++last_number * VOUCHER_MOD + voucher_id % VOUCHER_MOD;
}

/* -- a view: what is committed, and what this transaction has inserted -- */

static size_t view_count(const struct sim_txn *txn)
{
    return sim_tables.order_count + (txn == NULL ? 0 : txn->insert_count);
}

static const struct sim_order *view_at(const struct sim_txn *txn, size_t at)
{
    return at < sim_tables.order_count ? &sim_tables.orders[at]
                                       : &txn->inserts[at - sim_tables.order_count];
}

static bool is_of(const struct sim_order *order, size_t voucher, int64_t user_id)
{
    return order->voucher == voucher && order->user_id == user_id;
}

static bool has_key(const struct sim_order *order, struct text key)
{
    return key.bytes != NULL && order->key_len == key.len &&
           memcmp(order->key, key.bytes, key.len) == 0;
}

struct found {
    int verdict;
    const struct sim_order *order;
};

/* find_orders() for one shopper and key. */
static struct found find(const struct sim_txn *txn, size_t voucher, int64_t user_id,
                         struct text key)
{
    const struct sim_order *newest = NULL;
    int64_t live = 0;

    for (size_t i = 0; i < view_count(txn); i++) {
        const struct sim_order *order = view_at(txn, i);

        if (!is_of(order, voucher, user_id))
            continue;
        if (has_key(order, key))
            return (struct found){VERDICT_REPEATED, order};
        if (!is_live(order))
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
    int users;    /* the parameter; then the fences, and the keys */
    size_t first; /* of their elements */
    size_t voucher;
    struct sim_txn *txn;
    int64_t now_us;
    size_t count;
    int verdicts[SIM_BATCH_MAX];
    int64_t ids[SIM_BATCH_MAX]; /* 0: NULL */
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

static bool conflicts(const struct place *place, size_t at, int64_t slot)
{
    for (size_t i = 0; i < view_count(place->txn); i++) {
        const struct sim_order *order = view_at(place->txn, i);

        if (is_of(order, place->voucher, user_at(place, at)) &&
            (order->slot == slot || has_key(order, key_at(place, at))))
            return true;
    }
    return false;
}

static void insert(struct place *place, size_t at, int64_t slot, int64_t id)
{
    struct sim_txn *txn = place->txn;
    struct sim_order *order = &txn->inserts[txn->insert_count++];
    struct text key = key_at(place, at);

    *order = (struct sim_order){.id = id,
                                .user_id = user_at(place, at),
                                .voucher = place->voucher,
                                .fence = fence_at(place, at),
                                .created_us = place->now_us,
                                .expires_us = place->now_us + txn->voucher.pay_within_us,
                                .status = ORDER_UNPAID,
                                .slot = slot,
                                .due_to_id = id,
                                .key_len = key.len};
    if (key.len > 0)
        memcpy(order->key, key.bytes, key.len);
    txn->voucher.stock_left--;
    place->verdicts[at] = VERDICT_PLACED;
    place->ids[at] = id;
}

static void set_found(struct place *place, size_t at, struct found found, int otherwise)
{
    place->verdicts[at] = found.verdict == VERDICT_NONE ? otherwise : found.verdict;
    place->ids[at] = found.order == NULL ? 0 : found.order->id;
}

static int64_t free_slot(const struct place *place, size_t at)
{
    int64_t slot = 1;

    for (size_t i = 0; i < view_count(place->txn); i++) {
        const struct sim_order *order = view_at(place->txn, i);

        if (is_of(order, place->voucher, user_at(place, at)) && order->slot == slot) {
            slot++;
            i = (size_t)-1; /* from the start */
        }
    }
    return slot;
}

static int64_t newest_fence(const struct place *place, size_t at)
{
    int64_t fence = 0;

    for (size_t i = 0; i < view_count(place->txn); i++) {
        const struct sim_order *order = view_at(place->txn, i);

        if (is_of(order, place->voucher, user_at(place, at)) && order->fence > fence)
            fence = order->fence;
    }
    return fence;
}

/* place_in_free_slot() */
static void place_in_free_slot(struct place *place, size_t at)
{
    struct found found =
        find(place->txn, place->voucher, user_at(place, at), key_at(place, at));
    int64_t newest = newest_fence(place, at);

    if (found.verdict != VERDICT_NONE) {
        set_found(place, at, found, VERDICT_NONE);
    } else if (fence_at(place, at) != 0 && newest != 0 && fence_at(place, at) <= newest) {
        place->verdicts[at] = VERDICT_STALE_FENCE;
        place->ids[at] = 0;
    } else {
        insert(place, at, free_slot(place, at), next_id(place->txn->voucher.id));
    }
}

/* Requests `from` up to `to`, for which there is stock. First those without a conflict. */
static void place_chunk(struct place *place, size_t from, size_t to)
{
    bool is_refused[SIM_BATCH_MAX] = {0};

    for (size_t i = from; i < to; i++) {
        int64_t id = next_id(place->txn->voucher.id);
        bool is_new = fence_at(place, i) == 0 ||
                      fence_at(place, i) > place->txn->voucher.ended_fence;

        if (is_new && !conflicts(place, i, 1))
            insert(place, i, 1, id);
        else
            is_refused[i] = true;
    }
    for (size_t i = from; i < to; i++) {
        struct found found =
            find(place->txn, place->voucher, user_at(place, i), key_at(place, i));

        if (is_refused[i] && found.verdict == VERDICT_NONE)
            place_in_free_slot(place, i);
        else if (is_refused[i])
            set_found(place, i, found, VERDICT_NONE);
    }
}

static void put_detail(const struct sim_order *order)
{
    sim_result_array_int(sim_tables.vouchers[order->voucher].price_cents);
    sim_result_array_int(order->created_us);
    sim_result_array_int(order->expires_us);
    sim_result_array_int(order->paid_us);
    sim_result_array_int(order->status);
}

static const struct sim_order *view_order(const struct sim_txn *txn, int64_t id)
{
    for (size_t i = 0; i < view_count(txn); i++) {
        if (view_at(txn, i)->id == id)
            return view_at(txn, i);
    }
    sim_fail("no order %" PRId64, id);
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
        sim_result_array_int((int64_t)i + 1);
        put_detail(view_order(place->txn, place->ids[i]));
    }
    if (is_any)
        sim_result_array_end();
    else
        sim_result_null();
}

/* A row of the result. */
static void put_placed(const struct place *place, bool exists, int64_t batch)
{
    const struct sim_voucher *voucher = &place->txn->voucher;

    sim_result_array_begin(2);
    for (size_t i = 0; i < place->count; i++)
        sim_result_array_int(place->verdicts[i]);
    sim_result_array_end();
    sim_result_array_begin(8);
    for (size_t i = 0; i < place->count; i++) {
        if (place->ids[i] == 0)
            sim_result_array_null();
        else
            sim_result_array_int(place->ids[i]);
    }
    sim_result_array_end();
    if (exists)
        put_details(place);
    for (int i = 0; !exists && i < 2; i++) /* details, price */
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

/* Sets the verdicts of a voucher that exists. */
static void place_batch(struct place *place)
{
    struct sim_txn *txn = place->txn;
    const struct sim_voucher *voucher = &txn->voucher;
    int closed = VERDICT_SOLD_OUT;
    size_t from = 0;

    if (place->now_us < voucher->begin_us)
        closed = VERDICT_NOT_STARTED;
    else if (place->now_us >= voucher->end_us)
        closed = VERDICT_SALE_ENDED;
    while (closed == VERDICT_SOLD_OUT && from < place->count && voucher->stock_left > 0) {
        size_t to = from + (size_t)voucher->stock_left;

        if (to > place->count)
            to = place->count;
        place_chunk(place, from, to);
        from = to;
    }
    for (size_t i = from; i < place->count; i++)
        set_found(place, i,
                  find(txn, place->voucher, user_at(place, i), key_at(place, i)), closed);
    if (txn->insert_count > 0)
        txn->voucher.version++;
}

static PGresult *place_orders(const struct sim_params *params, struct sim_txn *txn)
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

/* All of them are placed: there is stock, and their shoppers are new. */
static bool is_plain(const struct place *place)
{
    const struct sim_voucher *voucher = &sim_tables.vouchers[place->voucher];
    bool is_plain = place->now_us >= voucher->begin_us &&
                    place->now_us < voucher->end_us &&
                    voucher->stock_left >= (int64_t)place->count;

    for (size_t i = 0; i < place->count; i++) {
        for (size_t other = 0; other < i; other++)
            is_plain &= user_at(place, other) != user_at(place, i);
        for (size_t at = 0; at < sim_tables.order_count; at++)
            is_plain &= !is_of(&sim_tables.orders[at], place->voucher, user_at(place, i));
    }
    return is_plain;
}

static void place_all(struct place *place)
{
    for (size_t i = 0; i < place->count; i++)
        insert(place, i, 1, next_id(place->txn->voucher.id));
    place->txn->voucher.version++;
}

/* Its changes, behind those of other vouchers. */
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

/* The batch at `at`; false: its voucher is held or missing. */
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

/* First the plain batches, then the others. */
static PGresult *place_many(const struct sim_params *params, struct sim_txn *txn)
{
    struct place places[SIM_BATCH_MAX] = {0};
    size_t count = sim_param_count(params, 0);

    for (size_t i = 0; i < count; i++) {
        if (begin_batch(params, i, txn->rows, &places[i]) && is_plain(&places[i])) {
            txn = begin_voucher(txn, &places[i]);
            place_all(&places[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (places[i].txn == NULL && begin_batch(params, i, txn->rows, &places[i])) {
            txn = begin_voucher(txn, &places[i]);
            place_batch(&places[i]);
        }
    }
    sim_result_begin(11);
    for (size_t i = 0; i < count; i++) {
        if (places[i].txn != NULL)
            put_placed(&places[i], true, (int64_t)i + 1);
    }
    return sim_result_end();
}

/* -- reading -- */

/* A row of find_orders() or resolve_orders(). */
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
        put_detail(found.order);
        sim_result_array_end();
    } else {
        sim_result_null();
    }
}

static PGresult *find_orders(const struct sim_params *params)
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

        if (is_of(order, voucher, user_id) &&
            (fence > 0 ? order->fence == fence : has_key(order, key)))
            return (struct found){VERDICT_PLACED, order};
    }
    return (struct found){VERDICT_NONE, NULL};
}

static PGresult *resolve_orders(const struct sim_params *params)
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

static void put_voucher(const struct sim_voucher *voucher)
{
    sim_result_int(voucher->id, 8);
    sim_result_int(voucher->version, 8);
    sim_result_null(); /* title */
    sim_result_null(); /* description */
    sim_result_int(voucher->price_cents, 8);
    sim_result_int(voucher->price_cents, 8); /* face value */
    sim_result_int(voucher->stock_total, 4);
    sim_result_int(voucher->stock_left, 4);
    sim_result_int(voucher->per_user_limit, 2);
    sim_result_int(voucher->pay_within_us / S, 4);
    sim_result_time(voucher->begin_us);
    sim_result_time(voucher->end_us);
    sim_result_int(0, 8); /* requires_ticket */
    sim_result_int(0, 2); /* pow_bits */
    sim_result_time(sim_sql_now_us());
}

static PGresult *read_vouchers(const struct sim_params *params)
{
    bool is_any = false;

    sim_result_begin(15);
    for (size_t i = 0; i < sim_param_count(params, 0); i++) {
        int at = sim_sql_voucher(sim_param_element(params, 0, i));

        if (at >= 0)
            put_voucher(&sim_tables.vouchers[at]);
        is_any |= at >= 0;
    }
    for (int i = 0; !is_any && i < 14; i++)
        sim_result_null();
    if (!is_any)
        sim_result_time(sim_sql_now_us());
    return sim_result_end();
}

static bool is_due(const struct sim_order *order, size_t voucher)
{
    return order->voucher == voucher && order->due_to_id != 0 &&
           order->expires_us <= sim_sql_now_us();
}

static void put_due(size_t voucher)
{
    bool is_any = false;

    for (size_t i = 0; i < sim_tables.order_count; i++) {
        if (!is_due(&sim_tables.orders[i], voucher))
            continue;
        if (!is_any) {
            sim_result_int(sim_tables.vouchers[voucher].id, 8);
            sim_result_array_begin(8);
        }
        is_any = true;
        sim_result_array_int(sim_tables.orders[i].id);
    }
    if (is_any)
        sim_result_array_end();
}

static bool is_left_out(const struct sim_params *params, int64_t voucher_id)
{
    for (size_t i = 0; i < sim_param_count(params, 1); i++) {
        if (sim_param_element(params, 1, i) == voucher_id)
            return true;
    }
    return false;
}

static PGresult *due_batches(const struct sim_params *params)
{
    sim_result_begin(2);
    for (size_t at = 0; at < sim_tables.voucher_count; at++) {
        if (!is_left_out(params, sim_tables.vouchers[at].id))
            put_due(at);
    }
    return sim_result_end();
}

PGresult *sim_sql_read(const struct sim_statement *statement)
{
    switch (statement->kind) {
    case SQL_FIND:
        return find_orders(&statement->params);
    case SQL_RESOLVE:
        return resolve_orders(&statement->params);
    case SQL_READ_VOUCHERS:
        return read_vouchers(&statement->params);
    case SQL_DUE_BATCHES:
        return due_batches(&statement->params);
    default:
        sim_fail("statement %d does not read", statement->kind);
    }
}

/* -- life of an order -- */

/* move_orders() for one order. */
static void move_order(struct sim_txn *txn, size_t order, enum order_status to)
{
    const struct sim_order *moved = &sim_tables.orders[order];

    next_id(txn->voucher.id); /* of the event */
    txn->moves[txn->move_count].order = order;
    txn->moves[txn->move_count++].to = to;
    if (to < ORDER_CANCELLED)
        return;
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *mine = &sim_tables.orders[i];

        if (is_of(mine, moved->voucher, moved->user_id) &&
            mine->fence > txn->voucher.ended_fence)
            txn->voucher.ended_fence = mine->fence;
    }
    txn->notifies |= txn->voucher.stock_left == 0;
    txn->voucher.stock_left++;
}

static bool is_moved(const struct sim_txn *txn, size_t order)
{
    for (size_t i = 0; i < txn->move_count; i++) {
        if (txn->moves[i].order == order)
            return true;
    }
    return false;
}

/* The batches of the simulated tables have one order each. place_orders() puts up to 16 new
   shoppers into one batch, which the model does not. */
static PGresult *expire_batches(const struct sim_params *params, struct sim_txn *txn)
{
    int64_t ended = 0;
    bool goes_on = true;

    for (size_t i = 0; i < sim_param_count(params, 1); i++) {
        struct sim_order *order = sim_sql_order(sim_param_element(params, 1, i));

        if (order != NULL && order->status == ORDER_UNPAID &&
            order->expires_us <= sim_sql_now_us() && txn->move_count < SIM_BATCH_MAX)
            move_order(txn, (size_t)(order - sim_tables.orders), ORDER_EXPIRED);
    }
    for (size_t i = 0; goes_on && i < sim_param_count(params, 1); i++) {
        struct sim_order *order = sim_sql_order(sim_param_element(params, 1, i));
        size_t at = order == NULL ? 0 : (size_t)(order - sim_tables.orders);

        goes_on = order != NULL && order->due_to_id != 0 &&
                  (order->status != ORDER_UNPAID || is_moved(txn, at)) &&
                  txn->undue_count < SIM_BATCH_MAX;
        if (goes_on)
            txn->undue[txn->undue_count++] = at;
        ended += goes_on;
    }
    if (txn->move_count > 0)
        txn->voucher.version++;
    txn->is_expiry = true;
    sim_result_begin(2);
    sim_result_int((int64_t)txn->move_count, 8);
    sim_result_int(ended, 8);
    return sim_result_end();
}

/* pay_order(), cancel_order(), refund_order() */
static enum change_verdict change(struct sim_txn *txn, enum sim_statement_kind kind,
                                  size_t order)
{
    const struct sim_order *before = &sim_tables.orders[order];
    enum order_status from = kind == SQL_REFUND_ORDER ? ORDER_PAID : ORDER_UNPAID;
    static const enum order_status to[] = {[SQL_PAY_ORDER] = ORDER_PAID,
                                           [SQL_CANCEL_ORDER] = ORDER_CANCELLED,
                                           [SQL_REFUND_ORDER] = ORDER_REFUNDED};

    if (kind == SQL_PAY_ORDER && before->paid_us != 0 && before->status < ORDER_CANCELLED)
        return CHANGE_REPEATED; /* each order has one payment_ref here */
    if (before->status != from || is_moved(txn, order))
        return CHANGE_WRONG_STATE;
    if (kind == SQL_PAY_ORDER && before->expires_us <= sim_sql_now_us()) {
        move_order(txn, order, ORDER_EXPIRED);
        txn->voucher.version++;
        return CHANGE_WRONG_STATE;
    }
    move_order(txn, order, to[kind]);
    txn->voucher.version += to[kind] >= ORDER_CANCELLED;
    return CHANGE_DONE;
}

static PGresult *change_orders(const struct sim_statement *statement, struct sim_txn *txn)
{
    const struct sim_params *params = &statement->params;

    sim_result_begin(6);
    for (size_t i = 0; i < sim_param_count(params, 1); i++) {
        struct sim_order *order = sim_sql_order(sim_param_element(params, 1, i));
        enum change_verdict verdict = CHANGE_NO_ORDER;

        if (order != NULL)
            verdict = change(txn, statement->kind, (size_t)(order - sim_tables.orders));
        sim_result_int((int64_t)i + 1, 8);
        sim_result_int(verdict, 2);
        for (int column = 0; order == NULL && column < 4; column++)
            sim_result_null();
        if (order == NULL)
            continue;
        sim_result_int(order->id, 8);
        sim_result_int(sim_param_int(params, 0), 8);
        sim_result_int(order->user_id, 8);
        sim_result_array_begin(8);
        put_detail(order);
        sim_result_array_end();
    }
    return sim_result_end();
}

/* -- the simulator's own changes -- */

static PGresult *restock(const struct sim_statement *statement, struct sim_txn *txn)
{
    struct sim_voucher *voucher = &txn->voucher;

    if (voucher->stock_left + statement->number >= 0) {
        voucher->stock_left += statement->number;
        voucher->stock_total += statement->number;
    }
    voucher->exists = true;
    voucher->version++;
    txn->notifies = true;
    return sim_result_of(PGRES_COMMAND_OK);
}

static PGresult *move_end(const struct sim_statement *statement, struct sim_txn *txn)
{
    int64_t end_us = sim_sql_now_us() + statement->number;

    if (end_us > txn->voucher.begin_us)
        txn->voucher.end_us = end_us;
    txn->voucher.version++;
    txn->notifies = true;
    return sim_result_of(PGRES_COMMAND_OK);
}

int sim_sql_row(const struct sim_statement *statement)
{
    switch (statement->kind) {
    case SQL_PLACE:
    case SQL_EXPIRE_BATCHES:
    case SQL_PAY_ORDER:
    case SQL_CANCEL_ORDER:
    case SQL_REFUND_ORDER:
        return sim_sql_voucher(sim_param_int(&statement->params, 0));
    case SQL_HOLD:
    case SQL_RESTOCK:
    case SQL_MOVE_END:
        return (int)statement->voucher;
    default:
        return -1;
    }
}

unsigned sim_sql_rows_if_free(const struct sim_statement *statement)
{
    unsigned rows = 0;

    for (size_t i = 0;
         statement->kind == SQL_PLACE_MANY && i < sim_param_count(&statement->params, 0);
         i++) {
        int at = sim_sql_voucher(sim_param_element(&statement->params, 0, i));

        if (at >= 0)
            rows |= 1U << at;
    }
    return rows;
}

PGresult *sim_sql_write(const struct sim_statement *statement, struct sim_txn *txn)
{
    int at = sim_sql_row(statement);

    txn->at = (size_t)at;
    if (at >= 0)
        txn->voucher = sim_tables.vouchers[at];
    switch (statement->kind) {
    case SQL_PLACE:
        return place_orders(&statement->params, txn);
    case SQL_PLACE_MANY:
        return place_many(&statement->params, txn);
    case SQL_EXPIRE_BATCHES:
        return expire_batches(&statement->params, txn);
    case SQL_PAY_ORDER:
    case SQL_CANCEL_ORDER:
    case SQL_REFUND_ORDER:
        return change_orders(statement, txn);
    case SQL_RESTOCK:
        return restock(statement, txn);
    case SQL_MOVE_END:
        return move_end(statement, txn);
    default:
        return sim_result_of(PGRES_COMMAND_OK);
    }
}

/* -- commit -- */

static void check_unique(const struct sim_order *order)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *other = &sim_tables.orders[i];
        struct text key = {order->key_len > 0 ? order->key : NULL, order->key_len};

        if (!is_of(other, order->voucher, order->user_id))
            continue;
        if (other->slot != 0 && other->slot == order->slot)
            sim_fail("duplicate: slot %" PRId64 " of shopper %" PRId64, order->slot,
                     order->user_id);
        if (has_key(other, key))
            sim_fail("duplicate: two orders of shopper %" PRId64 " have one key",
                     order->user_id);
    }
}

static void check_stock(const struct sim_voucher *voucher)
{
    int64_t live = 0;

    for (size_t i = 0; i < sim_tables.order_count; i++)
        live += sim_tables.orders[i].voucher == (size_t)(voucher - sim_tables.vouchers) &&
                is_live(&sim_tables.orders[i]);
    if (voucher->stock_left < 0 || voucher->stock_total != voucher->stock_left + live)
        sim_fail("oversold: total %" PRId64 ", left %" PRId64 ", live %" PRId64,
                 voucher->stock_total, voucher->stock_left, live);
}

static void apply_move(size_t at, enum order_status to)
{
    struct sim_order *order = &sim_tables.orders[at];

    order->status = to;
    if (to >= ORDER_CANCELLED) {
        order->slot = 0;
        order->ended_us = sim_now_us();
    }
    if (to == ORDER_PAID)
        order->paid_us = sim_sql_now_us();
}

static void commit_voucher(const struct sim_txn *txn)
{
    for (size_t i = 0; i < txn->move_count; i++)
        apply_move(txn->moves[i].order, txn->moves[i].to);
    for (size_t i = 0; i < txn->undue_count; i++)
        sim_tables.orders[txn->undue[i]].due_to_id = 0;
    for (size_t i = 0; i < txn->insert_count; i++) {
        struct sim_order *order = &sim_tables.orders[sim_tables.order_count];

        check_unique(&txn->inserts[i]);
        if (sim_tables.order_count++ == SIM_ORDERS_MAX)
            sim_fail("too many orders");
        *order = txn->inserts[i];
        order->committed_us = sim_now_us();
        sim_check_inserted(order, txn->service);
    }
    if (txn->voucher.id == 0)
        return; /* it changed nothing */
    sim_tables.vouchers[txn->at] = txn->voucher;
    check_stock(&sim_tables.vouchers[txn->at]);
    sim_check_voucher(txn->at);
    if (txn->is_expiry)
        sim_check_expired(txn->service, txn->move_count);
}

void sim_sql_commit(const struct sim_txn *txn)
{
    durable.is_behind = true;
    for (; txn != NULL; txn = txn->next)
        commit_voucher(txn);
}

void sim_sql_end(struct sim_txn *txn)
{
    while (txn != NULL) {
        struct sim_txn *next = txn->next;

        sim_free(txn);
        txn = next;
    }
}

/* -- durability -- */

void sim_sql_flush(void)
{
    durable.order_count = sim_tables.order_count;
    memcpy(durable.vouchers, sim_tables.vouchers, sizeof(durable.vouchers));
    durable.is_behind = false;
    sim_check_flushed();
}

bool sim_sql_is_flushed(void)
{
    return !durable.is_behind;
}

void sim_sql_crash(void)
{
    SIM_TRACE("postgres: %zu orders are lost",
              sim_tables.order_count - durable.order_count);
    sim_tables.order_count = durable.order_count;
    memcpy(sim_tables.vouchers, durable.vouchers, sizeof(durable.vouchers));
    durable.is_behind = false;
    sim_check_crashed();
}

bool sim_sql_is_durable(const struct sim_order *order)
{
    return (size_t)(order - sim_tables.orders) < durable.order_count;
}
