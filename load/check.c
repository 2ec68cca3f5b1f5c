/*
 * check.c - does what clients were told agree with what the database holds?
 *
 *   check [--faults] TABLE HISTORY...
 *
 * TABLE is all that the database holds (prove.py writes it, in the words that
 * check_read.c reads), the HISTORYs are all that was asked and answered (history.lua).
 * Prints a line "rule NAME LOOKED BROKEN" for each rule and "answer NAME COUNT" for each
 * kind of answer; the first offenders of each rule go to standard error, with the rows.
 * Exit code: 0 all rules hold, 1 one is broken, 2 it could not be told. With --faults
 * something was killed meanwhile, and answers that do not know are allowed.
 *
 * All times are of one machine's clock: a request was under way from asked_us, taken
 * before it was sent, to answered_us, taken after its answer was read. An answer is
 * true if it was at any moment between. What the database did has the time at which it
 * held the voucher's row, and an id that grows in the order of commits; when exactly a
 * commit became visible is not known, but by COMMIT_US later, or when somebody was told,
 * it was. Where that leaves a doubt the service is believed.
 */
#include "load/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 3 /* offenders of a rule */
#define COMMIT_US                                                                        \
    1000000               /* also: how long stock may have been back before it is sold   \
                           */
#define UNLOCK_US 1000000 /* how long after its answer a request may hold the lock */
#define OWN_KEY   64      /* longer ones are the service's, of orders without a lock */

#define RULES(X)                                                                         \
    X(ANSWERS, "answers")                                                                \
    X(ACKNOWLEDGED, "acknowledged")                                                      \
    X(SAME_KEY, "same_key")                                                              \
    X(STOCK_LEFT, "stock")                                                               \
    X(LIMIT, "limit")                                                                    \
    X(WINDOW, "window")                                                                  \
    X(TRUE_SOLD_OUT, "sold_out")                                                         \
    X(TRUE_ALREADY, "already_ordered")                                                   \
    X(TRUE_IN_PROGRESS, "in_progress")                                                   \
    X(TRUE_CLOCK, "clock")                                                               \
    X(CHANGES, "changes")                                                                \
    X(ASKED_FOR, "asked_for")

enum rule {
#define X(name, word) name,
    RULES(X)
#undef X
        RULE_COUNT
};

static const char *const rule_names[] = {
#define X(name, word) word,
    RULES(X)
#undef X
};

static const char *const answer_names[] = {
#define X(name) #name,
    ANSWERS(X)
#undef X
};

struct span {
    int64_t from_us, to_us;
};

static struct book book;
static struct span *spans;
static size_t span_count;
static bool has_faults;
static size_t looked[RULE_COUNT], broken[RULE_COUNT];
static int64_t start_us; /* offenders' times are told from here */

/* -- telling ---------- */

static void print_time(const char *what, int64_t at_us)
{
    if (at_us == NEVER)
        fprintf(stderr, ", not %s", what);
    else
        fprintf(stderr, ", %s %.6f", what, (double)(at_us - start_us) / 1e6);
}

static void print_op(const struct op *op)
{
    static const char *const kinds[] = {"order", "cancel", "restock"};

    fprintf(stderr, "    %s:%u  %s of shopper %" PRId64 ", voucher %" PRId64, op->file,
            op->asked_line, kinds[op->kind], op->shopper, op->voucher);
    if (op->kind != CANCEL)
        fprintf(stderr, ", %s %.*s", op->kind == ORDER ? "key" : "add", (int)op->arg.len,
                op->arg.bytes);
    print_time("asked", op->asked_us);
    print_time("answered", op->answered_us);
    fprintf(stderr, ": %u %s", op->status, answer_names[op->answer]);
    if (op->order != 0)
        fprintf(stderr, " order %" PRId64, op->order);
    fprintf(stderr, "\n");
}

static void print_row(const struct row *row)
{
    fprintf(stderr,
            "    row: order %" PRId64 " of shopper %" PRId64 ", voucher %" PRId64
            ", key %.*s",
            row->id, row->shopper, row->voucher, (int)row->key.len, row->key.bytes);
    print_time("created", row->created_us);
    print_time("ended", row->end_us);
    fprintf(stderr, "\n");
}

/* Count an offence, and show it if it is among the first. `op` and `row` may be NULL. */
__attribute__((format(printf, 4, 5))) static void
offend(enum rule rule, const struct op *op, const struct row *row, const char *why, ...)
{
    va_list args;

    if (broken[rule]++ >= SHOWN)
        return;
    fprintf(stderr, "  %s: ", rule_names[rule]);
    va_start(args, why);
    vfprintf(stderr, why, args);
    va_end(args);
    fprintf(stderr, "\n");
    if (op != NULL)
        print_op(op);
    if (row != NULL)
        print_row(row);
}

