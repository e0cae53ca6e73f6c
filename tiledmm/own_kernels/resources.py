"""What a kernel would need and reach on a GPU: registers, spills, occupancy, a bound on its speed, the nearest rung."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiledmm.compile.inspection import compile_own
from tiledmm.errors import CompilationError, ConfigError, MissingDependencyError
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.hardware.occupancy import occupancy
from tiledmm.kernels.variants import kernel_spec, kernel_variants
from tiledmm.own_kernels.accesses import Access
from tiledmm.own_kernels.trial import Trial
from tiledmm.report.inner_loops import WAVEFRONT_BYTES
from tiledmm.report.roofline import roofline
from tiledmm.simulator.build.native_kernel import NativeKernel

# Sizes of the product that bounds and rungs are compared at.
_LARGE = 4096

# Headers that NVRTC finds where CUDA's headers are installed; the others are the host's, or NVRTC needs none of them.
_CUDA_HEADERS = re.compile(r"cuda_fp16|cuda_bf16|mma\.h|cooperative_groups|cuda_pipeline|cuComplex|math_constants")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"][^\n]*$", re.MULTILINE)

# What nvcc's headers of C declare, and NVRTC does not; on one line, so that lines stay.
_PRELUDE = " ".join(
    [
        "typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned long ulong;",
        "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;",
        "typedef unsigned short uint16_t;",
        "typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t;",
        "typedef unsigned long long uint64_t; namespace std {}",
    ]
)
_MACROS = {
    "assert(...)": "", "INT_MAX": "2147483647", "INT_MIN": "(-2147483647 - 1)", "FLT_MAX": "3.402823466e+38f",
    "FLT_MIN": "1.175494351e-38f", "INFINITY": "__int_as_float(0x7f800000)", "M_PI": "3.14159265358979323846",
    "NULL": "0", "CHAR_BIT": "8", "UINT_MAX": "0xffffffffu",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiled:
    """Resources of a kernel by NVRTC and ptxas.

    Attributes:
        registers: 32-bit registers per thread.
        shared_bytes: Static and dynamic shared memory per block.
        spill_bytes: Spill stores and loads per thread, in bytes.
        blocks: Resident blocks per SM.
        occupancy: Resident warps as a fraction of the maximum per SM.
        limited_by: What limits the number of resident blocks.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    blocks: int
    occupancy: float
    limited_by: str


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on the speed of a product on a GPU, from a model and the data sheet; not a measurement.

    Attributes:
        gpu: Name of the GPU.
        flops: Bound in FLOP/s.
        limited_by: ``"multiply-adds"``, ``"memory"`` or ``"on-chip loads"``.
        wavefronts: Wavefronts of all loads per multiply-add of a warp.
        intensity: FLOP per byte that the kernel requests from global memory, at the simulated sizes.
        rung: The variant of the ladder whose figures are nearest.
        next_rung: The next variant that needs fewer wavefronts; empty if there is none.
        next_flops: That variant's bound in FLOP/s.
    """

    gpu: str
    flops: float
    limited_by: str
    wavefronts: float
    intensity: float
    rung: str
    next_rung: str
    next_flops: float


def compiled(kernel: NativeKernel, trial: Trial, target: str) -> tuple[Compiled | None, str]:
    """Compile a kernel by NVRTC, and return its resources; None with the reason if that is not possible.

    Args:
        kernel: The kernel.
        trial: A launch of it.
        target: Target architecture.
    """
    headers: list[str] = []

    def include(found: re.Match[str]) -> str:
        if _CUDA_HEADERS.search(found[1]):
            headers.append(found[1])
            return found[0]
        return ""

    text = _INCLUDE.sub(include, kernel.text)
    text = "".join(f"#define {name} {body}\n" for name, body in _MACROS.items()) + f"{_PRELUDE}\n#line 1\n{text}"
    try:
        found = compile_own(text, kernel.name, target, include=_header_folders() if headers else ())
    except MissingDependencyError as error:
        return None, str(error)
    except (CompilationError, ConfigError) as error:
        missing = f"NVRTC finds no <{headers[0]}>" if headers and "cannot open" in str(error) else ""
        lines = [line for line in str(error).splitlines() if line]
        return None, missing or f"NVRTC does not compile it: {lines[1] if len(lines) > 1 else lines[0]}"
    x, y, z = trial.geometry.block
    shared = found.shared_bytes + trial.geometry.shared_bytes
    resident = occupancy(kernel.target, x * y * z, found.registers, shared)
    spilled = found.spill_store_bytes + found.spill_load_bytes
    return (
        Compiled(found.registers, shared, spilled, resident.blocks, resident.fraction, resident.limited_by), ""
    )  # fmt: skip


def bound_of(trial: Trial, accesses: Sequence[Access], itemsizes: tuple[int, int, int], target: str) -> Bound | None:
    """Return a bound on the speed of a product of 4096 x 4096 x 4096 by a kernel, from what it did at small sizes.

    Args:
        trial: A launch of the kernel.
        accesses: The accesses of that launch.
        itemsizes: Bytes of an element of A, B and C.
        target: Target architecture.
    """
    gpu = REFERENCE_GPUS.get(target.removesuffix("a"))
    traffic = trial.report.source
    if gpu is None or not trial.sizes or traffic.copy_load.requests:
        return None
    m, n, k = (trial.sizes[each] for each in "MNK")
    loads = sum(each.requests * each.wavefronts for each in accesses if each.kind == "load")
    wavefronts = loads / (m * n * k / WARP_SIZE)
    requested = traffic.global_load.bytes + traffic.global_store.bytes
    if not wavefronts or not requested:
        return None
    limits = _limits(gpu, itemsizes, wavefronts)
    limited_by = min(limits, key=lambda each: limits[each])
    intensity = 2 * m * n * k / requested
    rungs = _rungs(gpu)
    names = list(rungs)
    nearest = min(
        names,
        key=lambda name: abs(math.log(rungs[name][0] / wavefronts)) + abs(math.log(rungs[name][1] / intensity)) / 2,
    )
    better = [name for name in names[names.index(nearest) + 1 :] if rungs[name][2] > 1.2 * limits[limited_by]]
    return Bound(
        gpu.name, limits[limited_by], limited_by, wavefronts, intensity, nearest, better[0] if better else "",
        rungs[better[0]][2] if better else 0.0,
    )  # fmt: skip


def _limits(gpu: Gpu, itemsizes: tuple[int, int, int], wavefronts: float) -> Mapping[str, float]:
    a, b, c = itemsizes
    kind = {2: "float16", 4: "float32", 8: "float64"}.get(a, "float32")
    compulsory = _LARGE * _LARGE * (a + b + c)
    return {
        "multiply-adds": gpu.peak_flops(kind),
        "memory": 2 * _LARGE**3 / compulsory * gpu.bandwidth,
        "on-chip loads": gpu.load_bandwidth / WAVEFRONT_BYTES / wavefronts * 2 * WARP_SIZE,
    }


def _rungs(gpu: Gpu) -> dict[str, tuple[float, float, float]]:
    """Return the wavefronts, the intensity and the bound of each variant that multiplies any matrices by CUDA cores."""
    found: dict[str, tuple[float, float, float]] = {}
    for row in kernel_variants():
        if row.user is None and not row.tensor_cores and not row.is_for_few_shapes:
            limits = roofline(kernel_spec(row.name), gpu, _LARGE, _LARGE, _LARGE)
            found[row.name] = limits.wavefronts, limits.intensity, limits.bound
    return found


def _header_folders() -> tuple[str, ...]:
    """Return the folders of CUDA's headers, where they are installed."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return ()
    found = find_nvidia_header_directory("cudart")
    return (found,) if found else ()
