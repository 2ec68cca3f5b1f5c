/*
 * fixture.c - servers, guardian, programs; see fixture.h.
 *
 * The services of each test program listen on a loopback address made from the process id of the
 * program. If two programs used the same address and port, SO_REUSEPORT would mix their requests
 * silently.
 */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): pipe2, execvpe
#include "app/test/fixture.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS    "load/servers.sh"
#define GUARDIAN   "app/test/hold_servers.sh"
#define FIRST_PORT 8081
#define PAUSE_MS   5
#define ENV_MAX    64

static struct fixture the_fixture;

/* -- waiting -- */

bool becomes_true(bool (*check)(void *arg), void *arg)
{
    int64_t end_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (!check(arg)) {
        if (clock_mono_us() > end_us)
            return false;
        poll(NULL, 0, PAUSE_MS);
    }
    return true;
}

void await_at(bool (*check)(void *arg), void *arg, const char *name, const char *file,
              int line)
{
    if (becomes_true(check, arg))
        return;
    print_error("%s is not true after %d s. The last request was:\n", name,
                DEADLINE_MS / 1000);
    print_last_request();
    asserts_fail(file, line);
}

struct ending {
    pid_t pid;
    int code;
};

static bool has_ended(void *arg)
{
    struct ending *ending = arg;
    int status;

    if (waitpid(ending->pid, &status, WNOHANG) != ending->pid)
        return false;
    ending->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static int wait_for_child(pid_t pid)
{
    struct ending ending = {.pid = pid, .code = -1};

    if (becomes_true(has_ended, &ending))
        return ending.code;
    kill(pid, SIGKILL);
    kill(pid, SIGCONT);
    waitpid(pid, NULL, 0);
    return -1;
}

/* -- children -- */

struct launch {
    const char *file;
    const char *const *argv;
    const char *const *env;
    const char *out_path;
    const char *err_path;
    bool is_completed;
};

static void redirect(int fd, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (file < 0 || dup2(file, fd) < 0)
        _exit(126);
}

/* Lets a child die with its parent. The child calls this function. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
}

/* Lets another child do the work of the calling child. The caller keeps the pipe of the guardian
   open, so the guardian does not stop the servers while the other child starts a server. */
static void pass_on(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        return;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 126);
}

static void exec_child(const struct launch *launch, char *const *env, pid_t parent)
{
    if (launch->is_completed)
        pass_on();
    else
        die_with(parent);
    redirect(STDOUT_FILENO, launch->out_path);
    redirect(STDERR_FILENO, launch->err_path);
    execvpe(launch->file, (char *const *)(uintptr_t)launch->argv, env);
    dprintf(STDERR_FILENO, "%s: %s\n", launch->file, strerrordesc_np(errno));
    _exit(127);
}

static pid_t start_child(struct fixture *fixture, const struct launch *launch)
{
    char database_url[300], redis_url[300];
    char *env[ENV_MAX];
    size_t count = 0;
    pid_t parent = getpid(), pid;

    for (size_t i = 0; launch->env != NULL && launch->env[i] != NULL; i++)
        env[count++] = (char *)(uintptr_t)launch->env[i];
    snprintf(database_url, sizeof(database_url), "SECKILL_DATABASE_URL=%s",
             fixture->service_url);
    snprintf(redis_url, sizeof(redis_url), "SECKILL_REDIS_URL=%s", fixture->redis_url);
    env[count++] = database_url;
    env[count++] = redis_url;
    env[count++] = "SECKILL_JWT_SECRET=" FIXTURE_SECRET;
    env[count++] = "SECKILL_RATE_PER_USER=0";
    env[count++] = "SECKILL_ORDER_TIMEOUT_MS=60000";
    env[count++] = "SECKILL_WORKERS=2";
    /* small enough for the tests that watch the memory of a service */
    env[count++] = "ASAN_OPTIONS=quarantine_size_mb=1";
    for (size_t i = 0; environ[i] != NULL && count < ENV_MAX - 1; i++)
        if (strncmp(environ[i], "SECKILL_", 8) != 0)
            env[count++] = environ[i];
    env[count] = NULL;
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        exec_child(launch, env, parent);
    assert_true(pid > 0);
    return pid;
}

static void read_whole(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t len;

    assert_non_null(file);
    len = fread(text, 1, size - 1, file);
    text[len] = '\0';
    fclose(file);
    unlink(path);
}

