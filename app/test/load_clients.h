/*
 * load_clients.h - many clients at once, in one thread: each connection sends a request,
 * waits for the answer and sends the next request, or all do so in lock step.
 */
#ifndef TEST_LOAD_CLIENTS_H
#define TEST_LOAD_CLIENTS_H

#include "app/test/fixture.h"

struct load_plan {
    struct service *services[FIXTURE_SERVICES_MAX]; /* used in turn; ends with NULL */
    size_t connections;
    size_t requests;   /* in all */
    bool lock_step;    /* all connections send, then all must be answered, and so on */
    bool stop_to_send; /* lock step: the first service is stopped while the clients send,
                         so it receives all requests at once */

    /** Write request `k` (0..requests-1); Returns its length. */
    size_t (*write)(size_t k, char *buf, size_t size, void *arg);
    /** The answer to request `k`; status 0 if the connection was lost or refused. */
    void (*answer)(size_t k, const struct client_reply *reply, void *arg);
    /** Called once when `halfway_at` requests are answered; may be NULL. */
    void (*halfway)(void *arg);
    size_t halfway_at;
    void *arg;
};

/** Returns  how many requests were answered or lost within CLIENT_TIMEOUT_MS. */
size_t load_run(const struct load_plan *plan);

/** The kinds of answers, as indexes of counters. */
enum tally {
    TALLY_PLACED,   /* 201 */
    TALLY_REPEATED, /* 200 */
    TALLY_ALREADY_ORDERED,
    TALLY_IN_PROGRESS,
    TALLY_SOLD_OUT,
    TALLY_UNAVAILABLE, /* 503 unavailable or overloaded */
    TALLY_UNKNOWN,     /* 503 outcome_unknown */
    TALLY_LOST,        /* no answer */
    TALLY_OTHER,
    TALLY_COUNT
};

enum tally tally_of(const struct client_reply *reply);

/** Orders for one voucher by users first..first+count-1, one request each. */
struct order_burst {
    char voucher_id[ID_SIZE];
    int64_t first_user;
    size_t tally[TALLY_COUNT];
    struct fixture *fixture; /* for the callback `halfway` */
    enum tally *each; /* the answer to each request; may be NULL; the caller's memory */
};

/**
 * Compare the answers to a burst of `count` with the rows: each 201 has a row, a refusal has
 * none, no shopper has two rows, and there was no other answer. The voucher must have the limit
 * one, and no order before the burst.
 */
void burst_check(struct fixture *fixture, const struct order_burst *burst, size_t count);

/** load_plan callbacks for a struct order_burst. */
size_t burst_write(size_t k, char *buf, size_t size, void *arg);
void burst_answer(size_t k, const struct client_reply *reply, void *arg);

/**
 * Repeat the requests of a burst whose answer was not "placed"; each must now be placed
 * or already ordered. Changes the tally.
 */
void burst_finish(struct service *service, struct order_burst *burst, size_t count);

#endif
