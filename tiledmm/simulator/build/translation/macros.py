"""Expansion of macros whose parameters are part of the text of inline PTX, such as ``asm("mov.u32 %0, %%" name ";")``.

Translation needs the whole text of an asm statement, so each use of such a macro is replaced by what it stands for.
All other macros are left to the compiler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LITERAL = r'"(?:[^"\\\n]|\\(?s:.))*"|' + r"'(?:[^'\\\n]|\\.)+'"
_COMMENT = r"//(?:\\\n|[^\n])*|/\*(?s:.*?)\*/"
_DEFINITION = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)\((?P<parameters>[\w\s,\\]*)\)(?P<body>(?:\\\n|[^\n])*)", re.MULTILINE
)
_TOKEN = re.compile(rf"(?P<skipped>{_COMMENT}|{_LITERAL})|(?P<word>\b[A-Za-z_]\w*)")
_PIECE = re.compile(rf"(?P<skipped>{_COMMENT}|{_LITERAL})|(?P<open>[(\[{{])|(?P<close>[)\]}}])|(?P<comma>,)|(?s:.)")
_ASM_TEXT = re.compile(
    rf"\b(?:asm|__asm__|__asm)\b(?:\s|\b\w*(?:volatile|inline)\w*\b)*\((?P<text>(?:\s|{_LITERAL}|\b[A-Za-z_]\w*)*)[:)]"
)
_SUBSTITUTED = re.compile(
    rf"(?P<skipped>{_LITERAL})|\s*(?P<joins>\#\#)\s*|\#\s*(?P<quoted>\w+)|(?P<word>\b[A-Za-z_]\w*)"
)


@dataclass(frozen=True, slots=True)
class _Macro:
    """A macro with parameters.

    Attributes:
        name: Its name.
        parameters: Names of its parameters.
        body: What it stands for, on one line and without comments.
        end: Offset in the source after its definition.
    """

    name: str
    parameters: tuple[str, ...]
    body: str
    end: int

    def is_part_of_text(self) -> bool:
        """Return whether a parameter is part of the text of an asm statement."""
        words = {
            token["word"] for asm in _ASM_TEXT.finditer(self.body) for token in _TOKEN.finditer(asm["text"])
        }  # fmt: skip
        return not words.isdisjoint(self.parameters)

    def expanded(self, arguments: list[str]) -> str:
        """Return the body with arguments in place of the parameters."""
        values = dict(zip(self.parameters, arguments, strict=True))

        def substitute(found: re.Match[str]) -> str:
            if found["joins"]:
                return ""
            if found["quoted"] in values:
                text = values[found["quoted"]].replace("\\", "\\\\").replace('"', '\\"')
                return f'"{text}"'
            return values.get(found["word"], found[0]) if found["word"] else found[0]

        return _SUBSTITUTED.sub(substitute, self.body)


def expand(source: str) -> str:
    """Return CUDA C in which uses of macros are expanded if their parameters are part of the text of inline PTX.

    Every line keeps its number. A macro with several definitions is not expanded.
    """
    done: set[str] = set()
    while macro := _next(source, done):
        done.add(macro.name)
        source = source[: macro.end] + _with_expanded(source[macro.end :], macro)
    return source


def _next(source: str, done: set[str]) -> _Macro | None:
    """Return the first macro of a text to expand that is not among those done."""
    definitions = list(_DEFINITION.finditer(source))
    names = [found["name"] for found in definitions]
    for found in definitions:
        if "asm" in found["body"] and found["name"] not in done and names.count(found["name"]) == 1:
            parameters = [each.strip(" \t\\\n") for each in found["parameters"].split(",")]
            body = re.sub(_COMMENT, " ", found["body"].replace("\\\n", " ")).strip()
            macro = _Macro(found["name"], tuple(filter(None, parameters)), body, found.end())
            if macro.is_part_of_text():
                return macro
    return None


def _with_expanded(text: str, macro: _Macro) -> str:
    out, at = [], 0
    for token in _TOKEN.finditer(text):
        if token["word"] != macro.name or token.start() < at:
            continue
        opening = re.compile(r"\s*\(").match(text, token.end())
        arguments, end = _arguments(text, opening.end()) if opening else ([], 0)
        if len(arguments) == len(macro.parameters):
            lines = re.findall(r"\\?\n", text[token.start() : end])
            out += [text[at : token.start()], macro.expanded(arguments), *lines]
            at = end
    return "".join([*out, text[at:]])


def _arguments(text: str, begin: int) -> tuple[list[str], int]:
    """Return the arguments of a macro's use, each on one line, and the offset after its closing parenthesis."""
    depth, parts = 1, [""]
    for piece in _PIECE.finditer(text, begin):
        depth += bool(piece["open"]) - bool(piece["close"])
        if depth == 0:
            return [re.sub(r"\s*\\?\n\s*", " ", part).strip() for part in parts], piece.end()
        if piece["comma"] and depth == 1:
            parts.append("")
        else:
            parts[-1] += " " if piece[0].startswith(("//", "/*")) else piece[0]
    return [], 0
