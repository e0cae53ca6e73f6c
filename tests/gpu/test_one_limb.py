"""Tests of products in tf32 from one float16 limb on a device: exact for integers, else as accurate as tf32."""

from __future__ import annotations

import itertools
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from benchmarks.splits import uses_tensor_cores
from benchmarks.support.accuracy import PROMISE, accuracy
from benchmarks.support.data import EITHER, KINDS, TOO_WIDE, operands
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import plain, small_integers
from tiledmm.bench.comparison import cupy_takes
from tiledmm.compile.compilation import compiled
from tiledmm.elements import TF32
from tiledmm.kernels.variants import find_variant, kernel_spec, kernel_variants
from tiledmm.schedule.schedule import required_kernels

SCHEME = "fp16x1"
#: The variants that compute what limbs cannot represent; ``tensor_core`` also if TMA cannot read the operands in place.
OTHERWISE = {"split_float32": "wgmma", "split_tensor_core": "tensor_core"}
CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
#: Variants that run on this device, the fastest first.
RUN = [
    row.name
    for row in kernel_variants("tf32")
    if SCHEME in row.operands.schemes and row.runs_on(CAPABILITY, TF32)
]  # fmt: skip

pytestmark = pytest.mark.skipif(not RUN, reason="needs compute capability 8.0 or newer")
each_kernel = pytest.mark.parametrize("variant", RUN)


def product(a: Any, b: Any, variant: str, **keywords: Any) -> Any:
    return tiledmm.matmul(a, b, variant=variant, precision="tf32", **keywords)


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return small_integers(rng, shape, "float32", bound=2)


def normal(seed: int, *shape: int) -> cupy.ndarray:
    return cupy.random.RandomState(seed).standard_normal(shape).astype(cupy.float32)


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize(("variant", "tile"), [(name, tile) for name in RUN for tile in find_variant(name).tiles])
def test_every_layout_and_edge(variant: str, tile: int, layout: str) -> None:
    rng = np.random.default_rng(210)
    for m, n, k in ((tile, tile, 256), (tile + 1, tile - 1, 257), (2, 3 * tile + 5, 333), (261, 9, 319), (5, 6, 255)):
        left, right = integers(rng, m, k), integers(rng, k, n)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        for letter in "NTG" if n == 9 else "N":
            what = f"{variant} {tile} {layout}, C {letter} {m}x{n}x{k}"
            keywords = {"variant": variant, "tile": tile, "precision": "tf32"}
            check_into(exact_product(left, right), matrix_layout(letter), x1, x2, what, **keywords)
        assert uses_tensor_cores(x1, x2, variant, SCHEME) == (k >= 256)


