/* csv.h - the rows of lists as CSV (RFC 4180). */
#ifndef CSV_H
#define CSV_H

#include "app/core/model.h"

#include <stdbool.h>

/* These functions return text that the caller frees; NULL: out of memory.
   @has_head  whether the first row has the names of the columns */

char *csv_print_orders(const struct order_page *page, bool has_head);
char *csv_print_events(const struct event *events, size_t count, bool has_head);

#endif
