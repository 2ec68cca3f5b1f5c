"""run.py - mutation test: make one small change at a time, and see whether a test notices.

Of each change: compile the one object, link the test programs that execute the line one after the
other, and run them, unit tests first and the quickest first, until one fails. A program has three
times its usual time. Prints the share of the changes that were noticed, by folder, and each that
was not, with the tests that executed it. All details are in build/mutants/SEED.json, written after each change.

Other tools were compared. mull (LLVM bitcode) and dextool mutate (libclang) change C, but neither
SQL nor Lua, and run one command for all tests; mull is built for newer versions of LLVM than that
of Debian 12. universalmutator changes any language, but by regular expressions, so that most of
what it makes is no program. pitest, cosmic-ray and mutmut are for other languages. None knows which
of a hundred programs executes a line of PL/pgSQL or of a Lua script in Redis.

Options: --seed --count --paths --least --jobs; see `make help`."""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import queue
import random
import sys
import threading
import time

import changes
import measure
from lines import Map, fitting, is_far, is_unit
from tree import PLACE, ROOT, Tree, flags

SHARE = 0.25 # limit of the usual times of the tests of one change, of those of all tests
MORE = (5, 10) # times as many changes are tested in turn while too few were noticed
FLOOR_S = 15 # every test may take this long, because the machine may be busy
NOTICED = ("killed", "timed out")


@dataclasses.dataclass
class Result:
    change: changes.Change
    line: str
    outcome: str = "survived"
    ran: list = dataclasses.field(default_factory=list)
    left_out: list = dataclasses.field(default_factory=list)
    killer: str = None
    failure: list = None
    seconds: float = 0

    def described(self):
        return {"folder": changes.folder_of(self.change.path), "file": self.change.path, "line": self.change.line,
                "text": self.line, "change": self.change.shown, "outcome": self.outcome, "killed_by": self.killer,
                "failure": self.failure, "ran": self.ran, "did_not_fit": self.left_out, "seconds": round(self.seconds, 1)}


def candidates(paths, jobs):
    """{folder: changes} and {folder: number of lines} of the files below the paths."""
    found, lines = {}, collections.Counter()
    listed = sorted(str(file.relative_to(ROOT)) for folder in ("app", "lib", "sql")
                    for file in (ROOT / folder).rglob("*.*"))
    chosen = [path for path in listed if changes.language_of(path)
              and any(path == each or path.startswith(each.rstrip("/") + "/") for each in paths)]
    texts = [(ROOT / path).read_text() for path in chosen]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for path, text, each in zip(chosen, texts, pool.map(changes.changes_of, chosen, texts, [str(ROOT)] * len(texts))):
            found.setdefault(changes.folder_of(path), []).extend(each)
            lines[changes.folder_of(path)] += sum(bool(line.strip()) for line in text.splitlines())
    return found, lines


def shares(lines, count):
    """{folder: its share of `count`}, by the largest remainder."""
    total = sum(lines.values())
    exact = {folder: count * lines[folder] / total for folder in lines}
    given = {folder: int(exact[folder]) for folder in lines}
    for folder in sorted(lines, key=lambda folder: given[folder] - exact[folder])[:count - sum(given.values())]:
        given[folder] += 1
    return given


def draw(found, lines, count, seed):
    """A list of changes for each mutant; the mutant is the first change that counts."""
    drawn = []
    for folder, share in sorted(shares(lines, count).items()):
        order = found[folder][:]
        random.Random(f"{seed} {folder}").shuffle(order)
        drawn += [order[at::share] for at in range(min(share, len(order)))]
    random.Random(seed).shuffle(drawn)
    return drawn


def order_of(path, programs, known):
    """Unit tests first; then the integration tests that execute most of the file, those of its folder,
    and the others. Of each the quickest first."""
    others = {each for each in programs if not is_unit(each)}
    thorough = known.thorough(path, others)
    return sorted(programs, key=lambda each: (each in others, each not in thorough, is_far(each, path),
                                              known.seconds(each), each))


def test(change, tree, known):
    """The result of one change; None: it does not count."""
    result = Result(change, changes.one_line(tree.read(change.path).splitlines()[change.line - 1]))
    began = time.monotonic()
    if tree.compile(change) is not None:
        return None
    order = order_of(change.path, known.executing(change.path, [change.line]), known)
    chosen, result.left_out = fitting(order, known.seconds, SHARE * sum(map(known.seconds, known.usable())))
    for program in chosen:
        limit_s = max(FLOOR_S, 3 * known.seconds(program))
        tree.link(program)
        run = tree.run(program, limit_s, build="build/changed", until_failure=True)
        if run.is_late and tree.run(program, limit_s).is_late:
            result.left_out.append(program) # the machine is too busy
            continue
        tree.clear_data()
        if run.is_late or not run.is_ok:
            if change.path.endswith(".sql") and "migrate:" in run.output:
                return None # Postgres refuses it
            result.outcome = "timed out" if run.is_late else "killed"
            result.killer, result.failure = program, run.failure()
            break
        result.ran.append(program)
    result.seconds = time.monotonic() - began
    return result


