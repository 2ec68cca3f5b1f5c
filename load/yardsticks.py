"""yardsticks.py - what this machine can do at all, part by part: the yardsticks of the bench.

Each does the work of one part of an order and nothing else. What an order costs at least is
the sum of what its parts do: 1/nginx + 1/bulk insert + 1/pair of locks."""

import glob
import json
import os
import statistics
import subprocess
import tempfile

import harness
from deploy import STOCK

ROWS = 1000 # in a statement of the bulk insert
CROWD = 64 # clients of the transaction per order
PAIR_CONNECTIONS, PAIR_CALLS = 2, 2 # as the service has two loops; each call waited for by none

# The rows that place_orders() writes, into the same indexes, without the function: no lock of
# the voucher, no stock, no window, nobody who has one already. Each statement commits.
BULK = f"""
\\set first (:client_id + 1) * 1000000000 + :n
\\set n :n + {ROWS}
insert into voucher_order (voucher_id, id, user_id, fence, price_cents, created_at, expires_at, slot)
select :voucher, nextval('voucher_order_id_seq') * 1048576 + :voucher % 1048576, :first + i, :first + i,
       900, now(), now() + interval '1 day', 1
from generate_series(1, {ROWS}) i;
"""
ORDER = """
\\set user (:client_id + 1) * 1000000000 + :n
\\set n :n + 1
select * from place_orders(:voucher, array[:user]::bigint[], array[:user]::bigint[], null);
"""


class EmptyServer:
    """libmicrohttpd with nothing behind it, set up as the service sets it up."""

    def __init__(self, program, threads):
        self.port = harness.free_port()
        self.command = ["setpriv", "--pdeathsig", "TERM", program, str(self.port), str(threads)]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        harness.wait_for("libmicrohttpd answers", lambda: harness.is_taken(self.port))

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Postgres:
    """What PostgreSQL does by itself, asked by pgbench, in the tables of a deployment."""

    def __init__(self, deployment):
        self.deployment = deployment

    def pgbench(self, script, clients, seconds):
        """Transactions per second, and the median time of one in us."""
        self.deployment.empty()
        voucher = self.deployment.service.create_voucher("yardstick", STOCK)
        threads = min(clients, len(os.sched_getaffinity(0)))
        with tempfile.TemporaryDirectory(dir=self.deployment.place) as place:
            with open(f"{place}/script", "w") as out:
                out.write(script)
            told = harness.run("pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(threads),
                             "-T", str(seconds), "-f", f"{place}/script", "-D", f"voucher={voucher}",
                             "-D", "n=0", "-l", "--log-prefix", f"{place}/log", self.deployment.owner_url)
            times = [int(line.split()[2]) for path in glob.glob(f"{place}/log*") for line in open(path)]
        if not times:
            raise harness.Failed(f"pgbench committed nothing within {seconds} s:\n{told}")
        rate, = (float(line.split()[2]) for line in told.splitlines() if line.startswith("tps = "))
        return rate, statistics.median(times)

    def bulk_per_s(self, seconds):
        """Rows, by as many connections as there are cores."""
        return ROWS * self.pgbench(BULK, len(os.sched_getaffinity(0)), seconds)[0]

    def orders_per_s(self, seconds):
        """One order per transaction, by a crowd of clients, all after one voucher."""
        return self.pgbench(ORDER, CROWD, seconds)[0]

    def commit_us(self, seconds):
        """Of a transaction with one order, nobody else there."""
        return self.pgbench(ORDER, 1, seconds)[1]


class Redis:
    """What Redis does with the scripts of the lock library."""

    def __init__(self, program, servers):
        self.program = program
        self.port = servers.env["REDIS_PORT"]
        self.env = dict(os.environ, REDISCLI_AUTH=servers.env["REDISCLI_AUTH"])

    def measure(self, seconds, locks, calls, connections):
        return json.loads(harness.run(self.program, self.port, *map(str, (seconds, locks, calls, connections)),
                                    env=self.env))

    def pairs_per_s(self, seconds, locks):
        """With so many locks in a call."""
        return self.measure(seconds, locks, PAIR_CALLS, PAIR_CONNECTIONS)["pairs_per_s"]

    def single_pairs_per_s(self, seconds):
        """One lock in a call, 64 calls in a write, as redis-benchmark -P 64 would have it."""
        return self.measure(seconds, 1, 64, PAIR_CONNECTIONS)["pairs_per_s"]

    def pair_us(self, seconds):
        """Two round trips, one after the other, nobody else there."""
        told = self.measure(seconds, 1, 1, 1)
        return told["acquire_p50_us"] + told["release_p50_us"]

    def calls(self):
        """Of scripts, since the server began."""
        for line in harness.run("redis-cli", "-p", self.port, "info", "commandstats", env=self.env).splitlines():
            if line.startswith("cmdstat_evalsha:"):
                return int(line.split("calls=")[1].split(",")[0])
        return 0


def composite(*rates):
    """The rate of doing all of these one after the other."""
    return 1 / sum(1 / rate for rate in rates)
