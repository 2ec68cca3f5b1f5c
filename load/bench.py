#!/usr/bin/env -S python3 -B
"""bench.py PROGRAM - what the service does beside nginx, on this machine, in one run.

nginx answers `return 200` to the very requests that the service gets: the same script, the
same bytes, the same 256 connections, two workers each. Everything shares the machine: wrk,
nginx or the service, PostgreSQL with its ordinary durability, Redis. Each round measures
each thing once, so that a slow minute of the machine hits all of them; told are the median
and the spread of the rounds. After each measurement SQL proves that nothing was sold twice
or beyond the stock, and that every 201 is a row.

Two databases, each with a service of its own: one is emptied before each measurement, the
other has a million orders from the start.

Prints a table, writes var/bench/result.json, exits 1 when a proof fails.

  BENCH_SECONDS=4  of each measurement, 1 to 20     BENCH_ROUNDS=3"""

import contextlib
import json
import os
import platform
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys

import house

PLACE = "var/bench"
SECONDS = int(os.environ.get("BENCH_SECONDS", "4"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CONNECTIONS = 256
THREADS = 2
WORKERS = 2
STOCK = 100_000_000
OLD_ORDERS = 1_000_000
IDLE_CONNECTIONS = 10_000
CHUNK = 1000


# -- wrk ----------------------------------------------------------------------------------

def wrk(port, seconds, vouchers, count, keys=None):
    """One measurement; what orders.lua tells at its end."""
    options = [f"threads={THREADS}", f"tokens={PLACE}/tokens", f"vouchers={','.join(vouchers)}", f"count={count}"]
    if keys:
        options.append(f"keys={keys}")
    out = house.run("wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{seconds}",
                    "-s", f"{house.LOAD}/orders.lua", f"http://127.0.0.1:{port}", "--", *options)
    told = json.loads(out.splitlines()[-1])
    if told["broken"] or not told["requests"]:
        raise house.Failed(f"wrk met {told['broken']} broken connections of {told['requests']}")
    return told


# -- a database with its service ----------------------------------------------------------

class Shop:
    """A database, a service on it, and the proofs."""

    def __init__(self, program, servers, secret, database, stack):
        self.database_url = servers.env["SECKILL_DATABASE_URL"].rsplit("/", 1)[0] + "/" + database
        self.owner_url = servers.env["PG_OWNER_URL"].rsplit("/", 1)[0] + "/" + database
        self.superuser_url = servers.env["PG_SUPERUSER_URL"].rsplit("/", 1)[0] + "/" + database
        house.sql(servers.env["PG_SUPERUSER_URL"], f"drop database if exists {database} with (force)")
        house.sql(servers.env["PG_SUPERUSER_URL"], f"create database {database} owner seckill")
        self.service = house.Service(program, house.free_port(), {
            "SECKILL_DATABASE_URL": self.database_url,
            "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"],
            "SECKILL_JWT_SECRET": secret,
            "SECKILL_WORKERS": str(WORKERS),
            "SECKILL_RATE_PER_USER": "0"}, f"{PLACE}/{database}.log")
        self.service.migrate(self.owner_url)
        stack.callback(self.service.stop)
        self.service.start()

    def sql(self, statement):
        return house.sql(self.owner_url, statement)

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
        house.sql(self.superuser_url, "checkpoint")

    def measure(self, seconds, vouchers, count, keys=None, sells=True):
        """Measure, then prove what must hold of it. Answers per second."""
        rows, placed, errors = self.rows(), self.service.placed(), self.service.server_errors()
        told = wrk(self.service.port, seconds, vouchers, count, keys)
        house.wait_for("all orders are answered", lambda: self.in_flight() == 0)
        told["created"] = told["requests"] - told["refused"] if sells else 0
        self.prove(told, vouchers, sells, {
            "new rows": self.rows() - rows, "placed": self.service.placed() - placed,
            "5xx": self.service.server_errors() - errors})
        return told

    def rows(self):
        return int(self.sql("select count(*) from voucher_order")[0])

    def in_flight(self):
        return sum(value for _, value in self.service.metrics("seckill_in_flight"))

    def prove(self, told, vouchers, sells, found):
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
              and found["placed"] == found["new rows"] and 0 <= cut_off <= CONNECTIONS
              and (told["refused"] == 0 if sells else told["refused"] == told["requests"]))
        if not ok:
            raise house.Failed(f"a promise is broken: {told} {found}\n"
                               f"{self.service.metrics('seckill_orders_total')}")


