"""Launches of a product: grids, kernel arguments, and the scratch memory between kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.elements import Element
from tiledmm.errors import ShapeError
from tiledmm.kernels.config import Config
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import TensorMap
from tiledmm.problem.epilogue import Epilogue
from tiledmm.problem.strides import KERNEL_BATCH_DIMENSIONS, BatchDimension, Problem

#: Maximum number of tiles per launch: the limit of ``gridDim.x``. Kernels also count tiles in 32 bits.
MOST_TILES = 2**31 - 1

#: Maximum number of launches for a product that has more tiles than that.
MOST_LAUNCHES = 65_535

# Largest number of tiles in a column of C for which columns of tiles are not grouped. The blocks of eight columns with
# this number of tiles run on an H100 at the same time.
_SHORT_COLUMN = 16

# Largest K for which most of the memory traffic of a product is the writing of C.
_SHORT_K = 256

#: Largest K of a split-K partition. Kernels count its real numbers, two per complex element, in 32 bits.
LONGEST_PARTITION = 1 << 29

#: Alignment of the arrays in scratch memory, in bytes.
SCRATCH_ALIGNMENT = 512

_ONE_PRODUCT = BatchDimension(1, 0, 0, 0)

# Number of members of ``Problem`` before those of an epilogue, and per array that the epilogue reads.
_BEFORE_EPILOGUE = 10 + KERNEL_BATCH_DIMENSIONS + 3 * (2 + KERNEL_BATCH_DIMENSIONS)
_WORDS_OF_ARRAY = 3 + KERNEL_BATCH_DIMENSIONS


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch of one kernel of a product.

    Attributes:
        spec: The kernel.
        blocks: Number of blocks along x. For a persistent kernel, the number of tiles to compute, which may exceed the
            number of blocks.
        kernel_args: Members of the kernel's ``Problem`` (``cuda_src/matrices.cuh.j2``), one int64 each.
        operands: Name of the array for each pointer: ``"A"``, ``"B"``, ``"C"``, or the name of scratch memory.
        begins: Offset of each pointer from the first element of its array, in bytes.
        maps: Tensor maps of A and B, which replace their pointers if the kernel reads by TMA; else empty.
        scan: Offsets of both operands' scans in the scratch memory ``"operand scan"``, in bytes. Their addresses are
            the last kernel arguments. Empty for a kernel that neither writes nor reads the operand scan.
        along_y_and_z: Numbers of blocks along y and z, which are 1 except for plain kernels.
        numbers: Numbers that are passed to a plain kernel, in the order of its parameters; empty for other kernels.
    """

    spec: KernelSpec
    blocks: int
    kernel_args: np.ndarray[Any, np.dtype[np.int64]]
    operands: tuple[str, ...]
    begins: tuple[int, ...]
    maps: tuple[TensorMap, ...] = ()
    scan: tuple[int, ...] = ()
    along_y_and_z: tuple[int, int] = (1, 1)
    numbers: tuple[np.ndarray[Any, Any], ...] = ()

    def grid(self, resident: int) -> tuple[int, int, int]:
        """Return the numbers of blocks along x, y and z.

        Args:
            resident: Number of clusters that run at the same time, each of one block if the kernel has no clusters. A
                persistent kernel has no more.
        """
        clusters = min(self.blocks, resident) if self.spec.variant.hopper.persistent else self.blocks
        return clusters * self.spec.config.blocks_per_cluster, *self.along_y_and_z

    def arguments(self, pointers: Sequence[Any], problem: Any) -> list[Any]:
        """Return the arguments of the launch in the order of the kernel's parameters.

        Args:
            pointers: Pointers to the arrays, in the order of ``operands``.
            problem: The kernel's ``Problem``, which is not passed to a plain kernel.
        """
        plain = self.spec.variant.plain
        return plain.arranged(pointers, self.numbers) if plain else [*pointers, problem]

    @property
    def is_independent(self) -> bool:
        """True if the kernel reads only A or B, so that it needs nothing that other launches of its product write."""
        return self.spec.waits == "last" and self.operands[0] in ("A", "B")


