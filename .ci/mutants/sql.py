"""sql.py - the changes of a file of SQL, whose functions may be in PL/pgSQL.

The words are those of Postgres' own scanner. A change must leave what Postgres' parser accepts
(libpg_query, by pglast).

Left out, since no test can notice them: `<` or `<=` beside clock_timestamp() or a variable with its
time, which counts microseconds and which no test can set, and how many rows EXISTS may find."""

import dataclasses

from pglast import parser

from c import neighbour

RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "<>", "<>": "="}
CONSTANTS = {"true": "false", "false": "true"}
OPEN, CLOSE = ("(", "["), (")", "]")
# Words behind which a statement of PL/pgSQL begins.
STARTS = (";", "begin", "then", "loop", "else")
# Words at which a condition ends or begins.
BOUNDS = set("""then loop else when end group order limit for returning union having left join cross inner on where
                window if elsif while select return set from case as using values do returns , ; := and or""".split())


@dataclasses.dataclass(frozen=True)
class Word:
    text: str # in lower case
    start: int
    end: int
    kind: str


def words_of(text, start, end):
    """Without comments. The body of a function is one word."""
    return [Word(text[start:end][each.start:each.end + 1].lower(), start + each.start, start + each.end + 1, each.name)
            for each in parser.scan(text[start:end]) if each.name not in ("SQL_COMMENT", "C_COMMENT")]


def ranges(_path, text, _root):
    """(start, end, replacement, what) of each change that can still be parsed."""
    return [each for each in candidates(text) if is_sql(text[:each[0]] + each[2] + text[each[1]:])]


def starts(text):
    """Where each statement of PL/pgSQL starts."""
    words = words_of(text, 0, len(text))
    return sorted(start for body in bodies(text, words) for start, _ in Statements(body).all)


def marked(text, mark):
    """The file with a log line before each statement of PL/pgSQL, and in the text of a query."""
    if not is_function(words_of(text, 0, len(text))):
        return f"/*{mark(0)}*/ {text}"
    for start in reversed(starts(text)):
        text = f"{text[:start]}raise log '{mark(text.count(chr(10), 0, start) + 1)}'; {text[start:]}"
    return text


def names_of(text):
    """The names that a file uses, such as those of functions."""
    words = words_of(text, 0, len(text))
    every = words + [word for body in bodies(text, words) for word in body]
    return {word.text for word in every if word.kind == "IDENT"}


def is_function(words):
    """A file of functions; it may begin by dropping an old signature."""
    return any(word.text == "create" for word in words)


def is_sql(text):
    try:
        parser.parse_sql_json(text)
        if "language plpgsql" in text:
            parser.parse_plpgsql_json(text)
    except parser.ParseError:
        return False
    return True


def bodies(text, words):
    """The words of each function's body in dollar quotes."""
    for word in words:
        if word.kind == "SCONST" and word.text.startswith("$$"):
            yield words_of(text, word.start + 2, word.end - 2)


def candidates(text):
    words = words_of(text, 0, len(text))
    if not is_function(words):
        yield from in_query(words)
        return
    parts = list(bodies(text, words))
    for body in parts:
        yield from in_query(body)
        if any(word.text == "begin" for word in body):
            for start, end in Statements(body).deletable:
                yield start, end, "", "delete the statement"
        else:
            yield from whole_statements(body)
    yield from in_query(words[next((at for at, word in enumerate(words) if word.text == "return"), len(words)):])
    yield from whole_statements(words)


def whole_statements(words):
    """Delete one of several statements of a file, but not a whole function."""
    ends = [at for at, word in enumerate(words) if word.text == ";"]
    begins = [0] + [at + 1 for at in ends]
    if len(ends) > 1:
        for begin, end in zip(begins, ends):
            if words[begin].text != "create":
                yield words[begin].start, words[end].end, "", "delete the statement"


def in_query(words):
    """The changes of operators, constants and conditions."""
    clocks = clocks_of(words)
    for at, word in enumerate(words):
        if word.text in RELATIONS and not (word.text not in ("=", "<>") and is_beside(words, at, clocks)):
            yield word.start, word.end, RELATIONS[word.text], "replace the operator"
        elif word.text in CONSTANTS:
            yield word.start, word.end, CONSTANTS[word.text], "replace the constant"
        elif word.kind == "ICONST" and not takes_first_row(words, at) and not is_within_exists(words, at):
            yield word.start, word.end, str(neighbour(int(word.text))), "replace the constant"
    between = set()
    for at, word in enumerate(words):
        if word.text == "between":
            between.add(next(end for end, _ in level(words, at, 1) if words[end].text == "and"))
        elif word.text in ("and", "or") and at not in between:
            first, last = operand(words, at, -1), operand(words, at, 1)
            yield words[first].start, words[at + 1].start, "", "delete the condition"
            yield words[at - 1].end, words[last].end, "", "delete the condition"
        elif word.text == "where":
            last = operand(words, at, 1, whole=True)
            if not any(each.text in ("and", "or") for each in words[at:last]):
                yield words[at + 1].start, words[last].end, "true", "delete the condition"


