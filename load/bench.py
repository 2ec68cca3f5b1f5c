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
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys

import house
from shop import (CONNECTIONS, OLD_ORDERS, STOCK, THREADS, WORKERS, Shop, durability, machine,
                  raise_file_limit, sold_out, wrk)

PLACE = "var/bench"
SECONDS = int(os.environ.get("BENCH_SECONDS", "4"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
IDLE_CONNECTIONS = 10_000


# -- measurements -------------------------------------------------------------------------

def enough_tokens(shop):
    """Write tokens for twice as many shoppers as a measurement will need; how many."""
    warm_s, guess = 2, 300_000
    shop.service.write_tokens(guess, f"{PLACE}/tokens")
    told = shop.measure(warm_s, [shop.service.create_voucher("warm-up", STOCK)], guess)
    count = int(2 * SECONDS * told["requests"] / told["seconds"])
    shop.service.write_tokens(count, f"{PLACE}/tokens")
    return count


def measure_round(number, nginx, empty, full, count):
    def new(shop, stock=STOCK):
        return shop.service.create_voucher(f"round {number}", stock)

    def emptied(vouchers):
        empty.empty()
        return [new(empty) for _ in range(vouchers)]

    over = [sold_out(empty)]
    return {
        "nginx": wrk(PLACE, [nginx.port], SECONDS, over, count),
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

def versions(program, shop):
    def version(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return re.search(r"\d+\.\d+[-+.\w]*", done.stdout + done.stderr).group()

    return {"seckill": version(program, "version"), "nginx": version(house.find_nginx(), "-v"),
            "wrk": version("wrk", "-v"), "redis": version("redis-server", "--version"),
            "postgres": shop.sql("show server_version")[0].split()[0],
            "libmicrohttpd": version("pkg-config", "--modversion", "libmicrohttpd")}


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
    empty = Shop(program, servers, secret, PLACE, "bench_empty", stack)
    rss_idle = empty.service.rss_mib()
    full = Shop(program, servers, secret, PLACE, "bench_million", stack)
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


def main():
    if not 1 <= SECONDS <= 20 or ROUNDS < 1: # wrk's Lua holds no more requests
        sys.exit("make bench: BENCH_SECONDS is 1 to 20, BENCH_ROUNDS at least 1")
    os.makedirs(PLACE, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        raise_file_limit(IDLE_CONNECTIONS)
        with contextlib.ExitStack() as stack:
            result = measure_all(os.path.abspath(sys.argv[1]), stack)
    except house.Failed as failure:
        sys.exit(f"make bench: {failure}")
    with open(f"{PLACE}/result.json", "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
    print_table(result)


main()
