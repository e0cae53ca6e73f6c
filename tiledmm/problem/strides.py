"""A product in a kernel's terms: three sizes, at most three batch dimensions, strides in elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Bytes of a cache line, and so many elements of any type: whole lines.
_LINE = 128

#: Batch dimensions that a kernel addresses itself (``Problem`` in ``cuda_src/matrices.cuh.j2``).
KERNEL_BATCH_DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes that an array spans, from ``start`` (0 or negative) to ``stop``, relative to its first element."""

    start: int
    stop: int

    @classmethod
    def of(cls, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Span:
        """The span of an array; empty if it has no elements."""
        if 0 in shape:
            return cls(0, 0)
        reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
        return cls(sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + itemsize)


@dataclass(frozen=True, slots=True)
class BatchDimension:
    """A batch dimension: the number of products, and the strides of A, B, C and an epilogue's arrays in elements."""

    size: int
    a: int
    b: int
    c: int
    epilogue: tuple[int, ...] = ()

    def transposed(self) -> BatchDimension:
        """The same for B^T A^T."""
        return BatchDimension(self.size, self.b, self.a, self.c, self.epilogue)

    @property
    def strides(self) -> tuple[int, ...]:
        """Those of A, B, C and the epilogue's arrays."""
        return self.a, self.b, self.c, *self.epilogue


#: Maps a layout's letters to those of the transposed matrices.
TRANSPOSED = str.maketrans("NT", "TN")


@dataclass(frozen=True, slots=True)
class Problem:
    """A product in the kernel's terms: A (m, k), B (k, n), C (m, n).

    Attributes:
        m, n, k: Sizes.
        strides: Row and column strides in elements: ``(row_a, col_a, row_b, col_b, row_c, col_c)``.
        batch: At most three dimensions, slowest first.
        layout: A letter each for A and B: N rows contiguous, T columns contiguous, G neither.
        outer: Further batch dimensions, for which the host launches again. Rare: dimensions that cannot be merged.
        begins: Offsets of this problem in A, B, C and the epilogue's arrays, in elements: 0 unless it is a part of a
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
        """Matrix products in all."""
        return math.prod(dimension.size for dimension in (*self.outer, *self.batch))

    @property
    def is_empty(self) -> bool:
        """True if C has no elements."""
        return self.m * self.n * self.products == 0

    @property
    def is_mirrored(self) -> bool:
        """True if B lies as A transposed does: where both are the same memory, C is symmetric."""
        row_a, col_a, row_b, col_b, *_ = self.strides
        steps = all(dimension.a == dimension.b for dimension in (*self.outer, *self.batch))
        return self.m == self.n and (row_a, col_a) == (col_b, row_b) and steps

    def transposed(self) -> Problem:
        """C^T = B^T A^T."""
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
        """What computes these rows and columns of C, of so many products along each of the first batch dimensions."""
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
        """The same wherever it begins, to compare parts by."""
        return replace(self, begins=(0,) * len(self.begins))

    def halves(self, rows: int, cols: int) -> tuple[Problem, Problem]:
        """Two parts of a batch; or of a product alone, whole tiles of ``rows`` and ``cols`` in the first."""
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
        """Return the elements of A (0) or B (1), those of broadcast batches counted once."""
        rows, cols = ((self.m, self.k), (self.k, self.n))[operand]
        products = 1
        for dimension in (*self.outer, *self.batch):
            products *= dimension.size if (dimension.a, dimension.b)[operand] else 1
        return rows * cols * products

    def outer_offsets(self) -> Iterator[tuple[int, ...]]:
        """How far A, B, C and the epilogue's arrays are on, in elements, at each step of the outer dimensions."""
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
    """The product in the form that kernels take.

    Args:
        sizes: m, n, k.
        loop: Shape of the batch.
        a, b, c: Strides in elements of the operands and the result: one a batch dimension, then row and column.
        epilogue: The same of the arrays that an epilogue reads.

    Returns:
        The problem, and whether it was transposed: where C's columns are contiguous, C^T = B^T A^T has its rows
        contiguous instead, and its stores are coalesced.
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
    """Strides and layout letter of a matrix. An axis with one element may have any stride: it gets an aligned one."""
    by_rows, by_columns = col_stride == 1 and cols > 1, row_stride == 1 and rows > 1
    if by_rows or (cols <= 1 and not by_columns):
        return row_stride if rows > 1 else _aligned(cols), 1, "N"
    if by_columns or rows <= 1:
        return 1, col_stride if cols > 1 else _aligned(rows), "T"
    return row_stride, col_stride, "G"


def _aligned(size: int) -> int:
    """A stride from which so many elements follow: of whole cache lines, whatever the type."""
    return -(-max(size, 1) // _LINE) * _LINE


def _collapse(
    dimensions: list[BatchDimension],
) -> tuple[tuple[BatchDimension, ...], tuple[BatchDimension, ...]]:
    """Merges what can be merged. Returns the kernel's dimensions and, of too many, the smallest for the host."""
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
