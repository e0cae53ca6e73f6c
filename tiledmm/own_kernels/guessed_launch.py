"""Guessed launches of a product, if its file has none, from which thread stores which element of C."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tiledmm.own_kernels.indices import Indices
from tiledmm.own_kernels.kernel_text import Point
from tiledmm.own_kernels.launch_rule import Geometry
from tiledmm.own_kernels.roles import Roles
from tiledmm.own_kernels.stores import Stores
from tiledmm.simulator.build.parameters import Parameter

# Shapes of blocks for kernels that support any, likeliest first.
_PLANES = ((16, 16), (32, 8), (8, 8), (32, 32))
_ROWS = ((256, 1), (128, 1), (64, 1), (512, 1), (1024, 1), (32, 1))

# Factors of the number of blocks along an axis: names of sizes, and how much of their product a block computes.
_Counted: TypeAlias = tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True, slots=True)
class GuessedLaunch:
    """A launch that the kernel's text suggests.

    Attributes:
        block: Number of threads per block along x and y.
        counted: Factors of the numbers of blocks along x and along y. A factor has the names of the sizes whose product
            is divided among blocks, and the part of it that a block computes.
        depth: Number of blocks along z, for kernels that divide their work among any number of blocks.
        fewer: Factor by which there are fewer blocks, for kernels whose threads compute several elements in a loop.
        evident: Whether the text alone determines this launch, so that a wrong result is the kernel's fault.
        source: Text which states that the launch is a guess.
    """

    block: tuple[int, int]
    counted: tuple[_Counted, _Counted]
    depth: int = 1
    fewer: int = 1
    evident: bool = False
    source: str = "a guess (--grid and --block override it)"

    def geometry(self, sizes: Mapping[str, int]) -> Geometry:
        """Return the launch at given sizes."""
        x, y = (
            math.prod(-(-math.prod(sizes[each] for each in names) // per_block) for names, per_block in counted)
            for counted in self.counted
        )
        x, y = (-(-each // self.fewer) for each in (x, y))
        return Geometry((x, y, self.depth), (*self.block, 1))


def guesses(indices: Indices, roles: Roles, parameters: Sequence[Parameter]) -> Iterator[GuessedLaunch]:
    """Yield launches that a kernel's text suggests, likeliest first; none if it suggests none.

    Args:
        indices: The kernel's indices.
        roles: Roles of its parameters.
        parameters: The parameters.
    """
    stores = Stores.of(indices, roles, parameters)
    depth = 2 if indices.reads("grid", "z") else 1
    for each in _launches(stores) if stores else ():
        yield replace(each, depth=depth)


def planes(text: str) -> Iterator[GuessedLaunch]:
    """Yield launches of one thread per element of C, in several blocks, for a kernel whose indices are unknown.

    Args:
        text: The kernel's text. If it reads ``blockDim``, it supports any block.
    """
    for x, y in _PLANES:
        yield GuessedLaunch((x, y), (((("N",), x),), ((("M",), y),)), evident="blockDim" in text)


def _launches(stores: Stores) -> Iterator[GuessedLaunch]:
    """Yield launches, likeliest first."""
    both = stores.indices.reads("thread", "y")
    has_tile = stores.steps((64, 8)) == stores.steps((128, 16))
    shapes = [*stores.shapes()] if has_tile else [(each, 1) for each in stores.strides() if not both]
    if both:
        shapes += _PLANES
    else:
        shapes += ((32, 1), *_ROWS) if has_tile else _ROWS
    for shape in dict.fromkeys(shapes):
        yield from _with_block(stores, shape)


def _with_block(stores: Stores, block: tuple[int, int]) -> Iterator[GuessedLaunch]:
    """Yield the launches with a block; two if it is unknown which are rows and which are columns of C."""
    steps = stores.steps(block)
    fewer = 3 if stores.loops_over_grid(block) else 1
    for swapped in (False,) if stores.is_known else (False, True):
        axes = [_axis(stores, step, swapped=swapped) for step in steps]
        if axes[0] is None or axes[1] is None or not (axes[0] or axes[1]):
            continue
        x: _Counted | None = axes[0]
        y = axes[1]
        if x and not y and x[0][0] == ("N",):
            x = _wrapped(stores, block, steps[0], x[0][1])
        if x is None:
            continue
        evident = not swapped and (fewer > 1 or stores.is_evident(block, steps))
        yield GuessedLaunch(block, (x, y), fewer=fewer, evident=evident)


def _wrapped(stores: Stores, block: tuple[int, int], step: int, columns: int) -> _Counted | None:
    """Return what blocks count if the grid is along x only: columns, elements, or tiles, row by row.

    Args:
        block: Number of threads per block.
        step: Distance from a block's elements to those of the next block.
        columns: Columns of C per block.

    Returns:
        The factors of the number of blocks; None if they are unknown.
    """
    count, rest = divmod(stores.sizes["N"], columns)
    if rest:
        return None
    origin = Point(dim=(*block, 1))
    below = stores.moved(replace(origin, block=(count, 0, 0)), origin)
    if below == count * step:
        return ((("N",), columns),) if stores.loops_over_rows() else ((("M", "N"), columns),)
    rows, rest = divmod(below, stores.sizes["N"])
    return ((("M",), rows), (("N",), columns)) if rows > 0 and not rest else None


def _axis(stores: Stores, step: int, *, swapped: bool) -> _Counted | None:
    """Return the factors of the number of blocks along an axis, given the step between blocks; None if unknown."""
    m, n = stores.sizes["M"], stores.sizes["N"]
    if step == 0:
        return ()
    if step < 0:
        return None
    of_rows, of_columns = ("N", "M") if swapped else ("M", "N")
    if step % n == 0 and step // n < n:
        return (((of_rows,), step // n),)
    if stores.is_known and step % m == 0 and step // m < m:
        return ((("N",), step // m),)
    if step < min(m, n):  # in a column-major matrix, successive elements belong to successive rows
        return ((("M",) if stores.is_by_columns() else (of_columns,), step),)
    return None
