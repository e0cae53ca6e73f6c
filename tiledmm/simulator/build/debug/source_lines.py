"""Source lines of a kernel's instructions, and the files and lines that these lines come from."""

from __future__ import annotations

from collections.abc import Iterable

from tiledmm.simulator.build.debug.debug_info import DebugInfo
from tiledmm.simulator.build.source_map import SourceMap, own_line
from tiledmm.simulator.build.translation.accesses import access_at
from tiledmm.simulator.build.translation.blocks import loop_around


class SourceLines:
    """Source lines of one kernel's instructions.

    Args:
        debug: Debug information of the compiled kernel.
        text: The kernel's source.
        places: File and line of each line of the source.
    """

    def __init__(self, debug: DebugInfo, text: str, places: SourceMap) -> None:
        self._debug = debug
        self._places = places
        self._text = text.splitlines()
        self._known: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._columns: dict[int, int] = {}

    def of(self, places: Iterable[int]) -> dict[int, int]:
        """Return the source line of each place in machine code; 0 if it is unknown.

        Args:
            places: Return addresses of calls in the kernel, as offsets in its library.
        """
        wanted = dict.fromkeys(places)
        self._read([place for place in wanted if place not in self._known])
        return {place: self._known[place][0] for place in wanted}

    def line(self, place: int) -> int:
        """Return the source line of a place in machine code; 0 for place 0, or if the line is unknown."""
        return self.of([place])[place] if place else 0

    def calls(self, place: int) -> tuple[int, ...]:
        """Return the lines of the inlined calls around a place in machine code, from the innermost on."""
        self.line(place)
        return self._known[place][1] if place else ()

    def access(self, place: int) -> str:
        """Return the access at a place in machine code as compiled: ``"A[row * K + k]"``, without macros; or empty."""
        line = self.line(place)
        # Columns are those of the text without macros.
        return access_at(self._text[line - 1], self._columns.get(place, 0)) if 0 < line <= len(self._text) else ""

    def same_text(self, place: int, other: int) -> bool:
        """Return whether two places in machine code were compiled from the same place in the source.

        Lines, columns and the inlined calls around them are compared.
        """
        return self._debug.texts([place - 1]) == self._debug.texts([other - 1])

    def _read(self, places: list[int]) -> None:
        for place, chain in zip(places, self._debug.lines([place - 1 for place in places]), strict=True):
            lines = [frame.line for frame in chain if frame.file.endswith("kernel.cu") and frame.line]
            own = own_line(lines, self._places.page)
            outer = lines[lines.index(own) + 1 :] if own in lines else []
            self._columns[place] = next((frame.column for frame in chain if frame.line == own), 0)
            self._known[place] = own, tuple(dict.fromkeys(each for each in outer if each >= self._places.page))

    def loop(self, line: int) -> int:
        """Return the line of the condition of the innermost loop around a line; 0 if there is no loop."""
        return loop_around("\n".join(self._text), line) if line else 0

    def text(self, line: int) -> str:
        """Return the text of a line, counted from 1; an empty string for 0, which stands for an unknown line."""
        lines = self._places.written or self._text
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def location(self, line: int) -> str:
        """Return the file and line that a line of the kernel's source comes from, such as ``"tiled.cu.j2:57"``."""
        return self._places.location(line)