const struct command_result *fixture_run(struct fixture *fixture, const char *const *env,
                                         const char *const *argv)
{
    static struct command_result outcome;
    char out_path[128], err_path[128];
    struct launch launch = {.argv = argv, .env = env};

    snprintf(out_path, sizeof(out_path), "%s/command.out", fixture->dir);
    snprintf(err_path, sizeof(err_path), "%s/command.err", fixture->dir);
    launch.file = strcmp(argv[0], "seckill") == 0 ? fixture->program : argv[0];
    launch.out_path = out_path;
    launch.err_path = err_path;
    launch.is_completed = strcmp(argv[0], SERVERS) == 0;
    outcome.code = wait_for_child(start_child(fixture, &launch));
    read_whole(out_path, outcome.out, sizeof(outcome.out));
    read_whole(err_path, outcome.err, sizeof(outcome.err));
    return &outcome;
}

static void run_well(struct fixture *fixture, const char *const *argv)
{
    const struct command_result *outcome = fixture_run(fixture, NULL, argv);

    if (outcome->code != 0)
        fail_msg("%s %s: code %d: %s", argv[0], argv[1], outcome->code, outcome->err);
}

void fixture_servers(struct fixture *fixture, const char *verb, const char *which)
{
    run_well(fixture, (const char *[]){SERVERS, verb, fixture->dir, which, NULL});
}

pid_t fixture_receive_wal(const struct fixture *fixture)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("pg_receivewal", "pg_receivewal", "--synchronous", "-d",
               fixture->superuser_url, "-D", fixture->dir, (char *)NULL);
        _exit(127);
    }
    return pid;
}

void fixture_mend(struct fixture *fixture, const char *which)
{
    fixture_run(fixture, NULL,
                (const char *[]){SERVERS, "resume", fixture->dir, which, NULL});
    fixture_servers(fixture, "start", which);
}

/* -- services -- */

static void start_service(struct fixture *fixture, struct service *service,
                          const char *command, const char *const *env)
{
    char listen[64];
    const char *all[ENV_MAX] = {listen};
    struct launch launch = {.file = fixture->program,
                            .argv = (const char *[]){"seckill", command, NULL},
                            .env = all,
                            .out_path = service->log_path,
                            .err_path = service->log_path};

    snprintf(listen, sizeof(listen), "SECKILL_LISTEN=%s:%u", service->address.host,
             (unsigned)service->address.port);
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        all[i + 1] = env[i];
    service->pid = start_child(fixture, &launch);
}

void service_respawn(struct fixture *fixture, struct service *service,
                     const char *const *env)
{
    start_service(fixture, service, "serve", env);
}

static struct service *free_service(struct fixture *fixture)
{
    /* each service has a new port, because clients of an ended service may be left */
    static unsigned spawned;
    unsigned pid = (unsigned)getpid();
    struct service *service = fixture->services;

    while (service->pid != 0)
        service++;
    assert_true(service < fixture->services + FIXTURE_SERVICES_MAX);
    snprintf(service->address.host, sizeof(service->address.host), "127.%u.%u.%u",
             1 + ((pid >> 16) & 0x3f), (pid >> 8) & 0xff, pid & 0xff);
    service->address.port = (uint16_t)(FIRST_PORT + spawned++);
    snprintf(service->log_path, sizeof(service->log_path), "%s/serve.%u.log",
             fixture->dir, (unsigned)service->address.port);
    return service;
}

struct service *fixture_spawn(struct fixture *fixture, const char *const *env)
{
    struct service *service = free_service(fixture);

    service_respawn(fixture, service, env);
    return service;
}

struct service *fixture_deliver(struct fixture *fixture, const char *const *env)
{
    struct service *service = free_service(fixture);

    start_service(fixture, service, "deliver", env);
    return service;
}

struct service *fixture_serve(struct fixture *fixture, const char *const *env)
{
    struct service *service = fixture_spawn(fixture, env);

    service_await(service, "/readyz", 200);
    return service;
}

static void write_script(const char *path, const char *before, const char *program,
                         const char *redirections)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\nexec '%s' \"$@\" %s\n", before, program, redirections);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

