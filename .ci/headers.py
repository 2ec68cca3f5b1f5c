#!/usr/bin/python3 -B
"""headers.py DIR CC HEADER... - checks that the installed headers use no names of their callers.

Each header is compiled alone, as C11, C23 and C++17, in a program that has other uses for short names.
Each macro, type, constant, function and variable that a header defines must begin with rlock_ or
RLOCK_. A header is a path below lib/. The headers are copied to DIR, so that one that is not
installed cannot be included."""

import pathlib
import re
import shutil
import subprocess
import sys

TYPES = """
struct list { int length; };
struct link { int target; };
struct err { int code; };
enum status { STATUS_GOOD, STATUS_BAD };
int list_append(int list);
int err_set(int err);
int status_name(int status);
"""
MACROS = """STATUS_OK STATUS_BUSY STATUS_LOST STATUS_NOT_OWNER STATUS_NOT_FOUND STATUS_INVALID STATUS_TIMEOUT
STATUS_IO STATUS_DOWN STATUS_REFUSED STATUS_UNSAFE STATUS_CANCELLED STATUS_NO_MEMORY LIST_EACH LIST_FIRST
LIST_SHIFT UNUSED SYMBOL MUST_CHECK PRINTF_LIKE C_DECLARATIONS_BEGIN C_DECLARATIONS_END"""

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-D_XOPEN_SOURCE=700"]  # uv.h needs X/Open


def defined(preprocessed, folder):
    """The names that the headers in the folder define, in the output of cc -E -dD."""
    is_ours, code = False, ""
    for line in preprocessed.splitlines():
        if re.match(r'# \d+ "', line):
            is_ours = f'"{folder}/' in line
        elif is_ours and line.startswith("#define "):
            yield re.match(r"#define (\w+)", line)[1]
        elif is_ours and not line.startswith("#"):
            code += line + "\n"
    yield from re.findall(r"\b(?:struct|union|enum)\s+(\w+)", code)
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", code):
        yield from re.findall(r"(?:^|,)\s*(\w+)", body)
    yield from re.findall(r"\btypedef\b[^;(]*\(\s*\*\s*(\w+)", code)
    code = re.sub(r"\btypedef\b[^;(]*\([^;]*;", "", code)
    for inner in (r"\([^()]*\)", r"\{[^{}]*\}"):
        found = 1
        while found:
            code, found = re.subn(inner, " ", code)
    yield from re.findall(r"(\w+)\s*[,;]", code)


def compile_alone(header, folder, command, suffix):
    """Whether the header compiles before and after the names of a caller."""
    names = TYPES + "".join(f"#define {name} no such thing\n" for name in MACROS.split())
    include = f"#include <{header}>\n"
    for program in (include, include + names, "#include <uv.h>\n" + names + include):
        source = folder.parent / f"program.{suffix}"
        source.write_text(program)
        if subprocess.run([*command, *WARNINGS, "-fsyntax-only", f"-I{folder}", source]).returncode:
            print(f"{header} does not compile by {' '.join(command)}, see {source}")
            return False
    return True


def main(directory, cc, *headers):
    folder = pathlib.Path(directory) / "include"
    shutil.rmtree(directory, ignore_errors=True)
    for header in headers:
        (folder / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"lib/{header}", folder / header)

    flags = subprocess.run(["pkg-config", "--cflags", "libuv"], capture_output=True, text=True, check=True).stdout.split()
    is_good = True
    for header in headers:
        for command, suffix in (([cc, "-std=c11"], "c"), ([cc, "-std=c2x"], "c"), (["clang++", "-std=c++17"], "cc")):
            is_good &= compile_alone(header, folder, [*command, *flags], suffix)
        text = subprocess.run([cc, "-E", "-dD", *flags, f"-I{folder}", folder / header],
                              capture_output=True, text=True).stdout
        names = set(defined(text, folder))
        alien = sorted(name for name in names if not re.match("rlock|RLOCK", name))
        if alien:
            print(f"{header} defines {', '.join(alien)}")
        if not names:
            print(f"{header} defines nothing")
        is_good &= bool(names) and not alien
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
