/* sim_sql.c - the tables, the life of an order, commits. */
#include "app/test/sim/sim_sql.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_sql_place.h"

#include <inttypes.h>
#include <string.h>

#define EPOCH_US    (INT64_C(1700000000) * S)
#define VOUCHER_MOD INT64_C(1048576)
#define DRAWN_MAX   2 /* winners of a call */
#define ENTRANT_MAX 63
/* largest difference between the clock of the database and ours */
#define CLOCK_ERROR (2 * S)

struct sim_tables sim_tables;

static struct {
    bool is_behind;
    /* number of durable orders, which are the first ones of sim_tables.orders */
    size_t order_count;
    struct sim_order orders[SIM_ORDERS_MAX];
    struct sim_voucher vouchers[SIM_VOUCHERS_MAX];
} durable;

static int64_t clock_ahead_us;
static int64_t last_number;

void sim_sql_begin(void)
{
    sim_tables.voucher_count = sim_tables.order_count = 0;
    clock_ahead_us = sim_between(-CLOCK_ERROR, CLOCK_ERROR);
    last_number = sim_between(0, 1000000);
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

bool sim_sql_is_live(const struct sim_order *order)
{
    return order->status < ORDER_CANCELLED;
}

int64_t sim_sql_next_id(int64_t voucher_id)
{
    return ++last_number * VOUCHER_MOD + voucher_id % VOUCHER_MOD;
}

/* -- reading -- */

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
    if (voucher->is_lottery)
        sim_result_int(voucher->id, 8); /* commitment: any value but NULL */
    else
        sim_result_null();
    sim_result_null(); /* seed */
    sim_result_null(); /* drawn_at */
    sim_result_time(sim_sql_now_us());
}

static PGresult *read_vouchers(const struct sim_params *params)
{
    bool is_any = false;

    sim_result_begin(18);
    for (size_t i = 0; i < sim_param_count(params, 0); i++) {
        int at = sim_sql_voucher(sim_param_element(params, 0, i));

        if (at >= 0)
            put_voucher(&sim_tables.vouchers[at]);
        is_any |= at >= 0;
    }
    for (int i = 0; !is_any && i < 17; i++)
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
        return sim_sql_find_orders(&statement->params);
    case SQL_RESOLVE:
        return sim_sql_resolve_orders(&statement->params);
    case SQL_READ_VOUCHERS:
        return read_vouchers(&statement->params);
    case SQL_DUE_BATCHES:
        return due_batches(&statement->params);
    default:
        sim_fail("statement %d does not read", statement->kind);
    }
}

/* -- life of an order -- */

static void move_order(struct sim_txn *txn, size_t order, enum order_status to)
{
    txn->moves[txn->move_count].order = order;
    txn->moves[txn->move_count++].to = to;
    if (to < ORDER_CANCELLED)
        return;
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

static bool is_in_batch(const struct sim_order *order, const struct sim_order *first)
{
    return order->voucher == first->voucher && order->id >= first->id &&
           order->id <= first->due_to_id;
}

static void expire_batch(struct sim_txn *txn, const struct sim_order *first)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *order = &sim_tables.orders[i];

        if (is_in_batch(order, first) && order->status == ORDER_UNPAID &&
            order->expires_us <= sim_sql_now_us() && txn->move_count < SIM_BATCH_MAX)
            move_order(txn, i, ORDER_EXPIRED);
    }
}

static bool has_unpaid(const struct sim_txn *txn, const struct sim_order *first)
{
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        if (is_in_batch(&sim_tables.orders[i], first) &&
            sim_tables.orders[i].status == ORDER_UNPAID && !is_moved(txn, i))
            return true;
    }
    return false;
}

/* This model puts each order that place_orders() has placed into a batch of its own. The real
   function puts at least 16 new shoppers into one batch. */
