"""A launch of a kernel of the corpus as plain data: arrays, tensor maps, arguments and expected results."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FOLDER = Path(__file__).parent / "kernels"

#: NumPy's types of arrays, by the names that ``Array`` and ``TensorMap`` use.
DTYPES: Mapping[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in ("int8", "uint8", "int16", "int32", "float16", "float32")},
    "tf32": np.dtype("float32"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

#: Arrays by the names of a kernel's parameters.
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Array:
    """An array in global memory, in C order.

    Attributes:
        dtype: A key of ``DTYPES``.
        shape: The array's shape.
        values: Lowest and highest of random integers; "normal" for random numbers, or "zeros"; "poison" for outputs:
            NaN, or for integers a large number that no kernel computes.
        scale: A factor of the values.
    """

    dtype: str
    shape: tuple[int, ...]
    values: tuple[int, int] | str = (-9, 9)
    scale: float = 1

    def make(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Create the array."""
        dtype = DTYPES[self.dtype]
        if self.values == "poison":
            byte = 0x7F if dtype.kind in "iu" else 0xFF
            return np.full((*self.shape, dtype.itemsize), byte, np.uint8).view(dtype).reshape(self.shape)
        if self.values == "zeros":
            return np.zeros(self.shape, dtype)
        if self.values == "normal":
            return (self.scale * rng.standard_normal(self.shape)).astype(dtype)
        low, high = self.values
        values = rng.integers(int(low), int(high), self.shape, endpoint=True)
        return (values if self.scale == 1 else self.scale * values).astype(dtype)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The arguments of ``cuTensorMapEncodeTiled``; dimensions are given fastest first.

    Attributes:
        array: Name of the array whose address is encoded.
        dtype: Type of an element: a key of ``DTYPES``, or "tf32" for float32 that TMA rounds. 8-bit floats are bytes.
        sizes: Elements per dimension.
        strides: Bytes from an element to the next in every dimension but the first.
        box: Elements per dimension of a box, before element strides.
        swizzle: Bytes of the swizzle, 0 for none.
        element_strides: Step between the elements of a box in every dimension; empty for 1.
        interleave: Bytes of interleaving, 0 for none.
        fill: What an element outside of the array is: "zeros" or "nan".
    """

    array: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()
    interleave: int = 0
    fill: str = "zeros"

    @property
    def steps(self) -> tuple[int, ...]:
        """Element strides of all dimensions."""
        return self.element_strides or (1,) * len(self.sizes)

    @property
    def loaded(self) -> tuple[int, ...]:
        """Elements per dimension that one load copies."""
        return tuple(-(-box // step) for box, step in zip(self.box, self.steps, strict=True))

    def box_at(self, arrays: Arrays, at: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return the box at these coordinates (fastest first), not swizzled, its dimensions slowest first."""
        array = arrays[self.array]
        strides = (*self.strides[::-1], array.itemsize)
        whole = np.ndarray(self.sizes[::-1], array.dtype, array, 0, strides)
        indices = [
            begin + step * np.arange(count)
            for begin, step, count in zip(at[::-1], self.steps[::-1], self.loaded[::-1], strict=True)
        ]
        inside = np.array(True)
        for index, size in zip(indices, whole.shape, strict=True):
            inside = np.logical_and.outer(inside, (index >= 0) & (index < size))
        clipped = [np.clip(index, 0, size - 1) for index, size in zip(indices, whole.shape, strict=True)]
        return np.where(inside, whole[np.ix_(*clipped)], np.array(self._fill_value, array.dtype))

    @property
    def _fill_value(self) -> float:
        return np.nan if self.fill == "nan" else 0


