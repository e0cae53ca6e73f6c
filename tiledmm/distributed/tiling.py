"""Tiles of C and panels of A and B: the order in which they are computed, and the memory that they take.

Arithmetic only: nothing here knows of a device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# Bytes that rows of device matrices are padded to a multiple of, for TMA; and matrices, as CuPy's pool allocates.
_PITCH, _ALIGNMENT = 16, 512


@dataclass(frozen=True, slots=True)
class Matrices:
    """What a tiling depends on of a product ``(m, k) @ (k, n)``.

    Attributes:
        m, n, k: Its sizes, none of them 0.
        itemsize: Bytes of an element.
        sum_itemsize: Bytes of an element of C between two steps along K: more than ``itemsize`` for float16, which is
            rounded once.
        layouts: Those of A, B and C: N if rows are contiguous, T if columns are.
    """

    m: int
    n: int
    k: int
    itemsize: int
    sum_itemsize: int
    layouts: str = "NNN"


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of C of ``rows`` x ``cols``, computed in steps of ``depth`` along K.

    Attributes:
        matrices: The product.
        rows, cols, depth: Sizes of a tile and of a step. Those at the edges may be smaller.
        a_slots, b_slots: How many panels of A and of B there is room for on the device.
    """

    matrices: Matrices
    rows: int
    cols: int
    depth: int
    a_slots: int = 1
    b_slots: int = 1

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return parts(self.matrices.m, self.rows), parts(self.matrices.n, self.cols)

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.grid[0] * self.grid[1]

    @property
    def steps(self) -> int:
        """Steps along K of a tile."""
        return parts(self.matrices.k, self.depth)

    @property
    def by_rows(self) -> bool:
        """Whether a row of tiles comes after the other, which keeps panels of A; else columns, which keeps those of B.

        The operand that is kept is copied once, the other one for each row or column of tiles.
        """
        (down, across), each = self.grid, self.matrices
        return each.m + down * each.n <= each.n + across * each.m

    @property
    def kept(self) -> int:
        """The operand whose panels are kept: A (0) or B (1)."""
        return 0 if self.by_rows else 1

    def tile(self, number: int) -> tuple[int, int]:
        """Row and column of the tile that comes at a place of the order: serpentine, so that a panel is shared."""
        down, across = self.grid
        outer, inner = divmod(number, across if self.by_rows else down)
        if outer % 2:
            inner = (across if self.by_rows else down) - 1 - inner
        return (outer, inner) if self.by_rows else (inner, outer)

    def depths(self, number: int) -> Sequence[int]:
        """The steps along K of a tile, in order: to and fro, so that a tile begins where the one before it ended.

        They depend on the tile's place in the order alone, and so do the bits of the result.
        """
        return range(self.steps)[:: -1 if number % 2 else 1]

    def part_of_c(self, number: int) -> tuple[slice, slice]:
        """The rows and columns of C that a tile has."""
        i, j = self.tile(number)
        return slice(i * self.rows, (i + 1) * self.rows), slice(j * self.cols, (j + 1) * self.cols)

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Rows and columns of a panel of A, a panel of B and a tile of C."""
        return (self.rows, self.depth), (self.depth, self.cols), (self.rows, self.cols)

    def pitch(self, which: int, itemsize: int | None = None) -> int:
        """Bytes from a contiguous row (or column, of layout T) to the next, of A (0), B (1) or C (2) on the device."""
        contiguous = self.shapes[which][1 if self.matrices.layouts[which] == "N" else 0]
        return round_up(contiguous * (itemsize or self.matrices.itemsize), _PITCH)

    def bytes(self, which: int, itemsize: int | None = None) -> int:
        """Bytes of a panel of A (0), a panel of B (1) or a tile of C (2) on the device."""
        others = self.shapes[which][0 if self.matrices.layouts[which] == "N" else 1]
        return round_up(others * self.pitch(which, itemsize), _ALIGNMENT)

    @property
    def results(self) -> int:
        """Tiles of C that are on the device: one is copied back while the next is computed."""
        return min(2, self.tiles)

    @property
    def wide_sums(self) -> bool:
        """Whether sums have memory of their own, because they are wider than the result."""
        return self.steps > 1 and self.matrices.sum_itemsize != self.matrices.itemsize

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all panels and tiles on the device."""
        sums = self.bytes(2, self.matrices.sum_itemsize) if self.wide_sums else 0
        return self.a_slots * self.bytes(0) + self.b_slots * self.bytes(1) + self.results * self.bytes(2) + sums

    def products(self) -> Iterator[tuple[tuple[int, int, int], bool, bool]]:
        """Every kind of product that is computed: m, n and k, and whether it is a tile's first and last step.

        Whole tiles and whole panels are first.
        """
        m, n, k = self.matrices.m, self.matrices.n, self.matrices.k
        kinds = [(True, False), (False, True), *([(False, False)] if self.steps > 2 else [])]
        rows, cols, depths = (
            (whole, size % whole or whole) for size, whole in ((m, self.rows), (n, self.cols), (k, self.depth))
        )
        for shape in dict.fromkeys(itertools.product(rows, cols, depths)):
            for first, last in kinds if self.steps > 1 else [(True, True)]:
                yield shape, first, last


#: Bytes of workspace of a product of a tiling: its m, n and k, and whether it is a tile's first and last step.
Workspace = Callable[[Tiling, tuple[int, int, int], bool, bool], int]


def most_workspace(tiling: Tiling, workspace: Workspace) -> int:
    """Bytes of workspace that there must be for every product of a tiling."""
    return round_up(max(workspace(tiling, *kind) for kind in tiling.products()), _ALIGNMENT)


def device_bytes(tiling: Tiling, workspace: Workspace) -> int:
    """Bytes of device memory that a tiling takes."""
    return tiling.buffer_bytes + most_workspace(tiling, workspace)


def parts(size: int, each: int) -> int:
    """The number of parts of a size, each of at most so much."""
    return -(-size // each)


def round_up(size: int, unit: int) -> int:
    """The least multiple of a unit that is no less."""
    return -(-size // unit) * unit
