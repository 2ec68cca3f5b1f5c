/* check_voucher.c - replay the changes of each voucher's stock in commit order. */
#include "load/check.h"

#include <inttypes.h>
#include <stdlib.h>

struct span {
    int64_t from_us, to_us;
};

/* periods without stock, in which the periods of a voucher are contiguous */
static struct span *spans;
static size_t span_count;

static int compare_events(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    int by_voucher = compare(left->voucher, right->voucher);

    return by_voucher != 0 ? by_voucher : compare(left->id, right->id);
}

static int compare_vouchers(const void *a, const void *b)
{
    const struct voucher *left = a, *right = b;

    return compare(left->id, right->id);
}

const struct voucher *find_voucher(int64_t id)
{
    const struct voucher wanted = {.id = id};

    return input.voucher_count == 0
               ? NULL
               : bsearch(&wanted, input.vouchers, input.voucher_count,
                         sizeof(*input.vouchers), compare_vouchers);
}

void add_event(const struct event *event)
{
    input.events = grow(input.events, input.event_count, sizeof(*input.events));
    input.events[input.event_count++] = *event;
}

static void link_end(struct event *end)
{
    const struct event wanted = {.voucher = end->voucher, .id = end->order};
    const struct event *placement = bsearch(&wanted, input.events, input.event_count,
                                            sizeof(*input.events), compare_events);

    if (placement == NULL || placement->kind != PLACEMENT) {
        add_violation(REQUESTED, NULL, NULL, "order %" PRId64 " has ended but has no row",
                      end->order);
        return;
    }
    end->row = placement->row;
    end->row->end_id = end->id;
    end->row->end_us = end->at_us;
    end->row->ended_by_us = end->at_us + commit_us;
}

/* Begin a period without stock, or end the last one. */
static void note_stock(struct voucher *voucher, bool is_empty, int64_t at_us)
{
    if (!is_empty) {
        spans[span_count - 1].to_us = at_us;
        return;
    }
    spans = grow(spans, span_count, sizeof(*spans));
    spans[span_count++] = (struct span){.from_us = at_us, .to_us = NEVER};
    voucher->span_count++;
}

/* Apply the events of one voucher in order. Returns the first event of the next voucher. */
static const struct event *replay(struct voucher *voucher, const struct event *event)
{
    const struct event *end = input.events + input.event_count;
    bool was_empty = false;
    int64_t stock = 0;

    voucher->first_span = span_count;
    for (; event < end && event->voucher == voucher->id; event++) {
        stock += event->change;
        if ((stock <= 0) != was_empty)
            note_stock(voucher, stock <= 0, event->at_us);
        was_empty = stock <= 0;
        checked[STOCK_LEFT] += event->kind == PLACEMENT;
        if (event->kind == PLACEMENT && stock < 0)
            add_violation(STOCK_LEFT, NULL, event->row, "%" PRId64 " more than the stock",
                          -stock);
    }
    checked[STOCK_LEFT]++;
    if (stock != voucher->left)
        add_violation(STOCK_LEFT, NULL, NULL,
                      "voucher %" PRId64 ": stock_left is %" PRId64
                      ", its events leave %" PRId64,
                      voucher->id, voucher->left, stock);
    return event;
}

void replay_vouchers(void)
{
    const struct event *event;

    sort(input.vouchers, input.voucher_count, sizeof(*input.vouchers), compare_vouchers);
    for (size_t i = 0; i < input.row_count; i++) {
        struct row *row = &input.rows[i];

        add_event(&(struct event){.voucher = row->voucher,
                                  .id = row->id,
                                  .at_us = row->created_us,
                                  .change = -1,
                                  .row = row,
                                  .kind = PLACEMENT});
    }
    sort(input.events, input.event_count, sizeof(*input.events), compare_events);
    event = input.events;
    for (size_t i = 0; i < input.event_count; i++) {
        if (input.events[i].kind == END)
            link_end(&input.events[i]);
    }
    for (size_t i = 0; i < input.voucher_count; i++) {
        while (event < input.events + input.event_count &&
               event->voucher < input.vouchers[i].id)
            event++;
        event = replay(&input.vouchers[i], event);
    }
}

bool was_sold_out(const struct voucher *voucher, const struct op *op)
{
    const struct span *first = spans + voucher->first_span;
    size_t low = 0, high = voucher->span_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (first[middle].from_us <= op->answered_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && (first[low - 1].to_us == NEVER ||
                       first[low - 1].to_us + commit_us >= op->sent_us);
}
