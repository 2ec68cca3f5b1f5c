"""harness.py - shared by all programs in load/: private servers, nginx, and a service with its
HTTP interface, tokens and SQL. Uses only Python's standard library."""

import contextlib
import datetime
import glob
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

LOAD = os.path.dirname(os.path.abspath(__file__))
# The psql of Debian's PATH is a script in Perl that finds the program; it takes longer than psql.
os.environ["PATH"] = ":".join(sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: -int(path.split("/")[-2]))
                              + [os.environ["PATH"]])
ANSWER_WITHIN_S = 120
STOP_WITHIN_S = 120
PROBES = 20 # a connection reaches a random event loop; with this many, each loop is reached


class Failed(Exception):
    """An error with a message for the user."""


def wait_for(what, condition, within_s=ANSWER_WITHIN_S):
    """Poll until the condition is true; pause as long as the condition took."""
    began = asked = time.monotonic()
    while not condition():
        now = time.monotonic()
        if now > began + within_s:
            raise Failed(f"timeout: waited {within_s} s until {what}")
        time.sleep(max(0.01, now - asked))
        asked = time.monotonic()


def run(*command, env=None, check=True):
    """Run a program and return its standard output; Failed with its standard error."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(command[:3])}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def must_fail(*command, env=None):
    """Run a program, which must fail, and return its output."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        raise Failed(f"{' '.join(command)} did not fail: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expect(what, found, wanted):
    if found != wanted:
        raise Failed(f"{what}: found {found}, expected {wanted}")


def version(*command):
    """The version number in the output of a program."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.search(r"\d+\.\d+[-+.\w]*", done.stdout + done.stderr).group()


def is_taken(port):
    """Whether a process listens on the port. The service cannot tell: it shares its port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def http_status(host, port, path, timeout_s):
    """The status of the answer to a GET; 0: no answer."""
    client = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        client.request("GET", path)
        return client.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        client.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_test(name, test, *arguments):
    """Run a test and print how it ended. Returns whether it succeeded."""
    print(f"[ RUN      ] {name}", flush=True)
    try:
        test(*arguments)
    except Exception: # the other tests still run
        traceback.print_exc(file=sys.stdout)
        print(f"[  FAILED  ] {name}", flush=True)
        return False
    print(f"[       OK ] {name}", flush=True)
    return True


