/*
 * test_deliver.c - `seckill deliver` with fake parts.
 *
 * Each call of a part and each line of the log adds a line to a trace. As soon as the command says
 * that it delivers, it gets a signal.
 */
#include "app/cmd/cmd.h"
#include "app/core/log.h"
#include "app/deliver/deliverer.h"
#include "app/test/append.h"
#include "test/case_list.h"

#include <signal.h>
#include <sys/resource.h>

/* clang-format off */
struct store { int unused; };
struct feed { int unused; };
struct deliverer { int unused; };
struct rlock_client { int unused; };
/* clang-format on */

static struct {
    char trace[2000];
    const char *fails; /* the part that cannot be opened */
    int signal;
    unsigned flushes;
    enum log_level level;
    struct store store;
    struct feed feed;
    struct deliverer deliverer;
    struct rlock_client locks;
    struct rlock_client_options locks_options;
    struct store_options store_options;
} fake;

#define DID(...) append(fake.trace, sizeof(fake.trace), __VA_ARGS__)

static void assert_trace(const char *wanted)
{
    assert_string_equal(fake.trace, wanted);
    fake.trace[0] = '\0';
}

static bool fails(const char *part)
{
    return fake.fails != NULL && strcmp(fake.fails, part) == 0;
}

static const char *mark(const void *part)
{
    return part != NULL ? "" : " nothing";
}

/* -- the log -- */

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char fields[300];
    va_list args;

    va_start(args, format);
    vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    DID("%d %s %s\n", (int)level, event, fields);
    if (strcmp(event, "delivering") != 0)
        return;
    raise(SIGPIPE); /* as after an endpoint has cut a connection */
    raise(fake.signal);
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

/* -- the parts -- */

enum rlock_status rlock_client_open(const struct rlock_client_options *options,
                                    struct rlock_client **ret_client,
                                    struct rlock_err *reterr)
{
    fake.locks_options = *options;
    DID("open locks at %s for %u ms\n", options->redis_url, options->timeout_ms);
    if (fails("locks"))
        return err_set(reterr, RLOCK_INVALID, "no such server");
    *ret_client = &fake.locks;
    return RLOCK_OK;
}

void rlock_client_close(struct rlock_client *client, void (*closed)(void *arg),
                        void *arg UNUSED)
{
    assert_null(closed);
    DID("close locks%s\n", mark(client));
}

enum rlock_status store_open(const struct store_options *options,
                             struct store **ret_store, struct rlock_err *reterr)
{
    fake.store_options = *options;
    DID("open store at %s for %u ms, durability %d\n", options->database_url,
        options->timeout_ms, (int)options->required);
    if (fails("store"))
        return err_set(reterr, RLOCK_IO, "no store");
    *ret_store = &fake.store;
    return RLOCK_OK;
}

void store_flush(struct store *store)
{
    assert_ptr_equal(store, &fake.store);
    fake.flushes++;
}

void store_close(struct store *store, void (*closed)(void *arg), void *arg UNUSED)
{
    assert_null(closed);
    DID("close store%s\n", mark(store));
}

struct feed *feed_open(uv_loop_t *loop UNUSED, struct store *store,
                       struct metrics *metrics)
{
    assert_ptr_equal(store, &fake.store);
    assert_ptr_equal(metrics, fake.store_options.metrics);
    DID("open feed\n");
    return fails("feed") ? NULL : &fake.feed;
}

void feed_drain(struct feed *feed)
{
    assert_ptr_equal(feed, &fake.feed);
    DID("drain feed\n");
}

void feed_close(struct feed *feed)
{
    DID("close feed%s\n", mark(feed));
}

struct deliverer *deliverer_open(const struct deliverer_options *options)
{
    uint8_t address[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1};

    assert_ptr_equal(options->store, &fake.store);
    assert_ptr_equal(options->feed, &fake.feed);
    assert_ptr_equal(options->locks, &fake.locks);
    assert_true(address_is_in(options->allowed, address));
    DID("open deliverer with a lease of %u ms\n", options->lease_ms);
    return fails("deliverer") ? NULL : &fake.deliverer;
}

void deliverer_stop(struct deliverer *deliverer)
{
    assert_ptr_equal(deliverer, &fake.deliverer);
    DID("stop deliverer\n");
}

void deliverer_free(struct deliverer *deliverer)
{
    DID("free deliverer%s\n", mark(deliverer));
}

/* -- the fixture -- */

static struct config config;
static struct rlock_err err;

