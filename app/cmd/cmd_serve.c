/* cmd_serve.c - `seckill serve`: runs the workers until a signal ends them. */
#include "app/auth/auth.h"
#include "app/auth/ticket.h"
#include "app/cmd/cmd.h"
#include "app/cmd/notify.h"
#include "app/cmd/worker.h"
#include "app/core/log.h"
#include "app/core/metrics.h"
#include "app/http/address.h"
#include "app/http/http.h"
#include "app/ops/health.h"
#include "base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKERS_MAX       256 /* that serve HTTP */
#define LOOPS_MAX         (WORKERS_MAX + 1)
#define FILES_RESERVED    64 /* descriptors reserved per worker, and again for the process */
#define CONNECTIONS_LEAST 16
#define CHECK_US          INT64_C(1000000)
#define CHECK_STARTUP_US  INT64_C(50000)

struct service {
    struct config config;
    size_t serving; /* workers that serve HTTP */
    size_t count;   /* all workers */
    size_t started;
    size_t connections_max; /* per worker, listeners included */
    size_t listeners_max;
    unsigned port;
    int listen_fds[LOOPS_MAX];
    struct metrics *metrics[LOOPS_MAX];
    struct all_metrics all_metrics;
    struct worker *workers[LOOPS_MAX];
    struct notify notify;
    const char *reported;
    bool was_ready;
    int64_t woken_us;
    struct timespec jwks_changed; /* when SECKILL_JWT_JWKS_FILE was written; 0: unknown */
};

/* Raises the soft limit of descriptors to the hard limit, because each connection needs a
   descriptor. The reserved descriptors are for files and for the connections to Postgres and Redis.
   The workers share the remaining descriptors. Listeners get at most three quarters of a share, so
   that orders can still connect. */
static void limit_connections(struct service *service)
{
    size_t wanted = (size_t)service->config.listeners_max;
    size_t reserved = FILES_RESERVED * (service->count + 1);
    struct rlimit limit = {0};
    size_t share;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    share = MAX(CONNECTIONS_LEAST,
                (MAX(limit.rlim_cur, reserved) - reserved) / service->serving);
    service->connections_max = share;
    service->listeners_max = MIN(wanted, share / 4 * 3);
    if (service->listeners_max < wanted)
        log_event(
            LOG_WARN, "file_limit",
            "files=%llu connections_max=%zu listeners_max=%zu why=\"the limit of open"
            " files is too low for SECKILL_LISTENERS_MAX\"",
            (unsigned long long)limit.rlim_cur, share, service->listeners_max);
}

static bool is_loopback(const char *listen)
{
    static const char name[] = "localhost:";
    struct address_networks loopback;
    uint8_t address[16];
    struct rlock_err err;

    return strncmp(listen, name, sizeof(name) - 1) == 0 ||
           (address_networks_parse("127.0.0.0/8, ::1", &loopback, &err) == RLOCK_OK &&
            address_parse(listen, strlen(listen), address) &&
            address_is_in(&loopback, address));
}

/* The development login issues a token to every client that can connect, so the service may only
   listen on a loopback address. */
static void check_dev_login(struct config *config)
{
    if (config->dev_login == 0)
        return;
    if (is_loopback(config->listen)) {
        log_event(LOG_WARN, "dev_login",
                  "listen=%s why=\"SECKILL_DEV_LOGIN is 1: tokens are issued to "
                  "anyone\"",
                  config->listen);
        return;
    }
    config->dev_login = 0;
    log_event(LOG_ERROR, "dev_login_refused",
              "listen=%s why=\"SECKILL_DEV_LOGIN requires a loopback address; no tokens "
              "are issued\"",
              config->listen);
}

/* -- keys -- */

static void warn_of_exposed_files(const struct config *config)
{
    for (size_t i = 0; i < config->exposed_count; i++) {
        bool has_public_keys = config->jwt_alg != CONFIG_HS256 &&
                               strcmp(config->exposed[i], "SECKILL_JWT_KEYS_FILE") == 0;

        if (!has_public_keys)
            log_event(LOG_WARN, "secret_exposed",
                      "setting=%s why=\"every user of the machine can read the file\"",
                      config->exposed[i]);
    }
}

static enum rlock_status keys_create(const struct config *config,
                                     struct worker_keys **ret_keys,
                                     struct rlock_err *reterr)
{
    struct worker_keys *keys = calloc(1, sizeof(*keys));
    enum rlock_status status = RLOCK_NO_MEMORY;

