"""The widths of each source line's accesses in machine code."""

from __future__ import annotations

from tiledmm.codegen.page import first_line_of_page
from tiledmm.compile.disassembly import disassemble
from tiledmm.simulator.debug.lines import own_line


class Widths:
    """Widths of the accesses of one kernel on one target architecture.

    Raises:
        MissingDependencyError: If NVRTC or nvdisasm is not installed.
        CompilationError: If NVRTC does not compile the source.
    """

    def __init__(self, source: str, symbol: str, target: str) -> None:
        page = first_line_of_page(source)
        self._widest: dict[tuple[int, str, str], int] = {}
        for access in disassemble(source, symbol, target).accesses:
            key = own_line(access.lines, page), access.kind, access.space
            self._widest[key] = max(access.bytes, self._widest.get(key, 0))

    def of(self, line: int, kind: str) -> tuple[int, int]:
        """Bytes of the widest access of a line and kind to shared and to global memory; 0 where there is none."""
        return self._widest.get((line, kind, "shared"), 0), self._widest.get((line, kind, "global"), 0)
