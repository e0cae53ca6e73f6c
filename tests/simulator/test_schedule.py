"""Tests of auxiliary kernels on the simulator: right results, and no finding in any launch."""

from __future__ import annotations

import numpy as np
import pytest

import tiledmm
from tests.conftest import full_unless, slow_unless
from tests.strategies import any_bits, np_dtype, small_integers
from tiledmm import simulator
from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS
from tiledmm.errors import ConfigError
from tiledmm.kernels import launches
from tiledmm.kernels.variants import find_variant, general_variants
from tiledmm.problem.product import Product
from tiledmm.selection import model
from tiledmm.selection.choice import Choice
from tiledmm.simulated import product

#: Variants that stage C in shared memory.
WITH_WARPS = ("warp_tiled", "thin")

CASES = [
    ("tiled", 8, {"split_k": 3}),
    ("warp_tiled", 64, {"split_k": 20, "pack_b": 1}),
    ("dot_products", 8, {"pack_a": 1, "split_k": 2}),
    ("axpy", 4, {"pack_b": 1, "split_k": 3}),
    ("thin", 8, {"pack_a": 1, "pack_b": 1}),
    ("tiny", 8, {"pack_b": 1, "split_k": 3}),
]


def operands(rng: np.random.Generator, dtype: str, layout: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    kind = np_dtype(dtype)
    made = []
    for shape, letter in (((2, 33, k), layout[0]), ((k, 38), layout[1])):
        x = any_bits(rng, shape, kind) if kind.kind in "iub" else small_integers(rng, shape, kind, 1)
        made.append(x if letter == "N" else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2))
    return made[0], made[1]


def expected(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    if x1.dtype.kind in "iub":
        return np.matmul(x1, x2)
    wide = np.complex128 if x1.dtype.kind == "c" else np.float64
    return np.matmul(x1.astype(wide), x2.astype(wide)).astype(x1.dtype)


@pytest.mark.parametrize(
    ("variant", "tile", "config", "dtype"),
    [
        pytest.param(*case, dtype, marks=full_unless((i + j) % 2 == 0) + slow_unless((i + j) % 12 == 0))
        for i, case in enumerate(CASES)
        for j, dtype in enumerate(ELEMENTS)
    ],
)
def test_every_launch_is_right(variant: str, tile: int, config: dict[str, int], dtype: str) -> None:
    layout = ("NN", "TT", "NT", "TN")[list(ELEMENTS).index(dtype) % 4]
    x1, x2 = operands(np.random.default_rng(0), dtype, layout, 100)
    np.testing.assert_array_equal(simulator.matmul(x1, x2, variant=variant, tile=tile, config=config), expected(x1, x2))


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        pytest.param(dtype, layout, marks=slow_unless((i + j) % 4 == 0 and dtype == "int8"))
        for i, dtype in enumerate(PACKED_ELEMENTS)
        for j, layout in enumerate(("NN", "NT", "TN", "TT"))
    ],
)
def test_words(dtype: str, layout: str) -> None:
    for k, slices in ((131, 1), (1, 1), (200, 3)):
        x1, x2 = operands(np.random.default_rng(1), dtype, layout, k)
        if dtype == "bool":
            x1 &= np.random.default_rng(2).random(x1.shape) < 2 / k
        config = {"pack_elements": 1, "split_k": slices}
        result = simulator.matmul(x1, x2, variant="warp_tiled", tile=64, config=config)
        np.testing.assert_array_equal(result, expected(x1, x2))


@pytest.mark.parametrize("group", [1, 2, 3, 100])
def test_blocks_in_groups_cover_c(group: int) -> None:
    x1, x2 = operands(np.random.default_rng(4), "float32", "NN", 70)
    x2 = x2.repeat(4, axis=-1)
    config = {"group": group, "split_k": 2}
    np.testing.assert_array_equal(
        simulator.matmul(x1, x2, variant="warp_tiled", tile=32, config=config), expected(x1, x2)
    )