/* -- order ---------- */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ops(const void *a, const void *b)
{
    const struct op *left = a, *right = b;
    int by_shopper = compare(left->shopper, right->shopper);

    return by_shopper != 0 ? by_shopper : compare(left->asked_us, right->asked_us);
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    int by_shopper = compare(left->shopper, right->shopper);
    int by_voucher = compare(left->voucher, right->voucher);

    if (by_shopper != 0 || by_voucher != 0)
        return by_shopper != 0 ? by_shopper : by_voucher;
    return compare(left->id, right->id);
}

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

static struct voucher *find_voucher(int64_t id)
{
    const struct voucher wanted = {.id = id};

    return book.voucher_count == 0 ? NULL
                                   : bsearch(&wanted, book.vouchers, book.voucher_count,
                                             sizeof(*book.vouchers), compare_vouchers);
}

/* -- the life of each voucher ---------- */

static void add_placements(void)
{
    for (size_t i = 0; i < book.row_count; i++) {
        struct row *row = &book.rows[i];

        book.events = grow(book.events, book.event_count, sizeof(*book.events));
        book.events[book.event_count++] = (struct event){.voucher = row->voucher,
                                                         .id = row->id,
                                                         .at_us = row->created_us,
                                                         .change = -1,
                                                         .row = row,
                                                         .kind = PLACEMENT};
    }
}

static void link_end(struct event *end)
{
    const struct event wanted = {.voucher = end->voucher, .id = end->order};
    const struct event *placement = bsearch(&wanted, book.events, book.event_count,
                                            sizeof(*book.events), compare_events);

    if (placement == NULL || placement->kind != PLACEMENT) {
        offend(ASKED_FOR, NULL, NULL, "order %" PRId64 " ended, and has no row",
               end->order);
        return;
    }
    end->row = placement->row;
    end->row->end_id = end->id;
    end->row->end_us = end->at_us;
    end->row->ended_by_us = end->at_us + COMMIT_US;
}

/* Notes since when, and until when, there is no stock. */
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

/* Each commit in turn. Returns the event behind the last. */
static const struct event *replay(struct voucher *voucher, const struct event *event)
{
    const struct event *end = book.events + book.event_count;
    bool was_empty = false;
    int64_t stock = 0;

    voucher->first_span = span_count;
    for (; event < end && event->voucher == voucher->id; event++) {
        stock += event->change;
        if ((stock <= 0) != was_empty)
            note_stock(voucher, stock <= 0, event->at_us);
        was_empty = stock <= 0;
        looked[STOCK_LEFT] += event->kind == PLACEMENT;
        if (event->kind == PLACEMENT && stock < 0)
            offend(STOCK_LEFT, NULL, event->row, "%" PRId64 " beyond the stock", -stock);
    }
    looked[STOCK_LEFT]++;
    if (stock != voucher->left)
        offend(STOCK_LEFT, NULL, NULL,
               "voucher %" PRId64 ": stock_left is %" PRId64
               ", what happened to it leaves %" PRId64,
               voucher->id, voucher->left, stock);
    return event;
}

static void replay_all(void)
{
    const struct event *event = book.events;

    for (size_t i = 0; i < book.event_count; i++) {
        if (book.events[i].kind == END)
            link_end(&book.events[i]);
    }
    for (size_t i = 0; i < book.voucher_count; i++) {
        while (event < book.events + book.event_count &&
               event->voucher < book.vouchers[i].id)
            event++;
        event = replay(&book.vouchers[i], event);
    }
}

