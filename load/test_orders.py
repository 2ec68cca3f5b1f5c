"""Tests of orders.lua, the script for wrk: what it asks, and for how long."""

import json
import re
import subprocess
import tempfile
import unittest

import harness
from stub_server import Server, http

SECONDS = 1
TOKENS = 400_000 # to be made into requests, which takes each thread some tenths of a second


class OrdersTest(unittest.TestCase):
    def run_wrk(self, server, tokens, *options):
        """What the script tells at its end."""
        with tempfile.NamedTemporaryFile("w", suffix=".tokens") as file:
            file.writelines(f"token-{number}\n" for number in range(tokens))
            file.flush()
            done = subprocess.run(["wrk", "-t2", "-c8", f"-d{SECONDS}", "-s", f"{harness.LOAD}/orders.lua",
                                   f"http://127.0.0.1:{server.port}", "--", "threads=2",
                                   f"tokens={file.name}", *options],
                                  capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def test_request__of_no_thread_before_the_clock_starts(self):
        with Server(lambda _: http(201)) as server:
            told = self.run_wrk(server, TOKENS, "vouchers=7")
        self.assertLess(server.times[-1] - server.times[0], told["seconds"] + 0.1)
        self.assertLess(told["cpu_s"], 2 * SECONDS)

    def test_request__is_of_each_token_once(self):
        """But for those with which wrk stops; the first is for wrk to look at."""
        with Server(lambda _: http(201)) as server:
            told = self.run_wrk(server, TOKENS, "vouchers=7,8,8,8,8,8,8,8,8,8", "keys=k-")
        said = [re.fullmatch("POST /v1/vouchers/([78])/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                             "Authorization: Bearer token-(\\d+)\r\nIdempotency-Key: k-(\\d+)\r\n"
                             "Content-Length: 0\r\n\r\n", request).groups() for request in server.requests]
        self.assertEqual(len({token for _, token, _ in said}), len(said))
        self.assertTrue(all(int(token) + 1 == int(key) for _, token, key in said))
        self.assertTrue(0 <= len(said) - told["requests"] <= 8)
        share = sum(voucher == "8" for voucher, _, _ in said) / len(said)
        self.assertTrue(0.85 < share < 0.95, share)

    def test_done__counts_refusals(self):
        with Server(lambda _: http(409)) as server:
            told = self.run_wrk(server, 1000, "vouchers=7")
        self.assertEqual((told["refused"], told["broken"]), (told["requests"], 0))
