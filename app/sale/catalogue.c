/*
 * catalogue.c - reads vouchers on demand, in batches, and refreshes the vouchers in use.
 *
 * At most one read is under way; entries requested meanwhile go into the next read. The
 * age of an entry counts from the sending of its read, so a notification that arrives
 * during the read makes the entry invalid.
 *
 * Of the entries of vouchers that do not exist, only the MISSING_MAX that were read last are
 * kept. So requests for random ids do not fill the catalogue.
 */
#include "app/sale/catalogue.h"

#include "app/core/idmap.h"
#include "base/clock.h"

#include <stdlib.h>

#define ENTRIES_MAX           262144
#define MISSING_MAX           4096
#define READ_MAX              10000 /* maximum ids in a query */
#define TICK_MS               200
#define REFRESH_AFTER_US      (CATALOGUE_FRESH_US / 2)
#define EVICT_AFTER_US        INT64_C(30000000)
#define CLOCK_SAMPLE_VALID_US INT64_C(10000000)
#define CLOCK_SAMPLE_EVERY_US INT64_C(60000000)

struct catalogue {
    uv_timer_t timer;
    struct store *store;
    struct metrics *metrics;
    struct idmap entries;
    struct rlock_link pending;
    struct rlock_link reading;
    /* entries of ids without a voucher, by the time of the last read */
    struct rlock_link missing;
    size_t missing_count;
    struct rlock_link refused;
    int64_t read_sent_us;
    bool is_reading;
    bool is_clock_due; /* whether the next read is sent even if it has no ids */
    /* An estimate of the database's clock minus clock_mono_us(), its largest error, and when it
       was made. */
    int64_t offset_us;
    int64_t offset_error_us;
    int64_t offset_taken_us; /* 0: there is no estimate */
    int64_t ids[READ_MAX];
};

/* -- entries of vouchers that do not exist -- */

static void leave_missing(struct catalogue *catalogue, struct catalogue_entry *entry)
{
    if (list_is_empty(&entry->link))
        return;
    list_remove(&entry->link);
    catalogue->missing_count--;
}

static void evict(struct catalogue *catalogue, struct catalogue_entry *entry)
{
    leave_missing(catalogue, entry);
    idmap_remove(&catalogue->entries, entry->id);
    free(entry);
}

/* -- reading -- */

static void request_read(struct catalogue *catalogue, struct catalogue_entry *entry)
{
    if (entry->is_pending)
        return;
    entry->is_pending = true;
    leave_missing(catalogue, entry);
    list_append(&catalogue->pending, &entry->link);
}

static struct catalogue_entry *entry_create(struct catalogue *catalogue, int64_t id)
{
    struct catalogue_entry *entry;

    if (catalogue->entries.count >= ENTRIES_MAX)
        return NULL;
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return NULL;
    entry->id = id;
    list_init(&entry->waits);
    list_init(&entry->link);
    if (idmap_put(&catalogue->entries, id, entry))
        return entry;
    free(entry);
    return NULL;
}

/* Returns the entry, and creates it if there is none. Returns NULL if memory is out or the
   catalogue is full. */
static struct catalogue_entry *entry_of(struct catalogue *catalogue, int64_t id)
{
    struct catalogue_entry *entry = idmap_get(&catalogue->entries, id);

    return entry != NULL ? entry : entry_create(catalogue, id);
}

static void sample_clock(struct catalogue *catalogue, int64_t database_now_us)
{
    int64_t now_us = clock_mono_us();
    int64_t error_us = (now_us - catalogue->read_sent_us) / 2;

    if (!list_is_empty(&catalogue->reading))
        atomic_store(&catalogue->metrics->catalogue_read_us, now_us);
    if (database_now_us == 0)
        return;
    if (catalogue->offset_taken_us != 0 && error_us > catalogue->offset_error_us &&
        now_us - catalogue->offset_taken_us < CLOCK_SAMPLE_VALID_US)
        return; /* keep the earlier estimate, which is more exact */
    catalogue->offset_us = database_now_us - (catalogue->read_sent_us + error_us);
    catalogue->offset_error_us = error_us;
    catalogue->offset_taken_us = now_us;
}

