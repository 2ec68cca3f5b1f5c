/*
 * check.h - the data of the checker: all requests with their answers, and all rows.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEVER      INT64_MAX
#define WORD_BYTES 128 /* of the longest key */

enum kind { ORDER, CANCEL, RESTOCK };

/* UNKNOWN: the request may have had an effect. NOT_DONE: the answer says that it had no effect. */
#define ANSWERS(X)                                                                       \
    X(UNKNOWN)                                                                           \
    X(PLACED)                                                                            \
    X(REPEATED)                                                                          \
    X(ENTERED)                                                                           \
    X(DONE)                                                                              \
    X(SOLD_OUT)                                                                          \
    X(ALREADY_ORDERED)                                                                   \
    X(IN_PROGRESS)                                                                       \
    X(NOT_STARTED)                                                                       \
    X(SALE_ENDED)                                                                        \
    X(WRONG_STATE)                                                                       \
    X(NOT_DONE)                                                                          \
    X(OTHER)

enum answer {
#define X(name) name,
    ANSWERS(X)
#undef X
        ANSWER_COUNT
};

struct op {
    int64_t shopper, voucher;
    int64_t order; /* the order in the answer, or 0; for CANCEL: the order to cancel */
    int64_t sent_us;
    int64_t answered_us; /* NEVER: there is no answer */
    int64_t count;
    char key[WORD_BYTES]; /* of ORDER; "-": none */
    const char *file;
    uint32_t line;
    uint16_t status;
    enum kind kind;
    enum answer answer;
    bool is_used; /* whether the request already explains a row or an event */
};

struct row {
    int64_t voucher, id, shopper, created_us;
    char key[WORD_BYTES]; /* "-": none */
    int64_t end_id;
    int64_t end_us;
    int64_t ended_by_us;     /* the time at which the end was visible at the latest */
    int64_t acknowledged_us; /* time of the first 201 or 200, or NEVER */
    bool is_acknowledged;    /* by a 201 */
    bool is_end_acknowledged;
};

/** A shopper's entry in a lottery. */
struct entry {
    int64_t voucher, shopper;
    bool has_won, has_order;
    bool is_acknowledged; /* by a 202 */
};

enum event_kind { PLACEMENT, END, STOCK };

/** A change of a voucher's stock. Ids increase in commit order. */
struct event {
    int64_t voucher, id, at_us, change;
    int64_t order;
    struct row *row;
    enum event_kind kind;
};

struct voucher {
    int64_t id, begin_us, end_us, limit, left;
    size_t first_span, span_count; /* the periods without stock, see check_voucher.c */
};

struct input {
    struct op *ops;
    struct row *rows;
    struct event *events;
    struct voucher *vouchers;
    struct entry *entries;
    size_t op_count, row_count, event_count, voucher_count, entry_count;
    /* number of answers to no request, or to an answered request */
    size_t unmatched_count;
};

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
    X(ENTRIES, "entries")                                                                \
    X(DRAW, "draw")                                                                      \
    X(CHANGES, "changes")                                                                \
    X(REQUESTED, "requested")

enum rule {
#define X(name, word) name,
    RULES(X)
#undef X
        RULE_COUNT
};

struct shopper {
    struct op *ops, *ops_end;
    struct row *rows, *rows_end;
    struct entry *entries, *entries_end;
};

extern struct input input;
extern bool had_faults; /* --faults */
extern size_t checked[RULE_COUNT], violations[RULE_COUNT];
/**
 * A commit is visible to all sessions within this time, and returned stock is on sale again. A
 * commit is visible before its answer, so the time includes that of the slowest request.
 */
extern int64_t commit_us;

void read_table(const char *path);
void read_history(const char *path);

/** Make room for one more element. If memory is out, exit with code 2. */
void *grow(void *array, size_t count, size_t size);
void add_event(const struct event *event);

void sort(void *array, size_t count, size_t size, int (*by)(const void *, const void *));

static inline int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/** Count a violation. Print it if only a few violations of the rule were printed. `op` and `row`
 *  may be NULL. */
__attribute__((format(printf, 4, 5))) void add_violation(enum rule rule,
                                                         const struct op *op,
                                                         const struct row *row,
                                                         const char *why, ...);

/** Sort the events of each voucher, and apply them. Called before the functions below. */
void replay_vouchers(void);

const struct voucher *find_voucher(int64_t id);

/** Whether the stock may have been empty at some moment of the request. */
bool was_sold_out(const struct voucher *voucher, const struct op *op);

void check_shopper(const struct shopper *shopper);

/** Return the entry of the shopper, or NULL. */
struct entry *find_entry(const struct shopper *shopper, int64_t voucher);

/** Check a request that was answered by 202. */
void check_entered(const struct shopper *shopper, const struct op *op);

/** Check the order of a shopper who has an entry. */
void check_drawn(struct entry *entry, const struct row *row);

/** Check an entry whose shopper's requests and orders were checked. */
void check_entry(const struct shopper *shopper, const struct entry *entry);

/** Check how many entries of each lottery have won. */
void check_draws(void);

/** @admin  the shopper with number 0, who sent all restock requests */
void check_restocks(const struct shopper *admin);

#endif
