"""Tensor maps: the descriptors with which TMA reads a matrix. The CUDA driver encodes them, or the simulator."""

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

#: Alignment of addresses and of every stride but the first, in bytes.
ALIGNMENT = 16

#: Bytes per row of a box, and width of the swizzle.
SWIZZLE = 128

# Members of the driver's enumerations: types by their names in ``TensorMap.type``; no interleaving, a swizzle and an L2
# promotion of 128 bytes, and zeros for elements out of bounds.
_TYPES = {"uint8": 0, "uint16": 1, "uint32": 2, "uint64": 4, "tfloat32": 11}
_NOT_INTERLEAVED, _SWIZZLE_128, _PROMOTE_128, _ZEROS = 0, 3, 2, 0

_LARGEST_SIZE, _LARGEST_STRIDE = 2**31, 2**40

# Rows and columns of the smallest tile, which is one of complex numbers.
_LEAST_TILE = 64, 32


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Description of a batch of matrices for TMA, and of the box that one TMA load copies.

    Attributes:
        itemsize: Size of one element, in bytes.
        sizes: Sizes of five dimensions, fastest first: contiguous elements, rows of these, and the batch.
        strides: Strides of all dimensions but the first, in bytes.
        box: Contiguous elements and rows per box.
        rounds: True if TMA rounds float32 elements to tf32.
    """

    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, int]
    rounds: bool = False

    @property
    def type(self) -> str:
        """Name of the elements' type, which is unsigned, or ``"tfloat32"`` for float32 that TMA rounds."""
        return "tfloat32" if self.rounds else f"uint{8 * self.itemsize}"

    @property
    def full_box(self) -> tuple[int, ...]:
        """Elements per box in each dimension, fastest first."""
        return *self.box, *[1] * (len(self.sizes) - 2)

    def encode(self, pointer: int) -> np.ndarray[Any, np.dtype[np.void]]:
        """Let the driver encode the tensor map of the matrices that begin at an address.

        Returns:
            128 bytes, which the kernel receives as an argument by value.

        Raises:
            DeviceError: If the driver rejects the tensor map.
        """
        memory = np.zeros(128 + 64, np.uint8)
        start = -memory.ctypes.data % 64
        encoded = memory[start : start + 128]
        rank = len(self.sizes)
        status = _driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(encoded.ctypes.data), _TYPES[self.type], rank,
            ctypes.c_void_p(pointer),
            (ctypes.c_uint64 * rank)(*self.sizes), (ctypes.c_uint64 * (rank - 1))(*self.strides),
            (ctypes.c_uint32 * rank)(*self.full_box), (ctypes.c_uint32 * rank)(*[1] * rank),
            _NOT_INTERLEAVED, _SWIZZLE_128, _PROMOTE_128, _ZEROS,
        )  # fmt: skip
        if status:
            raise DeviceError(f"cuTensorMapEncodeTiled rejected {self} at {pointer:#x}: CUDA error {status}")
        return encoded.view("V128")


def has_coordinates(problem: Problem) -> bool:
    """Return whether every size and the number of tiles fit 31 bits, as TMA's coordinates and tile indices require."""
    rows, columns = _LEAST_TILE
    tiles = -(-problem.m // rows) * -(-problem.n // columns) * problem.products
    return max(problem.m, problem.n, problem.k, *(d.size for d in problem.batch), tiles) < _LARGEST_SIZE


def can_be_mapped(problem: Problem, operand: int, element: Element) -> bool:
    """Return whether TMA can read an operand where it is, provided that its address is a multiple of 16 bytes.

    Args:
        problem: The problem.
        operand: 0 for A, 1 for B.
        element: Type of the elements that TMA copies.
    """
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
    """Return the tensor map of A (0) or B (1).

    A TMA load copies a box of rows of 128 bytes. If the operand is K-major, these are the rows of A or columns of B
    that one block loads; else they are the ``bk`` steps of k of a tile.
    """
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
    """Return the tensor maps of A and B for a kernel that reads by TMA; an empty tuple for any other kernel."""
    if not spec.variant.hopper.tma:
        return ()
    return tuple(map_of(problem, operand, spec.config, spec.kernel.compute) for operand in range(2))


def map_of_limbs(
    operand: int, config: Config, element: Element, layout: str, sizes: tuple[int, ...], pitch: int
) -> TensorMap:
    """Return the tensor map of the limbs, bytes or residues of A or B, with boxes as in ``map_of``.

    Args:
        operand: 0 for A, 1 for B.
        config: Config of the kernel that reads the limbs, counted in limbs.
        element: Type of a limb.
        layout: Layout of the limbs of A and B.
        sizes: Number of limbs per element, matrices, rows per matrix, and elements per row.
        pitch: Leading dimension, in elements.

    Raises:
        ShapeError: If a size exceeds TMA's coordinates, for which a complex number counts as two real ones.
    """
    limbs, matrices, rows, contiguous = sizes
    if max(sizes) >= _LARGEST_SIZE:
        raise ShapeError("TMA supports at most 2^31 - 1 elements per dimension; 'warp_tiled' supports any size")
    steps = pitch, rows * pitch, matrices * rows * pitch
    box = _box(layout[operand] == "NT"[operand], operand, config, element)
    strides = (*(step * element.itemsize for step in steps), SWIZZLE)
    return TensorMap(element.itemsize, (contiguous, rows, matrices, limbs, 1), strides, box)


def _box(k_major: bool, operand: int, config: Config, element: Element) -> tuple[int, int]:
    """Return the size of the box that one TMA load copies: its contiguous elements, and its rows.

    Args:
        k_major: Whether the operand is K-major.
        operand: 0 for A, 1 for B.
        config: Config of the kernel that loads.
        element: Type of the elements that TMA copies.
    """
    across = (config.bm, config.bn)[operand] // config.cluster
    return SWIZZLE // element.itemsize, across if k_major else config.bk


def _rows(problem: Problem, operand: int) -> tuple[int, int, int]:
    """Return the number of contiguous elements per row of A or B, the number of rows, and the row stride in elements.

    If the columns of the matrix are contiguous, they count as its rows.

    Args:
        problem: The problem.
        operand: 0 for A, 1 for B.
    """
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    row, col = problem.strides[2 * operand : 2 * operand + 2]
    return (cols, rows, row) if problem.layout[operand] == "N" else (rows, cols, col)


def _stride(step: int, size: int, element: Element) -> int:
    """Convert a stride of a tensor map to bytes.

    The stride of a dimension of size 1 is not used; it becomes 128, because the driver does not accept every number.
    """
    return step * element.itemsize if size > 1 else SWIZZLE


def _driver() -> Any:
    """Return the library of the CUDA driver, which encodes tensor maps.

    Raises:
        DeviceError: If this driver cannot encode them.
    """
    found = driver()
    if not hasattr(found, "cuTensorMapEncodeTiled"):
        raise DeviceError(
            "this driver cannot encode tensor maps, which variant 'wgmma' needs; install one for CUDA 12 or newer"
        )
    return found
