/* it_pooler.c - Postgres behind PgBouncer: session mode is used, the other modes are refused. */
#include "app/test/sale/fault_fixture.h"
#include "test/port.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PGBOUNCER "/usr/sbin/pgbouncer"

static struct pooler {
    unsigned port;
    pid_t pid;
    char url[80];
} pooler;

static bool has_prepared_statements(void)
{
    static const char *const argv[] = {PGBOUNCER, "--version", NULL};
    const char *version = strstr(fixture_run(fixture, NULL, argv)->out, "PgBouncer 1.");

    assert_non_null(version);
    return strtol(version + strlen("PgBouncer 1."), NULL, 10) >= 21;
}

static void write_config(const char *path, const char *settings)
{
    const char *user = strstr(fixture->service_url, "//") + 2;
    const char *password = strchr(user, ':') + 1;
    const char *at = strchr(password, '@');
    const char *port = strchr(at, ':') + 1;
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fprintf(file,
            "[databases]\n"
            "seckill = host=127.0.0.1 port=%.*s user=" SERVICE_ROLE " password=%.*s\n"
            "[pgbouncer]\n"
            "listen_addr = 127.0.0.1\n"
            "listen_port = %u\n"
            "unix_socket_dir =\n"
            "auth_type = any\n"
            "default_pool_size = 60\n"
            "%s\n",
            (int)strcspn(port, "/"), port, (int)(at - password), password, pooler.port,
            settings);
    fclose(file);
}

/* As root, PgBouncer runs as the user of Postgres, which it requires. */
static void execute(const char *path)
{
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, STDERR_FILENO);
    if (getuid() == 0)
        execl(PGBOUNCER, PGBOUNCER, "-u", "postgres", path, (char *)NULL);
    else
        execl(PGBOUNCER, PGBOUNCER, path, (char *)NULL);
    _exit(127);
}

static const char *read_by_pooler(const char *statement)
{
    const char *const argv[] = {"psql", "-XAtq", pooler.url, "-c", statement, NULL};

    return fixture_run(fixture, NULL, argv)->out;
}

static bool answers(void *unused UNUSED)
{
    return strcmp(read_by_pooler("select 1"), "1\n") == 0;
}

static void start_pooler(const char *settings)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/pgbouncer.ini", fixture->dir);
    write_config(path, settings);
    pooler.pid = fork();
    assert_true(pooler.pid >= 0);
    if (pooler.pid == 0)
        execute(path);
    AWAIT(answers, NULL);
}

static void stop_pooler(void)
{
    if (pooler.pid <= 0)
        return;
    kill(pooler.pid, SIGKILL);
    waitpid(pooler.pid, NULL, 0);
    pooler.pid = 0;
}

/* A pooler that has changed its user does not end with this program. */
static int end_pooler(void **state)
{
    stop_pooler();
    return fixture_end_test(state);
}

#define POOLER_CASE(name) DEFINE_CASE(name, name, NULL, end_pooler, NULL)

static struct service *spawn(void)
{
    char setting[120];
    const char *const env[] = {setting, "SECKILL_WORKERS=4", NULL};

    snprintf(setting, sizeof(setting), "SECKILL_DATABASE_URL=%s", pooler.url);
    return fixture_spawn(fixture, env);
}

static void choose_port(void)
{
    pooler.port = port_free();
    snprintf(pooler.url, sizeof(pooler.url),
             "postgresql://" SERVICE_ROLE "@127.0.0.1:%u/seckill", pooler.port);
}

static bool is_refused(void *service)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /readyz");

    return reply->status == 503 &&
           strstr(reply->body, "\"postgres\":\"pooler_transaction_mode\"") != NULL;
}

static bool has_metric(void *service)
{
    return service_metric(service, "seckill_postgres_refused{reason="
                                   "\"pooler_transaction_mode\"}") == 1;
}

static void check_refusal(const char *settings)
{
    struct service *service;

    start_pooler(settings);
    service = spawn();
    AWAIT(is_refused, service);
    AWAIT(has_metric, service);
    service_await_log(service,
                      "why=\"a pooler gives each transaction another server process");
    /* nothing has reached the sessions of other clients */
    assert_string_equal(read_by_pooler("show statement_timeout"), "0\n");
    assert_string_equal(read_by_pooler("show enable_seqscan"), "on\n");
    assert_string_equal(read_by_pooler("select count(*) from pg_prepared_statements"),
                        "0\n");
    stop_pooler();
    start_pooler("pool_mode = session");
    service_await(service, "/readyz", 200);
    service_stop(service);
    stop_pooler();
}

POOLER_CASE(test_serve__refuses_a_pooler_in_transaction_mode)
{
    choose_port();
    check_refusal("pool_mode = transaction");
    check_refusal("pool_mode = transaction\nserver_round_robin = 1\nmin_pool_size = 4");
    check_refusal("pool_mode = transaction\ndefault_pool_size = 1");
    check_refusal("pool_mode = statement");
    if (has_prepared_statements())
        check_refusal("pool_mode = transaction\nmax_prepared_statements = 200");
    else
        print_message("PgBouncer before 1.21: max_prepared_statements is not tested\n");
}

POOLER_CASE(test_serve__behind_a_pooler_in_session_mode)
{
    char voucher_id[ID_SIZE];
    struct service *service;

    choose_port();
    start_pooler("pool_mode = session");
    service = spawn();
    service_await(service, "/readyz", 200);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    EXPECT(place_order(service, 1, voucher_id, NULL), 409, "already_ordered");
    assert_false(service_has_logged(service, "a pooler gives"));
    service_stop(service);
    stop_pooler();
}

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
