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
import prove

PLACE = prove.PLACE = "var/standby" # also of the logs of prove.Deployment
STOP_S = 7 # longer than SECKILL_ORDER_TIMEOUT_MS
SIZE = 16000
SECONDS = 6


def servers_do(servers, *command):
    harness.run(f"{harness.LOAD}/servers.sh", command[0], servers.directory, *command[1:])


def configure(url, name, value):
    harness.sql(url, f"alter system set {name} = '{value}'")
    harness.sql(url, "select pg_reload_conf()")


def start_pair(stack):
    """The standby begins with a copy of the primary."""
    primary, standby = (harness.Servers(f"{PLACE}/{name}") for name in ("primary", "standby"))
    for each in (primary, standby):
        stack.callback(each.down)
    primary.up()
    url = primary.env["PG_SUPERUSER_URL"]
    configure(url, "primary_conninfo", url.rsplit("/", 1)[0] + "/?application_name=standby")
    primary.down()
    with open(f"{primary.directory}/postgres/pg_hba.conf", "a") as rules:
        rules.write("host replication postgres 127.0.0.1/32 scram-sha-256\n")
    servers_do(standby, "clone", primary.directory)
    open(f"{standby.directory}/postgres/standby.signal", "w").close()
    primary.up()
    standby.up()
    configure(url, "synchronous_standby_names", "standby")
    harness.wait_for("the standby is synchronous", lambda: harness.sql(
        url, "select count(*) from pg_stat_replication where sync_state = 'sync'") == ["1"])
    return primary, standby


# -- faults --

def stop_standby(standby, _deployment):
    servers_do(standby, "pause", "postgres")
    time.sleep(STOP_S)
    servers_do(standby, "resume", "postgres")


def kill_standby(standby, _deployment):
    servers_do(standby, "kill", "postgres")
    servers_do(standby, "start", "postgres")


def fail_over(standby, deployment):
    servers_do(deployment.servers, "kill", "postgres")
    harness.sql(standby.env["PG_SUPERUSER_URL"], "select pg_promote()")
    deployment.owner_url = standby.env["PG_OWNER_URL"]
    if deployment.sql("select sum(stock_left) from voucher") == ["0"]:
        raise harness.Failed("the primary was killed after the voucher was sold out")


# Name, fault, answers that must occur. The last one leaves no pair.
FAULTS = (("standby stopped", stop_standby, "PLACED UNCLEAR"), ("standby killed", kill_standby, "PLACED"),
          ("primary killed", fail_over, "PLACED"))


def both(primary, standby):
    """A database URL with both servers; the connection goes to the one that can write."""
    servers, _, database = primary.env["SECKILL_DATABASE_URL"].rpartition("/")
    return f"{servers},127.0.0.1:{standby.env['PG_PORT']}/{database}?target_session_attrs=read-write&connect_timeout=2"


def prove_pair(program, checker, stack):
    primary, standby = start_pair(stack)
    prove.write_tokens(program, SIZE)
    deployment = prove.Deployment(program, primary, 2, stack,
                                  env={"SECKILL_DATABASE_URL": both(primary, standby)})
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
