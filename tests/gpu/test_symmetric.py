"""Tests of products of an array and its own transpose or adjoint, whose result is exactly symmetric or Hermitian."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gemm_calls import adjoint
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import Layout, any_bits, lay_out, np_dtype, plain, small_integers
from tiledmm.bench import reference
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.kernels.operands import residues
from tiledmm.kernels.variants import kernel_variants
from tiledmm.launch.plan import Plan

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
        wanted = 2 * product + 3 * addend + row.reshape(beside.shape)
        for out in (None, held):
            found = tiledmm.gemm(x, x.T, held, alpha=2, beta=3, bias=beside, out=out, **kernel)
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


# ---- Hermitian products ----

HERMITIAN = [each for each in KERNELS if each[2].startswith("complex")] + [
    (row.name, tile, name)
    for row in kernel_variants()
    for tile in row.tiles
    for name in ("complex64", "complex128")
    if tile != row.default_tile and row.multiplies(compute_element(name))
    and row.runs_on(CAPABILITY, compute_element(name)) and row.has_triangle(row.config(tile, compute_element(name)))
]  # fmt: skip
ADJOINTS = ({"adjoint_a": True}, {"adjoint_b": True})


def check_hermitian(layout: Layout, x: cupy.ndarray, what: str, adjoints: dict[str, bool], **kernel: Any) -> None:
    """Multiply ``x`` by its adjoint into an ``out`` poisoned with NaNs, and check all of its memory.

    An imaginary part of 0 may have either sign: a conjugate's is -0, and a sum of two of these +0 or -0.
    """
    values = to_host(x)
    product = (
        exact_product(adjoint(values), values) if "adjoint_a" in adjoints else exact_product(values, adjoint(values))
    )
    out, memory = lay_out(cupy, np.full(product.shape, np.nan, product.dtype), layout, poison=True)
    assert tiledmm.gemm(x, x, out=out, **adjoints, **kernel) is out, what
    _, expected = lay_out(np, product, layout, poison=True)
    found, expected = (each.view(product.real.dtype) + 0 for each in (memory.get(), expected))
    np.testing.assert_array_equal(found, expected, err_msg=what)


@pytest.mark.parametrize(("variant", "tile", "dtype"), HERMITIAN)
def test_each_kernel_computes_a_triangle_of_a_hermitian_c(variant: str, tile: int, dtype: str) -> None:
    rng, kernel = np.random.default_rng(87), keywords_of(variant, tile, dtype)
    least = decomposed(variant) // 2
    for size, k, letter in ((1, 37, "N"), (31, 64, "G"), (64, 37, "T"), (130, 9, "N"), (712, 70, "N"), (705, 70, "T")):
        x = to_device(operand(rng, (size, least + k), dtype), matrix_layout(letter))
        what = f"{variant} {tile} {dtype} {letter} {size}"
        for order in "NT":
            check_hermitian(matrix_layout(order), x, what, {"adjoint_b": True}, **kernel)
            check_hermitian(matrix_layout(order), x.T, f"{what}, transposed", {"adjoint_a": True}, **kernel)
    x = to_device(operand(rng, (3, 200, least + 40), dtype), plain(3))
    check_hermitian(plain(3), x, "batch", {"adjoint_b": True}, **kernel)


@pytest.mark.parametrize(("variant", "tile", "dtype"), HERMITIAN)
def test_partitions_of_k_and_epilogues_of_a_hermitian_c(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(88)
    values = operand(rng, (333, decomposed(variant) // 2 + 400), dtype)
    x, product = to_device(values), exact_product(values, adjoint(values))
    splits = (1,) if "float64" in variant else (1, 2, 3)
    c, bias = small_integers(rng, (333, 333), np_dtype(dtype), 3), small_integers(rng, (333,), np_dtype(dtype), 3)
    for split in splits:
        kernel = keywords_of(variant, tile, dtype, split_k=split)
        check_hermitian(matrix_layout("N"), x, f"split-K {split}", {"adjoint_b": True}, **kernel)
        for held, beside in ((c, bias), (np.asfortranarray(c), bias[:, None])):
            found = tiledmm.gemm(
                x, x, cupy.asarray(held), adjoint_b=True, alpha=2 - 1j, beta=3j, bias=cupy.asarray(beside), **kernel
            )
            np.testing.assert_array_equal(to_host(found), (2 - 1j) * product + 3j * held + beside)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("precision", ["full", "ieee"])
def test_what_auto_chooses_is_hermitian(dtype: str, precision: str) -> None:
    """Check conjugates, the diagonal, accuracy and reproducibility of products of random data."""
    rng, kind = np.random.default_rng(89), np_dtype(dtype)
    for shape in (
        (1, 5), (7, 3), (64, 64), (200, 33), (777, 300), (2048, 1024), (600, 20000), (30, 60, 50), (2000, 9, 12),
        (3, 513, 700),
    ):  # fmt: skip
        values = reference.random_matrix(rng, int(np.prod(shape[:-1])), shape[-1], kind, shape[-1]).reshape(shape)
        x = to_device(values)
        for adjoints in ADJOINTS:
            if "adjoint_a" in adjoints and shape[-1] > 5000:
                continue
            kernel = tiledmm.explain(x, x, precision=precision, **adjoints).choices[0]
            assert kernel.spec.hermitian, f"{shape} {kernel}"
            found = tiledmm.gemm(x, x, precision=precision, **adjoints)
            host = to_host(found)
            bits, others = (np.ascontiguousarray(each).view(f"V{kind.itemsize}") for each in (host, adjoint(host)))
            above = ~np.eye(host.shape[-1], dtype=bool)
            assert (bits == others)[..., above].all(), f"{shape} {kernel}"
            assert not host.diagonal(axis1=-2, axis2=-1).imag.any(), f"{shape} {kernel}"
            again = tiledmm.gemm(x, x, precision=precision, **adjoints)
            assert (to_host(again).view(bits.dtype) == bits).all(), f"{shape} {kernel}"
            left, right = (adjoint(x), x) if "adjoint_a" in adjoints else (x, adjoint(x))
            first = (left, right) if x.ndim == 2 else (left[-1], right[-1])
            assert reference.judge(found if x.ndim == 2 else found[-1], reference.reference(*first)).ok, (
                f"{shape} {kernel}"
            )


CONJUGATING = [
    (row.name, tile, name)
    for row in kernel_variants()
    for tile in row.tiles or (None,)
    for name in ("complex64", "complex128")
    if row.multiplies(compute_element(name)) and row.runs_on(CAPABILITY, compute_element(name))
]


@pytest.mark.parametrize(("variant", "tile", "dtype"), CONJUGATING)
def test_each_kernel_conjugates(variant: str, tile: int | None, dtype: str) -> None:
    """Check products of all layouts with either operand or both adjoint, by exact integers."""
    rng = np.random.default_rng(90)
    row = next(each for each in kernel_variants() if each.name == variant)
    k, n = (3 if row.reads.short_k else 150), (5 if row.reads.narrow else 75)
    a, b = operand(rng, (70, k), dtype), operand(rng, (k, n), dtype)
    product = exact_product(a, b)
    for number, (first, second) in enumerate((i, j) for i in "NTG" for j in "NTG"):
        for adjoints in ((False, True), (True, False), (True, True)):
            x, y = (adjoint(each) if is_adjoint else each for each, is_adjoint in zip((a, b), adjoints, strict=True))
            left, right = to_device(x, matrix_layout(first)), to_device(y, matrix_layout(second))
            out = to_device(np.full(product.shape, np.nan, dtype), matrix_layout("NT"[number % 2]))
            tiledmm.gemm(left, right, out=out, adjoint_a=adjoints[0], adjoint_b=adjoints[1], variant=variant, tile=tile)
            np.testing.assert_array_equal(to_host(out), product, err_msg=f"{first}{second} {adjoints}")


def test_adjoint_operands_that_are_prepared() -> None:
    rng = np.random.default_rng(91)
    for dtype in ("complex64", "complex128"):
        x, y = (to_device(small_integers(rng, (size, 1100), np_dtype(dtype), 2)) for size in (1000, 900))
        p, q = tiledmm.prepare(x), tiledmm.prepare(y)
        a, b = to_host(x), to_host(y)
        for _ in range(2):
            np.testing.assert_array_equal(to_host(tiledmm.gemm(q, p, adjoint_b=True)), exact_product(b, adjoint(a)))
            np.testing.assert_array_equal(to_host(tiledmm.gemm(p, p, adjoint_b=True)), exact_product(a, adjoint(a)))
            np.testing.assert_array_equal(to_host(tiledmm.gemm(p, p, adjoint_a=True)), exact_product(adjoint(a), a))
            np.testing.assert_array_equal(to_host(tiledmm.matmul(p, y.T)), exact_product(a, b.T))


def test_adjoint_operands_of_cublas() -> None:
    rng = np.random.default_rng(92)
    x, y = (to_device(small_integers(rng, (30, 40), np.dtype("c8"), 3)) for _ in range(2))
    for adjoints, right in ((ADJOINTS[0], y), (ADJOINTS[1], y), ({"adjoint_a": True, "adjoint_b": True}, y.T)):
        found = tiledmm.gemm(x, right, variant="cublas", alpha=2, **adjoints)
        np.testing.assert_array_equal(to_host(found), to_host(tiledmm.gemm(x, right, alpha=2, **adjoints)))


@pytest.mark.parametrize(
    ("dtype", "bytes_"), [("float32", 4), ("complex64", 12), ("float64", 15), ("complex128", 45), ("int32", 4)]
)
def test_parts_of_c_are_symmetric_together(monkeypatch: pytest.MonkeyPatch, dtype: str, bytes_: int) -> None:
    """Check every kernel that decomposes operands, with C in a grid of parts, as if small operands were large."""
    for row in kernel_variants():
        monkeypatch.setattr(type(row.operands), "most_bytes", 700 * 1100 * bytes_)
    rng, kind = np.random.default_rng(89), np_dtype(dtype)
    x = to_device(operand(rng, (1100, 700), dtype))
    found = [each for each in tiledmm.explain(x, x, adjoint_b=True).choices if len(each.parts) > 3]
    choices = [each for each in tiledmm.explain(x, x.T).choices if len(each.parts) > 3]
    if not choices:
        pytest.skip("this device has no kernel that decomposes this type, or none with a rate")
    values = rng.standard_normal((1100, 700)) + (1j * rng.standard_normal((1100, 700)) if kind.kind == "c" else 0)
    for each, hermitian in ((choice, choice.product.hermitian) for choice in (*choices, *found)):
        out = cupy.full((1100, 1100), np.nan if kind.kind in "fc" else 77, kind)
        Plan(each).run(x, x if hermitian else x.T, out)
        exact = to_host(x)
        wanted = exact @ exact.conj().T if hermitian else exact_product(exact, exact.T)
        np.testing.assert_array_equal(out.get(), wanted, err_msg=str(each))
        if kind.kind in "fc":
            y = cupy.asarray(values.astype(kind))
            out = Plan(each).run(y, y if hermitian else y.T, out)
            other = out.T.conj() if hermitian else out.T
            assert not (out - other).get().any(), str(each)
