/*
 * it_store.c - the store with a real server: what its unit tests assume of libpq and Postgres.
 *
 * To hold back commits, the tests name a synchronous standby that does not exist. A commit that
 * must be durable then waits for this standby.
 */
#include "app/core/embed.h"
#include "app/store/store.h"
#include "app/test/sql/it_sql.h"
#include "base/clock.h"
#include "test/case_list.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define UNHURRIED_MS 600000 /* a timeout that does not pass during a test */

static struct sandbox *sandbox;
static struct fixture *fixture;
static PGconn *superuser;
static int64_t voucher;

/* -- the store -- */

static struct shop {
    uv_loop_t loop;
    uv_timer_t tick;
    struct store *store;
    struct metrics metrics;
    uint32_t timeout_ms;
    bool is_up;
    struct rlock_err down_why;
} shop;

static void shop_on_state(bool is_up, const struct rlock_err *why, void *arg UNUSED)
{
    shop.is_up = is_up;
    if (!is_up)
        shop.down_why = *why;
}

static void shop_on_changed(int64_t voucher_id UNUSED, void *arg UNUSED)
{
}

static void shop_on_tick(uv_timer_t *tick UNUSED)
{
}

static void shop_open_at(const char *url, uint32_t timeout_ms, enum durability required)
{
    struct store_options options = {.loop = &shop.loop,
                                    .database_url = url,
                                    .timeout_ms = timeout_ms,
                                    .lanes = 2,
                                    .required = required,
                                    .metrics = &shop.metrics,
                                    .on_voucher_changed = shop_on_changed,
                                    .on_state = shop_on_state};
    struct rlock_err err = {0};

    shop = (struct shop){.timeout_ms = timeout_ms};
    uv_loop_init(&shop.loop);
    uv_timer_init(&shop.loop, &shop.tick);
    uv_timer_start(&shop.tick, shop_on_tick, 10, 10);
    if (store_open(&options, &shop.store, &err) != RLOCK_OK)
        fail_msg("%s", err.text);
}

static void await(bool (*is_true)(const void *arg), const void *arg)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (!is_true(arg)) {
        if (clock_mono_us() > deadline_us)
            fail_msg("not true after %d ms; the store is %s", DEADLINE_MS,
                     shop.is_up ? "up" : shop.down_why.text);
        store_check(shop.store);
        store_flush(shop.store);
        uv_run(&shop.loop, UV_RUN_ONCE);
    }
}

static bool is_set(const void *flag)
{
    return *(const bool *)flag;
}

static bool is_down_because(const void *words)
{
    return !shop.is_up && strstr(shop.down_why.text, words) != NULL;
}

static void shop_open(uint32_t timeout_ms)
{
    shop_open_at(sandbox->service_url, timeout_ms, DURABILITY_NONE);
    await(is_set, &shop.is_up);
}

static void shop_on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void shop_close(void)
{
    bool is_closed = false;

    store_close(shop.store, shop_on_closed, &is_closed);
    uv_close((uv_handle_t *)&shop.tick, NULL);
    uv_run(&shop.loop, UV_RUN_DEFAULT);
    assert_true(is_closed);
    assert_int_equal(uv_loop_close(&shop.loop), 0);
}

/* -- orders -- */

struct basket {
    struct placement placement, *pointer;
    struct store_batch batch;
    bool is_answered, is_released;
    enum rlock_status status;
    struct rlock_err why;
};

static void basket_on_answer(enum rlock_status status,
                             const struct voucher_snapshot *snapshot UNUSED,
                             const struct rlock_err *why, void *arg)
{
    struct basket *basket = arg;

    assert_false(basket->is_answered);
    basket->is_answered = true;
    basket->status = status;
    if (why != NULL)
        basket->why = *why;
}

static void basket_on_released(void *arg)
{
    struct basket *basket = arg;

    assert_false(basket->is_answered || basket->is_released);
    basket->is_released = true;
}

static void basket_prepare(struct basket *basket, int64_t user_id)
{
    *basket = (struct basket){
        .placement = {.user_id = user_id, .fence = user_id},
        .pointer = &basket->placement,
        .batch = {.voucher_id = voucher,
                  .placements = &basket->pointer,
                  .count = 1,
                  .deadline_us = clock_mono_us() + shop.timeout_ms * INT64_C(2000),
                  .arg = basket}};
}

