"""Tokens of preprocessed C++, with their offsets."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<skip>^[ \t]*\#[^\n]*)
    |(?P<string>(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<name>[A-Za-z_$]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
    |(?P<launch><<\s*<|<\s*<<)
    |(?P<sign>::|->|\+\+|--|&&|\|\||[-+*/%&|^=!]=|[<>]=|[^\s\w])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)

NAME, NUMBER, STRING, SIGN = "name", "number", "string", "sign"

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of C++.

    Attributes:
        kind: ``NAME``, ``NUMBER``, ``STRING`` or ``SIGN``.
        text: Its characters. ``<<<`` is one token; ``<`` and ``>`` of other operators are one token each.
        begin: Offset of its first character.
    """

    kind: str
    text: str
    begin: int

    @property
    def end(self) -> int:
        """Offset after its last character."""
        return self.begin + len(self.text)


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of preprocessed C++, which has no comments; directives such as ``#pragma`` are left out."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if match["string"] is not None:
            kind = STRING
        if kind == "launch":  # formatters write "<< <"
            found.append(Token(SIGN, "<<<", match.start()))
        elif kind != "skip":
            found.append(Token(kind, match[0], match.start()))
    return found


def closing(tokens: Sequence[Token], opening: int, end: int | None = None) -> int:
    """Return the index of the bracket that closes the bracket at ``opening``; ``end`` if there is none.

    Args:
        tokens: All tokens.
        opening: Index of ``(``, ``[`` or ``{``.
        end: Index after the last token to look at; None for all.
    """
    end = len(tokens) if end is None else end
    begins, ends = tokens[opening].text, _CLOSING[tokens[opening].text]
    depth = 0
    for at in range(opening, end):
        text = tokens[at].text
        if text == begins:
            depth += 1
        elif text == ends:
            depth -= 1
            if depth == 0:
                return at
    return end


def closing_angle(tokens: Sequence[Token], opening: int, end: int) -> int:
    """Return the index of the ``>`` that closes template arguments at ``opening``; ``end`` if these are none."""
    depth, at = 0, opening
    while at < end:
        text = tokens[at].text
        if text in _CLOSING:
            at = closing(tokens, at, end)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return at
        elif text in (";", ")", "}", "{", "<<<"):
            return end
        at += 1
    return end


def split(tokens: Sequence[Token], begin: int, end: int, *, angles: bool = False) -> list[tuple[int, int]]:
    """Return the ranges of tokens between commas that are in no brackets; none if there are no tokens.

    Args:
        tokens: All tokens.
        begin: Index of the first token.
        end: Index after the last token.
        angles: Whether ``<`` opens template arguments.
    """
    if begin >= end:
        return []
    parts, first, at = [], begin, begin
    while at < end:
        text = tokens[at].text
        if text in _CLOSING:
            at = closing(tokens, at, end)
        elif text == "<" and angles and at > begin and tokens[at - 1].kind == NAME:
            close = closing_angle(tokens, at, end)
            at = close if close < end else at
        elif text == ",":
            parts.append((first, at))
            first = at + 1
        at += 1
    return [*parts, (first, end)]


def text_of(tokens: Sequence[Token]) -> str:
    """Return the text of tokens, with one space where C++ needs one."""
    text = ""
    for before, token in zip([None, *tokens], tokens, strict=False):
        words = before is not None and before.kind in (NAME, NUMBER) and token.kind in (NAME, NUMBER)
        after = before is not None and before.text in ("*", ">", ",", "&") and token.kind == NAME
        text += f"{' ' if words or after else ''}{token.text}"
    return text


def find(tokens: Sequence[Token], begin: int, end: int, wanted: Callable[[Token], bool]) -> int:
    """Return the index of the first token outside of brackets for which ``wanted`` is true; ``end`` without one."""
    at = begin
    while at < end:
        if wanted(tokens[at]):
            return at
        if tokens[at].text in _CLOSING:
            at = closing(tokens, at, end)
        at += 1
    return end
