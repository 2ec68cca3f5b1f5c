"""Tests of the arithmetic in results.py and yardsticks.py."""

import unittest

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
