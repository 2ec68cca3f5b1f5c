#!/usr/bin/env -S python3 -B
"""restore.py PROGRAM [MILLIONS] - lose Postgres with its disk, and restore it from a base backup and
the WAL that pg_receivewal has received.

pg_receivewal is the synchronous standby of a private server, so the archive has the WAL of every acknowledged
order. Shoppers order without a pause, also during the base backup. Then the server is killed, and its data
are removed. It is restored twice. The first restore is to the end of the WAL: no acknowledged order may be
missing. The second is to a moment during the orders: no order that was acknowledged before may be missing.
On this second server the sale goes on: no id may be given again, and `seckill audit` must pass. The server is
a cell, whose vouchers keep its number.

MILLIONS of orders, half of them before the base backup, show how long a restore takes. The default is 0. The
logs stay in var/restore."""

import os
import re
import shutil
import subprocess
import sys
import time

import harness
import shopping

PLACE = "var/restore"
ARCHIVE = f"{PLACE}/wal"
BACKUP = f"{PLACE}/backup"
ORDERS = 500 # acknowledged in each part of the test
CHUNK = 1000
CELL, CELLS = 1, 2
RECOVERY = """
restore_command = 'cp "archive/%f" "%p" || cp "archive/%f.partial" "%p"'
recovery_target_action = 'promote'
synchronous_standby_names = ''
"""


def receive_wal(url, stack):
    """Run pg_receivewal as the synchronous standby until it is stopped."""
    command = ["pg_receivewal", "-d", url, "-D", ARCHIVE, "--slot", "archive"]
    os.makedirs(ARCHIVE)
    harness.run(*command, "--create-slot")
    with open(f"{PLACE}/pg_receivewal.log", "wb") as log:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command, "--synchronous"], stderr=log)
    stack.callback(process.kill)
    harness.configure(url, "synchronous_standby_names", "pg_receivewal")
    harness.wait_for("the WAL is received", lambda: harness.sql(
        url, "select count(*) from pg_stat_replication where sync_state = 'sync'") == ["1"])
    return process


def place_orders(url, voucher, count, first):
    """Place orders by SQL, without waiting for the archive."""
    harness.sql(url, f"""set synchronous_commit = local; select count(*) from generate_series(0, {count // CHUNK - 1}) g,
        lateral place_orders({voucher}, array(select generate_series({first} + g * {CHUNK}, {first - 1} + (g + 1) * {CHUNK})),
            array(select generate_series({first} + g * {CHUNK}, {first - 1} + (g + 1) * {CHUNK})),
            array_fill(null::text, array[{CHUNK}]))""")


def give_to_postgres(directory):
    if os.getuid() == 0:
        harness.run("chown", "-R", "postgres:", directory)


def size_gb(directory, first=""):
    """The size of the files in a directory, from the name `first` on."""
    return sum(os.path.getsize(f"{place}/{name}") for place, _, names in os.walk(directory)
               for name in names if name >= first) / 1e9


def first_segment():
    """The first segment of the WAL that the base backup needs."""
    with open(f"{BACKUP}/postgres/backup_label") as label:
        return re.search(r"\(file (\w+)\)", label.read())[1]


def restore(name, stack, moment=None):
    """Restore from the backup and the archive, and print how long it took. Returns the servers."""
    begin = time.monotonic()
    servers = harness.Servers(f"{PLACE}/{name}")
    stack.callback(servers.down)
    servers.do("clone", BACKUP)
    copied = time.monotonic()
    data = f"{servers.directory}/postgres"
    shutil.copytree(ARCHIVE, f"{data}/archive")
    open(f"{data}/recovery.signal", "w").close()
    with open(f"{data}/postgresql.auto.conf", "a") as conf:
        conf.write(RECOVERY + (f"recovery_target_time = '{moment}'\n" if moment else ""))
    give_to_postgres(data)
    servers.up()
    harness.wait_for("the server accepts writes", lambda: harness.sql(
        servers.url("superuser"), "select pg_is_in_recovery()") == ["f"], 3600)
    end = time.monotonic()
    print(f"restored to {moment or 'the end of the WAL'}: base backup of {size_gb(BACKUP):.2f} GB copied in"
          f" {copied - begin:.1f} s, WAL of {size_gb(ARCHIVE, first_segment()):.2f} GB replayed in {end - copied:.1f} s", flush=True)
    return servers


