/* sim_loop.c - turns of a loop, timers, idle and poll handles, and the clocks. */
#include "app/test/sim/sim_loop.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"
#include "base/clock.h"
#include "base/random.h"

#include <poll.h>
#include <string.h>

#define DESCRIPTORS_MAX  128
#define DESCRIPTOR_FIRST 1000
#define CORE_WAIT_US     1000
/* the time of clock_real_us() at the simulated time 0 */
#define EPOCH_US (INT64_C(1700000000) * S)

/* The state of a handle of libuv. The member u.reserved[0] of the handle points to this struct. */
struct sim_handle {
    struct rlock_link link;
    uv_handle_t *uv;
    struct sim_loop *loop;
    bool is_active, is_closed;
    uv_timer_cb on_timer;
    uint64_t due_ms, repeat_ms, order;
    uv_idle_cb on_idle;
    uv_poll_cb on_poll;
    int events;
    struct sim_descriptor *descriptor;
    uv_async_cb on_async;
    struct sim_input wake;
    uv_close_cb on_closed;
};

static struct sim_descriptor *descriptors[DESCRIPTORS_MAX];

/* -- clocks and random numbers of the service -- */

int64_t clock_mono_us(void)
{
    return sim_now_us();
}

int64_t clock_real_us(void)
{
    return EPOCH_US + sim_now_us();
}

uint64_t clock_ms_until(int64_t at_us)
{
    return at_us <= sim_now_us() ? 0 : (uint64_t)(at_us - sim_now_us()) / 1000 + 1;
}

bool random_fill(void *ret_bytes, size_t count)
{
    unsigned char *bytes = ret_bytes;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(sim_random() >> 32);
    return true;
}

uint64_t random_u64(void)
{
    return sim_random();
}

/* -- turns -- */

static void plan_turn(struct sim_loop *loop, int64_t at_us);

static struct sim_handle *next_timer(const struct sim_loop *loop)
{
    struct sim_handle *first = NULL;

    LIST_EACH(struct sim_handle, handle, &loop->handles, link) {
        if (handle->is_active && handle->on_timer != NULL &&
            (first == NULL || handle->due_ms < first->due_ms ||
             (handle->due_ms == first->due_ms && handle->order < first->order)))
            first = handle;
    }
    return first;
}

static void run_input(struct sim_loop *loop)
{
    struct rlock_link ready;
    size_t count = 0;

    list_init(&ready);
    list_append_all(&ready, &loop->ready);
    for (struct rlock_link *link = ready.next; link != &ready; link = link->next)
        count++;
    for (; !list_is_empty(&ready); count--) {
        struct rlock_link *link = ready.next;
        struct sim_input *input;

        for (uint64_t skip = sim_below(count); skip > 0 && link->next != &ready; skip--)
            link = link->next;
        input = list_item(link, struct sim_input, link);
        list_remove(&input->link);
        input->on_ready(input);
    }
}

static void run_timers(struct sim_loop *loop)
{
    struct sim_handle *timer;
    uint64_t last = loop->timer_orders;

    while ((timer = next_timer(loop)) != NULL && timer->due_ms <= loop->now_ms &&
           timer->order <= last) {
        timer->is_active = timer->repeat_ms > 0;
        timer->due_ms = loop->now_ms + timer->repeat_ms;
        timer->order = ++loop->timer_orders;
        timer->on_timer((uv_timer_t *)timer->uv);
    }
}

/* Runs the idle handlers. Returns whether an idle handler is still active, because the loop must
   then not sleep. */
static bool run_idle(struct sim_loop *loop)
{
    bool is_any = false;

    LIST_EACH_SAFE(struct sim_handle, handle, &loop->handles, link) {
        if (handle->is_active && handle->on_idle != NULL)
            handle->on_idle((uv_idle_t *)handle->uv);
    }
    LIST_EACH(struct sim_handle, handle, &loop->handles, link)
        is_any |= handle->is_active && handle->on_idle != NULL;
    return is_any;
}

static void run_closing(struct sim_loop *loop)
{
    LIST_DRAIN(struct sim_handle, handle, &loop->closing, link) {
        uv_close_cb on_closed = handle->on_closed;
        uv_handle_t *uv = handle->uv;

        sim_free(handle);
        if (on_closed != NULL)
            on_closed(uv);
    }
}

static void loop_on_turn(void *subject, uint64_t number)
{
    struct sim_loop *loop = subject;
    bool is_busy;
    struct sim_handle *timer;

    if (number != loop->turn_number || loop->is_stopped)
        return;
    if (sim_now_us() < loop->paused_until_us) {
        loop->turn_at_us = INT64_MAX;
        plan_turn(loop, loop->paused_until_us);
        return;
    }
    uv_update_time(&loop->uv);
    run_input(loop);
    run_closing(loop);
    run_timers(loop);
    is_busy = run_idle(loop);
    loop->on_turn_end(loop->arg);
    loop->turn_at_us = INT64_MAX;
    if (loop->is_stopped)
        return;
    if (sim_chance(25))
        loop->paused_until_us =
            sim_now_us() + sim_between(0, sim_chance(5) ? CORE_WAIT_US : 40);
    if (is_busy || !list_is_empty(&loop->ready) || !list_is_empty(&loop->closing))
        plan_turn(loop, sim_now_us());
    timer = next_timer(loop);
    if (timer != NULL)
        plan_turn(loop, (int64_t)timer->due_ms * 1000);
}