@pytest.mark.parametrize(
    ("variant", "tile", "config"),
    [
        pytest.param("tiled", 8, {"split_k": 3}, marks=pytest.mark.slow),
        pytest.param("tiny", 8, {}, marks=pytest.mark.slow),
        ("warp_tiled", 32, {"group": 2, "pack_b": 1}),
        pytest.param("warp_tiled", 64, {"pack_elements": 1}, marks=pytest.mark.slow),
    ],
)
def test_more_tiles_than_a_launch_numbers(
    variant: str, tile: int, config: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, kind = np.random.default_rng(8), np.dtype("int8" if "pack_elements" in config else "f4")
    for batch, m, n in (((), 20, 70), ((2, 2), 17, 20)):
        x1, x2 = small_integers(rng, (*batch, m, 37), kind), small_integers(rng, (*batch[1:], 37, n), kind)
        for most in (1, 5):
            monkeypatch.setattr(launches, "MOST_TILES", most)
            result = simulator.matmul(x1, x2, variant=variant, tile=tile, config=config)
            np.testing.assert_array_equal(result, expected(x1, x2))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        pytest.param(dtype, size, marks=full_unless((i + j) % 5 in (0, 2)) + slow_unless((i + j) % 5 == 0 and i == 4))
        for i, dtype in enumerate(ELEMENTS)
        for j, size in enumerate((1, 31, 64, 70, 100))
    ],
)
def test_half_the_work_where_c_is_symmetric(dtype: str, size: int) -> None:
    rng = np.random.default_rng(6)
    kind = np_dtype(dtype)
    shape = (2, size, 37)
    x = any_bits(rng, shape, kind) if kind.kind in "iub" else small_integers(rng, shape, kind, 1)
    columns = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    for x1, numbers in ((x, {}), (columns, {"split_k": 2}), (x[:, :, ::-1], {"pack_b": 1}), (x[:1], {})):
        x2 = x1.swapaxes(1, 2)
        config = {"triangle": 1, **numbers}
        result, report = simulator.run(x1, x2, variant="warp_tiled", tile=32, config=config, counts=False)
        np.testing.assert_array_equal(result, expected(x1, x2))
        across = -(-size // 32)
        assert report.grid[0] == across * (across + 1) // 2 * len(x1) * numbers.get("split_k", 1)


def test_what_auto_takes_for_one_array_and_its_transpose() -> None:
    x = np.zeros((800, 600), "f4")
    for x1, x2, half in (
        (x, x.T, True), (x.T, x, True), (x, x.T.copy(), False), (x[:, 1:], x[:, :-1].T, False),
        (x, x[:600, :].T, False),
    ):  # fmt: skip
        chosen = tiledmm.explain(x1, x2, precision="ieee").choices[0].spec
        assert bool(chosen.config.triangle) == half, str(chosen)
    x = x[:5]
    with pytest.raises(ConfigError, match="triangle"):
        simulator.matmul(x, x.T.copy(), variant="warp_tiled", tile=64, config={"triangle": 1})


@pytest.mark.parametrize(
    ("dtype", "layout", "order"),
    [
        pytest.param(
            dtype,
            layout,
            order,
            marks=full_unless((i + j // 2 + j + (order == "F")) % 2 == 0) + slow_unless((i, j) == (0, 1)),
        )
        for i, dtype in enumerate(("float32", "float16", "int8", "complex128"))
        for j, layout in enumerate(("NN", "NT", "TN", "TT"))
        for order in "CF"
    ],
)
def test_c_in_parts(monkeypatch: pytest.MonkeyPatch, dtype: str, layout: str, order: str) -> None:
    # As if it were worth it for products that can be simulated.
    monkeypatch.setattr(model, "_WORTH_CUTTING", 0.0)
    monkeypatch.setattr(model, "_LEFT_AFTER_CUTTING", 1000.0)
    monkeypatch.setattr(
        product, "choose", lambda call, kernel, models, tuned: in_parts(call.multiplied)[kernel.variant]
    )
    x1, x2 = operands(np.random.default_rng(5), dtype, layout, 20)
    x1, x2 = x1.repeat(5, axis=-2)[:, :133], x2.repeat(4, axis=-1)
    kernels = in_parts(tiledmm.explain(x1, x2, order=order).product)
    assert len(kernels) > 1
    for name in kernels:
        np.testing.assert_array_equal(simulator.matmul(x1, x2, order=order, variant=name), expected(x1, x2))


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "k"),
    [
        pytest.param(
            row.name, tile, dtype, k, marks=full_unless((h + i + j) % 2 == 0) + slow_unless((h + i + j) % 12 == 0)
        )
        for row in general_variants()
        if row.name in WITH_WARPS
        for h, tile in enumerate(row.tiles)
        for i, dtype in enumerate(("float32", "float64", "int8"))
        for j, k in enumerate((0, 1, 5, 9, 40))
    ],
)
def test_rows_of_c_that_are_not_aligned(variant: str, tile: int, dtype: str, k: int) -> None:
    """Check unaligned rows of C, staged in the shared memory of tiles whose loads may be in flight for short K."""
    rng = np.random.default_rng(8)
    x1, x2 = (small_integers(rng, shape, dtype, 1) for shape in ((9, k), (k, 131)))
    result, report = simulator.run(x1, x2, variant=variant, tile=tile, counts=False)
    np.testing.assert_array_equal(result, expected(x1, x2))
    report.check()


def in_parts(product: Product) -> dict[str, Choice]:
    """Return the choices that split a product in parts, from kernels that can be simulated."""
    simulated = model.Model(model.H100.gpu, model.H100.rates.only(lambda name: find_variant(name).simulated))
    return {str(choice): choice for choice in simulated.rank(product) if choice.others}


@pytest.mark.parametrize("tile", [4, 8, 16])
def test_tiles_of_a_batch_share_blocks(tile: int) -> None:
    rng = np.random.default_rng(5)
    batches: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((37,), (37,)), ((5, 1, 3), (2, 1)), ((), (33,))]
    for size in (1, 3, 8, 9, 16, 17):
        batch_a, batch_b = batches[size % 3]
        m, n, k = size, (size * 7) % 17 + 1, (size * 5) % 18
        x1 = small_integers(rng, (*batch_a, m, k), np.dtype("f4"), 1)
        x2 = small_integers(rng, (*batch_b, n, k), np.dtype("f4"), 1).swapaxes(-1, -2)
        x2 = x2 if size % 2 else np.ascontiguousarray(x2)
        np.testing.assert_array_equal(simulator.matmul(x1, x2, variant="tiny", tile=tile), expected(x1, x2))


