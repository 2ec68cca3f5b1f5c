/*
 * load_clients.h - many clients at once, in one thread.
 *
 * Each connection sends a request, waits for the answer and sends the next request. In lock step,
 * no connection sends its next request before all connections have their answers.
 */
#ifndef TEST_LOAD_CLIENTS_H
#define TEST_LOAD_CLIENTS_H

#include "app/test/fixture.h"

struct load_plan {
    struct service *services[FIXTURE_SERVICES_MAX]; /* used in turn; ends with NULL */
    size_t connections;
    size_t requests;
    bool lock_step;
    /* only in lock step: stop the first service while the clients send, so that it receives all
       requests at once */
    bool stop_to_send;

    size_t (*write)(size_t k, char *buf, size_t size, void *arg);
    /** Take the answer to request `k`. The status is 0 if the connection was lost or refused. */
    void (*answer)(size_t k, const struct client_reply *reply, void *arg);
    /** Called once, when halfway_at requests are answered; may be NULL. */
    void (*halfway)(void *arg);
    size_t halfway_at;
    void *arg;
};

/** Returns how many requests were answered or lost within CLIENT_TIMEOUT_MS. */
size_t load_run(const struct load_plan *plan);

enum tally {
    TALLY_PLACED,   /* 201, or 202 in a lottery */
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

struct order_burst {
    char voucher_id[ID_SIZE];
    int64_t first_user;
    size_t tally[TALLY_COUNT];
    struct fixture *fixture; /* for the callback `halfway` */
    /* the kind of answer to each request, in memory of the caller; may be NULL */
    enum tally *each;
};

/**
 * Compare the answers to a burst of `count` requests with the rows: each 201 has a row, a refusal
 * has none, no shopper has two rows, and there was no other answer. The voucher must have the limit
 * 1 and no order from before the burst.
 */
void burst_check(struct fixture *fixture, const struct order_burst *burst, size_t count);

size_t burst_write(size_t k, char *buf, size_t size, void *arg);
void burst_answer(size_t k, const struct client_reply *reply, void *arg);

/**
 * Repeat the requests of a burst that were not answered "placed". Each must now be placed or
 * already ordered. Changes the tally.
 */
void burst_finish(struct service *service, struct order_burst *burst, size_t count);

#endif
