/* it_sql.c - runs the scripts that test sql/. */
#include "app/test/sql/script.h"

int main(void)
{
    static const char *const names[] = {"audit",    "queries", "place",  "many", "life",
                                        "keys",     "lists",   "cells",  "race", "feed",
                                        "webhooks", "erase",   "lottery"};

    return run_scripts(names, COUNT_OF(names));
}
