/*
 * sim_sql.h - the tables of the simulated Postgres, and a model of the SQL functions.
 *
 * The tables hold committed data. A statement that changes rows is computed while its transaction
 * holds the row lock of the voucher. Its changes are in a struct sim_txn, which the commit applies.
 * Every writer takes this lock first, so the voucher and its orders do not change between the
 * computation and the commit.
 *
 * The commit of an early release does not wait for the disk. It only adds orders and changes the
 * vouchers of these orders. It changes no earlier order.
 */
#ifndef SIM_SQL_H
#define SIM_SQL_H

#include "app/core/model.h"
#include "app/test/sim/sim_result.h"

#define SIM_VOUCHERS_MAX 4
#define SIM_ORDERS_MAX   128
#define SIM_KEY_BYTES    80
#define SIM_BATCH_MAX    32

enum sim_statement_kind {
    SQL_BACKEND,
    SQL_SETTINGS,
    SQL_LIMIT,
    SQL_LISTEN,
    SQL_PREPARE,
    SQL_PLACE,
    SQL_PLACE_MANY,
    SQL_FIND,
    SQL_RESOLVE,
    SQL_RETIRE,
    SQL_BARRIER,
    SQL_PROOF,
    SQL_PROBE,
    SQL_READ_VOUCHERS,
    SQL_LEAD_EXPIRY,
    SQL_DUE_BATCHES,
    SQL_EXPIRE_BATCHES,
    SQL_DRAW_LOTTERIES,
    SQL_PAY_ORDER,
    SQL_CANCEL_ORDER,
    /* of the simulator's own sessions: */
    SQL_HOLD,    /* lock the row for a time */
    SQL_RESTOCK, /* add `number` pieces */
    SQL_MOVE_END
};

struct sim_statement {
    enum sim_statement_kind kind;
    struct sim_params params;
    bool is_early; /* places orders, and the commit does not wait for the disk */
    size_t voucher;
    int64_t number;           /* SQL_SETTINGS: statement_timeout in ms */
    int64_t lock_ms, idle_ms; /* SQL_SETTINGS: lock_timeout, idle_session_timeout */
};

struct sim_voucher {
    int64_t id;
    bool exists;
    int64_t version, price_cents, stock_total, stock_left, per_user_limit;
    int64_t begin_us, end_us, pay_within_us;
    bool is_lottery;
    uint64_t entered;   /* bit i: shopper i has entered the lottery */
    int64_t entered_us; /* when the last shopper has entered */
    int64_t winners;
    int64_t drawn; /* the last shopper that the draw has considered */
    bool is_drawn;
};

static inline bool sim_sql_has_draw_begun(const struct sim_voucher *voucher)
{
    return voucher->drawn > 0 || voucher->is_drawn;
}

struct sim_order {
    int64_t id, user_id;
    size_t voucher;
    int64_t fence; /* 0: NULL */
    int64_t created_us, expires_us, paid_us;
    enum order_status status;
    int64_t slot; /* 0: NULL */
    int64_t due_to_id;
    size_t key_len; /* 0: NULL */
    char key[SIM_KEY_BYTES];
    int64_t committed_us; /* when the order was committed, as a value of sim_now_us() */
    /* when the order ceased to be live, as a value of sim_now_us(); 0: the order is live */
    int64_t ended_us;
    bool is_claimed;
    bool is_unlocked; /* the order was committed after its lock was released early */
};

struct sim_txn {
    struct sim_txn *next;
    unsigned rows; /* bit i: the row of voucher i is locked */
    struct sim_voucher voucher;
    size_t at;
    size_t insert_count;
    struct sim_order inserts[SIM_BATCH_MAX];
    size_t move_count;
    struct {
        size_t order;
        enum order_status to;
    } moves[SIM_BATCH_MAX];
    size_t undue_count;
    size_t undue[SIM_BATCH_MAX];
    bool notifies;
    unsigned service;
    bool is_expiry;
};

struct sim_tables {
    size_t voucher_count;
    struct sim_voucher vouchers[SIM_VOUCHERS_MAX];
    size_t order_count;
    struct sim_order orders[SIM_ORDERS_MAX];
};

extern struct sim_tables sim_tables;

void sim_sql_begin(void);

int64_t sim_sql_next_id(int64_t voucher_id);

bool sim_sql_is_live(const struct sim_order *order);

int64_t sim_sql_now_us(void);

int sim_sql_row(const struct sim_statement *statement);

/** The vouchers whose rows the statement locks if the rows are free. Bit i stands for voucher i. */
unsigned sim_sql_rows_if_free(const struct sim_statement *statement);

bool sim_sql_is_draw_due(const struct sim_voucher *voucher);

PGresult *sim_sql_read(const struct sim_statement *statement);

/** Execute a statement that changes rows, while the rows txn->rows are locked. Returns its result
 *  and sets `txn`. The caller ends `txn` with sim_sql_end(). */
PGresult *sim_sql_write(const struct sim_statement *statement, struct sim_txn *txn);

void sim_sql_commit(const struct sim_txn *txn);
void sim_sql_end(struct sim_txn *txn);

void sim_sql_flush(void);
bool sim_sql_is_flushed(void);

void sim_sql_crash(void);

bool sim_sql_is_durable(const struct sim_order *order);

struct sim_order *sim_sql_order(int64_t id);

int sim_sql_voucher(int64_t id);

#endif