@pytest.mark.parametrize("numbers", [{}, {"tiles_per_block": 4}, {"bk": 32, "unroll": 4}, {"tm": 1, "tn": 4}])
def test_tiles_of_several_slices_meet_at_the_barriers_of_a_warp(numbers: dict[str, int]) -> None:
    rng = np.random.default_rng(6)
    for k, slices in ((33, 2), (129, 4), (20, 2)):
        x1, x2 = small_integers(rng, (3, 5, k), np.dtype("f4"), 1), small_integers(rng, (k, 9), np.dtype("f4"), 1)
        config = {"split_k": slices, **numbers}
        result = simulator.matmul(x1, x2, variant="tiny", tile=8, config=config)
        np.testing.assert_array_equal(result, expected(x1, x2))


@pytest.mark.parametrize(
    ("tile", "conflicts", "layout"),
    [
        pytest.param(tile, conflicts, layout, marks=slow_unless((i + j) % 2 == 0))
        for i, (tile, conflicts) in enumerate([(4, None), (8, 0), (16, 0)])
        for j, layout in enumerate(["NN", "NT", "TN", "TT"])
    ],
)
def test_a_batch_of_small_products_is_read_once(tile: int, conflicts: int | None, layout: str) -> None:
    rng = np.random.default_rng(7)
    x1, x2 = (
        x if letter == "N" else np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        for x, letter in zip(rng.standard_normal((2, 64, tile, tile), dtype=np.float32), layout, strict=True)
    )
    _, report = simulator.run(x1, x2, variant="tiny", tile=tile)
    report.check()
    sectors = x1.nbytes // 32
    assert (report.source.global_load.sectors, report.source.global_store.sectors) == (2 * sectors, sectors)
    if conflicts is not None:
        assert report.source.shared_load.bank_conflicts == report.source.shared_store.bank_conflicts == conflicts


def test_what_is_counted_is_the_kernel_that_multiplies() -> None:
    x1, x2 = operands(np.random.default_rng(3), "float32", "NN", 100)
    _, plain = simulator.run(x1[0], x2, variant="tiled", tile=8)
    _, packed = simulator.run(x1[0], x2, variant="tiled", tile=8, config={"pack_b": 1, "split_k": 2})
    assert packed.symbol == plain.symbol
    assert packed.grid == (2 * plain.grid[0], 1, 1)
    assert packed.flops == plain.flops
