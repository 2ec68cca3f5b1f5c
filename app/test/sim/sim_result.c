/* sim_result.c - a result is a table of cells. A cell is an offset into the bytes of the result. */
#include "app/test/sim/sim_result.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define CELLS_MAX  1024
#define BYTES_MAX  32768
#define EPOCH_US   INT64_C(946684800000000) /* 2000-01-01 in Unix time */
#define ARRAY_HEAD 20

struct cell {
    unsigned offset;
    int len; /* -1: NULL */
};

struct pg_result {
    ExecStatusType status;
    int rows, columns;
    char sqlstate[6];
    char message[48];
    const struct cell *cells;
    const char *bytes;
};

static struct {
    int columns;
    size_t cell_count, used;
    size_t array_at;
    unsigned array_width, array_count;
    struct cell cells[CELLS_MAX];
    char bytes[BYTES_MAX];
} build;

/* -- building -- */

static void put(const void *bytes, size_t len)
{
    if (build.used + len > BYTES_MAX)
        sim_fail("a result is too large");
    memcpy(build.bytes + build.used, bytes, len);
    build.used += len;
}

static void put_int(int64_t value, unsigned width_bytes)
{
    uint64_t wire = htobe64((uint64_t)value);

    put((const char *)&wire + sizeof(wire) - width_bytes, width_bytes);
}

static void add_cell(size_t offset, int len)
{
    if (build.cell_count == CELLS_MAX)
        sim_fail("a result has too many cells");
    build.cells[build.cell_count++] = (struct cell){(unsigned)offset, len};
}

void sim_result_begin(int columns)
{
    build.columns = columns;
    build.cell_count = build.used = 0;
}

void sim_result_null(void)
{
    add_cell(build.used, -1);
}

void sim_result_int(int64_t value, unsigned width_bytes)
{
    add_cell(build.used, (int)width_bytes);
    put_int(value, width_bytes);
}

void sim_result_time(int64_t unix_us)
{
    sim_result_int(unix_us - EPOCH_US, 8);
}

void sim_result_array_begin(unsigned width_bytes)
{
    static const char head[ARRAY_HEAD];

    build.array_at = build.used;
    build.array_width = width_bytes;
    build.array_count = 0;
    put(head, sizeof(head));
}

void sim_result_array_int(int64_t value)
{
    build.array_count++;
    put_int(build.array_width, 4);
    put_int(value, build.array_width);
}

void sim_result_array_null(void)
{
    build.array_count++;
    put_int(-1, 4);
}

void sim_result_array_end(void)
{
    size_t end = build.used;

    build.used = build.array_at;
    put_int(build.array_count > 0, 4); /* number of dimensions */
    put_int(1, 4);
    put_int(20, 4);
    put_int(build.array_count, 4);
    put_int(1, 4);
    build.used = end;
    add_cell(build.array_at, (int)(end - build.array_at));
}

PGresult *sim_result_end(void)
{
    size_t cells_bytes = build.cell_count * sizeof(struct cell);
    PGresult *result = sim_calloc(sizeof(*result) + cells_bytes + build.used);

    result->status = PGRES_TUPLES_OK;
    result->columns = build.columns;
    result->rows = (int)build.cell_count / build.columns;
    result->cells = (struct cell *)(void *)(result + 1);
    result->bytes = (char *)(result + 1) + cells_bytes;
    memcpy(result + 1, build.cells, cells_bytes);
    memcpy((char *)(result + 1) + cells_bytes, build.bytes, build.used);
    return result;
}

PGresult *sim_result_of(ExecStatusType status)
{
    PGresult *result = sim_calloc(sizeof(*result));

    result->status = status;
    return result;
}

PGresult *sim_result_error(const char *sqlstate)
{
    PGresult *result = sim_result_of(PGRES_FATAL_ERROR);

    snprintf(result->sqlstate, sizeof(result->sqlstate), "%s", sqlstate);
    snprintf(result->message, sizeof(result->message), "simulated error");
    return result;
}

/* -- libpq -- */

ExecStatusType PQresultStatus(const PGresult *result)
{
    return result->status;
}

int PQntuples(const PGresult *result)
{
    return result == NULL ? 0 : result->rows;
}

int PQnfields(const PGresult *result)
{
    return result->columns;
}

static const struct cell *cell_of(const PGresult *result, int row, int column)
{
    if (row >= result->rows || column >= result->columns)
        sim_fail("row %d, column %d of a result of %d rows and %d columns is read", row,
                 column, result->rows, result->columns);
    return &result->cells[row * result->columns + column];
}

char *PQgetvalue(const PGresult *res, int tup_num, int field_num)
{
    return (char *)(uintptr_t)(res->bytes + cell_of(res, tup_num, field_num)->offset);
}

int PQgetlength(const PGresult *res, int tup_num, int field_num)
{
    int len = cell_of(res, tup_num, field_num)->len;

    return len < 0 ? 0 : len;
}

int PQgetisnull(const PGresult *res, int tup_num, int field_num)
{
    return cell_of(res, tup_num, field_num)->len < 0;
}

char *PQresultErrorField(const PGresult *result, int field)
{
    if (field != PG_DIAG_SQLSTATE || result->sqlstate[0] == '\0')
        return NULL;
    return (char *)(uintptr_t)result->sqlstate;
}

char *PQresultErrorMessage(const PGresult *result)
{
    return (char *)(uintptr_t)result->message;
}

void PQclear(PGresult *result)
{
    sim_free(result);
}

/* -- parameters -- */

static int64_t decode(const char *bytes, size_t width_bytes)
{
    uint64_t wire = 0;

    memcpy((char *)&wire + sizeof(wire) - width_bytes, bytes, width_bytes);
    return width_bytes == 4 ? (int32_t)be64toh(wire) : (int64_t)be64toh(wire);
}

int64_t sim_param_int(const struct sim_params *params, int at)
{
    if (params->lengths[at] != 8)
        sim_fail("parameter %d is no bigint", at + 1);
    return decode(params->values[at], 8);
}

size_t sim_param_count(const struct sim_params *params, int at)
{
    return params->values[at] == NULL ? 0 : (size_t)decode(params->values[at] + 12, 4);
}

struct text sim_param_text_element(const struct sim_params *params, int at,
                                   size_t element)
{
    const char *next = params->values[at] + ARRAY_HEAD;
    int64_t len;

    if (element >= sim_param_count(params, at))
        return (struct text){0};
    for (; element > 0; element--) {
        len = decode(next, 4);
        next += 4 + (len < 0 ? 0 : len);
    }
    len = decode(next, 4);
    if (len < 0)
        return (struct text){0};
    return (struct text){next + 4, (size_t)len};
}

int64_t sim_param_element(const struct sim_params *params, int at, size_t element)
{
    struct text bytes = sim_param_text_element(params, at, element);

    return bytes.len == 8 ? decode(bytes.bytes, 8) : 0;
}
