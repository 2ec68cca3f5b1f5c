#!/usr/bin/env -S python3 -B
"""prove.py PROGRAM CHECKER [short|lab] - storms on the service, and what was answered held
against what the database holds.

Private servers; nginx before 1, 2 and 3 instances of the service; wrk plays the plan of each
scenario and writes down every request and its answer; the checker compares that with all rows.
`short`: two instances, smaller crowds. `lab`: each defect of load/lab is put into a database,
and must be caught. One verdict; exit code 0 when all is as it must be. What was played and
found stays in var/prove until the next run; the figures, but not the lab's, are in
result.json there, and index.html shows them."""

import collections
import contextlib
import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import harness
import plot
import deploy

PLACE = "var/prove"
THREADS = 2
CONNECTIONS = 128
LEASE_MS = 2000 # a shopper whose lock a killed instance held waits so long
SCENARIO_WITHIN_S = 60
BINS = 40 # of a scenario's timeline
PLENTY = 1_000_000
SECRET = harness.new_secret()

RULES = {
    "answers": "every answer belongs to one request, and is one that the scenario allows",
    "acknowledged": "every 201 is a row of that shopper, voucher and key, made meanwhile",
    "same_key": "every 200 is what the key made; who was told of it is told the same again",
    "stock": "no row beyond the stock at any moment; stock_left is what is left",
    "limit": "no shopper above the limit at any moment",
    "window": "no row outside of the sale's window",
    "sold_out": "sold_out only when no stock was left",
    "already_ordered": "already_ordered only when that order, and as many as allowed, lived",
    "in_progress": "order_in_progress only beside another request of the shopper",
    "clock": "not_started only before the opening, sale_ended only after the end",
    "changes": "every cancel and restock told as done was done; wrong_state only when it was",
    "requested": "nothing in the tables that nobody asked for, or was told otherwise",
    "audit": "`seckill audit` finds nothing",
}

UPSTREAM = "upstream seckill {{ {instances} keepalive 256; }}"
LOCATION = """proxy_pass http://seckill;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_read_timeout 20s;
            error_page 502 504 = @gone;
        }
        location @gone {
            add_header X-Request-Id $http_x_request_id always;
            return 502;"""


# -- a deployment: a database, instances, nginx --

class Deployment:
    def __init__(self, program, servers, count, stack, database="seckill", env=None):
        self.servers = servers
        self.owner_url = servers.env["PG_OWNER_URL"].rsplit("/", 1)[0] + "/" + database
        database_url = servers.env["SECKILL_DATABASE_URL"].rsplit("/", 1)[0] + "/" + database
        self.services = [harness.Service(program, harness.free_port(), {
            "SECKILL_DATABASE_URL": database_url,
            "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"],
            "SECKILL_JWT_SECRET": SECRET, "SECKILL_WORKERS": "1", "SECKILL_RATE_PER_USER": "0",
            "SECKILL_LOCK_LEASE_MS": str(LEASE_MS), **(env or {})},
            f"{PLACE}/seckill.{number}.log") for number in range(count)]
        self.services[0].migrate(self.owner_url)
        for service in self.services:
            stack.callback(service.stop)
            service.start()
        instances = "".join(f"server 127.0.0.1:{service.port} max_fails=0; "
                            for service in self.services)
        self.nginx = harness.Nginx(PLACE, 1, LOCATION, UPSTREAM.format(instances=instances))
        self.nginx.start()
        stack.callback(self.nginx.stop)

    def voucher(self, stock, **options):
        return self.services[0].create_voucher("proof", stock, **options)

    def sql(self, statement):
        return harness.sql(self.owner_url, statement)

    def empty(self):
        self.sql("truncate voucher, voucher_order, order_event, stock_event")

    def rows(self):
        return int(self.sql("select count(*) from voucher_order")[0])

    def settle(self):
        """Until nothing more can change: a server process outlives the instance it served."""
        harness.wait_for("all orders are answered", lambda: not any(
            value for service in self.services
            for _, value in service.metrics("seckill_in_flight")))
        harness.wait_for("no transaction is under way", lambda: self.sql(
            "select count(*) from pg_stat_activity where usename = 'seckill_service' "
            "and state <> 'idle'") == ["0"])
        harness.wait_for("all locks are free, or have lapsed", lambda: not self.locks())

    def locks(self):
        return harness.run("redis-cli", "-p", self.servers.env["REDIS_PORT"], "keys", "lock:order:*",
                         env=dict(os.environ, REDISCLI_AUTH=self.servers.env["REDISCLI_AUTH"]),
                         check=False).split()

    def write_table(self, path):
        """All rows, by no index: it may be what lies."""
        with open(path, "wb") as out:
            for what in (
                    "'voucher', id, unix_us(begin_at), unix_us(end_at), per_user_limit, stock_left "
                    "from voucher",
                    "'order', voucher_id, id, user_id, unix_us(created_at), "
                    "coalesce(request_key, '-') from voucher_order",
                    "'end', voucher_id, id, unix_us(at), order_id from order_event "
                    "where to_status >= 'cancelled'",
                    "'stock', voucher_id, id, unix_us(at), stock_change from stock_event"):
                subprocess.run(
                    ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c",
                     f"copy (select {what}) to stdout (delimiter ' ')", self.owner_url],
                    env=dict(os.environ, PGOPTIONS="-c enable_indexscan=off "
                             "-c enable_indexonlyscan=off -c enable_bitmapscan=off"),
                    stdout=out, check=True)

    # -- what can happen to it in the middle of a burst

    def kill_instance(self):
        service = self.services[0]
        service.process.kill()
        service.process.wait()
        service.start()

    def kill_redis(self):
        self.kill_server("redis")

    def kill_postgres(self):
        self.kill_server("postgres")
        if self.sql("select sum(stock_left) from voucher") == ["0"]:
            raise harness.Failed("Postgres was killed when all was sold")

    def kill_server(self, which):
        harness.run(f"{harness.LOAD}/servers.sh", "kill", self.servers.directory, which)
        harness.run(f"{harness.LOAD}/servers.sh", "start", self.servers.directory, which)


