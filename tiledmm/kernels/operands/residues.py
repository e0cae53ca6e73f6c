"""Residues: float64 numbers as integers modulo several moduli, which 8-bit tensor cores multiply (Ozaki scheme II).

Both operands are decomposed into residues, the residues are multiplied modulo each modulus, and C is reconstructed from
the products. The residues of C are in scratch memory. If those of all of C would take too much of it, parts of C's rows
are computed one after the other, and each part's residues replace those of the part before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tiledmm.elements import ELEMENTS, Element
from tiledmm.errors import ShapeError
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import TRIANGLE_GROUP, Config, LaunchConfig
from tiledmm.kernels.launches import (
    LONGEST_PARTITION,
    MOST_TILES,
    Launch,
    Schedule,
    Scratch,
    one_after_the_other,
    problem_args,
    products,
    tiles,
    tiles_in_all,
)
from tiledmm.kernels.operands.copies import (
    ROW_ALIGNMENT,
    Copy,
    PreparedOperands,
    both_copies,
    copy_by,
    k_major_letter,
    k_major_rows,
    stored_once,
    with_copies,
)
from tiledmm.kernels.operands.moduli import DEFAULT_MODULI, residue_planes
from tiledmm.kernels.operands.operand_scan import with_scan
from tiledmm.kernels.operands.operands import OperandCost, Operands, bytes_of
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import TensorMap, has_coordinates
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

#: Maximum bytes of C's residues, unless one row of tiles takes more.
MOST_RESIDUES_OF_C = 1 << 30

# Number of columns of C whose residues are written together, in the order in which lanes hold them.
_GROUP = 64

# The number of residues per row of an operand is rounded up to a multiple of this, because kernels copy 16-byte chunks.
_CHUNK = 16

_BYTE = ELEMENTS["uint8"]


class Residues(Operands):
    """Operands decomposed into planes of residues, of shape ``(planes, products, rows of A or columns of B, K)``."""

    reads_elements = False
    is_ieee = False
    has_epilogue = False
    most_bytes = 1 << 34

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that multiplies residues of A and B and writes residues of C."""
        kernel = replace(spec.alone(), a=_BYTE, b=_BYTE, c=_BYTE, layout="NT", condition="if decomposed")
        return replace(kernel, epilogue=None, conjugates="", hermitian=False)

    def limbs(self, config: Config, compute: Element) -> int:
        """Return the number of planes of residues: one per modulus, or three per modulus for complex numbers."""
        return residue_planes(config.moduli, compute.components)

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return the residues of both operands as ``PreparedOperands``, with the launches that decompose the operands.

        The launches also write the operand scan, which records whether the values can be decomposed.
        """
        kernel = spec.kernel
        both = both_copies(lambda operand: _copy_of(spec, problem, operand), _is_shared(spec.config, spec.hermitian))
        return with_scan(with_copies(kernel, problem, both, kernel.config), problem, both)

    def products(self, spec: KernelSpec, problem: Problem, ready: PreparedOperands) -> Schedule:
        """Return the ``Schedule`` of the launches that multiply residues and reconstruct C.

        The kernels return at once if the operand scan found operands that cannot be decomposed.

        Raises:
            ShapeError: If a size of the product, or the number of tiles for all moduli, exceeds 2^31 - 1, or if K
                exceeds 2^29.
        """
        kernel, reconstruct, both = spec.kernel, reconstruct_spec(spec), ready.copies
        config, planes = kernel.config, both[0].memory.shape[0]
        countable = has_coordinates(problem) and planes * tiles_in_all(config, problem) <= MOST_TILES
        if not countable or problem.k > LONGEST_PARTITION:
            raise ShapeError(
                f"variant {spec.variant.name!r} supports at most 2^31 - 1 elements per dimension, 2^29 along K, and "
                "2^31 - 1 tiles for all moduli together; 'warp_tiled' supports any size"
            )
        pitch = tiles(problem.n, ROW_ALIGNMENT) * ROW_ALIGNMENT
        # Groups of columns of both kernels then lie left of the part's first element of the diagonal, or begin at it.
        step = TRIANGLE_GROUP * math.lcm(config.bn, reconstruct.config.bn) if config.triangle else config.bm
        rows = _rows_in_part(problem, step, planes * products(problem) * pitch)
        mapped = problem  # its batch strides count matrices, by which kernels index the operand scan
        for copy in both:
            mapped = copy.in_place_of(mapped, kernel.layout, mapped=True)
        columns = tiles(problem.n, _GROUP) * _GROUP
        memory = Scratch("residues of C", (planes, products(problem), rows, columns), pitch, kernel.c)
        plane = products(problem) * rows * pitch
        launches = []
        for row0 in range(0, problem.m, rows):
            m = min(rows, problem.m - row0)
            n = row0 + m if config.triangle else problem.n
            begins = problem.part(range(row0, row0 + m), range(n)).begins[3:]
            part = replace(mapped, m=m, n=n, begins=(*mapped.begins[:3], *begins))
            into = replace(ready.problem, m=m, n=n, strides=(*ready.problem.strides[:4], pitch, 1))
            into = replace(into, batch=one_after_the_other(into, pitch))
            others = [plane, pitch, problem.m, row0, *(copy.plane for copy in both)]
            kernel_args = np.append(problem_args(config, into, None, 0), others)
            kernel_args[5] *= planes  # Problem.tiles
            in_a, blocks = row0 * both[0].memory.pitch, int(kernel_args[5])
            maps = _of_rows(ready.maps, m)
            launches.append(
                Launch(kernel, blocks, kernel_args, (*ready.names, memory.name), (in_a, 0, 0), maps, ready.scan)
            )
            in_c = (problem.begins[2] + row0 * problem.strides[4]) * reconstruct.c.itemsize
            kernel_args = np.append(problem_args(reconstruct.config, part, None, 0, reconstruct.epilogue), others)
            blocks = tiles_in_all(reconstruct.config, part)
            launches.append(Launch(reconstruct, blocks, kernel_args, (memory.name, "C"), (0, in_c), (), ready.scan))
        return Schedule(tuple(launches), (memory,))

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield the specifications of all kernels that a product by residues may launch.

        They multiply residues, decompose A and B, and reconstruct C.
        """
        yield spec.kernel
        for operand in range(2):
            yield from (decompose_residues_spec(spec, operand, rows) for rows in rows_per_block(spec, operand))
        yield reconstruct_spec(spec)

    def prepared_bytes(self, problem: Problem, compute: Element) -> int:
        """Return the size of the residues of both operands in bytes, with the default number of moduli."""
        return residue_planes(DEFAULT_MODULI, compute.components) * (problem.elements(0) + problem.elements(1))

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of decomposing operands that are not prepared, of reading and writing residues, and of C.

        C is reconstructed from its residues.
        """
        problem, compute, device = product.problem, product.compute, times.rates
        planes = residue_planes(config.moduli, compute.components)
        residues = planes * problem.elements(0) * 1.0, planes * problem.elements(1) * 1.0
        sizes, letters = bytes_of(product), problem.k_major_layout
        each_time = product.each_time(shared=_is_shared(config, product.hermitian))
        # The rates are those of four launches: two decompose operands, one reconstructs C, and one returns at once.
        launched = (2 + len(each_time)) / 4
        before = launched * device.residue_launches
        before += sum(_decompose_time(residues[i] + sizes[i], letters[i], times) for i in each_time)
        c_bytes = problem.m * problem.n * problem.products * compute.result.itemsize
        written, rate = planes * c_bytes / compute.itemsize, device.reconstructing
        if config.triangle:
            written /= 2
        after = math.inf
        if rate:
            after = times.moving(written, rate) + times.moving(c_bytes, device.memory) * device.memory / rate
        return OperandCost(
            residues, "NN", (True, True), problem.k, before,
            planes=planes, writing=written, after=after, host=launched * device.decomposing_call,
        )  # fmt: skip

    def rates(self, compute: Element) -> tuple[str, ...]:
        """Return the names of the device's rates of decomposing into residues and of reconstructing C.

        They are fields of ``DeviceRates``.
        """
        return "residue_launches", "decomposing_residues.N", "decomposing_residues.T", "reconstructing"

    def multiplied(self, compute: Element, scheme: str = "") -> tuple[int, int]:
        """Return the size of a residue in bytes, and the number of products of residues per product of two elements.

        The size is 1.
        """
        return 1, residue_planes(DEFAULT_MODULI, compute.components)

    def unit(self, spec: KernelSpec) -> str:
        """Return the number of products of residues per product of two elements, as text."""
        return f"{residue_planes(spec.config.moduli, spec.compute.components)} products of bytes for one"

    def fragment(self, spec: KernelSpec) -> tuple[int, int]:
        """Return the number of columns of a warp's tile, and the bytes read from shared memory per element.

        One byte is read per plane of residues.
        """
        return spec.config.wn, residue_planes(spec.config.moduli, spec.compute.components)


def _is_shared(config: Config, hermitian: bool) -> bool:
    """Return whether the residues of A are also those of B, because B is the transpose of A, and not conjugated."""
    return config.triangle > 0 and not hermitian


# Rows per block of the kernel that decomposes, if columns are contiguous: a cache line of a column, or parts of it.
_ROWS = (16, 8, 4, 2)

# Number of blocks to aim at, two per SM of an H200. Operands with fewer rows are decomposed by blocks of fewer rows.
_MANY_BLOCKS = 264

# Bytes of the tile that is transposed in shared memory, without padding.
_TILE_BYTES = 16 * 1024


def _decomposition(moduli: int, element: Element, rows: int) -> Config:
    """Return the config of the kernel that decomposes elements into residues.

    Args:
        moduli: Number of moduli.
        element: Computation type.
        rows: Rows per block: 1, of which each thread decomposes four elements at a time, or one of ``_ROWS``.
    """
    bk = 1024 if rows == 1 else _TILE_BYTES // (element.sum_bytes * rows)
    return Config(bm=rows, bn=1, bk=bk, tm=rows, lanes=256, moduli=moduli)


def _shared_bytes(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block of the kernel that decomposes into residues, in bytes.

    It holds sums per warp and row, and, if columns are contiguous, the tile that is transposed.
    """
    rows, warps, line = config.bm, config.threads // 32, 128 // element.sum_bytes
    pitch = config.bk // line * (line + 1) + max(line // rows, 1)
    tile = element.sum_bytes * rows * pitch if layout[0] == "T" else 0
    return tile + rows * (warps * (4 + 8) + 2 * 4 + 8)


