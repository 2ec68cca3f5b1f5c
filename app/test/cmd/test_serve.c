/*
 * test_serve.c - `seckill serve` with fake workers and scripted signals.
 *
 * Each call of a worker, of the service manager and of the log adds a word to a trace.
 */
#include "app/cmd/cmd.h"
#include "app/cmd/notify.h"
#include "app/cmd/worker.h"
#include "app/core/log.h"
#include "app/http/http.h"
#include "app/test/append.h"
#include "app/test/jwt_config.h"
#include "base/clock.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "0123456789abcdef0123456789abcdef"
/* the public key of RFC 7517, appendix A.1 */
#define JWKS                                                                             \
    "{\"keys\":[{\"kid\":\"1\",\"kty\":\"EC\",\"crv\":\"P-256\","                        \
    "\"x\":\"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4\","                             \
    "\"y\":\"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM\"}]}"

struct worker {
    size_t index;
    struct metrics *metrics;
    int64_t last_turn_us;
};

struct step {
    int number; /* number of the signal; -1: the wait ends without a signal */
    const char *ups;
    size_t stands;     /* the worker whose loop hangs, from 1 on; 0: none */
    const char *trace; /* the expected trace up to this wait; NULL: any trace */
};

static struct {
    char trace[8000];
    const char *fails;
    unsigned reload_fails_at;
    const char *jwks;
    unsigned waits;
    int64_t mono_us, cores;
    struct worker workers[257];
    size_t worker_count;
    const struct step *steps;
    struct rlimit limit;
    bool has_manager, cannot_limit;
    int64_t watchdog_us;
    int64_t level;
} fake;

static struct config config;

#define ADD(format, ...) append(fake.trace, sizeof(fake.trace), format ";", ##__VA_ARGS__)

static void assert_trace(const char *wanted)
{
    assert_string_equal(fake.trace, wanted);
    fake.trace[0] = '\0';
}

static bool fails(const char *name)
{
    return fake.fails != NULL && strcmp(fake.fails, name) == 0;
}

/* -- the machine -- */

int64_t clock_mono_us(void)
{
    return fake.mono_us;
}

int64_t clock_real_us(void)
{
    return 5000000;
}

uint64_t clock_ms_until(int64_t at_us)
{
    return at_us > fake.mono_us ? (uint64_t)(at_us - fake.mono_us + 999) / 1000 : 0;
}

int64_t clock_shift_us(int64_t add_us)
{
    fake.mono_us += add_us;
    return add_us;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): reserved names
long __sysconf(int name); // NOLINT: the name in glibc

/* Before main() the sanitizers call sysconf() for other values. */
long sysconf(int name)
{
    return name == _SC_NPROCESSORS_ONLN && fake.steps != NULL ? fake.cores
                                                              : __sysconf(name);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit *ret_limit)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    *ret_limit = fake.limit;
    return fails("getrlimit") ? -1 : 0;
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    if (fake.cannot_limit)
        return -1;
    fake.limit = *limit;
    return 0;
}

int pthread_sigmask(int how, const sigset_t *signals, sigset_t *ret_old UNUSED)
{
    ADD("sigmask(%d,%d%d%d%d)", how == SIG_BLOCK, sigismember(signals, SIGTERM),
        sigismember(signals, SIGINT), sigismember(signals, SIGHUP),
        sigismember(signals, SIGUSR1));
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int wait_for_signal(void)
{
    const struct step *step = fake.steps++;
    int64_t woken_us;

    if (step->trace != NULL)
        assert_trace(step->trace);
    else if (step->number != SIGTERM)
        fake.trace[0] = '\0';
    if (fake.jwks != NULL && ++fake.waits == 3)
        write_file(fake.jwks, JWKS "\n");
    if (step->number == SIGHUP && fake.reload_fails_at > 0)
        torture_fail(fake.reload_fails_at, 0);
    woken_us = fake.mono_us;
    fake.mono_us += 10;
    for (size_t i = 0; i < fake.worker_count; i++) {
        struct worker *worker = &fake.workers[i];

        worker->metrics->postgres_up = strchr(step->ups, 'p') != NULL;
        worker->metrics->redis_up = strchr(step->ups, 'r') != NULL;
        worker->last_turn_us = step->stands == i + 1 ? woken_us : fake.mono_us;
    }
    fake.mono_us += 10;
    return step->number;
}

int sigwaitinfo(const sigset_t *signals, siginfo_t *ret_info UNUSED)
{
    assert_int_equal(sigismember(signals, SIGTERM), 1);
    ADD("wait");
    return wait_for_signal();
}

int sigtimedwait(const sigset_t *signals, siginfo_t *ret_info UNUSED,
                 const struct timespec *period)
{
    assert_int_equal(sigismember(signals, SIGTERM), 1);
    ADD("wait(%d.%09d)", (int)period->tv_sec, (int)period->tv_nsec);
    return wait_for_signal();
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* -- the log and the configuration -- */

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char fields[400];
    va_list args;

    va_start(args, format);
    vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    ADD("%d %s %.60s", (int)level, event, fields);
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES])
{
    snprintf(ret_copy, LOG_TEXT_BYTES, "%s", text);
    return ret_copy;
}

