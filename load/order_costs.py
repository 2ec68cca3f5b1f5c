"""order_costs.py - CPU time per order and memory of each process, and the duration of each stage of
an order from the histograms of the service."""

import os

import harness

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def stat(pid):
    """The parent, the CPU seconds of the process, and those of its children that have ended."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    ticks = [int(field) for field in fields[11:15]]
    return int(fields[1]), sum(ticks[:2]) / TICKS_PER_S, sum(ticks[2:]) / TICKS_PER_S


def children(pid):
    """The ids of a process's children. Each may end at any time."""
    return [int(each) for each in filter(str.isdigit, os.listdir("/proc"))
            for parent, *_ in read_if_alive(stat, each) if parent == pid]


def read_if_alive(read, pid):
    """A list of what read(pid) returns; empty if the process has ended."""
    try:
        return [read(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_s(pid):
    """CPU time of a process and its children, including children that have ended."""
    _, own_s, ended_s = stat(pid)
    return own_s + ended_s + sum(each_s for child in children(pid)
                                 for _, each_s, _ in read_if_alive(stat, child))


def memory(pid):
    """Resident MiB of a process, and its proportional share where pages are shared."""
    mib = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("Rss", "Pss"):
                mib[name] = int(value.split()[0]) / 1024
    return mib["Rss"], mib["Pss"]


def memory_mib(pid):
    """Memory of a process and its children."""
    each = [memory(pid)] + [found for child in children(pid) for found in read_if_alive(memory, child)]
    rss, pss = map(sum, zip(*each))
    return {"rss_mib": round(rss, 1), "pss_mib": round(pss, 1)}


class CostMeter:
    """Measures a service and its servers between start() and stop()."""

    def __init__(self, service, servers, redis):
        self.service, self.redis = service, redis
        self.pids = {"app": service.process.pid, "postgres": int(servers.env["PG_PID"]),
                     "redis": int(servers.env["REDIS_PID"])}

    def sample(self):
        # It may still read the last requests of a load generator that has ended.
        harness.wait_for("the service is idle", self.service.is_idle)
        return {"cpu_s": {name: cpu_s(pid) for name, pid in self.pids.items()},
                "calls": self.redis.calls(), "placed": self.service.placed(),
                "stages": dict(self.service.metrics("seckill_order_stage_seconds_bucket")
                               + [("sum" + labels, value) for labels, value
                                  in self.service.metrics("seckill_order_stage_seconds_sum")])}

    def start(self):
        self.before = self.sample()

    def stop(self, load_cpu_s):
        """`load_cpu_s`: CPU time of the load generator."""
        after, before = self.sample(), self.before
        orders = after["placed"] - before["placed"]
        spent = {name: after["cpu_s"][name] - before["cpu_s"][name] for name in self.pids}
        return {"cpu_us_per_order": {name: round(1e6 * seconds / orders, 2)
                                     for name, seconds in (spent | {"load": load_cpu_s}).items()},
                "memory": {name: memory_mib(pid) for name, pid in self.pids.items()},
                "locks_per_call": 2 * orders / (after["calls"] - before["calls"]),
                "stages": stages({name: value - before["stages"].get(name, 0)
                                  for name, value in after["stages"].items()})}


def stages(counts):
    """Count, mean and percentiles of each stage, from the values of the metric's lines."""
    buckets, sums = {}, {}
    for labels, value in counts.items():
        name = labels.split('stage="')[1].split('"')[0]
        if labels.startswith("sum"):
            sums[name] = value
        else:
            buckets.setdefault(name, []).append((float(labels.split('le="')[1].split('"')[0]), value))
    return {name: stage(sorted(edges), sums[name]) for name, edges in buckets.items()}


def stage(edges, sum_s):
    count = edges[-1][1] # the bucket up to infinity
    if count == 0:
        return {"count": 0}
    return {"count": round(count), "mean_us": round(1e6 * sum_s / count),
            "p50_us": round(1e6 * quantile(edges, 0.50)), "p99_us": round(1e6 * quantile(edges, 0.99))}


def quantile(edges, fraction):
    """Interpolated linearly within its bucket. An edge is an upper bound and the count of values
    up to it."""
    rank, lower, below = fraction * edges[-1][1], 0.0, 0
    for upper, up_to in edges:
        if up_to >= rank:
            break
        lower, below = upper, up_to
    if upper == float("inf"):
        return lower
    return lower + (upper - lower) * (rank - below) / (up_to - below)
