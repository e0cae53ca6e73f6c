"""From CUDA C to a kernel that runs: CuPy compiles it, keeps it on disk, and loads it on each device that asks."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import cupy
from cupy.cuda import driver

from tiledmm.codegen import Specialization, render
from tiledmm.errors import CompilationError, DeviceError, UnsupportedTypeError

#: What NVRTC gets, besides what CuPy adds itself: its include path, the architecture and ``-ftz=true``.
COMPILE_OPTIONS = ("-std=c++17",)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel on the device that was current when it was asked for.

    Attributes:
        specialization: What it was rendered from: variant, numbers, types, layout.
        source: Its CUDA C.
        raw: The ``cupy.RawKernel``. Its arguments are three pointers, or two tensor maps and a pointer, and one
            ``Problem`` (see ``tiledmm.launch``).
        block: Threads of a block along x and y.
        registers: Registers a thread uses.
        shared_bytes: Bytes of shared memory of a block.
        local_bytes: Bytes of local memory of a thread: 0 unless registers were spilled.
        blocks_per_sm: Blocks that an SM of this device holds at a time.
        occupancy: Their warps, as a fraction of the warps it could hold.
    """

    specialization: Specialization
    source: str
    raw: Any
    block: tuple[int, int]
    registers: int
    shared_bytes: int
    local_bytes: int
    blocks_per_sm: int
    occupancy: float

    @property
    def symbol(self) -> str:
        """Its name, as a profiler lists it."""
        return self.specialization.symbol


_raw_kernels: dict[Specialization, Any] = {}
_lock = threading.Lock()


def raw_kernel(specialization: Specialization) -> Any:
    """The ``cupy.RawKernel`` of a specialization, compiled and loaded on the current device.

    Raises:
        UnsupportedTypeError: If the device is too old to multiply elements of this type so.
        CompilationError: If NVRTC rejects it; the message shows the source lines it complains about.
        DeviceError: If there is no usable device.
    """
    raw = _raw_kernels.get(specialization)
    if raw is None:
        with _lock:
            raw = _raw_kernels.get(specialization)
            if raw is None:
                raw = cupy.RawKernel(render(specialization), specialization.symbol, options=_options(specialization))
                _raw_kernels[specialization] = raw
    try:
        _check_capability(specialization)
        with _lock:  # one thread compiles; the others find it done
            raw.compile()
            if shared := specialization.dynamic_shared_bytes:
                raw.max_dynamic_shared_size_bytes = shared
    except cupy.cuda.compiler.CompileException as error:
        raise CompilationError(f"{specialization.symbol} does not compile:\n{error}") from error
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"{specialization.symbol} needs a CUDA device: {error}") from error
    return raw


def _options(specialization: Specialization) -> tuple[str, ...]:
    target = specialization.variant.target
    return (*COMPILE_OPTIONS, f"-arch={target}") if target else COMPILE_OPTIONS


#: NVRTC before this takes no second architecture, and CuPy adds its own behind any that it is given.
FIRST_NVRTC_WITH_TARGETS = (12, 9)


def knows_targets() -> bool:
    """Whether kernels for one architecture only can be compiled."""
    version: tuple[int, int] = cupy.cuda.nvrtc.getVersion()
    return version >= FIRST_NVRTC_WITH_TARGETS


def _check_capability(specialization: Specialization) -> None:
    variant, compute = specialization.variant, specialization.compute
    if variant.target and not knows_targets():
        has, least = (".".join(map(str, v)) for v in (cupy.cuda.nvrtc.getVersion(), FIRST_NVRTC_WITH_TARGETS))
        raise CompilationError(
            f"variant {variant.name!r} is compiled for {variant.target} by NVRTC {least} or newer, and this is {has}; "
            f'get it with: pip install -U "nvidia-cuda-nvrtc-cu12>={least}"'
        )
    has = str(cupy.cuda.Device().compute_capability)
    if not variant.runs_on((int(has[:-1]), int(has[-1])), compute):
        major, minor = variant.least_capability(compute)
        needed = f"{major}.{minor}" if variant.target else f"{major}.{minor} or newer"
        raise UnsupportedTypeError(
            f"variant {variant.name!r} multiplies {compute.dtype_name} on devices of compute capability {needed}, and "
            f"this one has {has[:-1]}.{has[-1]}; 'warp_tiled' needs none"
        )


def compiled(specialization: Specialization) -> Kernel:
    """The kernel of a specialization with its resource use on the current device. Raises as ``raw_kernel`` does."""
    raw = raw_kernel(specialization)
    threads = specialization.threads
    shared = specialization.dynamic_shared_bytes
    blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(raw.kernel.ptr, threads, shared)
    attributes = cupy.cuda.Device().attributes
    warps = blocks * -(-threads // attributes["WarpSize"])
    return Kernel(
        specialization=specialization,
        source=raw.code,
        raw=raw,
        block=specialization.block,
        registers=raw.num_regs,
        shared_bytes=raw.shared_size_bytes + shared,
        local_bytes=raw.local_size_bytes,
        blocks_per_sm=blocks,
        occupancy=warps * attributes["WarpSize"] / attributes["MaxThreadsPerMultiProcessor"],
    )
