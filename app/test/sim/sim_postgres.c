/*
 * sim_postgres.c - the server processes of the simulated Postgres.
 *
 * States of a process: STARTING -> IDLE -> RUNNING (a statement) or WAITING (for a row lock) ->
 * COMMITTING -> IDLE, and DEAD. Each transition gives the process a new number `step`. An event
 * with an older number is ignored. One process may hold the advisory lock of expiry until the
 * process ends.
 */
#include "app/test/sim/sim_postgres_impl.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"

#include <inttypes.h>
#include <string.h>

#define PIDS          100 /* so few that process ids are reused */
#define WAL_WRITER_US 600000

struct sim_postgres sim_postgres;

static void run_statement(struct sim_backend *backend);
static void backend_on_step(void *subject, uint64_t step);

/* -- processes -- */

void sim_backend_step_in(struct sim_backend *backend, enum backend_state state,
                         int64_t in_us)
{
    backend->state = state;
    sim_at(sim_now_us() + in_us, backend_on_step, backend, ++backend->step);
}

static void send_results(struct sim_backend *backend, enum sim_answer_kind kind,
                         size_t count)
{
    struct sim_answer *answer;

    if (backend->to_client == NULL)
        return;
    answer = sim_alloc(sizeof(*answer) + count * sizeof(PGresult *));
    *answer = (struct sim_answer){.kind = kind, .count = count};
    memcpy(answer->results, backend->output, count * sizeof(PGresult *));
    sim_stream_send(backend->to_client, &answer->head);
}

void sim_backend_answer(struct sim_backend *backend, enum sim_answer_kind kind)
{
    send_results(backend, kind, 0);
}

static void flush(struct sim_backend *backend)
{
    send_results(backend, ANSWER_RESULTS, backend->output_count);
    backend->output_count = 0;
}

static void put_result(struct sim_backend *backend, PGresult *result)
{
    if (backend->output_count == OUTPUT_MAX)
        sim_fail("too many results in one segment");
    backend->output[backend->output_count++] = result;
}

static int64_t duration_us(int64_t least_us, int64_t most_us)
{
    if (sim_now_us() < sim_postgres.slow_until_us && sim_chance(60))
        return sim_between(most_us, most_us + sim_postgres.slow_us);
    return sim_between(least_us, most_us);
}

/* -- row locks -- */

static void lock_granted(struct sim_backend *backend);

static void release_rows(struct sim_backend *backend)
{
    unsigned rows = backend->rows;

    backend->rows = 0;
    list_remove(&backend->row_wait);
    for (int row = 0; row < SIM_VOUCHERS_MAX; row++) {
        struct rlock_link *waiting = &sim_postgres.rows[row].waiting;
        struct sim_backend *next;

        if (!(rows >> row & 1))
            continue;
        sim_postgres.rows[row].owner = NULL;
        next = LIST_SHIFT(struct sim_backend, waiting, row_wait);
        if (next != NULL) {
            sim_postgres.rows[row].owner = next;
            next->rows = 1U << row;
            lock_granted(next);
        }
    }
}

static void lock_free_rows(struct sim_backend *backend, unsigned rows)
{
    for (int row = 0; row < SIM_VOUCHERS_MAX; row++) {
        if ((rows >> row & 1) && sim_postgres.rows[row].owner == NULL) {
            sim_postgres.rows[row].owner = backend;
            backend->rows |= 1U << row;
        }
    }
}

static bool lock_row(struct sim_backend *backend, int row)
{
    if (row < 0 || (backend->rows >> row & 1))
        return true;
    if (backend->rows != 0)
        sim_fail("a transaction waits for a second voucher: it can deadlock");
    if (sim_postgres.rows[row].owner == NULL) {
        sim_postgres.rows[row].owner = backend;
        backend->rows = 1U << row;
        return true;
    }
    list_append(&sim_postgres.rows[row].waiting, &backend->row_wait);
    return false;
}

/* -- the end of a process -- */

