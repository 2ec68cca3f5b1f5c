/*
 * fixture.h - shared by the integration tests: private servers, instances of the service, requests
 * with tokens, and direct access to Postgres and Redis.
 *
 * Each test program has its own servers, with their data in var/it/. A guardian process stops the
 * servers when the program ends, even if the program crashes. A service ends with the test that
 * started it, unless the service is shared. All services end with the program.
 *
 * If a function cannot do its work, the running test fails. All functions belong to one thread.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include "app/test/http_client.h"
#include "base/attributes.h"
#include "test/case_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#define FIXTURE_SERVICES_MAX 6
#define FIXTURE_SECRET       "a secret of the tests, 32 bytes or more of it"
#define ID_SIZE              24 /* enough for a bigint as text */
#define IN_A_ROW             16

/* A wait for a condition fails after this time, which is ten times what the slowest wait takes on a
   quiet machine. */
#define DEADLINE_MS 120000

struct service {
    struct client_address address;
    pid_t pid; /* 0: the service does not run */
    char log_path[128];
    struct client *conn;
};

struct fixture {
    char dir[96];
    char program[256];
    char database_url[256]; /* for the owner of the tables */
    char service_url[256];  /* for the role of the service, which has fewer rights */
    char superuser_url[256];
    char redis_url[256];
    struct service services[FIXTURE_SERVICES_MAX];
    unsigned shared_services;
    pid_t guardian_pid;
    int guardian_fd; /* the guardian stops the servers when this descriptor is closed */
};

/* -- servers -- */

#define SERVICE_ROLE "seckill_service"

/** Start the servers and migrate, in the setup of a group. Programs that the fixture starts connect
 *  as SERVICE_ROLE unless their environment says otherwise. */
struct fixture *fixture_open(void);

/** The setup of a group that calls only fixture_open(). */
int fixture_setup(void **state);

/** Stop everything. Returns 0 if all shared services end with 0 and the audit of the data
 *  passes. */
int fixture_close(struct fixture *fixture);

int fixture_end_test(void **state);

/** Open a fixture with a service that all tests of the group share. */
struct service *fixture_begin_group(void **state, const char *const *env);

/** The teardown of a group. */
int fixture_end_group(void **state);

void fixture_share_services(struct fixture *fixture);

#define SERVICE_CASE(name) DEFINE_CASE(name, name, NULL, fixture_end_test, NULL)

#define CASE(test) cmocka_unit_test_teardown(test, fixture_end_test)

void fixture_servers(struct fixture *fixture, const char *verb, const char *which);

/** Start pg_receivewal. To the server it is a standby with the name "pg_receivewal". It runs until
 *  it is killed or the test program ends. Returns its process id. */
pid_t fixture_receive_wal(const struct fixture *fixture);

/** Make a server run and answer, even if the server is stopped or paused. */
void fixture_mend(struct fixture *fixture, const char *which);

/* -- programs -- */

struct command_result {
    /* exit code, or 128 + signal; -1: the program was killed because it did not end in time */
    int code;
    char out[65536];
    char err[65536];
};

/**
 * Run a program to its end.
 *
 * @env   additional "NAME=value", ends with NULL; may be NULL
 * @argv  ends with NULL; argv[0] "seckill" stands for the program under test
 *
 * Returns  the result, which is valid until the next call
 */
const struct command_result *fixture_run(struct fixture *fixture, const char *const *env,
                                         const char *const *argv);

/** Start `seckill serve`, and do not wait. */
struct service *fixture_spawn(struct fixture *fixture, const char *const *env);

/** Start `seckill serve`, and wait until it is ready. */
struct service *fixture_serve(struct fixture *fixture, const char *const *env);

/** Start `seckill deliver`, and do not wait. The result can be passed to all functions for a
 *  service that send no request. */
struct service *fixture_deliver(struct fixture *fixture, const char *const *env);

/** Like fixture_serve(), but a shell first executes `before`, and then starts the program with
 *  `redirections`. */
struct service *fixture_serve_by(struct fixture *fixture, const char *const *env,
                                 const char *before, const char *redirections);

/** Start again a service that has ended, at the same address. */
void service_respawn(struct fixture *fixture, struct service *service,
                     const char *const *env);

void service_signal(struct service *service, int signal_number);

/** Returns the exit code, or 128 + signal, or -1 if the service was killed because it did not end
 *  in time. */
int service_wait(struct service *service);

/** Send SIGTERM, and then call service_wait(). */
int service_stop(struct service *service);
void service_kill(struct service *service);

/** Wait until all loops answer GET `target` with this status. */
void service_await(struct service *service, const char *target, int status);

int64_t service_rss_kib(const struct service *service);

bool service_has_logged(const struct service *service, const char *words);

/** Wait until a line in the log has these words. A reply can come before the log line of its
 *  request, because another thread writes the log. */
