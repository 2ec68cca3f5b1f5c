/*
 * sim_sql_script.h - compares the model in sim_sql.c with the functions in sql/.
 *
 * It prints random statements in SQL, each with the result of the model. compare_sql.py runs them
 * in a real Postgres and compares the results.
 */
#ifndef SIM_SQL_SCRIPT_H
#define SIM_SQL_SCRIPT_H

#include <stdint.h>

/** Print `count` lines: a statement, a tab, the result as psql prints it. */
void sim_sql_script_print(uint64_t seed, uint64_t count);

#endif