struct service *fixture_serve_by(struct fixture *fixture, const char *const *env,
                                 const char *before, const char *redirections)
{
    char program[sizeof(fixture->program)], script[sizeof(fixture->program)];
    struct service *service;

    memcpy(program, fixture->program, sizeof(program));
    snprintf(script, sizeof(script), "%s/serve.sh", fixture->dir);
    write_script(script, before, program, redirections);
    memcpy(fixture->program, script, sizeof(script));
    service = fixture_serve(fixture, env);
    memcpy(fixture->program, program, sizeof(program));
    return service;
}

void service_signal(struct service *service, int signal_number)
{
    assert_true(service->pid > 0);
    assert_int_equal(kill(service->pid, signal_number), 0);
}

int service_wait(struct service *service)
{
    int code = wait_for_child(service->pid);

    service->pid = 0;
    return code;
}

int service_stop(struct service *service)
{
    service_signal(service, SIGTERM);
    return service_wait(service);
}

void service_kill(struct service *service)
{
    service_signal(service, SIGKILL);
    service_wait(service);
}

struct awaited {
    struct service *service;
    const char *target;
    int status;
};

/* Whether many requests in a row get this answer. Each request has a new connection, which reaches
   a random loop. */
static bool is_answered(void *arg)
{
    const struct awaited *awaited = arg;

    for (int i = 0; i < IN_A_ROW; i++)
        if (request(awaited->service, NULL, NULL, "GET %s", awaited->target)->status !=
            awaited->status)
            return false;
    return true;
}

static void print_log_end(const struct service *service)
{
    FILE *file = fopen(service->log_path, "re");
    char text[2048];
    size_t len;

    if (file == NULL)
        return;
    if (fseek(file, -(long)(sizeof(text) - 1), SEEK_END) != 0)
        rewind(file);
    len = fread(text, 1, sizeof(text) - 1, file);
    text[len] = '\0';
    print_error("%s ends with:\n%s\n", service->log_path, text);
    fclose(file);
}

void service_await(struct service *service, const char *target, int status)
{
    struct awaited awaited = {service, target, status};

    if (becomes_true(is_answered, &awaited))
        return;
    print_log_end(service);
    EXPECT(request(service, NULL, NULL, "GET %s", target), status, NULL);
}

bool service_has_logged(const struct service *service, const char *words)
{
    FILE *file = fopen(service->log_path, "re");
    char line[2048];
    bool is_found = false;

    assert_non_null(file);
    while (!is_found && fgets(line, sizeof(line), file) != NULL)
        is_found = strstr(line, words) != NULL;
    fclose(file);
    return is_found;
}

struct logged {
    const struct service *service;
    const char *words;
};

static bool is_logged(void *arg)
{
    const struct logged *logged = arg;

    return access(logged->service->log_path, F_OK) == 0 &&
           service_has_logged(logged->service, logged->words);
}

void service_await_log(struct service *service, const char *words)
{
    struct logged logged = {service, words};

    if (becomes_true(is_logged, &logged))
        return;
    print_log_end(service);
    fail_msg("the log has no line with: %s", words);
}

int64_t service_rss_kib(const struct service *service)
{
    char path[64], line[128];
    FILE *file;
    long kib = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)service->pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (kib == 0 && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    fclose(file);
    assert_true(kib > 0);
    return kib;
}

/* -- servers -- */

static void find_paths(struct fixture *fixture)
{
    char self[200];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *given = getenv("SECKILL_TEST_BIN"); // NOLINT(concurrency-mt-unsafe)
    char *name;

    assert_true(len > 0);
    self[len] = '\0';
    name = strrchr(self, '/');
    *name++ = '\0';
    snprintf(fixture->dir, sizeof(fixture->dir), "var/it/%.40s.%d", name, (int)getpid());
    if (given != NULL)
        snprintf(fixture->program, sizeof(fixture->program), "%s", given);
    else
        snprintf(fixture->program, sizeof(fixture->program), "%s/../../../seckill", self);
    umask(022); /* the service refuses key files that a group can write to */
    mkdir("var", 0755);
    mkdir("var/it", 0755);
}

static void exec_guardian(const char *dir, const int *input, const int *output)
{
    setsid();
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    execl(GUARDIAN, GUARDIAN, dir, (char *)NULL);
    _exit(127);
}

