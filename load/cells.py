#!/usr/bin/env -S python3 -B
"""cells.py PROGRAM - two cells and an aggregate: each voucher has one of two Postgres servers.

Private servers: two cells, each with a Postgres, a Redis and an instance of the service, and a Postgres to
which both cells replicate, for the lists. nginx sends each path to its cell. Shoppers order without a pause
in both cells, while Postgres and Redis of the first cell are killed. Then no acknowledged order may be lost,
the other cell must have gone on, the aggregate must have all orders, and `seckill audit` must pass
everywhere. Before this, each balancer whose rules app/docs/scaling.md shows must find the cells: nginx,
HAProxy, and Envoy if it is in var/envoy. At the end both cells are split while they sell. During the first
split the command, both Postgres servers and the instance are killed. A lottery in the half that moves must
lose no entry, and only the new cell must draw it. Exit code 0: all of this holds. The logs stay in var/cells."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time

import balancers
import harness
import shopping

PLACE = "var/cells"
CELLS = 2
ORDERS = 300 # acknowledged in each cell before, during and after the failure
PAUSE_S = 0.05 # pause of a shopper between two orders
OLD_S = 7 # a copy that looks older is not up to date
TOLERANCE = 10 # the rate may fall by this factor, because the machine may be busy; the goal is 0.95
STOCK = 100 # of a lottery
MOVE_S = 2 * TOLERANCE # a split may stop the orders of the half that moves for this time; the goal is 2 s

FOR_ANY = 100 # requests that any cell can answer; each cell must get some


# -- servers --

def start_servers(name, stack):
    servers = harness.Servers.start(f"{PLACE}/{name}", stack)
    servers.configure("wal_level", "logical")
    servers.restart("postgres")
    return servers


def env_of(database_url):
    return dict(os.environ, SECKILL_DATABASE_URL=database_url)


def migrate(program, database_url, *arguments):
    harness.run(program, "migrate", "--service-role", "seckill_service", *arguments, env=env_of(database_url))


def must_refuse(program, database_url, words, *arguments):
    said = harness.must_fail(program, "migrate", "--service-role", "seckill_service", *arguments, env=env_of(database_url))
    if words not in said:
        raise harness.Failed(f"migrate {arguments[:1]} was not refused with \"{words}\": {said}")
    print("refused:", said.strip().split("\n")[0][:150])


def start_service(program, servers, lists_url, name, stack):
    service = harness.instance(program, f"{PLACE}/{name}.log", servers.url("service"), servers.env["SECKILL_REDIS_URL"],
                               SECKILL_LISTS_DATABASE_URL=lists_url)
    stack.callback(service.stop)
    service.start()
    return service


def audit(program, database_url):
    harness.run(program, "audit", env=env_of(database_url))


# -- balancers, with the rules of app/docs/scaling.md --

def rules(language, words, ports):
    return balancers.rules(language, words, {f"app{number}": port for number, port in enumerate(ports)})


def make_nginx(ports):
    block = rules("nginx", "split_clients $request_id $any_cell", ports)
    upstream, location = re.fullmatch(r"(.*)server \{\n    location / \{(.*?)\}\n\}\n", block, re.S).groups()
    os.makedirs(f"{PLACE}/nginx", exist_ok=True)
    return harness.Nginx(f"{PLACE}/nginx", 1, location + "proxy_http_version 1.1; proxy_read_timeout 30s;", upstream)


def make_haproxy(ports):
    return balancers.make_haproxy(PLACE, rules("haproxy", "mod(2)", ports) + "".join(
        f"backend cell{number}\n    server app{number} 127.0.0.1:{port}\n" for number, port in enumerate(ports)))


def make_envoy(ports):
    return balancers.make_envoy(PLACE, rules("yaml", "weighted_clusters", ports), "clusters:\n" + "".join(
        f"""- name: cell{number}
  connect_timeout: 5s
  load_assignment:
    cluster_name: cell{number}
    endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]