#: The kernel that decomposes float64 elements. Its tile is the number of moduli.
DECOMPOSE_RESIDUES = Variant(
    name="decompose_residues",
    template="decompose_residues.cu.j2",
    summary="decomposes float64 elements into residues modulo several moduli",
    waits="last",
    writes=Residues(),
    configure=lambda tile, element: _decomposition(tile, element, 1),
    block=lambda config: (config.threads, 1),
    shared_bytes=_shared_bytes,
)

#: The kernel that reconstructs float64 elements from residues. Its tile is the number of moduli.
RECONSTRUCT = Variant(
    name="reconstruct",
    template="reconstruct.cu.j2",
    summary="reconstructs float64 elements of C from their residues modulo several moduli",
    waits="first",
    configure=lambda tile, element: Config(bm=16, bn=256, tm=4, tn=4, moduli=tile),
    block=lambda config: (config.threads, 1),
    shared_bytes=lambda config, element, layout: 0,
)


def decompose_residues_spec(spec: KernelSpec, operand: int, rows: int) -> KernelSpec:
    """Return the specification of the kernel that decomposes A (0) or B (1) into residues. It reads B transposed.

    Args:
        spec: The product's specification.
        operand: 0 for A, 1 for B.
        rows: Rows per block, one of ``rows_per_block``.
    """
    compute, letter, stored = spec.compute, k_major_letter(spec, operand), (spec.a, spec.b)[operand]
    config, conjugates = _decomposition(spec.config.moduli, compute, rows), spec.conjugates_operand(operand)
    return KernelSpec(
        DECOMPOSE_RESIDUES, config, stored, compute, compute, _BYTE, f"{letter}N", "scan", conjugates=conjugates
    )  # fmt: skip


