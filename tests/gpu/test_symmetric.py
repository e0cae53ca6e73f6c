"""Tests of products of an array and its own transpose, whose result is exactly symmetric."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import any_bits, np_dtype, plain, small_integers
from tiledmm.bench import reference
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.kernels.operands import residues
from tiledmm.kernels.variants import kernel_variants

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)

#: Every type of a variant's default tile, and every tile in one type, as (variant, tile, type).
KERNELS = [
    (row.name, tile, name)
    for row in kernel_variants()
    for tile in row.tiles
    for name in [each for each in (*ELEMENTS, "tf32") if row.multiplies(compute_element(each))][
        : None if tile == row.default_tile else 1
    ]
    if row.runs_on(CAPABILITY, compute_element(name)) and row.has_triangle(row.config(tile, compute_element(name)))
]


def keywords_of(variant: str, tile: int, dtype: str, **numbers: int) -> dict[str, Any]:
    """Return the keywords that name a kernel which computes a triangle of C."""
    precision = {"precision": "tf32"} if dtype == "tf32" else {}
    return {"variant": variant, "tile": tile, "config": {"triangle": 1, **numbers}, **precision}


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np_dtype("float32" if dtype == "tf32" else dtype)
    if kind.kind in "iub":
        return any_bits(rng, shape, kind)
    return small_integers(rng, shape, kind, 1)


def decomposed(variant: str) -> int:
    """Return a K from which on a variant decomposes its operands."""
    return 256 if variant in ("split_float32", "split_tensor_core") else 0


@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_each_kernel_computes_a_triangle(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(82)
    least = decomposed(variant)
    for size, k, letter in ((1, 37, "N"), (31, 64, "G"), (64, 37, "T"), (130, 9, "N"), (712, 70, "N"), (705, 70, "T")):
        values = operand(rng, (size, least + k), dtype)
        x, what = to_device(values, matrix_layout(letter)), f"{variant} {tile} {dtype} {letter} {size}"
        for order in "NT":
            kernel = keywords_of(variant, tile, dtype)
            check_into(exact_product(values, values.T), matrix_layout(order), x, x.T, what, **kernel)
    values = operand(rng, (3, 200, least + 40), dtype)
    x = to_device(values, plain(3))
    check_into(
        exact_product(values, values.swapaxes(1, 2)), plain(3), x, x.swapaxes(1, 2), "batch",
        **keywords_of(variant, tile, dtype),
    )  # fmt: skip


@pytest.mark.parametrize(("variant", "tile", "dtype"), [each for each in KERNELS if each[2] != "bool"])
def test_an_epilogue_is_not_mirrored(variant: str, tile: int, dtype: str) -> None:
    """Check C that is not symmetric, and a bias of columns or rows: what differs on the two sides of the diagonal."""
    rng = np.random.default_rng(83)
    size, k = 333, decomposed(variant) + 40
    kind = "float32" if dtype == "tf32" else dtype
    x = cupy.asarray(small_integers(rng, (size, k), np_dtype(kind), 1))
    c = cupy.asarray(small_integers(rng, (size, size), np_dtype(kind), 3))
    bias = cupy.asarray(small_integers(rng, (size,), np_dtype(kind), 3))
    wide = {"i": "i8", "u": "u8", "c": "c16"}.get(np_dtype(kind).kind, "f8")
    product, addend, row = (to_host(each).astype(wide) for each in (x, c, bias))
    product = product @ product.T
    kernel = keywords_of(variant, tile, dtype)
    for held, beside in ((c, bias), (c.T.copy().T, bias[:, None])):
        found = tiledmm.gemm(x, x.T, held, alpha=2, beta=3, bias=beside, **kernel)
        wanted = 2 * product + 3 * addend + row.reshape(beside.shape)
        np.testing.assert_array_equal(to_host(found), wanted.astype(found.dtype))


@pytest.mark.parametrize(("variant", "tile", "dtype"), [each for each in KERNELS if "float64" not in each[0]])
def test_partitions_of_k_are_mirrored(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(84)
    values = operand(rng, (140, 1500), dtype)
    x = to_device(values)
    for split in (2, 3, 4):
        kernel = keywords_of(variant, tile, dtype, split_k=split)
        check_into(exact_product(values, values.T), matrix_layout("N"), x, x.T, f"{split}", **kernel)


def test_residues_of_c_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues, "MOST_RESIDUES_OF_C", 1)
    values = small_integers(np.random.default_rng(85), (2, 4500, 70), np.dtype("f8"), 3)
    x = to_device(values, plain(3))
    for tile in (64, 128, 256):
        kernel = keywords_of("split_float64", tile, "float64")
        check_into(values @ values.swapaxes(1, 2), plain(3), x, x.swapaxes(1, 2), f"{tile}", **kernel)


@pytest.mark.parametrize("dtype", [name for name in ELEMENTS if name != "bool"])
@pytest.mark.parametrize("precision", ["full", "ieee", "tf32"])
def test_what_auto_chooses_is_symmetric(dtype: str, precision: str) -> None:
    """Check symmetry, accuracy and reproducibility of products of random data, for any size, K and batch."""
    if precision == "tf32" and dtype != "float32":
        pytest.skip("tf32 is of float32")
    rng, kind = np.random.default_rng(86), np_dtype(dtype)
    for shape in (
        (1, 5), (7, 3), (64, 64), (200, 33), (777, 300), (2048, 1024), (1000, 20000), (30, 60, 50), (2000, 9, 12),
        (3, 513, 700),
    ):  # fmt: skip
        values = reference.random_matrix(rng, int(np.prod(shape[:-1])), shape[-1], kind, shape[-1]).reshape(shape)
        x = to_device(values)
        for left in (x, x.swapaxes(-1, -2)):
            if left is not x and shape[-1] > 5000:
                continue
            right = left.swapaxes(-1, -2)
            out = cupy.full((*left.shape[:-1], left.shape[-2]), 0).astype(kind)
            out.view(cupy.uint8)[...] = 0xFF
            tiledmm.matmul(left, right, out=out, precision=precision)
            bits = to_host(out).view(f"V{kind.itemsize}")
            kernel = tiledmm.explain(left, right, precision=precision).choices[0]
            assert (bits == bits.swapaxes(-1, -2)).all(), f"{shape} {kernel}"
            again = tiledmm.matmul(left, right, precision=precision)
            assert (to_host(again).view(bits.dtype) == bits).all(), f"{shape} {kernel}"
            if precision != "tf32":
                first = (left, right) if left.ndim == 2 else (left[-1], right[-1])
                found = out if out.ndim == 2 else out[-1]
                assert reference.judge(found, reference.reference(*first)).ok, f"{shape} {kernel}"
