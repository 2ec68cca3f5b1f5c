/* sim_sql_place.c - place_orders(), place_many(), find_orders() and resolve_orders(). */
#include "app/test/sim/sim_sql_place.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"

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

/* find_orders() for one shopper and key. */
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
    int users;    /* index of the parameter; fences, keys and tickets follow */
    size_t first; /* first element of these arrays that belongs to the batch */
    size_t elements[SIM_BATCH_MAX]; /* element of each request, counted from `first` */
    size_t voucher;
    struct sim_txn *txn;
    int64_t now_us;
    size_t count;
    int verdicts[SIM_BATCH_MAX];
    int64_t ids[SIM_BATCH_MAX]; /* 0: NULL */
};

static void set_elements(struct place *place)
{
    for (size_t i = 0; i < place->count; i++)
        place->elements[i] = i;
}

static int64_t user_at(const struct place *place, size_t at)
{
    return sim_param_element(place->params, place->users,
                             place->first + place->elements[at]);
}

static int64_t fence_at(const struct place *place, size_t at)
{
    return sim_param_element(place->params, place->users + 1,
                             place->first + place->elements[at]);
}

static struct text key_at(const struct place *place, size_t at)
{
    return sim_param_text_element(place->params, place->users + 2,
                                  place->first + place->elements[at]);
}

static bool has_ticket(const struct place *place, size_t at)
{
    struct text ticket = sim_param_text_element(place->params, place->users + 3,
                                                place->first + place->elements[at]);

    return place->params->values[place->users + 3] == NULL || ticket.bytes[0] != 0;
}

static bool conflicts(const struct place *place, size_t at, int64_t slot)
{
    for (size_t i = 0; i < view_count(place->txn); i++) {
        const struct sim_order *order = view_at(place->txn, i);

        if (sim_sql_is_of(order, place->voucher, user_at(place, at)) &&
            (order->slot == slot || sim_sql_has_key(order, key_at(place, at))))
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

        if (sim_sql_is_of(order, place->voucher, user_at(place, at)) &&
            order->slot == slot) {
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

        if (sim_sql_is_of(order, place->voucher, user_at(place, at)) &&
            order->fence > fence)
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
        insert(place, at, free_slot(place, at), sim_sql_next_id(place->txn->voucher.id));
    }
}

/* Places the requests `from` up to `to`, for which there is stock; first those without conflict. */
static void place_chunk(struct place *place, size_t from, size_t to)
{
    bool is_refused[SIM_BATCH_MAX] = {0};

    for (size_t i = from; i < to; i++) {
        int64_t id = sim_sql_next_id(place->txn->voucher.id);
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

void sim_sql_put_detail(const struct sim_order *order)
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
        sim_sql_put_detail(view_order(place->txn, place->ids[i]));
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

/* Sets the verdicts of admitted requests: the voucher exists, and each request has a ticket if the
   voucher requires one. */
static void place_admitted(struct place *place)
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

static void place_batch(struct place *place)
{
    struct place admitted = *place;

    admitted.count = 0;
    for (size_t i = 0; i < place->count; i++) {
        if (!place->txn->voucher.requires_ticket || has_ticket(place, i))
            admitted.elements[admitted.count++] = i;
    }
    place_admitted(&admitted);
    for (size_t i = 0, at = 0; i < place->count; i++) {
        bool is_admitted = at < admitted.count && admitted.elements[at] == i;

        place->verdicts[i] =
            is_admitted ? admitted.verdicts[at] : VERDICT_TICKET_REQUIRED;
        place->ids[i] = is_admitted ? admitted.ids[at] : 0;
        at += is_admitted;
    }
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

    set_elements(&place);
    sim_result_begin(11);
    for (size_t i = 0; at < 0 && i < place.count; i++)
        place.verdicts[i] = VERDICT_NO_VOUCHER;
    if (at >= 0)
        place_batch(&place);
    put_placed(&place, at >= 0, 1);
    return sim_result_end();
}

/* Whether all requests will be placed: there is stock, and their shoppers are new. */
static bool is_plain(const struct place *place)
{
    const struct sim_voucher *voucher = &sim_tables.vouchers[place->voucher];
    bool is_plain = place->now_us >= voucher->begin_us &&
                    place->now_us < voucher->end_us &&
                    voucher->stock_left >= (int64_t)place->count;

    for (size_t i = 0; i < place->count; i++) {
        is_plain &= !voucher->requires_ticket || has_ticket(place, i);
        for (size_t other = 0; other < i; other++)
            is_plain &= user_at(place, other) != user_at(place, i);
        for (size_t at = 0; at < sim_tables.order_count; at++)
            is_plain &=
                !sim_sql_is_of(&sim_tables.orders[at], place->voucher, user_at(place, i));
    }
    return is_plain;
}

static void place_all(struct place *place)
{
    for (size_t i = 0; i < place->count; i++)
        insert(place, i, 1, sim_sql_next_id(place->txn->voucher.id));
    place->txn->voucher.version++;
}

/* Begins the changes of a voucher, behind those of other vouchers. */
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

/* Reads the batch at `at`. False: its voucher is held or missing. */
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
    set_elements(ret_place);
    return voucher >= 0 && (rows >> voucher & 1);
}

/* Places first the plain batches, then the others. */
PGresult *sim_sql_place_many(const struct sim_params *params, struct sim_txn *txn)
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

/* -- finding -- */

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
