/* it_examples.c - the programs of lib/examples and of the manual pages do what they say. */
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

#define EXAMPLE_CASE(name) GUARDED_CASE(name, setup, teardown)

EXAMPLE_CASE(test_examples__do_what_they_say)
{
    static const struct {
        const char *name, *output, *key; /* the key is gone when the program has ended */
    } cases[] = {
        {"plain", "held, its token is set\nmore than a second left: commit\n", "item:7"},
        {"reentrant", "held 2 times\n", "account:7"},
        {"fair", "our turn\n", "printer"},
        {"semaphore", "3 of 3 permits are in use\n", "mirror"},
        {"rwlock", "written\nthe price is 2\n", "catalog"},
        {"getset", "held until its time has passed\n", "sweep:lock"},
        {"multi", "both shelves are ours\n", "shelf:1"},
        {"async", "item:1: ok\nitem:2: ok\nitem:3: ok\n", "item:1"},
        {"sync", "4 threads counted to 400\n", "counter"},
        /* examples of the manual pages */
        {"rlock.7", "sold, 9 left\n", "stock"},
        {"rlock.3", "item:1: ok\nitem:2: ok\nitem:3: ok\n", "item:1"},
        {"rlock_sync.3", "200\n", "counter"},
    };
    struct server *server = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct run run =
            run_example(cases[i].name, (const char *[]){server->unix_url, NULL});

        if (strcmp(run.output, cases[i].output) != 0 || run.code != 0)
            fail_msg("%s: expected \"%s\" and exit code 0, got \"%s\" and %d",
                     cases[i].name, cases[i].output, run.output, run.code);
        assert_false(server_has(server, cases[i].key));
    }
}

EXAMPLE_CASE(test_plain__of_a_busy_lock_or_without_a_server_says_so)
{
    struct server *server = *state;
    struct run run;

    server_do(server, "SET item:7 another");
    run = run_example("plain", (const char *[]){server->unix_url, NULL});
    assert_string_equal(run.output, "busy\n");
    assert_int_equal(run.code, 1);
    run = run_example("plain", (const char *[]){"unix:/nowhere/at/all", NULL});
    ASSERT_CONTAINS(run.output, "No such file or directory");
    assert_int_equal(run.code, 1);
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

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
