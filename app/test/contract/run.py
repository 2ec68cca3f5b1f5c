#!/usr/bin/env -S python3 -B
"""run.py PROGRAM requests|typescript|python|go|java|follow_python|follow_go|decoding|traces|schemathesis [CASES]

Uses the contract: the requests of app/docs/requests.http, clients that are generated from
app/api/openapi.yaml, the readers of the history in app/docs/integrator.md, logical decoding as it says,
the collector of traces in app/docs/operator.md, and random requests by Schemathesis. Each run has its own servers and a
service. The generators come from npm, PyPI, Go's proxy and Maven Central, and are kept in
var/contract. Exit code 77: the test cannot run here; the last line says why."""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(f"{HERE}/../../..")
sys.path.insert(0, f"{ROOT}/load")

import harness # noqa: E402
import shopping # noqa: E402

NOT_RUN = 77
TOOLS = f"{ROOT}/var/contract"
CONTRACT = f"{ROOT}/app/api/openapi.yaml"
NPM = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@22.15.30")
PYPI = ("openapi-python-client==0.29.1", "schemathesis==4.32.5")
TRACES = ("vrl-python==0.1.0", "opentelemetry-proto==1.45.2", "PyYAML==6.0.3")
GO_SQL = "github.com/lib/pq@v1.10.9"
GO_CLIENT = ("github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2", "github.com/oapi-codegen/runtime@v1.9.0")
STOCK = 20
EVENTS = 250 # more than two pages


class NotRun(Exception):
    """A test cannot run here. The message says what is missing."""


def check(condition, message):
    if not condition:
        raise harness.Failed(message)


def read(path):
    with open(path) as file:
        return file.read()


# -- tools --


