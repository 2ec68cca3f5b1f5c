#!/usr/bin/env -S python3 -B
"""bench.py PROGRAM - what the service does, beside what this machine can do at all, in one run.

nginx answers `return 200` to the very requests that the service gets: the same script, the
same bytes, the same 1,024 connections, two workers each. yardsticks.py has the other yardsticks.
Everything shares the machine: the load, nginx or the service, PostgreSQL with its ordinary
durability, Redis. Each round measures each thing once, so that a slow minute of the machine
hits all of them; told are the median and the spread of the rounds. After each measurement SQL
proves that nothing was sold twice or beyond the stock, and that every 201 is a row.

Two databases, each with a service of its own: one is emptied before each measurement, the
other has a million orders from the start.

Prints a table, writes var/bench/result.json, exits 1 when a proof fails. The other programs
that it starts are beside PROGRAM.

  BENCH_SECONDS=4  of each measurement, 1 to 20     BENCH_ROUNDS=3
  BENCH_OLD_ORDERS=1_000_000     BENCH_PLACE=var/bench"""

import contextlib
import os
import shutil
import signal
import socket
import sys

import harness
import plot
from order_costs import Meter
from results import compile_result, print_table
from yardsticks import EmptyServer, Postgres, Redis
from deploy import (CONNECTIONS, OLD_ORDERS, STOCK, WORKERS, Deployment, arrivals, durability, machine,
                  raise_file_limit, sold_out, wrk)

