/*
 * sim_check.h - compares every answer with the tables of the simulated Postgres.
 *
 * It keeps the history of a schedule: the states of the vouchers, the locks that were granted, and
 * the answers. If an answer is false, a promise is broken, or a lock is lost although
 * may_lose_locks is not set, sim_fail() prints the seed and ends the program.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "app/core/model.h"
#include "app/test/sim/sim_sql.h"

/** What may happen in a schedule. Anything else is a failure. */
struct sim_check_options {
    uint32_t order_timeout_ms;
    bool may_be_unavailable;
    bool may_be_unknown;
    /* the database may refuse rows of this shopper; 0: of no shopper */
    int64_t refused_user_id;
    bool may_bypass_locks;
    /* a lock may end before its order is committed, and a waiter may miss the end of a lock */
    bool may_lose_locks;
};

void sim_check_begin(const struct sim_check_options *options);

/* -- orders -- */

/** A request of a shopper for an order. */
struct sim_attempt {
    unsigned service; /* number of the worker that has the connection */
    unsigned seller;  /* number of the worker that places the order */
    int64_t user_id;
    int64_t voucher_id;
    struct text key;
    int64_t arrived_us;
    int64_t paused_until_us; /* until when the service was stopped; 0: it was not */
    bool is_behind;          /* behind another request of the shopper */
    bool is_lost;            /* the service was killed, so there is no answer */
    bool is_answered;
    enum outcome outcome;
    bool is_matched; /* has placed an order without an answer; see sim_check_orders() */
};

/** To be called when a request is answered: fail if the deadline has passed. */
void sim_check_deadline(int64_t user_id, int64_t arrived_us, int64_t paused_until_us);

void sim_check_answer(struct sim_attempt *attempt, enum outcome outcome,
                      int64_t order_id);

/** To be called when all requests are answered: fail if an order belongs to none of them. */
void sim_check_orders(struct sim_attempt *const *attempts, size_t count);

/* -- what the simulated servers report -- */

/** A lock was granted, was found busy, or was released. `is_early`: it was released long before the
 *  end of its lease. */
void sim_check_granted(int64_t user_id, unsigned service, int64_t fence);
void sim_check_busy(int64_t user_id, unsigned service);
void sim_check_released(int64_t user_id, int64_t fence, bool is_early);

/** A transaction tries to place an order. */
void sim_check_tried(int64_t user_id, int64_t fence);

/** A transaction has committed an order or has changed a voucher. */
void sim_check_inserted(struct sim_order *order, unsigned service);
void sim_check_voucher(size_t at);
/** All commits so far are durable. */
void sim_check_flushed(void);
/** All commits since the last flush are lost. */
void sim_check_crashed(void);
void sim_check_expired(size_t count);

/** A service has reported that orders have expired. */
void sim_check_reported_expired(uint64_t count);

#endif
