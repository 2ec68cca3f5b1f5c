/* cmd_audit.c - `seckill audit`: checks the guarantees on the data of the database. */
#include "app/cmd/cmd.h"
#include "app/store/database_url.h"
#include "app/store/db.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct report {
    bool is_title_printed;
    bool is_progress_shown;
};

static void on_row(const char *check, const char *row, void *arg)
{
    struct report *report = arg;

    if (!report->is_title_printed)
        printf("broken: %s\n", check);
    report->is_title_printed = true;
    printf("  %s\n", row);
}

static void on_step(const char *check, unsigned done, unsigned of, void *arg)
{
    struct report *report = arg;

    report->is_title_printed = false;
    if (report->is_progress_shown)
        fprintf(stderr, "check %u of %u: %s\n", done + 1, of, check);
}

static int cmd_audit(int argc, char **argv UNUSED, const struct config *config,
                     struct rlock_err *reterr)
{
    struct report report = {.is_progress_shown = isatty(STDERR_FILENO) == 1};
    struct db_audit calls = {.on_row = on_row, .on_step = on_step, .arg = &report};
    struct db *db = NULL;
    uint64_t broken = 0;
    enum rlock_status status;

    if (argc != 1 || database_url_check(config->database_url, NULL, reterr) != RLOCK_OK)
        return EXIT_USAGE;
    status = db_open(config->database_url, &db, reterr);
    if (status == RLOCK_OK)
        status = db_audit(db, &calls, &broken, reterr);
    db_close(db);
    if (status != RLOCK_OK)
        return EXIT_FAILED;
    if (broken > 0)
        printf("broken: %" PRIu64 " row%s\n", broken, broken == 1 ? "" : "s");
    else
        puts("audit passed");
    return broken > 0 ? EXIT_BROKEN : EXIT_FINE;
}

const struct command command_audit = {
    "audit", "check that nothing was oversold or sold twice", cmd_audit, true, false};
