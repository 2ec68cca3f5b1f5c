#!/usr/bin/env -S python3 -B
"""bench.py PROGRAM - test the benchmark with one second per measurement: the results must be
complete and consistent. It does not matter how fast anything is."""

import json
import os
import subprocess
import sys

PLACE = "var/bench-short"
RATES = ("nginx", "orders", "orders_100", "orders_million", "refusals", "keyed_refusals",
         "mixed", "pg_bulk", "redis_pairs", "redis_single_pairs", "pgbench", "limit")
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")


def check_rates(result):
    for what in RATES:
        assert result[f"{what}_per_s"] > 0, what
        assert result[f"{what}_per_s_rounds"] == [result[f"{what}_per_s"]], what
    for part in ("nginx", "pg_bulk", "redis_pairs"):
        assert result["limit_per_s"] < result[f"{part}_per_s"], part
    for base in ("limit", "pgbench"):
        per_s = result[f"{base}_per_s"]  # rounded; the ratio is not
        ratio = result["orders_per_s"] / per_s
        assert abs(result[f"orders_ratio_{base}"] / ratio - 1) < 0.01 + 0.5 / per_s, base
    assert result["refusals_ratio_nginx"] > 0


def check_latency(result):
    for load, part in (("half", 0.5), ("eighty", 0.8)):
        report = result["latency"][load]
        expected = part * result["orders_per_s"] * result["seconds"]
        assert abs(report["offered"] - expected) < 6 * expected**0.5, f"{load}: {report['offered']} arrivals, not {expected}"
        assert report["201"] == report["offered"], load
        assert [report[name] for name in PERCENTILES] == sorted(report[name] for name in PERCENTILES), load
    assert result["p99_ms_half_load"] == round(result["latency"]["half"]["p99_us"] / 1000, 2)
    assert result["p999_ms_half_load"] == round(result["latency"]["half"]["p999_us"] / 1000, 2)


def check_costs(result):
    assert set(result["cpu_us_per_order"]) == {"app", "postgres", "redis", "load"}
    # Redis may need less than a tick of the clock.
    assert all((us > 0 or name == "redis") and us < 10_000 for name, us in result["cpu_us_per_order"].items()), \
        result["cpu_us_per_order"]
    assert 1 <= result["locks_per_call"] <= 256
    single_us, pair_us, commit_us = (result[name] for name in ("single_us", "pair_us", "commit_us"))
    assert min(single_us, pair_us, commit_us) > 0
    ratio = single_us / (pair_us + commit_us)
    assert abs(result["single_ratio"] - ratio) < 0.01, f"{result['single_ratio']}, not {ratio}"


def main():
    subprocess.run([f"{os.path.dirname(os.path.abspath(__file__))}/../bench.py", sys.argv[1]], check=True,
                   env=dict(os.environ, BENCH_PLACE=PLACE, BENCH_SECONDS="1", BENCH_ROUNDS="1",
                            BENCH_OLD_ORDERS="10_000", SECKILL_ORDER_TIMEOUT_MS="60000"))
    with open(f"{PLACE}/result.json") as file:
        result = json.load(file)
    for check in (check_rates, check_latency, check_costs):
        check(result)


main()
