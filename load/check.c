/*
 * check.c - compare the answers that clients received with the contents of the database.
 *
 *   check [--faults] TABLE HISTORY...
 *
 * TABLE has all rows of the database, which prove.py writes in the format that check_read.c reads.
 * Each HISTORY has requests and their answers, which history.lua writes. The program prints a line
 * "rule NAME CHECKED VIOLATIONS" for each rule and a line "answer NAME COUNT" for each kind of
 * answer. The first violations of each rule go to standard error, with the requests and rows.
 *
 * Exit code: 0: no violation; 1: a violation; 2: an input file cannot be read. --faults: a process
 * was killed during the run, so answers that do not state the outcome are allowed.
 *
 * All times are by the clock of one machine. sent_us was taken before a request was sent, and
 * answered_us after its answer was read. An answer is correct if it was true at any moment between
 * these two times.
 *
 * The time of an event in the database was taken while its transaction held the row of the voucher,
 * and its id increases in commit order. When the commit became visible is not known exactly: at
 * most commit_us later, and not after a client had learned of it. In case of doubt the checker
 * assumes that the service is right.
 */
#include "load/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN      3
#define ON_SALE_US 1000000

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

struct input input;
bool had_faults;
size_t checked[RULE_COUNT], violations[RULE_COUNT];
int64_t commit_us;
static int64_t start_us; /* times are printed relative to this time */

/* -- violations -- */

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
            op->line, kinds[op->kind], op->shopper, op->voucher);
    if (op->kind == ORDER)
        fprintf(stderr, ", key %s", op->key);
    if (op->kind == RESTOCK)
        fprintf(stderr, ", add %" PRId64, op->count);
    print_time("sent", op->sent_us);
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
            ", key %s",
            row->id, row->shopper, row->voucher, row->key);
    print_time("created", row->created_us);
    print_time("ended", row->end_us);
    fprintf(stderr, "\n");
}

void add_violation(enum rule rule, const struct op *op, const struct row *row,
                   const char *why, ...)
{
    va_list args;

    if (violations[rule]++ >= SHOWN)
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

/* -- sorting -- */

static int compare_ops(const void *a, const void *b)
{
    const struct op *left = a, *right = b;
    int by_shopper = compare(left->shopper, right->shopper);

    return by_shopper != 0 ? by_shopper : compare(left->sent_us, right->sent_us);
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

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    int by_shopper = compare(left->shopper, right->shopper);

    return by_shopper != 0 ? by_shopper : compare(left->voucher, right->voucher);
}

/* -- main -- */

/* Checks each shopper that has a request, a row or an entry. The admin has the number 0, and so
   comes first. */
static void check_all(void)
{
    struct op *op = input.ops, *ops_end = input.ops + input.op_count;
    struct row *row = input.rows, *rows_end = input.rows + input.row_count;
    struct entry *entry = input.entries, *entries_end = entry + input.entry_count;

    while (op < ops_end || row < rows_end || entry < entries_end) {
        struct shopper shopper = {.ops = op, .rows = row, .entries = entry};
        int64_t id = op < ops_end ? op->shopper : NEVER;

        if (row < rows_end && row->shopper < id)
            id = row->shopper;
        if (entry < entries_end && entry->shopper < id)
            id = entry->shopper;
        while (op < ops_end && op->shopper == id)
            op++;
        while (row < rows_end && row->shopper == id)
            row++;
        while (entry < entries_end && entry->shopper == id)
            entry++;
        shopper.ops_end = op;
        shopper.rows_end = row;
        shopper.entries_end = entry;
        check_shopper(&shopper);
    }
    for (op = input.ops; op < ops_end && op->shopper == 0; op++)
        ;
    check_restocks(&(struct shopper){.ops = input.ops, .ops_end = op});
    check_draws();
}

void sort(void *array, size_t count, size_t size, int (*by)(const void *, const void *))
{
    if (count > 0)
        qsort(array, count, size, by);
}

static void sort_input(void)
{
    int64_t slowest_us = 0;

    sort(input.rows, input.row_count, sizeof(*input.rows), compare_rows);
    sort(input.ops, input.op_count, sizeof(*input.ops), compare_ops);
    sort(input.entries, input.entry_count, sizeof(*input.entries), compare_entries);
    start_us = NEVER;
    for (size_t i = 0; i < input.op_count; i++) {
        const struct op *op = &input.ops[i];

        if (op->sent_us < start_us)
            start_us = op->sent_us;
        if (op->answered_us != NEVER && op->answered_us - op->sent_us > slowest_us)
            slowest_us = op->answered_us - op->sent_us;
    }
    commit_us = ON_SALE_US + slowest_us;
}

static bool print_result(void)
{
    size_t answers[ANSWER_COUNT] = {0};
    bool passed = true;

    for (size_t i = 0; i < input.op_count; i++)
        answers[input.ops[i].answer]++;
    for (int i = 0; i < ANSWER_COUNT; i++)
        printf("answer %s %zu\n", answer_names[i], answers[i]);
    for (int i = 0; i < RULE_COUNT; i++) {
        printf("rule %s %zu %zu\n", rule_names[i], checked[i], violations[i]);
        passed = passed && violations[i] == 0;
        if (violations[i] > SHOWN)
            fprintf(stderr, "  %s: and %zu more\n", rule_names[i], violations[i] - SHOWN);
    }
    return passed;
}

int main(int argc, char **argv)
{
    int first = 1;

    if (argc > 1 && strcmp(argv[1], "--faults") == 0) {
        had_faults = true;
        first = 2;
    }
    if (argc < first + 2) {
        fprintf(stderr, "usage: check [--faults] TABLE HISTORY...\n");
        return 2;
    }
    read_table(argv[first]);
    for (int i = first + 1; i < argc; i++)
        read_history(argv[i]);
    violations[ANSWERS] = input.unmatched_count;
    sort_input();
    replay_vouchers();
    check_all();
    return print_result() ? 0 : 1;
}
