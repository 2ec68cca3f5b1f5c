/* it_sql.c - runs the scripts that test the functions of sql/. */
#include "app/test/sql/script.h"

int main(void)
{
    static const char *const scripts[] = {
        SCRIPTS "audit.sql",   SCRIPTS "place.sql", SCRIPTS "many.sql",
        SCRIPTS "life.sql",    SCRIPTS "cells.sql", SCRIPTS "race.sql",
        SCRIPTS "queries.sql",
    };

    return run_scripts(scripts, COUNT_OF(scripts));
}
