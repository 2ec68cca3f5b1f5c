#!/usr/bin/env -S python3 -B
"""bench.py PROGRAM - measure the service and compare it with the limits of this machine.

nginx (`return 200`) receives the same requests as the service, from the same script: the same bytes
on 1,024 connections. Both have two workers. yardsticks.py has the other comparisons. Everything runs
on this machine: the load generator, nginx or the service, PostgreSQL with its default durability, and
Redis. Each round measures each thing once, so that a slow minute of the machine affects all of them.
The results are the median and the spread of the rounds. After each measurement, SQL statements check
that no voucher was oversold, that no shopper has two orders, and that every 201 is a row.

There are two databases, each with its own service: one is emptied before each measurement, the
other has a million orders from the start.

Prints a table, and writes result.json to var/bench. Exit code 1: a check has failed. The other programs
that it starts are in the directory of PROGRAM.

  BENCH_SECONDS=4  of each measurement, 1 to 20     BENCH_ROUNDS=3
  BENCH_OLD_ORDERS=1_000_000     BENCH_PLACE=var/bench"""

import os
import shutil
import socket
import sys

import harness
from deploy import (CONNECTIONS, OLD_ORDERS, WORKERS, Measured, cpu_s, durability, machine, open_loop,
                    raise_file_limit, sold_out, write_wal, wrk)
from results import compile_result, print_table
from yardsticks import Postgres, Redis

