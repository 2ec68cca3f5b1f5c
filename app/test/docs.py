#!/usr/bin/python3 -B
"""docs.py PROGRAM - checks that the documents are true.

Each block ```sh of a document runs. All blocks of a document run in one shell, in their order,
as a reader would run them beside `make run`; `build`, `var/run` and the port are replaced by
those of this test. If a block ```text or ```json follows, the output must match it. Times,
tokens and long numbers may differ, but equal numbers in a document must be equal in the output.
`...` matches anything. A block that cannot run here is preceded by `<!-- not run: WHY -->`.

Every file, function, make target, setting and link in the documents must exist. Their tables
must match the program and its sources.

Prints a line for each test, which .ci/check.sh counts."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../..")
sys.path.insert(0, f"{ROOT}/load")

import harness # noqa: E402

PLACE = "var/it/docs"
MONITORING = "docker/monitoring"
OPERATOR, INTEGRATOR, DEVELOPER, SECURITY = (
    f"app/docs/{name}.md" for name in ("operator", "integrator", "developer", "security"))
DOCS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", OPERATOR, INTEGRATOR, DEVELOPER, SECURITY,
        "app/docs/architecture.md", "app/docs/benchmarks.md", "app/docs/scaling.md", "sql/README.md",
        "load/README.md", "lib/README.md", "lib/lessons.md", "app/test/sim/README.md")
MAKEFILES = ("Makefile", "lib/library.mk")
# For each chapter of ASVS 5.0: how many requirements of levels 1 and 2 each of its sections has.
ASVS = ((2, 9, 11, 3, 2), (3, 3, 4, 1), (0, 2, 4, 6, 5, 0, 2), (3, 1, 2, 4), (1, 3, 2, 3), (3, 12, 4, 4, 5, 3, 0, 4),
        (3, 4, 2, 5, 2, 2), (2, 3, 1, 1), (3, 4), (2, 2, 4, 11, 5, 2, 3), (2, 3, 3, 4, 1, 1), (3, 2, 4), (1, 5, 2, 5),
        (2, 4, 3), (3, 3, 7), (1, 5, 4, 3, 3), (1, 4, 2))
NOT_IN_CONTRACT = {"POST /v1/dev/token", "GET /web/{name}"}
FOREIGN = {"archive_command", "archive_mode", "synchronous_standby_names", "wal_compression", # of Postgres
           "max_slot_wal_keep_size", "pg_drop_replication_slot", "pg_replication_slots", "synchronized_standby_slots",
           "wal_sender_timeout", "pg_blocking_pids", "synchronous_mode_strict", # the last of Patroni
           "max_prepared_statements"}                     # of PgBouncer
SESSION_WITHIN_S = 600
SHOWN = ("text", "json")
LANGUAGES = ("sh", "yaml", "nginx", "haproxy", "properties", "c", "python", "go", *SHOWN) # app/test/contract runs python and go
MARK = "=== next block"

# Values that differ from run to run.
KINDS = {"time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "token": r"eyJ[\w-]+\.[\w-]+\.[\w-]+",
         "hex": r"\b[0-9a-f]{16,}\b", "ticket": r"(?<![\w-])[\w-]{32}(?![\w-])", "number": r"\b\d{6,}\b"}
VARIABLE = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()) + r"|(?P<any>\.\.\.)")


def read(path):
    with open(f"{ROOT}/{path}") as file:
        return file.read()


def read_all(*patterns):
    paths = (path for pattern in patterns for path in glob.glob(f"{ROOT}/{pattern}", recursive=True))
    return "".join(read(os.path.relpath(path, ROOT)) for path in paths if path != os.path.abspath(__file__))


def check(condition, message):
    if not condition:
        raise harness.Failed(message)


def check_same(documented, actual, what):
    """Check that two sets are equal."""
    check(documented and actual, f"{what}: nothing found")
    check(documented == actual, f"{what}: documented but absent: {sorted(documented - actual)}; "
          f"not documented: {sorted(actual - documented)}")


# -- documents --


class Block:
    def __init__(self, place, language, text, reason):
        self.place, self.language, self.text, self.reason = place, language, text, reason
        self.shown = None # the block that shows the expected output


def find_blocks(path):
    """The fenced blocks of a document. Each block ```sh has its expected output."""
    blocks, opened, reason, lines = [], None, None, []
    for number, line in enumerate(read(path).splitlines(), 1):
        if line.startswith("```") and opened is None:
            opened, lines = (f"{path}:{number}", line[3:]), []
            check(line[3:] in LANGUAGES, f"{path}:{number}: unknown block language '{line[3:]}'")
        elif line == "```":
            blocks.append(Block(*opened, "\n".join(lines) + "\n", reason))
            opened = reason = None
        elif opened:
            lines.append(line)
        elif line.startswith("    ") and re.match(r" +((make|curl|seckill|\$) |(build|load)/\w)", line):
            raise harness.Failed(f"{path}:{number}: a command outside of a block ```sh")
        elif line:
            found = re.fullmatch(r"<!-- not run: (.+) -->", line)
            reason = found and found[1]
    for block, after in zip(blocks, blocks[1:]):
        if block.language == "sh" and after.language in SHOWN:
            block.shown = after
    return blocks


