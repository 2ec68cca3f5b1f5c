#!/usr/bin/env -S python3 -B
"""chaos.py PROGRAM CHECKER CYCLES [SEED] - faults at random moments of a sale; every answer is
compared with the database.

Two instances behind nginx receive orders, cancellations and restocks, as in prove.py. In each
cycle, after a random pause, one process or connection fails (FAULTS). SEED decides the order of
the faults, the pauses and the requests; 0: a random seed. When the plan of requests is complete,
the checker and `seckill audit` run, and the next round begins with empty tables. At the end
memory, threads, descriptors and connections are compared with those before the first fault.

Exit code 0: no violation, and nothing has grown. The logs stay in var/chaos."""

import collections
import contextlib
import ctypes
import errno
import os
import random
import shutil
import signal
import socket
import stat
import sys
import time

import harness
import prove
import soak

PLACE = prove.PLACE = "var/chaos" # prove.Deployment writes its logs there
SHOPPERS = 4000
PER_S = 400
ROUND_S = 50
PAUSE_S = 0.2
STOP_S = 0.4 # less than ON_SALE_US of the checker
VOUCHERS = 10
PIDFD_GETFD = 438 # the number of the system call; Python has no function for it


# -- faults --

def servers_do(deployment, verb, which):
    harness.run(f"{harness.LOAD}/servers.sh", verb, deployment.servers.directory, which)


def stop_for_a_while(stop, resume):
    stop()
    try:
        time.sleep(random.uniform(0, STOP_S))
    finally:
        resume()


def kill_instance(deployment):
    """Kill the first instance and start it again, without waiting until it is ready."""
    service = deployment.services[0]
    service.process.kill()
    service.process.wait()
    service.launch()


def stop_instance(deployment):
    process = random.choice(deployment.services).process
    stop_for_a_while(lambda: process.send_signal(signal.SIGSTOP),
                     lambda: process.send_signal(signal.SIGCONT))


def kill_server(which):
    def fault(deployment):
        servers_do(deployment, "kill", which)
        servers_do(deployment, "start", which)
    return fault


def stop_server(which):
    def fault(deployment):
        stop_for_a_while(lambda: servers_do(deployment, "pause", which),
                         lambda: servers_do(deployment, "resume", which))
    return fault


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as status:
        return status.read().rpartition(")")[2].split()[1]


@contextlib.contextmanager
def backend(deployment):
    """The pidfd of a Postgres process that serves a connection of the service."""
    pids = []

    def are_found():
        pids[:] = filter(None, deployment.sql("select string_agg(pid::text, '|' order by backend_start) "
                                        "from pg_stat_activity where usename = 'seckill_service'"))
        return pids

    harness.wait_for("the service is connected to Postgres", are_found)
    pid = random.choice(pids)
    with open(f"{deployment.servers.directory}/postgres.pid") as postmaster, contextlib.ExitStack() as stack:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError): # it has ended meanwhile
            pidfd = os.pidfd_open(int(pid))
            stack.callback(os.close, pidfd)
            if parent_of(pid) == postmaster.read().split()[0]: # not another process with this id
                yield pidfd
                return
        yield None


def send_signal(pidfd, number):
    if pidfd is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)


def kill_backend(deployment):
    """Kill a process of Postgres. Postgres then ends all its other processes and recovers."""
    with backend(deployment) as pidfd:
        send_signal(pidfd, signal.SIGKILL)
    servers_do(deployment, "start", "postgres") # waits until it answers


def terminate_backend(deployment):
    with backend(deployment) as pidfd:
        send_signal(pidfd, signal.SIGTERM)


def stop_backend(deployment):
    with backend(deployment) as pidfd:
        stop_for_a_while(lambda: send_signal(pidfd, signal.SIGSTOP),
                         lambda: send_signal(pidfd, signal.SIGCONT))


def connections(pid):
    """Copies of all connections of a process."""
    pidfd = os.pidfd_open(pid)
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        copy = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, int(number), 0)
        if copy < 0:
            if ctypes.get_errno() == errno.EPERM:
                raise harness.Failed("chaos: no permission to copy a descriptor of the service")
            continue # it was closed meanwhile
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        connection = socket.socket(fileno=copy)
        with contextlib.suppress(OSError): # the socket that accepts connections has no peer
            connection.getpeername()
            found.append(connection)
    os.close(pidfd)
    return found


def cut_connection(deployment):
    """Cut a connection of an instance: to Postgres, Redis or nginx, with equal probability."""
    ports = {int(deployment.servers.env[f"{name}_PORT"]) for name in ("PG", "REDIS")}
    by_peer = collections.defaultdict(list)
    for each in connections(random.choice(deployment.services).process.pid):
        port = each.getpeername()[1]
        by_peer[port if port in ports else "nginx"].append(each)
    if by_peer:
        with contextlib.suppress(OSError): # the peer has closed it meanwhile
            random.choice(random.choice(list(by_peer.values()))).shutdown(socket.SHUT_RDWR)


FAULTS = {
    "kill -9 of an instance": kill_instance,
    "an instance stopped": stop_instance,
    "kill -9 of Redis": kill_server("redis"),
    "Redis stopped": stop_server("redis"),
    "kill -9 of Postgres": kill_server("postgres"),
    "Postgres stopped": stop_server("postgres"),
    "kill -9 of a process of Postgres": kill_backend,
    "SIGTERM to a process of Postgres": terminate_backend,
    "a process of Postgres stopped": stop_backend,
    "a connection cut": cut_connection,
}


# -- a round --

