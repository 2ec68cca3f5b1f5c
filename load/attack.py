#!/usr/bin/env -S python3 -B
"""attack.py PROGRAM CHECKER SECONDS [SEED] - attack a sale in several ways; what must hold is checked.

Two instances behind nginx. The parts, in order of time:

  faults     chaos.py with more clients and more faults, for most of the time; every answer is compared
             with the database
  slow       9,000 connections send a byte now and then, while shoppers order
  listeners  10,000 clients listen to the stock; some of them also send bytes
  races      200 times: two payments, a cancellation, a refund and the expiry of one order at once
  framings   requests whose end is ambiguous, each followed by a hidden request, to nginx and to an instance

All parts run, even if one fails. SEED decides what is random in each part; 0: a random seed.
Exit code 0: everything held. The logs stay in var/attack."""

import concurrent.futures
import contextlib
import http.client
import os
import random
import re
import resource
import select
import socket
import statistics
import sys
import threading
import time
import traceback

import chaos
import harness
import prove
import shopping

PLACE = "var/attack"
FAULTS_SHARE, SLOW_SHARE, LISTENERS_SHARE = 0.75, 0.08, 0.08 # of SECONDS; the other parts take about a minute
SPARE_FILES = 1500
SLOW = 9000
LISTENERS = 10000
TALKS = 10 # every tenth listener sends bytes
PAUSE_S = 0.2 # between two bytes
ORDER_PAUSE_S = 0.02
RACES = 200
RACES_AT_ONCE = 40
PAY_WITHIN_S = 2
NEAR_S = 0.03 # the changes of a race are spread over this time
SILENCE_S = 1 # nginx closes a connection that sends nothing for this time


def check(condition, found):
    if not condition:
        raise harness.Failed(f"found {found}")


# -- faults --

def cancel_statement(sale):
    with chaos.backend(sale) as pidfd:
        chaos.send_signal(pidfd, signal.SIGINT)


def flush_redis(sale):
    with contextlib.suppress(harness.Failed): # Redis is still loading
        sale.servers.redis("flushall")


def lower(setting, end):
    """Turn off a setting of Postgres by a reload. Turn it on again after `end`."""
    def fault(sale):
        sale.servers.configure(setting, "off")
        try:
            time.sleep(random.uniform(0, chaos.STOP_S))
            end(sale)
        finally:
            sale.servers.configure(setting, "on")
    return fault


MORE_FAULTS = {
    "SIGINT to a process of Postgres": cancel_statement,
    "FLUSHALL": flush_redis,
    "fsync off for a while": lower("fsync", lambda _sale: None),
    "synchronous_commit off for a while": lower("synchronous_commit", lambda _sale: None),
    "the same, then kill -9 of Postgres": lower("synchronous_commit", chaos.kill_server("postgres")),
}


def attack_with_faults(program, checker, seconds):
    """More orders and fewer faults than chaos.py."""
    calls = [] # the first call is at the time of the first fault

    def is_over(_played):
        calls.append(time.monotonic())
        return calls[-1] > calls[0] + seconds

    place = f"{PLACE}/faults"
    os.makedirs(place)
    faults = chaos.Chaos(checker, place, shoppers=20_000, per_s=2000, pause_s=1, faults=chaos.FAULTS | MORE_FAULTS)
    with contextlib.ExitStack() as stack:
        faults.run(program, is_over, stack)
    answers = faults.total.answers
    return (f"{sum(faults.played.values()):,} faults, {sum(answers.values()):,} requests, "
            f"{answers['PLACED']:,} orders acknowledged")


# -- the sale of the other parts --

