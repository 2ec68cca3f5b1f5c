#!/usr/bin/env -S python3 -B
"""failover.py PROGRAM - how long a failover of Postgres interrupts the sale, and what it loses.

For each fault, private servers: a primary with a standby, and an instance of the service whose
database URL names both. Shoppers place orders without a pause; an order without a clear answer is
repeated under its key. After the fault and the promotion of the standby, the orders must go on, each
acknowledged order must be a row of the new primary, and `seckill audit` must pass there. The last
fault is a control: with an asynchronous standby orders must be lost. Exit code 0: all of that holds,
and no interruption was ten times as long as its goal. The logs stay in var/failover."""

import contextlib
import http.client
import json
import os
import shutil
import sys
import threading
import time

import harness
import pair

PLACE = "var/failover"
SHOPPERS_AT_ONCE = 8
SHOPPERS = 100_000
REPEAT_AFTER_S = 0.02
ORDERS_BEFORE = 500 # acknowledged before the fault, and after it
WITHIN_S = 120
STANDBY_AWAY_S = 7 # longer than SECKILL_ORDER_TIMEOUT_MS
TOLERANCE = 10 # a busy machine is slower than the goal
SECRET = harness.new_secret()


class Shoppers:
    """Threads that place orders until they are stopped."""

    def __init__(self, service, voucher, tokens):
        self.port, self.path, self.tokens = service.port, f"/v1/vouchers/{voucher}/orders", tokens
        self.acknowledged = {} # the order and when it was acknowledged, by shopper
        self.unclear = 0 # answers that it is unknown whether there is an order
        self.next = 0
        self.lock = threading.Lock()
        self.is_stopped = False
        self.failure = None
        self.threads = [threading.Thread(target=self.run) for _ in range(SHOPPERS_AT_ONCE)]
        for thread in self.threads:
            thread.start()

    def run(self):
        try:
            while not self.is_stopped:
                with self.lock:
                    shopper = self.next
                    self.next += 1
                self.order(shopper)
        except Exception as error: # of the test; the main thread reports it
            self.failure = error

    def order(self, shopper):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        headers = {"Authorization": f"Bearer {self.tokens[shopper]}", "Idempotency-Key": f"k{shopper}"}
        while not self.is_stopped:
            client.request("POST", self.path, headers=headers)
            reply = client.getresponse()
            body = json.loads(reply.read())
            if reply.status in (200, 201):
                with self.lock:
                    self.acknowledged[shopper + 1] = (int(body["id"]), time.monotonic())
                break
            if reply.status != 503 and body["code"] != "order_in_progress":
                raise harness.Failed(f"an order was answered {reply.status} {body}")
            self.unclear += body["code"] == "outcome_unknown"
            time.sleep(REPEAT_AFTER_S)
        client.close()

    def count(self):
        if self.failure:
            raise harness.Failed(f"a shopper failed: {self.failure}")
        return len(self.acknowledged)

    def await_more(self, number):
        wanted = self.count() + number
        harness.wait_for(f"{number} more orders are acknowledged", lambda: self.count() >= wanted, WITHIN_S)

    def await_unclear(self):
        before = self.unclear
        harness.wait_for("an outcome is unknown", lambda: self.count() and self.unclear > before, WITHIN_S)

    def first_since(self, moment):
        """When the first order after this moment was acknowledged; waits for it."""
        def later():
            with self.lock:
                return [at for _, at in self.acknowledged.values() if at > moment]
        harness.wait_for("an order is acknowledged again", lambda: self.count() and later(), WITHIN_S)
        return min(later())

    def stop(self):
        self.is_stopped = True
        for thread in self.threads:
            thread.join()


# -- faults --
#
# Each takes the primary, the standby and the shoppers, and makes the standby the primary. It returns
# when the fault happened, and from when on orders could be placed again.

def kill(primary, standby, _shoppers):
    pair.servers_do(primary, "kill", "postgres")
    fault = time.monotonic()
    pair.promote(standby)
    return fault, time.monotonic()


def hang(primary, standby, _shoppers):
    """Stands for a machine without power, whose clients are not told."""
    pair.servers_do(primary, "pause", "postgres")
    fault = time.monotonic()
    pair.promote(standby)
    return fault, time.monotonic()


def switch_over(primary, standby, _shoppers):
    pair.servers_do(primary, "stop", "postgres")
    fault = time.monotonic()
    pair.promote(standby)
    return fault, time.monotonic()


def standby_first(primary, standby, shoppers):
    """No order may be acknowledged from the death of the standby on: it is promoted without them."""
    pair.servers_do(standby, "kill", "postgres")
    shoppers.await_unclear()
    pair.servers_do(primary, "kill", "postgres")
    fault = time.monotonic()
    pair.servers_do(standby, "start", "postgres")
    pair.promote(standby)
    return fault, time.monotonic()


def standby_hangs(primary, standby, shoppers):
    """Orders go on when it has been resumed. Then the primary fails, too."""
    pair.servers_do(standby, "pause", "postgres")
    fault = time.monotonic()
    time.sleep(STANDBY_AWAY_S)
    pair.servers_do(standby, "resume", "postgres")
    resumed = time.monotonic()
    shoppers.first_since(resumed)
    kill(primary, standby, shoppers)
    return fault, resumed


