"""tree.py - a copy of the sources below build/mutants, in which programs are built, changed and run.

The user's own files are only read."""

import os
import pathlib
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "mutants"
MAKEFILES = ("Makefile", "lib/library.mk")
GRACE_S = 10
FILE_MAX = 4 << 30 # bytes; limits a log that a changed program writes forever
SIMULATOR = "app/test/sim/simulate"
ARGUMENTS = {SIMULATOR: ["1", "10000"]} # seed, schedules
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
LSAN = "allocator_may_return_null=1"
TEXT_MAX = 1 << 20
LOOK_S = 0.1
FAILED = "[  FAILED  ]"
NOISE = ("[ RUN ", "[       OK ]", "[==========]", "[  PASSED  ]")


class Run:
    """How a test program ended."""

    def __init__(self, code, seconds, output, is_late):
        self.code, self.seconds, self.output, self.is_late = code, seconds, output, is_late
        self.is_ok = code == 0 and "[  SKIPPED ]" not in output

    def failure(self):
        """The lines of the output that report the first failure."""
        lines = [line for line in self.output.splitlines() if line.strip() and not line.startswith(NOISE)]
        failed = next((at for at, line in enumerate(lines) if line.startswith(FAILED)), 11)
        return lines[:min(failed + 1, 60)] or [f"exit code {self.code}"]