@pytest.mark.parametrize("skipped", range(5))
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@each_kernel
def test_operands_that_begin_anywhere(variant: str, layout: str, skipped: int) -> None:
    rng = np.random.default_rng(211)

    def part_of_a_matrix(values: np.ndarray, letter: str) -> cupy.ndarray:
        lines = values if letter == "N" else values.T
        memory = cupy.full((len(lines), (lines.shape[1] + 15) // 8 * 8), cupy.nan, "f4")
        view = memory[:, skipped : skipped + lines.shape[1]]
        view[...] = to_device(lines)
        return view if letter == "N" else view.T

    for m, n, k in ((64, 48, 512), (50, 38, 258), (37, 51, 1027)):
        left, right = integers(rng, m, k), integers(rng, k, n)
        x1, x2 = (part_of_a_matrix(x, letter) for x, letter in zip((left, right), layout, strict=True))
        what = f"{layout} {skipped} {m}x{n}x{k}"
        check_into(exact_product(left, right), plain(2), x1, x2, what, variant=variant, precision="tf32")


@each_kernel
def test_resources(variant: str) -> None:
    for tile, layout in itertools.product(find_variant(variant).tiles, ("NN", "NT", "TN", "TT", "GG")):
        for each in required_kernels(kernel_spec(variant, tile=tile, dtype="tf32", layout=layout)):
            kernel = compiled(each)
            assert kernel.shared_bytes == each.shared_bytes
            assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"


@pytest.mark.parametrize("k", [256, 2000, 20_000])
@pytest.mark.parametrize("kind", KINDS)
@each_kernel
def test_errors_are_those_of_tf32_and_the_data_decides(variant: str, kind: str, k: int) -> None:
    for layout in ("NN", "TT"):
        a, b = operands(kind, "float32", cupy, cupy.random.RandomState(212), 200, 264, k)
        a, b = (x if letter == "N" else cupy.asfortranarray(x) for x, letter in zip((a, b), layout, strict=True))
        with cupy_takes(TF32):
            errors = accuracy(
                a, b, {"native": lambda a=a, b=b: product(a, b, OTHERWISE[variant])}, variant=variant, precision="tf32"
            )
        bounds = [max(pair) for pair in zip(errors["cublas"], errors["native"], strict=True)]
        for own, factor, bound in zip(errors["auto"], PROMISE, bounds, strict=True):
            assert own <= factor * bound, f"{layout}: {errors}"
        if kind not in EITHER:
            assert uses_tensor_cores(a, b, variant, SCHEME) == (kind not in TOO_WIDE)


@pytest.mark.parametrize("seed", range(5))
def test_long_rows_of_normal_numbers_pass(seed: int) -> None:
    a, b = normal(seed, 4096, 16384), normal(seed + 100, 16384, 4096)
    assert uses_tensor_cores(a, b, RUN[0], SCHEME)


def of_extreme_spread(a: cupy.ndarray, b: cupy.ndarray) -> tuple[cupy.ndarray, cupy.ndarray]:
    a, b = a.copy(), b.copy()
    a[:, ::2] *= cupy.float32(2.0**-36)
    b[1::2] *= cupy.float32(2.0**-30)
    return a, b


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "NG"])
@pytest.mark.parametrize("skipped", [0, 1, 4])
@each_kernel
def test_rows_of_extreme_spread_in_every_layout_at_any_address(variant: str, skipped: int, layout: str) -> None:
    a, b = of_extreme_spread(normal(230, 300, 400), normal(231, 400, 200))
    exact = a.astype("f8") @ b.astype("f8")

    def part(x: cupy.ndarray, letter: str) -> cupy.ndarray:
        lines, step = x.T if letter == "T" else x, 2 if letter == "G" else 1
        memory = cupy.zeros((len(lines), step * lines.shape[1] + 8), "f4")
        view = memory[:, skipped : skipped + step * lines.shape[1] : step]
        view[...] = lines
        return view.T if letter == "T" else view

    x1, x2 = part(a, layout[0]), part(b, layout[1])
    bias, batch = normal(232, 200), cupy.stack([x1, x1])
    for found in (product(x1, x2, variant), product(batch, x2, variant)[1]):
        assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < 6e-4
    fused = tiledmm.gemm(x1, x2, bias=bias, variant=variant, precision="tf32")
    assert float(cupy.linalg.norm(fused - exact - bias) / cupy.linalg.norm(exact + bias)) < 6e-4
    half = product(x1, x1.T, variant, config={"triangle": 1})
    assert bool((half == half.T).all())


@each_kernel
def test_what_has_no_limbs_is_left_to_tf32(variant: str) -> None:
    a, b = normal(213, 300, 400), normal(214, 400, 200)
    for value in (np.inf, -np.inf, np.nan):
        x = a.copy()
        x[123, 45] = value
        for left, right in ((x, b), (b.T, x.T)):
            assert not uses_tensor_cores(left, right, variant, SCHEME)
            found, expected = (product(left, right, name).get() for name in (variant, OTHERWISE[variant]))
            np.testing.assert_array_equal(found, expected)
    for scale, overflows in ((2.0**62, True), (2.0**55, False)):
        x, y = a * cupy.float32(scale), b * cupy.float32(scale)
        found, expected = (product(x, y, name).get() for name in (variant, OTHERWISE[variant]))
        assert np.array_equal(found, expected, equal_nan=True) == overflows
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    spread, other = of_extreme_spread(a, b)
    assert not uses_tensor_cores(spread, other, variant, SCHEME)
    found, expected = (product(spread, other, name).get() for name in (variant, OTHERWISE[variant]))
    np.testing.assert_array_equal(found, expected)
    zeros = product(cupy.zeros_like(a), -b, variant).get()
    assert not zeros.any() and not np.signbit(zeros).any()


