"""Debug information of a compiled kernel: the source line of each instruction, and the shared arrays."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tiledmm.simulator.build.debug.dwarf import Frame, Unit
from tiledmm.simulator.build.debug.symbols import OBJECT, UNDEFINED, WRITTEN, sections_of, symbols_of

__all__ = ["DebugInfo", "Frame", "SharedArray", "debug_info", "source_name"]

# What may follow the name in a mangled symbol: the number of the variable among those of its name, the end of a scope.
_AFTER_NAME = re.compile(r"(?:_\d|__\d+_)?E?")


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A ``__shared__`` array, which the simulator compiles to a thread-local variable.

    Attributes:
        name: Name in the source.
        offset: Offset in the library's block of thread-local variables, in bytes.
        bytes: Size in bytes; of a dynamic array, the maximum size.
        dynamic: Whether the launch gives its size.
        symbol: Its mangled name, which contains the name of its function.
    """

    name: str
    offset: int
    bytes: int
    dynamic: bool = False
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable outside of functions: ``__device__``, ``__constant__`` or ``constexpr``.

    Attributes:
        name: Name in the source.
        address: Offset in the file, in bytes.
        bytes: Size in bytes.
        writable: Whether it is in memory that C++ can write; False for constants of C++.
    """

    name: str
    address: int
    bytes: int
    writable: bool = True


@functools.lru_cache(maxsize=256)
def debug_info(library: Path) -> DebugInfo:
    """Return the debug information of a library. The file is read only once."""
    return DebugInfo(library)


class DebugInfo:
    """Debug information of one shared library, parsed when it is needed. Several threads may use it at once."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._lock = threading.Lock()  # the parser has one position in the file
        self._arrays: list[SharedArray] = []
        self._symbols: dict[str, int] = {}
        self._variables: list[Variable] = []
        self._file = library.read_bytes()
        sections = sections_of(self._file)
        imports: set[str] = set()
        for symbol in symbols_of(sections):
            if symbol.section == UNDEFINED:
                imports.add(symbol.name)
                continue
            self._symbols[symbol.name] = symbol.value  # global symbols come last: they win
            if symbol.is_thread_local:
                self._arrays.append(
                    SharedArray(source_name(symbol.name), symbol.value, symbol.bytes, symbol=symbol.name)
                )
            elif symbol.kind == OBJECT and symbol.bytes:
                section = sections[symbol.section] if symbol.section < len(sections) else None
                # Constants with pointers, such as tables of functions, are written once: when the library is loaded.
                constant = section is None or section.name.startswith(".data.rel.ro")
                writable = section is not None and not constant and bool(section.flags & WRITTEN)
                self._variables.append(Variable(source_name(symbol.name), symbol.value, symbol.bytes, writable))
        #: Names of the functions that the code calls and another library has.
        self.imports = frozenset(imports)
        text = next((each for each in sections if each.name == ".text"), None)
        #: The first address of machine code, and the one behind the last.
        self.text = (text.address, text.address + text.size) if text else (0, 0)
        constants = [each for each in sections if each.name.startswith(".rodata")]
        #: The first address of constants without names, such as string literals and jump tables, and the one behind the
        #: last.
        self.constants = (
            min((each.address for each in constants), default=0),
            max((each.address + each.size for each in constants), default=0),
        )
        self._has_lines = any(each.name == ".debug_info" for each in sections)

    @functools.cached_property
    def _units(self) -> list[Unit]:
        if not self._has_lines:
            return []
        dwarf = ELFFile(BytesIO(self._file)).get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        return [Unit(unit) for unit in dwarf.iter_CUs()]

    def lines(self, addresses: Iterable[int]) -> list[tuple[Frame, ...]]:
        """Return the source lines of instructions, with the inlined calls around them.

        Args:
            addresses: Offsets in the file. A return address is that of the instruction after the call: for the line of
                the call, pass one less.

        Returns:
            For each address the line of its instruction; then, if the compiler inlined the function that it is in, the
            line of the call, and so on outwards. Empty for an address without debug information.
        """
        with self._lock:
            return [self._line(address) for address in addresses]

    def texts(self, addresses: Iterable[int]) -> list[tuple[tuple[str, int, int], ...]]:
        """Return the files, lines and columns of instructions, and of the inlined calls around them.

        Instructions have the same result if they were compiled from the same place in the source.

        Args:
            addresses: Offsets in the file.
        """
        return [tuple((each.file, each.line, each.column) for each in chain) for chain in self.lines(addresses)]

    def _line(self, address: int) -> tuple[Frame, ...]:
        return next((unit.lines(address) for unit in self._units if unit.covers(address)), ())

    def address(self, symbol: str) -> int:
        """Return the offset of a function or variable: in the file, or in the block of thread-local variables.

        Args:
            symbol: Its mangled name.

        Raises:
            LookupError: If the library defines no such symbol.
        """
        try:
            return self._symbols[symbol]
        except KeyError:
            raise LookupError(f"{self._library} defines no symbol {symbol!r}, or was stripped of its symbols") from None

    def defines(self, symbol: str) -> bool:
        """Return whether the library defines a symbol."""
        return symbol in self._symbols

    def shared_arrays(self) -> tuple[SharedArray, ...]:
        """Return the kernel's shared arrays in the order of their offsets.

        All dynamic arrays are in the same memory, and are returned as one array with the name of the first.
        """
        # The others are the runtime's, and what compilers add: "$d" (Clang), "debug.panic_stage" (Zig), and a symbol
        # without a size for the begin of the block (GCC on arm64).
        dynamic = self._symbols.get("tiledmm_dynamic_shared")
        arrays = {
            each.offset: replace(each, dynamic=each.offset == dynamic)
            for each in reversed(self._arrays)
            if each.bytes and each.name.isidentifier() and not each.name.startswith("tiledmm_")
        }
        return tuple(arrays[offset] for offset in sorted(arrays))

    def variables(self) -> tuple[Variable, ...]:
        """Return the kernel's variables outside of functions in the order of their addresses."""
        own = (
            each for each in self._variables if each.name.isidentifier() and not each.name.startswith(("tiledmm_", "_"))
        )
        return tuple(sorted(own, key=lambda variable: variable.address))


def source_name(symbol: str) -> str:
    """Return the name that a variable has in the source, which is at the end of its mangled symbol.

    For example ``tile`` of ``_ZZ6kernelPfE4tile``, ``_ZZ6kernelPfE4tile_0`` (the second of its name in the function),
    ``_ZL4tile`` (static, outside of functions) and ``_ZN5outer4tileE`` (in a namespace). The number before it is its
    length.
    """
    if not symbol.startswith("_Z"):
        return symbol
    names = []
    for length in re.finditer(r"(?=(\d+))", symbol):
        begin = length.end(1)
        end = begin + int(length[1])
        if begin < end <= len(symbol) and _AFTER_NAME.fullmatch(symbol, end):
            names.append((symbol[length.start(1) - 1] == "E", symbol[begin:end]))
    # In a function, "E" ends the function's own name and parameters; that name may have digits that look like a length.
    local = [name for is_local, name in names if is_local]
    if symbol.startswith("_ZZ") and local:
        return local[-1]
    return names[0][1] if names else symbol