def lag(primary, standby, shoppers):
    """The standby has not received the last orders."""
    pair.servers_do(standby, "kill", "postgres")
    shoppers.await_more(ORDERS_BEFORE)
    pair.servers_do(primary, "kill", "postgres")
    fault = time.monotonic()
    pair.servers_do(standby, "start", "postgres")
    pair.promote(standby)
    return fault, time.monotonic()


class Fault:
    """`goal_s`: from the promotion to the next 201; None: none."""

    def __init__(self, name, happen, goal_s=None, is_synchronous=True):
        self.name, self.happen, self.goal_s, self.is_synchronous = name, happen, goal_s, is_synchronous


FAULTS = (
    Fault("primary killed", kill, goal_s=1),
    Fault("primary hangs", hang, goal_s=4),
    Fault("switchover", switch_over, goal_s=1),
    Fault("standby killed, then primary", standby_first),
    Fault("standby hangs, then primary killed", standby_hangs),
    Fault("control: asynchronous standby", lag, is_synchronous=False),
)
LINE = "{:<36} {:>8} {:>8} {:>13} {:>8} {:>6}  {}"


# -- a failover --

def start_service(program, primary, standby, place, stack):
    service = harness.Service(program, harness.free_port(), {
        "SECKILL_DATABASE_URL": pair.url_of_both(primary, standby),
        "SECKILL_REDIS_URL": primary.env["SECKILL_REDIS_URL"],
        "SECKILL_JWT_SECRET": SECRET, "SECKILL_WORKERS": "2", "SECKILL_RATE_PER_USER": "0"},
        f"{place}/seckill.log")
    service.migrate(primary.env["PG_OWNER_URL"])
    stack.callback(service.stop)
    service.start()
    return service


def lost_orders(standby, acknowledged):
    rows = harness.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", " ", "-c",
                       "select id, user_id from voucher_order", standby.env["PG_OWNER_URL"])
    stored = {tuple(map(int, row.split())) for row in rows.splitlines()}
    return [shopper for shopper, (order, _) in acknowledged.items() if (order, shopper) not in stored]


def judge(fault, gap_s, lost):
    if fault.is_synchronous and lost:
        return f"LOST: shoppers {lost[:5]}"
    if not fault.is_synchronous and not lost:
        return "NOTHING LOST: this test cannot detect a loss"
    if fault.goal_s and gap_s > fault.goal_s * TOLERANCE:
        return f"TOO LONG: more than {fault.goal_s * TOLERANCE} s"
    return "ok" if not fault.goal_s or gap_s <= fault.goal_s else f"ok, above the goal of {fault.goal_s} s"


def fail_over(program, fault, tokens, stack):
    place = f"{PLACE}/{fault.name.replace(' ', '_').replace(':', '').replace(',', '')}"
    os.makedirs(place)
    primary, standby = pair.start(place, stack, fault.is_synchronous)
    for each in (primary, standby):
        stack.callback(pair.servers_do, each, "kill", "postgres") # it may stand still
    service = start_service(program, primary, standby, place, stack)
    level = "remote" if fault.is_synchronous else "local"
    harness.wait_for(f"the durability is {level}", lambda: (
        f'{{level="{level}"}}', 1.0) in service.metrics("seckill_durability"))
    shoppers = Shoppers(service, service.create_voucher("failover", 1_000_000), tokens)
    try:
        shoppers.await_more(ORDERS_BEFORE)
        fault_at, ready_at = fault.happen(primary, standby, shoppers)
        gap_s = shoppers.first_since(ready_at) - ready_at
        shoppers.await_more(ORDERS_BEFORE)
    finally:
        shoppers.stop()
    lost = lost_orders(standby, shoppers.acknowledged)
    verdict = judge(fault, gap_s, lost)
    service.command("audit") # of the primary, which its URL names second
    print(LINE.format(fault.name, f"{ready_at - fault_at:.1f}", f"{gap_s:.2f}", len(shoppers.acknowledged),
                      shoppers.unclear, len(lost), verdict), flush=True)
    return {"fault": fault.name, "gap_s": gap_s, "has_goal": fault.goal_s is not None,
            "is_control": not fault.is_synchronous, "acknowledged": len(shoppers.acknowledged),
            "is_good": verdict.startswith("ok")}


def main():
    program = os.path.abspath(sys.argv[1])
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    try:
        maker = harness.Service(program, 0, {"SECKILL_JWT_SECRET": SECRET}, os.devnull)
        maker.write_tokens(SHOPPERS, f"{PLACE}/tokens")
        with open(f"{PLACE}/tokens") as lines:
            tokens = lines.read().split()
        print(LINE.format("fault", "down s", "gap s", "acknowledged", "unclear", "lost", "result"), flush=True)
        failovers = []
        for fault in FAULTS:
            with contextlib.ExitStack() as stack:
                failovers.append(fail_over(program, fault, tokens, stack))
    except harness.Failed as failure:
        sys.exit(f"failover: {failure}")
    if not all(each["is_good"] for each in failovers):
        sys.exit(f"failover: see above; the logs are in {PLACE}")
    gaps = ", ".join(f"{each['fault']} {each['gap_s']:.2f} s" for each in failovers if each["has_goal"])
    acknowledged = sum(each["acknowledged"] for each in failovers if not each["is_control"])
    print(f"failovers of Postgres: none of {acknowledged} acknowledged orders lost; next order after {gaps}")


main()
