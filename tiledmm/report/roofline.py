"""The bounds of a kernel on a GPU, from its access pattern and a data sheet: a model, not a measurement.

Three ceilings, each an upper bound by itself:

- multiply-adds: the peak of the CUDA cores, or of the tensor cores, at the boost clock;
- memory: every operand read once and C written once, at the memory's full bandwidth (from a cold L2);
- on-chip loads: shared memory and L1 serve one *wavefront*, at most 128 bytes, at a time. A kernel whose
  inner loop needs w wavefronts per multiply-add of a warp needs the time of w wavefronts for each of them.

The third ceiling tells the first variants apart. It counts the loads of the inner loop only, of a full warp in the
middle of C, with base addresses that are aligned to 128 bytes. A real kernel also fills its tiles, and waits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.report.inner_loops import WAVEFRONT_BYTES, is_staged, is_too_long, wavefronts_per_multiply_add

if TYPE_CHECKING:
    from tiledmm.kernels.spec import KernelSpec


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bounds on the speed of one kernel for one product on one GPU, in FLOP/s. A multiply-add counts as two operations.

    Attributes:
        gpu: GPU, with the rates of its data sheet.
        flops: FLOP of the product, 2 * m * n * k.
        requested_bytes: Bytes that the kernel's blocks (or its threads, if they share nothing) request from global
            memory. Caches serve part of them. For a plain kernel, whose requests are not known, the compulsory bytes.
        requested_elements: Elements of A and B in the requested bytes.
        compulsory_bytes: Bytes of each operand, read once, and of C, written once.
        wavefronts: Wavefronts of on-chip loads in the inner loop, per multiply-add of a warp; 0 for a plain kernel.
        fma_bound, memory_bound, load_bound: Ceilings of multiply-adds, memory and on-chip loads, in FLOP/s.
    """

    gpu: Gpu
    flops: int
    requested_bytes: int
    requested_elements: int
    compulsory_bytes: int
    wavefronts: float
    fma_bound: float
    memory_bound: float
    load_bound: float

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: FLOP per byte that the kernel requests from global memory."""
        return self.flops / self.requested_bytes

    @property
    def reuse(self) -> float:
        """Mean number of multiply-adds that use an element of A or B requested from global memory."""
        return self.flops / self.requested_elements

    @property
    def compulsory_intensity(self) -> float:
        """FLOP per compulsory byte: the arithmetic intensity if no element were read twice."""
        return self.flops / self.compulsory_bytes

    @property
    def bound(self) -> float:
        """Bound on the kernel's speed in FLOP/s: the lowest of the three ceilings."""
        return min(self.fma_bound, self.memory_bound, self.load_bound)

    @property
    def limited_by(self) -> str:
        """Name of the lowest ceiling: ``"multiply-adds"``, ``"memory"`` or ``"on-chip loads"``."""
        if self.bound == self.fma_bound:
            return "multiply-adds"
        return "memory" if self.bound == self.memory_bound else "on-chip loads"


def roofline(spec: KernelSpec, gpu: Gpu, m: int, n: int, k: int) -> Roofline:
    """Return bounds on the speed with which a kernel of this package computes ``(m, k) @ (k, n)`` on a GPU.

    Args:
        spec: Specification of the kernel. Its operands of general strides (layout letter G) are assumed to have
            contiguous rows. A plain kernel is bounded by multiply-adds and memory only.
        gpu: GPU, with the rates of its data sheet.
        m, n, k: Sizes of the product.

    Example:
        >>> from tiledmm.hardware.data_sheets import REFERENCE_GPUS
        >>> from tiledmm.kernels.variants import kernel_spec
        >>> bounds = roofline(kernel_spec("coalesced"), REFERENCE_GPUS["sm_90"], 4096, 4096, 4096)
        >>> print(f"{bounds.bound / 1e12:.1f} TFLOP/s, limited by {bounds.limited_by}")
        8.4 TFLOP/s, limited by on-chip loads

    Raises:
        ConfigError: If a size is less than 1.
    """
    if min(m, n, k) < 1:
        raise ConfigError(f"a product with bounds has sizes of at least 1; got m={m}, n={n}, k={k}")
    flops = 2 * m * n * k
    c_bytes = m * n * spec.c.itemsize
    plain = spec.variant.plain is not None
    if plain:
        reads_a = reads_b = 1
    elif is_staged(spec):
        # Each row of blocks reads all of B, each column of blocks all of A.
        reads_a, reads_b = -(-n // spec.config.bn), -(-m // spec.config.bm)
    elif is_too_long(spec, k):
        reads_a, reads_b = n, m  # each element of C is computed by itself
    else:
        # Each thread, or each warp whose lanes share k, reads its own rows and columns.
        reads_a, reads_b = -(-n // spec.config.tn), -(-m // spec.config.tm)
    a_bytes, b_bytes = m * k * spec.a.itemsize, k * n * spec.b.itemsize
    compulsory = a_bytes + b_bytes + c_bytes
    per_multiply_add = 0.0 if plain else wavefronts_per_multiply_add(spec, m, n, k)
    warp_flops = 2 * min(WARP_SIZE, spec.threads)
    return Roofline(
        gpu=gpu,
        flops=flops,
        requested_bytes=a_bytes * reads_a + b_bytes * reads_b + c_bytes,
        requested_elements=m * k * reads_a + k * n * reads_b,
        compulsory_bytes=compulsory,
        wavefronts=per_multiply_add,
        fma_bound=spec.variant.unit_flops(spec.compute, gpu, scheme=spec.config.scheme),
        memory_bound=flops / compulsory * gpu.bandwidth,
        load_bound=math.inf if plain else gpu.load_bandwidth / WAVEFRONT_BYTES / per_multiply_add * warp_flops,
    )
