#!/usr/bin/env -S python3 -B
"""compare.py PROGRAM commit|growth|instances|lottery|standby|webhooks - how the rate of orders changes with the conditions.

The cases are measured in turns, round by round, in every other round in reverse order, so that a slow minute
of the machine affects all of them. The results are the medians, and the medians of the ratios to the first
case of the same round. The checks of the benchmark follow each measurement.

  commit     each flush of the WAL is delayed, by slow_disk.so beside PROGRAM. SECKILL_EARLY_RELEASE is `auto`
             or `off`. In the last case each voucher has transactions of its own (SECKILL_BATCH_VOUCHERS=1)
  growth     more orders, vouchers, connections, or workers. Shoppers order in random order, and each has about
             as many old orders as any other. So a new order may go to any page of the indexes, as in a sale
             that has run for years. The goal is 0.9 of the rate with the fewest data
  instances  one instance with 1, 2 and 8 event loops; 2, 4 and 8 instances with one loop each. nginx sends each
             order to a random instance, or all orders to the same instance, as docker/nginx.conf does. Before
             this, no client connects, and the transactions of Postgres and the commands of Redis are counted.
             The goal is 1.3 times the CPU time of Postgres with one instance and loop
  lottery    shoppers enter a lottery instead of placing orders. The goal is 2 times the rate of orders
  standby    a primary with a synchronous standby is compared with a primary alone, for each number of shoppers
  webhooks   `seckill deliver` sends the events of the sale to two endpoints on this machine: one answers at once,
             the other never. The goal is 0.98 of the rate without it

Prints a line for each measurement and a table, writes var/bench/WHAT.json; exit code 1 if a check fails.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3     BENCH_SETTINGS=name=value,...  of Postgres
  BENCH_CONNECTIONS=1024  shoppers at once, each on a connection of its own; a list for instances and standby
  BENCH_LOOPS=1,2,8  of one instance     BENCH_INSTANCES=2,4,8  with one loop each     GROWTH_ORDERS=10000000  in the largest table"""

import concurrent.futures
import contextlib
import functools
import itertools
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

import deploy
import harness
import pair
import stub_server

RESULTS = "var/bench"
WHAT = sys.argv[2] if len(sys.argv) > 2 else ""
PLACE = f"{RESULTS}/{WHAT}"
SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CONNECTIONS = tuple(map(int, os.environ.get("BENCH_CONNECTIONS", str(deploy.CONNECTIONS)).split(",")))
LOOPS = tuple(map(int, os.environ.get("BENCH_LOOPS", "1,2,8").split(",")))
INSTANCES = tuple(map(int, os.environ.get("BENCH_INSTANCES", "2,4,8").split(",")))
SETTINGS = [each.split("=") for each in os.environ.get("BENCH_SETTINGS", "").split(",") if each]
SHOPPERS = 200_000 * SECONDS # more than a measurement needs
WAL_MB = 4000 # about as much as all measurements write
GOAL = 0.9


# -- measuring and reporting --

def measure(cases):
    """Measure `cases`: functions by name, which return numbers by name. Returns the results of all rounds."""
    found = {name: [] for name in cases}
    for number in range(ROUNDS):
        for name in list(cases)[::-1 if number % 2 else 1]:
            found[name].append(cases[name]())
            print(f"{number} {name}:", {what: round(value, 2) for what, value in found[name][-1].items()}, flush=True)
    return found


def summarise(found):
    """The medians of each case, and the medians of the ratios to the first case within a round."""
    base = found[next(iter(found))]
    return {name: {"median": {what: round(statistics.median(each[what] for each in rounds), 2) for what in rounds[0]},
                   "ratio": {what: round(statistics.median(each[what] / of[what] if of[what] else 0
                                                           for each, of in zip(rounds, base)), 3) for what in rounds[0]}}
            for name, rounds in found.items()}


def print_table(title, results, goal=None):
    print(f"\n{title}; ratios to the first")
    for name, each in results.items():
        print(f"{name:>28}  " + "   ".join(f"{what} {value:,.2f} ({each['ratio'][what]:.2f})"
                                           for what, value in each["median"].items()))
    if goal:
        ratio = each["ratio"]["orders_per_s"]
        print(f"goal {goal:.2f}: {'met' if ratio >= goal else 'MISSED'}")
    print(flush=True)


def rate(report):
    return {"orders_per_s": report["created"] / report["seconds"], "p99_ms": report["p99_us"] / 1000}


