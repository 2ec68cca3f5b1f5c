#!/usr/bin/env -S python3 -B
"""quick_proof.py PROGRAM - some seconds of a sale that is stormed, and an exact count afterwards.

Some thousand shoppers, each of whom asks several times, at once from two processes, some
with a key that repeats, run for a few hundred vouchers of two kinds: one piece per shopper,
and three. Then: what was acknowledged is what is in the table, order by order; the stock is
sold to the last piece; nobody has more than allowed; no answer was a 5xx; `seckill audit`
finds nothing.

It starts all it needs; or, with PROOF_AT=HOST:PORT, it asks there, and
SECKILL_DATABASE_URL and SECKILL_JWT_SECRET are those of that service."""

import collections
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys

import harness

PLACE = f"var/quick_proof.{os.getpid()}"
SHOPPERS = 4000
STOCK = 500
PROCESSES = 2
CONNECTIONS = 64
ROUNDS = 3


def storm(address, vouchers, tokens, seed, results):
    """Every shopper asks ROUNDS times, in random order, many at once: a request is written
    to each connection before the first answer is read. What was answered goes to results."""
    random.seed(seed)
    asks = [(user, voucher) for user in range(len(tokens)) for voucher in vouchers] * ROUNDS
    random.shuffle(asks)
    clients = [http.client.HTTPConnection(*address, timeout=30) for _ in range(CONNECTIONS)]
    answers = []
    for first in range(0, len(asks), CONNECTIONS):
        turn = list(zip(clients, asks[first:first + CONNECTIONS]))
        for client, (user, voucher) in turn:
            client.request("POST", f"/v1/vouchers/{voucher}/orders", headers=headers(user, tokens))
        for client, (user, voucher) in turn:
            reply = client.getresponse()
            answers.append((user + 1, voucher, reply.status, json.loads(reply.read())))
    for client in clients:
        client.close()
    results.put(answers)


def headers(user, tokens):
    """Every third shopper says that all of the requests are the same one."""
    head = {"Authorization": f"Bearer {tokens[user]}", "Content-Length": "0"}
    if user % 3 == 0:
        head["Idempotency-Key"] = f"proof-{user}"
    return head


def run_storm(service, vouchers):
    service.write_tokens(SHOPPERS, f"{PLACE}/tokens")
    with open(f"{PLACE}/tokens") as lines:
        tokens = lines.read().split()
    results = multiprocessing.Queue()
    storms = [multiprocessing.Process(target=storm, args=((service.host, service.port), vouchers, tokens, seed, results))
              for seed in range(PROCESSES)]
    for each in storms:
        each.start()
    answers = [answer for _ in storms for answer in results.get()]
    for each in storms:
        each.join()
    return answers


def check(what, found, expected):
    if found != expected:
        raise harness.Failed(f"{what}: {found}, expected {expected}")


def prove(service, url, vouchers, answers):
    placed = [(reply["id"], user, voucher) for user, voucher, status, reply in answers if status == 201]
    statuses = collections.Counter(status for _, _, status, _ in answers)
    check("answers other than 200, 201, 409", sorted(set(statuses) - {200, 201, 409}), [])
    for voucher, limit in vouchers.items():
        mine = [(order, user) for order, user, of in placed if of == voucher]
        check(f"orders of voucher {voucher} acknowledged", len(mine), STOCK)
        per_shopper = collections.Counter(user for _, user in mine)
        check("a shopper above the limit", max(per_shopper.values()) <= limit, True)
        rows = harness.run("psql", "-XAtqc", "select id, user_id from voucher_order where voucher_id = "
                         f"{voucher} order by 1", url).split()
        check(f"rows of voucher {voucher}", rows,
              [f"{order}|{user}" for order, user in sorted((int(order), user) for order, user in mine)])
        check("stock left", harness.sql(url, f"select stock_left from voucher where id = {voucher}"), ["0"])
    repeated = [(reply["id"], user, voucher) for user, voucher, status, reply in answers if status == 200]
    check("a key repeated that gave another order", set(repeated) - set(placed), set())
    service.command("audit")
    return statuses


def start_service(stack):
    servers = harness.Servers(PLACE)
    stack.callback(servers.down)
    servers.up()
    service = harness.Service(os.path.abspath(sys.argv[1]), harness.free_port(), {
        "SECKILL_DATABASE_URL": servers.env["SECKILL_DATABASE_URL"],
        "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"],
        "SECKILL_JWT_SECRET": harness.new_secret(), "SECKILL_WORKERS": "2",
        "SECKILL_RATE_PER_USER": "0"}, f"{PLACE}/seckill.log")
    service.migrate(servers.env["PG_OWNER_URL"])
    stack.callback(service.stop)
    service.start()
    return service


def main(stack):
    """`stack` ends what was started, the last first."""
    os.makedirs(PLACE)
    stack.callback(shutil.rmtree, PLACE)
    host, _, port = os.environ.get("PROOF_AT", "").rpartition(":")
    service = harness.Service(sys.argv[1], int(port), {}, None, host) if host else start_service(stack)
    vouchers = {service.create_voucher(f"{limit} each", STOCK, limit=limit): limit for limit in (1, 3)}
    answers = run_storm(service, list(vouchers))
    statuses = prove(service, service.env["SECKILL_DATABASE_URL"], vouchers, answers)
    print(f"{STOCK * len(vouchers)} sold; answers by status: {dict(statuses)}")


signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
try:
    with contextlib.ExitStack() as whole:
        main(whole)
except harness.Failed as failed:
    sys.exit(f"proof: {failed}")
