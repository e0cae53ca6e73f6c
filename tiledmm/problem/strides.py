"""Products in the form that kernels read: three sizes, at most three batch dimensions, strides in elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Bytes per cache line. A stride of a multiple of this number of elements is a multiple of a line for every type.
_LINE = 128

#: Number of batch dimensions that a kernel addresses itself (``Problem`` in ``cuda_src/matrices.cuh.j2``).
KERNEL_BATCH_DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """Range of bytes that an array occupies, relative to its first element.

    Attributes:
        start: Offset of the lowest byte, in bytes; 0, or negative if a stride is negative.
        stop: Offset just past the highest byte, in bytes.
    """

    start: int
    stop: int

    @classmethod
    def of(cls, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Span:
        """Return the range of bytes that an array occupies, relative to its first element.

        The range is empty if the array has no elements.

        Args:
            shape: Shape of the array.
            strides: Strides in bytes.
            itemsize: Size of one element in bytes.
        """
        if 0 in shape:
            return cls(0, 0)
        reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
        return cls(sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize)


@dataclass(frozen=True, slots=True)
class BatchDimension:
    """One dimension of a batch of products.

    Attributes:
        size: Number of products along the dimension.
        a, b, c: Strides of A, B and C, in elements.
        epilogue: Strides of the arrays that an epilogue reads, in elements.
    """

    size: int
    a: int
    b: int
    c: int
    epilogue: tuple[int, ...] = ()

    def transposed(self) -> BatchDimension:
        """Return this dimension for the transposed product B^T A^T, in which A and B change places."""
        return BatchDimension(self.size, self.b, self.a, self.c, self.epilogue)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of A, B, C and the epilogue's arrays, in elements."""
        return self.a, self.b, self.c, *self.epilogue


#: Translation table from a layout's letters to those of the transposed matrices, for ``str.translate``.
TRANSPOSED = str.maketrans("NT", "TN")


@dataclass(frozen=True, slots=True)
class Problem:
    """A product in the form that kernels read: A (m, k), B (k, n), C (m, n).

    Attributes:
        m, n, k: Sizes.
        strides: Row and column strides in elements: ``(row_a, col_a, row_b, col_b, row_c, col_c)``.
        batch: Batch dimensions that the kernel addresses, slowest first; at most three.
        layout: One letter per operand, A then B: N for contiguous rows, T for contiguous columns, G for neither.
        outer: Further batch dimensions. The host launches the kernel once per step of these. They are rare, because
            most batch dimensions can be merged.
        begins: Offsets of this problem in A, B, C and the epilogue's arrays, in elements; 0 unless it is a part of a
            product.
        epilogue: Row and column strides of the arrays that an epilogue reads, in elements.
    """

    m: int
    n: int
    k: int
    strides: tuple[int, ...]
    batch: tuple[BatchDimension, ...]
    layout: str
    outer: tuple[BatchDimension, ...]
    begins: tuple[int, ...] = (0, 0, 0)
    epilogue: tuple[tuple[int, int], ...] = ()

    @property
    def products(self) -> int:
        """Number of matrix products in all batch dimensions together."""
        return math.prod(dimension.size for dimension in (*self.outer, *self.batch))

    @property
    def k_major_layout(self) -> str:
        """Layout letters of A and of B's transpose: N for K-major, T for MN-major, G for neither."""
        return self.layout[0] + self.layout[1].translate(TRANSPOSED)

    @property
    def is_empty(self) -> bool:
        """True if C has no elements."""
        return self.m * self.n * self.products == 0

    @property
    def is_mirrored(self) -> bool:
        """True if B's strides are those of A transposed. If A and B also share memory, C is symmetric."""
        row_a, col_a, row_b, col_b, *_ = self.strides
        steps = all(dimension.a == dimension.b for dimension in (*self.outer, *self.batch))
        return self.m == self.n and (row_a, col_a) == (col_b, row_b) and steps

    def transposed(self) -> Problem:
        """Return this problem in the form C^T = B^T A^T, which has the same elements in memory."""
        row_a, col_a, row_b, col_b, row_c, col_c = self.strides
        letters = self.layout.translate(TRANSPOSED)
        a, b, *others = self.begins
        return Problem(
            self.n,
            self.m,
            self.k,
            (col_b, row_b, col_a, row_a, col_c, row_c),
            tuple(dimension.transposed() for dimension in self.batch),
            letters[::-1],
            tuple(dimension.transposed() for dimension in self.outer),
            (b, a, *others),
            tuple((col, row) for row, col in self.epilogue),
        )

    def part(self, rows: range, cols: range, products: Sequence[range] = ()) -> Problem:
        """Return the part of this problem that computes a range of rows and columns of C.

        Args:
            rows, cols: Rows and columns of C.
            products: Range along each of the first batch dimensions; all products along the others.
        """
        row_a, _, _, col_b, row_c, col_c = self.strides
        steps = [(row_a, 0), (0, col_b), (row_c, col_c), *self.epilogue]
        begins = [
            begin + rows.start * row + cols.start * col for begin, (row, col) in zip(self.begins, steps, strict=True)
        ]
        batch = list(self.batch)
        for i, each in enumerate(products):
            begins = [begin + each.start * step for begin, step in zip(begins, batch[i].strides, strict=True)]
            batch[i] = replace(batch[i], size=len(each))
        return replace(self, m=len(rows), n=len(cols), batch=tuple(batch), begins=tuple(begins))

    def anywhere(self) -> Problem:
        """Return this problem with offsets of 0, which is equal for all parts of a product that have the same sizes."""
        return replace(self, begins=(0,) * len(self.begins))

    def halves(self, rows: int, cols: int) -> tuple[Problem, Problem]:
        """Divide the problem into two parts.

        A batch is divided between two of its products; a single product is divided between rows of C, or between
        columns if C has at most ``rows`` rows.

        Args:
            rows, cols: Sizes of a tile. The first part of a single product consists of whole tiles.
        """
        for i, dimension in enumerate(self.batch):
            if dimension.size > 1:
                before = [range(each.size) for each in self.batch[:i]]
                half = dimension.size // 2
                first, second = (
                    self.part(range(self.m), range(self.n), (*before, each))
                    for each in (range(half), range(half, dimension.size))
                )
                return first, second
        if self.m > rows:
            cut = self.m // rows // 2 * rows or rows
            return self.part(range(cut), range(self.n)), self.part(range(cut, self.m), range(self.n))
        cut = self.n // cols // 2 * cols or cols
        return self.part(range(self.m), range(cut)), self.part(range(self.m), range(cut, self.n))

    def elements(self, operand: int) -> int:
        """Return the number of elements of A (0) or B (1) in all products, with broadcast matrices counted once."""
        rows, cols = ((self.m, self.k), (self.k, self.n))[operand]
        products = 1
        for dimension in (*self.outer, *self.batch):
            products *= dimension.size if (dimension.a, dimension.b)[operand] else 1
        return rows * cols * products

    def outer_offsets(self) -> Iterator[tuple[int, ...]]:
        """Yield the offsets of A, B, C and the epilogue's arrays in elements, for each step of the outer dimensions.

        The host launches the kernel once per step.
        """
        for index in itertools.product(*(range(dimension.size) for dimension in self.outer)):
            steps = [[i * step for step in dimension.strides] for i, dimension in zip(index, self.outer, strict=True)]
            yield tuple(map(sum, zip(*steps, strict=True))) if steps else (0,) * len(self.begins)


