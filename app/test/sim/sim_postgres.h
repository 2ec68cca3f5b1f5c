/*
 * sim_postgres.h - a simulated Postgres server: processes, row locks, commits, faults.
 *
 * A segment is what a client sends up to a Sync message. It is one transaction. A server process
 * executes the segments of its connection in order.
 *
 * A process finishes its segment even if the client has gone, so the store terminates the process
 * before it looks up an order. A commit takes time, and is durable and visible at its end.
 * Uncommitted changes are lost with the process or the server.
 */
#ifndef SIM_POSTGRES_H
#define SIM_POSTGRES_H

#include "app/test/sim/sim_net.h"
#include "app/test/sim/sim_sql.h"

/* -- connections, for sim_libpq.c -- */

struct sim_segment_statement {
    struct rlock_link link;
    struct sim_statement statement;
    char bytes[]; /* the parameters */
};

struct sim_request {
    struct sim_message head;
    enum sim_request_kind {
        REQUEST_BEGIN,
        REQUEST_LOGIN,
        REQUEST_SEGMENT,
        REQUEST_END,
    } kind;
    struct rlock_link statements; /* list of sim_segment_statement */
};

struct sim_answer {
    struct sim_message head;
    enum sim_answer_kind {
        ANSWER_ACCEPTED,
        ANSWER_REFUSED,
        ANSWER_READY,
        ANSWER_RESULTS,
        ANSWER_NOTIFY,
        ANSWER_END,
    } kind;
    int64_t voucher_id; /* the voucher of a notification */
    size_t count;
    PGresult *results[];
};

struct sim_backend;

struct sim_backend *sim_backend_open(struct sim_stream *to_client, unsigned service);

struct sim_stream *sim_backend_stream(struct sim_backend *backend);

int64_t sim_backend_pid(const struct sim_backend *backend);

/* -- the server, for the schedule -- */

struct sim_postgres_options {
    int64_t run_least_us, run_most_us;
    /* how long a commit takes if it has changed rows */
    int64_t commit_least_us, commit_most_us;
};

void sim_postgres_begin(const struct sim_postgres_options *options);

void sim_postgres_slow(int64_t us, int64_t until_us);

void sim_postgres_hang(int64_t until_us);

void sim_postgres_crash(int64_t up_us);

/** Each of the next three functions chooses a process at random. The first function terminates the
 *  process, the second cuts the connection of the process, and the third holds all messages in one
 *  direction of the connection. */
void sim_postgres_terminate(void);
void sim_postgres_cut(void);
void sim_postgres_hold(int64_t until_us);

void sim_postgres_part(unsigned service, int64_t until_us);

/** Run a statement in a session of the simulator: lock a row for a time, or change a voucher. */
void sim_postgres_run(enum sim_statement_kind kind, size_t voucher, int64_t number);

void sim_postgres_fail(const char *sqlstate, unsigned percent, int64_t until_us);

void sim_postgres_lower(int64_t until_us);

void sim_postgres_refuse_shopper(int64_t user_id);

void sim_postgres_lose_notifications(unsigned percent);

void sim_postgres_end_service(unsigned service);

void sim_postgres_heal(void);

#endif
