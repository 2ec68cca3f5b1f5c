/*
 * sim_loop.h - a simulated event loop in place of libuv, the clocks and poll().
 *
 * sim_loop.c defines poll(), the functions of base/clock.h and base/random.h, and the functions of
 * libuv that the service calls. If the service calls another function of libuv, the linker fails.
 *
 * A turn of the loop first runs the input that is ready, in random order. Then come the timers that
 * are due, the idle handlers, and `on_turn_end`, which stands for a prepare handle.
 */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct sim_input {
    struct rlock_link link;
    void (*on_ready)(struct sim_input *input);
};

struct sim_loop {
    uv_loop_t uv;
    void (*on_turn_end)(void *arg);
    void *arg;
    /* private: */
    struct rlock_link ready; /* list of sim_input */
    struct rlock_link handles;
    struct rlock_link closing;
    int64_t paused_until_us;
    int64_t turn_at_us;
    uint64_t turn_number;
    uint64_t timer_orders;
    uint64_t now_ms;
    bool is_stopped;
};

void sim_loop_init(struct sim_loop *loop, void (*on_turn_end)(void *arg), void *arg);

struct sim_loop *sim_loop_of(const uv_loop_t *uv);

void sim_loop_ready(struct sim_loop *loop, struct sim_input *input);

void sim_loop_forget(struct sim_input *input);

void sim_loop_wake(struct sim_loop *loop);

void sim_loop_pause(struct sim_loop *loop, int64_t until_us);

void sim_loop_stop(struct sim_loop *loop);

bool sim_loop_is_stopped(const struct sim_loop *loop);

bool sim_loop_is_done(const struct sim_loop *loop);

/** A socket that a uv_poll_t watches. */
struct sim_descriptor {
    struct sim_input input;
    struct sim_loop *loop;
    struct sim_handle *poll;
    int number;
    bool is_readable, is_writable;
};

void sim_descriptor_open(struct sim_descriptor *descriptor, struct sim_loop *loop);
void sim_descriptor_close(struct sim_descriptor *descriptor);

void sim_descriptors_reset(void);

void sim_descriptor_changed(struct sim_descriptor *descriptor);

#endif
