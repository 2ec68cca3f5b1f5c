#!/usr/bin/python3 -B
"""run.py PROGRAM pages|access - the pages in a real browser.

The run has its own servers, and a service with the sign-in for development. Each test has its own
vouchers and its own shopper. The files of a run are in a directory of its own, which is removed at
the end. The screenshots of the run then replace those in var/screens/WHAT, or in
var/screens/WHAT-failed. Prints a line for each test, which .ci/check.sh counts. Exit code 77: the
test cannot run here; the last line says why."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{HERE}/../../../load"]

import harness # noqa: E402
from browser import DEADLINE_S # noqa: E402

NOT_RUN = 77
CROWD = 8
MEALS = ("Hot pot for four", "Dim sum for two", "Noodles and tea", "A whole roast duck")


class World:
    """A service, a browser, and helpers of the tests."""

    def __init__(self, program, directory, stack):
        self.program, self.directory, self.stack = program, directory, stack
        self.private = harness.Servers(directory)
        stack.callback(self.private.down)
        self.private.up()
        self.secret = harness.new_secret()
        self.titles = 0
        self.service = None
        self.service = self.start({}, is_first=True)
        self.url = f"http://127.0.0.1:{self.service.port}"
        self.admin = self.service.token(1, "admin")
        self.browser = self.axe = self._chinese = None

    def start(self, env, is_first=False):
        """Start another instance. All instances but the first end with the test."""
        service = harness.Service(self.program, harness.free_port(), {
            "SECKILL_DATABASE_URL": self.private.env["SECKILL_DATABASE_URL"],
            "SECKILL_REDIS_URL": self.private.env["SECKILL_REDIS_URL"],
            "SECKILL_JWT_SECRET": self.secret, "SECKILL_TICKET_SECRET": self.secret,
            "SECKILL_ORDER_TIMEOUT_MS": "60000", "SECKILL_WORKERS": "2", "SECKILL_RATE_PER_USER": "0",
            "SECKILL_DEV_LOGIN": "1", **env}, "")
        service.log_path = f"{self.directory}/service-{service.port}.log"
        if is_first:
            service.migrate(self.private.env["PG_OWNER_URL"])
        (self.stack if is_first else self.test).callback(service.stop)
        service.start()
        return service

    def chinese(self):
        from browser import Browser, PHONE
        if self._chinese is None:
            self._chinese = Browser(self.browser.screens, "zh-CN", PHONE)
            self.stack.callback(self._chinese.quit)
        return self._chinese

    def servers(self, verb, which):
        harness.run(f"{harness.LOAD}/servers.sh", verb, self.directory, which)

    def url_of(self, name, role="PG_OWNER_URL"):
        return self.private.env[role].rsplit("/", 1)[0] + "/" + name

    def copy_database(self, name):
        """Copy the database. Returns the URL of the copy for the service."""
        harness.sql(self.url_of("postgres", "PG_SUPERUSER_URL"), f"create database {name} owner seckill")
        harness.run("pg_dump", "-Fc", self.private.env["PG_OWNER_URL"], "-f", f"{self.directory}/{name}.dump")
        harness.run("pg_restore", "--exit-on-error", "-d", self.url_of(name), f"{self.directory}/{name}.dump")
        return self.url_of(name, "SECKILL_DATABASE_URL")

    def copy_order(self, order, name):
        row = harness.run("psql", "-Xqc", f"copy (select * from voucher_order where id = {order}) to stdout",
                          self.private.env["PG_OWNER_URL"])
        subprocess.run(["psql", "-Xqc", "copy voucher_order from stdin", self.url_of(name)], input=row, text=True,
                       check=True)

    # -- direct access to the service

    def call(self, method, path, token=None, body=None):
        status, told = self.service.call(method, path, token, body)
        assert status in (200, 201), (status, told)
        return told

    def raw(self, method, path, headers=None):
        client = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=DEADLINE_S)
        try:
            client.putrequest(method, path, skip_accept_encoding=True)
            for name, value in {**(headers or {}), "Content-Length": "0"}.items():
                client.putheader(name, value)
            client.endheaders()
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
        """End the sale, so that other tests do not see the voucher."""
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

    def keep_in_stock(self, voucher):
        """Add stock if other shoppers have nearly sold out the voucher."""
        if self.stock_left(voucher) < 100:
            self.call("POST", f"/v1/vouchers/{voucher}/restock", self.admin, {"add": 100})

    def place(self, voucher, user):
        """Place an order as another shopper. Returns its number."""
        return self.call("POST", f"/v1/vouchers/{voucher}/orders", self.service.token(user))["id"]

    @contextlib.contextmanager
    def crowd(self, voucher):
        """Send at most 50 orders per second until the `with` block ends."""
        tokens = self.service.command("token", "--user", "5000000", "--count", "10000").split()
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
    except Exception: # the other tests still run
        traceback.print_exc(file=sys.stdout)
        with contextlib.suppress(Exception):
            world.browser.screenshot(f"failed-{name}")
        print(f"[  FAILED  ] {name}", flush=True)
        return False
    print(f"[       OK ] {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return True


def publish(screens, kept):
    """Replace the screenshots of an earlier run. No two runs write to the same directory."""
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    old = tempfile.mkdtemp(dir="var/screens")
    with contextlib.suppress(FileNotFoundError):
        os.rename(kept, f"{old}/screens")
    with contextlib.suppress(OSError): # another run has replaced them first
        os.rename(screens, kept)
    shutil.rmtree(old)


def run_all(program, what, only, directory):
    from browser import Browser
    import access
    import dashboard
    import docs_page
    import files
    import lighthouse
    import shop

    if not os.path.exists("/usr/bin/chromium"):
        print("there is no /usr/bin/chromium")
        return NOT_RUN
    axe = access.fetch_axe() if what == "access" else None
    if what == "access" and (axe is None or not lighthouse.fetch()):
        print("npm, which brings axe-core and Lighthouse, is missing or cannot download them")
        return NOT_RUN
    tests = tests_of(access, lighthouse) if what == "access" else tests_of(files, shop, dashboard, docs_page)
    screens = f"{directory}/screens"
    os.mkdir(screens)
    with contextlib.ExitStack() as stack:
        world = World(program, f"{directory}/servers", stack)
        world.browser, world.axe = Browser(screens), axe
        stack.callback(world.browser.quit)
        results = [run_one(world, name, test) for name, test in tests if only in name]
    publish(screens, f"var/screens/{what}{only and '-' + only}{'' if all(results) else '-failed'}")
    return 0 if all(results) else 1


def main():
    program, what = os.path.abspath(sys.argv[1]), sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)) # runs the clean-up
    os.makedirs("var/it", exist_ok=True)
    os.makedirs("var/screens", exist_ok=True)
    directory = tempfile.mkdtemp(prefix=f"web-{what}-", dir="var/it")
    try:
        return run_all(program, what, only, directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