def test_all(drawn, trees, known, results, seed):
    """Test the first change that counts of each drawn list, and append the results."""
    jobs, lock, total = queue.SimpleQueue(), threading.Lock(), len(results) + len(drawn)

    def work(tree):
        while True:
            try:
                changes_drawn = jobs.get_nowait()
            except queue.Empty:
                return
            result = next(filter(None, (test(change, tree, known) for change in changes_drawn)), None)
            with lock:
                if result is None:
                    continue
                results.append(result)
                save(results, seed)
                print(f"{len(results):4}/{total} {result.outcome:9} {result.seconds:5.1f} s {result.change.path}:"
                      f"{result.change.line} {result.change.shown[:100]}", file=sys.stderr, flush=True)

    for each in drawn:
        jobs.put(each)
    with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
        for done in [pool.submit(work, tree) for tree in trees]:
            done.result()


def report(results, known, seed):
    """Print the summary; returns whether all tests succeed without a change."""
    table = collections.defaultdict(collections.Counter)
    for result in results:
        table[changes.folder_of(result.change.path)][result.outcome] += 1
    for result in sorted(results, key=lambda each: (each.change.path, each.change.line)):
        if result.outcome not in NOTICED:
            print(f"survived {result.change.path}:{result.change.line} {result.change.shown}")
            print(f"    {result.line}")
            print(f"    {'executed by ' + ', '.join(result.ran) if result.ran else 'no test executes this line'}"
                  f"{'; did not fit: ' + ', '.join(result.left_out) if result.left_out else ''}")
    failing = {name: entry["failure"] for name, entry in known.programs.items() if entry["failure"] is not None}
    for name, why in failing.items():
        print(f"left out: {name} fails unchanged: {why}")
    print(f"{'folder':16} {'killed':>7} {'timed out':>10} {'survived':>9} {'noticed':>8}")
    for folder in sorted(table):
        print(row(folder, table[folder]))
    everything = sum(table.values(), collections.Counter())
    print(row("all", everything))
    print(f"mutants: {noticed(everything):.1f} % of {everything.total()} noticed; SEED={seed}, build/mutants/{seed}.json")
    return not failing


def save(results, seed):
    (PLACE / f"{seed}.json").write_text(json.dumps(
        {"seed": seed, "mutants": [each.described() for each in results]}, indent=1))


def share_of(results):
    return noticed(collections.Counter(each.outcome for each in results))


def noticed(outcomes):
    return 100 * sum(outcomes[each] for each in NOTICED) / max(outcomes.total(), 1)


def row(name, outcomes):
    return (f"{name:16} {outcomes['killed']:7} {outcomes['timed out']:10} {outcomes['survived']:9}"
            f" {noticed(outcomes):6.1f} %")


def trees_of(count):
    """Copies in which all programs are built."""
    first = Tree("tree.0")
    first.sync()
    first.make(flags(), "programs", jobs=count)
    trees = [first] + [Tree(f"tree.{at}") for at in range(1, count)]
    for tree in trees[1:]:
        tree.copy_from(first) # spares a full build
        tree.sync()
        tree.make(flags(), "programs", jobs=count)
    return trees


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--paths", default="")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    seed = options.seed or str(random.randrange(1, 1000000))
    print(f"mutants: SEED={seed} COUNT={options.count}", flush=True)
    trees = trees_of(options.jobs)
    known = Map()
    measure.refresh(known, Tree("marked"), trees[0], options.jobs)
    found, lines = candidates(options.paths.split() or ["app", "lib", "sql"], options.jobs)
    ends = [options.count * times for times in (1, *(MORE if options.least else ()))]
    drawn = draw(found, lines, ends[-1], seed)
    results = []
    for begin, end in zip([0, *ends], ends):
        if begin > 0:
            print(f"less than {options.least} % of {len(results)}, which may be chance: {end} decide", flush=True)
        test_all(drawn[begin:end], trees, known, results, seed)
        if share_of(results) >= options.least:
            break
    sys.exit(not report(results, known, seed) or share_of(results) < options.least)


if __name__ == "__main__":
    main()
