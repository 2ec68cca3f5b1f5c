#!/usr/bin/env -S python3 -B
"""run.py PROGRAM PORT - run a sale on this machine until Ctrl-C or TERM, also in the background.

Starts a private PostgreSQL and Redis in var/run, migrates the database and starts the service.
Makes sure that one voucher is on sale and one opens soon, and prints how to buy. Everything
stops with this program; the data are kept for the next run."""

import contextlib
import fcntl
import os
import random
import signal
import sys

import harness

PLACE = "var/run"
DEMO_STOCK = 100
UPCOMING = "Breakfast for two, 100 for 9"
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def lock_place(port):
    """Only one run at a time may use the servers in var/run. The file of its lock says which run uses them."""
    os.makedirs(PLACE, exist_ok=True)
    lock = open(f"{PLACE}/run.lock", "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise harness.Failed(f"it is already running: {lock.read()}") from None
    lock.truncate(0)
    lock.write(f"http://127.0.0.1:{port}/; to stop it: kill {os.getpid()}")
    lock.flush()
    return lock


def keep_secret():
    """The path of the file with the secret, which is kept between runs."""
    path = f"{PLACE}/jwt_secret"
    if not os.path.exists(path):
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(harness.new_secret())
        os.rename(path + ".new", path)
    return path


def list_vouchers(service, state):
    status, page = service.call("GET", f"/v1/vouchers?state={state}&limit=100")
    if status != 200:
        raise harness.Failed(f"cannot list the vouchers: {status} {page}")
    return page["items"]


def demo_vouchers(service):
    """Return the id of a voucher on sale, and the id of an upcoming voucher. A voucher that does not exist is
    created. If the upcoming voucher of an earlier run is on sale by now, it is made to open once more."""
    on_sale = [each for each in list_vouchers(service, "open") if each["stock_left"] > 0]
    upcoming = [each["id"] for each in list_vouchers(service, "upcoming")]
    earlier = [each["id"] for each in on_sale if each["title"] == UPCOMING]
    now = [each["id"] for each in on_sale if each["id"] not in earlier[:1]]
    if not now:
        now = [service.create_voucher("Dinner for two, 100 for 9", DEMO_STOCK)]
    if not upcoming and earlier:
        service.call("PATCH", f"/v1/vouchers/{earlier[0]}", service.token(1, "admin"),
                     {"begin_at": harness.moment(60)})
        upcoming = earlier
    return now[0], upcoming[0] if upcoming else service.create_voucher(UPCOMING, DEMO_STOCK, begin_in_s=60)


def announce(service, now, soon):
    user = random.randrange(100000, 1000000)
    shopper = service.token(user)
    url = f"http://127.0.0.1:{service.port}"
    opens = service.call("GET", f"/v1/vouchers/{soon}")[1]["begin_at"]
    print(f"""
shop:       {url}/
dashboard:  {url}/admin
stop:       Ctrl-C, or kill {os.getpid()}
Voucher {now} is on sale. Voucher {soon} opens at {opens}.

Buy one as shopper {user}:
curl -sS -X POST {url}/v1/vouchers/{now}/orders -H 'Authorization: Bearer {shopper}'

Admin token:
{service.token(1, "admin")}
""", flush=True)


def ignore_signals():
    """A second signal must not interrupt the shutdown."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError): # the terminal may be gone
        print("stopping ...", flush=True)


def serve(program, port, stack):
    """Run a sale. `stack` stops what was started, in reverse order."""
    servers = harness.Servers(PLACE)
    stack.callback(servers.down)
    servers.up()
    service = harness.Service(program, port, {
        "SECKILL_DATABASE_URL": servers.env["SECKILL_DATABASE_URL"],
        "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"],
        "SECKILL_JWT_SECRET_FILE": keep_secret(), "SECKILL_TICKET_SECRET_FILE": keep_secret(),
        "SECKILL_DEV_LOGIN": "1"}, f"{PLACE}/seckill.log")
    service.migrate(servers.env["PG_OWNER_URL"])
    stack.callback(service.stop)
    stack.callback(ignore_signals)
    service.start()
    announce(service, *demo_vouchers(service))
    code = service.process.wait()
    raise harness.Failed(f"the service exited with code {code}, see {service.log_path}")


def interrupted(_number, _frame):
    raise KeyboardInterrupt


def main():
    program, port = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    for number in ENDING_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN: # started by nohup
            signal.signal(number, interrupted)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(lock_place(port))
            if harness.is_taken(port):
                raise harness.Failed(f"port {port} is in use; choose another one: make run PORT=8081")
            serve(program, port, stack)
    except KeyboardInterrupt:
        print(f"stopped; the data are in {PLACE}")
    except harness.Failed as failure:
        sys.exit(f"make run: {failure}")


main()
