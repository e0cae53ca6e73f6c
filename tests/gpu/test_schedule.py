"""Tests of auxiliary kernels: packing, decomposition, split-K partitions, and the scratch memory between them."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device
from tests.strategies import any_bits, np_dtype, plain, small_integers
from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS
from tiledmm.kernels.variants import general_variants, kernel_variants
from tiledmm.launch.plan import Plan
from tiledmm.selection import model

#: Variants that stage C in shared memory.
WITH_WARPS = ("warp_tiled", "thin")


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind in "iub":
        return any_bits(rng, shape, dtype)
    return small_integers(rng, shape, dtype, 1)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("variant", [row.name for row in general_variants()])
def test_slices_are_exact(variant: str, dtype: str) -> None:
    rng = np.random.default_rng(70)
    for (m, n, k), slices, layout in (
        ((67, 70, 200), 2, "NN"),
        ((67, 70, 200), 7, "NT"),
        ((5, 131, 1000), 32, "TN"),
        ((132, 3, 97), 4, "TT"),
        ((33, 34, 161), 3, "GG"),
        ((33, 34, 5), 8, "NN"),
    ):
        left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        what = f"{variant} {dtype} {layout} {m}x{n}x{k} in {slices}"
        config = {"split_k": slices}
        check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, variant=variant, config=config)


@pytest.mark.parametrize("group", [1, 2, 3, 100])
@pytest.mark.parametrize(("variant", "tile"), [("warp_tiled", 32), ("warp_tiled", 256), ("thin", 8)])
def test_blocks_in_groups_cover_c(variant: str, tile: int, group: int) -> None:
    rng = np.random.default_rng(79)
    left, right = small_integers(rng, (3, 300, 33), "f4"), small_integers(rng, (33, 1100), "f4")
    config = {"group": group, "split_k": 2}
    keywords: dict[str, Any] = {"variant": variant, "tile": tile, "config": config}
    check_into(left @ right, plain(3), to_device(left), to_device(right), f"{variant} {tile} {config}", **keywords)


@pytest.mark.parametrize("letter", ["N", "T"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("tile", [4, 8, 16])
def test_tiles_of_a_batch_share_blocks(tile: int, dtype: str, letter: str) -> None:
    rng = np.random.default_rng(80)
    batches: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((1001,), (1001,)), ((5, 1, 30), (2, 1)), ((), (77,))]
    for size in range(1, 18):
        batch_a, batch_b = batches[size % 3]
        m, n, k = size, (size * 7) % 17 + 1, (size * 5) % 18
        left = small_integers(rng, (*batch_a, m, k), dtype, 1)
        right = small_integers(rng, (*batch_b, k, n), dtype, 1)
        x1, x2 = to_device(left), to_device(right)
        if letter == "T":
            x2 = cupy.ascontiguousarray(x2.swapaxes(-1, -2)).swapaxes(-1, -2)
        result = tiledmm.matmul(x1, x2, variant="tiny", tile=tile)
        np.testing.assert_array_equal(result.get(), left @ right, f"{batch_a} {batch_b} {m}x{n}x{k}")


@pytest.mark.parametrize("slices", [2, 3, 4])
def test_tiles_of_several_slices_meet_at_the_barriers_of_a_warp(slices: int) -> None:
    rng = np.random.default_rng(81)
    for k in (33, 70, 129):
        left, right = small_integers(rng, (3, 5, k), "f4"), small_integers(rng, (k, 9), "f4")
        keywords: dict[str, Any] = {"variant": "tiny", "tile": 8, "config": {"split_k": slices}}
        check_into(left @ right, plain(3), to_device(left), to_device(right), f"k {k} in {slices}", **keywords)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
@pytest.mark.parametrize(
    ("variant", "tile"),
    [(row.name, tile) for row in general_variants() if row.name in WITH_WARPS for tile in row.tiles],
)
def test_rows_of_c_that_are_not_aligned(variant: str, tile: int, dtype: str) -> None:
    """Check unaligned rows of C, staged in the shared memory of tiles whose loads may be in flight for short K."""
    rng = np.random.default_rng(84)
    for m, n, k in ((9, 131, 0), (9, 131, 1), (40, 257, 5), (130, 131, 9), (9, 1031, 40), (257, 259, 300)):
        left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
        what = f"{variant} {tile} {dtype} {m}x{n}x{k}"
        keywords: dict[str, Any] = {"variant": variant, "tile": tile}
        x1, x2 = to_device(left), to_device(right)
        for _ in range(3):
            check_into(exact_product(left, right), plain(2), x1, x2, what, **keywords)


PACKED = ({"pack_b": 1}, {"pack_a": 1}, {"pack_a": 1, "pack_b": 1, "split_k": 3})


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize(("variant", "tile"), [("warp_tiled", 128), ("dot_products", 4), ("tiled", 16)])
def test_packed_operands_are_exact(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(76)
    for (m, n, k), layout in (((67, 71, 35), "NN"), ((40, 33, 129), "TT"), ((5, 131, 97), "GG"), ((9, 3, 1), "NT")):
        left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        for config in PACKED:
            what = f"{variant} {dtype} {layout} {m}x{n}x{k} {config}"
            keywords: dict[str, Any] = {"variant": variant, "tile": tile, "config": config}
            check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, **keywords)


@pytest.mark.parametrize("dtype", PACKED_ELEMENTS)
@pytest.mark.parametrize(("variant", "tile"), [("warp_tiled", 64), ("warp_tiled", 256), ("thin", 16)])
def test_words_are_exact(variant: str, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(77)
    for (m, n, k), layout, slices in (
        ((67, 71, 35), "NN", 1),
        ((40, 33, 129), "TT", 1),
        ((5, 131, 4097), "GG", 3),
        ((130, 70, 31), "NT", 1),
        ((9, 300, 2), "TN", 1),
    ):
        left, right = (any_bits(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
        if dtype == "bool":
            left, right = left & any_bits(rng, (m, k), left.dtype), right & (rng.random((k, n)) < 0.1)
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        what = f"{variant} {dtype} {layout} {m}x{n}x{k}"
        config = {"pack_elements": 1, "split_k": slices}
        keywords: dict[str, Any] = {"variant": variant, "tile": tile, "config": config}
        check_into(exact_product(left, right), matrix_layout("N"), x1, x2, what, **keywords)


def test_what_is_broadcast_is_packed_once_and_read_by_all() -> None:
    rng = np.random.default_rng(78)
    left, right = small_integers(rng, (2, 1, 3, 20, 33), "f4"), small_integers(rng, (4, 1, 33, 9), "f4")
    config = {"pack_a": 1, "pack_b": 1}
    result = tiledmm.matmul(to_device(left), to_device(right), variant="warp_tiled", tile=64, config=config)
    np.testing.assert_array_equal(result.get(), left @ right)
    left, right = any_bits(rng, (3, 20, 33), np.dtype("i1")), any_bits(rng, (33, 9), np.dtype("i1"))
    config = {"pack_elements": 1}
    result = tiledmm.matmul(to_device(left), to_device(right), variant="warp_tiled", tile=64, config=config)
    np.testing.assert_array_equal(result.get(), left @ right)


@pytest.mark.parametrize("letter", ["N", "T", "G"])
def test_batches_and_results_of_every_layout(letter: str) -> None:
    rng = np.random.default_rng(71)
    left, right = small_integers(rng, (2, 1, 3, 20, 100), "f4"), small_integers(rng, (4, 1, 100, 9), "f4")
    result = tiledmm.matmul(to_device(left), to_device(right), variant="warp_tiled", tile=64, config={"split_k": 3})
    np.testing.assert_array_equal(result.get(), left @ right)
    left, right = left[0, 0, 0], right[0, 0]
    what = f"into {letter}"
    keywords: dict[str, Any] = {"variant": "tiled", "tile": 8, "config": {"split_k": 3}}
    check_into(exact_product(left, right), matrix_layout(letter), to_device(left), to_device(right), what, **keywords)


def test_batch_dimensions_that_no_kernel_holds() -> None:
    rng = np.random.default_rng(72)
    x = to_device(small_integers(rng, (2, 3, 2, 3, 2, 3, 5, 70), "f4"))
    x1, x2 = x[::-1, :, ::-1, :, ::-1, :], x[:, :1, :, :1, :, :1].swapaxes(-1, -2)
    result = tiledmm.matmul(x1, x2, variant="tiled", tile=8, config={"split_k": 2})
    np.testing.assert_array_equal(result.get(), x1.get() @ x2.get())


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_the_same_bits_every_time(dtype: str) -> None:
    rng = np.random.default_rng(73)
    x1, x2 = (to_device(rng.standard_normal(shape).astype(dtype)) for shape in ((100, 5000), (5000, 90)))
    first = tiledmm.matmul(x1, x2)
    config = tiledmm.explain(x1, x2).choices[0].spec.config
    assert config.launch.split_k * config.cluster_k > 1
    for _ in range(20):
        assert (tiledmm.matmul(x1, x2) == first).all()


def test_subnormals_are_added_too() -> None:
    x2 = to_device(np.full((64, 4), 0.5, np.float32))
    for value in (1e-39, 1e-42):  # the sums of slices are normal numbers, and subnormal ones
        x1 = to_device(np.full((4, 64), value, np.float32))
        result = tiledmm.matmul(x1, x2, variant="tiled", tile=8, config={"split_k": 2})
        np.testing.assert_array_equal(result.get(), np.float32(value) * np.float32(32))


def test_a_captured_graph_has_a_workspace_of_its_own() -> None:
    rng = np.random.default_rng(74)
    left, right = small_integers(rng, (64, 4096), "f4"), small_integers(rng, (4096, 64), "f4")
    x1, x2, out = to_device(left), to_device(right), cupy.full((64, 64), np.nan, np.float32)
    tiledmm.precompile(layouts=["NN"])
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        tiledmm.matmul(x1, x2, out=out)
        graph = stream.end_capture()
    for _ in range(5):
        # What the pool would have handed out is used by somebody else meanwhile.
        others = [cupy.full(size, np.nan, np.float32) for size in (1 << 14, 1 << 16, 1 << 18, 1 << 20)]
        out.fill(np.nan)
        cupy.cuda.runtime.deviceSynchronize()
        graph.launch(stream)
        for other in others:
            other.fill(np.nan)
        stream.synchronize()
        np.testing.assert_array_equal(out.get(), left @ right)


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_auto_with_one_array_and_its_transpose(dtype: str) -> None:
    rng = np.random.default_rng(83)
    values = operand(rng, (2, 333, 65), np_dtype(dtype))
    x = to_device(values, plain(3))
    for x1, x2, left, right in (
        (x, x.swapaxes(1, 2), values, values.swapaxes(1, 2)), (x.swapaxes(1, 2), x, values.swapaxes(1, 2), values),
        (x, to_device(values.swapaxes(1, 2)), values, values.swapaxes(1, 2)),
    ):  # fmt: skip
        check_into(exact_product(left, right), plain(3), x1, x2, dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "complex128"])
def test_c_in_parts(monkeypatch: pytest.MonkeyPatch, dtype: str, layout: str, order: str) -> None:
    # As if it were worth it for small products.
    monkeypatch.setattr(model, "_WORTH_CUTTING", 0.0)
    monkeypatch.setattr(model, "_LEFT_AFTER_CUTTING", 1000.0)
    rng = np.random.default_rng(80)
    left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((2, 133, 50), (50, 290)))
    x1 = to_device(left, plain(3)) if layout[0] == "N" else to_device(left.swapaxes(1, 2)).swapaxes(1, 2)
    x2 = to_device(right, matrix_layout(layout[1]))
    choices = [each for each in tiledmm.explain(x1, x2, order=order).choices if each.others]
    assert choices
    for choice in choices:
        out = cupy.full((2, 133, 290), 77, np_dtype(dtype), order=order)
        Plan(choice).run(x1, x2, out)
        np.testing.assert_array_equal(out.get(), exact_product(left, right), err_msg=str(choice))


@pytest.mark.parametrize(
    ("dtype", "bytes_"), [("float32", 4), ("complex64", 12), ("float64", 15), ("complex128", 45), ("int32", 4)]
)
def test_parts_that_share_a_workspace(monkeypatch: pytest.MonkeyPatch, dtype: str, bytes_: int) -> None:
    """Check parts of C on a busy stream, where the host is far ahead and each launch begins as early as it may."""
    for module in ("choice", "model"):  # as if small operands were large
        monkeypatch.setattr(f"tiledmm.selection.{module}.MOST_APART", 0)
    for row in kernel_variants():
        monkeypatch.setattr(type(row.operands), "most_bytes", 700 * 1100 * bytes_)
    rng = np.random.default_rng(84)
    left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((1100, 700), (700, 1300)))
    x1, x2, busy = to_device(left), to_device(right), cupy.ones((4096, 4096), np.float32)
    choices = [each for each in tiledmm.explain(x1, x2).choices if each.shares_workspace and len(each.parts) > 3]
    if not choices:
        pytest.skip("this device has no kernel that decomposes this type, or none with a rate")
    expected = exact_product(left, right)
    for each in choices:
        plan = Plan(each)
        assert plan.scratch_bytes == each.workspace
        outs = [cupy.full(expected.shape, np.nan if np_dtype(dtype).kind in "fc" else 77, dtype) for _ in range(5)]
        plan.run(x1, x2, outs[0])  # compiles
        cupy.cuda.runtime.deviceSynchronize()
        tiledmm.matmul(busy, busy, variant="warp_tiled")
        for out in outs:
            plan.run(x1, x2, out)
        for out in outs:
            np.testing.assert_array_equal(out.get(), expected, err_msg=str(each))


def test_auto_takes_parts_where_tiles_stick_out() -> None:
    rng = np.random.default_rng(81)
    left, right = small_integers(rng, (1025, 1025), "c16"), small_integers(rng, (1025, 1025), "c16")
    x1, x2 = to_device(left), to_device(right)
    assert tiledmm.explain(x1, x2).choices[0].others
    check_into(left @ right, plain(2), x1, x2, "in parts")


def test_plain_batches_are_right_with_auto() -> None:
    rng = np.random.default_rng(75)
    left, right = small_integers(rng, (3, 40, 3000), "f4"), small_integers(rng, (3, 3000, 50), "f4")
    check_into(left @ right, plain(3), to_device(left), to_device(right), "batch of 3")