static void entry_update(struct catalogue *catalogue, const struct voucher *voucher)
{
    struct catalogue_entry *entry = idmap_get(&catalogue->entries, voucher->id);

    if (entry == NULL)
        return;
    entry->exists = true;
    if (voucher->version < entry->version)
        return;
    entry->version = voucher->version;
    entry->begin_us = voucher->begin_us;
    entry->end_us = voucher->end_us;
    entry->stock_left = voucher->stock_left;
    entry->requires_ticket = voucher->requires_ticket != 0;
    entry->pow_bits = voucher->pow_bits;
    entry->is_lottery = voucher->is_lottery != 0;
    entry->is_drawn = voucher->drawn_us != 0;
}

/* Answers the waits that are in the list now. If a callback adds a wait, the new wait stays in the
   list. */
static void answer_waits(struct rlock_link *waits, enum rlock_status status,
                         const struct catalogue_entry *entry)
{
    LIST_DRAIN_PRESENT(struct catalogue_wait, wait, waits, link)
        wait->callback(status, entry, wait->arg);
}

static void catalogue_on_read(enum rlock_status status, const struct voucher *vouchers,
                              size_t count, int64_t database_now_us, void *arg)
{
    struct catalogue *catalogue = arg;

    catalogue->is_reading = false;
    if (status == RLOCK_OK) {
        sample_clock(catalogue, database_now_us);
        LIST_EACH(struct catalogue_entry, entry, &catalogue->reading, link) {
            entry->exists = false;
            /* A version that was known before the read does not count, because the database may
               have lost it in a failover. */
            if (entry->read_us < catalogue->read_sent_us)
                entry->version = 0;
            entry->read_us = catalogue->read_sent_us;
        }
        for (size_t i = 0; i < count; i++)
            entry_update(catalogue, &vouchers[i]);
    }
    LIST_DRAIN(struct catalogue_entry, entry, &catalogue->reading, link) {
        entry->is_pending = false;
        if (status == RLOCK_OK && entry->read_us <= entry->changed_us &&
            !list_is_empty(&entry->waits))
            request_read(catalogue, entry);
        else
            answer_waits(&entry->waits, status, status == RLOCK_OK ? entry : NULL);
        if (!entry->exists && !entry->is_pending) {
            list_append(&catalogue->missing, &entry->link);
            catalogue->missing_count++;
        }
    }
    /* All callbacks have returned, so no caller uses the entries now. */
    while (catalogue->missing_count > MISSING_MAX)
        evict(catalogue,
              list_item(catalogue->missing.next, struct catalogue_entry, link));
}

void catalogue_turn(struct catalogue *catalogue)
{
    struct catalogue_entry *entry;
    size_t count = 0;

    answer_waits(&catalogue->refused, RLOCK_NO_MEMORY, NULL);
    if (catalogue->is_reading ||
        (list_is_empty(&catalogue->pending) && !catalogue->is_clock_due))
        return;
    while (count < READ_MAX && (entry = LIST_SHIFT(struct catalogue_entry,
                                                   &catalogue->pending, link)) != NULL) {
        list_append(&catalogue->reading, &entry->link);
        catalogue->ids[count++] = entry->id;
    }
    catalogue->is_reading = true;
    catalogue->is_clock_due = false;
    catalogue->read_sent_us = clock_mono_us();
    store_read_vouchers(catalogue->store, catalogue->ids, count, catalogue_on_read,
                        catalogue);
}

/* -- requests -- */

const struct catalogue_entry *catalogue_get(struct catalogue *catalogue, int64_t id)
{
    struct catalogue_entry *entry = idmap_get(&catalogue->entries, id);

    if (entry == NULL)
        return NULL;
    entry->is_used = true;
    if (entry->read_us <= entry->changed_us ||
        clock_mono_us() - entry->read_us >= CATALOGUE_FRESH_US)
        return NULL;
    return entry;
}

void catalogue_read(struct catalogue *catalogue, int64_t id, struct catalogue_wait *wait,
                    catalogue_cb callback, void *arg)
{
    struct catalogue_entry *entry = entry_of(catalogue, id);

    wait->callback = callback;
    wait->arg = arg;
    if (entry == NULL) {
        /* catalogue_turn() answers the wait */
        list_append(&catalogue->refused, &wait->link);
        return;
    }
    list_append(&entry->waits, &wait->link);
    entry->is_used = true;
    request_read(catalogue, entry);
}

void catalogue_update(struct catalogue *catalogue,
                      const struct voucher_snapshot *snapshot, int64_t taken_us)
{
    struct catalogue_entry *entry = idmap_get(&catalogue->entries, snapshot->voucher_id);

    if (entry == NULL || snapshot->version < entry->version ||
        entry->read_us <= entry->changed_us || taken_us < entry->read_us)
        return;
    entry->version = snapshot->version;
    entry->stock_left = snapshot->stock_left;
    entry->begin_us = snapshot->begin_us;
    entry->end_us = snapshot->end_us;
    entry->read_us = taken_us;
}

