"""A wrong product beside the right one, and guesses at what the kernel computed instead."""

from __future__ import annotations

import copy
import enum
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

#: Rows and columns of C that are compared first, before a guess is checked on all elements.
_SAMPLE = 24

#: Wrong elements that a guess must reproduce, and their different values: fewer may agree by chance.
EVIDENCE = 6
_VALUES = 3


class Verdict(enum.Enum):
    """Result of a guess's comparison with a wrong product: of all elements, or of those that the guess knows."""

    REFUTED = enum.auto()
    HOLDS_IN_PART = enum.auto()
    HOLDS = enum.auto()


@dataclass(frozen=True, slots=True)
class Guess:
    """A variant of the product that a kernel may have computed.

    Attributes:
        pattern: Short name of the kind of mistake: ``"factor transposed"``.
        said: Clause that says what the kernel did: ``"the last 5 steps along K (k = 32 to 36) are missing"``.
        values: Function that returns the sums of the given rows and columns of C, and a mask of those that are known.
            Sums of which the kernel would read another array are not known. None for a mask that is all True.
        is_finished: Whether the values are those of C, to which alpha and beta have been applied.
        is_about_stores: Whether the guess says where elements are stored: those that no thread stored prove nothing.
    """

    pattern: str
    said: str
    values: Callable[[Array, Array], tuple[Array, Array | None]] = field(repr=False)
    is_finished: bool = False
    is_about_stores: bool = False