def section(path, heading):
    """The text below a heading, up to the next heading of the same level."""
    found = re.search(rf"^(##+) {re.escape(heading)}$(.*?)(?=^\1 |\Z)", read(path), re.M | re.S)
    check(found, f"{path}: no section '{heading}'")
    return found[2]


def first_cells(text):
    """The names in backquotes in the first column of the tables."""
    return {name for row in re.findall(r"^\| *(`[^|]*) \|", text, re.M) for name in re.findall(r"`([^`]+)`", row)}


# -- running --


class Answers:
    """Compares output with the documents. Remembers which number in the output stands for which
    number in the document."""

    def __init__(self):
        self.known = {}

    def pattern(self, shown):
        """A regular expression for a block, and the names of the groups that match new numbers."""
        parts, names, end = [], {}, 0
        for found in VARIABLE.finditer(shown):
            parts.append(re.escape(shown[end:found.start()]))
            end, kind, text = found.end(), found.lastgroup, found[0]
            if kind == "any":
                parts.append("(?s:.*?)")
            elif kind == "time": # not remembered: two times may be equal by chance
                parts.append(KINDS[kind])
            elif text in self.known:
                parts.append(re.escape(self.known[text]))
            elif text in names:
                parts.append(f"(?P={names[text]})")
            else:
                names[text] = f"v{len(names)}"
                parts.append(f"(?P<{names[text]}>{KINDS[kind]})")
        return "".join(parts) + re.escape(shown[end:]), names

    def compare(self, block, printed):
        shown = block.shown.text
        if block.shown.language == "json":
            shown, printed = plain_json(block.shown.place, shown), plain_json(block.place, printed)
        pattern, names = self.pattern(shown.strip())
        found = re.fullmatch(pattern, printed.strip())
        check(found, f"{block.place}: printed\n{printed}\n{block.shown.place}: expected\n{shown}")
        self.known.update((text, found[name]) for text, name in names.items())
        check(len(set(self.known.values())) == len(self.known), f"{block.place}: two numbers of the document became one")


def plain_json(place, text):
    """Print each JSON value on a line of its own, without spaces."""
    values, rest = [], text.strip()
    while rest:
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except ValueError as failure:
            raise harness.Failed(f"{place}: not JSON ({failure}):\n{text}") from None
        values.append(json.dumps(value, ensure_ascii=False))
        rest = rest[end:].lstrip()
    return "\n".join(values)