static void plan_turn(struct sim_loop *loop, int64_t at_us)
{
    if (at_us < loop->paused_until_us)
        at_us = loop->paused_until_us;
    if (loop->is_stopped || at_us >= loop->turn_at_us)
        return;
    loop->turn_at_us = at_us;
    sim_at(at_us, loop_on_turn, loop, ++loop->turn_number);
}

void sim_loop_init(struct sim_loop *loop, void (*on_turn_end)(void *arg), void *arg)
{
    memset(loop, 0, sizeof(*loop));
    loop->uv.data = loop;
    loop->on_turn_end = on_turn_end;
    loop->arg = arg;
    list_init(&loop->ready);
    list_init(&loop->handles);
    list_init(&loop->closing);
    loop->turn_at_us = INT64_MAX;
    uv_update_time(&loop->uv);
    plan_turn(loop, sim_now_us());
}

struct sim_loop *sim_loop_of(const uv_loop_t *uv)
{
    return uv->data;
}

void sim_loop_ready(struct sim_loop *loop, struct sim_input *input)
{
    if (loop->is_stopped || !list_is_empty(&input->link))
        return;
    list_append(&loop->ready, &input->link);
    plan_turn(loop, sim_now_us());
}

void sim_loop_forget(struct sim_input *input)
{
    list_remove(&input->link);
}

void sim_loop_wake(struct sim_loop *loop)
{
    plan_turn(loop, sim_now_us());
}

void sim_loop_pause(struct sim_loop *loop, int64_t until_us)
{
    if (until_us > loop->paused_until_us)
        loop->paused_until_us = until_us;
}

void sim_loop_stop(struct sim_loop *loop)
{
    loop->is_stopped = true;
}

bool sim_loop_is_stopped(const struct sim_loop *loop)
{
    return loop->is_stopped;
}

bool sim_loop_is_done(const struct sim_loop *loop)
{
    return list_is_empty(&loop->handles) && list_is_empty(&loop->closing);
}

/* -- descriptors -- */

static void descriptor_on_ready(struct sim_input *input)
{
    struct sim_descriptor *descriptor = list_item(input, struct sim_descriptor, input);
    struct sim_handle *poll = descriptor->poll;
    int events = (descriptor->is_readable ? UV_READABLE : 0) |
                 (descriptor->is_writable ? UV_WRITABLE : 0);

    if (poll == NULL || !poll->is_active || (events & poll->events) == 0)
        return;
    poll->on_poll((uv_poll_t *)poll->uv, 0, events & poll->events);
}

void sim_descriptor_open(struct sim_descriptor *descriptor, struct sim_loop *loop)
{
    int at = 0;

    while (at < DESCRIPTORS_MAX && descriptors[at] != NULL)
        at++;
    if (at == DESCRIPTORS_MAX)
        sim_fail("too many descriptors are open");
    descriptors[at] = descriptor;
    descriptor->number = DESCRIPTOR_FIRST + at;
    descriptor->loop = loop;
    descriptor->input.on_ready = descriptor_on_ready;
    list_init(&descriptor->input.link);
}

void sim_descriptor_close(struct sim_descriptor *descriptor)
{
    if (descriptor->poll != NULL && descriptor->poll->is_active)
        sim_fail("a descriptor is closed while it is polled");
    if (descriptor->poll != NULL)
        descriptor->poll->descriptor = NULL;
    sim_loop_forget(&descriptor->input);
    descriptors[descriptor->number - DESCRIPTOR_FIRST] = NULL;
}

void sim_descriptor_changed(struct sim_descriptor *descriptor)
{
    const struct sim_handle *poll = descriptor->poll;

    if (poll != NULL && poll->is_active &&
        ((descriptor->is_readable && (poll->events & UV_READABLE)) ||
         (descriptor->is_writable && (poll->events & UV_WRITABLE))))
        sim_loop_ready(descriptor->loop, &descriptor->input);
}

void sim_descriptors_reset(void)
{
    memset(descriptors, 0, sizeof(descriptors));
}

/* -- libuv -- */

static struct sim_handle *inside(const uv_handle_t *uv)
{
    return uv->u.reserved[0];
}

static struct sim_handle *handle_init(uv_loop_t *uv_loop, uv_handle_t *uv)
{
    struct sim_loop *loop = sim_loop_of(uv_loop);
    struct sim_handle *handle = sim_calloc(sizeof(*handle));

