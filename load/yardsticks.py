"""yardsticks.py - the limits of this machine, for comparison in the benchmark.

Each yardstick does one part of an order and nothing else. An order takes at least the sum of the times
of its parts: HTTP answer (nginx), durable row (bulk insert), and lock pair (Redis)."""

import glob
import os
import re
import statistics
import tempfile

import harness

ROWS = 1000 # per statement of the bulk insert
CLIENTS = 64 # clients of pgbench that place one order per transaction
LOCKS, SINGLE_CALLS = 20_000, 5000 # so few that nearly all names are taken once

# The bulk insert makes the same rows and index entries as place_orders(), but does not lock the voucher, and
# checks neither stock nor sale window nor earlier orders. Each statement commits.
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


class Postgres:
    """PostgreSQL alone, measured with pgbench on the tables of a deployment."""

    def __init__(self, deployment):
        self.deployment = deployment

    def pgbench(self, script, clients, seconds):
        """Transactions per second, and the median duration of a transaction in us."""
        self.deployment.empty()
        voucher = self.deployment.voucher()
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
    """Redis alone, with the scripts of the lock library, by redis-benchmark. This program takes names at random.
    So all names are free before it acquires, and all are locked before it releases."""

    names, owner, number, latest_us = 200_000, "0123456789abcdef0123456789abcdef:1", "12345", "9000000000000000"

    def __init__(self, print_script, servers):
        self.servers = servers
        self.acquire, self.release = (servers.redis("script", "load", harness.run(print_script, name)).strip()
                                      for name in ("acquire", "release"))

    def call(self, script, names):
        """The same call as in kinds.c for the plain lock; its reply repeats the number."""
        fence = "bench:fence" + ":waiting" * (script == self.release)
        lease = ["10000", self.latest_us] * (script == self.acquire)
        return ["evalsha", script, str(len(names) + 1), fence, *names, *lease, *[self.owner] * len(names), self.number]

    def set_all(self, are_locked):
        self.servers.redis("eval", f"""for i = 0, {self.names - 1} do local name = string.format('lock:bench:%012d', i)
            if ARGV[1] == '1' then redis.call('SET', name, ARGV[2]) else redis.call('DEL', name) end end""",
                           "0", str(int(are_locked)), self.owner)

    def measure(self, locks, clients, pipeline, calls):
        """Locks per second, and the median duration of a call in us; of acquires, then of releases."""
        replies = [self.servers.redis(*self.call(script, ["lock:check"])).split()[-1] for script in (self.acquire, self.release)]
        harness.expect("the last word of the replies of the scripts", replies, ["1", "1"])
        found = []
        for script in (self.acquire, self.release):
            self.set_all(are_locked=script == self.release)
            output = harness.run("redis-benchmark", "-p", self.servers.env["REDIS_PORT"], "-a", self.servers.env["REDISCLI_AUTH"],
                                 "--csv", "-c", str(clients), "-P", str(pipeline), "-n", str(calls), "-r", str(self.names),
                                 *self.call(script, ["lock:bench:__rand_int__"] * locks))
            fields = [field.strip('"') for field in output.splitlines()[-1].rsplit('","', 7)[1:]]
            found.append((locks * float(fields[0]), float(fields[3]) * 1000))
        self.set_all(are_locked=False)
        return found

    def pairs_per_s(self, locks, pipeline=2):
        """Pairs of acquire and release per second with `locks` per call, on two connections as the service has."""
        acquires, releases = self.measure(locks, 2, pipeline, LOCKS // locks)
        return composite(acquires[0], releases[0])

    def single_pairs_per_s(self):
        """Pairs per second with one lock per call and 64 calls per write."""
        return self.pairs_per_s(1, 64)

    def pair_us(self):
        """Duration of an acquire and a release with a single client."""
        acquire, release = self.measure(1, 1, 1, SINGLE_CALLS)
        return acquire[1] + release[1]

    def calls(self):
        """Script calls since the server started."""
        found = re.search(r"cmdstat_evalsha:calls=(\d+)", self.servers.redis("info", "commandstats"))
        return int(found[1]) if found else 0


def composite(*rates):
    """The rate at which one thing of each kind is done in sequence."""
    return 1 / sum(1 / rate for rate in rates)