void sim_backend_die(struct sim_backend *backend)
{
    if (backend->state == DEAD)
        return;
    SIM_TRACE("postgres: process %" PRId64 " of service %u ends", backend->pid,
              backend->service);
    backend->state = DEAD;
    backend->step++;
    release_rows(backend);
    if (sim_postgres.expiry_leader == backend)
        sim_postgres.expiry_leader = NULL;
    sim_stream_close(&backend->to_server);
    if (!backend->is_client_gone)
        sim_backend_answer(backend, ANSWER_END);
}

static bool is_hung(void)
{
    return sim_now_us() < sim_postgres.hung_until_us;
}

/* -- statements -- */

static struct sim_statement *statement_of(const struct sim_backend *backend)
{
    return &list_item(backend->statement, struct sim_segment_statement, link)->statement;
}

static bool is_place(const struct sim_statement *statement)
{
    return statement->kind == SQL_PLACE || statement->kind == SQL_PLACE_MANY;
}

static int users_of(const struct sim_statement *statement)
{
    return statement->kind == SQL_PLACE ? 1 : 3;
}

static bool is_write(const struct sim_statement *statement)
{
    return is_place(statement) || statement->kind >= SQL_EXPIRE_BATCHES;
}

static bool is_client_statement(const struct sim_statement *statement)
{
    return statement->kind < SQL_HOLD;
}

static bool concerns_refused(const struct sim_statement *statement)
{
    int users = users_of(statement);

    for (size_t i = 0;
         is_place(statement) && i < sim_param_count(&statement->params, users); i++) {
        if (sim_param_element(&statement->params, users, i) ==
            sim_postgres.refused_user_id)
            return true;
    }
    return false;
}

static void next_segment(struct sim_backend *backend);

static void abort_transaction(struct sim_backend *backend)
{
    backend->is_aborted = true;
    backend->is_flushing = false;
    sim_sql_end(backend->txn);
    backend->txn = NULL;
    release_rows(backend);
}

static void end_statement(struct sim_backend *backend, PGresult *result)
{
    put_result(backend, result);
    put_result(backend, NULL);
    if (backend->txn != NULL && sim_chance(30))
        flush(backend); /* the rows may arrive before the commit */
    backend->statement = backend->statement->next;
    run_statement(backend);
}

static void fail_statement(struct sim_backend *backend, const char *sqlstate)
{
    SIM_TRACE("postgres: process %" PRId64 ": statement %d fails with %s", backend->pid,
              statement_of(backend)->kind, sqlstate);
    abort_transaction(backend);
    end_statement(backend, sim_result_error(sqlstate));
}

static PGresult *retire(const struct sim_params *params)
{
    int64_t found = 0;

    for (size_t i = 0; i < sim_param_count(params, 0); i++) {
        for (size_t at = 0; at < sim_postgres.backend_count; at++) {
            struct sim_backend *other = sim_postgres.backends[at];

            if (other->state == DEAD || other->pid != sim_param_element(params, 0, i) ||
                other->start_us != sim_param_element(params, 1, i))
                continue;
            found++;
            other->is_terminated = true;
            if (other->state != COMMITTING)
                sim_backend_step_in(other, other->state, sim_between(0, 300));
        }
    }
    sim_result_begin(1);
    sim_result_int(found, 8);
    return sim_result_end();
}

static PGresult *backend_of(const struct sim_backend *backend)
{
    sim_result_begin(1);
    sim_result_int(backend->pid, 8);
    return sim_result_end();
}

int64_t sim_backend_pid(const struct sim_backend *backend)
{
    return backend->pid;
}

static PGresult *settings(struct sim_backend *backend,
                          const struct sim_statement *statement)
{
    backend->timeout_us = statement->number * 1000;
    backend->lock_us = statement->lock_ms * 1000;
    backend->idle_us = statement->idle_ms * 1000;
    sim_result_begin(4);
    sim_result_int(backend->pid, 8);
    sim_result_time(backend->start_us);
    sim_result_int(1, 4);
    sim_result_time(0);
    return sim_result_end();
}

bool sim_postgres_is_lowered(void)
{
    return sim_now_us() < sim_postgres.lowered_until_us;
}

