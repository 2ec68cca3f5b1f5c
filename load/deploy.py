"""deploy.py - a database with instances of the service, for measurements by wrk or by the open-loop
client. After each measurement, SQL statements check that no voucher was oversold, that no shopper
has two orders, and that every 201 or 202 is a row."""

import json
import os
import platform
import resource
import time

import harness

CONNECTIONS = 1024
THREADS = 2
WORKERS = 2
STOCK = 100_000_000
OLD_ORDERS = int(os.environ.get("BENCH_OLD_ORDERS", "1_000_000"))
CHUNK = 1000
SETTLED_S = 0.2 # the deployment is settled after this time without a new order
ANSWER_WITHIN = "30s" # wrk counts a later answer as an error


# -- wrk --

def wrk(place, ports, seconds, vouchers, count, keys=None, connections=CONNECTIONS,
        threads=THREADS):
    """Run wrk with orders.lua and return its report. The threads use the ports in turn."""
    options = [f"threads={threads}", f"tokens={place}/tokens", f"vouchers={','.join(vouchers)}", f"count={count}"]
    if keys:
        options.append(f"keys={keys}")
    out = harness.run("wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}", "--timeout", ANSWER_WITHIN,
                    "-s", f"{harness.LOAD}/orders.lua", f"http://127.0.0.1:{ports[0]}", "--", *options,
                    env=dict(os.environ, PORTS=",".join(map(str, ports))))
    report = json.loads(out.splitlines()[-1])
    if report["broken"] or not report["requests"]:
        raise harness.Failed(f"wrk: {report['broken']} of {report['requests']} requests failed")
    return report


# -- the open-loop client --

def open_loop(program, place, port, seconds, voucher, rate, connections=CONNECTIONS):
    """Run the open-loop client and return its report. Rate 0: closed loop."""
    report = json.loads(harness.run(program, *map(str, (port, rate, seconds, connections, f"{place}/tokens", voucher))))
    return report | {"requests": report["offered"], "refused": report["offered"] - report["201"]}


# -- a database with instances of the service --

class Deployment:
    """A database of private servers, with instances of the service. If its name is not `seckill`, it is
    created."""

    def __init__(self, program, servers, place, stack, database="seckill", instances=1, **settings):
        self.place, self.servers = place, servers
        self.owner_url, self.superuser_url = servers.url("owner", database), servers.url("superuser", database)
        if database != "seckill":
            harness.sql(servers.url("superuser"), f"drop database if exists {database} with (force)")
            harness.sql(servers.url("superuser"), f"create database {database} owner seckill")
        self.services = [harness.instance(program, f"{place}/{database}.{number}.log", servers.url("service", database),
                                          servers.env["SECKILL_REDIS_URL"], **settings)
                         for number in range(instances)]
        self.service = self.services[0]
        self.service.migrate(self.owner_url)
        self.prepare()
        for service in self.services:
            stack.callback(service.stop)
            service.start()

    def prepare(self):
        """Called before an instance connects."""

    def voucher(self, stock=STOCK, **options):
        return self.service.create_voucher("sale", stock, **options)

    def sql(self, statement):
        return harness.sql(self.owner_url, statement)

    def empty(self):
        """Delete all vouchers and orders."""
        self.sql("truncate voucher, voucher_order, payment, order_event, stock_event, lottery, lottery_entry")

    def in_flight(self):
        return self.sum("seckill_in_flight")

    def sum(self, metric, label=""):
        """The sum of a metric over all instances, of the lines with this text in their labels."""
        return sum(value for service in self.services for labels, value in service.metrics(metric) if label in labels)


