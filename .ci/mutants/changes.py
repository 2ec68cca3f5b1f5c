"""changes.py - the small changes that a file can get, one at a time.

c.py, sql.py and lua.py find them, each with a parser of its language. A change replaces one range
of the text, and the lines behind it keep their numbers, which an assert contains."""

import dataclasses
import pathlib
import re

import c
import lua
import sql

# The changed files, and the module of their language.
LANGUAGES = [(r"app/(?!test/)\w+/\w+\.c", c), (r"lib/(base|redis|lock)/\w+\.c", c),
             (r"sql/(functions|queries)/\w+\.sql", sql), (r"lib/lock/lua/\w+\.lua", lua)]
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent")


@dataclasses.dataclass(frozen=True)
class Change:
    path: str
    line: int
    start: int # start of the replaced range
    end: int
    new: str
    shown: str # such as "replace the operator: < -> <="

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def folder_of(path):
    return str(pathlib.PurePath(path).parent)


def language_of(path):
    """The module that finds the changes of a file, or None."""
    return next((module for pattern, module in LANGUAGES if re.fullmatch(pattern, path)), None)


def changes_of(path, text, root="."):
    """All changes of a file, in their order, without those that are accepted as equivalent."""
    plain = text.encode("ascii", "replace").decode() # the parsers count bytes
    lines = text.splitlines()
    accepted = equivalents()
    found = {}
    for start, end, new, what in language_of(path).ranges(path, plain, root):
        line = text.count("\n", 0, start) + 1
        old = one_line(text[start:end])
        shown = f"{what}: {old}" if what.startswith("delete") else f"{what}: {old} -> {one_line(new)}"
        new += "\n" * (text.count("\n", start, end) - new.count("\n"))
        if (path, one_line(lines[line - 1]), shown) not in accepted:
            found.setdefault((start, end, new), Change(path, line, start, end, new, shown))
    return [found[key] for key in sorted(found)]


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def equivalents(text=None):
    """{(file, text of the line, change)} from the file `equivalent`. An entry has four lines, the last of
    which says why, and an empty line."""
    text = EQUIVALENT.read_text() if text is None else text
    blocks = [block.split("\n") for block in re.sub(r"(?m)^#.*\n", "", text).strip().split("\n\n") if block.strip()]
    for block in blocks:
        if len(block) != 4:
            raise ValueError(f"{EQUIVALENT.name}: not four lines: {block[0]}")
    return {(file, one_line(line), change) for file, line, change, _why in blocks}
