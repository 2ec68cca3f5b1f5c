/* cmd_migrate.c - `seckill migrate`: brings the database up to this version. */
#include "app/cmd/cmd.h"
#include "app/store/database_url.h"
#include "app/store/db.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct progress {
    unsigned steps;
    bool is_dry_run;
    bool is_shown;
};

static void on_step(const char *path, void *arg)
{
    struct progress *progress = arg;

    progress->steps++;
    if (progress->is_dry_run)
        printf("%s\n", path);
    else if (progress->is_shown)
        fprintf(stderr, "applying %s\n", path);
}

static void on_warning(const char *text, void *arg UNUSED)
{
    fprintf(stderr, "seckill migrate: warning: %s\n", text);
}

static bool parse_arguments(int argc, char **argv, struct db_migration *ret_options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dry-run") == 0)
            ret_options->is_dry_run = true;
        else if (strcmp(argv[i], "--service-role") == 0 && i + 1 < argc)
            ret_options->service_role = argv[++i];
        else if (strcmp(argv[i], "--cell") == 0 && i + 1 < argc)
            ret_options->cell = argv[++i];
        else if (strcmp(argv[i], "--aggregate") == 0 && i + 1 < argc)
            ret_options->aggregate = argv[++i];
        else
            return false;
    }
    return ret_options->cell == NULL || ret_options->aggregate == NULL;
}

static int cmd_migrate(int argc, char **argv, const struct config *config,
                       struct rlock_err *reterr)
{
    struct progress progress = {.is_shown = isatty(STDERR_FILENO) == 1};
    struct db_migration options = {
        .on_step = on_step, .on_warning = on_warning, .arg = &progress};
    struct db *db = NULL;
    enum rlock_status status;

    if (!parse_arguments(argc, argv, &options) ||
        database_url_check(config->database_url, NULL, reterr) != RLOCK_OK)
        return EXIT_USAGE;
    progress.is_dry_run = options.is_dry_run;
    status = db_open(config->database_url, &db, reterr);
    if (status == RLOCK_OK)
        status = db_migrate(db, &options, reterr);
    db_close(db);
    if (status != RLOCK_OK)
        return status == RLOCK_INVALID ? EXIT_BROKEN : EXIT_FAILED;
    if (options.is_dry_run)
        printf("%u to apply, nothing was changed\n", progress.steps);
    else
        printf("%u applied, the database is up to date\n", progress.steps);
    return EXIT_FINE;
}

const struct command command_migrate = {
    "migrate", "bring the database schema up to this version", cmd_migrate, true, false};
