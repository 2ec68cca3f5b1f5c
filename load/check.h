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
    int64_t asked_us;
    int64_t answered_us; /* NEVER: it was not */
    struct word arg;     /* the key, "-" for none; the count of a restock */
    const char *file;
    uint32_t asked_line, answered_line;
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
    int64_t told_us;     /* when a shopper was first told of it, or NEVER */
    bool is_placed_told; /* by a 201 */
    bool is_end_told;
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

struct book {
    struct op *ops;
    struct row *rows;
    struct event *events;
    struct voucher *vouchers;
    size_t op_count, row_count, event_count, voucher_count;
    size_t line_count;
    size_t stray_count; /* answers without a request, or a second one for it */
};

/** Read a file, or end the program with exit code 2 and say why. */
void read_table(struct book *book, const char *path);
void read_history(struct book *book, const char *path);

/** Room for one more element; ends the program when there is no memory. */
void *grow(void *array, size_t count, size_t size);

bool is_same(struct word a, struct word b);

#endif
