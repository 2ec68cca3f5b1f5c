#!/usr/bin/python3 -BES
"""reap.py COMMAND... - run a command, and fail if a process that it started is alive after it.

Every orphan below this process becomes its child (PR_SET_CHILD_SUBREAPER), also one that
has a session of its own or has overwritten its environment. When the command has ended,
however it ended, its descendants get GRACE_S seconds to end too: the guardian of a killed
test stops the servers in that time. Processes that are alive then are named and killed.

The command is stopped when this process gets a signal or loses its parent.

Exit code: that of the command, 128 + signal; 1 if a process survived a successful command."""

import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STOP_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
GRACE_S = int(os.environ.get("REAP_GRACE_S", "60"))


def children_of(pid):
    """The children of a process, including zombies. None if the process has ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(child) for child in children.read().split()]
    except OSError:
        return []


def descendants_of(pid):
    found = children_of(pid)
    for child in found:
        found += children_of(child)
    return found


def describe(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
            return cmdline.read().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    except OSError:
        return "?"


def send(pid, number):
    """Send a signal to a process, which may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def collect_zombies():
    """Collect zombies. Returns whether a child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return False
    return True


def kill_descendants():
    """Kill descendants until none is left. The next round finds those that a process has forked meanwhile."""
    while collect_zombies():
        for pid in descendants_of(os.getpid()):
            send(pid, signal.SIGKILL)
        time.sleep(0.01)


def stop_session():
    """Guardians and servers have sessions of their own: a guardian stops its servers when
    its test has ended."""
    for pid in descendants_of(os.getpid()):
        try:
            if os.getsid(pid) == os.getsid(0):
                send(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass


def await_descendants():
    """Wait for the descendants. Returns whether all ended within the grace period."""
    deadline = time.monotonic() + GRACE_S
    while collect_zombies():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def wait_for(command):
    """Wait for a child and collect orphans that end before it. Returns its exit code."""
    while True:
        pid, status = os.wait()
        if pid == command.pid:
            command.returncode = 0 # Popen must not wait for it
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


class Stopped(Exception):
    """This process was stopped by a signal; the argument is its number."""


def stop(number, _frame):
    for each in STOP_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)


def main():
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    for number in STOP_SIGNALS:
        signal.signal(number, stop)
    command = subprocess.Popen(sys.argv[1:])
    try:
        code = wait_for(command)
        if await_descendants():
            return code
        for pid in descendants_of(os.getpid()):
            print(f"a process is left behind: {pid} {describe(pid)}", flush=True)
        code = code or 1
    except Stopped as reason:
        stop_session()
        await_descendants()
        code = 128 + reason.args[0]
    kill_descendants()
    return code


if __name__ == "__main__":
    sys.exit(main())