RESULTS = os.environ.get("BENCH_PLACE", "var/bench")
PLACE = f"{RESULTS}/run"
SECONDS = int(os.environ.get("BENCH_SECONDS", "4"))
SHORT_S = max(1, SECONDS // 2) # for measurements that vary little
PGBENCH_S = max(2, SHORT_S) # its 64 clients need up to a second to connect
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
IDLE_CONNECTIONS = 10_000
WAL_MB = min(200 * ROUNDS * SECONDS, 6000) # written by all measurements, up to a limit
LEAST_PER_S = 30_000 # assumed rate of requests if the warm-up was slow
MIX = 9 # refusals per order


# -- measurements --

class Bench:
    """The servers and the measurements."""

    def __init__(self, program, servers, stack):
        tools = os.path.dirname(program)
        self.servers = servers
        self.sale = Measured(program, servers, PLACE, stack, "bench_empty", SECKILL_WORKERS=str(WORKERS))
        self.rss_idle = self.sale.service.rss_mib()
        self.old = Measured(program, servers, PLACE, stack, "bench_million", SECKILL_WORKERS=str(WORKERS))
        self.nginx = harness.Nginx(PLACE, WORKERS, "return 200;")
        self.nginx.start()
        stack.callback(self.nginx.stop)
        self.open_loop_program = f"{tools}/open_loop"
        self.postgres = Postgres(self.sale)
        self.redis = Redis(f"{tools}/print_script", servers)
        self.count = None # number of tokens

    def write_tokens(self):
        """Write tokens for twice as many shoppers as a measurement needs."""
        service, warm_s = self.sale.service, min(SECONDS, 2)
        guess = warm_s * 150_000
        service.write_tokens(guess, f"{PLACE}/tokens")
        results = self.sale.measure(warm_s, [self.sale.voucher()], guess)
        per_s = max(results["requests"] / results["seconds"], LEAST_PER_S)
        self.count = int(2 * SECONDS * per_s)
        service.write_tokens(self.count, f"{PLACE}/tokens")
        harness.wait_for("the service is ready", service.is_ready)

    def vouchers(self, count=1):
        """Delete the data of earlier measurements and create new vouchers."""
        self.sale.empty()
        return [self.sale.voucher() for _ in range(count)]

    def nginx_answers(self):
        """Measure another server with the same requests."""
        return wrk(PLACE, [self.nginx.port], SECONDS, [sold_out(self.sale)], self.count)

    def refusals(self, keys=None):
        return self.sale.measure(SECONDS, [sold_out(self.sale)], self.count, keys, sells=False)

    def sample(self):
        """CPU seconds by process, script calls, and orders so far."""
        harness.wait_for("the service is idle", self.sale.service.is_idle) # it may still read the last requests
        return {"app": cpu_s(self.sale.service.process.pid), "postgres": cpu_s(int(self.servers.env["PG_PID"])),
                "redis": cpu_s(int(self.servers.env["REDIS_PID"])), "calls": self.redis.calls(), "placed": self.sale.placed()}

    def orders(self, results):
        def load():
            before = self.sample()
            report = wrk(PLACE, [self.sale.service.port], SECONDS, vouchers, self.count)
            spent = {name: value - before[name] for name, value in self.sample().items()} | {"load": report["cpu_s"]}
            results["cpu_us_per_order"] = {name: round(1e6 * spent[name] / spent["placed"], 2)
                                           for name in ("app", "postgres", "redis", "load")}
            results["locks_per_call"] = 2 * spent["placed"] / spent["calls"]
            return report

        vouchers = self.vouchers()
        return self.sale.check_after(load, vouchers, CONNECTIONS)

    def mixed(self):
        vouchers = self.vouchers() + MIX * [sold_out(self.sale)]
        return self.sale.measure(SECONDS, vouchers, self.count, sells=None)

    def open_loop(self, seconds, rate, connections=CONNECTIONS):
        voucher, = self.vouchers()
        return self.sale.check_after(
            lambda: open_loop(self.open_loop_program, PLACE, self.sale.service.port, seconds, voucher,
                             rate, connections), [voucher], connections)

    def at_load(self, results, part):
        """Open-loop load at this fraction of the rate of `orders` in the same round."""
        return self.open_loop(SECONDS, round(part * results["orders"]["created"] / results["orders"]["seconds"]))

    def measurements(self):
        """The name and function of each measurement of a round, in order."""
        return (
            ("nginx", lambda results: self.nginx_answers()),
            ("refusals", lambda results: self.refusals()),
            ("keyed_refusals", lambda results: self.refusals(os.urandom(4).hex())),
            ("orders", self.orders),
            ("half", lambda results: self.at_load(results, 0.5)),
            ("eighty", lambda results: self.at_load(results, 0.8)),
            ("pg_bulk", lambda results: self.postgres.bulk_per_s(SHORT_S)),
            # As many locks per call as the service used for `orders` in the same round.
            ("redis_pairs", lambda results: self.redis.pairs_per_s(round(results["locks_per_call"]))),
            ("redis_single_pairs", lambda results: self.redis.single_pairs_per_s()),
            ("pgbench", lambda results: self.postgres.orders_per_s(PGBENCH_S)),
            ("orders_million", lambda results: self.old.measure(SECONDS, [self.old.voucher()], self.count)),
            ("orders_100", lambda results: self.sale.measure(SECONDS, self.vouchers(100), self.count)),
            ("mixed", lambda results: self.mixed()),
            ("single_us", lambda results: self.open_loop(SHORT_S, 0, 1)["p50_us"]),
            ("pair_us", lambda results: self.redis.pair_us()),
            ("commit_us", lambda results: self.postgres.commit_us(SHORT_S)),
        )

    def measure_round(self, number):
        results = {}
        for name, measure in self.measurements():
            print(f"round {number} of {ROUNDS}: {name}", flush=True)
            results[name] = measure(results)
        return results


def hold_idle(service):
    """Open connections, send a request on each, keep them open, and send another one."""
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    held = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            held.append(socket.create_connection(("127.0.0.1", service.port), timeout=10))
        first = request_all(held, request)
        rss = service.rss_mib()
        return {"asked": IDLE_CONNECTIONS, "answered": min(first, request_all(held, request)),
                "rss_mib": round(rss, 1)}
    finally:
        for each in held:
            each.close()


def request_all(connections, request):
    """Send the request on all connections. Returns how many answer 200."""
    for each in connections:
        each.sendall(request)
    return sum(each.recv(4096).startswith(b"HTTP/1.1 200") for each in connections)


# -- the whole benchmark --

def versions(program, deployment):
    return {"seckill": harness.version(program, "version"), "nginx": harness.version(harness.find_nginx(), "-v"),
            "wrk": harness.version("wrk", "-v"), "redis": harness.version("redis-server", "--version"),
            "postgres": deployment.sql("show server_version")[0].split()[0]}


def run(stack):
    if not 1 <= SECONDS <= 20 or ROUNDS < 1: # LuaJIT has no memory for more requests
        raise harness.Failed("BENCH_SECONDS must be 1 to 20 and BENCH_ROUNDS at least 1")
    program = os.path.abspath(sys.argv[1])
    raise_file_limit(IDLE_CONNECTIONS)
    stack.callback(shutil.rmtree, f"{PLACE}/servers") # some hundred MB, which the next run cannot use
    servers = harness.Servers.start(f"{PLACE}/servers", stack)
    bench = Bench(program, servers, stack)
    print(f"inserting {OLD_ORDERS:,} orders into one database", flush=True)
    write_wal(servers, WAL_MB)
    bench.old.fill()
    bench.write_tokens()
    print(f"{bench.count:,} shoppers", flush=True)
    measured = [bench.measure_round(number) for number in range(1, ROUNDS + 1)]
    for deployment in (bench.sale, bench.old):
        deployment.service.command("audit")
    result = compile_result(measured, {
        "rss_idle_mib": round(bench.rss_idle, 1),
        "rss_after_load_mib": round(bench.sale.service.rss_mib(), 1),
        "idle_connections": hold_idle(bench.sale.service),
        "seconds": SECONDS, "rounds": ROUNDS, "connections": CONNECTIONS,
        "machine": machine(), "versions": versions(program, bench.sale),
        "durability": durability(bench.sale)})
    harness.write_json(f"{RESULTS}/result.json", result)
    print_table(result)


harness.main("make bench", PLACE, run)
