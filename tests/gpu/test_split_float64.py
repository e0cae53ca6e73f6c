"""Tests of float64 by residues on a device: bit for bit as in NumPy, and within the promised error."""

from __future__ import annotations

import itertools

import cupy
import numpy as np
import pytest

import tiledmm
from benchmarks.support.accuracy import PROMISE
from tests import residues_in_numpy as model
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.kernels.operands.test_residues import KINDS, data
from tests.simulator.test_residues import OTHERWISE, special_values
from tests.strategies import plain
from tiledmm.compile.compilation import compiled
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.variants import kernel_spec, kernel_variants
from tiledmm.schedule.schedule import required_kernels

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
#: Variants that run on this device, the fastest first; and their tiles.
RUN = [
    row for row in kernel_variants() if not row.operands.has_epilogue and row.runs_on(CAPABILITY, ELEMENTS["float64"])
]
TILES = [(row.name, tile) for row in RUN for tile in row.tiles]
NAMED = {"variant": RUN[0].name if RUN else "split_float64"}

pytestmark = pytest.mark.skipif(not RUN, reason="needs compute capability 8.0 or newer")


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-999, 1000, shape).astype(np.float64)


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize(("variant", "tile"), TILES)
def test_every_layout_and_edge(variant: str, tile: int, layout: str) -> None:
    rng = np.random.default_rng(260)
    for m, n, k in ((tile, tile, 128), (tile + 1, tile - 1, 129), (2, 2 * tile + 5, 333), (261, 9, 127), (5, 6, 1)):
        left, right = integers(rng, m, k), integers(rng, k, n)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        for letter in "NTG" if n == 9 else "N":
            what = f"{tile} {layout}, C {letter} {m}x{n}x{k}"
            check_into(exact_product(left, right), matrix_layout(letter), x1, x2, what, tile=tile, variant=variant)


@pytest.mark.parametrize("moduli", [14, 15, 16])
@pytest.mark.parametrize(("variant", "tile"), TILES)
def test_bits_are_those_of_the_model(variant: str, tile: int, moduli: int) -> None:
    rng = np.random.default_rng(261)
    for m, n, k in ((300, 280, 1000), (129, 65, 4097)):
        left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        left *= np.exp2(rng.integers(-300, 300, (m, 1)).astype(float))
        keywords = {"tile": tile, "config": {"moduli": moduli}, "variant": variant}
        found = tiledmm.matmul(to_device(left), to_device(right), **keywords)
        np.testing.assert_array_equal(to_host(found), model.product(left, right, moduli))
        again = tiledmm.matmul(to_device(left), to_device(right), **keywords)
        np.testing.assert_array_equal(to_host(again), to_host(found))


def complex_normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
def test_complex_products(layout: str) -> None:
    rng = np.random.default_rng(270)
    for m, n, k in ((256, 256, 128), (257, 255, 129), (5, 600, 1000), (70, 9, 1)):
        left, right = complex_normal(rng, m, k), complex_normal(rng, k, n)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        found = to_host(tiledmm.matmul(x1, x2, **NAMED))
        np.testing.assert_array_equal(found, model.product(left, right), err_msg=f"{layout} {m}x{n}x{k}")
        x, y = np.round(9 * left), np.round(9 * right)
        x1, x2 = (to_device(each, matrix_layout(letter)) for each, letter in zip((x, y), layout, strict=True))
        check_into(exact_product(x, y), matrix_layout("N"), x1, x2, f"{layout} {m}x{n}x{k}", **NAMED)
    far, right = complex_normal(rng, 50, 64) * np.exp2(rng.uniform(-90, 90, (50, 64))), complex_normal(rng, 64, 60)
    expected = tiledmm.matmul(to_device(far), to_device(right), variant=OTHERWISE, tile=128)
    np.testing.assert_array_equal(to_host(tiledmm.matmul(to_device(far), to_device(right), **NAMED)), to_host(expected))


@pytest.mark.parametrize("k", [66_047, 66_048, 66_049, 140_000])
@pytest.mark.parametrize("variant", [row.name for row in RUN])
def test_sums_that_are_reduced_on_the_way(variant: str, k: int) -> None:
    """Check sums of residues of 255 modulo 256, which are the largest possible, and random ones."""
    rng = np.random.default_rng(262)
    left, right = np.full((70, k), -1.0), np.full((k, 66), -1.0)
    left[1:35], right[:, 1:33] = rng.integers(-9, 9, (34, k)), rng.integers(-9, 9, (k, 32))
    check_into(left @ right, plain(2), to_device(left), to_device(right), str(k), variant=variant)
    random = rng.standard_normal((5, k)), rng.standard_normal((k, 7))
    found = to_host(tiledmm.matmul(*map(to_device, random), variant=variant))
    np.testing.assert_array_equal(found, model.product(*random))