def audit(program, servers):
    harness.run(program, "audit", env=dict(os.environ, SECKILL_DATABASE_URL=servers.url("owner")))


def start_service(program, servers, stack):
    return shopping.start_service(program, PLACE, stack, servers.url("service"), servers.url("owner"),
                                  servers.env["SECKILL_REDIS_URL"])


def sell(program, tokens, thousands, stack):
    """Sell until the disk is lost. Returns the shoppers, and a moment by the clocks of Postgres and this process."""
    primary = harness.Servers.start(f"{PLACE}/primary", stack)
    url, owner_url = primary.url("superuser"), primary.url("owner")
    harness.run(program, "migrate", "--service-role", "seckill_service", "--cell", f"{CELL}/{CELLS}",
                env=dict(os.environ, SECKILL_DATABASE_URL=owner_url))
    service = start_service(program, primary, stack)
    receiver = receive_wal(url, stack)
    shopping.await_durability(service, "remote")
    voucher = service.create_voucher("restore", 100_000_000)
    if thousands:
        place_orders(owner_url, voucher, thousands * 500, 10_000_001)
    shoppers = shopping.Shoppers(service, voucher, tokens)
    try:
        shoppers.await_more(ORDERS)
        harness.run("pg_basebackup", "-d", url, "-D", f"{BACKUP}/postgres", "--checkpoint=fast")
        if thousands:
            place_orders(owner_url, voucher, thousands * 500, 50_000_001)
        shoppers.await_more(ORDERS)
        before = time.monotonic()
        moment = harness.sql(url, "select clock_timestamp()")[0]
        later = int(service.create_voucher("lost", 1))
        shoppers.await_more(ORDERS)
        primary.do("kill", "postgres")
    finally:
        shoppers.stop()
    receiver.terminate()
    receiver.wait()
    shutil.rmtree(f"{primary.directory}/postgres")
    with open(f"{primary.directory}/settings") as old, open(f"{BACKUP}/settings", "w") as new:
        new.writelines(line for line in old if "PASSWORD" in line)
    give_to_postgres(f"{BACKUP}/postgres")
    return shoppers, moment, before, later


def go_on(program, servers, shoppers, later, tokens, stack):
    """Continue the sale, also with a new voucher. Returns the ids that were given a second time."""
    print("advanced to", harness.sql(servers.url("owner"), "select * from advance_ids()"))
    service = start_service(program, servers, stack)
    made = int(service.create_voucher("new", 1))
    if made % CELLS != CELL:
        raise harness.Failed(f"the new voucher {made} is not one of cell {CELL}/{CELLS}")
    new = shopping.Shoppers(service, shoppers.voucher, tokens[::-1])
    try:
        new.await_more(ORDERS)
    finally:
        new.stop()
    given = {order for order, _ in shoppers.acknowledged.values()}
    return [order for order, _ in new.acknowledged.values() if order in given] + [made] * (made <= later)


def run(stack):
    program, millions = os.path.abspath(sys.argv[1]), float((sys.argv[2:] or ["0"])[0])
    os.makedirs(BACKUP)
    tokens = shopping.make_tokens(program, PLACE)
    shoppers, moment, before, later = sell(program, tokens, round(millions * 1000), stack)
    print(f"the disk is lost after {len(shoppers.acknowledged)} acknowledged orders", flush=True)
    latest = restore("latest", stack)
    lost = shoppers.lost(latest.url("owner"))
    if lost:
        raise harness.Failed(f"{len(lost)} acknowledged orders are LOST, among them those of {lost[:5]}")
    audit(program, latest)
    earlier = restore("earlier", stack, moment)
    gone = shoppers.lost(earlier.url("owner"))
    lost = [shopper for shopper in gone if shoppers.acknowledged[shopper][1] < before]
    if lost:
        raise harness.Failed(f"{len(lost)} orders acknowledged before the moment are LOST: {lost[:5]}")
    if not gone:
        raise harness.Failed("no later order is gone: this test shows nothing")
    again = go_on(program, earlier, shoppers, later, tokens, stack)
    if again:
        raise harness.Failed(f"{len(again)} ids were given AGAIN, among them {again[:5]}")
    audit(program, earlier)
    print(f"restores: none of {len(shoppers.acknowledged)} acknowledged orders lost at the end of the WAL; at the"
          f" moment {len(gone)} later ones, and none before it; no id was given again")


harness.main("restore", PLACE, run)
