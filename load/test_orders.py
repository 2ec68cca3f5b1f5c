"""Tests of orders.lua, the script for wrk: its requests, and its two threads start together."""

import json
import re
import resource
import subprocess
import tempfile
import unittest

import harness
from stub_server import Server, http

SECONDS = 1


class OrdersTest(unittest.TestCase):
    def run_wrk(self, server, tokens, *options):
        """Run wrk with the script. Returns its report."""
        with tempfile.NamedTemporaryFile("w", suffix=".tokens") as file:
            file.writelines(f"token-{number}\n" for number in range(tokens))
            file.flush()
            done = subprocess.run(["wrk", "-t2", "-c8", f"-d{SECONDS}", "-s", f"{harness.LOAD}/orders.lua",
                                   f"http://127.0.0.1:{server.port}", "--", "threads=2",
                                   f"tokens={file.name}", *options],
                                  capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def test_request__waits_until_both_threads_are_ready(self):
        """The second thread takes longer to make its requests than a quarter of the measurement. It must take
        part in most of the measurement all the same, and the CPU time of this preparation must not count."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with Server(lambda _: http(409)) as server:
            report = self.run_wrk(server, 1_000_000, "vouchers=7")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        odd = [int(re.search(r"Bearer token-\d*(\d)\r", request)[1]) % 2 for request in server.requests]
        self.assertLess(max(odd.index(0), odd.index(1)), len(odd) / 4)
        self.assertLess(report["cpu_s"], (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 2)
        self.assertEqual((report["refused"], report["broken"]), (report["requests"], 0))

    def test_request__uses_each_token_once(self):
        """wrk never sends its first request, and may drop one request per connection at the end."""
        with Server(lambda _: http(201)) as server:
            report = self.run_wrk(server, 200_000, "vouchers=7,8,8,8,8,8,8,8,8,8", "keys=k-")
        fields = [re.fullmatch("POST /v1/vouchers/([78])/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Authorization: Bearer token-(\\d+)\r\nIdempotency-Key: k-(\\d+)\r\n"
                               "Content-Length: 0\r\n\r\n", request).groups() for request in server.requests]
        self.assertEqual(len({token for _, token, _ in fields}), len(fields))
        self.assertTrue(all(int(token) + 1 == int(key) for _, token, key in fields))
        self.assertTrue(0 <= len(fields) - report["requests"] <= 8)
        self.assertEqual(report["refused"], 0)
        share = sum(voucher == "8" for voucher, _, _ in fields) / len(fields)
        self.assertTrue(0.85 < share < 0.95, share)
