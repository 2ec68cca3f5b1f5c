/*
 * sync.c - one loop for many threads that block.
 *
 * A thread that only runs the loop would cost two wake-ups per call, which take longer
 * than Redis takes to reply. So one of the calling threads, the leader, runs the loop for
 * all calls. Other threads put their calls in a list, wake the leader and sleep. A leader
 * whose call is answered passes the lead to a thread that sleeps. When no thread has called
 * for a while, the background thread of the library takes the lead: timers and connections
 * are served between calls, too. It passes the lead to the next caller. While threads call,
 * it wakes when the next timer of the loop is due, to see whether one of them still leads.
 *
 * The mutex protects lists and flags, and is never held while the loop runs. Only the leader
 * touches what belongs to the loop. A thread takes and leaves the lead under the mutex, so what one
 * leader has written is visible to the next leader.
 *
 * Guarantee: every call is answered exactly once, also when the sync is closed. A call that arrives
 * while the clients are being closed returns only when they are closed, because until then the
 * caller's lock may be in a list of a client.
 */
#include "lock/sync.h"
#include "base/process.h"
#include "lock/group_round.h"
#include "lock/internal.h"

#include <signal.h>
#include <stdlib.h>

#define LINGER_NS   5000000 /* the background thread leads after this time without a call */
#define LOOK_MAX_NS 100000000 /* its longest sleep before it looks for calls again */

struct rlock_sync {
    uv_mutex_t mutex;           /* protects the fields before `process` */
    uv_cond_t background_wake;  /* wakes the background thread to end it */
    uv_cond_t idle;             /* signalled when the last thread or client has left */
    struct rlock_link arrived;  /* calls that have not begun */
    struct rlock_link sleeping; /* calls of sleeping threads; each could lead */
    uint64_t left_ns;           /* when the last leader left */
    uint64_t due_ns;            /* when the background thread must look: the next timer */
    uint64_t look_ns;           /* when the background thread will look */
    unsigned inside;            /* number of threads in a call */
    uv_thread_t leader;         /* valid if is_led */
    bool is_led;
    uint64_t poll_ns; /* how long a thread with a call polls before it sleeps */
    bool is_closing;  /* no call begins any more, and the background thread ends */
    bool is_closed;

    unsigned process; /* the process that started the sync */
    uv_loop_t loop;   /* only the leader uses the fields from here on */
    uv_async_t wake;
    bool has_event; /* since the leader looked: a call has arrived or was answered */
    struct rlock_link clients;       /* struct opened */
    struct rlock_link groups;        /* struct rlock_group */
    struct rlock_sync_call *closing; /* the call that closes the sync, or NULL */
    uv_thread_t background;
};

struct opened {
    struct rlock_link link;
    struct rlock_sync *sync;
    struct rlock_client *client;     /* NULL: closed */
    struct rlock_sync_call *opening; /* the call that opens the client, or NULL */
    struct rlock_sync_call *closing; /* the call that closes the client, or NULL */
    bool is_closing;
    uv_timer_t timer;
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    void *arg;
};

/* -- leading -- */

static void flush(struct rlock_sync *sync)
{
    /* Clients flush by themselves when they close, and may be freed already. */
    if (sync->closing != NULL)
        return;
    LIST_EACH(struct opened, opened, &sync->clients, link) {
        if (opened->client != NULL)
            rlock_flush(opened->client);
    }
}

/** Begin the calls that have arrived. The mutex is held on entry and on return, but not in
 *  between. */
static void begin_arrived(struct rlock_sync *sync)
{
    struct rlock_link begun;

    list_init(&begun);
    list_append_all(&begun, &sync->arrived);
    uv_mutex_unlock(&sync->mutex);
    LIST_DRAIN(struct rlock_sync_call, call, &begun, link)
        call->begin(call);
    flush(sync);
    uv_mutex_lock(&sync->mutex);
}

/** Whether the leader must go on. A caller leads until its `call` is answered. The background
 *  thread has no call, and leads until another thread calls. */
