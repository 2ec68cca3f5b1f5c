"""lua.py - the changes of a Lua script, by luaparser."""

import re

from luaparser import ast, astnodes

# Declarations are not deleted: Redis reports a missing variable as an error, which every call notices.
DELETED = (astnodes.Call, astnodes.Invoke, astnodes.Assign, astnodes.Return, astnodes.Break, astnodes.If)
RELATIONS = {astnodes.LessThanOp: "<=", astnodes.LessOrEqThanOp: "<", astnodes.GreaterThanOp: ">=",
             astnodes.GreaterOrEqThanOp: ">", astnodes.EqToOp: "~=", astnodes.NotEqToOp: "=="}


def ranges(_path, text, _root):
    """(start, end, replacement, what) of each change after which the script can still be parsed."""
    return [each for each in candidates(text) if is_script(text[:each[0]] + each[2] + text[each[1]:])]


def starts(text):
    """Where each statement starts."""
    return sorted({span(text, each)[0] for block in blocks(text) for each in block.body})


def marked(text, mark):
    """The script with a call before each statement; mark(line) is its text."""
    for start in reversed(starts(text)):
        call = f"redis.log(redis.LOG_WARNING, '{mark(text.count(chr(10), 0, start) + 1)}') "
        if is_script(text[:start] + call + text[start:]):
            text = text[:start] + call + text[start:]
    return text


def blocks(text):
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, astnodes.Block)]


def span(text, node):
    """The range of a node. The parser lets a call begin behind the name of the function."""
    start, end = node.start_char, node.stop_char + 1
    if isinstance(node, (astnodes.Call, astnodes.Invoke, astnodes.Index)):
        start -= len(re.search(r"[\w.]*$", text[:start])[0])
    return start, end


def is_script(text):
    try:
        ast.parse(text)
    except Exception: # pylint: disable=broad-except # whatever the parser raises
        return False
    return True


def candidates(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, astnodes.If) and is_guard(node):
            yield *span(text, node), "", "delete the statement"
        if isinstance(node, astnodes.Block):
            for statement in node.body:
                if is_deleted(statement):
                    yield *span(text, statement), "", "delete the statement"
        if isinstance(node, (astnodes.If, astnodes.ElseIf, astnodes.While)):
            start, end = span(text, node.test)
            yield start, end, f"not ({text[start:end]})", "negate the condition"
        if isinstance(node, (astnodes.AndLoOp, astnodes.OrLoOp)):
            left, right = span(text, node.left), span(text, node.right)
            yield left[0], right[0], "", "delete the condition"
            yield left[1], right[1], "", "delete the condition"
        if type(node) in RELATIONS:
            yield (span(text, node.left)[1], span(text, node.right)[0], f" {RELATIONS[type(node)]} ",
                   "replace the operator")


def is_guard(node):
    """An `if` with one branch."""
    return not node.orelse


def is_deleted(statement):
    return isinstance(statement, DELETED) and not isinstance(statement, (astnodes.LocalAssign, astnodes.If))
