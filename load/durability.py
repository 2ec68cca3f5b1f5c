#!/usr/bin/env -S python3 -B
"""durability.py PROGRAM - Postgres becomes less durable during a sale, and then loses what it may lose.

Each scenario has private servers and an instance of the service. Shoppers order without a pause while
Patroni drops its only standby, or while a pooler gives the service sessions in which another client
has set synchronous_commit = off. Then the scenario reads the durable copy alone: the disk of the
dropped standby, or Postgres after kill -9. Each acknowledged order must be there. When the fault is
over, the sale must go on without a restart of the service, and `seckill audit` must pass. Exit
code 0: all of this holds. The logs stay in var/durability."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness
import pair
import patroni
import shopping

PLACE = "var/durability"
ORDERS_BEFORE = 100 # acknowledged before the fault, and after it
REQUESTS_AFTER = 500 # answered while Postgres is less durable
PAUSE_S = 0.02 # pause of a shopper between two orders
POOLED = 40 # more sessions than the service has
LINE = "{:<32} {:>13} {:>16} {:>8} {:>6}"


def is_not_durable(service):
    status, health = service.call("GET", "/readyz")
    return status == 503 and "not_durable" in str(health)


def await_requests(shoppers):
    wanted = shoppers.requests + REQUESTS_AFTER
    harness.wait_for("requests are answered", lambda: shoppers.count() and shoppers.requests >= wanted)


# -- Patroni drops its standby --

def has_dropped(primary, standby):
    return standby.name not in harness.sql(primary.url, "show synchronous_standby_names")[0]


def start_alone(standby, stack):
    """Start Postgres on a copy of the standby's disk, as a primary. Returns the port."""
    data, port = f"{standby.directory}/alone", patroni.free_port()
    harness.run("cp", "-a", standby.data, data)
    for name in ("standby.signal", "postmaster.pid"):
        os.unlink(f"{data}/{name}")
    log = stack.enter_context(open(f"{standby.cluster.logs}/alone.log", "ab"))
    server = subprocess.Popen(
        ["setpriv", *patroni.USER, "--", "setpriv", "--pdeathsig", "INT", "--",
         f"{patroni.postgres_bin()}/postgres", "-D", data, "-p", str(port), "-c", "synchronous_standby_names="],
        cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(server.wait)
    stack.callback(server.send_signal, signal.SIGINT)
    return port


def lost_without_primary(standby, shoppers):
    """The orders that a copy of the standby lacks. The standby must still be down."""
    with contextlib.ExitStack() as stack:
        port = start_alone(standby, stack)
        url = f"postgresql://seckill:{standby.cluster.password}@127.0.0.1:{port}/seckill"
        harness.wait_for("the standby has started alone", lambda: harness.run(
            "psql", "-XAtqc", "select 1", url, check=False))
        return shoppers.lost(url)


def drop_standby(is_strict):
    def happen(program, place, tokens, stack):
        servers = harness.Servers(f"{place}/servers") # of which only Redis is used
        stack.callback(servers.down)
        servers.up()
        cluster = patroni.Cluster(place, stack, dict(patroni.SETTINGS, synchronous_mode_strict=is_strict))
        primary, standby = cluster.await_pair()
        harness.sql(primary.url, "grant pg_read_all_stats to seckill_service")
        owner_url = cluster.database_url("seckill")
        service = shopping.start_service(program, cluster.database_url("seckill_service"), owner_url,
                                         servers.env["SECKILL_REDIS_URL"], place, stack,
                                         SECKILL_REQUIRE_DURABILITY="remote")
        shoppers = shopping.Shoppers(service, service.create_voucher("dropped", 1_000_000), tokens, PAUSE_S)
        try:
            shoppers.await_more(ORDERS_BEFORE)
            standby.kill_all()
            harness.wait_for("Patroni drops the standby", lambda: has_dropped(primary, standby))
            dropped_at = time.monotonic()
            await_requests(shoppers)
            lost = lost_without_primary(standby, shoppers)
            late = shoppers.since(dropped_at)
            harness.wait_for("the service says why", lambda: is_not_durable(service))
            standby.start()
            cluster.await_pair()
            shoppers.await_more(ORDERS_BEFORE)
        finally:
            shoppers.stop()
        service.command("audit")
        return shoppers, len(late), lost + shoppers.lost(owner_url)
    return happen


# -- the sessions of a pooler are lazy --

POOLER_INI = """
[databases]
seckill = host=127.0.0.1 port={server_port} user=seckill_service password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = session
server_reset_query =
default_pool_size = 200
"""


class Pooler:
    """PgBouncer, which leaves the settings of a client to the next client of the session."""

    def __init__(self, servers, place, stack):
        self.port = patroni.free_port()
        self.url = f"postgresql://seckill_service@127.0.0.1:{self.port}/seckill"
        password = servers.env["SECKILL_DATABASE_URL"].partition("@")[0].rpartition(":")[2]
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="pooler."))
        config = f"{directory}/pgbouncer.ini"
        with open(config, "w") as file:
            file.write(POOLER_INI.format(server_port=servers.env["PG_PORT"], password=password, port=self.port))
        if patroni.USER: # it refuses root
            shutil.chown(directory, "postgres")
            shutil.chown(config, "postgres")
        log = stack.enter_context(open(f"{place}/pgbouncer.log", "ab"))
        self.process = subprocess.Popen(
            ["setpriv", *patroni.USER, "--", "setpriv", "--pdeathsig", "TERM", "--",
             shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", config],
            cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        stack.callback(self.process.wait)
        stack.callback(self.process.terminate)
        harness.wait_for("the pooler answers", lambda: harness.is_taken(self.port))

    def make_lazy(self):
        """Set synchronous_commit = off in many sessions at once, which then are the pooler's idle sessions."""
        clients = [subprocess.Popen(["psql", "-XAtq", self.url], text=True, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE) for _ in range(POOLED)]
        for client in clients:
            client.stdin.write("set synchronous_commit = off;\nselect 1;\n")
            client.stdin.flush()
        for client in clients:
            client.stdout.readline()
        for client in clients:
            client.communicate()


def pool_lazy_sessions(program, place, tokens, stack):
    servers = harness.Servers(f"{place}/servers")
    stack.callback(servers.down)
    servers.up()
    admin_url = servers.env["PG_SUPERUSER_URL"]
    pair.configure(admin_url, "wal_writer_delay", "10s")
    pair.configure(admin_url, "wal_writer_flush_after", "1GB")
    pooler = Pooler(servers, place, stack)
    service = shopping.start_service(program, pooler.url, servers.env["PG_OWNER_URL"],
                                     servers.env["SECKILL_REDIS_URL"], place, stack, SECKILL_WORKERS="1")
    shoppers = shopping.Shoppers(service, service.create_voucher("pooled", 1_000_000), tokens, PAUSE_S)
    try:
        shoppers.await_more(ORDERS_BEFORE)
        pooler.make_lazy()
        harness.sql(admin_url, "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                    " where application_name = 'seckill'")
        lazy_at = time.monotonic()
        await_requests(shoppers)
        late = shoppers.since(lazy_at)
        pair.servers_do(servers, "kill", "postgres")
        pair.servers_do(servers, "start", "postgres")
        shoppers.await_more(ORDERS_BEFORE)
    finally:
        shoppers.stop()
    service.command("audit")
    with open(service.log_path) as log:
        if "durability is none" not in log.read():
            raise harness.Failed("the service has not refused a lazy session")
    return shoppers, len(late), shoppers.lost(servers.env["PG_OWNER_URL"])


SCENARIOS = (
    ("Patroni drops its standby", drop_standby(is_strict=False)),
    ("the same, strict", drop_standby(is_strict=True)),
    ("lazy sessions of a pooler", pool_lazy_sessions),
)


def main():
    program = os.path.abspath(sys.argv[1])
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    acknowledged = lost = 0
    try:
        tokens = shopping.make_tokens(program, PLACE)
        print(LINE.format("fault", "acknowledged", "of them after it", "unclear", "lost"), flush=True)
        for name, happen in SCENARIOS:
            place = f"{PLACE}/{name.replace(' ', '_').replace(',', '')}"
            os.makedirs(place)
            with contextlib.ExitStack() as stack:
                shoppers, late, missing = happen(program, place, tokens, stack)
            print(LINE.format(name, len(shoppers.acknowledged), late, shoppers.unclear, len(missing)), flush=True)
            acknowledged += len(shoppers.acknowledged)
            lost += len(missing)
    except harness.Failed as failure:
        sys.exit(f"durability: {failure}")
    if lost:
        sys.exit(f"durability: {lost} acknowledged orders are LOST")
    print(f"less durable during a sale: none of {acknowledged} acknowledged orders lost")


main()
