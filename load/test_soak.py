"""Tests of what the soak makes of its samples and answers."""

import types
import unittest

import harness
import soak


def verdict_of(values):
    """Of a sample with each value, a second after the other."""
    sampler = soak.Sampler(None, None)
    sampler.samples = [{"at_s": at_s, "redis": value and {"bytes": value}}
                       for at_s, value in enumerate(values)]
    return soak.Verdict(sampler, soak.Phases(60))


def look(sample):
    return sample["redis"]["bytes"]


class PhasesTest(unittest.TestCase):
    def test_phases__have_each_fault_and_a_calm_after_them(self):
        for minutes in (1, 2, 10, 600):
            phases = soak.Phases(60 * minutes)
            self.assertGreaterEqual(len(phases.faults_at_s), len(soak.FAULTS))
            self.assertGreaterEqual(phases.faults_at_s[0], phases.early[1])
            self.assertLess(phases.faults_at_s[-1], phases.calm_at_s - 5)
            self.assertLess(phases.calm_at_s, phases.late[0])
            self.assertLessEqual(phases.late[0], 60 * minutes - soak.SLICE_S)


class VerdictTest(unittest.TestCase):
    def judge(self, values, at_most, **options):
        verdict = verdict_of(values)
        verdict.flat("bytes", look, at_most, **options)
        return verdict.checks[0]["met"]

    def test_flat__allows_its_bound_and_no_more(self):
        self.assertTrue(self.judge([10] * 30 + [14] * 31, 4))
        self.assertFalse(self.judge([10] * 30 + [15] * 31, 4))

    def test_flat__looks_at_neither_faults_nor_single_samples(self):
        self.assertTrue(self.judge([10] * 13 + [99] * 25 + [10] * 20 + [99, 10, 10], 4))

    def test_flat__of_the_least_finds_a_leak_beside_clients_that_come_and_go(self):
        self.assertTrue(self.judge([10] * 30 + [99] * 28 + [10] * 3, 4, of=min))
        self.assertFalse(self.judge([10] * 30 + [99] * 28 + [15] * 3, 4, of=min))

    def test_flat__passes_over_what_did_not_answer(self):
        self.assertTrue(self.judge([10, None] * 30, 4))
        with self.assertRaises(harness.Failed):
            self.judge([10] * 30 + [None] * 30, 4)

    def test_slope__is_that_of_the_calm(self):
        for rise_a_second, met in ((0.01, True), (0.1, False)):
            verdict = verdict_of([500 - at if at < 40 else 10 + rise_a_second * at for at in range(61)])
            verdict.slope("bytes", look, 2, "a minute")
            self.assertEqual(verdict.checks[0]["met"], met)
            self.assertAlmostEqual(verdict.checks[0]["late"], 60 * rise_a_second)


class AnswersTest(unittest.TestCase):
    """Six slices; the last one is in the calm."""

    def missed(self, cancelled=5, cancel_unclear=0, **last):
        slices = [{"201": 100, "200": 5, "409": 9, "unclear": 3} for _ in range(5)]
        slices += [{"201": 100, "200": 5, "409": 9, "unclear": 0} | last]
        rows = [102] * 5 + [slices[-1].pop("rows", 100)]
        sale = types.SimpleNamespace(rows=lambda: rows, deployment=types.SimpleNamespace(sql=lambda _: [str(cancelled)]))
        canceller = types.SimpleNamespace(voucher="7", told={"done": 5, "unclear": cancel_unclear})
        verdict = verdict_of([])
        soak.judge_answers(verdict, sale, slices, canceller)
        return [check["name"].split()[0] for check in verdict.checks if not check["met"]]

    def test_judge_answers__rows_may_be_those_of_unclear_answers(self):
        self.assertEqual(self.missed(), [])
        self.assertEqual(self.missed(cancelled=6, cancel_unclear=1), [])

    def test_judge_answers__finds_what_is_lost_and_what_nobody_asked_for(self):
        self.assertEqual(self.missed(rows=99), ["acknowledged"])
        self.assertEqual(self.missed(rows=101), ["rows"])
        self.assertEqual(self.missed(unclear=1), ["requests"])
        self.assertEqual(self.missed(cancelled=4), ["cancellations"])
        self.assertEqual(self.missed(cancelled=6), ["cancellations"])
