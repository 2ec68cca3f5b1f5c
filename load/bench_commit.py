#!/usr/bin/env -S python3 -B
"""bench_commit.py PROGRAM SLOW_DISK - measure orders while each flush of the WAL is delayed, and
orders beside ten million older ones.

SLOW_DISK is a library that delays the flushes of Postgres, see slow_disk.c. Three deployments share
the servers: one may release a voucher's row before its commit is durable
(SECKILL_EARLY_RELEASE=auto), the others do not (off), and with the third (alone) each voucher has
transactions of its own (SECKILL_BATCH_VOUCHERS=1). Each round measures each case once. After each
measurement SQL statements check that no voucher was oversold, no shopper has two orders, and
every 201 is a row.

Prints a table of orders per second, and writes var/bench/commit.json: the medians of the cases and
of the ratios within a round. Exit code 1 if a check fails.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3
The older orders are measured as by growth.py, with its settings and as many rounds."""

import contextlib
import os
import shutil
import statistics
import sys

import deploy
import growth
import harness

PLACE = os.environ.get("BENCH_PLACE", "var/bench")
SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
TOKENS = 600_000
WAL_MB = min(150 * ROUNDS * SECONDS, 6000) # written by all measurements, up to a limit

SETTINGS = {
    "auto": {"SECKILL_EARLY_RELEASE": "auto"},
    "off": {"SECKILL_EARLY_RELEASE": "off"},
    "alone": {"SECKILL_EARLY_RELEASE": "off", "SECKILL_BATCH_VOUCHERS": "1"},
}
# setting, vouchers, delay in ms
CASES = [(setting, vouchers, delay) for delay in (0, 1, 5, 20) for vouchers in (1, 100, 1000)
         for setting in ("auto", "off")] + [("alone", 1000, 5)]
RATIOS = {
    "one_auto_vs_off_0ms": (("auto", 1, 0), ("off", 1, 0)),
    "one_5ms_vs_0ms": (("auto", 1, 5), ("auto", 1, 0)),
    "one_auto_vs_off_20ms": (("auto", 1, 20), ("off", 1, 20)),
    "hundred_vs_one_0ms": (("auto", 100, 0), ("auto", 1, 0)),
    "hundred_vs_one_5ms": (("auto", 100, 5), ("auto", 1, 5)),
    "thousand_vs_one_0ms": (("auto", 1000, 0), ("auto", 1, 0)),
    "thousand_auto_vs_off_5ms": (("auto", 1000, 5), ("alone", 1000, 5)),
}


# The names of results, and the dimensions of growth.py that give them.
AGES = {
    "ten_million_vs_empty": "orders in the table",
    "ten_million_vs_empty_after_checkpoint": "orders in the table, after a checkpoint",
}


def measure(deployment, disk, vouchers, delay_ms):
    """Orders per second."""
    disk.set_ms(0)
    deployment.empty()
    ids = [deployment.service.create_voucher("sale", deploy.STOCK) for _ in range(vouchers)]
    disk.set_ms(delay_ms)
    report = deployment.measure(SECONDS, ids, TOKENS)
    disk.set_ms(0)
    return report["created"] / report["seconds"]


def run(program, library, stack):
    os.makedirs(PLACE, exist_ok=True)
    deploy.raise_file_limit(deploy.CONNECTIONS)
    disk = harness.SlowDisk(library, stack)
    servers = harness.Servers(f"{PLACE}/commit", **disk.env)
    stack.callback(shutil.rmtree, servers.directory) # some GB
    stack.callback(servers.down)
    servers.up()
    deploy.write_wal(servers, WAL_MB)
    secret = harness.new_secret()
    deployments = {setting: deploy.Deployment(program, servers, secret, PLACE, f"commit_{setting}", stack,
                                              **environment)
                   for setting, environment in SETTINGS.items()}
    deployments["auto"].service.write_tokens(TOKENS, f"{PLACE}/tokens")
    print(deploy.machine(), deploy.durability(deployments["auto"]), flush=True)
    rates = {case: [] for case in CASES}
    measure(deployments["auto"], disk, 1, 0) # warm-up
    for number in range(ROUNDS):
        for case in CASES if number % 2 == 0 else CASES[::-1]:
            setting, vouchers, delay = case
            rates[case].append(measure(deployments[setting], disk, vouchers, delay))
            print(f"{number} {delay:2} ms, {vouchers:4} vouchers, {setting:5}: {rates[case][-1]:9,.0f}/s",
                  flush=True)
    return rates


def age_ratios(program):
    """The rate with ten million older orders, divided by the rate in an empty table."""
    os.makedirs(growth.PLACE, exist_ok=True)
    growth.ROUNDS = ROUNDS
    with contextlib.ExitStack() as stack:
        dimensions = growth.measure_all(os.path.abspath(program), stack, [], (growth.grow_orders,))["dimensions"]
    ratios = {each["name"]: each["points"][-1]["ratio"] for each in dimensions}
    return {key: ratios[name] for key, name in AGES.items()}


def main(program, library):
    with contextlib.ExitStack() as stack:
        rates = run(program, library, stack)
    result = {name: statistics.median(a / b for a, b in zip(rates[above], rates[below]))
              for name, (above, below) in RATIOS.items()}
    result["orders_per_s"] = {f"{setting}_{vouchers}_{delay}ms": statistics.median(values)
                              for (setting, vouchers, delay), values in rates.items()}
    harness.write_json(f"{PLACE}/commit.json", result) # kept if the rest fails
    result |= age_ratios(program)
    for name in RATIOS | AGES:
        print(f"{name:38} {result[name]:6.2f}")
    harness.write_json(f"{PLACE}/commit.json", result)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except harness.Failed as failed:
        sys.exit(f"bench_commit.py: {failed}")
