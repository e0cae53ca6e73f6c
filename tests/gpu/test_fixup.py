"""Split-K in one launch: exact and the same every time, on streams, in threads and in graphs at once.

A missing fence, or counters that two launches share, shows as partial sums that are NaN, or of another launch: so
scratch memory is poisoned, and what is multiplied changes from launch to launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import check_into, exact_product, matrix_layout, to_device
from tests.gpu.test_streams import CYCLES, SPIN, captured, in_threads
from tests.strategies import any_bits, np_dtype, small_integers
from tiledmm.elements import ELEMENTS
from tiledmm.launch import Plan
from tiledmm.problem.operands import describe, resolve
from tiledmm.registry.variants import find_variant, kernel_variants
from tiledmm.selection.select import select

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)
VARIANTS = [row.name for row in kernel_variants() if row.has_fixup]
TILES = [(name, tile) for name in VARIANTS for tile in find_variant(name).tiles]

#: Few tiles, and as many partitions as let blocks of a tile run on many SMs; and many tiles.
SHAPES = ((64, 64, 6000), (130, 70, 2000), (1000, 1030, 600))


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    return any_bits(rng, shape, dtype) if dtype.kind in "iub" else small_integers(rng, shape, dtype, 1)


def poison_pool(size: int) -> None:
    """Fills memory that CuPy's pool hands out next on the current stream, of this size or less, with NaNs."""
    blocks = [cupy.full(max(size >> shift, 512), 255, np.uint8) for shift in range(4)]
    del blocks


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_fixups_are_exact(variant: str, dtype: str) -> None:
    row = find_variant(variant)
    if not (row.multiplies(ELEMENTS[dtype]) and row.runs_on(CAPABILITY, ELEMENTS[dtype])):
        pytest.skip(f"{variant} does not multiply {dtype} here")
    rng = np.random.default_rng(170)
    for (m, n, k), partitions, layout in (
        ((67, 70, 400), 2, "NN"),
        ((67, 70, 900), 7, "NT"),
        ((5, 131, 5000), 32, "TN"),
        ((132, 3, 700), 4, "TT"),
        ((33, 34, 661), 3, "GG"),
        ((33, 34, 5), 8, "NN"),
    ):
        left, right = (operand(rng, shape, np_dtype(dtype)) for shape in ((m, k), (k, n)))
        x1, x2 = (to_device(x, matrix_layout(letter)) for x, letter in zip((left, right), layout, strict=True))
        what = f"{variant} {dtype} {layout} {m}x{n}x{k} in {partitions}"
        config = {"split_k": partitions, "fixup": 1}
        poison_pool(4 * m * n * partitions)
        for letter in "NTG":
            check_into(exact_product(left, right), matrix_layout(letter), x1, x2, what, variant=variant, config=config)


@pytest.mark.parametrize(("variant", "tile"), TILES)
def test_many_times_with_other_values_each_time(variant: str, tile: int) -> None:
    """C is multiplied by what changes, so that a sum of the launch before is wrong."""
    dtype = "float16" if variant == "tensor_core" else "float32"
    rng = np.random.default_rng(171)
    for (m, n, k), partitions in zip(SHAPES, (24, 5, 2), strict=True):
        left, right = operand(rng, (m, k), np.dtype(dtype)), operand(rng, (k, n), np.dtype(dtype))
        expected = to_device(exact_product(left, right, "float32"))
        x1, x2 = to_device(left), to_device(right)
        out, wrong = cupy.empty((m, n), np.float32), cupy.zeros((), np.int64)
        keywords: dict[str, Any] = {"variant": variant, "tile": tile, "config": {"split_k": partitions, "fixup": 1}}
        for sign in (1, -1) * 100:
            x1 *= -1
            out.fill(np.nan)
            tiledmm.matmul(x1, x2, out=out, dtype=dtype, casting="unsafe", **keywords)
            wrong += (out != -sign * expected).sum()
        assert int(wrong) == 0, f"{variant} {tile} {m}x{n}x{k} in {partitions}"


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("partitions", [3, 8, 40])
def test_the_same_bits_every_time(partitions: int, dtype: str) -> None:
    rng = np.random.default_rng(172)
    x1, x2 = (to_device(rng.standard_normal(shape).astype(dtype)) for shape in ((100, 5000), (5000, 90)))
    keywords: dict[str, Any] = {"variant": "warp_tiled", "tile": 32}
    first = tiledmm.matmul(x1, x2, config={"split_k": partitions, "fixup": 1}, **keywords)
    if partitions <= 8:  # the split-K reduction adds in the same order
        assert (tiledmm.matmul(x1, x2, config={"split_k": partitions}, **keywords) == first).all()
    for _ in range(50):
        assert (tiledmm.matmul(x1, x2, config={"split_k": partitions, "fixup": 1}, **keywords) == first).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_triangle(dtype: str) -> None:
    x = operand(np.random.default_rng(173), (2, 300, 700), np.dtype(dtype))
    on_device = to_device(x)
    config = {"triangle": 1, "split_k": 5, "fixup": 1}
    for _ in range(20):
        poison_pool(x.itemsize * 2 * 300 * 300 * 5)
        result = tiledmm.matmul(on_device, on_device.swapaxes(-1, -2), variant="warp_tiled", tile=64, config=config)
        np.testing.assert_array_equal(result.get(), exact_product(x, x.swapaxes(-1, -2)))