@dataclass(frozen=True, slots=True)
class Scratch:
    """Array in scratch memory, which kernels of a product write for later kernels of the same product.

    Attributes:
        name: ``"packed A"``, ``"packed elements of A"``, ``"limbs of A"``, ``"bytes of A"``, ``"residues of A"``, or
            the same of B; ``"residues of C"``; ``"operand scan"``, which is filled with ``SCAN_INIT`` before the first
            launch; or ``"partial sums"`` of split-K partitions, of shape ``(partitions, products, m, n)``.
        shape: Shape of the array.
        pitch: Leading dimension, in elements.
        element: Element type.
    """

    name: str
    shape: tuple[int, ...]
    pitch: int
    element: Element

    @property
    def bytes(self) -> int:
        """Size of the array in bytes, including the padding of its rows."""
        return math.prod(self.shape[:-1]) * self.pitch * self.element.itemsize

    @property
    def aligned_bytes(self) -> int:
        """Size of the array in bytes, rounded up to ``SCRATCH_ALIGNMENT``, at which the next array may begin."""
        return tiles(self.bytes, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


@dataclass(frozen=True, eq=False)
class Form:
    """An operand in the format that a kernel reads: the launches that write it, and the arrays that they write.

    Equal forms are the same object, so that an operand finds the memory of a form without comparing launches.

    Attributes:
        launches: The launches, in order. The first reads ``"A"`` or ``"B"``, and all others what earlier ones wrote.
        arrays: The arrays that they write.
        scan: The operand's scan, which begins with ``SCAN_INIT``; None if nothing is scanned.
    """

    launches: tuple[Launch, ...]
    arrays: tuple[Scratch, ...]
    scan: Scratch | None

    @property
    def memory(self) -> tuple[Scratch, ...]:
        """All arrays that the launches write, the operand's scan last."""
        return self.arrays if self.scan is None else (*self.arrays, self.scan)

    @property
    def bytes(self) -> int:
        """Size of all arrays in bytes, with each of them aligned."""
        return sum(each.aligned_bytes for each in self.memory)

    def places(self, index: int) -> dict[str, tuple[int, int]]:
        """Return the place of each array, by name: ``index``, and the array's offset in the form's memory in bytes."""
        ends = itertools.accumulate((each.aligned_bytes for each in self.memory), initial=0)
        return {each.name: (index, begin) for each, begin in zip(self.memory, ends, strict=False)}

    def __str__(self) -> str:
        return " and ".join(each.name for each in self.arrays)


@dataclass(frozen=True, slots=True)
class Reuse:
    """Use of a form in the schedule of a product.

    Attributes:
        operand: 0 for A, 1 for B.
        form: The form of this operand.
        scan: Range of bytes of the product's operand scan that the form holds instead; empty if nothing is scanned.
    """

    operand: int
    form: Form
    scan: range


@dataclass(frozen=True, slots=True)
class Schedule:
    """Launches of a product, in order, and the scratch memory that they need.

    Attributes:
        launches: The launches.
        scratch: The scratch memory.
        forms: Forms of prepared operands, whose arrays the launches read as if they were scratch memory.
    """

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()
    forms: tuple[Reuse, ...] = ()

    @property
    def workspace(self) -> int:
        """Size of all scratch memory in bytes, with each array aligned."""
        return sum(memory.aligned_bytes for memory in self.scratch)

    @property
    def multiplying(self) -> Launch:
        """Launch of the kernel that multiplies; the first one if there are several."""
        return next(each for each in self.launches if len(each.operands) == 3)


def split_k_partitions(split: int, k: int, step: int) -> tuple[int, int]:
    """Return the number of split-K partitions, none of which is empty, and the number of steps of k in each.

    Each partition begins at a multiple of ``step``. So its copies are as wide as those of the whole matrix, and no
    TMA box extends into the next partition.

    Args:
        split: Maximum number of partitions. There are more if one of them would exceed ``LONGEST_PARTITION``.
        k: K of the product.
        step: Steps of k per tile.
    """
    split = max(split, tiles(k, LONGEST_PARTITION))
    if split == 1 or k == 0:
        return 1, k
    steps = tiles(tiles(k, split), step) * step
    return tiles(k, steps), steps


def tiles_in_all(config: Config, problem: Problem, partitions: int = 1) -> int:
    """Return the number of tiles of C that a kernel computes for all products of a batch and all split-K partitions."""
    return tiles_of_c(config, problem) * products(problem) * partitions


def tiles_of_c(config: Config, problem: Problem) -> int:
    """Return the number of tiles of one product's C.

    If ``triangle`` is set, it is the number of those that reach below the diagonal or lie on it. The problem may then
    be the last rows of a larger triangle, up to their end on the diagonal.
    """
    down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
    if not config.triangle:
        return down * across
    above = problem.n - problem.m
    return down * across - sum(max(column * config.bn - above, 0) // config.bm for column in range(across))


def tiles(size: int, tile: int) -> int:
    """Return the number of tiles of size ``tile`` that cover ``size``."""
    return -(-size // tile)


def products(problem: Problem) -> int:
    """Return the number of products that one launch computes, without the outer batch dimensions."""
    return math.prod(dimension.size for dimension in problem.batch)


def one_after_the_other(problem: Problem, pitch: int) -> tuple[BatchDimension, ...]:
    """Return a problem's batch dimensions with new strides of C, whose matrices are stored one after the other.

    Rows of C are ``pitch`` elements apart.
    """
    rows, step = [], problem.m * pitch
    for dimension in reversed(problem.batch):
        rows.append(replace(dimension, c=step))
        step *= dimension.size
    return tuple(reversed(rows))


def in_launches(config: Config, problem: Problem, partitions: int = 1) -> list[Problem]:
    """Return the parts of a problem that are computed by one launch each. Usually the whole problem is the only part.

    Raises:
        ShapeError: If there are more than 1.4e14 tiles, the maximum for all launches together.
    """
    every = tiles_in_all(config, problem, partitions)
    if every > MOST_TILES * MOST_LAUNCHES:
        raise ShapeError(
            f"this product has {every:,} tiles, and {MOST_LAUNCHES:,} launches compute at most "
            f"{MOST_LAUNCHES * MOST_TILES:,}; choose a larger tile"
        )
    if every <= max(MOST_TILES, partitions):
        return [problem]
    return [part for half in problem.halves(config.bm, config.bn) for part in in_launches(config, half, partitions)]


def rasterization_group(config: Config, problem: Problem) -> int:
    """Return the number of columns of tiles per rasterization group. Blocks compute the tiles of C group by group.

    If K is short, writing C is most of the memory traffic: the group then lets blocks that run at the same time write
    contiguous memory, whole rows or columns of tiles. Else it is the config's ``group``, with which they share the
    operands that they read. Columns of few tiles are not grouped: all of a column's blocks run at the same time
    in any case, and if they follow each other, they share the tile of B, the larger operand.
    """
    down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
    if problem.k > _SHORT_K or not config.wm:
        return 1 if down <= min(across, _SHORT_COLUMN) else min(config.launch.group, across)
    return across if problem.strides[5] <= problem.strides[4] else 1


def problem_args(
    config: Config,
    problem: Problem,
    partitions: tuple[int, int] | None,
    partition_c: int,
    epilogue: Epilogue | None = None,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the members of ``Problem``, the struct that is passed to a kernel, one int64 each.

    Args:
        config: The kernel's config.
        problem: The problem.
        partitions: The number of split-K partitions and the steps of k in each; None for a single partition.
        partition_c: Stride between the partial sums of successive partitions, in elements.
        epilogue: The epilogue, or None. For each of its arrays the member that holds an address is only the offset of
            the first element in bytes, and its scalars are 0; ``with_epilogue`` adds addresses and scalars.
    """
    batch: Sequence[BatchDimension]
    batch = ((_ONE_PRODUCT,) * KERNEL_BATCH_DIMENSIONS + problem.batch)[-KERNEL_BATCH_DIMENSIONS:]
    row_a, col_a, row_b, col_b, row_c, col_c = problem.strides
    partitions, across = partitions or (1, problem.k), tiles(problem.n, config.bn)
    kernel_args = [
        problem.m, problem.n, problem.k,
        tiles(problem.m, config.bm), across, tiles_in_all(config, problem, partitions[0]),
        rasterization_group(config, problem),
        *partitions, partition_c,
        *(d.size for d in batch),
        row_a, col_a, *(d.a for d in batch),
        row_b, col_b, *(d.b for d in batch),
        row_c, col_c, *(d.c for d in batch),
    ]  # fmt: skip
    if epilogue is not None:
        for i, operand in enumerate(epilogue.operands):
            steps = (d.epilogue[i] if d.epilogue else 0 for d in batch)
            kernel_args += [problem.begins[3 + i] * operand.element.itemsize, *problem.epilogue[i], *steps]
        kernel_args += [0, 0] * len(epilogue.scalars)
    return np.array(kernel_args, dtype=np.int64)


def with_epilogue(
    kernel_args: np.ndarray[Any, np.dtype[np.int64]], epilogue: Epilogue, addresses: Sequence[int], scalars: bytes
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a copy of kernel arguments with the addresses and scalars of an epilogue filled in.

    Args:
        kernel_args: The members of ``Problem`` from ``problem_args``; further members may follow.
        epilogue: The epilogue.
        addresses: Addresses of the first elements of the epilogue's arrays.
        scalars: The epilogue's scalars as bytes, two 8-byte numbers each.
    """
    found: np.ndarray[Any, np.dtype[np.int64]] = kernel_args.copy()
    at = _BEFORE_EPILOGUE
    for address in addresses:
        found[at] += address
        at += _WORDS_OF_ARRAY
    words = np.frombuffer(scalars, np.int64)
    found[at : at + len(words)] = words
    return found
