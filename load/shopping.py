"""shopping.py - shoppers who order without a pause while servers fail."""

import contextlib
import http.client
import json
import threading
import time

import harness

SHOPPERS = 100_000
AT_ONCE = 8
REPEAT_AFTER_S = 0.02
WITHIN_S = 300


def make_tokens(program, place):
    """Create the tokens of shoppers 1 to SHOPPERS."""
    harness.Service(program, 0, {"SECKILL_JWT_SECRET": harness.SECRET}, None).write_tokens(SHOPPERS, f"{place}/tokens")
    return harness.read_tokens(f"{place}/tokens")


def start_service(program, place, stack, database_url, owner_url, redis_url, **env):
    service = harness.instance(program, f"{place}/seckill.log", database_url, redis_url, **{"SECKILL_WORKERS": "2"} | env)
    service.migrate(owner_url)
    stack.callback(service.stop)
    service.start()
    return service


def await_durability(service, level):
    harness.wait_for(f"the durability is {level}", lambda: (
        f'{{level="{level}"}}', 1.0) in service.metrics("seckill_durability"))


@contextlib.contextmanager
def selling(service, tokens, orders, pause_s=0):
    """Shoppers who order a new voucher. `orders` orders are acknowledged before the block, and again after it."""
    shoppers = Shoppers(service, service.create_voucher("sale", 1_000_000), tokens, pause_s)
    try:
        shoppers.await_more(orders)
        yield shoppers
        shoppers.await_more(orders)
    finally:
        shoppers.stop()


class Shoppers:
    """Threads that order a voucher until they are stopped. An order without a clear answer is repeated
    under its key."""

    waits_for_lock = True # retry while an earlier request for the order holds the lock

    def __init__(self, service, voucher, tokens, pause_s=0):
        self.address, self.tokens = (service.host, service.port), tokens
        self.voucher = int(voucher)
        self.pause_s = pause_s
        self.acknowledged = {} # by shopper: the order and the time at which it was acknowledged
        self.requests = 0
        self.unclear = 0 # number of answers without a clear outcome
        self.next = 0
        self.lock = threading.Lock()
        self.is_stopped = False
        self.failure = None
        self.threads = [threading.Thread(target=self.run) for _ in range(AT_ONCE)]
        for thread in self.threads:
            thread.start()

    def run(self):
        try:
            while not self.is_stopped:
                with self.lock:
                    shopper = self.next
                    self.next += 1
                self.order(shopper)
                time.sleep(self.pause_s)
        except Exception as error: # an error of the test; the main thread reports it
            self.failure = error

    def ask(self, client, headers):
        client.request("POST", f"/v1/vouchers/{self.voucher}/orders", headers=headers)
        reply = client.getresponse()
        return reply.status, json.loads(reply.read())

    def order(self, shopper):
        client = http.client.HTTPConnection(*self.address, timeout=WITHIN_S)
        headers = {"Authorization": f"Bearer {self.tokens[shopper]}", "Idempotency-Key": f"k{shopper}"}
        while not self.is_stopped:
            status, body = self.ask(client, headers)
            with self.lock:
                self.requests += 1
            if status in (200, 201):
                with self.lock:
                    self.acknowledged[shopper + 1] = (int(body["id"]), time.monotonic())
                break
            if status != 503 and body["code"] != "order_in_progress":
                raise harness.Failed(f"an order was answered {status} {body}")
            if body["code"] == "order_in_progress" and not self.waits_for_lock:
                break
            self.unclear += body["code"] == "outcome_unknown"
            time.sleep(REPEAT_AFTER_S)
        client.close()

    def count(self):
        if self.failure:
            raise harness.Failed(f"a shopper failed: {self.failure}")
        return len(self.acknowledged)

    def await_more(self, number):
        wanted = self.count() + number
        harness.wait_for(f"{number} more orders are acknowledged", lambda: self.count() >= wanted, WITHIN_S)

    def await_unclear(self):
        before = self.unclear
        harness.wait_for("an outcome is unknown", lambda: self.count() and self.unclear > before, WITHIN_S)

    def since(self, moment):
        """The times after this moment at which orders were acknowledged."""
        with self.lock:
            return [at for _, at in self.acknowledged.values() if at > moment]

    def first_since(self, moment):
        """Wait for the first acknowledged order after this moment. Returns its time."""
        harness.wait_for("an order is acknowledged again", lambda: self.count() and self.since(moment), WITHIN_S)
        return min(self.since(moment))

    def stop(self):
        self.is_stopped = True
        for thread in self.threads:
            thread.join()

    def lost(self, owner_url):
        """The shoppers whose acknowledged order has no row."""
        stored = {(int(order), int(shopper)) for order, shopper in harness.rows(
            owner_url, f"select id, user_id from voucher_order where voucher_id = {self.voucher}")}
        return [shopper for shopper, (order, _) in self.acknowledged.items() if (order, shopper) not in stored]


class Visitors(Shoppers):
    """These shoppers order through a balancer, which may be down, or have no instance behind it. If the lock of a
    shopper is held by an instance that was killed, the shopper gives up."""

    waits_for_lock = False

    def __init__(self, *arguments):
        self.troubles = [] # time and code of each answer without an order
        super().__init__(*arguments)

    def ask(self, client, headers):
        try:
            code, body = super().ask(client, headers)
        except (OSError, http.client.HTTPException, ValueError): # ValueError: a page of the balancer
            client.close()
            code, body = 503, {"code": "none"}
        if code not in (200, 201):
            self.troubles.append((time.monotonic(), body["code"]))
        return code, body