static void copy_value(const char *line, const char *name, char *value, size_t size)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) == 0 && line[len] == '=')
        snprintf(value, size, "%.*s", (int)strcspn(line + len + 1, "\n"), line + len + 1);
}

static void read_urls(struct fixture *fixture, int fd)
{
    char line[400];
    FILE *file = fdopen(fd, "r");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        copy_value(line, "PG_OWNER_URL", fixture->database_url,
                   sizeof(fixture->database_url));
        copy_value(line, "SECKILL_DATABASE_URL", fixture->service_url,
                   sizeof(fixture->service_url));
        copy_value(line, "PG_SUPERUSER_URL", fixture->superuser_url,
                   sizeof(fixture->superuser_url));
        copy_value(line, "SECKILL_REDIS_URL", fixture->redis_url,
                   sizeof(fixture->redis_url));
    }
    fclose(file);
    if (fixture->database_url[0] == '\0' || fixture->redis_url[0] == '\0')
        fail_msg("%s %s did not start the servers", GUARDIAN, fixture->dir);
}

/* The guardian runs the servers until its pipe is closed. The pipe is also closed when this process
   is killed. */
static void start_guardian(struct fixture *fixture)
{
    int input[2], output[2];

    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    fflush(NULL);
    fixture->guardian_pid = fork();
    assert_true(fixture->guardian_pid >= 0);
    if (fixture->guardian_pid == 0)
        exec_guardian(fixture->dir, input, output);
    close(input[0]);
    close(output[1]);
    fixture->guardian_fd = input[1];
    read_urls(fixture, output[0]);
}

static void migrate(struct fixture *fixture)
{
    char owner[300];
    const char *const env[] = {owner, NULL};
    const char *const argv[] = {"seckill", "migrate", "--service-role", SERVICE_ROLE,
                                NULL};

    snprintf(owner, sizeof(owner), "SECKILL_DATABASE_URL=%s", fixture->database_url);
    if (fixture_run(fixture, env, argv)->code != 0)
        fail_msg("migrate: %s", fixture_run(fixture, env, argv)->err);
}

struct fixture *fixture_open(void)
{
    struct fixture *fixture = &the_fixture;

    find_paths(fixture);
    start_guardian(fixture);
    migrate(fixture);
    return fixture;
}

int fixture_setup(void **state)
{
    *state = fixture_open();
    return 0;
}

void fixture_share_services(struct fixture *fixture)
{
    while (fixture->services[fixture->shared_services].pid != 0)
        fixture->shared_services++;
}

struct service *fixture_begin_group(void **state, const char *const *env)
{
    struct fixture *fixture = fixture_open();
    struct service *service;

    *state = fixture;
    service = fixture_serve(fixture, env);
    fixture_share_services(fixture);
    return service;
}

int fixture_end_group(void **state)
{
    return fixture_close(*state);
}

static void end_services(struct fixture *fixture, unsigned first)
{
    for (unsigned i = first; i < FIXTURE_SERVICES_MAX; i++) {
        struct service *service = &fixture->services[i];

        if (service->pid != 0) {
            kill(service->pid, SIGCONT);
            service_kill(service);
        }
        client_close(service->conn);
        service->conn = NULL;
    }
}

int fixture_end_test(void **state)
{
    end_services(*state, ((struct fixture *)*state)->shared_services);
    sql_session(*state, NULL);
    return 0;
}

/* Stops the shared services, which must exit with 0. Under a sanitizer, an exit code of 0 means
   that there is no leak. */
static int stop_shared(struct fixture *fixture)
{
    int bad = 0;

    for (unsigned i = 0; i < fixture->shared_services; i++) {
        int code =
            fixture->services[i].pid == 0 ? 0 : service_stop(&fixture->services[i]);

        if (code == 0)
            continue;
        print_error("a service ended with %d\n", code);
        print_log_end(&fixture->services[i]);
        bad = 1;
    }
    return bad;
}

int fixture_close(struct fixture *fixture)
{
    int bad;

    if (fixture == NULL) /* fixture_open() has failed */
        return 1;
    bad = stop_shared(fixture);
    if (sql_broken_guarantees(fixture) != 0) {
        print_error("the data left behind violate a guarantee\n");
        bad = 1;
    }
    end_services(fixture, 0);
    fixture_data_close();
    close(fixture->guardian_fd);
    waitpid(fixture->guardian_pid, NULL, 0);
    return bad;
}
