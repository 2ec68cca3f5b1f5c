/*
 * sim_check.h - compares every answer with the tables of the simulated Postgres.
 *
 * It keeps the history of a schedule: the states of the vouchers, the locks that were
 * granted, the answers. A false answer, a broken promise or a lost lock ends the program
 * with the seed.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "app/core/model.h"
#include "app/test/sim/sim_sql.h"

/** What may happen in a schedule. Any other outcome is a failure. */
struct sim_check_options {
    uint32_t order_timeout_ms;
    bool may_be_unavailable;
    bool may_be_unknown;
    int64_t refused_user_id; /* the database may refuse rows of this shopper; 0: none */
    bool may_bypass_locks;
    bool may_lose_locks; /* before the order is committed, or without a message */
};

void sim_check_begin(const struct sim_check_options *options);

/* -- orders -- */

/** A request of a shopper for an order. */
struct sim_attempt {
    unsigned service; /* number of the worker that has the connection */
    unsigned seller;  /* number of the worker that sells for it */
    int64_t user_id;
    int64_t voucher_id;
    struct text key;
    int64_t arrived_us;
    int64_t paused_until_us; /* its service was stopped until then; 0: it was not */
    bool is_lost;            /* its service was killed */
    bool is_answered;
    enum outcome outcome;
    bool is_matched; /* explains an order that was not answered as placed */
};

/** A request is answered now: it must be in time. */
void sim_check_deadline(int64_t user_id, int64_t arrived_us, int64_t paused_until_us);

void sim_check_answer(struct sim_attempt *attempt, enum outcome outcome,
                      int64_t order_id);

/** All requests are answered: each order must belong to one of them. */
void sim_check_orders(struct sim_attempt *const *attempts, size_t count);

/* -- what the simulated servers report -- */

/** A lock was granted, was found busy, or was released. `is_early`: long before the end of its
 *  lease. */
void sim_check_granted(int64_t user_id, unsigned service, int64_t fence);
void sim_check_busy(int64_t user_id, unsigned service);
void sim_check_released(int64_t user_id, int64_t fence, bool is_early);

/** A transaction tries to place an order. */
void sim_check_tried(int64_t user_id, int64_t fence);

/** A transaction has committed an order, or has changed a voucher. */
void sim_check_inserted(struct sim_order *order, unsigned service);
void sim_check_voucher(size_t at);
/** All commits so far are durable. */
void sim_check_flushed(void);
/** All commits since the last flush are lost. */
void sim_check_crashed(void);
void sim_check_expired(size_t count);

/** A service has reported the expiry of orders. */
void sim_check_reported_expired(uint64_t count);

#endif
