#!/usr/bin/env -S python3 -B
"""growth.py PROGRAM - does it stay as fast when there is more: orders, vouchers, connections,
workers, instances.

Each dimension grows alone. Its points are measured in turns, round by round, so that a slow
minute of the machine hits all of them; told are the medians, and their ratio to the first
point's. The proofs of the bench follow each measurement.

Shoppers come in no order, from a population in which each has bought about as often before:
so a new order's place in the indexes may be anywhere, as in a shop that is years old.

Prints tables, writes var/bench/growth.json, exits 1 when a proof fails. The goals are those
of the sizes of the data: at the largest at least 0.9 of the smallest.

  GROWTH_SECONDS=2  of each measurement, 1 to 10     GROWTH_ROUNDS=3
  GROWTH_ORDERS=10000000  in the largest table"""

import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import sys

import house
import pictures
import shop
from progress import Progress

PLACE = "var/growth"
RESULT = "var/bench/growth.json"
SECONDS = int(os.environ.get("GROWTH_SECONDS", "2"))
ROUNDS = int(os.environ.get("GROWTH_ROUNDS", "3"))
MOST_ORDERS = int(os.environ.get("GROWTH_ORDERS", "10000000"))
MOST_VOUCHERS = 100_000
MOST_CONNECTIONS = 10_000
POPULATION = 1_000_000 # shoppers there are; a tenth of the orders of the largest table
APART = 700_001 # from one shopper of the old orders to the next; meets all of the population
CHUNK = 5000
SHOPPERS = 400_000 # of the population, more than are served in one measurement
INSTANCE_THREADS = 4 # of wrk, so that four instances get one each
GOAL = 0.9


class Growth:
    """What all dimensions stand on."""

    def __init__(self, program, servers):
        self.program, self.servers = program, servers
        self.secret = house.new_secret() # one for all, so that a token is good in all
        self.shops = [] # of the present dimension
        self.keys = 0
        self.durability = None

    def open(self, stack, name, **options):
        self.shops.append(shop.Shop(self.program, self.servers, self.secret, PLACE,
                                    f"growth_{name}", stack, **options))
        return self.shops[-1]

    def placed(self):
        return sum(service.placed() for where in self.shops for service in where.services)

    def write_tokens(self, service):
        """Of a sample of the population, in no order."""
        path = f"{PLACE}/tokens"
        service.write_tokens(POPULATION, path)
        with open(path) as tokens:
            sample = random.sample(tokens.readlines(), SHOPPERS)
        with open(path, "w") as tokens:
            tokens.writelines(sample)

    def orders(self, where, vouchers, **options):
        return where.measure(SECONDS, vouchers, SHOPPERS, **options)

    def refusals(self, where, **options):
        return where.measure(SECONDS, [shop.sold_out(where)], SHOPPERS, sells=False, **options)

    def keyed_refusals(self, where):
        self.keys += 1
        return self.refusals(where, keys=f"g{self.keys}-")


def create_vouchers(where, count):
    """In one statement; nobody has asked for them yet, so the service reads them when asked."""
    return where.sql(f"""select string_agg(v.id::text, ',')
        from generate_series(1, {count}) number, lateral create_voucher(
            nextval('voucher_id_seq'), 'growth ' || number, '', 900, 10000, {shop.STOCK}, 1,
            now() - interval '1 min', now() + interval '1 day', 86400) v""")[0].split(",")


