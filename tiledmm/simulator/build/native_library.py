"""Native libraries of kernels, loaded into this process."""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiledmm.simulator.build.debug.debug_info import debug_info


@dataclass(frozen=True, slots=True)
class Library:
    """A kernel's native library, loaded into this process.

    Attributes:
        functions: Its functions, by name.
        base: Address of offset 0 of the file.
        text: Addresses of its machine code: the first, and the one behind the last.
        constants: The same of its constants without names.
        initial: Bytes of its variables outside of functions before any launch, by name.
        lock: Held by the launch that uses these variables: the library has one copy of them.
    """

    functions: Any
    base: int
    text: tuple[int, int]
    constants: tuple[int, int]
    initial: dict[str, bytes]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, path: Path) -> Library:
        """Load a library that ``toolchain.build_kernel`` made; the same path is loaded once."""
        return _load(path)


@functools.lru_cache(maxsize=256)
def _load(path: Path) -> Library:
    library = ctypes.CDLL(str(path))
    debug = debug_info(path)
    base = (ctypes.cast(library.tiledmm_run_thread, c_void_p).value or 0) - debug.address("tiledmm_run_thread")
    begin, end = debug.text
    variables = (each for each in debug.variables() if each.writable)
    initial = {each.name: ctypes.string_at(base + each.address, each.bytes) for each in variables}
    first, last = debug.constants
    return Library(library, base, (base + begin, base + end), (base + first, base + last), initial)
