#!/usr/bin/python3 -B
"""balancers.py PROGRAM - orders, and the streams of vouchers, through the balancers of the documents.

The test has its own servers, two instances, and nginx with the configuration of the demo, except
for addresses and paths. A second port of nginx speaks HTTP/2 over TLS, as browsers do. HAProxy, and
Envoy if it is in var/envoy, have the rules of app/docs/scaling.md. Prints a line for each test,
which .ci/check.sh counts."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(f"{HERE}/../..")
sys.path.insert(0, f"{ROOT}/load")

import balancers # noqa: E402
import harness # noqa: E402
import shopping # noqa: E402

PLACE = "var/it/balancers"
HEARTBEAT_S = 15 # of api_stream.c
SILENCE_S = HEARTBEAT_S + 12 # less than two intervals
STREAMS = 5
SHOPPERS = 20_000
ORDERS = 300 # acknowledged before and after the selling instance is killed
PAUSE_S = 1 # longest time without an order when the selling instance is killed
TOLERANCE = 10 # or this factor of the longest time before, because the machine may be busy
REQUESTS = 40 # if each went to any instance, one would get none of them once in 2^39 runs


def check(condition, found):
    if not condition:
        raise harness.Failed(f"found {found}")


def replace(text, *changes):
    """Replace texts. Fails if the text lacks one of them."""
    for old, new in changes:
        check(old in text, f"no '{old}' in docker/nginx.conf")
        text = text.replace(old, new)
    return text


class Nginx(harness.Nginx):
    """nginx ends a stream after silence_s seconds without an event. In the demo this time is
    longer."""

    def __init__(self, ports, silence_s):
        super().__init__(PLACE, 1, "")
        self.http2_port = harness.free_port()
        with open(f"{ROOT}/docker/nginx.conf") as conf:
            text = conf.read()
        timeout = re.search(r"/stream\)\$ \{.*?proxy_read_timeout (\d+)s;", text, re.S)
        check(int(timeout[1]) > 2 * HEARTBEAT_S, timeout[0])
        self.conf = "daemon off;\n" + replace(
            text, ("/tmp/", f"{self.place}/tmp/"), ("/dev/stderr", f"{self.place}/nginx.log"),
            ("access_log off;", f"log_format streams '$server_protocol $connection $request_uri'; access_log {self.place}/access.log streams;"),
            ("server app1:8080;", f"server 127.0.0.1:{ports[0]};"), ("server app2:8080;", f"server 127.0.0.1:{ports[1]};"),
            ("listen 8080;", f"listen 127.0.0.1:{self.port}; listen 127.0.0.1:{self.http2_port} ssl http2; "
             f"ssl_certificate {self.place}/cert; ssl_certificate_key {self.place}/key;"),
            (timeout[0], timeout[0].replace(f"{timeout[1]}s", f"{silence_s}s")))
        os.makedirs(f"{self.place}/tmp")
        harness.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=shop",
                    "-keyout", f"{self.place}/key", "-out", f"{self.place}/cert")

    def logged(self):
        """Each request that has ended, as protocol, connection and path."""
        with open(f"{self.place}/access.log") as log:
            return [line.split() for line in log]


class World:
    def __init__(self, program, stack):
        shutil.rmtree(PLACE, ignore_errors=True)
        servers = harness.Servers.start(f"{PLACE}/servers", stack)
        self.services = [harness.instance(
            program, f"{PLACE}/seckill{number}.log", servers.url("service"), servers.env["SECKILL_REDIS_URL"],
            SECKILL_WORKERS="2", SECKILL_TRUSTED_PROXIES="127.0.0.1", SECKILL_ORDER_TIMEOUT_MS="60000") for number in range(2)]
        self.services[0].migrate(servers.env["PG_OWNER_URL"])
        for service in self.services:
            stack.callback(service.stop)
            service.start()
        self.nginx = Nginx([service.port for service in self.services], SILENCE_S)
        self.nginx.start()
        stack.callback(self.nginx.stop)
        self.services[0].write_tokens(SHOPPERS, f"{PLACE}/tokens")
        self.tokens = harness.read_tokens(f"{PLACE}/tokens")
        self.owner_url = servers.env["PG_OWNER_URL"]

    def rules(self, language, words):
        return balancers.rules(language, words, {f"app{number}": service.port for number, service in enumerate(self.services, 1)})

    def voucher(self):
        vouchers = [service.create_voucher("stream", 1000) for service in self.services]
        return vouchers[0] # both services have created their admin token

    def order(self, voucher, user):
        status, body = self.services[0].call("POST", f"/v1/vouchers/{voucher}/orders", self.services[0].token(user))
        check(status == 201, (status, body))

    def listeners(self):
        """The number of listeners of both instances, or None if an instance has not reported
        yet."""
        states = [worker["state"] for service in self.services
                  for worker in service.call("GET", "/v1/debug/state", service.admin)[1]["workers"]]
        return None if None in states else sum(state["http"]["stream"] for state in states)

    def await_listeners(self, count):
        harness.wait_for(f"there are {count} listeners", lambda: self.listeners() == count)


class Client:
    """A connection to nginx by HTTP/1.1, and what it has received."""

    def __init__(self, world):
        self.socket = socket.create_connection(("127.0.0.1", world.nginx.port))
        self.text = ""

    def ask(self, path):
        self.text = ""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n".encode())

    def has(self, wanted):
        with contextlib.suppress(BlockingIOError):
            self.text += self.socket.recv(65536, socket.MSG_DONTWAIT).decode()
        return wanted in self.text

    def wait_for(self, wanted):
        try:
            harness.wait_for(f"'{wanted}' arrives", lambda: self.has(wanted))
        except harness.Failed as failure:
            raise harness.Failed(f"{failure}; received: {self.text}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


# -- orders --

def count_answers(world, balancer, method, path, route):
    """Send REQUESTS requests with different numbers in their path. Returns how many of them each instance has answered."""
    def count():
        return [sum(value for labels, value in service.metrics("seckill_http_requests_total") if f'route="{route}"' in labels)
                for service in world.services]

    before = count()
    client = harness.Service("", balancer.port, {}, None)
    for number in range(REQUESTS):
        client.call(method, path.format(number))
    return [now - then for now, then in zip(count(), before)]


def longest_pause(times):
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def check_orders(world, balancer):
    """All orders go to one instance; other requests go to any. When the selling instance is killed, the orders
    go to the other one."""
    services = world.services
    found = count_answers(world, balancer, "GET", "/openapi.yaml", "/openapi.yaml")
    check(0 not in found, found)
    found = count_answers(world, balancer, "POST", "/v1/vouchers/{}/orders", "/v1/vouchers/{id}/orders")
    check(sorted(found) == [0, REQUESTS], found)
    selling = services[found.index(REQUESTS)]
    visitors = shopping.Visitors(balancer, services[0].create_voucher("sale", 1_000_000), world.tokens)
    began = time.monotonic()
    try:
        visitors.await_more(ORDERS)
        killed = time.monotonic()
        selling.process.kill()
        visitors.await_more(ORDERS)
    finally:
        visitors.stop()
    selling.process.wait()
    selling.start()
    times = sorted(visitors.since(began))
    before_s, after_s = (longest_pause(part) for part in (
        [at for at in times if at < killed], [killed, *(at for at in times if at > killed)]))
    print(f"longest time without an order: {after_s:.3f} s, before the kill {before_s:.3f} s")
    check(after_s < max(PAUSE_S, TOLERANCE * before_s), after_s)
    check(visitors.lost(world.owner_url) == [], "lost orders")
    services[0].command("audit") # no oversell, no duplicate


@contextlib.contextmanager
def running(balancer):
    balancer.start()
    try:
        yield balancer
    finally:
        balancer.stop()


def test_nginx__sends_orders_to_one_instance(world):
    check_orders(world, world.nginx)


def test_haproxy__sends_orders_to_one_instance(world):
    with running(balancers.make_haproxy(PLACE, world.rules("haproxy", "balance hash"))) as haproxy:
        check_orders(world, haproxy)


def test_kubernetes__has_the_rules_of_haproxy(world):
    found = re.search(r"backend-config-snippet: \|\n((?: {6}\S.*\n)+)", read(f"{ROOT}/docker/kubernetes.yaml"))
    backend = re.search(r"backend orders\n((?: {4}.*\n)+)", world.rules("haproxy", "balance hash"))[1]
    wanted = [line.strip() for line in backend.splitlines() if not re.match(r" *(option httpchk|server) ", line)]
    check([line.strip() for line in found[1].splitlines()] == wanted, found[1])


if os.path.exists(balancers.ENVOY):
    def test_envoy__sends_orders_to_one_instance(world):
        routes, clusters = re.split("^(?=clusters:)", world.rules("yaml", "RING_HASH"), flags=re.M)
        with running(balancers.make_envoy(PLACE, routes, clusters)) as envoy:
            check_orders(world, envoy)
else:
    print(f"without {balancers.ENVOY} the rules of Envoy are not tested")


# -- streams --

def test_events__arrive_and_the_end_frees_the_listener(world):
    voucher = world.voucher()
    with Client(world) as client:
        client.ask(f"/v1/vouchers/{voucher}/stream")
        client.wait_for('data: {"stock_left":1000,')
        check(client.text.startswith("HTTP/1.1 200 OK\r\n"), client.text)
        check("\r\nContent-Type: text/event-stream\r\n" in client.text, client.text)
        check("\r\nCache-Control: no-store\r\n" in client.text, client.text)
        for user in range(1, 4):
            world.order(voucher, user)
            client.wait_for('data: {"stock_left":%d,' % (1000 - user))
        world.await_listeners(1)
    world.await_listeners(0)


def test_silence__does_not_end_a_stream(world):
    """nginx ends a stream if nothing arrives for some seconds longer than the heartbeat
    interval. So heartbeats must keep a stream."""
    voucher = world.voucher()
    with Client(world) as client:
        began = time.monotonic()
        client.ask(f"/v1/vouchers/{voucher}/stream")
        client.wait_for("data: ")
        harness.wait_for("two heartbeats", lambda: client.has("data: ") and client.text.count("data: ") >= 3)
        check(time.monotonic() - began >= 2 * HEARTBEAT_S - 1, client.text)
        world.order(voucher, 1)
        client.wait_for('"stock_left":999,')
    world.await_listeners(0)


def test_connection__is_kept_before_and_after_a_stream(world):
    """An instance that stops ends its streams. The connection of the shopper to nginx must stay
    open."""
    voucher = world.voucher()
    path = f"/v1/vouchers/{voucher}"
    with Client(world) as client:
        client.ask(path)
        client.wait_for('"title":"stream"')
        client.ask(f"{path}/stream")
        client.wait_for("data: ")
        world.await_listeners(1)
        for service in world.services:
            service.stop()
        client.wait_for("\r\n0\r\n\r\n") # the last chunk
        for service in world.services:
            service.start()
        client.ask(path)
        client.wait_for('"title":"stream"')
        client.ask(f"{path}/stream")
        client.wait_for("data: ")
    world.await_listeners(0)


def test_http2__streams_share_a_connection(world):
    voucher = world.voucher()
    path = f"/v1/vouchers/{voucher}/stream"
    files = [f"{PLACE}/stream{number}" for number in range(STREAMS)]
    address = f"https://127.0.0.1:{world.nginx.http2_port}{path}"
    arguments = [word for file in files for word in ("-o", file, address)]
    with open(f"{PLACE}/curl.log", "w") as log:
        curl = subprocess.Popen(["curl", "-kN", "--noproxy", "*", "--http2", "--parallel", *arguments], stderr=log)
    try:
        world.await_listeners(STREAMS)
        world.order(voucher, 1)
        harness.wait_for("each has the event", lambda: all('"stock_left":999,' in read(file) for file in files))
    finally:
        curl.kill()
        curl.wait()
    world.await_listeners(0)
    harness.wait_for("the streams are logged", lambda: sum(line[2] == path for line in world.nginx.logged()) == STREAMS)
    ends = {(protocol, connection) for protocol, connection, uri in world.nginx.logged() if uri == path}
    check(len(ends) == 1 and all(protocol == "HTTP/2.0" for protocol, _ in ends), ends)


def test_nginx_stopped__frees_the_listeners(world):
    voucher = world.voucher()
    with Client(world) as client:
        client.ask(f"/v1/vouchers/{voucher}/stream")
        client.wait_for("data: ")
        world.await_listeners(1)
        world.nginx.stop()
        world.await_listeners(0)
        world.nginx.start()


def read(path):
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return file.read()
    return ""


# -- run --

def main():
    program = os.path.abspath(sys.argv[1])
    os.chdir(ROOT)
    with contextlib.ExitStack() as stack:
        world = World(program, stack)
        results = [harness.run_test(name, test, world) for name, test in list(globals().items()) if name.startswith("test_")]
    sys.exit(0 if all(results) else 1)


main()
