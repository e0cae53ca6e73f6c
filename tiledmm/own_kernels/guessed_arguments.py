"""Guessed launches and arguments of a kernel that is not a product, if its file has none: sizes, arrays, indices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.own_kernels.data_flow import counter_arrays, index_arrays, uses_elements_as_subscripts
from tiledmm.own_kernels.expectation import element_type
from tiledmm.own_kernels.indices import Access, Indices
from tiledmm.own_kernels.kernel_text import Point
from tiledmm.own_kernels.launch_rule import ElementLaunch, FixedLaunch, Geometry
from tiledmm.own_kernels.matrix_values import Array, small_numbers
from tiledmm.own_kernels.stores import Stores
from tiledmm.simulator.build.parameters import FLOAT, POINTER, SIGNED, UNSIGNED, Parameter
from tiledmm.simulator.check.finding_kinds import ENDLESS, OUTSIDE
from tiledmm.simulator.check.findings import Finding

# Number of elements if the only integer is a size. It is not a multiple of a block.
_ELEMENTS = 1000

# Values of a kernel's integers, by their number. Arrays with the product of all values as their size fit into memory.
_NUMBERS = {1: (_ELEMENTS,), 2: (70, 50), 3: (30, 20, 25)}
_MORE = 12

# Size at which subscripts are evaluated: larger than the constants of any kernel.
_LARGE = 1 << 20

# Largest factor of a thread's number in a subscript for which arrays are large enough.
_FACTORS = 64

# Names of parameters that are numbers of elements. Integers with other names may be steps or offsets.
_SIZE = re.compile(
    r"[nN]([A-Z_xX]\w*)?|\w*(?:[sS]ize|[cC]ount|[lL]en|[nN]um|[eE]lem|[tT]otal|[wW]idth|[rR]ow|[cC]ol)\w*"
)

# Maximum number of launches that are tried, and of blocks along an axis.
_TRIES = 3
_MOST_BLOCKS = 128

# Findings that other values of arguments may prevent, and findings that other elements may prevent if these are
# subscripts.
_OF_VALUES = ENDLESS | {
    "trap", "division by zero", "assertion failed", "conversion out of range", "shift out of range",
    "stack overflow", "call of exit or abort",
}  # fmt: skip
_OF_SUBSCRIPTS = OUTSIDE | {
    "race on shared memory", "race on global memory", "uninitialised shared memory", "misaligned access",
    "subscript out of bounds", "local access out of bounds", "call of a null pointer", "memory fault",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Guess:
    """A launch of a kernel with its arguments.

    Attributes:
        rule: The launch.
        arguments: The arguments.
        evident: Whether the text alone determines this launch, so that findings are the kernel's fault.
    """

    rule: ElementLaunch | FixedLaunch
    arguments: list[Any]
    evident: bool


def guessed(indices: Indices, parameters: Sequence[Parameter]) -> Iterator[Guess]:
    """Yield launches of a kernel with their arguments, likeliest first; none if its text suggests none.

    A kernel with one size that counts along x is launched with one thread per element. For other kernels, the arrays
    are larger than they may need.

    Args:
        indices: The kernel's indices.
        parameters: Its parameters.
    """
    integers = [at for at, each in enumerate(parameters) if each.kind in (SIGNED, UNSIGNED)]
    arrays = [at for at, each in enumerate(parameters) if each.kind == POINTER]
    known = all(each.kind in (POINTER, SIGNED, UNSIGNED, FLOAT) for each in parameters)
    if not known or not integers or not arrays or any(None in each for each in indices.shared_arrays):
        return  # the size of dynamic shared memory is unknown
    if any(element_type(parameters[at]) is None or "(*)" in parameters[at].type for at in arrays):
        return
    values = _NUMBERS.get(len(integers), (_MORE,) * len(integers))
    numbers = dict(zip(integers, values, strict=True))
    threads = _threads(indices)
    is_plane = any(indices.reads(what, axis) for what in ("thread", "block") for axis in "yz")
    one_block = not indices.reads("block", "x")
    if (
        len(integers) == 1 and threads and indices.mentions("blockDim") and not is_plane
        and (one_block or any(_counts_threads(indices, at, integers[0]) for at in arrays))
    ):  # fmt: skip
        fixed = FixedLaunch(Geometry((1, 1, 1), (threads, 1, 1)))
        rule = fixed if one_block else ElementLaunch(_ELEMENTS, threads)
        extents = {at: _extent(indices, at, integers[0]) for at in arrays}
        evident = not one_block and _SIZE.fullmatch(parameters[integers[0]].name) is not None
        yield Guess(rule, _arguments(indices, parameters, numbers, extents), evident)
        return
    room = max(_FACTORS * (max(values) + 1), 2 * math.prod(values))
    arguments = _arguments(indices, parameters, numbers, dict.fromkeys(arrays, room))
    for geometry in _geometries(indices, parameters, numbers, threads):
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        yield Guess(FixedLaunch(geometry), copies, False)


def may_be_at_fault(guess: Guess, indices: Indices, findings: Sequence[Finding]) -> bool:
    """Return whether findings may be the fault of a guess instead of the kernel.

    Args:
        guess: The launch and its arguments.
        indices: The kernel's indices.
        findings: The findings.
    """
    kinds = {each.kind for each in findings}
    depends_on_data = indices.mentions("__threadfence") or uses_elements_as_subscripts(indices)
    return bool(not guess.evident or kinds & _OF_VALUES or (kinds & _OF_SUBSCRIPTS and depends_on_data))


def _threads(indices: Indices) -> int:
    """Return the usual number of threads per block: as many as its arrays in shared memory have elements; 0 if unknown.

    Args:
        indices: The kernel's indices.
    """
    if indices.launch_bound:
        return indices.launch_bound
    if not indices.mentions("__shared__"):
        return 256
    extents = {threads for each in indices.shared_arrays if len(each) == 1 and (threads := each[0])}
    threads = extents.pop() if len(extents) == len(indices.shared_arrays) == 1 else 0
    return threads if threads % 32 == 0 and threads <= 1024 else 0


def _geometries(
    indices: Indices, parameters: Sequence[Parameter], numbers: Mapping[int, int], threads: int
) -> list[Geometry]:
    """Return grids and blocks that cover arrays of the given sizes, likeliest first."""
    is_plane = indices.reads("thread", "y")
    written = [at for at, each in enumerate(parameters) if each.kind == POINTER and not each.read_only]
    stores = [
        each for at in reversed(written) if (each := Stores.of_array(indices, at, dict.fromkeys(numbers, _LARGE)))
    ]
    blocks = [block for each in stores for block in each.shapes()]
    blocks += [(16, 16), (32, 8)] if is_plane else [(threads or 128, 1), (32, 1)]
    largest = max(numbers.values())
    found = []
    for x, y in dict.fromkeys(blocks):
        step = stores[0].steps((x, y))[0] if stores and not is_plane else 0
        per_block = step if 0 < step < x else x if indices.mentions("blockDim") or is_plane else 1
        grid = (
            min(-(-largest // per_block), _MOST_BLOCKS) if indices.reads("block", "x") else 1,
            min(-(-largest // (y if is_plane else 1)), _MOST_BLOCKS) if indices.reads("block", "y") else 1,
            2 if indices.reads("block", "z") else 1,
        )
        found.append(Geometry(grid, (x, y, 1)))
    return found[:_TRIES]


def _extent(indices: Indices, array: int, size: int) -> int:
    """Return the number of elements that an array needs if there is one thread per element.

    Args:
        indices: The kernel's indices.
        array: Number of the parameter.
        size: Number of the parameter that is the number of elements.
    """
    extents = {_of_access(indices, each, {array: 0, size: _LARGE}) for each in indices.accesses(array)}
    return max(extents, default=_ELEMENTS)


def _counts_threads(indices: Indices, array: int, size: int) -> bool:
    """Return whether a subscript of an array counts the threads of all blocks."""
    origin, thread, block = (Point(dim=(256, 1, 1), block=(at, 0, 0), thread=(256 * n, 0, 0)) for at, n in
                             ((0, 0), (0, 1), (1, 0)))  # fmt: skip
    for access in indices.accesses(array):
        first, behind, after = (
            indices.element(access, each, {array: 0, size: _LARGE}) for each in (origin, thread, block)
        )
        if first is not None and first != after == behind:
            return True
    return False


def _of_access(indices: Indices, access: Access, numbers: Mapping[int, int]) -> int:
    """Return the number of elements that one access needs: one per thread, if threads access neighbouring elements."""
    origin = Point(dim=(256, 1, 1))
    first, second, block = (
        indices.element(access, each, numbers)
        for each in (origin, replace(origin, thread=(1, 0, 0)), replace(origin, block=(1, 0, 0)))
    )
    if first is None or second is None or block is None:
        return _FACTORS * (_ELEMENTS + 1)
    steps = [second - first]
    if abs(block - first) > 256 * max(1, abs(second - first)):  # a row per block
        steps.append(block - first)
    for loop in indices.loops_around(access.at):
        limit = indices.value(loop.limit, loop.at, origin, numbers) if loop.limit else None
        passed = indices.pass_of(loop, origin, numbers)
        if limit != _LARGE and passed is not None:
            moved = indices.element(access, replace(origin, loops=((loop.key, passed),)), numbers)
            steps.append(first if moved is None else 2 * (moved - first))  # any pass is more than one per thread
    if abs(first) <= _FACTORS and all(abs(step) <= 1 for step in steps):
        return _ELEMENTS
    if max(map(abs, steps)) >= _LARGE:
        return _ELEMENTS * (_ELEMENTS + 1)
    return _FACTORS * (_ELEMENTS + 1)


def _arguments(
    indices: Indices, parameters: Sequence[Parameter], numbers: Mapping[int, int], extents: Mapping[int, int]
) -> list[Any]:
    """Return arguments: arrays of the given extents, sizes and numbers."""
    subscripts, counters = index_arrays(indices, parameters), counter_arrays(indices)
    limit = min(numbers.values())
    values: list[Any] = []
    for at, each in enumerate(parameters):
        if each.kind == POINTER:
            dtype = element_type(each)
            assert dtype is not None
            parts = max(1, each.element_bytes // dtype.itemsize)  # an element may be a vector
            length = extents[at] * parts
            if each.name in counters:
                values.append(np.zeros(length, dtype))
            elif at in subscripts and dtype.kind in "iu":
                values.append(_subscripts(length + parts, dtype, limit if subscripts[at] else 1))
            else:
                values.append(small_numbers((length,), dtype, at))
        elif each.kind == FLOAT:
            values.append(2.0)
        else:
            values.append(numbers[at])
    return values


def _subscripts(length: int, dtype: np.dtype[Any], limit: int) -> Array:
    """Return numbers below a limit. The first ones are a permutation, in which each number occurs once."""
    limit = min(limit, 1 << (8 * dtype.itemsize - 1))
    once = np.random.default_rng(length).permutation(limit)
    return np.resize(once, length).astype(dtype)
