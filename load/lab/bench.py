#!/usr/bin/env -S python3 -B
"""bench.py PROGRAM - the bench itself, for a second of each thing: does it tell all that it
should, and does what it tells agree with itself? How fast anything is does not matter here."""

import json
import os
import subprocess
import sys

PLACE = "var/bench-short"
RATES = ("nginx", "empty", "orders", "orders_100", "orders_million", "refusals", "keyed_refusals",
         "mixed", "pg_bulk", "redis_pairs", "redis_single_pairs", "pgbench", "limit")
PERCENTILES = ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")


def check_rates(result):
    for what in RATES:
        assert result[f"{what}_per_s"] > 0, what
        assert result[f"{what}_per_s_rounds"] == [result[f"{what}_per_s"]], what
    for part in ("nginx", "pg_bulk", "redis_pairs"):
        assert result["limit_per_s"] < result[f"{part}_per_s"], part
    for base in ("limit", "pgbench"):
        ratio = result["orders_per_s"] / result[f"{base}_per_s"]
        assert abs(result[f"orders_ratio_{base}"] / ratio - 1) < 0.01, base
    assert result["refusals_ratio_nginx"] > 0


def check_latency(result):
    for load, part in (("half", 0.5), ("eighty", 0.8)):
        told = result["latency"][load]
        asked = part * result["orders_per_s"] * result["seconds"]
        assert abs(told["offered"] - asked) < 6 * asked**0.5, f"{load}: {told['offered']} arrivals, not {asked}"
        assert told["201"] == told["answered"] == told["offered"], load
        assert [told[name] for name in PERCENTILES] == sorted(told[name] for name in PERCENTILES), load
        assert told["points"] == sorted(told["points"]) and len(told["points"]) > 20, load
    assert result["p99_ms_half_load"] == round(result["latency"]["half"]["p99_us"] / 1000, 2)
    assert result["p999_ms_half_load"] == round(result["latency"]["half"]["p999_us"] / 1000, 2)


def check_costs(result):
    assert set(result["cpu_us_per_order"]) == {"app", "postgres", "redis", "load"}
    assert all(0 < us < 10_000 for us in result["cpu_us_per_order"].values()), result["cpu_us_per_order"]
    assert all(told["pss_mib"] <= told["rss_mib"] for told in result["memory"].values())
    assert set(result["stages"]) == {"lock", "queue", "commit", "unlock", "total"}
    for name, told in result["stages"].items():
        assert told["count"] == result["stages"]["total"]["count"] > 0, name
        assert told["mean_us"] <= result["stages"]["total"]["mean_us"], name
    assert 1 <= result["locks_per_call"] <= 256
    # An order takes longer than the parts that it consists of.
    assert result["single_ratio"] > 0.5
    assert min(result["single_us"], result["pair_us"], result["commit_us"]) > 0


def main():
    subprocess.run([f"{os.path.dirname(os.path.abspath(__file__))}/../bench.py", sys.argv[1]], check=True,
                   env=dict(os.environ, BENCH_PLACE=PLACE, BENCH_SECONDS="1", BENCH_ROUNDS="1",
                            BENCH_OLD_ORDERS="10_000"))
    with open(f"{PLACE}/result.json") as file:
        result = json.load(file)
    for check in (check_rates, check_latency, check_costs):
        check(result)
    assert os.path.getsize(f"{PLACE}/bench.png") > 10_000


main()