static PGresult *expire_batches(const struct sim_params *params, struct sim_txn *txn)
{
    int64_t ended = 0;
    bool goes_on = true;

    for (size_t i = 0; i < sim_param_count(params, 1); i++) {
        const struct sim_order *first = sim_sql_order(sim_param_element(params, 1, i));

        if (first != NULL)
            expire_batch(txn, first);
    }
    for (size_t i = 0; goes_on && i < sim_param_count(params, 1); i++) {
        const struct sim_order *first = sim_sql_order(sim_param_element(params, 1, i));

        goes_on = first != NULL && first->due_to_id != 0 && !has_unpaid(txn, first) &&
                  txn->undue_count < SIM_BATCH_MAX;
        if (goes_on)
            txn->undue[txn->undue_count++] = (size_t)(first - sim_tables.orders);
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

bool sim_sql_is_draw_due(const struct sim_voucher *voucher)
{
    return voucher->exists && voucher->is_lottery && !voucher->is_drawn &&
           (sim_sql_has_draw_begun(voucher) || voucher->end_us <= sim_sql_now_us());
}

static void insert_winner(struct sim_txn *txn, int64_t user_id)
{
    struct sim_voucher *voucher = &txn->voucher;
    int64_t id = sim_sql_next_id(voucher->id), now_us = sim_sql_now_us();

    txn->inserts[txn->insert_count++] =
        (struct sim_order){.id = id,
                           .user_id = user_id,
                           .voucher = txn->at,
                           .created_us = now_us,
                           .expires_us = now_us + voucher->pay_within_us,
                           .status = ORDER_UNPAID,
                           .slot = 1,
                           .due_to_id = id};
    voucher->winners++;
    voucher->stock_left--;
}

/* draw_lottery(). In this model the shoppers win in the order of their ids. */
static void draw_lottery(struct sim_txn *txn, size_t at)
{
    struct sim_voucher *voucher = &txn->voucher;

    txn->at = at;
    *voucher = sim_tables.vouchers[at];
    while (txn->insert_count < DRAWN_MAX && voucher->winners < voucher->stock_total &&
           voucher->drawn < ENTRANT_MAX) {
        if (voucher->entered >> ++voucher->drawn & 1)
            insert_winner(txn, voucher->drawn);
    }
    voucher->is_drawn =
        voucher->winners >= voucher->stock_total || voucher->drawn == ENTRANT_MAX;
    voucher->version++;
    txn->notifies = voucher->is_drawn;
}

static PGresult *draw_lotteries(struct sim_txn *txn)
{
    size_t at = 0;
    int column = 0;

    while (at < sim_tables.voucher_count &&
           !((txn->rows >> at & 1) && sim_sql_is_draw_due(&sim_tables.vouchers[at])))
        at++;
    sim_result_begin(5);
    if (at < sim_tables.voucher_count) {
        draw_lottery(txn, at);
        sim_result_int(txn->voucher.id, 8);
        sim_result_int(txn->voucher.winners, 8);
        sim_result_int(txn->voucher.is_drawn, 4);
        column = 3;
    }
    for (; column < 5; column++)
        sim_result_null();
    return sim_result_end();
}

static enum change_verdict change(struct sim_txn *txn, enum sim_statement_kind kind,
                                  size_t order)
{
    const struct sim_order *before = &sim_tables.orders[order];
    bool is_payment = kind == SQL_PAY_ORDER;

    if (is_payment && before->paid_us != 0 && before->status < ORDER_CANCELLED)
        return CHANGE_REPEATED;
    if (before->status != ORDER_UNPAID || is_moved(txn, order))
        return CHANGE_WRONG_STATE;
    if (is_payment && before->expires_us <= sim_sql_now_us()) {
        move_order(txn, order, ORDER_EXPIRED);
        txn->voucher.version++;
        return CHANGE_WRONG_STATE;
    }
    move_order(txn, order, is_payment ? ORDER_PAID : ORDER_CANCELLED);
    txn->voucher.version += !is_payment;
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
        sim_sql_put_detail(order);
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
        return sim_sql_voucher(sim_param_int(&statement->params, 0));
    case SQL_HOLD:
    case SQL_RESTOCK:
    case SQL_MOVE_END:
        return (int)statement->voucher;
    default:
        return -1;
    }
}

static unsigned rows_to_draw(void)
{
    unsigned rows = 0;

    for (size_t i = 0; i < sim_tables.voucher_count; i++)
        rows |= (unsigned)sim_sql_is_draw_due(&sim_tables.vouchers[i]) << i;
    return rows;
}

unsigned sim_sql_rows_if_free(const struct sim_statement *statement)
{
    unsigned rows = statement->kind == SQL_DRAW_LOTTERIES ? rows_to_draw() : 0;

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
        return sim_sql_place_orders(&statement->params, txn);
    case SQL_PLACE_MANY:
        return sim_sql_place_many(&statement->params, txn);
    case SQL_EXPIRE_BATCHES:
        return expire_batches(&statement->params, txn);
    case SQL_DRAW_LOTTERIES:
        return draw_lotteries(txn);
    case SQL_PAY_ORDER:
    case SQL_CANCEL_ORDER:
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

        if (!sim_sql_is_of(other, order->voucher, order->user_id))
            continue;
        if (other->slot != 0 && other->slot == order->slot)
            sim_fail("duplicate: slot %" PRId64 " of shopper %" PRId64, order->slot,
                     order->user_id);
        if (sim_sql_has_key(other, key))
            sim_fail("duplicate: two orders of shopper %" PRId64 " have one key",
                     order->user_id);
    }
}

static void check_stock(const struct sim_voucher *voucher)
{
    int64_t live = 0;

    for (size_t i = 0; i < sim_tables.order_count; i++)
        live += sim_tables.orders[i].voucher == (size_t)(voucher - sim_tables.vouchers) &&
                sim_sql_is_live(&sim_tables.orders[i]);
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
        return;
    sim_tables.vouchers[txn->at] = txn->voucher;
    check_stock(&sim_tables.vouchers[txn->at]);
    sim_check_voucher(txn->at);
    if (txn->is_expiry)
        sim_check_expired(txn->move_count);
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
    memcpy(durable.orders, sim_tables.orders,
           durable.order_count * sizeof(durable.orders[0]));
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
    for (size_t i = 0; i < durable.order_count; i++) {
        bool is_claimed = sim_tables.orders[i].is_claimed;

        sim_tables.orders[i] = durable.orders[i];
        sim_tables.orders[i].is_claimed = is_claimed;
    }
    memcpy(sim_tables.vouchers, durable.vouchers, sizeof(durable.vouchers));
    durable.is_behind = false;
    sim_check_crashed();
}

bool sim_sql_is_durable(const struct sim_order *order)
{
    return (size_t)(order - sim_tables.orders) < durable.order_count;
}
