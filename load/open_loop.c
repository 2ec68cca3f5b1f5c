/*
 * open_loop.c - an open-loop client: sends orders at a given rate, whether or not earlier
 * ones have been answered.
 *
 *   open_loop port=N rate=PER_SECOND seconds=N connections=N tokens=FILE
 *       vouchers=ID[,ID...] [arrivals=poisson|fixed] [keys=PREFIX] [reuse=yes]
 *       [patience=SECONDS]
 *
 * A closed-loop client waits for an answer before it sends the next request. It
 * therefore sends less when the service is slow and hides the latency that independent
 * clients would have seen ("coordinated omission"). Here the time of each request is
 * decided in advance, and its latency counts from that time, including the wait for a
 * free connection. A request that is not answered `patience` (5 s) after the end counts
 * as unanswered, with the time it has waited as its latency. With rate=0 the client is
 * closed-loop.
 *
 * Line n of FILE is the token of one shopper. Each token is used once; with reuse=yes the
 * first one follows the last. A broken connection is opened again. Its request counts as
 * broken and has no latency.
 *
 * Prints one line of JSON. `late` is the delay of this program itself: from the moment at
 * which a request was due and a connection free until it was sent. `points` are pairs of
 * [us, fraction of the requests that took at most that long], for a chart.
 *
 * The program sleeps at least TICK_US unless an answer arrives, because one wake-up per
 * request would cost more than the request.
 */
#include "load/open_loop.h"
#include "base/clock.h"
#include "load/histogram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#define TICK_US         100
#define RECONNECT_US    100000
#define EVENTS          512
#define CONNECTIONS_MAX 20000

enum answer {
    ANSWER_201,
    ANSWER_200,
    ANSWER_409,
    ANSWER_503,
    ANSWER_OTHER,
    ANSWER_COUNT
};

struct load {
    /* options */
    struct schedule_options options;
    uint16_t port;
    size_t connections;
    int64_t patience_us;
    /* state */
    struct schedule *schedule;
    struct conn *conns;
    struct list free, down;
    int epoll_fd, timer_fd;
    size_t busy;
    int64_t free_since_us; /* since when the oldest free connection is free */
    int64_t reconnect_us;
    int64_t answered_us; /* the last answer */
    /* results */
    uint64_t offered, sent, broken, unanswered;
    uint64_t answers[ANSWER_COUNT];
    struct histogram latency, late;
};

/* -- connections -- */

static void become_free(struct load *load, struct conn *conn, int64_t now_us)
{
    if (list_is_empty(&load->free))
        load->free_since_us = now_us;
    list_append(&load->free, &conn->link);
}

static void become_down(struct load *load, struct conn *conn)
{
    conn_close(conn);
    list_remove(&conn->link);
    list_append(&load->down, &conn->link);
}

static void lose(struct load *load, struct conn *conn)
{
    if (conn->state == CONN_BUSY) {
        load->busy--;
        load->broken++;
    }
    become_down(load, conn);
}

static void reconnect(struct load *load, int64_t now_us)
{
    struct list failed;

    if (list_is_empty(&load->down) || now_us < load->reconnect_us)
        return;
    load->reconnect_us = now_us + RECONNECT_US;
    list_init(&failed);
    LIST_DRAIN(struct conn, conn, &load->down, link) {
        if (!conn_open(conn, load->port, load->epoll_fd))
            list_append(&failed, &conn->link);
    }
    list_append_all(&load->down, &failed);
}

/* -- requests and answers -- */

static void send_due(struct load *load)
{
    int64_t now_us = clock_mono_us();
    struct request request;

    while (!list_is_empty(&load->free) &&
           schedule_next_us(load->schedule, now_us) <= now_us) {
        struct conn *conn = LIST_SHIFT(struct conn, &load->free, link);
        int64_t ready_us;

        schedule_take(load->schedule, now_us, &request);
        ready_us =
            request.due_us > load->free_since_us ? request.due_us : load->free_since_us;
        histogram_add(&load->late, now_us - ready_us);
        load->offered++;
        load->sent++;
        load->busy++;
        if (!conn_send(conn, &request))
            lose(load, conn);
        now_us = clock_mono_us();
    }
}