static void basket_send(struct basket *basket, int64_t user_id,
                        void (*released)(void *arg))
{
    struct rlock_link batches;

    basket_prepare(basket, user_id);
    basket->batch.released = released;
    list_init(&batches);
    list_append(&batches, &basket->batch.link);
    store_place_orders(shop.store, &batches, basket_on_answer);
    store_flush(shop.store);
}

static enum rlock_status basket_resolve_once(struct basket *basket, int64_t user_id)
{
    basket_prepare(basket, user_id);
    store_resolve_orders(shop.store, &basket->batch, basket_on_answer);
    await(is_set, &basket->is_answered);
    return basket->status;
}

static void assert_resolved(int64_t user_id, int verdict)
{
    struct basket basket;

    while (basket_resolve_once(&basket, user_id) != RLOCK_OK)
        uv_run(&shop.loop, UV_RUN_ONCE);
    assert_int_equal(basket.placement.verdict, verdict);
}

static int64_t orders(void)
{
    return sandbox_number(
        sandbox, "select count(*) from voucher_order where voucher_id = %" PRId64,
        voucher);
}

/* -- the server -- */

static const char *administer_text(const char *sql)
{
    static PGresult *result;

    PQclear(result);
    result = PQexec(superuser, sql);
    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        fail_msg("%s: %s", sql, PQerrorMessage(superuser));
    return PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
}

static int64_t administer(const char *sql)
{
    return strtoll(administer_text(sql), NULL, 10);
}

/* Names the synchronous standby. The server reloads its configuration only after the call. */
static void set_standby(const char *name)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "alter system set synchronous_standby_names = '%s'", name);
    administer(sql);
    administer("select pg_reload_conf()");
}

static int64_t commits_held_back(void)
{
    return administer(
        "select count(*) from pg_stat_activity where wait_event = 'SyncRep'");
}

static bool are_held_back(const void *count)
{
    return commits_held_back() == *(const int *)count;
}

static void await_held_back(int count)
{
    await(are_held_back, &count);
}

/* Names a standby that does not exist, and waits until it holds back a commit of a new connection.
   This commit shows that the server has reloaded its configuration. */
static void name_standby(void)
{
    PGconn *probe = sandbox_connect(sandbox);
    int64_t before = commits_held_back();
    char sql[80];

    set_standby("absent");
    while (commits_held_back() == before) {
        if (PQtransactionStatus(probe) == PQTRANS_IDLE)
            assert_int_equal(
                PQsendQuery(probe, "select pg_logical_emit_message(true, '', '')"), 1);
        PQconsumeInput(probe);
        while (!PQisBusy(probe) && PQtransactionStatus(probe) == PQTRANS_ACTIVE)
            PQclear(PQgetResult(probe));
    }
    snprintf(sql, sizeof(sql), "select pg_terminate_backend(%d, 60000)",
             PQbackendPID(probe));
    administer(sql);
    PQfinish(probe);
}

static int setup(void **state UNUSED)
{
    fixture = fixture_open();
    sandbox = sandbox_open(fixture, "store");
    superuser = PQconnectdb(sandbox->superuser_url);
    return 0;
}

static int teardown(void **state UNUSED)
{
    PQfinish(superuser);
    sandbox_close(sandbox);
    return fixture_close(fixture);
}

static int begin(void **state UNUSED)
{
    voucher = sandbox_voucher(sandbox, 10, 1);
    return 0;
}

static int mend(void **state UNUSED)
{
    set_standby("");
    return sandbox_audit(sandbox) == 0 ? 0 : 1;
}

#define STORE_CASE(name) DEFINE_CASE(name, name, begin, mend, NULL)

/* -- commits that wait for the standby -- */

static void on_orders(enum rlock_status status, const struct order_page *page, void *arg)
{
    assert_int_equal(status, RLOCK_OK);
    assert_int_equal(page->count, 1);
    *(bool *)arg = true;
}

STORE_CASE(test_store_place_orders__releases_the_row_before_it_answers)
{
    const struct order_filter filter = {.user_id = 1, .until_us = INT64_MAX, .limit = 10};
    struct basket first, next;
    bool is_listed = false;

    shop_open(UNHURRIED_MS);
    name_standby();
    basket_send(&first, 1, basket_on_released);
    await(is_set, &first.is_released);
    await_held_back(1);
    store_list_orders(shop.store, &filter, on_orders, &is_listed);
    await_held_back(2);
    basket_send(&next, 2, basket_on_released);
    await(is_set, &next.is_released);
    assert_false(first.is_answered || is_listed);

    set_standby("");
    await(is_set, &first.is_answered);
    await(is_set, &next.is_answered);
    await(is_set, &is_listed);
    assert_int_equal(first.status, RLOCK_OK);
    assert_int_equal(first.placement.verdict, VERDICT_PLACED);
    shop_close();
}