PLACE = os.environ.get("BENCH_PLACE", "var/bench")
SECONDS = int(os.environ.get("BENCH_SECONDS", "4"))
SHORT_S = max(1, SECONDS // 2) # for what varies little within a measurement
CROWD_S = max(2, SHORT_S) # 64 clients come and queue, on a busy machine for a second
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
IDLE_CONNECTIONS = 10_000
LOG_MB = min(200 * ROUNDS * SECONDS, 6000) # that all measurements write, or the most to be kept
LEAST_PER_S = 30_000 # orders that are reckoned with, should the warm-up be a slow moment
MIX = 9 # refusals to an order


def make_log(url):
    """As much of the log as all this will write, in files that are used again, as a server has
    that has run for a while. To make one takes some 40 ms for every 16 MB, in which nobody commits."""
    harness.sql(url, f"alter system set min_wal_size = '{LOG_MB}MB'")
    harness.sql(url, "select pg_reload_conf()")
    harness.sql(url, "select count(pg_logical_emit_message(false, 'bench', repeat('x', 1048576))) "
              f"from generate_series(1, {LOG_MB})")
    harness.sql(url, "checkpoint")


# -- measurements --

class Bench:
    """What takes part, and each measurement of a round; `told` is what those before it told."""

    def __init__(self, program, servers, stack):
        tools = os.path.dirname(program)
        secret = harness.new_secret() # one for both, so that a token is good in both
        self.sale = Deployment(program, servers, secret, PLACE, "bench_empty", stack)
        self.rss_idle = self.sale.service.rss_mib()
        self.old = Deployment(program, servers, secret, PLACE, "bench_million", stack)
        self.nginx = harness.Nginx(PLACE, WORKERS, "return 200;")
        self.nothing = EmptyServer(f"{tools}/empty_mhd", WORKERS)
        for server in (self.nginx, self.nothing):
            server.start()
            stack.callback(server.stop)
        self.open_program = f"{tools}/open_loop"
        self.postgres = Postgres(self.sale)
        self.redis = Redis(f"{tools}/lock_pairs", servers)
        self.meter = Meter(self.sale.service, servers, self.redis)
        self.count = None # of tokens

    def write_tokens(self):
        """For twice as many shoppers as a measurement will need."""
        service, warm_s = self.sale.service, min(SECONDS, 2)
        guess = warm_s * 150_000
        service.write_tokens(guess, f"{PLACE}/tokens")
        told = self.sale.measure(warm_s, [service.create_voucher("warm-up", STOCK)], guess)
        per_s = max(told["requests"] / told["seconds"], LEAST_PER_S)
        self.count = int(2 * SECONDS * per_s)
        service.write_tokens(self.count, f"{PLACE}/tokens")
        harness.wait_for("the service is ready", service.is_ready) # after all that was written

    def vouchers(self, count=1):
        """New ones, in a shop where nothing is left of earlier measurements."""
        self.sale.empty()
        return [self.sale.service.create_voucher("new", STOCK) for _ in range(count)]

    def of(self, port):
        return wrk(PLACE, [port], SECONDS, [sold_out(self.sale)], self.count)

    def refusals(self, keys=None):
        return self.sale.measure(SECONDS, [sold_out(self.sale)], self.count, keys, sells=False)

    def orders(self, told):
        def ask():
            self.meter.start()
            asked = wrk(PLACE, [self.sale.service.port], SECONDS, vouchers, self.count)
            told["costs"] = self.meter.stop(asked["cpu_s"])
            return asked

        vouchers = self.vouchers()
        return self.sale.measured(ask, vouchers, CONNECTIONS)

    def mixed(self):
        vouchers = self.vouchers() + MIX * [sold_out(self.sale)]
        return self.sale.measure(SECONDS, vouchers, self.count, sells=None)

    def arrive(self, seconds, rate, connections=CONNECTIONS):
        voucher, = self.vouchers()
        return self.sale.measured(
            lambda: arrivals(self.open_program, PLACE, self.sale.service.port, seconds, voucher,
                             rate, connections), [voucher], connections)

    def at_load(self, told, part):
        """Orders that come at this part of the rate at which they were just done."""
        return self.arrive(SECONDS, round(part * told["orders"]["created"] / told["orders"]["seconds"]))

    def batched_pairs(self, told):
        """With as many locks in a call as the service has just put into one."""
        return self.redis.pairs_per_s(SHORT_S, round(told["costs"]["locks_per_call"]))

    def measurements(self):
        """Of a round, in order: name, how."""
        return (
            ("nginx", lambda told: self.of(self.nginx.port)),
            ("empty", lambda told: self.of(self.nothing.port)),
            ("refusals", lambda told: self.refusals()),
            ("keyed_refusals", lambda told: self.refusals(os.urandom(4).hex())),
            ("orders", self.orders),
            ("half", lambda told: self.at_load(told, 0.5)),
            ("eighty", lambda told: self.at_load(told, 0.8)),
            ("pg_bulk", lambda told: self.postgres.bulk_per_s(SHORT_S)),
            ("redis_pairs", self.batched_pairs),
            ("redis_single_pairs", lambda told: self.redis.single_pairs_per_s(SHORT_S)),
            ("pgbench", lambda told: self.postgres.orders_per_s(CROWD_S)),
            ("orders_million", lambda told: self.old.measure(
                SECONDS, [self.old.service.create_voucher("new", STOCK)], self.count)),
            ("orders_100", lambda told: self.sale.measure(SECONDS, self.vouchers(100), self.count)),
            ("mixed", lambda told: self.mixed()),
            ("single_us", lambda told: self.arrive(SHORT_S, 0, 1)["p50_us"]),
            ("pair_us", lambda told: self.redis.pair_us(SHORT_S)),
            ("commit_us", lambda told: self.postgres.commit_us(SHORT_S)),
        )

    def measure_round(self, number, told):
        """Each measurement goes to `told` when it is complete."""
        for name, measure in self.measurements():
            print(f"round {number} of {ROUNDS}: {name}", flush=True)
            told[name] = measure(told)


def hold_idle(service):
    """Open connections, ask one thing on each, keep them; all must answer again."""
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    held = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            held.append(socket.create_connection(("127.0.0.1", service.port), timeout=10))
        first = ask_all(held, request)
        rss = service.rss_mib()
        return {"asked": IDLE_CONNECTIONS, "answered": min(first, ask_all(held, request)),
                "rss_mib": round(rss, 1)}
    finally:
        for each in held:
            each.close()


def ask_all(connections, request):
    """How many answer 200 to one request."""
    for each in connections:
        each.sendall(request)
    return sum(each.recv(4096).startswith(b"HTTP/1.1 200") for each in connections)


# -- all of it --

def versions(program, deployment):
    return {"seckill": harness.version(program, "version"), "nginx": harness.version(harness.find_nginx(), "-v"),
            "wrk": harness.version("wrk", "-v"), "redis": harness.version("redis-server", "--version"),
            "postgres": deployment.sql("show server_version")[0].split()[0],
            "libmicrohttpd": harness.version("pkg-config", "--modversion", "libmicrohttpd")}


def measure_all(program, stack, measured):
    """`stack` ends what was started, the last first. `measured` receives each round."""
    servers = harness.Servers(f"{PLACE}/servers")
    # Some hundred megabytes, of no use to the next bench, which starts as this one did.
    stack.callback(shutil.rmtree, servers.directory)
    stack.callback(servers.down)
    servers.up()
    bench = Bench(program, servers, stack)
    print(f"inserting {OLD_ORDERS:,} orders into one database", flush=True)
    make_log(servers.env["PG_SUPERUSER_URL"])
    bench.old.fill()
    bench.write_tokens()
    print(f"{bench.count:,} shoppers have a token", flush=True)
    for number in range(1, ROUNDS + 1):
        measured.append({})
        bench.measure_round(number, measured[-1])
    for deployment in (bench.sale, bench.old):
        deployment.service.command("audit")
    return compile_result(measured, {
        "rss_idle_mib": round(bench.rss_idle, 1),
        "rss_after_load_mib": round(bench.sale.service.rss_mib(), 1),
        "idle_connections": hold_idle(bench.sale.service),
        "seconds": SECONDS, "rounds": ROUNDS, "connections": CONNECTIONS,
        "machine": machine(), "versions": versions(program, bench.sale),
        "durability": durability(bench.sale)})


def main():
    if not 1 <= SECONDS <= 20 or ROUNDS < 1: # wrk's Lua holds no more requests
        sys.exit("make bench: BENCH_SECONDS is 1 to 20, BENCH_ROUNDS at least 1")
    os.makedirs(PLACE, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        raise_file_limit(IDLE_CONNECTIONS)
        measured = []
        with harness.keep_on_failure(f"{PLACE}/incomplete.json", measured), contextlib.ExitStack() as stack:
            result = measure_all(os.path.abspath(sys.argv[1]), stack, measured)
    except harness.Failed as failure:
        sys.exit(f"make bench: {failure}")
    harness.write_json(f"{PLACE}/result.json", result)
    print_table(result)
    plot.draw("bench", PLACE, plot.tables_of_bench(result))


main()