def start_servers(stack, **env):
    servers = harness.Servers.start(f"{PLACE}/servers", stack, **env)
    for name, value in SETTINGS:
        servers.configure(name, value)
    return servers


def open_deployment(program, servers, stack, name, workers=deploy.WORKERS, **options):
    return deploy.Measured(program, servers, PLACE, stack, name, SECKILL_WORKERS=str(workers), **options)


def write_tokens(deployment):
    print(deploy.machine(), deploy.durability(deployment), flush=True)
    deployment.service.write_tokens(SHOPPERS, f"{PLACE}/tokens")


def sell(deployment, count=1, is_emptied=True, is_lottery=False, **options):
    """Sell new vouchers, or enter new lotteries."""
    if is_emptied:
        deployment.empty()
    return rate(deployment.measure(SECONDS, create_vouchers(deployment, count, is_lottery), SHOPPERS, **options))


def create_vouchers(deployment, count, is_lottery=False):
    """Create vouchers in one statement. The service reads a voucher at the first request for it."""
    return deployment.sql(f"""select string_agg(v.id::text, ',')
        from generate_series(1, {count}) number, lateral create_voucher(
            next_voucher_id(), 'sale ' || number, '', 900, 10000, {deploy.STOCK}, 1,
            now() - interval '1 min', now() + interval '1 day', 86400, p_is_lottery => {is_lottery}) v""")[0].split(",") if count else []


# -- commit --

def compare_commit(program, stack):
    disk = harness.SlowDisk(f"{os.path.dirname(program)}/slow_disk.so", stack)
    servers = start_servers(stack, **disk.env)
    deploy.write_wal(servers, WAL_MB)
    deployments = {name: open_deployment(program, servers, stack, f"commit_{name}", **settings) for name, settings in (
        ("auto", {"SECKILL_EARLY_RELEASE": "auto"}), ("off", {"SECKILL_EARLY_RELEASE": "off"}),
        ("alone", {"SECKILL_EARLY_RELEASE": "off", "SECKILL_BATCH_VOUCHERS": "1"}))}
    write_tokens(deployments["auto"])
    sell(deployments["auto"]) # warm-up

    def sell_slowly(name, vouchers, delay_ms):
        disk.set_ms(delay_ms)
        try:
            return sell(deployments[name], vouchers)
        finally:
            disk.set_ms(0)

    cases = [("auto", vouchers, delay) for delay in (0, 1, 5, 20) for vouchers in (1, 100, 1000)]
    cases = [each for case in cases for each in (case, ("off", *case[1:]))] + [("alone", 1000, 5)]
    found = measure({case: functools.partial(sell_slowly, *case) for case in cases})
    results = {f"{name}, {vouchers} vouchers, {delay} ms": each for (name, vouchers, delay), each in summarise(found).items()}
    print_table("flushes of the WAL", results)
    release = {f"{vouchers} vouchers, {delay} ms": round(statistics.median(
        a["orders_per_s"] / b["orders_per_s"] for a, b in zip(rounds, found["off", vouchers, delay])), 3)
        for (name, vouchers, delay), rounds in found.items() if name == "auto"}
    print("auto / off:", release)
    return {"cases": results, "auto_vs_off": release}


# -- growth --
#
# Each function creates its deployments and yields (title, goal, cases).

MOST_ORDERS = int(os.environ.get("GROWTH_ORDERS", "10000000"))
MOST_CONNECTIONS = 10_000
POPULATION = 1_000_000 # shoppers; a tenth of the orders in the largest table
STEP = 618_033 # from one shopper of the old orders to the next; visits the whole population
CHUNK = 5000


def place(deployment, voucher, count):
    """Insert `count` orders with place_orders(), one transaction per chunk. The shoppers are spread evenly over
    the population."""
    deployment.sql(f"""do $$ begin
        for chunk in 0 .. {count // CHUNK - 1} loop
            perform place_orders({voucher},
                array(select (chunk::bigint * {CHUNK} + i) * {STEP} % {POPULATION} + 1
                      from generate_series(0, {CHUNK - 1}) i),
                array_fill(0::bigint, array[{CHUNK}]), null);
            commit;
        end loop; end $$""")