@dataclass(frozen=True, slots=True)
class Case:
    """A launch of a kernel of the corpus, or of several kernels with the same grid and arguments.

    Attributes:
        name: The case's name, unique.
        file: Name of the file in the folder, without ``.cu``.
        kernels: Names of the kernels, in the order of their launches.
        grid, block, cluster: Numbers of blocks, threads and blocks of a cluster, along x, y and z. The kernels state
            the cluster, too (``__cluster_dims__``).
        arrays: The arrays, by name, in the order in which they are created.
        arguments: The kernels' arguments: names of arrays or tensor maps, and numbers (int32).
        expect: Function of the arrays before the launch that returns those it changes, after the launch.
        maps: The tensor maps, by name.
        shared: Dynamic shared memory, in bytes.
        tolerance: Largest relative error; 0 for equality.
        dependent: Whether later kernels may be launched as programmatic dependent launches.
        folder: The folder of the file.
    """

    name: str
    file: str
    kernels: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: Mapping[str, Array]
    arguments: tuple[str | int, ...]
    expect: Callable[[Arrays], Arrays]
    maps: Mapping[str, TensorMap] = field(default_factory=dict)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    tolerance: float = 0
    dependent: bool = False
    folder: Path = FOLDER

    @property
    def path(self) -> Path:
        """The file with the kernels, which includes ``hopper.cuh``."""
        return self.folder / f"{self.file}.cu"

    @property
    def source(self) -> str:
        """The kernels' source with the header in place of its inclusion; lines are numbered as in the file."""
        text = self.path.read_text("utf-8")
        before, include, after = text.partition('#include "hopper.cuh"\n')
        if not include:
            return text
        header = (FOLDER / "hopper.cuh").read_text("utf-8").replace("#pragma once\n", "")
        return f'{before}{header}#line {before.count(chr(10)) + 2} "{self.path.name}"\n{after}'

    def make(self) -> tuple[Arrays, Arrays]:
        """Return the arrays before the launch, from a seed of the case's name, and those that differ after it."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        before = {name: array.make(rng) for name, array in self.arrays.items()}
        expected = self.expect(before)
        for name, array in expected.items():
            assert array.shape == before[name].shape, (self.name, name, array.shape)
        return before, {name: array.astype(before[name].dtype) for name, array in expected.items()}

    def difference(self, name: str, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str | None:
        """Return where an array first differs from the expected one, and how; None if it does not.

        Args:
            name: Name of the array.
            found, expected: The array after the launch, and the expected one. NaNs equal each other.
        """
        if found.dtype.kind in "iu":
            wrong = found != expected
        else:
            ours, theirs = found.astype(np.float64), expected.astype(np.float64)
            allowed = self.tolerance * np.abs(theirs)
            with np.errstate(invalid="ignore"):
                wrong = ~((np.abs(ours - theirs) <= allowed) | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
        if not wrong.any():
            return None
        at = tuple(map(int, np.argwhere(wrong)[0]))
        place = ", ".join(map(str, at))
        values = [
            f"{x} ({float(x).hex()})" if found.dtype.kind not in "iu" else f"{x}" for x in (found[at], expected[at])
        ]
        return (
            f"{name}[{place}] is {values[0]}, expected {values[1]}; {np.count_nonzero(wrong)} of {wrong.size} elements"
            f" are wrong, by at most {np.abs(wide(found) - wide(expected))[wrong].max()}"
        )


def swizzled(box: np.ndarray[Any, Any], row_bytes: int) -> np.ndarray[Any, Any]:
    """Return a box as it lies in shared memory after a load with a swizzle of this many bytes per row, flat."""
    flat = np.ascontiguousarray(box).reshape(-1)
    offset = np.arange(flat.size) * flat.itemsize
    to = offset ^ ((offset >> 7 & row_bytes // 16 - 1) << 4)
    raw = np.empty_like(flat)
    raw[to // flat.itemsize] = flat
    return raw


def wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array in float64, or int64 for integers."""
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def round_to_tf32(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return float32 rounded to 10 bits after the first, ties to even."""
    bits = array.view(np.uint32)
    return ((bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def truncate_to_tf32(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return float32 without its lower 13 bits."""
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def rows_map(array: str, dtype: str, shape: tuple[int, int], box: tuple[int, int], swizzle: int = 0) -> TensorMap:
    """Return the tensor map of a matrix with contiguous rows.

    Args:
        array: Name of the array.
        dtype: Its type.
        shape: Rows and columns.
        box: Columns and rows of a box.
        swizzle: Bytes of the swizzle.
    """
    rows, columns = shape
    return TensorMap(array, dtype, (columns, rows), (columns * DTYPES[dtype].itemsize,), box, swizzle)


def case(
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    arrays: Mapping[str, Array],
    arguments: str,
    expect: Callable[[Arrays], Arrays],
    *,
    file: str = "",
    kernels: str = "",
    cluster: Sequence[int] = (1,),
    **rest: Any,
) -> Case:
    """Return a case; blanks separate ``arguments`` and ``kernels``; ``file`` and ``kernels`` default to the name."""

    def three(size: Sequence[int]) -> tuple[int, int, int]:
        x, y, z = (*size, 1, 1)[:3]
        return x, y, z

    return Case(
        name, file or name, tuple((kernels or name).split()), three(grid), three(block), arrays,
        tuple(int(each) if each.lstrip("-").isdigit() else each for each in arguments.split()), expect,
        cluster=three(cluster), **rest,
    )  # fmt: skip


def poison(dtype: str, *shape: int) -> Array:
    return Array(dtype, shape, "poison")
