/* check_shopper.c - check that each answer was correct and each row was requested. */
#include "load/check.h"

#include <inttypes.h>
#include <string.h>

#define UNLOCK_US 1000000 /* a request may hold its lock for this time after its answer */
/* prove.py sets this lease, so the lock of a killed instance lasts this long */
#define LEASE_US 6000000
#define CLIENT_KEY_MAX                                                                   \
    64 /* the service's own keys, for orders without a lock, are longer */

static bool has_key(const struct op *op)
{
    return op->kind == ORDER && strcmp(op->key, "-") != 0;
}

static bool fits(const struct row *row, const struct op *op)
{
    return op->kind == ORDER && row->voucher == op->voucher &&
           (strcmp(row->key, op->key) == 0 ||
            (!has_key(op) && strlen(row->key) > CLIENT_KEY_MAX));
}

static struct row *find_row(const struct shopper *shopper, int64_t id)
{
    for (struct row *row = shopper->rows; row < shopper->rows_end; row++) {
        if (row->id == id)
            return row;
    }
    return NULL;
}

static bool is_within(const struct op *op, int64_t at_us)
{
    return op->sent_us <= at_us && at_us <= op->answered_us;
}

/* Note what the answer proves about its row. All answers are noted before the first answer is
   checked. */
static void note_answer(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    if (row == NULL)
        return;
    if ((op->answer == PLACED || op->answer == REPEATED) &&
        op->answered_us < row->acknowledged_us)
        row->acknowledged_us = op->answered_us;
    if (op->kind == CANCEL && op->answer == DONE && op->answered_us < row->ended_by_us)
        row->ended_by_us = op->answered_us;
}

static void check_placed(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    checked[ACKNOWLEDGED]++;
    if (row == NULL)
        add_violation(ACKNOWLEDGED, op, NULL, "the shopper has no such row");
    else if (!fits(row, op))
        add_violation(ACKNOWLEDGED, op, row, "the row is of another voucher or key");
    else if (!is_within(op, row->created_us))
        add_violation(ACKNOWLEDGED, op, row,
                      "the row was not created during the request");
    else if (row->is_acknowledged)
        add_violation(ACKNOWLEDGED, op, row, "a second 201 for the same row");
    if (row != NULL)
        row->is_acknowledged = true;
}

static void check_repeated(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    checked[SAME_KEY]++;
    if (row == NULL)
        add_violation(SAME_KEY, op, NULL, "the shopper has no such row");
    else if (!has_key(op) || !fits(row, op))
        add_violation(SAME_KEY, op, row, "the key did not create this row");
    else if (row->created_us > op->answered_us)
        add_violation(SAME_KEY, op, row, "the row did not exist yet");
}

/* If an answer has named the order of a key, each later request with the key must get this
   order. */
static void check_key(const struct shopper *shopper, const struct op *op)
{
    bool is_open = op->answer == UNKNOWN || op->answer == NOT_DONE ||
                   op->answer == IN_PROGRESS || op->answer == OTHER;

    if (!has_key(op) || is_open)
        return;
    for (struct row *row = shopper->rows; row < shopper->rows_end; row++) {
        if (!fits(row, op) || row->acknowledged_us >= op->sent_us)
            continue;
        checked[SAME_KEY]++;
        if (op->answer != REPEATED || op->order != row->id)
            add_violation(SAME_KEY, op, row,
                          "an earlier answer named this order for the key");
    }
}

static bool may_be_live(const struct row *row, const struct op *op)
{
    return row->voucher == op->voucher && row->created_us <= op->answered_us &&
           row->ended_by_us >= op->sent_us;
}

static void check_already(const struct shopper *shopper, const struct op *op)
{
    const struct voucher *voucher = find_voucher(op->voucher);
    const struct row *row = find_row(shopper, op->order);
    int64_t live = 0;

    checked[TRUE_ALREADY]++;
    for (const struct row *mine = shopper->rows; mine < shopper->rows_end; mine++)
        live += may_be_live(mine, op);
    if (row == NULL)
        add_violation(TRUE_ALREADY, op, NULL, "the shopper has no such row");
    else if (!may_be_live(row, op))
        add_violation(TRUE_ALREADY, op, row, "the order was not live");
    else if (voucher == NULL || live < voucher->limit)
        add_violation(TRUE_ALREADY, op, row,
                      "the shopper had only %" PRId64 " live orders", live);
}

