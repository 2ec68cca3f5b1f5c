/*
 * open_loop_schedule.c - the time and the bytes of each request.
 *
 * Both depend only on the options, not on the answers: the arrivals of the Poisson
 * process come from a random number generator with a fixed seed.
 */
#include "load/open_loop.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOUCHERS_MAX 1024

struct schedule {
    struct schedule_options options;
    double next_us; /* since the start; a double, so that rounding errors do not add up */
    uint64_t random;
    uint64_t number; /* number of the request, from 1 */
    const char *tokens, *tokens_end, *token;
    size_t voucher_count;
    struct piece vouchers[VOUCHERS_MAX];
    char key[128];
};

static void fail(const char *what)
{
    fprintf(stderr, "open_loop: %s\n", what);
    exit(2); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

/* splitmix64 */
static uint64_t draw(struct schedule *schedule)
{
    uint64_t bits = schedule->random += 0x9e3779b97f4a7c15;

    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
}

static double gap_us(struct schedule *schedule)
{
    double mean_us = 1e6 / schedule->options.rate_per_s;

    if (!schedule->options.is_poisson)
        return mean_us;
    return -log1p(-(double)(draw(schedule) >> 11) / 0x1p53) * mean_us;
}

static void read_tokens(struct schedule *schedule)
{
    int fd = open(schedule->options.token_path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    void *bytes;

    if (fd < 0 || fstat(fd, &stat) != 0 || stat.st_size == 0)
        fail("cannot read the tokens");
    bytes = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        fail("cannot read the tokens");
    schedule->token = schedule->tokens = bytes;
    schedule->tokens_end = schedule->tokens + stat.st_size;
}

static void read_vouchers(struct schedule *schedule)
{
    const char *id = schedule->options.vouchers;

    while (*id != '\0' && schedule->voucher_count < VOUCHERS_MAX) {
        size_t len = strcspn(id, ",");

        schedule->vouchers[schedule->voucher_count++] = (struct piece){id, len};
        id += len + (id[len] == ',');
    }
    if (schedule->voucher_count == 0 || *id != '\0')
        fail("vouchers: expected 1 to 1024 ids");
}

struct schedule *schedule_open(const struct schedule_options *options)
{
    struct schedule *schedule = calloc(1, sizeof(*schedule));

    if (schedule == NULL)
        fail("out of memory");
    schedule->options = *options;
    read_tokens(schedule);
    read_vouchers(schedule);
    if (options->rate_per_s > 0)
        schedule->next_us = gap_us(schedule);
    return schedule;
}

int64_t schedule_next_us(const struct schedule *schedule, int64_t now_us)
{
    const struct schedule_options *options = &schedule->options;
    int64_t due_us = options->start_us + (int64_t)schedule->next_us;

    if (options->rate_per_s == 0)
        due_us = now_us;
    return due_us < options->end_us ? due_us : INT64_MAX;
}

static struct piece next_token(struct schedule *schedule)
{
    const char *token = schedule->token, *end;

    if (token == schedule->tokens_end) {
        if (!schedule->options.reuse_tokens)
            fail("no token is left");
        token = schedule->tokens;
    }
    end = memchr(token, '\n', (size_t)(schedule->tokens_end - token));
    if (end == NULL)
        fail("the last line of the tokens has no newline");
    schedule->token = end + 1;
    return (struct piece){token, (size_t)(end - token)};
}

static struct piece next_key(struct schedule *schedule)
{
    int len;

    if (schedule->options.key_prefix == NULL)
        return (struct piece){"", 0};
    len = snprintf(schedule->key, sizeof(schedule->key), "\r\nIdempotency-Key: %.64s%ju",
                   schedule->options.key_prefix, (uintmax_t)schedule->number);
    return (struct piece){schedule->key, (size_t)len};
}

#define PIECE(text) ((struct piece){text, sizeof(text) - 1})

/* The same bytes as in orders.lua. */
void schedule_take(struct schedule *schedule, int64_t now_us, struct request *ret_request)
{
    size_t voucher =
        schedule->voucher_count == 1 ? 0 : draw(schedule) % schedule->voucher_count;

    ret_request->due_us = schedule_next_us(schedule, now_us);
    schedule->number++;
    ret_request->pieces[0] = PIECE("POST /v1/vouchers/");
    ret_request->pieces[1] = schedule->vouchers[voucher];
    ret_request->pieces[2] =
        PIECE("/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ");
    ret_request->pieces[3] = next_token(schedule);
    ret_request->pieces[4] = next_key(schedule);
    ret_request->pieces[5] = PIECE("\r\nContent-Length: 0\r\n\r\n");
    if (schedule->options.rate_per_s > 0)
        schedule->next_us += gap_us(schedule);
}
