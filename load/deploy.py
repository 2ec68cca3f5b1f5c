"""deploy.py - a database with its service, measured by wrk: what the bench and the growth share.
After each measurement SQL proves that nothing was sold twice or beyond the stock, and that
every 201 is a row."""

import json
import os
import platform
import resource

import harness

CONNECTIONS = 1024
THREADS = 2
WORKERS = 2
STOCK = 100_000_000
OLD_ORDERS = int(os.environ.get("BENCH_OLD_ORDERS", "1_000_000"))
CHUNK = 1000


# -- wrk --

def wrk(place, ports, seconds, vouchers, count, keys=None, connections=CONNECTIONS,
        threads=THREADS):
    """One measurement; what orders.lua tells at its end. Thread after thread asks the next
    of the ports."""
    options = [f"threads={threads}", f"tokens={place}/tokens", f"vouchers={','.join(vouchers)}", f"count={count}"]
    if keys:
        options.append(f"keys={keys}")
    out = harness.run("wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}",
                    "-s", f"{harness.LOAD}/orders.lua", f"http://127.0.0.1:{ports[0]}", "--", *options,
                    env=dict(os.environ, PORTS=",".join(map(str, ports))))
    told = json.loads(out.splitlines()[-1])
    if told["broken"] or not told["requests"]:
        raise harness.Failed(f"wrk met {told['broken']} broken connections of {told['requests']}")
    return told


# -- the open-loop client --

def arrivals(program, place, port, seconds, voucher, rate, connections=CONNECTIONS):
    """Requests that come at such a rate whatever is answered; what open_loop.c tells at its end.
    Rate 0: each connection asks when it was answered."""
    told = json.loads(harness.run(program, f"port={port}", f"rate={rate}", f"seconds={seconds}",
                                f"connections={connections}", f"tokens={place}/tokens",
                                f"vouchers={voucher}"))
    if told["broken"] or told["unanswered"] or not told["answered"]:
        raise harness.Failed(f"the open-loop client met a service that does not answer: {told}")
    return told | {"requests": told["answered"], "refused": told["answered"] - told["201"]}


# -- a database with its service --