void log_set_level(enum log_level level)
{
    fake.level = level;
}

enum rlock_status log_start(struct rlock_err *reterr)
{
    return fails("log") ? err_set(reterr, RLOCK_IO, "log failed") : RLOCK_OK;
}

void log_stop(void)
{
    ADD("log_stop");
}

uint64_t log_dropped(void)
{
    return 0;
}

bool log_shows(enum log_level level UNUSED)
{
    return true;
}

/* -- the service manager and the socket -- */

enum rlock_status notify_init(struct notify *notify, struct rlock_err *reterr)
{
    *notify =
        (struct notify){.fd = fake.has_manager ? 9 : -1, .watchdog_us = fake.watchdog_us};
    return fails("notify") ? err_set(reterr, RLOCK_INVALID, "notify failed") : RLOCK_OK;
}

void notify_send(const struct notify *notify UNUSED, const char *lines)
{
    ADD("send(%s)", lines);
}

void notify_clear(struct notify *notify UNUSED)
{
    ADD("notify_clear");
}

enum rlock_status http_listen(const char *address, size_t count, int *ret_fds,
                              unsigned *ret_port, struct rlock_err *reterr)
{
    ADD("listen(%s,%zu)", address, count);
    for (size_t i = 0; i < count; i++)
        ret_fds[i] = 30 + (int)i;
    *ret_port = 81;
    return fails("listen") ? err_set(reterr, RLOCK_REFUSED, "listen failed") : RLOCK_OK;
}

/* -- workers -- */

void worker_keys_free(struct worker_keys *keys)
{
    if (keys == NULL)
        return;
    auth_free(keys->auth);
    free(keys);
}

enum rlock_status worker_start(const struct worker_options *options,
                               struct worker **ret_worker, struct rlock_err *reterr)
{
    struct worker *worker = &fake.workers[fake.worker_count];
    char name[20];

    snprintf(name, sizeof(name), "worker%zu", options->index);
    worker_keys_free(options->keys);
    assert_int_equal(options->metrics->started_us, 5000000);
    assert_ptr_equal(options->seller, options->index == 0 ? NULL : &fake.workers[0]);
    assert_ptr_equal(options->all_metrics->loops[options->index], options->metrics);
    ADD("start(%zu,%d,%zu,%zu,%s)%s", options->index, options->listen_fd,
        options->connections_max, options->listeners_max, options->config->listen,
        options->config->dev_login == 1 ? ";tokens" : "");
    if (fails(name))
        return err_set(reterr, RLOCK_IO, "%s failed", name);
    *worker = (struct worker){.index = options->index, .metrics = options->metrics};
    fake.worker_count++;
    *ret_worker = worker;
    return RLOCK_OK;
}

struct handover *worker_handover(const struct worker *worker)
{
    assert_int_equal(worker->index, 0);
    return (struct handover *)(uintptr_t)worker;
}

void worker_stop(struct worker *worker)
{
    ADD("stop(%zu)", worker->index);
}

void worker_join(struct worker *worker)
{
    metrics_publish_state(worker->metrics, strdup("{}"));
    ADD("join(%zu)", worker->index);
}

void worker_wake(struct worker *worker)
{
    ADD("wake(%zu)", worker->index);
}

int64_t worker_last_turn_us(const struct worker *worker)
{
    return worker->last_turn_us;
}

