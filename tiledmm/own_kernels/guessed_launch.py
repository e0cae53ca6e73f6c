"""Launches of a product whose file says none, from which thread stores which element of C."""

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

# Blocks of kernels that leave their shape to the launch, likeliest first.
_PLANES = ((16, 16), (32, 8), (8, 8), (32, 32))
_ROWS = ((256, 1), (128, 1), (64, 1), (512, 1), (1024, 1), (32, 1))

# Factors of the number of blocks along an axis.
_Counted: TypeAlias = tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True, slots=True)
class GuessedLaunch:
    """A launch that the kernel's text suggests.

    Attributes:
        block: Number of threads per block along x and y.
        counted: What blocks along x and along y count: factors of their number, each with the names of sizes whose
            product is divided among blocks, and how much of it each has.
        depth: Blocks along z, for kernels that divide their work among any number.
        fewer: Factor by which there are fewer blocks, for kernels whose threads compute several elements in a loop.
        evident: Whether the text says this launch by itself, so that a wrong result is the kernel's fault.
        source: That it is a guess.
    """

    block: tuple[int, int]
    counted: tuple[_Counted, _Counted]
    depth: int = 1
    fewer: int = 1
    evident: bool = False
    source: str = "a guess: --grid and --block say otherwise"

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
    """Yield launches of one thread per element of C, in several blocks, for a kernel whose indices are not known.

    Args:
        text: The kernel's text. If it uses the size of the block, any block is right.
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
    """Yield the launches with a block; two if rows and columns of C are not told apart."""
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
    """Return what blocks count that are along x only: columns, elements, or tiles, one row of them after another.

    Args:
        block: Number of threads per block.
        step: How far a block's elements lie behind those of the block before it.
        columns: Columns of C per block.

    Returns:
        The factors of their number; None if that is not known.
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
    """Return what blocks along an axis count if each moves by a step; None if that is not known."""
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
    if step < min(m, n):  # in a matrix by columns, successive elements belong to successive rows
        return ((("M",) if stores.is_by_columns() else (of_columns,), step),)
    return None
