"""Tests of the bench's arithmetic: order_costs.py, yardsticks.py, results.py."""

import os
import subprocess
import unittest
import unittest.mock

import order_costs
import results
import yardsticks

INFINITY = float("inf")


class QuantileTest(unittest.TestCase):
    def test_quantile__lies_within_its_bucket(self):
        edges = [(0.1, 0), (0.2, 100), (INFINITY, 100)]
        self.assertAlmostEqual(order_costs.quantile(edges, 0.50), 0.15)
        self.assertAlmostEqual(order_costs.quantile(edges, 0.99), 0.199)

    def test_quantile__passes_over_empty_buckets(self):
        edges = [(0.1, 50), (0.2, 50), (0.4, 100), (INFINITY, 100)]
        self.assertAlmostEqual(order_costs.quantile(edges, 0.50), 0.1)
        self.assertAlmostEqual(order_costs.quantile(edges, 0.75), 0.3)

    def test_quantile__beyond_the_last_bound_is_that(self):
        self.assertEqual(order_costs.quantile([(0.1, 1), (INFINITY, 100)], 0.99), 0.1)


class StagesTest(unittest.TestCase):
    def test_stages__are_read_from_the_metric(self):
        counts = {'{stage="lock",le="0.001"}': 10.0, '{stage="lock",le="+Inf"}': 10.0,
                  'sum{stage="lock"}': 0.004, '{stage="queue",le="0.001"}': 0.0,
                  '{stage="queue",le="+Inf"}': 0.0, 'sum{stage="queue"}': 0.0}
        self.assertEqual(order_costs.stages(counts), {
            "lock": {"count": 10, "mean_us": 400, "p50_us": 500, "p99_us": 990}, "queue": {"count": 0}})


class CpuTest(unittest.TestCase):
    """Of a shell with a child that works, and one that has worked."""

    WORK = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"

    def test_cpu_s__counts_children(self):
        with subprocess.Popen(["sh", "-c", f"sh -c '{self.WORK}'; sh -c '{self.WORK}; echo; read end'; true"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
            shell.stdout.readline()
            both, own = order_costs.cpu_s(shell.pid), order_costs.stat(shell.pid)[1]
            child, = order_costs.children(shell.pid)
            self.assertGreaterEqual(both, 1.5 * order_costs.stat(child)[1] + own)
            self.assertGreater(order_costs.stat(child)[1], 0.02)
            self.assertGreater(order_costs.memory_mib(shell.pid)["rss_mib"], order_costs.memory_mib(child)["rss_mib"])
            shell.stdin.write(b"\n")

    def test_memory_mib__skips_a_child_that_ended_after_it_was_listed(self):
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        pid = os.getpid()
        with unittest.mock.patch("order_costs.children", lambda _: [ended.pid]):
            self.assertGreater(order_costs.memory_mib(pid)["rss_mib"], 0)
            self.assertGreater(order_costs.cpu_s(pid), 0)

    def test_memory_mib__fails_when_the_process_itself_has_ended(self):
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        with self.assertRaises(FileNotFoundError):
            order_costs.memory_mib(ended.pid)


class FiguresTest(unittest.TestCase):
    def test_composite__is_one_after_the_other(self):
        self.assertAlmostEqual(yardsticks.composite(100, 100), 50)
        self.assertAlmostEqual(yardsticks.composite(60, 30, 20), 10)

    def test_middle__is_the_place_of_the_median(self):
        self.assertEqual(results.middle([30, 10, 20]), 2)
        self.assertEqual(results.middle([40, 10, 20, 30]), 2)

    def test_ratio__is_the_median_of_those_within_a_round(self):
        self.assertEqual(results.ratio([10, 200, 60], [100, 100, 100]), 0.6)
        self.assertEqual(results.ratio([50, 5, 500], [100, 10, 1000]), 0.5)
        self.assertEqual(results.ratio([10, 90, 20], [10, 100, 100]), 0.9) # of medians: 0.2

    def test_rates__of_orders_are_those_that_were_made(self):
        told = [{"orders": {"created": 80, "requests": 100, "seconds": 2},
                 "mixed": {"created": 80, "requests": 100, "seconds": 2}}]
        self.assertEqual(results.rates(told, "orders"), [40])
        self.assertEqual(results.rates(told, "mixed"), [50])

    def test_rates__of_the_limit_are_composed_in_each_round(self):
        told = [{"nginx": {"requests": rate, "seconds": 1}, "pg_bulk": 30, "redis_pairs": 20}
                for rate in (60, 12)]
        self.assertEqual([round(rate, 6) for rate in results.rates(told, "limit")], [10, 6])
