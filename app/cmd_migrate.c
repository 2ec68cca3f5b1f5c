/* cmd_migrate.c - `seckill migrate`: bring the database's tables up to this version. */
#include "app/cmd.h"
#include "app/config.h"
#include "app/db.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: seckill migrate\n"
    "\n"
    "Apply the migrations that are built into this program and not yet recorded in the\n"
    "database, each in a transaction of its own. Several at once wait for one another.\n"
    "\n"
    "Reads SECKILL_DATABASE_URL.\n"
    "\n"
    "Exit code: 0: the database is up to date; 1: it holds a migration that was edited\n"
    "since, or that this program does not know, and nothing was changed; 2: it does not\n"
    "answer, or a migration failed and was rolled back; 64: the arguments or the\n"
    "configuration are not understood.\n";

struct progress {
    unsigned applied;
    bool is_shown;
};

static void on_step(const char *name, void *arg)
{
    struct progress *progress = arg;

    progress->applied++;
    if (progress->is_shown)
        fprintf(stderr, "applying %s\n", name);
}

static int migrate(const char *database_url)
{
    struct progress progress = {.is_shown = isatty(STDERR_FILENO) == 1};
    struct db *db = NULL;
    struct err err = {0};
    enum status status = db_open(database_url, &db, &err);

    if (status == STATUS_OK)
        status = db_migrate(db, on_step, &progress, &err);
    db_close(db);
    if (status != STATUS_OK) {
        fprintf(stderr, "seckill migrate: %s\n", err.text);
        return status == STATUS_INVALID ? EXIT_BROKEN : EXIT_FAILED;
    }
    printf("%u applied, the database is up to date\n", progress.applied);
    return EXIT_FINE;
}

int cmd_migrate(int argc, char **argv)
{
    struct config config;
    struct err err = {0};

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_FINE;
    }
    if (argc != 1) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (config_read(&config, &err) != STATUS_OK) {
        fprintf(stderr, "seckill migrate: %s\n", err.text);
        return EXIT_USAGE;
    }
    return migrate(config.database_url);
}