    if (keys != NULL)
        status = auth_create(config, &keys->auth, reterr);
    if (status == RLOCK_OK && config->tls_cert[0] != '\0')
        status = http_tls_create(config->tls_cert, config->tls_key, &keys->tls, reterr);
    if (status == RLOCK_OK)
        *ret_keys = keys;
    else
        worker_keys_free(keys);
    return status;
}

static enum rlock_status check_keys(const struct config *config, struct rlock_err *reterr)
{
    struct worker_keys *keys = NULL;
    enum rlock_status status = keys_create(config, &keys, reterr);

    worker_keys_free(keys);
    return status;
}

/* Gives each worker its own copy of the keys, because workers share nothing. After a failure all
   workers keep the old keys. */
static enum rlock_status set_keys(struct service *service, const struct config *config,
                                  struct rlock_err *reterr)
{
    struct worker_keys *copies[LOOPS_MAX] = {NULL};
    enum rlock_status status = RLOCK_OK;

    for (size_t i = 0; status == RLOCK_OK && i < service->count; i++)
        status = keys_create(config, &copies[i], reterr);
    for (size_t i = 0; i < service->count; i++) {
        if (status == RLOCK_OK)
            worker_set_keys(service->workers[i], copies[i]);
        else
            worker_keys_free(copies[i]);
    }
    return status;
}

/* Whether the file of the key set was written or replaced since the last call. */
static bool has_new_jwks(struct service *service)
{
    const char *path = getenv("SECKILL_JWT_JWKS_FILE"); // NOLINT(concurrency-mt-unsafe)
    struct timespec before = service->jwks_changed;
    struct stat file;

    if (path == NULL || stat(path, &file) != 0)
        return false;
    service->jwks_changed = file.st_ctim;
    return memcmp(&before, &file.st_ctim, sizeof(before)) != 0;
}

static void reload(struct service *service)
{
    struct config config;
    struct rlock_err err = {.text = "out of memory"};
    enum rlock_status status = config_read(&config, &err);

    if (status == RLOCK_OK) {
        warn_of_exposed_files(&config);
        status = set_keys(service, &config, &err);
        config_clear(&config);
    }
    if (status == RLOCK_OK)
        log_event(LOG_INFO, "reloaded", "%s", "");
    else
        log_event(LOG_ERROR, "reload_refused", "why=\"%s\"", LOG_PLAIN(err.text));
}

/* -- workers -- */

static enum rlock_status start_workers(struct service *service, struct rlock_err *reterr)
{
    for (size_t i = 0; i < service->count; i++) {
        service->metrics[i] = calloc(1, sizeof(*service->metrics[i]));
        if (service->metrics[i] == NULL)
            return RLOCK_NO_MEMORY;
        atomic_store(&service->metrics[i]->started_us, clock_real_us());
    }
    for (size_t i = 0; i < service->count; i++) {
        struct worker_options options = {.config = &service->config,
                                         .index = i,
                                         .listen_fd = service->listen_fds[i],
                                         .connections_max = service->connections_max,
                                         .listeners_max = service->listeners_max,
                                         .metrics = service->metrics[i],
                                         .all_metrics = &service->all_metrics};
        enum rlock_status status = keys_create(&service->config, &options.keys, reterr);

        if (i > 0)
            options.seller = worker_handover(service->workers[0]);
        if (status == RLOCK_OK)
            status = worker_start(&options, &service->workers[i], reterr);
        if (status != RLOCK_OK)
            return status;
        service->started++;
    }
    return RLOCK_OK;
}

static void stop_workers(struct service *service)
{
    for (size_t i = 0; i < service->started; i++)
        worker_stop(service->workers[i]);
    for (size_t i = 0; i < service->started; i++)
        worker_join(service->workers[i]);
    for (size_t i = 0; i < service->count; i++) {
        if (service->metrics[i] != NULL)
            metrics_clear(service->metrics[i]);
        free(service->metrics[i]);
    }
}

/* -- messages to the service manager -- */

/* Sends READY=1 when /readyz answers 200. */
static void report_readiness(struct service *service)
{
    struct health health =
        health_of(&service->all_metrics, service->config.redis_down == CONFIG_BYPASS);
    const char *lines = health.is_ready       ? "READY=1\nSTATUS=serving"
                        : health.has_postgres ? "STATUS=Redis is down"
                                              : "STATUS=Postgres is down";

    service->was_ready = health.is_ready;
    if (service->reported != NULL && strcmp(lines, service->reported) == 0)
        return;
    service->reported = lines;
    notify_send(&service->notify, lines);
}