static int set_up(void **state UNUSED)
{
    memset(&fake, 0, sizeof(fake));
    fake.signal = SIGTERM;
    signal(SIGPIPE, SIG_DFL);
    config = (struct config){.redis_url = "redis://r",
                             .database_url = "db",
                             .order_timeout_ms = 5000,
                             .lock_lease_ms = 6000,
                             .log_level = LOG_DEBUG,
                             .webhook_networks = "10.1.0.0/16"};
    err.text[0] = '\0';
    return 0;
}

#define TEST(name) DEFINE_CASE(name, name, set_up, NULL, NULL)

static int run(int argc)
{
    char *argv[] = {(char[]){"deliver"}, (char[]){"x"}, NULL};

    return command_deliver.run(argc, argv, &config, &err);
}

#define OPENED                                                                           \
    "open locks at redis://r for 2500 ms\n"                                              \
    "open store at db for 2500 ms, durability 2\nopen feed\n"                            \
    "open deliverer with a lease of 6000 ms\n"

/* -- tests -- */

TEST(test_deliver__ends_at_a_signal)
{
    static const struct {
        int signal;
        const char *trace;
    } rows[] = {
        {SIGTERM,
         OPENED "2 delivering \n2 draining signal=15\nstop deliverer\ndrain feed\n"
                "close store\nclose feed\nclose locks\nfree deliverer\n"},
        {SIGINT, OPENED "2 delivering \n2 draining signal=2\nstop deliverer\ndrain feed\n"
                        "close store\nclose feed\nclose locks\nfree deliverer\n"},
    };

    for (size_t i = 0; i < 2; i++) {
        fake.signal = rows[i].signal;
        assert_int_equal(run(1), EXIT_FINE);
        assert_trace(rows[i].trace);
        ASSERT_NUMBER(fake.flushes, >, 0);
        assert_int_equal(fake.level, LOG_DEBUG);
    }
}

TEST(test_deliver__closes_what_it_has_opened_if_a_part_fails)
{
    static const struct {
        const char *fails;
        int code;
        const char *error, *trace;
    } rows[] = {
        {"locks", EXIT_USAGE, "SECKILL_REDIS_URL: no such server",
         "open locks at redis://r for 2500 ms\nclose store nothing\nclose feed nothing\n"
         "close locks nothing\nfree deliverer nothing\n"},
        {"store", EXIT_FAILED, "no store",
         "open locks at redis://r for 2500 ms\n"
         "open store at db for 2500 ms, durability 3\nclose store nothing\n"
         "close feed nothing\nclose locks\nfree deliverer nothing\n"},
        {"feed", EXIT_FAILED, "",
         "open locks at redis://r for 2500 ms\n"
         "open store at db for 2500 ms, durability 3\nopen feed\nclose store\n"
         "close feed nothing\nclose locks\nfree deliverer nothing\n"},
        {"deliverer", EXIT_FAILED, "",
         "open locks at redis://r for 2500 ms\n"
         "open store at db for 2500 ms, durability 3\nopen feed\n"
         "open deliverer with a lease of 6000 ms\ndrain feed\nclose store\nclose feed\n"
         "close locks\nfree deliverer nothing\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        set_up(state);
        config.require_durability = 1;
        fake.fails = rows[i].fails;
        assert_int_equal(run(1), rows[i].code);
        assert_string_equal(err.text, rows[i].error);
        assert_trace(rows[i].trace);
    }
}

TEST(test_deliver__refuses_arguments_and_bad_networks)
{
    assert_int_equal(run(2), EXIT_USAGE);
    assert_string_equal(err.text, "");
    config.webhook_networks = "10.1";
    assert_int_equal(run(1), EXIT_USAGE);
    ASSERT_BEGINS(err.text, "SECKILL_WEBHOOK_NETWORKS: ");
    assert_trace("");
}

TEST(test_deliver__without_descriptors_fails)
{
    struct rlimit before, few;
    int code;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 3; /* in use already */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    code = run(1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(code, EXIT_FAILED);
    assert_trace("");
}

TEST(test_deliver__logs_when_a_server_is_lost)
{
    const struct rlock_err why = {.status = RLOCK_IO, .text = "gone"};

    run(1);
    fake.trace[0] = '\0';
    fake.store_options.on_state(false, &why, NULL);
    fake.store_options.on_state(true, NULL, NULL);
    fake.locks_options.on_state(false, &why, NULL);
    fake.locks_options.on_state(true, NULL, NULL);
    assert_trace("1 dependency_down dependency=postgres worker=0 why=\"gone\"\n"
                 "2 dependency_up dependency=postgres worker=0\n"
                 "1 dependency_down dependency=redis worker=0 why=\"gone\"\n"
                 "2 dependency_up dependency=redis worker=0\n");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