@pytest.mark.parametrize(("of_a", "of_b"), [(-100, -30), (-126, 20), (100, -120), (60, 50)])
@each_kernel
def test_far_exponents(variant: str, of_a: int, of_b: int) -> None:
    rng = np.random.default_rng(215)
    x, y = (
        np.ldexp(rng.standard_normal(shape), exponent).astype("f4")  # on the host: CuPy's flushes subnormals
        for shape, exponent in (((130, 256), of_a), ((256, 140), of_b))
    )
    exact, size = x.astype("f8") @ y.astype("f8"), abs(x).astype("f8") @ abs(y).astype("f8")
    found = product(to_device(x), to_device(y), variant).get()
    assert (abs(found - exact) <= 2.0**-9 * size + 4 * 256 * 2.0**-150).all()
    assert found.any() or not exact.astype("f4").any()


@pytest.mark.parametrize(
    ("variant", "config"),
    [
        (name, config)
        for name in RUN
        for config in ({}, {"split_k": 3}, {"group": 1}, {"stages": 2}, {"bm": 128, "cluster": 1})
        if "cluster" not in config or name == "split_float32"
    ],
)
def test_batches_and_other_parameters(variant: str, config: dict[str, int]) -> None:
    rng = np.random.default_rng(216)
    left, right = integers(rng, 3, 150, 833), integers(rng, 833, 300)
    x1, x2, expected = to_device(left), to_device(right), exact_product(left, right)
    keywords: dict[str, Any] = {"variant": variant, "config": config, "precision": "tf32"}
    check_into(expected, plain(3), x1, x2, "one B", **keywords)
    check_into(expected.swapaxes(1, 2), plain(3), x2.T, x1.swapaxes(1, 2), "one A", **keywords)
    many = to_device(integers(rng, 2, 3, 2, 3, 16, 264)).transpose(3, 0, 2, 1, 4, 5)[::2]
    other = to_device(integers(rng, 264, 32))
    check_into(exact_product(to_host(many), to_host(other)), plain(6), many, other, "batch", **keywords)


@each_kernel
def test_the_data_decides_in_a_captured_graph(variant: str) -> None:
    a, b = normal(217, 400, 500), normal(218, 500, 300)
    spread = operands("exponents from -60 to 60", "float32", cupy, cupy.random.RandomState(219), 400, 300, 500)
    product(a, b, variant)  # plans and compiles
    x1, x2, out = a.copy(), b.copy(), cupy.empty((400, 300), "f4")
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        product(x1, x2, variant, out=out)
        graph = stream.end_capture()
        for left, right in ((a, b), spread, (a, b)):
            x1[...], x2[...] = left, right
            out.fill(cupy.nan)
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_array_equal(out.get(), product(left, right, variant).get())


@each_kernel
def test_runs_have_the_same_bits(variant: str) -> None:
    a, b = normal(220, 1000, 700), normal(221, 700, 900)
    first = product(a, b, variant).get()
    for _ in range(8):
        np.testing.assert_array_equal(product(a, b, variant).get(), first)
    prepared = tiledmm.prepare(b)
    np.testing.assert_array_equal(product(a, prepared, variant).get(), first)


@pytest.mark.parametrize("split_k", [1, 3])
@each_kernel
def test_epilogues_are_computed_once(variant: str, split_k: int) -> None:
    a, b, bias, c = normal(222, 140, 1000), normal(223, 1000, 150), normal(224, 150), normal(225, 140, 150)
    tiny = a.copy()
    tiny[:, ::2] *= cupy.float32(2.0**-36)
    for left, right in ((a, b), (tiny, b * (cupy.arange(1000) % 2 == 0)[:, None].astype("f4"))):
        found = c.copy()
        tiledmm.gemm(
            left, right, found, beta=2, bias=bias, activation="relu", out=found,
            variant=variant, precision="tf32", config={"split_k": split_k},
        )  # fmt: skip
        expected = cupy.maximum(left.astype("f8") @ right.astype("f8") + 2 * c + bias, 0)
        assert float(abs(found - expected).max()) < 0.1


@each_kernel
def test_symmetric_products(variant: str) -> None:
    a = normal(226, 700, 900)
    found = product(a, a.T, variant, config={"triangle": 1})
    assert bool((found == found.T).all())
    exact = a.astype("f8") @ a.astype("f8").T
    assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < 4e-4