class World:
    """Starts the same servers and service as `make run`, and writes the files `PLACE/env` and
    `PLACE/jwt_secret`."""

    def __init__(self, program, stack):
        self.program = program
        self.build = os.path.relpath(os.path.dirname(program), ROOT)
        servers = harness.Servers(PLACE)
        if os.path.isdir(PLACE):
            servers.down()
            shutil.rmtree(PLACE)
        stack.callback(servers.down)
        servers.up()
        secret = f"{PLACE}/jwt_secret"
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
            out.write(harness.new_secret())
        self.service = harness.Service(program, harness.free_port(), {
            "SECKILL_DATABASE_URL": servers.env["SECKILL_DATABASE_URL"],
            "SECKILL_REDIS_URL": servers.env["SECKILL_REDIS_URL"], "SECKILL_WORKERS": "2",
            "SECKILL_JWT_SECRET_FILE": secret, "SECKILL_TICKET_SECRET_FILE": secret,
            "SECKILL_DEV_LOGIN": "1", "SECKILL_ORDER_TIMEOUT_MS": "60000"}, f"{PLACE}/seckill.log")
        self.service.migrate(servers.env["PG_OWNER_URL"])
        stack.callback(self.service.stop)
        self.service.start()

    def here(self, text):
        """Replace the paths and the port in a text by those of this test."""
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.service.port}").replace("var/run", PLACE)
        return re.sub(r"\bbuild/", f"{self.build}/", text)

    def run(self, blocks):
        """Run all blocks in one shell. Returns the output of each block."""
        script = "set -euo pipefail\n" + "".join(
            f"echo; echo '{MARK}'\n{self.here(block.text)}" for block in blocks)
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("SECKILL_", "MAKE", "MFLAGS", "PG", "RESULTS"))}
        env.update(PATH=f"{os.path.dirname(self.program)}:{env['PATH']}", LC_ALL="C.UTF-8")
        with tempfile.TemporaryFile("w+") as out:
            shell = subprocess.Popen(["bash", "-c", script], env=env, cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=out, start_new_session=True)
            try:
                code = shell.wait(SESSION_WITHIN_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGTERM) # background jobs of the blocks
                shell.wait()
            out.seek(0)
            printed = out.read().split(f"\n{MARK}\n")[1:]
        check(code == 0, f"{blocks[len(printed) - 1].place}: exit code {code}\n{(printed or [''])[-1]}")
        return printed


def test_commands__print_what_the_document_shows(world, path):
    blocks = [block for block in find_blocks(path) if block.language == "sh" and not block.reason]
    answers = Answers()
    for block, printed in zip(blocks, world.run(blocks) if blocks else []):
        if block.shown:
            block.shown.text = world.here(block.shown.text)
            answers.compare(block, printed)


def test_code__is_part_of_an_example(_world, path):
    examples = read_all("lib/examples/*.[ch]", "lib/man/*.[1-9]", "lib/test/naive.c").replace(r"\e", "\\")
    for block in find_blocks(path):
        check(block.language != "c" or block.text in examples, f"{block.place}: not in an example or in naive.c")


# -- names exist --


def test_commands__name_make_targets_and_units_that_exist(_world, path):
    commands = "\n".join([block.text for block in find_blocks(path) if block.language == "sh"] +
                         re.findall(r"`([^`\n]+)`", read(path)))
    targets = {name for line in re.findall(r"^([\w./ -]+):(?!=)", read_all(*MAKEFILES), re.M) for name in line.split()}
    for name in re.findall(r"\bmake (?:[A-Z]\w*=\S* )*([a-z][a-z-]*)\b(?![/=])", commands):
        check(name in targets, f"{path}: make {name}: no such target")
    for name in re.findall(r"systemctl \w+ (?:--\w+ )*(\w+)", commands):
        check(os.path.exists(f"{ROOT}/app/install/{name}.service"), f"{path}: no unit {name}")


