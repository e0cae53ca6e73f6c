"""The launches of a product: grids, kernel arguments, and the scratch memory between kernels."""

from __future__ import annotations

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

#: Most tiles of a launch: the limit of ``gridDim.x``, and kernels count tiles in 32 bits.
MOST_TILES = 2**31 - 1

#: Most launches that a product with more tiles is divided into.
MOST_LAUNCHES = 65_535

# Steps of k up to which C is most of what a product reads and writes.
_SHORT_K = 256

#: Most k of a split-K partition: kernels count its real numbers, two in a complex element, in 32 bits.
LONGEST_PARTITION = 1 << 29

#: Arrays in scratch memory begin at multiples of so many bytes.
SCRATCH_ALIGNMENT = 512

_ONE_PRODUCT = BatchDimension(1, 0, 0, 0)

# Members of ``Problem`` before those of an epilogue, and members for each array that this reads.
_BEFORE_EPILOGUE = 10 + KERNEL_BATCH_DIMENSIONS + 3 * (2 + KERNEL_BATCH_DIMENSIONS)
_WORDS_OF_ARRAY = 3 + KERNEL_BATCH_DIMENSIONS


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a product.

    Attributes:
        spec: The kernel.
        blocks: Blocks of the grid; of a persistent kernel, the tiles or clusters that it has work for.
        kernel_args: Its ``Problem`` (``cuda_src/matrices.cuh.j2``), one int64 a member.
        operands: The array of each pointer: ``"A"``, ``"B"``, ``"C"``, or the name of scratch memory.
        begins: Byte offset of each pointer from its array's first element.
        maps: Tensor maps of A and B, which replace their pointers in a kernel that reads by TMA.
        scan: Byte offsets of both operands' scans in the scratch memory of that name; their addresses are the last
            kernel arguments. Empty for a kernel that neither writes nor reads the scan.
    """

    spec: KernelSpec
    blocks: int
    kernel_args: np.ndarray[Any, np.dtype[np.int64]]
    operands: tuple[str, ...]
    begins: tuple[int, ...]
    maps: tuple[TensorMap, ...] = ()
    scan: tuple[int, ...] = ()

    @property
    def is_independent(self) -> bool:
        """Whether it reads nothing that other launches of its product write, though those that follow read its own."""
        return self.spec.waits == "last" and self.operands[0] in ("A", "B")


@dataclass(frozen=True, slots=True)
class Scratch:
    """Scratch memory that holds an array between kernels.

    Attributes:
        name: ``"packed A"``, ``"packed elements of A"``, ``"limbs of A"``, ``"bytes of A"`` and the same of B;
            ``"operand scan"``, filled with ``SCAN_INIT`` before the first launch; or ``"partial sums"``, of split-K
            partitions: ``(partitions, products, m, n)``.
        shape: The array's.
        pitch: Leading dimension in elements.
        element: Its type.
    """

    name: str
    shape: tuple[int, ...]
    pitch: int
    element: Element

    @property
    def bytes(self) -> int:
        """Bytes that it occupies."""
        return math.prod(self.shape[:-1]) * self.pitch * self.element.itemsize

    @property
    def aligned_bytes(self) -> int:
        """Bytes to where the next array may begin."""
        return tiles(self.bytes, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Copy:
    """An operand in scratch memory, in rows with a leading dimension. Broadcast batches are stored once.

    Attributes:
        operand: A (0) or B (1).
        launches: The launches that write it, usually one.
        memory: ``(matrices, rows, contiguous)``, or several planes of that.
        contiguous: Elements of a row that are the operand's; padding may follow.
    """

    operand: int
    launches: tuple[Launch, ...]
    memory: Scratch
    contiguous: int

    @property
    def rows(self) -> int:
        """Rows of a matrix."""
        return self.memory.shape[-2]

    @property
    def matrices(self) -> int:
        """Matrices of a plane."""
        return self.memory.shape[-3]

    @property
    def plane(self) -> int:
        """Elements from one plane to the next."""
        return self.matrices * self.rows * self.memory.pitch

    def in_place_of(self, problem: Problem, layout: str, mapped: bool = False) -> Problem:
        """Return the problem with this copy in place of its operand.

        Args:
            problem: The problem that the copy was made of.
            layout: Two letters; this operand's says whether its rows are the matrix's rows (N) or columns (T).
            mapped: Whether a tensor map addresses it: batch strides then count matrices.
        """
        i, pitch = self.operand, self.memory.pitch
        a, b, *others = problem.begins
        strides, letters = list(problem.strides), list(problem.layout)
        strides[2 * i : 2 * i + 2] = (0, 0) if mapped else (pitch, 1) if layout[i] == "N" else (1, pitch)
        letters[i] = layout[i]
        _, steps = stored_once(problem, i, 1 if mapped else self.rows * pitch)
        pairs = zip(problem.batch, steps, strict=True)
        batch = (replace(each, b=step) if i else replace(each, a=step) for each, step in pairs)
        return replace(
            problem,
            strides=tuple(strides), batch=tuple(batch),
            layout="".join(letters), begins=(a, 0, *others) if i else (0, b, *others),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ready:
    """Operands that a kernel can read, and the launches that make them so.

    Attributes:
        problem: The problem, with the strides of the operands that the kernel reads.
        names: Arrays that hold A and B: ``"A"``, ``"B"``, or names of scratch memory.
        launches: The launches before the kernel.
        scratch: The scratch memory that they write.
        maps: Tensor maps of A and B, of a kernel that reads by TMA.
        copies: Decomposed operands.
        scan: Byte offsets of both operands' scans in their scratch memory.
    """

    problem: Problem
    names: tuple[str, str] = ("A", "B")
    launches: tuple[Launch, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    copies: tuple[Copy, ...] = ()
    scan: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The launches of a product, in order, and the scratch memory between them."""

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory in all, each array aligned."""
        return sum(memory.aligned_bytes for memory in self.scratch)

    @property
    def multiplying(self) -> Launch:
        """The launch that multiplies; the first of them, where there are several."""
        return next(each for each in self.launches if len(each.operands) == 3)


def split_k_partitions(split: int, k: int, step: int) -> tuple[int, int]:
    """The number of split-K partitions, and k in each: at most ``split`` unless K is huge, and none empty.

    Each begins at a multiple of ``step``, a tile's k: so its copies are as wide as those of the whole matrix, and a TMA
    box does not reach into the next partition.
    """
    split = max(split, tiles(k, LONGEST_PARTITION))
    if split == 1 or k == 0:
        return 1, k
    steps = tiles(tiles(k, split), step) * step
    return tiles(k, steps), steps


def tiles_in_all(config: Config, problem: Problem, partitions: int = 1) -> int:
    """Tiles of all split-K partitions of all products."""
    return tiles_of_c(config, problem) * products(problem) * partitions


def tiles_of_c(config: Config, problem: Problem) -> int:
    """Tiles of one product that are computed."""
    down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
    return down * (down + 1) // 2 if config.triangle else down * across


def tiles(size: int, tile: int) -> int:
    """Tiles that cover a size."""
    return -(-size // tile)


def products(problem: Problem) -> int:
    """Products of one launch."""
    return math.prod(dimension.size for dimension in problem.batch)


def stored_once(problem: Problem, operand: int, size: int) -> tuple[list[int], list[int]]:
    """Return sizes and strides of a batch of matrices of ``size`` elements; broadcast dimensions have size 1."""
    sizes = [each.size if (each.a, each.b)[operand] else 1 for each in problem.batch]
    return sizes, [size * math.prod(sizes[i + 1 :]) if each > 1 else 0 for i, each in enumerate(sizes)]


def one_after_the_other(problem: Problem, pitch: int) -> tuple[BatchDimension, ...]:
    """Return the batch with C's products one after the other, their rows ``pitch`` elements apart."""
    rows, step = [], problem.m * pitch
    for dimension in reversed(problem.batch):
        rows.append(replace(dimension, c=step))
        step *= dimension.size
    return tuple(reversed(rows))


