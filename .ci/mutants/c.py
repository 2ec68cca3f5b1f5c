"""c.py - the changes of a C source, by libclang.

Left out, since no test should notice them: asserts and whatever else a macro contains, the words
and numbers of log lines and of error messages, more memory than is needed, `<` or `<=` where the
smaller of two values is taken, and the release of memory by a function that ends its owner, because
the sanitizers look for leaks. Without hiredis_ssl also what needs a TLS connection: there is none."""

import functools
import os
import re
import subprocess

from clang.cindex import CursorKind as Kind, Index, TranslationUnit, TypeKind

RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
MESSAGES = re.compile(r"log_event|err_set|perror|abort")
RELEASES = re.compile(r"\w*free|\w+_free\w*|json_decref|PQclear|PQfinish|freeReplyObject|explicit_bzero")
ENDS = re.compile(r"\w*(free|close|clear|destroy|stop|end|exit|main)\w*")
ALLOCATES = re.compile(r"malloc|calloc")
COMMUTATIVE = re.compile(r"\w*(cmp|equal|equals|min|max|xor)\w*")
DELETED = {Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNARY_OPERATOR,
           Kind.RETURN_STMT, Kind.BREAK_STMT, Kind.CONTINUE_STMT, Kind.GOTO_STMT, Kind.IF_STMT}
# Code that only a build with hiredis_ssl executes: names of functions, and words in the first line of a
# change. Without hiredis_ssl redis_tls_open() refuses.
TLS_FUNCTIONS = re.compile(r"write_tls|redis_tls_(?!open)\w+")
TLS = re.compile(r"\b(tls|tls_reason|write_tls|redis_tls_(?!open)\w+)\b")
# By kind of node: the child that is the condition, and the children that are statements.
CONDITIONS = {Kind.IF_STMT: 0, Kind.WHILE_STMT: 0, Kind.DO_STMT: -1, Kind.CONDITIONAL_OPERATOR: 0}
BODIES = {Kind.COMPOUND_STMT: slice(None), Kind.IF_STMT: slice(1, None), Kind.WHILE_STMT: slice(1, None),
          Kind.DO_STMT: slice(0, 1), Kind.FOR_STMT: slice(-1, None), Kind.CASE_STMT: slice(1, None),
          Kind.DEFAULT_STMT: slice(None), Kind.LABEL_STMT: slice(None)}

# A factor between units is replaced by the factor of another unit. Adding one would change a time only
# by a thousandth.
UNITS = {1000: 1000000, 1000000: 1000, 1000000000: 1000000}


def neighbour(value):
    """The constant that replaces a constant."""
    return UNITS.get(value, value + 1)