class Memory:
    """A matrix in memory: its elements at their places, counted in elements from the first one.

    Args:
        matrix: Array of two dimensions with strides that are not negative.

    Attributes:
        rows, cols: Strides in elements.
    """

    def __init__(self, matrix: Array) -> None:
        self.rows, self.cols = (stride // matrix.itemsize for stride in matrix.strides)
        places = np.add.outer(np.arange(matrix.shape[0]) * self.rows, np.arange(matrix.shape[1]) * self.cols)
        self.size = int(places.max(initial=-1)) + 1
        self._elements = np.zeros(self.size, matrix.dtype)
        self._elements[places] = matrix
        self._known = np.zeros(self.size, np.bool_)
        self._known[places] = True

    def read(self, places: Array) -> tuple[Array, Array]:
        """Return the elements at some places, and a mask of the places that hold elements of the matrix."""
        inside = (places >= 0) & (places < self.size)
        held = np.where(inside, places, 0)
        return self._elements[held], inside & self._known[held]


class WrongProduct:
    """What a kernel computed in place of ``alpha * (a @ b) + beta * before``.

    Args:
        a: Left factor, (M, K), with the strides that it has in memory.
        b: Right factor, (K, N), with the strides that it has in memory.
        c: The kernel's result, (M, N).
        expected: The right result.
        before: Contents of C before the launch; None if they are not known.
        alpha, beta: Factors of the product and of C.
        tiles: Sizes that a tile may have, such as the sizes of the block.
        is_complete: Whether all threads ran to their end. If not, elements of C may not have been written.
        covered: Number of threads of the whole grid along x and y; empty if it is not known.
        rtol: Relative tolerance of floating-point elements; by default 1e-2 (2 bytes), 1e-4 (4) or 1e-10 (8).

    Attributes:
        m, n, k: Sizes of the product.
        sums: The right product, without alpha and beta, in a type that is wide enough.
        wrong: Mask of the wrong elements.
        changed: Mask of the elements that differ from what was there before; all, if that is not known.
        compared: Mask of the elements by which a guess is judged: those that the kernel has written.
    """

    def __init__(
        self,
        a: Array,
        b: Array,
        c: Array,
        expected: Array,
        before: Array | None = None,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        tiles: Iterable[int] = (),
        is_complete: bool = True,
        covered: tuple[int, ...] = (),
        rtol: float | None = None,
    ) -> None:
        self.a, self.b, self.c, self.expected, self.before = a, b, c, expected, before
        self.alpha, self.beta, self.is_complete, self.covered = alpha, beta, is_complete, covered
        (self.m, self.k), self.n = a.shape, b.shape[1]
        self.tiles = tuple(dict.fromkeys(tile for tile in (*tiles, 16, 32, 8) if tile > 1))
        self.is_integer = bool(np.issubdtype(c.dtype, np.integer))
        self.rtol = {1: 1e-1, 2: 1e-2, 4: 1e-4}.get(_real_bytes(c), 1e-10) if rtol is None else rtol
        self._wide_c, self._wide_expected = _wide(c), _wide(expected)
        finite = np.abs(self._wide_expected[np.isfinite(self._wide_expected)])
        self._atol = 0.0 if self.is_integer else self.rtol * float(finite.mean() if finite.size else 0)
        self.sums = self.multiply(a, b)
        self.wrong = ~self.equal(self._wide_expected, (slice(None), slice(None)))
        everywhere = np.ones(c.shape, np.bool_)
        self.changed = everywhere if before is None else _differ(c, before)
        self.compared = everywhere if is_complete else self.changed

    def narrowed(self) -> WrongProduct:
        """Return the same product, of which guesses are judged by the wrong elements only."""
        narrowed = copy.copy(self)
        narrowed.compared = self.compared & self.wrong
        narrowed.__dict__.pop("_sample", None)
        return narrowed

    @functools.cached_property
    def memory_a(self) -> Memory:
        """Elements of A by their places in memory."""
        return Memory(self.a)

    @functools.cached_property
    def memory_b(self) -> Memory:
        """Elements of B by their places in memory."""
        return Memory(self.b)

    @functools.cached_property
    def memory_c(self) -> Memory:
        """Elements of C by their places in memory."""
        return Memory(self.c)

    @property
    def has_register_tiles(self) -> bool:
        """Whether C has more elements than the grid has threads along both axes, so that a thread computes several."""
        return len(self.covered) == 2 and self.covered[1] < self.m and self.covered[0] < self.n

    @functools.cached_property
    def names(self) -> dict[int, str]:
        """Names of the product's sizes by value: ``{0: "0", 1: "1", 37: "K", 64: "M = N"}``."""
        found: dict[int, list[str]] = {0: ["0"], 1: ["1"]}
        for name, size in (("K", self.k), ("N", self.n), ("M", self.m)):
            found.setdefault(size, []).append(name)
        return {size: " = ".join(names) for size, names in found.items()}

    def multiply(self, left: Array, right: Array) -> Array:
        """Return a product in a type that is wide enough: float64, complex128, or int64 for integers."""
        if not self.is_integer:
            product: Array = _wide(left) @ _wide(right)
            return product
        most = [float(np.abs(each.astype(np.float64)).max(initial=0)) for each in (left, right)]
        if most[0] * most[1] * left.shape[-1] < 2**53:  # by BLAS
            return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
        wrapped: Array = left.astype(np.int64) @ right.astype(np.int64)
        return wrapped

    def finish(self, sums: Array, at: Any) -> Array:
        """Return elements of C, given their sums: alpha and beta are applied.

        Args:
            sums: The sums.
            at: Index of the elements in C.
        """
        finished = sums if self.alpha == 1 else self.alpha * sums
        if self.beta != 0 and self.before is not None:
            finished = finished + self.beta * _wide(self.before[at])
        if self.is_integer:
            with np.errstate(invalid="ignore"):
                return finished.astype(np.int64).astype(self.c.dtype).astype(np.int64)
        return finished

    def equal(self, values: Array, at: Any) -> Array:
        """Return a mask of the elements of C that have the given values, within the tolerance.

        Args:
            values: Values in float64, complex128 or int64.
            at: Index of the elements in C.
        """
        got = self._wide_c[at]
        if self.is_integer:
            same: Array = got == values
            return same
        with np.errstate(invalid="ignore", over="ignore"):
            # What a small type cannot hold is infinite there.
            stored = values if values.dtype.kind == "c" else _wide(values.astype(self.c.dtype))
            close: Array = np.isclose(got, stored, rtol=self.rtol, atol=self._atol, equal_nan=True)
        return close

    @functools.cached_property
    def tells(self) -> bool:
        """Whether the wrong elements are enough, and different enough, to tell guesses apart."""
        told = self._wide_c[self.compared & self.wrong]
        return len(told) >= EVIDENCE and len(np.unique(told)) >= _VALUES

    def holds(self, guess: Guess) -> Verdict:
        """Return whether a guess gives all elements of C that it knows and the kernel has written.

        A guess that knows few of the wrong elements does not hold.
        """
        rows, cols = self._sample
        if self._agrees(guess, rows, cols, 1) is Verdict.REFUTED:
            return Verdict.REFUTED
        return self._agrees(guess, np.arange(self.m), np.arange(self.n), EVIDENCE)

    def _agrees(self, guess: Guess, rows: Array, cols: Array, evidence: int) -> Verdict:
        at = np.ix_(rows, cols)
        values, known = guess.values(rows, cols)
        written = self.compared[at]
        compared = written if known is None else written & known
        telling = self.wrong[at] & self.changed[at] if guess.is_about_stores else self.wrong[at]
        told = int((compared & telling).sum())
        if told < evidence or told < int((written & telling).sum()) / 4:
            return Verdict.REFUTED
        finished = values if guess.is_finished else self.finish(values, at)
        if not self.equal(finished, at)[compared].all():
            return Verdict.REFUTED
        return Verdict.HOLDS if compared.sum() == written.sum() else Verdict.HOLDS_IN_PART

    @functools.cached_property
    def _sample(self) -> tuple[Array, Array]:
        """Rows and columns of C that are compared first: half of them where most elements are wrong."""
        told = self.compared & self.wrong
        return tuple(_spread(told.sum(axis=1 - axis)) for axis in (0, 1))  # type: ignore[return-value]


def _spread(counts: Array) -> Array:
    """Return the indices of some rows: those with the largest counts, and others at equal distances."""
    most = np.argsort(-counts, kind="stable")[: _SAMPLE // 2]
    others = np.linspace(0, len(counts) - 1, _SAMPLE // 2).astype(np.int64)
    return np.unique(np.concatenate([most, others]))


def _differ(one: Array, other: Array) -> Array:
    """Return a mask of the elements of which any byte differs."""
    left, right = (np.ascontiguousarray(each).view(np.uint8).reshape(*each.shape, -1) for each in (one, other))
    different: Array = (left != right).any(axis=-1)
    return different


def _real_bytes(array: Array) -> int:
    return int(array.dtype.itemsize) // (2 if array.dtype.kind == "c" else 1)


def _wide(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
