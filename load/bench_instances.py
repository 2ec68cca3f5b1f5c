#!/usr/bin/env -S python3 -B
"""bench_instances.py PROGRAM - what an order costs Postgres with more instances behind nginx, and
what an idle instance costs.

1, 2, 4 and 8 instances with one worker each sell 8 vouchers through nginx: at random, and with the
requests for a voucher sent to one instance, as docker/nginx.conf does. Before, all instances of a
deployment are left alone, and the transactions of Postgres and the commands of Redis are counted.
Prints a line for each measurement, and the medians of the CPU time of Postgres per order divided by
that of one instance with as many shoppers; writes var/bench/instances.json.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3     BENCH_INSTANCES=1,2,4,8
  BENCH_CONNECTIONS=1024,4096  shoppers at once, each on a connection of its own
  BENCH_SETTINGS=name=value,...  of Postgres"""

import contextlib
import os
import statistics
import sys
import time

import deploy
import harness
import order_costs
import pair
import yardsticks

PLACE = os.environ.get("BENCH_PLACE", "var/bench")
SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
COUNTS = tuple(map(int, os.environ.get("BENCH_INSTANCES", "1,2,4,8").split(",")))
CONNECTIONS = tuple(map(int, os.environ.get("BENCH_CONNECTIONS", "1024,4096").split(",")))
SETTINGS = [each.split("=") for each in os.environ.get("BENCH_SETTINGS", "").split(",") if each]
VOUCHERS = 8
TOKENS = 600_000
IDLE_S = 10
IDLE_UNLESS_S = 2 # delay of the statistics of Postgres

UPSTREAM = """map $uri $order_of {{
        ~^/v1/vouchers/(?<voucher>[0-9]+)/orders$ $voucher;
        default $request_id;
    }}
    upstream seckill {{ {policy} {servers} keepalive {connections}; }}"""
LOCATION = """proxy_pass http://seckill;
            proxy_http_version 1.1;
            proxy_set_header Connection "";"""


class Point:
    """A deployment of some instances, behind one nginx that hashes and one that does not."""

    def __init__(self, program, servers, secret, count, stack):
        self.count = count
        self.postgres = int(servers.env["PG_PID"])
        self.deployment = deploy.Deployment(program, servers, secret, PLACE, f"instances_{count}", stack,
                                            workers=1, instances=count)
        self.ports = {}
        backends = "".join(f"server 127.0.0.1:{service.port}; " for service in self.deployment.services)
        for is_hashed in (False, True):
            directory = f"{PLACE}/nginx.{count}.{is_hashed}"
            os.makedirs(directory, exist_ok=True)
            nginx = harness.Nginx(directory, 1, LOCATION, UPSTREAM.format(
                policy="hash $order_of consistent;" if is_hashed else "", servers=backends, connections=max(CONNECTIONS)))
            nginx.start()
            stack.callback(nginx.stop)
            self.ports[is_hashed] = nginx.port

    def batches(self):
        return sum(value for service in self.deployment.services
                   for _, value in service.metrics("seckill_batch_orders_count"))

    def transactions(self):
        """The number of transactions that have written since the database was created."""
        return int(self.deployment.sql("select pg_snapshot_xmax(pg_current_snapshot())")[0])

    def load(self, is_hashed, vouchers, connections):
        before_s = order_costs.cpu_s(self.postgres)
        report = deploy.wrk(PLACE, [self.ports[is_hashed]], SECONDS, vouchers, TOKENS, connections=connections)
        return report | {"postgres_s": order_costs.cpu_s(self.postgres) - before_s}

    def measure(self, is_hashed, connections):
        self.deployment.empty()
        vouchers = [self.deployment.service.create_voucher("sale", deploy.STOCK) for _ in range(VOUCHERS)]
        batches, transactions = self.batches(), self.transactions()
        report = self.deployment.check_after(lambda: self.load(is_hashed, vouchers, connections), vouchers, connections)
        orders = report["created"]
        return {"orders_per_s": round(orders / report["seconds"]),
                "orders_per_batch": round(orders / (self.batches() - batches), 1),
                "orders_per_transaction": round(orders / (self.transactions() - transactions), 1),
                "p99_ms": round(report["p99_us"] / 1e3),
                "postgres_us_per_order": round(1e6 * report["postgres_s"] / orders, 2)}


def idle_costs(point, redis):
    """Transactions and commands per second of one idle instance."""
    def count():
        url, name = point.deployment.superuser_url.rsplit("/", 1)
        return int(harness.sql(f"{url}/postgres", "select xact_commit from pg_stat_database "
                               f"where datname = '{name}'")[0]), redis.commands()

    time.sleep(IDLE_UNLESS_S)
    before, began = count(), time.monotonic()
    time.sleep(IDLE_S)
    after, seconds = count(), time.monotonic() - began
    return {what: round((after[i] - before[i]) / seconds / point.count, 2)
            for i, what in enumerate(("transactions_per_s", "redis_commands_per_s"))}


def rounds_of(point, connections):
    """Measure hashed and random distribution in turns, so that a slow minute affects both."""
    for number in range(ROUNDS):
        order = (False, True) if number % 2 else (True, False)
        found = {is_hashed: point.measure(is_hashed, connections) for is_hashed in order}
        print(f"{point.count} instances, {connections} shoppers: at random {found[False]}, hashed {found[True]}", flush=True)
        yield found


def medians(rounds):
    return {("hashed" if is_hashed else "at_random"): {
        name: statistics.median(found[is_hashed][name] for found in rounds)
        for name in rounds[0][is_hashed]} for is_hashed in (False, True)}


def main(program):
    os.makedirs(PLACE, exist_ok=True)
    deploy.raise_file_limit(3 * max(CONNECTIONS)) # nginx has two per request, and idle ones
    secret = harness.new_secret()
    results = {}
    with contextlib.ExitStack() as stack:
        servers = harness.Servers(f"{PLACE}/instances")
        stack.callback(servers.down)
        servers.up()
        for name, value in SETTINGS:
            pair.configure(servers.env["PG_SUPERUSER_URL"], name, value)
        for count in COUNTS:
            with contextlib.ExitStack() as services:
                point = Point(program, servers, secret, count, services)
                if not results:
                    print(deploy.machine(), deploy.durability(point.deployment), flush=True)
                    point.deployment.service.write_tokens(TOKENS, f"{PLACE}/tokens")
                idle = idle_costs(point, yardsticks.Redis(None, servers))
                print(f"{count} instances, one idle instance: {idle}", flush=True)
                results[count] = {"idle": idle} | {connections: medians(list(rounds_of(point, connections)))
                                                   for connections in CONNECTIONS}
    for connections in CONNECTIONS:
        first = results[COUNTS[0]][connections]["at_random"]["postgres_us_per_order"]
        for count in COUNTS:
            ways = results[count][connections]
            for found in ways.values():
                found["ratio"] = round(found["postgres_us_per_order"] / first, 2)
            print(f"{count} instances, {connections} shoppers:", ways)
    harness.write_json(f"{PLACE}/instances.json", results)


if __name__ == "__main__":
    try:
        main(os.path.abspath(sys.argv[1]))
    except harness.Failed as failed:
        sys.exit(f"bench_instances.py: {failed}")
