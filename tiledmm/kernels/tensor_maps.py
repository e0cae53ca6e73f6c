"""Tensor maps: the descriptors by which TMA reads a matrix, encoded by the driver."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.elements import TF32, Element
from tiledmm.errors import DeviceError, ShapeError
from tiledmm.hardware.device import driver
from tiledmm.kernels.config import Config
from tiledmm.kernels.spec import KernelSpec
from tiledmm.problem.strides import KERNEL_BATCH_DIMENSIONS, Problem

#: Addresses, and every stride but the first, are multiples of so many bytes.
ALIGNMENT = 16

# Bytes of a row of a box: the width of the swizzle.
_ROW = 128

# Members of the driver's enumerations: unsigned types by bytes, and float32 that is rounded to tf32 by TMA; no
# interleaving, swizzle and L2 promotion of 128 bytes.
_UNSIGNED, _TF32 = {1: 0, 2: 1, 4: 2, 8: 4}, 11
_NOT_INTERLEAVED, _SWIZZLE_128, _PROMOTE_128, _ZEROS = 0, 3, 2, 0

_LARGEST_SIZE, _LARGEST_STRIDE = 2**31, 2**40

# Rows and columns of the smallest tile: of complex numbers.
_LEAST_TILE = 64, 32


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A batch of matrices as TMA sees it, and the box that one TMA load copies.

    Attributes:
        itemsize: Bytes of an element.
        sizes: Contiguous elements, rows of them, then the batch, fastest first: five dimensions.
        strides: Bytes from one to the next in each dimension but the first.
        box: Contiguous elements and rows of a box.
        rounds: Whether TMA rounds float32 elements to tf32.
    """

    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, int]
    rounds: bool = False

    def encode(self, pointer: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """The tensor map of the matrices that begin at an address: 128 bytes, a kernel argument by value.

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
    """Whether every size, and the number of tiles, fits 31 bits: TMA's coordinates and these kernels' tile indices."""
    rows, columns = _LEAST_TILE
    tiles = -(-problem.m // rows) * -(-problem.n // columns) * problem.products
    return max(problem.m, problem.n, problem.k, *(d.size for d in problem.batch), tiles) < _LARGEST_SIZE


def can_be_mapped(problem: Problem, operand: int, element: Element) -> bool:
    """Whether TMA can read A (0) or B (1) in place, if it begins at a multiple of 16 bytes."""
    if problem.layout[operand] == "G":
        return False
    _, rows, step = _rows(problem, operand)
    if rows > 1 and step <= 0:
        return False
    steps = [step if rows > 1 else 0, problem.begins[operand]]
    steps += [(d.a, d.b)[operand] for d in (*problem.batch, *problem.outer) if d.size > 1]
    return all(
        0 <= step * element.itemsize < _LARGEST_STRIDE and step * element.itemsize % ALIGNMENT == 0 for step in steps
    )


def map_of(problem: Problem, operand: int, config: Config, element: Element) -> TensorMap:
    """The tensor map of A (0) or B (1). A box has a tile's rows of a K-major operand, else those of a step of k."""
    contiguous, rows, step = _rows(problem, operand)
    box = _box(problem.layout[operand] == "NT"[operand], operand, config, element)
    sizes, strides = [max(contiguous, 1), max(rows, 1)], [_stride(step, rows, element)]
    dimensions = [(1, 0)] * (KERNEL_BATCH_DIMENSIONS - len(problem.batch))
    dimensions += [(d.size, (d.a, d.b)[operand]) for d in problem.batch]
    for size, step in reversed(dimensions):
        sizes.append(size if step else 1)
        strides.append(_stride(step, sizes[-1], element))
    return TensorMap(element.itemsize, tuple(sizes), tuple(strides), box, rounds=element == TF32)


def maps_of(spec: KernelSpec, problem: Problem) -> tuple[TensorMap, ...]:
    """Return the tensor maps of A and B for a kernel that reads by TMA; none for another."""
    if not spec.variant.hopper.tma:
        return ()
    return tuple(map_of(problem, operand, spec.config, spec.kernel.compute) for operand in range(2))


def map_of_limbs(
    operand: int, config: Config, element: Element, layout: str, sizes: tuple[int, ...], pitch: int
) -> TensorMap:
    """The tensor map of the limbs of A (0) or B (1), with the boxes of ``map_of``.

    Args:
        operand, config, element: Whose, for which kernel, and of which type.
        layout: The layout of A's and B's limbs.
        sizes: Limbs of an element, matrices, rows of a matrix, and elements of a row.
        pitch: Leading dimension in elements.

    Raises:
        ShapeError: If a size does not fit TMA's coordinates: a complex number is two real ones.
    """
    limbs, matrices, rows, contiguous = sizes
    if max(sizes) >= _LARGEST_SIZE:
        raise ShapeError("TMA counts to 2^31 - 1 in each dimension; 'warp_tiled' takes any size")
    steps = pitch, rows * pitch, matrices * rows * pitch
    box = _box(layout[operand] == "NT"[operand], operand, config, element)
    strides = (*(step * element.itemsize for step in steps), _ROW)
    return TensorMap(element.itemsize, (contiguous, rows, matrices, limbs, 1), strides, box)


def _box(k_major: bool, operand: int, config: Config, element: Element) -> tuple[int, int]:
    """Contiguous elements and rows of a box."""
    across = (config.bm, config.bn)[operand] // config.cluster
    return _ROW // element.itemsize, across if k_major else config.bk


def _rows(problem: Problem, operand: int) -> tuple[int, int, int]:
    """Contiguous elements of an operand's row, the number of such rows, and the stride from one to the next."""
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    return (cols, rows, row) if problem.layout[operand] == "N" else (rows, cols, col)


def _stride(step: int, size: int, element: Element) -> int:
    """Stride in bytes; for a single row, any that the driver takes."""
    return step * element.itemsize if size > 1 else _ROW


def _driver() -> Any:
    """The driver, which encodes tensor maps."""
    found = driver()
    if not hasattr(found, "cuTensorMapEncodeTiled"):
        raise DeviceError("this driver encodes no tensor maps: variant 'wgmma' needs one for CUDA 12 or newer")
    return found
