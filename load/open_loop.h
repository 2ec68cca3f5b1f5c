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

/* -- open_loop_schedule.c: when, and what -- */

#define REQUEST_PIECES 6

/** What to ask; borrowed until the next one is made. */
struct request {
    int64_t due_us; /* when it is meant to be sent */
    struct piece {
        const char *bytes;
        size_t len;
    } pieces[REQUEST_PIECES];
};

struct schedule_options {
    double rate_per_s; /* 0: each at once, as soon as a connection is free */
    int64_t start_us, end_us;
    bool is_poisson;        /* else evenly */
    bool reuse_tokens;      /* from the first again, after the last */
    const char *token_path; /* a token a line */
    const char *vouchers;   /* ids with commas; one at random each */
    const char *key_prefix; /* of an Idempotency-Key each; NULL: none */
};

struct schedule;

/** Ends the program with a message when the tokens cannot be read. Never freed. */
struct schedule *schedule_open(const struct schedule_options *options);

/** When the next request is due; INT64_MAX after the last. */
int64_t schedule_next_us(const struct schedule *schedule, int64_t now_us);

/** Take the next one. Ends the program when the tokens have run out. */
void schedule_take(struct schedule *schedule, int64_t now_us,
                   struct request *ret_request);

/* -- open_loop_conn.c: one connection, with one request on its way at most -- */

#define ANSWER_BYTES 4096 /* of its head at most */

enum conn_state { CONN_DOWN, CONN_CONNECTING, CONN_FREE, CONN_BUSY };

struct conn {
    struct list link; /* among the free ones or those that are down */
    enum conn_state state;
    int fd;
    int64_t due_us;  /* of the request on its way */
    size_t received; /* of the answer */
    size_t whole;    /* of its bytes; 0: its head is not complete */
    unsigned status; /* of HTTP, once its head is complete */
    bool is_last;    /* the other side will close after this answer */
    char answer[ANSWER_BYTES + 1];
};

enum conn_progress { CONN_WAITS, CONN_READY, CONN_ANSWERED, CONN_BROKEN };

/** Begin to connect to a port of loopback; `epoll_fd` will tell. False: not now. */
bool conn_open(struct conn *conn, uint16_t port, int epoll_fd);
void conn_close(struct conn *conn);

/** False: the connection is broken. */
bool conn_send(struct conn *conn, const struct request *request);

/** After epoll has told of it: it is free now, has its answer, or is broken. */
enum conn_progress conn_on_event(struct conn *conn, int epoll_fd);

#endif