# -- measurements -------------------------------------------------------------------------

def enough_tokens(shop):
    """Write tokens for twice as many shoppers as a measurement will need; how many."""
    warm_s, guess = 2, 300_000
    shop.service.write_tokens(guess, f"{PLACE}/tokens")
    told = shop.measure(warm_s, [shop.service.create_voucher("warm-up", STOCK)], guess)
    count = int(2 * SECONDS * told["requests"] / told["seconds"])
    shop.service.write_tokens(count, f"{PLACE}/tokens")
    return count


def sold_out(shop):
    """A voucher whose only piece is sold."""
    voucher = shop.service.create_voucher("sold out", 1)
    status, reply = shop.service.call("POST", f"/v1/vouchers/{voucher}/orders",
                                      shop.service.token(2**40))
    if status != 201:
        raise house.Failed(f"the only piece was not sold: {status} {reply}")
    return voucher


def measure_round(number, nginx, empty, full, count):
    def new(shop, stock=STOCK):
        return shop.service.create_voucher(f"round {number}", stock)

    def emptied(vouchers):
        empty.empty()
        return [new(empty) for _ in range(vouchers)]

    over = [sold_out(empty)]
    return {
        "nginx": wrk(nginx.port, SECONDS, over, count),
        "refusals": empty.measure(SECONDS, over, count, sells=False),
        "keyed_refusals": empty.measure(SECONDS, over, count, f"r{number}-", sells=False),
        "orders": empty.measure(SECONDS, emptied(1), count),
        "orders_million": full.measure(SECONDS, [new(full)], count),
        "orders_100": empty.measure(SECONDS, emptied(100), count),
    }


def hold_idle(service):
    """Open connections, ask one thing on each, keep them; all must answer again."""
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    held = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            held.append(socket.create_connection(("127.0.0.1", service.port), timeout=10))
        first = ask_all(held, request)
        rss = service.rss_mib()
        return {"answered": min(first, ask_all(held, request)), "rss_mib": round(rss, 1)}
    finally:
        for each in held:
            each.close()


def ask_all(connections, request):
    """How many answer 200 to one request."""
    for each in connections:
        each.sendall(request)
    return sum(each.recv(4096).startswith(b"HTTP/1.1 200") for each in connections)


# -- the report ---------------------------------------------------------------------------

def machine():
    with open("/proc/cpuinfo") as info:
        models = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    with open("/proc/meminfo") as info:
        total_kib = int(info.readline().split()[1])
    with open("/etc/os-release") as release:
        names = [line.split("=")[1].strip().strip('"') for line in release if line.startswith("PRETTY_NAME")]
    return (f"{len(os.sched_getaffinity(0))} x {models[0] if models else platform.machine()}, "
            f"{total_kib / 2**20:.0f} GiB, {names[0]}, Linux {platform.release()}")