def test_files__exist(_world, path):
    """Each file must be in the repository. A program in build/ must have a source or a rule."""
    text = read(path)
    for name in re.findall(r"(?<![\w/.@:-])((?:\.ci|app|load|lib|sql|docker)/[\w./-]*[\w/])", text):
        check(glob.glob(f"{ROOT}/{re.sub('[A-Z]{4,}', '*', name)}*"), f"{path}: {name}: no such file")
    for name in re.findall(r"(?<![\w/.])build/(?:address/|thread/)?((?:app|lib)/[\w/]+)", text):
        check(os.path.exists(f"{ROOT}/{name}.c"), f"{path}: build/{name}: no such program")
    for name in re.findall(r"(?<![\w/.=])build/(\w+)(?![\w/])", text):
        check(f"$(BUILD)/{name}" in read_all(*MAKEFILES), f"{path}: build/{name}: no such program")


def test_names__exist(_world, path):
    """Functions, and names in backquotes with an underscore, must be in the sources. NN stands
    for a number."""
    suffixes = ("c", "h", "py", "sh", "sql", "lua", "js", "yaml", "service", "pml")
    words = set(re.findall(r"\w+", read_all(
        *MAKEFILES, *(f"{folder}/**/*.{suffix}" for folder in ("app", "lib", "sql", "load") for suffix in suffixes))))
    quoted = "\n".join(re.findall(r"`([^`\n]+)`", read(path)))
    names = set(re.findall(r"(?<![\w-])(?!NN)[A-Za-z]\w*_\w*\w(?![\w*])", quoted)) | set(re.findall(r"(\w+)\(\)", quoted))
    check(names <= words | FOREIGN, f"{path}: not in the sources: {sorted(names - words - FOREIGN)}")


def test_links__lead_to_files_and_headings(_world, path):
    prose = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        check(os.path.exists(f"{ROOT}/{os.path.dirname(path)}/{target}"), f"{path}: broken link to {target}")
    for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", read(path)):
        there = read(os.path.normpath(f"{os.path.dirname(path)}/{target}") if target else path)
        names = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", there, re.M)}
        check(heading in names, f"{path}: no heading #{heading} in {target or path}")


# -- tables match the program --


def test_metrics__are_those_of_the_service(world):
    live = world.service.call("GET", "/metrics")[1]
    documented = {tuple(row) for row in re.findall(r"^\| `(seckill_\w+)[^`]*` \| (\w+) \|", section(OPERATOR, "Metrics"), re.M)}
    check_same(documented, set(re.findall(r"^# TYPE (\w+) (\w+)$", live, re.M)), "metrics")


def test_manual__is_without_a_complaint_of_mandoc(world):
    page = harness.run(f"{ROOT}/app/install/manual.sh", world.program, read("VERSION").strip())
    lint = subprocess.run(["mandoc", "-T", "lint"], input=page, capture_output=True, text=True, check=False)
    check(lint.stdout + lint.stderr == "", lint.stdout + lint.stderr)


def test_alerts__are_those_of_the_rules(_world):
    rules = read_all(f"{MONITORING}/alerts/*.yaml")
    documented = re.findall(r"^\| `(Seckill\w+)` \| (\w+) \|", section(OPERATOR, "Alerts"), re.M)
    check_same(set(documented), set(re.findall(r"- alert: (\w+)[^-]*?severity: (\w+)", rules)), "alerts")


def test_monitoring__uses_metrics_and_labels_that_exist(world):
    live = world.service.call("GET", "/metrics")[1]
    text = read_all(f"{MONITORING}/**/*.yaml", f"{MONITORING}/**/*.json").replace('\\"', '"')
    for name in set(re.findall(r"\bseckill_\w+", text)):
        # Metrics of endpoints of webhooks have a type, but no values, because there is no endpoint.
        check(re.search(rf"^(# TYPE )?{name}[{{ ]", live, re.M), f"{MONITORING} uses {name}, which does not exist")
    labels = re.findall(r'\b(outcome|stage|dependency|level)!?=~?"([^"]+)"', text)
    check(labels, "no labels found")
    for label, values in labels:
        for value in values.split("|"):
            check(f'{label}="{value}"' in live, f"{MONITORING} uses {label}={value}, which does not exist")