static PGresult *proof(const struct sim_backend *backend)
{
    sim_result_begin(6);
    sim_result_int(sim_postgres_is_lowered() ? DURABILITY_NONE : DURABILITY_LOCAL, 4);
    sim_result_int(0, 4); /* not read-only */
    sim_result_time(sim_postgres_is_lowered() ? sim_postgres.lowered_us
                                              : sim_postgres.lowered_until_us);
    sim_result_int(backend->pid, 8);
    sim_result_int(0, 8); /* cell 0 of 1 */
    sim_result_int(1, 8);
    return sim_result_end();
}

static PGresult *lead_expiry(const struct sim_backend *backend)
{
    if (sim_postgres.expiry_leader == NULL)
        sim_postgres.expiry_leader = backend;
    sim_result_begin(1);
    sim_result_int(sim_postgres.expiry_leader == backend, 8);
    return sim_result_end();
}

static PGresult *probe(void)
{
    sim_result_begin(1);
    sim_result_int(0, 8);
    return sim_result_end();
}

static PGresult *read_statement(struct sim_backend *backend,
                                const struct sim_statement *statement)
{
    switch (statement->kind) {
    case SQL_BACKEND:
        return backend_of(backend);
    case SQL_SETTINGS:
        return settings(backend, statement);
    case SQL_LIMIT:
        backend->timeout_us = statement->number * 1000;
        return sim_result_of(PGRES_COMMAND_OK);
    case SQL_LISTEN:
        backend->is_listening = true;
        return sim_result_of(PGRES_COMMAND_OK);
    case SQL_PREPARE:
        return sim_result_of(PGRES_COMMAND_OK);
    case SQL_RETIRE:
        return retire(&statement->params);
    case SQL_LEAD_EXPIRY:
        return lead_expiry(backend);
    case SQL_BARRIER:
        backend->is_flushing |= !sim_sql_is_flushed();
        return sim_result_of(PGRES_TUPLES_OK);
    case SQL_PROOF:
        return proof(backend);
    case SQL_PROBE:
        return probe();
    default:
        return sim_sql_read(statement);
    }
}

static void count_tries(const struct sim_statement *statement)
{
    const struct sim_params *params = &statement->params;
    int users = users_of(statement);

    for (size_t i = 0; i < sim_param_count(params, users); i++)
        sim_check_tried(sim_param_element(params, users, i),
                        sim_param_element(params, users + 1, i));
}

/* The statement has its locks. Computes the result, which is sent when the duration of the
   statement is over. */
static void begin_running(struct sim_backend *backend)
{
    const struct sim_statement *statement = statement_of(backend);
    int64_t takes_us =
        duration_us(sim_postgres.options.run_least_us, sim_postgres.options.run_most_us);

    if (is_place(statement))
        count_tries(statement);
    if ((statement->kind == SQL_EXPIRE_BATCHES ||
         statement->kind == SQL_DRAW_LOTTERIES) &&
        backend != sim_postgres.expiry_leader)
        sim_fail("service %u expires orders without the lock", backend->service);
    if (is_write(statement)) {
        backend->txn = sim_calloc(sizeof(*backend->txn));
        backend->txn->service = backend->service;
        lock_free_rows(backend, sim_sql_rows_if_free(statement));
        backend->txn->rows = backend->rows;
        backend->is_flushing = !statement->is_early;
        backend->result = sim_sql_write(statement, backend->txn);
    } else {
        backend->result = read_statement(backend, statement);
    }
    if (statement->kind == SQL_HOLD)
        takes_us = statement->number;
    if (sim_now_us() + takes_us > backend->deadline_us)
        takes_us = backend->deadline_us - sim_now_us();
    sim_backend_step_in(backend, RUNNING, takes_us);
}

static void lock_granted(struct sim_backend *backend)
{
    begin_running(backend);
}

static const char *injected_error(const struct sim_statement *statement)
{
    if (!is_client_statement(statement) || !is_write(statement))
        return NULL;
    if (sim_postgres.refused_user_id != 0 && concerns_refused(statement))
        return "22003";
    if (sim_now_us() < sim_postgres.failing_until_us &&
        sim_chance(sim_postgres.fail_percent))
        return sim_postgres.sqlstate;
    return NULL;
}

