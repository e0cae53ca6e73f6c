"""Tests of kernels that compute a triangle of a symmetric C, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gemm_calls import adjoint
from tests.strategies import np_dtype, small_integers
from tiledmm import simulator
from tiledmm.errors import ConfigError
from tiledmm.kernels.operands import residues
from tiledmm.kernels.variants import kernel_variants
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.selection import model, parts
from tiledmm.simulated import product

#: Kernels as (variant, tile, type, K), and whether they are simulated every day.
_KERNELS = [
    ("wgmma", 64, "float16", 40, True),
    ("wgmma", 144, "float16", 40, False),
    ("wgmma", 512, "float16", 40, False),
    ("wgmma", 80, "int8", 40, False),
    ("tensor_core", 64, "float16", 40, False),
    ("tensor_core", 64, "float64", 20, True),
    ("tensor_core", 32, "complex128", 20, False),
    ("split_float32", 64, "float32", 256, True),
    ("split_float32", 144, "float32", 256, False),
    ("split_float32", 256, "complex64", 128, False),
    ("split_tensor_core", 64, "float32", 256, False),
    ("split_integer", 64, "int64", 40, False),
    ("split_integer", 144, "int32", 40, False),
    ("split_float64", 64, "float64", 40, True),
    ("split_float64", 256, "complex128", 40, False),
    ("split_float64_tensor_core", 64, "float64", 40, False),
]

#: The same of complex numbers, of which some are not in ``_KERNELS``.
_COMPLEX = [
    ("warp_tiled", 32, "complex64", 20, True),
    ("warp_tiled", 128, "complex128", 20, False),
    ("thin", 32, "complex64", 20, False),
    ("tensor_core", 16, "complex128", 20, True),
    ("tensor_core", 64, "complex128", 20, False),
    ("split_tensor_core", 64, "complex64", 128, False),
    ("split_float32", 64, "complex64", 128, True),
    ("split_float32", 256, "complex64", 128, False),
    ("split_float64", 64, "complex128", 40, False),
    ("split_float64_tensor_core", 64, "complex128", 40, False),
]
KERNELS = [pytest.param(*each, marks=() if usual else pytest.mark.slow) for *each, usual in _KERNELS]


@pytest.mark.parametrize(("variant", "tile", "dtype", "k"), KERNELS)
def test_a_triangle_is_all_of_c(variant: str, tile: int, dtype: str, k: int) -> None:
    """Check exact products, in an odd size, and the symmetry of rounded ones."""
    rng, kind = np.random.default_rng(1), np_dtype(dtype)
    kernel: dict[str, Any] = {"variant": variant, "tile": tile, "config": {"triangle": 1}}
    x = small_integers(rng, (2, 205, k), kind, 3)
    y = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    wanted = simulator.matmul(x, x.swapaxes(1, 2).copy(), variant="coalesced")
    for each in (x, y) if tile == 144 or (variant == "wgmma" and tile == 64) else (x,):
        np.testing.assert_array_equal(simulator.matmul(each, each.swapaxes(1, 2), **kernel), wanted)
    if kind.kind in "fc":
        values = rng.standard_normal((176, k)) * (1 + 1j if kind.kind == "c" else 1)
        values = values.astype(kind)
        found = simulator.matmul(values, values.T, **kernel)
        np.testing.assert_array_equal(found.view(f"V{kind.itemsize}"), found.T.copy().view(f"V{kind.itemsize}"))


@pytest.mark.parametrize(
    ("dtype", "tile"),
    [
        pytest.param(dtype, tile, marks=() if tile == 64 else pytest.mark.slow)
        for dtype, tile in (("int8", 64), ("float16", 64), ("int8", 144), ("uint8", 80), ("float16", 512))
    ],
)
@pytest.mark.parametrize("n", [138, 139, 140, 144])
def test_rows_of_c_are_aligned_to_any_number_of_bytes(n: int, dtype: str, tile: int) -> None:
    """Check tiles that are written above the diagonal in chunks, in words and in elements."""
    x = small_integers(np.random.default_rng(7), (n, 40), np_dtype(dtype), 3)
    wider = np.zeros((n, 148), x.dtype)
    found = simulator.matmul(x, x.T, out=wider[:, 3 : n + 3], variant="wgmma", tile=tile, config={"triangle": 1})
    np.testing.assert_array_equal(found, simulator.matmul(x, x.T.copy(), variant="coalesced"))
    np.testing.assert_array_equal(found, simulator.matmul(x, x.T, variant="wgmma", tile=tile, config={"triangle": 1}))
    assert not wider[:, :3].any() and not wider[:, n + 3 :].any()


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "k"),
    [
        pytest.param("warp_tiled", 64, "float32", 20),
        *(pytest.param(*each[:4], marks=pytest.mark.slow) for each in _KERNELS),
    ],
)
def test_an_epilogue_is_not_mirrored(variant: str, tile: int, dtype: str, k: int) -> None:
    """Check that what the epilogue reads may differ on the two sides of the diagonal."""
    rng, kind = np.random.default_rng(2), np_dtype(dtype)
    x, c, bias = (small_integers(rng, shape, kind, 2) for shape in ((150, k), (150, 150), (150,)))
    arguments: dict[str, Any] = {"alpha": 2, "beta": 3, "bias": bias}
    wanted = simulator.gemm(x, x.T.copy(), c, variant="coalesced", **arguments)
    kernel: dict[str, Any] = {"variant": variant, "tile": tile, "config": {"triangle": 1}}
    np.testing.assert_array_equal(simulator.gemm(x, x.T, c, **arguments, **kernel), wanted)


def test_a_packed_operand_is_both() -> None:
    """Check that one copy is packed where B is the transpose of A, and that the copy may be a prepared operand's."""
    x = small_integers(np.random.default_rng(4), (2, 130, 40), np.dtype("i1"), 3)
    for a in (x, np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)):
        b = a.swapaxes(1, 2)
        for left, right in ((a, b), (simulator.prepare(a), b), (a, simulator.prepare(b))):
            config = {"triangle": 1, "pack_a": 1, "pack_b": 1}
            np.testing.assert_array_equal(simulator.matmul(left, right, variant="wgmma", tile=64, config=config), a @ b)


