"""How Hopper's copy engine (TMA) is told where a matrix lies: a map of it, which the driver encodes."""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.elements import TF32, Element
from tiledmm.errors import DeviceError, ShapeError
from tiledmm.problem.strides import KERNEL_BATCH_DIMENSIONS, Problem
from tiledmm.registry.variant import Config

#: What an address, and every step from a row to the next, has to be a multiple of.
ALIGNMENT = 16

# Bytes of a line of a box: as wide as the swizzle.
_LINE = 128

# Members of the driver's enumerations: unsigned types by bytes, and float32 that is rounded to tf32 on the way; no
# interleaving, swizzle and L2 promotion of 128 bytes.
_UNSIGNED, _TF32 = {1: 0, 2: 1, 4: 2, 8: 4}, 11
_NOT_INTERLEAVED, _SWIZZLE_128, _PROMOTE_128, _ZEROS = 0, 3, 2, 0

_LARGEST_SIZE, _LARGEST_STRIDE = 2**31, 2**40

# Rows and columns of the smallest tile: of complex numbers.
_LEAST_TILE = 64, 32


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A batch of matrices as the copy engine sees it, and the boxes that it copies.

    Attributes:
        itemsize: Bytes of an element.
        sizes: Neighbours in memory, then lines of a matrix, then the batch, fastest first: five in all.
        strides: Bytes from one to the next in each dimension but the first.
        box: Neighbours and lines of what is copied at a time.
        rounds: Whether float32 numbers are rounded to tf32 on the way.
    """

    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, int]
    rounds: bool = False

    def encode(self, pointer: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """The map of the matrices that begin at an address: 128 bytes, for a kernel to take by value.

        Raises:
            DeviceError: If the driver refuses.
        """
        memory = np.zeros(128 + 64, np.uint8)
        start = -memory.ctypes.data % 64
        encoded = memory[start : start + 128]
        rank = len(self.sizes)
        box = (*self.box, *[1] * (rank - 2))
        status = _driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(encoded.ctypes.data), _TF32 if self.rounds else _UNSIGNED[self.itemsize], rank,
            ctypes.c_void_p(pointer),
            (ctypes.c_uint64 * rank)(*self.sizes), (ctypes.c_uint64 * (rank - 1))(*self.strides),
            (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank),
            _NOT_INTERLEAVED, _SWIZZLE_128, _PROMOTE_128, _ZEROS,
        )  # fmt: skip
        if status:
            raise DeviceError(f"cuTensorMapEncodeTiled takes no {self} at {pointer:#x}: CUDA error {status}")
        return encoded.view("V128")


def has_coordinates(problem: Problem) -> bool:
    """Whether 31 bits, which the copy engine's coordinates and its kernels' numbers of tiles have, are enough."""
    rows, columns = _LEAST_TILE
    tiles = -(-problem.m // rows) * -(-problem.n // columns) * problem.products
    return max(problem.m, problem.n, problem.k, *(d.size for d in problem.batch), tiles) < _LARGEST_SIZE


def can_be_mapped(problem: Problem, operand: int, element: Element) -> bool:
    """Whether the copy engine can read A (0) or B (1) in place, if it begins at a multiple of 16 bytes."""
    if problem.layout[operand] == "G":
        return False
    _, lines, step = _lines(problem, operand)
    if lines > 1 and step <= 0:
        return False
    steps = [step if lines > 1 else 0, problem.begins[operand]]
    steps += [(d.a, d.b)[operand] for d in (*problem.batch, *problem.outer) if d.size > 1]
    return all(
        0 <= step * element.itemsize < _LARGEST_STRIDE and step * element.itemsize % ALIGNMENT == 0 for step in steps
    )


def map_of(problem: Problem, operand: int, config: Config, element: Element) -> TensorMap:
    """The map of A (0) or B (1), with ``wgmma``'s boxes: a tile's lines along k, or the lines of a step of k."""
    neighbours, lines, step = _lines(problem, operand)
    box = _box(problem.layout[operand] == "NT"[operand], operand, config, element)
    sizes, strides = [max(neighbours, 1), max(lines, 1)], [_stride(step, lines, element)]
    dimensions = [(1, 0)] * (KERNEL_BATCH_DIMENSIONS - len(problem.batch))
    dimensions += [(d.size, (d.a, d.b)[operand]) for d in problem.batch]
    for size, step in reversed(dimensions):
        sizes.append(size if step else 1)
        strides.append(_stride(step, sizes[-1], element))
    return TensorMap(element.itemsize, tuple(sizes), tuple(strides), box, rounds=element == TF32)


def map_of_pieces(
    operand: int, config: Config, element: Element, layout: str, sizes: tuple[int, ...], pitch: int
) -> TensorMap:
    """The map of the pieces of A (0) or B (1), boxes as ``map_of`` has them.

    Args:
        operand, config, element: Whose, for which kernel, and of which type.
        layout: Of A's and B's pieces.
        sizes: How many pieces, matrices of each, lines of each matrix and elements of a line.
        pitch: Elements from a line to the next.

    Raises:
        ShapeError: If a size does not fit the copy engine's coordinates: a complex number is two real ones.
    """
    pieces, matrices, lines, neighbours = sizes
    if max(sizes) >= _LARGEST_SIZE:
        raise ShapeError("the copy engine counts to 2^31 - 1 in each direction; 'warp_tiled' takes any size")
    steps = pitch, lines * pitch, matrices * lines * pitch
    box = _box(layout[operand] == "NT"[operand], operand, config, element)
    strides = (*(step * element.itemsize for step in steps), _LINE)
    return TensorMap(element.itemsize, (neighbours, lines, matrices, pieces, 1), strides, box)


def _box(along_k: bool, operand: int, config: Config, element: Element) -> tuple[int, int]:
    """Neighbours and lines that are copied at a time."""
    across = (config.bm, config.bn)[operand] // config.cluster
    return _LINE // element.itemsize, across if along_k else config.bk


def _lines(problem: Problem, operand: int) -> tuple[int, int, int]:
    """Of an operand: neighbours in memory, how many lines of them, and the step from one to the next."""
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    return (cols, rows, row) if problem.layout[operand] == "N" else (rows, cols, col)


def _stride(step: int, size: int, element: Element) -> int:
    """Bytes; where nothing follows, any that the driver takes."""
    return step * element.itemsize if size > 1 else _LINE


@functools.cache
def _driver() -> Any:
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    if not hasattr(driver, "cuTensorMapEncodeTiled"):
        raise DeviceError("this driver encodes no tensor maps: variant 'wgmma' needs one for CUDA 12 or newer")
    return driver