STORE_CASE(test_store_place_orders__is_unknown_if_its_wait_is_cancelled)
{
    shop_open(UNHURRIED_MS);
    for (int64_t user = 1; user <= 2; user++) {
        struct basket basket;

        name_standby();
        basket_send(&basket, user, user == 1 ? basket_on_released : NULL);
        await_held_back(1);
        administer("select pg_cancel_backend(pid) from pg_stat_activity"
                   " where wait_event = 'SyncRep'");
        await(is_set, &basket.is_answered);
        assert_int_equal(basket.status, RLOCK_IO);
        ASSERT_CONTAINS(basket.why.text, "cancelled");
        set_standby("");
        await(is_set, &shop.is_up);
    }
    assert_resolved(1, VERDICT_PLACED);
    assert_resolved(2, VERDICT_PLACED);
    shop_close();
}

/* The commit waits for its standby, and the store gives up waiting. The look-up must not terminate
   the server process, because the order would become visible without being replicated. */
STORE_CASE(test_store_resolve_orders__waits_for_the_standby)
{
    struct basket basket;

    shop_open(3000);
    name_standby();
    basket_send(&basket, 1, NULL);
    await(is_set, &basket.is_answered);
    assert_int_equal(basket.status, RLOCK_TIMEOUT);
    assert_int_not_equal(basket_resolve_once(&basket, 1), RLOCK_OK);
    assert_int_equal(commits_held_back(), 1);
    assert_int_equal(orders(), 0);
    set_standby("");
    assert_resolved(1, VERDICT_PLACED);
    shop_close();
}

/* While the session is stopped, the standby is removed from the configuration, which ends the wait
   of the commit. Then the standby is named again. When the session goes on, it reads the new
   configuration, so the store must wait for the standby before it answers the order. */
STORE_CASE(test_store_place_orders__waits_again_after_a_reload)
{
    struct basket basket;
    pid_t lane;

    shop_open(UNHURRIED_MS);
    name_standby();
    basket_send(&basket, 1, NULL);
    await_held_back(1);
    lane = (pid_t)administer("select pid from pg_stat_activity"
                             " where wait_event = 'SyncRep'");
    kill(lane, SIGSTOP);
    set_standby("");
    sandbox_do(sandbox, "select pg_logical_emit_message(true, '', '')");
    name_standby();
    kill(lane, SIGCONT);
    await_held_back(1);
    assert_false(basket.is_answered);

    set_standby("");
    await(is_set, &basket.is_answered);
    assert_int_equal(basket.status, RLOCK_OK);
    shop_close();
}

/* -- statements, with a standby -- */

static const char *bytes_of(const char *query)
{
    char path[64];

    snprintf(path, sizeof(path), "sql/queries/%s.sql", query);
    return embedded_find(path)->bytes;
}

struct proof_row {
    const char *standby, *level;
    bool is_superuser;
    const char *wanted;
};

static const char *execute_as(const struct proof_row *row, const char *sql)
{
    return row->is_superuser ? administer_text(sql) : sandbox_text(sandbox, "%s", sql);
}

static bool is_named(void *row)
{
    return strcmp(execute_as(row, "show synchronous_standby_names"),
                  ((const struct proof_row *)row)->standby) == 0;
}

static bool is_sent(void *row)
{
    static const char format[] = "select count(*) from pg_stat_replication"
                                 " where state = 'streaming' and sync_state %s 'async'";
    char sql[sizeof(format)];

    snprintf(sql, sizeof(sql), format,
             strcmp(((const struct proof_row *)row)->standby, "*") == 0 ? "<>" : "=");
    return administer(sql) == 1;
}

/* After the first transaction of a round all WAL is on disk. The barrier must write to the WAL all
   the same, because only a commit that has written WAL waits for the standby. */
