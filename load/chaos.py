#!/usr/bin/env -S python3 -B
"""chaos.py PROGRAM CHECKER CYCLES [SEED] - let something fail at random moments of a sale, and compare every
answer with the database.

Two instances behind nginx receive orders, cancellations and restocks, as in prove.py. In each cycle,
after a random pause, one process or connection fails (FAULTS). SEED decides the order of the faults, the
pauses and the requests; 0: a random seed. When all planned requests have been sent, the checker and
`seckill audit` run, and the next round begins with empty tables. At the end, memory, threads,
descriptors, connections and the size of a table are compared with their values before the first fault.

Exit code 0: no violation, and nothing has grown. The logs stay in var/chaos."""

import collections
import contextlib
import ctypes
import errno
import os
import random
import signal
import socket
import stat
import sys
import time

import harness
import prove

PLACE = "var/chaos"
ROUND_S = 50
STOP_S = 0.4 # less than ON_SALE_US of the checker
VOUCHERS = 10
PIDFD_GETFD = 438 # the number of the system call; Python has no function for it


# -- faults --

def stop_for_a_while(stop, resume):
    stop()
    try:
        time.sleep(random.uniform(0, STOP_S))
    finally:
        resume()


def kill_instance(sale):
    """Kill the first instance and start it again, without waiting until it is ready."""
    sale.service.process.kill()
    sale.service.process.wait()
    sale.service.launch()


def stop_instance(sale):
    process = random.choice(sale.services).process
    stop_for_a_while(lambda: process.send_signal(signal.SIGSTOP),
                     lambda: process.send_signal(signal.SIGCONT))


def kill_server(which):
    def fault(sale):
        sale.servers.do("kill", which)
        sale.servers.do("start", which)
    return fault


def stop_server(which):
    def fault(sale):
        stop_for_a_while(lambda: sale.servers.do("pause", which),
                         lambda: sale.servers.do("resume", which))
    return fault


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as status:
        return status.read().rpartition(")")[2].split()[1]


@contextlib.contextmanager
def backend(sale):
    """The pidfd of a Postgres process that serves a connection of the service."""
    pids = []

    def are_found():
        pids[:] = filter(None, sale.sql("select string_agg(pid::text, '|' order by backend_start) "
                                        "from pg_stat_activity where usename = 'seckill_service'"))
        return pids

    harness.wait_for("the service is connected to Postgres", are_found)
    pid = random.choice(pids)
    with open(f"{sale.servers.directory}/postgres.pid") as postmaster, contextlib.ExitStack() as stack:
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


def kill_backend(sale):
    """Kill a process of Postgres. Postgres then ends all its other processes and recovers."""
    with backend(sale) as pidfd:
        send_signal(pidfd, signal.SIGKILL)
    sale.servers.do("start", "postgres") # waits until it answers


def terminate_backend(sale):
    with backend(sale) as pidfd:
        send_signal(pidfd, signal.SIGTERM)


def stop_backend(sale):
    with backend(sale) as pidfd:
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


def cut_connection(sale):
    """Cut a connection of an instance: to Postgres, Redis or nginx, with equal probability."""
    ports = {int(sale.servers.env[f"{name}_PORT"]) for name in ("PG", "REDIS")}
    by_peer = collections.defaultdict(list)
    for each in connections(random.choice(sale.services).process.pid):
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


# -- the resources --

RESOURCES = (("instance 1: descriptors", 4), ("instance 2: descriptors", 4), ("instance 2: threads", 0),
             ("instance 2: memory in MiB", 16), ("Redis: clients", 1), ("Redis: memory in MiB", 4),
             ("Postgres: connections", 0), ("Postgres: table voucher in MiB", 1)) # how much each value may grow


