/* check_lottery.c - check the entries in lotteries, and the draws. */
#include "load/check.h"

#include <inttypes.h>

struct entry *find_entry(const struct shopper *shopper, int64_t voucher)
{
    for (struct entry *entry = shopper->entries; entry < shopper->entries_end; entry++) {
        if (entry->voucher == voucher)
            return entry;
    }
    return NULL;
}

static bool has_asked_in_time(const struct shopper *shopper, int64_t voucher)
{
    const struct voucher *lottery = find_voucher(voucher);

    for (const struct op *op = shopper->ops; op < shopper->ops_end; op++) {
        if (op->voucher == voucher && lottery != NULL && op->sent_us < lottery->end_us)
            return true;
    }
    return false;
}

/* A shopper who has entered in time gets a 202 after the end of the sale, too. */
void check_entered(const struct shopper *shopper, const struct op *op)
{
    struct entry *entry = find_entry(shopper, op->voucher);

    checked[ENTRIES]++;
    if (entry == NULL)
        add_violation(ENTRIES, op, NULL, "the shopper has no entry");
    else
        entry->is_acknowledged = true;
    checked[TRUE_CLOCK]++;
    if (!has_asked_in_time(shopper, op->voucher))
        add_violation(TRUE_CLOCK, op, NULL, "the first request was too late");
}

void check_drawn(struct entry *entry, const struct row *row)
{
    checked[DRAW]++;
    if (!entry->has_won)
        add_violation(DRAW, NULL, row, "the entry has not won");
    if (entry->has_order)
        add_violation(DRAW, NULL, row, "the entry already has an order");
    entry->has_order = true;
}

/* Whether an unused request with an unknown outcome can have entered the shopper. If so, the request
   counts as used. */
static bool claim_unknown(const struct shopper *shopper, const struct entry *entry)
{
    for (struct op *op = shopper->ops; op < shopper->ops_end; op++) {
        if (op->voucher == entry->voucher && op->answer == UNKNOWN && !op->is_used) {
            op->is_used = true;
            return true;
        }
    }
    return false;
}

void check_entry(const struct shopper *shopper, const struct entry *entry)
{
    checked[ENTRIES]++;
    if (entry != find_entry(shopper, entry->voucher))
        add_violation(ENTRIES, NULL, NULL,
                      "shopper %" PRId64 " has two entries for voucher %" PRId64,
                      entry->shopper, entry->voucher);
    else if (!entry->is_acknowledged && !claim_unknown(shopper, entry))
        add_violation(ENTRIES, NULL, NULL,
                      "no request explains the entry of shopper %" PRId64
                      " for voucher %" PRId64,
                      entry->shopper, entry->voucher);
    if (entry->has_won && !entry->has_order)
        add_violation(DRAW, NULL, NULL,
                      "shopper %" PRId64 " has won voucher %" PRId64 ", and has no order",
                      entry->shopper, entry->voucher);
}

static void check_draw(const struct voucher *voucher)
{
    int64_t stock = 0, entries = 0, winners = 0;

    for (size_t i = 0; i < input.event_count; i++) {
        const struct event *event = &input.events[i];

        if (event->voucher == voucher->id && event->kind == STOCK)
            stock += event->change;
    }
    for (size_t i = 0; i < input.entry_count; i++) {
        entries += input.entries[i].voucher == voucher->id;
        winners += input.entries[i].voucher == voucher->id && input.entries[i].has_won;
    }
    checked[DRAW]++;
    if (entries > 0 && winners != (entries < stock ? entries : stock))
        add_violation(DRAW, NULL, NULL,
                      "voucher %" PRId64 ": %" PRId64 " of %" PRId64
                      " entries have won, and the stock is %" PRId64,
                      voucher->id, winners, entries, stock);
}

void check_draws(void)
{
    for (size_t i = 0; input.entry_count > 0 && i < input.voucher_count; i++)
        check_draw(&input.vouchers[i]);
}
