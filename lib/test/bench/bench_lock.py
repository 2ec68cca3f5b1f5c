#!/usr/bin/env -S python3 -B
"""bench_lock.py BUILD_DIR REDIS_URL - compare the lock library with other libraries, on this
machine, in one run.

The workloads:
  many       128 locks in flight at once, each under a new name, asynchronous
  one core   lock and unlock of one free name by one thread, which waits for each reply; the
             thread and the server are pinned to one core
  two cores  the same, with a core for the thread and one for the server
  contended  16 threads or tasks that take turns with one lock; the fairness is the number
             of acquisitions of the most successful thread divided by that of the least
  processes  the same with 8 processes of 8 threads or tasks
  topology   as `many`, through a sentinel, and on a cluster of three masters, which share the
             cores of this machine

The kind cohort passes a lock among the threads of a process, most times without the server.
"CPU" is the CPU time of the server for a pair.

The reference of `many` is redis-benchmark with the two scripts of the plain lock, one lock per
call, 2 connections with 64 calls in flight each (1 with 128 is slower); its pairs per second
are 1 / (1 / acquires + 1 / releases), since it runs one script after the other. The reference
of one thread is hiredis without a lock library: SET NX PX, and a compare-and-delete script,
without a fence and without a check that the call is not too late.

The other libraries run with their documented defaults. They are installed below BUILD_DIR, in
the versions that peers/ and ../interop pin; one that cannot be installed is listed as missing.

At the end the watchdog keeps 10,000 locks for a minute, to measure what that costs.

Each round measures each candidate once, so that a slow minute of the machine affects all of
them; the results are the median and the spread of the rounds. In a virtual machine the rounds
on two cores can differ much, since to wake a halted core takes longer than the work.

Prints a table, writes var/bench/lock.json.

  BENCH_SECONDS=3  of each measurement     BENCH_ROUNDS=3"""

import concurrent.futures
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import statistics
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = f"{HERE}/peers"
RESULT = "var/bench/lock.json"
SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
WITHIN_S = 60 + 2 * SECONDS # for start, warm-up, measurement and the end
IN_FLIGHT, CONTENDERS = 128, 16
PROCESSES, TASKS = 8, 8
WARM_UP_S = 1 # of each program
CORES = sorted(os.sched_getaffinity(0))
PINS = {"one core": (CORES[:1], CORES[:1]), "two cores": (CORES[:1], CORES[-1:])} # the server and its clients
HELD, HELD_S = 10_000, 60
MASTERS, SLOTS = 3, 16384
OWNER = "0123456789abcdef0123456789abcdef:00000001"
NUMBER = "12345" # of a call; the reply repeats it
LATEST_US = "9000000000000000" # no call is too late
NAMES, CALLS = 1_000_000, 100_000 # so 95 of 100 names drawn at random are drawn once
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
PYTHON_PACKAGES = ("redis", "async-timeout", "deprecated", "packaging", "wrapt")


class Failed(Exception):
    """Something did not work; the text says what."""


class Missing(Exception):
    """A peer cannot be installed; the text says why."""


