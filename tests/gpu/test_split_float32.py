"""Products of 16-bit pieces on a device: exact where float32 is, as accurate where not, whatever the data is."""

from __future__ import annotations

import itertools

import cupy
import numpy as np
import pytest

import tiledmm
from benchmarks.shapes import accuracy, keeps_promise
from benchmarks.splits import KINDS, splits
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import plain, small_integers
from tiledmm.codegen import specialize
from tiledmm.compilation import compiled
from tiledmm.elements import ELEMENTS, PIECES
from tiledmm.geometry import splitting, unsplit
from tiledmm.ladder import find_variant

VARIANT = find_variant("split_float32")
CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
TILES = VARIANT.tiles
#: What is multiplied by tensor cores: the rest is not for pieces, and the CUDA cores do it.
SPLIT = {
    "normal",
    "uniform from 0 to 1",
    "half of A zero",
    "rows and columns scaled",
    "cancelling",
    "integers to 64",
}

pytestmark = pytest.mark.skipif(not VARIANT.runs_on(CAPABILITY, ELEMENTS["float32"]), reason="needs Hopper")


def integers(rng: np.random.Generator, *shape: int, bound: int = 2) -> np.ndarray:
    return small_integers(rng, shape, np.dtype("f4"), bound=bound)


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize("tile", TILES)
def test_every_layout_and_edge(tile: int, layout: str) -> None:
    rng = np.random.default_rng(110)
    for m, n, k in ((tile, tile, 256), (tile + 1, tile - 1, 257), (2, 3 * tile + 5, 333), (261, 9, 319), (5, 6, 255)):
        left, right = integers(rng, m, k), integers(rng, k, n)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        what = f"{tile} {layout} {m}x{n}x{k}"
        check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, variant="split_float32", tile=tile)


@pytest.mark.parametrize("products", PIECES)
def test_resources(products: int) -> None:
    for layout in ("NN", "NT", "TN", "TT", "GG"):
        numbers = {"products": products, "stages": 2}
        spec = specialize("split_float32", tile=128, layout=layout, config=numbers)
        for each in (spec.kernel, splitting(spec, 0), splitting(spec, 1), unsplit(spec).kernel):
            kernel = compiled(each)
            assert kernel.shared_bytes == each.shared_bytes
            assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"
    for tile in TILES:
        assert tiledmm.kernel("split_float32", tile=tile).local_bytes == 0