@pytest.mark.parametrize(
    ("variant", "tile", "dtype"),
    [
        ("warp_tiled", 64, "float32"), ("warp_tiled", 64, "complex64"), ("thin", 16, "complex64"),
        ("tensor_core", 64, "float16"), ("tensor_core", 64, "complex128"), ("wgmma", 64, "float16"),
        ("wgmma", 128, "int8"), ("split_float32", 64, "float32"), ("split_integer", 64, "int32"),
        ("split_float64", 64, "float64"),
    ],
)  # fmt: skip
def test_c_may_be_the_addend(variant: str, tile: int, dtype: str) -> None:
    """Check that no thread reads an element of the addend that another thread writes on a side of the diagonal."""
    rng, kind, k = np.random.default_rng(5), np_dtype(dtype), 260 if variant == "split_float32" else 20
    x, c = small_integers(rng, (140, k), kind, 1), small_integers(rng, (140, 140), kind, 3)
    wanted = x @ x.conj().T + c
    simulator.gemm(x, x, c, adjoint_b=True, beta=1, out=c, variant=variant, tile=tile, config={"triangle": 1})
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "variant", "bytes_"),
    [
        ("float32", "split_float32", 4), ("complex64", "split_float32", 12), ("float64", "split_float64", 15),
        ("complex128", "split_float64", 45), ("int32", "split_integer", 4),
    ],
)  # fmt: skip
def test_parts_of_c_are_symmetric_together(
    monkeypatch: pytest.MonkeyPatch, dtype: str, variant: str, bytes_: int
) -> None:
    """Check C in a grid of parts, also with an addend and a prepared operand, as if small operands were large."""
    n, k = 100, 300
    monkeypatch.setattr(parts, "_GRID_TILE", 32)
    for row in kernel_variants():
        monkeypatch.setattr(type(row.operands), "most_bytes", n * k * bytes_)
    limited = model.Model(model.H100.gpu, model.H100.rates.only(lambda name: name == variant))
    monkeypatch.setattr(product, "_model", lambda target, ieee: limited)
    rng, kind = np.random.default_rng(8), np_dtype(dtype)
    x = small_integers(rng, (2, n, k), kind, 3)
    c = small_integers(rng, (n, n), kind, 3)
    y = x.swapaxes(1, 2)
    grid = limited.best(resolve(describe(x), describe(y), same_memory=True))
    assert len(grid.parts) > 4 and any(part.product.symmetric for part in grid.parts)
    np.testing.assert_array_equal(simulator.matmul(x, y), x @ y)
    np.testing.assert_array_equal(simulator.gemm(x, y, c, beta=2), x @ y + 2 * c)
    np.testing.assert_array_equal(simulator.matmul(simulator.prepare(x[0]), x[0].T), x[0] @ x[0].T)
    np.testing.assert_array_equal(simulator.gemm(x, x, adjoint_b=True), x @ y.conj())
    if kind.kind in "fc":
        values = rng.standard_normal((n, k)) + (1j * rng.standard_normal((n, k)) if kind.kind == "c" else 0)
        values = values.astype(kind)
        symmetric, hermitian = simulator.matmul(values, values.T), simulator.gemm(values, values, adjoint_b=True)
        np.testing.assert_array_equal(symmetric.view(f"V{kind.itemsize}"), symmetric.T.copy().view(f"V{kind.itemsize}"))
        assert is_hermitian(hermitian)


