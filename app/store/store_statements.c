/* store_statements.c - the table of the statements. */
#include "app/store/store_statements.h"

const struct store_statement store_statements[] = {
#define X(word, name, follows) {name, "sql/queries/" name ".sql", STORE_##follows},
    STORE_STATEMENTS(X)
#undef X
};
