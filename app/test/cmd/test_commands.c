/*
 * test_commands.c - what the commands print and return, with a fake database and fake locks.
 */
#include "app/auth/auth.h"
#include "app/cmd/cmd.h"
#include "app/store/db.h"
#include "app/test/append.h"
#include "app/test/jwt_config.h"
#include "base/clock.h"
#include "lock/rlock_sync.h"
#include "test/case_list.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECRET        "0123456789abcdef0123456789abcdef"
#define ARGUMENTS_MAX 8

/* clang-format off */
struct db { int unused; };
struct rlock_sync { int unused; };
struct rlock_client { int unused; };
/* clang-format on */

static struct {
    char trace[1000];
    const char *fails;
    enum rlock_status failure;
    bool is_terminal;
    uint64_t broken;
    int owners;
    const char *row[2];
    unsigned answers;
    struct db db;
    struct rlock_sync sync;
    struct rlock_client client;
} fake;

static struct config config;

#define ADD(...) append(fake.trace, sizeof(fake.trace), __VA_ARGS__)

static enum rlock_status result(const char *name, struct rlock_err *reterr)
{
    return fake.fails != NULL && strcmp(fake.fails, name) == 0
               ? err_set(reterr, fake.failure, "%s failed", name)
               : RLOCK_OK;
}

/* -- what the commands call -- */

int isatty(int fd)
{
    return fd == STDERR_FILENO && fake.is_terminal;
}

int execvp(const char *file, char *const argv[])
{
    ADD("exec %s %s;", file, argv[1]);
    errno = ENOENT;
    return -1;
}

enum rlock_status db_open(const char *database_url, struct db **ret_db,
                          struct rlock_err *reterr)
{
    enum rlock_status status = result("open", reterr);

    ADD("open %s;", database_url);
    if (status == RLOCK_OK)
        *ret_db = &fake.db;
    return status;
}

void db_close(struct db *db)
{
    ADD("close%s;", db == NULL ? " NULL" : "");
}

enum rlock_status db_migrate(struct db *db, const struct db_migration *options,
                             struct rlock_err *reterr)
{
    assert_ptr_equal(db, &fake.db);
    ADD("migrate %d %s %s %s;", options->is_dry_run,
        options->service_role != NULL ? options->service_role : "-",
        options->cell != NULL ? options->cell : "-",
        options->aggregate != NULL ? options->aggregate : "-");
    options->on_step("one.sql", options->arg);
    options->on_warning("careful", options->arg);
    options->on_step("two.sql", options->arg);
    return result("migrate", reterr);
}

enum rlock_status db_audit(struct db *db, const struct db_audit *audit,
                           uint64_t *ret_broken, struct rlock_err *reterr)
{
    assert_ptr_equal(db, &fake.db);
    audit->on_step("first", 0, 2, audit->arg);
    for (uint64_t i = 0; i < fake.broken; i++)
        audit->on_row("first", "a row", audit->arg);
    audit->on_step("second", 1, 2, audit->arg);
    if (fake.broken > 0)
        audit->on_row("second", "its row", audit->arg);
    *ret_broken = fake.broken;
    return result("audit", reterr);
}

enum rlock_status db_ask(struct db *db, const struct db_query *query,
                         struct rlock_err *reterr)
{
    enum rlock_status status = result(query->name, reterr);

    assert_ptr_equal(db, &fake.db);
    ADD("%s", query->name);
    for (int i = 0; i < query->count; i++)
        ADD(" %s", query->values[i]);
    ADD(";");
    if (status == RLOCK_OK && query->on_row != NULL && fake.answers > 0) {
        fake.answers--;
        query->on_row(fake.row[0], fake.row[1], query->arg);
    }
    return status;
}

enum rlock_status rlock_sync_start(struct rlock_sync **ret_sync, struct rlock_err *reterr)
{
    enum rlock_status status = result("start", reterr);

    if (status == RLOCK_OK)
        *ret_sync = &fake.sync;
    return status;
}

enum rlock_status rlock_sync_open(struct rlock_sync *sync,
                                  const struct rlock_client_options *options,
                                  struct rlock_client **ret_client,
                                  struct rlock_err *reterr)
{
    assert_ptr_equal(sync, &fake.sync);
    ADD("open %s %u;", options->redis_url, options->timeout_ms);
    *ret_client = &fake.client;
    return result("open", reterr);
}

