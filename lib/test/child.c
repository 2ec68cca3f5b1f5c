/* child.c - forks with a death signal (PR_SET_PDEATHSIG), and keeps a list of the children. */
#include "test/child.h"
#include "test/asserts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 64

static const int crashes[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
static pid_t children[CHILDREN_MAX]; /* the oldest first */
static unsigned count;

static void forget(pid_t pid)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        if (children[i] != pid)
            children[kept++] = children[i];
    }
    count = kept;
}

static bool is_child(pid_t pid)
{
    for (unsigned i = 0; i < count; i++) {
        if (children[i] == pid)
            return true;
    }
    return false;
}

pid_t child_fork(void)
{
    pid_t parent = getpid();
    pid_t child;

    ASSERT_NUMBER(count, <, CHILDREN_MAX);
    child = fork();
    ASSERT_NUMBER(child, >=, 0);
    if (child > 0) {
        children[count++] = child;
        return child;
    }
    count = 0; /* the list has the children of the parent */
    /* After a crash of the child, the handler of cmocka would run the next case in the child. */
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        signal(crashes[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* the parent has ended before the call of prctl() */
    return 0;
}

void child_end(pid_t pid)
{
    if (!is_child(pid))
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    forget(pid);
}

bool child_has_ended(pid_t pid)
{
    bool has_ended = waitpid(pid, NULL, WNOHANG) == pid;

    if (has_ended)
        forget(pid);
    return has_ended;
}

void child_exit(int code)
{
    raise(SIGRTMIN + code);
    abort();
}

int child_wait(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    forget(pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) >= SIGRTMIN)
        return WTERMSIG(status) - SIGRTMIN;
    if (WIFSIGNALED(status))
        print_error("process %d ended by signal %d, %s\n", (int)pid, WTERMSIG(status),
                    sigdescr_np(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

unsigned child_count(void)
{
    return count;
}

void child_end_all_but(unsigned keep)
{
    while (count > keep)
        child_end(children[count - 1]);
}

static void read_all(int fd, char *ret_text, size_t size)
{
    char rest[256];
    size_t len = 0;
    ssize_t got;

    while ((got = read(fd, ret_text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    ret_text[len] = '\0';
    while (read(fd, rest, sizeof(rest)) > 0)
        continue; /* discard the bytes that do not fit */
}

int child_run(const char *const *argv, char *ret_output, size_t size)
{
    int outputs[2];
    pid_t child;

    assert_int_equal(pipe(outputs), 0);
    child = child_fork();
    if (child == 0) {
        dup2(outputs[1], STDOUT_FILENO);
        dup2(outputs[1], STDERR_FILENO);
        close(outputs[0]);
        close(outputs[1]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(outputs[1]);
    read_all(outputs[0], ret_output, size);
    close(outputs[0]);
    return child_wait(child);
}
