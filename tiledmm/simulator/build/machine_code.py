"""Widths of each source line's accesses in machine code (SASS), which the caller's disassembler reads."""

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
        """Number of bytes that each lane accesses."""

    @property
    def lines(self) -> tuple[int, ...]:
        """Source line of the instruction, then the lines of the inlined calls around it."""


class MachineCode(Protocol):
    """A kernel in machine code."""

    @property
    def accesses(self) -> Sequence[MachineAccess]:
        """The kernel's instructions that access memory."""


#: Compiles CUDA C by NVRTC and disassembles a kernel: source, symbol, target.
Disassembler: TypeAlias = Callable[[str, str, str], MachineCode]


def access_widths(accesses: Iterable[MachineAccess], page: int) -> dict[tuple[int, str, str], int]:
    """Return the bytes per lane of each source line's widest access, by line, kind and memory.

    Args:
        accesses: Instructions that access memory.
        page: The line where the kernel's own source begins, after the headers.
    """
    widest: dict[tuple[int, str, str], int] = {}
    for each in accesses:
        key = own_line(each.lines, page), each.kind, each.space
        widest[key] = max(each.bytes, widest.get(key, 0))
    return widest
