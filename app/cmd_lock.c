/* cmd_lock.c - `seckill lock`: who holds a lock; take it from them. */
#include "app/cmd.h"
#include "app/config.h"
#include "lock/rlock.h"

#include <inttypes.h>
#include <string.h>

#define TIMEOUT_MS      3000
#define CONNECT_TICK_MS 10

static const char help[] =
    "usage: seckill lock show NAME\n"
    "       seckill lock release NAME\n"
    "\n"
    "Show who holds the lock NAME and for how long, or delete it whoever holds it: a\n"
    "holder that lives finds out at its next renewal, and the fencing token keeps it "
    "from\n"
    "doing harm. A shopper's lock is lock:order:USER_ID.\n"
    "\n"
    "Reads SECKILL_REDIS_URL.\n"
    "\n"
    "Exit code: 0: it is held (show), it was released (release); 1: it is free; 2: "
    "Redis\n"
    "does not answer; 64: the arguments or the configuration are not understood.\n";

struct inquiry {
    uv_loop_t loop;
    uv_timer_t timer; /* waits for the connection */
    struct rlock_client *client;
    const char *name;
    unsigned waited_ms;
    bool is_release;
    int exit_code;
};

static void end(struct inquiry *inquiry, int exit_code)
{
    inquiry->exit_code = exit_code;
    uv_close((uv_handle_t *)&inquiry->timer, NULL);
    rlock_client_close(inquiry->client, NULL, NULL);
}

static int exit_code_of(const struct inquiry *inquiry, enum status status)
{
    if (status == STATUS_OK)
        return EXIT_FINE;
    if (status == STATUS_NOT_FOUND) {
        printf("%s is free\n", inquiry->name);
        return EXIT_BROKEN;
    }
    fprintf(stderr, "seckill lock: Redis: %s\n", status_name(status));
    return EXIT_FAILED;
}

static void on_shown(enum status status, const struct rlock_info *info, void *arg)
{
    struct inquiry *inquiry = arg;

    if (status == STATUS_OK)
        printf("%s is held by %.*s for %" PRId64 " ms more\n", inquiry->name,
               (int)info->owner_len, info->owner, info->remaining_ms);
    end(inquiry, exit_code_of(inquiry, status));
}

static void on_released(enum status status, void *arg)
{
    struct inquiry *inquiry = arg;

    if (status == STATUS_OK)
        printf("%s was released\n", inquiry->name);
    end(inquiry, exit_code_of(inquiry, status));
}

static void on_tick(uv_timer_t *timer)
{
    struct inquiry *inquiry = timer->data;
    size_t len = strlen(inquiry->name);

    if (!rlock_client_is_up(inquiry->client)) {
        inquiry->waited_ms += CONNECT_TICK_MS;
        if (inquiry->waited_ms >= TIMEOUT_MS)
            end(inquiry, exit_code_of(inquiry, STATUS_TIMEOUT));
        return;
    }
    uv_timer_stop(timer);
    if (inquiry->is_release)
        rlock_force_release(inquiry->client, inquiry->name, len, on_released, inquiry);
    else
        rlock_inspect(inquiry->client, inquiry->name, len, on_shown, inquiry);
    rlock_flush(inquiry->client);
}

static int ask(struct inquiry *inquiry, const struct config *config)
{
    struct rlock_client_options options = {
        .loop = &inquiry->loop, .redis_url = config->redis_url, .timeout_ms = TIMEOUT_MS};
    struct err err = {0};

    uv_loop_init(&inquiry->loop);
    if (rlock_client_open(&options, &inquiry->client, &err) != STATUS_OK) {
        fprintf(stderr, "seckill lock: %s\n", err.text);
        uv_loop_close(&inquiry->loop);
        return EXIT_USAGE;
    }
    uv_timer_init(&inquiry->loop, &inquiry->timer);
    inquiry->timer.data = inquiry;
    uv_timer_start(&inquiry->timer, on_tick, 0, CONNECT_TICK_MS);
    uv_run(&inquiry->loop, UV_RUN_DEFAULT);
    uv_loop_close(&inquiry->loop);
    return inquiry->exit_code;
}

int cmd_lock(int argc, char **argv)
{
    struct inquiry inquiry = {0};
    struct config config;
    struct err err = {0};
    int code;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_FINE;
    }
    if (argc != 3 || (strcmp(argv[1], "show") != 0 && strcmp(argv[1], "release") != 0) ||
        strlen(argv[2]) < 1 || strlen(argv[2]) > RLOCK_NAME_MAX) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (config_read(&config, &err) != STATUS_OK) {
        fprintf(stderr, "seckill lock: %s\n", err.text);
        return EXIT_USAGE;
    }
    inquiry.name = argv[2];
    inquiry.is_release = strcmp(argv[1], "release") == 0;
    code = ask(&inquiry, &config);
    config_clear(&config);
    return code;
}
