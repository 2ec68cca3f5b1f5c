/*
 * open_loop.c - an open-loop client: sends orders at a given rate, whether or not earlier orders
 * have been answered.
 *
 *   open_loop PORT RATE SECONDS CONNECTIONS TOKENS VOUCHER
 *
 * A closed-loop client waits for an answer before it sends the next request. So it sends less while
 * the service is slow, and does not see the latency that independent clients would see
 * ("coordinated omission"). Here the times of all requests are decided in advance, by a Poisson
 * process of RATE per second. The latency of a request counts from its time, so it includes the
 * wait for a free connection. With RATE 0 the client is closed-loop.
 *
 * Line n of the file TOKENS is the token of one shopper. Each token is used once. The program
 * prints one line of JSON. `late` is the delay that the program itself causes. It begins when the
 * time of a request has come and a connection is free, and ends when the request is sent. Exit
 * code 1: a connection broke, or a request had no answer PATIENCE_US after the end.
 *
 * Unless an answer arrives, the program sleeps for at least TICK_US: to wake up for each request
 * would cost more than the request.
 */
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TICK_US         100
#define PAUSE_US        100000 /* longest sleep */
#define PATIENCE_US     5000000
#define EVENTS          512
#define CONNECTIONS_MAX 20000
#define ANSWER_BYTES    4096
#define REQUEST_BYTES   8192

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "open_loop: %s\n", what);
    exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

/* -- durations -- */

/* The array has room for one duration per token. */
struct durations {
    int64_t *us;
    size_t count;
};

static void add(struct durations *durations, int64_t us)
{
    durations->us[durations->count++] = us;
}

static int compare(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* The quantile `fraction` of sorted durations, or 0 if there are no durations. */
static int64_t quantile(const struct durations *durations, double fraction)
{
    size_t rank = (size_t)ceil(fraction * (double)durations->count);

    return durations->count == 0 ? 0 : durations->us[rank - 1];
}

/* -- the state -- */

struct conn {
    int fd;
    int64_t due_us;  /* when the request in flight was due */
    size_t received; /* bytes of the answer */
    char answer[ANSWER_BYTES + 1];
};

struct load {
    double rate_per_s; /* 0: closed loop */
    const char *voucher;
    const char *token, *tokens_end;
    int64_t start_us, end_us;
    /* since the start, as a double because rounding errors would add up */
    double next_us;
    uint64_t random;
    struct conn *conns;
    size_t connections;
    size_t free[CONNECTIONS_MAX]; /* a ring of the free connections, the oldest first */
    size_t first_free, free_count;
    int64_t free_since_us; /* since when the first free connection is free */
    int epoll_fd, timer_fd;
    uint64_t placed;
    int64_t answered_us; /* time of the last answer */
    struct durations latency, late;
};

/* -- the schedule -- */

static uint64_t draw(struct load *load)
{
    uint64_t bits = load->random += 0x9e3779b97f4a7c15;

    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
}

static double gap_us(struct load *load)
{
    return -log1p(-(double)(draw(load) >> 11) / 0x1p53) * 1e6 / load->rate_per_s;
}

/* Returns the time of the next request, or INT64_MAX after the last request. */
static int64_t next_due_us(const struct load *load, int64_t now_us)
{
    int64_t due_us =
        load->rate_per_s == 0 ? now_us : load->start_us + (int64_t)load->next_us;

    return due_us < load->end_us ? due_us : INT64_MAX;
}

/* -- requests and answers -- */

static void become_free(struct load *load, size_t number, int64_t now_us)
{
    if (load->free_count == 0)
        load->free_since_us = now_us;
    load->free[(load->first_free + load->free_count++) % load->connections] = number;
}

/* Send the next shopper's order, as the same bytes that orders.lua sends. */
static void send_order(struct load *load, struct conn *conn)
{
    const char *end =
        load->token == load->tokens_end
            ? NULL
            : memchr(load->token, '\n', (size_t)(load->tokens_end - load->token));
    char request[REQUEST_BYTES];
    int len;

    if (end == NULL)
        fail("no token is left");
    len = snprintf(request, sizeof(request),
                   "POST /v1/vouchers/%s/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                   "Authorization: Bearer %.*s\r\nContent-Length: 0\r\n\r\n",
                   load->voucher, (int)(end - load->token), load->token);
    load->token = end + 1;
    conn->received = 0;
    /* The connection has no other request in flight, so the send buffer has room for all bytes. */
    if (send(conn->fd, request, (size_t)len, MSG_NOSIGNAL) != len)
        fail("a connection broke");
}

static void send_due(struct load *load)
{
    int64_t now_us = clock_mono_us(), due_us;

    while (load->free_count > 0 && (due_us = next_due_us(load, now_us)) <= now_us) {
        struct conn *conn = &load->conns[load->free[load->first_free]];

        load->first_free = (load->first_free + 1) % load->connections;
        load->free_count--;
        add(&load->late,
            now_us - (due_us > load->free_since_us ? due_us : load->free_since_us));
        conn->due_us = due_us;
        send_order(load, conn);
        if (load->rate_per_s > 0)
            load->next_us += gap_us(load);
        now_us = clock_mono_us();
    }
}

static bool is_whole(const struct conn *conn)
{
    const char *length = strcasestr(conn->answer, "\r\nContent-Length: ");
    const char *end = strstr(conn->answer, "\r\n\r\n");
    size_t whole;

    if (end == NULL && conn->received < ANSWER_BYTES)
        return false;
    if (end == NULL || length == NULL || length > end ||
        strncmp(conn->answer, "HTTP/1.1 ", 9) != 0)
        fail("an answer is not understood");
    whole = (size_t)(end + 4 - conn->answer) + strtoul(length + 18, NULL, 10);
    if (conn->received > whole || whole > ANSWER_BYTES)
        fail("an answer is too long");
    return conn->received == whole;
}

static void on_readable(struct load *load, size_t number)
{
    struct conn *conn = &load->conns[number];
    ssize_t got =
        recv(conn->fd, conn->answer + conn->received, ANSWER_BYTES - conn->received, 0);
    int64_t now_us;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        fail("a connection broke");
    conn->received += (size_t)got;
    conn->answer[conn->received] = '\0';
    if (!is_whole(conn))
        return;
    now_us = clock_mono_us();
    load->placed += strncmp(conn->answer + 9, "201", 3) == 0;
    load->answered_us = now_us;
    add(&load->latency, now_us - conn->due_us);
    become_free(load, number, now_us);
}

/* Wait until an answer arrives, for at most `in_us`, which is less than a second. */
static void wait_for_answers(struct load *load, int64_t in_us)
{
    struct epoll_event events[EVENTS];
    struct itimerspec in = {.it_value.tv_nsec = in_us * 1000};
    int count;

    timerfd_settime(load->timer_fd, 0, &in, NULL);
    count = epoll_wait(load->epoll_fd, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 < load->connections) /* other events come from the timer */
            on_readable(load, (size_t)events[i].data.u64);
    }
}

