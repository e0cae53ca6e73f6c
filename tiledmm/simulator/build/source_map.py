"""Maps from the lines of a kernel's text to the files and lines that they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

#: A file and a line of it, from 1 on.
Place: TypeAlias = tuple[str, int]

# A rendered kernel is one text: headers, then the kernel's own source (its page), which begins with its name.
_PAGE = re.compile(r"^#define KERNEL\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceMap:
    """A map from the lines of a kernel's text to lines of files.

    Attributes:
        places: File and line of each line of the text, from the first on; None where that is not known.
        page: The line where the kernel's own source begins, after the headers.
        written: Each line as its file has it, where the text is what the preprocessor made of it; empty otherwise.
    """

    places: tuple[Place | None, ...]
    page: int = 1
    written: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, places: Iterable[Place | None]) -> SourceMap:
        """Return a map from the lines of a text to files and lines: one entry per line, None for an unknown place."""
        return cls(tuple(places), first_line_of_page(text))

    @classmethod
    def of_file(cls, name: str, text: str) -> SourceMap:
        """Return a map from the lines of a text to the same lines of one file."""
        return cls.of(text, ((name, line) for line in range(1, len(text.splitlines()) + 1)))

    @property
    def locations(self) -> tuple[str, ...]:
        """File and line of each line of the text, such as ``"tiled.cu.j2:57"``."""
        return tuple(map(self.location, range(1, len(self.places) + 1)))

    def location(self, line: int) -> str:
        """Return the file and line that a line of the text comes from, such as ``"tiled.cu.j2:57"``.

        Args:
            line: Line of the text, from 1 on; 0 for an unknown line, which gives ``"an unknown line"``.
        """
        place = self.places[line - 1] if 0 < line <= len(self.places) else None
        return f"{place[0]}:{place[1]}" if place else f"rendered line {line}" if line else "an unknown line"


def first_line_of_page(text: str) -> int:
    """Return the line, from 1, where a kernel's own source begins in its rendered text.

    It is 1 if no headers precede the kernel's source.
    """
    begin = _PAGE.search(text)
    return text.count("\n", 0, begin.start()) + 1 if begin else 1


def own_line(chain: Iterable[int], page: int) -> int:
    """Return the innermost line of a chain of inlined calls that is in the kernel's own source, after its headers.

    If all lines are in headers, the innermost line is returned; 0 if there are none.

    Args:
        chain: Line numbers, innermost first; 0 for an unknown line.
        page: The line where the kernel's own source begins.
    """
    lines = [line for line in chain if line]
    return next((line for line in lines if line >= page), lines[0] if lines else 0)