void worker_set_keys(struct worker *worker, struct worker_keys *keys)
{
    assert_non_null(keys->auth);
    ADD("keys(%zu)", worker->index);
    worker_keys_free(keys);
}

/* -- helpers -- */

// NOLINTBEGIN(concurrency-mt-unsafe): no threads in this program
static int setup(void **state UNUSED)
{
    memset(&fake, 0, sizeof(fake));
    fake.mono_us = 1000;
    fake.cores = 2;
    fake.limit = (struct rlimit){100000, 100000};
    fake.level = -1;
    config = jwt_config(SECRET, "");
    config.listen = "127.0.0.1:0";
    config.workers = 2;
    config.ticket_secret = "";
    config.tls_cert = "";
    config.tls_key = "";
    config.tls_priority = "NORMAL";
    config.listeners_max = 100;
    config.log_level = LOG_DEBUG;
    unsetenv("SECKILL_WORKERS");
    unsetenv("SECKILL_JWT_SECRET_FILE");
    unsetenv("SECKILL_JWT_ALG");
    unsetenv("SECKILL_JWT_JWKS_FILE");
    setenv("SECKILL_JWT_SECRET", SECRET, 1);
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, setup, NULL, NULL)

static int serve(const struct step *steps, struct rlock_err *reterr)
{
    static char name[] = "serve";
    char *argv[] = {name, NULL};

    fake.steps = steps;
    fake.worker_count = 0;
    *reterr = (struct rlock_err){0};
    return command_serve.run(1, argv, &config, reterr);
}

static const struct step at_once[] = {{SIGTERM, "", 0, NULL}};

static void assert_served(int code, struct rlock_err *reterr)
{
    int found = serve(at_once, reterr);

    if (found != code)
        fail_msg("serve, %s%s: expected the exit code %d, got %d %s",
                 fake.fails == NULL ? "nothing fails" : "this fails: ",
                 fake.fails == NULL ? "" : fake.fails, code, found, reterr->text);
}

#define BEGIN "sigmask(1,1110);listen(127.0.0.1:0,2);"
#define STARTED                                                                          \
    "start(0,-1,49872,100,127.0.0.1:0);start(1,30,49872,100,127.0.0.1:0);"               \
    "start(2,31,49872,100,127.0.0.1:0);"
#define SERVING "2 serving listen=127.0.0.1:0 port=81 workers=2;"
#define END                                                                              \
    "2 draining signal=15;send(STOPPING=1\nSTATUS=draining);stop(0);stop(1);stop(2);"    \
    "join(0);join(1);join(2);notify_clear;2 stopped ;log_stop;"
#define WAKES "wake(0);wake(1);wake(2);"
#define KEYS  "keys(0);keys(1);keys(2);"

/* -- tests -- */

CASE(test_serve__runs_until_a_signal)
{
    static const struct step steps[] = {
        {-1, "pr", 0, NULL},
        {SIGHUP, "p", 0, "send(READY=1\nSTATUS=serving);" WAKES "wait;"},
        {SIGINT, "", 0,
         KEYS "2 reloaded ;send(STATUS=Redis is down);send(WATCHDOG=1);" WAKES "wait;"}};
    struct rlock_err err;

    assert_int_equal(serve(steps, &err), EXIT_FINE);
    ASSERT_CONTAINS(fake.trace, "2 draining signal=2;");
    assert_int_equal(fake.level, LOG_DEBUG);
    setup(NULL);
    assert_served(EXIT_FINE, &err);
    assert_trace(BEGIN STARTED SERVING "wait;" END);
}

CASE(test_serve__reports_readiness_and_pings)
{
    static const struct step steps[] = {
        {-1, "", 0, BEGIN STARTED SERVING "wait(0.050000000);"},
        {-1, "", 0, "send(STATUS=Postgres is down);" WAKES "wait(0.050000000);"},
        {-1, "p", 0, "send(WATCHDOG=1);" WAKES "wait(0.050000000);"},
        {-1, "pr", 2,
         "send(STATUS=Redis is down);send(WATCHDOG=1);" WAKES "wait(0.050000000);"},
        {-1, "pr", 0, "send(READY=1\nSTATUS=serving);" WAKES "wait(1.000000000);"},
        {-1, "pr", 1, "send(WATCHDOG=1);" WAKES "wait(1.000000000);"},
        {-1, "r", 0, WAKES "wait(1.000000000);"},
        {SIGTERM, "", 0,
         "send(STATUS=Postgres is down);send(WATCHDOG=1);" WAKES "wait(0.050000000);"}};
    struct rlock_err err;

    fake.has_manager = true;
    assert_int_equal(serve(steps, &err), EXIT_FINE);
    assert_trace(END);
}

