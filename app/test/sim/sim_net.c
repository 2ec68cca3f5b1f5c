/* sim_net.c - each message has a time of arrival. No message overtakes an earlier message. */
#include "app/test/sim/sim_net.h"

#include "app/test/sim/sim.h"

static struct sim_net_options net;

void sim_net_begin(const struct sim_net_options *options)
{
    net = *options;
}

static int64_t delay_us(void)
{
    if (sim_chance(net.slow_percent))
        return sim_between(net.most_us, net.slow_us);
    return sim_between(net.least_us, net.most_us);
}

void sim_stream_init(struct sim_stream *stream,
                     void (*deliver)(void *owner, struct sim_message *message),
                     void *owner)
{
    *stream = (struct sim_stream){.deliver = deliver, .owner = owner};
    list_init(&stream->messages);
}

static void stream_on_arrival(void *subject, uint64_t number UNUSED)
{
    struct sim_stream *stream = subject;

    while (!stream->is_closed && !list_is_empty(&stream->messages)) {
        struct sim_message *first =
            list_item(stream->messages.next, struct sim_message, link);

        if (first->at_us > sim_now_us())
            return;
        if (stream->held_until_us > sim_now_us()) {
            sim_at(stream->held_until_us, stream_on_arrival, stream, 0);
            return;
        }
        list_remove(&first->link);
        stream->deliver(stream->owner, first);
    }
}

void sim_stream_send(struct sim_stream *stream, struct sim_message *message)
{
    message->at_us = sim_now_us() + delay_us();
    if (message->at_us < stream->last_us)
        message->at_us = stream->last_us;
    stream->last_us = message->at_us;
    list_append(&stream->messages, &message->link);
    sim_at(message->at_us, stream_on_arrival, stream, 0);
}

void sim_stream_hold(struct sim_stream *stream, int64_t until_us)
{
    if (until_us > stream->held_until_us)
        stream->held_until_us = until_us;
}

void sim_stream_close(struct sim_stream *stream)
{
    stream->is_closed = true;
}
