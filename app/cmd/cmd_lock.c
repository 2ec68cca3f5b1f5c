/* cmd_lock.c - `seckill lock`: shows a lock, or releases it by force. */
#include "app/cmd/cmd.h"
#include "lock/rlock_sync.h"

#include <inttypes.h>
#include <string.h>

#define TIMEOUT_MS 3000

static int cmd_lock(int argc, char **argv, const struct config *config,
                    struct err *reterr)
{
    const struct rlock_client_options options = {.redis_url = config->redis_url,
                                                 .timeout_ms = TIMEOUT_MS};
    bool is_show = argc == 3 && strcmp(argv[1], "show") == 0;
    const char *name = argv[argc - 1];
    size_t len = strlen(name);
    struct rlock_sync *sync = NULL;
    struct rlock_client *client;
    struct rlock_sync_info info;
    enum status status;

    if (argc != 3 || (!is_show && strcmp(argv[1], "release") != 0) || len < 1 ||
        len > RLOCK_NAME_MAX)
        return EXIT_USAGE;
    status = rlock_sync_start(&sync, reterr);
    if (status == STATUS_OK)
        status = rlock_sync_open(sync, &options, &client, reterr);
    if (status == STATUS_OK) {
        status = is_show ? rlock_sync_inspect(sync, client, name, len, &info, reterr)
                         : rlock_sync_force_release(sync, client, name, len, reterr);
        if (status != STATUS_OK)
            err_prefix(reterr, "Redis");
        else if (is_show)
            printf("%s is held by %s for another %" PRId64 " ms\n", name, info.owner,
                   info.remaining_ms);
        else
            printf("%s was released\n", name);
    }
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    if (status != STATUS_NOT_FOUND)
        return exit_code_of(status);
    printf("%s is free\n", name);
    *reterr = (struct err){0};
    return EXIT_BROKEN;
}

const struct command command_lock = {"lock", "show or force-release a lock", cmd_lock,
                                     true, false};
