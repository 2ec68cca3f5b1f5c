"""Tests of $BUILD/open_loop, the open-loop client: are its numbers right when a server stalls,
breaks connections, or does not answer?"""

import collections
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
TOKENS = 500


class OpenLoopTest(unittest.TestCase):
    def run_client(self, server, **options):
        """Run the client, by default with about 200 requests. Returns its report."""
        with tempfile.NamedTemporaryFile("w", suffix=".tokens") as tokens:
            tokens.writelines(f"token-{number}\n" for number in range(TOKENS))
            tokens.flush()
            options = {"port": server.port, "seconds": 0.1, "connections": 4, "rate": 2000,
                       "tokens": tokens.name, "vouchers": "7"} | options
            done = subprocess.run([PROGRAM, *(f"{name}={value}" for name, value in options.items())],
                                  capture_output=True, text=True, timeout=WITHIN_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_latency__includes_the_wait_during_a_stall(self):
        """One answer takes 150 ms. A closed-loop client would see one slow request; here each
        request that was due during the stall has waited for the rest of it."""
        def reply(number):
            if number == 100:
                time.sleep(0.15) # the stall
            return http(201)

        with Server(reply) as server:
            report = self.run_client(server, seconds=0.5, rate=400, connections=1, arrivals="fixed")
        self.assertGreaterEqual(report["max_us"], 150_000)
        self.assertGreaterEqual(report["p99_us"], 142_000) # 2 of 200 are due in its first 5 ms
        self.assertGreaterEqual(report["p90_us"], 95_000) # 20 of 200 are due in its first 50 ms
        self.assertEqual(report["answered"], report["offered"])

    def test_latency__is_not_longer_than_the_run(self):
        start_s = time.monotonic()
        with Server(lambda _: http(201)) as server:
            report = self.run_client(server)
        self.assertLess(report["max_us"], 1e6 * (time.monotonic() - start_s))
        self.assertLessEqual(report["late_p50_us"], report["p50_us"])

    def test_answers__are_counted_by_status(self):
        statuses = itertools.cycle((201, 201, 200, 409, 503, 500))
        with Server(lambda _: http(next(statuses), "{}")) as server:
            report = self.run_client(server, arrivals="fixed", rate=1201, connections=1)
        self.assertEqual(report["offered"], 120) # the first one after 1/1201 s
        self.assertEqual({name: report[name] for name in ("201", "200", "409", "503", "other")},
                         {"201": 40, "200": 20, "409": 20, "503": 20, "other": 20})
        self.assertEqual((report["answered"], report["broken"], report["unanswered"]), (120, 0, 0))

    def test_answers__that_never_come_are_the_slowest(self):
        with Server(lambda number: http(201) if number <= 40 else b"") as server:
            report = self.run_client(server, arrivals="fixed", rate=1001, patience=4)
        self.assertEqual((report["offered"], report["answered"], report["sent"]), (100, 40, 44))
        self.assertEqual(report["unanswered"], 60) # including requests that wait for a connection
        self.assertGreaterEqual(report["max_us"], 4_050_000) # the 41st, due after 0.04 s
        self.assertGreaterEqual(report["p50_us"], 4_000_000) # the 91st, due after 0.09 s

    def test_answers__may_be_long_and_come_in_pieces(self):
        with Server(lambda _: http(200, 20_000 * "x")) as server:
            report = self.run_client(server)
        self.assertEqual((report["200"], report["broken"]), (report["offered"], 0))

    def test_connections__that_break_are_reopened(self):
        with Server(lambda number: None if number % 50 == 0 else http(201)) as server:
            report = self.run_client(server, connections=2)
        self.assertGreater(report["broken"], 0)
        self.assertEqual(report["broken"], len(server.requests) // 50)
        self.assertEqual(report["201"], report["offered"] - report["broken"])

    def test_connections__that_are_closed_after_an_answer_break_nothing(self):
        with Server(lambda _: http(201, headers="Connection: close\r\n")) as server:
            report = self.run_client(server, connections=2, rate=0, seconds=2, reuse="yes")
        self.assertEqual((report["201"], report["broken"]), (report["offered"], 0))
        self.assertGreater(report["201"], 2)

    def test_answers__that_are_not_http_are_broken(self):
        with Server(lambda _: b"220 mail.example ESMTP\r\n\r\n") as server:
            report = self.run_client(server, rate=100)
        self.assertGreater(report["offered"], 0)
        self.assertEqual((report["broken"], report["answered"]), (report["offered"], 0))

    def test_requests__use_each_token_once(self):
        with Server(lambda _: http(201)) as server:
            report = self.run_client(server, vouchers="7,8")
        fields = [re.fullmatch("POST /v1/vouchers/([78])/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Authorization: Bearer token-(\\d+)\r\nContent-Length: 0\r\n\r\n",
                               request).groups() for request in server.requests]
        self.assertEqual(sorted(int(token) for _, token in fields), list(range(report["offered"])))
        self.assertEqual({voucher for voucher, _ in fields}, {"7", "8"})

    def test_requests__carry_a_key_and_reuse_the_tokens(self):
        with Server(lambda _: http(200)) as server:
            report = self.run_client(server, keys="k-", reuse="yes", rate=6001, arrivals="fixed")
        keys = collections.Counter(re.search("\r\nIdempotency-Key: (.*)\r\n", request).group(1)
                                   for request in server.requests)
        tokens = collections.Counter(re.search("Bearer (.*)\r\n", request).group(1)
                                     for request in server.requests)
        self.assertEqual(set(keys), {f"k-{number}" for number in range(1, 601)})
        self.assertEqual(len(tokens), TOKENS)
        self.assertEqual(tokens["token-0"], 2)
        self.assertEqual(report["200"], 600)

    def test_arrivals__of_a_poisson_process_have_its_mean_and_deviation(self):
        """The standard deviation of the count is its square root, 10; the standard deviation of the gaps is their mean."""
        with Server(lambda _: http(201)) as server:
            report = self.run_client(server, seconds=0.25, rate=400)
        gaps = [later - earlier for earlier, later in itertools.pairwise(server.times)]
        self.assertLess(abs(report["offered"] - 100), 5 * 10)
        self.assertGreater(statistics.stdev(gaps), 0.6 * statistics.mean(gaps))

    def test_rate__of_zero_sends_again_after_each_answer(self):
        def reply(_):
            time.sleep(0.005) # a slow server
            return http(201)

        with Server(reply) as server:
            report = self.run_client(server, rate=0, connections=1, seconds=2)
        self.assertLessEqual(report["offered"], 400)
        self.assertGreater(report["offered"], 1)
        self.assertGreaterEqual(report["p50_us"], 5_000)

    def test_points__are_the_distribution(self):
        with Server(lambda _: http(201)) as server:
            report = self.run_client(server)
        self.assertEqual(report["points"][-1], [report["max_us"], 1])
        self.assertEqual(report["points"], sorted(report["points"]))
        self.assertGreater(len(report["points"]), 20)