void service_await_log(struct service *service, const char *words);

/* -- requests -- */

/** Return a token for the default configuration, valid for an hour. The text stays valid during the
 *  next 64 calls. */
const char *shopper(int64_t user_id);
const char *admin(void);
const char *payment(void);

int64_t number_of(const char *text);

/** Make a token with any claims. `claims` is a JSON object. If `header` is NULL, the header says
 *  HS256. */
const char *token_hs256(const char *header, const char *claims, const char *secret);

/**
 * Send a request on a new connection. `format` gives "METHOD /target".
 *
 * @body  JSON text; NULL: none
 *
 * Returns  the reply, never NULL; valid until the next request to this service
 */
const struct client_reply *request(struct service *service, const char *token,
                                   const char *body, const char *format, ...)
    PRINTF_LIKE(4, 5);

/** Like request(), with additional header lines. Each line in `headers` ends with CRLF. `headers`
 *  may be NULL. */
const struct client_reply *request_with(struct service *service, const char *token,
                                        const char *headers, const char *body,
                                        const char *format, ...) PRINTF_LIKE(5, 6);

/**
 * Assert that the reply has this status. If `code` is not NULL, the reply must be a complete
 * problem document with this code.
 *
 * Returns  the reply
 */
#define EXPECT(reply, status, code) expect_at(reply, status, code, __FILE__, __LINE__)
const struct client_reply *expect_at(const struct client_reply *reply, int status,
                                     const char *code, const char *file, int line);

bool reply_is(const struct client_reply *reply, int status, const char *code);

/** A member of the reply's JSON object; "" or INT64_MIN if the object has no such member. */
const char *reply_text(const struct client_reply *reply, const char *name);
int64_t reply_number(const struct client_reply *reply, const char *name);

/** The value of a metric, of which `name` has the labels, too. */
double service_metric(struct service *service, const char *name);

void print_last_request(void);

const char *reply_header(const struct client_reply *reply, const char *name);

int64_t reply_retry_after(const struct client_reply *reply);

/* -- sales -- */

struct sale {
    int64_t stock;
    int64_t per_user_limit;
    /* seconds from now; if both are 0, the sale began a minute ago and ends in an hour */
    int begin_in_s;
    int end_in_s;
    bool is_lottery;
};

/** Print the present time plus offset_ms in RFC 3339, UTC, with milliseconds. ret_text has 32
 *  bytes. Returns ret_text. */
char *time_in_ms(int64_t offset_ms, char *ret_text);

/** Copy `pattern`, with each "{}" replaced by `value`. Returns ret_text. */
char *fill(const char *pattern, const char *value, char *ret_text, size_t size);

/** Create a voucher, and wait until `service` knows it. */
void make_voucher(struct service *service, const struct sale *sale, char *ret_id);

/** Create a voucher, and wait until `other` knows it, too. The timeout of `other` may be too short
 *  to create a voucher. */
void make_known(struct service *service, struct service *other, int64_t stock,
                char *ret_id);

const struct client_reply *place_order(struct service *service, int64_t user_id,
                                       const char *voucher_id, const char *key);

/** Check a condition every few milliseconds. Returns false if the condition is not true within
 *  DEADLINE_MS. */
bool becomes_true(bool (*check)(void *arg), void *arg);

/** Wait until a condition is true. After DEADLINE_MS, print the last request and its reply, and
 *  fail. */
#define AWAIT(check, ...) await_at(check, __VA_ARGS__, #check, __FILE__, __LINE__)
void await_at(bool (*check)(void *arg), void *arg, const char *name, const char *file,
              int line);

/* -- direct access to the servers -- */

void sql_do(struct fixture *fixture, const char *format, ...) PRINTF_LIKE(2, 3);
int64_t sql_number(struct fixture *fixture, const char *format, ...) PRINTF_LIKE(2, 3);

int64_t sql_administer(struct fixture *fixture, const char *statement);

/** The only text that a query returns. The caller frees the text. */
char *sql_text(struct fixture *fixture, const char *format, ...) PRINTF_LIKE(2, 3);

/** Execute `statement` in a new session, in a transaction that stays open and so keeps its row
 *  locks. If `statement` is NULL, close all sessions that this function has opened. */
void sql_session(struct fixture *fixture, const char *statement);

int64_t sql_broken_guarantees(struct fixture *fixture);

int64_t sql_live_orders(struct fixture *fixture, const char *voucher_id);

/** Execute a Redis command. Returns the first number or text of the reply, or "" if the reply is
 *  nil. The result is valid until the next call. */
const char *redis_do(struct fixture *fixture, const char *format, ...) PRINTF_LIKE(2, 3);

int redis_order_locks(struct fixture *fixture);

void fixture_data_close(void);

#endif
