#!/usr/bin/env -S python3 -B
"""failover_patroni.py PROGRAM CYCLES - fail Postgres over again and again; Patroni decides.

Private servers: a primary and a synchronous standby under Patroni, and an instance of the service
whose database URL names both. In each cycle shoppers order a new voucher without a pause, the primary
fails in one of the ways below, and Patroni promotes the standby; the old primary becomes the standby
of the next cycle. Each acknowledged order must be a row of the new primary, and `seckill audit` must
pass there. At the end the rows of all cycles are compared again. Exit code 0: all of that holds, and
no interruption after a promotion was ten times as long as its goal. The logs stay in
var/failover-patroni."""

import contextlib
import os
import shutil
import signal
import statistics
import sys
import time

import harness
import patroni
import shopping

PLACE = "var/failover-patroni"
ORDERS_BEFORE = 100 # acknowledged before the fault, and after it
PAUSE_S = 0.02 # of a shopper, so that many cycles need few shoppers
TOLERANCE = 10 # a busy machine is slower than the goal
LINE = "{:<20} {:>7} {:>8} {:>8} {:>9} {:>13} {:>8} {:>6}"


# -- faults --
#
# Each function takes the primary and the standby, and returns a function that ends the fault.

def kill_server(primary, _standby):
    """Patroni survives, fails over at once, and starts the old primary as a standby."""
    primary.signal_server(signal.SIGKILL)
    return lambda: None


def switch_over(primary, standby):
    return primary.switch_over_to(standby)


def kill_machine(primary, _standby):
    """The standby is promoted when the lease of the primary has expired."""
    primary.kill_all()
    return primary.start


def hang_machine(primary, _standby):
    """The old primary comes back while the new one sells."""
    primary.pause_all()
    return primary.resume_all


# Name, fault, goal from the promotion to the next order.
FAULTS = (("Postgres killed", kill_server, 1), ("switchover", switch_over, 1),
          ("machine killed", kill_machine, 1), ("machine hangs", hang_machine, 4))


def fault_of(cycle):
    """First each fault in turn. Later the faults that wait for a lease are rarer."""
    return FAULTS[cycle % 4] if cycle < 4 or cycle % 20 < 4 else FAULTS[cycle % 2]


# -- a cycle --

class Sums:
    """The sums of all cycles with the same fault."""

    def __init__(self, name, goal_s):
        self.name, self.goal_s = name, goal_s
        self.down_s, self.gap_s = [], []
        self.requests = self.acknowledged = self.unclear = self.lost = 0

    def add(self, down_s, gap_s, shoppers, lost):
        self.down_s.append(down_s)
        self.gap_s.append(gap_s)
        self.requests += shoppers.requests
        self.acknowledged += len(shoppers.acknowledged)
        self.unclear += shoppers.unclear
        self.lost += len(lost)

    def line(self):
        return LINE.format(self.name, len(self.gap_s), f"{statistics.median(self.down_s):.1f}",
                           f"{statistics.median(self.gap_s):.2f}", f"{max(self.gap_s):.2f}", self.acknowledged,
                           self.unclear, self.lost)


def fail_over(cluster, service, tokens, fault, sums):
    primary, standby = cluster.await_pair()
    shopping.await_durability(service, "remote")
    shoppers = shopping.Shoppers(service, service.create_voucher("failover", 1_000_000), tokens, PAUSE_S)
    try:
        shoppers.await_more(ORDERS_BEFORE)
        fault_at = time.monotonic()
        end_fault = fault(primary, standby)
        harness.wait_for("the standby is promoted", standby.is_promoted)
        ready_at = time.monotonic()
        gap_s = shoppers.first_since(ready_at) - ready_at
        end_fault()
        shoppers.await_more(ORDERS_BEFORE)
    finally:
        shoppers.stop()
    owner_url = cluster.database_url("seckill", standby) # without the old primary, which may still accept writes
    lost = shoppers.lost(owner_url)
    harness.run(service.program, "audit", env=dict(service.env, SECKILL_DATABASE_URL=owner_url))
    sums.add(ready_at - fault_at, gap_s, shoppers, lost)
    return shoppers


def run_cycles(program, cycles, stack):
    tokens = shopping.make_tokens(program, PLACE)
    servers = harness.Servers(f"{PLACE}/servers") # of which only Redis is used
    stack.callback(servers.down)
    servers.up()
    cluster = patroni.Cluster(PLACE, stack)
    service = shopping.start_service(program, cluster.database_url("seckill_service"), cluster.database_url("seckill"),
                                     servers.env["SECKILL_REDIS_URL"], PLACE, stack)
    all_sums = {fault: Sums(name, goal_s) for name, fault, goal_s in FAULTS}
    all_shoppers = []
    for cycle in range(cycles):
        name, fault, _ = fault_of(cycle)
        shoppers = fail_over(cluster, service, tokens, fault, all_sums[fault])
        all_shoppers.append(shoppers)
        sums = all_sums[fault]
        print(f"{cycle + 1:>4} {name:<16} down {sums.down_s[-1]:5.1f} s, gap {sums.gap_s[-1]:5.2f} s,"
              f" {len(shoppers.acknowledged)} acknowledged, {shoppers.unclear} unclear, {sums.lost} lost", flush=True)
    owner_url = cluster.database_url("seckill", cluster.await_pair()[0])
    lost = sum(len(shoppers.lost(owner_url)) for shoppers in all_shoppers)
    return [sums for sums in all_sums.values() if sums.gap_s], lost


def main():
    program, cycles = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    try:
        with contextlib.ExitStack() as stack:
            all_sums, lost = run_cycles(program, cycles, stack)
    except harness.Failed as failure:
        sys.exit(f"failover: {failure}")
    print(LINE.format("fault", "cycles", "down s", "gap s", "max gap", "acknowledged", "unclear", "lost"))
    for sums in all_sums:
        print(sums.line())
    if lost:
        sys.exit(f"failover: {lost} acknowledged orders are LOST")
    for sums in all_sums:
        if max(sums.gap_s) > sums.goal_s * TOLERANCE:
            sys.exit(f"failover: {sums.name}: more than {sums.goal_s * TOLERANCE} s")
    gaps = ", ".join(f"{sums.name} {max(sums.gap_s):.2f} s" for sums in all_sums)
    print(f"failovers by Patroni: {cycles} cycles, {sum(sums.requests for sums in all_sums)} requests, none of"
          f" {sum(sums.acknowledged for sums in all_sums)} acknowledged orders lost; next order at most after {gaps}")


main()
