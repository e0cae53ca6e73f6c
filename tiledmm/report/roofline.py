"""The bounds of a kernel on a machine, from its access pattern and a data sheet: a model, nothing measured.

Three ceilings, each an upper bound by itself:

- multiply-adds: the peak of the CUDA cores, or of the tensor cores, at the boost clock;
- memory: every operand read once and C written once, at the memory's full bandwidth (from a cold L2);
- on-chip loads: shared memory and L1 answer one *wavefront*, at most 128 bytes, at a time. A kernel whose
  inner loop needs w wavefronts for each multiply-add of a warp does one such multiply-add in the time of w
  of them.

The third separates the first variants of the ladder. It counts the loads of the inner loop only, of a
full warp in the middle of C, with bases aligned to 128 bytes; a real kernel also fills its tiles, and waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiledmm.elements import SCHEMES
from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.banks import wavefronts
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.registry.config import VECTOR_BYTES, WORD_BYTES
from tiledmm.registry.residues import residue_planes
from tiledmm.selection.units import pairs_of_bytes, unit_flops

if TYPE_CHECKING:
    from tiledmm.codegen.specialization import Specialization

WAVEFRONT_BYTES = 128


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of one kernel and product on one machine. Rates in FLOP/s, where a multiply-add counts two.

    Attributes:
        gpu: The machine.
        flops: 2 * m * n * k.
        requested_bytes: Bytes that the kernel's blocks (or threads, where nothing is shared) request of global memory;
            caches answer part of them.
        requested_elements: Elements of A and B in that.
        compulsory_bytes: Each operand read once, and C written once.
        wavefronts: Wavefronts of on-chip loads in the inner loop, for each multiply-add of a warp.
        fma_bound, memory_bound, load_bound: The three ceilings.
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
        """FLOP per byte that the kernel requests."""
        return self.flops / self.requested_bytes

    @property
    def reuse(self) -> float:
        """Times that an element fetched from global memory is multiplied: both factors of a multiply-add count."""
        return self.flops / self.requested_elements

    @property
    def compulsory_intensity(self) -> float:
        """FLOP per byte if nothing were read twice."""
        return self.flops / self.compulsory_bytes

    @property
    def bound(self) -> float:
        """The lowest ceiling in FLOP/s."""
        return min(self.fma_bound, self.memory_bound, self.load_bound)

    @property
    def limited_by(self) -> str:
        """Which ceiling that is: ``"multiply-adds"``, ``"memory"`` or ``"on-chip loads"``."""
        if self.bound == self.fma_bound:
            return "multiply-adds"
        return "memory" if self.bound == self.memory_bound else "on-chip loads"


def roofline(spec: Specialization, gpu: Gpu, m: int, n: int, k: int) -> Roofline:
    """The bounds of ``(m, k) @ (k, n)`` with a kernel of this package.

    Args:
        spec: The kernel. Operands of general strides (layout letter G) are taken to have contiguous rows.
        gpu: The machine.
        m, n, k: Sizes of the product.

    Example:
        >>> from tiledmm.hardware.data_sheets import REFERENCE_GPUS
        >>> from tiledmm.codegen.specialization import specialize
        >>> bounds = roofline(specialize("coalesced"), REFERENCE_GPUS["sm_90"], 4096, 4096, 4096)
        >>> print(f"{bounds.bound / 1e12:.1f} TFLOP/s, limited by {bounds.limited_by}")
        8.4 TFLOP/s, limited by on-chip loads

    Raises:
        ConfigError: If a size is less than 1.
    """
    if min(m, n, k) < 1:
        raise ConfigError(f"a product with bounds has sizes of at least 1; got m={m}, n={n}, k={k}")
    flops = 2 * m * n * k
    c_bytes = m * n * spec.c.itemsize
    if _is_staged(spec):
        # Each row of blocks reads all of B, each column of blocks all of A.
        reads_a, reads_b = -(-n // spec.config.bn), -(-m // spec.config.bm)
    elif _is_too_long(spec, k):
        reads_a, reads_b = n, m  # an element of C at a time
    else:
        # Each thread, or each warp whose lanes share k, reads its own rows and columns.
        reads_a, reads_b = -(-n // spec.config.tn), -(-m // spec.config.tm)
    a_bytes, b_bytes = m * k * spec.a.itemsize, k * n * spec.b.itemsize
    compulsory = a_bytes + b_bytes + c_bytes
    per_multiply_add = wavefronts_per_multiply_add(spec, m, n, k)
    warp_flops = 2 * min(WARP_SIZE, spec.threads)
    return Roofline(
        gpu=gpu,
        flops=flops,
        requested_bytes=a_bytes * reads_a + b_bytes * reads_b + c_bytes,
        requested_elements=m * k * reads_a + k * n * reads_b,
        compulsory_bytes=compulsory,
        wavefronts=per_multiply_add,
        fma_bound=unit_flops(spec.variant, spec.compute, gpu, scheme=spec.config.scheme),
        memory_bound=flops / compulsory * gpu.bandwidth,
        load_bound=gpu.load_bandwidth / WAVEFRONT_BYTES / per_multiply_add * warp_flops,
    )


def wavefronts_per_multiply_add(spec: Specialization, m: int, n: int, k: int) -> float:
    """Wavefronts of the inner loop's loads of A and B, for each multiply-add of a warp."""
    if spec.variant.tensor_cores:
        return _matrix_wavefronts(spec)
    if spec.config.wm:
        return _fragment_wavefronts(spec)
    if spec.config.lanes > 1:
        return _shared_k_wavefronts(spec)
    if spec.variant.short_k:
        return _outer_wavefronts(spec, k)
    if spec.config.tiles_per_block > 1:
        return _grouped_wavefronts(spec)
    block_x, _ = spec.block
    lanes = [(lane % block_x, lane // block_x) for lane in range(min(WARP_SIZE, spec.threads))]
    if spec.variant.down_columns:
        rows, cols = [x for x, _ in lanes], [y for _, y in lanes]
    else:
        rows, cols = [y for _, y in lanes], [x for x, _ in lanes]
    if _is_staged(spec):
        return _staged_wavefronts(spec, rows, cols)
    # All lanes are at the same k: what counts is how far apart two rows of A and two columns of B lie.
    a_step = spec.a.itemsize * (1 if spec.layout[0] == "T" else k)
    b_step = spec.b.itemsize * (k if spec.layout[1] == "T" else 1)
    from_a = global_wavefronts([row * a_step for row in rows], spec.a.itemsize)
    return from_a + global_wavefronts([col * b_step for col in cols], spec.b.itemsize)


def global_wavefronts(addresses: Sequence[int], width: int) -> int:
    """Fewest wavefronts in which L1 serves one load of a warp: one for each 128-byte line it touches.

    Args:
        addresses: Byte address of each lane.
        width: Bytes that each lane reads.
    """
    lines: set[int] = set()
    for address in addresses:
        lines.update(range(address // WAVEFRONT_BYTES, (address + width - 1) // WAVEFRONT_BYTES + 1))
    return len(lines)


def _is_staged(spec: Specialization) -> bool:
    return spec.config.stages > 0


def _is_too_long(spec: Specialization, k: int) -> bool:
    """Whether K is longer than a kernel for a short one is for: it keeps nothing in registers then."""
    return spec.variant.short_k and k > spec.config.bk


def _fragment_wavefronts(spec: Specialization) -> float:
    """Reads of fragments, 16 bytes a lane at a time, from tiles kept K-major, for one multiply-add."""
    config = spec.config
    across, down = config.wn // config.tn, config.wm // config.tm  # lanes of a warp along its tile's rows and columns
    pair = min(down, 2)  # successive lanes that lie below each other
    rows = [lane // (pair * across) * pair + lane % pair for lane in range(WARP_SIZE)]
    cols = [lane // pair % across for lane in range(WARP_SIZE)]
    read_a = wavefronts([row * VECTOR_BYTES for row in rows], VECTOR_BYTES)
    read_b = wavefronts([col * VECTOR_BYTES for col in cols], VECTOR_BYTES)
    vector = VECTOR_BYTES // spec.compute.sum_bytes
    return (read_a / config.tn + read_b / config.tm) / vector


def _matrix_wavefronts(spec: Specialization) -> float:
    """Reads of a warp's (or a warpgroup's) rows and columns, swizzled so that no bank is met twice."""
    config = spec.config
    rows = 4 * config.wm if spec.variant.warpgroup else config.wm  # four warps share what one instruction reads
    if spec.variant.decomposes:
        scheme, real = SCHEMES[config.scheme], config.wn * spec.compute.parts
        # A warpgroup: 128 columns with one instruction, and one for each product of limbs. A warp reads a limb once.
        cols, times = (min(real, 128), scheme.products) if spec.variant.warpgroup else (real, scheme.limbs)
        size = scheme.limb.itemsize * times * spec.compute.multiplies
    elif spec.variant.decomposes_to_bytes:  # one instruction for each pair of bytes
        cols, size = config.wn, pairs_of_bytes(spec.compute)
    elif spec.variant.decomposes_to_residues:  # one instruction for each modulus
        cols, size = config.wn, residue_planes(config.moduli, spec.compute.parts)
    else:
        cols, size = config.wn, spec.compute.itemsize
    return (rows + cols) * size / WAVEFRONT_BYTES / (rows * cols / WARP_SIZE)


def _shared_k_wavefronts(spec: Specialization) -> float:
    """Global reads of a warp whose lanes share k, for one multiply-add.

    K-major rows of A and columns of B, 16 bytes a lane; or, by ``axpy``, whose lanes have a step of k each, parts of
    rows of B, and an element of A that adjacent lanes read, too.
    """
    config = spec.config
    if spec.variant.global_reads == "rows of B":
        rows = WARP_SIZE // (config.bn // config.tn)
        lines = rows * -(-config.bn * spec.b.itemsize // WAVEFRONT_BYTES)
        return (config.tm + lines) / (config.tm * config.tn)
    reads = WARP_SIZE * VECTOR_BYTES / WAVEFRONT_BYTES * (config.tm + config.tn)
    return reads / (config.tm * config.tn * (config.bk // config.lanes))


def _outer_wavefronts(spec: Specialization, k: int) -> float:
    """Global reads of ``outer_products`` for one multiply-add: B's once for a thread's rows, A's by all lanes."""
    config, word = spec.config, max(1, WORD_BYTES // spec.c.itemsize)
    step = spec.b.itemsize * word * (k if spec.layout[1] == "T" else 1)
    from_b = global_wavefronts([lane * step for lane in range(WARP_SIZE)], spec.b.itemsize)
    if _is_too_long(spec, k):
        return 1 + from_b
    return 1 / config.tn + from_b / config.tm


def _grouped_wavefronts(spec: Specialization) -> float:
    """Reads of a warp whose groups have tiles of their own, kept in swizzled rows, for one multiply-add."""
    config = spec.config
    across = config.bn // config.tn
    threads = [divmod(lane, config.tile_threads) for lane in range(WARP_SIZE)]
    a = [(group, thread // across * config.tm) for group, thread in threads]
    b = [(group, thread % across * config.tn) for group, thread in threads]
    reads_a = _swizzled_reads(spec, a, config.bm, config.tm, spec.layout[0] != "T")
    reads_b = _swizzled_reads(spec, b, config.bn, config.tn, spec.layout[1] != "N")
    return (reads_a + reads_b) / (config.tm * config.tn * config.bk)


def _swizzled_reads(
    spec: Specialization, lanes: Sequence[tuple[int, int]], width: int, count: int, k_major: bool
) -> int:
    """Wavefronts in which lanes, each of a group and from an i on, read their part of ``tiny.cu.j2``'s tiles."""
    config, size = spec.config, spec.compute.sum_bytes
    vector = VECTOR_BYTES // size
    length = config.bk if k_major else width
    apart = max(count, WAVEFRONT_BYTES // (length * size))
    contiguous = vector if k_major else min(count, vector)

    def address(group: int, i: int, k: int) -> int:
        row, place = (i, k) if k_major else (k, i)
        swizzled = (place // vector) ^ (row // apart % (length // vector))
        return (group * (width * config.bk + config.pad) + row * length + swizzled * vector + place % vector) * size

    return sum(
        wavefronts([address(group, i + c, k) for group, i in lanes], contiguous * size)
        for k in range(0, config.bk, contiguous if k_major else 1)
        for c in range(0, count, 1 if k_major else contiguous)
    )


def _staged_wavefronts(spec: Specialization, rows: Sequence[int], cols: Sequence[int]) -> float:
    """Reads of ``As[row][k]`` and ``Bs[k][col]``, or of tiles kept transposed, for one multiply-add."""
    config = spec.config
    if spec.variant.shared_reads != "elements":
        return _k_major_wavefronts(spec, rows, cols)
    # With more than one buffer only a B tile kept by columns is padded: it alone is read across its rows.
    pad_a = config.pad if config.stages == 1 else 0
    read_a = _tile_read(spec, rows, spec.layout[0] != "T", pad_a)
    read_b = _tile_read(spec, cols, spec.layout[1] == "T", config.pad)
    # A thread's other rows and columns lie at a constant distance: the same banks, all moved on by as much.
    return read_a / config.tn + read_b / config.tm


def _k_major_wavefronts(spec: Specialization, rows: Sequence[int], cols: Sequence[int]) -> float:
    """Reads of rows of tiles that are kept K-major, an element or 16 bytes a lane at a time, for one multiply-add."""
    size = spec.compute.sum_bytes
    width = VECTOR_BYTES if spec.variant.shared_reads == "K-major vectors" else size
    read_a, read_b = (wavefronts([at * width for at in across], width) * size / width for across in (rows, cols))
    return read_a / spec.config.tn + read_b / spec.config.tm


def _tile_read(spec: Specialization, across: Sequence[int], k_contiguous: bool, pad: int) -> float:
    """Wavefronts a step of k takes to read, for each lane, the element of a tile at its index in `across`.

    Where k runs along the tile's rows and these stay aligned, the compiler joins the loads of successive k.
    """
    size = spec.compute.sum_bytes
    if not k_contiguous:
        return wavefronts([at * size for at in across], size)
    pitch = spec.config.bk + pad
    joined = max(1, VECTOR_BYTES // size)
    while joined > 1 and (pitch % joined or spec.config.unroll % joined):
        joined //= 2
    return wavefronts([at * pitch * size for at in across], size * joined) / joined
