"""measure.py - runs the test programs to make the map of lines.py.

C: clang's counters of each region of a source, in files that are mapped into memory ("continuous
mode"), so that those of a service that a test kills are complete; gcov writes its counters at the
end of a process only. PL/pgSQL and Lua: a copy of the sources in which each statement logs its
line. A query logs its text. A function in plain SQL is executed by what names it."""

import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import changes
import sql
from lines import SOURCES, is_unit, numbers_of, ranges_of, sha
from tree import ROOT, binary_of, examples, test_programs

BUILD = ["CC=clang", "CFLAGS=-O1 -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation",
         "LDFLAGS=-fprofile-instr-generate"]
MARK = "mutants-line"
# The mark of an executed statement, query or script; not a mark in the text of a created function.
MARKED = re.compile(rb"(?:LOG:  |/\*|# )mutants-line ([\w./]+):(\d+)")
LONGEST_S = 900
TEMPLATE_SETTINGS = "log_statement = 'all'\nlog_error_verbosity = terse\n"


def marked(path, text):
    """The source with a log line before each statement."""
    module = changes.language_of(path)
    return module.marked(text, lambda line: f"{MARK} {path}:{line}") if hasattr(module, "marked") else text


def refresh(known, marked_tree, plain_tree, jobs):
    """Run each program whose entry in the map is not up to date."""
    present = test_programs()
    known.programs = {name: entry for name, entry in known.programs.items() if name in present}
    old = [name for name in present if not is_current(known.programs.get(name))]
    if old:
        run_all(old, known, marked_tree, plain_tree, jobs)
    add_whole_statements(known)
    add_plain_sql(known)
    add_rights(known)
    known.save()


def run_all(old, known, marked_tree, plain_tree, jobs):
    print(f"map: {len(old)} of {len(test_programs())} programs run", flush=True)
    marked_tree.sync(marked)
    marked_tree.make(*BUILD, "programs", jobs=jobs)
    prepare_template(marked_tree)
    with concurrent.futures.ThreadPoolExecutor(2 * jobs) as pool: # the tests wait most of their time
        for name, entry in pool.map(lambda name: (name, measure(name, marked_tree, plain_tree)), old):
            known.programs[name] = entry
            known.save()
            print(f"map: {name} {entry['seconds']:.1f} s {entry['failure'] or ''}", file=sys.stderr, flush=True)


def is_current(entry):
    return entry is not None and entry["failure"] is None and all(
        (ROOT / path).exists() and sha((ROOT / path).read_bytes()) == known for path, known in entry["files"].items())


# -- one program --

