"""The loops of a text of CUDA C, by its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tiledmm.simulator.build.translation.declarations import without_comments


def loop_around(text: str, line: int) -> int:
    """The line, from 1, of the condition of the innermost loop around a line; 0 if there is none."""
    around = [loop for loop in _loops(_plain(text)) if loop[0] <= line <= loop[1]]
    return min(around, key=lambda loop: loop[1] - loop[0])[2] if around else 0


def _plain(text: str) -> str:
    """A text without what is in comments, strings and directives. Lines stay where they are."""
    kept = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|^[ \t]*#.*', "", "\n".join(map(without_comments, kept.split("\n"))), flags=re.M)


def _loops(text: str) -> Iterator[tuple[int, int, int]]:
    """The first line of each loop, its last line, and that of its condition."""

    def line(at: int) -> int:
        return text.count("\n", 0, at) + 1

    for head in re.finditer(r"\b(for|while|do)\b", text):
        begin = head.start()
        if head[1] == "do":
            end = _end_of_statement(text, head.end())
            condition = re.compile(r"\s*while\b").match(text, end)
            if condition:
                yield line(begin), line(_closed(text, text.find("(", end), "()")), line(condition.end())
        elif (opening := text.find("(", begin)) >= 0:
            yield line(begin), line(_end_of_statement(text, _closed(text, opening, "()")) - 1), line(begin)


def _end_of_statement(text: str, begin: int) -> int:
    """Behind a statement: a block, or up to a semicolon that is in no parentheses."""
    statement = re.compile(r"\s*").match(text, begin)
    at = statement.end() if statement else begin
    if text[at : at + 1] == "{":
        return _closed(text, at, "{}")
    if nested := re.compile(r"(?:for|while|if)\s*(?=\()").match(text, at):
        return _end_of_statement(text, _closed(text, nested.end(), "()"))
    end = text.find(";", at)
    return len(text) if end < 0 else end + 1


def _closed(text: str, opening: int, pair: str) -> int:
    """Behind the bracket that closes an opening one."""
    depth = 0
    for bracket in re.finditer(f"[{re.escape(pair)}]", text[opening:]):
        depth += 1 if bracket[0] == pair[0] else -1
        if depth == 0:
            return opening + bracket.end()
    return len(text)
