/*
 * worker.h - one event loop on one thread, and all that it owns: an HTTP server, the
 * connections to Redis and Postgres, a catalogue, an order line. Workers share nothing
 * but the counters, which each may read of all.
 */
#ifndef WORKER_H
#define WORKER_H

#include "app/auth/auth.h"
#include "app/core/config.h"
#include "app/core/metrics.h"

struct worker;

/** What may be renewed while a worker runs. */
struct worker_keys {
    struct auth *auth;
    struct http_tls *tls; /* NULL: plain HTTP */
};

struct worker_options {
    const struct config *config;
    struct worker_keys keys; /* taken over, also when this fails */
    size_t index;            /* for the log */
    int listen_fd;           /* taken over */
    struct metrics *metrics;
    struct metrics *const *all_metrics;
    size_t all_metrics_count;
};

/**
 * Start the thread. A Redis or Postgres that is away is no error: the worker keeps
 * trying.
 *
 * @options      what it points to outlives the worker
 * @ret_worker   set on STATUS_OK; end with worker_stop() and worker_join()
 */
MUST_CHECK enum status worker_start(const struct worker_options *options,
                                    struct worker **ret_worker, struct err *reterr);

/** Have it use these keys from its next turn on; taken over. Returns at once; any one
 *  thread. False: out of memory, they are the caller's still. */
MUST_CHECK bool worker_renew(struct worker *worker, const struct worker_keys *keys);

void worker_keys_clear(struct worker_keys *keys);

/** Have it turn once, also when nothing happens. Returns at once; any thread. */
void worker_nudge(struct worker *worker);

/** When it last came to the end of a turn, by clock_mono_us(); 0: not yet. Any thread. */
int64_t worker_turned_us(const struct worker *worker);

/** Ask it to drain: take no more connections, answer all that is under way, give back its
 *  locks, end. Returns at once; any thread. */
void worker_stop(struct worker *worker);

/** Wait until it has ended, and free it. */
void worker_join(struct worker *worker);

#endif