class Tree:
    def __init__(self, name):
        self.root = PLACE / name

    def read(self, path):
        return (self.root / path).read_text()

    def sync(self, altered=lambda path, text: text):
        """Copy the files of the repository as they are now. An equal file is not touched."""
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.split("\0")
        present = [path for path in listed if path and (ROOT / path).is_file()]
        for path in present:
            wanted = (ROOT / path).read_bytes()
            if path.endswith((".sql", ".lua")):
                wanted = altered(path, wanted.decode()).encode()
            target = self.root / path
            if not target.exists() or target.read_bytes() != wanted:
                if path in MAKEFILES: # no object depends on them
                    shutil.rmtree(self.root / "build", ignore_errors=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wanted)
                shutil.copymode(ROOT / path, target)
        known = self.root / ".files"
        for path in set(known.read_text().split("\0") if known.exists() else []) - set(present):
            (self.root / path).unlink(missing_ok=True)
        known.write_text("\0".join(present))
        done = self.root / "build/deps.ok"
        if not done.exists():
            done.parent.mkdir(exist_ok=True)
            done.touch()

    def copy_from(self, other):
        """Copy objects and programs, so that little must be built again."""
        if not self.root.exists() or any(self.read(path) != other.read(path) for path in MAKEFILES):
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.copytree(other.root, self.root, symlinks=True, ignore=shutil.ignore_patterns("var"))

    def make(self, *arguments, jobs=1, check=True):
        """Run make. Returns whether it succeeded."""
        command = ["make", "-s", "-k", "say=", f"-j{jobs}", "BUILD=build", "SAN=", *arguments]
        done = subprocess.run(command, cwd=self.root, env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if check and done.returncode != 0:
            raise SystemExit(f"make {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.returncode == 0

    def run(self, program, limit_s, build="build", until_failure=False, **variables):
        """Run a test program, at most until a case of it has failed, and end all that it started."""
        (self.root / "var").mkdir(exist_ok=True)
        with tempfile.TemporaryFile() as output:
            began = time.monotonic()
            test = subprocess.Popen([".ci/reap.py", f"{build}/{binary_of(program)}", *ARGUMENTS.get(program, [])],
                                    cwd=self.root, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                    start_new_session=True, preexec_fn=limit_files,
                                    env=environment(REAP_GRACE_S=str(GRACE_S), LSAN_OPTIONS=LSAN, **variables))
            is_late = has_failed = False
            while not (is_late or has_failed or ends_within(test, LOOK_S)):
                is_late = time.monotonic() > began + limit_s
                has_failed = until_failure and FAILED in text_of(output)
            if is_late or has_failed:
                test.send_signal(signal.SIGTERM)
                if not ends_within(test, 2 * GRACE_S):
                    test.kill()
                    test.wait()
            return Run(test.returncode, time.monotonic() - began, text_of(output), is_late)

    def clear_data(self):
        """Remove the data of tests that were killed."""
        shutil.rmtree(self.root / "var/it", ignore_errors=True)

    # -- changed programs --

    def compile(self, change):
        """Compile the file with a change to build/changed, and there to address with sanitizers.
        Returns why that is no mutant, or None."""
        target = object_of(change.path)
        changed = self.root / "build/changed"
        shutil.rmtree(changed, ignore_errors=True)
        (changed / "address").mkdir(parents=True)
        kept = [self.root / change.path, self.root / target]
        if target == "build/embedded.o":
            kept.append(self.root / "build/embedded.c")
        for file in kept:
            file.rename(f"{file}.kept")
        try:
            kept[0].write_text(change.apply(pathlib.Path(f"{kept[0]}.kept").read_text()))
            if not self.make(flags(), target, check=False):
                return "does not compile"
            if kept[1].read_bytes() == pathlib.Path(f"{kept[1]}.kept").read_bytes():
                return "same object code"
            kept[1].rename(changed / kept[1].name)
            if not self.make(f"{flags()} {SANITIZERS}", target, check=False):
                return "does not compile" # such as a number that only the sanitizers find too large
            kept[1].rename(changed / "address" / kept[1].name)
        finally:
            for file in kept:
                os.replace(f"{file}.kept", file)
        for folder in (changed, changed / "address"):
            for archive in ("libapp.a", "librlock.a"):
                shutil.copy(self.root / "build" / archive, folder)
            if target != "build/app/cmd/main.o":
                archive = "librlock.a" if target.startswith("build/lib/") else "libapp.a"
                subprocess.run(["ar", "r", archive, kept[1].name], cwd=folder, check=True, capture_output=True)
        return None

    def link(self, program):
        """Link a test program with the changed objects, and what it runs."""
        needed = [program]
        if program == "lib/test/it_examples":
            needed += examples()
        elif program.startswith("app/test/") and "/it_" in program:
            needed.append("seckill")
        for each in needed:
            if not (self.root / "build/changed" / each).exists():
                self.link_one(each)

    def link_one(self, program):
        target = self.root / "build/changed" / binary_of(program)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder, objects = "build/changed", [f"build/{program}.o"]
        if program == "seckill":
            changed_main = self.root / "build/changed/main.o"
            objects = [changed_main if changed_main.exists() else "build/app/cmd/main.o"]
        if program == SIMULATOR:
            words, objects = "LINK_SIMULATOR", []
        elif program.startswith("lib/test/"):
            words = "LINK_LIB"
        elif program.startswith("app/test/"):
            words = "LINK_APP"
        else:
            words = "LINK_SERVICE"
        if program.rpartition("/")[2].startswith("test_"):
            folder = "build/changed/address"
            objects += SANITIZERS.split()
        archives = [f"{folder}/librlock.a"]
        if not program.startswith("lib/"):
            archives.insert(0, f"{folder}/libapp.a")
        command, libraries = os.environ[words].split(" -- ")
        subprocess.run([*shlex.split(command), "-o", target, *objects, *archives, *shlex.split(libraries)],
                       cwd=self.root, check=True)


def flags():
    return "CFLAGS=-O2"


def binary_of(program):
    return "simulate" if program == SIMULATOR else program


def object_of(path):
    if path.endswith(".sql"):
        return "build/embedded.o"
    if path.endswith(".lua"):
        return "build/lib/lock/scripts.o"
    return f"build/{path[:-2]}.o"


def test_programs():
    """The names of the test programs, such as app/test/api/it_sale."""
    found = [*ROOT.glob("lib/test/*.c"), *ROOT.glob("app/test/*/*.c")]
    return sorted(str(file.relative_to(ROOT).with_suffix("")) for file in found
                  if file.name.startswith(("test_", "it_")) or file.name == "simulate.c")


def examples():
    """The programs that it_examples runs."""
    return [*(f"lib/examples/{file.stem}" for file in ROOT.glob("lib/examples/*.c")),
            *(f"lib/examples/{file.name}" for file in ROOT.glob("lib/man/*.[37]"))]


def environment(**variables):
    """A small environment, because the tests keep at most 64 variables. A crash prints its place."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "ASAN_OPTIONS": "handle_segv=2", **variables}


def text_of(file):
    """The beginning of a file that a process appends to."""
    return os.pread(file.fileno(), TEXT_MAX, 0).decode(errors="replace")


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ends_within(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