static void commit(struct sim_backend *backend)
{
    int64_t takes_us = 0;

    if (backend->is_flushing)
        takes_us = duration_us(sim_postgres.options.commit_least_us,
                               sim_postgres.options.commit_most_us);
    sim_backend_step_in(backend, COMMITTING, takes_us);
}

static void wait_for_row(struct sim_backend *backend)
{
    int64_t limit_us = backend->timeout_us > 0 ? backend->timeout_us : 3600 * S;

    if (backend->lock_us > 0 && backend->lock_us < limit_us)
        limit_us = backend->lock_us;
    sim_backend_step_in(backend, WAITING, limit_us);
}

static void run_statement(struct sim_backend *backend)
{
    const struct sim_statement *statement;
    const char *error;

    if (backend->is_terminated) {
        sim_backend_die(backend);
        return;
    }
    if (backend->statement == &backend->segment->statements) {
        commit(backend);
        return;
    }
    if (backend->is_aborted) {
        end_statement(backend, sim_result_of(PGRES_PIPELINE_ABORTED));
        return;
    }
    statement = statement_of(backend);
    backend->deadline_us = INT64_MAX;
    if (backend->timeout_us > 0)
        backend->deadline_us = sim_now_us() + backend->timeout_us;
    error = injected_error(statement);
    if (error != NULL && is_place(statement))
        count_tries(statement);
    if (statement->kind <= SQL_PREPARE)
        end_statement(backend, read_statement(backend, statement));
    else if (error != NULL)
        fail_statement(backend, error);
    else if (lock_row(backend, sim_sql_row(statement)))
        begin_running(backend);
    else
        wait_for_row(backend);
}

/* -- commit -- */

static void notify(int64_t voucher_id)
{
    for (size_t i = 0; i < sim_postgres.backend_count; i++) {
        struct sim_backend *backend = sim_postgres.backends[i];
        struct sim_answer *answer;

        if (backend->state == DEAD || !backend->is_listening ||
            sim_chance(sim_postgres.lost_percent))
            continue;
        answer = sim_calloc(sizeof(*answer));
        answer->kind = ANSWER_NOTIFY;
        answer->voucher_id = voucher_id;
        sim_stream_send(backend->to_client, &answer->head);
    }
}

/* The WAL writer flushes the WAL from time to time, even if no commit waits for it. */
static void wal_writer(void *subject UNUSED, uint64_t step UNUSED)
{
    if (!is_hung() && !sim_postgres_is_lowered())
        sim_sql_flush();
}

static void apply(struct sim_backend *backend)
{
    struct sim_txn *txn = backend->txn;

    backend->txn = NULL;
    if (txn != NULL) {
        SIM_TRACE("postgres: process %" PRId64 " of service %u commits: voucher %" PRId64
                  " has %" PRId64 " left, %zu orders placed, %zu moved",
                  backend->pid, backend->service, txn->voucher.id,
                  txn->voucher.stock_left, txn->insert_count, txn->move_count);
        sim_sql_commit(txn);
        if (txn->notifies)
            notify(txn->voucher.id);
        sim_sql_end(txn);
    }
    if (backend->is_flushing && !sim_postgres_is_lowered())
        sim_sql_flush();
    else if (txn != NULL)
        sim_at(sim_now_us() + sim_between(0, WAL_WRITER_US), wal_writer, NULL, 0);
    if (txn != NULL && sim_postgres_is_lowered() && sim_chance(30))
        /* The level is restored before the proof is read. */
        sim_postgres.lowered_until_us = sim_now_us();
    backend->is_flushing = false;
    release_rows(backend);
}

static void end_segment(struct sim_backend *backend)
{
    apply(backend);
    put_result(backend, sim_result_of(PGRES_PIPELINE_SYNC));
    flush(backend);
    LIST_DRAIN(struct sim_segment_statement, statement, &backend->segment->statements,
               link)
        sim_free(statement);
    sim_free(backend->segment);
    backend->segment = NULL;
    backend->is_aborted = false;
    backend->state = IDLE;
    if (backend->is_terminated || (backend->is_client_gone && sim_chance(50)))
        sim_backend_die(backend);
    else
        next_segment(backend);
}

