"""Widths of the accesses of each source line in machine code (SASS), which a disassembler passed in produces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from tiledmm.simulator.build.source_map import own_line


class MachineAccess(Protocol):
    """One instruction that accesses memory: see ``tiledmm.compile.disassembly.Access``."""

    @property
    def kind(self) -> str:
        """Kind of the access: ``"load"``, ``"store"`` or ``"copy"``."""

    @property
    def space(self) -> str:
        """Memory that is accessed: ``"shared"``, ``"global"`` or another."""

    @property
    def bytes(self) -> int:
        """Bytes that each lane moves."""

    @property
    def lines(self) -> tuple[int, ...]:
        """Its source line, then the lines of the inlined calls around it."""


class MachineCode(Protocol):
    """A kernel in machine code."""

    @property
    def accesses(self) -> Sequence[MachineAccess]:
        """Its instructions that access memory."""


#: Compiles CUDA C by NVRTC and disassembles a kernel: source, symbol, target.
Disassembler: TypeAlias = Callable[[str, str, str], MachineCode]


def access_widths(accesses: Iterable[MachineAccess], page: int) -> dict[tuple[int, str, str], int]:
    """Return the bytes of the widest access by source line, kind and memory.

    Args:
        accesses: Instructions that access memory.
        page: The line where the kernel's own page begins.
    """
    widest: dict[tuple[int, str, str], int] = {}
    for each in accesses:
        key = own_line(each.lines, page), each.kind, each.space
        widest[key] = max(each.bytes, widest.get(key, 0))
    return widest
