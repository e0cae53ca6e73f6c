"""Compilation of kernels for the GPU: by NVRTC, with a cache on disk, and loaded by CuPy on each device."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import cupy
from cupy.cuda import driver

from tiledmm.compile.cubins import cubin_file
from tiledmm.compile.disk_cache import find_text, keep_text
from tiledmm.compile.inspection import COMPILE_OPTIONS, toolkit_header_folders
from tiledmm.errors import CompilationError, ConfigError, DeviceError, UnsupportedTypeError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_variants


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """Compiled kernel, loaded on the device that was current when it was requested.

    Attributes:
        spec: Variant, config, types and layout that the source was rendered from.
        source: CUDA C of the kernel.
        raw: The ``cupy.RawKernel``. Its arguments are three pointers, or two tensor maps and a pointer, and one
            ``Problem`` (see ``tiledmm.launch.prepared``).
        block: Number of threads per block along x and y.
        registers: 32-bit registers per thread.
        shared_bytes: Shared memory per block, in bytes.
        local_bytes: Local memory per thread, in bytes; 0 unless registers were spilled.
        blocks_per_sm: Number of resident blocks per SM of this device.
        occupancy: Resident warps as a fraction of the maximum per SM.
    """

    spec: KernelSpec
    source: str
    raw: Any
    block: tuple[int, ...]
    registers: int
    shared_bytes: int
    local_bytes: int
    blocks_per_sm: int
    occupancy: float

    @property
    def symbol(self) -> str:
        """Name of the kernel in a profiler's list."""
        return self.spec.symbol


@dataclass(frozen=True, slots=True)
class Ready:
    """Kernel that is compiled and loaded, as ``raw_kernels`` reports it to its ``progress`` function.

    Attributes:
        spec: The kernel.
        seconds: Time to compile and load it, in seconds; None if it was already loaded, or its machine code was in
            the cache on disk.
    """

    spec: KernelSpec
    seconds: float | None

    @property
    def symbol(self) -> str:
        """Name of the kernel in a profiler's list."""
        return self.spec.symbol


#: Maximum number of kernels that are kept loaded; the oldest is dropped first. Plans keep the kernels that they launch.
MAX_KERNELS = 4096

_raw_kernels: dict[tuple[KernelSpec, int], Any] = {}  # by kernel and device
_locks: dict[tuple[KernelSpec, int], threading.Lock] = {}  # held while a kernel is compiled
_bounding = threading.Lock()


def loaded_kernels() -> list[KernelSpec]:
    """Return the specifications of the kernels that this process has loaded on any device."""
    return list(dict.fromkeys(spec for spec, _ in list(_raw_kernels)))


def raw_kernel(spec: KernelSpec) -> Any:
    """Compile and load a kernel on the current device, unless it is loaded already, and return its ``cupy.RawKernel``.

    Raises:
        UnsupportedTypeError: If the variant needs a newer device for this type.
        ConfigError: If a block needs more shared memory than the device has.
        CompilationError: If NVRTC rejects the source; the message shows the lines with errors.
        DeviceError: If there is no usable device.
    """
    return raw_kernels((spec,))[0]


def raw_kernels(specs: Collection[KernelSpec], progress: Callable[[Ready], None] | None = None) -> list[Any]:
    """Compile and load several kernels in parallel threads, and return the ``cupy.RawKernel`` of each, in order.

    Args:
        specs: The kernels.
        progress: Function that is called with each kernel once it is loaded; None for none.

    Raises:
        TiledmmError: As for ``raw_kernel``.
    """
    wanted = list(dict.fromkeys(specs))
    if not wanted:
        return []
    with _errors_of(wanted[0]):
        device = cupy.cuda.runtime.getDevice()
        target = _target()
    texts = {each: find_text(each, target) for each in wanted if (each, device) not in _raw_kernels}
    missing = {each for each, text in texts.items() if text is None}

    def timed(spec: KernelSpec) -> tuple[Any, Ready]:
        begin = time.perf_counter()
        raw = _raw_kernel(spec, target, texts.get(spec))
        return raw, Ready(spec, time.perf_counter() - begin if spec in missing else None)

    def on_device(spec: KernelSpec) -> tuple[Any, Ready]:
        with cupy.cuda.Device(device):
            return timed(spec)

    with contextlib.ExitStack() as stack:
        compiled: Iterator[tuple[Any, Ready]] = map(timed, wanted)
        if len(missing) > 1:
            from concurrent.futures import ThreadPoolExecutor

            pool = stack.enter_context(ThreadPoolExecutor(min(len(missing), os.cpu_count() or 1)))
            # Kernels with the most accumulators take longest to compile, so they begin first.
            wanted.sort(key=lambda each: -each.config.tm * each.config.tn)
            compiled = pool.map(on_device, wanted)
        kernels = {}
        for raw, ready in compiled:
            kernels[ready.spec] = raw
            if progress is not None:
                progress(ready)
    return [kernels[each] for each in specs]