def make_requests(deployment):
    """Orders, some repeated or cancelled, of random shoppers; half of the vouchers sell out."""
    vouchers = [deployment.voucher(SHOPPERS // 40 if number % 2 else prove.PLENTY, limit=1 + number % 3)
                for number in range(VOUCHERS)]
    requests = [prove.order(random.randint(1, SHOPPERS - 1), random.choice(vouchers),
                            f"k{number}" if number % 2 else "-",
                            random.choice(("-", "again", "twice", "cancel")))
                for number in range(PER_S * ROUND_S)]
    for place in range(0, len(requests), 100):
        requests.insert(place, f"restock 0 {random.choice(vouchers)} {1 + place % 7} -")
    return requests


def play_cycle(deployment, played):
    time.sleep(random.uniform(0, PAUSE_S))
    name = random.choice(list(FAULTS))
    try:
        FAULTS[name](deployment)
    except (harness.Failed, OSError) as failure:
        raise harness.Failed(f"{name}: {failure}") from failure
    played[name] += 1
    for service in deployment.services:
        if service.process.poll() is not None:
            raise harness.Failed(f"after \"{name}\" an instance has exited with code "
                                 f"{service.process.returncode}")


def play_round(deployment, is_over, place, played):
    """Play cycles until the plan of requests is complete."""
    deployment.empty()
    os.makedirs(place)
    with prove.load(deployment, make_requests(deployment), place, ROUND_S):
        harness.wait_for("an order is placed", deployment.rows)
        while not is_over(played) and not prove.is_complete(place):
            play_cycle(deployment, played)
        open(f"{place}/stop", "w").close()
        for service in deployment.services:
            harness.wait_for("the instances are ready", service.is_ready)


# -- resources --

RESOURCES = (("instance 1: descriptors", 4), ("instance 2: descriptors", 4), ("instance 2: threads", 0),
             ("instance 2: memory in MiB", 16), ("Redis: clients", 1), ("Redis: memory in MiB", 4),
             ("Postgres: connections", 0)) # allowed increase since before the first fault


def sample(deployment):
    """The resources while there are no clients. The second instance is never killed."""
    deployment.nginx.stop()
    for service in deployment.services:
        harness.wait_for("the connections of nginx are closed",
                         lambda: service.metrics("seckill_connections")[0][1] == 1)
    sampler = soak.Sampler(deployment, deployment.servers)
    first, second = map(soak.sample_instance, deployment.services)
    redis = sampler.redis()
    values = (first["fds"], second["fds"], second["threads"], second["heap_kib"] / 1024,
              redis["clients"], redis["bytes"] / 2**20, sampler.postgres()["connections"])
    deployment.nginx.start()
    return values


def warm_up(deployment, place):
    os.makedirs(place)
    with prove.load(deployment, make_requests(deployment)[:PER_S * 5], place, 5):
        pass


# -- the result --

def print_result(played, total, before, after):
    print(f"\n{'cycles':>10}  fault")
    for name in FAULTS:
        print(f"{played[name]:>10,}  {name}")
    print(f"{sum(played.values()):>10,}  in total\n\nanswers: " +
          ", ".join(f"{count:,} {name}" for name, count in total.answers.most_common() if count))
    prove.print_rules(total)
    print(f"\n{'before':>10} {'after':>8} {'limit':>8}  resource")
    for (name, more), early, late in zip(RESOURCES, before, after):
        print(f"{early:>10.1f} {late:>8.1f} {'+' + str(more):>8}  {name}")


def chaos(program, checker, is_over, stack):
    """Play rounds until `is_over(played)`. Returns how often each fault was played, and the findings."""
    servers = harness.Servers(f"{PLACE}/servers")
    stack.callback(servers.down)
    servers.up()
    prove.write_tokens(program, SHOPPERS)
    deployment = prove.Deployment(program, servers, 2, stack)
    warm_up(deployment, f"{PLACE}/warm_up")
    before = sample(deployment)
    played, total = collections.Counter(), prove.Findings()
    while not is_over(played):
        place = f"{PLACE}/from_{sum(played.values()) + 1}"
        play_round(deployment, is_over, place, played)
        findings = prove.check(checker, deployment, True, place)
        total.add(findings)
        total.answers += findings.answers
        print(f"{sum(played.values())} cycles, {sum(findings.answers.values()):,} requests\n"
              f"{findings.violations}", end="", flush=True)
    after = sample(deployment)
    print_result(played, total, before, after)
    if +total.violated:
        raise harness.Failed(f"violations, see above; the logs are in {PLACE}")
    grown = [name for (name, more), early, late in zip(RESOURCES, before, after) if late > early + more]
    if grown:
        raise harness.Failed(f"more than before the first fault: {', '.join(grown)}")
    if not (total.answers["PLACED"] and total.answers["REPEATED"] and prove.count_unclear(total)):
        raise harness.Failed("there was no order, no repeated key, or no unclear answer")
    return played, total


def main():
    program, checker = map(os.path.abspath, sys.argv[1:3])
    cycles = int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    seed = seed or random.randrange(1, 2**31)
    random.seed(seed)
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    began = time.monotonic()
    print(f"seed {seed}", flush=True)
    try:
        with contextlib.ExitStack() as stack:
            chaos(program, checker, lambda played: sum(played.values()) >= cycles, stack)
    except harness.Failed as failure:
        sys.exit(f"chaos: seed {seed}: {failure}")
    print(f"{cycles:,} cycles of chaos, {time.monotonic() - began:.0f} s")


if __name__ == "__main__": # attack.py imports this file
    main()
