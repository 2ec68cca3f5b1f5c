"""Tests of progress.py: its arithmetic by a clock that the test moves, its lines by what is
written."""

import io
import threading
import unittest

import progress


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class Terminal(io.StringIO):
    """Remembers the last line, and lets wait for one."""

    def __init__(self):
        super().__init__()
        self.written = threading.Semaphore(0)

    def isatty(self):
        return True

    def write(self, text):
        count = super().write(text)
        self.written.release()
        return count

    def last(self):
        return self.getvalue().rsplit("\r\x1b[K", 1)[-1]


STEPS = [("fill", 10), ("orders", 20), ("orders", 20), ("refusals", 30)]


class ProgressTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.terminal = Terminal()
        self.progress = progress.Progress("bench", STEPS, out=self.terminal, clock=self.clock)

    def test_left_s__is_the_plan_before_anything_took_time(self):
        self.progress.begin("fill")
        self.assertEqual(self.progress.left_s(), 80)
        self.clock.now_s += 4
        self.assertEqual(self.progress.left_s(), 76)

    def test_left_s__follows_how_long_steps_really_took(self):
        self.progress.begin("fill")
        self.clock.now_s += 15
        self.progress.begin("orders")
        self.assertEqual(self.progress.left_s(), 1.5 * 70)
        self.clock.now_s += 5
        self.assertEqual(self.progress.left_s(), 1.5 * 70 - 5)

    def test_left_s__of_a_step_that_takes_too_long_is_that_of_the_others(self):
        self.progress.begin("fill")
        self.clock.now_s += 1000
        self.assertEqual(self.progress.left_s(), 70)

    def test_left_s__does_not_count_what_came_before_the_first_step(self):
        self.clock.now_s += 60
        self.progress.begin("fill")
        self.clock.now_s += 10
        self.progress.begin("orders")
        self.assertEqual(self.progress.left_s(), 70)

    def test_begin__takes_names_that_come_again_one_by_one(self):
        for name, _ in STEPS:
            self.progress.begin(name)
        self.assertIn("refusals (4 of 4)", self.terminal.last())

    def test_begin__leaves_out_what_it_jumps_over(self):
        again = progress.Progress("bench", STEPS + STEPS, out=self.terminal, clock=self.clock)
        again.begin("refusals")
        self.assertIn("refusals (1 of 5), 0:00 gone, 1:50 left", self.terminal.last())
        again.begin("refusals")
        self.assertIn("refusals (2 of 2), 0:00 gone, 0:00 left", self.terminal.last())

    def test_begin__refuses_a_step_that_was_not_planned(self):
        with self.assertRaises(ValueError):
            self.progress.begin("lunch")

    def test_look__tells_time_and_rate(self):
        counts = iter([1000, 1500])
        self.progress.begin("fill", lambda: next(counts), "orders")
        self.progress.look()
        self.assertEqual(self.terminal.last(), "bench: fill (1 of 4), 0:00 gone, 1:20 left")
        self.clock.now_s += 2
        self.progress.look()
        self.assertEqual(self.terminal.last(),
                         "bench: fill (1 of 4), 0:02 gone, 1:18 left, 250 orders/s")

    def test_look__knows_no_rate_while_the_counter_fails_or_falls(self):
        def fail():
            raise ConnectionRefusedError

        answers = iter([lambda: 1000, fail, lambda: 5, lambda: 1, lambda: 3])
        self.progress.begin("fill", lambda: next(answers)(), "orders")
        rates = []
        for _ in range(5):
            self.progress.look()
            rates.append(self.progress.rate)
            self.clock.now_s += 1
        self.assertEqual(rates, [None, None, None, None, 2])

    def test_begin__forgets_the_rate_of_the_step_before(self):
        counts = iter([0, 100])
        self.progress.begin("fill", lambda: next(counts), "orders")
        self.progress.look()
        self.clock.now_s += 1
        self.progress.look()
        self.assertEqual(self.progress.rate, 100)
        self.progress.begin("orders")
        self.assertIsNone(self.progress.rate)

    def test_look__leaves_alone_a_step_that_began_meanwhile(self):
        def overtaken():
            self.progress.begin("orders")
            return 1000

        self.progress.begin("fill", overtaken, "rows")
        self.progress.look()
        self.assertIsNone(self.progress.last)

    def test_tell__keeps_its_line_above_the_moving_one(self):
        self.progress.begin("fill")
        self.progress.tell("round 1 is over")
        self.assertIn("\r\x1b[Kround 1 is over\n\r\x1b[Kbench: fill", self.terminal.getvalue())

    def test_with__looks_each_second_and_leaves_a_clean_line(self):
        live = progress.Progress("bench", STEPS, out=self.terminal, clock=self.clock, every_s=0.001)
        with live:
            live.begin("fill")
            for _ in range(3): # of the step's beginning, and of the thread
                self.assertTrue(self.terminal.written.acquire(timeout=10))
        self.assertEqual(self.terminal.last(), "")
        self.assertFalse(live.thread.is_alive())

    def test_begin__is_a_plain_line_where_there_is_no_terminal(self):
        out = io.StringIO()
        with progress.Progress("bench", STEPS, out=out, clock=self.clock) as plain:
            plain.begin("fill")
            plain.tell("told")
            self.clock.now_s += 10
            plain.begin("orders")
        self.assertEqual(out.getvalue(), "bench: fill (1 of 4), 0:00 gone, 1:20 left\ntold\n"
                         "bench: orders (2 of 4), 0:10 gone, 1:10 left\n")

    def test_begin__writes_nothing_without_lines_where_there_is_no_terminal(self):
        out = io.StringIO()
        with progress.Progress("bench", STEPS, lines=False, out=out) as plain:
            plain.begin("fill")
            plain.tell("told")
        self.assertEqual(out.getvalue(), "told\n")


if __name__ == "__main__":
    unittest.main()
