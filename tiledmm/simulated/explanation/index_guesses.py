"""Guesses about wrong indices: strides, shifted indices, another array, and indices that overflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product as pairs
from typing import TypeAlias

import numpy as np

from tiledmm.simulated.explanation.wrong_product import Array, Guess, Memory, WrongProduct

# Strides of a matrix's rows and columns, in elements.
_Strides: TypeAlias = tuple[int, int]

# Types that hold indices of small matrices, and their bits; negative for signed types.
_NARROW = {"unsigned short": 16, "short": -16, "unsigned char": 8, "signed char": -8}


def index_guesses(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which A, B or C is accessed at wrong places."""
    yield from _wrong_strides(wrong)
    yield from _off_by_one(wrong)
    yield from _other_arrays(wrong)
    yield from _results(wrong)
    yield from _overflows(wrong)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A way to read a factor: at ``row * strides[0] + column * strides[1] + offset`` of an array.

    Attributes:
        name: The factor: A or B.
        subscripts: Names of its row and its column.
        memory: Memory of the array that is read.
        right: Strides that are right for the factor.
        strides, offset: Strides and offset in elements.
        bits: Bits of the index; negative for a signed type; 0 for a type that is wide enough.
    """

    name: str
    subscripts: tuple[str, str]
    memory: Memory
    right: _Strides
    strides: _Strides
    offset: int = 0
    bits: int = 0

    def read(self, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Return the elements at some rows and columns, and a mask of those that are in the array."""
        places = np.add.outer(rows * self.strides[0], cols * self.strides[1]) + self.offset
        return self.memory.read(_wrapped(places, self.bits))


def _readings(wrong: WrongProduct) -> tuple[_Reading, _Reading]:
    """Return the right ways to read A and B."""
    a, b = wrong.memory_a, wrong.memory_b
    of_a, of_b = (a.rows, a.cols), (b.rows, b.cols)
    return _Reading("A", ("row", "k"), a, of_a, of_a), _Reading("B", ("k", "col"), b, of_b, of_b)


def _product(wrong: WrongProduct, pattern: str, said: str, a: _Reading, b: _Reading) -> Guess:
    """Return a guess in which A and B are read in the given ways."""

    def values(rows: Array, cols: Array) -> tuple[Array, Array]:
        steps = np.arange(wrong.k)
        (left, of_left), (right, of_right) = a.read(rows, steps), b.read(steps, cols)
        return wrong.multiply(left, right), np.logical_and.outer(of_left.all(axis=1), of_right.all(axis=0))

    return Guess(pattern, said, values)