static bool may_hold_lock(const struct op *op, int64_t at_us)
{
    bool is_known = op->answer != UNKNOWN && op->answer != NOT_DONE;
    int64_t held_us = UNLOCK_US + (had_faults ? LEASE_US : 0);

    return op->kind == ORDER && op->answer != IN_PROGRESS &&
           (!is_known || op->answered_us + held_us >= at_us);
}

/* There is one lock per shopper, so the lock may be held by a request for any voucher. */
static void check_in_progress(const struct shopper *shopper, const struct op *op)
{
    checked[TRUE_IN_PROGRESS]++;
    for (const struct op *other = op + 1;
         other < shopper->ops_end && other->sent_us <= op->answered_us; other++) {
        if (may_hold_lock(other, op->sent_us))
            return;
    }
    for (const struct op *other = op - 1; other >= shopper->ops; other--) {
        if (may_hold_lock(other, op->sent_us))
            return;
    }
    add_violation(TRUE_IN_PROGRESS, op, NULL,
                  "no other request of the shopper was in progress");
}

static void check_by_voucher(const struct op *op)
{
    const struct voucher *voucher = find_voucher(op->voucher);

    if (voucher == NULL) {
        add_violation(ANSWERS, op, NULL, "no such voucher");
        return;
    }
    if (op->answer == SOLD_OUT) {
        checked[TRUE_SOLD_OUT]++;
        if (!was_sold_out(voucher, op))
            add_violation(TRUE_SOLD_OUT, op, NULL,
                          "there was stock during the whole request");
        return;
    }
    checked[TRUE_CLOCK]++;
    if (op->answer == NOT_STARTED && op->sent_us >= voucher->begin_us)
        add_violation(TRUE_CLOCK, op, NULL, "the sale was open");
    if (op->answer == SALE_ENDED && op->answered_us < voucher->end_us)
        add_violation(TRUE_CLOCK, op, NULL, "the sale had not ended");
}

static void check_cancel(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    checked[CHANGES]++;
    if (row == NULL) {
        add_violation(CHANGES, op, NULL, "the shopper has no such row");
    } else if (op->answer == WRONG_STATE) {
        if (row->end_us > op->answered_us)
            add_violation(CHANGES, op, row, "the order could be cancelled");
    } else if (!is_within(op, row->end_us) || row->is_end_acknowledged) {
        add_violation(CHANGES, op, row, "this request did not cancel the order");
    } else {
        row->is_end_acknowledged = true;
    }
}

static void check_answer(const struct shopper *shopper, const struct op *op)
{
    checked[ANSWERS]++;
    check_key(shopper, op);
    switch (op->answer) {
    case PLACED:
        check_placed(shopper, op);
        break;
    case REPEATED:
        check_repeated(shopper, op);
        break;
    case ENTERED:
        check_entered(shopper, op);
        break;
    case DONE:
    case WRONG_STATE:
        if (op->kind == CANCEL)
            check_cancel(shopper, op);
        break; /* check_restocks() checks restocks */
    case SOLD_OUT:
    case NOT_STARTED:
    case SALE_ENDED:
        check_by_voucher(op);
        break;
    case ALREADY_ORDERED:
        check_already(shopper, op);
        break;
    case IN_PROGRESS:
        check_in_progress(shopper, op);
        break;
    case UNKNOWN:
    case NOT_DONE:
        if (!had_faults)
            add_violation(ANSWERS, op, NULL, "no process was killed");
        break;
    case OTHER:
    case ANSWER_COUNT:
        add_violation(ANSWERS, op, NULL, "unexpected answer");
    }
}

/* Whether an unused request with an unknown outcome can have caused the row or its end. If so, the
   request counts as used. */