def takes_first_row(words, at):
    """Whether this is the limit of a `select into`, which ignores all rows but the first."""
    if words[at - 1].text != "limit":
        return False
    begin = next((before + 1 for before, _ in level(words, at, -1) if words[before].text in STARTS), 0)
    return words[begin].text == "select" and any(words[each].text == "into" for each, _ in level(words, begin, 1)
                                                 if each < at)


def clocks_of(words):
    """clock_timestamp() and the variables that get their value from it."""
    found = {"clock_timestamp"}
    for at, word in enumerate(words):
        if word.text == ":=":
            begin = next((before + 1 for before in range(at, -1, -1) if words[before].text in STARTS + ("declare",)), 0)
            end = next((behind for behind in range(at, len(words)) if words[behind].text == ";"), len(words))
            if any(each.text == "clock_timestamp" for each in words[at:end]):
                found.add(words[begin].text)
    return found


def is_beside(words, at, names):
    return words[at - 1].text in names or at + 1 < len(words) and words[at + 1].text in names


def is_within_exists(words, at):
    """Whether this is the limit of a query whose rows are only for an EXISTS."""
    depth = 0
    for before in range(at - 1, 0, -1) if words[at - 1].text == "limit" else ():
        depth += (words[before].text in CLOSE) - (words[before].text in OPEN)
        if depth < 0 and words[before - 1].text == "exists":
            return True
        depth = max(depth, 0)
    return False


def level(words, at, step):
    """The words behind (or before) one, as (index, word), of the same level of parentheses and CASE."""
    depth = 0
    at += step
    opening, closing = (OPEN + ("case",), CLOSE + ("end",)) if step > 0 else (CLOSE + ("end",), OPEN + ("case",))
    while 0 <= at < len(words):
        text = words[at].text
        if text in closing:
            depth -= 1
            if depth < 0:
                return
        if depth == 0:
            yield at, words[at]
        if text in opening:
            depth += 1
        at += step


def operand(words, at, step, whole=False):
    """The last (or first) word of the condition behind (or before) a word."""
    last = at
    is_between = False
    for each, word in level(words, at, step):
        if word.text == "between":
            is_between = step > 0
        elif word.text == "and" and (is_between or whole or step < 0 and is_of_between(words, each)):
            is_between = False
        elif word.text in BOUNDS and not (whole and word.text in ("and", "or")):
            break
        last = each
    if step > 0: # up to the end of what is in parentheses
        while last + 1 < len(words) and depth_of(words[at + 1:last + 1]) > 0:
            last += 1
    else:
        while last > 0 and depth_of(words[last:at]) < 0:
            last -= 1
    return last


def depth_of(words):
    return sum((word.text in OPEN or word.text == "case") - (word.text in CLOSE or word.text == "end") for word in words)


def is_of_between(words, at):
    """Whether an AND belongs to a BETWEEN."""
    for _, word in level(words, at, -1):
        if word.text == "between":
            return True
        if word.text in BOUNDS:
            return False
    return False


class Statements:
    """The statements of a PL/pgSQL block as (start, end): all, and those that can be deleted."""

    def __init__(self, words):
        self.words = words
        self.all, self.deletable = [], []
        self.at = next((at for at, word in enumerate(words) if word.text == "begin"), len(words)) + 1
        self.list_of()

    def text(self, behind=0):
        at = self.at + behind
        return self.words[at].text if at < len(self.words) else ""

    def list_of(self):
        while self.text() not in ("", "end", "elsif", "else", "when", "exception"):
            self.statement()

    def skip_to(self, *ends):
        """Move behind the next of these words outside of parentheses and CASE."""
        self.at = next((at for at, word in level(self.words, self.at - 1, 1) if word.text in ends),
                       len(self.words) - 1) + 1

    def statement(self):
        first = self.words[self.at].start
        kind = self.text()
        branches = 1
        if kind == "if":
            branches = self.branches()
        elif kind in ("while", "for", "foreach", "loop"):
            self.skip_to("loop")
            self.list_of()
            self.at += 3 # end loop;
        elif kind in ("begin", "declare"):
            self.block()
        else:
            self.skip_to(";")
        end = self.words[self.at - 1].end
        self.all.append((first, end))
        if kind not in ("while", "for", "foreach", "loop", "begin", "declare") and branches == 1:
            self.deletable.append((first, end))

    def branches(self):
        """Parse the branches of an IF. Returns their number."""
        count = 0
        while self.text() in ("if", "elsif", "else"):
            count += 1
            if self.text() == "else":
                self.at += 1
            else:
                self.skip_to("then")
            self.list_of()
        self.at += 3 # end if;
        return count

    def block(self):
        if self.text() == "declare":
            self.skip_to("begin")
        else:
            self.at += 1
        self.list_of()
        while self.text() in ("exception", "when"):
            self.skip_to("then")
            self.list_of()
        self.at += 2 # end;
