#!/usr/bin/env -S python3 -B
"""growth.py PROGRAM - measure how the rate of orders changes with the number of orders, vouchers,
connections, workers and instances.

One dimension grows at a time. Its points are measured in turns, round by round, so that a slow
minute of the machine affects all of them. The results are the medians, and the median of the
ratios to the first point in the same round. The checks of the benchmark follow each measurement.

Shoppers order in random order, and each of them has about as many old orders. So a new order may
go to any page of the indexes, as in a sale that has run for years.

Prints tables, writes growth.json and growth.png to var/bench; exit code 1 if a check fails. The
dimensions that change the size of the data have a goal: at least 0.9 of the rate of the smallest.

  GROWTH_SECONDS=2  of each measurement, 1 to 10     GROWTH_ROUNDS=3
  GROWTH_ORDERS=10000000  in the largest table"""

import concurrent.futures
import contextlib
import functools
import operator
import os
import random
import shutil
import signal
import statistics
import sys

import deploy
import harness
import plot

PLACE = "var/growth"
RESULTS = "var/bench"
SECONDS = int(os.environ.get("GROWTH_SECONDS", "2"))
ROUNDS = int(os.environ.get("GROWTH_ROUNDS", "3"))
MOST_ORDERS = int(os.environ.get("GROWTH_ORDERS", "10000000"))
MOST_CONNECTIONS = 10_000
POPULATION = 1_000_000 # shoppers; a tenth of the orders in the largest table
STEP = 618_033 # from one shopper of the old orders to the next; visits the whole population
CHUNK = 5000
SHOPPERS = 100_000 * SECONDS # from the population; more than a measurement needs
INSTANCE_THREADS = 4 # threads of wrk: one for each of four instances
GOAL = 0.9


class Growth:
    """Shared by all dimensions."""

    def __init__(self, program, servers):
        self.program, self.servers = program, servers
        self.secret = harness.new_secret() # all services accept the same tokens
        self.deployments = [] # those of the current dimension
        self.keys = 0
        self.settings = None # of Postgres

    def open(self, stack, name, **options):
        self.deployments.append(deploy.Deployment(self.program, self.servers, self.secret, PLACE,
                                    f"growth_{name}", stack, **options))
        return self.deployments[-1]

    def write_tokens(self, service):
        """Write tokens for a random sample of the population."""
        path = f"{PLACE}/tokens"
        service.write_tokens(POPULATION, path)
        with open(path) as tokens:
            sample = random.sample(tokens.readlines(), SHOPPERS)
        with open(path, "w") as tokens:
            tokens.writelines(sample)

    def orders(self, deployment, vouchers, **options):
        return deployment.measure(SECONDS, vouchers, SHOPPERS, **options)

    def refusals(self, deployment, **options):
        return deployment.measure(SECONDS, [deploy.sold_out(deployment)], SHOPPERS, sells=False, **options)

    def keyed_refusals(self, deployment):
        self.keys += 1
        return self.refusals(deployment, keys=f"g{self.keys}-")


def create_vouchers(deployment, count):
    """Create vouchers in one statement. The service reads a voucher at the first request for it."""
    return deployment.sql(f"""select string_agg(v.id::text, ',')
        from generate_series(1, {count}) number, lateral create_voucher(
            next_voucher_id(), 'growth ' || number, '', 900, 10000, {deploy.STOCK}, 1,
            now() - interval '1 min', now() + interval '1 day', 86400) v""")[0].split(",")


def place(deployment, voucher, count):
    """Insert `count` orders of shoppers spread evenly over the population, with place_orders() and
    one transaction per chunk."""
    deployment.sql(f"""do $$ begin
        for chunk in 0 .. {count // CHUNK - 1} loop
            perform place_orders({voucher},
                array(select (chunk::bigint * {CHUNK} + i) * {STEP} % {POPULATION} + 1
                      from generate_series(0, {CHUNK - 1}) i),
                array_fill(0::bigint, array[{CHUNK}]), null);
            commit;
        end loop; end $$""")


