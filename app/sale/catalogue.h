/*
 * catalogue.h - what one loop knows of the vouchers, and for how long it may believe it.
 *
 * An entry is read from Postgres when it is first asked for, and again as long as it is
 * asked for. What was read is believed for CATALOGUE_FRESH_US and then read again before
 * anyone is answered by it; a notification ends that time early. So a lost notification,
 * a lost connection or a bug elsewhere makes an answer old by that time at most. What
 * batches of orders report counts as read.
 *
 * Threads: that of the loop.
 */
#ifndef CATALOGUE_H
#define CATALOGUE_H

#include "app/core/model.h"
#include "app/store/store.h"
#include "base/attributes.h"
#include "base/list.h"

#include <uv.h>

#define CATALOGUE_FRESH_US INT64_C(800000)

/** A voucher as last read; the address is good until control returns to the loop. */
struct catalogue_entry {
    int64_t id;
    int64_t version;
    int64_t begin_us;
    int64_t end_us;
    int64_t stock_left;
    int64_t pow_bits;
    bool requires_ticket;
    bool exists; /* false: there is no such voucher; the rest says nothing */
    /* the catalogue's: */
    bool is_asked;
    bool is_wanted;
    int64_t read_us;    /* clock_mono_us() before it was read */
    int64_t changed_us; /* clock_mono_us() of the last notification */
    struct list waiting;
    struct list wanted_link;
};

/** @entry  NULL unless `status` is STATUS_OK; what a failed read's status was otherwise
 */
typedef void (*catalogue_cb)(enum status status, const struct catalogue_entry *entry,
                             void *arg);

/** One who waits for an entry; in memory of the caller until answered. */
struct catalogue_wait {
    struct list link;
    catalogue_cb callback;
    void *arg;
};

struct catalogue;

/** @store  borrowed, outlives the catalogue. NULL: out of memory */
struct catalogue *catalogue_create(uv_loop_t *loop, struct store *store);

/** Nobody may be waiting: the store, closed first, has answered them. The memory is freed
 *  by the loop. Accepts NULL. */
void catalogue_close(struct catalogue *catalogue);

/** The entry, if it may be believed; else NULL: then catalogue_read(). */
const struct catalogue_entry *catalogue_get(struct catalogue *catalogue, int64_t id);

/** Read the entry, together with all others that this turn wants; the answer never comes
 *  from inside the call. STATUS_NO_MEMORY: too many are asked for. */
void catalogue_read(struct catalogue *catalogue, int64_t id, struct catalogue_wait *wait,
                    catalogue_cb callback, void *arg);

/** To be called once a turn: sends what the turn wants to read. */
void catalogue_turn(struct catalogue *catalogue);

/** A batch of orders tells of its voucher. */
void catalogue_report(struct catalogue *catalogue,
                      const struct voucher_snapshot *snapshot);

/** The voucher, or with 0 any voucher, has changed: believe it no more. */
void catalogue_changed(struct catalogue *catalogue, int64_t id);

/**
 * The database's clock, by its last answers.
 *
 * @ret_error_us  how far off it may be, to either side
 */
int64_t catalogue_now_us(const struct catalogue *catalogue, int64_t *ret_error_us);

/** clock_mono_us() of the last answer from the database; 0: none yet. */
int64_t catalogue_heard_us(const struct catalogue *catalogue);

#endif
