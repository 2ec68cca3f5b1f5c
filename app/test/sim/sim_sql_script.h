/*
 * sim_sql_script.h - compares the model in sim_sql.c with the functions in sql/.
 *
 * The program prints random statements in SQL, each with the result of the model. compare_sql.py
 * runs the statements in a real Postgres and compares the results.
 */
#ifndef SIM_SQL_SCRIPT_H
#define SIM_SQL_SCRIPT_H

#include <stdint.h>

void sim_sql_script_print(uint64_t seed, uint64_t count);

#endif
