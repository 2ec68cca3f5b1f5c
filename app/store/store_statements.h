/* store_statements.h - the prepared statements of the store; private to it. */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

#include "app/store/store_conn.h"

enum statement {
    STATEMENT_PLACE,
    STATEMENT_PLACE_EARLY,
    STATEMENT_PLACE_MANY,
    STATEMENT_PLACE_MANY_EARLY,
    STATEMENT_BARRIER,
    STATEMENT_AGE, /* of what a database of lists contains, in s */
    STATEMENT_FIND,
    STATEMENT_RESOLVE,
    STATEMENT_RETIRE,
    STATEMENT_READ_ORDER,
    STATEMENT_PAY_ORDER, /* these four in the order of enum change */
    STATEMENT_CANCEL_ORDER,
    STATEMENT_REFUND_ORDER,
    STATEMENT_REDEEM_ORDER,
    STATEMENT_DUE_BATCHES,
    STATEMENT_EXPIRE_BATCHES,
    STATEMENT_LEAD_EXPIRY,
    STATEMENT_READ_VOUCHER,
    STATEMENT_READ_VOUCHERS,
    STATEMENT_LIST_ORDERS, /* from here to LIST_ENDED: lists, see store_reads.c */
    STATEMENT_VOUCHER_EVENTS,
    STATEMENT_ORDER_EVENTS,
    STATEMENT_LIST_ANY, /* these four in the order of enum voucher_state */
    STATEMENT_LIST_UPCOMING,
    STATEMENT_LIST_OPEN,
    STATEMENT_LIST_ENDED,
    STATEMENT_CREATE_VOUCHER,
    STATEMENT_PATCH_VOUCHER,
    STATEMENT_RESTOCK_VOUCHER,
    STATEMENT_COUNT,
};

/** By enum statement; ends with a NULL name. */
extern const struct store_statement store_statements[STATEMENT_COUNT + 1];

#endif