def test_grafana__finds_what_it_is_told_to_load(_world):
    """Compares only the files, because no test runs Grafana: official images are not available
    everywhere."""
    compose = read("docker/compose.yaml")
    mounts = {inside: f"docker/{outside}" for outside, inside in re.findall(r"- \./(monitoring/[\w/]+):([\w/]+):ro", compose)}
    home = re.search(r"HOME_DASHBOARD_PATH: (\S+)", compose)[1]
    check(os.path.exists(f"{ROOT}/{mounts.get(os.path.dirname(home))}/{os.path.basename(home)}"), f"compose.yaml: no {home}")
    for path in re.findall(r"path: ([\w/]+)", read_all(f"{MONITORING}/grafana/dashboards/*.yaml")):
        check(path in mounts, f"{MONITORING}/grafana: {path} is not mounted")
    for kind in ("dashboards", "datasources"):
        check(os.path.exists(f"{ROOT}/{mounts['/etc/grafana/provisioning']}/{kind}"), f"no {kind} to provision")
    for service in re.findall(r"url: http://(\w+):", read_all(f"{MONITORING}/grafana/datasources/*.yaml")):
        check(f"\n  {service}:\n" in compose, f"compose.yaml: no service {service}")


def test_problems__name_sections_of_the_guide(_world):
    """The dashboard reports problems with links to sections of the guide. The sections must
    exist."""
    sections = set(re.findall(r"\badd\(.*, '([\w-]+)'\)", read("app/web/problems.js")))
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", read(OPERATOR), re.M)}
    check(sections and sections <= headings, f"problems.js: not in the guide: {sections - headings}")


def test_events__are_those_of_the_sources(_world):
    sources = read_all("app/[!t]*/*.c")
    check_same(first_cells(section(OPERATOR, "Logs")), set(re.findall(r'LOG_\w+,\s*"(\w+)"', sources)), "log events")


def test_codes__are_those_of_the_contract(_world):
    contract = re.search(r"code:\s+type: string\s+enum: \[([^\]]+)\]", read("app/api/openapi.yaml"))[1]
    codes = set(re.split(r",\s*", contract))
    sources = read("app/api/api_problem.h") + read("app/api/api_problem.c")
    in_sources = dict(map(reversed, re.findall(r'(?:X\(\w+, +|\.status = )(\d+),\s+(?:\.code = )?"(\w+)"', sources)))
    check_same(first_cells(section(INTEGRATOR, "Errors")), codes, "error codes")
    check_same(codes, set(in_sources), "error codes of openapi.yaml and of the sources")
    schemas = re.findall(r"status: \{type: integer, enum: \[(\d+)\]\},?\s+code: \{type: string, enum: \[(\w+)\]\}",
                         read("app/api/openapi.yaml"))
    check(schemas, "no schemas of errors found")
    for status, code in schemas:
        check(in_sources[code] == status, f"openapi.yaml: {code} with status {status}")


def test_functions__are_in_the_named_files(_world):
    """Each row names a function or array, and its file. The file must define it at the beginning
    of a line."""
    rows = re.findall(r"`(\w+)` \| ((?:app|lib|sql)\b[\w/.]*) \|", read(DEVELOPER))
    check(rows, "no functions found")
    for name, path in rows:
        source = read(path) if os.path.isfile(f"{ROOT}/{path}") else read_all(f"{path}/**/*.sql")
        check(re.search(rf"^[\w *#}}]*\b{name}[(\[]", source, re.M), f"{name} is not in {path}")
    tests = read_all("app/test/**/*.[ch]")
    for name in re.findall(r"`(test_[a-z]\w+__\w+)`", read(DEVELOPER)):
        check(re.search(rf"\({name}[,)]", tests), f"{name} does not run")


