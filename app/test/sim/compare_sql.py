#!/usr/bin/python3 -B
"""compare_sql.py SECKILL SIMULATE - compares the model of sql/ in the simulator with Postgres.

The simulator prints random statements with the results of its model. The statements run in a
Postgres of this test, whose results must be the same."""

import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/../../../load")

import harness # noqa: E402

PLACE = "var/it/compare_sql"
SCRIPTS = 60


def results(url, statements):
    """Run the statements. Returns the result of each, as psql prints it."""
    script = "".join(f"{statement};\n\\echo ---\n" for statement in statements)
    done = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-F", "|", url], input=script,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise harness.Failed(done.stderr)
    return [text.strip("\n") for text in done.stdout.split("---\n")[:-1]]


def main(program, simulate):
    seed = int(time.time())
    with contextlib.ExitStack() as stack:
        servers = harness.Servers.start(PLACE, stack)
        harness.Service(program, 0, {}, None).migrate(servers.env["PG_OWNER_URL"])
        lines = harness.run(simulate, "sql", str(seed), str(SCRIPTS)).splitlines()
        expected = [line.split("\t") for line in lines]
        found = results(servers.env["PG_OWNER_URL"], [statement for statement, _ in expected])
    for at, ((statement, result), came) in enumerate(zip(expected, found, strict=True)):
        if came != result:
            before = "".join(f"{earlier}\n" for earlier, _ in expected[max(0, at - 5):at])
            print(f"seed {seed}:\n{before}{statement}\n  model:    {result}\n  postgres: {came}")
            return 1
    print(f"simulator: its model of sql/ agrees with Postgres in {len(found)} statements")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
