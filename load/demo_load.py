#!/usr/bin/env -S python3 -B
"""demo_load.py prove | order | fault NAME | await | settle | primary | redis | report - the load of the demos in
containers, through nginx at ORDER_AT=HOST:PORT.

`make demo`:
  prove        4,000 shoppers order two vouchers three times, from two processes at once, a third of them under
               one key. Then the acknowledged orders are exactly the rows, the stock is sold out, no shopper is
               above the limit, a key names one order, no outcome is unknown, and `seckill audit` passes
`make demo-ha`:
  order        order through nginx until `report`; then print for each fault what shoppers saw, and
               compare all acknowledged orders with the database
  fault NAME   a fault is about to happen
  await        wait until orders are acknowledged again
  settle       wait until each server is in its place
  primary      print the name of the primary of Postgres; `redis`: that of Redis
  report       end `order`"""

import collections
import http.client
import json
import multiprocessing
import os
import random
import re
import socket
import ssl
import sys
import time

import harness
import shopping

SERVICE = "/usr/bin/seckill"
PLACE = "/tmp"
FAULTS, END, COUNT = f"{PLACE}/faults", f"{PLACE}/end", f"{PLACE}/count"
PAUSE_S = 0.02
ORDERS_AFTER = 50 # acknowledged after a fault
DATABASES, REDIS, SENTINELS, INSTANCES = (
    [f"{name}{number}" for number in range(1, count + 1)]
    for name, count in (("db", 2), ("redis", 2), ("sentinel", 3), ("app", 2)))
PROOF_SHOPPERS, PROOF_STOCK, PROCESSES, CONNECTIONS, ROUNDS = 4000, 500, 2, 64, 3
REFUSED_S = 60
LINE = "{:<34} {:>14} {:>9} {:>7} {:>10} {:>6}"


# -- the servers --

def info(host, port, section):
    """A section of INFO of a Redis server; "" if it does not answer."""
    login = f"AUTH {os.environ['REDIS_PASSWORD' if port == 6379 else 'SENTINEL_PASSWORD']}\r\n"
    try:
        with socket.create_connection((host, port), timeout=2) as stream:
            stream.sendall(f"{login}INFO {section}\r\n".encode())
            stream.shutdown(socket.SHUT_WR)
            with stream.makefile() as lines:
                return lines.read()
    except OSError:
        return ""


def is_member(name, role):
    """Whether Patroni says that the member has this role."""
    client = http.client.HTTPSConnection(name, 8008, timeout=2, context=ssl.create_default_context(cafile="/tls/cert.pem"))
    try:
        client.request("GET", f"/{role}")
        return client.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def primary_of_postgres():
    found = [name for name in DATABASES if is_member(name, "primary")]
    return found[0] if len(found) == 1 else None


def primary_of_redis():
    """The Redis server that has a replica."""
    found = [name for name in REDIS if "state=online" in info(name, 6379, "replication")]
    return found[0] if len(found) == 1 else None


def is_settled():
    roles = sorted(re.findall("role:([a-z]*)", "".join(info(name, 6379, "replication") for name in REDIS)))
    seen = {re.sub(".*(status=.*)", r"\1", info(name, 26379, "sentinel"), flags=re.S) for name in SENTINELS}
    return (primary_of_postgres() is not None
            and any(is_member(name, "synchronous") for name in DATABASES)
            and primary_of_redis() is not None and roles == ["master", "slave"]
            and len(seen) == 1 and "status=ok" in seen.pop()
            and all(harness.http_status(name, 8080, "/readyz", 2) == 200 for name in INSTANCES))


# -- orders --

def print_report(visitors, faults):
    """Print the report. Returns whether an order was lost."""
    lost = visitors.lost(os.environ["SECKILL_DATABASE_URL"] + "?target_session_attrs=read-write")
    print(LINE.format("fault", "longest pause", "refused", "broken", "orders", "lost"))
    for (name, begin), (_, end) in zip(faults, faults[1:] + [("", time.monotonic())]):
        times = sorted(at for _, at in visitors.acknowledged.values() if begin <= at < end)
        pause_s = max(later - at for at, later in zip([begin] + times, times))
        codes = [code for at, code in visitors.troubles if begin <= at < end]
        mine = [shopper for shopper in lost if begin <= visitors.acknowledged[shopper][1] < end]
        print(LINE.format(name, f"{pause_s:.2f} s", len(codes) - codes.count("none"), codes.count("none"),
                          len(times), len(mine)))
    print(f"{len(visitors.acknowledged)} orders acknowledged, {len(lost)} lost")
    return bool(lost)


def shop(shoppers):
    """The service, and the tokens of the shoppers."""
    host, _, port = os.environ["ORDER_AT"].rpartition(":")
    service = harness.Service(SERVICE, int(port), {}, None, host)
    service.write_tokens(shoppers, f"{PLACE}/tokens")
    return service, harness.read_tokens(f"{PLACE}/tokens")