CASE(test_serve__bypasses_locks_when_that_is_set)
{
    static const struct step steps[] = {
        {-1, "p", 0, NULL},
        {SIGTERM, "", 0, "send(READY=1\nSTATUS=serving);" WAKES "wait(0.250000000);"}};
    struct rlock_err err;

    fake.has_manager = true;
    fake.watchdog_us = 1000000;
    config.redis_down = CONFIG_BYPASS;
    assert_int_equal(serve(steps, &err), EXIT_FINE);
    fake.trace[0] = '\0';
    fake.watchdog_us = 8000004;
    assert_int_equal(serve((const struct step[]){{-1, "p", 0, NULL},
                                                 {SIGTERM, "", 0,
                                                  "send(READY=1\nSTATUS=serving);" WAKES
                                                  "wait(1.000000000);"}},
                           &err),
                     EXIT_FINE);
    fake.trace[0] = '\0';
    fake.watchdog_us = 1;
    assert_served(EXIT_FINE, &err);
    ASSERT_CONTAINS(fake.trace, "wait(0.000000000);");
    fake.watchdog_us = 8;
    assert_served(EXIT_FINE, &err);
    ASSERT_CONTAINS(fake.trace, "wait(0.000002000);");
}

CASE(test_serve__fails_with_a_reason)
{
    static const struct {
        const char *fails;
        int code;
        const char *why, *trace;
    } rows[] = {
        {"log", EXIT_FAILED, "log failed", "sigmask(1,1110);"},
        {"listen", EXIT_FAILED, "SECKILL_LISTEN: listen failed", BEGIN "log_stop;"},
        {"worker0", EXIT_FAILED, "worker0 failed",
         BEGIN "start(0,-1,49872,100,127.0.0.1:0);notify_clear;log_stop;"},
        {"worker2", EXIT_FAILED, "worker2 failed",
         BEGIN STARTED "stop(0);stop(1);join(0);join(1);notify_clear;log_stop;"},
    };
    struct rlock_err err;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        setup(NULL);
        fake.fails = rows[i].fails;
        assert_served(rows[i].code, &err);
        assert_string_equal(err.text, rows[i].why);
        assert_trace(rows[i].trace);
    }
    setup(NULL);
    fake.fails = "notify";
    assert_served(EXIT_FINE, &err);
    ASSERT_CONTAINS(fake.trace, "1 notify_failed why=\"notify failed\";listen(");
}

CASE(test_serve__refuses_invalid_settings)
{
    static char serve_name[] = "serve", what[] = "what";
    char *argv[] = {serve_name, what, NULL};
    struct rlock_err err = {0};

    assert_int_equal(command_serve.run(2, argv, &config, &err), EXIT_USAGE);
    assert_string_equal(err.text, "");
    config.jwt_secret = "short";
    assert_served(EXIT_USAGE, &err);
    ASSERT_CONTAINS(err.text, "SECKILL_JWT_SECRET");
    config.tls_cert = "x";
    assert_served(EXIT_USAGE, &err);
    ASSERT_CONTAINS(err.text, "SECKILL_JWT_SECRET");
    setup(NULL);
    config.ticket_secret = "short";
    assert_served(EXIT_USAGE, &err);
    ASSERT_CONTAINS(err.text, "SECKILL_TICKET_SECRET");
    setup(NULL);
    config.tls_priority = "nonsense";
    assert_served(EXIT_USAGE, &err);
    ASSERT_CONTAINS(err.text, "SECKILL_TLS_PRIORITY");
    setup(NULL);
    config.tls_cert = "x";
    assert_served(EXIT_USAGE, &err);
    ASSERT_CONTAINS(err.text, "SECKILL_TLS_CERT_FILE");
    assert_trace("");
    assert_int_equal(fake.level, -1);
}

