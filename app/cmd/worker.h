/*
 * worker.h - one event loop on its own thread, with everything it owns: an HTTP server,
 * connections to Redis and Postgres, and a catalogue.
 *
 * The first worker of an instance, the seller, also has the locks and the checkout. The other
 * workers hand their orders over to it. If there are other workers, the seller listens nowhere.
 * Otherwise workers share nothing but the counters, which every worker may read.
 */
#ifndef WORKER_H
#define WORKER_H

#include "app/auth/auth.h"
#include "app/core/config.h"
#include "app/core/metrics.h"

struct worker;

/** The keys of a worker, from calloc(). They can be replaced while the worker runs. */
struct worker_keys {
    struct auth *auth;
    struct http_tls *tls; /* NULL: plain HTTP */
};

struct worker_options {
    const struct config *config;
    struct worker_keys *keys; /* owned by the worker, also when worker_start() fails */
    size_t index;             /* for the log */
    struct handover
        *seller;   /* of the first worker, if this is another worker; otherwise NULL */
    int listen_fd; /* owned by the worker; or HTTP_LISTENS_NOWHERE */
    size_t connections_max;
    size_t listeners_max; /* at most SECKILL_LISTENERS_MAX */
    struct metrics *metrics;
    const struct all_metrics *all_metrics;
};

/**
 * Start the thread. If Redis or Postgres is unavailable, this is no error: the worker keeps trying
 * to connect.
 *
 * @options      copied; what the options point to must outlive the worker
 * @ret_worker   set on RLOCK_OK; to be ended with worker_stop() and worker_join()
 */
MUST_CHECK enum rlock_status worker_start(const struct worker_options *options,
                                          struct worker **ret_worker,
                                          struct rlock_err *reterr);

/** Use these keys from the next turn on. The worker owns the keys. Returns at once. Only one thread
 *  at a time may call this function. */
void worker_set_keys(struct worker *worker, struct worker_keys *keys);

void worker_keys_free(struct worker_keys *keys); /* accepts NULL */

/** Return the handover of a worker. The other workers get the handover of their seller. */
struct handover *worker_handover(const struct worker *worker);

/** Make the loop complete a turn, even without events. Returns at once. Threads: any. */
void worker_wake(struct worker *worker);

/** clock_mono_us() at the end of the last turn; 0: no turn has ended. Threads: any. */
int64_t worker_last_turn_us(const struct worker *worker);

/** Start to drain: accept no more connections, answer the requests in flight, release the
 *  locks, end the thread. The thread of the seller ends after the threads of all other workers.
 *  Returns at once; any thread. */
void worker_stop(struct worker *worker);

void worker_join(struct worker *worker);

#endif