static void next_segment(struct sim_backend *backend)
{
    backend->segment = LIST_SHIFT(struct sim_request, &backend->segments, head.link);
    if (backend->segment == NULL) {
        if (backend->is_client_gone)
            sim_backend_die(backend);
        else if (backend->idle_us > 0)
            sim_backend_step_in(backend, IDLE, backend->idle_us);
        return;
    }
    backend->statement = backend->segment->statements.next;
    run_statement(backend);
}

static void backend_on_step(void *subject, uint64_t step)
{
    struct sim_backend *backend = subject;

    if (step != backend->step || backend->state == DEAD)
        return;
    if (is_hung()) {
        sim_backend_step_in(backend, backend->state,
                            sim_postgres.hung_until_us - sim_now_us());
        return;
    }
    if (backend->is_terminated && backend->state != COMMITTING) {
        sim_backend_die(backend);
        return;
    }
    switch (backend->state) {
    case STARTING:
        backend->state = IDLE;
        sim_backend_answer(backend, ANSWER_READY);
        break;
    case IDLE:
        if (list_is_empty(&backend->segments))
            sim_backend_die(backend);
        else
            next_segment(backend);
        break;
    case WAITING:
        fail_statement(backend, sim_now_us() < backend->deadline_us ? "55P03" : "57014");
        break;
    case RUNNING:
        if (sim_now_us() >= backend->deadline_us)
            fail_statement(backend, "57014");
        else
            end_statement(backend, backend->result);
        break;
    case COMMITTING:
        end_segment(backend);
        break;
    case DEAD:
        break;
    }
}

/* -- connections -- */

static bool is_pid_used(int64_t pid)
{
    for (size_t i = 0; i < sim_postgres.backend_count; i++) {
        if (sim_postgres.backends[i]->pid == pid &&
            sim_postgres.backends[i]->state != DEAD)
            return true;
    }
    return false;
}

struct sim_backend *sim_backend_create(unsigned service)
{
    struct sim_backend *backend = sim_calloc(sizeof(*backend));

    if (sim_postgres.backend_count == BACKENDS_MAX)
        sim_fail("too many processes of Postgres");
    backend->service = service;
    backend->pid = sim_between(1, PIDS);
    while (is_pid_used(backend->pid))
        backend->pid++;
    backend->start_us = sim_sql_now_us();
    list_init(&backend->segments);
    list_init(&backend->row_wait);
    sim_postgres.backends[sim_postgres.backend_count++] = backend;
    return backend;
}

static void backend_on_message(void *owner, struct sim_message *message)
{
    struct sim_backend *backend = owner;
    struct sim_request *request = list_item(message, struct sim_request, head);

    switch (request->kind) {
    case REQUEST_BEGIN:
        sim_backend_answer(backend, sim_now_us() < sim_postgres.down_until_us
                                        ? ANSWER_REFUSED
                                        : ANSWER_ACCEPTED);
        break;
    case REQUEST_LOGIN:
        if (sim_now_us() < sim_postgres.down_until_us)
            sim_backend_die(backend);
        else
            sim_backend_step_in(backend, STARTING, 0);
        break;
    case REQUEST_SEGMENT:
        list_append(&backend->segments, &message->link);
        if (backend->state == IDLE)
            sim_backend_step_in(backend, IDLE, 0);
        break;
    case REQUEST_END:
        backend->is_client_gone = true;
        if (backend->state == IDLE || backend->state == STARTING)
            sim_backend_step_in(backend, IDLE, 0);
    }
}

struct sim_backend *sim_backend_open(struct sim_stream *to_client, unsigned service)
{
    struct sim_backend *backend = sim_backend_create(service);

    backend->to_client = to_client;
    sim_stream_init(&backend->to_server, backend_on_message, backend);
    return backend;
}

struct sim_stream *sim_backend_stream(struct sim_backend *backend)
{
    return &backend->to_server;
}

void sim_postgres_begin(const struct sim_postgres_options *options)
{
    memset(&sim_postgres, 0, sizeof(sim_postgres));
    sim_postgres.options = *options;
    for (int i = 0; i < SIM_VOUCHERS_MAX; i++)
        list_init(&sim_postgres.rows[i].waiting);
    sim_sql_begin();
}
