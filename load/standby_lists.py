#!/usr/bin/env -S python3 -B
"""standby_lists.py PROGRAM - lists that are read from a hot standby of Postgres.

Private servers: a primary, an asynchronous standby, and an instance whose lists are read from the
standby. Lists must tell their age. When the standby is paused or down, orders must go on. Exit code 0:
all of this holds. The logs stay in var/standby_lists."""

import http.client
import json
import os
import sys
import time

import harness
import pair

PLACE = "var/standby_lists"
OLD_S = 7 # an older copy is not up to date; an up-to-date copy may look a few seconds old
LISTS = ("/v1/orders", "/v1/vouchers", "/v1/vouchers?state=open")


class Lists:
    """The lists of the instance, and the checks of their contents."""

    def __init__(self, service, voucher):
        self.service, self.voucher = service, voucher
        self.tokens = {"shopper": service.token(1), "admin": service.token(1, "admin")}

    def read(self, path, role="shopper"):
        """Send a GET. Returns status, headers and body. Role None: without a token."""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}
        client = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)
        client.request("GET", path, headers=headers)
        reply = client.getresponse()
        body = json.loads(reply.read())
        client.close()
        return reply.status, reply.headers, body

    def all(self):
        return [self.read(path) for path in LISTS] + [
            self.read(f"/v1/vouchers/{self.voucher}/events", "admin")]

    def ages(self):
        return [int(headers["Age"]) for _, headers, _ in self.all()]

    def has_order(self, order):
        _, _, orders = self.read("/v1/orders")
        _, _, events = self.read(f"/v1/orders/{order}/events")
        return [each["id"] for each in orders["items"]][:1] == [order] and events["items"] != []

    def order(self):
        """Place an order. A read from the primary finds it at once."""
        status, order = self.service.call("POST", f"/v1/vouchers/{self.voucher}/orders", self.tokens["shopper"])
        harness.expect("an order is placed", status, 201)
        harness.expect("the order is read", self.read(f"/v1/orders/{order['id']}")[0], 200)
        return order["id"]

    def state(self):
        """The values of the metric that tells whether the lists are connected."""
        return [value for labels, value in self.service.metrics("seckill_dependency_up") if "lists" in labels]


def check_standby(standby, service, lists):
    order = lists.order()
    harness.wait_for("the standby has the order", lambda: lists.has_order(order))
    harness.wait_for("the lists are young", lambda: max(lists.ages()) < OLD_S)
    for path in ("/v1/vouchers/" + lists.voucher, f"/v1/orders/{order}"):
        harness.expect(f"{path} comes from the primary; its age", lists.read(path)[1]["Age"], None)
    print("lists come from the standby, and tell their age")

    harness.sql(standby.url("superuser"), "select pg_wal_replay_pause()")
    order = lists.order()
    harness.wait_for("the lists are old", lambda: min(lists.ages()) > OLD_S)
    harness.expect("a list without the order", lists.has_order(order), False)
    control = lists.read("/v1/vouchers", None)[1]["Cache-Control"]
    harness.expect("a cache keeps the list", int(control.rpartition("=")[2]) > OLD_S, True)
    harness.sql(standby.url("superuser"), "select pg_wal_replay_resume()")
    harness.wait_for("the standby has the order", lambda: lists.has_order(order))
    print("a standby that lags shows by the age of its lists")

    standby.do("kill", "postgres")
    harness.wait_for("the lists are away", lambda: lists.state() == [0])
    for status, headers, body in lists.all():
        harness.expect("a list without its database", (status, body["code"], "Retry-After" in headers), (503, "unavailable", True))
    order = lists.order()
    harness.expect("readiness without lists", service.call("GET", "/readyz")[0], 200)
    standby.do("start", "postgres")
    began = time.monotonic()
    harness.wait_for("the lists are back", lambda: lists.read("/v1/vouchers")[0] == 200)
    print(f"without the standby lists are 503, and orders go on; lists are back {time.monotonic() - began:.2f} s after it")
    harness.wait_for("the lists are connected", lambda: lists.state() == [1])
    harness.wait_for("the standby has the order", lambda: lists.has_order(order))


def check_refusals(program, primary, standby, stack):
    """Check that `serve` and `migrate` refuse a standby in place of the primary."""
    service = make(program, primary, standby.url("service"), "")
    stack.callback(service.stop)
    service.launch()
    harness.wait_for("the instance answers", lambda: harness.is_taken(service.port))
    harness.wait_for("it says that the server is read-only", lambda: service.call("GET", "/readyz")[1]
                     ["dependencies"]["postgres"] == "read_only")
    said = harness.must_fail(program, "migrate", env=dict(os.environ, SECKILL_DATABASE_URL=standby.url("owner")))
    harness.expect("migrate names the reason", "name the primary" in said, True)
    print("a standby in the place of the primary is refused:", said.strip())


def make(program, primary, database_url, lists_url):
    return harness.instance(program, f"{PLACE}/seckill.log", database_url, primary.env["SECKILL_REDIS_URL"],
                            SECKILL_LISTS_DATABASE_URL=lists_url, SECKILL_WORKERS="2", SECKILL_ORDER_TIMEOUT_MS="60000")


def run(stack):
    program = os.path.abspath(sys.argv[1])
    primary, standby = pair.start(PLACE, stack, is_synchronous=False)
    service = make(program, primary, primary.url("service"), standby.url("service"))
    service.migrate(primary.url("owner"))
    stack.callback(service.stop)
    service.start()
    lists = Lists(service, service.create_voucher("lists", 1000, limit=100))
    harness.wait_for("the lists are connected", lambda: lists.state() == [1])
    check_standby(standby, service, lists)
    check_refusals(program, primary, standby, stack)


harness.main("standby_lists", PLACE, run)
