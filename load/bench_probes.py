#!/usr/bin/env -S python3 -B
"""bench_probes.py PROGRAM WITHOUT - what the USDT probes cost while no tool is attached.

WITHOUT is the same program built without them. Both refuse shoppers of a voucher that is sold out and
sell another one, with one event loop: under valgrind, which counts the instructions of a request, and
at the full rate, in turns. Prints both and writes var/bench/probes.json.

  BENCH_SECONDS=5  of each rate     BENCH_ROUNDS=5     BENCH_PLACE=var/bench"""

import contextlib
import http.client
import os
import re
import statistics
import subprocess
import sys

import deploy
import harness

PLACE = os.environ.get("BENCH_PLACE", "var/bench")
SECONDS = int(os.environ.get("BENCH_SECONDS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
TOKENS = 400_000
WARM_UP, COUNTED = 50, {"refusals": 2000, "orders": 600} # requests under valgrind
PROBES = ("with", "without")


def count_probes(program):
    return harness.run("readelf", "-n", program).count("Provider: seckill")


class Counted(harness.Service):
    """A service under valgrind."""

    def launch(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "valgrind", "--tool=callgrind",
                 f"--callgrind-out-file={PLACE}/probes.callgrind", self.program, "serve"],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)

    def instructions(self, voucher, tokens, count):
        """Instructions from start to end of the service, with this number of requests on one connection."""
        self.start()
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.ANSWER_WITHIN_S)
        for _ in range(WARM_UP + count):
            client.request("POST", f"/v1/vouchers/{voucher}/orders", headers={"Authorization": f"Bearer {next(tokens)}"})
            client.getresponse().read()
        client.close()
        self.stop()
        with open(f"{PLACE}/probes.callgrind") as file:
            return int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M)[1])


def instructions(programs, deployment, vouchers, tokens):
    """Instructions per request: the difference between a run with requests and a run without."""
    env = {name: value for name, value in deployment.service.env.items()
           if name.startswith("SECKILL_") and name != "SECKILL_LISTEN"}
    env["SECKILL_ORDER_TIMEOUT_MS"] = "60000"
    found = {}
    for kind, count in COUNTED.items():
        found[kind] = {}
        for probes in PROBES:
            service = Counted(programs[probes], harness.free_port(), env, f"{PLACE}/probes.log")
            few, many = (service.instructions(vouchers[kind], tokens, number) for number in (0, count))
            found[kind][probes] = round((many - few) / count)
        found[kind]["ratio"] = round(found[kind]["with"] / found[kind]["without"], 4)
        print(f"instructions, {kind}: {found[kind]}", flush=True)
    return found


def rates(deployments):
    """Requests per second of each program, measured in turns."""
    found = {kind: {probes: [] for probes in PROBES} for kind in COUNTED}
    for number in range(ROUNDS):
        for probes in PROBES if number % 2 == 0 else reversed(PROBES):
            deployment = deployments[probes]
            deployment.empty()
            vouchers = {"refusals": deploy.sold_out(deployment), "orders": deployment.service.create_voucher("sale", deploy.STOCK)}
            for kind, voucher in vouchers.items():
                report = deployment.measure(SECONDS, [voucher], TOKENS, sells=kind == "orders")
                found[kind][probes].append(round(report["requests"] / report["seconds"]))
    for kind, each in found.items():
        each["ratio"] = round(statistics.median(a / b for a, b in zip(each["with"], each["without"])), 3)
        print(f"per second, {kind}: {each}", flush=True)
    return found


def run(programs, stack):
    os.makedirs(PLACE, exist_ok=True)
    deploy.raise_file_limit(deploy.CONNECTIONS)
    counts = {probes: count_probes(program) for probes, program in programs.items()}
    if counts["with"] == 0 or counts["without"] > 0:
        raise harness.Failed(f"probes in the programs: {counts}; Debian's package systemtap-sdt-dev is needed")
    servers = harness.Servers(f"{PLACE}/probes")
    stack.callback(servers.down)
    servers.up()
    secret = harness.new_secret()
    deployments = {probes: deploy.Deployment(program, servers, secret, PLACE, f"probes_{probes}", stack, workers=1)
                   for probes, program in programs.items()}
    deployment = deployments["with"]
    print(deploy.machine(), deploy.durability(deployment), flush=True)
    deployment.service.write_tokens(TOKENS, f"{PLACE}/tokens")
    with open(f"{PLACE}/tokens") as lines:
        tokens = map(str.strip, lines)
        vouchers = {"refusals": deploy.sold_out(deployment), "orders": deployment.service.create_voucher("sale", deploy.STOCK)}
        counted = instructions(programs, deployment, vouchers, tokens)
    harness.write_json(f"{PLACE}/probes.json", {"instructions": counted, "per_second": rates(deployments)})


def main(program, without):
    with contextlib.ExitStack() as stack:
        run({"with": os.path.abspath(program), "without": os.path.abspath(without)}, stack)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except harness.Failed as failed:
        sys.exit(f"bench_probes.py: {failed}")