def run(*command, env=None, cwd=None, stdin=None, within_s=WITHIN_S):
    """Run a program to its end; return its standard output, or raise Failed with its error."""
    try:
        done = subprocess.run((*DIE_WITH_PARENT, *command), env=dict(os.environ, **(env or {})), cwd=cwd, input=stdin,
                              capture_output=True, text=True, timeout=within_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise Failed(str(failure)) from None
    if done.returncode != 0:
        raise Failed(f"{os.path.basename(command[0])}: exit code {done.returncode}: "
                     f"{(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


# -- Redis --

class Redis:
    """The server to measure against."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.url = url
        self.address = (parts.hostname, str(parts.port))
        self.password = parts.password

    def ask(self, *words, stdin=None):
        return run("redis-cli", "-h", self.address[0], "-p", self.address[1], *words,
                   env={"REDISCLI_AUTH": self.password or ""}, stdin=stdin).strip()

    def is_up(self, server):
        if server.poll() is not None:
            raise Failed("redis-server has ended")
        with contextlib.suppress(Failed):
            return self.ask("ping") == "PONG"
        return False

    def cpu_s(self):
        fields = dict(line.split(":") for line in self.ask("info", "cpu").split("\n") if ":" in line)
        return float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"])

    @contextlib.contextmanager
    def pin(self, work):
        """Pin the server, and the programs that are started in this block, as the workload says."""
        server, clients = PINS.get(work, (CORES, CORES))
        pid = int(re.search(r"process_id:(\d+)", self.ask("info", "server"))[1])
        os.sched_setaffinity(pid, server)
        os.sched_setaffinity(0, clients)
        try:
            yield
        finally:
            os.sched_setaffinity(0, CORES)
            os.sched_setaffinity(pid, CORES)

    def version(self):
        lines = self.ask("info", "server").split("\n")
        return next(line.split(":")[1].strip() for line in lines if line.startswith("redis_version"))

    def benchmark(self, *call):
        """Calls per second."""
        auth = ("-a", self.password) if self.password else ()
        output = run("redis-benchmark", "-h", self.address[0], "-p", self.address[1], *auth, "--csv",
                   "-c", "2", "-P", "64", "-n", str(CALLS), "-r", str(NAMES), *call)
        return float(output.splitlines()[-1].split('","')[1])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def await_true(what, holds):
    end_s = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > end_s:
            raise Failed(f"not so in {WITHIN_S} s: {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def start_redis(*options):
    """One more server, with nothing on disk, until the end of the block."""
    port = str(free_port())
    with tempfile.TemporaryDirectory() as place:
        config = f"{place}/redis.conf" # in which a sentinel keeps its state
        with open(config, "w") as out:
            out.write(f'bind 127.0.0.1\nport {port}\ndir {place}\nsave ""\n')
        with subprocess.Popen((*DIE_WITH_PARENT, "redis-server", config, *options), stdout=subprocess.DEVNULL) as server:
            try:
                redis = Redis(f"redis://127.0.0.1:{port}")
                await_true("redis-server answers", lambda: redis.is_up(server))
                yield redis
            finally:
                server.kill()


# -- programs that print a line of JSON --

def program_work(work):
    """The word by which the programs know the workload."""
    return {"processes": "contended", "one core": "one", "two cores": "one"}.get(work, work)


def run_processes(work, *command, env=None):
    """The result of the program; of several that run at the same time, the sum."""
    count = PROCESSES if work == "processes" else 1
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        calls = [threads.submit(run, *command, env=env) for _ in range(count)]
        results = [json.loads(call.result()) for call in calls]
    return {"version": results[0]["version"], "pairs_per_s": sum(each["pairs_per_s"] for each in results),
            "acquisitions": [number for each in results for number in each["acquisitions"]]}


# -- our candidates and their references --

class Scripts:
    """redis-benchmark with the plain lock's two scripts."""

    title, works, role = "redis-benchmark, both scripts", ("many",), "measure"

    def install(self, build):
        self.print_script = f"{build}/print_script"

    def calls(self, redis, name):
        """The two calls for one lock."""
        acquire, release = (
            redis.ask("-x", "script", "load", stdin=run(self.print_script, script))
            for script in ("acquire", "release"))
        return (("evalsha", acquire, "2", "lock:fence", name, "30000", LATEST_US, OWNER, NUMBER),
                ("evalsha", release, "2", "lock:fence:waiting", name, OWNER, NUMBER))

    def measure(self, _work, redis):
        acquire, release = self.calls(redis, "bench:check")
        replies = redis.ask(*acquire).split("\n")[3], redis.ask(*release).split()[1]
        if replies != ("1", "1"):
            raise Failed(f"the arguments of the scripts have changed: {replies}")
        acquire, release = self.calls(redis, "lock:order:__rand_int__")
        acquires_per_s = redis.benchmark(*acquire)
        redis.ask("eval", f"for i = 0, {NAMES - 1} do redis.call('SET', "
                  "string.format('lock:order:%012d', i), ARGV[1], 'PX', 600000) end", "0", OWNER)
        releases_per_s = redis.benchmark(*release)
        return {"version": redis.version(),
                "pairs_per_s": 1 / (1 / acquires_per_s + 1 / releases_per_s), "acquisitions": []}


class BareHiredis:
    """Blocking calls without a library."""

    title, works, role = "bare hiredis", ("one core", "two cores"), "measure"

    def install(self, build):
        self.program = f"{build}/bare_hiredis"

    def measure(self, _work, redis):
        password = (redis.password,) if redis.password else ()
        return json.loads(run(self.program, str(SECONDS), *redis.address, *password))


class Asynchronous:
    """The asynchronous calls, plain kind, with the watchdog."""

    title, works, role = "librlock, asynchronous", ("many",), "ours"

    def install(self, build):
        self.program = f"{build}/bench_lock"

    def measure(self, _work, redis):
        return self.measure_at(redis.url)

    def measure_at(self, url):
        words = run(self.program, url, str(IN_FLIGHT), str(SECONDS), "watch").split()
        results = dict(zip(words[::2], words[1::2]))
        if results["failures"] != "0":
            raise Failed(f"bench_lock: {results['failures']} failures")
        return {"version": "", "pairs_per_s": float(results["pairs_per_s"]), "acquisitions": []}


class Single(Asynchronous):
    """The reference of the topologies."""

    title, works, role = "librlock, one server", ("topology",), "measure"


class Sentinel(Asynchronous):
    """A sentinel names the server."""

    title, works, role = "librlock, the same behind a sentinel", ("topology",), "measure"

    def measure(self, _work, redis):
        host, port = redis.address
        with start_redis("--sentinel") as sentinel:
            sentinel.ask("sentinel", "monitor", "bench", host, port, "1")
            if redis.password:
                sentinel.ask("sentinel", "set", "bench", "auth-pass", redis.password)
            login = f":{redis.password}@" if redis.password else ""
            return self.measure_at(f"redis-sentinel://{login}{':'.join(sentinel.address)}?master=bench")


class Cluster(Asynchronous):
    """Three masters."""

    title, works = "librlock, cluster of three masters", ("topology",)

    def measure(self, _work, _redis):
        with contextlib.ExitStack() as stack:
            buses = [str(free_port()) for _ in range(MASTERS)]
            nodes = [stack.enter_context(start_redis("--cluster-enabled", "yes", "--cluster-port", bus))
                     for bus in buses]
            for number, node in enumerate(nodes):
                node.ask("cluster", "set-config-epoch", str(number + 1))
                node.ask("cluster", "addslotsrange", str(number * SLOTS // MASTERS),
                         str((number + 1) * SLOTS // MASTERS - 1))
                nodes[0].ask("cluster", "meet", *node.address, buses[number])
            await_true("the cluster is complete", lambda: all(
                "cluster_state:ok" in info and f"cluster_slots_ok:{SLOTS}" in info
                for info in (node.ask("cluster", "info") for node in nodes)))
            return self.measure_at("redis-cluster://" + ",".join(":".join(node.address) for node in nodes))


class Synchronous:
    """The synchronous calls, with the watchdog, waiting by pub/sub."""

    role = "ours"

    def __init__(self, kind, works):
        self.kind, self.works, self.title = kind, works, f"librlock, synchronous, {kind}"
        if kind == "cohort":
            self.title = "librlock, cohort, inside a process"

    def install(self, build):
        self.program = f"{build}/bench_sync"
        if not os.path.exists(self.program):
            raise Missing("bench_sync is not built")

    def measure(self, work, redis):
        threads = {"contended": CONTENDERS, "processes": TASKS}.get(work, 1)
        return run_processes(work, self.program, redis.url, str(threads), str(SECONDS), program_work(work), self.kind)


# -- the peers --

class Peer:
    """A program that takes WORK SECONDS REDIS_URL and prints a line of JSON."""

    role, command, env = "peer", (), {}

    def measure(self, work, redis):
        tasks = (str(TASKS),) if work == "processes" else ()
        return run_processes(work, *self.command, program_work(work), str(SECONDS), redis.url, *tasks, env=self.env)


class RedisPy(Peer):
    """Debian's package, unpacked below BUILD_DIR, with Debian's Python."""

    title, works = "redis-py Lock", ("one core", "two cores", "contended")

    def install(self, build):
        place = f"{build}/peers/python"
        if not os.path.exists(f"{place}/installed"):
            os.makedirs(place, exist_ok=True)
            run("apt-get", "download", "-q", *(f"python3-{name}" for name in PYTHON_PACKAGES), cwd=place)
            for package in os.listdir(place):
                if package.endswith(".deb"):
                    run("dpkg-deb", "-x", package, ".", cwd=place)
            open(f"{place}/installed", "w").close()
        self.command = ("/usr/bin/python3", "-B", f"{PEERS}/redis_py.py")
        self.env = {"PYTHONPATH": f"{place}/usr/lib/python3/dist-packages"}


class Node(Peer):
    """A package of npm; both are installed together."""

    def __init__(self, package, title, works):
        self.package, self.title, self.works = package, title, works

    def install(self, build):
        place = f"{build}/peers/node"
        lock = f"{PEERS}/node/package-lock.json"
        if not is_copy(lock, f"{place}/installed"):
            os.makedirs(place, exist_ok=True)
            for path in (f"{PEERS}/node/package.json", lock):
                shutil.copy(path, place)
            run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=place, within_s=300)
            shutil.copy(lock, f"{place}/installed")
        self.command = ("node", f"{PEERS}/node/bench.js", self.package)
        self.env = {"NODE_PATH": f"{place}/node_modules"}


class Redsync(Peer):
    """A module of Go, on go-redis."""

    title, works = "redsync", ("many", "one core", "two cores", "contended", "processes")

    def install(self, build):
        place = f"{build}/peers/go"
        program = f"{place}/redsync"
        run("go", "build", "-o", program, ".", cwd=f"{PEERS}/redsync", within_s=600, env={
            "GOPATH": place, "GOCACHE": f"{place}/cache", "GOFLAGS": "-mod=readonly -modcacherw"})
        self.command = (program,)


class Redisson(Peer):
    """RLock, from Maven Central: built with the peer of the interop test."""

    title, works = "Redisson RLock", ("many", "one core", "two cores", "contended")

    def install(self, build):
        done = subprocess.run([*DIE_WITH_PARENT, f"{HERE}/../interop/build.sh", build], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise Missing((done.stdout or done.stderr).strip())
        self.command = ("java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                        "-cp", f"{build}/redisson/peer.jar:{build}/redisson/lib/*", "LockBench")


def is_copy(path, other):
    """Whether both files exist and have the same content."""
    with contextlib.suppress(OSError), open(path, "rb") as one, open(other, "rb") as two:
        return one.read() == two.read()
    return False


# The first of each workload is the reference of the others.
ENTRANTS = (
    Scripts(), BareHiredis(), Asynchronous(), Single(), Sentinel(), Cluster(),
    Synchronous("plain", ("one core", "two cores", "contended", "processes")),
    Synchronous("cohort", ("contended", "processes")),
    Synchronous("reentrant", ("one core", "two cores", "contended")),
    Synchronous("fair", ("one core", "two cores", "contended")),
    Synchronous("getset", ("one core", "two cores", "contended")),
    RedisPy(), Node("redlock", "redlock on ioredis", ("many", "one core", "two cores", "contended")),
    Node("ioredis", "ioredis, SET NX and script", ("many", "one core", "two cores")), Redisson(), Redsync())
# A title, and the least part of the first candidate and of the best peer that our best one should reach.
WORKS = {"many": ("many, pairs per second", 0.8, 1),
         "one core": ("one thread on the core of the server, pairs/s", 0.9, 1.8),
         "two cores": ("one thread on another core, pairs/s", None, 1.4),
         "contended": ("16 contending, acquisitions per second", None, 1),
         "processes": ("8 processes of 8 contending, acquisitions/s", None, 1),
         "topology": ("by topology, pairs per second", 0.4, None)}
UNFAIR = 3 # most/least that our best candidate across processes should not reach


# -- the cost of held locks --

def measure_held(build, redis):
    """The cost of HELD locks that the watchdog renews for HELD_S, with the default lease."""
    def look():
        stats = dict(line.split(":") for line in redis.ask("info", "everything").split("\n") if ":" in line)
        return int(stats["total_commands_processed"]), float(stats["used_cpu_user"]) + float(stats["used_cpu_sys"])

    redis.ask("flushall")
    with subprocess.Popen((*DIE_WITH_PARENT, f"{build}/bench_held", redis.url, str(HELD), str(HELD_S)), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        program.stdout.readline()
        calls, cpu_s = look()
        held = json.loads(program.stdout.readline() or "{}")
        calls, cpu_s = look()[0] - calls, look()[1] - cpu_s
        program.stdin.close()
        if program.wait(WITHIN_S) != 0 or held.get("lost") != 0:
            raise Failed(f"bench_held: {held}")
    return {"held": HELD, "seconds": HELD_S, "renewed": held["renewed"], "cpu_s": held["cpu_s"],
            "redis_cpu_s": round(cpu_s, 3), "commands_per_s": round(calls / HELD_S, 1)}


# -- the run --

def install_all(build):
    """The candidates that can be measured, and why the others cannot."""
    present, missing = [], {}
    for entrant in ENTRANTS:
        try:
            entrant.install(build)
            present.append(entrant)
        except (Missing, Failed) as why:
            missing[entrant.title] = str(why)
    return present, missing


def measure_one(entrant, work, redis):
    with redis.pin(work):
        cpu_s = redis.cpu_s()
        result = entrant.measure(work, redis)
        pairs = result["pairs_per_s"] * (WARM_UP_S + SECONDS)
        result["redis_us"] = (redis.cpu_s() - cpu_s) / pairs * 1e6
    return result


def measure_all(entrants, redis):
    """The results of each round, by workload and candidate."""
    results = {}
    for number in range(1, ROUNDS + 1):
        print(f"bench-lock: round {number} of {ROUNDS}", flush=True)
        for work in WORKS:
            for entrant in entrants:
                if work in entrant.works:
                    redis.ask("flushall")
                    results.setdefault((work, entrant), []).append(measure_one(entrant, work, redis))
    return results


def fairness(acquisitions):
    """The most divided by the least; None when one thread got nothing."""
    return max(acquisitions) / min(acquisitions) if min(acquisitions) else None


def compile_row(work, entrant, results):
    rates = [round(each["pairs_per_s"]) for each in results]
    row = {"work": work, "who": entrant.title, "version": results[0]["version"],
           "role": entrant.role,
           "pairs_per_s": round(statistics.median(rates)), "pairs_per_s_rounds": rates}
    if work not in ("many", "topology"): # their programs and servers differ
        row["redis_us_per_pair"] = round(statistics.median(each["redis_us"] for each in results), 1)
    if work in ("contended", "processes"):
        ratios = [fairness(each["acquisitions"]) for each in results]
        row["fairness"] = None if None in ratios else round(statistics.median(ratios), 2)
    return row


def compile_result(results, missing, redis):
    rows = [compile_row(work, entrant, rounds) for (work, entrant), rounds in results.items()]
    for row in rows:
        same_work = [other for other in rows if other["work"] == row["work"]]
        row["ratio"] = round(row["pairs_per_s"] / same_work[0]["pairs_per_s"], 3)
    return {"rows": rows, "missing": missing, "seconds": SECONDS, "rounds": ROUNDS,
            "machine": f"{machine()}, Redis {redis.version()}"}


def machine():
    with open("/proc/cpuinfo") as lines:
        models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} x {models[0] if models else platform.machine()}, Linux {platform.release()}"


def goals(result):
    """The goals for our best result in each workload, as (text, whether it is met)."""
    for work, (_, least, least_of_peers) in WORKS.items():
        ours, peers = (max((row for row in result["rows"] if (row["role"], row["work"]) == (role, work)),
                           key=lambda row: row["pairs_per_s"], default=None) for role in ("ours", "peer"))
        if least:
            yield f"{work}: {ours['who']} at least {least} of the first", ours["ratio"] >= least
        if peers:
            yield (f"{work}: {ours['who']} at least {least_of_peers} of every peer (best: {peers['who']})",
                   ours["pairs_per_s"] >= least_of_peers * peers["pairs_per_s"])
        if work == "processes":
            yield (f"{work}: {ours['who']} with most/least below {UNFAIR}",
                   ours["fairness"] is not None and ours["fairness"] < UNFAIR)


def print_table(result):
    print(f"\n{result['machine']}\n{ROUNDS} rounds of {SECONDS} s, median (lowest to highest)")
    for work, (title, *_) in WORKS.items():
        rows = [row for row in result["rows"] if row["work"] == work]
        if rows:
            last = "most/least" if work in ("contended", "processes") else "ratio"
            print(f"\n{title:44}{'':12}{'of the rounds':>18}  {last:>10}{'us CPU':>9}")
        for row in rows:
            rates = row["pairs_per_s_rounds"]
            number = row.get("fairness", row["ratio"])
            print(f"  {row['who'] + ' ' + row['version']:42}{row['pairs_per_s']:>12,}"
                  f"{min(rates):>9,}..{max(rates):<9,}{'starved' if number is None else number:>8}"
                  f"{row.get('redis_us_per_pair', ''):>9}")
    kept = result["kept"]
    print(f"\n{kept['held']:,} locks held for {kept['seconds']} s: {kept['renewed']:,} renewals, "
          f"{kept['commands_per_s']} commands/s with those inside scripts; CPU {kept['cpu_s']} s ours, {kept['redis_cpu_s']} s Redis\n")
    for title, holds in goals(result):
        print(f"{title}: {'met' if holds else 'MISSED'}")
    for who, why in result["missing"].items():
        print(f"missing: {who} ({why})")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: bench_lock.py BUILD_DIR REDIS_URL")
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    redis = Redis(sys.argv[2])
    try:
        entrants, missing = install_all(os.path.abspath(sys.argv[1]))
        result = compile_result(measure_all(entrants, redis), missing, redis)
        result["kept"] = measure_held(sys.argv[1], redis)
    except Failed as failure:
        sys.exit(f"bench-lock: {failure}")
    os.makedirs(os.path.dirname(RESULT), exist_ok=True)
    with open(RESULT, "w") as out:
        json.dump(result, out, indent=2)
        out.write("\n")
    print_table(result)


main()
