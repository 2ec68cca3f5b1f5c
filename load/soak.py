#!/usr/bin/env -S python3 -B
"""soak.py PROGRAM OPEN_LOOP MINUTES - a soak test: a long sale with faults.

Two instances with one worker each and private servers receive open-loop load at 70 % of the peak
that wrk measures (OPEN_LOOP is the client), which continues while a server is down. After a
warm-up there is a fault about once a minute: kill -9 of an instance, of Redis or of Postgres, or
one of the servers is stopped for a second. The last phase has no faults. The resources that each
process uses are sampled every second.

The end of the last phase is compared with the end of the warm-up: what has grown is a leak. And
every acknowledged order must be a row.

Prints a table, writes soak.json, with all samples, and soak.png to var/bench; exit code 1 if a
check fails.

  SOAK_SHARE=0.7  of the peak; less on a machine that is also used for other things"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

import deploy
import harness
import plot

PLACE = "var/soak"
RESULTS = "var/bench"
SHARE = float(os.environ.get("SOAK_SHARE", "0.7")) # of the peak
MAXIMUM_S = 5
SLICE_S = 10 # each slice sells another voucher to the same shoppers
SHOPPERS = 600_000 # enough for a slice
CONNECTIONS = 128 # per client; the two largest clients together have as many as wrk
RETRY_AFTER_S = 1
CANCEL_EVERY_S = 0.05
FAULT_EVERY_S = 60
COMPLETE_WITHIN_S = 40 # the lock of a killed instance expires after 30 s

# The share of each client of a slice in the load. Two clients use keys: the second one sends the
# same requests with the same keys to the other instance.
PLAIN, KEYED = 0.45, 0.05
SOLD_OUT_OF = 10 # one of this number of requests is for a voucher that is sold out


# -- the sale --

class Sale:
    """The clients of all slices and their reports."""

    def __init__(self, program, deployment, per_s, slices):
        self.program, self.deployment, self.per_s = program, deployment, per_s
        self.sold_out = deploy.sold_out(deployment)
        self.vouchers = [deployment.service.create_voucher(f"slice {number}", deploy.STOCK)
                         for number in range(slices)]
        self.clients = []
        self.write_tokens()

    def write_tokens(self):
        """Write the tokens; each client has its own shoppers."""
        with open(f"{PLACE}/tokens") as tokens:
            lines = tokens.readlines()
        for number, share in enumerate((PLAIN, PLAIN, KEYED)):
            count = int(share * self.per_s * SLICE_S) + 10
            with open(f"{PLACE}/tokens.{number}", "w") as out:
                out.writelines(lines[:count])
            del lines[:count]

    def start(self, slice_number, instance, tokens, share, vouchers, *options):
        out = f"{PLACE}/slice.{slice_number}.{len(self.clients)}"
        with open(out, "w") as report:
            process = subprocess.Popen(
                [self.program, f"port={self.deployment.services[instance].port}",
                 f"rate={share * self.per_s}", f"seconds={SLICE_S}", f"connections={CONNECTIONS}",
                 f"tokens={PLACE}/tokens.{tokens}", f"vouchers={','.join(vouchers)}",
                 "arrivals=fixed", *options], stdin=subprocess.DEVNULL, stdout=report)
        self.clients.append((slice_number, process, out))

    def play(self, began, over):
        """Start the clients of each slice on time. Runs in a thread."""
        for number, voucher in enumerate(self.vouchers):
            if over.wait(max(0, began + number * SLICE_S - time.monotonic())):
                return
            mixed = [voucher] * (SOLD_OUT_OF - 1) + [self.sold_out]
            key = f"keys=s{number}-"
            self.start(number, 0, 0, PLAIN, mixed)
            self.start(number, 1, 1, PLAIN, mixed)
            self.start(number, 0, 2, KEYED, [voucher], key)
            if over.wait(RETRY_AFTER_S):
                return
            self.start(number, 1, 2, KEYED, [voucher], key)

    def end(self):
        """Kill the clients that still run."""
        for _, process, _ in self.clients:
            process.kill()
            process.wait()

    def reports(self):
        """The sums of the reports of each slice, with the latencies of the slowest client."""
        slices = [{} for _ in self.vouchers]
        for number, process, out in self.clients:
            if process.wait() != 0:
                raise harness.Failed(f"a client of slice {number} exited with code {process.returncode}")
            with open(out) as lines:
                report = json.load(lines)
            for name in ("offered", "201", "200", "409", "503", "other", "broken", "unanswered"):
                slices[number][name] = slices[number].get(name, 0) + report[name]
            for name in ("p50_us", "p99_us", "max_us"):
                slices[number][name] = max(slices[number].get(name, 0), report[name])
        for each in slices:
            each["unclear"] = each["503"] + each["other"] + each["broken"] + each["unanswered"]
        return slices

    def rows(self):
        """The number of rows of each slice."""
        return [int(count) for count in self.deployment.sql(
            "select string_agg(rows::text, '|' order by id) from (select v.id, (select count(*) "
            "from voucher_order o where o.voucher_id = v.id) as rows from voucher v "
            f"where v.id in ({','.join(self.vouchers)})) counted")]


class Canceller:
    """A shopper who repeatedly orders and cancels."""

    def __init__(self, deployment):
        self.service = deployment.services[1]
        self.voucher = deployment.service.create_voucher("cancelled", deploy.STOCK)
        self.token = self.service.token(2**41)
        self.counts = {"done": 0, "unclear": 0}

    def play(self, over):
        """Runs in a thread."""
        while not over.wait(CANCEL_EVERY_S):
            try:
                self.order_and_cancel()
            except (OSError, http.client.HTTPException):
                self.counts["unclear"] += 1

    def order_and_cancel(self):
        status, order = self.service.call("POST", f"/v1/vouchers/{self.voucher}/orders", self.token)
        number = order.get("id") or order.get("order_id")
        if status not in (201, 409) or not number:
            return # refused or unclear; the next request reports an existing order
        status, _ = self.service.call("POST", f"/v1/orders/{number}/cancel", self.token)
        self.counts["done" if status == 200 else "unclear"] += 1


# -- faults --

def kill_instance(deployment, _servers):
    """Kill the first instance; the second one runs until the end."""
    service = deployment.service
    service.process.kill()
    service.process.wait()
    service.start()


def kill_server(which):
    def fault(_site, servers):
        for verb in ("kill", "start"):
            harness.run(f"{harness.LOAD}/servers.sh", verb, servers.directory, which)
    return fault


def stop_server(which):
    def fault(_site, servers):
        harness.run(f"{harness.LOAD}/servers.sh", "pause", servers.directory, which)
        time.sleep(1) # the duration of the fault
        harness.run(f"{harness.LOAD}/servers.sh", "resume", servers.directory, which)
    return fault


FAULTS = (("kill -9 of an instance", kill_instance),
          ("Redis stopped for a second", stop_server("redis")),
          ("kill -9 of Postgres", kill_server("postgres")),
          ("kill -9 of Redis", kill_server("redis")),
          ("Postgres stopped for a second", stop_server("postgres")))


class Phases:
    """The warm-up, the faults, and the phase without faults, in seconds since the start. `early` and
    `late` are the windows that are compared."""

    def __init__(self, total_s):
        self.total_s = total_s
        self.warm_s = min(60, 0.2 * total_s)
        quiet_s = min(90, total_s / 3)
        self.quiet_at_s = total_s - quiet_s
        self.early = (self.warm_s / 2, self.warm_s)
        self.late = (total_s - quiet_s / 2, total_s)
        faults_s = self.quiet_at_s - self.warm_s
        count = max(len(FAULTS), int(faults_s / FAULT_EVERY_S))
        self.faults_at_s = [self.warm_s + faults_s * number / count for number in range(count)]


# -- samples --

def run_briefly(*command, env=None, text=None):
    """The output of a program; empty if it fails or takes 2 s, as the server may be stopped."""
    try:
        done = subprocess.run(command, env=env, input=text, capture_output=True, text=True,
                              timeout=2, check=False)
        return done.stdout if done.returncode == 0 else ""
    except subprocess.TimeoutExpired:
        return ""


class Sampler:
    def __init__(self, deployment, servers):
        self.deployment, self.servers = deployment, servers
        self.samples = []

    def play(self, began, over):
        """Take a sample every second. Runs in a thread."""
        while not over.wait(1 - (time.monotonic() - began) % 1):
            self.samples.append({"at_s": round(time.monotonic() - began, 2),
                                 "instances": [sample_instance(each) for each in self.deployment.services],
                                 "redis": self.redis(), "postgres": self.postgres()})

    def redis(self):
        output = run_briefly("redis-cli", "-p", self.servers.env["REDIS_PORT"],
                           env=dict(os.environ, REDISCLI_AUTH=self.servers.env["REDISCLI_AUTH"]),
                           text="info\neval \"return #redis.call('keys', 'lock:order:*')\" 0\n")
        info = dict(line.split(":", 1) for line in output.splitlines() if ":" in line)
        return {"clients": int(info["connected_clients"]), "bytes": int(info["used_memory"]),
                "locks": int(output.split()[-1])} if output else None

    def postgres(self):
        """Live orders are counted by the stock, which is quick; the audit compares it with the rows."""
        output = run_briefly(
            "psql", "-XAtq", self.deployment.owner_url, "-c", """select
            count(*), count(*) filter (where state <> 'idle'),
            (select sum(stock_total - stock_left) from voucher),
            pg_total_relation_size('voucher_order'), pg_total_relation_size('voucher'),
            (select sum(n_dead_tup) from pg_stat_user_tables)
            from pg_stat_activity where usename = 'seckill_service'""")
        names = ("connections", "active", "live_orders", "order_bytes", "voucher_bytes", "dead_rows")
        return dict(zip(names, map(int, output.strip().split("|")))) if output else None

    def within(self, window):
        return [each for each in self.samples if window[0] <= each["at_s"] <= window[1]]


def sample_instance(service):
    """A sample of an instance; None while it does not run."""
    try:
        pid = service.process.pid
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            kib = {line.split()[0]: int(line.split()[1]) for line in list(lines)[1:]}
        answers = {}
        for labels, value in service.metrics("seckill_http_requests_total"):
            status = labels.split('status="')[1][:3]
            answers[status] = answers.get(status, 0) + value
        return {"pid": pid, "rss_kib": kib["Rss:"], "pss_kib": kib["Pss:"],
                "heap_kib": kib["Anonymous:"], # does not change when another process ends
                "fds": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": len(os.listdir(f"/proc/{pid}/task")), "answers": answers,
                "in_flight": sum(value for _, value in service.metrics("seckill_in_flight"))}
    except (OSError, http.client.HTTPException):
        return None


# -- checks --

class Checks:
    def __init__(self, sampler, phases):
        self.sampler, self.phases = sampler, phases
        self.results = []

    def add(self, name, early, late, bound, met):
        self.results.append({"name": name, "early": early, "late": late, "bound": bound,
                            "met": bool(met)})

    def seen(self, window, look):
        """(at_s, value) of the samples with that value; a server that is down has none."""
        pairs = []
        for sample in self.sampler.within(window):
            with contextlib.suppress(TypeError):
                pairs.append((sample["at_s"], look(sample)))
        if len(pairs) < 2:
            raise harness.Failed("too few samples of the warm-up or of the last phase")
        return pairs

    def flat(self, name, look, at_most, unit="", of=statistics.median):
        """The late value may exceed the early one by `at_most`."""
        early, late = (of(value for _, value in self.seen(window, look))
                       for window in (self.phases.early, self.phases.late))
        self.add(name, round(early, 1), round(late, 1), f"+{at_most}{unit}", late - early <= at_most)

    def slope(self, name, look, at_most, unit):
        """The slope of the regression line in the phase without faults."""
        pairs = self.seen((self.phases.quiet_at_s, self.phases.total_s), look)
        line = statistics.linear_regression([at_s / 60 for at_s, _ in pairs],
                                            [value for _, value in pairs])
        self.add(name, "", round(line.slope, 2), f"{at_most} {unit}", line.slope <= at_most)

    def zero(self, name, count):
        """The count must become 0 after the end of the clients."""
        with contextlib.suppress(harness.Failed):
            harness.wait_for(f"there are no {name}", lambda: count() == 0, COMPLETE_WITHIN_S)
        self.add(name, "", count(), "0", count() == 0)


def check_flat(checks):
    for number in (0, 1):
        name = f"instance {number + 1}"
        # The minimum, because the clients of two slices overlap for some seconds.
        checks.flat(f"{name}: file descriptors", lambda s: s["instances"][number]["fds"], 4, of=min)
        checks.flat(f"{name}: threads", lambda s: s["instances"][number]["threads"], 0)
        checks.flat(f"{name}: memory",
                     lambda s: s["instances"][number]["heap_kib"] / 1024, 16, " MiB")
    checks.slope("instance 2: memory without faults",
                  lambda s: s["instances"][1]["heap_kib"] / 1024, 2, "MiB per minute")
    checks.flat("Redis: clients", lambda s: s["redis"]["clients"], 1)
    checks.flat("Redis: memory", lambda s: s["redis"]["bytes"] / 2**20, 4, " MiB")
    checks.flat("Postgres: connections", lambda s: s["postgres"]["connections"], 0)
    checks.flat("Postgres: size of table voucher",
                 lambda s: s["postgres"]["voucher_bytes"] / 2**20, 1, " MiB")
    checks.flat("Postgres: bytes per live order",
                 lambda s: s["postgres"]["order_bytes"] / s["postgres"]["live_orders"], 40)


def check_end(checks, deployment, sampler):
    checks.zero("orders in flight", lambda: int(deployment.in_flight()))
    checks.zero("transactions in progress", lambda: sampler.postgres()["active"])
    checks.zero("locks in Redis", lambda: sampler.redis()["locks"])
    try:
        deployment.service.command("audit")
        checks.add("seckill audit", "", "passed", "passed", True)
    except harness.Failed as failure:
        checks.add("seckill audit", "", str(failure), "passed", False)


def check_answers(checks, sale, slices, canceller):
    rows = sale.rows()
    for each, count in zip(slices, rows):
        each["rows"] = count
    lost = sum(max(0, each["201"] - each["rows"]) for each in slices)
    unrequested = sum(max(0, each["rows"] - each["201"] - each["unclear"]) for each in slices)
    checks.add("acknowledged orders without a row", "", lost, "0", lost == 0)
    checks.add("rows without a request", "", unrequested, "0", unrequested == 0)
    quiet = [each for number, each in enumerate(slices)
            if number * SLICE_S >= checks.phases.late[0]]
    unclear = sum(each["unclear"] for each in quiet)
    checks.add("unclear answers without faults", "", unclear, "0", unclear == 0)
    for answer, what in (("409", "refusals"), ("200", "repeated keys with their order")):
        count = sum(each[answer] for each in slices)
        checks.add(what, "", count, "some", count > 0)
    cancelled, = map(int, sale.deployment.sql("select count(*) from voucher_order where status = "
                                        f"'cancelled' and voucher_id = {canceller.voucher}"))
    done, unclear = canceller.counts["done"], canceller.counts["unclear"]
    checks.add("cancellations", done, cancelled, f"+{unclear} unclear",
                0 < done <= cancelled <= done + unclear)


def print_report(result):
    print(f"\n{result['machine']}\n{result['minutes']} min at {result['offered_per_s']:,} requests/s, "
          f"{SHARE:.0%} of {result['maximum_per_s']:,}; {len(result['faults'])} faults\n")
    slices = result["slices"]
    print(", ".join(f"{sum(each[name] for each in slices):,} {name}" for name in
                    ("offered", "201", "200", "409", "503", "other", "broken", "unanswered", "rows")))
    print(f"\n{'':46}{'warm-up':>12}{'end':>12}  limit")
    for check in result["checks"]:
        print(f"{check['name']:46}{check['early']:>12}{check['late']:>12}  {check['bound']}: "
              f"{'met' if check['met'] else 'MISSED'}")


# -- the whole test --

def play_faults(deployment, servers, phases, began):
    """Must run in the main thread: an instance ends with the thread that started it."""
    played = []
    for number, due_s in enumerate(phases.faults_at_s):
        time.sleep(max(0, began + due_s - time.monotonic()))
        what, fault = FAULTS[number % len(FAULTS)]
        at_s = time.monotonic() - began
        fault(deployment, servers)
        took_s = time.monotonic() - began - at_s
        played.append({"what": what, "at_s": round(at_s, 1), "took_s": round(took_s, 1)})
        print(f"after {at_s:.0f} s: {what}; all servers are back after {took_s:.1f} s", flush=True)
    return played


def play(sale, canceller, sampler, servers, phases):
    """Run the sale. Returns the faults."""
    over = threading.Event()
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        try:
            playing = [threads.submit(sale.play, began, over),
                       threads.submit(canceller.play, over),
                       threads.submit(sampler.play, began, over)]
            print(f"warm-up: {phases.warm_s:.0f} s", flush=True)
            time.sleep(phases.warm_s)
            print(f"faults: {phases.quiet_at_s - phases.warm_s:.0f} s", flush=True)
            faults = play_faults(sale.deployment, servers, phases, began)
            time.sleep(max(0, began + phases.quiet_at_s - time.monotonic()))
            print(f"no faults: {phases.total_s - phases.quiet_at_s:.0f} s", flush=True)
            time.sleep(max(0, began + phases.total_s - time.monotonic()))
        finally:
            over.set()
    for each in playing:
        each.result()
    return faults


def prepare(program, stack):
    """`stack` stops what was started, in reverse order."""
    servers = harness.Servers(f"{PLACE}/servers")
    stack.callback(shutil.rmtree, servers.directory)
    stack.callback(servers.down)
    servers.up()
    deploy.grow_buffers(servers)
    # So that the test includes checkpoints.
    harness.sql(servers.env["PG_SUPERUSER_URL"], "alter system set checkpoint_timeout = '1min'")
    harness.sql(servers.env["PG_SUPERUSER_URL"], "select pg_reload_conf()")
    deployment = deploy.Deployment(program, servers, harness.new_secret(), PLACE, "soak", stack,
                                   workers=1, instances=2)
    deployment.service.write_tokens(SHOPPERS, f"{PLACE}/tokens")
    shuffle(f"{PLACE}/tokens")
    return servers, deployment


def shuffle(path):
    with open(path) as lines:
        shuffled = lines.readlines()
    random.shuffle(shuffled)
    with open(path, "w") as out:
        out.writelines(shuffled)


def measure_maximum(deployment):
    """The peak rate after a checkpoint, of shoppers in random order who have old orders, as during
    most of the test."""
    for _ in range(2): # the first round creates the old orders

        harness.sql(deployment.superuser_url, "checkpoint")
        voucher = deployment.service.create_voucher("peak", deploy.STOCK)
        report = deployment.measure(MAXIMUM_S, [voucher], SHOPPERS, connections=2 * CONNECTIONS)
    deployment.empty()
    return report["created"] / report["seconds"]


def soak(program, client, minutes, stack):
    phases = Phases(60 * minutes)
    servers, deployment = prepare(program, stack)
    print("measuring the peak rate", flush=True)
    maximum_per_s = measure_maximum(deployment)
    sale = Sale(client, deployment, SHARE * maximum_per_s, phases.total_s // SLICE_S)
    stack.callback(sale.end)
    sampler, canceller = Sampler(deployment, servers), Canceller(deployment)
    with harness.keep_on_failure(f"{RESULTS}/soak-incomplete.json", sampler.samples):
        faults = play(sale, canceller, sampler, servers, phases)
    checks = Checks(sampler, phases)
    slices = sale.reports()
    check_flat(checks)
    check_end(checks, deployment, sampler)
    check_answers(checks, sale, slices, canceller)
    return {"machine": deploy.machine(), "durability": deploy.durability(deployment), "minutes": minutes,
            "maximum_per_s": round(maximum_per_s), "offered_per_s": round(sale.per_s),
            "faults": faults, "checks": checks.results, "slices": slices,
            "samples": sampler.samples}


def main():
    program, client = map(os.path.abspath, sys.argv[1:3])
    minutes = int(sys.argv[3]) if sys.argv[3].isdigit() else 0
    if not 1 <= minutes <= 600:
        sys.exit("make soak: MINUTES must be 1 to 600")
    shutil.rmtree(PLACE, ignore_errors=True)
    for place in (PLACE, RESULTS):
        os.makedirs(place, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        with contextlib.ExitStack() as stack:
            result = soak(program, client, minutes, stack)
    except harness.Failed as failure:
        sys.exit(f"make soak: {failure}")
    harness.write_json(f"{RESULTS}/soak.json", result)
    print_report(result)
    plot.draw("soak", RESULTS, plot.tables_of_soak(result))
    sys.exit(not all(check["met"] for check in result["checks"]))


if __name__ == "__main__": # the tests import this file
    main()
