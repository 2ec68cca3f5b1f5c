#!/usr/bin/python3 -B
"""top.py PROGRAM - `seckill top` with a service, in a terminal and without one.

Prints a line for each test, which .ci/check.sh counts."""

import contextlib
import fcntl
import http.server
import os
import pty
import re
import shutil
import subprocess
import struct
import sys
import termios
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../../load")

import harness # noqa: E402
import shopping # noqa: E402

PLACE = "var/it/top"
COLUMNS, LINES = 60, 12
WAITING = 3 # orders behind the one in the transaction
HOME = "\x1b[H"


class World:
    def __init__(self, program, stack):
        self.program = program
        shutil.rmtree(PLACE, ignore_errors=True)
        self.servers = harness.Servers.start(f"{PLACE}/servers", stack)
        self.service = shopping.start_service(
            program, PLACE, stack, self.servers.url("service"), self.servers.url("owner"),
            self.servers.env["SECKILL_REDIS_URL"], SECKILL_WORKERS="1", SECKILL_BATCH_MAX="1",
            SECKILL_ORDER_TIMEOUT_MS="60000")

    def top(self, *arguments, env=None, program=None):
        """Run `seckill top` to its end. Returns the exit code, standard output and standard error."""
        done = subprocess.run([program or self.program, "top", *arguments], env=env or self.service.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=harness.ANSWER_WITHIN_S)
        return done.returncode, done.stdout, done.stderr

    def has_all_connections(self):
        """Whether all connections are up, according to the state that the worker has published
        last."""
        state = self.service.call("GET", "/v1/debug/state", self.service.admin)[1]["workers"][0]["state"]
        return state is not None and all(each["is_up"] for each in state["postgres"]["connections"])

    def token_file(self, text):
        with open(f"{PLACE}/token", "w") as out:
            out.write(text)
        return f"{PLACE}/token"


def check(condition, found):
    if not condition:
        raise harness.Failed(f"found {found}")


def expect(found, wanted):
    if found != wanted:
        raise harness.Failed(f"found {found}, expected {wanted}")


def column(screen, head, row):
    """The cell in the column `head` and in the line that begins with `row`."""
    lines = screen.splitlines()
    top = next(i for i, line in enumerate(lines) if head in line and line.split()[0] in ("/s", "worker", "queue"))
    at = lines[top].index(head) + len(head)
    line = next(line for line in lines[top + 1:] if line.split()[:1] == [row])
    return line[:at].split()[-1]


# -- tests --

def test_lines__are_plain_and_have_all_numbers(world):
    voucher = world.service.create_voucher("top", 10)
    status, _ = world.service.call("POST", f"/v1/vouchers/{voucher}/orders", world.service.token(7))
    expect(status, 201)
    harness.wait_for("it expires orders", lambda: world.service.metrics("seckill_expiry_leader")[0][1] == 1)
    harness.wait_for("its state has all connections", world.has_all_connections)
    code, out, errors = world.top("--count", "3", "--every", "0.1")
    expect((code, errors), (0, ""))
    check("\x1b" not in out, out)
    screens = out.split("\n\nseckill ")
    expect(len(screens), 3)
    last = screens[-1]
    check(re.match(rf"\S+ at http://127.0.0.1:{world.service.port}, pid {world.service.process.pid}, up .* s, \d+ MiB, ", last), last)
    check("postgres up, redis up, durability local, expiry here, " in last, last)
    check(re.search(r"^ +placed +\d+ +1 ", last, re.M), last)
    check(re.search(r"^requests +\d+ +\d+ +handover ", last, re.M), last)
    check(re.search(r" total +\d\S* +\d\S*$", screens[0], re.M), screens[0]) # of the order
    check(re.search(r" total +- +-$", last, re.M), last) # no order since
    up, _, of = column(last, "postgres", "0").partition("/")
    expect(up, of)
    expect(column(last, "redis", "0"), "up")
    expect(column(last, "stream", "0"), "0")


def shows_queue(world, voucher):
    _, out, _ = world.top("--count", "1")
    return ("queue of voucher" in out
            and column(out, "in flight", "0") == str(1 + WAITING)
            and column(out, "depth", voucher) == str(WAITING)
            and column(out, "in a transaction", voucher) == "yes")


