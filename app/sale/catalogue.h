/*
 * catalogue.h - the vouchers in the memory of one loop.
 *
 * A voucher is read from Postgres when it is first requested, and at intervals while it is
 * in use. Its entry is valid for CATALOGUE_FRESH_US, or until a notification says that the
 * voucher has changed. An invalid entry is read again before it is used. So a lost
 * notification, a lost connection or a defect elsewhere makes an entry outdated for at most
 * CATALOGUE_FRESH_US. A snapshot that a batch of orders returns counts as a read.
 *
 * Threads: the owning loop's only.
 */
#ifndef CATALOGUE_H
#define CATALOGUE_H

#include "app/core/metrics.h"
#include "app/store/store.h"
#include "base/list.h"

#include <uv.h>

#define CATALOGUE_FRESH_US INT64_C(800000)

/** A voucher from the last read. The entry is valid until control returns to the loop. */
struct catalogue_entry {
    int64_t id;
    int64_t version;
    int64_t begin_us;
    int64_t end_us;
    int64_t stock_left;
    int64_t pow_bits;
    bool requires_ticket;
    bool is_lottery;
    bool is_drawn; /* whether the draw of the lottery has ended */
    /* false: there is no voucher with this id, and the other fields are invalid */
    bool exists;
    /* private: */
    /* whether the entry was requested since its last refresh was scheduled */
    bool is_used;
    /* whether the read under way, or the next read, includes this voucher */
    bool is_pending;
    int64_t read_us;    /* clock_mono_us() before the last read was sent; 0: never */
    int64_t changed_us; /* clock_mono_us() of the last notification; 0: none */
    struct rlock_link waits;
    struct rlock_link link;
};

/** @entry  NULL unless `status` is RLOCK_OK */
typedef void (*catalogue_cb)(enum rlock_status status,
                             const struct catalogue_entry *entry, void *arg);

struct catalogue_wait {
    struct rlock_link link;
    catalogue_cb callback;
    void *arg;
};

struct catalogue;

/** Create a catalogue. Returns NULL if memory is out.
 *
 * @store    outlives the catalogue
 * @metrics  outlives the catalogue, which sets the field catalogue_read_us */
struct catalogue *catalogue_create(uv_loop_t *loop, struct store *store,
                                   struct metrics *metrics);

/** Close the catalogue. Call store_close() before, which answers all waits. The loop frees the
 *  memory in a later turn. Accepts NULL. */
void catalogue_close(struct catalogue *catalogue);

/** Return the entry if it is valid. If the result is NULL, call catalogue_read(), or try again
 *  later. */
const struct catalogue_entry *catalogue_get(struct catalogue *catalogue, int64_t id);

/** Read the entry, in one query with all entries that are requested in this turn. The callback is
 *  called exactly once, and never by catalogue_read() itself. The status is RLOCK_NO_MEMORY if the
 *  catalogue is full. */
void catalogue_read(struct catalogue *catalogue, int64_t id, struct catalogue_wait *wait,
                    catalogue_cb callback, void *arg);

/** Send the reads that this turn has requested. Called once per turn of the loop. */
void catalogue_turn(struct catalogue *catalogue);

/**
 * Update the entry of a voucher with a snapshot, unless the entry was read later.
 *
 * @taken_us  clock_mono_us() when a batch returned the snapshot, or the result of catalogue_share()
 */
void catalogue_update(struct catalogue *catalogue,
                      const struct voucher_snapshot *snapshot, int64_t taken_us);

/** Take a snapshot for the catalogue of another loop. Returns the time of the snapshot, or 0 if the
 *  entry is not valid or no voucher has this id. An invalid entry is read in the next turn. */
int64_t catalogue_share(struct catalogue *catalogue, int64_t id,
                        struct voucher_snapshot *ret_snapshot);

/** Make the entry of a changed voucher invalid. If `id` is 0, make all entries invalid. */
void catalogue_invalidate(struct catalogue *catalogue, int64_t id);

/**
 * The time of the database's clock, estimated from its last answers.
 *
 * @ret_error_us  maximum error in either direction
 */
int64_t catalogue_now_us(const struct catalogue *catalogue, int64_t *ret_error_us);

#define CLOCK_DIFFERS_US INT64_C(1000000)

/**
 * Whether the database's clock and that of this machine differ by more than CLOCK_DIFFERS_US
 * plus the error of the estimate. The estimate is renewed at least once a minute.
 *
 * @did_differ         the previous result. If it was true, the limit is half of CLOCK_DIFFERS_US
 * @ret_difference_us  the database's clock minus this machine's; untouched if there is no
 *                     estimate yet
 */
bool catalogue_clock_differs(const struct catalogue *catalogue, bool did_differ,
                             int64_t *ret_difference_us);

size_t catalogue_count(const struct catalogue *catalogue);

#endif