def _raw_kernel(spec: KernelSpec, target: str, text: str | None) -> Any:
    """Return a kernel that is loaded on the current device.

    If it is not loaded yet, compile it, or load its machine code from the disk cache.

    Args:
        spec: The kernel.
        target: Compiler version and compute capability, from ``_target``.
        text: The kernel's source from the disk cache; None to render it.
    """
    with _errors_of(spec):
        key = spec, cupy.cuda.runtime.getDevice()
        raw = _raw_kernels.get(key)
        if raw is None:
            _check_capability(spec)
            with _locks.setdefault(key, threading.Lock()):  # one thread compiles; others wait for it
                raw = _raw_kernels.get(key)
                if raw is None:
                    raw = _loaded(spec, target, text)
                    _keep(key, raw)
            _locks.pop(key, None)
        return raw


@contextlib.contextmanager
def _errors_of(spec: KernelSpec) -> Iterator[None]:
    """Return a context manager in which CuPy's errors are replaced by this package's errors about a kernel."""
    try:
        yield
    except cupy.cuda.compiler.CompileException as error:
        raise CompilationError(f"{spec.symbol} does not compile:\n{error}") from error
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"{spec.symbol} needs a CUDA device: {error}") from error


def _keep(key: tuple[KernelSpec, int], raw: Any) -> None:
    with _bounding:
        while len(_raw_kernels) >= MAX_KERNELS:
            del _raw_kernels[next(iter(_raw_kernels))]
        _raw_kernels[key] = raw


def _loaded(spec: KernelSpec, target: str, found: str | None) -> Any:
    """Load a kernel on the current device, after compiling it if its machine code is not on disk.

    Args:
        spec: The kernel.
        target: Compiler version and compute capability, from ``_target``.
        found: The kernel's source from the disk cache; None to render it and write it to the cache.
    """
    symbol, arch = spec.symbol, spec.variant.hopper.arch
    source = found or _rendered(spec)
    if arch:
        with cubin_file(source, symbol, (*COMPILE_OPTIONS, f"-arch={arch}")) as path:
            raw = cupy.RawModule(path=str(path)).get_function(symbol)
    elif spec.variant.plain:  # whose name may be one of C++
        raw = load_plain(source, symbol)
    else:
        raw = cupy.RawKernel(source, symbol, options=COMPILE_OPTIONS)
        raw.compile()
    if found is None:
        keep_text(spec, target, source)
    if shared := spec.dynamic_shared_bytes:
        raw.max_dynamic_shared_size_bytes = shared
    return raw


def load_plain(source: str, symbol: str) -> Any:
    """Compile plain CUDA C for the current device, and return a kernel of it.

    Args:
        source: CUDA C, as NVRTC compiles it.
        symbol: The kernel's name, with namespaces and template arguments.

    Raises:
        CompilationError: If NVRTC refuses the source.
    """
    folders = toolkit_header_folders() if "mma.h" in source else []
    options = (*COMPILE_OPTIONS, *(f"-I{folder}" for folder in folders))
    module = cupy.RawModule(code=source, options=options, name_expressions=(symbol,))
    try:
        return module.get_function(symbol)
    except cupy.cuda.compiler.CompileException as error:
        raise CompilationError(f"{symbol} does not compile:\n{error}") from error


def _rendered(spec: KernelSpec) -> str:
    from tiledmm.codegen.rendering import render  # imports Jinja

    return render(spec)


def _target() -> str:
    """Return NVRTC's version and the current device's compute capability as one string.

    Names of files in the cache on disk depend on it.
    """
    return f"{cupy.cuda.nvrtc.getVersion()} {cupy.cuda.Device().compute_capability}"


def _check_capability(spec: KernelSpec) -> None:
    variant, operands = spec.variant, spec.variant.operands
    compute = operands.product_type(spec)
    has = str(cupy.cuda.Device().compute_capability)
    capability = int(has[:-1]), int(has[-1])
    if not variant.runs_on(capability, compute):
        needed = variant.needed_capability(compute)
        rows = () if operands.reads_elements else kernel_variants()
        others = [row for row in rows if type(row.operands) is type(operands) and row.multiplies(compute)]
        likewise = [repr(row.name) for row in others if row.runs_on(capability, compute)]
        raise UnsupportedTypeError(
            f"variant {variant.name!r} of {compute.dtype_name} needs compute capability {needed}, and this device has "
            f"{has[:-1]}.{has[-1]}; use {' or '.join([*likewise, repr('warp_tiled')])} here"
        )
    shared, most = spec.dynamic_shared_bytes, cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
    if shared > most:
        raise ConfigError(
            f"{spec.symbol} needs {shared} bytes of shared memory per block, and this device has at most {most}: "
            "choose a smaller tile or fewer stages"
        )


def compiled(spec: KernelSpec) -> LoadedKernel:
    """Compile a kernel and return it with its resource use and its occupancy on the current device.

    Raises:
        TiledmmError: As for ``raw_kernel``.
    """
    raw = raw_kernel(spec)
    threads = spec.threads
    shared = spec.dynamic_shared_bytes
    blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(raw.kernel.ptr, threads, shared)
    attributes = cupy.cuda.Device().attributes
    warps = blocks * -(-threads // attributes["WarpSize"])
    return LoadedKernel(
        spec=spec,
        source=find_text(spec, _target()) or _rendered(spec),
        raw=raw,
        block=spec.block,
        registers=raw.num_regs,
        shared_bytes=raw.shared_size_bytes + shared,
        local_bytes=raw.local_size_bytes,
        blocks_per_sm=blocks,
        occupancy=warps * attributes["WarpSize"] / attributes["MaxThreadsPerMultiProcessor"],
    )
