/*
 * check.h - what the checker knows: all requests with their answers, and all of the
 * table.
 *
 * Everything points into the files, which stay in memory to the end.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEVER INT64_MAX

/* Until when a commit is surely seen; also how long stock may be back before it is sold.
 */
#define COMMIT_US 1000000

struct word {
    const char *bytes;
    size_t len;
};

enum kind { ORDER, CANCEL, RESTOCK };

/* UNKNOWN: it may have been done or not. NOT_DONE: the answer says that it was not. */
#define ANSWERS(X)                                                                       \
    X(UNKNOWN)                                                                           \
    X(PLACED)                                                                            \
    X(REPEATED)                                                                          \
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

/** A request, and what was answered. */
struct op {
    int64_t shopper, voucher;
    int64_t order; /* of the answer, or 0; of a cancel: the one to be cancelled */
    int64_t sent_us;
    int64_t answered_us; /* NEVER: it was not */
    struct word arg;     /* the key, "-" for none; the count of a restock */
    const char *file;
    uint32_t line;
    uint16_t status;
    uint8_t kind, answer;
    bool is_used; /* it accounts for a row or an event already */
};

/** A row of voucher_order, the end of its life included. */
struct row {
    int64_t voucher, id, shopper, created_us;
    struct word key; /* "-": none */
    int64_t end_id;  /* of the event that ended it, or NEVER */
    int64_t end_us;
    int64_t ended_by_us; /* by then the end was surely visible */
    int64_t acknowledged_us;     /* when a shopper was first told of it, or NEVER */
    bool is_acknowledged; /* by a 201 */
    bool is_end_acknowledged;
};

enum event_kind { PLACEMENT, END, STOCK };

/** What happened to a voucher's stock; in order of ids, which is that of the commits. */
struct event {
    int64_t voucher, id, at_us, change;
    int64_t order; /* END: of which */
    struct row *row;
    enum event_kind kind;
};

struct voucher {
    int64_t id, begin_us, end_us, limit, left;
    size_t first_span, span_count; /* of no stock */
};

struct input {
    struct op *ops;
    struct row *rows;
    struct event *events;
    struct voucher *vouchers;
    size_t op_count, row_count, event_count, voucher_count;
    size_t line_count;
    size_t stray_count; /* answers without a request, or a second one for it */
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
    X(CHANGES, "changes")                                                                \
    X(REQUESTED, "requested")

enum rule {
#define X(name, word) name,
    RULES(X)
#undef X
        RULE_COUNT
};

/** All requests of one shopper, in order of time, and all rows. */
struct shopper {
    struct op *ops, *ops_end;
    struct row *rows, *rows_end;
};

/** What this one program is about. */
extern struct input input;
extern bool had_faults; /* something was killed: answers may say that they do not know */
extern size_t checked[RULE_COUNT], violations[RULE_COUNT]; /* how often, each rule */

/** Read a file, or end the program with exit code 2 and say why. */
void read_table(const char *path);
void read_history(const char *path);

/** Room for one more element; ends the program when there is no memory. */
void *grow(void *array, size_t count, size_t size);

/** As qsort(), which wants an array even for no elements. */
void sort(void *array, size_t count, size_t size, int (*by)(const void *, const void *));

static inline int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

bool is_same(struct word a, struct word b);

/** Count an offence, and show it if it is among the first. `op` and `row` may be NULL. */
__attribute__((format(printf, 4, 5))) void
add_violation(enum rule rule, const struct op *op, const struct row *row, const char *why, ...);

/** Put the events of each voucher in order and let them happen; before all below. */
void replay_vouchers(void);

/** NULL: there is none. */
const struct voucher *find_voucher(int64_t id);

/** Was there no stock at a moment of the request, as far as one may know? */
bool was_sold_out(const struct voucher *voucher, const struct op *op);

void check_shopper(const struct shopper *shopper);

/** @admin  the one who asks for all restocks */
void check_restocks(const struct shopper *admin);

#endif