static void ping_watchdog(struct service *service)
{
    bool has_run = service->woken_us != 0;

    for (size_t i = 0; i < service->count; i++)
        has_run = has_run && worker_last_turn_us(service->workers[i]) > service->woken_us;
    if (has_run)
        notify_send(&service->notify, "WATCHDOG=1");
    service->woken_us = clock_mono_us();
    for (size_t i = 0; i < service->count; i++)
        worker_wake(service->workers[i]);
}

static struct timespec check_period(const struct service *service)
{
    int64_t watchdog_us = service->notify.watchdog_us;
    int64_t us = service->was_ready ? CHECK_US : CHECK_STARTUP_US;

    if (watchdog_us > 0)
        us = MIN(us, watchdog_us / 4);
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

static int run_until_signal(struct service *service, const sigset_t *signals)
{
    for (;;) {
        struct timespec period = check_period(service);
        bool must_check = service->notify.fd >= 0 || service->config.jwt_jwks[0] != '\0';
        int signal_number = must_check ? sigtimedwait(signals, NULL, &period)
                                       : sigwaitinfo(signals, NULL);

        if (signal_number > 0 && signal_number != SIGHUP)
            return signal_number;
        if (has_new_jwks(service) || signal_number == SIGHUP)
            reload(service);
        report_readiness(service);
        ping_watchdog(service);
    }
}

/* If several workers serve HTTP, another worker sells for them. A seller that also served HTTP
   would read the replies of Redis and Postgres only after all requests of a turn, and meanwhile
   Redis and Postgres would have no work. */
static enum rlock_status listen_on(struct service *service, struct rlock_err *reterr)
{
    size_t first = service->count - service->serving;

    service->listen_fds[0] = HTTP_LISTENS_NOWHERE;
    return http_listen(service->config.listen, service->serving,
                       service->listen_fds + first, &service->port, reterr);
}

static enum rlock_status serve(struct service *service, const sigset_t *signals,
                               struct rlock_err *reterr)
{
    long count = service->config.workers;
    struct rlock_err notify_err = {0};
    enum rlock_status status;
    int signal_number;

    if (notify_init(&service->notify, &notify_err) != RLOCK_OK)
        log_event(LOG_WARN, "notify_failed", "why=\"%s\"", LOG_PLAIN(notify_err.text));
    if (count <= 0)
        count = sysconf(_SC_NPROCESSORS_ONLN);
    service->serving = (size_t)MAX(1, MIN(count, WORKERS_MAX));
    service->count = service->serving > 1 ? service->serving + 1 : 1;
    limit_connections(service);
    service->all_metrics = (struct all_metrics){service->metrics, service->count};
    status = listen_on(service, reterr);
    if (status != RLOCK_OK) {
        err_prefix(reterr, "SECKILL_LISTEN");
        return status;
    }
    status = start_workers(service, reterr);
    if (status == RLOCK_OK) {
        log_event(LOG_INFO, "serving", "listen=%s port=%u workers=%zu",
                  service->config.listen, service->port, service->serving);
        signal_number = run_until_signal(service, signals);
        log_event(LOG_INFO, "draining", "signal=%d", signal_number);
        notify_send(&service->notify, "STOPPING=1\nSTATUS=draining");
    }
    stop_workers(service);
    notify_clear(&service->notify);
    return status;
}

static int cmd_serve(int argc, char **argv UNUSED, const struct config *config,
                     struct rlock_err *reterr)
{
    static struct service service; /* too large for the stack */
    enum rlock_status status;
    sigset_t signals;

    if (argc > 1)
        return EXIT_USAGE;
    service = (struct service){.config = *config};
    status = check_keys(config, reterr);
    if (status == RLOCK_OK)
        status = ticket_check_secret(config->ticket_secret, reterr);
    if (status == RLOCK_OK)
        status = http_tls_check_priority(config->tls_priority, reterr);
    if (status != RLOCK_OK)
        return exit_code_of(status);
    log_set_level((enum log_level)config->log_level);
    check_dev_login(&service.config);
    warn_of_exposed_files(config);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* the workers inherit the mask */
    signal(SIGPIPE, SIG_IGN);
    status = log_start(reterr);
    if (status == RLOCK_OK) {
        status = serve(&service, &signals, reterr);
        if (status == RLOCK_OK)
            log_event(LOG_INFO, "stopped", "%s", "");
        log_stop();
    }
    return exit_code_of(status);
}

const struct command command_serve = {
    "serve", "run the order service until SIGTERM or SIGINT", cmd_serve, true, true};
