/* sim_postgres_faults.c - the faults of the simulated Postgres. */
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_postgres_impl.h"

#include <inttypes.h>

void sim_postgres_slow(int64_t us, int64_t until_us)
{
    sim_postgres.slow_us = us;
    sim_postgres.slow_until_us = until_us;
}

void sim_postgres_hang(int64_t until_us)
{
    sim_postgres.hung_until_us = until_us;
}

void sim_postgres_crash(int64_t up_us)
{
    sim_postgres.down_until_us = up_us;
    sim_postgres.hung_until_us = 0;
    for (size_t i = 0; i < sim_postgres.backend_count; i++)
        sim_backend_die(sim_postgres.backends[i]);
    sim_sql_crash();
}

static struct sim_backend *random_backend(void)
{
    size_t count = 0;

    for (size_t i = 0; i < sim_postgres.backend_count; i++)
        count += sim_postgres.backends[i]->state != DEAD &&
                 sim_postgres.backends[i]->to_client != NULL;
    for (size_t i = 0, pick = sim_below(count); i < sim_postgres.backend_count; i++) {
        if (sim_postgres.backends[i]->state != DEAD &&
            sim_postgres.backends[i]->to_client != NULL && pick-- == 0)
            return sim_postgres.backends[i];
    }
    return NULL;
}

void sim_postgres_terminate(void)
{
    struct sim_backend *backend = random_backend();

    if (backend == NULL)
        return;
    backend->is_terminated = true;
    if (backend->state != COMMITTING)
        sim_backend_step_in(backend, backend->state, 0);
}

/* The client notices the cut at once. The server process notices it when it reads. */
void sim_postgres_cut(void)
{
    struct sim_backend *backend = random_backend();
    struct sim_request *end;

    if (backend == NULL)
        return;
    SIM_TRACE("postgres: the connection of process %" PRId64 " is cut", backend->pid);
    sim_backend_answer(backend, ANSWER_END);
    end = sim_calloc(sizeof(*end));
    end->kind = REQUEST_END;
    sim_stream_send(&backend->to_server, &end->head);
    if (sim_chance(50))
        sim_stream_hold(&backend->to_server, sim_now_us() + sim_between(0, 200 * MS));
}

void sim_postgres_hold(int64_t until_us)
{
    struct sim_backend *backend = random_backend();

    if (backend == NULL)
        return;
    SIM_TRACE("postgres: the connection of process %" PRId64 " is held", backend->pid);
    sim_stream_hold(sim_chance(50) ? &backend->to_server : backend->to_client, until_us);
}

void sim_postgres_part(unsigned service, int64_t until_us)
{
    bool is_to_server = sim_chance(50);

    for (size_t i = 0; i < sim_postgres.backend_count; i++) {
        struct sim_backend *backend = sim_postgres.backends[i];

        if (backend->service == service && backend->to_client != NULL)
            sim_stream_hold(is_to_server ? &backend->to_server : backend->to_client,
                            until_us);
    }
}

void sim_postgres_run(enum sim_statement_kind kind, size_t voucher, int64_t number)
{
    struct sim_backend *backend = sim_backend_create(0);
    struct sim_request *segment = sim_calloc(sizeof(*segment));
    struct sim_segment_statement *statement = sim_calloc(sizeof(*statement));

    statement->statement.kind = kind;
    statement->statement.voucher = voucher;
    statement->statement.number = number;
    list_init(&segment->statements);
    list_append(&segment->statements, &statement->link);
    backend->state = IDLE;
    backend->is_client_gone = true;
    list_append(&backend->segments, &segment->head.link);
    sim_backend_step_in(backend, IDLE, 0);
}

void sim_postgres_fail(const char *sqlstate, unsigned percent, int64_t until_us)
{
    sim_postgres.sqlstate = sqlstate;
    sim_postgres.fail_percent = percent;
    sim_postgres.failing_until_us = until_us;
}

void sim_postgres_lower(int64_t until_us)
{
    sim_postgres.lowered_us = sim_now_us();
    sim_postgres.lowered_until_us = until_us;
}

void sim_postgres_refuse_shopper(int64_t user_id)
{
    sim_postgres.refused_user_id = user_id;
}

void sim_postgres_lose_notifications(unsigned percent)
{
    sim_postgres.lost_percent = percent;
}

void sim_postgres_end_service(unsigned service)
{
    for (size_t i = 0; i < sim_postgres.backend_count; i++) {
        struct sim_backend *backend = sim_postgres.backends[i];
        struct sim_request *end = sim_calloc(sizeof(*end));

        end->kind = REQUEST_END;
        if (backend->service == service && backend->to_client != NULL)
            sim_stream_send(&backend->to_server, &end->head);
    }
}

void sim_postgres_heal(void)
{
    sim_postgres.slow_until_us = sim_postgres.failing_until_us = 0;
    sim_postgres.refused_user_id = 0;
    if (sim_postgres.down_until_us > sim_now_us())
        sim_postgres.down_until_us = sim_now_us();
    if (sim_postgres_is_lowered())
        sim_postgres.lowered_until_us = sim_now_us();
    if (sim_postgres.hung_until_us > sim_now_us())
        /* The steps that were planned for the end of the hang stay planned. */
        sim_postgres.hung_until_us = sim_now_us();
}