def measure(name, marked_tree, plain_tree):
    """Run a program in the marked tree, and if it fails there, also without the marks."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mutants."))
    folder.chmod(0o777) # the servers run as other users
    wrapper = folder / "bin/redis-server"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("redis-server")} "$@" --logfile {folder}/redis.$$.log\n')
    for path in (wrapper.parent, wrapper):
        path.chmod(0o755)
    data = f"{name.rpartition('/')[2]}.*"
    try:
        run = marked_tree.run(name, LONGEST_S, SECKILL_TEST_KEEP="1",
                              LLVM_PROFILE_FILE=f"{folder}/%c%p.profraw",
                              PATH=f"{wrapper.parent}:{os.environ['PATH']}")
        lines, names = lines_of_logs([*folder.glob("redis.*.log"),
                                      *(marked_tree.root / "var/it").glob(f"{data}/**/postgres*.log")])
        for path, numbers in lines_of_counters(folder, name, marked_tree).items():
            lines.setdefault(path, set()).update(numbers)
    finally:
        shutil.rmtree(folder)
        for file in (marked_tree.root / "var/it").glob(data):
            shutil.rmtree(file, ignore_errors=True)
    if not run.is_ok:
        run = plain_tree.run(name, LONGEST_S)
    ours = [path for path in lines if path.startswith(("app/", "lib/", "sql/")) and (ROOT / path).exists()]
    return {"seconds": round(run.seconds, 2), "failure": None if run.is_ok else run.failure()[0],
            "files": {path: keep(path) for path in ours}, "lines": {path: ranges_of(lines[path]) for path in ours},
            "names": sorted(names)}


def keep(path):
    """Keep the text of a file. Returns its checksum."""
    content = (ROOT / path).read_bytes()
    SOURCES.mkdir(exist_ok=True)
    (SOURCES / sha(content)).write_bytes(content)
    return sha(content)


def prepare_template(tree):
    """Let the Postgres of each test log all statements."""
    version = max(int(folder.name) for folder in pathlib.Path("/usr/lib/postgresql").iterdir())
    template = tree.root / f"var/template-{version}"
    if not template.exists():
        template.parent.mkdir(exist_ok=True)
        for verb in ("up", "down"):
            subprocess.run(["load/servers.sh", verb, f"{template}.new"], cwd=tree.root, check=True, capture_output=True)
        with open(f"{template}.new/postgres/postgresql.auto.conf", "a") as settings:
            settings.write(TEMPLATE_SETTINGS)
        os.rename(f"{template}.new", template)


def lines_of_logs(logs):
    """({path: lines} of the marks, names of SQL functions in statements)"""
    lines, names = {}, set()
    functions = {pathlib.Path(path).stem for path in names_used() if "/functions/" in path}
    queries = {pathlib.Path(path).stem for path in names_used()} - functions
    called = any_of(functions)
    prepared = any_of(queries) # a test prepares a query by its name
    for log in logs:
        for entry in entries(log):
            for path, number in MARKED.findall(entry):
                lines.setdefault(path.decode(), set()).add(int(number))
            if b"create or replace function" not in entry and b"LOG:  mutants-line" not in entry:
                names.update(name.decode() for name in called.findall(entry))
                if b"select prepare(" in entry:
                    names.update(name.decode() for name in prepared.findall(entry))
    return lines, names


def any_of(names):
    return re.compile(rf"\b({'|'.join(sorted(names))})\b".encode())


def entries(log):
    """The entries of a log. The second and later lines of a Postgres entry begin with a tab."""
    entry = b""
    with open(log, "rb") as file:
        for line in file:
            if not line.startswith(b"\t"):
                yield entry
                entry = b""
            entry += line
    yield entry


def lines_of_counters(folder, name, tree):
    """{path: lines} of C."""
    merged = folder / "merged"
    tool("llvm-profdata", "merge", "--failure-mode=all", "-sparse", "-o", str(merged), *map(str, folder.glob("*.profraw")))
    objects = [f"build/{binary_of(name)}"]
    if name.startswith("app/") and not is_unit(name):
        objects.append("build/seckill")
    if name.endswith("/it_examples"):
        objects += [f"build/{each}" for each in examples()]
    exported = tool("llvm-cov", "export", "-format=lcov", f"-instr-profile={merged}", objects[0],
                    *(f"-object={each}" for each in objects[1:]), cwd=tree.root)
    lines, path = {}, None
    for line in exported.splitlines():
        if line.startswith("SF:"):
            path = line[3:].removeprefix(f"{tree.root}/")
        elif line.startswith("DA:") and not line.endswith(",0"):
            lines.setdefault(path, set()).add(int(line[3:].split(",")[0]))
    return lines


def tool(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]}: {done.stderr[-1000:]}")
    return done.stdout


# -- what is executed beside the marked lines --

def add_whole_statements(known):
    """Add the other lines of each executed statement, and the declarations before the first statement."""
    for path in sorted({path for entry in known.programs.values() for path in entry["lines"]}):
        module = changes.language_of(path)
        if not hasattr(module, "starts"):
            continue
        text = (ROOT / path).read_text()
        firsts = [1] + sorted({text.count("\n", 0, start) + 1 for start in module.starts(text)})[1:]
        ends = firsts[1:] + [text.count("\n") + 2]
        first_marked = text.count("\n", 0, min(module.starts(text), default=0)) + 1
        for entry in known.programs.values():
            marks = set(numbers_of(entry["lines"].get(path, "")))
            for first, end in zip(firsts, ends):
                if first in marks or first == 1 and first_marked in marks:
                    marks |= set(range(first, end))
            if marks:
                entry["lines"][path] = ranges_of(marks)


@functools.cache
def names_used():
    """{path of a function or query: the names in it}"""
    return {str(file.relative_to(ROOT)): sql.names_of(file.read_text())
            for folder in ("functions", "queries") for file in (ROOT / "sql" / folder).glob("*.sql")}


def add_plain_sql(known):
    """Add all lines of each executed query, and of each executed function that is not PL/pgSQL."""
    for path in names_used():
        text = (ROOT / path).read_text()
        if "language plpgsql" in text:
            continue
        for name in programs_of(known, pathlib.Path(path).stem, {path}):
            known.programs[name]["lines"][path] = f"0-{text.count(chr(10)) + 1}"
            known.programs[name]["files"][path] = keep(path)


def add_rights(known):
    """Add the lines outside of the body of a function for each program that applies the schema."""
    for path in names_used():
        text = (ROOT / path).read_text()
        if "$$" not in text:
            continue
        body = range(*(text.count("\n", 0, at) + 1 for at in (text.find("$$"), text.rfind("$$") + 1)))
        outside = set(range(1, text.count("\n") + 2)) - set(body)
        for entry in known.programs.values():
            if "sql/queries/begin_migration.sql" in entry["lines"]:
                entry["lines"][path] = ranges_of(outside | set(numbers_of(entry["lines"].get(path, ""))))


def programs_of(known, name, seen):
    """The programs that execute a query or call a function, directly or through another function or query."""
    found = {program for program, entry in known.programs.items()
             if name in entry["names"] or 0 in numbers_of(entry["lines"].get(f"sql/queries/{name}.sql", ""))}
    for path, names in names_used().items():
        if name in names and path not in seen:
            seen.add(path)
            found |= {program for program, entry in known.programs.items() if path in entry["lines"]}
            if "language plpgsql" not in (ROOT / path).read_text():
                found |= programs_of(known, pathlib.Path(path).stem, seen)
    return found
