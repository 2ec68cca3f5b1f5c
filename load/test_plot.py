"""Tests of plot.py: the data of the charts; and that gnuplot draws each kind."""

import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock

import plot
import results


def bench():
    names = [name for name, *_ in results.RATES + results.YARDSTICKS]
    rates = {f"{name}_per_s": 1000 * number for number, name in enumerate(names)}
    rounds = {f"{name}_per_s_rounds": [1200 * number, 900 * number] for number, name in enumerate(names)}
    points = [[1000, 0], [2000, 0.5], [9000, 0.9], [50_000, 0.999], [60_000, 1]]
    return rates | rounds | {"latency": {load: {"points": points} for load, _ in results.LOADS}}


def growth():
    return [{"name": "orders in the table", "points": [
        {"x": x, "orders_per_s": 50_000, "rounds": [51_000, 49_000]} for x in (0, 10_000_000)]}]


def sample(at_s, pid, placed):
    """A sample of two instances. If `pid` is 0, the first instance does not run and Redis is down."""
    first = {"pid": pid, "pss_kib": 20_480, "fds": 77, "answers": {"201": placed}}
    second = {"pid": 9, "pss_kib": 10_240, "fds": 66, "answers": {"201": 100 * at_s}}
    return {"at_s": at_s, "instances": [first if pid else None, second],
            "redis": {"clients": 5, "bytes": 2**20} if pid else None, "postgres": {"connections": 12}}


SAMPLES = [sample(0, 7, 0), sample(60, 7, 600), sample(120, 0, 0), sample(180, 8, 50), sample(240, 8, 650)]


def soak():
    return {"minutes": 4, "faults": [{"what": "kill -9 of an instance", "at_s": 90}], "samples": SAMPLES,
            "slices": [{"p99_us": 150_000}, {"p99_us": 0}]}


def prove():
    timeline = {"bin_s": 0.5, "answers": {"placed": [10, 0, 20], "done": [0, 0, 0], "refused": [5, 5, 5],
                                          "failed": [0, 1, 0]}}
    return {"stages": [{"stage": "kill redis", "instances": 2, "timeline": timeline | {"down_s": [0.6, 0.9]}},
                       {"stage": "burst", "instances": 2, "timeline": timeline | {"down_s": []}}]}


class TablesTest(unittest.TestCase):
    def test_tables_of_bench__have_each_rate_with_its_extremes(self):
        rates, *latencies = plot.tables_of_bench(bench())
        self.assertEqual(rates[3], ("durable orders, distinct shoppers", 2000, 1800, 2400))
        self.assertEqual(len(rates), 1 + len(results.RATES + results.YARDSTICKS))
        self.assertEqual([len(rows) for rows in latencies], [5, 5])

    def test_tables_of_bench__stretch_the_share_so_that_each_nine_is_as_wide(self):
        curve = plot.tables_of_bench(bench())[1]
        self.assertEqual([(round(x), ms) for x, ms in curve[1:]], [(1, 1), (2, 2), (10, 9), (1000, 50)])

    def test_order_rates__skip_an_instance_that_was_restarted(self):
        self.assertEqual(plot.order_rates(SAMPLES), [(1, 110), (2, 100), (3, 100), (4, 110)])

    def test_tables_of_soak__have_no_number_where_a_server_was_down(self):
        _, p99, memory, files, faults = plot.tables_of_soak(soak())
        self.assertEqual(p99[1:], [(1, 150), (3, 0.001)])
        self.assertEqual(memory[2:4], [(1, 20, 10, 1), (2, None, 10, None)])
        self.assertEqual(files[3], (2, None, 66, None, 12))
        self.assertEqual(faults[1:], [(1.5, 1)])

    def test_tables_of_prove__count_per_second_and_mark_the_fault(self):
        killed, burst = plot.tables_of_prove(prove())
        self.assertEqual(killed, [("kill redis, 2 x", "placed", "done", "refused", "failed", "down"),
                                  (0, 20, 0, 10, 0, 0), (0.5, 0, 0, 10, 2, 1), (1, 40, 0, 10, 0, 0)])
        self.assertEqual([row[-1] for row in burst[1:]], [0, 0, 0])

    def test_format_row__lets_gnuplot_tell_text_from_numbers(self):
        self.assertEqual(plot.format_row(("a b", 1.5, None, 12345678)), '"a b" 1.5 NaN 12345678')


class DrawTest(unittest.TestCase):
    def draw(self, kind, tables):
        """Draw the tables. Returns what is printed, and the size of the picture; 0: no picture."""
        with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()) as printed:
            plot.draw(kind, place, tables)
            path = f"{place}/{kind}.png"
            size = os.path.getsize(path) if os.path.exists(path) else 0
            return printed.getvalue().replace(place, "PLACE"), size

    def test_draw__makes_a_picture_of_each_kind(self):
        for kind, tables in (("bench", plot.tables_of_bench(bench())), ("growth", plot.tables_of_growth(growth())),
                             ("soak", plot.tables_of_soak(soak())), ("prove", plot.tables_of_prove(prove()))):
            printed, size = self.draw(kind, tables)
            self.assertEqual(printed, f"chart: PLACE/{kind}.png\n")
            self.assertGreater(size, 5000, kind)

    def test_draw__reports_that_gnuplot_failed(self):
        printed, _ = self.draw("growth", [])
        self.assertRegex(printed, "^no chart: gnuplot: .")

    def test_draw__reports_that_gnuplot_is_missing(self):
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            self.assertEqual(self.draw("growth", plot.tables_of_growth(growth())),
                             ("no chart: gnuplot is not installed\n", 0))