class Measured(Deployment):
    """The checks after each measurement."""

    def fill(self):
        """Insert a million orders with place_orders()."""
        voucher = self.voucher()
        self.sql(f"""select count(*) from generate_series(0, {OLD_ORDERS // CHUNK - 1}) g,
            lateral place_orders({voucher},
                array(select generate_series(g * {CHUNK} + 1, (g + 1) * {CHUNK})::bigint),
                array_fill(0::bigint, array[{CHUNK}]), null)""")
        self.sql("analyze voucher_order")
        # With the settings of servers.sh the next checkpoint is due after the benchmark.
        harness.sql(self.superuser_url, "checkpoint")

    def measure(self, seconds, vouchers, count, keys=None, connections=CONNECTIONS,
                threads=THREADS, **expected):
        """Measure with wrk."""
        def load():
            return wrk(self.place, [service.port for service in self.services], seconds, vouchers,
                       count, keys, connections, threads)

        return self.check_after(load, vouchers, connections, **expected)

    def check_after(self, load, vouchers, connections, sells=True):
        """Call `load`, then check its report against the database. `sells`: whether all requests must be served
        (True) or none (False). None: it does not matter."""
        before = self.counts()
        report = load()
        harness.wait_for("all orders are answered", self.is_settled)
        report["created"] = report["requests"] - report["refused"] if sells is not False else 0
        found = {name: count - before[name] for name, count in self.counts().items()}
        self.check(report, vouchers, sells, connections, found)
        return report

    def is_settled(self):
        """Wait until no request is in flight. nginx may still send requests of a load generator that has ended."""
        placed = self.placed()
        time.sleep(SETTLED_S)
        return self.in_flight() == 0 and self.placed() == placed

    def placed(self):
        """How many orders and entries were acknowledged."""
        return sum(self.sum("seckill_orders_total", f'outcome="{outcome}"') for outcome in ("placed", "entered"))

    def counts(self):
        rows = "select (select count(*) from voucher_order) + (select count(*) from lottery_entry)"
        return {"new rows": int(self.sql(rows)[0]), "placed": self.placed(),
                "5xx": self.sum("seckill_http_requests_total", 'status="5')}

    def check(self, report, vouchers, sells, connections, found):
        ids = ",".join(vouchers)
        live = "status in ('unpaid', 'paid', 'redeemed')"
        found["oversold"], = map(int, self.sql(
            f"select count(*) from voucher v where id in ({ids}) and (stock_left < 0 or stock_left + "
            f"(select count(*) from voucher_order o where o.voucher_id = v.id and {live}) "
            "<> stock_total)"))
        found["duplicates"], = map(int, self.sql(
            f"select count(*) from (select 1 from voucher_order where {live} and "
            f"voucher_id in ({ids}) group by voucher_id, user_id having count(*) > 1) d"))
        # wrk stops without reading the last answers: these orders are placed but not counted.
        cut_off = found["new rows"] - report["created"]
        ok = (found["5xx"] == found["oversold"] == found["duplicates"] == 0
              and found["placed"] == found["new rows"] and 0 <= cut_off <= connections
              and (sells is None or report["refused"] == (0 if sells else report["requests"])))
        if not ok:
            raise harness.Failed(f"wrong result: {report} {found}\n"
                               f"{self.service.metrics('seckill_orders_total')}")


def sold_out(deployment):
    """Create a voucher and sell its only piece."""
    voucher = deployment.voucher(1)
    status, reply = deployment.service.call("POST", f"/v1/vouchers/{voucher}/orders", deployment.service.token(2**40))
    if status != 201:
        raise harness.Failed(f"cannot buy the only piece: {status} {reply}")
    return voucher


# -- the machine and its settings --

def machine():
    with open("/proc/cpuinfo") as info:
        models = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    with open("/proc/meminfo") as info:
        total_kib = int(info.readline().split()[1])
    with open("/etc/os-release") as release:
        names = [line.split("=")[1].strip().strip('"') for line in release if line.startswith("PRETTY_NAME")]
    return (f"{len(os.sched_getaffinity(0))} x {models[0] if models else platform.machine()}, "
            f"{total_kib / 2**20:.0f} GiB, {names[0]}, Linux {platform.release()}")


def grow_buffers(servers):
    """Set shared_buffers to a quarter of the memory, as PostgreSQL's manual recommends, so that
    the indexes of ten million orders fit."""
    with open("/proc/meminfo") as info:
        mib = int(info.readline().split()[1]) // 4096
    servers.configure("shared_buffers", f"{mib}MB")
    servers.restart("postgres")


def write_wal(servers, mib):
    """Write as much WAL as a benchmark will write. So the segments of the WAL are recycled, as on a server that
    has run for a while: to create a new segment of 16 MB blocks all commits for 40 ms."""
    url = servers.url("superuser")
    servers.configure("min_wal_size", f"{mib}MB")
    harness.sql(url, "select count(pg_logical_emit_message(false, 'bench', repeat('x', 1048576))) "
              f"from generate_series(1, {mib})")
    harness.sql(url, "checkpoint")


def durability(deployment):
    names = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")
    return {name: deployment.sql(f"show {name}")[0] for name in names}


def stat(pid):
    """The parent of a process, its CPU seconds, and those of its children that have ended; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    own_s, ended_s = (sum(map(int, fields[first:first + 2])) / os.sysconf("SC_CLK_TCK") for first in (11, 13))
    return int(fields[1]), own_s, ended_s


def cpu_s(pid):
    """CPU time of a process and its children, including children that have ended."""
    _, own_s, ended_s = stat(pid)
    each = (stat(child) for child in filter(str.isdigit, os.listdir("/proc")))
    return own_s + ended_s + sum(child[1] for child in each if child and child[0] == pid)


def raise_file_limit(connections):
    """Raise the limit of this process and its children to this number of connections."""
    need = connections + 1000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        raise harness.Failed(f"{need} open files are needed, but ulimit -Hn is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
