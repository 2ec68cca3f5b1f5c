/* store_statements.c - the table of the statements. */
#include "app/store/store_statements.h"

#define BARRIER    true
#define NO_BARRIER false

const struct store_statement store_statements[] = {
#define X(word, name, barrier) {name, "sql/queries/" name ".sql", barrier},
    STORE_STATEMENTS(X)
#undef X
};