static void count_answer(struct load *load, const struct conn *conn, int64_t now_us)
{
    static const unsigned statuses[ANSWER_OTHER] = {201, 200, 409, 503};
    size_t answer = 0;

    while (answer < ANSWER_OTHER && statuses[answer] != conn->status)
        answer++;
    load->answers[answer]++;
    load->busy--;
    load->answered_us = now_us;
    histogram_add(&load->latency, now_us - conn->due_us);
}

static void on_event(struct load *load, struct conn *conn)
{
    int64_t now_us;

    switch (conn_on_event(conn, load->epoll_fd)) {
    case CONN_ANSWERED:
        now_us = clock_mono_us();
        count_answer(load, conn, now_us);
        if (conn->is_last)
            become_down(load, conn);
        else
            become_free(load, conn, now_us);
        break;
    case CONN_READY:
        become_free(load, conn, clock_mono_us());
        break;
    case CONN_BROKEN:
        lose(load, conn);
        break;
    case CONN_WAITS:
        break;
    }
}

/* Wait for at most `in_us`, which is less than a second. */
static void wait_for_events(struct load *load, int64_t in_us)
{
    struct epoll_event events[EVENTS];
    struct itimerspec in = {.it_value.tv_nsec = in_us * 1000};
    int count;

    timerfd_settime(load->timer_fd, 0, &in, NULL);
    count = epoll_wait(load->epoll_fd, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL) /* NULL: the timer */
            on_event(load, events[i].data.ptr);
    }
}

/* -- the run -- */

static bool is_over(const struct load *load, int64_t now_us)
{
    bool is_done =
        load->busy == 0 && schedule_next_us(load->schedule, now_us) == INT64_MAX;

    return is_done || now_us > load->options.end_us + load->patience_us;
}

/* Time until the next request is due or a connection may be reopened. */
static int64_t pause_us(const struct load *load)
{
    int64_t now_us = clock_mono_us();
    int64_t next_us = schedule_next_us(load->schedule, now_us);

    if (list_is_empty(&load->free) || next_us > now_us + RECONNECT_US)
        next_us = now_us + RECONNECT_US;
    return next_us - now_us > TICK_US ? next_us - now_us : TICK_US;
}

/* Count all requests without an answer; their latency is the wait until now. */
static void give_up(struct load *load, int64_t now_us)
{
    struct request request;

    for (size_t i = 0; i < load->connections; i++) {
        if (load->conns[i].state != CONN_BUSY)
            continue;
        load->unanswered++;
        histogram_add(&load->latency, now_us - load->conns[i].due_us);
    }
    while (schedule_next_us(load->schedule, now_us) != INT64_MAX) {
        schedule_take(load->schedule, now_us, &request);
        load->offered++;
        load->unanswered++;
        histogram_add(&load->latency, now_us - request.due_us);
    }
}

static void run(struct load *load)
{
    int64_t now_us = clock_mono_us();

    while (!is_over(load, now_us)) {
        reconnect(load, now_us);
        send_due(load);
        wait_for_events(load, pause_us(load));
        now_us = clock_mono_us();
    }
    give_up(load, now_us);
}

static bool open_all(struct load *load)
{
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET};
    int64_t until_us = clock_mono_us() + load->patience_us;
    size_t count = 0;

    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    load->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, load->timer_fd, &timer);
    load->conns = calloc(load->connections, sizeof(*load->conns));
    if (load->conns == NULL)
        return false;
    list_init(&load->free);
    list_init(&load->down);
    for (size_t i = 0; i < load->connections; i++)
        list_append(&load->down, &load->conns[i].link);
    while (count < load->connections && clock_mono_us() < until_us) {
        reconnect(load, clock_mono_us());
        wait_for_events(load, TICK_US);
        count = 0;
        LIST_EACH(struct conn, conn, &load->free, link)
            count += conn->state == CONN_FREE;
    }
    return count == load->connections;
}

/* -- report and options -- */

static void print_points(const struct histogram *histogram)
{
    double rest = 1; /* fraction of slower requests; each step reduces it by 1/6 */
    const char *comma = "";

    printf(", \"points\": [");
    for (; rest * (double)histogram->count >= 1; rest *= 5.0 / 6) {
        printf("%s[%ju, %.8f]", comma, (uintmax_t)histogram_at(histogram, 1 - rest),
               1 - rest);
        comma = ", ";
    }
    printf("%s[%ju, 1]]", comma, (uintmax_t)histogram->max_us);
}