STORE_CASE(test_barrier__writes_for_a_standby_even_if_all_is_on_disk)
{
    struct proof_row row = {.standby = "absent"};

    set_standby(row.standby);
    AWAIT(is_named, &row);
    for (int i = 0; i < 20; i++) {
        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "set local synchronous_commit = local");
        sandbox_do(sandbox, "update cell set alive_at = now()");
        sandbox_do(sandbox, "commit");
        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "%s", bytes_of("barrier"));
        assert_string_not_equal(
            sandbox_text(sandbox, "select pg_current_xact_id_if_assigned()"), "");
        sandbox_do(sandbox, "rollback");
    }
}

/* A receiver of WAL counts as a standby only if commits wait for it. Only a superuser can see
   whether they do. For other roles every receiver counts. */
STORE_CASE(test_proof__counts_a_standby_that_commits_wait_for)
{
    struct proof_row rows[] = {
        {"", "on", false, "2"},       {"absent", "local", false, "2"},
        {"absent", "on", false, "3"}, {"absent", "remote_apply", false, "3"},
        {"absent", "on", true, "2"},  {"*", "on", true, "3"},
    };
    pid_t receiver = fixture_receive_wal(fixture);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *found;
        char sql[48];

        set_standby(rows[i].standby);
        AWAIT(is_named, &rows[i]);
        AWAIT(is_sent, &rows[i]);
        snprintf(sql, sizeof(sql), "set synchronous_commit = %s", rows[i].level);
        execute_as(&rows[i], sql);
        found = execute_as(&rows[i], bytes_of("proof"));
        if (strcmp(found, rows[i].wanted) != 0)
            fail_msg("standby \"%s\", commits %s: expected %s, got %s", rows[i].standby,
                     rows[i].level, rows[i].wanted, found);
        execute_as(&rows[i], "reset synchronous_commit");
    }
    kill(receiver, SIGKILL);
    waitpid(receiver, NULL, 0);
}

/* -- servers that are left -- */

/* A session that notices the lowered setting and a new session report the same reason. */
STORE_CASE(test_store__leaves_a_server_that_is_unsafe)
{
    static const struct {
        const char *lower, *raise, *words;
    } rows[] = {
        {"alter system set fsync = off", "alter system reset fsync",
         "durability is none"},
        {"alter system set full_page_writes = off", "alter system reset full_page_writes",
         "durability is none"},
        {"alter role " SERVICE_ROLE " set synchronous_commit = off",
         "alter role " SERVICE_ROLE " reset synchronous_commit", "durability is none"},
        {"alter role " SERVICE_ROLE " set default_transaction_read_only = on",
         "alter role " SERVICE_ROLE " reset default_transaction_read_only", "read-only"},
        {"revoke execute on function store.place_orders from " SERVICE_ROLE,
         "grant execute on function store.place_orders to " SERVICE_ROLE,
         "--service-role"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        administer(rows[i].lower);
        administer("select pg_reload_conf()");
        shop_open_at(sandbox->service_url, UNHURRIED_MS, DURABILITY_LOCAL);
        await(is_down_because, rows[i].words);
        administer(rows[i].raise);
        administer("select pg_reload_conf()");
        await(is_set, &shop.is_up);
        shop_close();
    }
}

/* -- hosts -- */

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): those of the C library
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    typeof(getaddrinfo) *next = (typeof(getaddrinfo) *)dlsym(RTLD_NEXT, "getaddrinfo");

    return next(name != NULL && strstr(name, ".test") != NULL ? "127.0.0.1" : name,
                service, hints, ret_found);
}

/* Makes Postgres serve TLS with a certificate for db.test, which is written to `path`. */
static void start_tls(const char *path)
{
    FILE *file = fopen(path, "we");

    administer("copy (select where false) to program 'openssl req -x509 -newkey rsa:2048"
               " -nodes -days 2 -subj /CN=db.test -addext subjectAltName=DNS:db.test"
               " -keyout server.key -out server.crt 2>openssl.log'");
    administer("alter system set ssl = on");
    administer("select pg_reload_conf()");
    while (administer("select (current_setting('ssl') = 'on')::int") == 0)
        ;
    assert_non_null(file);
    fputs(administer_text("select pg_read_file('server.crt')"), file);
    fclose(file);
}

static const char *url_of(const char *hosts, const char *certificate)
{
    static char url[2048];
    char filled[200], port[8];
    const char *begin = strrchr(sandbox->service_url, '@') + 1;
    const char *colon = strchr(begin, ':'), *end = strchr(begin, '/');

    snprintf(port, sizeof(port), "%.*s", (int)(end - colon - 1), colon + 1);
    snprintf(url, sizeof(url), "%.*s%s%s&sslmode=verify-full&sslrootcert=%s",
             (int)(begin - sandbox->service_url), sandbox->service_url,
             fill(hosts, port, filled, sizeof(filled)), end, certificate);
    return url;
}

