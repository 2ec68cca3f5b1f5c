/* cmd_erase.c - `seckill erase`: replaces the ids of shoppers that are no longer needed. */
#include "app/cmd/cmd.h"
#include "app/core/text.h"
#include "app/store/database_url.h"
#include "app/store/db.h"

#include <stdio.h>
#include <string.h>

#define DAYS_MAX 100000

struct erasure {
    const char *user; /* NULL: erase the shoppers of ended sales */
    const char *days, *schema;
    bool is_dry_run;
    unsigned done; /* rows that say what was changed */
    struct rlock_err refusal;
};

static bool parse_arguments(int argc, char **argv, struct erasure *erasure)
{
    const char *number;
    int64_t value;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dry-run") == 0)
            erasure->is_dry_run = true;
        else if (strcmp(argv[i], "--user") == 0)
            erasure->user = argv[++i]; /* NULL behind the last argument */
        else if (strcmp(argv[i], "--ended") == 0)
            erasure->days = argv[++i];
        else if (strcmp(argv[i], "--archive") == 0)
            erasure->schema = argv[++i];
        else
            return false;
    }
    if ((erasure->user == NULL) == (erasure->days == NULL) ||
        (erasure->days == NULL) != (erasure->schema == NULL))
        return false;
    number = erasure->user != NULL ? erasure->user : erasure->days;
    return text_parse_id((struct text){number, strlen(number)}, &value) &&
           (erasure->user != NULL || value <= DAYS_MAX);
}

/* `text` says what was changed, or why nothing was changed. */
static void erase_on_row(const char *text, const char *is_done, void *arg)
{
    struct erasure *erasure = arg;

    if (strcmp(is_done, "t") == 0) {
        puts(text);
        erasure->done++;
    } else {
        snprintf(erasure->refusal.text, sizeof(erasure->refusal.text), "%s", text);
    }
}

/* Each ended sale is a transaction, so that no transaction takes long. A dry run is one
   transaction, which the server rolls back when the connection is closed. */
static enum rlock_status erase(struct db *db, struct erasure *erasure,
                               struct rlock_err *reterr)
{
    bool is_user = erasure->user != NULL;
    const char *const values[] = {is_user ? erasure->user : erasure->days,
                                  erasure->schema};
    const struct db_query begin = {.name = "begin"};
    const struct db_query query = {.name = is_user ? "erase_user" : "erase_ended",
                                   .values = values,
                                   .count = is_user ? 1 : 2,
                                   .on_row = erase_on_row,
                                   .arg = erasure};
    enum rlock_status status = RLOCK_OK;
    unsigned before;

    if (erasure->is_dry_run)
        status = db_ask(db, &begin, reterr);
    do {
        before = erasure->done;
        if (status == RLOCK_OK)
            status = db_ask(db, &query, reterr);
    } while (!is_user && erasure->done > before);
    return status;
}

static int cmd_erase(int argc, char **argv, const struct config *config,
                     struct rlock_err *reterr)
{
    struct erasure erasure = {0};
    struct db *db = NULL;
    enum rlock_status status;

    if (!parse_arguments(argc, argv, &erasure) ||
        database_url_check(config->database_url, NULL, reterr) != RLOCK_OK)
        return EXIT_USAGE;
    status = db_open(config->database_url, &db, reterr);
    if (status == RLOCK_OK)
        status = erase(db, &erasure, reterr);
    db_close(db);
    if (status != RLOCK_OK)
        return EXIT_FAILED;
    *reterr = erasure.refusal;
    if (reterr->text[0] != '\0')
        return EXIT_BROKEN;
    if (erasure.user == NULL)
        printf("%u vouchers\n", erasure.done);
    if (erasure.is_dry_run)
        puts("nothing was changed: this was a dry run");
    return EXIT_FINE;
}

const struct command command_erase = {
    "erase", "replace ids of shoppers by random numbers", cmd_erase, true, false};
