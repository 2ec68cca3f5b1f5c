/*
 * it_store_hosts.c - the store with a database URL of several hosts, names and certificates.
 *
 * This program replaces getaddrinfo(). "*.test" is this machine, with three exceptions: the answer
 * for "slow.test" waits for the test, "unknown.test" does not exist, and the name server of
 * "unserved.test" has failed.
 */
#include "app/test/store/it_store.h"

#include "app/store/db.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME_SERVER_WITHIN_S 60

static struct sandbox *sandbox;
static struct fixture *fixture;
static sem_t name_server;
static atomic_uint slow_answers;

static void await_name_server(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += NAME_SERVER_WITHIN_S;
    sem_timedwait(&name_server, &until);
    atomic_fetch_add(&slow_answers, 1);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): those of the C library
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    typeof(getaddrinfo) *next = (typeof(getaddrinfo) *)dlsym(RTLD_NEXT, "getaddrinfo");

    if (name != NULL && strcmp(name, "slow.test") == 0)
        await_name_server();
    if (name != NULL && strcmp(name, "unknown.test") == 0)
        return EAI_NONAME;
    if (name != NULL && strcmp(name, "unserved.test") == 0)
        return EAI_AGAIN;
    if (name != NULL && strstr(name, ".test") != NULL)
        name = "127.0.0.1";
    return next(name, service, hints, ret_found);
}

