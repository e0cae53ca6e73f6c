"""Tests of parts of C that use one workspace in turn, because it would be too large for all at once.

Thresholds are lowered to kilobytes on a stand-in GPU. Needs CuPy, but no GPU.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import tiledmm
from tests.host_gpu import HostGpu, run_on_simulator
from tests.strategies import any_bits, small_integers, tight
from tiledmm import simulator
from tiledmm.kernels.operands.operand_scan import SCAN, SCAN_INIT
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.launch import plans, prepared
from tiledmm.launch.plan import Plan
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import UfuncKeywords
from tiledmm.problem.product import resolve
from tiledmm.selection import choice, model, parts
from tiledmm.selection.choice import Choice
from tiledmm.selection.model import H100, Model

pytestmark = pytest.mark.cupy

TYPES = ("float32", "complex64", "float64", "complex128", "int16", "int32", "uint32", "int64")

#: Model of an H100 that decomposes all types that it can.
DECOMPOSING = Model(H100.gpu, H100.rates.only(lambda name: not find_variant(name).operands.reads_elements))


def installed(gpu: HostGpu, folder: Any) -> Iterator[HostGpu]:
    with pytest.MonkeyPatch.context() as patch:
        gpu.install(patch, folder)
        patch.setitem(gpu._models, (gpu.gpu.name, False), DECOMPOSING)
        yield gpu


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostGpu]:
    yield from installed(HostGpu(), tmp_path_factory.mktemp("cache"))


@pytest.fixture
def h100(gpu: HostGpu, monkeypatch: pytest.MonkeyPatch) -> HostGpu:
    gpu.become("sm_90")
    everything_is_large(monkeypatch)
    return gpu


def everything_is_large(patch: pytest.MonkeyPatch) -> None:
    """Lower the thresholds, so that small parts share their workspace."""
    patch.setattr(choice, "MOST_APART", 0)
    patch.setattr(model, "MOST_APART", 0)
    patch.setattr(parts, "_GRID_TILE", 32)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the limit of decomposed operands, so that they exceed it ``times`` times."""

    def limit(x1: Any, x2: Any, times: float = 2.2) -> None:
        product = resolve(describe(x1), describe(x2))
        (name, *_) = {row.variant for row in DECOMPOSING.kernels_for(product.compute)}
        variant = find_variant(name)
        size = variant.operands.prepared_bytes(product.problem, variant.computes_in(product.compute))
        for row in kernel_variants():
            monkeypatch.setattr(type(row.operands), "most_bytes", int(size / times))
        plans.forget_plans()
        for each in (H100, DECOMPOSING):
            each._fastest.cache_clear()

    return limit


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, axis: int) -> np.ndarray:
    """Return integers whose sums are exact; floats are scaled by a power of two per 32 rows or columns of C."""
    if np.dtype(dtype).kind in "iu":
        return any_bits(rng, shape, np.dtype(dtype))
    powers = 2.0 ** (10 * ((np.arange(shape[axis]) // 32 * 5) % 7 - 3))
    return (small_integers(rng, shape, dtype) * (powers[:, None] if axis == -2 else powers)).astype(dtype)


def operands(
    gpu: HostGpu,
    dtype: str,
    left: tuple[int, ...] = (90, 260),
    right: tuple[int, ...] = (260, 130),
    layout: str = "NN",
) -> tuple[Any, Any, np.ndarray]:
    """Return both operands and their product."""
    rng = np.random.default_rng(sum(left))
    a, b = values(rng, left, dtype, -2), values(rng, right, dtype, -1)
    x1, x2 = (gpu.array(x, tight(letter, x.ndim - 2)) for x, letter in zip((a, b), layout, strict=True))
    wide = {"f": "f8", "c": "c16"}.get(a.dtype.kind, "u8")
    return x1, x2, np.matmul(a.astype(wide), b.astype(wide)).astype(dtype)


def planned(x1: Any, x2: Any, out: Any) -> Plan:
    found: Plan = plans.plan_of(x1, x2, out, tuple(UfuncKeywords()), ("auto", None, None, "full"))
    return found


def in_parts(x1: Any, x2: Any, out: Any) -> list[Choice]:
    """Return a kernel of each variant that computes C in a grid of parts."""
    ranked = DECOMPOSING.alone(resolve(describe(x1), describe(x2), describe(out)))
    found = {each.spec.variant.name: each for each in ranked if each.others}
    assert found
    return list(found.values())


def check(gpu: HostGpu, made: Plan, x1: Any, x2: Any, out: Any, right: np.ndarray) -> None:
    out.fill(np.nan if right.dtype.kind in "fc" else 77)
    made.run(x1, x2, out)
    np.testing.assert_array_equal(out.held, right, str(made.choice))
    gpu.memory.check()


# ---- results ----


#: Every type in one layout, and float32 in all.
TYPES_AND_LAYOUTS = [
    (dtype, layout)
    for i, dtype in enumerate(TYPES)
    for j, layout in enumerate(("NNN", "NTT", "TNN", "TTT"))
    if dtype == "float32" or i % 4 == j
]


@pytest.mark.parametrize(("dtype", "layout"), TYPES_AND_LAYOUTS)
def test_every_variant_in_parts(h100: HostGpu, limited: Any, dtype: str, layout: str) -> None:
    x1, x2, right = operands(h100, dtype, layout=layout[:2])
    limited(x1, x2)
    out = h100.array(right, tight(layout[2]))
    for each in in_parts(x1, x2, out):
        assert each.shares_workspace and len(each.parts) >= 4
        made = Plan(each)
        assert made.scratch_bytes == each.workspace == max(planned.workspace for planned in each.schedules)
        check(h100, made, x1, x2, out, right)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_split_k_within_parts(h100: HostGpu, limited: Any, dtype: str) -> None:
    x1, x2, right = operands(h100, dtype, (70, 600), (600, 130))
    limited(x1, x2)
    out = h100.array(right)
    for each in in_parts(x1, x2, out):
        split = [
            replace(
                part,
                others=(),
                spec=replace(part.spec, config=part.spec.config.changed({"split_k": 3})),
            )
            for part in each.parts
        ]
        whole = replace(split[0], others=tuple(split[1:]))
        h100.launched.clear()
        check(h100, Plan(whole), x1, x2, out, right)
        assert sum(kernel.variant.name == "split_k_reduction" for kernel in h100.launched) == len(split)


@pytest.mark.parametrize(
    ("dtype", "left", "right"),
    [
        ("float64", (3, 90, 300), (3, 300, 100)),
        ("int32", (5, 40, 300), (300, 200)),
        ("float32", (2, 1, 70, 300), (3, 300, 130)),
        ("complex64", (70, 300), (6, 300, 90)),
    ],
)
def test_batches(h100: HostGpu, limited: Any, dtype: str, left: Any, right: Any) -> None:
    x1, x2, product = operands(h100, dtype, left, right, "NT")
    for times in (1.5, 3.0):
        limited(x1, x2, times)
        result = tiledmm.matmul(x1, x2)
        np.testing.assert_array_equal(result.held, product)
        assert len(planned(x1, x2, None).choice.parts) > 1
        h100.memory.check()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_symmetric_product(h100: HostGpu, limited: Any, dtype: str) -> None:
    x1, _, _ = operands(h100, dtype, (130, 260))
    limited(x1, x1.T, 1.8)
    result = tiledmm.matmul(x1, x1.T)
    wide = {"f": "f8", "c": "c16"}.get(x1.dtype.kind, "u8")
    np.testing.assert_array_equal(result.held, (x1.held.astype(wide) @ x1.held.T.astype(wide)).astype(dtype))
    choice = planned(x1, x1.T, None).choice
    assert choice.shares_workspace
    assert {part.product.symmetric for part in choice.parts} == {True, False}, "on the diagonal alone"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_hermitian_product(h100: HostGpu, limited: Any, dtype: str) -> None:
    x1, _, _ = operands(h100, dtype, (130, 260))
    limited(x1, x1.T, 1.8)
    h100.launched.clear()
    result = tiledmm.gemm(x1, x1, adjoint_b=True)
    np.testing.assert_array_equal(result.held, x1.held @ x1.held.conj().T)
    choice = planned(x1, x1.T, None).choice
    assert choice.shares_workspace
    if dtype == "complex128":  # parts of complex64 have all rows
        assert {each.hermitian for each in h100.launched} == {True, False}, "on the diagonal alone"


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_result_over_its_operand(h100: HostGpu, limited: Any, dtype: str) -> None:
    x1, x2, right = operands(h100, dtype, (270, 270), (270, 270))
    limited(x1, x2)
    assert tiledmm.matmul(x1, x2, out=x2) is x2
    np.testing.assert_array_equal(x2.held, right)


def test_parts_become_smaller_where_memory_is_short(h100: HostGpu, limited: Any) -> None:
    x1, x2, right = operands(h100, "float32", (500, 300), (300, 500))
    limited(x1, x2, 1.5)
    out = h100.array(np.zeros_like(right))
    plan = planned(x1, x2, out)
    h100.most = plan.scratch_bytes // 2
    tiledmm.matmul(x1, x2, out=out)
    np.testing.assert_array_equal(out.held, right)
    assert h100.failed and plan._smaller is not None
    assert plan._smaller.scratch_bytes <= h100.most
    assert len(plan._smaller.choice.parts) > len(plan.choice.parts) > 1


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_an_epilogue(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, limited: Any, dtype: str
) -> None:
    """Check on the simulator that each part reads its own part of c and of bias."""
    for device in installed(HostGpu(run_on_simulator), tmp_path_factory.mktemp("cache")):
        everything_is_large(monkeypatch)
        without_maps = DECOMPOSING.rates.only(lambda name: not find_variant(name).hopper.tma)
        monkeypatch.setitem(device._models, (device.gpu.name, False), Model(H100.gpu, without_maps))
        x1, x2, right = operands(device, dtype, (90, 260), (260, 140), "TN")
        limited(x1, x2, 1.5)
        rng = np.random.default_rng(3)
        c, bias = small_integers(rng, right.shape, dtype), small_integers(rng, (1, right.shape[1]), dtype)
        expected = 2 * right - 3 * c + bias
        out = device.array(c, tight("T"))
        tiledmm.gemm(x1, x2, out, alpha=2, beta=-3, bias=device.array(bias), out=out)
        np.testing.assert_array_equal(out.held, expected)
        assert sum(each.variant.name.startswith("decompose") for each in device.launched) >= 4
        assert any(each.epilogue for each in device.launched)
        device.memory.check()


def test_the_simulator_computes_parts(monkeypatch: pytest.MonkeyPatch, limited: Any) -> None:
    everything_is_large(monkeypatch)
    simulated = Model(H100.gpu, DECOMPOSING.rates.only(lambda name: find_variant(name).simulated))
    module = importlib.import_module("tiledmm.simulated.product")
    monkeypatch.setattr(module, "_model", lambda target, decomposes: simulated)
    rng = np.random.default_rng(4)
    a, b = values(rng, (2, 40, 260), "float32", -2), values(rng, (260, 70), "float32", -1)
    limited(a, b, 1.2)
    result, report = simulator.run(a, b, counts=False)
    np.testing.assert_array_equal(result, a.astype("f8") @ b.astype("f8"))
    report.check()


# ---- launches ----


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64", "int32"])
def test_what_begins_a_part_waits_for_the_part_before(
    h100: HostGpu, limited: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "launch_function", lambda: print)
    x1, x2, right = operands(h100, dtype)
    limited(x1, x2)
    for each in in_parts(x1, x2, h100.array(right)):
        made, schedules = Plan(each), each.schedules
        first = {0, *itertools.accumulate(len(planned.launches) for planned in schedules)}
        assert any(one.dependent for one in made.launches)
        scanned = any(memory.name == SCAN for memory in schedules[0].scratch)
        for i, one in enumerate(made.launches):
            assert not (one.dependent and i in first)
            assert (one.fills is not None) is (scanned and i in first)
        assert made.scans == []
        for part in each.parts:  # as it is alone, and where parts do not share
            alone = Plan(replace(part, others=()))
            assert len(alone.scans) == scanned and not any(one.fills for one in alone.launches)
        monkeypatch.setattr(choice, "MOST_APART", 1 << 40)
        apart = Plan(each)
        monkeypatch.setattr(choice, "MOST_APART", 0)
        assert [one.dependent for one in apart.launches].count(False) < len(apart.launches) - len(schedules)
        assert len(apart.scans) == scanned * len(schedules) and not any(one.fills for one in apart.launches)
        assert apart.scratch_bytes == sum(planned.workspace for planned in schedules) > made.scratch_bytes


def test_scans_are_filled_before_each_part(h100: HostGpu, limited: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x1, x2, right = operands(h100, "float32")
    limited(x1, x2)
    out, events = h100.array(right), []
    fill = prepared.cupy.cuda.runtime.memsetAsync

    def memset(address: int, value: int, size: int, stream: int) -> None:
        assert value == SCAN_INIT
        events.append(("fill", len(h100.launched)))
        fill(address, value, size, stream)

    monkeypatch.setattr(prepared.cupy.cuda.runtime, "memsetAsync", memset)
    plan = planned(x1, x2, out)
    h100.launched.clear()
    plan.run(x1, x2, out)
    begins = [0, *itertools.accumulate(len(schedule.launches) for schedule in plan.choice.schedules)]
    assert events == [("fill", begin) for begin in begins[:-1]]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_launches_by_themselves(h100: HostGpu, limited: Any, dtype: str) -> None:
    """Check the launches as measurements call them: in order, for all of the product."""
    x1, x2, right = operands(h100, dtype)
    limited(x1, x2)
    out = h100.array(right)
    plan = planned(x1, x2, out)
    calls = plan.launch_functions(x1, x2, out)
    assert len(calls) == len(plan.launches)
    for _ in range(2):
        out.fill(np.nan if right.dtype.kind == "f" else 77)
        for call in calls:
            call()
        np.testing.assert_array_equal(out.held, right)


def test_a_captured_stream_has_one_workspace(h100: HostGpu, limited: Any) -> None:
    x1, x2, right = operands(h100, "float64")
    limited(x1, x2)
    out = h100.array(np.zeros_like(right))
    h100.capturing = True
    try:
        tiledmm.matmul(x1, x2, out=out)
    finally:
        h100.capturing = False
    assert h100.captured == 1
    np.testing.assert_array_equal(out.held, right)
