"""results.py - the result of the benchmark, compiled from its rounds, and the table."""

import statistics

from yardsticks import composite
from deploy import CONNECTIONS, THREADS, WORKERS

# Measured with wrk: name, title, base of the ratio, goal.
RATES = (("nginx", "nginx, return 200", None, None),
         ("orders", "durable orders, distinct shoppers", "nginx", 0.45),
         ("refusals", "sold out, no key", "nginx", 0.90),
         ("keyed_refusals", "sold out, each with a new key", "nginx", 0.35),
         ("mixed", "90 % sold out, 10 % orders", "nginx", None),
         ("orders_100", "orders, 100 vouchers at random", "orders", 0.40),
         ("orders_million", "orders, a million in the table", "orders", 0.90))
YARDSTICKS = (("pg_bulk", "Postgres, bulk insert"),
              ("redis_pairs", "Redis, lock pairs, batched"),
              ("redis_single_pairs", "Redis, lock pairs, one per call"),
              ("limit", "limit: nginx + bulk + batched pairs"),
              ("pgbench", "Postgres, one order per transaction"))
LOADS = (("half", "50 %"), ("eighty", "80 %"))
GOALS = (("orders_ratio_limit", "orders / limit", 0.75),
         ("orders_ratio_pgbench", "orders / one order per transaction", 20))
CEILINGS = (("p99_ms_half_load", "p99 at 50 % of peak, ms", 8),
            ("p999_ms_half_load", "p99.9 at 50 % of peak, ms", 20),
            ("single_ratio", "single client: order / (lock pair + commit)", 1.1))


# -- the result --

def rates(measured, what):
    """The rate in each round."""
    if what == "limit":
        return [composite(*parts) for parts in zip(
            *(rates(measured, part) for part in ("nginx", "pg_bulk", "redis_pairs")))]
    if what in (name for name, _ in YARDSTICKS):
        return [report[what] for report in measured]
    done = "created" if what.startswith("orders") else "requests"
    return [report[what][done] / report[what]["seconds"] for report in measured]


def ratio(values, bases):
    """The median of the ratios within each round, because the speed of the machine varies between rounds."""
    return round(statistics.median(value / base for value, base in zip(values, bases)), 3)


def middle(values):
    """The index of the median, or of the lower one of two medians."""
    return values.index(statistics.median_low(values))


def put_rates(result, measured):
    for what, *_ in RATES + YARDSTICKS:
        of_rounds = rates(measured, what)
        result[f"{what}_per_s"] = round(statistics.median(of_rounds))
        result[f"{what}_per_s_rounds"] = [round(rate) for rate in of_rounds]
    for what, _, base, _ in RATES:
        for percentile in ("p50_us", "p99_us"):
            result[f"{what}_{percentile}"] = statistics.median(report[what][percentile] for report in measured)
        if base:
            result[f"{what}_ratio_{base}"] = ratio(rates(measured, what), rates(measured, base))
    for base in ("limit", "pgbench"):
        result[f"orders_ratio_{base}"] = ratio(rates(measured, "orders"), rates(measured, base))


def put_latency(result, measured):
    """For each load the report of the round with the median p99."""
    result["latency"] = {}
    for load, _ in LOADS:
        tails = [report[load]["p99_us"] for report in measured]
        result["latency"][load] = measured[middle(tails)][load] | {"p99_us_rounds": tails}
    half = result["latency"]["half"]
    result["p99_ms_half_load"] = round(half["p99_us"] / 1000, 2)
    result["p999_ms_half_load"] = round(half["p999_us"] / 1000, 2)


def put_single(result, measured):
    for what in ("single_us", "pair_us", "commit_us"):
        result[what] = statistics.median(report[what] for report in measured)
    result["single_ratio"] = ratio([report["single_us"] for report in measured],
                                   [report["pair_us"] + report["commit_us"] for report in measured])


def compile_result(measured, facts):
    result = {}
    put_rates(result, measured)
    put_latency(result, measured)
    put_single(result, measured)
    # The costs are those of one round: the round with the median rate of orders.
    costs = measured[middle(rates(measured, "orders"))]
    return result | {name: costs[name] for name in ("cpu_us_per_order", "locks_per_call")} | facts


# -- the table --

def goal_state(is_met):
    return "met" if is_met else "MISSED"


def spread(result, what, title):
    of_rounds = result[f"{what}_per_s_rounds"]
    return f"{title:36}{result[f'{what}_per_s']:>10,}  {min(of_rounds):>8,}..{max(of_rounds):<8,}"


def print_rates(result):
    print(f"\n{'':36}{'per second':>10}  {'lowest..highest':>18}{'p50':>8}{'p99':>9}   ratio")
    for what, title, base, goal in RATES:
        line = (spread(result, what, title) + f"{result[f'{what}_p50_us'] / 1000:>5.1f} ms"
                f"{result[f'{what}_p99_us'] / 1000:>6.1f} ms")
        if base:
            times = result[f"{what}_ratio_{base}"]
            line += f"   {times:.2f} x {base}"
            line += f", goal {goal:.2f}: {goal_state(times >= goal)}" if goal else ""
        print(line)
    for what, title in YARDSTICKS:
        print(spread(result, what, title))


def print_latency(result):
    print(f"\n{'open-loop load':36}{'per second':>10}{'p50':>12}{'p90':>12}{'p99':>12}{'p99.9':>12}"
          f"{'max':>12}   client delay, p99")
    for load, title in LOADS:
        report = result["latency"][load]
        print(f"{title + ' of peak':36}{report['201'] / report['seconds']:>10,.0f}"
              + "".join(f"{report[at] / 1000:>9.2f} ms" for at in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us"))
              + f"   {report['late_p99_us'] / 1000:.2f} ms")
    print(f"single client: order {result['single_us']:.0f} us, lock pair {result['pair_us']:.0f} us, "
          f"commit {result['commit_us']:.0f} us")


def print_costs(result):
    print("\nCPU time per order, us: " + ", ".join(f"{name} {us}" for name, us in result["cpu_us_per_order"].items()))
    idle = result["idle_connections"]
    print(f"memory of the service: idle {result['rss_idle_mib']} MiB, goal 20: {goal_state(result['rss_idle_mib'] < 20)}; "
          f"after the load {result['rss_after_load_mib']} MiB")
    print(f"idle connections: {idle['answered']:,} of {idle['asked']:,} "
          f"({idle['rss_mib']} MiB): {goal_state(idle['answered'] == idle['asked'])}")


def print_goals(result):
    print()
    for what, title, goal in GOALS:
        print(f"{title:44}{result[what]:>8.2f}   goal at least {goal}: {goal_state(result[what] >= goal)}")
    for what, title, goal in CEILINGS:
        print(f"{title:44}{result[what]:>8.2f}   goal at most {goal}: {goal_state(result[what] <= goal)}")


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
