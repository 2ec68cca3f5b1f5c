/* child.h - processes that a test starts and that never outlive it. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * Fork; fails the test if it cannot. The kernel kills the child when the calling thread
 * ends, however it ends. Returns 0 in the child.
 */
pid_t child_fork(void);

/**
 * End a child so that child_wait() returns `code`, 0..20. It has the memory of its parent: with
 * _exit() valgrind would report that as lost.
 */
_Noreturn void child_exit(int code);

/** SIGKILL a child and wait for its end. Ignores a process that is no longer a child. */
void child_end(pid_t pid);

/** Whether the child has ended by itself; then it is no longer a child. */
bool child_has_ended(pid_t pid);

/** Wait for the child's end; its exit code, or -1 if a signal ended it. */
int child_wait(pid_t pid);

/** How many children there are. */
unsigned child_count(void);

/** child_end() for all but the `keep` oldest. */
void child_end_all_but(unsigned keep);

/**
 * Run a program to its end. Returns its exit code, or -1 if a signal ended it.
 *
 * @argv        NULL-ended; argv[0] is looked up in the PATH unless it has a slash
 * @ret_output  what it wrote to both outputs, as far as that fits
 */
int child_run(const char *const *argv, char *ret_output, size_t size);

#endif
