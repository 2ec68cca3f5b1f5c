#!/usr/bin/env -S python3 -B
"""prove.py PROGRAM CHECKER [full|short|restart|standby|lab [DELAY_MS]] - run load scenarios with and without
crashes, and compare every answer with the database.

Starts private servers, and nginx in front of 1, 2 and 3 instances of the service. In each scenario, wrk
sends the requests of a plan and logs every request and answer. Then the checker compares the logs with
all rows.

  short    two instances, fewer shoppers
  restart  a rolling restart of four instances
  standby  Postgres has a synchronous standby. The standby is paused for longer than the order timeout, is
           killed and started again, and is promoted when the primary is killed. Then the answers are
           compared with the rows of the standby. The service finds it: its database URL names both servers
  lab      installs each defect of load/lab in a database, in turn; the checker must detect each of them

DELAY_MS: slow_disk.so beside PROGRAM makes each flush of the WAL take this much longer. Exit code 0: there
was no violation. The logs stay in var/prove until the next run."""

import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import deploy
import harness
import pair

PLACE = "var/prove-lab" if "lab" in sys.argv else "var/prove" # both may run at once
THREADS = 2
CONNECTIONS = 128
LEASE_MS = 6000 # a lock of a killed instance blocks its shopper that long; longer than an order may take
SCENARIO_WITHIN_S = 300
SLOWEST_S = 20 # longest duration of a scenario that is repeated because its fault came too late
ROUNDS = 10 # how often a scenario that ends after its fault can repeat its orders
TAKES_PART = 500 # requests
PLENTY = 1_000_000
STANDBY_STOPS_S = 7 # longer than SECKILL_ORDER_TIMEOUT_MS