def fill(jobs, where, count):
    """Orders of the whole population, each shopper's next when all have one more, by the
    function that places all orders. One transaction a chunk; a voucher is one job's."""
    each = min(count, POPULATION)
    for voucher in create_vouchers(where, count // each) if count else []:
        yield jobs.submit(where.sql, f"""do $$ begin
            for chunk in 0 .. {each // CHUNK - 1} loop
                perform place_orders({voucher},
                    array(select (chunk::bigint * {CHUNK} + i) * {APART} % {POPULATION} + 1
                          from generate_series(0, {CHUNK - 1}) i),
                    array_fill(0::bigint, array[{CHUNK}]), null);
                commit;
            end loop; end $$""")


# -- the dimensions: name, unit, what is measured at each point ----------------------------
#
# Each yields its points as (x, {what: measurement}), what is `orders` and some kind of refusal.

def grow_orders(growth, stack):
    sizes = (0, MOST_ORDERS // 10, MOST_ORDERS)
    shops = [growth.open(stack, f"orders_{size}") for size in sizes]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as jobs:
        for job in [job for where, size in zip(shops, sizes) for job in fill(jobs, where, size)]:
            job.result()
    for where in shops:
        where.sql("vacuum analyze voucher_order")
    # The only one: by the servers' settings the next is due after these measurements.
    house.sql(shops[0].superuser_url, "checkpoint")
    growth.write_tokens(shops[0].service)
    growth.durability = shop.durability(shops[0])

    def sell(where, size):
        if size == 0:
            where.empty()
        return growth.orders(where, create_vouchers(where, 1))

    for where, size in zip(shops, sizes):
        yield size, {"orders": lambda where=where, size=size: sell(where, size),
                     "keyed_refusals": lambda where=where: growth.keyed_refusals(where)}


def grow_vouchers(growth, stack):
    """One of them is sold; the others are there."""
    size = 1
    while size <= MOST_VOUCHERS:
        where = growth.open(stack, f"vouchers_{size}")
        create_vouchers(where, size - 1)
        yield size, {"orders": lambda where=where: growth.orders(where, create_vouchers(where, 1))}
        size *= 10


def grow_sales(growth, stack):
    """Each request is for one of them at random."""
    where = growth.open(stack, "sales")

    def sell(size):
        where.empty()
        return growth.orders(where, create_vouchers(where, size))

    for size in (1, 10, 100, 1000):
        yield size, {"orders": lambda size=size: sell(size)}


def sell_and_refuse(growth, where, **options):
    def sell():
        where.empty()
        return growth.orders(where, create_vouchers(where, 1), **options)

    return {"orders": sell, "refusals": lambda: growth.refusals(where, **options)}


def grow_connections(growth, stack):
    where = growth.open(stack, "connections")
    for size in (1, 16, 64, 256, 1000, MOST_CONNECTIONS):
        yield size, sell_and_refuse(growth, where, connections=size,
                                    threads=min(size, shop.THREADS))


def grow_workers(growth, stack):
    for size in (1, 2, 4):
        yield size, sell_and_refuse(growth, growth.open(stack, f"workers_{size}", workers=size))


def grow_instances(growth, stack):
    """Of one worker each; wrk's threads ask one each, without anything between them."""
    for size in (1, 2, 4):
        where = growth.open(stack, f"instances_{size}", workers=1, instances=size)
        yield size, sell_and_refuse(growth, where, threads=INSTANCE_THREADS)


DIMENSIONS = (
    ("orders in the table", "orders", grow_orders, GOAL),
    ("vouchers that exist", "vouchers", grow_vouchers, GOAL),
    ("vouchers sold at once", "vouchers", grow_sales, None),
    ("connections", "connections", grow_connections, None),
    ("workers", "workers", grow_workers, None),
    ("instances", "instances", grow_instances, None),
)


# -- to measure, and to tell ---------------------------------------------------------------

def measure_rounds(points):
    """Of each point what was told, round by round; every other round backwards, so that what
    a round does to the next point is no point's alone."""
    told = {x: {what: [] for what in measurements} for x, measurements in points}
    for number in range(ROUNDS):
        for x, measurements in points[::-1] if number % 2 else points:
            for what, measure in measurements.items():
                told[x][what].append(measure())
    return told


def summarise(told, first):
    """The fields of a point. `first` is that of the smallest size, or None."""
    fields = {}
    for what, rounds in told.items():
        done = "created" if what == "orders" else "requests"
        rates = [each[done] / each["seconds"] for each in rounds]
        rate = round(statistics.median(rates))
        prefix = "" if what == "orders" else f"{what}_"
        fields.update({
            f"{what}_per_s": rate,
            f"{prefix}rounds": [round(each) for each in rates],
            f"{prefix}p99_us": statistics.median(each["p99_us"] for each in rounds),
            f"{prefix}ratio": round(rate / (first or {}).get(f"{what}_per_s", rate), 3)})
    return fields


def grow(growth, name, unit, points_of, goal):
    growth.shops = []
    with contextlib.ExitStack() as stack:
        points = list(points_of(growth, stack))
        told = measure_rounds(points)
        for where in growth.shops:
            where.service.command("audit")
    dimension = {"name": name, "unit": unit, "goal": goal, "points": []}
    for x, _ in points:
        first = dimension["points"][0] if dimension["points"] else None
        dimension["points"].append({"x": x, **summarise(told[x], first)})
    return dimension


def table(dimension):
    lines = [f"{dimension['name']:>22}{'orders/s':>10}  {'of the rounds':>16}{'p99':>10}   ratio"]
    for point in dimension["points"]:
        line = (f"{point['x']:>22,}{point['orders_per_s']:>10,}"
                f"{min(point['rounds']):>10,}..{max(point['rounds']):<8,}"
                f"{point['p99_us'] / 1000:>7.1f} ms{point['ratio']:>8.2f}")
        for what in ("refusals", "keyed_refusals"):
            if f"{what}_per_s" in point:
                line += (f"   {point[f'{what}_per_s']:>9,} {what.replace('_', ' ')}/s"
                         f"{point[f'{what}_ratio']:>7.2f}")
        lines.append(line)
    if dimension["goal"]:
        ratio = dimension["points"][-1]["ratio"]
        lines[-1] += f", goal {dimension['goal']:.2f}: {'met' if ratio >= dimension['goal'] else 'MISSED'}"
    return "\n".join(lines) + "\n"


def measure_all(program, stack):
    """`stack` ends what was started, the last first."""
    servers = house.Servers(f"{PLACE}/servers")
    stack.callback(shutil.rmtree, PLACE) # some gigabytes
    stack.callback(servers.down)
    servers.up()
    # By the plan: what a measurement takes, with its proofs, and the orders before the first.
    steps = [(name, 20 + ROUNDS * 6 * (SECONDS + 2)) for name, *_ in DIMENSIONS]
    progress = stack.enter_context(Progress("growth", steps))
    growth = Growth(program, servers)
    dimensions = []
    for name, unit, points_of, goal in DIMENSIONS:
        progress.begin(name, growth.placed, "orders")
        dimensions.append(grow(growth, name, unit, points_of, goal))
        progress.tell(table(dimensions[-1]))
    return {"machine": shop.machine(), "durability": growth.durability, "seconds": SECONDS, "rounds": ROUNDS,
            "connections": shop.CONNECTIONS, "workers": shop.WORKERS, "dimensions": dimensions}


def main():
    if not 1 <= SECONDS <= 10 or ROUNDS < 1: # there are no more shoppers
        sys.exit("make growth: GROWTH_SECONDS is 1 to 10, GROWTH_ROUNDS at least 1")
    for place in (PLACE, os.path.dirname(RESULT)):
        os.makedirs(place, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        shop.raise_file_limit(MOST_CONNECTIONS)
        with contextlib.ExitStack() as stack:
            result = measure_all(os.path.abspath(sys.argv[1]), stack)
    except house.Failed as failure:
        sys.exit(f"make growth: {failure}")
    with open(RESULT, "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
    pictures.write_page("bench")


main()
