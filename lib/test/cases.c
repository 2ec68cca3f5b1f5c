/* cases.c - see cases.h. */
#include "test/cases.h"
#include "base/clock.h"
#include "test/child.h"
#include "test/server.h"

#include <signal.h>
#include <unistd.h>

#define GAP_BYTES 262144 /* size of a gap in the stack; more than a teardown needs */

static struct {
    CMUnitTestFunction run;
    unsigned servers, children; /* numbers of servers and children of the group */
    pid_t process;
    bool has_passed;
} current;

void case_begin(void **state)
{
    current.run = (CMUnitTestFunction)*state;
    current.servers = server_count();
    current.children = child_count();
    current.process = getpid();
    current.has_passed = false;
}

void case_call(CMUnitTestFunction run, void **state)
{
    volatile char gap[GAP_BYTES];

    gap[0] = gap[GAP_BYTES - 1] = 0;
    run(state);
    current.has_passed = gap[0] == 0;
}

void case_run(void **state)
{
    case_call(current.run, state);
}

bool case_end(void)
{
    if (getpid() != current.process)
        _exit(1); /* an assertion has failed in a child, and the parent goes on */
    clock_shift_us(-clock_shift_us(0));
    signal(SIGPIPE, SIG_DFL);
    server_resume_all();
    if (!current.has_passed) {
        child_end_all_but(current.children);
        server_reset(current.servers);
    }
    return current.has_passed;
}
