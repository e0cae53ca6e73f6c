"""Copies of arrays to the device and back, and bitwise comparison with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

import tiledmm
from tests.strategies import Layout, lay_out, plain
from tiledmm.elements import element
from tiledmm.kernels.variants import general_variants
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve

#: Every kernel except for types and layouts: (variant, tile), with tile None for variants that have only one.
KERNELS = [(row.name, tile) for row in general_variants() for tile in row.tiles or (None,)]

#: One kernel of each variant, the smallest tile: what quickly compiles and has the most edges.
SMALLEST = [(row.name, min(row.tiles, default=None)) for row in general_variants()]


def to_device(values: np.ndarray, layout: Layout | None = None) -> cupy.ndarray:
    """Copy values to a CuPy array in a layout (C order if None)."""
    return lay_out(cupy, np.asarray(values), layout or plain(np.ndim(values)))[0]


def to_host(array: cupy.ndarray) -> np.ndarray:
    """Copy an array to the host; bfloat16 as bits, since CuPy may not support it."""
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16).get().view(array.dtype)
    return array.get()


def matrix_layout(letter: str) -> Layout:
    """Return layout N or T (with unused elements at the ends of its rows or columns) or G."""
    return {
        "N": Layout((0, 1), (1, 1), (0, 2)),
        "T": Layout((1, 0), (1, 1), (2, 0)),
        "G": Layout((0, 1), (-1, 2), (1, 0)),
    }[letter]


def exact_product(x1: np.ndarray, x2: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Compute a product of integers that every type sums exactly, or that wrap; zeros are +0.

    Args:
        x1, x2: Operands of any types.
        dtype: Computation type; the operands' common type if None.
    """
    compute = np.promote_types(x1.dtype, x2.dtype) if dtype is None else element(dtype).dtype
    if compute.kind in "iub":
        return np.matmul(x1.astype(compute), x2.astype(compute))
    wide = np.complex128 if compute.kind == "c" else np.float64
    return (np.matmul(x1.astype(wide), x2.astype(wide)) + 0).astype(compute)


def check_into(
    expected: np.ndarray, layout: Layout, x1: cupy.ndarray, x2: cupy.ndarray, what: str, **keywords: Any
) -> None:
    """Multiply into an ``out`` poisoned with NaNs, and check all of its memory, including gaps and edges.

    Args:
        expected: Expected result, in ``out``'s type.
        layout: Layout of ``out`` in memory.
        x1, x2: Operands.
        what: Description of the product for the error message.
        **keywords: Arguments of ``tiledmm.matmul``.
    """
    poison = np.full(expected.shape, 255, np.uint8).repeat(expected.dtype.itemsize).view(expected.dtype)
    out, memory = lay_out(cupy, poison.reshape(expected.shape), layout, poison=True)
    result = tiledmm.matmul(x1, x2, out=out, **keywords)
    assert result is out, what
    if not expected.size:
        return
    _, expected_memory = lay_out(np, expected, layout, poison=True)
    found = memory.get()
    if not np.array_equal(found, expected_memory):
        np.testing.assert_array_equal(to_host(out), expected, err_msg=what)
        raise AssertionError(f"{what}: right values, but something around them was overwritten, or -0 for +0")


def layout_of(x1: cupy.ndarray, x2: cupy.ndarray, out: cupy.ndarray | None = None) -> str:
    """Return the layout of the kernel that computes a product."""
    return resolve(describe(x1), describe(x2), None if out is None else describe(out)).problem.layout


def assert_bits(found: cupy.ndarray, expected: np.ndarray | Sequence[Any], what: str = "") -> None:
    """Check equality bit for bit, -0 and +0 included, but not the bits of NaNs."""
    host = to_host(found)
    expected = np.asarray(expected, host.dtype)
    np.testing.assert_array_equal(host.astype("D"), expected.astype("D"), err_msg=what)
    for part in (np.real, np.imag) if host.dtype.kind == "c" else (np.asarray,):
        ours, theirs = part(host).astype("d"), part(expected).astype("d")
        numbers = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(ours[numbers]), np.signbit(theirs[numbers]), err_msg=what)
