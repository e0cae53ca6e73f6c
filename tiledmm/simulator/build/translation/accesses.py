"""The expression of an access to memory, given the column that debug information has for it."""

from __future__ import annotations

import re

_ASSIGNMENT = re.compile(r"(?:[-+*/%&|^]|<<|>>)?=(?!=)")
_NAME = re.compile(r"[A-Za-z_][\w.]*")


def access_at(line: str, column: int) -> str:
    """Return the subscripted expression that an access is written as: ``"A[row * K + k]"``; empty if there is none.

    GCC's column of an access is that of its last bracket, of an assignment, or of the ``?`` before it; Clang's that of
    its first letter.

    Args:
        line: Text of the source line.
        column: Column, from 1 on.
    """
    at = column - 1
    if not 0 <= at < len(line):
        return ""
    if line[at] == "]":
        return _ending_at(line, at + 1)
    if _ASSIGNMENT.match(line, at):
        return _ending_at(line, len(line[:at].rstrip()))
    if line[at] == "?":
        return _only_one(line, at + 1)
    return _beginning_at(line, at)


def _beginning_at(line: str, at: int) -> str:
    """Return the subscripted expression that begins at an offset."""
    name = _NAME.match(line, at)
    end = name.end() if name else at
    while name and line[end : end + 1] == "[" and (closed := _closing(line, end)) > end:
        end = closed
    return line[at:end] if name and end > name.end() else ""


def _only_one(line: str, begin: int) -> str:
    """Return the only subscripted expression in the branches of a conditional expression; empty if there are more."""
    found: list[str] = []
    at, depth = begin, 0
    while at < len(line) and depth >= 0 and line[at] not in ";{}" and (depth or line[at] != ","):
        name = _NAME.match(line, at)
        access = _beginning_at(line, at)
        found += [access] if access else []
        depth += (line[at] == "(") - (line[at] == ")")
        at += len(access) or (len(name[0]) if name else 1)
    return found[0] if len(found) == 1 else ""


def _ending_at(line: str, end: int) -> str:
    """Return the subscripted expression that ends at an offset."""
    begin = end
    while begin and line[begin - 1] == "]":
        depth = 0
        for at in range(begin - 1, -1, -1):
            depth += (line[at] == "]") - (line[at] == "[")
            if not depth:
                break
        else:
            return ""
        begin = at
    name = re.search(r"[A-Za-z_][\w.]*$", line[:begin])
    return line[name.start() : end] if name and begin < end else ""


def _closing(line: str, opening: int) -> int:
    """Return the offset behind the bracket that closes the one at an offset; that of the opening one if none does."""
    depth = 0
    for at in range(opening, len(line)):
        depth += (line[at] == "[") - (line[at] == "]")
        if not depth:
            return at + 1
    return opening
