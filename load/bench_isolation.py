#!/usr/bin/env -S python3 -B
"""bench_isolation.py PROGRAM [CASE...] - measure how much slow work delays the rest of a sale.

  held_rows     orders of one voucher at the full rate, alone and while a session holds the rows of
                20 other vouchers, each ordered by two shoppers again and again; in turns
  mass_expiry   payments, ten per second, while 200 vouchers with 500 unpaid orders each expire
  heavy_reads   orders, twenty per second, while 500 connections list vouchers with descriptions of
                4,000 characters: all the same page, then all different pages
  listeners     orders of one voucher at the full rate, alone and beside 10,000 listeners to its
                stock, in turns; how often these hear of it, and their memory

The service has one event loop (BENCH_WORKERS=1). Prints a line for each and writes var/bench/isolation.json.

  BENCH_SECONDS=10  of each measurement     BENCH_ROUNDS=3  of the held rows and the listeners"""

import concurrent.futures
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

import deploy
import harness

PLACE = os.environ.get("BENCH_PLACE", "var/bench")
SECONDS = int(os.environ.get("BENCH_SECONDS", "10"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
TOKENS = 100_000 * SECONDS
HELD = 20
DUE_VOUCHERS, DUE_ORDERS = 200, 500
PAYMENTS_PER_S, ORDERS_PER_S = 10, 20
READERS = 500
WORKERS = int(os.environ.get("BENCH_WORKERS", "1"))
LISTENERS = 10_000
LONG = 100 # vouchers with a long description, as many as a page holds

CREATE = ("select create_voucher(nextval('voucher_id_seq'), 'long', repeat('x', 4000), 1, 1, 500, 1, now() - "
          "interval '1 h', now() + interval '1 h', 3600) from generate_series(1, {})")


class Calls:
    """Requests from threads. `end` returns how many were answered with each status, and the
    slowest in ms."""

    def __init__(self, service, most):
        self.service = service
        self.pool = concurrent.futures.ThreadPoolExecutor(most)
        self.calls = []

    def call(self, *request):
        began = time.monotonic()
        status, _ = self.service.call(*request)
        return status, (time.monotonic() - began) * 1000

    def start(self, *request):
        self.calls.append(self.pool.submit(self.call, *request))

    def at_rate(self, per_s, requests):
        """Start requests at a constant rate; a slow answer delays no other request."""
        began = time.monotonic()
        for number, request in enumerate(requests):
            time.sleep(max(0, began + number / per_s - time.monotonic()))
            self.start(*request)

    def end(self):
        answers = [call.result() for call in self.calls]
        self.pool.shutdown()
        statuses = [status for status, _ in answers]
        return {"answers": {status: statuses.count(status) for status in sorted(set(statuses))},
                "slowest_ms": round(max(ms for _, ms in answers)),
                "median_ms": round(statistics.median(ms for _, ms in answers), 1)}


def order(voucher, token):
    return "POST", f"/v1/vouchers/{voucher}/orders", token


def tokens(count):
    with open(f"{PLACE}/tokens") as file:
        return [line.strip() for line, _ in zip(file, range(count))]


# -- held rows --

@contextlib.contextmanager
def hold(deployment, vouchers):
    """Hold the rows of the vouchers in a session."""
    with subprocess.Popen(["psql", "-XAtq", deployment.owner_url], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as psql:
        psql.stdin.write(f"begin; select id from voucher where id in ({','.join(vouchers)}) for update;\n")
        psql.stdin.flush()
        for _ in vouchers:
            psql.stdout.readline()
        yield # then the input of psql is closed, which ends it


@contextlib.contextmanager
def buyers(service, vouchers):
    """Two shoppers per voucher, who repeat their orders."""
    stop = threading.Event()

    def buy(voucher, token):
        while not stop.is_set():
            service.call(*order(voucher, token))

    with concurrent.futures.ThreadPoolExecutor(2 * HELD) as pool:
        for number, token in enumerate(tokens(2 * HELD)):
            pool.submit(buy, vouchers[number % HELD], token)
        yield
        stop.set()


def held_rows(deployment):
    orders = {True: [], False: []}
    for number in range(2 * ROUNDS):
        deployment.empty()
        vouchers = [deployment.service.create_voucher("sale", deploy.STOCK) for _ in range(HELD + 1)]
        is_held = number % 4 in (0, 3)
        with contextlib.ExitStack() as stack:
            if is_held:
                stack.enter_context(hold(deployment, vouchers[:HELD]))
                stack.enter_context(buyers(deployment.service, vouchers[:HELD]))
            report = deploy.wrk(PLACE, [deployment.service.port], SECONDS, vouchers[HELD:], TOKENS)
        orders[is_held].append(report["requests"] - report["refused"])
    ratios = [held / alone for held, alone in zip(orders[True], orders[False])]
    return {"orders_alone": orders[False], "orders_beside_held": orders[True],
            "ratio": round(statistics.median(ratios), 3)}


# -- mass expiry --

def mass_expiry(deployment):
    voucher = deployment.service.create_voucher("paid", deploy.STOCK)
    count = 2 * SECONDS * PAYMENTS_PER_S
    orders = [deployment.service.call(*order(voucher, token))[1]["id"] for token in tokens(count)]
    payment = deployment.service.token(1, "payment")
    deployment.sql(CREATE.format(DUE_VOUCHERS))
    deployment.sql(f"select count(placed) from voucher, lateral place_orders(id, array(select generate_series(1::bigint, "
                   f"{DUE_ORDERS})), array_fill(0::bigint, array[{DUE_ORDERS}]), null) placed where id <> {voucher}")
    deployment.sql("update voucher_order set created_at = now() - interval '1 d', expires_at = now() + interval '2 s' "
                   f"where voucher_id <> {voucher}")
    began = time.monotonic()
    calls = Calls(deployment.service, count)
    calls.at_rate(PAYMENTS_PER_S, (("POST", f"/v1/orders/{each}/pay", payment, {"payment_ref": each, "amount_cents": 900})
                                   for each in orders))
    result = calls.end()
    harness.wait_for("all orders have expired", lambda: deployment.sql(
        f"select count(*) from voucher_order where voucher_id <> {voucher} and status = 'unpaid'") == ["0"])
    return result | {"expired_within_s": round(time.monotonic() - began, 1)}


# -- heavy reads --

def reconnects(deployment):
    return sum(value for labels, value in deployment.service.metrics("seckill_reconnects_total") if "postgres" in labels)


def heavy_reads(deployment):
    voucher = deployment.service.create_voucher("sale", deploy.STOCK)
    deployment.sql(CREATE.format(LONG))
    result = {}
    for pages in ("same", "different"):
        before = reconnects(deployment)
        deployment.sql("delete from voucher_order")
        with subprocess.Popen(
                ["wrk", "-t2", f"-c{READERS}", f"-d{SECONDS}", "--timeout", "60", "-s", f"{harness.LOAD}/lists.lua",
                 f"http://127.0.0.1:{deployment.service.port}", "--", pages], stdout=subprocess.PIPE, text=True) as wrk:
            calls = Calls(deployment.service, SECONDS * ORDERS_PER_S)
            calls.at_rate(ORDERS_PER_S, (order(voucher, token) for token in tokens(SECONDS * ORDERS_PER_S)))
            lists = json.loads(wrk.communicate()[0].splitlines()[-1])
        result[pages] = {"lists": lists, "orders": calls.end(), "reconnects": reconnects(deployment) - before}
    return result


# -- listeners --

class Connections:
    """Connections that have sent the same request. They are read once a second, which costs little CPU time."""

    def __init__(self, port, path):
        self.stop = threading.Event()
        self.bytes = [0] * LISTENERS
        self.sockets = []
        for _ in range(LISTENERS):
            self.sockets.append(socket.create_connection(("127.0.0.1", port)))
            self.sockets[-1].sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            self.sockets[-1].setblocking(False)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        buffer = bytearray(65536)
        while not self.stop.wait(1):
            for number, each in enumerate(self.sockets):
                with contextlib.suppress(BlockingIOError):
                    self.bytes[number] += each.recv_into(buffer)

    def __enter__(self):
        harness.wait_for("all are answered", lambda: all(self.bytes))
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.reader.join()
        for each in self.sockets:
            each.close()


def is_alone(service):
    return sum(value for _, value in service.metrics("seckill_connections")) == 1


def memory_of(service, path):
    """The memory in bytes that the service needs for a connection that has sent this request."""
    harness.wait_for("no other is connected", lambda: is_alone(service))
    before = service.rss_mib()
    with Connections(service.port, path):
        return round((service.rss_mib() - before) * 2**20 / LISTENERS)


EVENT_BYTES = len('retry: 2000\ndata: {"stock_left":99000000,"state":"open","server_time":"2030-01-01T00:00:00.000000Z"}\n\n')


def listeners(deployment):
    service = deployment.service
    stream = "/v1/vouchers/{}/stream"
    voucher = service.create_voucher("sale", deploy.STOCK)
    # Idle connections are measured last, because the process keeps their memory.
    memory = {"listener_bytes": memory_of(service, stream.format(voucher))}
    memory["idle_bytes"] = memory_of(service, "/healthz")
    orders = {True: [], False: []}
    rates = []
    for number in range(2 * ROUNDS):
        deployment.empty()
        voucher = service.create_voucher("sale", deploy.STOCK)
        with contextlib.ExitStack() as stack:
            is_heard = number % 4 in (0, 3)
            if is_heard:
                heard = stack.enter_context(Connections(service.port, stream.format(voucher)))
                before = sum(heard.bytes)
            began = time.monotonic()
            report = deploy.wrk(PLACE, [service.port], SECONDS, [voucher], TOKENS)
            if is_heard:
                rates.append(round((sum(heard.bytes) - before) / EVENT_BYTES / LISTENERS / (time.monotonic() - began), 2))
        harness.wait_for("no other is connected", lambda: is_alone(service))
        orders[is_heard].append(report["requests"] - report["refused"])
    ratios = [beside / alone for beside, alone in zip(orders[True], orders[False])]
    return memory | {"orders_alone": orders[False], "orders_beside_listeners": orders[True],
                     "events_per_listener_and_s": rates, "ratio": round(statistics.median(ratios), 3)}


CASES = {case.__name__: case for case in (held_rows, mass_expiry, heavy_reads, listeners)}


def run(program, names, stack):
    os.makedirs(PLACE, exist_ok=True)
    deploy.raise_file_limit(LISTENERS + deploy.CONNECTIONS)
    servers = harness.Servers(f"{PLACE}/isolation")
    stack.callback(servers.down)
    servers.up()
    secret = harness.new_secret()
    results = {}
    for name in names:
        with contextlib.ExitStack() as services:
            deployment = deploy.Deployment(program, servers, secret, PLACE, f"isolation_{name}", services,
                                           workers=WORKERS)
            if not results:
                print(deploy.machine(), deploy.durability(deployment), flush=True)
                deployment.service.write_tokens(TOKENS, f"{PLACE}/tokens")
            results[name] = CASES[name](deployment)
            print(f"{name}: {json.dumps(results[name])}", flush=True)
    return results


def main(program, *names):
    with contextlib.ExitStack() as stack:
        harness.write_json(f"{PLACE}/isolation.json", run(program, names or CASES, stack))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except harness.Failed as failed:
        sys.exit(f"bench_isolation.py: {failed}")
