/*
 * lines.h - a line of orders for each voucher, and whose turn it is.
 *
 * The lines that could send a batch stand in a ring and take turns, so that a hot
 * voucher's line cannot starve a quiet one. A line with a batch under way stands aside
 * and grows; one in which nobody stands is forgotten.
 */
#ifndef LINES_H
#define LINES_H

#include "app/core/idmap.h"
#include "base/attributes.h"
#include "base/list.h"

struct line {
    struct list items;  /* the user's, first come first served */
    struct list halves; /* the user's: batches cut in two, to be sent before the items */
    int64_t voucher_id;
    bool is_busy; /* set by the user while a batch is under way; then lines_settle() */
    struct list ring; /* of the lines that could send; in none otherwise */
};

struct lines {
    struct idmap map;
    struct list ring;
    struct list free;
};

void lines_init(struct lines *lines);
void lines_clear(struct lines *lines); /* of lines in which nobody stands */

/** The voucher's line, made if there is none; settle it when somebody has joined. NULL:
 *  out of memory. */
MUST_CHECK struct line *lines_get(struct lines *lines, int64_t voucher_id);

/** Put the line where it belongs now: into the ring, aside, or away; then it is gone. */
void lines_settle(struct lines *lines, struct line *line);

/** Whose turn it is, taken out of the ring; NULL: nobody's. */
struct line *lines_next(struct lines *lines);

#endif
