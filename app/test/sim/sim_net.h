/*
 * sim_net.h - the simulated network: streams that deliver messages late but in order.
 *
 * A connection has two streams. A loss that TCP would repair is a delay. A loss that TCP cannot
 * repair is a stream that is cut, or that is held until its reader gives up. A message may arrive
 * even after its sender has closed the connection.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_net_options {
    int64_t least_us, most_us;
    unsigned slow_percent; /* percentage of messages that take up to slow_us */
    int64_t slow_us;
};

void sim_net_begin(const struct sim_net_options *options);

/** The head of a message. The message is in memory from sim_alloc(). */
struct sim_message {
    struct rlock_link link;
    int64_t at_us;
};

/** A stream from one end of a connection to the other. Its memory must last until the end of the
 *  schedule. */
struct sim_stream {
    void (*deliver)(void *owner, struct sim_message *message);
    void *owner;
    /* private: */
    struct rlock_link messages;
    int64_t last_us;
    int64_t held_until_us;
    bool is_closed;
};

void sim_stream_init(struct sim_stream *stream,
                     void (*deliver)(void *owner, struct sim_message *message),
                     void *owner);
void sim_stream_send(struct sim_stream *stream, struct sim_message *message);

void sim_stream_hold(struct sim_stream *stream, int64_t until_us);

void sim_stream_close(struct sim_stream *stream);

#endif