def order():
    service, tokens = shop(shopping.SHOPPERS)
    visitors = shopping.Visitors(service, service.create_voucher("ha", 1_000_000), tokens, PAUSE_S)
    try:
        while not os.path.exists(END):
            with open(COUNT + ".new", "w") as out:
                out.write(str(visitors.count()))
            os.replace(COUNT + ".new", COUNT)
            time.sleep(0.05)
    finally:
        visitors.stop()
    with open(FAULTS) as lines:
        faults = [(name, float(at)) for at, name in (line.strip().split(" ", 1) for line in lines)]
    is_lost = print_report(visitors, faults)
    print(service.command("audit").strip())
    return int(is_lost)


def count():
    with open(COUNT) as text:
        return int(text.read())


def await_orders():
    harness.wait_for("orders are acknowledged", lambda: os.path.exists(COUNT))
    wanted = count() + ORDERS_AFTER
    harness.wait_for("orders are acknowledged again", lambda: count() >= wanted)


def mark_fault(name):
    with open(FAULTS, "a") as out:
        out.write(f"{time.monotonic()} {name}\n")


# -- the proof of `make demo` --

def is_refused(status, body):
    """Whether the answer says that nothing was changed and the shopper may try again: the machine is busy."""
    return status == 503 and body["code"] in ("overloaded", "unavailable")


def send_orders(address, vouchers, tokens, seed):
    """Each shopper orders ROUNDS times, in random order. A request is written to each connection before the
    first answer is read. A refused request is sent again for REFUSED_S. Returns the shopper, voucher, status
    and body of each answer."""
    random.seed(seed)
    requests = [(user, voucher) for user in range(len(tokens)) for voucher in vouchers] * ROUNDS
    random.shuffle(requests)
    clients = [http.client.HTTPConnection(*address, timeout=30) for _ in range(CONNECTIONS)]
    answers, end_s = [], time.monotonic() + REFUSED_S
    while requests:
        turn = list(zip(clients, requests))
        requests = requests[len(turn):]
        for client, (user, voucher) in turn:
            headers = {"Authorization": f"Bearer {tokens[user]}", "Content-Length": "0"}
            headers |= {"Idempotency-Key": f"proof-{user}"} if user % 3 == 0 else {}
            client.request("POST", f"/v1/vouchers/{voucher}/orders", headers=headers)
        for client, (user, voucher) in turn:
            reply = client.getresponse()
            body = json.loads(reply.read())
            if is_refused(reply.status, body) and time.monotonic() < end_s:
                requests.append((user, voucher))
            else:
                answers.append((user + 1, voucher, reply.status, body))
    return answers


def prove():
    service, tokens = shop(PROOF_SHOPPERS)
    limits = {service.create_voucher(f"{limit} each", PROOF_STOCK, limit=limit): limit for limit in (1, 3)}
    address = service.host, service.port
    with multiprocessing.Pool(PROCESSES) as pool:
        answers = sum(pool.starmap(send_orders, [(address, list(limits), tokens, seed) for seed in range(PROCESSES)]), [])
    statuses = collections.Counter(status for _, _, status, _ in answers)
    harness.expect("answers other than 200, 201, 409", sorted(set(statuses) - {200, 201, 409}), [])
    placed = [(int(reply["id"]), user, voucher) for user, voucher, status, reply in answers if status == 201]
    for voucher, limit in limits.items():
        mine = sorted((order, user) for order, user, of in placed if of == voucher)
        harness.expect(f"acknowledged orders of voucher {voucher}", len(mine), PROOF_STOCK)
        harness.expect(f"shoppers above the limit of voucher {voucher}", [
            user for user, count in collections.Counter(user for _, user in mine).items() if count > limit], [])
        rows = harness.rows(os.environ["SECKILL_DATABASE_URL"],
                            f"select id, user_id from voucher_order where voucher_id = {voucher} order by 1")
        harness.expect(f"rows of voucher {voucher}", [tuple(map(int, row)) for row in rows], mine)
        left = harness.sql(os.environ["SECKILL_DATABASE_URL"], f"select stock_left from voucher where id = {voucher}")
        harness.expect("stock left", left, ["0"])
    repeated = {(int(reply["id"]), user, voucher) for user, voucher, status, reply in answers if status == 200}
    harness.expect("repeated keys with another order", repeated - set(placed), set())
    service.command("audit")
    print(f"{PROOF_STOCK * len(limits)} sold; answers by status: {dict(statuses)}")
    return 0


def main(verb, *arguments):
    if verb in ("order", "prove"):
        return order() if verb == "order" else prove()
    if verb == "fault":
        mark_fault(*arguments)
    elif verb == "await":
        await_orders()
    elif verb == "settle":
        harness.wait_for("each server is in its place", is_settled)
    elif verb in ("primary", "redis"):
        print(primary_of_postgres() if verb == "primary" else primary_of_redis())
    elif verb == "report":
        open(END, "w").close()
    return 0


try:
    sys.exit(main(*sys.argv[1:]))
except harness.Failed as failed:
    sys.exit(f"demo_load.py: {failed}")
