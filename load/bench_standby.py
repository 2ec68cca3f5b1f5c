#!/usr/bin/env -S python3 -B
"""bench_standby.py PROGRAM - what a synchronous standby costs.

A Postgres server and its standby on this machine. Each round measures the orders of one voucher
with the standby stopped, and with the standby attached and named in synchronous_standby_names. Prints
for both the orders per second, the CPU time of the primary per order, and the stage `commit`; and
the medians of the ratios within a round. Writes var/bench/standby.json.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3"""

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
TOKENS = 600_000
CONNECTIONS = 256


def attach(primary, standby, is_attached):
    pair.servers_do(standby, "start" if is_attached else "stop", "postgres")
    url = primary.env["PG_SUPERUSER_URL"]
    pair.configure(url, "synchronous_standby_names", "standby" if is_attached else "")
    wanted = str(int(is_attached))
    harness.wait_for("the standby is as wanted", lambda: harness.sql(
        url, "select count(*) from pg_stat_replication where sync_state = 'sync'") == [wanted])


def measure(deployment, primary):
    deployment.empty()
    voucher = deployment.service.create_voucher("sale", deploy.STOCK)
    sample = lambda: dict(deployment.service.metrics("seckill_order_stage_seconds_sum"))['{stage="commit"}']
    cpu_s, commit_s = order_costs.cpu_s(int(primary.env["PG_PID"])), sample()
    report = deployment.measure(SECONDS, [voucher], TOKENS, connections=CONNECTIONS)
    return {"orders_per_s": report["created"] / report["seconds"],
            "postgres_us_per_order": 1e6 * (order_costs.cpu_s(int(primary.env["PG_PID"])) - cpu_s) / report["created"],
            "commit_ms": 1e3 * (sample() - commit_s) / report["created"]}


def main(program):
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    deploy.raise_file_limit(CONNECTIONS)
    rounds = []
    with contextlib.ExitStack() as stack:
        primary, standby = pair.start(PLACE, stack)
        deployment = deploy.Deployment(program, primary, harness.new_secret(), PLACE, "bench", stack)
        deployment.service.write_tokens(TOKENS, f"{PLACE}/tokens")
        print(deploy.machine(), deploy.durability(deployment), flush=True)
        measure(deployment, primary) # warm-up
        for number in range(ROUNDS):
            found = {}
            for is_attached in (False, True) if number % 2 else (True, False):
                attach(primary, standby, is_attached)
                found[is_attached] = measure(deployment, primary)
                print(number, "with standby:" if is_attached else "alone:       ",
                      {name: round(value, 2) for name, value in found[is_attached].items()}, flush=True)
            rounds.append(found)
        attach(primary, standby, True)
    ratios = {name: statistics.median(each[True][name] / each[False][name] for each in rounds)
              for name in rounds[0][True]}
    print("with standby / alone:", {name: round(value, 2) for name, value in ratios.items()})
    harness.write_json(f"{PLACE}.json", {"rounds": [{"with": each[True], "alone": each[False]} for each in rounds],
                                         "ratios": ratios})


if __name__ == "__main__":
    try:
        main(os.path.abspath(sys.argv[1]))
    except harness.Failed as failed:
        sys.exit(f"bench_standby.py: {failed}")