def words(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


@functools.cache
def has_tls():
    """Whether hiredis_ssl is installed; the Makefile asks in the same way."""
    return bool(words("pkg-config", "--modversion", "hiredis_ssl"))


@functools.cache
def flags():
    """The compiler flags that affect the meaning of a source."""
    return ["-std=gnu11", "-D_GNU_SOURCE=", '-DSECKILL_VERSION=""', *(["-DREDIS_WITH_TLS"] if has_tls() else []),
            "-resource-dir", *words("clang", "-print-resource-dir"),
            *words("pkg-config", "--cflags", "libmicrohttpd", "gnutls", "libpq", "jansson", "libcurl", "hiredis", "libuv")]


def ranges(path, text, root):
    """(start, end, replacement, what) of each change."""
    name = os.path.join(root, path)
    unit = Index.create().parse(
        name, args=[f"-I{os.path.join(root, 'lib')}", f"-I{root}", *flags()], unsaved_files=[(name, text)],
        options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    errors = [each.spelling for each in unit.diagnostics if each.severity >= each.Error]
    if errors:
        raise ValueError(f"{path}: {errors[0]}")
    finder = Finder(name, text)
    for node in unit.cursor.get_children():
        if node.kind == Kind.MACRO_INSTANTIATION and finder.is_here(node):
            finder.add_macro(node)
    for node in unit.cursor.get_children():
        if node.kind == Kind.FUNCTION_DECL and node.is_definition() and finder.is_here(node):
            finder.function = node.spelling
            finder.visit(node)
    return finder.found


class Finder:
    """Collects the changes of a file."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.macros = []
        self.found = []
        self.function = None

    def is_here(self, node):
        return node.extent.start.file is not None and node.extent.start.file.name == self.name

    def add_macro(self, node):
        """Remember a macro with arguments. Of any other macro the text contains only the name."""
        if self.written(node).endswith(")"):
            self.macros.append(self.range(node))

    def range(self, node):
        return node.extent.start.offset, node.extent.end.offset

    def written(self, node):
        start, end = self.range(node)
        return self.text[start:end]

    def is_plain(self, node):
        """Whether the node is written here and not by a macro."""
        start, end = self.range(node)
        return self.is_here(node) and start < end and not any(
            first <= start and end <= last for first, last in self.macros)

    def add(self, start, end, new, what):
        if has_tls() or not self.needs_tls(start):
            self.found.append((start, end, new, what))

    def needs_tls(self, start):
        line = self.text[self.text.rfind("\n", 0, start) + 1:].split("\n", 1)[0]
        return bool(TLS_FUNCTIONS.fullmatch(self.function) or TLS.search(line))

    def visit(self, node, parent=None, is_size=False):
        children = list(node.get_children())
        if node.kind in BODIES:
            for child in children[BODIES[node.kind]]:
                self.delete(child, node, children)
        if node.kind == Kind.CALL_EXPR and MESSAGES.fullmatch(node.spelling):
            self.message(node)
            return
        if node.kind == Kind.CALL_EXPR and ALLOCATES.fullmatch(node.spelling):
            return
        if node.kind == Kind.IF_STMT and not has_tls() and self.is_of_tls(children[0]):
            children = children[2:]
        elif self.is_plain(node):
            self.change(node, children, parent, is_size)
        for child in children:
            self.visit(child, node, self.is_size(child, node, is_size))

    def is_of_tls(self, condition):
        """Whether the condition holds with TLS only."""
        written = self.written(condition)
        return bool(TLS.search(written)) and "||" not in written

    def message(self, node):
        """Change only the status in a call that makes a message; the other arguments are texts."""
        if node.spelling == "err_set":
            for each in list(node.get_arguments())[1].walk_preorder():
                if self.is_plain(each):
                    self.enumerator(each)

    def change(self, node, children, parent, is_size):
        if node.kind in CONDITIONS:
            self.negate(children[CONDITIONS[node.kind]])
        elif node.kind == Kind.BINARY_OPERATOR and not self.is_of_extreme(node, parent):
            self.relation(*children)
        elif node.kind == Kind.INTEGER_LITERAL and not is_size:
            self.constant(node)
        elif node.kind == Kind.DECL_REF_EXPR:
            self.enumerator(node)
        elif node.kind == Kind.CALL_EXPR:
            self.swap(node)

    # -- the changes --

    def delete(self, node, parent, siblings):
        if node.kind not in DELETED or not self.is_plain(node) or self.is_left_out(node):
            return
        if node.kind == Kind.IF_STMT and len(list(node.get_children())) > 2:
            return # its parts are changed
        if self.is_alone(node, parent, siblings):
            return
        start, end = self.range(node)
        semicolon = re.match(r"\s*;", self.text[end:])
        self.add(start, end + (semicolon.end() if semicolon else 0), "{}", "delete the statement")

    def is_left_out(self, node):
        """Log lines, messages, and the release of memory at the end of its owner."""
        if node.kind == Kind.IF_STMT:
            node = list(node.get_children())[1]
            parts = list(node.get_children()) if node.kind == Kind.COMPOUND_STMT else [node]
            return all(self.is_left_out(part) for part in parts)
        called = node.spelling if node.kind == Kind.CALL_EXPR else ""
        return bool(MESSAGES.fullmatch(called) or RELEASES.fullmatch(called) and ENDS.fullmatch(self.function))

    def is_alone(self, node, parent, siblings):
        """Whether this is the only statement of an `if` without `else`. Then the `if` is deleted instead."""
        if parent.kind == Kind.IF_STMT:
            return len(siblings) == 2 and node.kind != Kind.IF_STMT
        return False

    def negate(self, condition):
        if self.is_plain(condition):
            start, end = self.range(condition)
            self.add(start, end, f"!({self.text[start:end]})", "negate the condition")

    def relation(self, left, right):
        start, end = self.range(left)[1], self.range(right)[0]
        operator = self.text[start:end].strip()
        if operator in ("&&", "||") and self.is_plain(left) and self.is_plain(right):
            self.add(self.range(left)[0], end, "", "delete the condition")
            self.add(start, self.range(right)[1], "", "delete the condition")
        elif operator in RELATIONS:
            start = self.text.index(operator, start)
            self.add(start, start + len(operator), RELATIONS[operator], "replace the operator")

    def is_of_extreme(self, node, parent):
        """Whether the condition chooses the smaller or larger of its sides, so `<` and `<=` are equivalent."""
        if parent is None or parent.kind not in (Kind.IF_STMT, Kind.CONDITIONAL_OPERATOR):
            return False
        condition, *choices = parent.get_children()
        if condition != node or len(choices) > 2:
            return False
        if parent.kind == Kind.IF_STMT: # `if (a < b) a = b;`
            if len(choices) > 1 or choices[0].kind != Kind.BINARY_OPERATOR:
                return False
            choices = choices[0].get_children()
        sides = sorted(self.written(each) for each in node.get_children())
        return sorted(self.written(each) for each in choices) == sides and self.operator_of(node) not in ("==", "!=")

    def operator_of(self, node):
        left, right = node.get_children()
        return self.text[self.range(left)[1]:self.range(right)[0]].strip()

    def is_size(self, node, parent, is_within_size):
        """Whether the node is the size of an array, or a part of the sum: a larger array is equivalent.
        In a parameter the size says nothing to the compiler."""
        if parent.kind == Kind.PARM_DECL:
            return True
        if parent.kind == Kind.VAR_DECL:
            return parent.type.kind == TypeKind.CONSTANTARRAY
        return is_within_size and (parent.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR) # a conversion
                                   or parent.kind == Kind.BINARY_OPERATOR and self.operator_of(parent) in ("+", "*"))

    def constant(self, node):
        start, end = self.range(node)
        written = self.text[start:end]
        if written in ("true", "false"):
            self.add(start, end, "false" if written == "true" else "true", "replace the constant")
        number = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", written)
        if number:
            value = int(number[1], 16 if number[1][:2] in ("0x", "0X") else 8 if re.match("0[0-7]", number[1]) else 10)
            new = f"{neighbour(value):#x}" if number[1][:2] in ("0x", "0X") else str(neighbour(value))
            self.add(start, end, new + number[2], "replace the constant")

    def enumerator(self, node):
        """Replace an enumerator by the next one."""
        if node.kind != Kind.DECL_REF_EXPR or node.referenced.kind != Kind.ENUM_CONSTANT_DECL:
            return
        start, end = self.range(node)
        if self.text[start:end] != node.spelling or node.spelling == "memory_order_relaxed":
            return # any other memory order promises more
        members = node.referenced.semantic_parent.get_children()
        names = [each.spelling for each in members if each.spelling] # an attribute has no name
        self.add(start, end, names[(names.index(node.spelling) + 1) % len(names)], "replace the constant")

    def swap(self, node):
        if COMMUTATIVE.fullmatch(node.spelling):
            return
        arguments = list(node.get_arguments())
        for left, right in zip(arguments, arguments[1:]):
            if not (self.is_plain(left) and self.is_plain(right)):
                continue
            if left.type.get_canonical().spelling != right.type.get_canonical().spelling:
                continue
            (start, middle), (behind, end) = self.range(left), self.range(right)
            texts = self.text[start:middle], self.text[behind:end]
            if texts[0] != texts[1]:
                self.add(start, end, texts[1] + self.text[middle:behind] + texts[0], "swap the arguments")
