"""Tests of the arithmetic of the benchmarks."""

import subprocess
import unittest

import compare
import deploy
import results
import yardsticks


class ResultsTest(unittest.TestCase):
    def test_composite__is_the_rate_of_all_parts_in_sequence(self):
        self.assertAlmostEqual(yardsticks.composite(100, 100), 50)
        self.assertAlmostEqual(yardsticks.composite(60, 30, 20), 10)

    def test_middle__is_the_index_of_the_median(self):
        self.assertEqual(results.middle([30, 10, 20]), 2)
        self.assertEqual(results.middle([40, 10, 20, 30]), 2)

    def test_ratio__is_the_median_of_the_ratios_within_a_round(self):
        self.assertEqual(results.ratio([10, 200, 60], [100, 100, 100]), 0.6)
        self.assertEqual(results.ratio([50, 5, 500], [100, 10, 1000]), 0.5)
        self.assertEqual(results.ratio([10, 90, 20], [10, 100, 100]), 0.9) # the ratio of the medians is 0.2

    def test_rates__of_orders_count_created_orders(self):
        rounds = [{"orders": {"created": 80, "requests": 100, "seconds": 2},
                 "mixed": {"created": 80, "requests": 100, "seconds": 2}}]
        self.assertEqual(results.rates(rounds, "orders"), [40])
        self.assertEqual(results.rates(rounds, "mixed"), [50])

    def test_rates__of_the_limit_are_composed_in_each_round(self):
        rounds = [{"nginx": {"requests": rate, "seconds": 1}, "pg_bulk": 30, "redis_pairs": 20}
                for rate in (60, 12)]
        self.assertEqual([round(rate, 6) for rate in results.rates(rounds, "limit")], [10, 6])


class CompareTest(unittest.TestCase):
    def test_summarise__compares_within_a_round(self):
        """Both cases are slow in the second round."""
        found = {name: [{"orders_per_s": rate} for rate in rates] for name, rates in (("a", (100, 10, 100)), ("b", (80, 10, 85)))}
        self.assertEqual(compare.summarise(found)["b"], {"median": {"orders_per_s": 80}, "ratio": {"orders_per_s": 0.85}})

    def test_measure__every_other_round_is_backwards(self):
        order = []
        found = compare.measure({x: lambda x=x: order.append(x) or {"x": x} for x in (1, 2, 3)})
        self.assertEqual(order[:6], [1, 2, 3, 3, 2, 1])
        self.assertEqual(found[2], [{"x": 2}] * compare.ROUNDS)


class CpuTest(unittest.TestCase):
    """The CPU time of a shell with a child that runs and a child that has ended; both have used CPU time."""

    WORK = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"

    def test_cpu_s__counts_children(self):
        with subprocess.Popen(["sh", "-c", f"sh -c '{self.WORK}'; sh -c '{self.WORK}; echo $$; read end'; true"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
            child_s = deploy.stat(int(shell.stdout.readline()))[1]
            _, own_s, ended_s = deploy.stat(shell.pid)
            self.assertGreater(min(ended_s, child_s), 0.02)
            self.assertGreaterEqual(deploy.cpu_s(shell.pid), own_s + ended_s + child_s - 0.001)
            shell.stdin.write("\n")