/* -- the run -- */

static void run(struct load *load)
{
    for (;;) {
        int64_t now_us = clock_mono_us(), next_us = next_due_us(load, now_us);

        if (next_us == INT64_MAX && load->free_count == load->connections)
            return;
        if (now_us > load->end_us + PATIENCE_US)
            fail("a request has no answer");
        send_due(load);
        now_us = clock_mono_us();
        if (load->free_count == 0 || next_us > now_us + PAUSE_US)
            next_us = now_us + PAUSE_US;
        wait_for_answers(load, next_us - now_us > TICK_US ? next_us - now_us : TICK_US);
    }
}

static void watch(const struct load *load, int fd, uint64_t number, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = number};

    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static void open_all(struct load *load, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;

    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    load->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch(load, load->timer_fd, UINT64_MAX, EPOLLIN | EPOLLET);
    load->conns = calloc(load->connections, sizeof(*load->conns));
    for (size_t i = 0; load->conns != NULL && i < load->connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
            fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
            fail("cannot connect");
        load->conns[i].fd = fd;
        watch(load, fd, i, EPOLLIN);
        become_free(load, i, clock_mono_us());
    }
}

static void read_tokens(struct load *load, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    size_t count = 1; /* calloc() of zero bytes may return NULL */
    void *bytes;

    if (fd < 0 || fstat(fd, &stat) != 0 || stat.st_size == 0)
        fail("cannot read the tokens");
    bytes = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        fail("cannot read the tokens");
    close(fd);
    load->token = bytes;
    load->tokens_end = load->token + stat.st_size;
    for (const char *at = load->token; at < load->tokens_end; at++)
        count += *at == '\n';
    load->latency.us = calloc(count, sizeof(int64_t));
    load->late.us = calloc(count, sizeof(int64_t));
    if (load->latency.us == NULL || load->late.us == NULL)
        fail("out of memory");
}

static void print_report(struct load *load)
{
    static const struct {
        const char *name;
        double fraction;
    } rows[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};

    qsort(load->latency.us, load->latency.count, sizeof(int64_t), compare);
    qsort(load->late.us, load->late.count, sizeof(int64_t), compare);
    printf("{\"201\": %ju, \"offered\": %zu, \"seconds\": %.6f", (uintmax_t)load->placed,
           load->latency.count, (double)(load->answered_us - load->start_us) / 1e6);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf(", \"%s_us\": %jd, \"late_%s_us\": %jd", rows[i].name,
               (intmax_t)quantile(&load->latency, rows[i].fraction), rows[i].name,
               (intmax_t)quantile(&load->late, rows[i].fraction));
    printf("}\n");
}

int main(int argc, char **argv)
{
    static struct load load;
    double seconds;

    if (argc != 7)
        fail("usage: open_loop PORT RATE SECONDS CONNECTIONS TOKENS VOUCHER");
    load.rate_per_s = strtod(argv[2], NULL);
    seconds = strtod(argv[3], NULL);
    load.connections = strtoul(argv[4], NULL, 10);
    load.voucher = argv[6];
    if (load.connections < 1 || load.connections > CONNECTIONS_MAX)
        fail("CONNECTIONS must be 1 to 20000");
    read_tokens(&load, argv[5]);
    open_all(&load, (uint16_t)strtoul(argv[1], NULL, 10));
    load.start_us = clock_mono_us();
    load.end_us = load.start_us + (int64_t)(seconds * 1e6);
    if (load.rate_per_s > 0)
        load.next_us = gap_us(&load);
    run(&load);
    print_report(&load);
    return 0;
}
