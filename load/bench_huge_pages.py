#!/usr/bin/env -S python3 -B
"""bench_huge_pages.py PROGRAM - what huge pages for the shared_buffers of Postgres save.

Two Postgres servers, each with shared_buffers of a quarter of the memory and a million orders, one
with huge_pages = on and the other with off. The kernel must have reserved the pages; otherwise the
program says how many are needed. Each round measures the orders of one voucher and of a hundred
with both. Prints the orders per second and the CPU time of Postgres per order, and the medians of the
ratios within a round. Writes var/bench/huge_pages.json.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3"""

import contextlib
import os
import shutil
import statistics
import sys

import deploy
import harness
import order_costs

PLACE = os.environ.get("BENCH_PLACE", "var/bench") + "/huge_pages"
SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
VOUCHERS = (1, 100)
TOKENS = 600_000


def start(name, stack):
    servers = harness.Servers(f"{PLACE}/{name}")
    servers.up()
    stack.callback(servers.down)
    deploy.grow_buffers(servers)
    url = servers.env["PG_SUPERUSER_URL"]
    needed, = harness.sql(url, "show shared_memory_size_in_huge_pages")
    with open("/proc/sys/vm/nr_hugepages") as reserved:
        if name == "on" and int(reserved.read()) < int(needed):
            raise harness.Failed(f"too few huge pages: sysctl vm.nr_hugepages={needed}")
    harness.sql(url, f"alter system set huge_pages = '{name}'")
    for verb in ("stop", "start"):
        harness.run(f"{harness.LOAD}/servers.sh", verb, servers.directory, "postgres")
    return servers


def postgres_s(servers):
    with open(f"{servers.directory}/postgres.pid") as file:
        return order_costs.cpu_s(int(file.read().split()[0]))


def measure(deployment, servers, count):
    def load():
        began_s = postgres_s(servers)
        report = deploy.wrk(PLACE, [deployment.service.port], SECONDS, vouchers, TOKENS)
        return report | {"postgres_s": postgres_s(servers) - began_s}

    vouchers = [deployment.service.create_voucher("sale", deploy.STOCK) for _ in range(count)]
    report = deployment.check_after(load, vouchers, deploy.CONNECTIONS)
    return {"orders_per_s": report["created"] / report["seconds"],
            "postgres_us_per_order": 1e6 * report["postgres_s"] / report["created"]}


def main(program):
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    deploy.raise_file_limit(deploy.CONNECTIONS)
    rounds = []
    with contextlib.ExitStack() as stack:
        pages = {name: start(name, stack) for name in ("on", "off")}
        secret = harness.new_secret()
        deployments = {name: deploy.Deployment(program, servers, secret, PLACE, f"pages_{name}", stack)
                       for name, servers in pages.items()}
        deployments["on"].service.write_tokens(TOKENS, f"{PLACE}/tokens")
        print(deploy.machine(), deploy.durability(deployments["on"]), flush=True)
        for name in pages:
            deployments[name].fill()
            measure(deployments[name], pages[name], 1) # warm-up
        for number in range(ROUNDS):
            found = {}
            for count in VOUCHERS:
                for name in ("on", "off") if number % 2 else ("off", "on"):
                    found[name, count] = measure(deployments[name], pages[name], count)
                    print(f"{number} {count:3} vouchers, huge_pages = {name:3}:",
                          {key: round(value, 1) for key, value in found[name, count].items()}, flush=True)
            rounds.append(found)
    ratios = {f"{count}_{key}": statistics.median(each["on", count][key] / each["off", count][key] for each in rounds)
              for count in VOUCHERS for key in rounds[0]["on", count]}
    print("on / off:", {name: round(value, 2) for name, value in ratios.items()})
    harness.write_json(f"{PLACE}.json", ratios)


if __name__ == "__main__":
    try:
        main(os.path.abspath(sys.argv[1]))
    except harness.Failed as failed:
        sys.exit(f"bench_huge_pages.py: {failed}")
