/* cmd_lock.c - `seckill lock`: shows a lock, or releases it by force. */
#include "app/cmd/cmd.h"
#include "app/core/config.h"
#include "lock/rlock_sync.h"

#include <inttypes.h>
#include <string.h>

#define TIMEOUT_MS 3000

static const char help[] =
    "usage: seckill lock show NAME\n"
    "       seckill lock release NAME\n"
    "\n"
    "Show the owner of the lock NAME and the rest of its lease, or delete the lock. A\n"
    "running owner notices the deletion at its next renewal; until then its fencing\n"
    "token protects the data. A shopper's lock is lock:order:USER_ID.\n"
    "\n"
    "Reads SECKILL_REDIS_URL.\n"
    "\n"
    "Exit code: 0: the lock is held (show) or was released (release); 1: it is free;\n"
    "2: Redis does not answer; 64: invalid arguments or configuration.\n";

static int report(const char *name, enum status status, const struct err *why)
{
    if (status == STATUS_NOT_FOUND) {
        printf("%s is free\n", name);
        return EXIT_BROKEN;
    }
    fprintf(stderr, "seckill lock: Redis: %s\n", why->text);
    return EXIT_FAILED;
}

static int show(struct rlock_sync *sync, struct rlock_client *client, const char *name)
{
    struct rlock_sync_info info;
    struct err why = {0};
    enum status status =
        rlock_sync_inspect(sync, client, name, strlen(name), &info, &why);

    if (status != STATUS_OK)
        return report(name, status, &why);
    printf("%s is held by %s for another %" PRId64 " ms\n", name, info.owner,
           info.remaining_ms);
    return EXIT_FINE;
}

static int force_release(struct rlock_sync *sync, struct rlock_client *client,
                         const char *name)
{
    struct err why = {0};
    enum status status = rlock_sync_force_release(sync, client, name, strlen(name), &why);

    if (status != STATUS_OK)
        return report(name, status, &why);
    printf("%s was released\n", name);
    return EXIT_FINE;
}

static int run_command(const struct config *config, const char *name, bool is_release)
{
    struct rlock_client_options options = {.redis_url = config->redis_url,
                                           .timeout_ms = TIMEOUT_MS};
    struct rlock_sync *sync = NULL;
    struct rlock_client *client;
    struct err why = {0};
    int code = EXIT_FAILED;
    enum status status = rlock_sync_start(&sync, &why);

    if (status == STATUS_OK)
        status = rlock_sync_open(sync, &options, &client, &why);
    if (status == STATUS_OK)
        code = is_release ? force_release(sync, client, name) : show(sync, client, name);
    else
        fprintf(stderr, "seckill lock: %s\n", why.text);
    if (sync != NULL)
        rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_INVALID ? EXIT_USAGE : code;
}

int cmd_lock(int argc, char **argv)
{
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
    code = run_command(&config, argv[2], strcmp(argv[1], "release") == 0);
    config_clear(&config);
    return code;
}
