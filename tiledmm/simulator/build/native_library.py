"""Native libraries of kernels, loaded into this process."""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiledmm.errors import CompilationError
from tiledmm.simulator.build.debug.debug_info import debug_info

# Bytes of variables from which on a library that cannot be loaded is one for which there is no memory.
_LARGE = 64 << 20


@dataclass(frozen=True, slots=True)
class Library:
    """A kernel's native library, loaded into this process.

    Attributes:
        functions: The loaded library, whose functions are attributes.
        base: Address at which offset 0 of the file is loaded.
        text: Addresses of its machine code: the first, and the one after the last.
        constants: Addresses of its constants without names: the first, and the one after the last.
        initial: Initial bytes of its variables outside of functions, by name.
        imports: Names of the functions outside of the library that its code calls.
        lock: Held by the launch that uses these variables, of which the library has one copy.
    """

    functions: Any
    base: int
    text: tuple[int, int]
    constants: tuple[int, int]
    initial: dict[str, bytes]
    imports: frozenset[str]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, path: Path) -> Library:
        """Load the library at a path that ``toolchain.kernel_library`` yields, and return it. A path is loaded once."""
        return _load(path)


@functools.lru_cache(maxsize=256)
def _load(path: Path) -> Library:
    debug = debug_info(path)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        size = sum(each.bytes for each in debug.variables())
        if size < _LARGE:
            raise
        raise CompilationError(
            f"there is not enough memory for the variables outside of functions, {size:,} bytes: {error}"
        ) from None
    base = (ctypes.cast(library.tiledmm_run_thread, c_void_p).value or 0) - debug.address("tiledmm_run_thread")
    begin, end = debug.text
    variables = (each for each in debug.variables() if each.writable)
    initial = {each.name: ctypes.string_at(base + each.address, each.bytes) for each in variables}
    first, last = debug.constants
    return Library(library, base, (base + begin, base + end), (base + first, base + last), initial, debug.imports)