""" for number, port in enumerate(ports)))


def check_balancer(name, balancer, services, vouchers):
    """Each request reaches the cell of its voucher or order; requests for any cell reach both cells."""
    through = harness.Service(services[0].program, balancer.port, {"SECKILL_JWT_SECRET": harness.SECRET}, "")
    admin = through.token(1, "admin")
    for voucher in vouchers:
        shopper = through.token(1000 + balancer.port)
        status, order = through.call("POST", f"/v1/vouchers/{voucher}/orders", shopper)
        harness.expect(f"{name}: an order of {voucher}", (status, order.get("voucher_id")), (201, voucher))
        for method, path, token in (("GET", f"/v1/vouchers/{voucher}", None), ("GET", f"/v1/vouchers/{voucher}/events?limit=1", admin),
                                    ("GET", f"/v1/vouchers/{voucher}/events", admin), ("GET", f"/v1/orders/{order['id']}", shopper),
                                    ("GET", f"/v1/orders/{order['id']}/events", shopper),
                                    ("POST", f"/v1/orders/{order['id']}/cancel", shopper)):
            harness.expect(f"{name}: {method} {path}", through.call(method, path, token)[0], 200)
    for path in ("/", "/v1/vouchers", "/healthz"):
        harness.expect(f"{name}: GET {path}", through.call("GET", path)[0], 200)
    before = [asked(service) for service in services]
    for _ in range(FOR_ANY):
        harness.expect(f"{name}: GET /openapi.yaml", through.call("GET", "/openapi.yaml")[0], 200)
    counts = [asked(service) - count for service, count in zip(services, before)]
    if 0 in counts or sum(counts) != FOR_ANY:
        raise harness.Failed(f"{name}: of {FOR_ANY} requests for any cell the cells got {counts}")


def asked(service):
    return sum(value for labels, value in service.metrics("seckill_http_requests_total") if "openapi" in labels)


def check_balancers(services, vouchers):
    ports = [service.port for service in services]
    makers = {"nginx": make_nginx, "HAProxy": make_haproxy}
    if os.path.exists(balancers.ENVOY):
        makers["Envoy"] = make_envoy
    for name, make in makers.items():
        balancer = make(ports)
        balancer.start()
        try:
            check_balancer(name, balancer, services, vouchers)
        finally:
            balancer.stop()
    print(f"the rules find the cell: {', '.join(makers)}")


# -- checks --

def check_numbers(program, cells, aggregate):
    """Bad cell numbers and unusable databases are refused."""
    empty = cells[0].url("owner")
    must_refuse(program, "postgresql://nowhere.invalid/seckill", "check the database URL: could not translate host name")
    for number in ("2/2", "0/3", "0/2048", "0/0", "1", "a/b", "-1/2", "1/2/4"):
        must_refuse(program, empty, f"there is no cell {number}:", "--cell", number)
    for number, cell in enumerate(cells):
        migrate(program, cell.url("owner"), "--cell", f"{number}/{CELLS}")
        migrate(program, cell.url("owner"))
        migrate(program, aggregate.url("superuser"), "--aggregate", cell.url("superuser"))
    migrate(program, aggregate.url("superuser"), "--aggregate", cells[0].url("superuser")) # again
    must_refuse(program, aggregate.url("superuser"), "an aggregate of cells", "--cell", "0/2")
    must_refuse(program, cells[1].url("superuser"), "an aggregate of cells", "--aggregate",
                aggregate.url("superuser"))


def check_foreign(services, vouchers):
    """Every kind of request for a voucher or order of another cell is refused."""
    for service, foreign in zip(services, reversed(vouchers)):
        shopper, admin = service.token(1), service.token(1, "admin")
        for method, path, token in (("POST", f"/v1/vouchers/{foreign}/orders", shopper), ("GET", f"/v1/vouchers/{foreign}", None),
                                    ("GET", f"/v1/orders/{int(foreign) + (1 << 20)}", shopper),
                                    ("GET", f"/v1/vouchers/{foreign}/events", admin)):
            status, body = service.call(method, path, token)
            harness.expect(f"{method} {path}", (status, body["code"]), (421, "misdirected"))
    print("a voucher of the other cell is 421 misdirected")


# -- splits --

class Patient(shopping.Shoppers):
    """Shoppers behind a balancer, which answers 502 while an instance is dead."""

    def ask(self, client, headers):
        client.request("POST", f"/v1/vouchers/{self.voucher}/orders", headers=headers)
        reply = client.getresponse()
        text = reply.read()
        return (503, {"code": "outcome_unknown"}) if reply.status == 502 else (reply.status, json.loads(text))

    def longest_gap(self, since):
        """The longest time without an acknowledged order."""
        times = [since, *sorted(self.since(since))]
        return max(b - a for a, b in zip(times, times[1:]))


class Entrants(Patient):
    """Shoppers who enter a lottery."""

    def ask(self, client, headers):
        status, body = super().ask(client, headers)
        return (201, {"id": body["user_id"]}) if status == 202 else (status, body)

    def lost(self, owner_url):
        """The shoppers whose acknowledged entry has no row."""
        stored = {int(shopper) for shopper, in harness.rows(
            owner_url, f"select user_id from lottery_entry where voucher_id = {self.voucher}")}
        return sorted(set(self.acknowledged) - stored)


def command(program, *arguments):
    return [program, "cells", arguments[0], f"{PLACE}/cells", *arguments[1:]]


def write_cells(services, cells, aggregate):
    """The file that names the cells."""
    with open(f"{PLACE}/cells", "w") as file:
        file.write("# the cells of the shop\n")
        for number, (service, cell) in enumerate(zip(services, cells)):
            file.write(f"cell{number} {cell.url('superuser')} 127.0.0.1:{service.port}\n")
        file.write(f"lists {aggregate.url('superuser')}\n")


def split_until(program, old, new, is_over):
    """Split, and kill -9 the command when `is_over` is true. Returns whether the command was killed."""
    with open(f"{PLACE}/split.log", "ab") as log:
        process = subprocess.Popen(command(program, "split", old, new), stdout=log, stderr=log)
        try:
            while process.poll() is None and not is_over():
                time.sleep(0.01)
        finally:
            process.kill()
            process.wait()
    return process.returncode == -9


def split_with_kills(program, old, new, servers, service):
    """Kill -9 the servers and the instance during the copy. Then kill -9 the command later and later, until it
    ends before that."""
    for each, what in ((servers[1], "postgres"), (servers[0], "postgres")):
        each.do("kill", what)
        each.do("start", what)
    service.process.kill()
    service.process.wait()
    service.start()
    delay_s = 0.2
    while True:
        deadline = time.monotonic() + delay_s
        if not split_until(program, old, new, lambda limit=deadline: time.monotonic() > limit):
            break
        delay_s *= 1.2
    harness.run(*command(program, "split", old, new)) # again


def place_vouchers(service, cells):
    """A voucher of each half of a cell."""
    vouchers = [service.create_voucher("split", 1_000_000) for _ in range(2)]
    return sorted(vouchers, key=lambda voucher: int(voucher) % (2 * cells) >= cells)


def place_lottery(service, cells):
    """A lottery of the half that moves."""
    lotteries = [service.create_voucher("lottery", STOCK, admission="lottery") for _ in range(2)]
    return max(lotteries, key=lambda voucher: int(voucher) % (2 * cells))


def check_split(program, aggregate, services, cells, number, tokens, has_kills):
    """Split cell `number` of the first two while both of its halves sell."""
    old, new = f"cell{number}", f"cell{number + 2}"
    servers, both_services = (cells[number], cells[number + 2]), (services[number], services[number + 2])
    vouchers, lottery = place_vouchers(both_services[0], CELLS), place_lottery(both_services[0], CELLS)
    if not split_until(program, old, new, lambda: f"{new}: receives" in harness.run(*command(program, "status"), check=False)):
        raise harness.Failed(f"the split of {old} ended early, see {PLACE}/split.log")
    nginx = nginx_of(harness.run(*command(program, "balancer", "nginx")), new)
    nginx.start()
    shoppers = [Patient(nginx, voucher, tokens, PAUSE_S) for voucher in vouchers]
    entrants = Entrants(nginx, lottery, tokens, PAUSE_S)
    try:
        for each in (*shoppers, entrants):
            each.await_more(ORDERS)
        began = time.monotonic()
        if has_kills:
            split_with_kills(program, old, new, servers, both_services[0])
        else:
            print(harness.run(*command(program, "split", old, new)).strip())
        for each in (*shoppers, entrants):
            each.await_more(ORDERS)
    finally:
        for each in (*shoppers, entrants):
            each.stop()
        nginx.stop()
    gaps = [each.longest_gap(began) for each in shoppers]
    print(f"split of {old}{' with kills' if has_kills else ''}: longest time without an order {gaps[0]:.2f} s in the half "
          f"that stays, {gaps[1]:.2f} s in the half that moves; orders: {[each.count() for each in shoppers]}")
    # On a busy machine the orders of the other half stop for a while, too.
    if not has_kills and gaps[1] - gaps[0] > MOVE_S:
        raise harness.Failed(f"the split stopped the half that moves for more than {MOVE_S} s")
    for each, owner in zip(shoppers, servers):
        harness.expect(f"lost orders of voucher {each.voucher}", each.lost(owner.url("owner")), [])
    harness.wait_for("the aggregate has all orders", lambda: not any(
        each.lost(aggregate.url("superuser")) for each in shoppers))
    harness.expect("vouchers in the aggregate", harness.sql(
        aggregate.url("superuser"), f"select count(*) from voucher where id in ({', '.join(vouchers)})"), ["2"])
    check_draw(servers, both_services[1], entrants)
    check_moved(program, old, servers, both_services, vouchers[1])


def check_draw(servers, service, entrants):
    """The new cell has all entries, and draws the lottery. The old cell does not draw it, although it still has rows of
    the lottery, and these are due."""
    old_url, new_url = (each.url("owner") for each in servers)
    voucher = entrants.voucher
    harness.expect(f"lost entries of voucher {voucher}", entrants.lost(new_url), [])
    harness.sql(old_url, f"update lottery set draw_at = now() where voucher_id = {voucher}")
    harness.expect("the lottery that the old cell draws", harness.sql(old_url, "select voucher from draw_lotteries(1)"), [""])
    harness.expect("the end of the lottery", service.call(
        "PATCH", f"/v1/vouchers/{voucher}", service.token(1, "admin"), {"end_at": harness.moment(1)})[0], 200)
    harness.wait_for("the lottery is drawn", lambda: "drawn_at" in service.call("GET", f"/v1/vouchers/{voucher}")[1])
    orders = f"select count(*), count(distinct user_id) from voucher_order where voucher_id = {voucher}"
    harness.expect("orders and winners in the old cell", harness.sql(old_url, orders), ["0", "0"])
    harness.expect("orders and winners in the new cell", harness.sql(new_url, orders), [str(STOCK)] * 2)
    print(f"0 of {entrants.count()} acknowledged entries in the lottery lost; the new cell has drawn {STOCK} winners")


def check_moved(program, old, servers, services, voucher):
    orders = [{order for order, in harness.rows(each.url("owner"), f"select id from voucher_order where voucher_id = {voucher}")}
              for each in servers]
    harness.expect("orders that only the old cell has", orders[0] - orders[1], set())
    status, body = services[0].call("GET", f"/v1/vouchers/{voucher}")
    harness.expect("the voucher in the old cell", (status, body.get("code")), (421, "misdirected"))
    harness.run(*command(program, "audit"))
    harness.sql(servers[0].url("superuser"), "update moved_voucher set moved_at = now() - interval '3 min'")
    harness.run(*command(program, "clean", old))
    harness.expect("orders that are left in the old cell",
                   harness.sql(servers[0].url("owner"), f"select count(*) from voucher_order where voucher_id = {voucher}"), ["0"])
    harness.run(*command(program, "audit"))


def nginx_of(rules_text, name):
    """nginx with the rules that `seckill cells balancer` has printed."""
    upstream, locations = re.fullmatch(r"(.*)server \{\n    location / \{\n(.*)    \}\n\}\n", rules_text, re.S).groups()
    os.makedirs(f"{PLACE}/nginx-{name}", exist_ok=True)
    return harness.Nginx(f"{PLACE}/nginx-{name}", 1, locations, upstream)


def check_splits(program, stack, running, services, cells, aggregate, tokens):
    cells = cells + [start_servers(f"cell{number}", stack) for number in (2, 3)]
    for number in (2, 3):
        service = harness.instance(program, f"{PLACE}/cell{number}.log", cells[number].url("service"),
                                   cells[number].env["SECKILL_REDIS_URL"], SECKILL_LISTS_DATABASE_URL=aggregate.url("service"))
        running.callback(service.stop)
        services = services + [service]
    write_cells(services, cells, aggregate)
    harness.run(*command(program, "migrate", "--service-role", "seckill_service"))
    for service in services[2:]:
        service.launch()
    for number in (0, 1):
        check_split(program, aggregate, services, cells, number, tokens, has_kills=number == 0)
    said = harness.run(*command(program, "status"))
    for number, cell in enumerate(("0/4", "1/4", "2/4", "3/4")):
        if f"cell{number}: cell {cell}, " not in said:
            raise harness.Failed(f"after the splits the status is {said}")


def rate(shoppers, since):
    return len(shoppers.since(since)) / (time.monotonic() - since)


def check_crash(cells, services, both):
    """Both cells sell. Postgres and Redis of the first cell die and restart. Both cells sell again."""
    began = time.monotonic()
    for shoppers in both:
        shoppers.await_more(ORDERS)
    rate_before = rate(both[1], began)
    for what in ("postgres", "redis"):
        cells[0].do("kill", what)
    dead = time.monotonic()
    both[1].await_more(ORDERS)
    harness.wait_for("the age of the lists shows the dead cell", lambda: (age_of(services[1]) or 0) > OLD_S)
    both[1].await_more(ORDERS)
    rate_after = rate(both[1], dead)
    for what in ("postgres", "redis"):
        cells[0].do("start", what)
    started = time.monotonic()
    print(f"next order of the dead cell {both[0].first_since(started) - started:.2f} s after its servers answer again")
    for shoppers in both:
        shoppers.await_more(ORDERS)
        shoppers.stop()
    print(f"orders/s of the living cell: {rate_before:.1f} before, {rate_after:.1f} while the other was dead, "
          f"ratio {rate_after / rate_before:.2f}")
    if rate_after * TOLERANCE < rate_before:
        raise harness.Failed("a dead cell slowed the other one")


def age_of(service):
    """The age of the lists. None: they could not be read in time."""

    client = http.client.HTTPConnection("127.0.0.1", service.port)
    client.request("GET", "/v1/vouchers")
    reply = client.getresponse()
    reply.read()
    client.close()
    return int(reply.getheader("Age")) if reply.status == 200 else None


def check_rows(program, cells, aggregate, services, vouchers, both):
    for cell, voucher, shoppers in zip(cells, vouchers, both):
        harness.expect(f"lost orders of voucher {voucher}", shoppers.lost(cell.url("owner")), [])
        audit(program, cell.url("owner"))
    harness.wait_for("the aggregate has all orders", lambda: not any(
        shoppers.lost(aggregate.url("superuser")) for shoppers in both))
    harness.wait_for("the lists are young", lambda: age_of(services[0]) in range(OLD_S))
    audit(program, aggregate.url("superuser"))
    token = services[0].token(1)
    _, page = services[0].call("GET", "/v1/orders", token)
    harness.expect("vouchers of a shopper's orders, of both cells", sorted(each["voucher_id"] for each in page["items"]), sorted(vouchers))
    _, page = services[1].call("GET", "/v1/vouchers")
    harness.expect("vouchers of both cells", sorted(each["id"] for each in page["items"]), sorted(vouchers))
    print(f"0 of {sum(shoppers.count() for shoppers in both)} acknowledged orders lost; the audits passed")


def run(stack):
    program = os.path.abspath(sys.argv[1])
    cells = [start_servers(f"cell{number}", stack) for number in range(CELLS)]
    aggregate = start_servers("aggregate", stack)
    check_numbers(program, cells, aggregate)
    with contextlib.ExitStack() as running:
        services = [start_service(program, cell, aggregate.url("service"), f"cell{number}", running)
                    for number, cell in enumerate(cells)]
        vouchers = [service.create_voucher("cells", 1_000_000) for service in services]
        harness.expect("the cells of the vouchers", [int(voucher) % CELLS for voucher in vouchers], [0, 1])
        check_foreign(services, vouchers)
        check_balancers(services, vouchers)
        nginx = make_nginx([service.port for service in services])
        nginx.start()
        running.callback(nginx.stop)
        must_refuse(program, cells[0].url("owner"), "this database holds vouchers of cell 0/2", "--cell", "0/4")
        check_strangers(program, cells, aggregate, stack)
        tokens = shopping.make_tokens(program, PLACE)
        both = [shopping.Shoppers(nginx, voucher, tokens, PAUSE_S) for voucher in vouchers]
        try:
            check_crash(cells, services, both)
        finally:
            for shoppers in both:
                shoppers.stop()
        check_rows(program, cells, aggregate, services, vouchers, both)
        check_splits(program, stack, running, services, cells, aggregate, tokens)


def check_strangers(program, cells, aggregate, stack):
    """Check that these are refused: a cell whose number is taken, another number of cells, and an aggregate
    as the database of a cell."""
    for name in ("same", "other"):
        harness.sql(cells[0].url("superuser"), f"create database {name} owner seckill")
    strangers = [cells[0].url("superuser", name) for name in ("same", "other")]
    for stranger, cell, words in zip(strangers, ("0/2", "2/4"), ("as cell 0/2", "cell 2/4 cannot")):
        migrate(program, stranger, "--cell", cell)
        must_refuse(program, aggregate.url("superuser"), words, "--aggregate", stranger)
    service = harness.instance(program, f"{PLACE}/refused.log", aggregate.url("service"), cells[0].env["SECKILL_REDIS_URL"])
    stack.callback(service.stop)
    service.launch()
    harness.wait_for("the instance answers", lambda: harness.is_taken(service.port))
    harness.wait_for("it says why it is not ready", lambda: "is an aggregate of cells" in balancers.read(f"{PLACE}/refused.log"))
    harness.expect("readiness on an aggregate", service.call("GET", "/readyz")[0], 503)
    service.stop()


harness.main("cells", PLACE, run)
