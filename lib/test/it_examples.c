/* it_examples.c - the programs of lib/examples do what they say. */
#include "test/child.h"
#include "test/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    char output[1024];
    int code;
};

static void find_example(const char *name, char ret_path[256])
{
    char self[128];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    ASSERT_NUMBER(len, >, 0);
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(ret_path, 256, "%s/../examples/%s", self, name);
}

/** Run it with these arguments. */
static struct run run_example(const char *name, const char *const *arguments)
{
    const char *argv[8] = {NULL};
    struct run run;
    char path[256];

    find_example(name, path);
    argv[0] = path;
    for (int i = 0; arguments[i] != NULL; i++)
        argv[i + 1] = arguments[i];
    run.code = child_run(argv, run.output, sizeof(run.output));
    return run;
}

static int setup(void **state)
{
    case_begin(state);
    *state = fixture_empty_server();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)case_end();
    return 0;
}

static void expect(const struct server *server, const char *name, const char *output)
{
    struct run run = run_example(name, (const char *[]){server->unix_url, NULL});

    assert_string_equal(run.output, output);
    assert_int_equal(run.code, 0);
}

#define EXAMPLE_CASE(name) GUARDED_CASE(name, setup, teardown)

EXAMPLE_CASE(test_plain__has_a_token_and_time)
{
    expect(*state, "plain", "held, its token is set\nmore than a second left: commit\n");
    assert_false(server_has(*state, "item:7"));
}

EXAMPLE_CASE(test_plain__of_a_busy_lock_says_so_in_time)
{
    const struct server *server = *state;
    struct run run;

    assert_int_equal(server_int(*state, "SETNX item:7 another"), 1);
    run = run_example("plain", (const char *[]){server->unix_url, NULL});
    assert_int_equal(server_int(*state, "DEL item:7"), 1);
    assert_string_equal(run.output, "busy\n");
    assert_int_equal(run.code, 1);
}

EXAMPLE_CASE(test_plain__without_a_server_says_why)
{
    struct run run = run_example("plain", (const char *[]){"unix:/nowhere/at/all", NULL});

    ASSERT_CONTAINS(run.output, "No such file or directory");
    assert_int_equal(run.code, 1);
}

EXAMPLE_CASE(test_reentrant__counts)
{
    expect(*state, "reentrant", "held 2 times\n");
    assert_false(server_has(*state, "account:7"));
}

EXAMPLE_CASE(test_fair__gets_its_turn)
{
    expect(*state, "fair", "our turn\n");
    assert_false(server_has(*state, "printer"));
}

EXAMPLE_CASE(test_semaphore__gives_three_permits)
{
    expect(*state, "semaphore", "3 of 3 permits are in use\n");
    assert_false(server_has(*state, "mirror"));
}

EXAMPLE_CASE(test_rwlock__writes_and_reads)
{
    expect(*state, "rwlock", "written\nthe price is 2\n");
    assert_false(server_has(*state, "catalog"));
}

EXAMPLE_CASE(test_getset__holds)
{
    expect(*state, "getset", "held until its time has passed\n");
}

EXAMPLE_CASE(test_multi__takes_both)
{
    expect(*state, "multi", "both shelves are ours\n");
    assert_false(server_has(*state, "shelf:1"));
    assert_false(server_has(*state, "shelf:2"));
}

EXAMPLE_CASE(test_quorum__does_without_a_minority)
{
    const struct server *first = *state;
    static struct server second;
    struct run run;

    server_start(&second, NULL);
    run = run_example("quorum", (const char *[]){first->unix_url, "unix:/nowhere/at/all",
                                                 second.unix_url, NULL});
    server_stop(&second);
    assert_string_equal(run.output, "elected for more than a second\n");
    assert_int_equal(run.code, 0);
}

EXAMPLE_CASE(test_async__answers_each)
{
    expect(*state, "async", "item:1: ok\nitem:2: ok\nitem:3: ok\n");
}

EXAMPLE_CASE(test_sync__counts_exactly)
{
    expect(*state, "sync", "4 threads counted to 400\n");
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