/* The first host is down, the certificate is not for the second host, and the third host is
   right. */
STORE_CASE(test_store__verifies_the_name_of_the_host)
{
    char certificate[160];
    struct basket basket;

    snprintf(certificate, sizeof(certificate), "%s/root.crt", fixture->dir);
    start_tls(certificate);
    shop_open_at(url_of("127.0.0.1:1,other.test:{},db.test:{}", certificate),
                 UNHURRIED_MS, DURABILITY_LOCAL);
    await(is_set, &shop.is_up);
    basket_send(&basket, 1, NULL);
    await(is_set, &basket.is_answered);
    assert_int_equal(basket.placement.verdict, VERDICT_PLACED);
    assert_int_equal(administer("select count(*) from pg_stat_ssl join pg_stat_activity"
                                " using (pid) where usename = '" SERVICE_ROLE
                                "' and not ssl"),
                     0);
    shop_close();

    shop_open_at(url_of("other.test:{}", certificate), UNHURRIED_MS, DURABILITY_LOCAL);
    await(is_down_because, "other.test");
    shop_close();
}

/* -- unknown outcomes -- */

STORE_CASE(test_store_place_orders__a_failing_commit_is_a_refusal)
{
    struct basket basket;

    shop_open(UNHURRIED_MS);
    sandbox_do(sandbox, "create function refuse() returns trigger language plpgsql as"
                        " $$ begin raise 'not at commit'; end $$");
    sandbox_do(sandbox, "create constraint trigger late after insert on voucher_order"
                        " deferrable initially deferred"
                        " for each row execute function refuse()");
    basket_send(&basket, 1, NULL);
    await(is_set, &basket.is_answered);
    assert_int_equal(basket.status, RLOCK_REFUSED);
    ASSERT_CONTAINS(basket.why.text, "not at commit");
    sandbox_do(sandbox, "drop function refuse cascade");
    assert_resolved(1, VERDICT_NONE);
    shop_close();
}

static bool is_to_server(int fd)
{
    const char *port = strrchr(fixture->database_url, ':') + 1;
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof(peer);

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
           peer.sin_family == AF_INET && ntohs(peer.sin_port) == strtol(port, NULL, 10);
}

static void lose_answers(int first_fd)
{
    for (int fd = first_fd; fd < 1024; fd++) {
        char bytes[65536];

        if (!is_to_server(fd))
            continue;
        while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
        shutdown(fd, SHUT_RDWR);
    }
}

STORE_CASE(test_store_resolve_orders__finds_what_was_committed)
{
    int first_fd = dup(0);
    struct basket basket;

    close(first_fd);
    shop_open(UNHURRIED_MS);
    basket_send(&basket, 1, NULL);
    while (orders() == 0)
        assert_false(basket.is_answered);
    lose_answers(first_fd);
    await(is_set, &basket.is_answered);
    assert_int_equal(basket.status, RLOCK_IO);
    assert_resolved(1, VERDICT_PLACED);
    assert_resolved(2, VERDICT_NONE);
    shop_close();
}

/* The server process would still commit after its client has given up. So the look-up must first
   end the process. Otherwise it could find no order, and the commit would come later. */
STORE_CASE(test_store_resolve_orders__ends_the_process_first)
{
    struct basket basket;

    shop_open(5000);
    sandbox_do(sandbox, "create function dawdle() returns trigger language plpgsql as"
                        " $$ begin perform pg_sleep(60); return null; end $$");
    sandbox_do(sandbox, "create constraint trigger late after insert on voucher_order"
                        " deferrable initially deferred"
                        " for each row execute function dawdle()");
    basket_send(&basket, 1, NULL);
    await(is_set, &basket.is_answered);
    assert_int_equal(basket.status, RLOCK_TIMEOUT);
    assert_resolved(1, VERDICT_NONE);
    assert_int_equal(administer("select count(*) from pg_stat_activity"
                                " where wait_event = 'PgSleep'"),
                     0);
    sandbox_do(sandbox, "drop function dawdle cascade");
    assert_int_equal(orders(), 0);
    shop_close();
}

int main(void)
{
    return cases_run(setup, teardown);
}