def rows_per_block(spec: KernelSpec, operand: int) -> tuple[int, ...]:
    """Return the numbers of rows of A (0) or columns of B (1) that a block may decompose, the largest first."""
    return _ROWS if k_major_letter(spec, operand) == "T" else (1,)


def reconstruct_spec(spec: KernelSpec) -> KernelSpec:
    """Return the specification of the kernel that reconstructs C from its residues."""
    compute, config = spec.compute, RECONSTRUCT.configure(spec.config.moduli, spec.compute)
    config = replace(config, triangle=spec.config.triangle)
    return KernelSpec(
        RECONSTRUCT, config, _BYTE, _BYTE, compute, spec.c, "NN", "if decomposed", spec.epilogue,
        hermitian=spec.hermitian,
    )  # fmt: skip


def _copy_of(spec: KernelSpec, problem: Problem, operand: int) -> Copy:
    rows, steps = k_major_rows(problem, operand)
    matrices = math.prod(stored_once(problem, operand, 1)[0])
    possible = rows_per_block(spec, operand)
    height = next((each for each in possible if tiles(rows, each) * matrices >= _MANY_BLOCKS), possible[-1])
    writer = decompose_residues_spec(spec, operand, height)
    matrix = rows, problem.k, tiles(problem.k, _CHUNK) * _CHUNK
    return copy_by(writer, problem, operand, "residues of", (rows, 1, problem.k), steps, matrix)


def _of_rows(maps: Sequence[TensorMap], rows: int) -> tuple[TensorMap, ...]:
    """Return the tensor maps of A and B with A limited to its first ``rows`` rows; an empty tuple if there are none."""
    if not maps:
        return ()
    of_a, of_b = maps
    return replace(of_a, sizes=(of_a.sizes[0], rows, *of_a.sizes[2:])), of_b


def _rows_in_part(problem: Problem, tile: int, row_bytes: int) -> int:
    """Return the number of rows of C whose residues are in scratch memory at a time.

    It is all rows if their residues fit; else C is divided into parts of equal numbers of whole tiles.

    Args:
        problem: The problem.
        tile: Rows per tile of C.
        row_bytes: Bytes of the residues of one row of C.
    """
    most = max(MOST_RESIDUES_OF_C // max(row_bytes, 1) // tile, 1) * tile
    parts = tiles(problem.m, most)
    return tiles(tiles(problem.m, parts), tile) * tile if parts > 1 else max(problem.m, 1)


def _decompose_time(size: float, letter: str, times: DeviceTimes) -> float:
    """Return the time of decomposing an operand into residues, in microseconds; infinity if the rate is not known.

    Args:
        size: Bytes of the operand and of its residues, which are read and written.
        letter: N if the operand is K-major, T if it is MN-major, G for neither.
        times: Times of moving data on the device.
    """
    rate = times.rates.decomposing_residues.get(letter, 0.0)
    return times.moving(size, rate) if rate else math.inf