def _wrong_strides(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which A, B or both are read with wrong strides."""
    a, b = _readings(wrong)
    of_a, of_b = (
        [replace(each, strides=strides) for strides in _strides(wrong) if strides != each.right] for each in (a, b)
    )
    for each in of_a:
        yield _product(wrong, *_described(wrong, each), each, b)
    for each in of_b:
        yield _product(wrong, *_described(wrong, each), a, each)
    for one, other in pairs(of_a, of_b):
        pattern, said = _described(wrong, one)
        also, more = _described(wrong, other)
        yield _product(wrong, pattern if pattern == also else "wrong stride", f"{said}, and {more}", one, other)


def _strides(wrong: WrongProduct) -> list[_Strides]:
    """Return the strides that a matrix may be given: pairs of different sizes of the product, or 0."""
    return [(rows, cols) for rows, cols in pairs(wrong.names, repeat=2) if rows != cols]


def _described(wrong: WrongProduct, reading: _Reading) -> tuple[str, str]:
    """Return the pattern of wrong strides, and a clause that says what they do."""
    return _pattern(wrong, reading.name, "is read", "factor", reading.subscripts, reading.strides, reading.right)


def _pattern(
    wrong: WrongProduct,
    name: str,
    verb: str,
    role: str,
    subscripts: tuple[str, str],
    strides: _Strides,
    right: _Strides,
) -> tuple[str, str]:
    """Return the pattern of wrong strides of a matrix, and a clause that says what they do."""
    names = wrong.names
    got, wanted = (f"{name}[{_index(subscripts, each, names)}]" for each in (strides, right))
    index = f"{got} where {wanted} is right{_legend(wrong, (*strides, *right))}"
    if 0 in strides:
        return "index constant", f"{subscripts[strides.index(0)]} is not in the index of {name} ({index})"
    if (strides[0] == 1) != (right[0] == 1) and 1 in strides:
        return f"{role} transposed", f"{name} {verb} transposed ({index})"
    return "wrong stride", f"a stride of {name} is wrong ({index})"


def _index(subscripts: tuple[str, str], strides: _Strides, names: dict[int, str]) -> str:
    """Return an index as a programmer writes it: ``"row * K + k"``."""
    terms = []
    for subscript, stride in zip(subscripts, strides, strict=True):
        size = names.get(stride, f"{stride:,}").partition(" = ")[0]
        if stride:
            terms.append(subscript if stride == 1 else f"{subscript} * {size}")
    return " + ".join(sorted(terms, key=lambda term: "*" not in term))


def _legend(wrong: WrongProduct, sizes: tuple[int, ...]) -> str:
    """Return the values of the sizes in an index: ``"; N = 48, K = 37"``."""
    parts = [f"{wrong.names[size]} = {size:,}" for size in dict.fromkeys(sizes) if size > 1 and size in wrong.names]
    return f"; {', '.join(parts)}" if parts else ""


def _off_by_one(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which a row, column or step of A or B is the one before or after the right one."""
    a, b = _readings(wrong)
    for each, axis, step in pairs((a, b), (0, 1), (1, -1)):
        subscript = each.subscripts[axis]
        said = f"{each.name} is read at {subscript} {'+' if step > 0 else '-'} 1 instead of {subscript}"
        moved = replace(each, offset=step * each.right[axis])
        one, other = (moved, b) if each is a else (a, moved)
        yield _product(wrong, "index off by one", said, one, other)


def _other_arrays(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which a factor is read from the other one's array."""
    a, b = _readings(wrong)
    for strides in _strides(wrong):
        other = replace(b, memory=a.memory, strides=strides)
        index = f"A[{_index(b.subscripts, strides, wrong.names)}]{_legend(wrong, strides)}"
        yield _product(wrong, "factor used twice", f"A is used twice: {index} is read instead of B", a, other)
        other = replace(a, memory=b.memory, strides=strides)
        index = f"B[{_index(a.subscripts, strides, wrong.names)}]{_legend(wrong, strides)}"
        yield _product(wrong, "factor used twice", f"B is used twice: {index} is read instead of A", other, b)
    for of_a in {a.right, (wrong.n, 1), (wrong.k, 1), (1, wrong.m)}:
        for of_b in {b.right, (wrong.k, 1), (wrong.n, 1), (1, wrong.k)}:
            one, other = replace(a, memory=b.memory, strides=of_a), replace(b, memory=a.memory, strides=of_b)
            yield _product(wrong, "factors exchanged", "A and B are swapped", one, other)


def _results(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which right elements are stored at wrong places of C."""
    right = (wrong.memory_c.rows, wrong.memory_c.cols)
    for strides in _strides(wrong):
        if strides != right:
            described = _pattern(wrong, "C", "is stored", "result", ("row", "col"), strides, right)
            yield _stored(wrong, *described, strides)
    for axis, step in pairs((0, 1), (1, -1)):
        subscript = ("row", "col")[axis]
        said = f"C is stored at {subscript} {'+' if step > 0 else '-'} 1 instead of {subscript}"
        yield _stored(wrong, "index off by one", said, right, step * right[axis])


def _stored(wrong: WrongProduct, pattern: str, said: str, strides: _Strides, offset: int = 0, bits: int = 0) -> Guess:
    """Return a guess in which right elements are stored at other places of C.

    Args:
        wrong: The wrong product.
        pattern, said: Pattern and clause of the guess.
        strides, offset: Strides and offset, in elements, with which C is stored.
        bits: Bits of the index; negative for a signed type; 0 for a type that is wide enough.
    """

    def values(rows: Array, cols: Array) -> tuple[Array, Array]:
        memory, size = wrong.memory_c, wrong.memory_c.size
        own = np.add.outer(np.arange(wrong.m) * memory.rows, np.arange(wrong.n) * memory.cols)
        places = np.add.outer(np.arange(wrong.m) * strides[0], np.arange(wrong.n) * strides[1]) + offset
        places = _wrapped(places, bits)
        inside = (places >= 0) & (places < size)
        sums = np.zeros(size, wrong.sums.dtype)
        sums[places[inside]] = wrong.sums[inside]
        times = np.bincount(places[inside], minlength=size)
        at = np.ix_(rows, cols)
        times = times[own[at]]
        # What beta scales is read where C is stored.
        stored, known = wrong.finish(sums[own[at]], at), times == 1
        if wrong.before is None:
            return stored, known
        return np.where(times == 0, wrong.before[at].astype(stored.dtype), stored), known | (times == 0)

    return Guess(pattern, said, values, is_finished=True, is_about_stores=True)


def _overflows(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which an index is of a type that is too narrow."""
    a, b = _readings(wrong)
    for name, bits in _NARROW.items():
        largest = 2 ** (abs(bits) - (bits < 0))
        said = f"has a type of {abs(bits)} bits, such as {name}, and overflows"
        if a.memory.size > largest:
            yield _product(wrong, "index overflow", f"the index of A {said}", replace(a, bits=bits), b)
        if b.memory.size > largest:
            yield _product(wrong, "index overflow", f"the index of B {said}", a, replace(b, bits=bits))
        if wrong.memory_c.size > largest:
            right = (wrong.memory_c.rows, wrong.memory_c.cols)
            yield _stored(wrong, "index overflow", f"the index of C {said}", right, bits=bits)


def _wrapped(places: Array, bits: int) -> Array:
    """Return indices as a type of few bits holds them.

    Args:
        places: The indices.
        bits: Number of bits; negative for a signed type; 0 for no limit.
    """
    if not bits:
        return places
    wrapped: Array = places & ((1 << abs(bits)) - 1)
    if bits < 0:
        return np.where(wrapped >= 1 << (abs(bits) - 1), wrapped - (1 << abs(bits)), wrapped)
    return wrapped
