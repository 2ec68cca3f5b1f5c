/* cmd_lock.c - `seckill lock`: shows a lock, or releases it by force. */
#include "app/cmd/cmd.h"
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

static enum status show(struct rlock_sync *sync, struct rlock_client *client,
                        const char *name, struct err *reterr)
{
    struct rlock_sync_info info;
    enum status status =
        rlock_sync_inspect(sync, client, name, strlen(name), &info, reterr);

    if (status == STATUS_OK)
        printf("%s is held by %s for another %" PRId64 " ms\n", name, info.owner,
               info.remaining_ms);
    return status;
}

static enum status force_release(struct rlock_sync *sync, struct rlock_client *client,
                                 const char *name, struct err *reterr)
{
    enum status status =
        rlock_sync_force_release(sync, client, name, strlen(name), reterr);

    if (status == STATUS_OK)
        printf("%s was released\n", name);
    return status;
}

static int cmd_lock(int argc, char **argv, const struct config *config,
                    struct err *reterr)
{
    const struct rlock_client_options options = {.redis_url = config->redis_url,
                                                 .timeout_ms = TIMEOUT_MS};
    struct rlock_sync *sync = NULL;
    struct rlock_client *client;
    enum status status;

    if (argc != 3 || (strcmp(argv[1], "show") != 0 && strcmp(argv[1], "release") != 0) ||
        strlen(argv[2]) < 1 || strlen(argv[2]) > RLOCK_NAME_MAX)
        return EXIT_USAGE;
    status = rlock_sync_start(&sync, reterr);
    if (status == STATUS_OK)
        status = rlock_sync_open(sync, &options, &client, reterr);
    if (status == STATUS_OK) {
        status = strcmp(argv[1], "show") == 0
                     ? show(sync, client, argv[2], reterr)
                     : force_release(sync, client, argv[2], reterr);
        if (status != STATUS_OK)
            err_prefix(reterr, "Redis");
    }
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    if (status != STATUS_NOT_FOUND)
        return exit_code_of(status);
    printf("%s is free\n", argv[2]);
    *reterr = (struct err){0};
    return EXIT_BROKEN;
}

const struct command command_lock = {
    "lock", "show or force-release a lock", help, cmd_lock, true, false};
