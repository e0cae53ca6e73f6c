"""Benchmarks of every variant and ``cupy.matmul``, one table per size and type: ``pytest benchmarks/``.

Times are device times. Every kernel is compiled and its result checked before it is timed.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

from benchmarks.support.device_timer import device_timer
from tiledmm.bench.results import BASELINE, Comparison
from tiledmm.bench.sizes import parse_size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.elements import element
from tiledmm.kernels.variants import find_variant

pytest.importorskip("pytest_benchmark")


@functools.lru_cache(maxsize=1)
def operands(size: str, dtype: str, layout: str) -> Any:
    from tiledmm.bench.operand_sets import operand_sets

    return operand_sets(parse_size(size), dtype, layout)


@pytest.mark.benchmark(timer=device_timer)
def test_matmul(
    request: pytest.FixtureRequest, comparison: Comparison, size: str, dtype: str, layout: str, rung: VariantTile
) -> None:
    if rung.variant != BASELINE and not find_variant(rung.variant).multiplies(element(dtype)):
        pytest.skip(f"{rung.variant} does not multiply {dtype}")
    row = comparison.row(*rung)
    if row.microseconds is None and rung.variant == BASELINE:
        pytest.skip(row.note)
    assert row.ok or rung.variant == BASELINE, row.note or f"wrong result: error {row.error}"

    import cupy

    import tiledmm
    from tiledmm.bench.timing import DeviceClock, plan

    sets = operands(size, dtype, layout)
    turn = itertools.cycle(sets)

    def call() -> None:
        a, b, c = next(turn)
        if rung.variant == BASELINE:
            cupy.matmul(a, b, out=c)
        else:
            tiledmm.matmul(a, b, out=c, variant=rung.variant, tile=rung.tile)

    seconds = row.microseconds * 1e-6
    calls, rounds = plan(seconds, request.config.getoption("seconds"), DeviceClock.max_calls)
    device_timer.hold_seconds = 1e-3 + calls * 40e-6
    benchmark = request.getfixturevalue("benchmark")
    benchmark.group = comparison.title
    benchmark.pedantic(call, rounds=rounds, iterations=calls, warmup_rounds=1)
    if benchmark.stats:
        flops = row.tflops * row.microseconds * 1e6  # per call
        benchmark.extra_info["tflops"] = flops / benchmark.stats.stats.median / 1e12
        benchmark.extra_info["times_as_fast_as_cupy"] = row.to_cupy
        benchmark.extra_info["max_error"] = row.error
