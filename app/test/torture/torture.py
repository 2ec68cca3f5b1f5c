#!/usr/bin/python3 -B
"""torture.py PROGRAM PERCENT SEED [SITE:CALL] - fails each call that can fail, once.

PROGRAM is the service with inject.c. Its calls are counted during a short sale. Then, for each call
of each call site, a new instance runs the same sale, in which this call fails. PERCENT and SEED
choose a part of the calls, and SITE:CALL chooses one call. A failure must not crash the service,
leak memory, or cause a false answer. An instance that has started must recover without a restart:
each request is repeated until it succeeds. An instance may end during its start, with a message."""

import base64
import collections
import concurrent.futures
import hashlib
import hmac
import http.client
import itertools
import json
import os
import random
import re
import shutil
import sys
import threading
import time

ROOT = f"{os.path.dirname(os.path.abspath(__file__))}/../../.."
sys.path.insert(0, f"{ROOT}/load")

import harness # noqa: E402

PLACE = "var/it/torture"
JOBS = 4
CALLS_MAX = 40 # calls of a site that are failed, spread evenly
SHOPPERS = 8 # at once
RECOVER_WITHIN_S = 60
SECRET = harness.new_secret()
REPORT = re.compile(r"Sanitizer|runtime error|Assertion")

# The answers to a request that has failed, as status and code. After an answer of UNCHANGED nothing
# was changed. After an answer of UNKNOWN something may have been changed.
UNCHANGED = [(500, "internal"), (503, "overloaded"), (503, "unavailable"),
             (409, "order_in_progress")]
UNKNOWN = [(503, "outcome_unknown"), (None, None)]

numbers = itertools.count(1)
ports = threading.Lock()


