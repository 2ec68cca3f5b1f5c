#!/usr/bin/env -S python3 -B
"""quick_proof.py PROGRAM - run a sale for some seconds, then compare all answers with the database.

4,000 shoppers order several times from two processes at once, some of them with a repeated key.
There are two vouchers, with a limit of one and of three pieces. Afterwards: the acknowledged
orders are exactly the rows, the stock is sold out, no shopper is above the limit, no answer was a
5xx, and `seckill audit` passes.

By default it starts private servers and a service. With PROOF_AT=HOST:PORT it uses the service
there; SECKILL_DATABASE_URL and SECKILL_JWT_SECRET must be those of that service."""

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


def send_orders(address, vouchers, tokens, seed, results):
    """Each shopper orders ROUNDS times, in random order. A request is written to each connection
    before the first answer is read. The answers are put into `results`."""
    random.seed(seed)
    requests = [(user, voucher) for user in range(len(tokens)) for voucher in vouchers] * ROUNDS
    random.shuffle(requests)
    clients = [http.client.HTTPConnection(*address, timeout=30) for _ in range(CONNECTIONS)]
    answers = []
    for first in range(0, len(requests), CONNECTIONS):
        turn = list(zip(clients, requests[first:first + CONNECTIONS]))
        for client, (user, voucher) in turn:
            client.request("POST", f"/v1/vouchers/{voucher}/orders", headers=headers(user, tokens))
        for client, (user, voucher) in turn:
            reply = client.getresponse()
            answers.append((user + 1, voucher, reply.status, json.loads(reply.read())))
    for client in clients:
        client.close()
    results.put(answers)


def headers(user, tokens):
    """Every third shopper uses one key for all requests."""
    head = {"Authorization": f"Bearer {tokens[user]}", "Content-Length": "0"}
    if user % 3 == 0:
        head["Idempotency-Key"] = f"proof-{user}"
    return head


def run_load(service, vouchers):
    service.write_tokens(SHOPPERS, f"{PLACE}/tokens")
    with open(f"{PLACE}/tokens") as lines:
        tokens = lines.read().split()
    results = multiprocessing.Queue()
    address = service.host, service.port
    processes = [multiprocessing.Process(target=send_orders, args=(address, vouchers, tokens, seed, results))
                 for seed in range(PROCESSES)]
    for each in processes:
        each.start()
    answers = [answer for _ in processes for answer in results.get()]
    for each in processes:
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
        check(f"acknowledged orders of voucher {voucher}", len(mine), STOCK)
        per_shopper = collections.Counter(user for _, user in mine)
        check(f"shoppers above the limit of voucher {voucher}",
              [user for user, count in per_shopper.items() if count > limit], [])
        rows = harness.run("psql", "-XAtqc", "select id, user_id from voucher_order where voucher_id = "
                         f"{voucher} order by 1", url).split()
        check(f"rows of voucher {voucher}", rows,
              [f"{order}|{user}" for order, user in sorted((int(order), user) for order, user in mine)])
        check("stock left", harness.sql(url, f"select stock_left from voucher where id = {voucher}"), ["0"])
    repeated = [(reply["id"], user, voucher) for user, voucher, status, reply in answers if status == 200]
    check("repeated keys with another order", set(repeated) - set(placed), set())
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
    """`stack` stops what was started, in reverse order."""
    os.makedirs(PLACE)
    stack.callback(shutil.rmtree, PLACE)
    host, _, port = os.environ.get("PROOF_AT", "").rpartition(":")
    service = harness.Service(sys.argv[1], int(port), {}, None, host) if host else start_service(stack)
    vouchers = {service.create_voucher(f"{limit} each", STOCK, limit=limit): limit for limit in (1, 3)}
    answers = run_load(service, list(vouchers))
    statuses = prove(service, service.env["SECKILL_DATABASE_URL"], vouchers, answers)
    print(f"{STOCK * len(vouchers)} sold; answers by status: {dict(statuses)}")


signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
try:
    with contextlib.ExitStack() as whole:
        main(whole)
except harness.Failed as failed:
    sys.exit(f"proof: {failed}")
