/* store_statements.c - the table of the statements. */
#include "app/store/store_statements.h"

#define NOTHING false, false
#define PROOF   false, true
#define BARRIER true, true

const struct store_statement store_statements[] = {
#define X(word, name, follows) {name, "sql/queries/" name ".sql", follows},
    STORE_STATEMENTS(X)
#undef X
};
