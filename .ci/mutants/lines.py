"""lines.py - the map in build/mutants/map.json: which test program executes which line, and its
usual time. measure.py makes it; this reads it, with nothing but Python's library.

The texts that were measured are kept in build/mutants/sources, by their checksum."""

import functools
import hashlib
import json

from tree import PLACE, SIMULATOR

FILE = PLACE / "map.json"
SOURCES = PLACE / "sources"


def sha(content):
    return hashlib.sha256(content).hexdigest()[:16]


def ranges_of(numbers):
    """[1, 2, 3, 7] as 1-3,7."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def numbers_of(ranges):
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


class Map:
    """programs: {name: {"seconds", "failure" or None, "files": {path: checksum}, "lines": {path: ranges},
    "names": functions that its statements name}}"""

    def __init__(self):
        self.programs = json.loads(FILE.read_text()) if FILE.exists() else {}

    def save(self):
        PLACE.mkdir(parents=True, exist_ok=True)
        temporary = FILE.with_suffix(".new")
        temporary.write_text(json.dumps(self.programs, indent=0, sort_keys=True))
        temporary.rename(FILE)

    def usable(self):
        """The programs that succeed without a change."""
        return {name: entry for name, entry in self.programs.items() if entry["failure"] is None}

    def seconds(self, program):
        return self.programs[program]["seconds"]

    def executing(self, path, lines):
        """The programs that execute one of these lines, or any line of the file if none is given."""
        index = self.index(path)
        return {name for name in self.usable() if name in index and (lines is None or index[name] & set(lines))}

    @functools.cache # pylint: disable=method-cache-max-size-none
    def index(self, path):
        """{program: lines of the file}"""
        return {name: frozenset(numbers_of(entry["lines"][path])) for name, entry in self.programs.items()
                if path in entry["lines"]}

    def thorough(self, path, programs):
        """The programs that execute nearly as many lines of a file as the best one."""
        executed = {name: len(self.index(path)[name]) for name in programs}
        most = max(executed.values(), default=0)
        return {name for name in programs if executed[name] >= 0.9 * most}

    def text(self, path):
        """The text of the file when it was last measured, or None."""
        known = [entry["files"][path] for entry in self.programs.values() if path in entry["files"]]
        file = SOURCES / known[-1] if known else None
        return file.read_text() if file is not None and file.exists() else None


def is_unit(program):
    """Whether the program is a unit test, which needs no servers."""
    return program == SIMULATOR or program.rpartition("/")[2].startswith("test_")


def is_far(program, path):
    """Whether a test program is in another folder than the tests of a source."""
    if path.startswith("lib/"):
        return not program.startswith("lib/")
    if path.startswith("sql/"):
        return program.split("/")[-2] not in ("sql", "store") and not program.endswith("/it_migrate")
    return program.split("/")[-2] != path.split("/")[1]


def fitting(order, seconds_of, limit_s):
    """(the programs that fit into the time, at least one; the rest)"""
    chosen, total = [], 0.0
    for program in order:
        if not chosen or total + seconds_of(program) <= limit_s:
            chosen.append(program)
            total += seconds_of(program)
    return chosen, [program for program in order if program not in chosen]