def grow_orders(start, stack):
    sizes = (0, MOST_ORDERS // 10, MOST_ORDERS)
    deployments = {size: start(stack, f"orders_{size}") for size in sizes}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as jobs:
        each = {size: min(size, POPULATION) for size in sizes[1:]} # one order per shopper and voucher
        for job in [jobs.submit(place, deployments[size], voucher, each[size]) for size in sizes[1:]
                    for voucher in create_vouchers(deployments[size], size // each[size])]:
            job.result()
    for deployment in deployments.values():
        deployment.sql("vacuum analyze voucher_order")

    def sell_beside(size, is_checkpointed):
        if is_checkpointed:
            harness.sql(deployments[size].superuser_url, "checkpoint")
        return sell(deployments[size], is_emptied=size == 0)

    yield "orders in the table, after a checkpoint", None, {
        f"{size:,}": functools.partial(sell_beside, size, True) for size in sizes}
    for size in sizes[1:]:
        place(deployments[size], create_vouchers(deployments[size], 1)[0], POPULATION // 4)
    yield "orders in the table", GOAL, {f"{size:,}": functools.partial(sell_beside, size, False) for size in sizes}


def grow_vouchers(start, stack):
    """One voucher is on sale; the others only exist."""
    deployments = {size: start(stack, f"vouchers_{size}") for size in (1, 100, 10_000, 100_000)}
    for size, deployment in deployments.items():
        create_vouchers(deployment, size - 1)
    yield "vouchers that exist", GOAL, {f"{size:,}": functools.partial(sell, deployment, is_emptied=False)
                                        for size, deployment in deployments.items()}


def grow_connections(start, stack):
    deployment = start(stack, "connections")
    yield "connections", None, {
        f"{size:,}": functools.partial(sell, deployment, connections=size, threads=min(size, deploy.THREADS))
        for size in (1000, 1, 16, 64, 256, MOST_CONNECTIONS)}


def grow_workers(start, stack):
    yield "workers", None, {
        str(size): functools.partial(sell, start(stack, f"workers_{size}", workers=size)) for size in (1, 2, 4)}


def compare_growth(program, stack):
    deploy.raise_file_limit(MOST_CONNECTIONS)
    servers = start_servers(stack)
    deploy.grow_buffers(servers)
    start = functools.partial(open_deployment, program, servers)
    results, path = {}, f"{PLACE}/tokens"
    for grow in (grow_orders, grow_vouchers, grow_connections, grow_workers):
        with contextlib.ExitStack() as services:
            for title, goal, cases in grow(start, services):
                if not results: # the tokens of a random sample of the population
                    harness.Service(program, 0, {"SECKILL_JWT_SECRET": harness.SECRET}, None).write_tokens(POPULATION, path)
                    sample = random.sample(harness.read_tokens(path), SHOPPERS)
                    with open(path, "w") as tokens:
                        tokens.writelines(token + "\n" for token in sample)
                results[title] = summarise(measure(cases))
                print_table(title, results[title], goal)
    return results


# -- instances --

VOUCHERS = (1, 50)
GOAL_COST = 1.3
WARM_UP_S = 2
ANSWER_WITHIN_S = 20 # the machine may be busy
IDLE_S = 10
IDLE_UNLESS_S = 2 # delay of the statistics of Postgres
LOCATION = """proxy_pass http://seckill;
            proxy_http_version 1.1;
            proxy_set_header Connection "";"""


def start_nginx(deployment, is_hashed, stack):
    """nginx in front of all instances. Returns its port. `is_hashed`: it chooses the instance of an order as
    docker/nginx.conf does, otherwise at random."""
    with open(f"{harness.LOAD}/../docker/nginx.conf") as conf:
        choice = re.search(r'map "\$request_method.*?\}', conf.read(), re.S)[0]
    backends = "".join(f"server 127.0.0.1:{service.port}; " for service in deployment.services)
    policy = "hash $instance_key consistent;" if is_hashed else "random;"
    os.makedirs(f"{PLACE}/nginx", exist_ok=True)
    nginx = harness.Nginx(f"{PLACE}/nginx", 1, LOCATION,
                          f"{choice} upstream seckill {{ {policy} {backends} keepalive {max(CONNECTIONS)}; }}")
    nginx.start()
    stack.callback(nginx.stop)
    return nginx.port


def idle_costs(deployment):
    """How many transactions and commands an instance without clients causes per second."""
    def count():
        database = deployment.superuser_url.rsplit("/", 1)[1]
        commands = deployment.servers.redis("info", "stats").split("total_commands_processed:")[1].split()[0]
        return int(harness.sql(deployment.servers.url("superuser", "postgres"), "select xact_commit from pg_stat_database "
                               f"where datname = '{database}'")[0]), int(commands)

    time.sleep(IDLE_UNLESS_S)
    before, began = count(), time.monotonic()
    time.sleep(IDLE_S)
    after, seconds = count(), time.monotonic() - began
    return {what: round((after[i] - before[i]) / seconds / len(deployment.services), 2)
            for i, what in enumerate(("transactions_per_s", "redis_commands_per_s"))}


def sell_and_count(deployment, port, vouchers, connections, counts):
    """Sell through this port. `counts` returns numbers by name, which are reported per order."""
    def load():
        before = counts()
        report = deploy.wrk(PLACE, [port], SECONDS, ids, SHOPPERS, connections=connections)
        return report | {"spent": {name: value - before[name] for name, value in counts().items()}}

    deployment.empty()
    ids = create_vouchers(deployment, vouchers)
    report = deployment.check_after(load, ids, connections)
    return rate(report), {name: value / report["created"] for name, value in report["spent"].items()}


def compare_instances(program, stack):
    deploy.raise_file_limit(3 * max(CONNECTIONS)) # nginx has two per request, and idle ones
    servers = start_servers(stack)
    deployments = {f"1 instance, {loops} loop{'s'[:loops > 1]}": {"workers": loops, "instances": 1} for loops in LOOPS}
    deployments |= {f"{count} instances": {"workers": 1, "instances": count} for count in INSTANCES}

    def start(name, services):
        return open_deployment(program, servers, services, "instances", **deployments[name],
                               SECKILL_ORDER_TIMEOUT_MS=str(1000 * ANSWER_WITHIN_S))

    def sell_by(name, is_hashed, vouchers, connections):
        with contextlib.ExitStack() as services:
            deployment = start(name, services)
            port = start_nginx(deployment, is_hashed, services)
            deploy.wrk(PLACE, [port], WARM_UP_S, create_vouchers(deployment, vouchers), SHOPPERS, connections=connections)
            harness.wait_for("the warm-up has ended", deployment.is_settled)
            rates, spent = sell_and_count(deployment, port, vouchers, connections, lambda: {
                "cpu_s": deploy.cpu_s(int(servers.env["PG_PID"])), "batches": deployment.sum("seckill_batch_orders_count"),
                "transactions": int(deployment.sql("select pg_snapshot_xmax(pg_current_snapshot())")[0])})
        return {"postgres_us": 1e6 * spent["cpu_s"], **rates, "orders_per_batch": 1 / spent["batches"],
                "orders_per_transaction": 1 / spent["transactions"]}

    idle = {}
    for name in deployments:
        with contextlib.ExitStack() as services:
            deployment = start(name, services)
            if not idle:
                write_tokens(deployment)
            idle[name] = idle_costs(deployment)
            print(f"{name}, idle: {idle[name]}", flush=True)
    cases = {name: (name, False) for name in deployments if "1 instance," in name}
    cases |= {f"{name}, {way}": (name, is_hashed) for name in deployments if name not in cases
              for way, is_hashed in (("orders at random", False), ("orders to one", True))}
    results = {}
    for vouchers, connections in itertools.product(VOUCHERS, CONNECTIONS):
        title = f"{connections} shoppers, vouchers: {vouchers}"
        results[title] = summarise(measure({
            case: functools.partial(sell_by, *how, vouchers, connections) for case, how in cases.items()}))
        print_table(title, results[title])
        cost = list(results[title].values())[-1]["ratio"]["postgres_us"]
        print(f"goal {GOAL_COST}: {'met' if cost <= GOAL_COST else 'MISSED'}")
    return {"idle": idle, "cases": results}


# -- lottery --

GOAL_LOTTERY = 2


def compare_lottery(program, stack):
    deployment = open_deployment(program, start_servers(stack), stack, "lottery")
    write_tokens(deployment)
    sell(deployment) # warm-up
    results = summarise(measure({"orders": functools.partial(sell, deployment),
                                 "entries": functools.partial(sell, deployment, is_lottery=True)}))
    print_table("lottery", results, GOAL_LOTTERY)
    return results


# -- standby --

def attach(primary, standby, is_attached):
    """Attach or detach the standby. Returns the id of the process that sends the WAL; 0: none."""
    standby.do("start" if is_attached else "stop", "postgres")
    primary.configure("synchronous_standby_names", "standby" if is_attached else "")
    url = primary.url("superuser")
    harness.wait_for("the standby is as wanted", lambda: harness.sql(
        url, "select count(*) from pg_stat_replication where sync_state = 'sync'") == [str(int(is_attached))])
    return int(harness.sql(url, "select coalesce(min(pid), 0) from pg_stat_replication")[0])


def compare_standby(program, stack):
    deploy.raise_file_limit(max(CONNECTIONS))
    primary, standby = pair.start(PLACE, stack)
    for name, value in SETTINGS:
        primary.configure(name, value)
    deployment = open_deployment(program, primary, stack, "standby")
    write_tokens(deployment)
    sell(deployment) # warm-up

    def sell_with(is_attached, connections):
        sender = attach(primary, standby, is_attached)
        rates, spent = sell_and_count(deployment, deployment.service.port, 1, connections, lambda: {
            "cpu_s": deploy.cpu_s(int(primary.env["PG_PID"])), "sender_s": deploy.stat(sender)[1] if sender else 0,
            "commit_s": deployment.sum("seckill_order_stage_seconds_sum", 'stage="commit"'),
            "batches": deployment.sum("seckill_batch_orders_count")})
        return rates | {"postgres_us": 1e6 * spent["cpu_s"], "without_wal_sender_us": 1e6 * (spent["cpu_s"] - spent["sender_s"]),
                        "commit_ms": 1e3 * spent["commit_s"], "orders_per_batch": 1 / spent["batches"]}

    results = {}
    for connections in CONNECTIONS:
        results[connections] = summarise(measure({
            name: functools.partial(sell_with, name == "with standby", connections) for name in ("alone", "with standby")}))
        print_table(f"{connections} shoppers", results[connections])
    attach(primary, standby, True) # it is stopped at the end
    return results


# -- webhooks --

GOAL_WEBHOOKS = 0.98


@contextlib.contextmanager
def delivering(service):
    """Send webhooks with the settings of `service`, and with the priority of seckill-deliver.service."""
    path = pathlib.Path(f"{PLACE}/deliver.log")
    with path.open("w") as log:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "nice", "-n", "10",
                                    service.program, "deliver"], env=service.env, stderr=log)
    try:
        harness.wait_for("the webhooks are sent", lambda: "webhooks_elected" in path.read_text())
        yield
    finally:
        process.terminate()
        harness.expect("the exit code of deliver", process.wait(), 0)


def compare_webhooks(program, stack):
    servers = start_servers(stack)
    deployment = open_deployment(program, servers, stack, "webhooks", SECKILL_WEBHOOK_NETWORKS="127.0.0.0/8")
    endpoints = [stack.enter_context(stub_server.Server(reply, nice=19)) for reply in ( # stand for other machines
        lambda number: stub_server.http(204), lambda number: b"")]
    for endpoint in endpoints:
        harness.run(program, "webhook", "add", f"http://127.0.0.1:{endpoint.port}/",
                    env=dict(deployment.service.env, SECKILL_DATABASE_URL=deployment.owner_url))
    write_tokens(deployment)
    sell(deployment) # warm-up

    def sell_beside(is_delivered):
        for endpoint in endpoints:
            endpoint.requests.clear()
        with delivering(deployment.service) if is_delivered else contextlib.nullcontext():
            rates, spent = sell_and_count(deployment, deployment.service.port, 1, deploy.CONNECTIONS, lambda: {
                "postgres_s": deploy.cpu_s(int(servers.env["PG_PID"])), "service_s": deploy.cpu_s(deployment.service.process.pid)})
            answered, waiting = (len(endpoint.requests) for endpoint in endpoints)
        harness.expect("both endpoints get events", min(answered, waiting) > 0, is_delivered)
        return rates | {"postgres_us": 1e6 * spent["postgres_s"], "service_us": 1e6 * spent["service_s"],
                        "events_per_s": answered / SECONDS}

    results = summarise(measure({"alone": functools.partial(sell_beside, False),
                                 "with webhooks": functools.partial(sell_beside, True)}))
    print_table("webhooks", results, GOAL_WEBHOOKS)
    return results


COMPARISONS = {"commit": compare_commit, "growth": compare_growth, "instances": compare_instances, "lottery": compare_lottery,
               "standby": compare_standby, "webhooks": compare_webhooks}


def run(stack):
    deploy.raise_file_limit(deploy.CONNECTIONS)
    results = COMPARISONS[WHAT](os.path.abspath(sys.argv[1]), stack)
    harness.write_json(f"{RESULTS}/{WHAT}.json", {"machine": deploy.machine(), "seconds": SECONDS, "rounds": ROUNDS,
                                                  "results": results})


if __name__ == "__main__": # the tests import this file
    harness.main(f"compare {WHAT}", PLACE, run)