class Deployment:
    """A database, the instances of a service on it, and the proofs."""

    def __init__(self, program, servers, secret, place, database, stack, workers=WORKERS, instances=1):
        self.place = place
        self.database_url = servers.env["SECKILL_DATABASE_URL"].rsplit("/", 1)[0] + "/" + database
        self.owner_url = servers.env["PG_OWNER_URL"].rsplit("/", 1)[0] + "/" + database
        self.superuser_url = servers.env["PG_SUPERUSER_URL"].rsplit("/", 1)[0] + "/" + database
        harness.sql(servers.env["PG_SUPERUSER_URL"], f"drop database if exists {database} with (force)")
        harness.sql(servers.env["PG_SUPERUSER_URL"], f"create database {database} owner seckill")
        self.services = [harness.Service(program, harness.free_port(), {
            "SECKILL_DATABASE_URL": self.database_url,
            "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"],
            "SECKILL_JWT_SECRET": secret,
            "SECKILL_WORKERS": str(workers),
            "SECKILL_RATE_PER_USER": "0"}, f"{place}/{database}.{number}.log")
            for number in range(instances)]
        self.service = self.services[0]
        self.service.migrate(self.owner_url)
        for service in self.services:
            stack.callback(service.stop)
            service.start()

    def sql(self, statement):
        return harness.sql(self.owner_url, statement)

    def empty(self):
        """Nothing of earlier measurements is left."""
        self.sql("truncate voucher, voucher_order, order_event, stock_event")

    def fill(self):
        """A million orders, by the function that places all orders."""
        voucher = self.service.create_voucher("long gone", STOCK)
        self.sql(f"""select count(*) from generate_series(0, {OLD_ORDERS // CHUNK - 1}) g,
            lateral place_orders({voucher},
                array(select generate_series(g * {CHUNK} + 1, (g + 1) * {CHUNK})::bigint),
                array_fill(0::bigint, array[{CHUNK}]), null)""")
        self.sql("analyze voucher_order")
        # The only one: by the servers' settings the next is due after the bench.
        harness.sql(self.superuser_url, "checkpoint")

    def measure(self, seconds, vouchers, count, keys=None, connections=CONNECTIONS,
                threads=THREADS, **proof):
        """By wrk. Answers per second."""
        def ask():
            return wrk(self.place, [service.port for service in self.services], seconds, vouchers,
                       count, keys, connections, threads)

        return self.measured(ask, vouchers, connections, **proof)

    def measured(self, ask, vouchers, connections, sells=True):
        """Do what `ask` does, then prove what must hold of it. `sells`: to all who ask, or to
        none; None: to some."""
        before = self.counts()
        told = ask()
        harness.wait_for("all orders are answered", lambda: self.in_flight() == 0)
        told["created"] = told["requests"] - told["refused"] if sells is not False else 0
        found = {name: count - before[name] for name, count in self.counts().items()}
        self.prove(told, vouchers, sells, connections, found)
        return told

    def counts(self):
        return {"new rows": int(self.sql("select count(*) from voucher_order")[0]),
                "placed": sum(service.placed() for service in self.services),
                "5xx": sum(service.server_errors() for service in self.services)}

    def in_flight(self):
        return sum(value for service in self.services
                   for _, value in service.metrics("seckill_in_flight"))

    def prove(self, told, vouchers, sells, connections, found):
        ids = ",".join(vouchers)
        live = "status in ('unpaid', 'paid', 'redeemed')"
        found["oversold"], = map(int, self.sql(
            f"select count(*) from voucher v where id in ({ids}) and (stock_left < 0 or stock_left + "
            f"(select count(*) from voucher_order o where o.voucher_id = v.id and {live}) "
            "<> stock_total)"))
        found["duplicates"], = map(int, self.sql(
            f"select count(*) from (select 1 from voucher_order where {live} and "
            f"voucher_id in ({ids}) group by voucher_id, user_id having count(*) > 1) d"))
        # wrk leaves at the end: what is then under way is placed, but not counted by it.
        cut_off = found["new rows"] - told["created"]
        ok = (found["5xx"] == found["oversold"] == found["duplicates"] == 0
              and found["placed"] == found["new rows"] and 0 <= cut_off <= connections
              and (sells is None or told["refused"] == (0 if sells else told["requests"])))
        if not ok:
            raise harness.Failed(f"a promise is broken: {told} {found}\n"
                               f"{self.service.metrics('seckill_orders_total')}")


def sold_out(deployment):
    """A voucher whose only piece is sold."""
    voucher = deployment.service.create_voucher("sold out", 1)
    status, reply = deployment.service.call("POST", f"/v1/vouchers/{voucher}/orders",
                                      deployment.service.token(2**40))
    if status != 201:
        raise harness.Failed(f"the only piece was not sold: {status} {reply}")
    return voucher


# -- the machine, and how it is set --

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
    """A quarter of the memory, as PostgreSQL's manual has it: a place for the indexes of ten
    million orders, which whoever has them would give them."""
    with open("/proc/meminfo") as info:
        mib = int(info.readline().split()[1]) // 4096
    harness.sql(servers.env["PG_SUPERUSER_URL"], f"alter system set shared_buffers = '{mib}MB'")
    for verb in ("stop", "start"):
        harness.run(f"{harness.LOAD}/servers.sh", verb, servers.directory, "postgres")


def durability(deployment):
    names = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")
    return {name: deployment.sql(f"show {name}")[0] for name in names}


def raise_file_limit(connections):
    """For so many connections, here and in what is started from here."""
    need = connections + 1000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        raise harness.Failed(f"{need} open files are not allowed here (ulimit -Hn is {hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