def arrange(
    sizes: tuple[int, int, int],
    loop: tuple[int, ...],
    a: tuple[int, ...],
    b: tuple[int, ...],
    c: tuple[int, ...],
    epilogue: Sequence[tuple[int, ...]] = (),
) -> tuple[Problem, bool]:
    """Return a product as the ``Problem`` that kernels read, and whether it was transposed.

    If C's columns are contiguous, the problem is C^T = B^T A^T: its rows are contiguous, so its stores are coalesced.

    Args:
        sizes: m, n, k.
        loop: Shape of the batch.
        a, b, c: Strides of the operands and the result in elements: one per batch dimension, then row and column.
        epilogue: Strides of each array that an epilogue reads, in the same form.
    """
    m, n, k = sizes
    row_c, col_c, letter = _order(m, n, *c[-2:])
    transposed = letter == "T"
    if transposed:
        m, n = n, m
        a, b = _transposed(b), _transposed(a)
        row_c, col_c = col_c, row_c
        epilogue = [_transposed(each) for each in epilogue]
    row_a, col_a, letter_a = _order(m, k, *a[-2:])
    row_b, col_b, letter_b = _order(k, n, *b[-2:])
    dimensions = [
        BatchDimension(size, a[i], b[i], c[i], tuple(each[i] for each in epilogue)) for i, size in enumerate(loop)
    ]
    batch, outer = _collapse(dimensions)
    strides, begins = (row_a, col_a, row_b, col_b, row_c, col_c), (0,) * (3 + len(epilogue))
    arrays = tuple((each[-2], each[-1]) for each in epilogue)
    return Problem(m, n, k, strides, batch, letter_a + letter_b, outer, begins, arrays), transposed


def _transposed(strides: tuple[int, ...]) -> tuple[int, ...]:
    return (*strides[:-2], strides[-1], strides[-2])


def _order(rows: int, cols: int, row_stride: int, col_stride: int) -> tuple[int, int, str]:
    """Return the row stride, the column stride and the layout letter of a matrix, given its sizes and strides.

    Strides are in elements. The stride of an axis of extent 1 does not matter, so it is replaced by an aligned one.
    """
    by_rows, by_columns = col_stride == 1 and cols > 1, row_stride == 1 and rows > 1
    if by_rows or (cols <= 1 and not by_columns):
        return row_stride if rows > 1 else _aligned(cols), 1, "N"
    if by_columns or rows <= 1:
        return 1, col_stride if cols > 1 else _aligned(rows), "T"
    return row_stride, col_stride, "G"


def _aligned(size: int) -> int:
    """Return the smallest multiple of a cache line, for elements of any type, that is at least ``size`` elements."""
    return -(-max(size, 1) // _LINE) * _LINE


def _collapse(
    dimensions: list[BatchDimension],
) -> tuple[tuple[BatchDimension, ...], tuple[BatchDimension, ...]]:
    """Merge batch dimensions whose strides allow it.

    Returns:
        The dimensions that the kernel addresses, at most three; and the remaining ones, the smallest, for which the
        host launches the kernel repeatedly.
    """
    kept: list[BatchDimension] = []
    wide = sorted((d for d in dimensions if d.size != 1), key=lambda d: (abs(d.c), abs(d.a), abs(d.b)), reverse=True)
    for inner in wide:
        if kept and kept[-1].strides == tuple(step * inner.size for step in inner.strides):
            kept[-1] = replace(inner, size=kept[-1].size * inner.size)
        else:
            kept.append(inner)
    surplus = max(len(kept) - KERNEL_BATCH_DIMENSIONS, 0)
    by_size = sorted(range(len(kept)), key=lambda i: kept[i].size)
    outer = sorted(by_size[:surplus])
    return tuple(d for i, d in enumerate(kept) if i not in outer), tuple(kept[i] for i in outer)