enum rlock_status rlock_sync_force_release(struct rlock_sync *sync,
                                           struct rlock_client *client, const char *name,
                                           size_t name_len, struct rlock_err *reterr)
{
    assert_ptr_equal(sync, &fake.sync);
    assert_ptr_equal(client, &fake.client);
    ADD("release %.9s %zu;", name, name_len);
    return result("release", reterr);
}

// NOLINTNEXTLINE(readability-function-size): as in rlock_sync.h
enum rlock_status rlock_sync_list(struct rlock_sync *sync, struct rlock_client *client,
                                  const char *name, size_t name_len,
                                  bool (*each)(const struct rlock_info *info, void *arg),
                                  void *arg, struct rlock_err *reterr)
{
    assert_ptr_equal(sync, &fake.sync);
    assert_ptr_equal(client, &fake.client);
    ADD("list %.9s %zu;", name != NULL ? name : "-", name_len);
    for (int i = 0; i < fake.owners; i++) {
        const struct rlock_info info = {.name = "lockX",
                                        .name_len = 4,
                                        .owner = "ownerX",
                                        .owner_len = 5,
                                        .remaining_ms = 7,
                                        .waiters = i % 2,
                                        .is_near = i % 2 == 0};

        if (!each(&info, arg))
            break;
        ADD("%s", i == 1000 ? "too many;" : "");
    }
    return result("list", reterr);
}

void rlock_sync_close(struct rlock_sync *sync)
{
    ADD("close%s;", sync == NULL ? " NULL" : "");
}

void rlock_sync_free(struct rlock_sync *sync)
{
    ADD("free%s;", sync == NULL ? " NULL" : "");
}

/* -- helpers -- */

static int setup(void **state UNUSED)
{
    memset(&fake, 0, sizeof(fake));
    fake.failure = RLOCK_IO;
    config = jwt_config(SECRET, "");
    config.database_url = "host=h";
    config.redis_url = "redis://r";
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, setup, NULL, NULL)

struct ended {
    int code;
    char out[100000], err[1000];
    struct rlock_err why;
};

static int redirect(int fd, const char *path)
{
    int kept = dup(fd), file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    dup2(file, fd);
    close(file);
    return kept;
}

