/* cmd_migrate.c - `seckill migrate`: brings the database up to this version. */
#include "app/cmd/cmd.h"
#include "app/store/database_url.h"
#include "app/store/db.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: seckill migrate [--dry-run] [--service-role ROLE]\n"
    "                       [--cell K/N | --aggregate URL]\n"
    "\n"
    "Apply the new migrations and the new or changed functions that are built into this\n"
    "program. Each migration has its own transaction; the last one includes the\n"
    "functions. Only one `seckill migrate` runs at a time; others wait.\n"
    "\n"
    "The functions run with the rights of the role that migrates. So no other role may\n"
    "create functions in their schema: the right is revoked from public, and a warning\n"
    "names other roles that have it and functions that they own.\n"
    "\n"
    "  --dry-run            list the files to apply; change nothing\n"
    "  --service-role ROLE  the role that `seckill serve` connects as. It may read and\n"
    "                       call the functions that write, nothing else. Needed once;\n"
    "                       later runs keep its rights up to date.\n"
    "  --cell K/N           make an empty database cell K of N: N is a power of two up "
    "to\n"
    "                       1024, K is 0 to N-1. The database remembers it.\n"
    "  --aggregate URL      make the database an aggregate of cells, if it is empty, "
    "and\n"
    "                       let the cell at URL replicate to it. For a superuser.\n"
    "\n"
    "Reads SECKILL_DATABASE_URL, whose role owns the tables.\n"
    "\n"
    "Exit code: 0: the database is up to date; 1: an applied migration was edited "
    "since,\n"
    "the database is newer than this program, or its encoding is not UTF8; nothing was\n"
    "changed; 2: the database is unavailable, or a statement failed and was rolled "
    "back;\n"
    "64: wrong arguments or configuration.\n";

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
                       struct err *reterr)
{
    struct progress progress = {.is_shown = isatty(STDERR_FILENO) == 1};
    struct db_migration options = {
        .on_step = on_step, .on_warning = on_warning, .arg = &progress};
    struct db *db = NULL;
    enum status status;

    if (!parse_arguments(argc, argv, &options) ||
        database_url_check(config->database_url, NULL, reterr) != STATUS_OK)
        return EXIT_USAGE;
    progress.is_dry_run = options.is_dry_run;
    status = db_open(config->database_url, &db, reterr);
    if (status == STATUS_OK)
        status = db_migrate(db, &options, reterr);
    db_close(db);
    if (status != STATUS_OK)
        return status == STATUS_INVALID ? EXIT_BROKEN : EXIT_FAILED;
    if (options.is_dry_run)
        printf("%u to apply, nothing was changed\n", progress.steps);
    else
        printf("%u applied, the database is up to date\n", progress.steps);
    return EXIT_FINE;
}

const struct command command_migrate = {
    "migrate", "bring the database schema up to this version", help, cmd_migrate, true,
    false};
