"""impact.py [BASE] - print the check of each integration test that executes a line which differs
from BASE (default HEAD), as make targets; at most 90 s of their usual times. What does not fit is
named on standard error.

By the newest map of `make mutants`. A change that the map does not know runs all integration tests
of its folder."""

import difflib
import re
import subprocess
import sys

from lines import Map, fitting, is_far, is_unit
from tree import ROOT, test_programs

LIMIT_S = 90
UNKNOWN_S = 5.0 # assumed time of a program that has not been measured


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changed_files(base):
    listed = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return [path for path in listed.splitlines() if re.match(r"(app|lib|sql)/.*\.(c|h|sql|lua)$", path)]


def changed_lines(old, new):
    """The numbers, from 1, of the lines of the old text that are replaced or next to inserted lines."""
    found = set()
    for kind, start, end, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "insert":
            found |= {start, start + 1}
        elif kind != "equal":
            found |= set(range(start + 1, end + 1))
    return found


def translated(numbers, old, new):
    """Translate line numbers of the old text to the new text; replaced lines to the lines in their place."""
    found = set()
    for kind, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for number in numbers & set(range(start + 1, end + 1)):
            found |= {number - start + first} if kind == "equal" else set(range(first, last + 2))
    return found


def programs_of(path, base, known):
    """The test programs that a change of a file concerns."""
    if path[:-2] in test_programs():
        return {path[:-2]}
    measured = known.text(path)
    present = (ROOT / path).read_text().splitlines() if (ROOT / path).exists() else []
    shown = subprocess.run(["git", "show", f"{base}:{path}"], cwd=ROOT, capture_output=True, text=True, check=False)
    if measured is not None and shown.returncode == 0:
        before = shown.stdout.splitlines()
        numbers = translated(changed_lines(before, present), before, measured.splitlines())
        found = known.executing(path, numbers) or known.executing(path, None)
        if found:
            return found
    return {program for program in test_programs() if not is_far(program, path)}


def main(base):
    known = Map()
    programs, near = set(), set()
    for path in changed_files(base):
        found = {program for program in programs_of(path, base, known) if not is_unit(program)}
        programs |= found
        near |= {program for program in found if not is_far(program, path)}

    def seconds_of(program):
        return known.seconds(program) if program in known.programs else UNKNOWN_S

    order = sorted(programs, key=lambda each: (each not in near, seconds_of(each), each))
    chosen, rest = fitting(order, seconds_of, LIMIT_S)
    print(" ".join(f"build/{program}.check" for program in chosen))
    if rest:
        print(f"not run, because more than {LIMIT_S} s would run: "
              + " ".join(f"build/{program}.check" for program in rest), file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
