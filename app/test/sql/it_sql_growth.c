/* it_sql_growth.c - runs the scripts that measure calls and queries with large tables. */
#include "app/test/sql/script.h"

int main(void)
{
    static const char *const names[] = {"plans", "growth"};

    return run_scripts(names, COUNT_OF(names));
}