def versions(program, shop):
    def version(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return re.search(r"\d+\.\d+[-+.\w]*", done.stdout + done.stderr).group()

    return {"seckill": version(program, "version"), "nginx": version(house.find_nginx(), "-v"),
            "wrk": version("wrk", "-v"), "redis": version("redis-server", "--version"),
            "postgres": shop.sql("show server_version")[0].split()[0],
            "libmicrohttpd": version("pkg-config", "--modversion", "libmicrohttpd")}


def durability(shop):
    names = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")
    return {name: shop.sql(f"show {name}")[0] for name in names}


def per_second(measured, what):
    """Of each round."""
    return [told["created" if what.startswith("orders") else "requests"] / told["seconds"]
            for told in (each[what] for each in measured)]


GOALS = (("orders", "durable orders, distinct shoppers", "nginx", 0.45),
         ("refusals", "sold out, without a key", "nginx", 0.80),
         ("keyed_refusals", "sold out, a fresh key each", "nginx", 0.35),
         ("orders_100", "orders, 100 vouchers at random", "orders", 0.40),
         ("orders_million", "orders, a million in the table", "orders", 0.90))


def compile_result(measured, facts):
    result = {}
    for what in ("nginx",) + tuple(goal[0] for goal in GOALS):
        rates = per_second(measured, what)
        result[f"{what}_per_s"] = round(statistics.median(rates))
        result[f"{what}_per_s_rounds"] = [round(rate) for rate in rates]
        result[f"{what}_p50_us"] = statistics.median(each[what]["p50_us"] for each in measured)
        result[f"{what}_p99_us"] = statistics.median(each[what]["p99_us"] for each in measured)
    for what, _, base, _ in GOALS:
        result[f"{what}_ratio_{base}"] = round(
            result[f"{what}_per_s"] / result[f"{base}_per_s"], 3)
    result.update(facts)
    return result


def verdict(holds):
    return "met" if holds else "MISSED"


def print_table(result):
    print(f"\n{result['machine']}")
    print(", ".join(f"{name} {value}" for name, value in result["versions"].items()))
    print("Postgres: " + ", ".join(f"{name}={value}" for name, value in result["durability"].items()))
    print(f"{WORKERS} workers, {CONNECTIONS} connections, wrk -t{THREADS}, {ROUNDS} rounds of {SECONDS} s; "
          "median (lowest to highest)\n")
    print(f"{'':34}{'per second':>10}  {'of the rounds':>18}{'p50':>8}{'p99':>9}   ratio")
    rows = (("nginx", "nginx, return 200 to the same", None, None),) + GOALS
    for what, title, base, goal in rows:
        rates = result[f"{what}_per_s_rounds"]
        line = (f"{title:34}{result[f'{what}_per_s']:>10,}  {min(rates):>8,}..{max(rates):<8,}"
                f"{result[f'{what}_p50_us'] / 1000:>5.1f} ms{result[f'{what}_p99_us'] / 1000:>6.1f} ms")
        if base:
            ratio = result[f"{what}_ratio_{base}"]
            line += f"   {ratio:.2f} x {base}, goal {goal:.2f}: {verdict(ratio >= goal)}"
        print(line)
    idle = result["idle_connections"]
    print(f"\nmemory idle: {result['rss_idle_mib']} MiB, goal 20: {verdict(result['rss_idle_mib'] < 20)}; "
          f"after the load: {result['rss_after_load_mib']} MiB")
    print(f"idle connections held: {idle['answered']:,} of {IDLE_CONNECTIONS:,} "
          f"({idle['rss_mib']} MiB): {verdict(idle['answered'] == IDLE_CONNECTIONS)}")
    print("after each measurement: no oversell, no duplicate, every 201 a row, no 5xx")


def measure_all(program, stack):
    """`stack` ends what was started, the last first."""
    servers, nginx = house.Servers(f"{PLACE}/servers"), house.Nginx(PLACE, WORKERS, "return 200;")
    # Some hundred megabytes, of no use to the next bench, which starts as this one did.
    stack.callback(shutil.rmtree, servers.directory)
    stack.callback(servers.down)
    servers.up()
    nginx.start()
    stack.callback(nginx.stop)
    secret = house.new_secret() # one for both, so that a token is good in both
    empty = Shop(program, servers, secret, "bench_empty", stack)
    rss_idle = empty.service.rss_mib()
    full = Shop(program, servers, secret, "bench_million", stack)
    print(f"bench: {OLD_ORDERS:,} orders into one database", flush=True)
    full.fill()
    count = enough_tokens(empty)
    measured = []
    for number in range(1, ROUNDS + 1):
        print(f"bench: round {number} of {ROUNDS}, {count:,} shoppers", flush=True)
        measured.append(measure_round(number, nginx, empty, full, count))
    for shop in (empty, full):
        shop.service.command("audit")
    return compile_result(measured, {
        "rss_idle_mib": round(rss_idle, 1),
        "rss_after_load_mib": round(empty.service.rss_mib(), 1),
        "idle_connections": hold_idle(empty.service),
        "seconds": SECONDS, "rounds": ROUNDS, "connections": CONNECTIONS,
        "machine": machine(), "versions": versions(program, empty),
        "durability": durability(empty)})


def raise_file_limit():
    """For the idle connections, here and in the service."""
    need = IDLE_CONNECTIONS + 1000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        raise house.Failed(f"{need} open files are not allowed here (ulimit -Hn is {hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def main():
    if not 1 <= SECONDS <= 20 or ROUNDS < 1: # wrk's Lua holds no more requests
        sys.exit("make bench: BENCH_SECONDS is 1 to 20, BENCH_ROUNDS at least 1")
    os.makedirs(PLACE, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        raise_file_limit()
        with contextlib.ExitStack() as stack:
            result = measure_all(os.path.abspath(sys.argv[1]), stack)
    except house.Failed as failure:
        sys.exit(f"make bench: {failure}")
    with open(f"{PLACE}/result.json", "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
    print_table(result)


main()