int64_t catalogue_share(struct catalogue *catalogue, int64_t id,
                        struct voucher_snapshot *ret_snapshot)
{
    const struct catalogue_entry *entry = catalogue_get(catalogue, id);
    struct catalogue_entry *unread = entry == NULL ? entry_of(catalogue, id) : NULL;

    if (unread != NULL)
        request_read(catalogue, unread);
    if (entry == NULL)
        return 0;
    *ret_snapshot = (struct voucher_snapshot){.voucher_id = id,
                                              .version = entry->version,
                                              .stock_left = entry->stock_left,
                                              .begin_us = entry->begin_us,
                                              .end_us = entry->end_us};
    return entry->exists ? entry->read_us : 0;
}

void catalogue_invalidate(struct catalogue *catalogue, int64_t id)
{
    struct catalogue_entry *entry;
    int64_t now_us = clock_mono_us();
    size_t at = 0;

    if (id != 0) {
        entry = idmap_get(&catalogue->entries, id);
        if (entry != NULL)
            entry->changed_us = now_us;
        return;
    }
    /* the new connection may lead to another server, with another clock */
    catalogue->offset_taken_us = 0;
    while ((entry = idmap_next(&catalogue->entries, &at)) != NULL)
        entry->changed_us = now_us;
}

int64_t catalogue_now_us(const struct catalogue *catalogue, int64_t *ret_error_us)
{
    *ret_error_us = catalogue->offset_error_us;
    return clock_mono_us() + catalogue->offset_us;
}

bool catalogue_clock_differs(const struct catalogue *catalogue, bool did_differ,
                             int64_t *ret_difference_us)
{
    int64_t database_now_us = clock_mono_us() + catalogue->offset_us;
    int64_t difference_us = database_now_us - clock_real_us();
    int64_t limit_us = did_differ ? CLOCK_DIFFERS_US / 2 : CLOCK_DIFFERS_US;

    if (catalogue->offset_taken_us == 0)
        return did_differ;
    *ret_difference_us = difference_us;
    return llabs(difference_us) > limit_us + catalogue->offset_error_us;
}

size_t catalogue_count(const struct catalogue *catalogue)
{
    return catalogue->entries.count;
}

/* -- refresh and eviction -- */

/* An entry that was used since its last read from the database is refreshed before it becomes
   invalid. So during a sale no request waits for a read. */
static void catalogue_on_tick(uv_timer_t *timer)
{
    struct catalogue *catalogue = timer->data;
    struct catalogue_entry *entry;
    int64_t now_us = clock_mono_us();
    size_t at = 0;

    catalogue->is_clock_due =
        catalogue->offset_taken_us == 0 ||
        now_us - catalogue->offset_taken_us >= CLOCK_SAMPLE_EVERY_US;
    while ((entry = idmap_next(&catalogue->entries, &at)) != NULL) {
        int64_t age_us = now_us - entry->read_us;

        if (!entry->is_pending && !entry->is_used && age_us > EVICT_AFTER_US) {
            evict(catalogue, entry);
        } else if (entry->is_used && age_us > REFRESH_AFTER_US) {
            entry->is_used = false;
            request_read(catalogue, entry);
        }
    }
}

struct catalogue *catalogue_create(uv_loop_t *loop, struct store *store,
                                   struct metrics *metrics)
{
    struct catalogue *catalogue = calloc(1, sizeof(*catalogue));

    if (catalogue == NULL)
        return NULL;
    catalogue->store = store;
    catalogue->metrics = metrics;
    list_init(&catalogue->pending);
    list_init(&catalogue->reading);
    list_init(&catalogue->missing);
    list_init(&catalogue->refused);
    uv_timer_init(loop, &catalogue->timer);
    catalogue->timer.data = catalogue;
    uv_timer_start(&catalogue->timer, catalogue_on_tick, TICK_MS, TICK_MS);
    return catalogue;
}

static void catalogue_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void catalogue_close(struct catalogue *catalogue)
{
    struct catalogue_entry *entry;
    size_t at = 0;

    if (catalogue == NULL)
        return;
    while ((entry = idmap_next(&catalogue->entries, &at)) != NULL)
        free(entry);
    idmap_clear(&catalogue->entries);
    uv_close((uv_handle_t *)&catalogue->timer, catalogue_on_closed);
}