def test_batches_and_batch_dimensions_that_no_kernel_holds() -> None:
    rng = np.random.default_rng(174)
    x = to_device(small_integers(rng, (2, 3, 2, 3, 2, 3, 5, 70), "f4"))
    x1, x2 = x[::-1, :, ::-1, :, ::-1, :], x[:, :1, :, :1, :, :1].swapaxes(-1, -2)
    result = tiledmm.matmul(x1, x2, variant="tiled", tile=8, config={"split_k": 3, "fixup": 1})
    np.testing.assert_array_equal(result.get(), x1.get() @ x2.get())


# ---- streams, threads, graphs: all with one plan ----

KEYWORDS: dict[str, Any] = {"variant": "warp_tiled", "tile": 32, "config": {"split_k": 12, "fixup": 1}}
SIZES = (96, 100, 3000)


def prepared(seed: int) -> tuple[cupy.ndarray, cupy.ndarray, np.ndarray]:
    m, n, k = SIZES
    rng = np.random.default_rng(seed)
    left, right = operand(rng, (m, k), np.dtype("f4")), operand(rng, (k, n), np.dtype("f4"))
    return to_device(left), to_device(right), left @ right


def test_two_streams_at_once() -> None:
    """Blocks of both launches are on the GPU together: both streams are held back, and begin at the same time."""
    x1, x2, expected = zip(*(prepared(180 + i) for i in range(4)), strict=True)
    outs = [[cupy.full(SIZES[:2], np.nan, np.float32) for _ in range(30)] for _ in range(4)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    for i, stream in enumerate(streams):
        with stream:
            tiledmm.matmul(x1[i], x2[i], **KEYWORDS)  # compiled, and memory is there: nothing below waits for that
    cupy.cuda.runtime.deviceSynchronize()
    gate = cupy.cuda.Stream(non_blocking=True)
    with gate:
        SPIN((1,), (1,), (CYCLES,))
        opened = gate.record()
    for stream in streams:
        stream.wait_event(opened)
    for turn in range(30):
        for i, stream in enumerate(streams):
            with stream:
                tiledmm.matmul(x1[i], x2[i], out=outs[i][turn], **KEYWORDS)
    for i, stream in enumerate(streams):
        stream.synchronize()
        for out in outs[i]:
            np.testing.assert_array_equal(out.get(), expected[i])


def test_streams_that_come_and_go() -> None:
    """Some have the addresses of others that are gone. More of them than a plan keeps counters for."""
    x1, x2, expected = prepared(184)
    tiledmm.matmul(x1, x2, **KEYWORDS)
    cupy.cuda.runtime.deviceSynchronize()
    outs = []
    for _ in range(100):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            outs.append(cupy.full(SIZES[:2], np.nan, np.float32))
            tiledmm.matmul(x1, x2, out=outs[-1], **KEYWORDS)
            stream.synchronize()  # CuPy's pool gives its memory to the next stream of this address
    for out in outs:
        np.testing.assert_array_equal(out.get(), expected)


def in_stream(stream: Callable[[], cupy.cuda.Stream]) -> Callable[[int], None]:
    """What a thread does: products on its own stream, with the plan of all."""

    def work(number: int) -> None:
        x1, x2, expected = prepared(190 + number)
        cupy.cuda.runtime.deviceSynchronize()
        own = stream()
        with own:
            outs = [cupy.full(SIZES[:2], np.nan, np.float32) for _ in range(100)]
            for out in outs:
                tiledmm.matmul(x1, x2, out=out, **KEYWORDS)
            own.synchronize()
        for out in outs:
            np.testing.assert_array_equal(out.get(), expected)

    return work


@pytest.mark.parametrize(
    "stream",
    [
        lambda: cupy.cuda.Stream(non_blocking=True),
        lambda: cupy.cuda.Stream.ptds,  # the same address in each thread, and another stream
        lambda: cupy.cuda.Stream.null,
    ],
    ids=["own", "per-thread default", "default"],
)
def test_threads_with_one_plan(stream: Callable[[], cupy.cuda.Stream]) -> None:
    in_threads(4, in_stream(stream))


def test_a_captured_graph_that_is_launched_many_times() -> None:
    x1, x2, expected = prepared(185)
    out = cupy.full(SIZES[:2], np.nan, np.float32)
    tiledmm.matmul(x1, x2, **KEYWORDS)
    cupy.cuda.runtime.deviceSynchronize()
    stream, graph = captured(lambda: tiledmm.matmul(x1, x2, out=out, **KEYWORDS))
    other = cupy.cuda.Stream(non_blocking=True)
    for turn in range(40):
        out.fill(np.nan)
        with cupy.cuda.Stream(non_blocking=True) as beside:  # the same plan runs outside of the graph, too
            own = tiledmm.matmul(x1, x2, **KEYWORDS)
        cupy.cuda.Stream.null.synchronize()
        graph.launch((stream, other)[turn % 2])
        graph.launch((stream, other)[turn % 2])
        for each in (stream, other, beside):
            each.synchronize()
        np.testing.assert_array_equal(out.get(), expected)
        np.testing.assert_array_equal(own.get(), expected)


def test_counters_are_0_after_each_launch() -> None:
    x1, x2, _ = prepared(186)
    plan = Plan(select("warp_tiled", 32, resolve(describe(x1), describe(x2)), KEYWORDS["config"]))
    for _ in range(3):
        plan.run(x1, x2, None)
        (counters,) = plan._counters.values()
        memory = cupy.ndarray(plan.counter_bytes, np.uint8, counters)
        assert not memory.any()
