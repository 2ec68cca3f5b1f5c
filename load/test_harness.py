"""Tests of harness.py."""

import os
import subprocess
import sys
import tempfile
import unittest

import harness


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