def fetch(name, wanted, *commands):
    """Return the directory of these tools. The commands run in this directory if other versions are
    there. If another test is installing the same tools, wait for it."""
    place = f"{TOOLS}/{name}"
    stamp = f"{place}/versions"
    os.makedirs(TOOLS, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(stamp) and read(stamp) == " ".join(wanted):
            return place
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        for command in commands:
            fetch_by(command, place)
        with open(stamp, "w") as out:
            out.write(" ".join(wanted))
    return place


def fetch_by(command, place):
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=600, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as failure:
        raise NotRun(str(failure)) from None
    if done.returncode != 0:
        raise NotRun(f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def fetch_npm():
    return fetch("npm", NPM, ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", *NPM])


def fetch_pypi():
    return fetch("pypi", PYPI, [sys.executable, "-m", "venv", "."], ["bin/pip", "install", "--quiet", *PYPI])


def run(*command, cwd, **env):
    """Run a command and return its output. If the command fails, the failure shows all of its
    output."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, f"{' '.join(command[:4])}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


# -- the service --


class World:
    def __init__(self, program, what, stack):
        self.place = f"{ROOT}/var/it/contract-{what}"
        shutil.rmtree(self.place, ignore_errors=True)
        self.servers = harness.Servers.start(f"{self.place}/servers", stack)
        self.service = shopping.start_service(
            program, self.place, stack, self.servers.url("service"), self.servers.url("owner"),
            self.servers.env["SECKILL_REDIS_URL"], SECKILL_TICKET_SECRET=harness.new_secret(),
            SECKILL_ORDER_TIMEOUT_MS="60000", SECKILL_LISTENERS_MAX="0") # a stream ends after one event
        self.url = f"http://127.0.0.1:{self.service.port}"
        self.admin, self.payment = self.service.token(1, "admin"), self.service.token(3, "payment")

    def shopper(self, user=1001):
        return self.service.token(user)

    def bought(self, voucher, orders):
        """Check that the orders in the history of the voucher are these, and that all are paid."""
        items = self.service.call("GET", f"/v1/vouchers/{voucher}/events?limit=100", self.admin)[1]["items"]
        paid = {item["order_id"] for item in items if item.get("to_status") == "paid"}
        check(paid == set(orders), f"paid: {paid}, the client bought {orders}")


# -- requests.http --

REQUEST = re.compile(r"^(GET|POST|PATCH|DELETE) (\S+)\n((?:[\w-]+: .*\n)*)(?:\n(\{\n(?: .*\n)*\})\n)?", re.M)


def operations():
    """Each operation of the contract except pages: its method, and a regular expression for its
    paths."""
    path = None
    for line in read(CONTRACT).split("\ncomponents:")[0].splitlines():
        if found := re.fullmatch(r"  (/.*):", line):
            path = found[1]
        elif (found := re.fullmatch(r"    (get|post|patch|delete):", line)) and path not in ("/", "/admin", "/docs"):
            yield found[1].upper(), re.sub(r"\{\w+\}", r"\\d+", path)


def test_requests(world):
    """Each request, in the order of the file, must get the status in its title. Each operation
    must have a request."""
    text = read(f"{ROOT}/app/docs/requests.http")
    values = dict(re.findall(r"^@(\w+) = (.*)$", text, re.M))
    check(set(values) == {"url", "admin", "shopper", "payment", "voucher", "order", "webhook"}, f"variables: {values}")
    values.update(url=world.url, admin=world.admin, shopper=world.shopper(), payment=world.payment)
    blocks = text.split("\n### ")[1:]
    sent = []
    for block in blocks:
        title, _, rest = block.partition("\n")
        expected = int(re.search(r"\b(\d{3})$", title)[1])
        filled = re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], rest)
        found = REQUEST.search(filled + "\n")
        check(found and len(REQUEST.findall(filled)) == 1, f"{title}: not one request:\n{rest}")
        method, url, head, body = found.groups()
        sent.append(f"{method} {url.removeprefix(world.url)}")
        headers = dict(line.split(": ", 1) for line in head.splitlines())
        token = headers.pop("Authorization", "").removeprefix("Bearer ")
        check(headers.pop("Content-Type", None) == (body and "application/json"), f"{title}: body and its type")
        status, answer = world.service.call(method, url.removeprefix(world.url), token, body and json.loads(body), headers)
        check(status == expected, f"{title}: {status} {answer}")
        for name in re.findall(r"^# Put its id into @(\w+)", rest, re.M):
            values[name] = answer["id"]
    wanted = list(operations())
    missing = [each for each in wanted if not any(re.fullmatch(rf"{' '.join(each)}(\?.*)?", one) for one in sent)]
    check(len(wanted) > 15 and not missing, f"no request of {missing}")


# -- generated clients --


def test_typescript(world):
    npm = fetch_npm()
    voucher = world.service.create_voucher("TypeScript", STOCK)
    shutil.copy(f"{HERE}/buy.mts", npm)
    run("node_modules/.bin/openapi-typescript", CONTRACT, "--output", "seckill.d.ts", cwd=npm)
    run("node_modules/.bin/tsc", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext",
        "--moduleResolution", "nodenext", "--types", "node", "--skipLibCheck", "buy.mts", "--outDir", "out", cwd=npm)
    order = run("node", "out/buy.mjs", world.url, voucher, world.shopper(), world.payment, cwd=npm).split()
    world.bought(voucher, order)


def test_python(world):
    venv = fetch_pypi()
    voucher = world.service.create_voucher("Python", STOCK)
    shutil.rmtree(f"{venv}/seckill_client", ignore_errors=True)
    output = run("bin/openapi-python-client", "generate", "--path", CONTRACT, "--meta", "none", "--output-path", "seckill_client",
                 "--config", f"{HERE}/python_client.json", cwd=venv)
    check("WARNING" not in output, output)
    order = run("bin/python", "-B", f"{HERE}/buy.py", world.url, voucher, world.shopper(), world.payment,
                cwd=venv, PYTHONPATH=venv).split()
    world.bought(voucher, order)


def test_go(world):
    place = fetch("go_client", GO_CLIENT, ["go", "mod", "init", "buy"], ["go", "get", "-tool", GO_CLIENT[0]],
                  ["go", "get", GO_CLIENT[1]], ["go", "tool", "oapi-codegen", "-version"])
    voucher = world.service.create_voucher("Go", STOCK)
    shutil.copy(f"{HERE}/buy.go", place)
    run("go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "seckill.go", CONTRACT, cwd=place)
    run("go", "vet", ".", cwd=place)
    run("go", "build", "-o", "buy", ".", cwd=place)
    order = run("./buy", world.url, voucher, world.shopper(), world.payment, cwd=place).split()
    world.bought(voucher, order)


def test_java(world):
    pom = f"{HERE}/java_client.xml"
    maven = ("mvn", "-B", "-q", "-Dmaven.repo.local=m2", f"-Dcontract={CONTRACT}", "compile")
    place = fetch("java", [read(pom)], ["cp", pom, "pom.xml"], [*maven, "-Dcodegen.skip=true"])
    voucher = world.service.create_voucher("Java", STOCK)
    shutil.copy(f"{HERE}/Buy.java", place)
    shutil.rmtree(f"{place}/target", ignore_errors=True)
    run(*maven, "-o", cwd=place)
    order = run("java", "-cp", "target/classes:target/dependency/*", "Buy", world.url, voucher, world.shopper(),
                world.payment, cwd=place).split()
    world.bought(voucher, order)


# -- readers of the history --


def code_of(language):
    """The program in this language in the integrator guide."""
    return re.search(rf"^```{language}\n(.*?)^```$", read(f"{ROOT}/app/docs/integrator.md"), re.M | re.S)[1]


def make_events(world, voucher, count):
    """Place orders and cancel them, which makes two events each."""
    shopper = world.shopper()
    for _ in range(count // 2):
        status, order = world.service.call("POST", f"/v1/vouchers/{voucher}/orders", shopper)
        check(status == 201, order)
        check(world.service.call("POST", f"/v1/orders/{order['id']}/cancel", shopper)[0] == 200, "not cancelled")


def follow(world, command, cwd, count, table):
    """Kill the reader again and again while events are made. At the end its table must have each
    event once."""
    voucher = world.service.create_voucher("Followed", STOCK)
    url = f"{world.url}/v1/vouchers/{voucher}/events"

    def start():
        return subprocess.Popen([*command, url, world.admin, table], cwd=cwd, stdin=subprocess.DEVNULL)
    reader = start()
    try:
        for _ in range(10):
            make_events(world, voucher, EVENTS // 10)
            reader.send_signal(signal.SIGKILL)
            reader.wait()
            reader = start()
        total = 1 + 10 * (EVENTS // 10 // 2 * 2) # 1: the event of the first stock
        harness.wait_for("all events are in the table", lambda: count() >= total)
        time.sleep(1.5) # the reader goes on: a second copy of an event would arrive
        check(reader.poll() is None and count() == total, f"{count()} events in the table, expected {total}")
    finally:
        reader.kill()
        reader.wait()


def test_follow_python(world):
    import sqlite3
    with open(f"{world.place}/follow.py", "w") as out:
        out.write(code_of("python"))
    table = f"{world.place}/events.db"

    def count():
        with contextlib.closing(sqlite3.connect(table, timeout=60)) as db:
            return db.execute("select count(*) from event").fetchone()[0]
    with contextlib.closing(sqlite3.connect(table)) as db:
        db.execute("create table event (id integer primary key, body text not null)")
    follow(world, [sys.executable, "-B", "follow.py"], world.place, count, table)


def test_follow_go(world):
    place = fetch("go", [GO_SQL], ["go", "mod", "init", "follow"], ["go", "get", GO_SQL])
    with open(f"{place}/main.go", "w") as out:
        out.write(code_of("go"))
    run("go", "vet", ".", cwd=place)
    run("go", "build", "-o", "follow", ".", cwd=place)
    table = world.servers.env["PG_SUPERUSER_URL"] + "?sslmode=disable"
    harness.sql(table, "create table event (id bigint primary key, body json not null)")
    follow(world, [f"{place}/follow"], place, lambda: int(harness.sql(table, "select count(*) from event")[0]), table)


# -- logical decoding --


def decode(data):
    """The rows that the messages of pgoutput insert: the LSN of the commit, the table, and the columns
    by their names. pg_recvlogical ends each message with a line feed."""
    at, tables, commit = 0, {}, None

    def take(layout):
        nonlocal at
        values = struct.unpack_from(f">{layout}", data, at)
        at += struct.calcsize(f">{layout}")
        return values if len(values) > 1 else values[0]

    def text(size):
        return take(f"{size}s").decode()

    def name():
        return text(data.index(0, at) + 1 - at)[:-1]

    def value():
        return None if take("c") == b"n" else text(take("i"))

    while at < len(data):
        kind = take("c")
        if kind == b"B":
            commit, _, _ = take("qqi")
        elif kind == b"C":
            take("bqqq")
        elif kind == b"Y": # a type
            take("i"), name(), name()
        elif kind == b"R":
            relation, _, table, _ = take("i"), name(), name(), take("c")
            tables[relation] = table, [(take("b"), name(), take("ii"))[1] for _ in range(take("h"))]
        else:
            check(kind == b"I", f"a message of type {kind}")
            (table, columns), _ = tables[take("i")], take("c")
            check(take("h") == len(columns), table)
            yield commit, table, {column: value() for column in columns}
        check(take("c") == b"\n", f"no line feed at {at}")


def test_decoding(world, shoppers=30):
    """Orders are placed, paid and cancelled at once while the documented commands read the history, in
    two runs. Each change must arrive once, in the order of the commits."""
    section = re.search(r"^## Kafka.*?^## ", read(f"{ROOT}/app/docs/integrator.md"), re.M | re.S)[0]
    prepare, follow = re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)
    world.servers.configure("wal_level", "logical")
    world.servers.restart("postgres")
    owner, superuser = world.servers.env["PG_OWNER_URL"], world.servers.env["PG_SUPERUSER_URL"]
    env = {"PG_OWNER_URL": owner, "PG_SUPERUSER_URL": superuser,
           "READER_URL": re.sub(r"//.*@", "//seckill_reader:secret@", owner)}
    run("bash", "-ec", prepare, cwd=world.place, **env)
    vouchers = [world.service.create_voucher("Decoded", STOCK) for _ in range(2)]
    world.service.write_tokens(shoppers, f"{world.place}/tokens")

    def buy(token, is_paid):
        for voucher in vouchers:
            status, order = world.service.call("POST", f"/v1/vouchers/{voucher}/orders", token)
            if status != 201:
                check(order["code"] == "sold_out", order)
                continue
            if is_paid:
                status, answer = world.service.call("POST", f"/v1/orders/{order['id']}/pay", world.payment,
                                                    {"payment_ref": order["id"], "amount_cents": order["price_cents"]})
            else:
                status, answer = world.service.call("POST", f"/v1/orders/{order['id']}/cancel", token)
            check(status == 200, answer)

    tokens = harness.read_tokens(f"{world.place}/tokens")
    for half in (tokens[::2], tokens[1::2]):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(buy, half, [True, True, False] * shoppers))
        end = harness.sql(superuser, "select pg_current_wal_flush_lsn()")[0]
        run("bash", "-ec", f"{follow.strip()} --endpos {end}", cwd=world.place, **env)
    with open(f"{world.place}/history.pgoutput", "rb") as file:
        changes = list(decode(file.read()))
    commits = [commit for commit, _, _ in changes]
    check(commits == sorted(commits), f"not in the order of commits: {commits}")
    for voucher in vouchers:
        ids = [int(row["id"]) for _, _, row in changes if row["voucher_id"] == voucher]
        check(ids == sorted(set(ids)), f"not in the order of the history: {ids}")
    found = {(row["voucher_id"], row["id"], row.get("order_id", row["id"] if table == "voucher_order" else ""),
              row.get("actor") or f"shopper:{row['user_id']}", row.get("to_status", "unpaid" if table == "voucher_order" else ""),
              row.get("detail") or "") for _, table, row in changes}
    wanted = {tuple(row) for row in harness.rows(
        owner, "select voucher_id, id, order_id, actor, to_status, detail from voucher_history")}
    check(found == wanted and len(changes) == len(wanted) > 2 * STOCK, f"found {len(changes)}: {found ^ wanted}")


# -- traces --


def test_traces(world):
    """A collector must turn the log lines of an order into spans if the traceparent is sampled."""
    venv = fetch("traces", TRACES, [sys.executable, "-m", "venv", "."], ["bin/pip", "install", "--quiet", *TRACES])
    voucher = world.service.create_voucher("Traced", STOCK)
    trace_id, parent_id = secrets.token_hex(16), secrets.token_hex(8)
    for user, flags in ((1, "00"), (2, "01")):
        status, order = world.service.call("POST", f"/v1/vouchers/{voucher}/orders", world.shopper(user),
                                           headers={"traceparent": f"00-{trace_id}-{parent_id}-{flags}"})
        check(status == 201, order)
    log = f"{world.place}/seckill.log"
    harness.wait_for("the lock is released", lambda: " name=unlock " in read(log))
    run("bin/python", "-B", f"{HERE}/traces.py", log, trace_id, parent_id, cwd=venv)


# -- random requests --

CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance")


def count_requests(world):
    return sum(value for _, value in world.service.metrics("seckill_http_requests_total"))


def test_schemathesis(world, cases="300"):
    """Send valid random requests, alone and in sequences that follow the links of the contract."""
    venv = fetch_pypi()
    before = world.service.server_errors(), count_requests(world) # a service answers 503 until it is ready
    tokens = f"{world.place}/tokens"
    world.service.write_tokens(200, tokens)

    def send(phases, examples):
        """Run Schemathesis. Returns its output, and the number of requests that were sent so
        far."""
        output = run("bin/schemathesis", "run", CONTRACT, "--url", world.url, "--mode", "positive", "--no-color",
                     "--phases", phases, "--max-examples", str(examples), "--checks", ",".join(CHECKS),
                     "--request-timeout", "120", "--continue-on-failure", cwd=venv, SCHEMATHESIS_HOOKS="hooks",
                     PYTHONPATH=HERE, ADMIN=world.admin, PAYMENT=world.payment, TOKENS=tokens)
        errors = world.service.server_errors() - before[0]
        check(errors == 0, f"{errors:g} answers were a 5xx\n{output}")
        return output, count_requests(world) - before[1]

    output, alone = send("examples,coverage,fuzzing", max(1, int(cases) // 30))
    sent, is_first = alone, True
    while is_first or sent < int(cases): # a run of sequences ends at some of the answers that differ when repeated
        already, is_first = sent, False
        more, sent = send("stateful", max(1, int(cases) // 20))
        check(sent > already, f"no request was sent\n{more}")
        output += more
    check(world.service.placed() > 0, f"no order was placed\n{output}")
    print(*(line for line in output.splitlines() if "covered" in line or "generated" in line), sep="\n")
    print(f"schemathesis: {alone:g} single requests, {sent - alone:g} in sequences, {world.service.placed():g} orders, "
          "0 server errors, 0 violations")


def main():
    program, what, *arguments = sys.argv[1:]
    try:
        with contextlib.ExitStack() as stack:
            globals()[f"test_{what}"](World(os.path.abspath(program), what, stack), *arguments)
    except NotRun as missing:
        print(missing)
        return NOT_RUN
    except harness.Failed as failure:
        print(failure)
        return 1
    return 0


sys.exit(main())
