/*
 * sim_check.h - compares every answer with the tables of the simulated Postgres.
 *
 * sim_check.c keeps the history of a schedule: the states of the vouchers, the locks that were
 * granted, and the answers. If an answer is false or a promise is broken, sim_fail() prints the
 * seed and ends the program. A lost lock is a failure, too, unless may_lose_locks is set.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "app/core/model.h"
#include "app/test/sim/sim_sql.h"

struct sim_check_options {
    uint32_t order_timeout_ms;
    bool may_be_unavailable;
    bool may_be_unknown;
    int64_t refused_user_id;
    bool may_bypass_locks;
    /* a lock may end before its order is committed, and a waiter may miss the end of a lock */
    bool may_lose_locks;
};

void sim_check_begin(const struct sim_check_options *options);

/* -- orders -- */

struct sim_attempt {
    unsigned service;
    unsigned seller;
    int64_t user_id;
    int64_t voucher_id;
    struct text key;
    int64_t arrived_us;
    /* until when the service was stopped; 0: the service was not stopped */
    int64_t paused_until_us;
    bool is_behind;
    bool is_lost;
    bool is_answered;
    enum outcome outcome;
    /* sim_check_orders() has found an order that this unanswered request may have placed */
    bool is_matched;
};

void sim_check_deadline(int64_t user_id, int64_t arrived_us, int64_t paused_until_us);

void sim_check_answer(struct sim_attempt *attempt, enum outcome outcome,
                      int64_t order_id);

/** Fail if an order belongs to no request. Called when all requests are answered. */
void sim_check_orders(struct sim_attempt *const *attempts, size_t count);

/* -- what the simulated servers report -- */

/** A lock was granted, was found busy, or was released. `is_early` says that the release came
 *  long before the end of the lease. */
void sim_check_granted(int64_t user_id, unsigned service, int64_t fence);
void sim_check_busy(int64_t user_id, unsigned service);
void sim_check_released(int64_t user_id, int64_t fence, bool is_early);

void sim_check_tried(int64_t user_id, int64_t fence);

void sim_check_inserted(struct sim_order *order, unsigned service);
void sim_check_voucher(size_t at);
void sim_check_flushed(void);
void sim_check_crashed(void);
void sim_check_expired(size_t count);

void sim_check_reported_expired(uint64_t count);

#endif