CASE(test_reload__that_is_refused_keeps_the_keys)
{
    static const struct step steps[] = {{SIGHUP, "", 0, NULL}, {SIGTERM, "", 0, NULL}};
    struct rlock_err err;

    setenv("SECKILL_WORKERS", "many", 1);
    assert_int_equal(serve(steps, &err), EXIT_FINE);
    ASSERT_CONTAINS(fake.trace, "0 reload_refused why=\"SECKILL_WORKERS");
    assert_null(strstr(fake.trace, "keys("));
    setup(NULL);
    setenv("SECKILL_JWT_SECRET", "short", 1);
    assert_int_equal(serve(steps, &err), EXIT_FINE);
    ASSERT_CONTAINS(fake.trace, "0 reload_refused why=\"SECKILL_JWT_SECRET");
    assert_null(strstr(fake.trace, "keys("));
}

CASE(test_reload__without_memory_keeps_all_keys)
{
    static const struct step steps[] = {{SIGHUP, "", 0, NULL}, {SIGTERM, "", 0, NULL}};
    unsigned number = 1, refused = 0;
    bool has_failed;

    do {
        struct rlock_err err;
        bool is_refused;

        setup(NULL);
        fake.reload_fails_at = number++;
        assert_int_equal(serve(steps, &err), EXIT_FINE);
        has_failed = torture_stop();
        is_refused = strstr(fake.trace, "0 reload_refused why=") != NULL;
        print_message("allocation %u: %s\n", number - 1, fake.trace);
        assert_int_equal(is_refused, strstr(fake.trace, "keys(") == NULL);
        if (!is_refused)
            ASSERT_CONTAINS(fake.trace, KEYS "2 reloaded ;");
        refused += is_refused;
    } while (has_failed);
    assert_true(refused > 6);
}

#define CHECKS "wait(0.050000000);"
#define PINGS  "send(WATCHDOG=1);" WAKES

/* The file is newer than the start of the service, so the first check counts the file as
   changed. */
CASE(test_jwks__is_read_again_when_its_file_changes)
{
    static const struct step steps[] = {
        {-1, "", 0, NULL},
        {-1, "", 0, KEYS "2 reloaded ;send(STATUS=Postgres is down);" WAKES CHECKS},
        {-1, "", 0, PINGS CHECKS},
        {SIGHUP, "", 0, KEYS "2 reloaded ;" PINGS CHECKS},
        {-1, "", 0, KEYS "2 reloaded ;" PINGS CHECKS},
        {SIGTERM, "", 0, PINGS CHECKS}};
    char path[] = "/tmp/test_serve.XXXXXX";
    struct rlock_err err;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_file(path, JWKS);
    config.jwt_alg = CONFIG_ES256;
    config.jwt_jwks = JWKS;
    setenv("SECKILL_JWT_ALG", "ES256", 1);
    setenv("SECKILL_JWT_JWKS_FILE", path, 1);
    fake.jwks = path;
    if (serve(steps, &err) != EXIT_FINE)
        fail_msg("serve: %s", err.text);
    unlink(path);
}

CASE(test_serve__warns_of_exposed_files)
{
    static const struct step steps[] = {{SIGHUP, "", 0, NULL}, {SIGTERM, "", 0, NULL}};
    char path[] = "/tmp/test_serve.XXXXXX";
    struct rlock_err err;
    int fd;

    config.exposed[0] = "SECKILL_JWT_KEYS_FILE";
    config.exposed[1] = "SECKILL_TLS_KEY_FILE";
    config.exposed_count = 2;
    assert_served(EXIT_FINE, &err);
    ASSERT_CONTAINS(fake.trace, "1 secret_exposed setting=SECKILL_JWT_KEYS_FILE ");
    ASSERT_CONTAINS(fake.trace, "1 secret_exposed setting=SECKILL_TLS_KEY_FILE ");
    setup(NULL);
    /* The keys in this file are public, so the service does not warn. */
    config.exposed[0] = "SECKILL_JWT_KEYS_FILE";
    config.exposed_count = 1;
    config.jwt_alg = CONFIG_RS256;
    assert_served(EXIT_USAGE, &err);
    assert_null(strstr(fake.trace, "secret_exposed"));
    config.exposed[0] = "SECKILL_TLS_KEY_FILE";
    config.jwt_jwks = JWKS;
    config.jwt_alg = CONFIG_ES256;
    assert_served(EXIT_FINE, &err);
    ASSERT_CONTAINS(fake.trace, "1 secret_exposed setting=SECKILL_TLS_KEY_FILE ");
    setup(NULL);
    fd = mkstemp(path);
    assert_int_equal(write(fd, SECRET, 32), 32);
    assert_int_equal(fchmod(fd, 0644), 0);
    close(fd);
    unsetenv("SECKILL_JWT_SECRET");
    setenv("SECKILL_JWT_SECRET_FILE", path, 1);
    assert_int_equal(serve(steps, &err), EXIT_FINE);
    unlink(path);
    ASSERT_CONTAINS(fake.trace, "1 secret_exposed setting=SECKILL_JWT_SECRET_FILE ");
    ASSERT_CONTAINS(fake.trace, KEYS "2 reloaded ;");
}

