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
 * All times are of one machine's clock: a request was under way from sent_us, taken
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
static int64_t start_us; /* offenders' times are told from here */

/* -- telling -- */

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
    if (op->kind != CANCEL)
        fprintf(stderr, ", %s %.*s", op->kind == ORDER ? "key" : "add", (int)op->arg.len,
                op->arg.bytes);
    print_time("asked", op->sent_us);
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

void add_violation(enum rule rule, const struct op *op, const struct row *row, const char *why,
            ...)
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

/* -- order -- */

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

/* -- all of it -- */

/* Whoever asked or has a row; the admin is number 0 and the first. */
static void check_all(void)
{
    struct op *op = input.ops, *ops_end = input.ops + input.op_count;
    struct row *row = input.rows, *rows_end = input.rows + input.row_count;

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
        check_shopper(&shopper);
    }
    for (op = input.ops; op < ops_end && op->shopper == 0; op++)
        ;
    check_restocks(&(struct shopper){.ops = input.ops, .ops_end = op});
}

void sort(void *array, size_t count, size_t size, int (*by)(const void *, const void *))
{
    if (count > 0)
        qsort(array, count, size, by);
}

static void sort_input(void)
{
    sort(input.rows, input.row_count, sizeof(*input.rows), compare_rows);
    sort(input.ops, input.op_count, sizeof(*input.ops), compare_ops);
    start_us = NEVER;
    for (size_t i = 0; i < input.op_count; i++) {
        if (input.ops[i].sent_us < start_us)
            start_us = input.ops[i].sent_us;
    }
}

static bool print_result(void)
{
    size_t answers[ANSWER_COUNT] = {0};
    bool holds = true;

    for (size_t i = 0; i < input.op_count; i++)
        answers[input.ops[i].answer]++;
    for (int i = 0; i < ANSWER_COUNT; i++)
        printf("answer %s %zu\n", answer_names[i], answers[i]);
    for (int i = 0; i < RULE_COUNT; i++) {
        printf("rule %s %zu %zu\n", rule_names[i], checked[i], violations[i]);
        holds = holds && violations[i] == 0;
        if (violations[i] > SHOWN)
            fprintf(stderr, "  %s: and %zu more\n", rule_names[i], violations[i] - SHOWN);
    }
    printf("lines %zu\n", input.line_count);
    return holds;
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
    violations[ANSWERS] = input.stray_count;
    sort_input();
    replay_vouchers();
    check_all();
    return print_result() ? 0 : 1;
}
