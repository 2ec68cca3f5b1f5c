/* child.h - processes that a test starts and that never outlive it. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/** Fork, or fail the test. The kernel kills the child when the calling thread ends. Returns 0 in
 *  the child. */
pid_t child_fork(void);

/** End this process, which is a child, so that child_wait() returns `code`, 0..20. The child still
 *  has the blocks of memory of its parent, and after _exit() valgrind would report them as lost. */
_Noreturn void child_exit(int code);

/** SIGKILL a child and wait for its end. Ignores a process that is no longer a child. */
void child_end(pid_t pid);

/** Whether the child has ended by itself. Then it no longer counts as a child. */
bool child_has_ended(pid_t pid);

/** Wait until the child has ended. Returns its exit code, or -1 if a signal ended it. */
int child_wait(pid_t pid);

unsigned child_count(void);

/** Call child_end() for all children but the `keep` oldest. */
void child_end_all_but(unsigned keep);

/**
 * Run a program to its end. Returns its exit code, or -1 if a signal ended it.
 *
 * @argv        ends with NULL; argv[0] is searched in the PATH unless it has a slash
 * @ret_output  what the program wrote to stdout and stderr, cut off at `size`
 */
int child_run(const char *const *argv, char *ret_output, size_t size);

#endif