@pytest.mark.parametrize("config", [{"group": 1}, {"stages": 2}])
def test_other_numbers(config: dict[str, int]) -> None:
    rng = np.random.default_rng(263)
    left, right = integers(rng, 300, 1000), integers(rng, 1000, 260)
    check_into(exact_product(left, right), plain(2), to_device(left), to_device(right), "", config=config, **NAMED)


def test_batches_and_parts_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(264)
    for part in (1 << 30, 1):
        monkeypatch.setattr("tiledmm.kernels.operands.residues.MOST_RESIDUES_OF_C", part)
        tiledmm.launch.plans.forget_plans()
        for first, second in (((3, 1), (4,)), ((), (5,)), ((2,), ()), ((2, 1, 2, 1), (2, 1, 3))):
            left, right = integers(rng, *first, 300, 70), integers(rng, *second, 70, 90)
            found = tiledmm.matmul(to_device(left), to_device(right), tile=64, **NAMED)
            np.testing.assert_array_equal(to_host(found), np.matmul(left, right))
    tiledmm.launch.plans.forget_plans()


@pytest.mark.parametrize("k", [1, 2, 16, 256, 2000, 20_000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_promise_is_kept(kind: str, k: int) -> None:
    a, b = data(kind, np.random.default_rng(265), 60, 70, k)
    x1, x2 = to_device(a), to_device(b)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    sizes = abs(a).astype(np.longdouble) @ abs(b).astype(np.longdouble)
    scale = np.ldexp(np.longdouble(1), -int(np.frexp(abs(exact).max())[1]))  # so that squares do not overflow

    def errors(c: cupy.ndarray) -> tuple[float, float]:
        apart = to_host(c) - exact
        norms = [float(np.linalg.norm((x * scale).astype(np.float64))) for x in (apart, exact)]
        return norms[0] / norms[1], float((abs(apart) / np.where(sizes == 0, 1, sizes)).max())

    ours = errors(tiledmm.matmul(x1, x2, **NAMED))
    others = [errors(each) for each in (cupy.matmul(x1, x2), tiledmm.matmul(x1, x2, variant="coalesced"))]
    slack = 2.0**-62 * k**0.5  # the reference's own rounding
    for found, factor, *theirs in zip(ours, PROMISE, *others, strict=True):
        assert found <= factor * max(theirs) + slack, f"{kind} {k}: {ours}, cuBLAS and a chain {others}"


def test_special_values() -> None:
    for name, (left, right) in special_values(np.random.default_rng(266)).items():
        x1, x2 = to_device(left), to_device(right)
        expected = tiledmm.matmul(x1, x2, variant=OTHERWISE, tile=128)
        found = tiledmm.matmul(x1, x2, **NAMED)
        np.testing.assert_array_equal(to_host(found), to_host(expected), err_msg=name)


def test_small_and_large_numbers() -> None:
    rng = np.random.default_rng(267)
    a, b = rng.standard_normal((90, 300)), rng.standard_normal((300, 70))
    for left, right in ((-1050, 0), (-1060, -1055), (-600, -470), (1010, -900), (1020, -1010), (400, 450)):
        x1, x2 = a * 2.0**left, b * 2.0**right
        found = tiledmm.matmul(to_device(x1), to_device(x2), **NAMED)
        np.testing.assert_array_equal(to_host(found), model.product(x1, x2), err_msg=f"2^{left} 2^{right}")


def test_other_types_in_and_out() -> None:
    rng = np.random.default_rng(268)
    left, right = integers(rng, 100, 300), integers(rng, 300, 50)
    keywords = {"dtype": "float64", "casting": "unsafe", **NAMED}
    x1, x2 = to_device(left.astype("f4")), to_device(right.astype("i2"))
    check_into(exact_product(left, right), plain(2), x1, x2, "mixed", **keywords)
    check_into((left @ right).astype("f4"), plain(2), x1, x2, "float32", **keywords)


def test_captured_in_a_graph() -> None:
    rng = np.random.default_rng(269)
    left, right = integers(rng, 300, 200), integers(rng, 200, 100)
    x1, x2, out = to_device(left), to_device(right), cupy.zeros((300, 100))
    tiledmm.matmul(x1, x2, out=out, **NAMED)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        tiledmm.matmul(x1, x2, out=out, **NAMED)
        graph = stream.end_capture()
        for _ in range(3):
            out.fill(np.nan)
            graph.launch()
            stream.synchronize()
            np.testing.assert_array_equal(to_host(out), left @ right)


def test_resources() -> None:
    for dtype, (variant, tile), layout in itertools.product(("float64", "complex128"), TILES, ("NN", "TT", "GG")):
        for each in required_kernels(kernel_spec(variant, dtype=dtype, tile=tile, layout=layout)):
            kernel = compiled(each)
            assert kernel.shared_bytes == each.shared_bytes
            assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"
