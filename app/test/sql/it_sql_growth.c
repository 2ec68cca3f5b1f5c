/* it_sql_growth.c - runs the scripts that measure calls and queries with large tables. */
#include "app/test/sql/script.h"

int main(void)
{
    static const char *const scripts[] = {
        SCRIPTS "plans.sql",
        SCRIPTS "growth.sql",
    };

    return run_scripts(scripts, COUNT_OF(scripts));
}
