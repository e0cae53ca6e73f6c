"""How work is laid over the GPU: launches, their grids, what each is told, and the memory in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.codegen.rendering import Specialization
from tiledmm.elements import Element
from tiledmm.errors import ShapeError
from tiledmm.problem.strides import KERNEL_BATCH_DIMENSIONS, BatchDimension, Problem
from tiledmm.registry.variant import Config, Variant
from tiledmm.schedule.tensor_maps import TensorMap

#: Tiles of a launch, at most: blocks of a grid's row, and kernels number them in 32 bits.
MOST_TILES = 2**31 - 1

#: Launches that a product takes for having more, at most.
MOST_LAUNCHES = 65_535

#: Steps of k that a block sums, at most: kernels count them in 32 bits.
LONGEST_SLICE = 1 << 30

#: Slices of K begin at multiples of this: what is read at once (16 bytes' worth of sums, 4 elements at most) stays
#: whole, and so do the steps along K of most kernels.
SLICE_STEP = 8

_ONE_PRODUCT = BatchDimension(1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a product.

    Attributes:
        specialization: The kernel.
        blocks: How many.
        words: Its ``Problem`` (``cuda_src/matrices.cuh.j2``), a word a member.
        operands: What its pointers are: ``"A"``, ``"B"``, ``"C"``, or the name of scratch memory.
        begins: Bytes from the first element of each to where the pointer points.
        maps: How the copy engine finds A and B, for a kernel that has them copied so: these take the pointers' place.
        findings: Bytes from the beginning of the scratch memory of that name to what is found of each operand: its last
            words are then the addresses, and before these, of a kernel that multiplies pieces, how far these are apart.
            Empty for a kernel that has no part in it.
    """

    specialization: Specialization
    blocks: int
    words: np.ndarray[Any, np.dtype[np.int64]]
    operands: tuple[str, ...]
    begins: tuple[int, ...]
    maps: tuple[TensorMap, ...] = ()
    findings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory in which launches pass on an array.

    Attributes:
        name: ``"packed A"``, ``"packed B"``, ``"words of A"``, ``"words of B"``, ``"pieces of A"``, ``"pieces of B"``,
            ``"findings"``, all of which is ``UNFOUND`` before the first launch, or ``"sums"``: of every slice,
            ``(slices, products, m, n)``.
        shape: The array's.
        pitch: Elements from one row to the next.
        element: Its type.
    """

    name: str
    shape: tuple[int, ...]
    pitch: int
    element: Element

    @property
    def bytes(self) -> int:
        """What it takes."""
        return math.prod(self.shape[:-1]) * self.pitch * self.element.itemsize


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is launched for a product, in order, and the memory in between."""

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()

    @property
    def multiplying(self) -> Launch:
        """The launch that multiplies: the first, of more tiles than one can number."""
        return next(each for each in self.launches if len(each.operands) == 3)


def slice_step(variant: Variant, config: Config) -> int:
    """What slices of K begin at multiples of."""
    return config.bk if variant.target else SLICE_STEP


def slices_in(split: int, k: int, step: int = SLICE_STEP) -> tuple[int, int]:
    """How many slices K is cut into, and steps of k in each: ``split`` at most unless K is huge, and none empty.

    Each begins at a multiple of ``step``: a kernel that is sent whole boxes would see the next slice behind its own.
    """
    split = max(split, tiles(k, LONGEST_SLICE))
    if split == 1 or k == 0:
        return 1, k
    steps = tiles(tiles(k, split), step) * step
    return tiles(k, steps), steps


def tiles_in_all(config: Config, problem: Problem, slices: int = 1) -> int:
    """How many tiles one launch computes, of all slices and products."""
    return tiles_of_c(config, problem) * products(problem) * slices


def tiles_of_c(config: Config, problem: Problem) -> int:
    """How many tiles of one product are computed."""
    down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
    return down * (down + 1) // 2 if config.triangle else down * across


def tiles(size: int, tile: int) -> int:
    """How many tiles cover a size."""
    return -(-size // tile)


def products(problem: Problem) -> int:
    """How many products one launch computes."""
    return math.prod(dimension.size for dimension in problem.batch)


def in_launches(config: Config, problem: Problem, slices: int = 1) -> list[Problem]:
    """The parts of a product that a launch each computes: as a rule one, all of it.

    Raises:
        ShapeError: If there are too many, 1.4e14 tiles.
    """
    every = tiles_in_all(config, problem, slices)
    if every > MOST_TILES * MOST_LAUNCHES:
        raise ShapeError(f"{every} tiles do not fit {MOST_LAUNCHES} launches of {MOST_TILES}; take a larger tile")
    if every <= max(MOST_TILES, slices):
        return [problem]
    return [part for half in problem.halves(config.bm, config.bn) for part in in_launches(config, half, slices)]


def problem_words(
    config: Config, problem: Problem, slices: tuple[int, int] | None = None, slice_c: int = 0
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """``Problem``, a word a member.

    ``slices`` is how many K is cut into and the steps of k in each, ``slice_c`` how many elements the sums of one are.
    """
    batch: Sequence[BatchDimension]
    batch = ((_ONE_PRODUCT,) * KERNEL_BATCH_DIMENSIONS + problem.batch)[-KERNEL_BATCH_DIMENSIONS:]
    row_a, col_a, row_b, col_b, row_c, col_c = problem.strides
    slices, across = slices or (1, problem.k), tiles(problem.n, config.bn)
    words = [
        problem.m, problem.n, problem.k,
        tiles(problem.m, config.bm), across, tiles_in_all(config, problem, slices[0]), min(config.group, across),
        *slices, slice_c,
        *(d.size for d in batch),
        row_a, col_a, *(d.a for d in batch),
        row_b, col_b, *(d.b for d in batch),
        row_c, col_c, *(d.c for d in batch),
    ]  # fmt: skip
    return np.array(words, dtype=np.int64)