static void print_report(const struct load *load)
{
    static const char *const names[ANSWER_COUNT] = {"201", "200", "409", "503", "other"};
    const struct histogram *latency = &load->latency;
    uint64_t answered = 0;
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    for (size_t i = 0; i < ANSWER_COUNT; i++) {
        printf("%s\"%s\": %ju", i == 0 ? "{" : ", ", names[i],
               (uintmax_t)load->answers[i]);
        answered += load->answers[i];
    }
    printf(", \"offered\": %ju, \"sent\": %ju, \"answered\": %ju, \"broken\": %ju, "
           "\"unanswered\": %ju, \"seconds\": %.6f, \"cpu_s\": %.6f",
           (uintmax_t)load->offered, (uintmax_t)load->sent, (uintmax_t)answered,
           (uintmax_t)load->broken, (uintmax_t)load->unanswered,
           (double)(load->answered_us - load->options.start_us) / 1e6,
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    printf(", \"p50_us\": %ju, \"p90_us\": %ju, \"p99_us\": %ju, \"p999_us\": %ju, "
           "\"max_us\": %ju, \"late_p50_us\": %ju, \"late_p99_us\": %ju, "
           "\"late_max_us\": %ju",
           (uintmax_t)histogram_at(latency, 0.5), (uintmax_t)histogram_at(latency, 0.9),
           (uintmax_t)histogram_at(latency, 0.99),
           (uintmax_t)histogram_at(latency, 0.999), (uintmax_t)latency->max_us,
           (uintmax_t)histogram_at(&load->late, 0.5),
           (uintmax_t)histogram_at(&load->late, 0.99), (uintmax_t)load->late.max_us);
    print_points(latency);
    printf("}\n");
}

/* The value of NAME=VALUE, or the default. */
static const char *option(char **args, const char *name, const char *otherwise)
{
    size_t len = strlen(name);

    for (; *args != NULL; args++) {
        if (strncmp(*args, name, len) == 0 && (*args)[len] == '=')
            return *args + len + 1;
    }
    return otherwise;
}

static double number(char **args, const char *name, const char *otherwise)
{
    return strtod(option(args, name, otherwise), NULL);
}

static bool read_options(struct load *load, char **args)
{
    double seconds = number(args, "seconds", "0");
    double connections = number(args, "connections", "0");
    double port = number(args, "port", "0");

    load->options = (struct schedule_options){
        .rate_per_s = number(args, "rate", "-1"),
        .is_poisson = strcmp(option(args, "arrivals", "poisson"), "poisson") == 0,
        .reuse_tokens = strcmp(option(args, "reuse", "no"), "yes") == 0,
        .token_path = option(args, "tokens", NULL),
        .vouchers = option(args, "vouchers", NULL),
        .key_prefix = option(args, "keys", NULL)};
    load->patience_us = (int64_t)(number(args, "patience", "5") * 1e6);
    if (!(port >= 1 && port <= UINT16_MAX && connections >= 1 &&
          connections <= CONNECTIONS_MAX && seconds > 0 && seconds <= 86400 &&
          load->options.rate_per_s >= 0 && load->options.token_path != NULL &&
          load->options.vouchers != NULL))
        return false;
    load->port = (uint16_t)port;
    load->connections = (size_t)connections;
    load->options.end_us = (int64_t)(seconds * 1e6); /* main() adds the start */
    return true;
}

int main(int argc, char **argv)
{
    static struct load load;

    (void)argc;
    if (!read_options(&load, argv)) {
        fprintf(stderr, "usage: open_loop port=N rate=PER_SECOND seconds=N connections=N "
                        "tokens=FILE vouchers=ID[,ID...]\n"
                        "            [arrivals=poisson|fixed] [keys=PREFIX] [reuse=yes] "
                        "[patience=SECONDS]\n");
        return 2;
    }
    if (!open_all(&load)) {
        fprintf(stderr, "open_loop: cannot connect to port %u\n", load.port);
        return 2;
    }
    load.options.start_us = clock_mono_us();
    load.options.end_us += load.options.start_us;
    load.schedule = schedule_open(&load.options);
    run(&load);
    print_report(&load);
    return 0;
}
