"""results.py - what the bench tells of its rounds: the result, and the table."""

import statistics

from yardsticks import composite
from deploy import CONNECTIONS, THREADS, WORKERS

# What is asked by wrk: name, title, what it is held against, goal.
ASKED = (("nginx", "nginx, return 200 to the same", None, None),
         ("empty", "libmicrohttpd, an empty answer", None, None),
         ("orders", "durable orders, distinct shoppers", "nginx", 0.45),
         ("refusals", "sold out, without a key", "nginx", 0.90),
         ("keyed_refusals", "sold out, a fresh key each", "nginx", 0.35),
         ("mixed", "nine sold out to one order", "nginx", None),
         ("orders_100", "orders, 100 vouchers at random", "orders", 0.40),
         ("orders_million", "orders, a million in the table", "orders", 0.90))
YARDSTICKS = (("pg_bulk", "Postgres, bulk insert of the rows"),
              ("redis_pairs", "Redis, pairs of locks, batched"),
              ("redis_single_pairs", "Redis, pairs, one lock a call"),
              ("limit", "limit: 1/(1/nginx+1/bulk+1/pairs)"),
              ("pgbench", "Postgres, an order a transaction"))
LOADS = (("half", "half"), ("eighty", "80 %"))
GOALS = (("orders_ratio_limit", "orders by the limit", 0.85),
         ("orders_ratio_pgbench", "orders by an order a transaction", 20))
CEILINGS = (("p99_ms_half_load", "p99 at half the orders, ms", 10),
            ("p999_ms_half_load", "p99.9 at half the orders, ms", 25),
            ("single_ratio", "a single client's order by pair + commit", 1.5))


# -- the result --

def rates(measured, what):
    """Per second, of each round."""
    if what == "limit":
        return [composite(*parts) for parts in zip(
            *(rates(measured, part) for part in ("nginx", "pg_bulk", "redis_pairs")))]
    if what in (name for name, _ in YARDSTICKS):
        return [told[what] for told in measured]
    done = "created" if what.startswith("orders") else "requests"
    return [told[what][done] / told[what]["seconds"] for told in measured]


def ratio(values, bases):
    """The median of those within a round: between rounds the machine changes."""
    return round(statistics.median(value / base for value, base in zip(values, bases)), 3)


def middle(values):
    """The place of the median; of two in the middle that of the smaller one."""
    return values.index(statistics.median_low(values))


def put_rates(result, measured):
    for what, *_ in ASKED + YARDSTICKS:
        of_rounds = rates(measured, what)
        result[f"{what}_per_s"] = round(statistics.median(of_rounds))
        result[f"{what}_per_s_rounds"] = [round(rate) for rate in of_rounds]
    for what, _, base, _ in ASKED:
        for percentile in ("p50_us", "p99_us"):
            result[f"{what}_{percentile}"] = statistics.median(told[what][percentile] for told in measured)
        if base:
            result[f"{what}_ratio_{base}"] = ratio(rates(measured, what), rates(measured, base))
    for base in ("limit", "pgbench"):
        result[f"orders_ratio_{base}"] = ratio(rates(measured, "orders"), rates(measured, base))


def put_latency(result, measured):
    """Of each load the round whose p99 is the median, as a whole."""
    result["latency"] = {}
    for load, _ in LOADS:
        tails = [told[load]["p99_us"] for told in measured]
        result["latency"][load] = measured[middle(tails)][load] | {"p99_us_rounds": tails}
    half = result["latency"]["half"]
    result["p99_ms_half_load"] = round(half["p99_us"] / 1000, 2)
    result["p999_ms_half_load"] = round(half["p999_us"] / 1000, 2)


def put_single(result, measured):
    for what in ("single_us", "pair_us", "commit_us"):
        result[what] = statistics.median(told[what] for told in measured)
    result["single_ratio"] = ratio([told["single_us"] for told in measured],
                                   [told["pair_us"] + told["commit_us"] for told in measured])


