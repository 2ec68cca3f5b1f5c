#!/usr/bin/python3 -B
"""check.py ROOT - checks the installed manual pages against the installed headers.

Each function and type of a callback must be declared in a page, word for word; each field of a
struct that callers fill or read, each constant of an enum and each kind must be named. The pages
must be without a complaint of mandoc, begin no item of a list with a word that mandoc takes for a
macro, and what their SEE ALSO names must be installed.

ROOT is the folder that has include/rlock and share/man."""

import glob
import os
import re
import subprocess
import sys

CALLERS = ("rlock_err", "rlock_client_options", "rlock_acquire_options", "rlock_stats", "rlock_times", "rlock_info",
           "rlock_member", "rlock_group_options", "rlock_sync_info")


def read(path):
    with open(path) as file:
        return file.read()


def squeeze(text):
    """The tokens of C, with one blank between two."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text))


def fields(body):
    """The names that a struct declares, also inside a struct without a name."""
    for declaration in re.sub(r"struct\s*\{|\}", ";", body).split(";"):
        callback = re.search(r"\(\*(\w+)\)", declaration)
        if callback:
            yield callback[1]
        elif declaration.strip():
            for part in declaration.split(","):
                yield re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part)[1]


def blocks(text, what):
    """The name and the body of each struct or enum that has both."""
    for found in re.finditer(what + r"\s+(\w+)\s*\{", text):
        depth, end = 1, found.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield found[1], text[found.end():end - 1]


def main(root):
    complaints = []
    pages = sorted(glob.glob(f"{root}/share/man/man*/rlock*"))
    text = "".join(read(page) for page in pages)
    words = set(re.findall(r"\w+", text))
    declared = squeeze("\n".join(re.findall(r"^\.Bd -literal\n(.*?)^\.Ed", text, re.M | re.S)))

    for header in sorted(glob.glob(f"{root}/include/rlock/*/*.h")):
        source = re.sub(r"/\*.*?\*/|^#(?:\\\n|[^\n])*$", "", read(header), flags=re.M | re.S)
        source = source.replace("RLOCK_MUST_CHECK", "")
        for call in re.finditer(r"^(?:typedef )?[\w *\n]*?(?:[\s*]|\(\*)(rlock_\w+)\)?\([^;{]*\);", source, re.M):
            if squeeze(call[0].strip()) not in declared:
                complaints.append(f"no page declares {call[1]} as {os.path.basename(header)}")
        for name, body in blocks(source, "struct"):
            complaints += [f"no page names the field {field} of struct {name}" for field in fields(body)
                           if name in CALLERS and field not in words]
        for name, body in blocks(source, "enum"):
            complaints += [f"no page names {constant} of enum {name}" for constant in re.findall(r"\b[A-Z]\w+", body)
                           if constant not in words]
        for names in re.findall(r"^extern const struct rlock_kind ([^;]*);", source, re.M):
            complaints += [f"no page names {kind}" for kind in re.findall(r"\w+", names) if kind not in words]

    for page in pages:
        for name, section in re.findall(r"^\.Xr (\w+) (\d)", read(page).split(".Sh SEE ALSO")[1], re.M):
            if not os.path.exists(f"{root}/share/man/man{section}/{name}.{section}"):
                complaints.append(f"{os.path.basename(page)} names {name}({section}), which is not installed")
        complaints += [f"{os.path.basename(page)}: {word} is a macro, write \\&{word}"
                       for word in re.findall(r"^\.It (An|At|Do|In|No|So)\b", read(page), re.M)]
        lint = subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True)
        complaints += [line for line in lint.stdout.splitlines() if "referenced manual not found" not in line]

    print(*complaints, sep="\n", end="\n" if complaints else "")
    return 1 if complaints or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
