"""Tests of soak.py: the conclusions from samples and answers."""

import types
import unittest

import harness
import soak


def checks_of(values):
    """The checks on samples with these values, one sample per second."""
    sampler = soak.Sampler(None, None)
    sampler.samples = [{"at_s": at_s, "redis": value and {"bytes": value}}
                       for at_s, value in enumerate(values)]
    return soak.Checks(sampler, soak.Phases(60))


def look(sample):
    return sample["redis"]["bytes"]


class PhasesTest(unittest.TestCase):
    def test_phases__include_each_fault_and_end_without_faults(self):
        for minutes in (1, 2, 10, 600):
            phases = soak.Phases(60 * minutes)
            self.assertGreaterEqual(len(phases.faults_at_s), len(soak.FAULTS))
            self.assertGreaterEqual(phases.faults_at_s[0], phases.early[1])
            self.assertLess(phases.faults_at_s[-1], phases.quiet_at_s - 5)
            self.assertLess(phases.quiet_at_s, phases.late[0])
            self.assertLessEqual(phases.late[0], 60 * minutes - soak.SLICE_S)


class ChecksTest(unittest.TestCase):
    def is_met(self, values, at_most, **options):
        checks = checks_of(values)
        checks.flat("bytes", look, at_most, **options)
        return checks.results[0]["met"]

    def test_flat__allows_its_bound_and_no_more(self):
        self.assertTrue(self.is_met([10] * 30 + [14] * 31, 4))
        self.assertFalse(self.is_met([10] * 30 + [15] * 31, 4))

    def test_flat__ignores_faults_and_single_samples(self):
        self.assertTrue(self.is_met([10] * 13 + [99] * 25 + [10] * 20 + [99, 10, 10], 4))

    def test_flat__of_the_minimum_finds_a_leak_although_clients_come_and_go(self):
        self.assertTrue(self.is_met([10] * 30 + [99] * 28 + [10] * 3, 4, of=min))
        self.assertFalse(self.is_met([10] * 30 + [99] * 28 + [15] * 3, 4, of=min))

    def test_flat__skips_samples_without_the_value(self):
        self.assertTrue(self.is_met([10, None] * 30, 4))
        with self.assertRaises(harness.Failed):
            self.is_met([10] * 30 + [None] * 30, 4)

    def test_slope__is_measured_without_faults(self):
        for rise_a_second, met in ((0.01, True), (0.1, False)):
            checks = checks_of([500 - at if at < 40 else 10 + rise_a_second * at for at in range(61)])
            checks.slope("bytes", look, 2, "a minute")
            self.assertEqual(checks.results[0]["met"], met)
            self.assertAlmostEqual(checks.results[0]["late"], 60 * rise_a_second)


class AnswersTest(unittest.TestCase):
    """Six slices; the last one is without faults."""

    def missed(self, cancelled=5, cancel_unclear=0, **last):
        slices = [{"201": 100, "200": 5, "409": 9, "unclear": 3} for _ in range(5)]
        slices += [{"201": 100, "200": 5, "409": 9, "unclear": 0} | last]
        rows = [102] * 5 + [slices[-1].pop("rows", 100)]
        sale = types.SimpleNamespace(rows=lambda: rows, deployment=types.SimpleNamespace(sql=lambda _: [str(cancelled)]))
        canceller = types.SimpleNamespace(voucher="7", counts={"done": 5, "unclear": cancel_unclear})
        checks = checks_of([])
        soak.check_answers(checks, sale, slices, canceller)
        return [check["name"].split()[0] for check in checks.results if not check["met"]]

    def test_check_answers__accept_rows_of_unclear_answers(self):
        self.assertEqual(self.missed(), [])
        self.assertEqual(self.missed(cancelled=6, cancel_unclear=1), [])

    def test_check_answers__report_lost_and_unrequested_rows(self):
        self.assertEqual(self.missed(rows=99), ["acknowledged"])
        self.assertEqual(self.missed(rows=101), ["rows"])
        self.assertEqual(self.missed(unclear=1), ["unclear"])
        self.assertEqual(self.missed(cancelled=4), ["cancellations"])
        self.assertEqual(self.missed(cancelled=6), ["cancellations"])