static void restore(int fd, int kept, const char *path, char *ret_text, size_t size)
{
    FILE *file;

    dup2(kept, fd);
    close(kept);
    file = fopen(path, "re");
    assert_non_null(file);
    ret_text[fread(ret_text, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(path);
}

static const struct ended *run(const struct command *command, const char *line)
{
    static struct ended ended;
    static char words[1000];
    char out[] = "/tmp/test_commands.XXXXXX", err[] = "/tmp/test_commands.XXXXXX";
    char *argv[ARGUMENTS_MAX + 1] = {NULL}, *at = words;
    int argc = 0, kept_out, kept_err;

    snprintf(words, sizeof(words), "%s", line);
    while (argc < ARGUMENTS_MAX && (argv[argc] = strsep(&at, " ")) != NULL)
        argc++;
    close(mkstemp(out));
    close(mkstemp(err));
    ended.why = (struct rlock_err){0};
    fake.trace[0] = '\0';
    optind = 0;
    fflush(stdout);
    kept_out = redirect(STDOUT_FILENO, out);
    kept_err = redirect(STDERR_FILENO, err);
    ended.code = command->run(argc, argv, &config, &ended.why);
    fflush(stdout);
    restore(STDOUT_FILENO, kept_out, out, ended.out, sizeof(ended.out));
    restore(STDERR_FILENO, kept_err, err, ended.err, sizeof(ended.err));
    return &ended;
}

struct row {
    const char *line;
    int code;
    const char *out, *err, *why, *trace;
};

static void check(const struct command *command, const struct row *row)
{
    const struct ended *ended = run(command, row->line);

    if (ended->code != row->code || strcmp(ended->out, row->out) != 0 ||
        strcmp(ended->err, row->err) != 0 || strcmp(ended->why.text, row->why) != 0 ||
        strcmp(fake.trace, row->trace) != 0)
        fail_msg("%s: expected %d \"%s\" \"%s\" \"%s\" \"%s\", got %d \"%s\" \"%s\" "
                 "\"%s\" \"%s\"",
                 row->line, row->code, row->out, row->err, row->why, row->trace,
                 ended->code, ended->out, ended->err, ended->why.text, fake.trace);
}

/* -- migrate -- */

#define APPLIED "2 applied, the database is up to date\n"
#define WARNING "seckill migrate: warning: careful\n"

CASE(test_migrate__arguments)
{
    static const struct row rows[] = {
        {"migrate", 0, APPLIED, WARNING, "", "open host=h;migrate 0 - - -;close;"},
        {"migrate --dry-run", 0, "one.sql\ntwo.sql\n2 to apply, nothing was changed\n",
         WARNING, "", "open host=h;migrate 1 - - -;close;"},
        {"migrate --service-role r", 0, APPLIED, WARNING, "",
         "open host=h;migrate 0 r - -;close;"},
        {"migrate --service-role r --cell 1/2", 0, APPLIED, WARNING, "",
         "open host=h;migrate 0 r 1/2 -;close;"},
        {"migrate --service-role r --aggregate u", 0, APPLIED, WARNING, "",
         "open host=h;migrate 0 r - u;close;"},
        {"migrate --cell 1/2 --aggregate u", 64, "", "", "", ""},
        {"migrate --cell", 64, "", "", "", ""},
        {"migrate --what u", 64, "", "", "", ""},
        {"migrate --service-role", 64, "", "", "", ""},
        {"migrate --aggregate", 64, "", "", "", ""},
        {"migrate what", 64, "", "", "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(&command_migrate, &rows[i]);
    fake.is_terminal = true;
    check(&command_migrate,
          &(struct row){"migrate", 0, APPLIED,
                        "applying one.sql\n" WARNING "applying two.sql\n", "",
                        "open host=h;migrate 0 - - -;close;"});
    config.database_url = "mysql://x";
    assert_int_equal(run(&command_migrate, "migrate")->code, EXIT_USAGE);
    assert_string_equal(fake.trace, "");
}

CASE(test_migrate__failures)
{
    fake.fails = "open";
    check(&command_migrate,
          &(struct row){"migrate", 2, "", "", "open failed", "open host=h;close NULL;"});
    fake.fails = "migrate";
    check(&command_migrate, &(struct row){"migrate", 2, "", WARNING, "migrate failed",
                                          "open host=h;migrate 0 - - -;close;"});
    fake.failure = RLOCK_INVALID;
    check(&command_migrate, &(struct row){"migrate", 1, "", WARNING, "migrate failed",
                                          "open host=h;migrate 0 - - -;close;"});
}

/* -- audit -- */

CASE(test_audit__prints_what_is_broken)
{
    static const struct {
        uint64_t broken;
        struct row row;
    } rows[] = {
        {0, {"audit", 0, "audit passed\n", "", "", "open host=h;close;"}},
        {1,
         {"audit", 1,
          "broken: first\n  a row\nbroken: second\n  its row\nbroken: 1 row\n", "", "",
          "open host=h;close;"}},
        {2,
         {"audit", 1,
          "broken: first\n  a row\n  a row\nbroken: second\n  its row\nbroken: 2 rows\n",
          "", "", "open host=h;close;"}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fake.broken = rows[i].broken;
        check(&command_audit, &rows[i].row);
    }
    setup(NULL);
    fake.is_terminal = true;
    check(&command_audit, &(struct row){"audit", 0, "audit passed\n",
                                        "check 1 of 2: first\ncheck 2 of 2: second\n", "",
                                        "open host=h;close;"});
    check(&command_audit, &(struct row){"audit what", 64, "", "", "", ""});
    config.database_url = "mysql://x";
    assert_int_equal(run(&command_audit, "audit")->code, EXIT_USAGE);
    setup(NULL);
    fake.fails = "open";
    check(&command_audit,
          &(struct row){"audit", 2, "", "", "open failed", "open host=h;close NULL;"});
    fake.fails = "audit";
    check(&command_audit,
          &(struct row){"audit", 2, "", "", "audit failed", "open host=h;close;"});
}

/* -- erase -- */

#define DRY "nothing was changed: this was a dry run\n"

CASE(test_erase__erases_one_shopper_or_all_ended_sales)
{
    static const struct {
        unsigned answers;
        struct row row;
    } rows[] = {
        {1,
         {"erase --user 9223372036854775807", 0, "a row\n", "", "",
          "open host=h;erase_user 9223372036854775807;close;"}},
        {9,
         {"erase --dry-run --user 5", 0, "a row\n" DRY, "", "",
          "open host=h;begin;erase_user 5;close;"}},
        {2,
         {"erase --ended 100000 --archive a", 0, "a row\na row\n2 vouchers\n", "", "",
          "open host=h;erase_ended 100000 a;erase_ended 100000 a;"
          "erase_ended 100000 a;close;"}},
        {0,
         {"erase --archive a --ended 1 --dry-run", 0, "0 vouchers\n" DRY, "", "",
          "open host=h;begin;erase_ended 1 a;close;"}},
        {0, {"erase", 64, "", "", "", ""}},
        {0, {"erase --dry-run", 64, "", "", "", ""}},
        {0, {"erase --user", 64, "", "", "", ""}},
        {0, {"erase --user 0", 64, "", "", "", ""}},
        {0, {"erase --user 1 2", 64, "", "", "", ""}},
        {0, {"erase --user 1 --ended 2 --archive a", 64, "", "", "", ""}},
        {0, {"erase --user 1 --archive a", 64, "", "", "", ""}},
        {0, {"erase --ended 2", 64, "", "", "", ""}},
        {0, {"erase --ended 2 --archive", 64, "", "", "", ""}},
        {0, {"erase --ended 0 --archive a", 64, "", "", "", ""}},
        {0, {"erase --ended 100001 --archive a", 64, "", "", "", ""}},
        {0, {"erase --archive a", 64, "", "", "", ""}},
    };

    fake.row[0] = "a row";
    fake.row[1] = "t";
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fake.answers = rows[i].answers;
        check(&command_erase, &rows[i].row);
    }
    config.database_url = "mysql://x";
    assert_int_equal(run(&command_erase, "erase --user 1")->code, EXIT_USAGE);
}

CASE(test_erase__failures)
{
    fake.row[0] = "r";
    fake.row[1] = "f";
    fake.answers = 1;
    check(&command_erase, &(struct row){"erase --user 5", 1, "", "", "r",
                                        "open host=h;erase_user 5;close;"});
    fake.fails = "open";
    check(&command_erase, &(struct row){"erase --user 5", 2, "", "", "open failed",
                                        "open host=h;close NULL;"});
    fake.fails = "begin";
    check(&command_erase, &(struct row){"erase --user 5 --dry-run", 2, "", "",
                                        "begin failed", "open host=h;begin;close;"});
    fake.fails = "erase_ended";
    check(&command_erase,
          &(struct row){"erase --ended 5 --archive a", 2, "", "", "erase_ended failed",
                        "open host=h;erase_ended 5 a;close;"});
}

/* -- lock -- */

#define OPEN "open redis://r 3000;"
#define END  "close;free;"
#define HELD "lock is held by owner for another 7 ms"

CASE(test_lock__arguments)
{
    static const struct {
        int owners;
        struct row row;
    } rows[] = {
        {0, {"lock", 64, "", "", "", ""}},
        {0, {"lock steal x", 64, "", "", "", ""}},
        {0, {"lock show", 64, "", "", "", ""}},
        {0, {"lock show ", 64, "", "", "", ""}},
        {0, {"lock show x y", 64, "", "", "", ""}},
        {0, {"lock list x", 64, "", "", "", ""}},
        {0, {"lock list --mine x", 64, "", "", "", ""}},
        {0, {"lock list", 0, "", "", "", OPEN "list - 0;" END}},
        {2,
         {"lock list", 0, HELD "\n" HELD ", 1 waiting\n", "", "", OPEN "list - 0;" END}},
        {3, {"lock list --mine", 0, HELD "\n" HELD "\n", "", "", OPEN "list - 0;" END}},
        {0, {"lock show x", 1, "x is free\n", "", "", OPEN "list x 1;" END}},
        {1, {"lock show x", 0, HELD "\n", "", "", OPEN "list x 1;" END}},
        {1, {"lock show --mine", 0, HELD "\n", "", "", OPEN "list --mine 6;" END}},
        {0, {"lock release x", 0, "x was released\n", "", "", OPEN "release x 1;" END}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fake.owners = rows[i].owners;
        check(&command_lock, &rows[i].row);
    }
}

CASE(test_lock__limits)
{
    static char line[RLOCK_NAME_MAX + 100] = "lock show ";
    const char *out;
    int lines = 0;

    memset(line + 10, 'x', RLOCK_NAME_MAX);
    assert_int_equal(run(&command_lock, line)->code, EXIT_BROKEN);
    line[10 + RLOCK_NAME_MAX] = 'x';
    assert_int_equal(run(&command_lock, line)->code, EXIT_USAGE);
    fake.owners = 1001;
    out = run(&command_lock, "lock list")->out;
    for (const char *at = out; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 1001);
    ASSERT_CONTAINS(out, "\nand more\n");
    assert_null(strstr(fake.trace, "too many"));
    fake.owners = 1000;
    assert_null(strstr(run(&command_lock, "lock list")->out, "and more"));
}

CASE(test_lock__failures)
{
    fake.fails = "start";
    check(&command_lock, &(struct row){"lock show x", 2, "", "", "start failed",
                                       "close NULL;free NULL;"});
    fake.fails = "open";
    check(&command_lock,
          &(struct row){"lock show x", 2, "", "", "open failed", OPEN END});
    fake.failure = RLOCK_INVALID;
    check(&command_lock,
          &(struct row){"lock show x", 64, "", "", "open failed", OPEN END});
    fake.fails = "list";
    fake.failure = RLOCK_REFUSED;
    check(&command_lock, &(struct row){"lock show x", 2, "", "", "Redis: list failed",
                                       OPEN "list x 1;" END});
    fake.fails = "release";
    check(&command_lock, &(struct row){"lock release x", 2, "", "",
                                       "Redis: release failed", OPEN "release x 1;" END});
    fake.failure = RLOCK_NOT_FOUND;
    check(&command_lock, &(struct row){"lock release x", 1, "x is free\n", "", "",
                                       OPEN "release x 1;" END});
}

/* -- token -- */

/* Asserts that the token is for `wanted`. A token depends on the second in which it was made, so
   the function tries all seconds from from_s until now. */
static void assert_token(const char *token, const struct identity *wanted, int64_t ttl_s,
                         int64_t from_s)
{
    int64_t now_s = clock_real_us() / 1000000;
    struct auth *auth = NULL;
    bool is_found = false;

    assert_int_equal(auth_create(&config, &auth, NULL), RLOCK_OK);
    for (int64_t at_s = from_s; at_s <= now_s && !is_found; at_s++) {
        char *expected;

        assert_int_equal(auth_make(auth, wanted, at_s, ttl_s, &expected, NULL), RLOCK_OK);
        is_found = strncmp(token, expected, strlen(expected)) == 0 &&
                   token[strlen(expected)] == '\n';
        free(expected);
    }
    auth_free(auth);
    if (!is_found)
        fail_msg("expected a token of %" PRId64 " for %" PRId64 " s, got %s",
                 wanted->user_id, ttl_s, token);
}

CASE(test_token__arguments)
{
    static const struct {
        const char *line;
        struct identity first;
        int64_t ttl_s;
        int count;
    } rows[] = {
        {"token --user 1", {1, AUTH_SHOPPER, ""}, 86400, 1},
        {"token --user 1 --count 3", {1, AUTH_SHOPPER, ""}, 86400, 3},
        {"token --role admin --user 5 --ttl 60", {5, AUTH_ADMIN, ""}, 60, 1},
        {"token --user 5 --ttl 2147483646", {5, AUTH_SHOPPER, ""}, 2147483646, 1},
        {"token --user 9223372036854775806", {INT64_MAX - 1, AUTH_SHOPPER, ""}, 86400, 1},
        {"token --user 5 --jti j", {5, AUTH_SHOPPER, "j"}, 86400, 1},
        {"token --user 9223372036854775806", {INT64_MAX - 1, AUTH_SHOPPER, ""}, 86400, 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t from_s = clock_real_us() / 1000000;
        const struct ended *ended = run(&command_token, rows[i].line);
        struct identity wanted = rows[i].first;
        const char *at = ended->out;

        assert_int_equal(ended->code, EXIT_FINE);
        for (int k = 0; k < rows[i].count; k++, wanted.user_id++) {
            assert_token(at, &wanted, rows[i].ttl_s, from_s);
            at = strchr(at, '\n') + 1;
        }
        assert_string_equal(at, "");
    }
}

CASE(test_token__that_cannot_be_printed_is_a_failure)
{
    char *argv[] = {"token", "--user", "1", NULL};
    FILE *kept = stdout, *full = fopen("/dev/full", "we");
    struct rlock_err why = {0};
    int code;

    assert_non_null(full);
    optind = 0;
    stdout = full;
    code = command_token.run(3, argv, &config, &why);
    stdout = kept;
    fclose(full);
    assert_int_equal(code, EXIT_FAILED);
    assert_string_equal(why.text, "standard output: No space left on device");
}

CASE(test_token__invalid_arguments)
{
    static const struct row rows[] = {
        {"token", 64, "", "", "", ""},
        {"token --user 1 what", 64, "", "", "", ""},
        {"token --user 0", 64, "", "seckill token: invalid value \"0\"\n", "", ""},
        {"token --user 0 --user 1", 64, "", "seckill token: invalid value \"0\"\n", "",
         ""},
        {"token --user 1 --role x", 64, "", "seckill token: invalid value \"x\"\n", "",
         ""},
        {"token --user 1 --ttl x", 64, "", "seckill token: invalid value \"x\"\n", "",
         ""},
        {"token --user 1 --ttl 2147483647", 64, "",
         "seckill token: invalid value \"2147483647\"\n", "", ""},
        {"token --user 1 --count x", 64, "", "seckill token: invalid value \"x\"\n", "",
         ""},
        {"token --user 1 --jti ", 64, "", "seckill token: invalid value \"\"\n", "", ""},
        {"token --user 1 --what", 64, "", "token: unrecognized option '--what'\n", "",
         ""},
        {"token --user 9223372036854775807 --count 1", 64, "", "", "", ""},
    };
    char line[200] = "token --user 1 --jti ";

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(&command_token, &rows[i]);
    memset(line + strlen(line), 'j', AUTH_ID_BYTES_MAX);
    assert_int_equal(run(&command_token, line)->code, EXIT_FINE);
    line[strlen(line)] = 'j';
    assert_int_equal(run(&command_token, line)->code, EXIT_USAGE);
    config.jwt_secret = "short";
    assert_int_equal(run(&command_token, "token --user 1")->code, EXIT_USAGE);
    config.jwt_secret = SECRET;
    config.jwt_alg = CONFIG_RS256;
    assert_int_equal(run(&command_token, "token --user 1")->code, EXIT_USAGE);
}

/* -- top, cells and version -- */

CASE(test_scripts__run_beside_the_program)
{
    static char program[] = "/opt/seckill";
    char *kept = program_invocation_name;

    program_invocation_name = program;
    check(&command_top, &(struct row){"top x", 2, "", "",
                                      "cannot run /opt/seckill-top with Python 3: "
                                      "No such file or directory",
                                      "exec /opt/seckill-top x;"});
    check(&command_cells, &(struct row){"cells x", 2, "", "",
                                        "cannot run /opt/seckill-cells with Python 3: "
                                        "No such file or directory",
                                        "exec /opt/seckill-cells x;"});
    program_invocation_name = kept;
}

CASE(test_version__is_printed)
{
    const struct ended *ended = run(&command_version, "version");

    assert_int_equal(ended->code, EXIT_FINE);
    ASSERT_CONTAINS(ended->out, "seckill " SECKILL_VERSION "\ncommit ");
    check(&command_version, &(struct row){"version what", 64, "", "", "", ""});
}

int main(void)
{
    return cases_run(NULL, NULL);
}
