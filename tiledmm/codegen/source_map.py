"""From lines of a rendered kernel to the lines of the templates that they come from.

A kernel is rendered once more, with a mark behind each line that says where in which template it stands. A mark is a
comment: tree shaking looks at no comment, so it leaves out the same lines as without marks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from tiledmm.codegen.rendering import fill, render
from tiledmm.codegen.tree_shaking import BEGIN, END, shake
from tiledmm.kernels.spec import KernelSpec

# A control character, which no source has; and the template's name in hexadecimal, which says nothing to tree shaking.
_MARK = re.compile(r" //\x01([0-9a-f]*):(\d+)")
_ONLY_MARKS = re.compile(rf"^([ \t]*)(?:{_MARK.pattern})+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Where each line of a kernel's text comes from.

    Attributes:
        places: File and line of each line of the text, from the first on; None where that is not known.
    """

    places: tuple[tuple[str, int] | None, ...]

    @property
    def locations(self) -> tuple[str, ...]:
        """The location of each line."""
        return tuple(map(self.location, range(1, len(self.places) + 1)))

    def location(self, line: int) -> str:
        """A line's file and line, such as ``"tiled.cu.j2:57"``.

        Args:
            line: Line of the text, from 1 on; 0 for a line that is not known.
        """
        place = self.places[line - 1] if 0 < line <= len(self.places) else None
        return f"{place[0]}:{place[1]}" if place else f"rendered line {line}" if line else "an unknown line"


@functools.lru_cache(maxsize=64)
def source_map(spec: KernelSpec) -> SourceMap:
    """Template and line of each line of ``render(spec)``.

    They are not known if a template looks at its own text, as with ``{% filter %}``, and marks change what it does.
    """
    marked = shake(_ONLY_MARKS.sub(r"\1", fill(spec, _LineMarks))).splitlines()
    plain = render(spec).splitlines()
    if [_MARK.sub("", line) for line in marked] != plain:
        return SourceMap((None,) * len(plain))
    return SourceMap(tuple(map(_place, marked)))


def file_map(name: str, text: str) -> SourceMap:
    """The same for a kernel that was read from a file: its own lines."""
    return SourceMap(tuple((name, line) for line in range(1, len(text.splitlines()) + 1)))


def _place(line: str) -> tuple[str, int] | None:
    marks = _MARK.findall(line)
    if not marks:
        return None
    name, number = marks[-1]
    return bytes.fromhex(name).decode(), int(number)


class _LineMarks(Extension):
    """Puts a mark before each end of a line that a template itself writes."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        name = str(stream.name).encode().hex()
        begin = 0  # lines that the loader puts before a header
        for token in stream:
            if token.type != "data":
                yield token
                continue
            *lines, rest = token.value.split("\n")
            marked = []
            for number, line in enumerate(lines, token.lineno):
                begin += line == BEGIN
                marked.append(line if line in (BEGIN, END) else f"{line} //\x01{name}:{number - begin}")
            yield Token(token.lineno, token.type, "\n".join([*marked, rest]))
