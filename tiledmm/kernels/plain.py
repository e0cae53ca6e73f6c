"""Plain kernel: a user's CUDA C with pointers and sizes as parameters, and all that is known about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tiledmm.elements import Element
from tiledmm.errors import ShapeError
from tiledmm.problem.strides import TRANSPOSED, Problem

if TYPE_CHECKING:
    from tiledmm.simulator.build.source_map import SourceMap

#: Sizes of a product in the order of ``Problem``: C is (M, N), A is (M, K), B is (K, N).
SIZES = ("M", "N", "K")

#: Names of the matrices that row strides belong to, by the role of the parameter.
LEADING = {"lda": 0, "ldb": 1, "ldc": 2}

# Roles that are exchanged if a kernel computes the transposed product.
_EXCHANGED = {"A": "B", "B": "A", "M": "N", "N": "M", "lda": "ldb", "ldb": "lda"}

# Largest number of blocks along x, y and z.
_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)


@dataclass(frozen=True, slots=True)
class PlainParameter:
    """One parameter of a plain kernel.

    Attributes:
        name: Name of the parameter in the source.
        role: ``"A"``, ``"B"`` or ``"C"`` for a pointer; for a number ``"M"``, ``"N"`` or ``"K"``, ``"lda"``, ``"ldb"``
            or ``"ldc"``, or empty for a number that is always the same.
        dtype: Type of a number; None for a pointer.
        value: Value of a number that is always the same, such as 1 for alpha.
    """

    name: str
    role: str
    dtype: np.dtype[Any] | None = None
    value: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class PlainKernel:
    """Plain CUDA C kernel that a user registered, whose element types and layouts are fixed.

    Each registration is a kernel of its own, even if its text is the same.

    Attributes:
        file: Name of the file.
        name: Name of the kernel with namespaces and template arguments.
        text: CUDA C with this kernel and what it uses, as the simulator compiles it.
        places: File and line of each line of ``text``.
        source: The same text as NVRTC compiles it.
        parameters: The parameters, in order.
        types: Element types of A, B and C.
        layout: One letter per operand, A then B: N for contiguous rows, T for contiguous columns. C has contiguous
            rows: a kernel whose C has contiguous columns computes C^T = B^T A^T.
        grid: Function ``sizes -> (x, y, z)`` that returns the number of blocks, with sizes by their names.
        block: Number of threads per block along x, y and z.
        shared_bytes: Dynamic shared memory per block.
        tile: Rows and columns of C per block.
        multiple_of: Numbers that M, N and K must be multiples of.
        same_sizes: Groups of sizes that one parameter stands for, so that they must be equal.
        adds_to_c: True if the kernel adds to C, which must then be zero before the launch.
    """

    file: str
    name: str
    text: str
    places: SourceMap
    source: str
    parameters: tuple[PlainParameter, ...]
    types: tuple[Element, Element, Element]
    layout: str
    grid: Callable[[Mapping[str, int]], tuple[int, int, int]]
    block: tuple[int, int, int]
    shared_bytes: int
    tile: tuple[int, int]
    multiple_of: tuple[int, int, int]
    same_sizes: tuple[tuple[str, ...], ...]
    adds_to_c: bool

    def of_transposed(self) -> PlainKernel:
        """Return this kernel as one that computes the transposed product, with the roles of A and B exchanged.

        Where C has contiguous columns, the rows of C^T = B^T A^T are contiguous.
        """
        grid, (rows, cols), (m, n, k) = self.grid, self.tile, self.multiple_of
        a, b, c = self.types
        return replace(
            self,
            parameters=tuple(replace(each, role=_EXCHANGED.get(each.role, each.role)) for each in self.parameters),
            types=(b, a, c),
            layout=self.layout.translate(TRANSPOSED)[::-1],
            grid=lambda sizes: grid({"M": sizes["N"], "N": sizes["M"], "K": sizes["K"]}),
            tile=(cols, rows),
            multiple_of=(n, m, k),
            same_sizes=tuple(tuple(_EXCHANGED.get(each, each) for each in group) for group in self.same_sizes),
        )

    def has_leading(self, matrix: int) -> bool:
        """Return whether the row (or column) stride of A (0), B (1) or C (2) is a parameter of the kernel."""
        return any(LEADING.get(each.role) == matrix for each in self.parameters)

    def reads_in_place(self, problem: Problem, matrix: int) -> bool:
        """Return whether the strides of A (0), B (1) or C (2) are those that the kernel assumes.

        Args:
            problem: The product's problem.
            matrix: Number of the matrix.
        """
        rows, cols = ((problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n))[matrix]
        if 0 in (rows, cols):
            return True
        step, along = problem.strides[2 * matrix : 2 * matrix + 2]
        if f"{self.layout}N"[matrix] == "T":
            rows, cols, step, along = cols, rows, along, step
        leads = self.has_leading(matrix) and step >= cols
        return (cols <= 1 or along == 1) and (rows <= 1 or step == cols or leads)

    def check_sizes(self, variant: str, sizes: Mapping[str, int]) -> None:
        """Check whether the kernel can compute a product of these sizes.

        Args:
            variant: Name of the variant, for the message.
            sizes: M, N and K.

        Raises:
            ShapeError: If a size is not a multiple of the number that the kernel needs, or exceeds the type of its
                parameter, or if the grid has more blocks than a launch may have.
        """
        wrong = [
            f"{name} = {sizes[name]}, which is not a multiple of {step}"
            for name, step in zip(SIZES, self.multiple_of, strict=True)
            if sizes[name] % step
        ]
        wrong += [
            " and ".join(f"{name} = {sizes[name]}" for name in group) + ", which differ"
            for group in self.same_sizes
            if len({sizes[name] for name in group}) > 1
        ]
        if wrong:
            raise ShapeError(
                f"variant {variant!r} does not support a product with {'; '.join(wrong)}; 'auto' supports any size"
            )
        largest = max(sizes["M"] * sizes["K"], sizes["K"] * sizes["N"], sizes["M"] * sizes["N"])
        for each in self.parameters:
            if each.role in SIZES and each.dtype is not None and largest > np.iinfo(each.dtype).max:
                raise ShapeError(
                    f"parameter {each.name} of variant {variant!r} is {each.dtype}, which cannot index {largest:,} "
                    f"elements; if the kernel computes indices in 64 bits, declare it as 'size_t {each.name}'"
                )
        grid = self.grid(sizes)
        if any(not 0 < blocks <= most for blocks, most in zip(grid, _MOST_BLOCKS, strict=True)):
            raise ShapeError(
                f"variant {variant!r} needs a grid of {grid} blocks for this product; a launch may have at most "
                f"{_MOST_BLOCKS}"
            )

    def numbers(self, problem: Problem) -> tuple[np.ndarray[Any, Any], ...]:
        """Return the numbers that are passed to the kernel for a problem, in the order of its parameters.

        Each is an array of one element of the parameter's type.
        """
        sizes = dict(zip(SIZES, (problem.m, problem.n, problem.k), strict=True))
        return tuple(np.array([value], dtype) for dtype, value in self._numbers(problem, sizes))

    def _numbers(self, problem: Problem, sizes: Mapping[str, int]) -> Iterator[tuple[np.dtype[Any], float]]:
        for each in self.parameters:
            if each.dtype is None:
                continue
            if each.role in LEADING:
                matrix = LEADING[each.role]
                yield each.dtype, problem.strides[2 * matrix + (f"{self.layout}N"[matrix] == "T")]
            else:
                yield each.dtype, sizes.get(each.role, each.value)

    def arranged(self, pointers: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return arguments in the order of the parameters.

        Args:
            pointers: Pointers to A, B and C.
            numbers: Numbers, from ``numbers``.
        """
        rest = iter(numbers)
        return [pointers["ABC".index(each.role)] if each.dtype is None else next(rest) for each in self.parameters]
