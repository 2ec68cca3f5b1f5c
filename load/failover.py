#!/usr/bin/env -S python3 -B
"""failover.py PROGRAM [CYCLES] - how long a fault of Postgres or Redis interrupts the sale, and what it loses.

Each fault has private servers and an instance of the service. Shoppers place orders without a pause. If an
order gets no clear answer, it is repeated under its key. There are four parts:

  servers  a primary with a standby, which is promoted when the primary is gone. The last fault is a
           control: the standby is asynchronous, so orders must be lost
  dropped  Patroni drops its only standby. The disk of the primary must have each acknowledged order
  pooled   a pooler gives the service sessions in which another client has set synchronous_commit = off.
           Postgres is killed
  patroni  the primary fails in four ways, and Patroni promotes the standby. The old primary is the standby
           of the next cycle. CYCLES: only this part runs, with this number of cycles

Orders must go on after the fault, without a restart of the service. Each acknowledged order must be a
row of the new primary or of the durable copy, and `seckill audit` must pass. Exit code 0: all of this
holds, and no interruption was ten times as long as its goal. The logs stay in var/failover."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness
import pair
import patroni
import shopping

PLACE = "var/failover"
ORDERS = 500 # acknowledged before the fault, and after it
FEW_ORDERS, PAUSE_S = 100, 0.02 # with pauses, so that many cycles need few shoppers
REQUESTS = 500 # answered while Postgres is less durable
AWAY_S = 7 # longer than SECKILL_ORDER_TIMEOUT_MS
TOLERANCE = 10 # a busy machine is slower than the goal
POOLED = 40 # more sessions than the service has
LINE = "{:<36} {:>8} {:>8} {:>13} {:>8} {:>6}  {}"


class Report:
    """A line for each fault, and the sums."""

    def __init__(self):
        self.is_good, self.acknowledged, self.longest_s = True, 0, {}
        self.print("fault", "down s", "gap s", "acknowledged", "unclear", "lost", "result")

    def print(self, *columns):
        print(LINE.format(*columns), flush=True)

    def add(self, name, shoppers, lost, down_s, gap_s=None, goal_s=None, is_control=False):
        """`gap_s`: from the end of the fault to the next order. A control must lose orders."""
        verdict = self.judge(lost, gap_s, goal_s, is_control)
        self.is_good = self.is_good and verdict.startswith("ok")
        if not is_control:
            self.acknowledged += len(shoppers.acknowledged)
        if goal_s:
            self.longest_s[name] = max(gap_s, self.longest_s.get(name, 0))
        self.print(name, f"{down_s:.1f}", "-" if gap_s is None else f"{gap_s:.2f}", len(shoppers.acknowledged),
                   shoppers.unclear, len(lost), verdict)

    @staticmethod
    def judge(lost, gap_s, goal_s, is_control):
        if bool(lost) != is_control:
            return f"LOST: shoppers {lost[:5]}" if lost else "NOTHING LOST: this test cannot detect a loss"
        if goal_s and gap_s > goal_s * TOLERANCE:
            return f"TOO LONG: more than {goal_s * TOLERANCE} s"
        return "ok" if not goal_s or gap_s <= goal_s else f"ok, above the goal of {goal_s} s"


# -- servers --
#
# Each fault takes the primary, the standby and the shoppers. It returns the time of the fault, and the time
# from which orders could be placed again. To simulate a machine without power, whose connections are not
# closed, the primary is paused.

def of_primary(command):
    """A command of `servers.sh` for the primary; then the standby is promoted."""
    def happen(primary, standby, _shoppers):
        primary.do(command, "postgres")
        fault = time.monotonic()
        pair.promote(standby)
        return fault, time.monotonic()
    return happen


def standby_first(wait):
    """The standby is killed, and later promoted without the orders that were placed meanwhile."""
    def happen(primary, standby, shoppers):
        standby.do("kill", "postgres")
        wait(shoppers)
        primary.do("kill", "postgres")
        fault = time.monotonic()
        standby.do("start", "postgres")
        pair.promote(standby)
        return fault, time.monotonic()
    return happen


def standby_hangs(primary, standby, shoppers):
    """Orders go on when the paused server has been resumed. Then the primary fails, too."""
    standby.do("pause", "postgres")
    fault = time.monotonic()
    time.sleep(AWAY_S)
    standby.do("resume", "postgres")
    resumed = time.monotonic()
    shoppers.first_since(resumed)
    of_primary("kill")(primary, standby, shoppers)
    return fault, resumed


def comes_back(name, begin, end, away_s=0):
    """A server of the primary is away for a while."""
    def happen(primary, _standby, _shoppers):
        primary.do(begin, name)
        fault = time.monotonic()
        time.sleep(away_s)
        primary.do(end, name)
        return fault, time.monotonic()
    return happen


class Fault:
    """`goal_s`: the goal for the time until the next 201; None: no goal. `promotes`: whether the standby is the
    primary afterwards."""

    def __init__(self, name, happen, goal_s=None, is_synchronous=True, promotes=True, is_control=False):
        self.name, self.happen, self.goal_s, self.is_synchronous = name, happen, goal_s, is_synchronous
        self.promotes, self.is_control = promotes, is_control


FAULTS = (
    Fault("primary killed", of_primary("kill"), goal_s=1),
    Fault("primary hangs", of_primary("pause"), goal_s=4),
    Fault("switchover", of_primary("stop"), goal_s=1),
    Fault("standby killed, then primary", standby_first(shopping.Shoppers.await_unclear)),
    Fault("standby hangs, then primary killed", standby_hangs),
    Fault("Postgres killed and restarted", comes_back("postgres", "kill", "start"), 1, is_synchronous=False, promotes=False),
    Fault("Redis killed and restarted", comes_back("redis", "kill", "start"), 1, promotes=False),
    Fault("Redis hangs", comes_back("redis", "pause", "resume", AWAY_S), 1, promotes=False),
    Fault("control: asynchronous standby", standby_first(lambda shoppers: shoppers.await_more(ORDERS)),
          is_synchronous=False, is_control=True),
)


def fail_over(fault):
    def play(program, place, tokens, report, stack):
        primary, standby = pair.start(place, stack, fault.is_synchronous)
        for each in (primary, standby):
            stack.callback(each.do, "kill", "postgres") # it may be paused
        service = shopping.start_service(program, place, stack, pair.url_of_both(primary, standby), primary.url("owner"),
                                         primary.env["SECKILL_REDIS_URL"])
        shopping.await_durability(service, "remote" if fault.is_synchronous else "local")
        with shopping.selling(service, tokens, ORDERS) as shoppers:
            fault_at, ready_at = fault.happen(primary, standby, shoppers)
            gap_s = shoppers.first_since(ready_at) - ready_at
        lost = shoppers.lost((standby if fault.promotes else primary).url("owner"))
        service.command("audit") # of the server that accepts writes
        report.add(fault.name, shoppers, lost, ready_at - fault_at, gap_s, fault.goal_s, fault.is_control)
    return play


# -- less durable during a sale --

def await_requests(shoppers):
    wanted = shoppers.requests + REQUESTS
    harness.wait_for("requests are answered", lambda: shoppers.count() and shoppers.requests >= wanted)


def is_not_durable(service):
    status, health = service.call("GET", "/readyz")
    return status == 503 and "not_durable" in str(health)


def start_as_postgres(command, log_path, stack, stop_by):
    """Start a program that refuses root; it stops with the stack."""
    with open(log_path, "ab") as log:
        process = subprocess.Popen(["setpriv", *patroni.USER, "--", "setpriv", "--pdeathsig", "TERM", "--", *command],
                                   cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.send_signal, stop_by)


def lost_without_primary(standby, shoppers, logs):
    """Start a copy of the standby alone as a primary, and return the orders that it lacks. The standby must be down."""
    data, port = f"{standby.directory}/alone", patroni.free_port()
    harness.run("cp", "-a", standby.data, data)
    for name in ("standby.signal", "postmaster.pid"):
        os.unlink(f"{data}/{name}")
    with contextlib.ExitStack() as stack:
        start_as_postgres([f"{patroni.postgres_bin()}/postgres", "-D", data, "-p", str(port), "-c",
                           "synchronous_standby_names="], f"{logs}/alone.log", stack, signal.SIGINT)
        url = f"postgresql://seckill:{standby.cluster.password}@127.0.0.1:{port}/seckill"
        harness.wait_for("the standby has started alone", lambda: harness.run(
            "psql", "-XAtqc", "select 1", url, check=False))
        return shoppers.lost(url)


def drop_standby(name, is_strict):
    def play(program, place, tokens, report, stack):
        cluster = patroni.Cluster(place, stack, dict(patroni.SETTINGS, synchronous_mode_strict=is_strict))
        primary, standby = cluster.await_pair()
        harness.sql(primary.url, "grant pg_read_all_stats to seckill_service")
        service = start_at_cluster(program, place, cluster, stack, SECKILL_REQUIRE_DURABILITY="remote")
        with shopping.selling(service, tokens, FEW_ORDERS, PAUSE_S) as shoppers:
            standby.kill_all()
            harness.wait_for("Patroni drops the standby", lambda: standby.name not in harness.sql(
                primary.url, "show synchronous_standby_names")[0])
            dropped_at = time.monotonic()
            await_requests(shoppers)
            lost = lost_without_primary(standby, shoppers, place)
            harness.wait_for("the service says why", lambda: is_not_durable(service))
            standby.start()
            cluster.await_pair()
            down_s = time.monotonic() - dropped_at
        service.command("audit")
        report.add(name, shoppers, lost + shoppers.lost(cluster.database_url("seckill")), down_s)
    return play


POOLER_INI = """
[databases]
seckill = host=127.0.0.1 port={server_port} user=seckill_service password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = session
server_reset_query =
default_pool_size = 200
"""


def start_pooler(servers, place, stack):
    """Start PgBouncer so that the settings of a client stay for the next client of a session. Returns its URL."""
    port = patroni.free_port()
    password = servers.url("service").partition("@")[0].rpartition(":")[2]
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="pooler."))
    config = f"{directory}/pgbouncer.ini"
    with open(config, "w") as file:
        file.write(POOLER_INI.format(server_port=servers.env["PG_PORT"], password=password, port=port))
    patroni.give(directory, config)
    start_as_postgres([shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", config], f"{place}/pgbouncer.log", stack,
                      signal.SIGTERM)
    harness.wait_for("the pooler answers", lambda: harness.is_taken(port))
    return f"postgresql://seckill_service@127.0.0.1:{port}/seckill"


def make_lazy(url):
    """Set synchronous_commit = off in many sessions at once, which the pooler then gives to other clients."""
    clients = [subprocess.Popen(["psql", "-XAtq", url], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for _ in range(POOLED)]
    for client in clients:
        client.stdin.write("set synchronous_commit = off;\nselect 1;\n")
        client.stdin.flush()
    for client in clients:
        client.stdout.readline()
    for client in clients:
        client.communicate()


def pool_lazy_sessions(program, place, tokens, report, stack):
    servers = harness.Servers.start(f"{place}/servers", stack)
    servers.configure("wal_writer_delay", "10s")
    servers.configure("wal_writer_flush_after", "1GB")
    pooler_url = start_pooler(servers, place, stack)
    service = shopping.start_service(program, place, stack, pooler_url, servers.url("owner"),
                                     servers.env["SECKILL_REDIS_URL"], SECKILL_WORKERS="1")
    with shopping.selling(service, tokens, FEW_ORDERS, PAUSE_S) as shoppers:
        make_lazy(pooler_url)
        harness.sql(servers.url("superuser"), "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                    " where application_name = 'seckill'")
        lazy_at = time.monotonic()
        await_requests(shoppers)
        servers.do("kill", "postgres")
        servers.do("start", "postgres")
        down_s = time.monotonic() - lazy_at
    service.command("audit")
    with open(service.log_path) as log:
        if "durability is none" not in log.read():
            raise harness.Failed("the service has not refused a lazy session")
    report.add("lazy sessions of a pooler", shoppers, shoppers.lost(servers.url("owner")), down_s)


# -- Patroni --
#
# Each fault takes the primary and the standby, and returns a function that ends it.

def kill_server(primary, _standby):
    """Patroni survives, fails over at once, and starts the old primary as a standby."""
    primary.signal_server(signal.SIGKILL)
    return lambda: None


def switch_over(primary, standby):
    return primary.switch_over_to(standby)


def kill_machine(primary, _standby):
    """The standby is promoted when the lease of the primary has expired."""
    primary.kill_all()
    return primary.start


def hang_machine(primary, _standby):
    """The old primary comes back while the new one sells."""
    primary.pause_all()
    return primary.resume_all


# Name, fault, goal from the promotion to the next order.
PATRONI_FAULTS = (("Patroni: Postgres killed", kill_server, 1), ("Patroni: switchover", switch_over, 1),
                  ("Patroni: machine killed", kill_machine, 1), ("Patroni: machine hangs", hang_machine, 4))


def fault_of(cycle):
    """First each fault in turn. Later the faults that wait for a lease come more rarely, as they take longer."""
    return PATRONI_FAULTS[cycle % 4 if cycle < 4 or cycle % 20 < 4 else cycle % 2]


def start_at_cluster(program, place, cluster, stack, **env):
    servers = harness.Servers.start(f"{place}/servers", stack) # of which only Redis is used
    return shopping.start_service(program, place, stack, cluster.database_url("seckill_service"),
                                  cluster.database_url("seckill"), servers.env["SECKILL_REDIS_URL"], **env)


def fail_over_by_patroni(cycles):
    def play(program, place, tokens, report, stack):
        cluster = patroni.Cluster(place, stack)
        service = start_at_cluster(program, place, cluster, stack)
        all_shoppers = []
        for cycle in range(cycles):
            name, fault, goal_s = fault_of(cycle)
            primary, standby = cluster.await_pair()
            shopping.await_durability(service, "remote")
            with shopping.selling(service, tokens, FEW_ORDERS, PAUSE_S) as shoppers:
                fault_at = time.monotonic()
                end_fault = fault(primary, standby)
                harness.wait_for("the standby is promoted", standby.is_promoted)
                ready_at = time.monotonic()
                gap_s = shoppers.first_since(ready_at) - ready_at
                end_fault()
            owner_url = cluster.database_url("seckill", standby) # without the old primary, which may still accept writes
            harness.run(program, "audit", env=dict(service.env, SECKILL_DATABASE_URL=owner_url))
            report.add(name, shoppers, shoppers.lost(owner_url), ready_at - fault_at, gap_s, goal_s)
            all_shoppers.append(shoppers)
        owner_url = cluster.database_url("seckill", cluster.await_pair()[0])
        if any(shoppers.lost(owner_url) for shoppers in all_shoppers):
            raise harness.Failed("orders of an earlier cycle are LOST")
    return play


def run(stack):
    program = os.path.abspath(sys.argv[1])
    tokens, report = shopping.make_tokens(program, PLACE), Report()
    if len(sys.argv) > 2:
        plays = [fail_over_by_patroni(int(sys.argv[2]))]
    else:
        plays = [fail_over(fault) for fault in FAULTS] + [
            drop_standby("Patroni drops its standby", False), drop_standby("the same, strict", True),
            pool_lazy_sessions, fail_over_by_patroni(len(PATRONI_FAULTS))]
    for number, play in enumerate(plays):
        place = f"{PLACE}/{number}"
        os.makedirs(place)
        with contextlib.ExitStack() as servers:
            play(program, place, tokens, report, servers)
    if not report.is_good:
        raise harness.Failed(f"see above; the logs are in {PLACE}")
    longest = ", ".join(f"{name} {gap_s:.2f} s" for name, gap_s in report.longest_s.items())
    print(f"failovers: none of {report.acknowledged} acknowledged orders lost; next order at most after {longest}")


harness.main("failover", PLACE, run)
