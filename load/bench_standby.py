#!/usr/bin/env -S python3 -B
"""bench_standby.py PROGRAM - what a synchronous standby costs.

A Postgres server and its standby on this machine. Each round measures the orders of one voucher
with the standby stopped, and with the standby attached and named in synchronous_standby_names. Prints
for both the orders per second, the CPU time of the primary per order, with and without that of the
process that sends the WAL, the orders per batch, and the stage `commit`; and the medians of the ratios
within a round. Writes var/bench/standby.json.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3
  BENCH_CONNECTIONS=256,1024  shoppers at once, each on a connection of its own
  BENCH_SETTINGS=name=value,...  of the primary"""

import contextlib
import os
import shutil
import statistics
import sys

import deploy
import harness
import order_costs
import pair

PLACE = os.environ.get("BENCH_PLACE", "var/bench") + "/standby"
SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CONNECTIONS = tuple(map(int, os.environ.get("BENCH_CONNECTIONS", "256,1024").split(",")))
SETTINGS = [each.split("=") for each in os.environ.get("BENCH_SETTINGS", "").split(",") if each]
TOKENS = 600_000


def attach(primary, standby, is_attached):
    """Attach or detach the standby. Returns the id of the process that sends the WAL; 0: none."""
    pair.servers_do(standby, "start" if is_attached else "stop", "postgres")
    url = primary.env["PG_SUPERUSER_URL"]
    pair.configure(url, "synchronous_standby_names", "standby" if is_attached else "")
    wanted = str(int(is_attached))
    harness.wait_for("the standby is as wanted", lambda: harness.sql(
        url, "select count(*) from pg_stat_replication where sync_state = 'sync'") == [wanted])
    return int(harness.sql(url, "select coalesce(min(pid), 0) from pg_stat_replication")[0])


def measure(deployment, primary, sender, connections):
    def sample():
        return (order_costs.cpu_s(int(primary.env["PG_PID"])), order_costs.stat(sender)[1] if sender else 0.0,
                dict(deployment.service.metrics("seckill_order_stage_seconds_sum"))['{stage="commit"}'],
                sum(value for _, value in deployment.service.metrics("seckill_batch_orders_count")))

    def load():
        before = sample()
        report = deploy.wrk(PLACE, [deployment.service.port], SECONDS, [voucher], TOKENS, connections=connections)
        return report | {"spent": [after - each for after, each in zip(sample(), before)]}

    deployment.empty()
    voucher = deployment.service.create_voucher("sale", deploy.STOCK)
    report = deployment.check_after(load, [voucher], connections)
    orders, (all_s, sender_s, commit_s, batches) = report["created"], report["spent"]
    return {"orders_per_s": orders / report["seconds"],
            "postgres_us_per_order": 1e6 * all_s / orders,
            "without_wal_sender_us_per_order": 1e6 * (all_s - sender_s) / orders,
            "orders_per_batch": orders / batches,
            "commit_ms": 1e3 * commit_s / orders}


def rounds_of(deployment, primary, standby, connections):
    """Measure with and without the standby in turns, so that a slow minute affects both."""
    for number in range(ROUNDS):
        found = {}
        for is_attached in (False, True) if number % 2 else (True, False):
            sender = attach(primary, standby, is_attached)
            found[is_attached] = measure(deployment, primary, sender, connections)
            print(f"{connections} shoppers,", "with standby:" if is_attached else "alone:       ",
                  {name: round(value, 2) for name, value in found[is_attached].items()}, flush=True)
        yield found


def main(program):
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    deploy.raise_file_limit(max(CONNECTIONS))
    results = {}
    with contextlib.ExitStack() as stack:
        primary, standby = pair.start(PLACE, stack)
        for name, value in SETTINGS:
            pair.configure(primary.env["PG_SUPERUSER_URL"], name, value)
        deployment = deploy.Deployment(program, primary, harness.new_secret(), PLACE, "bench", stack)
        deployment.service.write_tokens(TOKENS, f"{PLACE}/tokens")
        print(deploy.machine(), deploy.durability(deployment), flush=True)
        measure(deployment, primary, 0, CONNECTIONS[0]) # warm-up
        for connections in CONNECTIONS:
            rounds = list(rounds_of(deployment, primary, standby, connections))
            results[connections] = {name: statistics.median(each[True][name] / each[False][name] for each in rounds)
                                    for name in rounds[0][True]}
        attach(primary, standby, True)
    for connections, ratios in results.items():
        print(f"{connections} shoppers, with standby / alone:", {name: round(value, 2) for name, value in ratios.items()})
    harness.write_json(f"{PLACE}.json", results)


if __name__ == "__main__":
    try:
        main(os.path.abspath(sys.argv[1]))
    except harness.Failed as failed:
        sys.exit(f"bench_standby.py: {failed}")
