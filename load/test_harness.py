"""Tests of harness.py."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import harness


class KeepOnFailureTest(unittest.TestCase):
    def keep(self, error, measured):
        """The contents of the file after `error`, or None."""
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


OWNER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import harness
servers = harness.Servers(sys.argv[2])
servers.up()
harness.sql(servers.env["PG_OWNER_URL"], "create table kept (id integer)")
print(servers.env["PG_PID"], servers.env["REDIS_PID"], flush=True)
time.sleep(3600)
"""


class ServersTest(unittest.TestCase):
    def test_servers__stop_cleanly_when_their_owner_is_killed_and_can_be_cloned(self):
        with tempfile.TemporaryDirectory() as place:
            first, clone = f"{place}/first", harness.Servers(f"{place}/clone")
            with subprocess.Popen([sys.executable, "-c", OWNER, harness.LOAD, first],
                                  stdout=subprocess.PIPE, text=True) as owner:
                pids = owner.stdout.readline().split()
                owner.kill()
            self.assertEqual(len(pids), 2)
            harness.wait_for("the servers have stopped", lambda: not any(
                os.path.exists(f"/proc/{pid}") for pid in pids), 120)
            harness.run(f"{harness.LOAD}/servers.sh", "clone", clone.directory, first)
            try:
                clone.up()
                self.assertEqual(harness.sql(clone.env["PG_OWNER_URL"], "select count(*) from kept"), ["0"])
            finally:
                clone.down()

    def test_servers__that_run_are_not_cloned(self):
        with tempfile.TemporaryDirectory() as place:
            os.makedirs(f"{place}/from/postgres")
            open(f"{place}/from/postgres/postmaster.pid", "w").close()
            with self.assertRaisesRegex(harness.Failed, "no data of a server that was stopped cleanly"):
                harness.run(f"{harness.LOAD}/servers.sh", "clone", f"{place}/to", f"{place}/from")
