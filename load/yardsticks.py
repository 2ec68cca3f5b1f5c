"""yardsticks.py - the limits of this machine, for comparison in the benchmark.

Each yardstick does one part of an order and nothing else. The least time for an order is the sum
of the times of its parts: HTTP answer (nginx), durable row (bulk insert), lock pair."""

import glob
import json
import os
import statistics
import subprocess
import tempfile

import harness
from deploy import STOCK

ROWS = 1000 # per statement of the bulk insert
CLIENTS = 64 # clients of pgbench that place one order per transaction
PAIR_CONNECTIONS, PAIR_CALLS = 2, 2 # the service has two event loops; Redis never waits for a call

# The same rows and indexes as with place_orders(), but without its work: no lock on the voucher,
# no stock, no window, no look-up of earlier orders. Each statement commits.
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
    """libmicrohttpd with an empty handler, set up like the service."""

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
    """PostgreSQL alone, measured with pgbench on the tables of a deployment."""

    def __init__(self, deployment):
        self.deployment = deployment

    def pgbench(self, script, clients, seconds):
        """Transactions per second, and the median duration of a transaction in us."""
        self.deployment.empty()
        voucher = self.deployment.service.create_voucher("yardstick", STOCK)
        threads = min(clients, len(os.sched_getaffinity(0)))
        with tempfile.TemporaryDirectory(dir=self.deployment.place) as place:
            with open(f"{place}/script", "w") as out:
                out.write(script)
            output = harness.run("pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(threads),
                             "-T", str(seconds), "-f", f"{place}/script", "-D", f"voucher={voucher}",
                             "-D", "n=0", "-l", "--log-prefix", f"{place}/log", self.deployment.owner_url)
            times = [int(line.split()[2]) for path in glob.glob(f"{place}/log*") for line in open(path)]
        if not times and seconds < 60: # the machine is busy
            return self.pgbench(script, clients, seconds * 4)
        if not times:
            raise harness.Failed(f"pgbench committed no transaction in {seconds} s:\n{output}")
        rate, = (float(line.split()[2]) for line in output.splitlines() if line.startswith("tps = "))
        return rate, statistics.median(times)

    def bulk_per_s(self, seconds):
        """Inserted rows per second, with one connection per core."""
        return ROWS * self.pgbench(BULK, len(os.sched_getaffinity(0)), seconds)[0]

    def orders_per_s(self, seconds):
        """Orders per second with one order per transaction, all for one voucher."""
        return self.pgbench(ORDER, CLIENTS, seconds)[0]

    def commit_us(self, seconds):
        """Duration of a transaction with one order and a single client."""
        return self.pgbench(ORDER, 1, seconds)[1]


class Redis:
    """Redis alone, with the scripts of the lock library."""

    def __init__(self, program, servers):
        self.program = program
        self.port = servers.env["REDIS_PORT"]
        self.env = dict(os.environ, REDISCLI_AUTH=servers.env["REDISCLI_AUTH"])

    def measure(self, seconds, locks, calls, connections):
        return json.loads(harness.run(self.program, self.port, *map(str, (seconds, locks, calls, connections)),
                                    env=self.env))

    def pairs_per_s(self, seconds, locks):
        """Pairs of acquire and release per second with `locks` per call."""
        return self.measure(seconds, locks, PAIR_CALLS, PAIR_CONNECTIONS)["pairs_per_s"]

    def single_pairs_per_s(self, seconds):
        """Pairs per second with one lock per call and 64 calls per write, like redis-benchmark -P 64."""
        return self.measure(seconds, 1, 64, PAIR_CONNECTIONS)["pairs_per_s"]

    def pair_us(self, seconds):
        """Duration of an acquire and a release with a single client."""
        report = self.measure(seconds, 1, 1, 1)
        return report["acquire_p50_us"] + report["release_p50_us"]

    def info(self, section, field):
        """The value of a field, or 0."""
        for line in harness.run("redis-cli", "-p", self.port, "info", section, env=self.env).splitlines():
            if line.startswith(f"{field}:"):
                return line.split(":")[1]
        return "0"

    def calls(self):
        """Script calls since the server started."""
        return int(self.info("commandstats", "cmdstat_evalsha").removeprefix("calls=").split(",")[0])

    def commands(self):
        """Commands since the server started, also those of scripts."""
        return int(self.info("stats", "total_commands_processed"))


def composite(*rates):
    """The rate of doing one thing of each kind in sequence."""
    return 1 / sum(1 / rate for rate in rates)
