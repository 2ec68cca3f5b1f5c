/* sim_postgres_impl.h - declarations that the files of the simulated Postgres share. */
#ifndef SIM_POSTGRES_IMPL_H
#define SIM_POSTGRES_IMPL_H

#include "app/test/sim/sim_postgres.h"

#define BACKENDS_MAX 2048
#define OUTPUT_MAX   128

enum backend_state { STARTING, IDLE, RUNNING, WAITING, COMMITTING, DEAD };

struct sim_backend {
    struct sim_stream to_server;
    struct sim_stream *to_client;
    unsigned service;
    int64_t pid, start_us;
    enum backend_state state;
    uint64_t step;
    struct rlock_link segments;
    struct sim_request *segment;
    struct rlock_link *statement;
    struct rlock_link row_wait; /* link in rows[].waiting */
    unsigned rows;              /* bit i: the process has locked row i */
    int64_t timeout_us;         /* statement_timeout; 0: none */
    int64_t lock_us;            /* lock_timeout; 0: none */
    int64_t idle_us;            /* idle_session_timeout; 0: none */
    int64_t deadline_us;
    PGresult *result;
    size_t output_count;
    PGresult *output[OUTPUT_MAX];
    struct sim_txn *txn;
    bool is_aborted;
    bool is_flushing; /* the commit makes all earlier commits durable, too */
    bool is_terminated;
    bool is_client_gone;
    bool is_listening;
};

extern struct sim_postgres {
    struct sim_postgres_options options;
    size_t backend_count;
    struct sim_backend *backends[BACKENDS_MAX];
    struct {
        struct sim_backend *owner;
        struct rlock_link waiting;
    } rows[SIM_VOUCHERS_MAX];
    int64_t hung_until_us, down_until_us, slow_until_us, failing_until_us;
    int64_t lowered_us, lowered_until_us;
    int64_t slow_us;
    unsigned fail_percent, lost_percent;
    const char *sqlstate;
    int64_t refused_user_id;
    const struct sim_backend *expiry_leader; /* NULL: none */
} sim_postgres;

struct sim_backend *sim_backend_create(unsigned service);

/** Enter a state for `in_us`. */
void sim_backend_step_in(struct sim_backend *backend, enum backend_state state,
                         int64_t in_us);

void sim_backend_die(struct sim_backend *backend);
void sim_backend_answer(struct sim_backend *backend, enum sim_answer_kind kind);

bool sim_postgres_is_lowered(void);

#endif
