/* cmd_lock.c - `seckill lock`: shows or lists locks, or releases one by force. */
#include "app/cmd/cmd.h"
#include "lock/rlock_sync.h"

#include <inttypes.h>
#include <string.h>

#define TIMEOUT_MS 3000
#define LINES_MAX  1000

struct listing {
    bool is_mine;
    unsigned lines;
};

static bool lock_on_owner(const struct rlock_info *info, void *arg)
{
    struct listing *listing = arg;

    if (listing->is_mine && !info->is_near)
        return true;
    if (listing->lines == LINES_MAX) {
        puts("and more");
        return false;
    }
    listing->lines++;
    printf("%.*s is held by %.*s for another %" PRId64 " ms", (int)info->name_len,
           info->name, (int)info->owner_len, info->owner, info->remaining_ms);
    if (info->waiters > 0)
        printf(", %" PRId64 " waiting", info->waiters);
    putchar('\n');
    return true;
}

static int cmd_lock(int argc, char **argv, const struct config *config,
                    struct rlock_err *reterr)
{
    const struct rlock_client_options options = {.redis_url = config->redis_url,
                                                 .timeout_ms = TIMEOUT_MS};
    const char *verb = argc > 1 ? argv[1] : "";
    const char *word = argc == 3 ? argv[2] : NULL; /* a name, or "--mine" */
    bool is_list = strcmp(verb, "list") == 0, is_release = strcmp(verb, "release") == 0;
    const char *name = is_list ? NULL : word;
    size_t len = name == NULL ? 0 : strlen(name);
    struct listing listing = {.is_mine = word != NULL && strcmp(word, "--mine") == 0};
    struct rlock_sync *sync = NULL;
    struct rlock_client *client;
    enum rlock_status status;

    if (is_list && argc > 2 && !listing.is_mine)
        return EXIT_USAGE;
    if (!is_list && !is_release && strcmp(verb, "show") != 0)
        return EXIT_USAGE;
    if (!is_list && (len < 1 || len > RLOCK_NAME_MAX))
        return EXIT_USAGE;
    status = rlock_sync_start(&sync, reterr);
    if (status == RLOCK_OK)
        status = rlock_sync_open(sync, &options, &client, reterr);
    if (status == RLOCK_OK) {
        status = is_release ? rlock_sync_force_release(sync, client, name, len, reterr)
                            : rlock_sync_list(sync, client, name, len, lock_on_owner,
                                              &listing, reterr);
        if (status != RLOCK_OK)
            err_prefix(reterr, "Redis");
        else if (is_release)
            printf("%s was released\n", name);
        else if (!is_list && listing.lines == 0)
            status = RLOCK_NOT_FOUND;
    }
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    if (status != RLOCK_NOT_FOUND)
        return exit_code_of(status);
    printf("%s is free\n", name);
    *reterr = (struct rlock_err){0};
    return EXIT_BROKEN;
}

const struct command command_lock = {"lock", "show, list or force-release locks",
                                     cmd_lock, true, false};
