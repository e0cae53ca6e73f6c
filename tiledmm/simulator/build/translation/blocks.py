"""Loops, braces and arrays of CUDA C by their lines, for messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tiledmm.simulator.build.translation.syntax import without_comments


def loop_around(text: str, line: int) -> int:
    """Return the line, from 1, of the condition of the innermost loop around a line; 0 if no loop is around it."""
    around = [loop for loop in _loops(_plain(text)) if loop[0] <= line <= loop[1]]
    return min(around, key=lambda loop: loop[1] - loop[0])[2] if around else 0


def unclosed_brace(text: str) -> int:
    """Return the line, from 1, of an opening brace that no other closes; 0 if there is none.

    Where another brace is closed at the beginning of a line, by indentation, before an inner one is, the inner one is
    meant; else the innermost that is open at the end.
    """
    open_braces: list[tuple[int, int]] = []
    meant = 0
    for number, line in enumerate(re.sub(r"'\\?.'", "   ", _plain(text)).split("\n"), 1):
        indentation = len(line) - len(line.lstrip())
        for brace in re.finditer(r"[{}]", line):
            if brace[0] == "{":
                open_braces.append((number, indentation))
            elif open_braces:
                opened, deeper = open_braces.pop()
                if brace.start() == indentation < deeper and any(each == indentation for _, each in open_braces):
                    meant = meant or opened
    return (meant or open_braces[-1][0]) if open_braces else 0


def largest_array(text: str, end: int) -> int:
    """Return the line, from 1, that declares the largest array of a function; 0 if there is none.

    Args:
        text: CUDA C.
        end: A line of the function, behind its arrays.
    """
    sizes: dict[int, int] = {}
    for number, line in reversed([*enumerate(_plain(text).split("\n")[:end], 1)]):
        if "__shared__" not in line and (array := re.search(r"\w\s+\w+\s*((?:\[[^\]]+\])+)\s*[;,={]", line)):
            sizes[number] = math.prod(int(each) for each in re.findall(r"\[\s*(\d+)\s*\]", array[1]))
        if re.search(r"\b__(global|device)__\b", line):
            break
    return max(sizes, key=lambda each: sizes[each], default=0)


def _plain(text: str) -> str:
    """Return a text without its comments, strings and preprocessor directives. No line moves."""
    kept = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|^[ \t]*#.*', "", "\n".join(map(without_comments, kept.split("\n"))), flags=re.M)


def _loops(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield, for each loop, its first line, its last line and the line of its condition, all from 1."""

    def line(at: int) -> int:
        return text.count("\n", 0, at) + 1

    for head in re.finditer(r"\b(for|while|do)\b", text):
        begin = head.start()
        if head[1] == "do":
            end = _end_of_statement(text, head.end())
            condition = re.compile(r"\s*while\b").match(text, end)
            if condition:
                yield line(begin), line(_behind_closing(text, text.find("(", end), "()")), line(condition.end())
        elif (opening := text.find("(", begin)) >= 0:
            yield line(begin), line(_end_of_statement(text, _behind_closing(text, opening, "()")) - 1), line(begin)


def _end_of_statement(text: str, begin: int) -> int:
    """Return the offset after the statement at ``begin``.

    The statement is a block, or ends at a semicolon outside of parentheses.
    """
    statement = re.compile(r"\s*").match(text, begin)
    at = statement.end() if statement else begin
    if text[at : at + 1] == "{":
        return _behind_closing(text, at, "{}")
    if nested := re.compile(r"(?:for|while|if)\s*(?=\()").match(text, at):
        return _end_of_statement(text, _behind_closing(text, nested.end(), "()"))
    end = text.find(";", at)
    return len(text) if end < 0 else end + 1


def _behind_closing(text: str, opening: int, pair: str) -> int:
    """Return the offset after the bracket that closes an opening bracket; the text's length if there is none.

    Args:
        text: The text.
        opening: Offset of the opening bracket.
        pair: The two brackets: ``"()"`` or ``"{}"``.
    """
    depth = 0
    for bracket in re.finditer(f"[{re.escape(pair)}]", text[opening:]):
        depth += 1 if bracket[0] == pair[0] else -1
        if depth == 0:
            return opening + bracket.end()
    return len(text)