def token(user, role=None):
    def encode(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")
    claims = {"sub": str(user), "exp": int(time.time()) + 3600} | ({"role": role} if role else {})
    text = encode(b'{"alg":"HS256"}') + b"." + encode(json.dumps(claims).encode())
    return (text + b"." + encode(hmac.digest(SECRET.encode(), text, hashlib.sha256))).decode()


class Instance(harness.Service):
    """One instance and its sale."""

    def __init__(self, program, env):
        number = next(numbers)
        log_path = f"{PLACE}/{number}.log"
        with open(log_path, "wb"):
            pass
        with ports:
            port = harness.free_port()
        super().__init__(program, port, {
            "SECKILL_JWT_SECRET": SECRET, "SECKILL_WORKERS": "1", "SECKILL_RATE_PER_USER": "0",
            "SECKILL_LOCK_LEASE_MS": "1000", "SECKILL_ORDER_TIMEOUT_MS": "3000", **env}, log_path)
        self.first_user = number * 100

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def is_ready(self):
        """One request is enough, because there is only one event loop."""
        return self.ask("GET", "/readyz")[0] == 200

    # -- requests

    def ask(self, method, path, who=None, body=None, key=None):
        """Returns status, code and document. They are None if the connection was closed without
        an answer."""
        if self.process.poll() is not None:
            raise harness.Failed(f"the service ended with code {self.process.returncode}")
        try:
            status, document = self.call(method, path, who, body, {"Idempotency-Key": key} if key else {})
        except TimeoutError:
            raise harness.Failed(f"{method} {path} is not answered") from None
        except (OSError, http.client.HTTPException):
            return None, None, None
        return status, document.get("code") if isinstance(document, dict) else None, document

    def repeat(self, wanted, method, path, who=None, body=None, key=None):
        """Repeat a request until its answer is one of `wanted`, which are pairs of status and code.
        Returns the document, the status, and whether no earlier attempt can have changed
        anything."""
        until, is_unchanged = time.monotonic() + RECOVER_WITHIN_S, True
        while True:
            status, code, document = self.ask(method, path, who, body, key)
            if (status, code) in wanted:
                return document, status, is_unchanged
            if (status, code) not in UNCHANGED + UNKNOWN:
                raise harness.Failed(f"false answer: {method} {path}: {status} {document}")
            if time.monotonic() > until:
                raise harness.Failed(f"no recovery: {method} {path}: {status} {document}")
            is_unchanged = is_unchanged and (status, code) in UNCHANGED
            time.sleep(0.02)

    def get(self, path, who=None):
        return self.repeat([(200, None)], "GET", path, who)[0]

    # -- the sale

    def buy(self, voucher, user, key):
        order, status, is_unchanged = self.repeat(
            [(201, None), (200, None)], "POST", f"/v1/vouchers/{voucher}/orders", token(user), key=key)
        if status == 200 and is_unchanged:
            raise harness.Failed(f"false answer: order {order['id']} was placed by a request that failed")
        if (order["voucher_id"], order["user_id"], order["status"]) != (voucher, str(user), "unpaid"):
            raise harness.Failed(f"false answer: {order}")
        return order

    def change(self, order, verb, status, who, body=None):
        """A repeated change other than `pay` is answered wrong_state. So the order is read
        afterwards."""
        path = f"/v1/orders/{order['id']}"
        changed, _, is_unchanged = self.repeat([(200, None), (409, "wrong_state")], "POST",
                                               f"{path}/{verb}", who, body)
        if changed.get("code") == "wrong_state" and is_unchanged:
            raise harness.Failed(f"false answer: {verb}: {changed}")
        found = self.get(path, token(1, "admin"))
        if found != order | {"status": status} | ({"paid_at": found["paid_at"]} if verb == "pay" else {}):
            raise harness.Failed(f"{verb}: {order} has become {found}")

    def create(self, stock):
        voucher = self.repeat([(201, None)], "POST", "/v1/vouchers", token(1, "admin"), {
            "title": "torture", "price_cents": 900, "face_value_cents": 1000, "stock": stock,
            "begin_at": harness.moment(-60), "end_at": harness.moment(3600)})[0]["id"]
        self.get(f"/v1/vouchers/{voucher}")
        return voucher

    def refuse(self, voucher, user, code):
        """Place an order that must be refused."""
        return self.repeat([(409, code)], "POST", f"/v1/vouchers/{voucher}/orders", token(user))[0]

    def sell(self):
        """Run the sale. Returns the ids of the live orders, and the vouchers."""
        voucher, user = self.create(2), self.first_user
        order = self.buy(voucher, user, "a")
        found = self.repeat([(200, None)], "POST", f"/v1/vouchers/{voucher}/orders", token(user), key="a")[0]
        if found != order:
            raise harness.Failed(f"the key of {order} gives {found}")
        refused = self.refuse(voucher, user, "already_ordered")
        if refused.get("order_id") != order["id"]:
            raise harness.Failed(f"false answer: {refused}")
        self.change(order, "pay", "paid", token(1, "payment"),
                    {"payment_ref": f"ref-{order['id']}", "amount_cents": 900})
        self.change(self.buy(voucher, user + 1, "b"), "cancel", "cancelled", token(user + 1))
        last = self.buy(voucher, user + 2, "c")
        self.refuse(voucher, user + 3, "sold_out")
        items = self.get("/v1/orders", token(user))["items"]
        if [item["id"] for item in items] != [order["id"]]:
            raise harness.Failed(f"false answer: the orders are {items}")
        if voucher not in [item["id"] for item in self.get("/v1/vouchers")["items"]]:
            raise harness.Failed(f"false answer: voucher {voucher} is not listed")
        self.get(f"/v1/orders/{order['id']}/events", token(user))
        for path in ("/v1/stats", "/metrics", "/healthz", "/"):
            self.get(path, token(1, "admin"))
        self.repeat([(422, "invalid")], "POST", "/v1/vouchers", token(1, "admin"), {"stock": "many"})
        self.repeat([(401, "unauthenticated")], "GET", "/v1/orders")
        self.repeat([(404, "not_found")], "POST", "/v1/vouchers/9000000000000000000/orders", token(user))
        at_once = self.create(100)
        with concurrent.futures.ThreadPoolExecutor(SHOPPERS) as shoppers:
            orders = list(shoppers.map(lambda i: self.buy(at_once, user + i, "d"), range(SHOPPERS)))
        self.buy(at_once, user + SHOPPERS, "e")
        return {item["id"] for item in [order, last, *orders]}, [voucher, at_once]

    def run(self, owner_url):
        """Start the instance and run the sale. Returns whether the instance has started."""
        try:
            self.start()
        except harness.Failed:
            code, text = self.process.poll(), self.log()
            self.process = None
            if code is None or code < 0 or REPORT.search(text) or not re.search("seckill serve: .", text):
                raise
            return False
        live, vouchers = self.sell()
        self.stop()
        if REPORT.search(self.log()):
            raise harness.Failed(self.log())
        found = harness.run("psql", "-XAtqc", "select id from voucher_order where status in "
                            f"('unpaid', 'paid') and voucher_id in ({', '.join(vouchers)})", owner_url)
        if not live <= set(found.split()):
            raise harness.Failed(f"orders were answered and are not in the database: {live - set(found.split())}")
        return True


def chosen_calls(count):
    """The numbers of the calls of a site that will fail, from 1 on."""
    return sorted({1 + i * count // CALLS_MAX for i in range(CALLS_MAX)} if count > CALLS_MAX
                  else range(1, count + 1))


def count_calls(program, env, owner_url):
    """Run an instance without a failure. Returns {(function, site): number of calls}."""
    path = f"{PLACE}/counts"
    if not Instance(program, env | {"TORTURE_COUNTS": path}).run(owner_url):
        raise harness.Failed("the service does not start")
    with open(path) as lines:
        rows = [line.split() for line in lines]
    return {(function, site): int(calls) for function, site, calls in rows}


def places(program, sites):
    """Returns the position of each call site: {site: "file:line"}."""
    lines = harness.run("addr2line", "-e", program, *(hex(int(site) - 1) for site in sites)).splitlines()
    return {site: os.path.relpath(line.split(" ")[0], os.path.realpath(ROOT))
            for site, line in zip(sites, lines, strict=True)}


def fail_call(program, env, owner_url, site, call):
    """Run an instance in which a call fails. Returns the result, and a message if it is an
    error."""
    instance = Instance(program, env | {"TORTURE_FAIL": f"{site}:{call}"})
    try:
        has_started = instance.run(owner_url)
    except Exception as error:
        if instance.process is not None:
            instance.process.kill()
        return "FAILED", f"{error}\n{instance.log()[-3000:]}"
    if "torture: " not in instance.log():
        return "not reached", None
    os.unlink(instance.log_path)
    return "recovered" if has_started else "ended the start", None


def torture(program, percent, seed, only):
    shutil.rmtree(PLACE, ignore_errors=True)
    servers = harness.Servers(PLACE)
    servers.up()
    try:
        env = {name: servers.env[name] for name in ("SECKILL_DATABASE_URL", "SECKILL_REDIS_URL")}
        owner_url = servers.env["PG_OWNER_URL"]
        first = Instance(program, env)
        first.migrate(owner_url)
        counts = count_calls(program, env, owner_url)
        names = places(program, [site for _, site in counts])
        calls = sorted((names[site], function, site, call) for (function, site), count in counts.items()
                       for call in chosen_calls(count))
        chosen = random.Random(seed).sample(calls, max(1, len(calls) * percent // 100))
        if only:
            chosen = [row for row in calls if f"{row[2]}:{row[3]}" == only]
        print(f"seed {seed}: {len(chosen)} of {len(calls)} calls at {len(counts)} sites", flush=True)
        results = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for (place, function, site, call), (result, message) in zip(chosen, pool.map(
                    lambda row: fail_call(program, env, owner_url, *row[2:]), chosen), strict=True):
                results[result] += 1
                if message:
                    print(f"FAILED: call {call} of {function} at {place} fails, {site}:{call}: {message}",
                          flush=True)
        audit = first.command("audit", check=False).strip().splitlines()[-1]
    finally:
        servers.down()
    print(f"torture, seed {seed}: " +
          ", ".join(f"{count} {result}" for result, count in sorted(results.items())) + f"; {audit}")
    return results["FAILED"] > 0 or audit != "audit passed"


if __name__ == "__main__":
    sys.exit(torture(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) or int(time.time()),
                     sys.argv[4] if len(sys.argv) > 4 else None))
