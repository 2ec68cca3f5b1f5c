#!/usr/bin/python3 -B
"""run.py PROGRAM pages|access - the pages in a real browser.

Private servers in var/it/web-*, one service with the sign-in for development; each test has
vouchers and a shopper of its own. What the browser saw is kept in var/screens. Prints what
.ci/check.sh counts; exit code 77: could not be run here, and why."""

import contextlib
import glob
import http.client
import os
import shutil
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{HERE}/../../../load"]

import harness # noqa: E402

NOT_RUN = 77
CROWD = 8
MEALS = ("Hot pot for four", "Dim sum for two", "Noodles and tea", "A whole roast duck")


class World:
    """A service, a browser, and what tests ask of them."""

    def __init__(self, program, directory, stack):
        self.program, self.directory, self.stack = program, directory, stack
        self.private = harness.Servers(directory)
        if os.path.isdir(directory):
            self.private.down()
            shutil.rmtree(directory)
        stack.callback(self.private.down)
        self.private.up()
        self.secret = harness.new_secret()
        self.titles = 0
        self.service = None
        self.service = self.start({}, is_first=True)
        self.url = f"http://127.0.0.1:{self.service.port}"
        self.admin = self.service.token(1, "admin")
        self.browser = self.axe = self._chinese = None

    def start(self, env, listen="127.0.0.1", is_first=False):
        """One more instance; all but the first end with the test."""
        service = harness.Service(self.program, harness.free_port(), {
            "SECKILL_DATABASE_URL": self.private.env["SECKILL_DATABASE_URL"],
            "SECKILL_REDIS_URL": self.private.env["SECKILL_REDIS_URL"],
            "SECKILL_JWT_SECRET": self.secret, "SECKILL_TICKET_SECRET": self.secret,
            "SECKILL_ORDER_TIMEOUT_MS": "1000", "SECKILL_WORKERS": "2", "SECKILL_RATE_PER_USER": "0",
            "SECKILL_DEV_LOGIN": "1", **env}, "")
        service.env["SECKILL_LISTEN"] = f"{listen}:{service.port}"
        service.log_path = f"{self.directory}/service-{service.port}.log"
        if is_first:
            service.migrate(self.private.env["PG_OWNER_URL"])
        (self.stack if is_first else self.test).callback(service.stop)
        service.start()
        return service

    def chinese(self):
        from browser import Browser, PHONE
        if self._chinese is None:
            self._chinese = Browser("zh-CN", PHONE)
            self.stack.callback(self._chinese.quit)
        return self._chinese

    def servers(self, verb, which):
        harness.run(f"{harness.LOAD}/servers.sh", verb, self.directory, which)

    # -- the service behind the page's back

    def call(self, method, path, token=None, body=None):
        status, told = self.service.call(method, path, token, body)
        assert status in (200, 201), (status, told)
        return told

    def raw(self, method, path, headers=None, body=None):
        client = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=10)
        try:
            client.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in {**(headers or {}), "Content-Length": len(body or "")}.items():
                client.putheader(name, value)
            client.endheaders((body or "").encode())
            reply = client.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            client.close()

    def new_title(self):
        self.titles += 1
        return f"{MEALS[self.titles % len(MEALS)]}, no. {self.titles}"

    def voucher(self, **sale):
        made = self.call("POST", "/v1/vouchers", self.admin, {
            "title": self.new_title(), "description": "Any day but Sunday.", "price_cents": 900,
            "face_value_cents": 10000, "stock": 10, "begin_at": harness.moment(-60),
            "end_at": harness.moment(3600), **sale})
        self.test.callback(self.end, made["id"])
        return made["id"]

    def end(self, voucher):
        """So that it is in no other test's way."""
        self.call("PATCH", f"/v1/vouchers/{voucher}", self.admin,
                  {"begin_at": harness.moment(-7200), "end_at": harness.moment(-3600)})

    def read(self, voucher):
        return self.call("GET", f"/v1/vouchers/{voucher}")

    def title(self, voucher):
        return self.read(voucher)["title"]

    def stock_left(self, voucher):
        return self.read(voucher)["stock_left"]

    def find(self, title):
        return next(each for each in self.call("GET", "/v1/vouchers?limit=100")["items"] if each["title"] == title)

    def order(self, order):
        return self.call("GET", f"/v1/orders/{order}", self.admin)

    def place(self, voucher, user):
        """The number of an order by somebody else."""
        return self.call("POST", f"/v1/vouchers/{voucher}/orders", self.service.token(user))["id"]

    @contextlib.contextmanager
    def crowd(self, voucher):
        """Shoppers who go on ordering it, about fifty a second, until the block ends."""
        tokens = self.service.command("token", "--user", "5000000", "--count", "400").split()
        ended = threading.Event()

        def go(own):
            for i in range(100000):
                if ended.wait(0.15):
                    return
                self.service.call("POST", f"/v1/vouchers/{voucher}/orders", own[i % len(own)])

        threads = [threading.Thread(target=go, args=(tokens[i::CROWD],)) for i in range(CROWD)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def tests_of(*modules):
    return [(name.removeprefix("test_"), test) for module in modules
            for name, test in vars(module).items() if name.startswith("test_")]


def run_one(world, name, test):
    print(f"[ RUN      ] {name}", flush=True)
    began = time.monotonic()
    try:
        with contextlib.ExitStack() as world.test:
            test(world)
            complaints = world.browser.complaints()
            assert complaints == [], complaints
    except Exception: # whatever it is, the others run
        traceback.print_exc(file=sys.stdout)
        with contextlib.suppress(Exception):
            world.browser.screenshot(f"failed-{name}")
        print(f"[  FAILED  ] {name}", flush=True)
        return False
    print(f"[       OK ] {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return True


def main():
    program, what = os.path.abspath(sys.argv[1]), sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    from browser import Browser
    import access
    import dashboard
    import files
    import shop

    axe = access.fetch_axe() if what == "access" else None
    if what == "access" and axe is None:
        print("npm, which brings axe-core, is not here or cannot fetch it")
        return NOT_RUN
    tests = tests_of(access) if what == "access" else tests_of(files, shop, dashboard)
    for left in glob.glob("var/screens/failed-*"):
        os.remove(left)
    with contextlib.ExitStack() as stack:
        world = World(program, f"var/it/web-{what}", stack)
        world.browser, world.axe = Browser(), axe
        stack.callback(world.browser.quit)
        results = [run_one(world, name, test) for name, test in tests if only in name]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
