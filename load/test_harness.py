"""Tests of harness.py."""

import contextlib
import io
import json
import tempfile
import unittest

import harness


class KeepOnFailureTest(unittest.TestCase):
    def keep(self, error, measured):
        """What is in the file after `error`, or None."""
        with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
            try:
                with harness.keep_on_failure(f"{place}/incomplete.json", measured):
                    if error:
                        raise error
            except type(error):
                pass
            try:
                with open(f"{place}/incomplete.json") as file:
                    return json.load(file)
            except FileNotFoundError:
                return None

    def test_keep_on_failure__writes_what_was_measured_and_why_it_ended(self):
        self.assertEqual(self.keep(FileNotFoundError("no such process"), [{"nginx": 1}, {}]),
                         {"error": "no such process", "measured": [{"nginx": 1}, {}]})
        self.assertEqual(self.keep(KeyboardInterrupt(), [1])["error"], "KeyboardInterrupt")

    def test_keep_on_failure__passes_the_error_on(self):
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(harness.Failed):
            with harness.keep_on_failure("/dev/null", [1]):
                raise harness.Failed("lost an order")

    def test_keep_on_failure__writes_nothing_after_success_or_without_results(self):
        self.assertIsNone(self.keep(None, [1]))
        self.assertIsNone(self.keep(OSError("early"), []))
