#!/usr/bin/python3 -B
"""balancers.py PROGRAM - the streams of vouchers through docker/nginx.conf, by a real nginx.

The test has its own servers, two instances, and nginx with the configuration of the demo, except
for addresses and paths. A second port of nginx speaks HTTP/2 over TLS, as browsers do. Prints a
line for each test, which .ci/check.sh counts."""

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

import harness # noqa: E402

PLACE = "var/it/balancers"
HEARTBEAT_S = 15 # of api_stream.c
SILENCE_S = HEARTBEAT_S + 12 # less than two intervals
STREAMS = 5


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
        servers = harness.Servers(f"{PLACE}/servers")
        stack.callback(servers.down)
        servers.up()
        secret = harness.new_secret()
        self.services = [harness.Service(program, harness.free_port(), {
            "SECKILL_DATABASE_URL": servers.env["SECKILL_DATABASE_URL"], "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"],
            "SECKILL_WORKERS": "2", "SECKILL_JWT_SECRET": secret, "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
            "SECKILL_ORDER_TIMEOUT_MS": "60000"},
            f"{PLACE}/seckill{number}.log") for number in range(2)]
        self.services[0].migrate(servers.env["PG_OWNER_URL"])
        for service in self.services:
            stack.callback(service.stop)
            service.start()
        self.nginx = Nginx([service.port for service in self.services], SILENCE_S)
        self.nginx.start()
        stack.callback(self.nginx.stop)

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


# -- tests --

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