static bool claim_unknown(const struct shopper *shopper, const struct row *row,
                          bool is_end)
{
    int64_t at_us = is_end ? row->end_us : row->created_us;

    for (struct op *op = shopper->ops; op < shopper->ops_end; op++) {
        bool can_be = is_end ? op->kind == CANCEL && op->order == row->id : fits(row, op);

        if (can_be && op->answer == UNKNOWN && !op->is_used && op->sent_us <= at_us) {
            op->is_used = true;
            return true;
        }
    }
    return false;
}

static void check_row(const struct shopper *shopper, const struct row *row)
{
    const struct voucher *voucher = find_voucher(row->voucher);
    struct entry *entry = find_entry(shopper, row->voucher);
    int64_t live = 1;

    checked[REQUESTED]++;
    if (entry != NULL)
        check_drawn(entry, row);
    else if (!row->is_acknowledged && !claim_unknown(shopper, row, false))
        add_violation(REQUESTED, NULL, row, "no request explains this row");
    if (row->end_id != NEVER && !row->is_end_acknowledged &&
        !claim_unknown(shopper, row, true))
        add_violation(REQUESTED, NULL, row, "no request explains its cancellation");
    if (voucher == NULL) {
        add_violation(REQUESTED, NULL, row, "no such voucher");
        return;
    }
    checked[WINDOW]++;
    if ((row->created_us >= voucher->end_us) != (entry != NULL) ||
        row->created_us < voucher->begin_us)
        add_violation(WINDOW, NULL, row, "created outside the sale window");
    checked[LIMIT]++;
    for (const struct row *older = row - 1;
         older >= shopper->rows && older->voucher == row->voucher; older--)
        live += older->end_id > row->id;
    if (live > voucher->limit)
        add_violation(LIMIT, NULL, row,
                      "the shopper then has %" PRId64
                      " live orders, the limit is %" PRId64,
                      live, voucher->limit);
}

void check_shopper(const struct shopper *shopper)
{
    for (struct op *op = shopper->ops; op < shopper->ops_end; op++)
        note_answer(shopper, op);
    for (struct op *op = shopper->ops; op < shopper->ops_end; op++)
        check_answer(shopper, op);
    for (struct row *row = shopper->rows; row < shopper->rows_end; row++)
        check_row(shopper, row);
    for (struct entry *entry = shopper->entries; entry < shopper->entries_end; entry++)
        check_entry(shopper, entry);
}

/* -- restocks -- */

/* Returns until when the request may take effect. If its outcome is unknown, the request may take
   effect at any time. */
static int64_t latest_us(const struct op *op)
{
    return op->answer == UNKNOWN ? NEVER : op->answered_us;
}

static bool may_match(const struct op *op, const struct event *event)
{
    return op->kind == RESTOCK && !op->is_used && op->voucher == event->voucher &&
           op->count == event->change && op->sent_us <= event->at_us &&
           event->at_us <= latest_us(op) && (op->answer == DONE || op->answer == UNKNOWN);
}

/* Returns a request that may have caused the event and has no event yet, or NULL. If there are
   several requests, returns the request with the earliest deadline, because the other requests may
   have caused later events. */
static struct op *find_restock(const struct shopper *admin, const struct event *event)
{
    struct op *found = NULL;

    for (struct op *op = admin->ops; op < admin->ops_end; op++) {
        if (may_match(op, event) && (found == NULL || latest_us(op) < latest_us(found)))
            found = op;
    }
    return found;
}

void check_restocks(const struct shopper *admin)
{
    int64_t voucher = 0;

    for (const struct event *event = input.events;
         event < input.events + input.event_count; event++) {
        bool is_creation = event->voucher != voucher;
        struct op *op;

        voucher = event->voucher;
        if (event->kind != STOCK || is_creation)
            continue;
        checked[REQUESTED]++;
        op = find_restock(admin, event);
        if (op != NULL)
            op->is_used = true;
        else
            add_violation(REQUESTED, NULL, NULL,
                          "no request explains that voucher %" PRId64 " got %" PRId64
                          " pieces",
                          event->voucher, event->change);
    }
    for (const struct op *op = admin->ops; op < admin->ops_end; op++) {
        checked[CHANGES]++;
        if (op->kind == RESTOCK && op->answer == DONE && !op->is_used)
            add_violation(CHANGES, op, NULL, "the restock is missing in the database");
    }
}
