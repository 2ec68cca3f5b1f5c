/*
 * open_loop.h - the parts of the open-loop client.
 *
 * Times are clock_mono_us(). One thread.
 */
#ifndef OPEN_LOOP_H
#define OPEN_LOOP_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- open_loop_schedule.c: the time and the bytes of each request -- */

#define REQUEST_PIECES 6

/** A request; the pieces are valid until the next schedule_take(). */
struct request {
    int64_t due_us; /* the scheduled time */
    struct piece {
        const char *bytes;
        size_t len;
    } pieces[REQUEST_PIECES];
};

struct schedule_options {
    double rate_per_s; /* 0: closed loop, send whenever a connection is free */
    int64_t start_us, end_us;
    bool is_poisson;        /* else evenly spaced */
    bool reuse_tokens;      /* the first token follows the last */
    const char *token_path; /* one token per line */
    const char *vouchers;   /* comma-separated ids; each request takes one at random */
    const char *key_prefix; /* prefix of each Idempotency-Key; NULL: no key */
};

struct schedule;

/** Exits with a message if the tokens cannot be read. The schedule is never freed. */
struct schedule *schedule_open(const struct schedule_options *options);

/** The time of the next request; INT64_MAX after the last one. */
int64_t schedule_next_us(const struct schedule *schedule, int64_t now_us);

/** Take the next request. Exits with a message if no token is left. */
void schedule_take(struct schedule *schedule, int64_t now_us,
                   struct request *ret_request);

/* -- open_loop_conn.c: a connection with at most one request in flight -- */

#define ANSWER_BYTES 4096 /* limit of the header section */

enum conn_state { CONN_DOWN, CONN_CONNECTING, CONN_FREE, CONN_BUSY };

struct conn {
    struct list link; /* in the list of free or of broken connections */
    enum conn_state state;
    int fd;
    int64_t due_us;  /* time at which the request in flight was due */
    size_t received; /* bytes of the answer */
    size_t whole;    /* length of the answer; 0: header section incomplete */
    unsigned status; /* HTTP status, once the header section is complete */
    bool is_last;    /* the server closes the connection after this answer */
    char answer[ANSWER_BYTES + 1];
};

enum conn_progress { CONN_WAITS, CONN_READY, CONN_ANSWERED, CONN_BROKEN };

/** Start to connect to 127.0.0.1; epoll reports the result. False: it failed. */
bool conn_open(struct conn *conn, uint16_t port, int epoll_fd);
void conn_close(struct conn *conn);

/** False: the connection is broken. */
bool conn_send(struct conn *conn, const struct request *request);

/** Handle an event of epoll. */
enum conn_progress conn_on_event(struct conn *conn, int epoll_fd);

#endif
