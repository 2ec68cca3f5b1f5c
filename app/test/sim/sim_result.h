/*
 * sim_result.h - results and parameters of statements in the binary format of Postgres.
 *
 * struct pg_result is libpq's PGresult. sim_result.c defines the functions that read it. Only one
 * result is built at a time, cell by cell and row by row.
 */
#ifndef SIM_RESULT_H
#define SIM_RESULT_H

#include "app/core/model.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- building -- */

void sim_result_begin(int columns);
void sim_result_null(void);
void sim_result_int(int64_t value, unsigned width_bytes);
void sim_result_time(int64_t unix_us);

void sim_result_array_begin(unsigned width_bytes);
void sim_result_array_int(int64_t value);
void sim_result_array_null(void);
void sim_result_array_end(void);

PGresult *sim_result_end(void);

PGresult *sim_result_of(ExecStatusType status);
PGresult *sim_result_error(const char *sqlstate);

/* -- parameters -- */

#define SIM_PARAMS_MAX 12

struct sim_params {
    int count;
    const char *values[SIM_PARAMS_MAX]; /* NULL: an SQL null */
    int lengths[SIM_PARAMS_MAX];
};

int64_t sim_param_int(const struct sim_params *params, int at);

size_t sim_param_count(const struct sim_params *params, int at);
int64_t sim_param_element(const struct sim_params *params, int at, size_t element);
struct text sim_param_text_element(const struct sim_params *params, int at,
                                   size_t element);

#endif