/* Was there no stock at a moment of the request, as far as one may know? */
static bool was_sold_out(const struct voucher *voucher, const struct op *op)
{
    const struct span *first = spans + voucher->first_span;
    size_t low = 0, high = voucher->span_count;

    while (low < high) { /* the first that begins after the answer */
        size_t middle = (low + high) / 2;

        if (first[middle].from_us <= op->answered_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && (first[low - 1].to_us == NEVER ||
                       first[low - 1].to_us + COMMIT_US >= op->asked_us);
}

/* -- the life of each shopper ---------- */

/* All that one shopper asked, in order of time, and got. */
struct shopper {
    struct op *ops, *ops_end;
    struct row *rows, *rows_end;
};

static bool has_key(const struct op *op)
{
    return op->kind == ORDER && !(op->arg.len == 1 && op->arg.bytes[0] == '-');
}

/* Could the row have come from such a request? */
static bool fits(const struct row *row, const struct op *op)
{
    return op->kind == ORDER && row->voucher == op->voucher &&
           (is_same(row->key, op->arg) || (!has_key(op) && row->key.len > OWN_KEY));
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
    return op->asked_us <= at_us && at_us <= op->answered_us;
}

/* First of all the good news are taken down: others are judged by them. */
static void note_told(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    if (row == NULL)
        return;
    if ((op->answer == PLACED || op->answer == REPEATED) &&
        op->answered_us < row->told_us)
        row->told_us = op->answered_us;
    if (op->kind == CANCEL && op->answer == DONE && op->answered_us < row->ended_by_us)
        row->ended_by_us = op->answered_us;
}

static void judge_placed(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    looked[ACKNOWLEDGED]++;
    if (row == NULL)
        offend(ACKNOWLEDGED, op, NULL, "the shopper has no such row");
    else if (!fits(row, op))
        offend(ACKNOWLEDGED, op, row, "the row is of another voucher or key");
    else if (!is_within(op, row->created_us))
        offend(ACKNOWLEDGED, op, row, "the row was not made during the request");
    else if (row->is_placed_told)
        offend(ACKNOWLEDGED, op, row, "one row was told as new twice");
    if (row != NULL)
        row->is_placed_told = true;
}

static void judge_repeated(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    looked[SAME_KEY]++;
    if (row == NULL)
        offend(SAME_KEY, op, NULL, "the shopper has no such row");
    else if (!has_key(op) || !fits(row, op))
        offend(SAME_KEY, op, row, "the key did not make this row");
    else if (row->created_us > op->answered_us)
        offend(SAME_KEY, op, row, "the row did not exist yet");
}

/* Who was told what a key has made is told the same ever after. */
static void judge_key(const struct shopper *shopper, const struct op *op)
{
    bool is_open = op->answer == UNKNOWN || op->answer == NOT_DONE ||
                   op->answer == IN_PROGRESS || op->answer == OTHER;

    if (!has_key(op) || is_open)
        return;
    for (struct row *row = shopper->rows; row < shopper->rows_end; row++) {
        if (!fits(row, op) || row->told_us >= op->asked_us)
            continue;
        looked[SAME_KEY]++;
        if (op->answer != REPEATED || op->order != row->id)
            offend(SAME_KEY, op, row, "the shopper knew already that the key made this");
    }
}

static bool may_live(const struct row *row, const struct op *op)
{
    return row->voucher == op->voucher && row->created_us <= op->answered_us &&
           row->ended_by_us >= op->asked_us;
}

static void judge_already(const struct shopper *shopper, const struct op *op)
{
    const struct voucher *voucher = find_voucher(op->voucher);
    const struct row *row = find_row(shopper, op->order);
    int64_t live = 0;

    looked[TRUE_ALREADY]++;
    for (const struct row *mine = shopper->rows; mine < shopper->rows_end; mine++)
        live += may_live(mine, op);
    if (row == NULL)
        offend(TRUE_ALREADY, op, NULL, "the shopper has no such row");
    else if (!may_live(row, op))
        offend(TRUE_ALREADY, op, row, "the row was not live then");
    else if (voucher == NULL || live < voucher->limit)
        offend(TRUE_ALREADY, op, row, "the shopper had only %" PRId64, live);
}

static bool may_hold_lock(const struct op *op, int64_t at_us)
{
    bool is_known = op->answer != UNKNOWN && op->answer != NOT_DONE;

    return op->kind == ORDER && op->answer != IN_PROGRESS &&
           (!is_known || op->answered_us + UNLOCK_US >= at_us);
}

/* The lock is the shopper's: a request for any voucher may hold it. */
static void judge_in_progress(const struct shopper *shopper, const struct op *op)
{
    looked[TRUE_IN_PROGRESS]++;
    for (const struct op *other = op + 1;
         other < shopper->ops_end && other->asked_us <= op->answered_us; other++) {
        if (may_hold_lock(other, op->asked_us))
            return;
    }
    for (const struct op *other = op - 1; other >= shopper->ops; other--) {
        if (may_hold_lock(other, op->asked_us))
            return;
    }
    offend(TRUE_IN_PROGRESS, op, NULL, "no other request of the shopper was under way");
}

static void judge_by_voucher(const struct op *op)
{
    const struct voucher *voucher = find_voucher(op->voucher);

    if (voucher == NULL) {
        offend(ANSWERS, op, NULL, "there is no such voucher");
        return;
    }
    if (op->answer == SOLD_OUT) {
        looked[TRUE_SOLD_OUT]++;
        if (!was_sold_out(voucher, op))
            offend(TRUE_SOLD_OUT, op, NULL, "there was stock all the time");
        return;
    }
    looked[TRUE_CLOCK]++;
    if (op->answer == NOT_STARTED && op->asked_us >= voucher->begin_us)
        offend(TRUE_CLOCK, op, NULL, "the sale was open");
    if (op->answer == SALE_ENDED && op->answered_us < voucher->end_us)
        offend(TRUE_CLOCK, op, NULL, "the sale was not over");
}

static void judge_cancel(const struct shopper *shopper, const struct op *op)
{
    struct row *row = find_row(shopper, op->order);

    looked[CHANGES]++;
    if (row == NULL) {
        offend(CHANGES, op, NULL, "the shopper has no such row");
    } else if (op->answer == WRONG_STATE) {
        if (row->end_us > op->answered_us)
            offend(CHANGES, op, row, "the order could be cancelled");
    } else if (!is_within(op, row->end_us) || row->is_end_told) {
        offend(CHANGES, op, row, "this did not cancel it");
    } else {
        row->is_end_told = true;
    }
}

static void judge(const struct shopper *shopper, const struct op *op)
{
    looked[ANSWERS]++;
    judge_key(shopper, op);
    switch ((enum answer)op->answer) {
    case PLACED:
        judge_placed(shopper, op);
        break;
    case REPEATED:
        judge_repeated(shopper, op);
        break;
    case DONE:
    case WRONG_STATE:
        if (op->kind == CANCEL)
            judge_cancel(shopper, op);
        break; /* restocks: judge_restocks() */
    case SOLD_OUT:
    case NOT_STARTED:
    case SALE_ENDED:
        judge_by_voucher(op);
        break;
    case ALREADY_ORDERED:
        judge_already(shopper, op);
        break;
    case IN_PROGRESS:
        judge_in_progress(shopper, op);
        break;
    case UNKNOWN:
    case NOT_DONE:
        if (!has_faults)
            offend(ANSWERS, op, NULL, "nothing had failed");
        break;
    case OTHER:
    case ANSWER_COUNT:
        offend(ANSWERS, op, NULL, "nobody should be told that");
    }
}

/* Is there a request of which nobody knows what came, and which nothing came of yet? */
static bool take_unknown(const struct shopper *shopper, const struct row *row,
                         bool is_end)
{
    int64_t at_us = is_end ? row->end_us : row->created_us;

    for (struct op *op = shopper->ops; op < shopper->ops_end; op++) {
        bool is_it = is_end ? op->kind == CANCEL && op->order == row->id : fits(row, op);

        if (is_it && op->answer == UNKNOWN && !op->is_used && op->asked_us <= at_us) {
            op->is_used = true;
            return true;
        }
    }
    return false;
}

static void judge_row(const struct shopper *shopper, const struct row *row)
{
    const struct voucher *voucher = find_voucher(row->voucher);
    int64_t live = 1;

    looked[ASKED_FOR]++;
    if (!row->is_placed_told && !take_unknown(shopper, row, false))
        offend(ASKED_FOR, NULL, row, "nobody who asked for it was told");
    if (row->end_id != NEVER && !row->is_end_told && !take_unknown(shopper, row, true))
        offend(ASKED_FOR, NULL, row, "nobody has cancelled it");
    if (voucher == NULL) {
        offend(ASKED_FOR, NULL, row, "there is no such voucher");
        return;
    }
    looked[WINDOW]++;
    if (row->created_us < voucher->begin_us || row->created_us >= voucher->end_us)
        offend(WINDOW, NULL, row, "outside of the window");
    looked[LIMIT]++;
    for (const struct row *older = row - 1;
         older >= shopper->rows && older->voucher == row->voucher; older--)
        live += older->end_id > row->id;
    if (live > voucher->limit)
        offend(LIMIT, NULL, row,
               "with it the shopper has %" PRId64 ", allowed are %" PRId64, live,
               voucher->limit);
}

/* -- restocks ---------- */

static bool may_be(const struct op *op, const struct event *event)
{
    return op->kind == RESTOCK && !op->is_used && op->voucher == event->voucher &&
           strtoll(op->arg.bytes, NULL, 10) == event->change &&
           is_within(op, event->at_us) && (op->answer == DONE || op->answer == UNKNOWN);
}

/* Of those that it may be, the one that was answered first: others may be a later event.
 */
static struct op *find_restock(const struct shopper *admin, const struct event *event)
{
    struct op *found = NULL;

    for (struct op *op = admin->ops; op < admin->ops_end; op++) {
        if (may_be(op, event) && (found == NULL || op->answered_us < found->answered_us))
            found = op;
    }
    return found;
}

static void judge_restocks(const struct shopper *admin)
{
    int64_t voucher = 0;

    for (const struct event *event = book.events; event < book.events + book.event_count;
         event++) {
        bool is_creation = event->voucher != voucher;
        struct op *op;

        voucher = event->voucher;
        if (event->kind != STOCK || is_creation)
            continue;
        looked[ASKED_FOR]++;
        op = find_restock(admin, event);
        if (op != NULL)
            op->is_used = true;
        else
            offend(ASKED_FOR, NULL, NULL,
                   "voucher %" PRId64 " got %" PRId64 " pieces that nobody has added",
                   event->voucher, event->change);
    }
    for (const struct op *op = admin->ops; op < admin->ops_end; op++) {
        looked[CHANGES]++;
        if (op->kind == RESTOCK && op->answer == DONE && !op->is_used)
            offend(CHANGES, op, NULL, "the stock did not get it");
    }
}

/* -- all of it ---------- */

static void judge_shopper(const struct shopper *shopper)
{
    for (struct op *op = shopper->ops; op < shopper->ops_end; op++)
        note_told(shopper, op);
    for (struct op *op = shopper->ops; op < shopper->ops_end; op++)
        judge(shopper, op);
    for (struct row *row = shopper->rows; row < shopper->rows_end; row++)
        judge_row(shopper, row);
}

/* Whoever asked or has a row; the admin is number 0 and the first. */
static void judge_all(void)
{
    struct op *op = book.ops, *ops_end = book.ops + book.op_count;
    struct row *row = book.rows, *rows_end = book.rows + book.row_count;

    while (op < ops_end || row < rows_end) {
        struct shopper shopper = {.ops = op, .rows = row};
        int64_t id = op < ops_end ? op->shopper : NEVER;

        if (row < rows_end && row->shopper < id)
            id = row->shopper;
        while (op < ops_end && op->shopper == id)
            op++;
        while (row < rows_end && row->shopper == id)
            row++;
        shopper.ops_end = op;
        shopper.rows_end = row;
        judge_shopper(&shopper);
    }
    for (op = book.ops; op < ops_end && op->shopper == 0; op++)
        ;
    judge_restocks(&(struct shopper){.ops = book.ops, .ops_end = op});
}

static void sort(void *array, size_t count, size_t size,
                 int (*by)(const void *, const void *))
{
    if (count > 0)
        qsort(array, count, size, by);
}

static void put_in_order(void)
{
    sort(book.vouchers, book.voucher_count, sizeof(*book.vouchers), compare_vouchers);
    sort(book.rows, book.row_count, sizeof(*book.rows), compare_rows);
    add_placements(); /* the rows have their places now */
    sort(book.events, book.event_count, sizeof(*book.events), compare_events);
    sort(book.ops, book.op_count, sizeof(*book.ops), compare_ops);
    start_us = NEVER;
    for (size_t i = 0; i < book.op_count; i++) {
        if (book.ops[i].asked_us < start_us)
            start_us = book.ops[i].asked_us;
    }
}

static bool print_verdict(void)
{
    size_t answers[ANSWER_COUNT] = {0};
    bool holds = true;

    for (size_t i = 0; i < book.op_count; i++)
        answers[book.ops[i].answer]++;
    for (int i = 0; i < ANSWER_COUNT; i++)
        printf("answer %s %zu\n", answer_names[i], answers[i]);
    for (int i = 0; i < RULE_COUNT; i++) {
        printf("rule %s %zu %zu\n", rule_names[i], looked[i], broken[i]);
        holds = holds && broken[i] == 0;
        if (broken[i] > SHOWN)
            fprintf(stderr, "  %s: and %zu more\n", rule_names[i], broken[i] - SHOWN);
    }
    printf("lines %zu\n", book.line_count);
    return holds;
}

int main(int argc, char **argv)
{
    int first = 1;

    if (argc > 1 && strcmp(argv[1], "--faults") == 0) {
        has_faults = true;
        first = 2;
    }
    if (argc < first + 2) {
        fprintf(stderr, "usage: check [--faults] TABLE HISTORY...\n");
        return 2;
    }
    read_table(&book, argv[first]);
    for (int i = first + 1; i < argc; i++)
        read_history(&book, argv[i]);
    broken[ANSWERS] = book.stray_count;
    put_in_order();
    replay_all();
    judge_all();
    return print_verdict() ? 0 : 1;
}