# -- the scenarios --
#
# Each takes the deployment and how large a crowd is, makes its vouchers, and returns what is to be
# asked, in order. Neighbours in the list go to different threads of wrk.

def ask(shopper, voucher, key="-", follow="-"):
    return f"order {shopper} {voucher} {key} {follow}"


def every_other_key(shopper):
    return f"k{shopper}" if shopper % 2 else "-"


def opening(deployment, size):
    """All are there before it opens and ask until it does; it is sold out at once."""
    voucher = deployment.voucher(size // 50, begin_in_s=3)
    return [ask(each, voucher, every_other_key(each)) for each in range(1, size // 4)]


def closing(deployment, size):
    """Orders that flow evenly, until the sale ends and beyond."""
    voucher = deployment.voucher(PLENTY, end_in_s=3)
    return [ask(each, voucher, every_other_key(each)) for each in range(1, size)]


def burst(deployment, size):
    """A hundred shoppers for each piece."""
    voucher = deployment.voucher(size // 100)
    return [ask(each, voucher, every_other_key(each)) for each in range(1, size)]


def again(deployment, size):
    """The same shoppers again and again, half of them at once on two connections."""
    voucher = deployment.voucher(size // 5)
    return [ask(each, voucher, f"k{each}" if each % 3 else "-", "twice" if each % 2 else "again")
            for each in range(1, size // 4)]


def hundred(deployment, size):
    """A hundred vouchers, one or three for each shopper, who wants eight at random."""
    vouchers = [deployment.voucher(size // 200, limit=1 if number % 2 else 3) for number in range(100)]
    return [ask(each, random.choice(vouchers), f"k{number}.{each}" if each % 2 else "-")
            for number in range(8) for each in random.sample(range(1, size // 8), size // 8 - 1)]


def cancels(deployment, size):
    """Every other order is cancelled, by two requests at once; stock is added meanwhile."""
    voucher = deployment.voucher(size // 100)
    asks = [ask(each, voucher, f"k{number}.{each}", "cancel" if each % 2 else "-")
            for number in range(3) for each in random.sample(range(1, size // 4), size // 4 - 1)]
    for place in range(0, len(asks), 100):
        asks.insert(place, f"restock 0 {voucher} {1 + place % 7} -")
    return asks


def refusals(deployment, size):
    """Sold out, and asked for all the same."""
    voucher = deployment.voucher(1)
    return [ask(random.randrange(1, size), voucher, f"k{number}" if number % 4 == 0 else "-")
            for number in range(3 * size)]


def crash(deployment, size):
    """Something is killed when an eighth is ordered; who got no clear answer asks again."""
    voucher = deployment.voucher(size * 3 // 4)
    return [ask(each, voucher, f"k{each}" if each % 3 else "-") for each in range(1, size)]


class Scenario:
    """`must` are answers without which the scenario has not done what it is for; its requests
    come as fast as may be, or evenly over some seconds."""

    def __init__(self, name, asks, must, fault=None, seconds=0):
        self.name, self.asks, self.must = name, asks, set(must.split())
        self.fault, self.seconds = fault, seconds


AGAIN = Scenario("again", again, "PLACED REPEATED ALREADY_ORDERED IN_PROGRESS SOLD_OUT")
KILL_POSTGRES = Scenario("kill postgres", crash, "PLACED", fault=Deployment.kill_postgres, seconds=2)
SCENARIOS = [
    Scenario("opening", opening, "NOT_STARTED PLACED SOLD_OUT"),
    Scenario("closing", closing, "PLACED SALE_ENDED", seconds=5),
    Scenario("burst", burst, "PLACED SOLD_OUT"),
    AGAIN,
    Scenario("hundred", hundred, "PLACED ALREADY_ORDERED SOLD_OUT"),
    Scenario("cancels", cancels, "PLACED DONE WRONG_STATE SOLD_OUT"),
    Scenario("refusals", refusals, "SOLD_OUT"),
    Scenario("kill instance", crash, "PLACED UNCLEAR", fault=Deployment.kill_instance),
    Scenario("kill redis", crash, "PLACED UNCLEAR", fault=Deployment.kill_redis, seconds=2),
    KILL_POSTGRES,
]


# -- to play a scenario, and judge it --

def write_plan(place, asks):
    for thread in range(THREADS):
        with open(f"{place}/plan.{thread}", "w") as out:
            out.writelines(line + "\n" for line in asks[thread::THREADS])


def play(deployment, scenario, asks, place):
    """wrk runs until all threads are done, and is then interrupted: its own end is a time.
    Returns when something was killed and when it was back, in us since 1970."""
    write_plan(place, asks)
    down_us = []
    pace_ms = scenario.seconds * 1000 * CONNECTIONS // len(asks)
    with open(f"{place}/wrk.log", "wb") as log:
        wrk = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", "-d1h",
             "-s", f"{harness.LOAD}/history.lua", f"http://127.0.0.1:{deployment.nginx.port}", "--",
             f"tokens={PLACE}/tokens", f"place={place}", f"pace_ms={pace_ms}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        if scenario.fault:
            eighth = len(asks) // 8
            harness.wait_for("an eighth is ordered", lambda: deployment.rows() >= eighth, SCENARIO_WITHIN_S)
            down_us.append(time.time_ns() // 1000)
            scenario.fault(deployment)
            down_us.append(time.time_ns() // 1000)
        harness.wait_for(f"the scenario is over ({place})", lambda: wrk.poll() is not None or all(
            os.path.exists(f"{place}/done.{thread}") for thread in range(THREADS)), SCENARIO_WITHIN_S)
        if wrk.poll() is not None:
            raise harness.Failed(f"wrk has ended, see {place}/wrk.log")
    finally:
        wrk.send_signal(signal.SIGINT)
        wrk.wait()
    deployment.settle()
    return down_us


class Verdict:
    """What the checker found: answers by kind; of each rule how often it was looked at and
    broken; the offenders, as text."""

    def __init__(self):
        self.answers = collections.Counter()
        self.looked = collections.Counter()
        self.broken = collections.Counter()
        self.offenders = ""
        self.lines = 0
        self.down_us = []

    def add(self, other):
        self.answers += other.answers
        self.looked += other.looked
        self.broken += other.broken
        self.lines += other.lines


def check(checker, deployment, scenario, place):
    deployment.write_table(f"{place}/table")
    faults = ["--faults"] if scenario.fault else []
    done = subprocess.run(
        [checker, *faults, f"{place}/table"] + [f"{place}/history.{n}" for n in range(THREADS)],
        capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise harness.Failed(f"the checker could not tell: {done.stderr}")
    verdict = Verdict()
    verdict.offenders = done.stderr
    for what, *rest in map(str.split, done.stdout.splitlines()):
        if what == "answer":
            verdict.answers[rest[0]] = int(rest[1])
        elif what == "rule":
            verdict.looked[rest[0]], verdict.broken[rest[0]] = int(rest[1]), int(rest[2])
        else:
            verdict.lines = int(rest[0])
    audit(deployment, verdict)
    return verdict


def audit(deployment, verdict):
    verdict.looked["audit"] = 1
    try:
        deployment.services[0].command("audit")
    except harness.Failed:
        verdict.broken["audit"] = 1
        told = deployment.services[0].command("audit", check=False).splitlines()
        verdict.offenders += "".join(f"  audit: {line}\n" for line in told[:4])


def run_scenario(checker, deployment, scenario, size, place):
    """Empty tables, a scenario, its verdict, and how long it took."""
    os.makedirs(place)
    deployment.empty()
    began = time.monotonic()
    down_us = play(deployment, scenario, scenario.asks(deployment, size), place)
    verdict = check(checker, deployment, scenario, place)
    verdict.down_us = down_us
    return verdict, time.monotonic() - began


# -- the result --

KINDS = {"201": "placed", "200": "done", "4": "refused", "5": "failed"} # by status


def read_timeline(place, down_us):
    """Answers by kind, counted in bins of the time from the first request to the last event."""
    seen_us, answers = [], []
    for thread in range(THREADS):
        with open(f"{place}/history.{thread}") as history:
            for line in history:
                mark, _, time_us, status, _ = line.split(" ", 4)
                seen_us.append(int(time_us))
                if mark == "<":
                    kind = KINDS.get(status) or KINDS.get(status[0], "failed")
                    answers.append((int(time_us), kind))
    began_us = min(seen_us)
    played_us = max(seen_us) - began_us + 1
    bins = {kind: [0] * BINS for kind in KINDS.values()}
    for time_us, kind in answers:
        bins[kind][BINS * (time_us - began_us) // played_us] += 1
    return {"played_s": played_us / 1e6, "bin_s": played_us / 1e6 / BINS, "answers": bins,
            "down_s": [(each - began_us) / 1e6 for each in down_us]}


def judge(looked, broken):
    return "broken" if broken else "holds" if looked else "not looked at"


def list_rules(verdict):
    return [{"rule": rule, "checked": verdict.looked[rule], "broken": verdict.broken[rule],
             "verdict": judge(verdict.looked[rule], verdict.broken[rule])} for rule in RULES]


def scenario_result(instances, scenario, verdict, missing, seconds, place):
    timeline = read_timeline(place, verdict.down_us)
    requests = sum(verdict.answers.values())
    return {"stage": scenario.name, "instances": instances, "fault": bool(scenario.fault),
            "requests": requests, "requests_per_s": round(requests / timeline["played_s"]),
            "seconds": round(seconds, 2), "answers": dict(verdict.answers),
            "rules": list_rules(verdict), "missing": sorted(missing),
            "verdict": "broken" if +verdict.broken else "incomplete" if missing else "holds",
            "timeline": timeline}


def describe(program, deployment):
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "machine": deploy.machine(), "durability": deploy.durability(deployment),
            "versions": {"seckill": harness.version(program, "version"),
                         "nginx": harness.version(harness.find_nginx(), "-v"),
                         "wrk": harness.version("wrk", "-v"),
                         "postgres": deployment.sql("show server_version")[0].split()[0],
                         "redis": harness.version("redis-server", "--version")}}


# -- all of it --

LINE = "{:<10} {:<14} {:>8} {:>7} {:>7} {:>8} {:>7} {:>6}  {}"


def scenario_line(instances, scenario, verdict, missing, seconds):
    answers = verdict.answers
    asked, unclear = sum(answers.values()), count_unclear(verdict)
    refused = asked - unclear - answers["PLACED"] - answers["REPEATED"] - answers["DONE"]
    told = "broken" if +verdict.broken else "ok"
    if missing:
        told += f", but without {' '.join(sorted(missing))}"
    if +verdict.broken:
        told += "\n" + verdict.offenders
    return LINE.format(instances, scenario.name, asked, answers["PLACED"], answers["REPEATED"],
                       refused, unclear, f"{seconds:.1f}", told)


def count_unclear(verdict):
    return verdict.answers["UNKNOWN"] + verdict.answers["NOT_DONE"]


def find_missing(scenario, verdict):
    return scenario.must - set(+verdict.answers) - ({"UNCLEAR"} if count_unclear(verdict) else set())


def print_verdict(total):
    print(f"\n{'looked at':>10} {'broken':>7}  rule")
    for rule, sentence in RULES.items():
        print(f"{total.looked[rule]:>10,} {total.broken[rule]:>7,}  {sentence}")


def prove(program, checker, servers, scenarios, counts, size, result):
    """All scenarios with each number of instances; what is found goes to `result`."""
    total = Verdict()
    print(LINE.format("instances", "scenario", "asked", "placed", "again", "refused", "unclear", "s",
                      "verdict"), flush=True)
    for count in counts:
        with contextlib.ExitStack() as stack:
            deployment = Deployment(program, servers, count, stack)
            result.update(describe(program, deployment))
            for scenario in scenarios:
                place = f"{PLACE}/{count}.{scenario.name.replace(' ', '_')}"
                verdict, seconds = run_scenario(checker, deployment, scenario, size, place)
                missing = find_missing(scenario, verdict)
                print(scenario_line(count, scenario, verdict, missing, seconds), flush=True)
                result["stages"].append(scenario_result(count, scenario, verdict, missing, seconds, place))
                total.add(verdict)
    print_verdict(total)
    result["rules"] = [dict(each, sentence=RULES[each["rule"]]) for each in list_rules(total)]
    if +total.broken:
        raise harness.Failed("a rule is broken, see above; the histories are in " + PLACE)
    if any(each["missing"] for each in result["stages"]):
        raise harness.Failed("a scenario did not do what it is for")


# -- the lab --

class Defect:
    """load/lab/NAME.sql spoils the order path; the scenario must then break the rule."""

    def __init__(self, name, rule, scenario, without_redis=False):
        self.name, self.rule, self.scenario, self.without_redis = name, rule, scenario, without_redis


def crowd(deployment, size):
    """Some more than there are pieces, which take many transactions."""
    voucher = deployment.voucher(size // 2)
    return [ask(each, voucher, every_other_key(each)) for each in range(1, size)]


CROWD = Scenario("crowd", crowd, "")
LAB = [
    Defect("oversell", "stock", CROWD),
    Defect("duplicate", "limit", AGAIN, without_redis=True),
    Defect("early_answer", "acknowledged", KILL_POSTGRES),
    Defect("false_refusal", "sold_out", CROWD),
    Defect("unreported_order", "requested", CROWD),
]


def try_defect(program, checker, servers, defect, size):
    superuser = servers.env["PG_SUPERUSER_URL"]
    harness.sql(superuser, f"create database {defect.name} owner seckill")
    with contextlib.ExitStack() as stack:
        deployment = Deployment(program, servers, 2, stack, defect.name, {"SECKILL_REDIS_DOWN": "bypass"})
        harness.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", f"{harness.LOAD}/lab/{defect.name}.sql",
                  superuser.rsplit("/", 1)[0] + "/" + defect.name)
        if defect.without_redis:
            harness.run(f"{harness.LOAD}/servers.sh", "stop", servers.directory, "redis")
            stack.callback(harness.run, f"{harness.LOAD}/servers.sh", "start", servers.directory, "redis")
        verdict, seconds = run_scenario(checker, deployment, defect.scenario, size, f"{PLACE}/{defect.name}")
    is_caught = verdict.broken[defect.rule] > 0
    print(f"{defect.name}: {verdict.broken[defect.rule]} times against \"{RULES[defect.rule]}\" "
          f"({seconds:.1f} s): {'caught' if is_caught else 'NOT CAUGHT'}\n{verdict.offenders}",
          flush=True)
    return is_caught


def prove_lab(program, checker, servers, size):
    missed = [defect.name for defect in LAB
              if not try_defect(program, checker, servers, defect, size)]
    if missed:
        raise harness.Failed(f"not caught: {', '.join(missed)}")
    print(f"all {len(LAB)} defects were caught")


def write_tokens(program, count):
    """The admin's, and those of shoppers 1..count."""
    maker = harness.Service(program, 0, {"SECKILL_JWT_SECRET": SECRET}, os.devnull)
    maker.write_tokens(count, f"{PLACE}/tokens.shoppers")
    with open(f"{PLACE}/tokens", "w") as out, open(f"{PLACE}/tokens.shoppers") as shoppers:
        out.write(maker.token(1, "admin") + "\n")
        out.writelines(shoppers)


def prove_or_tell(program, checker, servers, counts, size):
    """The proof; whatever comes of it is in result.json and on the page."""
    result = {"verdict": "not finished", "stages": [], "rules": []}
    began = time.monotonic()
    try:
        prove(program, checker, servers, SCENARIOS, counts, size, result)
        result["verdict"] = "holds"
    except harness.Failed as failure:
        result["verdict"] = str(failure)
        raise
    finally:
        result["seconds"] = round(time.monotonic() - began)
        harness.write_json(f"{PLACE}/result.json", result)
        if result["stages"]:
            plot.draw("prove", PLACE, plot.tables_of_prove(result))


def main():
    program, checker = map(os.path.abspath, sys.argv[1:3])
    mode = sys.argv[3] if len(sys.argv) > 3 else "full"
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    random.seed(1)
    began = time.monotonic()
    try:
        with contextlib.ExitStack() as stack:
            servers = harness.Servers(f"{PLACE}/servers")
            stack.callback(servers.down)
            servers.up()
            size = 16000 if mode == "full" else 4000
            write_tokens(program, size)
            if mode == "lab":
                prove_lab(program, checker, servers, size)
            else:
                prove_or_tell(program, checker, servers, (1, 2, 3) if mode == "full" else (2,), size)
    except harness.Failed as failure:
        sys.exit(f"prove: {failure}")
    print(f"{time.monotonic() - began:.0f} s")


main()
