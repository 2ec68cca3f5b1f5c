/* cmd_migrate.c - `seckill migrate`: bring the database's tables up to this version. */
#include "app/cmd/cmd.h"
#include "app/core/config.h"
#include "app/store/db.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: seckill migrate [--dry-run] [--service-role ROLE]\n"
    "\n"
    "Apply the migrations that are built into this program and not yet recorded in the\n"
    "database, each in a transaction of its own. Several at once wait for one another.\n"
    "\n"
    "  --dry-run            only print their names; nothing is changed\n"
    "  --service-role ROLE  the role that `seckill serve` connects as: it may read, and\n"
    "                       call the functions that write, and nothing else. Needed\n"
    "                       once; later runs keep its rights up to date.\n"
    "\n"
    "Reads SECKILL_DATABASE_URL, whose role owns the tables.\n"
    "\n"
    "Exit code: 0: the database is up to date; 1: it holds a migration that was edited\n"
    "since, or that this program does not know, and nothing was changed; 2: it does not\n"
    "answer, or a migration failed and was rolled back; 64: the arguments or the\n"
    "configuration are not understood.\n";

struct progress {
    unsigned steps;
    bool is_dry_run;
    bool is_shown;
};

static void on_step(const char *name, void *arg)
{
    struct progress *progress = arg;

    progress->steps++;
    if (progress->is_dry_run)
        printf("%s\n", name);
    else if (progress->is_shown)
        fprintf(stderr, "applying %s\n", name);
}

static int migrate(const char *database_url, struct db_migration options)
{
    struct progress progress = {.is_dry_run = options.is_dry_run,
                                .is_shown = isatty(STDERR_FILENO) == 1};
    struct db *db = NULL;
    struct err err = {0};
    enum status status = db_open(database_url, &db, &err);

    options.on_step = on_step;
    options.arg = &progress;
    if (status == STATUS_OK)
        status = db_migrate(db, &options, &err);
    db_close(db);
    if (status != STATUS_OK) {
        fprintf(stderr, "seckill migrate: %s\n", err.text);
        return status == STATUS_INVALID ? EXIT_BROKEN : EXIT_FAILED;
    }
    if (options.is_dry_run)
        printf("%u to apply, nothing was changed\n", progress.steps);
    else
        printf("%u applied, the database is up to date\n", progress.steps);
    return EXIT_FINE;
}

static bool parse_arguments(int argc, char **argv, struct db_migration *ret_options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dry-run") == 0)
            ret_options->is_dry_run = true;
        else if (strcmp(argv[i], "--service-role") == 0 && i + 1 < argc)
            ret_options->service_role = argv[++i];
        else
            return false;
    }
    return true;
}

int cmd_migrate(int argc, char **argv)
{
    struct db_migration options = {0};
    struct config config;
    struct err err = {0};
    int code;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_FINE;
    }
    if (!parse_arguments(argc, argv, &options)) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (config_read(&config, &err) != STATUS_OK) {
        fprintf(stderr, "seckill migrate: %s\n", err.text);
        return EXIT_USAGE;
    }
    code = migrate(config.database_url, options);
    config_clear(&config);
    return code;
}
