"""Hypothesis strategies and helpers for arrays in every memory layout, with NumPy and CuPy alike.

``xp`` is ``numpy`` or ``cupy`` throughout.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tiledmm.elements import ELEMENTS, compute_element, kind_of
from tiledmm.problem.call import precision_of

#: Sizes that find mistakes: nothing, one, around small powers of two, primes.
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 11, 13)

#: Types whose sums are rounded, in NumPy's names.
INEXACT = tuple(name for name, row in ELEMENTS.items() if kind_of(row.dtype) in "fc")

#: Property tests compile, import and allocate: no deadline, and a failure can be run again from its message.
PROPERTY = settings(
    max_examples=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def np_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an element's name; for tf32, its type in memory."""
    return compute_element(name).dtype


def asked(name: str) -> dict[str, str]:
    """Return the keywords that make ``matmul`` compute in this type."""
    return {"precision": precision_of(compute_element(name))}


def small_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, bound: int = 4) -> np.ndarray:
    """Return integers up to ``bound`` in size, as ``dtype``; 16-bit floats sum thousands of their products exactly.

    bfloat16 holds integers up to 256 exactly, so with ``bound=4`` up to 16 terms; float16 holds up to 2048.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    low = 0 if dtype.kind == "u" else -bound
    values = rng.integers(low, bound + 1, shape)
    if dtype.kind == "c":
        return (values + 1j * rng.integers(low, bound + 1, shape)).astype(dtype)
    return values.astype(dtype)


def random_matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return normal numbers in a floating or complex type."""
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(np_dtype(dtype))


def sums_type(dtype: str) -> str:
    """Return the type in which tensor cores sum products of floats."""
    return dtype if dtype in ("float64", "complex128") else "float32"