static int setup(void **state)
{
    sem_init(&name_server, 0, 0);
    *state = fixture = fixture_open();
    sandbox = sandbox_open(fixture, "hosts");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

/* Executes a statement as superuser. Returns the first value of the first row, which is valid
   until the next call. */
static const char *administer(const char *sql)
{
    static char text[8192];
    PGconn *admin = PQconnectdb(fixture->superuser_url);
    PGresult *result = PQexec(admin, sql);

    if (PQresultStatus(result) != PGRES_TUPLES_OK &&
        PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(admin));
    snprintf(text, sizeof(text), "%s",
             PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(admin);
    return text;
}

/* The URL of the service with `hosts`, in which "{}" is replaced by the port, and with additional
   parameters. */
static const char *url_of(const char *hosts, const char *more)
{
    static char url[2048];
    char filled[512], port[8];
    const char *begin = strrchr(sandbox->service_url, '@') + 1;
    const char *colon = strchr(begin, ':'), *end = strchr(begin, '/');

    snprintf(port, sizeof(port), "%.*s", (int)(end - colon - 1), colon + 1);
    snprintf(url, sizeof(url), "%.*s%s%s%s", (int)(begin - sandbox->service_url),
             sandbox->service_url, fill(hosts, port, filled, sizeof(filled)), end, more);
    return url;
}

/* Listens on a port that accepts connections and never sends a byte. */
static int listen_silently(unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void await_down(struct shop *shop, enum status status)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (shop->downs == 0 || shop->down_why.status != status) {
        assert_true(clock_mono_us() < deadline_us);
        store_flush(shop->store);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
}

static void expect_an_order(struct shop *shop)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct basket basket = {0};

    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(basket.placements[0].verdict, VERDICT_PLACED);
}

/* -- hosts -- */

static void test_store__leaves_a_host_that_is_down_or_silent(void **state UNUSED)
{
    static const char down[] = "127.0.0.1:1,";
    unsigned port;
    int fd = listen_silently(&port);

    for (int i = 0; i < 3; i++) {
        char silent[40], hosts[128];
        struct shop *shop;

        snprintf(silent, sizeof(silent), "127.0.0.1:%u,", port);
        snprintf(hosts, sizeof(hosts), "%s%s127.0.0.1:{}", i != 0 ? silent : "",
                 i != 1 ? down : "");
        shop = shop_open_at(url_of(hosts, ""), 2, 4000, true);
        shop_await(shop, &shop->is_up);
        expect_an_order(shop);
        shop_close(shop);
    }
    close(fd);
}

/* The standby is refused by each connection, but the reason is reported once. */
static void test_store__waits_for_a_server_that_accepts_writes(void **state UNUSED)
{
    struct shop *shop;

    administer("alter role " SERVICE_ROLE " set default_transaction_read_only = on");
    shop = shop_open_at(url_of("127.0.0.1:1,127.0.0.1:{}", ""), 2, UNHURRIED_MS, false);
    await_down(shop, STATUS_BUSY);
    ASSERT_CONTAINS(shop->down_why.text, "read-only");
    assert_int_equal(shop->downs, 1);
    assert_false(store_is_up(shop->store));
    administer("alter role " SERVICE_ROLE " reset default_transaction_read_only");
    shop_await(shop, &shop->is_up);
    expect_an_order(shop);
    shop_close(shop);
}

/* While no server accepts connections, only one connection tries to connect. */
static void test_store__seeks_a_server_with_one_connection(void **state UNUSED)
{
    enum { CONNECTS = 60, QUIET_MS = 2000 }; /* ten connections would try ten times */
    char hosts[40];
    unsigned port, later = 0;
    int fd = listen_silently(&port), held = -1;
    int64_t until_us = INT64_MAX;
    struct shop *shop;

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    snprintf(hosts, sizeof(hosts), "127.0.0.1:%u", port);
    shop = shop_open_at(url_of(hosts, ""), 4, UNHURRIED_MS, true);
    for (unsigned count = 0; clock_mono_us() < until_us;) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        later += peer >= 0 && held >= 0;
        if (peer >= 0 && ++count == CONNECTS) {
            held = peer; /* stays open without an answer */
            until_us = clock_mono_us() + QUIET_MS * INT64_C(1000);
        } else if (peer >= 0) {
            close(peer);
        }
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
    assert_int_equal(later, 0);
    shop_close(shop);
    close(held);
    close(fd);
}

/* Answers each login with the error that there is no such database. */
static void *refuse_logins(void *listener)
{
    static const char refusal[] = "E\0\0\0\x25SFATAL\0C3D000\0Mno such database\0\0";
    char startup[1024];
    int peer;

    while ((peer = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (read(peer, startup, sizeof(startup)) > 0)
            (void)!write(peer, refusal, sizeof(refusal) - 1);
        close(peer);
    }
    return NULL;
}

static void test_db_open__leaves_a_host_without_the_database(void **state UNUSED)
{
    char hosts[80];
    unsigned port;
    int fd = listen_silently(&port);
    pthread_t thread;
    struct err err = {0};
    struct db *db;

    assert_int_equal(pthread_create(&thread, NULL, refuse_logins, &fd), 0);
    snprintf(hosts, sizeof(hosts), "127.0.0.1:%u,127.0.0.1:{}", port);
    if (db_open(url_of(hosts, "&sslmode=disable"), &db, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    db_close(db);
    snprintf(hosts, sizeof(hosts), "127.0.0.1:%u,127.0.0.1:1", port);
    assert_int_equal(db_open(url_of(hosts, "&sslmode=disable"), &db, &err), STATUS_IO);
    ASSERT_CONTAINS(err.text, "no such database");
    ASSERT_CONTAINS(err.text, "; ");
    shutdown(fd, SHUT_RDWR); /* ends accept4() */
    pthread_join(thread, NULL);
    close(fd);
}

/* -- names -- */

static void test_store__resolves_names_beside_the_loop(void **state UNUSED)
{
    struct shop *shop =
        shop_open_at(url_of("slow.test:{},127.0.0.1:{}", ""), 2, 4000, false);

    shop_await(shop, &shop->is_up);
    assert_int_equal(slow_answers, 0);
    expect_an_order(shop);
    for (int i = 0; i < 64; i++)
        sem_post(&name_server);
    shop_close(shop);
}

static void test_store__reports_a_host_without_an_address(void **state UNUSED)
{
    static const struct {
        const char *host, *text;
        int why;
    } rows[] = {
        {"unknown.test:{}",
         "check the database URL: no address of unknown.test: ", UV_EAI_NONAME},
        {"unserved.test:{}",
         "check the database URL: no address of unserved.test: ", UV_EAI_AGAIN},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shop *shop =
            shop_open_at(url_of(rows[i].host, ""), 1, UNHURRIED_MS, false);

        await_down(shop, STATUS_IO);
        ASSERT_CONTAINS(shop->down_why.text, rows[i].text);
        ASSERT_CONTAINS(shop->down_why.text, uv_strerror(rows[i].why));
        shop_close(shop);
    }
}

static void test_store__closes_while_a_name_is_resolved(void **state UNUSED)
{
    struct shop *shop = shop_open_at(url_of("slow.test:{}", ""), 1, UNHURRIED_MS, false);

    uv_run(&shop->loop, UV_RUN_ONCE);
    for (int i = 0; i < 64; i++)
        sem_post(&name_server);
    shop_close(shop);
}

/* -- certificates -- */

/* Makes Postgres serve TLS with a certificate for db.test. Returns the path of the certificate. */
static const char *start_tls(void)
{
    static char path[160];
    FILE *file;

    administer("copy (select where false) to program 'openssl req -x509 -newkey rsa:2048"
               " -nodes -days 2 -subj /CN=db.test -addext subjectAltName=DNS:db.test"
               " -keyout server.key -out server.crt 2>openssl.log'");
    administer("alter system set ssl = on");
    administer("select pg_reload_conf()");
    while (strcmp(administer("show ssl"), "on") != 0)
        ;
    snprintf(path, sizeof(path), "%s/root.crt", fixture->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(administer("select pg_read_file('server.crt')"), file);
    fclose(file);
    return path;
}

static void test_store__verifies_the_name_of_the_host(void **state UNUSED)
{
    char more[256];
    struct shop *shop;

    snprintf(more, sizeof(more), "&sslmode=verify-full&sslrootcert=%s", start_tls());
    shop = shop_open_at(url_of("other.test:{},db.test:{}", more), 1, UNHURRIED_MS, false);
    shop_await(shop, &shop->is_up);
    assert_string_equal(administer("select bool_and(ssl) from pg_stat_ssl join"
                                   " pg_stat_activity using (pid)"
                                   " where usename = '" SERVICE_ROLE "'"),
                        "t");
    shop_close(shop);

    shop = shop_open_at(url_of("other.test:{}", more), 1, UNHURRIED_MS, false);
    await_down(shop, STATUS_IO);
    ASSERT_CONTAINS(shop->down_why.text, "other.test");
    shop_close(shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store__leaves_a_host_that_is_down_or_silent),
        cmocka_unit_test(test_store__waits_for_a_server_that_accepts_writes),
        cmocka_unit_test(test_store__seeks_a_server_with_one_connection),
        cmocka_unit_test(test_db_open__leaves_a_host_without_the_database),
        cmocka_unit_test(test_store__resolves_names_beside_the_loop),
        cmocka_unit_test(test_store__reports_a_host_without_an_address),
        cmocka_unit_test(test_store__closes_while_a_name_is_resolved),
        cmocka_unit_test(test_store__verifies_the_name_of_the_host),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
