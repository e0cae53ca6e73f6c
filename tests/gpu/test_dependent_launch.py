"""Tests of programmatic dependent launches on every kind of stream, in graphs, and of successive products."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import to_device
from tests.strategies import small_integers
from tiledmm.launch.devices import device_model
from tiledmm.launch.plan import Plan
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.selection.choose import select

PRODUCTS = [
    ("split_float32", "f4", {}, 4),
    ("split_float32", "c8", {}, 4),
    ("split_tensor_core", "f4", {"split_k": 3}, 5),
    ("split_integer", "i4", {}, 3),
    ("split_float64", "f8", {}, 5),
    ("split_float64_tensor_core", "c16", {}, 5),
    ("wgmma", "f2", {"pack_a": 1, "pack_b": 1, "split_k": 3}, 4),
    ("tensor_core", "f8", {"pack_b": 1, "split_k": 5}, 3),
    ("warp_tiled", "i1", {"pack_elements": 1, "split_k": 4}, 4),
    ("thin", "f4", {"split_k": 30}, 2),
    ("wgmma", "f2", {}, 1),
    ("wgmma", "f2", {"tile": 64, "split_k": 4}, 1),
    ("tensor_core", "f8", {"split_k": 3}, 2),
]
ROUNDS = 40


def planned(product: tuple[str, str, dict[str, int], int]) -> tuple[Plan, list[Any], list[np.ndarray]]:
    """Return a plan, ``ROUNDS`` pairs of operands, and their products."""
    variant, dtype, config, launches = product
    tile, config = config.get("tile"), {name: value for name, value in config.items() if name != "tile"}
    rng = np.random.default_rng(7)
    pairs = [(small_integers(rng, (260, 600), dtype), small_integers(rng, (600, 200), dtype)) for _ in range(ROUNDS)]
    try:
        choice = select(variant, tile, resolve(*map(describe, pairs[0])), config or None)
        plan = Plan(choice)
    except tiledmm.errors.UnsupportedTypeError as error:
        pytest.skip(str(error))
    assert len(plan.launches) == launches
    if device_model().gpu.arch.capability >= (9, 0):
        assert any(each.dependent for each in plan.launches)
        assert plan.launches[0].dependent == (choice.kernels[0].waits == "first")
    wide = np.float64 if np.dtype(dtype).kind == "f" else dtype
    return plan, [tuple(map(to_device, pair)) for pair in pairs], [
        (x.astype(wide) @ y.astype(wide)).astype(dtype) for x, y in pairs
    ]  # fmt: skip


@pytest.mark.parametrize("stream", ["null", "per-thread", "blocking", "non-blocking"])
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: f"{product[0]}-{product[1]}")
def test_one_product_after_the_other(product: tuple[str, str, dict[str, int], int], stream: str) -> None:
    """Check products that share workspace: a launch that did not wait would read missing data or another product's."""
    plan, pairs, expected = planned(product)
    outs = [cupy.full(expected[0].shape, 77, expected[0].dtype) for _ in pairs]
    cupy.cuda.runtime.deviceSynchronize()
    streams = {
        "null": lambda: cupy.cuda.Stream.null,
        "per-thread": lambda: cupy.cuda.Stream.ptds,
        "blocking": cupy.cuda.Stream,
        "non-blocking": lambda: cupy.cuda.Stream(non_blocking=True),
    }
    with streams[stream]():
        for (x1, x2), out in zip(pairs, outs, strict=True):
            plan.run(x1, x2, out)
            out += 1  # an ordinary launch, which the next product waits for in turn
        cupy.cuda.get_current_stream().synchronize()
    for out, right in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out.get(), right + np.asarray(1, right.dtype))


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: f"{product[0]}-{product[1]}")
def test_in_a_graph(product: tuple[str, str, dict[str, int], int]) -> None:
    plan, pairs, expected = planned(product)
    x1, x2 = (cupy.empty_like(each) for each in pairs[0])
    out = cupy.empty(expected[0].shape, expected[0].dtype)
    plan.run(x1, x2, out)  # compiled and loaded
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        plan.run(x1, x2, out)
        graph = stream.end_capture()
        for (left, right), result in zip(pairs[:10], expected, strict=False):
            cupy.copyto(x1, left)
            cupy.copyto(x2, right)
            graph.launch(stream)
            copied = out.copy()
            out.fill(88)
            stream.synchronize()
            np.testing.assert_array_equal(copied.get(), result)