class Sale(prove.Sale):
    """Two instances behind nginx."""

    def __init__(self, program, stack):
        place = f"{PLACE}/sale"
        os.makedirs(place)
        prove.write_tokens(program, shopping.SHOPPERS, place)
        self.admin, *self.tokens = harness.read_tokens(f"{place}/tokens")
        super().__init__(program, harness.Servers.start(f"{place}/servers", stack), place, stack, instances=2)
        self.payment = self.service.token(1, "payment")

    def orders(self, what, condition):
        """The columns of each order."""
        return harness.rows(self.owner_url, f"select {what} from voucher_order where {condition}")

    def address(self, number):
        """Return the address of an instance: each instance in turn."""
        return "127.0.0.1", self.services[number % len(self.services)].port

    def audit(self):
        self.service.command("audit")


class TimedShoppers(shopping.Shoppers):
    """Shoppers who order through nginx."""

    def __init__(self, sale, voucher):
        self.sale, self.latencies_ms = sale, []
        super().__init__(sale.nginx, voucher, sale.tokens, ORDER_PAUSE_S)

    def ask(self, client, headers):
        began = time.monotonic()
        answer = super().ask(client, headers)
        self.latencies_ms.append((time.monotonic() - began) * 1000)
        return answer

    def check(self):
        """Check that no acknowledged order is lost, and return the statistics. To be called after stop()."""
        check(self.count() > 0, "no order")
        lost = self.lost(self.sale.owner_url)
        check(not lost, f"lost orders, of the shoppers {lost[:5]}")
        self.sale.audit()
        return (f"{self.requests:,} requests, {len(self.acknowledged):,} orders, in ms: median "
                f"{statistics.median(self.latencies_ms):.0f}, longest {max(self.latencies_ms):.0f}")


@contextlib.contextmanager
def stopped_at_end(*threads):
    try:
        yield
    finally:
        for each in threads:
            each.stop()


def possible(count):
    """How many connections of this process the limit of open files allows."""
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES)


# -- slow connections --

class SlowClients:
    """Clients that send an endless head byte by byte, and reconnect when the service cuts them off."""

    head = b"POST /v1/vouchers/1/orders HTTP/1.1\r\nHost: x\r\nX-Slow: "

    def __init__(self, sale, count):
        self.sale, self.reopened = sale, 0
        self.clients = [(socket.create_connection(sale.address(number)), 0) for number in range(count)]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(PAUSE_S):
            for number, (client, sent) in enumerate(self.clients):
                try:
                    client.send(self.head[sent:sent + 1] or b"x")
                except OSError: # the service has closed it
                    client.close()
                    client, sent = socket.create_connection(self.sale.address(number)), -1
                    self.reopened += 1
                self.clients[number] = client, sent + 1

    def are_connected(self):
        return self.thread.is_alive() and self.sale.sum("seckill_connections") > 0.9 * len(self.clients)

    def stop(self):
        self.over.set()
        self.thread.join()
        for client, _ in self.clients:
            client.close()


def attack_with_slow_connections(sale, seconds):
    voucher = sale.voucher(prove.PLENTY)
    slow = SlowClients(sale, possible(SLOW))
    with stopped_at_end(slow):
        harness.wait_for("the slow clients are connected", slow.are_connected)
        shoppers = TimedShoppers(sale, voucher)
        with stopped_at_end(shoppers):
            time.sleep(seconds)
            harness.wait_for("the slow clients are connected", slow.are_connected)
    return f"{len(slow.clients):,} connections, {slow.reopened:,} opened again; {shoppers.check()}"


# -- listeners --

