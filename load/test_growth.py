"""Tests of the arithmetic in growth.py."""

import unittest

import growth


def reports_of(*rates):
    return [{"created": rate * 2, "requests": 0, "seconds": 2, "p99_us": 1000} for rate in rates]


class GrowthTest(unittest.TestCase):
    def test_summarise__compares_within_a_round(self):
        """Both points are slow in the second round."""
        point = growth.summarise({"orders": reports_of(80, 10, 85)}, {"orders": reports_of(100, 10, 100)})
        self.assertEqual(point, {"orders_per_s": 80, "rounds": [80, 10, 85], "p99_us": 1000, "ratio": 0.85})

    def test_measure_rounds__every_other_round_is_backwards(self):
        order = []
        points = [(x, {"orders": lambda x=x: order.append(x) or x}) for x in (1, 2, 3)]
        reports = growth.measure_rounds(points)
        self.assertEqual(order[:6], [1, 2, 3, 3, 2, 1])
        self.assertEqual(reports[2]["orders"], [2] * growth.ROUNDS)

    def test_table__judges_the_largest(self):
        for ratio, state in ((0.9, "met"), (0.89, "MISSED")):
            points = [{"x": x, **growth.summarise({"orders": reports_of(rate)}, {"orders": reports_of(100)})}
                      for x, rate in ((0, 100), (5, 50), (9, 100 * ratio))]
            lines = growth.table({"name": "things", "goal": 0.9, "points": points}).splitlines()
            self.assertTrue(lines[-1].endswith(f"goal 0.90: {state}"), lines)