RULES = {
    "answers": "every answer belongs to one request and is expected in the scenario",
    "acknowledged": "every 201 is a row of that shopper, voucher and key, created during the request",
    "same_key": "every 200 is the order of its key; later answers for the key name the same order",
    "stock": "never more live orders than stock; stock_left is correct",
    "limit": "no shopper ever has more live orders than the limit",
    "window": "no row was created outside the sale window, or for a lottery before its end",
    "sold_out": "sold_out only while no stock was left",
    "already_ordered": "already_ordered only while that order is live and the limit is reached",
    "in_progress": "order_in_progress only during another request of the shopper",
    "clock": "not_started only before the sale, sale_ended only after it, no new entry after it",
    "entries": "every 202 has one entry; every entry is explained by a request that was not refused",
    "draw": "as many entries win as there is stock; each of them, and no other, gets one order",
    "verified": "`seckill-verify-draw` passed with the commitment from before the draw, and names the same winners",
    "changes": "every acknowledged cancel and restock is recorded; wrong_state only for such a state",
    "requested": "every row and change is explained by a request that was not refused",
    "audit": "`seckill audit` passed",
    "restart": "while instances restart, no outcome is unknown and no connection breaks",
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


# -- the sale: a database, instances, nginx --

class TooLate(harness.Failed):
    """The fault came after the orders, so the scenario tested nothing."""


class Sale(deploy.Deployment):
    """Instances of the service behind nginx."""

    def __init__(self, program, servers, place, stack, defect=None, **options):
        """load/lab/DEFECT.sql is installed before an instance connects."""
        self.defect = defect
        self.standby = None # its servers
        self.commitments = {} # of the lotteries, by voucher
        super().__init__(program, servers, place, stack, SECKILL_LOCK_LEASE_MS=str(LEASE_MS), **options)
        upstream = "".join(f"server 127.0.0.1:{service.port} max_fails=0; " for service in self.services)
        self.nginx = harness.Nginx(place, 1, LOCATION, UPSTREAM.format(instances=upstream))
        self.nginx.start()
        stack.callback(self.nginx.stop)

    def prepare(self):
        if self.defect:
            harness.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", f"{harness.LOAD}/lab/{self.defect}.sql", self.superuser_url)

    def empty(self):
        super().empty()
        self.commitments = {}

    def lottery(self, stock):
        voucher = self.voucher(stock, admission="lottery")
        self.commitments[voucher] = self.service.call("GET", f"/v1/vouchers/{voucher}")[1]["commitment"]
        return voucher

    def answered_by_first(self):
        """The number of requests that the first instance has answered since its start."""
        return sum(value for _, value in self.service.metrics("seckill_http_requests_total"))

    def rows(self):
        return int(self.sql("select (select count(*) from voucher_order) + (select count(*) from lottery_entry)")[0])

    def wait_until_idle(self):
        """A Postgres process may still run a transaction of a killed instance."""
        harness.wait_for("all orders are answered", lambda: self.in_flight() == 0)
        harness.wait_for("no transaction is in progress", lambda: self.sql(
            "select count(*) from pg_stat_activity where usename = 'seckill_service' "
            "and state <> 'idle'") == ["0"])
        harness.wait_for("all locks are released or expired", lambda: not self.servers.redis(
            "keys", "lock:order:*", check=False).split())

    def write_table(self, path):
        """Write all rows. They are read without an index, because an index may be corrupt."""
        with open(path, "wb") as out:
            for what in (
                    "'voucher', id, unix_us(begin_at), unix_us(end_at), per_user_limit, stock_left "
                    "from voucher",
                    "'order', voucher_id, id, user_id, unix_us(created_at), "
                    "coalesce(request_key, '-') from voucher_order",
                    "'end', voucher_id, id, unix_us(at), order_id from order_event "
                    "where to_status >= 'cancelled'",
                    "'stock', voucher_id, id, unix_us(at), stock_change from stock_event where detail is null",
                    "'entry', e.voucher_id, e.user_id, (e.rank <= l.last_rank)::integer "
                    "from lottery_entry e join lottery l on l.voucher_id = e.voucher_id"):
                subprocess.run(
                    ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c",
                     f"copy (select {what}) to stdout (delimiter ' ')", self.owner_url],
                    env=dict(os.environ, PGOPTIONS="-c enable_indexscan=off "
                             "-c enable_indexonlyscan=off -c enable_bitmapscan=off"),
                    stdout=out, check=True)

    # -- faults

    def kill_instance(self):
        self.service.process.kill()
        self.service.process.wait()
        self.service.start()

    def kill_and_draw(self):
        """Kill an instance, then end the sale of the lotteries. Shoppers still enter during the draw."""
        self.kill_instance()
        for voucher in self.commitments:
            harness.expect("the end of the lottery", self.service.call(
                "PATCH", f"/v1/vouchers/{voucher}", self.service.admin, {"end_at": harness.moment(2)})[0], 200)
        harness.wait_for("the lotteries are drawn", lambda: self.sql(
            "select count(*) from lottery where draw_at is not null") == ["0"])

    def restart_instances(self):
        """Restart the instances one after the other, as an upgrade does."""
        for service in self.services:
            service.stop()
            service.start()

    def kill_server(self, which):
        self.servers.do("kill", which)
        self.servers.do("start", which)

    def kill_redis(self):
        self.kill_server("redis")

    def kill_postgres(self):
        self.kill_server("postgres")
        self.must_have_stock()

    def must_have_stock(self):
        if self.sql("select sum(stock_left) from voucher") == ["0"]:
            raise TooLate("Postgres was killed after the voucher was sold out")

    def stop_standby(self):
        self.standby.do("pause", "postgres")
        time.sleep(STANDBY_STOPS_S)
        self.standby.do("resume", "postgres")

    def kill_standby(self):
        self.standby.do("kill", "postgres")
        self.standby.do("start", "postgres")

    def fail_over(self):
        self.servers.do("kill", "postgres")
        pair.promote(self.standby)
        self.owner_url = self.standby.url("owner")
        self.must_have_stock()


# -- the scenarios --
#
# Each function takes the deployment and the number of shoppers, creates vouchers and returns the
# requests in order. Adjacent requests go to different threads of wrk.

def order(shopper, voucher, key="-", follow="-"):
    return f"order {shopper} {voucher} {key} {follow}"


def every_other_key(shopper):
    return f"k{shopper}" if shopper % 2 else "-"


