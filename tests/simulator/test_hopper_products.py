"""Tests of this package's Hopper kernels on the simulator: persistent blocks, clusters, orders of threads, targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.strategies import asked, np_dtype, small_integers
from tiledmm import simulator
from tiledmm.kernels.variants import kernel_variants
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.simulated.product import simulate_product
from tiledmm.simulator.execute.settings import Settings

#: Variants that are compiled for Hopper alone, each with its types.
HOPPER = {row.name: tuple(dict(row.types)) for row in kernel_variants() if row.hopper.arch}

#: Those that compile fast enough for everyday tests.
QUICK = ("wgmma", "split_integer")


def operands(dtype: str, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, B and their product, of small integers, whose sums are exact."""
    rng, kind = np.random.default_rng(m + n + k), np_dtype(dtype)
    a, b = small_integers(rng, (m, k), kind, 3), small_integers(rng, (k, n), kind, 3)
    wide = np.complex128 if kind.kind == "c" else np.int64
    return a, b, (a.astype(wide) @ b.astype(wide)).astype(kind)


def run(a: np.ndarray, b: np.ndarray, kernel: KernelKeywords, **settings: Any) -> Any:
    done = simulate_product(a, b, None, UfuncKeywords(), kernel, Settings(counts=False, **settings))
    done.report.check()
    return done


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [
        pytest.param(variant, dtype, marks=slow_unless(not i and variant in QUICK))
        for variant, types in HOPPER.items()
        for i, dtype in enumerate(types)
    ],
)
def test_a_block_computes_several_tiles(variant: str, dtype: str) -> None:
    a, b, right = operands(dtype, 130, 70, 264)
    kernel = KernelKeywords(variant, 64, None, asked(dtype)["precision"])
    done = run(a, b, kernel, sms=1)
    assert done.report.grid == (1, 1, 1)
    np.testing.assert_array_equal(done.result, right)


@pytest.mark.parametrize(
    ("variant", "order", "seed"),
    [
        pytest.param(variant, order, seed, marks=slow_unless(i == seed == 0 and variant in QUICK))
        for variant in HOPPER
        for i, order in enumerate(("preemptive", "reverse", "random"))
        for seed in range(2)
    ],
)
def test_orders_of_threads(variant: str, order: str, seed: int) -> None:
    a, b, right = operands(HOPPER[variant][0], 70, 72, 264)
    done = run(a, b, KernelKeywords(variant, 64), order=order, seed=seed, sms=2)
    np.testing.assert_array_equal(done.result, right)


@pytest.mark.parametrize("n", [70, 132])  # rows of C that are aligned vectors, and rows that are not
@pytest.mark.parametrize(("order", "seed"), [("forward", 0), ("random", 1)])
def test_tf32_whose_first_operand_comes_from_registers(n: int, order: str, seed: int) -> None:
    a, b, _ = operands("float32", 66, n, 70)
    for k in (70, 68, 33):  # several stages, of which the last may be incomplete
        done = run(a[:, :k], b[:k], KernelKeywords("wgmma", 64, None, "tf32"), order=order, seed=seed, sms=2)
        np.testing.assert_array_equal(done.result, a[:, :k] @ b[:k])


@pytest.mark.parametrize(
    ("tile", "partitions", "k"),
    [(64, 2, 200), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((64, 4, 600), (256, 2, 300)))],
)
def test_clusters_that_add_up_parts_of_k(tile: int, partitions: int, k: int) -> None:
    a, b, right = operands("float16", 70, 136, k)
    done = run(a, b, KernelKeywords("wgmma", tile, {"split_k": partitions}), sms=partitions)
    assert done.report.grid == (partitions, 1, 1)
    np.testing.assert_array_equal(done.result, right)


@pytest.mark.parametrize("tile", [pytest.param(384, marks=pytest.mark.slow), 512])
def test_clusters_that_share_b(tile: int) -> None:
    a, b, right = operands("float16", 300, 264, 136)
    done = run(a, b, KernelKeywords("wgmma", tile))
    assert done.report.grid[0] % 2 == 0
    np.testing.assert_array_equal(done.result, right)


def test_operands_that_tma_cannot_read_in_place() -> None:
    a, b, right = operands("float16", 70, 64, 128)
    memory = np.empty(a.size + 1, np.float16)
    moved = memory[1:].reshape(a.shape)
    moved[...] = a
    for left in (a, moved, a[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(simulator.matmul(left, b, variant="wgmma", tile=64), right)


def test_targets() -> None:
    a, b, right = operands("float16", 40, 40, 64)
    for target in ("sm_90", "sm_90a"):
        for variant, tile in (("wgmma", 64), ("tiled", 16)):
            result = simulator.matmul(a, b, variant=variant, tile=tile, target=target)
            np.testing.assert_array_equal(result, right)