def componentwise_error(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest |c - a @ b| / (|a| @ |b|); NaN where c is."""
    wide = np.clongdouble if np.iscomplexobj(a) else np.longdouble
    x, y = a.astype(wide), b.astype(wide)
    return float((abs(c - x @ y) / (abs(x) @ abs(y))).max())


def bound_of_sums(dtype: str, k: int) -> float:
    """Return the bound of that error for sums of k products on tensor cores.

    Narrow floats are truncated every 16 products, tf32 every 8. Others are rounded each time, complex sums four times.
    """
    return k / (8 if dtype == "tf32" else 16) * 2.0**-22 if sums_type(dtype) == "float32" else k * 2.0**-52


def multiplied(x: np.ndarray, dtype: str, variant: str = "tensor_core") -> np.ndarray:
    """Round elements as they are multiplied: for tf32, float32 to 11 significant bits.

    Ties round away from zero, but to even in TMA loads.
    """
    if dtype != "tf32":
        return x
    bits = x.view(np.uint32)
    half = np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)) if variant == "wgmma" else np.uint32(1 << 12)
    rounded = (bits + half & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def awkward_floats(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return a column of random float32 bits that begins with special ones, such as NaNs with only the last bit set."""
    some = [
        0x00000000, 0x80000000, 0x00000001, 0x80000FFF, 0x00001000, 0x007FFFFF, 0x3F800FFF, 0x3F801000, 0xBF803000,
        0x3FFFFFFF, 0x7F7FEFFF, 0xFF7FF000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFF801000, 0x7FC00000,
        0x7FFFFFFF, 0xFFFFFFFF,
    ]  # fmt: skip
    bits = np.concatenate([np.array(some, np.uint32), rng.integers(0, 2**32, count - len(some), np.uint32)])
    return bits.view(np.float32).reshape(-1, 1)


def beside_zeros(column: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pad two matrices with steps of k of zeros, which do not change their product."""
    return np.pad(column, ((0, 0), (0, 3))), np.pad(row, ((0, 3), (0, 0)))


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return integers or booleans over the whole range of their type, so that products wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


@dataclass(frozen=True)
class Layout:
    """A memory layout of an array.

    Attributes:
        memory: Axes from slowest to fastest in memory.
        steps: Elements in memory between adjacent elements, per axis; negative where the axis is reversed.
        margins: Unused elements before and after each axis in memory.
        broadcast: Axes along which all elements are one (a stride of 0).
    """

    memory: tuple[int, ...]
    steps: tuple[int, ...]
    margins: tuple[int, ...]
    broadcast: tuple[int, ...] = ()


def plain(ndim: int) -> Layout:
    """Return the layout of C order without gaps."""
    return Layout(tuple(range(ndim)), (1,) * ndim, (0,) * ndim)


def tight(letter: str, batch: int = 0) -> Layout:
    """Return layout N or T without gaps, or G, with ``batch`` leading dimensions."""
    rows, cols = batch, batch + 1
    memory = (cols, rows) if letter == "T" else (rows, cols)
    steps = (2, -2) if letter == "G" else (1, 1)
    return Layout((*range(batch), *memory), (1,) * batch + steps, (0,) * (batch + 2))


@st.composite
def layouts(draw: st.DrawFn, ndim: int, *, broadcast: bool = False) -> Layout:
    """Draw any transposition, with some axes stepped, reversed, padded or, if allowed, broadcast."""
    kind = draw(st.sampled_from(("C", "F", "matrix", "any")))
    if kind == "any" or (kind == "matrix" and ndim < 2):
        memory = tuple(draw(st.permutations(range(ndim))))
    elif kind == "matrix":
        memory = (*range(ndim - 2), ndim - 1, ndim - 2)
    else:
        memory = tuple(range(ndim)) if kind == "C" else tuple(reversed(range(ndim)))
    if draw(st.booleans()):
        return Layout(memory, (1,) * ndim, (0,) * ndim)
    axes = st.lists(st.sampled_from((1, 1, 1, 2, -1, -2, 3)), min_size=ndim, max_size=ndim)
    margins = st.lists(st.sampled_from((0, 0, 1, 3)), min_size=ndim, max_size=ndim)
    repeated = [axis for axis in range(ndim) if broadcast and draw(st.integers(0, 4)) == 0]
    return Layout(memory, tuple(draw(axes)), tuple(draw(margins)), tuple(repeated))


def lay_out(xp: Any, values: np.ndarray, layout: Layout, *, poison: bool = False) -> tuple[Any, Any]:
    """Copy values into memory in a layout.

    Args:
        xp: ``numpy`` or ``cupy``.
        values: Values to copy. Along broadcast axes the first element counts.
        layout: Layout of the array.
        poison: Whether gaps and margins hold bytes of 255, which are NaNs, instead of zeros.

    Returns:
        The array, and its whole memory (an array of unsigned bytes, so that NaNs compare).
    """
    values = np.asarray(values)
    shape = values.shape
    unsigned = np.dtype(f"u{min(values.dtype.itemsize, 8)}")  # moved as bits: no library has to know the type
    words = values.dtype.itemsize // unsigned.itemsize
    once = [1 if axis in layout.broadcast and size else size for axis, size in enumerate(shape)]
    extent = [
        max(size - 1, 0) * abs(step) + 1 + 2 * margin
        for size, step, margin in zip(once, layout.steps, layout.margins, strict=True)
    ]
    places = tuple(extent[axis] for axis in layout.memory) or (1,)
    memory = xp.full((*places, values.dtype.itemsize), 255 if poison else 0, dtype=np.uint8)
    view = memory.view(unsigned)
    view = view if layout.memory else view[0]
    view = view.transpose(*(layout.memory.index(axis) for axis in range(len(shape))), len(shape))
    for axis, (size, step, margin) in enumerate(zip(once, layout.steps, layout.margins, strict=True)):
        stop = margin + max(size - 1, 0) * abs(step) + 1 if size else margin
        index: list[slice] = [slice(None)] * view.ndim
        index[axis] = slice(margin, stop, abs(step))
        view = view[tuple(index)]
        if step < 0:
            index[axis] = slice(None, None, -1)
            view = view[tuple(index)]
    first = values[tuple(slice(0, size) for size in once)]
    bits = np.ascontiguousarray(first).view(unsigned).reshape(*once, words)
    view[...] = xp.asarray(bits)
    array = view.view(values.dtype)[..., 0] if view.size else xp.empty(tuple(once), values.dtype)
    if any(axis in layout.broadcast for axis in range(len(shape))):
        array = xp.broadcast_to(array, shape)
    return array, memory


def byte_bounds(array: np.ndarray) -> tuple[int, int]:
    """Return the addresses of an array's first byte and of the byte past its last."""
    address = array.__array_interface__["data"][0]
    if not array.size:
        return address, address
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + array.itemsize


def letter(matrix: Any) -> str:
    """Return the letter for the layout of an array's last two axes, as in "NT"."""
    row, col = (stride // matrix.dtype.itemsize for stride in matrix.strides[-2:])
    return "N" if col == 1 else "T" if row == 1 else "G"


@st.composite
def batches(draw: st.DrawFn, max_ndim: int = 6) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw two batch shapes that broadcast against each other."""
    full = draw(st.lists(st.sampled_from((1, 2, 2, 3, 3, 0)), max_size=max_ndim))
    shapes = []
    for _ in range(2):
        kept = full[draw(st.integers(0, len(full))) :] if draw(st.booleans()) else full
        shapes.append(tuple(1 if draw(st.integers(0, 3)) == 0 else size for size in kept))
    return shapes[0], shapes[1]


@st.composite
def operand_shapes(draw: st.DrawFn, max_batch: int = 6) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw the shapes of two operands that can be multiplied; either may be a vector."""
    m, n, k = (draw(st.sampled_from(SIZES)) for _ in range(3))
    left_batch, right_batch = draw(batches(max_batch))
    left = (k,) if draw(st.integers(0, 5)) == 0 else (*left_batch, m, k)
    right = (k,) if draw(st.integers(0, 5)) == 0 else (*right_batch, k, n)
    return left, right


@st.composite
def moved_axes(draw: st.DrawFn, ndim: int, core: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw positions of an operand's core axes: an entry of ``axes=``, and the same axes without negative ones."""
    positions = draw(st.permutations(range(ndim)))[:core]
    return tuple(p - ndim if draw(st.booleans()) else p for p in positions), tuple(positions)


def move_core(shape: tuple[int, ...], positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with its last axes moved to ``positions`` and the others in order."""
    core = dict(zip(positions, shape[len(shape) - len(positions) :], strict=True))
    rest: itertools.chain[int] = itertools.chain(shape)
    return tuple(core[axis] if axis in core else next(rest) for axis in range(len(shape)))


def dtype_names(names: tuple[str, ...] = tuple(ELEMENTS)) -> st.SearchStrategy[str]:
    """Draw the name of an element type."""
    return st.sampled_from(names)