def opening(deployment, size):
    """Shoppers repeat their requests until the sale opens; it is sold out at once."""
    voucher = deployment.voucher(size // 50, begin_in_s=6)
    return [order(each, voucher, every_other_key(each)) for each in range(1, size // 4)]


def closing(deployment, size):
    """A constant rate of orders until after the end of the sale."""
    voucher = deployment.voucher(PLENTY, end_in_s=6)
    return [order(each, voucher, every_other_key(each)) for each in range(1, size)]


def burst(deployment, size):
    """One hundred shoppers per piece."""
    voucher = deployment.voucher(size // 100)
    return [order(each, voucher, every_other_key(each)) for each in range(1, size)]


def repeats(deployment, size):
    """Each shopper orders several times, half of them on two connections at once."""
    voucher = deployment.voucher(size // 5)
    return [order(each, voucher, f"k{each}" if each % 3 else "-", "twice" if each % 2 else "again")
            for each in range(1, size // 4)]


def vouchers(deployment, size):
    """One hundred vouchers with a limit of one or three; each shopper orders eight at random."""
    on_sale = [deployment.voucher(size // 200, limit=1 if number % 2 else 3) for number in range(100)]
    return [order(each, random.choice(on_sale), f"k{number}.{each}" if each % 2 else "-")
            for number in range(8) for each in random.sample(range(1, size // 8), size // 8 - 1)]


def cancels(deployment, size):
    """Every other order is cancelled by two requests at once, while stock is added."""
    voucher = deployment.voucher(size // 100)
    requests = [order(each, voucher, f"k{number}.{each}", "cancel" if each % 2 else "-")
            for number in range(3) for each in random.sample(range(1, size // 4), size // 4 - 1)]
    for place in range(0, len(requests), 100):
        requests.insert(place, f"restock 0 {voucher} {1 + place % 7} -")
    return requests


def refusals(deployment, size):
    """Orders for a voucher that is sold out."""
    voucher = deployment.voucher(1)
    return [order(random.randrange(1, size), voucher, f"k{number}" if number % 4 == 0 else "-")
            for number in range(3 * size)]


def crash(deployment, size):
    """A process is killed after an eighth of the orders; clients repeat unclear requests."""
    voucher = deployment.voucher(size * 3 // 4)
    return [order(each, voucher, f"k{each}" if each % 3 else "-") for each in range(1, size)]


def busy_crash(deployment, size):
    """Like `crash` at full speed: all shoppers repeat their orders until the fault is over."""
    return ROUNDS * crash(deployment, size)


def lottery(deployment, size):
    """All shoppers enter a lottery, and repeat this until it is drawn, some of them on two connections at once."""
    voucher = deployment.lottery(size // 4)
    return ROUNDS * [order(each, voucher, every_other_key(each), "twice" if each % 5 == 0 else "-")
                     for each in range(1, size)]


class Scenario:
    """`make_requests` returns the requests. `expected`: answers that must occur, because otherwise the scenario
    has tested nothing. The requests are sent at full speed, or evenly over `seconds`. With `is_clear` no
    answer may leave an outcome unknown. With `ends_after_fault` the plan ends when the first instance has
    answered requests again after the fault."""

    def __init__(self, name, make_requests, expected, fault=None, seconds=0, is_clear=False, ends_after_fault=False):
        self.name, self.make_requests, self.expected = name, make_requests, set(expected.split())
        self.fault, self.seconds, self.is_clear, self.ends_after_fault = fault, seconds, is_clear, ends_after_fault


REPEATS = Scenario("repeats", repeats, "PLACED REPEATED ALREADY_ORDERED IN_PROGRESS SOLD_OUT")
LOTTERY = Scenario("lottery", lottery, "ENTERED UNCLEAR", fault=Sale.kill_and_draw, ends_after_fault=True)
KILL_POSTGRES = Scenario("kill postgres", crash, "PLACED", fault=Sale.kill_postgres, seconds=2)
SCENARIOS = [
    Scenario("opening", opening, "NOT_STARTED PLACED SOLD_OUT"),
    Scenario("closing", closing, "PLACED SALE_ENDED", seconds=8),
    Scenario("burst", burst, "PLACED SOLD_OUT"),
    REPEATS,
    Scenario("vouchers", vouchers, "PLACED ALREADY_ORDERED SOLD_OUT"),
    Scenario("cancels", cancels, "PLACED DONE WRONG_STATE SOLD_OUT"),
    Scenario("refusals", refusals, "SOLD_OUT"),
    Scenario("kill instance", busy_crash, "PLACED UNCLEAR", fault=Sale.kill_instance, ends_after_fault=True),
    Scenario("kill redis", crash, "PLACED UNCLEAR", fault=Sale.kill_redis, seconds=5),
    KILL_POSTGRES,
    LOTTERY,
]
RESTART = Scenario("restart", crash, "PLACED", fault=Sale.restart_instances, seconds=8, is_clear=True)
# The last of these faults leaves the primary without a standby.
STANDBY = [
    Scenario("standby stopped", crash, "PLACED UNCLEAR", fault=Sale.stop_standby, seconds=6),
    Scenario("standby killed", crash, "PLACED", fault=Sale.kill_standby, seconds=6),
    Scenario("primary killed", crash, "PLACED", fault=Sale.fail_over, seconds=6),
]
# The scenarios with each number of instances.
RUNS = {"full": [(count, SCENARIOS) for count in (1, 2, 3)] + [(4, [RESTART])],
        "short": [(2, SCENARIOS), (4, [RESTART])], "restart": [(4, [RESTART])], "standby": [(2, STANDBY)]}


# -- running a scenario --

def write_plan(place, requests):
    for thread in range(THREADS):
        with open(f"{place}/plan.{thread}", "w") as out:
            out.writelines(line + "\n" for line in requests[thread::THREADS])


def is_complete(place):
    return all(os.path.exists(f"{place}/done.{thread}") for thread in range(THREADS))


@contextlib.contextmanager
def load(deployment, requests, place, seconds):
    """Send the requests with wrk. Wait until all threads of wrk are done. Then interrupt wrk, because by itself
    it ends only after a given time."""
    write_plan(place, requests)
    pace_ms = int(seconds * 1000) * CONNECTIONS // len(requests)
    with open(f"{place}/wrk.log", "wb") as log:
        wrk = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", "-d1h",
             "-s", f"{harness.LOAD}/history.lua", f"http://127.0.0.1:{deployment.nginx.port}", "--",
             f"tokens={deployment.place}/tokens", f"place={place}", f"pace_ms={pace_ms}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
        harness.wait_for(f"the scenario is complete ({place})",
                         lambda: wrk.poll() is not None or is_complete(place), SCENARIO_WITHIN_S)
        if wrk.poll() is not None:
            raise harness.Failed(f"wrk exited, see {place}/wrk.log")
    finally:
        wrk.send_signal(signal.SIGINT)
        wrk.wait()
    deployment.wait_until_idle()


def play(deployment, scenario, requests, place, seconds):
    with load(deployment, requests, place, seconds):
        if scenario.fault:
            eighth = len(set(requests)) // 8
            harness.wait_for("an eighth of the orders is placed", lambda: deployment.rows() >= eighth, SCENARIO_WITHIN_S)
            scenario.fault(deployment)
        if scenario.ends_after_fault:
            harness.wait_for("the first instance takes part again", lambda: is_complete(place)
                             or deployment.answered_by_first() > TAKES_PART, SCENARIO_WITHIN_S)
            open(f"{place}/stop", "w").close()


class Findings:
    """The results of the checker: answers by kind; how often each rule was checked and violated;
    the first violations as text."""

    def __init__(self):
        self.answers = collections.Counter()
        self.checked = collections.Counter()
        self.violated = collections.Counter()
        self.violations = ""

    def add(self, other):
        self.checked += other.checked
        self.violated += other.violated


def check(checker, deployment, has_faults, place):
    deployment.write_table(f"{place}/table")
    done = subprocess.run([checker, *["--faults"] * has_faults, f"{place}/table",
                           *(f"{place}/history.{n}" for n in range(THREADS))],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise harness.Failed(f"the checker failed: {done.stderr}")
    findings = Findings()
    findings.violations = done.stderr
    for what, name, *counts in map(str.split, done.stdout.splitlines()):
        if what == "answer":
            findings.answers[name] = int(counts[0])
        else:
            findings.checked[name], findings.violated[name] = map(int, counts)
    audit(deployment, findings)
    for voucher, commitment in deployment.commitments.items():
        verify_draw(deployment, voucher, commitment, findings)
    return findings


def audit(deployment, findings):
    findings.checked["audit"] = 1
    try:
        deployment.services[0].command("audit")
    except harness.Failed:
        findings.violated["audit"] = 1
        lines = deployment.services[0].command("audit", check=False).splitlines()
        findings.violations += "".join(f"  audit: {line}\n" for line in lines[:4])


def verify_draw(deployment, voucher, commitment, findings):
    """Verify a draw as any shopper can. Of every 40th shopper, compare the result with the orders."""
    service = deployment.services[0]
    results = dict(harness.rows(deployment.owner_url, f"""
        select e.user_id, case when count(o) = 1 then 'won' else 'lost' end
        from lottery_entry e left join voucher_order o on o.voucher_id = e.voucher_id and o.user_id = e.user_id
        where e.voucher_id = {voucher} and e.user_id % 40 = 0 group by 1"""))
    findings.checked["verified"] += 1 + len(results)
    try:
        said = harness.run(f"{service.program}-verify-draw", f"http://127.0.0.1:{service.port}", voucher, commitment, *results)
    except harness.Failed as failure:
        said = str(failure)
    wrong = {f"shopper {shopper}: {result}" for shopper, result in results.items()} - set(said.splitlines())
    if wrong or not said.startswith("entries: "):
        findings.violated["verified"] += max(len(wrong), 1)
        findings.violations += "".join(f"  verified: {line}\n" for line in said.splitlines()[:4])


def run_scenario(checker, deployment, scenario, size, place):
    """Run a scenario with empty tables. If the machine is busy and the fault comes too late, the requests are
    sent again, more slowly. Returns the findings, and the duration in seconds."""
    seconds = scenario.seconds
    while True:
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        deployment.empty()
        began = time.monotonic()
        try:
            play(deployment, scenario, scenario.make_requests(deployment, size), place, seconds)
            break
        except TooLate:
            if seconds > SLOWEST_S:
                raise
            seconds *= 3
    findings = check(checker, deployment, bool(scenario.fault), place)
    if scenario.is_clear:
        findings.checked["restart"] = sum(findings.answers.values())
        findings.violated["restart"] = findings.answers["UNKNOWN"]
    return findings, time.monotonic() - began


# -- all scenarios --

LINE = "{:<10} {:<15} {:>8} {:>7} {:>8} {:>8} {:>7} {:>6}  {}"


def scenario_line(instances, scenario, findings, missing, seconds):
    answers = findings.answers
    requests, unclear = sum(answers.values()), count_unclear(findings)
    refused = requests - unclear - sum(answers[name] for name in ("PLACED", "REPEATED", "ENTERED", "DONE"))
    state = "VIOLATIONS" if +findings.violated else "ok"
    if missing:
        state += f", but no answer was {' or '.join(sorted(missing))}"
    if +findings.violated:
        state += "\n" + findings.violations
    return LINE.format(instances, scenario.name, requests, answers["PLACED"], answers["REPEATED"],
                       refused, unclear, f"{seconds:.1f}", state)


def count_unclear(findings):
    return findings.answers["UNKNOWN"] + findings.answers["NOT_DONE"]


def find_missing(scenario, findings):
    return scenario.expected - set(+findings.answers) - ({"UNCLEAR"} if count_unclear(findings) else set())


def print_rules(total):
    print(f"\n{'checked':>10} {'violated':>8}  rule")
    for rule, sentence in RULES.items():
        print(f"{total.checked[rule]:>10,} {total.violated[rule]:>8,}  {sentence}")


def prove(program, checker, servers, standby, runs, size):
    """Run the scenarios of each number of instances."""
    options = {"SECKILL_DATABASE_URL": pair.url_of_both(servers, standby)} if standby else {}
    total, is_incomplete = Findings(), False
    print(LINE.format("instances", "scenario", "requests", "placed", "repeated", "refused", "unclear",
                      "s", "result"), flush=True)
    for count, scenarios in runs:
        with contextlib.ExitStack() as stack:
            sale = Sale(program, servers, PLACE, stack, instances=count, **options)
            sale.standby = standby
            for scenario in scenarios:
                place = f"{PLACE}/{count}.{scenario.name.replace(' ', '_')}"
                findings, seconds = run_scenario(checker, sale, scenario, size, place)
                missing = find_missing(scenario, findings)
                print(scenario_line(count, scenario, findings, missing, seconds), flush=True)
                total.add(findings)
                is_incomplete = is_incomplete or bool(missing)
    print_rules(total)
    if +total.violated:
        raise harness.Failed("violations, see above; the logs are in " + PLACE)
    if is_incomplete:
        raise harness.Failed("a scenario did not get all answers that it must test")


# -- the lab --

class Defect:
    """load/lab/NAME.sql breaks a promise of the database. The scenario must then violate the rule `rule`."""

    def __init__(self, name, rule, scenario, without_redis=False):
        self.name, self.rule, self.scenario, self.without_redis = name, rule, scenario, without_redis


def oversubscribed(deployment, size):
    """Two shoppers per piece; the orders need many transactions."""
    voucher = deployment.voucher(size // 2)
    return [order(each, voucher, every_other_key(each)) for each in range(1, size)]


OVERSUBSCRIBED = Scenario("oversubscribed", oversubscribed, "")
LAB = [
    Defect("oversell", "stock", OVERSUBSCRIBED),
    Defect("duplicate", "limit", REPEATS, without_redis=True),
    Defect("early_answer", "acknowledged", KILL_POSTGRES),
    Defect("false_refusal", "sold_out", OVERSUBSCRIBED),
    Defect("unreported_order", "requested", OVERSUBSCRIBED),
    Defect("lost_entry", "entries", LOTTERY),
    Defect("unfair_draw", "verified", LOTTERY),
]


def try_defect(program, checker, servers, defect, size):
    with contextlib.ExitStack() as stack:
        sale = Sale(program, servers, PLACE, stack, defect.name, database=defect.name, instances=2,
                    SECKILL_REDIS_DOWN="bypass")
        if defect.without_redis:
            servers.do("stop", "redis")
            stack.callback(servers.do, "start", "redis")
        findings, seconds = run_scenario(checker, sale, defect.scenario, size, f"{PLACE}/{defect.name}")
    count = findings.violated[defect.rule]
    print(f"{defect.name}: {'detected' if count else 'NOT DETECTED'}: {count} violations of "
          f"\"{RULES[defect.rule]}\" ({seconds:.1f} s)\n{findings.violations}", flush=True)
    return count > 0


def prove_lab(program, checker, servers, size):
    missed = [defect.name for defect in LAB if not try_defect(program, checker, servers, defect, size)]
    if missed:
        raise harness.Failed(f"not detected: {', '.join(missed)}")
    print(f"all {len(LAB)} defects were detected")


def write_tokens(program, count, place):
    """Write the tokens of the admin and of shoppers 1..count."""
    maker = harness.Service(program, 0, {"SECKILL_JWT_SECRET": harness.SECRET}, os.devnull)
    maker.write_tokens(count, f"{place}/tokens.shoppers")
    with open(f"{place}/tokens", "w") as out, open(f"{place}/tokens.shoppers") as shoppers:
        out.write(maker.token(1, "admin") + "\n")
        out.writelines(shoppers)


def run(stack):
    program, checker = map(os.path.abspath, sys.argv[1:3])
    mode, delay_ms = sys.argv[3:] + ["full", "0"][len(sys.argv[3:]):]
    random.seed(1)
    began = time.monotonic()
    servers = standby = None
    if mode == "standby":
        servers, standby = pair.start(PLACE, stack)
    else:
        disk = harness.SlowDisk(f"{os.path.dirname(program)}/slow_disk.so", stack) if int(delay_ms) else None
        servers = harness.Servers.start(f"{PLACE}/servers", stack, **(disk.env if disk else {}))
        if disk:
            disk.set_ms(int(delay_ms))
    size = 4000 if mode in ("short", "lab") else 16000
    write_tokens(program, size, PLACE)
    if mode == "lab":
        prove_lab(program, checker, servers, size)
    else:
        prove(program, checker, servers, standby, RUNS[mode], size)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__": # chaos.py imports this file
    harness.main("prove", PLACE, run)