def test_requirements__are_complete_and_name_tests_that_run(_world):
    """Each row of security.md must be about one requirement or a range of requirements."""
    expected = [f"{chapter}.{section}.{number}" for chapter, counts in enumerate(ASVS, 1)
                for section, count in enumerate(counts, 1) for number in range(1, count + 1)]
    tests = read_all("app/test/**/*.[ch]", "lib/test/**/*.[ch]")
    scripts = read_all("app/test/web/*.py", "app/test/sql/*.sql")
    found = []
    for row in re.findall(r"^\| (\d[^|]*)\|(.*)\|$", read(SECURITY), re.M):
        first, _, last = row[0].strip().partition(" - ")
        title, met, where, named = (cell.strip() for cell in row[1].split("|"))
        check(first in expected and (last or first) in expected, f"{SECURITY}: {row[0]}: no such requirement")
        found += expected[expected.index(first):expected.index(last or first) + 1]
        check(title and where and met in ("yes", "part", "no", "-"), f"{SECURITY}: {first}: incomplete")
        for name in re.findall(r"\w+", named):
            check(re.search(rf"\({name}[,)]", tests) or re.search(rf"\n(def {name}\(|-- {name}\n)", scripts), f"{SECURITY}: {first}: {name} does not run")
    check(found == expected, f"{SECURITY}: not in order, missing or repeated: {set(expected) ^ set(found)}")


def test_routes__are_those_of_the_contract(_world):
    routes, path = set(), None
    for line in read("app/api/openapi.yaml").splitlines():
        if line.startswith("  /"):
            path = line.strip().rstrip(":")
        elif path and re.fullmatch(r"    (get|post|patch|put|delete):", line):
            routes.add(f"{line.strip(' :').upper()} {path}")
        elif line.startswith("components:"):
            break
    served = {f"{method} {path}" for method, path in
              re.findall(r'ROUTE\((\w+), +"(/[^"]*)"', read("app/api/api_routes.c"))}
    check_same(routes, served - NOT_IN_CONTRACT, "routes of openapi.yaml and of the sources")
    check_same(first_cells(section(INTEGRATOR, "All calls")), routes, "routes")


def test_operations__are_complete(_world):
    """Each operation must have what generators of clients need."""
    contract = read("app/api/openapi.yaml")
    found = re.search(r"^  version: (.+)$", contract, re.M)
    check(found[1] == read("VERSION").strip(), f"openapi.yaml has version {found[1]}")
    paths = re.search(r"^paths:$(.*?)^components:$", contract, re.M | re.S)[1]
    operations = re.split(r"^    (?=(?:get|post|patch|put|delete):$)", paths, flags=re.M)[1:]
    ids = []
    for text in operations:
        for field in ("operationId", "tags", "summary"):
            check(re.search(rf"^      {field}: ", text, re.M), f"no {field} in\n{text}")
        check(re.search(r"^        '4XX': ", text, re.M), f"no response 4XX in\n{text}")
        ids.append(re.search(r"operationId: (\w+)", text)[1])
    check(len(ids) == len(set(ids)), f"an operationId stands twice in {ids}")
    linked = set(re.findall(r"\boperationId: (\w+), parameters", contract))
    check(linked and linked <= set(ids), f"links to unknown operations: {sorted(linked - set(ids))}")


# -- run --

def main():
    program = os.path.abspath(sys.argv[1])
    os.chdir(ROOT)
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    of_each = [test for test in tests if "path" in test.__code__.co_varnames[:test.__code__.co_argcount]]
    with contextlib.ExitStack() as stack:
        world = World(program, stack)
        results = [harness.run_test(f"{test.__name__} ({path})", test, world, path) for path in DOCS for test in of_each]
        results += [harness.run_test(test.__name__, test, world) for test in tests if test not in of_each]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