CASE(test_serve__issues_tokens_on_loopback_only)
{
    static const struct {
        const char *listen, *event;
    } rows[] = {
        {"127.0.0.1:0", ";1 dev_login listen=127.0.0.1:0 "},
        {"127.1.2.3:0", ";1 dev_login listen=127.1.2.3:0 "},
        {"localhost:0", ";1 dev_login listen=localhost:0 "},
        {"[::1]:0", ";1 dev_login listen=[::1]:0 "},
        {"128.0.0.1:0", ";0 dev_login_refused listen=128.0.0.1:0 "},
        {"[::2]:0", ";0 dev_login_refused listen=[::2]:0 "},
        {"localhosts:0", ";0 dev_login_refused listen=localhosts:0 "},
    };
    struct rlock_err err;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        setup(NULL);
        config.dev_login = 1;
        config.listen = rows[i].listen;
        ADD("");
        assert_served(EXIT_FINE, &err);
        ASSERT_CONTAINS(fake.trace, rows[i].event);
        assert_int_equal(strstr(fake.trace, ";tokens;") != NULL,
                         strstr(rows[i].event, "refused") == NULL);
        assert_int_equal(strstr(fake.trace, "dev_login_refused") != NULL,
                         strstr(rows[i].event, "refused") != NULL);
    }
    setup(NULL);
    assert_served(EXIT_FINE, &err);
    assert_null(strstr(fake.trace, "dev_login"));
}

CASE(test_serve__divides_the_descriptors)
{
    static const struct {
        int64_t workers, cores;
        rlim_t soft, hard;
        bool cannot_limit;
        int64_t listeners;
        const char *part;
    } rows[] = {
        {1, 9, 1000, 2000, false, 10000, "start(0,30,1872,1404,"},
        {1, 9, 1000, 2000, true, 10000, "start(0,30,872,654,"},
        {1, 9, 128, 128, false, 10000, "start(0,30,16,12,"},
        {1, 9, 129, 129, false, 10000, "start(0,30,16,12,"},
        {1, 9, 145, 145, false, 10000, "start(0,30,17,12,"},
        {1, 9, 10000, 10000, false, 7404, "start(0,30,9872,7404,"},
        {0, 3, 10000, 10000, false, 1, "start(3,32,3226,1,"},
        {0, 0, 10000, 10000, false, 1, "listen(127.0.0.1:0,1)"},
        {0, 257, 100000, 100000, false, 1, "listen(127.0.0.1:0,256)"},
        {256, 1, 100000, 100000, false, 1, "listen(127.0.0.1:0,256)"},
        {4, 1, 10000, 10000, false, 1, "listen(127.0.0.1:0,4)"},
    };
    struct rlock_err err;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        setup(NULL);
        fake.cores = rows[i].cores;
        fake.limit = (struct rlimit){rows[i].soft, rows[i].hard};
        fake.cannot_limit = rows[i].cannot_limit;
        config.workers = rows[i].workers;
        config.listeners_max = rows[i].listeners;
        assert_served(EXIT_FINE, &err);
        ASSERT_CONTAINS(fake.trace, rows[i].part);
        if ((strstr(fake.trace, ";1 file_limit ") != NULL) !=
            (rows[i].listeners == 10000))
            fail_msg("row %zu: %s", i, fake.trace);
    }
    setup(NULL);
    fake.fails = "getrlimit";
    assert_served(EXIT_FINE, &err);
}

// NOLINTEND(concurrency-mt-unsafe)

int main(void)
{
    return cases_run(NULL, NULL);
}