def fill(jobs, deployment, count):
    """Insert `count` orders, up to one per shopper and voucher, with one job per voucher."""
    each = min(count, POPULATION)
    for voucher in create_vouchers(deployment, count // each) if count else []:
        yield jobs.submit(place, deployment, voucher, each)


# -- the dimensions --
#
# Each function creates its deployments and yields (name, unit, goal, points). A point is x and a dict
# of measurements: `orders`, and in some dimensions a kind of refusal.

def grow_orders(growth, stack):
    sizes = (0, MOST_ORDERS // 10, MOST_ORDERS)
    deployments = {size: growth.open(stack, f"orders_{size}") for size in sizes}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as jobs:
        for job in [job for size, deployment in deployments.items() for job in fill(jobs, deployment, size)]:
            job.result()
    for deployment in deployments.values():
        deployment.sql("vacuum analyze voucher_order")
    growth.write_tokens(deployments[0].service)
    growth.settings = deploy.durability(deployments[0])
    growth.settings["shared_buffers"], = deployments[0].sql("show shared_buffers")

    def sell(size, is_checkpointed=False):
        if size == 0:
            deployments[0].empty()
        if is_checkpointed:
            harness.sql(deployments[0].superuser_url, "checkpoint")
        return growth.orders(deployments[size], create_vouchers(deployments[size], 1))

    yield "orders in the table, after a checkpoint", "orders", None, [
        (size, {"orders": functools.partial(sell, size, is_checkpointed=True)}) for size in sizes]
    for size in sizes[1:]:
        place(deployments[size], create_vouchers(deployments[size], 1)[0], POPULATION // 4)
    yield "orders in the table", "orders", GOAL, [
        (size, {"orders": functools.partial(sell, size),
                "keyed_refusals": functools.partial(growth.keyed_refusals, deployment)})
        for size, deployment in deployments.items()]


def grow_vouchers(growth, stack):
    """One voucher is on sale; the others only exist."""
    def sell(deployment):
        return growth.orders(deployment, create_vouchers(deployment, 1))

    points = []
    for size in (1, 10, 100, 1000, 10_000, 100_000):
        deployment = growth.open(stack, f"vouchers_{size}")
        create_vouchers(deployment, size - 1)
        points.append((size, {"orders": functools.partial(sell, deployment)}))
    yield "vouchers that exist", "vouchers", GOAL, points


def grow_sales(growth, stack):
    """All vouchers are on sale; each request takes a random one."""
    deployment = growth.open(stack, "sales")

    def sell(size):
        deployment.empty()
        return growth.orders(deployment, create_vouchers(deployment, size))

    yield "vouchers sold at once", "vouchers", None, [
        (size, {"orders": functools.partial(sell, size)}) for size in (1, 10, 100, 1000)]


def sell_and_refuse(growth, deployment, **options):
    def sell():
        deployment.empty()
        return growth.orders(deployment, create_vouchers(deployment, 1), **options)

    return {"orders": sell, "refusals": lambda: growth.refusals(deployment, **options)}


def grow_connections(growth, stack):
    deployment = growth.open(stack, "connections")
    yield "connections", "connections", None, [
        (size, sell_and_refuse(growth, deployment, connections=size, threads=min(size, deploy.THREADS)))
        for size in (1, 16, 64, 256, 1000, MOST_CONNECTIONS)]


def grow_workers(growth, stack):
    yield "workers", "workers", None, [
        (size, sell_and_refuse(growth, growth.open(stack, f"workers_{size}", workers=size)))
        for size in (1, 2, 4)]


def grow_instances(growth, stack):
    """Each instance has one worker, and its own thread of wrk without a proxy."""
    yield "instances", "instances", None, [
        (size, sell_and_refuse(
            growth, growth.open(stack, f"instances_{size}", workers=1, instances=size),
            threads=INSTANCE_THREADS))
        for size in (1, 2, 4)]


DIMENSIONS = (grow_orders, grow_vouchers, grow_sales, grow_connections, grow_workers, grow_instances)


# -- measuring and reporting --

def measure_rounds(points):
    """The reports of each point. Every other round is measured backwards, so that the effect of a
    point on the next one does not always hit the same point."""

    reports = {x: {what: [] for what in measurements} for x, measurements in points}
    for number in range(ROUNDS):
        for x, measurements in points[::-1] if number % 2 else points:
            for what, measure in measurements.items():
                reports[x][what].append(measure())
    return reports


def summarise(reports, first):
    """The results of a point; `first` has the reports of the first point."""
    fields = {}
    for what, rounds in reports.items():
        rates, first_rates = rates_of(what, rounds), rates_of(what, first[what])
        prefix = "" if what == "orders" else f"{what}_"
        fields.update({
            f"{what}_per_s": round(statistics.median(rates)),
            f"{prefix}rounds": [round(each) for each in rates],
            f"{prefix}p99_us": statistics.median(each["p99_us"] for each in rounds),
            f"{prefix}ratio": round(statistics.median(map(operator.truediv, rates, first_rates)), 3)})
    return fields


def rates_of(what, rounds):
    done = "created" if what == "orders" else "requests"
    return [each[done] / each["seconds"] for each in rounds]


def grow(growth, dimensions_of):
    """Measure the dimensions that a function yields, and yield the results."""
    growth.deployments = []
    with contextlib.ExitStack() as stack:
        for name, unit, goal, points in dimensions_of(growth, stack):
            reports = measure_rounds(points)
            first = reports[points[0][0]]
            yield {"name": name, "unit": unit, "goal": goal,
                   "points": [{"x": x, **summarise(reports[x], first)} for x in reports]}
        for deployment in growth.deployments:
            deployment.service.command("audit")


def table(dimension):
    lines = [f"{dimension['name']:>40}{'orders/s':>10}  {'lowest..highest':>16}{'p99':>10}   ratio"]
    for point in dimension["points"]:
        line = (f"{point['x']:>40,}{point['orders_per_s']:>10,}"
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


def measure_all(program, stack, dimensions, kinds=DIMENSIONS):
    """`stack` stops what was started, in reverse order. `dimensions` receives the results."""
    servers = harness.Servers(f"{PLACE}/servers")
    stack.callback(shutil.rmtree, PLACE) # several GB
    stack.callback(servers.down)
    servers.up()
    deploy.grow_buffers(servers)
    growth = Growth(program, servers)
    for dimensions_of in kinds:
        print(f"measuring: {dimensions_of.__name__[5:]}", flush=True)
        for dimension in grow(growth, dimensions_of):
            print(table(dimension), flush=True)
            dimensions.append(dimension)
    return {"machine": deploy.machine(), "durability": growth.settings, "seconds": SECONDS,
            "rounds": ROUNDS, "connections": deploy.CONNECTIONS, "workers": deploy.WORKERS,
            "dimensions": dimensions}


def main():
    if not 1 <= SECONDS <= 10 or ROUNDS < 1: # the population has no more shoppers
        sys.exit("make growth: GROWTH_SECONDS must be 1 to 10 and GROWTH_ROUNDS at least 1")
    for directory in (PLACE, RESULTS):
        os.makedirs(directory, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        deploy.raise_file_limit(MOST_CONNECTIONS)
        dimensions = []
        with harness.keep_on_failure(f"{RESULTS}/growth-incomplete.json", dimensions):
            with contextlib.ExitStack() as stack:
                result = measure_all(os.path.abspath(sys.argv[1]), stack, dimensions)
    except harness.Failed as failure:
        sys.exit(f"make growth: {failure}")
    harness.write_json(f"{RESULTS}/growth.json", result)
    plot.draw("growth", RESULTS, plot.tables_of_growth(dimensions))


if __name__ == "__main__": # the tests import this file
    main()
