"""Tests of $BUILD/open_loop, the open-loop client. Its numbers must be right when a server stalls, and it must
fail when a server breaks connections or does not answer."""

import itertools
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import unittest

from stub_server import Server, http

PROGRAM = os.environ.get("BUILD", "build") + "/open_loop"
WITHIN_S = 120


class OpenLoopTest(unittest.TestCase):
    def run_client(self, server, seconds=0.1, connections=4, rate=2000, tokens=500):
        """Run the client, by default with about 200 requests."""
        with tempfile.NamedTemporaryFile("w", suffix=".tokens") as file:
            file.writelines(f"token-{number}\n" for number in range(tokens))
            file.flush()
            return subprocess.run([PROGRAM, *map(str, (server.port, rate, seconds, connections, file.name, 7))],
                                  capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def report_of(self, server, **options):
        done = self.run_client(server, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_latency__includes_the_wait_during_a_stall(self):
        """One answer takes 150 ms. A closed-loop client would see one slow request. Here each request that was
        due during the stall has waited for the rest of the stall."""
        def reply(number):
            if number == 100:
                time.sleep(0.15) # the stall
            return http(201)

        with Server(reply) as server:
            report = self.report_of(server, seconds=0.5, rate=400, connections=1)
        self.assertGreaterEqual(report["max_us"], 150_000)
        self.assertGreaterEqual(report["p90_us"], 75_000) # about 20 of 200 are due in its first 50 ms
        self.assertEqual(report["201"], report["offered"])

    def test_latency__is_not_longer_than_the_run(self):
        start_s = time.monotonic()
        with Server(lambda _: http(201)) as server:
            report = self.report_of(server)
        self.assertLess(report["max_us"], 1e6 * (time.monotonic() - start_s))
        self.assertLessEqual(report["late_p50_us"], report["p50_us"])
        percentiles = [report[f"{name}_us"] for name in ("p50", "p90", "p99", "p999", "max")]
        self.assertEqual(percentiles, sorted(percentiles))

    def test_answers__that_place_no_order_are_not_counted_as_placed(self):
        statuses = itertools.cycle((201, 409, 201, 503))
        with Server(lambda _: http(next(statuses), "{}")) as server:
            report = self.report_of(server)
        self.assertEqual(report["offered"], len(server.requests))
        self.assertLessEqual(abs(report["201"] - report["offered"] / 2), 1)

    def test_answers__that_are_missing_or_broken_fail(self):
        for reply, words in ((lambda number: http(201) if number <= 40 else b"", "a request has no answer"),
                             (lambda number: None if number == 50 else http(201), "a connection broke"),
                             (lambda _: b"220 mail.example ESMTP\r\n\r\n", "an answer is not understood"),
                             (lambda _: http(200, 20_000 * "x"), "an answer is too long")):
            with Server(reply) as server:
                done = self.run_client(server)
            self.assertEqual((done.returncode, done.stderr), (1, f"open_loop: {words}\n"))

    def test_requests__use_each_token_once(self):
        with Server(lambda _: http(201)) as server:
            report = self.report_of(server)
        tokens = [re.fullmatch("POST /v1/vouchers/7/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Authorization: Bearer token-(\\d+)\r\nContent-Length: 0\r\n\r\n",
                               request).group(1) for request in server.requests]
        self.assertEqual(sorted(map(int, tokens)), list(range(report["offered"])))
        with Server(lambda _: http(201)) as server:
            self.assertEqual(self.run_client(server, tokens=10).stderr, "open_loop: no token is left\n")

    def test_arrivals__of_a_poisson_process_have_its_mean_and_deviation(self):
        """The standard deviation of the count is its square root, 10; the standard deviation of the gaps is their mean."""
        with Server(lambda _: http(201)) as server:
            report = self.report_of(server, seconds=0.25, rate=400)
        gaps = [later - earlier for earlier, later in itertools.pairwise(server.times)]
        self.assertLess(abs(report["offered"] - 100), 5 * 10)
        self.assertGreater(statistics.stdev(gaps), 0.6 * statistics.mean(gaps))

    def test_rate__of_zero_sends_again_after_each_answer(self):
        def reply(_):
            time.sleep(0.005) # a slow server
            return http(201)

        with Server(reply) as server:
            report = self.report_of(server, rate=0, connections=1, seconds=2)
        self.assertLessEqual(report["offered"], 400)
        self.assertGreater(report["offered"], 1)
        self.assertGreaterEqual(report["p50_us"], 5_000)