def moment(offset_s):
    """The time in RFC 3339, `offset_s` from now."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset_s)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def write_json(path, data):
    with open(path, "w") as out:
        json.dump(data, out, indent=1)
        out.write("\n")


def main(name, place, play):
    """Run a program: call play(stack) with an empty directory `place`. When it ends, also by SIGTERM, the stack
    stops in reverse order what was started. Failed ends the process with a message."""
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        with contextlib.ExitStack() as stack:
            play(stack)
    except Failed as failure:
        sys.exit(f"{name}: {failure}")


class Servers:
    """A private PostgreSQL and Redis, whose files are in a directory. However this process ends, the servers
    stop: its end closes the pipe to `servers.sh hold`."""

    def __init__(self, directory, **env):
        self.directory = directory
        self.start_env = dict(os.environ, **env)
        self.holder = None

    def up(self):
        self.holder = subprocess.Popen(
            [f"{LOAD}/servers.sh", "hold", self.directory], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True, env=self.start_env)
        with self.holder.stdout as lines:
            self.env = dict(line.strip().split("=", 1) for line in lines)
        if not self.env:
            raise Failed(f"the servers in {self.directory} did not start")

    def down(self):
        if self.holder is None:
            return
        self.holder.stdin.close()
        if self.holder.wait() != 0:
            raise Failed(f"the servers in {self.directory} did not stop")

    @classmethod
    def start(cls, directory, stack, **env):
        """Servers that run until the end of the stack."""
        servers = cls(directory, **env)
        stack.callback(servers.down)
        servers.up()
        return servers

    def do(self, verb, *arguments):
        """A command of servers.sh for this directory."""
        run(f"{LOAD}/servers.sh", verb, self.directory, *arguments, env=self.start_env)

    def restart(self, which):
        self.do("stop", which)
        self.do("start", which)

    def url(self, role, database="seckill"):
        """The URL of a database as owner, superuser or service."""
        name = {"owner": "PG_OWNER_URL", "superuser": "PG_SUPERUSER_URL", "service": "SECKILL_DATABASE_URL"}[role]
        return self.env[name].rsplit("/", 1)[0] + "/" + database

    def redis(self, *command, check=True):
        """The output of redis-cli."""
        return run("redis-cli", "-e", "-p", self.env["REDIS_PORT"], *command, check=check,
                   env=dict(os.environ, REDISCLI_AUTH=self.env["REDISCLI_AUTH"]))

    def configure(self, name, value):
        """Change a setting of Postgres by a reload."""
        configure(self.url("superuser"), name, value)


class SlowDisk:
    """The library and the file with its delay, where the user of Postgres can read them."""

    def __init__(self, library, stack):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="slow-disk."))
        os.chmod(directory, 0o755)
        shutil.copy(library, f"{directory}/slow_disk.so")
        self.path = f"{directory}/delay"
        self.env = {"LD_PRELOAD": f"{directory}/slow_disk.so", "SLOW_DISK": self.path}
        self.set_ms(0)
        os.chmod(self.path, 0o644)

    def set_ms(self, delay_ms):
        """Set the delay. The file is changed in place, because Postgres has mapped it."""
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as file:
            file.write(struct.pack("=q", delay_ms * 1000))


NGINX_CONF = """
daemon off;
worker_processes {workers};
pid {place}/nginx.pid;
error_log {place}/nginx.log warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 600;
    client_body_temp_path {place}/nginx.tmp;
    proxy_temp_path {place}/nginx.tmp;
    fastcgi_temp_path {place}/nginx.tmp;
    uwsgi_temp_path {place}/nginx.tmp;
    scgi_temp_path {place}/nginx.tmp;
    {upstream}
    server {{
        listen 127.0.0.1:{port} reuseport backlog=4096;
        location / {{
            {location}
        }}
    }}
}}
"""


def find_nginx():
    return shutil.which("nginx") or "/usr/sbin/nginx" # a user's PATH lacks /usr/sbin


class Nginx:
    """A private nginx; `location` is the configuration of its only location."""

    host = "127.0.0.1"

    def __init__(self, place, workers, location, upstream=""):
        self.place = os.path.abspath(place)
        self.port = free_port()
        self.conf = NGINX_CONF.format(workers=workers, place=self.place, port=self.port,
                                      location=location, upstream=upstream)
        self.process = None

    def start(self):
        with open(f"{self.place}/nginx.conf", "w") as conf:
            conf.write(self.conf)
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", find_nginx(),
             "-p", self.place, "-c", f"{self.place}/nginx.conf", "-e", f"{self.place}/nginx.log"],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("nginx answers", lambda: is_taken(self.port))

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Service:
    """A client of a service, and optionally the process of `seckill serve` on 127.0.0.1."""

    def __init__(self, program, port, env, log_path, host="127.0.0.1"):
        self.program = program
        self.host = host
        self.port = port
        self.env = dict(os.environ, SECKILL_LISTEN=f"127.0.0.1:{port}", **env)
        self.log_path = log_path
        self.process = None
        self.admin = None # a token, created on first use

    # -- the process

    def command(self, *arguments, check=True):
        return run(self.program, *arguments, env=self.env, check=check)

    def migrate(self, owner_url):
        """Run `seckill migrate` as the owner of the tables; the service has another role."""
        run(self.program, "migrate", "--service-role", "seckill_service",
            env=dict(self.env, SECKILL_DATABASE_URL=owner_url))

    def launch(self):
        """Start the service. It stops when this process ends."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", self.program, "serve"], env=self.env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)

    def start(self):
        """Start the service and wait until it is ready."""
        self.launch()
        wait_for("the service is ready", self.is_ready)

    def is_ready(self):
        if self.process.poll() is not None:
            with open(self.log_path, errors="replace") as log:
                last = "".join(log.readlines()[-5:])
            raise Failed(f"the service exited with code {self.process.returncode}:\n{last}")
        try:
            return all(self.call("GET", "/readyz")[0] == 200 for _ in range(PROBES))
        except (OSError, http.client.HTTPException):
            return False

    def stop(self):
        """Send SIGTERM and wait. Failed unless it exits with code 0."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed(f"the service did not stop within {STOP_WITHIN_S} s") from None
        finally:
            self.process = None
        if code != 0:
            raise Failed(f"the service exited with code {code}, see {self.log_path}")

    def rss_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            kib = [line.split()[1] for line in status if line.startswith("VmRSS:")]
        return int(kib[0]) / 1024

    # -- the interface of the service

    def call(self, method, path, token=None, body=None, headers=()):
        """Send a request. Returns the status and the body, parsed if it is JSON."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_WITHIN_S)
        headers = dict(headers, **({"Content-Type": "application/json"} if body is not None else {}))
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            client.request(method, path, json.dumps(body) if body is not None else None, headers)
            reply = client.getresponse()
            text = reply.read().decode()
        finally:
            client.close()
        is_json = "json" in reply.getheader("Content-Type", "")
        return reply.status, json.loads(text) if is_json else text

    def token(self, user, role="shopper"):
        return self.command("token", "--user", str(user), "--role", role).strip()

    def write_tokens(self, count, path):
        """Write the tokens of shoppers 1..count, one per line."""
        with open(path, "wb") as out:
            subprocess.run([self.program, "token", "--user", "1", "--count", str(count)],
                           env=self.env, stdout=out, check=True)

    def create_voucher(self, title, stock, begin_in_s=-60, end_in_s=86400, limit=1, admission="first_come"):
        self.admin = self.admin or self.token(1, "admin")
        status, voucher = self.call(
            "POST", "/v1/vouchers", self.admin,
            {"title": title, "price_cents": 900, "face_value_cents": 10000, "stock": stock,
             "per_user_limit": limit, "begin_at": moment(begin_in_s), "end_at": moment(end_in_s),
             "admission": admission, "pay_within_s": 86400}) # no order expires during a benchmark
        if status != 201:
            raise Failed(f"cannot create a voucher: {status} {voucher}")
        wait_for("the voucher is known", lambda: self.is_known(voucher["id"]))
        return voucher["id"]

    def is_known(self, voucher):
        """Whether all event loops know the voucher."""
        return all(self.call("POST", f"/v1/vouchers/{voucher}/orders")[0] != 404
                   for _ in range(PROBES))

    def metrics(self, name):
        """The labels, as text, and the value of each line of a metric."""
        lines = []
        for line in self.call("GET", "/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            if head == name or head.startswith(name + "{"):
                lines.append((head[len(name):], float(value)))
        return lines

    def placed(self):
        return sum(value for labels, value in self.metrics("seckill_orders_total")
                   if 'outcome="placed"' in labels)

    def is_idle(self):
        """Whether no order is in flight and this is the only connection."""
        return (sum(value for _, value in self.metrics("seckill_in_flight")) == 0
                and sum(value for _, value in self.metrics("seckill_connections")) == 1)

    def server_errors(self):
        return sum(value for labels, value in self.metrics("seckill_http_requests_total")
                   if 'status="5' in labels)


def sql(url, statement):
    """Run statements. Returns the columns of the last one's only row as text."""
    return run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", "|", "-c", statement, url).strip().split("|")


def rows(url, statement):
    """The columns of each row as text."""
    return [line.split("|") for line in run(
        "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", "|", "-c", statement, url).splitlines()]


def configure(url, name, value):
    sql(url, f"alter system set {name} = '{value}'")
    sql(url, "select pg_reload_conf()")


def new_secret():
    return secrets.token_hex(32)


SECRET = new_secret() # all instances accept the same tokens


def instance(program, log_path, database_url, redis_url, **settings):
    """An instance without limits of rate."""
    return Service(program, free_port(), {
        "SECKILL_DATABASE_URL": database_url, "SECKILL_REDIS_URL": redis_url, "SECKILL_JWT_SECRET": SECRET,
        "SECKILL_WORKERS": "1", "SECKILL_RATE_PER_USER": "0", **settings}, log_path)


def read_tokens(path):
    with open(path) as lines:
        return lines.read().split()