def test_queues__are_shown(world):
    """Orders wait because the row of their voucher is locked."""
    voucher = world.service.create_voucher("stuck", 10)
    holder = subprocess.Popen(["psql", "-XAtq", world.servers.env["PG_OWNER_URL"]], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    shoppers = []
    with holder:
        holder.stdin.write(f"begin; select id from voucher where id = {voucher} for update;\n")
        holder.stdin.flush()
        expect(holder.stdout.readline().strip(), voucher)
        for user in range(1 + WAITING):
            shoppers.append(threading.Thread(target=world.service.call, args=(
                "POST", f"/v1/vouchers/{voucher}/orders", world.service.token(100 + user))))
            shoppers[-1].start()
        # An order whose transaction has waited for a long time returns to the queue for a moment.
        harness.wait_for("the queue is shown", lambda: shows_queue(world, voucher))
        holder.stdin.write("rollback;\n")
    for shopper in shoppers:
        shopper.join()


@contextlib.contextmanager
def terminal(world, *arguments):
    """Run `seckill top` in a new terminal. Yields the process and functions to use the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen([world.program, "top", *arguments], env=world.service.env, stdin=theirs, stdout=theirs,
                               stderr=theirs, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = bytearray()

    def has(condition):
        with contextlib.suppress(BlockingIOError, OSError): # OSError: the other end is closed
            seen.extend(os.read(ours, 65536))
        return condition(seen.decode(errors="replace"))

    try:
        yield process, ours, has
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_terminal__is_drawn_again(world):
    with terminal(world, "--every", "0.1") as (process, keys, has):
        harness.wait_for("three screens", lambda: has(lambda text: text.count(HOME) > 3))
        has(lambda text: check_screen(text.split(HOME)[2]))
        os.write(keys, b"\x03") # Ctrl-C
        harness.wait_for("it ends", lambda: has(lambda _: process.poll() is not None))
        expect(process.returncode, 0)


def check_screen(text):
    lines = [re.sub(r"\x1b\[[KJ]", "", line) for line in text.rstrip("\r\n").split("\r\n")]
    check(lines[0].startswith("seckill "), lines)
    check(len(lines) <= LINES and max(map(len, lines)) == COLUMNS, lines)
    return True


def screens_with(words, text):
    """The complete screens with these words. The last screen is left out, because it may be
    incomplete."""
    return [screen for screen in text.split(HOME)[:-1] if words in screen]


def test_service_away__goes_on(world):
    """`seckill top` goes on until the service is back. The service is then a new process, whose
    counters start at 0."""
    with terminal(world, "--every", "0.1") as (_, _, has):
        harness.wait_for("the first screen", lambda: has(lambda text: "postgres up" in text))
        world.service.stop()
        harness.wait_for("it says so", lambda: has(lambda text: "does not answer: " in text))
        world.service.start()
        new = f"pid {world.service.process.pid},"
        harness.wait_for("the new process is shown", lambda: has(lambda text: screens_with(new, text)))
        has(lambda text: check("-" not in column(screens_with(new, text)[0], "/s", "requests"), text[-2000:]))


def test_service_away__ends_with_a_failure(world):
    """`seckill top` fails if the last call is not answered."""
    port = harness.free_port()
    code, out, errors = world.top("--url", f"http://127.0.0.1:{port}", "--count", "2", "--every", "0.1")
    expect((code, errors), (2, ""))
    sentences = out.split("\n\n")[:-1]
    expect(len(sentences), 2)
    for sentence in sentences:
        check(sentence.startswith(f"http://127.0.0.1:{port} does not answer: "), sentence)


def test_stranger__is_no_service(world):
    """Another program listens at the address of the service."""
    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.answer)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        for server.answer in (b"hello", b"[]", b'{"workers": []}', b'{"workers": [{}], "now_ms": 1}', b"\xff"):
            code, out, errors = world.top("--url", f"http://127.0.0.1:{server.server_port}", "--count", "1")
            expect((code, errors), (2, ""))
            check("answers something else than a service" in out, out)
        server.shutdown()
        thread.join()


def test_token__must_be_that_of_an_admin(world):
    for text, sentence in (("nonsense", "refuses the token: it is invalid or has expired"), ("", "it is invalid"),
                           (world.service.token(7), "refuses the token: it is not that of an admin")):
        code, out, errors = world.top("--token-file", world.token_file(text))
        expect((code, out), (2, ""))
        check(sentence in errors, errors)
    code, out, _ = world.top("--token-file", world.token_file(world.service.token(7, "admin") + "\n"), "--count", "1")
    expect((code, "postgres up" in out), (0, True))
    code, _, errors = world.top("--token-file", f"{PLACE}/nothing")
    expect((code, "No such file" in errors), (2, True))


def test_token__needs_a_key(world):
    code, out, errors = world.top(env={"PATH": os.environ["PATH"]})
    expect((code, out), (64, ""))
    check("SECKILL_JWT_SECRET" in errors and "--token-file" in errors, errors)


def test_arguments__are_checked(world):
    for arguments in (("--count", "x"), ("--count", "-1"), ("--every", "0"), ("--every", "nan"), ("--url", "localhost:8080"),
                      ("--unknown",), ("stray",)):
        code, out, errors = world.top(*arguments)
        expect((arguments, code, out), (arguments, 64, ""))
        check(errors.startswith("seckill top: ") and "seckill top --help" in errors, errors)
    code, out, errors = world.top("--help")
    expect((code, errors), (0, ""))
    check(out.startswith("usage: seckill top "), out)


def test_script__must_be_beside_the_program(world):
    shutil.copy(world.program, f"{PLACE}/alone")
    code, out, errors = world.top(program=f"{PLACE}/alone")
    expect((code, out), (2, ""))
    check(re.fullmatch(r"seckill top: cannot run \S+/alone-top with Python 3: No such file or directory\n", errors), errors)


# -- run --

def main():
    program = os.path.abspath(sys.argv[1])
    with contextlib.ExitStack() as stack:
        world = World(program, stack)
        results = [harness.run_test(name, test, world) for name, test in list(globals().items()) if name.startswith("test_")]
    sys.exit(0 if all(results) else 1)


main()
