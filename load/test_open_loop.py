"""Tests of $BUILD/open_loop, the open-loop client: does it tell the truth of servers that do what
a real one does on a bad day?"""

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
WITHIN_S = 20
TOKENS = 500


class Open(unittest.TestCase):
    def run_open(self, server, **options):
        """What it tells."""
        with tempfile.NamedTemporaryFile("w", suffix=".tokens") as tokens:
            tokens.writelines(f"token-{number}\n" for number in range(TOKENS))
            tokens.flush()
            options = {"port": server.port, "seconds": 0.5, "connections": 4, "rate": 400,
                       "tokens": tokens.name, "vouchers": "7"} | options
            done = subprocess.run([PROGRAM, *(f"{name}={value}" for name, value in options.items())],
                                  capture_output=True, text=True, timeout=WITHIN_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_latency__of_a_stall_hides_no_waiting(self):
        """One answer takes 300 ms. A client that waits would see one slow request; of those
        that were meant to be sent meanwhile each has waited for the rest of it."""
        def reply(number):
            if number == 100:
                time.sleep(0.3) # the stall itself
            return http(201)

        with Server(reply) as server:
            told = self.run_open(server, seconds=1, rate=200, connections=1, arrivals="fixed")
        self.assertGreaterEqual(told["max_us"], 300_000)
        self.assertGreaterEqual(told["p99_us"], 285_000) # 2 of 200 come in its first 10 ms
        self.assertGreaterEqual(told["p90_us"], 190_000) # 20 of 200 in its first 100 ms
        self.assertEqual(told["answered"], told["offered"])

    def test_latency__of_a_fast_server_is_short(self):
        with Server(lambda _: http(201)) as server:
            told = self.run_open(server)
        self.assertLess(told["p50_us"], 50_000)
        self.assertLessEqual(told["late_p50_us"], told["p50_us"])

    def test_answers__are_counted_by_status(self):
        statuses = itertools.cycle((201, 201, 200, 409, 503, 500))
        with Server(lambda _: http(next(statuses), "{}")) as server:
            told = self.run_open(server, arrivals="fixed", rate=241, connections=1)
        self.assertEqual(told["offered"], 120) # the first comes after 1/241 s
        self.assertEqual({name: told[name] for name in ("201", "200", "409", "503", "other")},
                         {"201": 40, "200": 20, "409": 20, "503": 20, "other": 20})
        self.assertEqual((told["answered"], told["broken"], told["unanswered"]), (120, 0, 0))

    def test_answers__that_never_come_are_the_slowest(self):
        with Server(lambda number: http(201) if number <= 40 else b"") as server:
            told = self.run_open(server, arrivals="fixed", rate=201, patience=0.5)
        self.assertEqual((told["offered"], told["answered"], told["sent"]), (100, 40, 44))
        self.assertEqual(told["unanswered"], 60) # those in line among them
        self.assertGreaterEqual(told["max_us"], 780_000) # of the 41st, due after 0.2 s
        self.assertGreaterEqual(told["p50_us"], 530_000) # of the tenth before the last

    def test_answers__may_be_long_and_come_in_pieces(self):
        with Server(lambda _: http(200, 20_000 * "x")) as server:
            told = self.run_open(server)
        self.assertEqual((told["200"], told["broken"]), (told["offered"], 0))

    def test_connections__that_break_are_made_again(self):
        with Server(lambda number: None if number % 10 == 0 else http(201)) as server:
            told = self.run_open(server, connections=2)
        self.assertEqual(told["broken"], len(server.requests) // 10)
        self.assertEqual(told["201"], told["offered"] - told["broken"])

    def test_connections__that_are_closed_after_an_answer_break_nothing(self):
        with Server(lambda _: http(201, headers="Connection: close\r\n")) as server:
            told = self.run_open(server, connections=2, rate=0)
        self.assertEqual((told["201"], told["broken"]), (told["offered"], 0))
        self.assertGreater(told["201"], 2)

    def test_answers__that_are_not_http_are_broken(self):
        with Server(lambda _: b"220 mail.example ESMTP\r\n\r\n") as server:
            told = self.run_open(server, rate=40)
        self.assertEqual((told["broken"], told["answered"]), (told["offered"], 0))

    def test_requests__are_of_each_token_once(self):
        with Server(lambda _: http(201)) as server:
            told = self.run_open(server, vouchers="7,8")
        said = [re.fullmatch("POST /v1/vouchers/([78])/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                             "Authorization: Bearer token-(\\d+)\r\nContent-Length: 0\r\n\r\n",
                             request).groups() for request in server.requests]
        self.assertEqual(sorted(int(token) for _, token in said), list(range(told["offered"])))
        self.assertEqual({voucher for voucher, _ in said}, {"7", "8"})

    def test_requests__carry_a_key_and_begin_again(self):
        with Server(lambda _: http(200)) as server:
            told = self.run_open(server, keys="k-", reuse="yes", rate=1201, arrivals="fixed")
        keys = collections.Counter(re.search("\r\nIdempotency-Key: (.*)\r\n", request).group(1)
                                   for request in server.requests)
        tokens = collections.Counter(re.search("Bearer (.*)\r\n", request).group(1)
                                     for request in server.requests)
        self.assertEqual(set(keys), {f"k-{number}" for number in range(1, 601)})
        self.assertEqual(len(tokens), TOKENS)
        self.assertEqual(tokens["token-0"], 2)
        self.assertEqual(told["200"], 600)

    def test_arrivals__of_poisson_are_uneven_but_as_many(self):
        """Their number deviates by its root, 10; the gaps by as much as they are long."""
        with Server(lambda _: http(201)) as server:
            told = self.run_open(server, seconds=1, rate=100)
        gaps = [later - earlier for earlier, later in itertools.pairwise(server.times)]
        self.assertLess(abs(told["offered"] - 100), 5 * 10)
        self.assertGreater(statistics.stdev(gaps), 0.6 * statistics.mean(gaps))

    def test_rate__of_zero_asks_when_it_was_answered(self):
        def reply(_):
            time.sleep(0.005) # a slow server
            return http(201)

        with Server(reply) as server:
            told = self.run_open(server, rate=0, connections=1)
        self.assertLessEqual(told["offered"], 100)
        self.assertGreaterEqual(told["offered"], 10)
        self.assertGreaterEqual(told["p50_us"], 5_000)

    def test_points__are_the_distribution(self):
        with Server(lambda _: http(201)) as server:
            told = self.run_open(server)
        self.assertEqual(told["points"][-1], [told["max_us"], 1])
        self.assertEqual(told["points"], sorted(told["points"]))
        self.assertGreater(len(told["points"]), 20)
