/* cmd_webhook.c - `seckill webhook`: the endpoints to which webhooks are sent. */
#include "app/auth/signature.h"
#include "app/cmd/cmd.h"
#include "app/core/text.h"
#include "app/store/database_url.h"
#include "app/store/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_SIZE 20

static const struct verb {
    const char *name;
    const char *query; /* of sql/queries */
    int argc_min, argc_max;
    int values; /* of the query */
    bool is_report;
    const char *is_enabled; /* the second value of a change */
} verbs[] = {{"add", "webhook_add", 3, 4, 6, false, NULL},
             {"list", "webhook_list", 2, 2, 0, true, NULL},
             {"log", "webhook_log", 3, 3, 1, true, NULL},
             {"enable", "webhook_change", 3, 3, 5, false, "1"},
             {"disable", "webhook_change", 3, 3, 5, false, "0"},
             {"replay", "webhook_change", 4, 4, 5, false, "1"},
             {"remove", "webhook_remove", 3, 3, 1, false, NULL}};

struct question {
    const struct verb *verb;
    const char *values[6]; /* of an endpoint, the cursor is [2] and [3], or NULL */
    char first[NUMBER_SIZE], number[NUMBER_SIZE]; /* of the cursor */
    char secret[SIGNATURE_SECRET_BYTES];
    unsigned rows; /* of the answer */
    bool has_failing;
};

static const struct verb *find_verb(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return &verbs[i];
    }
    return NULL;
}

/* Whether the text up to `end` is a number. */
static bool is_number(const char *text, const char *end)
{
    return text < end && end - text < NUMBER_SIZE &&
           text + strspn(text, "0123456789") >= end;
}

static bool read_cursor(struct question *question, const char *cursor)
{
    const char *mark = strchr(cursor, '_');
    long long first;

    if (mark == NULL || !is_number(cursor, mark) ||
        !is_number(mark + 1, cursor + strlen(cursor)))
        return false;
    snprintf(question->first, NUMBER_SIZE, "%.*s", (int)(mark - cursor), cursor);
    snprintf(question->number, NUMBER_SIZE, "%s", mark + 1);
    errno = 0;
    first = strtoll(question->first, NULL, 10);
    if (strtoll(question->number, NULL, 10) < first || errno != 0)
        return false;
    question->values[2] = question->first;
    question->values[3] = question->number;
    return true;
}

/* False: the arguments are invalid. */
static bool parse(struct question *question, int argc, char **argv)
{
    bool is_add;

    question->verb = find_verb(argc, argv);
    if (question->verb == NULL || argc < question->verb->argc_min ||
        argc > question->verb->argc_max)
        return false;
    if (argc == 2)
        return true;
    is_add = question->verb == &verbs[0];
    question->values[0] = argv[2];
    question->values[1] = is_add ? question->secret : question->verb->is_enabled;
    return (is_add ? text_is_url((struct text){argv[2], strlen(argv[2])})
                   : is_number(argv[2], argv[2] + strlen(argv[2]))) &&
           (argc == 3 || read_cursor(question, argv[3]));
}

/* `text` is an id or a line, and `is_fine` is "f" if an endpoint fails. */
static void webhook_on_row(const char *text, const char *is_fine, void *arg)
{
    struct question *question = arg;

    question->rows++;
    question->has_failing = question->has_failing || strcmp(is_fine, "f") == 0;
    if (question->verb->is_report && text[0] != '\0')
        puts(text);
    else if (question->values[1] == question->secret)
        printf("id %s\nsecret %s\n", text, question->secret);
}

static enum rlock_status ask(struct question *question, const char *database_url,
                             struct rlock_err *reterr)
{
    const struct db_query query = {.name = question->verb->query,
                                   .values = question->values,
                                   .count = question->verb->values,
                                   .on_row = webhook_on_row,
                                   .arg = question};
    struct db *db = NULL;
    enum rlock_status status = db_open(database_url, &db, reterr);

    if (status == RLOCK_OK)
        status = db_ask(db, &query, reterr);
    db_close(db);
    return status;
}

static int cmd_webhook(int argc, char **argv, const struct config *config,
                       struct rlock_err *reterr)
{
    struct question question = {0};
    enum rlock_status status;

    if (!parse(&question, argc, argv) ||
        database_url_check(config->database_url, NULL, reterr) != RLOCK_OK)
        return EXIT_USAGE;
    if (!signature_make_secret(question.secret)) {
        err_set(reterr, RLOCK_IO, "no random numbers");
        return EXIT_FAILED;
    }
    status = ask(&question, config->database_url, reterr);
    if (status != RLOCK_OK)
        return status == RLOCK_REFUSED ? EXIT_BROKEN : EXIT_FAILED;
    if (question.rows > 0 || question.verb->values == 0)
        return question.has_failing ? EXIT_BROKEN : EXIT_FINE;
    err_set(reterr, RLOCK_NOT_FOUND, "%s: see `seckill webhook --help`",
            question.verb->is_report ? "there is no such endpoint"
                                     : "nothing was changed");
    return EXIT_BROKEN;
}

const struct command command_webhook = {
    "webhook", "add, list or change the endpoints of webhooks", cmd_webhook, true, false};