static bool must_lead(const struct rlock_sync *sync, const struct rlock_sync_call *call)
{
    if (call != NULL)
        return !call->is_answered;
    return list_is_empty(&sync->sleeping) && !sync->is_closing;
}

static uint64_t within(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

/** The leader leaves, and no thread sleeps. Let the background thread look in time for the next
 *  timer of the loop. The mutex is held. */
static void leave_to_background(struct rlock_sync *sync)
{
    int timer_ms = uv_backend_timeout(&sync->loop); /* -1: there is no timer */
    uint64_t timer_ns = timer_ms < 0 ? LOOK_MAX_NS : (uint64_t)timer_ms * 1000000;

    sync->left_ns = uv_hrtime();
    sync->due_ns = sync->left_ns + within(timer_ns, LINGER_NS, LOOK_MAX_NS);
    if (sync->due_ns + LINGER_NS < sync->look_ns) {
        sync->look_ns = sync->due_ns; /* one signal is enough */
        uv_cond_signal(&sync->background_wake);
    }
}

static void sync_on_wake(uv_async_t *wake)
{
    struct rlock_sync *sync = wake->data;

    sync->has_event = true;
}

/** Poll for events for up to `poll_ns`, then sleep until there is one. */
static void run_loop(struct rlock_sync *sync, uint64_t poll_ns)
{
    uint64_t end_ns = uv_hrtime() + poll_ns;

    sync->has_event = false;
    while (!sync->has_event && uv_hrtime() < end_ns)
        uv_run(&sync->loop, UV_RUN_NOWAIT);
    if (!sync->has_event)
        uv_run(&sync->loop, UV_RUN_ONCE);
}

/**
 * Run the loop until `call` is answered; NULL: until another thread calls. The mutex is
 * held on entry and return.
 */
static void lead(struct rlock_sync *sync, struct rlock_sync_call *call)
{
    sync->is_led = true;
    sync->leader = uv_thread_self();
    if (call != NULL)
        list_remove(&call->sleep_link);
    uv_update_time(&sync->loop); /* perhaps no thread has run the loop for a while */
    begin_arrived(sync);
    while (must_lead(sync, call)) {
        uint64_t poll_ns = call == NULL ? 0 : sync->poll_ns;

        uv_mutex_unlock(&sync->mutex);
        run_loop(sync, poll_ns);
        uv_mutex_lock(&sync->mutex);
        begin_arrived(sync);
    }
    sync->is_led = false;
    if (list_is_empty(&sync->sleeping))
        leave_to_background(sync);
    else
        uv_cond_signal(
            &list_item(sync->sleeping.next, struct rlock_sync_call, sleep_link)->wake);
}

/** Begin a call, and sleep or lead until it is answered. The mutex is held. */
static enum rlock_status await(struct rlock_sync *sync, struct rlock_sync_call *call)
{
    uv_cond_init(&call->wake);
    call->is_answered = false;
    if (call->reterr != NULL)
        call->reterr->text[0] = '\0';
    sync->inside++;
    if (sync->is_led && list_is_empty(&sync->arrived))
        uv_async_send(&sync->wake);
    list_append(&sync->arrived, &call->link);
    list_append(&sync->sleeping, &call->sleep_link);
    while (!call->is_answered) {
        if (sync->is_led)
            uv_cond_wait(&call->wake, &sync->mutex);
        else
            lead(sync, call);
    }
    if (--sync->inside == 0 && sync->is_closing)
        uv_cond_broadcast(&sync->idle);
    uv_cond_destroy(&call->wake);
    return call->status;
}

/** Wait until the clients are closed, because the library may use the caller's lock until then.
 *  The mutex is held on entry and on return. */
static void await_closed(struct rlock_sync *sync)
{
    while (!sync->is_closed)
        uv_cond_wait(&sync->idle, &sync->mutex);
}

/** Whether this process is a child after fork(), so that the mutex and the loop are the
 *  parent's. */
static bool is_inherited(const struct rlock_sync *sync)
{
    return sync->process != process_generation();
}

enum rlock_status rlock_sync_run(struct rlock_sync_call *call)
{
    struct rlock_sync *sync = call->sync;
    uv_thread_t self = uv_thread_self();
    enum rlock_status status;

    if (is_inherited(sync))
        return err_set(call->reterr, RLOCK_INVALID,
                       "lock loop: inherited by fork(); start one here");
    uv_mutex_lock(&sync->mutex);
    if (sync->is_led && uv_thread_equal(&sync->leader, &self)) {
        status = err_set(call->reterr, RLOCK_INVALID,
                         "lock loop: called from inside a callback");
    } else if (sync->is_closing) {
        await_closed(sync);
        status = err_set(call->reterr, RLOCK_CANCELLED, "lock loop: closed");
    } else {
        status = await(sync, call);
    }
    uv_mutex_unlock(&sync->mutex);
    return status;
}

/** Set the message of the call, unless its `begin` has already set it. */
static void set_message(struct rlock_sync_call *call, enum rlock_status status)
{
    const char *words = "";

    if (call->reterr == NULL || call->reterr->text[0] != '\0')
        return;
    if (call->client != NULL)
        words = rlock_client_words(call->client, status);
    err_set(call->reterr, status, "%s",
            words[0] == '\0' ? rlock_status_name(status) : words);
}

void rlock_sync_answer(struct rlock_sync_call *call, enum rlock_status status)
{
    struct rlock_sync *sync = call->sync;

    if (status != RLOCK_OK)
        set_message(call, status);
    sync->has_event = true;
    uv_stop(&sync->loop); /* the leader must not poll again if this is its own call */
    uv_mutex_lock(&sync->mutex);
    call->status = status;
    call->is_answered = true;
    list_remove(&call->sleep_link);
    /* This is under the mutex, because `call` may be gone after the unlock. */
    uv_cond_signal(&call->wake);
    uv_mutex_unlock(&sync->mutex);
}

/* -- the background thread -- */

/** Sleep until the time to look. Returns whether no thread leads, and none has led lately. The
 *  mutex is held. */
static bool was_quiet(struct rlock_sync *sync)
{
    uint64_t now_ns = uv_hrtime();

    sync->look_ns = now_ns + LOOK_MAX_NS;
    if (!sync->is_led)
        sync->look_ns = within(sync->due_ns, now_ns + LINGER_NS, now_ns + LOOK_MAX_NS);
    (void)uv_cond_timedwait(&sync->background_wake, &sync->mutex, sync->look_ns - now_ns);
    return !sync->is_led && uv_hrtime() - sync->left_ns >= LINGER_NS;
}

static void sync_run_background(void *arg)
{
    struct rlock_sync *sync = arg;

    uv_mutex_lock(&sync->mutex);
    while (!sync->is_closing) {
        if (was_quiet(sync) && !sync->is_closing)
            lead(sync, NULL);
    }
    uv_mutex_unlock(&sync->mutex);
}

/** Start the background thread with all signals blocked, because signals belong to the program.
 *  Returns a code of libuv. */
static int start_background(struct rlock_sync *sync)
{
    sigset_t all, before;
    int failure;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failure = uv_thread_create(&sync->background, sync_run_background, sync);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

/* -- starting and closing -- */

static void clear_loop(struct rlock_sync *sync)
{
    uv_close((uv_handle_t *)&sync->wake, NULL);
    /* a call of uv_stop() may let uv_run() return early */
    while (uv_loop_close(&sync->loop) == UV_EBUSY)
        uv_run(&sync->loop, UV_RUN_DEFAULT);
}

static void clear_waiting(struct rlock_sync *sync)
{
    uv_cond_destroy(&sync->idle);
    uv_cond_destroy(&sync->background_wake);
    uv_mutex_destroy(&sync->mutex);
}

enum rlock_status rlock_sync_start(struct rlock_sync **ret_sync, struct rlock_err *reterr)
{
    struct rlock_sync *sync = calloc(1, sizeof(*sync));
    int failure;

    if (sync == NULL)
        return err_set(reterr, RLOCK_NO_MEMORY, "lock loop: no memory");
    sync->process = process_generation();
    uv_mutex_init(&sync->mutex);
    uv_cond_init(&sync->background_wake);
    uv_cond_init(&sync->idle);
    list_init(&sync->arrived);
    list_init(&sync->sleeping);
    list_init(&sync->clients);
    list_init(&sync->groups);
    failure = uv_loop_init(&sync->loop);
    if (failure != 0)
        goto out;
    /* The handle ends a poll. This cannot fail: the loop has an async handle already. */
    (void)uv_async_init(&sync->loop, &sync->wake, sync_on_wake);
    sync->wake.data = sync;
    failure = start_background(sync);
    if (failure != 0) {
        clear_loop(sync);
        goto out;
    }
    *ret_sync = sync;
    return RLOCK_OK;
out:
    clear_waiting(sync);
    free(sync);
    return err_set(reterr, RLOCK_IO, "lock loop: %s", uv_strerror(failure));
}

void rlock_sync_poll(struct rlock_sync *sync, uint32_t poll_us)
{
    if (is_inherited(sync))
        return;
    uv_mutex_lock(&sync->mutex);
    sync->poll_ns = (uint64_t)poll_us * 1000;
    uv_mutex_unlock(&sync->mutex);
}

static void sync_on_timer_closed(uv_handle_t *timer)
{
    struct opened *opened = timer->data;
    struct rlock_sync *sync = opened->sync;
    struct rlock_sync_call *closing = opened->closing;

    list_remove(&opened->link);
    free(opened);
    if (closing != NULL)
        rlock_sync_end(closing);
    if (sync->closing != NULL && list_is_empty(&sync->clients))
        rlock_sync_end(sync->closing);
}

static void sync_on_client_closed(void *arg)
{
    struct opened *opened = arg;

    opened->client = NULL;
    uv_close((uv_handle_t *)&opened->timer, sync_on_timer_closed);
}

static void answer_opening(struct opened *opened, enum rlock_status status)
{
    struct rlock_sync_call *opening = opened->opening;

    opened->opening = NULL;
    uv_timer_stop(&opened->timer);
    if (opening != NULL)
        rlock_sync_answer(opening, status);
}

static void close_client(struct opened *opened)
{
    opened->is_closing = true;
    answer_opening(opened, RLOCK_CANCELLED);
    rlock_client_close(opened->client, sync_on_client_closed, opened);
}

static void sync_begin_close(struct rlock_sync_call *call)
{
    struct rlock_sync *sync = call->sync;

    sync->closing = call;
    LIST_DRAIN(struct rlock_group, group, &sync->groups, link)
        rlock_group_free(group);
    if (list_is_empty(&sync->clients))
        rlock_sync_end(call);
    LIST_EACH(struct opened, opened, &sync->clients, link) {
        if (!opened->is_closing)
            close_client(opened);
    }
}

/** Wait until no thread is inside a call any more. All calls must have been answered. The mutex is
 *  held on entry and on return. */
static void await_leaving(struct rlock_sync *sync)
{
    while (sync->inside > 0)
        uv_cond_wait(&sync->idle, &sync->mutex);
    uv_mutex_unlock(&sync->mutex);
    uv_thread_join(&sync->background);
    uv_mutex_lock(&sync->mutex);
    clear_loop(sync);
}

void rlock_sync_close(struct rlock_sync *sync)
{
    struct rlock_sync_call call = {.sync = sync, .begin = sync_begin_close};

    if (sync == NULL || is_inherited(sync))
        return;
    uv_mutex_lock(&sync->mutex);
    if (!sync->is_closing) {
        sync->is_closing = true;
        uv_cond_signal(&sync->background_wake);
        (void)await(sync, &call);
        await_leaving(sync);
        sync->is_closed = true;
        uv_cond_broadcast(&sync->idle);
    }
    await_closed(sync);
    uv_mutex_unlock(&sync->mutex);
}

void rlock_sync_free(struct rlock_sync *sync)
{
    if (sync == NULL || is_inherited(sync))
        return;
    clear_waiting(sync);
    free(sync);
}

/* -- clients and groups -- */

struct open_call {
    struct rlock_sync_call call;
    const struct rlock_client_options *options;
    struct rlock_client *client;
};

static void sync_on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct opened *opened = arg;

    if (is_up)
        answer_opening(opened, RLOCK_OK);
    if (opened->on_state != NULL)
        opened->on_state(is_up, why, opened->arg);
}

static void sync_on_open_timeout(uv_timer_t *timer)
{
    struct opened *opened = timer->data;
    const struct rlock_client *client = opened->client;

    /* If the connection has no error yet, set the message here: the connection reports its
       timeout only after this timer. */
    if (client->why.text[0] == '\0')
        err_set(opened->opening->reterr, RLOCK_DOWN, "connect: no reply within %u ms",
                (unsigned)client->timeout_ms);
    answer_opening(opened, RLOCK_DOWN);
}

static enum rlock_status open_client(struct opened *opened, struct rlock_sync_call *call)
{
    struct open_call *open = list_item(call, struct open_call, call);
    struct rlock_client_options options = {0};
    enum rlock_status status;

    if (open->options != NULL)
        options = *open->options;
    opened->on_state = options.on_state;
    opened->arg = options.arg;
    options.loop = &call->sync->loop;
    options.on_state = sync_on_state;
    options.arg = opened;
    status = rlock_client_open(&options, &opened->client, call->reterr);
    if (status != RLOCK_OK)
        return status;
    open->client = call->client = opened->client;
    uv_timer_init(options.loop, &opened->timer);
    opened->timer.data = opened;
    uv_timer_start(&opened->timer, sync_on_open_timeout, options.timeout_ms, 0);
    return RLOCK_OK;
}

static void sync_begin_open(struct rlock_sync_call *call)
{
    struct opened *opened = calloc(1, sizeof(*opened));
    enum rlock_status status = RLOCK_NO_MEMORY;

    if (opened != NULL) {
        opened->sync = call->sync;
        opened->opening = call;
        status = open_client(opened, call);
    }
    if (status == RLOCK_OK) {
        list_append(&call->sync->clients, &opened->link);
    } else {
        free(opened);
        rlock_sync_answer(call, status);
    }
}

enum rlock_status rlock_sync_open(struct rlock_sync *sync,
                                  const struct rlock_client_options *options,
                                  struct rlock_client **ret_client,
                                  struct rlock_err *reterr)
{
    struct open_call open = {
        .call = {.sync = sync, .begin = sync_begin_open, .reterr = reterr},
        .options = options,
    };
    enum rlock_status status = rlock_sync_run(&open.call);

    if (status == RLOCK_OK || status == RLOCK_DOWN)
        *ret_client = open.client;
    return status;
}

static void sync_begin_close_client(struct rlock_sync_call *call)
{
    const struct rlock_client *client = list_item(call, struct open_call, call)->client;

    LIST_EACH(struct opened, opened, &call->sync->clients, link) {
        if (opened->client == client && !opened->is_closing) {
            opened->closing = call;
            close_client(opened);
            return;
        }
    }
    rlock_sync_end(call);
}

void rlock_sync_close_client(struct rlock_sync *sync, struct rlock_client *client)
{
    struct open_call close = {
        .call = {.sync = sync, .begin = sync_begin_close_client},
        .client = client,
    };

    if (client != NULL)
        (void)rlock_sync_run(&close.call);
}

void rlock_sync_add_group(struct rlock_sync *sync, struct rlock_group *group)
{
    list_append(&sync->groups, &group->link);
}
