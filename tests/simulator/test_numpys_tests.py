"""Run of NumPy's installed tests of ``numpy.matmul`` on the simulator's matmul.

Some are left out because ``simulator.matmul`` differs on purpose: object arrays and long double, which no kernel
multiplies; operands that are not arrays (lists and objects with ``__array__``), which no function of this package
accepts; and the operators ``@`` and ``@=``, which belong to NumPy's array. Operands at odd addresses, which a GPU
cannot read, are copied.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import ShapeError, UnsupportedTypeError

pytestmark = pytest.mark.slow

of_arrays = pytest.importorskip("numpy._core.tests.test_multiarray", reason="NumPy is installed without these tests")
of_ufuncs = pytest.importorskip("numpy._core.tests.test_ufunc", reason="NumPy is installed without these tests")


def matmul(*operands: Any, **keywords: Any) -> Any:
    """Call the simulator's matmul, with NumPy's wording of two errors."""
    try:
        return simulator.matmul(*operands, **keywords)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"Cannot cast ufunc 'matmul' output: {error}") from error
    except ShapeError as error:
        raise ShapeError(f"non-broadcastable output operand: {error}") from error


@pytest.fixture(autouse=True)
def _numpys_matmul_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "matmul", matmul)


class TestMatmul(of_arrays.TestMatmul):
    matmul = staticmethod(matmul)
    types = "?bhilqBHILQefdFD"
    # Object arrays.
    test_matmul_object = test_matmul_object_type_scalar = test_matmul_empty = None


def test_values_of_transposed_reversed_and_sliced_operands():
    of_arrays.TestMethods().test_arr_mult(matmul)


@pytest.mark.parametrize("dtype", "ifdFD")
def test_vectors_that_are_broadcast_or_misaligned(dtype):
    def product(*operands: Any) -> Any:
        return matmul(*(x.copy() if x.ctypes.data % x.itemsize else x for x in operands))

    of_arrays.TestMethods().test_no_dgemv(product, dtype)


def test_out_of_another_class():
    of_arrays.TestMethods().test_dot_matmul_out()


def test_out_that_overlaps():
    of_arrays.TestMethods().test_matmul_out()


def test_axes():
    of_arrays.test_matmul_axes()


def test_axes_of_a_ufunc_of_the_same_signature():
    of_ufuncs.TestUfunc().test_axes_argument()


def test_operands_without_a_dimension(monkeypatch):
    original = of_ufuncs.umt
    monkeypatch.setattr(of_ufuncs, "umt", SimpleNamespace(matrix_multiply=original.matrix_multiply, matmul=matmul))
    of_ufuncs.TestUfunc().test_can_ignore_signature()