class Listeners:
    """Clients of a voucher's stream. Some send bytes after their request. The service may cut these off."""

    kept = 400 # bytes, enough for the last event
    noise = (b"x", b"\0", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

    def __init__(self, sale, voucher, count):
        self.epoll, self.received = select.epoll(), {}
        self.clients = {}
        request = f"GET /v1/vouchers/{voucher}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        for number in range(count):
            client = socket.create_connection(sale.address(number))
            client.sendall(request)
            client.setblocking(False)
            self.clients[client.fileno()], self.received[client.fileno()] = client, b""
            self.epoll.register(client, select.EPOLLIN)
        self.talkers = set(list(self.clients)[::TALKS])
        self.cut_off = set()
        self.is_over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        talk_at = 0
        while not self.is_over:
            for number, _ in self.epoll.poll(PAUSE_S):
                self.read(number)
            if time.monotonic() > talk_at:
                talk_at = time.monotonic() + PAUSE_S
                for number in self.talkers - self.cut_off:
                    with contextlib.suppress(OSError): # read() finds that it was cut off
                        self.clients[number].send(random.choice(self.noise))

    def read(self, number):
        try:
            received = self.clients[number].recv(65536)
        except OSError:
            received = b""
        if received:
            self.received[number] = (self.received[number] + received)[-self.kept:]
        else:
            self.epoll.unregister(number)
            self.cut_off.add(number)

    def have(self, text):
        """Whether the last events of all listeners that send nothing contain the text."""
        check(self.thread.is_alive() and not self.cut_off - self.talkers, "a listener was cut off")
        return all(text in received for number, received in self.received.items() if number not in self.talkers)

    def stop(self):
        self.is_over = True
        self.thread.join()
        self.epoll.close()
        for client in self.clients.values():
            client.close()


def attack_with_listeners(sale, seconds):
    voucher = sale.voucher(prove.PLENTY)
    listeners = Listeners(sale, voucher, possible(LISTENERS))
    with stopped_at_end(listeners):
        harness.wait_for("each listener knows the stock", lambda: listeners.have(b'"stock_left":'))
        shoppers = TimedShoppers(sale, voucher)
        with stopped_at_end(shoppers):
            time.sleep(seconds)
        figures = shoppers.check()
        left = sale.sql(f"select stock_left from voucher where id = {voucher}")[0]
        harness.wait_for("each listener knows the last stock",
                         lambda: listeners.have(b'"stock_left":%s,' % left.encode()))
    return f"{len(listeners.clients):,} listeners, {len(listeners.cut_off):,} of them cut off; {figures}"


# -- races --

class Race:
    """Concurrent changes of one order. `at`: when they are sent, in s since 1970."""

    def __init__(self, order, shopper, at):
        self.order, self.shopper, self.at = order, shopper, at

    def run(self, sale, pool):
        def later(number, what, token, body=None):
            time.sleep(max(0, self.at + random.uniform(0, NEAR_S) - time.time()))
            return sale.services[number].call("POST", f"/v1/orders/{self.order}/{what}", token, body)[0]

        pays = [{"payment_ref": f"{name}{self.order}", "amount_cents": 900} for name in "ab"]
        self.answers = {
            "pay a": pool.submit(later, 0, "pay", sale.payment, pays[0]),
            "pay b": pool.submit(later, 1, "pay", sale.payment, pays[1]),
            "cancel": pool.submit(later, random.randrange(2), "cancel", sale.tokens[self.shopper - 1]),
            "refund": pool.submit(later, random.randrange(2), "refund", sale.payment)}

    def judge(self, status, history):
        """Check that exactly one change has won: one of the payments, the cancellation or the expiry. After a
        payment, the refund may win, too. Returns the last winner."""
        answers = {name: each.result() for name, each in self.answers.items()}
        found = f"order {self.order}: {answers}, {status}, {history}"
        check(set(answers.values()) <= {200, 409}, found)
        winners = [name for name in ("pay a", "pay b", "cancel") if answers[name] == 200]
        winners += ["expiry"] * (status == "expired")
        check(len(winners) == 1, found)
        steps = {"cancel": ["cancelled"], "expiry": ["expired"]}.get(winners[0], ["paid"])
        steps += ["refunded"] * (answers["refund"] == 200)
        check(history == steps and status == steps[-1], found)
        return "refund" if status == "refunded" else winners[0].split()[0]


def race_once(sale, pool, first):
    """Races long before the expiry, about at the expiry, and when the service looks for expired orders."""
    voucher = sale.voucher(RACES_AT_ONCE)
    status, reply = sale.service.call("PATCH", f"/v1/vouchers/{voucher}", sale.admin,
                                          {"pay_within_s": PAY_WITHIN_S})
    check(status == 200, reply)
    orders = [pool.submit(sale.services[number % 2].call, "POST", f"/v1/vouchers/{voucher}/orders",
                          sale.tokens[first + number]) for number in range(RACES_AT_ONCE)]
    check(all(each.result()[0] == 201 for each in orders), [each.result() for each in orders])
    races = []
    for row in sale.orders("id, user_id, unix_us(expires_at)", f"voucher_id = {voucher}"):
        order, shopper, expires_us = map(int, row)
        offset = random.choice((-1, -NEAR_S / 2, -NEAR_S / 2, random.uniform(0, 1)))
        races.append(Race(order, shopper, expires_us / 1e6 + offset))
        races[-1].run(sale, pool)
    for race in races:
        for answer in race.answers.values():
            answer.result()
    harness.wait_for("no order is unpaid", lambda: not sale.orders("id", f"voucher_id = {voucher} and status = 'unpaid'"))
    history = ("(select string_agg(e.to_status::text, ',' order by e.id) from order_event e "
               "where e.voucher_id = voucher_order.voucher_id and e.order_id = voucher_order.id)")
    ends = {int(order): end for order, *end in sale.orders(f"id, status, {history}", f"voucher_id = {voucher}")}
    return [race.judge(ends[race.order][0], ends[race.order][1].split(",")) for race in races]


def attack_with_races(sale):
    wins = []
    with concurrent.futures.ThreadPoolExecutor(4 * RACES_AT_ONCE) as pool:
        for first in range(0, RACES, RACES_AT_ONCE):
            wins += race_once(sale, pool, first)
    sale.audit()
    counts = {name: wins.count(name) for name in ("pay", "refund", "cancel", "expiry")}
    check(all(counts.values()), f"{counts}: something has never won")
    return f"{len(wins)} races, won by: " + ", ".join(f"{name} {count}" for name, count in counts.items())


# -- framings --

# Each text follows the request line and the headers Host and Authorization of an order. {h} is a hidden
# order of another shopper, and {n} is the length of this order.
FRAMINGS = {
    "two lengths": "Content-Length: 0\r\nContent-Length: {n}\r\n\r\n{h}",
    "two lengths, the first longer": "Content-Length: {n}\r\nContent-Length: 0\r\n\r\n{h}",
    "two equal lengths": "Content-Length: 0\r\ncontent-length: 0\r\n\r\n{h}",
    "lengths in a list": "Content-Length: 0, {n}\r\n\r\n{h}",
    "equal lengths in a list": "Content-Length: {n}, {n}\r\n\r\n{h}",
    "a signed length": "Content-Length: +{n}\r\n\r\n{h}",
    "a negative length": "Content-Length: -1\r\n\r\n{h}",
    "a hexadecimal length": "Content-Length: 0x{n}\r\n\r\n{h}",
    "a fraction as length": "Content-Length: {n}.0\r\n\r\n{h}",
    "a length with a space inside": "Content-Length: 0 {n}\r\n\r\n{h}",
    "an empty length": "Content-Length: \r\n\r\n{h}",
    "a quoted length": 'Content-Length: "{n}"\r\n\r\n{h}',
    "a length above 2^64": "Content-Length: 18446744073709551616\r\n\r\n{h}",
    "a NUL in the length": "Content-Length: 0\0{n}\r\n\r\n{h}",
    "a NUL behind the length": "Content-Length: {n}\0\r\n\r\n{h}",
    "a space before the colon": "Content-Length : {n}\r\n\r\n{h}",
    "a tab before the colon": "Content-Length\t: {n}\r\n\r\n{h}",
    "a control byte in the name": "Content-Length\x0b: {n}\r\n\r\n{h}",
    "a folded length": "Content-Length:\r\n {n}\r\n\r\n{h}",
    "a length and chunks": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{h}",
    "chunks and a length": "Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n\r\n0\r\n\r\n{h}",
    "an unknown coding": "Transfer-Encoding: gzip\r\n\r\n{h}",
    "the identity coding": "Transfer-Encoding: identity\r\nContent-Length: {n}\r\n\r\n{h}",
    "two codings in a list": "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{h}",
    "chunked twice in a list": "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n{h}",
    "two codings": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{h}",
    "almost chunked": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{h}",
    "chunked with a parameter": "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n{h}",
    "chunked in quotes": 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n{h}',
    "chunked behind a control byte": "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{h}",
    "chunked before a NUL": "Transfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n{h}",
    "a space behind Transfer-Encoding": "Transfer-Encoding : chunked\r\nContent-Length: {n}\r\n\r\n{h}",
    "a folded coding": "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{h}",
    "bare LF in chunk lines": "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n{h}",
    "a chunk size with 0x": "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{h}",
    "a negative chunk size": "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n{h}",
    "a chunk size above 2^64": "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n{h}",
    "no CRLF behind a chunk": "Transfer-Encoding: chunked\r\n\r\n3\r\nabc0\r\n\r\n{h}",
    "a chunk extension with LF": "Transfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n{h}",
    "two hosts": "Host: y\r\nContent-Length: {n}\r\n\r\n{h}",
    "a bare LF behind a header": "X: y\nContent-Length: {n}\r\n\r\n{h}",
    "a bare LF at the end": "Content-Length: 0\r\n\n{h}",
    "a bare CR in a value": "X: y\rContent-Length: {n}\r\n\r\n{h}",
    "a bare CR at the end": "Content-Length: 0\r\n\r{h}",
    "a folded value": "X: y\r\n Content-Length: {n}\r\n\r\n{h}",
    "a NUL in a value": "X: a\0b\r\nContent-Length: {n}\r\n\r\n{h}",
    "a header without a colon": "Content-Length {n}\r\n\r\n{h}",
    "a header without a name": ": {n}\r\n\r\n{h}",
}
HIDDEN = "X-Hidden: 1\r\n"
# If a hidden order is placed, it was smuggled past nginx. nginx has one connection to one instance, so the
# next client would get the surplus answer.
UPSTREAM = ("upstream seckill {{ server 127.0.0.1:{port} max_fails=0; keepalive 1; }} "
            "client_header_timeout {silence}s; client_body_timeout {silence}s;")
LOCATION = """keepalive_timeout {silence}s;
            if ($http_x_hidden) {{ return 403; }}
            proxy_pass http://seckill;
            proxy_http_version 1.1;
            proxy_set_header Connection "";"""


def order_head(sale, voucher, shopper, more=""):
    return (f"POST /v1/vouchers/{voucher}/orders HTTP/1.1\r\nHost: x\r\n{more}"
            f"Authorization: Bearer {sale.tokens[shopper - 1]}\r\n")


def read_statuses(received):
    """The answers as a client reads them: it ignores what follows an answer that closes the connection.
    (libmicrohttpd 0.9.75 sends the head of its answer to a bad length twice.)"""
    statuses = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        statuses.append(int(head.split()[1]))
        length = re.search(rb"\ncontent-length: *(\d+)", head.lower())
        received = b"" if b"\nconnection: close" in head.lower() else received[int(length[1]):]
    return statuses


def send_to_end(port, text):
    """Send the text to a port. Returns the statuses of the answers until the connection is closed."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), harness.ANSWER_WITHIN_S) as client:
        client.sendall(text.encode())
        with contextlib.suppress(ConnectionResetError): # the server has not read everything
            while more := client.recv(65536):
                received += more
    return read_statuses(received)


def frame(sale, voucher, shopper, framing):
    """An order of a shopper, in which an order of the next shopper is hidden."""
    hidden = order_head(sale, voucher, shopper + 1, HIDDEN) + "Content-Length: 0\r\n\r\n"
    return order_head(sale, voucher, shopper) + framing.format(n=len(hidden), h=hidden)


def check_next_answer(nginx, number):
    client = http.client.HTTPConnection(nginx.host, nginx.port, timeout=harness.ANSWER_WITHIN_S)
    client.request("GET", "/healthz", headers={"X-Request-Id": f"next{number}"})
    reply = client.getresponse()
    client.close()
    found = reply.status, reply.getheader("X-Request-Id")
    check(found == (200, f"next{number}"), f"{found} as the next answer")


def attack_with_framings(sale):
    voucher = sale.voucher(prove.PLENTY)
    port = sale.service.port
    place = f"{sale.place}/framings"
    os.makedirs(place)
    nginx = harness.Nginx(place, 1, LOCATION.format(silence=SILENCE_S), UPSTREAM.format(port=port, silence=SILENCE_S))
    nginx.start()
    try:
        for number, (name, framing) in enumerate(FRAMINGS.items()):
            direct, behind = 1 + 4 * number, 3 + 4 * number # the first of two shoppers each
            statuses = send_to_end(port, frame(sale, voucher, direct, framing))
            check(len(statuses) == 1 and 400 <= statuses[0] < 500, f"{statuses} for {name}")
            statuses = send_to_end(nginx.port, frame(sale, voucher, behind, framing))
            placed = sale.orders("user_id", f"voucher_id = {voucher} and user_id in "
                                 f"({direct}, {direct + 1}, {behind}, {behind + 1})")
            found = f"{statuses} and the orders of {placed} for {name} through nginx"
            check(statuses in ([201], [201, 403], [400], [501]), found)
            check(placed == [[str(behind)]] * (statuses[0] == 201), found)
            check_next_answer(nginx, number)
    finally:
        nginx.stop()
    sale.audit()
    return f"{len(FRAMINGS)} framings, to an instance and to nginx: nothing smuggled"


# -- all parts --

LINE = "{:<10} {:>5} {:>6}  {}"


def run_part(name, seed, attack):
    """Returns the line of the table, and whether the part held."""
    print(f"{name} ...", flush=True)
    random.seed(f"{seed} {name}")
    began, result = time.monotonic(), "FAILED"
    try:
        figures, result = attack(), "ok"
    except harness.Failed as failure:
        figures = str(failure)
    except Exception as error: # the other parts still run
        traceback.print_exc()
        figures = f"{type(error).__name__}: {error}"
    return LINE.format(name, f"{time.monotonic() - began:.0f}", result, figures), result == "ok"


def run_all(program, checker, seconds, seed):
    results = [run_part("faults", seed, lambda: attack_with_faults(program, checker, FAULTS_SHARE * seconds))]
    with contextlib.ExitStack() as stack:
        sale = Sale(program, stack)
        for name, attack in (("slow", lambda: attack_with_slow_connections(sale, SLOW_SHARE * seconds)),
                             ("listeners", lambda: attack_with_listeners(sale, LISTENERS_SHARE * seconds)),
                             ("races", lambda: attack_with_races(sale)),
                             ("framings", lambda: attack_with_framings(sale))):
            results.append(run_part(name, seed, attack))
    return results


def run(_stack):
    program, checker = map(os.path.abspath, sys.argv[1:3])
    seconds, seed = int(sys.argv[3]), chaos.seed_of(sys.argv[4:])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    began = time.monotonic()
    print(f"seed {seed}", flush=True)
    results = run_all(program, checker, seconds, seed)
    print("\n".join(["", LINE.format("part", "s", "result", "what"), *(line for line, _ in results)]))
    if not all(held for _, held in results):
        raise harness.Failed(f"seed {seed}: see above; the logs are in {PLACE}")
    print(f"everything held, {time.monotonic() - began:.0f} s")


harness.main("attack", PLACE, run)
