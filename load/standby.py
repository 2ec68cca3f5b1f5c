#!/usr/bin/env -S python3 -B
"""standby.py PROGRAM CHECKER - faults of a Postgres with a synchronous standby; every answer is
compared with the database.

Two instances behind nginx receive the orders of `crash`, see prove.py, three times. Meanwhile the
standby stands still for longer than the order timeout; then it is killed and started again; then the
primary is killed and the standby promoted, and the answers are compared with the rows of the new
primary. The service finds it by itself: its database URL names both servers. Exit code 0: no
violation. The logs stay in var/standby."""

import contextlib
import functools
import os
import shutil
import sys
import time

import harness
import pair
import prove

PLACE = prove.PLACE = "var/standby" # prove.Deployment writes its logs there
STOP_S = 7 # longer than SECKILL_ORDER_TIMEOUT_MS
SIZE = 16000
SECONDS = 6


# -- faults --

def stop_standby(standby, _deployment):
    pair.servers_do(standby, "pause", "postgres")
    time.sleep(STOP_S)
    pair.servers_do(standby, "resume", "postgres")


def kill_standby(standby, _deployment):
    pair.servers_do(standby, "kill", "postgres")
    pair.servers_do(standby, "start", "postgres")


def fail_over(standby, deployment):
    pair.servers_do(deployment.servers, "kill", "postgres")
    pair.promote(standby)
    deployment.owner_url = standby.env["PG_OWNER_URL"]
    if deployment.sql("select sum(stock_left) from voucher") == ["0"]:
        raise harness.Failed("the primary was killed after the voucher was sold out")


# Name, fault, answers that must occur. The last fault leaves the primary without a standby.
FAULTS = (("standby stopped", stop_standby, "PLACED UNCLEAR"), ("standby killed", kill_standby, "PLACED"),
          ("primary killed", fail_over, "PLACED"))


def prove_pair(program, checker, stack):
    primary, standby = pair.start(PLACE, stack)
    prove.write_tokens(program, SIZE)
    deployment = prove.Deployment(program, primary, 2, stack,
                                  env={"SECKILL_DATABASE_URL": pair.url_of_both(primary, standby)})
    total = prove.Findings()
    missing = set()
    for name, fault, expected in FAULTS:
        scenario = prove.Scenario(name, prove.crash, expected, functools.partial(fault, standby), SECONDS)
        findings, seconds = prove.run_scenario(checker, deployment, scenario, SIZE,
                                               f"{PLACE}/{name.replace(' ', '_')}")
        lacks = prove.find_missing(scenario, findings)
        print(prove.scenario_line(2, scenario, findings, lacks, seconds), flush=True)
        total.add(findings)
        missing |= lacks
    prove.print_rules(total)
    if +total.violated or missing:
        raise harness.Failed(f"violations or missing answers, see above; the logs are in {PLACE}")


def main():
    program, checker = map(os.path.abspath, sys.argv[1:3])
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    try:
        with contextlib.ExitStack() as stack:
            prove_pair(program, checker, stack)
    except harness.Failed as failure:
        sys.exit(f"standby: {failure}")


main()