def compile_result(measured, facts):
    result = {}
    put_rates(result, measured)
    put_latency(result, measured)
    put_single(result, measured)
    # As they belong together, of the round whose orders/s is the median.
    result.update(measured[middle(rates(measured, "orders"))]["costs"])
    return result | facts


# -- the table --

def verdict(holds):
    return "met" if holds else "MISSED"


def spread(result, what, title):
    of_rounds = result[f"{what}_per_s_rounds"]
    return f"{title:34}{result[f'{what}_per_s']:>10,}  {min(of_rounds):>8,}..{max(of_rounds):<8,}"


def print_rates(result):
    print(f"\n{'':34}{'per second':>10}  {'of the rounds':>18}{'p50':>8}{'p99':>9}   ratio")
    for what, title, base, goal in ASKED:
        line = (spread(result, what, title) + f"{result[f'{what}_p50_us'] / 1000:>5.1f} ms"
                f"{result[f'{what}_p99_us'] / 1000:>6.1f} ms")
        if base:
            times = result[f"{what}_ratio_{base}"]
            line += f"   {times:.2f} x {base}"
            line += f", goal {goal:.2f}: {verdict(times >= goal)}" if goal else ""
        print(line)
    for what, title in YARDSTICKS:
        print(spread(result, what, title))


def print_latency(result):
    print(f"\n{'orders that come when they come':34}{'per second':>10}{'p50':>12}{'p90':>12}{'p99':>12}{'p99.9':>12}"
          f"{'max':>12}   own delay, p99")
    for load, title in LOADS:
        told = result["latency"][load]
        print(f"{title + ' of the most':34}{told['201'] / told['seconds']:>10,.0f}"
              + "".join(f"{told[at] / 1000:>9.2f} ms" for at in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us"))
              + f"   {told['late_p99_us'] / 1000:.2f} ms")
    print(f"a single client's order {result['single_us']:.0f} us, a pair of locks {result['pair_us']:.0f} us, "
          f"a commit {result['commit_us']:.0f} us")


def print_costs(result):
    print("\nof an order, us of a processor: "
          + ", ".join(f"{name} {us}" for name, us in result["cpu_us_per_order"].items()))
    print("of an order's time, us, mean/p50/p99: "
          + ", ".join(f"{name} {told['mean_us']}/{told['p50_us']}/{told['p99_us']}"
                      for name, told in result["stages"].items()))
    print("memory after it, MiB, resident/share: "
          + ", ".join(f"{name} {told['rss_mib']}/{told['pss_mib']}" for name, told in result["memory"].items()))
    idle = result["idle_connections"]
    print(f"memory idle: {result['rss_idle_mib']} MiB, goal 20: {verdict(result['rss_idle_mib'] < 20)}; "
          f"after the load: {result['rss_after_load_mib']} MiB")
    print(f"idle connections held: {idle['answered']:,} of {idle['asked']:,} "
          f"({idle['rss_mib']} MiB): {verdict(idle['answered'] == idle['asked'])}")


def print_goals(result):
    print()
    for what, title, goal in GOALS:
        print(f"{title:42}{result[what]:>8.2f}   goal at least {goal}: {verdict(result[what] >= goal)}")
    for what, title, goal in CEILINGS:
        print(f"{title:42}{result[what]:>8.2f}   goal at most {goal}: {verdict(result[what] <= goal)}")


def print_table(result):
    print(f"\n{result['machine']}")
    print(", ".join(f"{name} {value}" for name, value in result["versions"].items()))
    print("Postgres: " + ", ".join(f"{name}={value}" for name, value in result["durability"].items()))
    print(f"{WORKERS} workers, {CONNECTIONS} connections, wrk -t{THREADS}, {result['rounds']} rounds of "
          f"{result['seconds']} s; median (lowest to highest), ratios within a round")
    print_rates(result)
    print_latency(result)
    print_costs(result)
    print_goals(result)
    print("after each measurement: no oversell, no duplicate, every 201 a row, no 5xx")
