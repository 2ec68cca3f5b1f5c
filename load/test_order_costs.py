"""Tests of order_costs.py."""

import os
import subprocess
import unittest
import unittest.mock

import order_costs

INFINITY = float("inf")


class QuantileTest(unittest.TestCase):
    def test_quantile__lies_within_its_bucket(self):
        edges = [(0.1, 0), (0.2, 100), (INFINITY, 100)]
        self.assertAlmostEqual(order_costs.quantile(edges, 0.50), 0.15)
        self.assertAlmostEqual(order_costs.quantile(edges, 0.99), 0.199)

    def test_quantile__skips_empty_buckets(self):
        edges = [(0.1, 50), (0.2, 50), (0.4, 100), (INFINITY, 100)]
        self.assertAlmostEqual(order_costs.quantile(edges, 0.50), 0.1)
        self.assertAlmostEqual(order_costs.quantile(edges, 0.75), 0.3)

    def test_quantile__beyond_the_last_bound_is_the_last_bound(self):
        self.assertEqual(order_costs.quantile([(0.1, 1), (INFINITY, 100)], 0.99), 0.1)


class StagesTest(unittest.TestCase):
    def test_stages__are_read_from_the_metric(self):
        counts = {'{stage="lock",le="0.001"}': 10.0, '{stage="lock",le="+Inf"}': 10.0,
                  'sum{stage="lock"}': 0.004, '{stage="queue",le="0.001"}': 0.0,
                  '{stage="queue",le="+Inf"}': 0.0, 'sum{stage="queue"}': 0.0}
        self.assertEqual(order_costs.stages(counts), {
            "lock": {"count": 10, "mean_us": 400, "p50_us": 500, "p99_us": 990}, "queue": {"count": 0}})


class CpuTest(unittest.TestCase):
    """The CPU time of a shell with a child that runs and a child that has ended; both have used CPU time."""

    WORK = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"

    def test_cpu_s__counts_children(self):
        with subprocess.Popen(["sh", "-c", f"sh -c '{self.WORK}'; sh -c '{self.WORK}; echo; read end'; true"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
            shell.stdout.readline()
            _, own_s, ended_s = order_costs.stat(shell.pid)
            child, = order_costs.children(shell.pid)
            child_s = order_costs.stat(child)[1]
            self.assertGreater(min(ended_s, child_s), 0.02)
            self.assertGreaterEqual(order_costs.cpu_s(shell.pid), own_s + ended_s + child_s - 0.001)
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
