"""Tiles of C and panels of A and B: the order in which they are computed, and the memory that they need.

This is arithmetic only, without a device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# Rows on the device are padded to a multiple of _PITCH bytes, for TMA, and matrices to a multiple of _ALIGNMENT bytes,
# as CuPy's pool allocates.
_PITCH, _ALIGNMENT = 16, 512


@dataclass(frozen=True, slots=True)
class Matrices:
    """The properties of a product ``(m, k) @ (k, n)`` on which its tiling depends.

    Attributes:
        m, n, k: Sizes of the product, none of them 0.
        itemsize: Bytes per element.
        sum_itemsize: Bytes per element of C between two steps along K: more than ``itemsize`` for float16, which is
            rounded once.
        layouts: Layout letters of A, B and C: N if rows are contiguous, T if columns are.
    """

    m: int
    n: int
    k: int
    itemsize: int
    sum_itemsize: int
    layouts: str = "NNN"


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of C of ``rows`` x ``cols`` elements, computed in steps of ``depth`` along K.

    Attributes:
        matrices: Product that is tiled.
        rows, cols, depth: Elements of a tile along M and N, and of a step along K. Tiles and steps at the edges may be
            smaller.
        a_slots, b_slots: Number of panels of A and of B that fit on the device.
    """

    matrices: Matrices
    rows: int
    cols: int
    depth: int
    a_slots: int = 1
    b_slots: int = 1

    @property
    def grid(self) -> tuple[int, int]:
        """Number of rows of tiles, and number of columns of tiles."""
        return ceil_div(self.matrices.m, self.rows), ceil_div(self.matrices.n, self.cols)

    @property
    def tiles(self) -> int:
        """Number of tiles into which C is cut: the rows of the grid times its columns."""
        return self.grid[0] * self.grid[1]

    @property
    def steps(self) -> int:
        """Number of steps along K per tile."""
        return ceil_div(self.matrices.k, self.depth)

    @property
    def by_rows(self) -> bool:
        """Whether tiles are computed row by row, so that panels of A stay on the device while a row is computed.

        If False, tiles are computed column by column, and panels of B stay. The matrix whose panels stay is copied to
        the device once, the other one once per row or column of tiles.
        """
        (down, across), each = self.grid, self.matrices
        return each.m + down * each.n <= each.n + across * each.m

    @property
    def kept(self) -> int:
        """Operand whose panels stay on the device while a row or column of tiles is computed: 0 for A, 1 for B."""
        return 0 if self.by_rows else 1

    def tile(self, number: int) -> tuple[int, int]:
        """Return the row and column, in tiles, of the tile that is computed after ``number`` others.

        The order is serpentine, so that successive tiles share a panel.
        """
        down, across = self.grid
        outer, inner = divmod(number, across if self.by_rows else down)
        if outer % 2:
            inner = (across if self.by_rows else down) - 1 - inner
        return (outer, inner) if self.by_rows else (inner, outer)

    def depths(self, number: int) -> Sequence[int]:
        """Return the indices of the steps along K of a tile, in the order in which they are computed.

        Every other tile counts down, so that a tile begins with the panels that the tile before it used last. The order
        depends only on the tile's number, and so do the bits of the result.
        """
        return range(self.steps)[:: -1 if number % 2 else 1]

    def part_of_c(self, number: int) -> tuple[slice, slice]:
        """Return the rows and columns of C that a tile covers."""
        i, j = self.tile(number)
        return slice(i * self.rows, (i + 1) * self.rows), slice(j * self.cols, (j + 1) * self.cols)

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Shapes of a panel of A, a panel of B and a tile of C, in elements."""
        return (self.rows, self.depth), (self.depth, self.cols), (self.rows, self.cols)

    def pitch(self, which: int, itemsize: int | None = None) -> int:
        """Return the distance in bytes between two rows of a panel or tile on the device.

        Args:
            which: 0 for a panel of A, 1 for a panel of B, 2 for a tile of C. If the matrix has layout T, the distance
                is that between two columns.
            itemsize: Bytes per element; None for those of the matrices.
        """
        contiguous = self.shapes[which][1 if self.matrices.layouts[which] == "N" else 0]
        return round_up(contiguous * (itemsize or self.matrices.itemsize), _PITCH)

    def bytes(self, which: int, itemsize: int | None = None) -> int:
        """Return the bytes that a panel or tile needs on the device.

        Args:
            which: 0 for a panel of A, 1 for a panel of B, 2 for a tile of C.
            itemsize: Bytes per element; None for those of the matrices.
        """
        others = self.shapes[which][0 if self.matrices.layouts[which] == "N" else 1]
        return round_up(others * self.pitch(which, itemsize), _ALIGNMENT)

    @property
    def results(self) -> int:
        """Number of tiles of C on the device: one is copied back while the next is computed."""
        return min(2, self.tiles)

    @property
    def wide_sums(self) -> bool:
        """Whether sums between steps need separate memory, because their elements are wider than the result's."""
        return self.steps > 1 and self.matrices.sum_itemsize != self.matrices.itemsize

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all panels and tiles on the device."""
        sums = self.bytes(2, self.matrices.sum_itemsize) if self.wide_sums else 0
        return self.a_slots * self.bytes(0) + self.b_slots * self.bytes(1) + self.results * self.bytes(2) + sums

    def products(self) -> Iterator[tuple[tuple[int, int, int], bool, bool]]:
        """Yield each different product of two panels, products of whole panels first.

        A product is described by (m, n, k), by whether it is the first step of a tile, and by whether it is the last.
        """
        m, n, k = self.matrices.m, self.matrices.n, self.matrices.k
        kinds = [(True, False), (False, True), *([(False, False)] if self.steps > 2 else [])]
        rows, cols, depths = (
            (whole, size % whole or whole) for size, whole in ((m, self.rows), (n, self.cols), (k, self.depth))
        )
        for shape in dict.fromkeys(itertools.product(rows, cols, depths)):
            for first, last in kinds if self.steps > 1 else [(True, True)]:
                yield shape, first, last


#: Function that returns the bytes of workspace of a product, from the tiling, m, n and k, and whether the product is
#: the first and whether it is the last step of a tile.
Workspace = Callable[[Tiling, tuple[int, int, int], bool, bool], int]


def most_workspace(tiling: Tiling, workspace: Workspace) -> int:
    """Return the maximum workspace of any product of a tiling, in bytes, rounded up as CuPy allocates."""
    return round_up(max(workspace(tiling, *kind) for kind in tiling.products()), _ALIGNMENT)


def device_bytes(tiling: Tiling, workspace: Workspace) -> int:
    """Return the bytes of device memory that a tiling needs for panels, tiles and workspace."""
    return tiling.buffer_bytes + most_workspace(tiling, workspace)


def ceil_div(size: int, each: int) -> int:
    """Return ``size / each``, rounded up to an integer."""
    return -(-size // each)


def round_up(size: int, unit: int) -> int:
    """Round a size up to a multiple of ``unit``."""
    return -(-size // unit) * unit
