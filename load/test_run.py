"""Tests of run.py, that is, of `make run`."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness

PROGRAM = os.path.abspath(os.environ.get("BUILD", "build") + "/seckill")
WITHIN_S = 120


class RunTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        os.chmod(place.name, 0o755) # Postgres has a user of its own
        self.place, self.port = place.name, harness.free_port()

    def start(self):
        """Start run.py as `nohup make run &` does, in a new session. Returns what it announces."""
        self.process = subprocess.Popen(
            ["nohup", f"{harness.LOAD}/run.py", PROGRAM, str(self.port)], cwd=self.place, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(self.end, signal.SIGTERM)
        text = ""
        while "Admin token" not in text:
            line = self.process.stdout.readline()
            self.assertTrue(line, text)
            text += line
        return re.search(r"Voucher (\d+) is on sale. Voucher (\d+) opens", text).groups()

    def end(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)
        output = self.process.communicate(timeout=WITHIN_S)[0]
        return self.process.returncode, output.splitlines()[-1:]

    def vouchers(self):
        service = harness.Service(PROGRAM, self.port, {}, "")
        return sorted(each["id"] for each in service.call("GET", "/v1/vouchers")[1]["items"])

    def test_run__survives_a_hang_up_in_the_background_and_ends_by_term(self):
        self.start()
        with open(f"/proc/{self.process.pid}/status") as status:
            ignored = int(re.search(r"^SigIgn:\s+(\w+)$", status.read(), re.M)[1], 16)
        self.assertTrue(ignored & 1 << (signal.SIGHUP - 1), hex(ignored))
        self.assertEqual(self.end(signal.SIGTERM), (0, ["stopped; the data are in var/run"]))

    def test_run__tells_that_one_is_running(self):
        self.start()
        second = subprocess.run([f"{harness.LOAD}/run.py", PROGRAM, str(self.port)], cwd=self.place,
                                capture_output=True, text=True, timeout=WITHIN_S, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertEqual(second.stderr, f"make run: it is already running: http://127.0.0.1:{self.port}/; "
                         f"to stop it: kill {self.process.pid}\n")
        self.assertEqual(len(self.vouchers()), 2)

    def test_run__uses_the_vouchers_of_an_earlier_run(self):
        first = self.start()
        service = harness.Service(PROGRAM, self.port, {"SECKILL_JWT_SECRET_FILE": f"{self.place}/var/run/jwt_secret"}, "")
        status, _ = service.call("PATCH", f"/v1/vouchers/{first[1]}", service.token(1, "admin"),
                                 {"begin_at": harness.moment(-60)})
        self.assertEqual(status, 200)
        self.end(signal.SIGINT)
        self.assertEqual(self.start(), first)
        self.assertEqual(len(self.vouchers()), 2)
