/*
 * sim_postgres.h - a simulated Postgres server: processes, row locks, commits, faults.
 *
 * A server process executes the segments of its connection in order. A segment is what a client
 * sends up to a Sync; it is one transaction. A process goes on with its segment after its client
 * has gone, so the store terminates the process before it looks up an order. A commit takes time,
 * and is durable and visible at its end. Uncommitted changes are lost with the process or the
 * server.
 */
#ifndef SIM_POSTGRES_H
#define SIM_POSTGRES_H

#include "app/test/sim/sim_net.h"
#include "app/test/sim/sim_sql.h"

/* -- connections, for sim_libpq.c -- */

struct sim_segment_statement {
    struct rlock_link link;
    struct sim_statement statement;
    char bytes[]; /* of the parameters */
};

/** From a client. */
struct sim_request {
    struct sim_message head;
    enum sim_request_kind {
        REQUEST_BEGIN,
        REQUEST_LOGIN,
        REQUEST_SEGMENT,
        REQUEST_END,
    } kind;
    struct rlock_link statements; /* sim_segment_statement */
};

/** To a client. */
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
    int64_t voucher_id; /* of a notification */
    size_t count;
    PGresult *results[]; /* NULL: the end of the results of a statement */
};

struct sim_backend;

/** The server's end of a new connection; `to_client` is the client's input. */
struct sim_backend *sim_backend_open(struct sim_stream *to_client, unsigned service);

/** The input of the process. */
struct sim_stream *sim_backend_stream(struct sim_backend *backend);

/* -- the server, for the schedule -- */

struct sim_postgres_options {
    int64_t run_least_us, run_most_us;       /* of a statement */
    int64_t commit_least_us, commit_most_us; /* of a commit that has changed rows */
};

void sim_postgres_begin(const struct sim_postgres_options *options);

/** Statements and commits may take up to `us` until `until_us`. */
void sim_postgres_slow(int64_t us, int64_t until_us);

/** No process goes on before `until_us`. */
void sim_postgres_hang(int64_t until_us);

/** All processes end at once; connections are refused until `up_us`. */
void sim_postgres_crash(int64_t up_us);

/** For a random process: terminate it, cut its connection, or hold one direction of it. */
void sim_postgres_terminate(void);
void sim_postgres_cut(void);
void sim_postgres_hold(int64_t until_us);

/** Hold all messages of a service in one direction, chosen at random, until `until_us`. */
void sim_postgres_part(unsigned service, int64_t until_us);

/** A session of the simulator: hold a row, or change a voucher. */
void sim_postgres_run(enum sim_statement_kind kind, size_t voucher, int64_t number);

/** `percent` of the writing statements fail with `sqlstate` until `until_us`. */
void sim_postgres_fail(const char *sqlstate, unsigned percent, int64_t until_us);

/** Until `until_us` commits do not wait for the disk, and proofs report this. */
void sim_postgres_lower(int64_t until_us);

/** Each row of this shopper is refused. 0: none */
void sim_postgres_refuse_shopper(int64_t user_id);

/** `percent` of the notifications are lost. */
void sim_postgres_lose_notifications(unsigned percent);

/** The process of a service was killed: its connections end. */
void sim_postgres_end_service(unsigned service);

/** End all faults. */
void sim_postgres_heal(void);

#endif