@pytest.mark.parametrize("k", [256, 300, 2000, 20_000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_promise_is_kept(kind: str, k: int) -> None:
    for layout in ("NN", "TT"):
        a, b = KINDS[kind](cupy, cupy.random.RandomState(111), 200, 264, k)
        a, b = (x if letter == "N" else cupy.asfortranarray(x) for x, letter in zip((a, b), layout, strict=True))
        errors = accuracy(a, b, variant="split_float32")
        assert keeps_promise({"errors": errors}), f"{layout}: {errors}"
        assert splits(a, b) == (kind in SPLIT)


def test_numbers_that_have_no_pieces() -> None:
    rng = cupy.random.RandomState(112)
    a, b = rng.standard_normal((300, 400)).astype("f4"), rng.standard_normal((400, 200)).astype("f4")
    for value in (np.inf, -np.inf, np.nan):
        x = a.copy()
        x[123, 45] = value
        for left, right in ((x, b), (b.T, x.T)):
            found, expected = (tiledmm.matmul(left, right, variant=name) for name in ("split_float32", "warp_tiled"))
            np.testing.assert_array_equal(found.get(), expected.get())
    for scale in (1e30, 2.0**62, 2.0**55):  # float32's products overflow, its sums may, and they do not
        x, y = a * cupy.float32(scale), b * cupy.float32(scale)
        found, expected = (tiledmm.matmul(x, y, variant=name).get() for name in ("split_float32", "warp_tiled"))
        assert (np.array_equal(found, expected, equal_nan=True)) == (scale > 2.0**55)
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    zeros = tiledmm.matmul(cupy.zeros_like(a), -b, variant="split_float32").get()
    assert not zeros.any()
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize(("of_a", "of_b"), [(-100, -30), (-126, 20), (-140, 120), (-130, -10), (100, -120), (60, 50)])
def test_far_exponents(of_a: int, of_b: int) -> None:
    # Powers of two change no bit but where results, or operands, are subnormal: those round once.
    rng = np.random.default_rng(113)
    a, b = rng.standard_normal((130, 256)), rng.standard_normal((256, 140))
    x, y = np.ldexp(a, of_a).astype("f4"), np.ldexp(b, of_b).astype("f4")  # on the host: CuPy's flushes subnormals
    exact = x.astype("f8") @ y.astype("f8")
    found = tiledmm.matmul(to_device(x), to_device(y), variant="split_float32").get()
    size = abs(x).astype("f8") @ abs(y).astype("f8")
    # Subnormal operands are left to multiply-adds, of which each may be half a step off.
    assert (abs(found - exact) <= 2.0**-20 * size + 256 * 2.0**-150).all()
    assert found.any() or not exact.astype("f4").any()


@pytest.mark.parametrize("scheme", ["fp16x3", "bf16x6", "bf16x9"])
def test_schemes(scheme: str) -> None:
    rng = cupy.random.RandomState(114)
    a, b = rng.standard_normal((300, 1000)).astype("f4"), rng.standard_normal((1000, 280)).astype("f4")
    found = tiledmm.matmul(a, b, precision=scheme)
    exact = cupy.matmul(a.astype("f8"), b.astype("f8"))
    assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < 2.5e-7
    whole = [KINDS["integers to 64"](cupy, rng, 140, 150, 300)[i] for i in range(2)]
    found = tiledmm.matmul(*whole, precision=scheme)
    assert bool((found == cupy.matmul(*(x.astype("f8") for x in whole))).all())
    for kind, make in KINDS.items():
        errors = accuracy(*make(cupy, rng, 140, 150, 1000), precision=scheme)
        assert keeps_promise({"errors": errors}), f"{kind}: {errors}"


@pytest.mark.parametrize("numbers", [{}, {"split_k": 3}, {"group": 1}, {"cluster": 1, "bm": 128}, {"bm": 128, "bn": 128,
                                     "wn": 128, "tn": 32, "cluster": 2}])  # fmt: skip
def test_batches_and_numbers(numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(115)
    left, right = integers(rng, 3, 150, 833), integers(rng, 833, 300)
    x1, x2 = to_device(left), to_device(right)
    expected = exact_product(left, right)
    check_into(expected, plain(3), x1, x2, "one B", variant="split_float32", config=numbers)
    check_into(
        expected.swapaxes(1, 2), plain(3), x2.T, x1.swapaxes(1, 2), "one A", variant="split_float32", config=numbers
    )
    normal = cupy.random.RandomState(115).standard_normal((3, 2, 140, 256)).astype("f4")
    found = tiledmm.matmul(normal, normal.swapaxes(2, 3)[:, :1], variant="split_float32", config=numbers)
    exact = cupy.matmul(normal.astype("f8"), normal.astype("f8").swapaxes(2, 3)[:, :1])
    assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < 2.5e-7


def test_batches_that_cannot_be_merged() -> None:
    rng = np.random.default_rng(116)
    many = integers(rng, 2, 3, 2, 3, 16, 264)
    x1 = to_device(many).transpose(3, 0, 2, 1, 4, 5)[::2]
    x2 = to_device(integers(rng, 264, 32))
    check_into(exact_product(to_host(x1), to_host(x2)), plain(6), x1, x2, "batch", variant="split_float32", tile=64)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_results_and_operands_of_other_types(dtype: str) -> None:
    rng = np.random.default_rng(117)
    left, right = integers(rng, 140, 300), integers(rng, 300, 150)
    expected = exact_product(left, right).astype(dtype)
    check_into(expected, plain(2), to_device(left), to_device(right), dtype, variant="split_float32", casting="unsafe")
    x1 = to_device(left.astype("i2"))
    check_into(expected, plain(2), x1, to_device(right), "int16", variant="split_float32", casting="unsafe")


def test_the_data_decides_in_a_captured_graph() -> None:
    rng = cupy.random.RandomState(118)
    a, b = rng.standard_normal((400, 500)).astype("f4"), rng.standard_normal((500, 300)).astype("f4")
    wide = KINDS["exponents from -60 to 60"](cupy, rng, 400, 300, 500)
    tiledmm.matmul(a, b, variant="split_float32")  # plans and compiles
    x1, x2, out = a.copy(), b.copy(), cupy.empty((400, 300), "f4")
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        tiledmm.matmul(x1, x2, out=out, variant="split_float32")
        graph = stream.end_capture()
        for left, right in ((a, b), wide, (a, b)):
            x1[...], x2[...] = left, right
            out.fill(cupy.nan)
            graph.launch(stream)
            stream.synchronize()
            expected = tiledmm.matmul(left, right, variant="split_float32")
            np.testing.assert_array_equal(out.get(), expected.get())


def test_runs_have_the_same_bits_and_share_no_memory() -> None:
    rng = cupy.random.RandomState(119)
    a, b = rng.standard_normal((1000, 700)).astype("f4"), rng.standard_normal((700, 900)).astype("f4")
    first = tiledmm.matmul(a, b, variant="split_float32").get()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    cupy.cuda.runtime.deviceSynchronize()
    found = []
    for turn in range(8):
        with streams[turn % 4]:
            found.append(tiledmm.matmul(a, b, variant="split_float32"))
    cupy.cuda.runtime.deviceSynchronize()
    for each in found:
        np.testing.assert_array_equal(each.get(), first)
    square = a[:, :700] @ a[:, :700].T
    expected = tiledmm.matmul(square, square.copy(), variant="split_float32")
    assert tiledmm.matmul(square, square, out=square, variant="split_float32") is square
    np.testing.assert_array_equal(square.get(), expected.get())


def test_precision_decides_what_auto_takes() -> None:
    rng = cupy.random.RandomState(120)
    a, b = rng.standard_normal((4096, 2048)).astype("f4"), rng.standard_normal((2048, 2048)).astype("f4")
    assert "split_float32" in str(tiledmm.explain(a, b).choices[0])
    assert not any("split" in str(choice) for choice in tiledmm.explain(a, b, precision="ieee").choices)
    by_name = tiledmm.matmul(a, b, variant="split_float32")
    exact, ieee = tiledmm.matmul(a, b, precision="ieee"), tiledmm.matmul(a, b, variant="warp_tiled")
    np.testing.assert_array_equal(exact.get(), ieee.get())
    assert not bool((tiledmm.matmul(a, b) == exact).all())
    assert bool((by_name != exact).any())