def heap_mib(pid):
    """The anonymous memory. Shared pages do not count: their number changes when another process ends."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


def sample(sale):
    """The resources while there are no clients, without those of the first instance, which is killed."""
    sale.nginx.stop()
    for service in sale.services:
        harness.wait_for("the connections of nginx are closed",
                         lambda: service.metrics("seckill_connections")[0][1] == 1)
    first, second = (service.process.pid for service in sale.services)
    redis = dict(line.split(":", 1) for line in sale.servers.redis("info").splitlines() if ":" in line)
    connections, table_bytes = map(int, sale.sql(
        "select count(*), pg_total_relation_size('voucher') from pg_stat_activity where usename = 'seckill_service'"))
    sale.nginx.start()
    return (len(os.listdir(f"/proc/{first}/fd")), len(os.listdir(f"/proc/{second}/fd")),
            len(os.listdir(f"/proc/{second}/task")), heap_mib(second), int(redis["connected_clients"]),
            int(redis["used_memory"]) / 2**20, connections, table_bytes / 2**20)


# -- rounds --

class Chaos:
    """A sale with faults. `per_s`: requests; `pause_s`: the longest pause between two faults."""

    def __init__(self, checker, place, shoppers=4000, per_s=400, pause_s=0.2, faults=FAULTS):
        self.checker, self.place = checker, place
        self.shoppers, self.per_s, self.pause_s, self.faults = shoppers, per_s, pause_s, faults
        self.played, self.total = collections.Counter(), prove.Findings()

    def make_requests(self, sale):
        """Orders, some repeated or cancelled, of random shoppers; half of the vouchers sell out."""
        vouchers = [sale.voucher(self.shoppers // 40 if number % 2 else prove.PLENTY, limit=1 + number % 3)
                    for number in range(VOUCHERS)]
        requests = [prove.order(random.randint(1, self.shoppers - 1), random.choice(vouchers),
                                f"k{number}" if number % 2 else "-",
                                random.choice(("-", "again", "twice", "cancel")))
                    for number in range(self.per_s * ROUND_S)]
        for place in range(0, len(requests), 100):
            requests.insert(place, f"restock 0 {random.choice(vouchers)} {1 + place % 7} -")
        return requests

    def play_cycle(self, sale):
        time.sleep(random.uniform(0, self.pause_s))
        name = random.choice(list(self.faults))
        try:
            self.faults[name](sale)
        except (harness.Failed, OSError) as failure:
            raise harness.Failed(f"{name}: {failure}") from failure
        self.played[name] += 1
        for service in sale.services:
            if service.process.poll() is not None:
                raise harness.Failed(f"after \"{name}\" an instance has exited with code {service.process.returncode}")

    def play_round(self, sale, is_over):
        """Play cycles until the plan of requests is complete."""
        sale.empty()
        place = f"{self.place}/from_{sum(self.played.values()) + 1}"
        os.makedirs(place)
        with prove.load(sale, self.make_requests(sale), place, ROUND_S):
            harness.wait_for("an order is placed", sale.rows)
            while not is_over(self.played) and not prove.is_complete(place):
                self.play_cycle(sale)
            open(f"{place}/stop", "w").close()
            for service in sale.services:
                harness.wait_for("the instances are ready", service.is_ready)
        findings = prove.check(self.checker, sale, True, place)
        self.total.add(findings)
        self.total.answers += findings.answers
        print(f"{sum(self.played.values())} cycles, {sum(findings.answers.values()):,} requests\n"
              f"{findings.violations}", end="", flush=True)

    def warm_up(self, sale):
        place = f"{self.place}/warm_up"
        os.makedirs(place)
        with prove.load(sale, self.make_requests(sale)[:self.per_s * 5], place, 5):
            pass

    def run(self, program, is_over, stack):
        """Play rounds until `is_over(played)`, and judge."""
        servers = harness.Servers.start(f"{self.place}/servers", stack)
        prove.write_tokens(program, self.shoppers, self.place)
        sale = prove.Sale(program, servers, self.place, stack, instances=2)
        self.warm_up(sale)
        before = sample(sale)
        while not is_over(self.played):
            self.play_round(sale, is_over)
        after = sample(sale)
        self.print(before, after)
        if +self.total.violated:
            raise harness.Failed(f"violations, see above; the logs are in {self.place}")
        grown = [name for (name, more), early, late in zip(RESOURCES, before, after) if late > early + more]
        if grown:
            raise harness.Failed(f"more than before the first fault: {', '.join(grown)}")
        if not (self.total.answers["PLACED"] and self.total.answers["REPEATED"] and prove.count_unclear(self.total)):
            raise harness.Failed("there was no order, no repeated key, or no unclear answer")

    def print(self, before, after):
        print(f"\n{'cycles':>10}  fault")
        for name in self.faults:
            print(f"{self.played[name]:>10,}  {name}")
        print(f"{sum(self.played.values()):>10,}  in total\n\nanswers: " +
              ", ".join(f"{count:,} {name}" for name, count in self.total.answers.most_common() if count))
        prove.print_rules(self.total)
        print(f"\n{'before':>10} {'after':>8} {'limit':>8}  resource")
        for (name, more), early, late in zip(RESOURCES, before, after):
            print(f"{early:>10.1f} {late:>8.1f} {'+' + str(more):>8}  {name}")


def seed_of(arguments):
    """The seed on the command line, or a random one."""
    return int(arguments[0]) if arguments and int(arguments[0]) else random.randrange(1, 2**31)


def run(stack):
    program, checker = map(os.path.abspath, sys.argv[1:3])
    cycles, seed = int(sys.argv[3]), seed_of(sys.argv[4:])
    random.seed(seed)
    began = time.monotonic()
    print(f"seed {seed}", flush=True)
    try:
        Chaos(checker, PLACE).run(program, lambda played: sum(played.values()) >= cycles, stack)
    except harness.Failed as failure:
        raise harness.Failed(f"seed {seed}: {failure}") from failure
    print(f"{cycles:,} cycles of chaos, {time.monotonic() - began:.0f} s")


if __name__ == "__main__": # attack.py imports this file
    harness.main("chaos", PLACE, run)
