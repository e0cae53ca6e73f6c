"""The interface between Python and the runtime: the structures of ``build/native/interface.h``, and its functions."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from tiledmm.simulator.build import toolchain

SPACES = ("shared", "global")
KINDS = (
    "load", "store", "copy", "arithmetic", "barrier",
    "init", "arrive", "expect", "wait", "pass", "complete",
    "issue", "land",
    "issue store", "land store", "commit stores", "wait for stores", "pass stores",
    "wgmma", "commit wgmma", "wait for wgmma", "pass wgmma",
    "arrive at cluster", "wait for cluster", "pass cluster",
)  # fmt: skip
ORDERS = ("forward", "reverse", "random", "preemptive")

#: Functions of the runtime that a kernel's code calls, by what they let a kernel do: order some threads and not others,
#: and access memory that others change meanwhile.
ORDER_SOME = frozenset(
    f"tiledmm_{name}"
    for name in (
        "sync_warp",
        "sync_grid",
        "named_barrier",
        "fence",
        "atomic_access",
        "compare_access",
        "monotone_access",
        "barrier_wait",
        "wait_for_bulk",
        "wgmma_wait",
        "wait_at_cluster",
    )
)
VOLATILE = frozenset(f"__tsan_volatile_{access}{size}" for access in ("read", "write") for size in (1, 2, 4, 8, 16))


class Operand(Structure):
    """One region of global memory, as the runtime gets it."""

    _fields_ = [
        ("begin", c_uint64), ("bytes", c_uint64), ("granule", c_uint64), ("valid", c_void_p), ("writes", c_void_p),
        ("reads", c_void_p), ("defined", c_uint64), ("constant", c_uint64), ("unwritten", c_void_p),
        ("pending", c_uint64),
    ]  # fmt: skip


class NativeSharedArray(Structure):
    """Position, size and declared alignment of a shared array, in bytes."""

    _fields_ = [("from_anchor", c_int64), ("bytes", c_uint64), ("alignment", c_uint64)]


#: Writes, for a place in the code and the kind of access there, a number by which accesses are grouped, and the bytes
#: of the widest access in the GPU's machine code to shared and to global memory.
DESCRIBE = CFUNCTYPE(None, c_uint64, c_uint32, POINTER(c_uint64))


class NativeLaunch(Structure):
    """Parameters of a launch, as the runtime gets them."""

    _fields_ = [
        ("run_thread", c_void_p), ("anchor", c_void_p), ("arguments", POINTER(c_void_p)),
        ("grid", c_uint32 * 3), ("block", c_uint32 * 3),
        ("operands", POINTER(Operand)), ("arrays", POINTER(NativeSharedArray)),
        ("operand_count", c_uint32), ("array_count", c_uint32),
        ("checks", c_uint32), ("counts", c_uint32), ("order", c_uint32), ("trace", c_uint32),
        ("seed", c_uint64), ("traced_block", c_uint64), ("chosen", POINTER(c_uint64)), ("chosen_count", c_uint64),
        ("max_steps", c_uint64),
        ("code", c_uint64), ("code_end", c_uint64),
        ("constants", c_uint64), ("constants_end", c_uint64), ("guarded", c_uint32), ("workers", c_uint32),
        ("uses", c_uint32), ("clock_rate", c_uint32), ("shared_fill", c_uint32), ("arch", c_uint32),
        ("stall", c_uint32), ("cooperative", c_uint32),
        ("describe", DESCRIBE), ("undefined_at", c_uint64), ("undefined_fill", c_uint64),
        ("cluster", c_uint32 * 3),
    ]  # fmt: skip


class RawFinding(Structure):
    """A finding as the runtime records it, with places in machine code instead of source lines."""

    _fields_ = [
        ("count", c_uint64), ("pc", c_uint64), ("other_pc", c_uint64), ("address", c_uint64), ("calls", c_uint64 * 8),
        ("kind", c_uint32), ("space", c_uint32), ("bytes", c_uint32), ("writes", c_uint32), ("other_writes", c_uint32),
        ("block", c_uint32 * 3), ("thread", c_uint32 * 3), ("other_block", c_uint32 * 3),
        ("other_thread", c_uint32 * 3), ("unfenced", c_uint32), ("one_warp", c_uint32), ("warp", c_uint32),
        ("present", c_uint32), ("mask", c_uint32), ("other_mask", c_uint32),
        ("allocation", c_uint64), ("allocated", c_uint64), ("allocated_at", c_uint64),
        ("waited_at", c_uint64), ("uncommitted", c_uint64), ("details", c_uint64 * 4),
    ]  # fmt: skip


class RawCounts(Structure):
    """Counts of the requests of warps to shared or to global memory."""

    _fields_ = [(name, c_uint64) for name in ("requests", "lanes", "bytes", "units", "ideal")]


class RawSite(Structure):
    """Counts of one instruction that accesses memory, computes, or waits at a barrier."""

    _fields_ = [
        ("pc", c_uint64), ("flops", c_uint64), ("barriers", c_uint64), ("phases", c_uint64),
        ("bytes", c_uint32), ("kind", c_uint32),
        ("source", RawCounts * 2), ("sass", RawCounts * 2),
    ]  # fmt: skip


class RawEvent(Structure):
    """One event of a trace: an access, an operation, a barrier of the block, or a step of an asynchronous operation."""

    _fields_ = [
        ("pc", c_uint64), ("address", c_uint64), ("step", c_uint64), ("other", c_uint64),
        ("thread", c_uint32), ("bytes", c_uint32), ("kind", c_uint32), ("space", c_uint32),
        ("rank", c_uint32), ("by", c_uint32),
    ]  # fmt: skip


def runtime() -> Any:
    """Load the runtime's library, and return it with the types of its functions declared.

    The library is compiled first if it is not in the cache.
    """
    loaded = _LOADED.get(toolchain.runtime_path())
    if loaded is None:
        with toolchain.runtime_library() as path:
            loaded = _LOADED[path] = _load_runtime(path)
    return loaded


# Libraries by their paths. No process unloads them, and to look for the file again takes as long as a small launch.
_LOADED: dict[Path, Any] = {}


def _load_runtime(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.tiledmm_begin.restype = c_void_p
    library.tiledmm_work.argtypes = (c_void_p,)
    for name in ("stop", "time_out", "watch"):
        getattr(library, f"tiledmm_{name}").argtypes = (c_void_p,)
    library.tiledmm_output.restype = c_uint64
    library.tiledmm_output.argtypes = (c_void_p, c_void_p)
    library.tiledmm_steps.restype = c_uint64
    library.tiledmm_steps.argtypes = (c_void_p, POINTER(c_uint64))
    library.tiledmm_end.argtypes = (c_void_p,)
    library.tiledmm_synchronizes.argtypes = (c_void_p,)
    library.tiledmm_places.argtypes = (c_void_p, c_void_p)
    alone = ("blocks_done", "ran_out", "barriers")
    for name in (*alone, "deepest", "findings", "counts", "trace"):
        function = getattr(library, f"tiledmm_{name}")
        function.restype = c_uint64
        function.argtypes = (c_void_p,) if name in alone else (c_void_p, c_void_p)
    library.tiledmm_reserve.restype = c_void_p
    library.tiledmm_release.argtypes = (c_void_p, c_uint64)
    return library
