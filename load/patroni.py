"""patroni.py - two Postgres servers under Patroni, with a synchronous standby.

Patroni keeps its state in Raft. A third process, which has no data, gives Raft a majority without
either server. All of them end with this process. Postgres refuses root, so as root they run as the
user postgres, whose files must be in a directory that this user can reach."""

import glob
import http.client
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile

import harness

ANSWER_S = 30
USER = ["--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
# After the loss of a machine the standby waits for `ttl` seconds, of which Patroni 4 accepts no fewer.
SETTINGS = {"ttl": 20, "loop_wait": 1, "retry_timeout": 3, "synchronous_mode": True,
            "primary_start_timeout": 0, # fail over rather than restart
            "postgresql": {"use_pg_rewind": True, "parameters": {"jit": "off"}}}


def postgres_bin():
    """The directory of the programs of the newest Postgres."""
    return max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2]))


def free_port():
    """A port below 32768: the kernel never uses such a port for an outgoing connection."""
    while harness.is_taken(port := random.randrange(20000, 32000)):
        pass
    return port


def with_children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [pid] + [int(child) for child in children.read().split()]
    except OSError: # it has ended
        return []


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def give(*paths):
    """Give files to the user of Postgres."""
    for path in paths if USER else ():
        shutil.chown(path, "postgres")


class Raft:
    """A process that only takes part in Raft."""
    program = "patroni_raft_controller"

    def __init__(self, name, cluster):
        self.name, self.cluster = name, cluster
        self.directory = f"{cluster.directory}/{name}"
        self.raft_port = free_port()
        self.process = None

    def settings(self):
        others = [f"127.0.0.1:{each.raft_port}" for each in self.cluster.members if each is not self]
        return {"scope": "seckill", "name": self.name, "raft": {
            "data_dir": f"{self.directory}/raft", "self_addr": f"127.0.0.1:{self.raft_port}", "partner_addrs": others}}

    def start(self):
        os.makedirs(self.directory, 0o700, exist_ok=True)
        config = f"{self.directory}/config.json" # JSON is YAML
        harness.write_json(config, self.settings())
        give(self.directory, config)
        with open(f"{self.cluster.logs}/{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", *USER, "--", "setpriv", "--pdeathsig", "TERM", "--", self.program, config],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)

    def kill_all(self):
        """Kill all processes, as if the machine had died."""
        self.process.kill()
        self.process.wait()


class Member(Raft):
    """Patroni and its Postgres server."""
    program = "patroni"

    def __init__(self, name, cluster):
        super().__init__(name, cluster)
        self.port, self.rest_port = free_port(), free_port()
        self.data = f"{self.directory}/data"
        self.url = f"postgresql://postgres:{cluster.password}@127.0.0.1:{self.port}/"

    def settings(self):
        login = {"username": "postgres", "password": self.cluster.password}
        rest, server = f"127.0.0.1:{self.rest_port}", f"127.0.0.1:{self.port}"
        return dict(
            super().settings(),
            restapi={"listen": rest, "connect_address": rest},
            bootstrap={"dcs": self.cluster.settings, "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}]},
            postgresql={
                "listen": server, "connect_address": server, "data_dir": self.data, "bin_dir": postgres_bin(),
                "pgpass": f"{self.directory}/pgpass", "authentication": {"superuser": login, "replication": login},
                "basebackup": [{"checkpoint": "fast"}], "parameters": {"unix_socket_directories": self.directory},
                "pg_hba": [f"host {what} all 127.0.0.1/32 scram-sha-256" for what in ("all", "replication")]})

    # -- Patroni

    def status(self, path):
        """The HTTP status of Patroni's answer; 0 if there is none."""
        return harness.http_status("127.0.0.1", self.rest_port, path, ANSWER_S)

    def is_primary(self):
        return self.status("/primary") == 200

    def is_synchronous(self):
        """Whether this member is the synchronous standby, which may be promoted."""
        return self.status("/synchronous") == 200

    def switch_over_to(self, standby):
        """Request a switchover. Returns a function that waits until it is done."""
        client = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=harness.ANSWER_WITHIN_S)
        client.request("POST", "/switchover", json.dumps({"leader": self.name, "candidate": standby.name}))

        def await_answer():
            reply = client.getresponse()
            text = reply.read().decode()
            client.close()
            if reply.status != 200:
                raise harness.Failed(f"Patroni did not switch over: {reply.status} {text}")
        return await_answer

    # -- faults

    def server_processes(self):
        try:
            with open(f"{self.data}/postmaster.pid") as file:
                pid = int(file.readline())
            return with_children(pid) if os.path.samefile(f"/proc/{pid}/cwd", self.data) else []
        except OSError:
            return []

    def signal_server(self, number):
        """Send a signal to all processes of the server. The main process is stopped first, so it starts no others."""
        for pid in self.server_processes()[:1]:
            send(pid, signal.SIGSTOP)
        for pid in reversed(self.server_processes()):
            send(pid, number)

    def kill_all(self):
        super().kill_all()
        self.signal_server(signal.SIGKILL)

    def pause_all(self):
        """Pause Patroni and the server, as if the machine were cut off."""
        self.process.send_signal(signal.SIGSTOP)
        self.signal_server(signal.SIGSTOP)

    def resume_all(self):
        self.signal_server(signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def is_promoted(self):
        """Whether the server accepts writes."""
        return harness.run("psql", "-XAtqc", "select pg_is_in_recovery()", self.url, check=False).strip() == "f"


class Cluster:
    """`logs`: a directory for the logs."""

    def __init__(self, logs, stack, settings=SETTINGS):
        self.logs, self.settings = logs, settings
        self.password = secrets.token_hex(16)
        self.directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="patroni."))
        os.chmod(self.directory, 0o755)
        self.servers = [Member("db1", self), Member("db2", self)]
        self.members = self.servers + [Raft("witness", self)]
        for each in self.members:
            each.start()
            stack.callback(each.kill_all)
        primary, _ = self.await_pair()
        harness.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", # returns when the standby has the changes
                    "-c", "set synchronous_commit = remote_apply",
                    "-c", f"create role seckill login password '{self.password}'",
                    "-c", f"create role seckill_service login password '{self.password}' role seckill",
                    "-c", "create database seckill owner seckill", primary.url)

    def await_pair(self):
        """Wait until a standby may be promoted. Returns the primary and the standby."""
        primary, standby = self.servers
        def is_pair():
            nonlocal primary, standby
            if not primary.is_primary():
                primary, standby = standby, primary
                return False
            return standby.is_synchronous()
        harness.wait_for("the pair is complete", is_pair, harness.ANSWER_WITHIN_S)
        return primary, standby

    def database_url(self, user, *servers):
        """The URL with all servers, or with these."""
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in servers or self.servers)
        return f"postgresql://{user}:{self.password}@{hosts}/seckill"
