"""From instructions of a kernel to lines of its source, and to the files where people find these."""

from __future__ import annotations

from collections.abc import Iterable

from tiledmm.codegen.page import first_line_of_page
from tiledmm.codegen.source_map import SourceMap
from tiledmm.simulator.debug_info import DebugInfo


def own_line(chain: Iterable[int], page: int) -> int:
    """The innermost line of a chain of inlined calls that is on the kernel's own page.

    Args:
        chain: Line numbers, innermost first.
        page: First line of the page.
    """
    lines = [line for line in chain if line]
    return next((line for line in lines if line >= page), lines[0] if lines else 0)


class SourceLines:
    """Lines of one kernel's source.

    Args:
        debug: Debug information of the compiled kernel.
        text: Its source.
        places: File and line of each line of the source.
    """

    def __init__(self, debug: DebugInfo, text: str, places: SourceMap) -> None:
        self._debug = debug
        self._places = places
        self._text = text.splitlines()
        self._page = first_line_of_page(text)
        self._known: dict[int, int] = {}

    def of(self, places: Iterable[int]) -> dict[int, int]:
        """The line of each place, 0 where there is none. Places are return addresses."""
        wanted = dict.fromkeys(places)
        new = [place for place in wanted if place not in self._known]
        chains = self._debug.lines([place - 1 for place in new])
        for place, chain in zip(new, chains, strict=True):
            self._known[place] = own_line(
                (frame.line for frame in chain if frame.file.endswith("kernel.cu")), self._page
            )
        return {place: self._known[place] for place in wanted}

    def text(self, line: int) -> str:
        """A line's text; empty for 0."""
        return self._text[line - 1] if 0 < line <= len(self._text) else ""

    def location(self, line: int) -> str:
        """A line's file and line: ``"tiled.cu.j2:57"``."""
        return self._places.location(line)