def is_hermitian(x: np.ndarray) -> bool:
    """Return whether a matrix, or each of a batch, has a real diagonal and conjugates above it, bit for bit."""
    n, kind = x.shape[-1], np.dtype(f"V{x.dtype.itemsize}")
    other = np.ascontiguousarray(x.swapaxes(-1, -2).conj())
    above = np.triu(np.ones((n, n), bool), 1)
    return bool((x.view(kind) == other.view(kind))[..., above].all() and not x.diagonal(axis1=-2, axis2=-1).imag.any())


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "k"),
    [pytest.param(*each, marks=() if usual else pytest.mark.slow) for *each, usual in _COMPLEX],
)
def test_a_triangle_is_all_of_a_hermitian_c(variant: str, tile: int, dtype: str, k: int) -> None:
    """Check exact products, in an odd size and both orders of C, with an epilogue, and rounded ones."""
    rng, kind = np.random.default_rng(4), np_dtype(dtype)
    kernel: dict[str, Any] = {"variant": variant, "tile": tile, "config": {"triangle": 1}}
    x = small_integers(rng, (2, 139, k), kind, 3)
    rows, columns = x @ x.conj().swapaxes(1, 2), x[0].T.conj() @ x[0]
    found = simulator.gemm(x, x, adjoint_b=True, **kernel)
    assert is_hermitian(found)
    np.testing.assert_array_equal(found, rows)
    out = np.full((k, k), np.nan, kind, order="F")
    with_rows = {**kernel, "config": {}} if variant.startswith("split") else kernel  # too few of them to decompose
    np.testing.assert_array_equal(simulator.gemm(x[0], x[0], adjoint_a=True, out=out, **with_rows), columns)
    c, bias = small_integers(rng, (139, 139), kind, 2), small_integers(rng, (139, 1), kind, 2)
    for order in "CF":
        out = np.full((139, 139), np.nan, kind, order=order)  # type: ignore[call-overload]
        simulator.gemm(x[0], x[0], c, adjoint_b=True, alpha=2 - 1j, beta=3j, bias=bias, out=out, **kernel)
        np.testing.assert_array_equal(out, (2 - 1j) * rows[0] + 3j * c + bias)
    values = (rng.standard_normal((2, 100, k)) + 1j * rng.standard_normal((2, 100, k))).astype(kind)
    for split in (1, 2):
        half = {**kernel, "config": {"triangle": 1, "split_k": split}}
        found = simulator.gemm(values, values, adjoint_b=True, **half if "float64" not in variant else kernel)
        assert is_hermitian(found)
        np.testing.assert_allclose(found, values @ values.conj().swapaxes(1, 2), rtol=0, atol=4e-6 * k)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_what_auto_chooses_is_hermitian(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for shape in ((1, 5), (7, 3), (70, 33), (3, 40, 50), (60, 9, 12)):
        x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        for is_left in (True, False):
            found = simulator.gemm(x, x, adjoint_a=is_left, adjoint_b=not is_left)
            assert is_hermitian(found)
            wanted = adjoint(x) @ x if is_left else x @ adjoint(x)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_both_adjoint_are_symmetric() -> None:
    x = small_integers(np.random.default_rng(6), (40, 30), "c8", 3)
    kernel: dict[str, Any] = {"variant": "warp_tiled", "tile": 32, "config": {"triangle": 1}}
    wanted = (x.T @ x).conj()
    np.testing.assert_array_equal(simulator.gemm(x, x.T, adjoint_a=True, adjoint_b=True, **kernel), wanted)
    with pytest.raises(ConfigError, match="triangle"):
        simulator.gemm(x, x.copy(), adjoint_b=True, **kernel)
    with pytest.raises(ConfigError, match="triangle"):
        simulator.gemm(x[:30], x[:30], **kernel)


@pytest.mark.slow
def test_rows_of_residues_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues, "MOST_RESIDUES_OF_C", 1)
    x = small_integers(np.random.default_rng(3), (2200, 16), np.dtype("f8"), 3)
    for tile in (64, 256):
        found = simulator.matmul(x, x.T, variant="split_float64", tile=tile, config={"triangle": 1})
        np.testing.assert_array_equal(found, x @ x.T)
    y = small_integers(np.random.default_rng(4), (2100, 16), np.dtype("c16"), 3)
    found = simulator.gemm(y, y, adjoint_b=True, variant="split_float64", tile=64, config={"triangle": 1})
    np.testing.assert_array_equal(found, y @ y.conj().T)