def in_launches(config: Config, problem: Problem, partitions: int = 1) -> list[Problem]:
    """The parts of a product that one launch each computes: usually one part, the whole product.

    Raises:
        ShapeError: If there are too many, 1.4e14 tiles.
    """
    every = tiles_in_all(config, problem, partitions)
    if every > MOST_TILES * MOST_LAUNCHES:
        raise ShapeError(f"{every} tiles do not fit {MOST_LAUNCHES} launches of {MOST_TILES}; take a larger tile")
    if every <= max(MOST_TILES, partitions):
        return [problem]
    return [part for half in problem.halves(config.bm, config.bn) for part in in_launches(config, half, partitions)]


def rasterization_group(config: Config, problem: Problem) -> int:
    """Columns of tiles in a group of the rasterization.

    Where K is short, C is most of what is moved: blocks that run at a time write contiguous memory, whole rows or
    columns of tiles. Else, as the config says, they share what they read.
    """
    across = tiles(problem.n, config.bn)
    if problem.k > _SHORT_K or not config.wm:
        return min(config.launch.group, across)
    return across if problem.strides[5] <= problem.strides[4] else 1


def problem_args(
    config: Config,
    problem: Problem,
    partitions: tuple[int, int] | None,
    partition_c: int,
    epilogue: Epilogue | None = None,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The members of ``Problem``, one int64 each.

    ``partitions`` is the number of split-K partitions and k in each; ``partition_c`` the elements of C from one
    partition's partial sums to the next. An epilogue's arrays have the offset of their first element in bytes, and its
    scalars are 0, until ``with_epilogue``.
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
    """Kernel arguments with what an epilogue reads.

    Args:
        kernel_args: As ``problem_args`` gives them; more may follow.
        epilogue: The epilogue.
        addresses: Of its arrays' first elements.
        scalars: Two numbers of 8 bytes for each of its scalars.
    """
    found: np.ndarray[Any, np.dtype[np.int64]] = kernel_args.copy()
    at = _BEFORE_EPILOGUE
    for address in addresses:
        found[at] += address
        at += _WORDS_OF_ARRAY
    words = np.frombuffer(scalars, np.int64)
    found[at : at + len(words)] = words
    return found
