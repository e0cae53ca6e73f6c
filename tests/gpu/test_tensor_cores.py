"""Tests of tensor cores: exact where sums are, within the bound otherwise, and bit for bit as the simulator."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device, to_host
from tests.strategies import (
    INEXACT,
    asked,
    awkward_floats,
    beside_zeros,
    bound_of_sums,
    componentwise_error,
    multiplied,
    np_dtype,
    plain,
    random_matrix,
    small_integers,
    sums_type,
    tight,
)
from tiledmm import simulator
from tiledmm.elements import ELEMENTS, TF32, compute_element
from tiledmm.errors import UnsupportedTypeError
from tiledmm.kernels.variants import find_variant, kernel_variants

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
KERNELS = [
    (row.name, tile, dtype)
    for row in kernel_variants()
    if row.operands.reads_elements  # test_split_float32.py, test_split_integer.py, test_split_float64.py
    for tile in row.tiles
    for dtype, _ in row.types
    if row.runs_on(CAPABILITY, compute_element(dtype))
]
OF_FLOATS = [kernel for kernel in KERNELS if kernel[2] in (*INEXACT, "tf32")]  # integers wrap, and are exact
OF_TF32 = [kernel[:2] for kernel in KERNELS if kernel[2] == "tf32"]
SIMULATED = [kernel for kernel in OF_FLOATS if find_variant(kernel[0]).simulated]


@pytest.mark.skipif(CAPABILITY < (9, 0), reason="needs clusters")
@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("tile", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_clusters_that_share_k_of_wide_types(dtype: str, tile: int, blocks: int) -> None:
    rng = np.random.default_rng(91)
    for m, n, k in ((tile, 64, 256), (tile + 1, 63, 517), (3, 70, 1), (200, 9, 65)):
        left, right = (small_integers(rng, shape, np_dtype(dtype), bound=2) for shape in ((m, k), (k, n)))
        keywords: dict[str, Any] = {"variant": "tensor_core", "tile": tile, "config": {"cluster_k": blocks}}
        what = f"tensor_core {tile} {dtype} in clusters of {blocks} {m}x{n}x{k}"
        check_into(exact_product(left, right), matrix_layout("N"), to_device(left), to_device(right), what, **keywords)


@pytest.mark.parametrize("layout", ["".join(pair) for pair in itertools.product("NTG", repeat=2)])
@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_every_layout_and_edge(variant: str, tile: int, dtype: str, layout: str) -> None:
    rng = np.random.default_rng(90)
    for m, n, k in ((tile, tile, 64), (tile + 1, tile - 1, 65), (2, 3 * tile + 5, 7), (tile + 8, 9, 33)):
        left, right = (small_integers(rng, shape, np_dtype(dtype), bound=2) for shape in ((m, k), (k, n)))
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        what = f"{variant} {tile} {dtype} {layout} {m}x{n}x{k}"
        keywords = asked(dtype) | {"variant": variant, "tile": tile}
        check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, **keywords)


@pytest.mark.parametrize("numbers", [{}, {"split_k": 3}, {"pack_a": 1, "pack_b": 1}, {"group": 1}])
@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_batches_and_passes(variant: str, tile: int, dtype: str, numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(91)
    left, right = (small_integers(rng, shape, np_dtype(dtype), bound=1) for shape in ((3, 150, 333), (333, 140)))
    x1, x2 = to_device(left), to_device(right)
    keywords = asked(dtype) | {"variant": variant, "tile": tile, "config": numbers}
    check_into(exact_product(left, right), plain(3), x1, x2, variant, **keywords)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(("variant", "tile", "dtype"), [kernel for kernel in KERNELS if kernel[0] == "wgmma"])
def test_clusters_that_share_k(variant: str, tile: int, dtype: str, layout: str) -> None:
    rng = np.random.default_rng(94)
    left, right = (small_integers(rng, shape, np_dtype(dtype), bound=1) for shape in ((150, 509), (509, 140)))
    x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
    for partitions, letter in itertools.product((2, 4, 8), "NTG"):
        keywords = asked(dtype) | {"variant": variant, "tile": tile, "config": {"split_k": partitions}}
        check_into(exact_product(left, right), matrix_layout(letter), x1, x2, f"{partitions} {letter}", **keywords)


@pytest.mark.parametrize(("variant", "tile", "dtype"), [kernel for kernel in KERNELS if kernel[0] == "wgmma"])
def test_clusters_that_share_k_compute_several_tiles(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(95)
    left, right = (small_integers(rng, shape, np_dtype(dtype), bound=1) for shape in ((150, 20, 300), (300, 140)))
    x1, x2 = to_device(left), to_device(right)
    for partitions in (2, 4, 8):
        keywords = asked(dtype) | {"variant": variant, "tile": tile, "config": {"split_k": partitions}}
        check_into(exact_product(left, right), plain(3), x1, x2, f"{partitions}", **keywords)


@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_resources(variant: str, tile: int, dtype: str) -> None:
    for layout in ("NN", "NT", "TN", "TT", "GG"):
        kernel = tiledmm.kernel(variant, tile=tile, dtype=dtype, layout=layout)
        assert kernel.shared_bytes == kernel.spec.shared_bytes
        assert kernel.local_bytes == 0, f"{kernel.symbol} spills registers"


@pytest.mark.parametrize(("variant", "tile", "dtype"), OF_FLOATS)
def test_random_sums(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(92)
    left, right = (random_matrix(rng, shape, dtype) for shape in ((200, 1000), (1000, 170)))
    out = to_device(np.full((200, 170), np.nan, sums_type(dtype)))
    tiledmm.matmul(to_device(left), to_device(right), out=out, variant=variant, tile=tile, **asked(dtype))
    left, right = multiplied(left, dtype), multiplied(right, dtype)
    assert componentwise_error(to_host(out), left, right) < bound_of_sums(dtype, 1000)


@pytest.mark.parametrize(("variant", "tile", "dtype"), SIMULATED)
def test_the_simulator_has_the_same_bits(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(93)
    left, right = (random_matrix(rng, shape, dtype) for shape in ((40, 100), (100, 30)))
    out = to_device(np.full((40, 30), np.nan, sums_type(dtype)))
    tiledmm.matmul(to_device(left), to_device(right), out=out, variant=variant, tile=tile, **asked(dtype))
    expected = np.zeros((40, 30), sums_type(dtype))
    simulator.matmul(left, right, out=expected, variant=variant, tile=tile, **asked(dtype))
    np.testing.assert_array_equal(to_host(out), expected)


# ---- tf32: operands are rounded, and only if that was asked for ----


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG"])
@pytest.mark.parametrize(("variant", "tile"), OF_TF32)
def test_operands_are_rounded_to_tf32(variant: str, tile: int, layout: str) -> None:
    x = awkward_floats(np.random.default_rng(100), 2000)
    one = np.ones((1, 5), "f4")
    for a, b in ((x, one), (one.T, x.T)):
        pair = zip(beside_zeros(a, b), layout, strict=True)
        x1, x2 = (to_device(each, tight(letter)) for each, letter in pair)
        with np.errstate(invalid="ignore"):
            expected = multiplied(a, "tf32", variant) * multiplied(b, "tf32", variant)
        found = tiledmm.matmul(x1, x2, variant=variant, tile=tile, precision="tf32")
        np.testing.assert_array_equal(to_host(found), expected)


@pytest.mark.parametrize(("variant", "tile"), OF_TF32)
def test_tf32_of_other_operands_and_into_others(variant: str, tile: int) -> None:
    rng = np.random.default_rng(101)
    whole = small_integers(rng, (150, 70), np.dtype("f4"), bound=2)
    for a_dtype, b_dtype, out_dtype in (
        ("float16", "float32", "float32"), ("float32", "bool", "float64"), ("int8", "float16", "float16"),
        ("float64", "float64", "complex64"),
    ):  # fmt: skip
        left, right = whole.astype(a_dtype), abs(whole.T).astype(b_dtype)
        expected = exact_product(left.astype("f4"), right.astype("f4")).astype(out_dtype)
        keywords = {"dtype": "float32", "casting": "unsafe", "precision": "tf32", "variant": variant, "tile": tile}
        what = f"{a_dtype} @ {b_dtype} -> {out_dtype}"
        check_into(expected, matrix_layout("N"), to_device(left), to_device(right), what, **keywords)


@pytest.mark.skipif(not OF_TF32, reason="needs tf32")
def test_tf32_is_taken_where_it_was_asked_for_and_nowhere_else() -> None:
    rng = cupy.random.RandomState(102)
    a, b = rng.standard_normal((1500, 1200)).astype("f4"), rng.standard_normal((1200, 1400)).astype("f4")
    exact = cupy.matmul(a.astype("f8"), b.astype("f8"))

    def error(found: cupy.ndarray) -> float:
        return float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact))

    for variant, tile in OF_TF32:
        rounded = tiledmm.matmul(a, b, variant=variant, tile=tile, precision="tf32")
        assert 2.0**-13 < error(rounded) < 2.0**-11
        with pytest.raises(UnsupportedTypeError, match="precision='tf32'"):
            tiledmm.matmul(a, b, variant=variant, tile=tile)
    for precision in ("float32", "ieee", "bf16x9"):
        if precision != "bf16x9" or CAPABILITY == (9, 0):
            assert error(tiledmm.matmul(a, b, precision=precision)) < 2e-6
    chosen = tiledmm.explain(a, b, precision="tf32")
    tf32 = {part.spec.compute == TF32 for part in (chosen.tuned or chosen.choices[0]).parts}
    assert error(tiledmm.matmul(a, b, precision="tf32")) < (2.0**-11 if True in tf32 else 2e-6)
    named = tiledmm.matmul(a, b, variant="warp_tiled", precision="tf32")
    np.testing.assert_array_equal(named.get(), tiledmm.matmul(a, b, variant="warp_tiled").get())


# ---- TMA: operands that it cannot load in place, hundreds of tiles, stores of C ----

COPIED = pytest.mark.skipif(not find_variant("wgmma").runs_on(CAPABILITY, ELEMENTS["float16"]), reason="needs Hopper")


def halves(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return small_integers(rng, shape, np.dtype("f2"), bound=1)


@COPIED
@pytest.mark.parametrize("tile", find_variant("wgmma").tiles)
def test_operands_that_begin_anywhere(tile: int) -> None:
    rng = np.random.default_rng(94)
    left, right = halves(rng, 100, 80), halves(rng, 80, 96)
    for skip_a, skip_b in ((1, 0), (0, 1), (3, 5), (8, 8)):
        x1, x2 = (
            cupy.concatenate([cupy.zeros(skip, "f2"), to_device(x).ravel()])[skip:].reshape(x.shape)
            for x, skip in ((left, skip_a), (right, skip_b))
        )
        for _ in range(2):  # the second time by the plan that the first one made
            what = f"{tile}, {skip_a} and {skip_b} elements in"
            check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, variant="wgmma", tile=tile)


@COPIED
def test_operands_without_steps() -> None:
    rng = np.random.default_rng(95)
    row, matrix = halves(rng, 64), halves(rng, 64, 72)
    same = np.broadcast_to(row, (40, 64))
    x1 = cupy.broadcast_to(to_device(row), (40, 64))
    check_into(exact_product(same, matrix), matrix_layout("N"), x1, to_device(matrix), "rows", variant="wgmma")
    empty = tiledmm.matmul(to_device(matrix)[:, :0], to_device(row)[:0].reshape(0, 1), variant="wgmma")
    assert empty.shape == (64, 1)
    assert not empty.any()
    many = halves(rng, 2, 3, 2, 3, 16, 24)
    x1 = to_device(many).transpose(3, 0, 2, 1, 4, 5)[::2]  # batch dimensions that cannot be merged
    x2 = to_device(halves(rng, 24, 32))
    expected = exact_product(to_host(x1), to_host(x2))
    check_into(expected, plain(6), x1, x2, "batch", variant="wgmma", tile=64)


@COPIED
@pytest.mark.parametrize("numbers", [{}, {"cluster": 1, "bm": 128}, {"cluster": 2, "bm": 128}, {"stages": 2}])
def test_more_tiles_than_blocks(numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(96)
    left, right = halves(rng, 200, 260, 72), halves(rng, 72, 264)
    x1, x2 = to_device(left), to_device(right)
    check_into(exact_product(left, right), plain(3), x1, x2, str(numbers), variant="wgmma", tile=256, config=numbers)


@COPIED
@pytest.mark.parametrize("tile", find_variant("wgmma").tiles)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_wider_results(dtype: str, tile: int) -> None:
    rng = np.random.default_rng(97)
    left, right = halves(rng, 300, 100), halves(rng, 100, 272)
    for columns in (272, 271):  # rows of C that TMA stores, and others
        expected = exact_product(left, right[:, :columns]).astype(dtype)
        x1, x2 = to_device(left), to_device(right[:, :columns])
        check_into(expected, plain(2), x1, x2, dtype, variant="wgmma", tile=tile)


@COPIED
def test_a_result_over_an_operand() -> None:
    rng = np.random.default_rng(98)
    left, right = halves(rng, 128, 128), halves(rng, 128, 128)
    x1, x2 = to_device(left), to_device(right)
    assert tiledmm.matmul(x1, x2, out=x1, variant="wgmma") is x1
    np.testing.assert_array_equal(to_host(x1), exact_product(left, right))


@COPIED
def test_a_new_thread_and_a_captured_graph() -> None:
    rng = np.random.default_rng(99)
    left, right = halves(rng, 256, 128), halves(rng, 128, 256)
    expected = exact_product(left, right)
    tiledmm.matmul(to_device(left), to_device(right), variant="wgmma")  # plans
    x1, x2, out = to_device(left), to_device(right), cupy.full((256, 256), cupy.nan, "f2")
    cupy.cuda.runtime.deviceSynchronize()
    failed: list[Any] = []

    def multiply() -> None:
        try:
            tiledmm.matmul(x1, x2, out=out, variant="wgmma")
            cupy.cuda.runtime.deviceSynchronize()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    assert not failed
    np.testing.assert_array_equal(to_host(out), expected)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        tiledmm.matmul(x1, x2, out=out, variant="wgmma")
        graph = stream.end_capture()
        out.fill(0)
        graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(to_host(out), expected)
