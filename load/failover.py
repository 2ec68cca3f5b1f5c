#!/usr/bin/env -S python3 -B
"""failover.py PROGRAM - how long a fault of Postgres or Redis interrupts the sale, and what it loses.

For each fault, private servers: a primary with a standby, Redis, and an instance of the service whose
database URL names both. Shoppers place orders without a pause; an order without a clear answer is
repeated under its key. After the fault, and the promotion of the standby if the primary is gone, the
orders must go on, each acknowledged order must be a row of the primary, and `seckill audit` must pass
there. The last fault is a control: with an asynchronous standby orders must be lost. Exit code 0: all
of that holds, and no interruption was ten times as long as its goal. The logs stay in var/failover."""

import contextlib
import os
import shutil
import sys
import time

import harness
import pair
import shopping

PLACE = "var/failover"
ORDERS_BEFORE = 500 # acknowledged before the fault, and after it
AWAY_S = 7 # longer than SECKILL_ORDER_TIMEOUT_MS
TOLERANCE = 10 # a busy machine is slower than the goal


# -- faults --
#
# Each function takes the primary, the standby and the shoppers. It returns the time of the fault, and
# the time from which orders could be placed again. A paused primary simulates a machine without power,
# whose connections are not closed.

def of_primary(command):
    """A command of `servers.sh` for the primary; then the standby is promoted."""
    def happen(primary, standby, _shoppers):
        pair.servers_do(primary, command, "postgres")
        fault = time.monotonic()
        pair.promote(standby)
        return fault, time.monotonic()
    return happen


def standby_first(primary, standby, shoppers):
    """The standby dies first and is promoted later, so no order may be acknowledged after its death."""
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
    time.sleep(AWAY_S)
    pair.servers_do(standby, "resume", "postgres")
    resumed = time.monotonic()
    shoppers.first_since(resumed)
    of_primary("kill")(primary, standby, shoppers)
    return fault, resumed


def restart(name):
    """A server is killed and started again."""
    def happen(primary, _standby, _shoppers):
        pair.servers_do(primary, "kill", name)
        fault = time.monotonic()
        pair.servers_do(primary, "start", name)
        return fault, time.monotonic()
    return happen


def redis_hangs(primary, _standby, _shoppers):
    pair.servers_do(primary, "pause", "redis")
    fault = time.monotonic()
    time.sleep(AWAY_S)
    pair.servers_do(primary, "resume", "redis")
    return fault, time.monotonic()


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
    """`goal_s`: goal for the time until the next 201; None: no goal."""

    def __init__(self, name, happen, goal_s=None, is_synchronous=True, promotes=True, is_control=False):
        self.name, self.happen, self.goal_s, self.is_synchronous = name, happen, goal_s, is_synchronous
        self.promotes = promotes # the standby is the primary afterwards
        self.is_control = is_control # orders must be lost


FAULTS = (
    Fault("primary killed", of_primary("kill"), goal_s=1),
    Fault("primary hangs", of_primary("pause"), goal_s=4),
    Fault("switchover", of_primary("stop"), goal_s=1),
    Fault("standby killed, then primary", standby_first),
    Fault("standby hangs, then primary killed", standby_hangs),
    Fault("Postgres killed and restarted", restart("postgres"), goal_s=1, is_synchronous=False, promotes=False),
    Fault("Redis killed and restarted", restart("redis"), goal_s=1, promotes=False),
    Fault("Redis hangs", redis_hangs, goal_s=1, promotes=False),
    Fault("control: asynchronous standby", lag, is_synchronous=False, is_control=True),
)
LINE = "{:<36} {:>8} {:>8} {:>13} {:>8} {:>6}  {}"


# -- a failover --

def judge(fault, gap_s, lost):
    if lost and not fault.is_control:
        return f"LOST: shoppers {lost[:5]}"
    if fault.is_control and not lost:
        return "NOTHING LOST: this test cannot detect a loss"
    if fault.goal_s and gap_s > fault.goal_s * TOLERANCE:
        return f"TOO LONG: more than {fault.goal_s * TOLERANCE} s"
    return "ok" if not fault.goal_s or gap_s <= fault.goal_s else f"ok, above the goal of {fault.goal_s} s"


def fail_over(program, fault, tokens, stack):
    place = f"{PLACE}/{fault.name.replace(' ', '_').replace(':', '').replace(',', '')}"
    os.makedirs(place)
    primary, standby = pair.start(place, stack, fault.is_synchronous)
    for each in (primary, standby):
        stack.callback(pair.servers_do, each, "kill", "postgres") # it may be paused
    service = shopping.start_service(program, pair.url_of_both(primary, standby), primary.env["PG_OWNER_URL"],
                                     primary.env["SECKILL_REDIS_URL"], place, stack)
    shopping.await_durability(service, "remote" if fault.is_synchronous else "local")
    shoppers = shopping.Shoppers(service, service.create_voucher("failover", 1_000_000), tokens)
    try:
        shoppers.await_more(ORDERS_BEFORE)
        fault_at, ready_at = fault.happen(primary, standby, shoppers)
        gap_s = shoppers.first_since(ready_at) - ready_at
        shoppers.await_more(ORDERS_BEFORE)
    finally:
        shoppers.stop()
    lost = shoppers.lost((standby if fault.promotes else primary).env["PG_OWNER_URL"])
    verdict = judge(fault, gap_s, lost)
    service.command("audit") # of the server that accepts writes
    print(LINE.format(fault.name, f"{ready_at - fault_at:.1f}", f"{gap_s:.2f}", len(shoppers.acknowledged),
                      shoppers.unclear, len(lost), verdict), flush=True)
    return {"fault": fault.name, "gap_s": gap_s, "has_goal": fault.goal_s is not None,
            "is_control": fault.is_control, "acknowledged": len(shoppers.acknowledged),
            "is_good": verdict.startswith("ok")}


def main():
    program = os.path.abspath(sys.argv[1])
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    try:
        tokens = shopping.make_tokens(program, PLACE)
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
    print(f"faults of Postgres and Redis: none of {acknowledged} acknowledged orders lost; next order after {gaps}")


main()