    handle->uv = uv;
    handle->loop = loop;
    list_init(&handle->wake.link);
    uv->loop = uv_loop;
    uv->u.reserved[0] = handle;
    list_append(&loop->handles, &handle->link);
    return handle;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    handle_init(loop, (uv_handle_t *)timer);
    return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout_ms,
                   uint64_t repeat_ms)
{
    struct sim_handle *handle = inside((uv_handle_t *)timer);
    struct sim_loop *loop = handle->loop;

    if (handle->is_closed)
        sim_fail("a timer is started after it was closed");
    handle->is_active = true;
    handle->on_timer = callback;
    handle->due_ms = loop->now_ms + timeout_ms;
    handle->repeat_ms = repeat_ms;
    handle->order = ++loop->timer_orders;
    plan_turn(loop, (int64_t)handle->due_ms * 1000);
    return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
    inside((uv_handle_t *)timer)->is_active = false;
    return 0;
}

int uv_idle_init(uv_loop_t *loop, uv_idle_t *idle)
{
    handle_init(loop, (uv_handle_t *)idle);
    return 0;
}

int uv_idle_start(uv_idle_t *idle, uv_idle_cb callback)
{
    struct sim_handle *handle = inside((uv_handle_t *)idle);

    handle->is_active = true;
    handle->on_idle = callback;
    sim_loop_wake(handle->loop);
    return 0;
}

int uv_idle_stop(uv_idle_t *idle)
{
    inside((uv_handle_t *)idle)->is_active = false;
    return 0;
}

static void handle_on_wake(struct sim_input *wake)
{
    struct sim_handle *handle = list_item(wake, struct sim_handle, wake);

    handle->on_async((uv_async_t *)handle->uv);
}

int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb callback)
{
    struct sim_handle *handle = handle_init(loop, (uv_handle_t *)async);

    handle->on_async = callback;
    handle->wake.on_ready = handle_on_wake;
    return 0;
}

int uv_async_send(uv_async_t *async)
{
    struct sim_handle *handle = inside((uv_handle_t *)async);

    if (handle->is_closed)
        sim_fail("a loop is woken after its handle was closed");
    sim_loop_ready(handle->loop, &handle->wake);
    return 0;
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int number)
{
    struct sim_handle *handle = handle_init(loop, (uv_handle_t *)poll);

    handle->descriptor = descriptors[number - DESCRIPTOR_FIRST];
    handle->descriptor->poll = handle;
    return 0;
}

int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback)
{
    struct sim_handle *handle = inside((uv_handle_t *)poll);

    handle->is_active = true;
    handle->events = events;
    handle->on_poll = callback;
    sim_descriptor_changed(handle->descriptor);
    return 0;
}

int uv_poll_stop(uv_poll_t *poll)
{
    inside((uv_handle_t *)poll)->is_active = false;
    return 0;
}

void uv_close(uv_handle_t *uv, uv_close_cb callback)
{
    struct sim_handle *handle = inside(uv);

    if (handle->is_closed)
        sim_fail("a handle is closed twice");
    handle->is_active = false;
    handle->is_closed = true;
    handle->on_closed = callback;
    if (handle->descriptor != NULL && handle->descriptor->poll == handle)
        handle->descriptor->poll = NULL;
    sim_loop_forget(&handle->wake);
    list_remove(&handle->link);
    list_append(&handle->loop->closing, &handle->link);
    sim_loop_wake(handle->loop);
}

int uv_is_active(const uv_handle_t *uv)
{
    return inside(uv)->is_active;
}

void uv_update_time(uv_loop_t *uv)
{
    sim_loop_of(uv)->now_ms = (uint64_t)sim_now_us() / 1000;
}

int uv_backend_fd(const uv_loop_t *uv)
{
    return (int)(sim_loop_of(uv)->turn_number & 1);
}

/* Whether a loop has input to read. The answer is random, because the service must work in both
   cases. */
int poll(struct pollfd *fds UNUSED, nfds_t nfds UNUSED, int timeout UNUSED)
{
    return sim_chance(20);
}

int uv_ip4_addr(const char *ip UNUSED, int port UNUSED,
                struct sockaddr_in *address UNUSED)
{
    return 0;
}

int uv_ip6_addr(const char *ip UNUSED, int port UNUSED,
                struct sockaddr_in6 *address UNUSED)
{
    return 0;
}

int uv_getaddrinfo(uv_loop_t *loop UNUSED, uv_getaddrinfo_t *request UNUSED,
                   uv_getaddrinfo_cb callback UNUSED, const char *node UNUSED,
                   const char *service UNUSED, const struct addrinfo *hints UNUSED)
{
    return UV_EAI_FAIL;
}

void uv_freeaddrinfo(struct addrinfo *found UNUSED)
{
}

int uv_cancel(uv_req_t *request UNUSED)
{
    return 0;
}

const char *uv_strerror(int error UNUSED)
{
    return "an error of the simulated loop";
}
