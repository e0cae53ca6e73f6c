"""Tests of timing, references, records and tables of comparisons, with NumPy and fake clocks in place of a GPU."""

from __future__ import annotations

import gc
import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import readme
from benchmarks.studies import bank_conflicts
from benchmarks.support import power
from benchmarks.support.results import FOLDER
from tests.strategies import multiplied
from tiledmm.bench import comparison_tables, kernel_resources, resource_tables, simulated, timing
from tiledmm.bench import reference as ref
from tiledmm.bench.results import BASELINE, CallCost, Comparison, ComparisonReport, Machine, Row, from_json, to_json
from tiledmm.bench.sizes import Size, parse_size
from tiledmm.bench.variant_tiles import VariantTile, expand, left_out, multiplying, runnable
from tiledmm.compile.inspection import Resources
from tiledmm.elements import ELEMENTS, TF32, compute_element, element
from tiledmm.errors import CompilationError, ConfigError, UnknownVariantError, UnsupportedTypeError
from tiledmm.kernels.variants import find_variant, kernel_spec, kernel_variants
from tiledmm.report import cells, documents, tables
from tiledmm.report.cells import NONE
from tiledmm.report.roofline import roofline
from tiledmm.selection.model import H100

EVERY_TYPE = [pytest.param(row.dtype, id=name) for name, row in ELEMENTS.items()]


# Sizes and variants


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", (7, 7, 7)), (" 4096 ", (4096, 4096, 4096)), ("3x5x7", (3, 5, 7)), ("3X5X7", (3, 5, 7))],
)
def test_sizes(text: str, size: tuple[int, int, int]) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "3x5", "3x5x0", "-3", "3x5x7x9", "1e3", "3.5", "x", "3 5 7"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="MxNxK"):
        parse_size(text)


@pytest.mark.parametrize("text", ["2147483648", "1x2x2147483648", "9" * 54, "1x" + "9" * 5000 + "x1"])
def test_sizes_beyond_what_kernels_count(text: str) -> None:
    assert parse_size("2147483647x01x1") == (2**31 - 1, 1, 1)
    with pytest.raises(ConfigError, match=r"2\^31 - 1") as raised:
        parse_size(text)
    assert len(str(raised.value)) < 150


def test_variants_for_a_type_are_those_that_multiply_it() -> None:
    variant_tiles = expand(["tensor_core", "naive", "auto"])
    assert [each.variant for each in multiplying(variant_tiles, "float16")] == [
        "naive",
        "tensor_core",
        "auto",
    ]
    assert [each.variant for each in multiplying(variant_tiles, "float32")] == ["naive", "auto"]
    with pytest.raises(UnsupportedTypeError, match=r"tensor_core.*float32.*float16, bfloat16"):
        multiplying(expand(["tensor_core"]), "float32")
    with pytest.raises(UnsupportedTypeError, match="float24"):
        multiplying(variant_tiles, "float24")


def test_variants_are_every_variant_with_its_default_tile() -> None:
    variant_tiles = expand()
    assert [each.variant for each in variant_tiles] == [row.name for row in kernel_variants()]
    assert [each.tile for each in variant_tiles] == [
        row.default_tile if row.tiles else None for row in kernel_variants()
    ]
    assert {"naive", "tiled 32"} <= {each.label for each in variant_tiles}


def test_some_variants_and_tiles() -> None:
    variant_tiles = expand(["tiled_padded", "auto", "cublas", "naive", "tiled"], [16, 8, 16])
    assert variant_tiles == [
        VariantTile("naive"),
        VariantTile("tiled", 8),
        VariantTile("tiled", 16),
        VariantTile("tiled_padded", 8),
        VariantTile("tiled_padded", 16),
        VariantTile("auto"),
    ]


def test_all_tiles_are_those_that_there_are() -> None:
    assert tuple(each.tile for each in expand(["tiled"], "all")) == find_variant("tiled").tiles
    assert expand(["naive"], "all") == [VariantTile("naive")]


def test_variants_that_do_not_exist() -> None:
    with pytest.raises(UnknownVariantError, match="tiled_padded"):
        expand(["tiled_paded"])
    with pytest.raises(ConfigError, match=f"24.*{', '.join(map(str, find_variant('tiled').tiles))}"):
        expand(["tiled"], [24])
    with pytest.raises(ConfigError, match="naive"):
        expand(["naive"], [16])


# Timing


@pytest.mark.parametrize(
    ("estimate", "calls", "rounds"),
    [(0.0, 100, timing.ROUNDS), (1e-6, 100, timing.ROUNDS), (2.7e-3, 14, timing.ROUNDS), (10.0, 1, timing.MIN_ROUNDS)],
)
def test_plan(estimate: float, calls: int, rounds: int) -> None:
    assert timing.plan(estimate, 0.6, 100) == (calls, rounds)


@pytest.mark.parametrize("total", [1, 3, 15])
def test_everyone_takes_part_as_often_as_planned_and_in_the_last_round(total: int) -> None:
    for rounds in range(1, total + 1):
        part = [timing.takes_part(i, rounds, total) for i in range(total)]
        assert sum(part) == rounds
        assert part[-1]


class DriftingClock:
    """A clock whose calls take longer as the machine heats up, and which records what was timed."""

    max_calls = 10

    def __init__(self, seconds: dict[Callable[[int], object], float]) -> None:
        self.seconds = seconds
        self.order: list[Callable[[int], object]] = []

    def time(self, call: Callable[[int], object], calls: int) -> timing.Reading:
        self.order.append(call)
        for i in range(calls):
            call(i)
        round_number = (len(self.order) - 1) // len(self.seconds)
        return timing.Reading(self.seconds[call] * (1 + round_number), pure=True)


def rival() -> Callable[[int], object]:
    return lambda i: None


def test_rivals_take_turns_and_drift_cancels_in_their_ratio() -> None:
    slow, fast = rival(), rival()
    clock = DriftingClock({slow: 0.003, fast: 0.001})
    samples = timing.measure({"slow": slow, "fast": fast}, clock, seconds=0.0)
    assert list(samples) == ["slow", "fast"]
    assert samples["fast"].speed_over(samples["slow"]) == pytest.approx(3)
    assert samples["slow"].speed_over(samples["fast"]) == pytest.approx(1 / 3)
    timed = clock.order[4:]  # after one call to warm up and one to estimate, for each
    assert all({*timed[i : i + 2]} == {slow, fast} for i in range(0, len(timed), 2))
    assert samples["slow"].rounds == pytest.approx({0: 0.009, 1: 0.012, 2: 0.015})
    assert samples["slow"].seconds == pytest.approx(0.012)


def test_no_rival_is_always_timed_behind_the_same_one() -> None:
    """Check that predecessors vary, since one may leave a lower clock rate that biases the next rival's time."""
    rivals = {name: rival() for name in "abcdef"}
    clock = DriftingClock(dict.fromkeys(rivals.values(), 1e-4))
    timing.measure(rivals, clock, seconds=1.0)
    timed = clock.order[2 * len(rivals) :]
    for each in rivals.values():
        before = [timed[i - 1] for i, call in enumerate(timed) if call is each and i]
        assert max(map(before.count, before)) <= len(before) / 2


def test_a_slow_rival_sits_rounds_out_and_shares_the_last() -> None:
    slow, fast = rival(), rival()

    class Clock(DriftingClock):
        def time(self, call: Callable[[int], object], calls: int) -> timing.Reading:
            return timing.Reading(self.seconds[call], pure=call is fast)

    samples = timing.measure({"slow": slow, "fast": fast}, Clock({slow: 1.0, fast: 1e-3}), seconds=0.15)
    assert len(samples["slow"].rounds) == timing.MIN_ROUNDS
    assert len(samples["fast"].rounds) == timing.ROUNDS
    assert max(samples["slow"].rounds) == max(samples["fast"].rounds) == timing.ROUNDS - 1
    assert (samples["slow"].pure, samples["fast"].pure) == (False, True)


@pytest.mark.parametrize("impure", range(timing.ROUNDS))
def test_a_sample_is_pure_if_all_its_readings_are(impure: int) -> None:
    one, other = rival(), rival()

    class Clock(DriftingClock):
        def time(self, call: Callable[[int], object], calls: int) -> timing.Reading:
            self.order.append(call)
            number = self.order.count(call) - 3  # after one call to warm up and one to estimate
            return timing.Reading(1e-3, pure=number != impure or call is other)

    samples = timing.measure({"one": one, "other": other}, Clock({}), seconds=1.0)
    assert len(samples["one"].rounds) == timing.ROUNDS
    assert (samples["one"].pure, samples["other"].pure) == (False, True)


def test_one_call_warms_up_another_is_estimated_and_rounds_have_as_many_as_fit() -> None:
    class Clock(DriftingClock):
        def time(self, call: Callable[[int], object], calls: int) -> timing.Reading:
            self.order.append(call)
            asked.append(calls)
            return timing.Reading(1e-3, pure=True)

    asked: list[int] = []
    for seconds, calls in ((0.06, 4), (3.0, 10)):  # ten are the most that the clock takes
        asked.clear()
        call = rival()
        samples = timing.measure({"one": call}, Clock({}), seconds=seconds)
        assert asked == [1, 1, *[calls] * timing.ROUNDS]
        assert samples["one"].calls == calls
    assert timing.Sample({0: 1.0}, 1).pure, "unless something is said"


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_meanwhile(enabled: bool) -> None:
    seen = []

    def call(i: int) -> None:
        seen.append(gc.isenabled())

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        timing.measure({"one": call}, DriftingClock({call: 1e-3}), seconds=0.0)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen[-timing.MIN_ROUNDS :] == [False] * timing.MIN_ROUNDS


def test_nothing_to_measure() -> None:
    assert timing.measure({}, DriftingClock({})) == {}


def test_host_clock_synchronizes_once_before_and_once_after() -> None:
    log: list[str] = []
    clock = timing.HostClock(lambda: log.append("sync"))
    reading = clock.time(lambda i: log.append(str(i)), 3)
    assert log == ["sync", "0", "1", "2", "sync"]
    assert reading.pure
    assert reading.seconds > 0


def test_the_environment_of_a_cuda_13_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a device whose properties lack clock rates, as in CUDA 13."""
    module = pytest.importorskip("tiledmm.bench.environment", exc_type=ImportError)
    properties = {"name": b"made up", "major": 9, "minor": 0, "multiProcessorCount": 132, "l2CacheSize": 50 << 20,
                  "totalGlobalMem": 80 << 30}  # fmt: skip
    runtime = SimpleNamespace(
        getDevice=lambda: 1,
        getDeviceProperties=lambda device: properties,
        cudaDevAttrClockRate=13,
        deviceGetAttribute=lambda attribute, device: {(13, 1): 1_980_000}[attribute, device],
        driverGetVersion=lambda: 13_000,
        runtimeGetVersion=lambda: 13_010,
    )
    nvrtc, cublas = SimpleNamespace(getVersion=lambda: (13, 1)), SimpleNamespace(getVersion=lambda handle: 130_200)
    cuda = SimpleNamespace(runtime=runtime, nvrtc=nvrtc, cublas=cublas, get_cublas_handle=lambda: 0)
    monkeypatch.setattr(module, "cupy", SimpleNamespace(cuda=cuda, __version__="14.0"))
    found = module.this_machine()
    assert (found.gpu, found.compute_capability, found.max_clock_mhz) == ("made up", "9.0", 1980.0)
    assert (found.cuda_driver, found.cuda_runtime, found.nvrtc, found.cublas) == ("13.0", "13.1", "13.1", "13.2.0")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace CuPy by a stand-in whose stream records how long it is held."""
    state = SimpleNamespace(holds=[], syncs=0)

    def synchronize() -> None:
        state.syncs += 1

    event = SimpleNamespace(record=lambda: None, synchronize=synchronize)
    cuda = SimpleNamespace(
        Event=lambda: event,
        get_elapsed_time=lambda start, stop: 8.0,
        get_current_stream=lambda: SimpleNamespace(synchronize=synchronize),
    )

    def raw_kernel(source: str, name: str) -> Callable[..., None]:
        assert f"void {name}(unsigned long long" in source
        return lambda grid, block, arguments: state.holds.append(float(arguments[0]) * 1e-9)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, RawKernel=raw_kernel))
    return state


def test_device_clock_holds_the_stream_for_longer_than_queueing_takes(device: SimpleNamespace) -> None:
    clock = timing.DeviceClock()
    device.holds.clear()
    reading = clock.time(lambda i: time.sleep(2e-3), 4)
    assert reading == timing.Reading(2e-3, pure=True)
    assert len(device.holds) > 1, "the first guess is far too short for this"
    assert 8e-3 < device.holds[-1] < 0.19, "three times what queueing took"


def test_device_clock_says_when_the_host_was_waited_for(
    device: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "_MAX_HOLD", 1e-3)
    reading = timing.DeviceClock().time(lambda i: time.sleep(2e-3), 1)
    assert not reading.pure
    assert max(device.holds) == pytest.approx(1e-3)


@pytest.mark.parametrize(("queueing", "pure"), [(0.9, True), (1.1, False), (1.9, False), (10.0, False)])
def test_a_reading_is_pure_if_queueing_is_over_before_the_hold(
    device: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, queueing: float, pure: bool
) -> None:
    """Check readings by how long the host queues calls; ``queueing`` is in units of the longest hold."""
    now = [0.0]

    def call(i: int) -> None:
        now[0] += queueing * 0.2

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    clock = timing.DeviceClock()
    device.holds.clear()
    assert clock.time(call, 1) == timing.Reading(8e-3, pure)
    assert device.holds[1:] == [pytest.approx(0.2)], "again, held for longer, and no more where that is the longest"


def test_host_clock_divides_by_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]

    def passing(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    clock = timing.HostClock(lambda: passing(2.0))  # the last one counts, the first does not
    assert clock.time(lambda i: passing(0.5 * i), 4).seconds == pytest.approx((0 + 0.5 + 1 + 1.5 + 2) / 4)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace CuPy by a stand-in that logs operations and holds of the stream, and whose time is set by the test."""
    state = SimpleNamespace(log=[], holds=[], now=50.0, milliseconds=8.0)

    class Event:
        def record(self) -> None:
            state.log.append(("record", id(self)))

        def synchronize(self) -> None:
            state.log.append(("wait", id(self)))

    def hold(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        assert (grid, block) == ((1,), (1,)), "one thread holds a stream"
        (nanoseconds,) = arguments
        assert nanoseconds.dtype == np.uint64
        state.holds.append(int(nanoseconds) * 1e-9)
        state.log.append("hold")

    def elapsed(start: Event, stop: Event) -> float:
        state.log.append(("elapsed", id(start), id(stop)))
        return state.milliseconds

    stream = SimpleNamespace(synchronize=lambda: state.log.append("synchronize"))
    cuda = SimpleNamespace(Event=Event, get_elapsed_time=elapsed, get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, RawKernel=lambda source, name: hold))
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: state.now))
    return state


def test_device_clock_waits_then_holds_then_times_the_calls_alone(stream: SimpleNamespace) -> None:
    clock = timing.DeviceClock()
    stream.log.clear()
    stream.holds.clear()
    reading = clock.time(lambda i: stream.log.append(i), 3)
    assert reading == timing.Reading(pytest.approx(8e-3 / 3), pure=True)
    before, hold, (_, start), *calls, (_, stop), (_, waited), (_, *between) = stream.log
    assert (before, hold, calls) == ("synchronize", "hold", [0, 1, 2]), "what was queued before is not timed"
    assert waited == stop and between == [start, stop]
    assert start != stop
    assert 3 * 20e-6 < stream.holds[0] < 1e-3


def test_device_clock_holds_longer_for_more_calls_and_no_longer_than_its_limit(stream: SimpleNamespace) -> None:
    clock = timing.DeviceClock()
    stream.holds.clear()
    for calls in (1, 10, 100):
        clock.time(lambda i: None, calls)
    assert stream.holds == sorted(set(stream.holds)), "more calls take longer to queue"
    clock.hold(3600.0)
    assert stream.holds[-1] == pytest.approx(timing._MAX_HOLD)
    assert 0.05 < timing._MAX_HOLD < 1, "the driver of a display stops kernels that run for seconds"
    clock.hold(1e-3)
    assert stream.holds[-1] == pytest.approx(1e-3)


def test_device_clock_holds_for_a_few_times_as_long_as_queueing_took(stream: SimpleNamespace) -> None:
    def call(i: int) -> None:
        stream.now += 5e-3

    clock = timing.DeviceClock()
    stream.holds.clear()
    assert clock.time(call, 4) == timing.Reading(2e-3, pure=True)
    _, second = stream.holds
    assert 1.5 * 20e-3 < second < 5 * 20e-3


def test_device_clock_gives_up_on_calls_that_are_never_queued_in_time(stream: SimpleNamespace) -> None:
    took = itertools.count(1)

    def call(i: int) -> None:
        stream.now += 4.0 ** next(took) * 1e-4

    clock = timing.DeviceClock()
    stream.holds.clear()
    assert not clock.time(call, 1).pure
    assert len(stream.holds) == timing._HOLD_ATTEMPTS


def test_hold_kernel_compiles() -> None:
    pytest.importorskip("cuda.core")
    from tiledmm.compile.inspection import compile_for

    assert compile_for(timing._HOLD_SOURCE, "tiledmm_hold", "sm_75").spill_store_bytes == 0


# References


def operands(dtype: np.dtype[Any], m: int = 17, n: int = 13, k: int = 29) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return ref.random_matrix(rng, m, k, dtype, k), ref.random_matrix(rng, k, n, dtype, k)


def product(a: Any, b: Any) -> Any:
    """Compute what a right kernel gives, with narrow floats summed in float32."""
    if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
    return a @ b


def largest_rounding(kind: Any, k: int) -> float:
    """Return the bound of a sum's error in units of |A| |B|, for `k` products: Higham, "Accuracy", (3.5)."""
    double = kind.dtype.name in ("float64", "complex128")
    products = 2 * k if kind.dtype.kind == "c" else k
    error = products * (2.0**-53 if double else 2.0**-24)
    return 2 * error if double else error + (2 * 2.0**-11 + 2.0**-22 if kind == TF32 else 0.0)


@pytest.mark.parametrize("kind", ELEMENTS.values(), ids=list(ELEMENTS))
def test_a_right_product_passes_and_one_wrong_element_fails(kind: Any) -> None:
    dtype, exact = kind.dtype, kind.dtype.kind in "biu"
    a, b = operands(dtype)
    assert a.dtype == dtype
    expected = ref.reference(a, b)
    result = product(a, b)
    right = ref.judge(result, expected)
    assert right.ok
    last = 2.0**-8 if dtype.itemsize == 2 else 0.0
    assert right.error is not None
    assert right.error <= (0.0 if exact else 2**0.5 * largest_rounding(kind, 29) + last)
    if exact:
        result[5, 7] = not result[5, 7] if dtype.kind == "b" else result[5, 7] + 1
    else:
        result[5, 7] += ((abs(a.astype(complex)) @ abs(b.astype(complex))).real / 8).astype(dtype)[5, 7]
    wrong = ref.judge(result, expected)
    assert not wrong.ok
    assert wrong.error == pytest.approx(1 / result.size if exact else 1 / 8, abs=2 * last + 1e-5)


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128", "tf32"])
def test_what_rounding_can_do_passes_and_what_it_cannot_fails(name: str) -> None:
    """Check that the largest possible error passes for a sum of few products but not of many.

    Roundings are independent, so that K of them add up to about the square root of K.
    """
    kind = compute_element(name)

    def passes(k: int, error: complex) -> bool:
        a, b = np.ones((1, k), kind.dtype), np.ones((k, 1), kind.dtype)
        return ref.judge(np.array([[k + k * error]], kind.dtype), ref.reference(a, b, kind)).ok

    for direction in (1, -1, 1j, -1j) if kind.dtype.kind == "c" else (1, -1):
        assert passes(49, direction * largest_rounding(kind, 49)), direction
        assert not passes(100, direction * largest_rounding(kind, 100)), direction
        assert passes(10_000, direction * largest_rounding(kind, 100)), direction
        assert not passes(10_000, direction * largest_rounding(kind, 2_000)), direction


@pytest.mark.parametrize(("dtype", "spacing"), [("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
def test_sixteen_bits_are_rounded_to_a_neighbour(dtype: str, spacing: float) -> None:
    def passes(sum_: float, result: float) -> bool:
        a, b = np.zeros((1, 29), ELEMENTS[dtype].dtype), np.ones((29, 1), ELEMENTS[dtype].dtype)
        a[0, :2] = 1, sum_ - 1
        return ref.judge(np.array([[result]], a.dtype), ref.reference(a, b)).ok

    assert passes(1, 1)
    assert not passes(1, 1 + spacing)
    halfway = 1 + spacing / 2
    assert passes(halfway, 1) and passes(halfway, 1 + spacing)
    assert not passes(halfway, 1 + 2 * spacing) and not passes(halfway, 1 - spacing)


@pytest.mark.parametrize(("dtype", "narrow"), [("float32", "tf32"), ("float64", "float32"), ("float32", "bfloat16")])
def test_operands_of_fewer_bits_than_were_asked_for_fail(dtype: str, narrow: str) -> None:
    a, b = operands(np.dtype(dtype), k=1024)
    fewer = [
        multiplied(x, "tf32") if narrow == "tf32" else x.astype(ELEMENTS[narrow].dtype).astype(dtype) for x in (a, b)
    ]
    result = fewer[0] @ fewer[1]
    assert ref.judge(a @ b, ref.reference(a, b)).ok
    assert not ref.judge(result, ref.reference(a, b)).ok
    if narrow == "tf32":
        assert ref.judge(result, ref.reference(a, b, TF32)).ok, "where it was asked for"


@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_an_element_that_was_not_written_fails(dtype: np.dtype[Any]) -> None:
    a, b = operands(dtype)
    expected = ref.reference(a, b)
    result = np.empty(expected.values.shape, dtype)
    ref.poison(result, expected)
    assert not ref.judge(result, expected).ok
    left = result[-1, -1]
    result[...] = product(a, b)
    assert ref.judge(result, expected).ok
    result[-1, -1] = left
    assert not ref.judge(result, expected).ok


@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_a_product_that_misses_a_step_of_k_fails(dtype: np.dtype[Any]) -> None:
    a, b = operands(dtype)
    assert not ref.judge(product(a[:, :-1], b[:-1]), ref.reference(a, b)).ok


@pytest.mark.parametrize("dtype", [p for p in EVERY_TYPE if p.values[0].kind in "iu"])
@pytest.mark.parametrize("steps", [4, 2**20])
def test_integer_references_are_exact(dtype: np.dtype[Any], steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ref, "_EXACT_STEPS", steps)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for a, b in (operands(dtype), (np.full((3, 9), high, dtype), np.full((9, 2), low or high - 1, dtype))):
        exact = a.astype(object) @ b.astype(object)
        bits = 8 * dtype.itemsize
        wrapped = [[(int(x) - low) % 2**bits + low for x in row] for row in exact]
        assert ref.reference(a, b).values.tolist() == wrapped


def test_integers_are_exact_where_one_float64_sum_would_not_be() -> None:
    k = 2**22 + 1
    largest = np.full((1, k), 2**32 - 1, np.uint32)
    assert ref.reference(largest, largest.T).values.tolist() == [[k]], "(2^32 - 1)^2 is 1"


def test_what_is_exact_has_no_tolerance() -> None:
    for dtype in (np.dtype(bool), np.dtype(np.int8), np.dtype(np.uint64)):
        assert ref.reference(*operands(dtype)).tolerance == 0


def test_half_of_a_product_of_bools_is_true() -> None:
    for k in (20, 200):
        a, b = operands(np.dtype(bool), 300, 300, k)
        assert 0.45 < (a @ b).mean() < 0.55


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int32"])
def test_a_large_random_matrix_is_the_same_each_time_and_repeats_nothing(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ref, "_DRAWN_TOGETHER", 64)
    kind = compute_element(dtype).dtype
    one, two = (ref.random_matrix(np.random.default_rng(3), 41, 30, kind, 30) for _ in range(2))
    assert one.shape == (41, 30)
    assert one.dtype == kind
    assert (one == two).all()
    assert len({row.tobytes() for row in one}) == 41, "each thread draws its own numbers"


def test_random_operands_wrap_and_are_half_true() -> None:
    a, b = operands(np.dtype(np.int8), k=64)
    assert abs(a.astype(int) @ b.astype(int)).max() > 127
    a, b = operands(np.dtype(bool), 40, 40, 64)
    assert 0.3 < (a @ b).mean() < 0.7


def test_subnormal_results_are_judged_by_their_spacing() -> None:
    a, b = np.array([[3e-4]], np.float16), np.array([[3e-4]], np.float16)
    assert ref.judge(product(a, b), ref.reference(a, b)).ok


def test_zero_scale_is_no_division_by_zero() -> None:
    a, b = np.zeros((2, 3), np.float32), np.ones((3, 2), np.float32)
    assert ref.judge(a @ b, ref.reference(a, b)) == ref.Verdict(True, 0.0)
    assert not ref.judge(a @ b + 1, ref.reference(a, b)).ok


# Records


def row(variant: str, tile: int | None, *rounds: float | None, ok: bool = True, **more: Any) -> Row:
    known = sorted(time for time in rounds if time is not None)
    figures = (
        {} if not known else {"microseconds": known[len(known) // 2], "tflops": 137438.95 / known[len(known) // 2]}
    )
    return Row(variant, tile, ok=ok, error=1.5e-7, rounds=rounds, **(figures | more))


MACHINE = Machine(
    "NVIDIA H100", "9.0", 132, 2**20 * 50, 2**30 * 80, 1980.0, "580.1", "13.0", "13.0", "13.0", "13.1.0", "14.2.0",
    "2.5.5", "3.12.3", "0.1.0", "2026-11-21T01:02:03+00:00",
)  # fmt: skip


def comparison(layout: str, *rows: Row) -> Comparison:
    return Comparison(4096, 4096, 4096, "float32", layout, 3e-5, 1, rows)


def sample_report() -> ComparisonReport:
    base = row(BASELINE, None, 2700.0, 2710.0, 2690.0, to_cupy=1.0)
    ladder = comparison(
        "NN",
        row("naive", None, 280_000.0, None, 270_000.0, to_cupy=0.0098, to_naive=1.0, registers=32, shared_bytes=0),
        row("tiled", 32, 15_000.0, 15_100.0, 14_900.0, to_cupy=0.18, to_naive=18.4, occupancy=1.0),
        base,
    )
    padded = [
        comparison(
            layout,
            row("tiled", 32, 30_000.0, 36_000.0, 33_000.0),
            row("tiled_padded", 32, 10_000.0, 12_000.0, 11_000.0),
            base,
        )
        for layout in ("NN", "NT", "TN", "TT")
    ]
    return ComparisonReport(
        MACHINE, (ladder, *padded), (CallCost("tiledmm.matmul", 6.8, 0.5, 1.1), CallCost(BASELINE, 13.7, 1.0, 2.2))
    )


def test_report_survives_json() -> None:
    report = sample_report()
    text = to_json(report)
    assert from_json(text) == report
    assert json.loads(text)["machine"]["gpu"] == "NVIDIA H100"
    assert "[ 2700.0, 2710.0, 2690.0 ]" in text, "rounds stand on one line"


def test_results_of_another_format_are_refused() -> None:
    with pytest.raises(ConfigError):
        from_json('{"format": 0}')


def test_report_is_ok_unless_a_kernel_is_wrong() -> None:
    report = sample_report()
    assert report.ok
    first = report.comparisons[0]
    for i, changed in enumerate(first.rows):
        rows = tuple(replace(r, ok=r is not changed) for r in first.rows)
        assert replace(report, comparisons=(replace(first, rows=rows),)).ok == (i == 2), "cupy.matmul fails nothing"


def test_speed_between_rows_is_within_rounds() -> None:
    fast, slow = row("a", None, 1.0, None, 4.0, 2.0), row("b", None, 3.0, 100.0, 12.0, 5.0)
    assert fast.speed_over(slow) == 3.0
    assert fast.speed_over(row("c", None)) is None


def test_a_row_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="tiled 8"):
        sample_report().comparisons[0].row("tiled", 8)
    with pytest.raises(ConfigError, match="1 x 1 x 1"):
        sample_report().find(Size(1, 1, 1), "float32", "NN", VariantTile("naive"))


# Tables


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.012345, "0.0123"),
        (0.9996, "1.00"),
        (1.0, "1.00"),
        (9.996, "10.0"),
        (51.23, "51.2"),
        (123.4, "123"),
        (999.7, "1,000"),
        (271147.2, "271,147"),
    ],
)
def test_significant(value: float | None, text: str) -> None:
    assert cells.significant(value) == text


def test_percent_shows_that_few_are_not_none() -> None:
    assert [cells.percent(x) for x in (None, 0.0, 1e-6, 0.5, 1.0)] == ["-", "0%", "<1%", "50%", "100%"]


def test_comparison_table() -> None:
    found = comparison(
        "NN",
        row("naive", None, 280_000.0, to_cupy=0.01, registers=32, shared_bytes=0, occupancy=1.0),
        Row("tiled", 8, error=None, registers=30, shared_bytes=512, occupancy=1.0),
        Row("tiled", 16, note="CompilationError: it does not"),
        Row(BASELINE, note="TypeError: no such type"),
    )
    table = comparison_tables.comparison_table(found)
    assert table.title == "4096 x 4096 x 4096  float32  NN"
    shown = [dict(zip(table.columns, line, strict=True)) for line in table.rows]
    assert (
        shown[0] | {"TFLOP/s": "0.491", "x cupy.matmul": "0.0100", "max error": "1.5e-07", "<check": "ok"} == shown[0]
    )
    assert (shown[1]["max error"], shown[1]["<check"], shown[1]["time (us)"]) == ("NaN", "WRONG", "-")
    assert shown[2]["<check"] == shown[3]["<check"] == "-"
    assert table.bad == {1, 2}
    assert table.notes == ("tiled 16: CompilationError: it does not.", "cupy.matmul: TypeError: no such type.")


def test_a_wrong_baseline_is_noted() -> None:
    table = comparison_tables.comparison_table(comparison("NN", row(BASELINE, None, 1.0, ok=False)))
    assert not table.bad
    assert "does not fail" in table.notes[0]


def test_markdown_and_rich_show_the_same_cells() -> None:
    from rich.console import Console

    table = tables.Table("a [b]", ("<name", "x|y"), (("one", "1|2"), ("[two]", "3")), ("note.",))
    assert table.markdown() == "**a [b]**\n\n| name | x\\|y |\n|---|---:|\n| one | 1\\|2 |\n| [two] | 3 |\n\nnote."
    console = Console(width=60)
    with console.capture() as shown:
        console.print(table.rich())
    assert all(text in shown.get() for text in ("a [b]", "name", "x|y", "one", "1|2", "[two]", "note."))
    assert "<name" not in shown.get()


def test_a_narrow_terminal_cuts_no_figure() -> None:
    from rich.console import Console

    rows = (("a kernel", "8", "123,456", "registers and warps"), ("b", "16", "7", "blocks"))
    table = tables.Table("title", ("<name", "tile", "a long heading", "<limited by"), rows, ("a note.",))
    assert table.fitted(80) == [table]
    for width in (50, 34, 27):
        console = Console(width=width)
        with console.capture() as shown:
            for part in table.fitted(width):
                console.print(part.rich(width))
        text = shown.get()
        assert "…" not in text
        assert all(word in text for word in ("title", "a kernel", "123,456", "registers", "a note.", "heading")), text
    assert [part.columns for part in table.fitted(27)] == [table.columns[:3], (*table.columns[:2], table.columns[3])]


def test_in_a_narrow_terminal_long_columns_share_the_room() -> None:
    rows = (("a", " ".join(["16"] * 18), " ".join(["float16"] * 7)), ("b", "8", "int8"))
    table = tables.Table("title", ("<name", "<tiles", "<types"), rows)
    name, first, second = table._widths(80)
    assert name == 4 and abs(first - second) <= 2 and first + second == 80 - 4 - 3 * 2
    assert table._widths(1000) == table._widths(None) == [4, 53, 55]


@pytest.mark.parametrize(("text", "shown"), [("a", "a."), ("a.", "a."), ("x = 1;", "x = 1;"), ("why?", "why?")])
def test_a_sentence_ends_once(text: str, shown: str) -> None:
    assert tables.sentence(text) == shown


def test_programs_get_figures_in_full() -> None:
    about = {"m": 2, "dtype": "int8"}
    first = tables.Table(
        "one", ("<name", "time (us)", "max error"),
        (("a", cells.significant(1.23456), cells.error_figure(float("nan"))), ("b", NONE, NONE)),
        about=about,
    )  # fmt: skip
    assert first.records() == [
        {"m": 2, "dtype": "int8", "name": "a", "time (us)": 1.23456, "max error": None},
        {"m": 2, "dtype": "int8", "name": "b", "time (us)": None, "max error": None},
    ]
    assert documents.csv_text([first]) == "m,dtype,name,time (us),max error\n2,int8,a,1.23456,\n2,int8,b,,\n"
    second = tables.Table("two", ("<name", "share"), (("c, d", cells.percent(0.125)),))
    assert documents.csv_text([first, second]).splitlines() == [
        "table,m,dtype,name,time (us),max error,share",
        "one,2,int8,a,1.23456,,",
        "one,2,int8,b,,,",
        'two,,,"c, d",,,0.125',
    ]


def test_several_values_of_a_csv_cell_stand_apart() -> None:
    row = cells.Figure("8 16*", [8, 16]), cells.Figure("-", []), cells.Figure("7.5", {"int8": "7.5", "tf32": "8.0"})
    text = documents.csv_text([tables.Table("one", ("tiles", "none", "needs"), (row,))])
    assert text == "tiles,none,needs\n8 16,,int8=7.5 tf32=8.0\n"


def test_documented_tables() -> None:
    report = sample_report()
    size = report.comparisons[0].size
    assert "| tiled | 32 | 15,000 |" in comparison_tables.ladder_table(report, size).markdown()
    padding = comparison_tables.padding_table(report, size)
    assert padding.rows == (("32", *["3.00 (4.16 to 12.5)"] * 4),)
    assert "| tiledmm.matmul | 6.80 | 0.500 | 1.10 |" in comparison_tables.calls_table(report).markdown()


# Documents


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "ladder.json").write_text(to_json(sample_report()), encoding="utf-8")
    counted = dict.fromkeys(bank_conflicts.METRICS, 1) | {"variant": "tiled", "tile": 8, "layout": "NN"}
    counts = {"machine": asdict(MACHINE), "kernels": [counted]}
    (tmp_path / "results" / "bank_conflicts.json").write_text(json.dumps(counts), encoding="utf-8")
    for run in set(run for run, _ in readme.TABLES.values()) - {"ladder", "bank_conflicts"}:
        shutil.copy(FOLDER / f"{run}.json", tmp_path / "results")
    for path in (tmp_path / "results").glob("choices-*.json"):  # each product that was timed takes milliseconds
        timed = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(timed | {"products": timed["products"][::50]}), encoding="utf-8")
    return tmp_path / "results"


def test_marked_blocks_are_written_anew() -> None:
    text = "a\n<!-- table:x -->\nold\n\nold\n<!-- /table -->\nb <!-- table:y --><!-- /table -->\n"
    written = readme.rewrite(text, lambda name: f"<{name}>")
    expected = "a\n<!-- table:x -->\n<x>\n<!-- /table -->\nb <!-- table:y -->\n<y>\n<!-- /table -->\n"
    assert written == expected
    assert readme.rewrite(written, lambda name: f"<{name}>") == written


@pytest.mark.parametrize(
    "text",
    ["<!-- table:x -->", "<!-- /table -->", "<!-- table:x --><!-- table:y --><!-- /table -->"],
)
def test_markers_come_in_pairs(text: str) -> None:
    with pytest.raises(ValueError, match=r"marker|closed"):
        readme.rewrite(text, str)


def test_documents_are_checked_and_written(tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    (tmp_path / "README.md").write_text("no tables\n", encoding="utf-8")
    # Choices take seconds to judge, and test_scaling.py has tables of scaling.
    names = [name for name in readme.TABLES if not name.startswith(("choices", "scaling"))]
    page.write_text("".join(f"<!-- table:{name} -->\n<!-- /table -->\n" for name in names), encoding="utf-8")
    assert readme.main([], tmp_path, results) == 0
    assert readme.main(["--check"], tmp_path, results) == 0
    text = page.read_text(encoding="utf-8")
    assert "NVIDIA H100" in text
    assert " | 0.500 | " in text, "auto at half the speed of the fastest"
    page.write_text(text.replace("15,000", "9,000"), encoding="utf-8")
    assert readme.main(["--check"], tmp_path, results) == 1
    assert "page.md" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ladder", "nonsense"])
def test_a_table_that_cannot_be_written_fails(name: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"<!-- table:{name} -->\n<!-- /table -->\n", encoding="utf-8")
    assert readme.main(["--check"], tmp_path, tmp_path / "missing") == 1


@pytest.mark.parametrize("slow_ones", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_this_repository_shows_what_was_measured(slow_ones: bool) -> None:
    """Check every table of every document; judging choices takes half a minute, and predicting scaling a second."""
    for path in readme.documents():

        def render(name: str, path: Path = path) -> str | None:
            if name == readme.OLDER or (name.startswith(("choices", "scaling")) and not slow_ones):
                return None
            return readme.shown(path, name)

        text = path.read_text(encoding="utf-8")
        assert readme.rewrite(text, render) == text, f"{path}: run python -m benchmarks.readme"


# Without a GPU


def resources(target: str, **changes: Any) -> Resources:
    figures: dict[str, Any] = dict(
        target=target, registers=32, shared_bytes=8192, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0,
        constant_bytes=None, cubin=b"", log="",
    )  # fmt: skip
    return Resources(**(figures | changes))


def test_compile_all_tells_failures_spills_and_unknown_targets_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_for(source: str, symbol: str, target: str) -> Resources:
        if target == "sm_120":
            raise ConfigError("too new")
        if target == "sm_75":
            raise CompilationError("too old")
        return resources(target, spill_store_bytes=8 if target == "sm_80" else 0)

    monkeypatch.setattr(kernel_resources, "compile_for", compile_for)
    told: list[tuple[str, int, int]] = []
    kernels = kernel_resources.compile_all([kernel_spec("tiled")], progress=lambda *each: told.append(each))
    assert sorted(told) == [(f"compiling {len(kernels)} kernels", i + 1, len(kernels)) for i in range(len(kernels))]
    found = {kernel.target: kernel for kernel in kernels}
    assert {target for target, kernel in found.items() if not kernel.ok} == {"sm_75", "sm_80"}
    matrix = resource_tables.matrix_table(kernels)
    texts = dict(zip(matrix.columns, matrix.rows[0], strict=True))
    assert texts["sm_75"] == "fails"
    assert texts["sm_80"] == "32  100% WR, spills 8 B"
    assert texts["sm_90"] == "32  100% WR"
    assert texts["sm_120"] == "unknown"
    assert matrix.bad == {0}
    assert any("too old" in note for note in matrix.notes)
    for target, last in (("sm_75", "does not compile"), ("sm_120", "compiler too old for this target")):
        assert resource_tables.resource_table(kernels, target).rows[0][-1] == last
    assert not resource_tables.resource_table(kernels, "sm_90").bad


def test_a_target_that_a_kernel_is_not_for_has_an_empty_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_resources, "compile_for", lambda source, symbol, target: resources(target))
    specs = [kernel_spec(name, dtype="float64") for name in ("tensor_core", "tiled")]
    table = resource_tables.matrix_table(kernel_resources.compile_all(specs, ["sm_90", "sm_75"]))
    assert table.columns[2:] == ("sm_75", "sm_90")
    assert [row[2] for row in table.rows] == [NONE, "32  100% W"]


def test_bounds_table() -> None:
    specs = kernel_resources.specs(expand(["coalesced", "auto"]), "float32", "NN")
    table = resource_tables.bounds_table(specs, Size(4096, 4096, 4096), "sm_90")
    assert table.rows == (("coalesced", "-", "0", "0.250", "683", "8.36", "16,433", "on-chip loads"),)


# The comparison itself, with NumPy as the device


@pytest.fixture
def comparing(monkeypatch: pytest.MonkeyPatch) -> Any:
    from tiledmm.bench import comparison as module
    from tiledmm.bench import operand_sets

    def matmul(a: Any, b: Any, *, out: Any, dtype: Any, variant: str, tile: int | None, precision: str) -> None:
        out[...] = product(*(multiplied(x, precision) for x in (a, b)))
        if (variant, tile) == ("tiled", 8):
            out[-1, -1] += 1

    def compiled(spec: Any) -> Any:
        if spec.variant.name == "coalesced":
            raise CompilationError("it does not")
        return SimpleNamespace(registers=32, shared_bytes=8192, local_bytes=4, occupancy=1.0, symbol=spec.symbol)

    def cupy_matmul(a: Any, b: Any, out: Any) -> None:
        if a.dtype == np.float16:
            raise TypeError("not this type")
        np.matmul(a, b, out=out)

    runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda device: {"l2CacheSize": 10_000})
    fake = SimpleNamespace(asarray=np.array, empty=np.empty, matmul=cupy_matmul, cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(module, "cupy", fake)
    monkeypatch.setattr(operand_sets, "cupy", fake)
    monkeypatch.setattr(module, "matmul", matmul)
    monkeypatch.setattr(module, "compiled", compiled)
    monkeypatch.setattr(module, "device_model", lambda ieee=False: H100)
    monkeypatch.setattr(module, "_device_clock", lambda device: timing.HostClock(lambda: None))
    return module


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GN", "TG"])
@pytest.mark.cupy
def test_operands_lie_as_the_layout_says(comparing: Any, layout: str) -> None:
    sets = comparing.operand_sets(Size(5, 7, 11), "float32", layout)
    assert len(sets) == -(-20_000 // (4 * (55 + 77 + 35)))
    for x, copy, shape, letter in (
        (sets[0].a, sets[1].a, (5, 11), layout[0]),
        (sets[0].b, sets[1].b, (11, 7), layout[1]),
    ):
        assert x.shape == shape
        assert len(np.unique(x)) == x.size
        assert (x == copy).all()
        unit = {"N": (False, True), "T": (True, False), "G": (False, False)}[letter]
        assert tuple(stride == 4 for stride in x.strides) == unit
    assert not np.shares_memory(sets[0].a, sets[1].a)


@pytest.mark.cupy
def test_compare_checks_then_times_what_is_right(comparing: Any) -> None:
    told: list[str] = []
    variant_tiles = expand(["naive", "coalesced", "tiled", "auto"], [8, 16])
    found = comparing.compare(
        Size(6, 5, 7), layout="TN", variant_tiles=variant_tiles, seconds=0.001, progress=told.append
    )
    assert [r.label for r in found.rows] == ["naive", "coalesced", "tiled 8", "tiled 16", "auto", BASELINE]
    naive, broken, wrong, right, auto, base = found.rows
    assert not found.ok
    assert (broken.ok, broken.microseconds, "CompilationError" in broken.note) == (False, None, True)
    assert (wrong.ok, wrong.microseconds) == (False, None)
    assert wrong.error > found.tolerance
    assert "tiledmm_" in auto.note
    for timed in (naive, right, auto, base):
        assert timed.ok
        assert timed.tflops == pytest.approx(2 * 6 * 5 * 7 / timed.microseconds / 1e6)
        assert timed.gbps == pytest.approx(4 * (42 + 35 + 30) / timed.microseconds / 1e3)
    assert base.to_cupy == naive.to_naive == 1
    assert right.speed_over(base) == pytest.approx(right.to_cupy)
    assert told[0] == "preparing operands"
    assert told[-1] == "timing 4 rivals in turn"
    assert from_json(to_json(ComparisonReport(MACHINE, (found,)))).comparisons == (found,)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
@pytest.mark.parametrize("idle", ["tiled", "auto", BASELINE, "a peer"])
@pytest.mark.cupy
def test_a_rival_that_writes_nothing_does_not_pass_for_the_one_before(
    comparing: Any, idle: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    multiply, of_cupy = comparing.matmul, comparing.cupy.matmul

    def matmul(a: Any, b: Any, *, variant: str, **others: Any) -> None:
        if variant != idle:
            multiply(a, b, variant=variant, **others)

    def peers(names: Any, sets: Any, kind: Any) -> dict[str, Any]:
        assert [*names] == ["a peer"]
        return {"a peer": lambda i: None if idle == "a peer" else of_cupy(sets[0].a, sets[0].b, out=sets[0].c)}

    monkeypatch.setattr(comparing, "matmul", matmul)
    monkeypatch.setattr(comparing, "matmuls_of_libraries", peers)
    monkeypatch.setattr(comparing.cupy, "matmul", lambda *x, out: None if idle == BASELINE else of_cupy(*x, out=out))
    variant_tiles = [*expand(["naive", "tiled"], [16]), VariantTile("auto")]
    found = comparing.compare(Size(6, 5, 7), dtype=dtype, variant_tiles=variant_tiles, seconds=0.001, peers=["a peer"])
    assert [row.ok for row in found.rows] == [row.variant != idle for row in found.rows] and len(found.rows) == 5
    assert [row.label for row in found.rows if row.microseconds is None] in ([], [f"{idle} 16"], [idle])


@pytest.mark.cupy
def test_rivals_take_the_copies_of_operands_by_turns(comparing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[int, ...]] = []
    several, multiply, of_cupy = comparing.operand_sets, comparing.matmul, comparing.cupy.matmul
    sets: list[Any] = []

    def operand_sets(*arguments: Any) -> list[Any]:
        sets[:] = several(*arguments)[:3]
        return sets

    def matmul(a: Any, b: Any, *, out: Any, **others: Any) -> None:
        used.append(tuple(map(id, (a, b, out))))
        multiply(a, b, out=out, **others)

    def cupys(a: Any, b: Any, out: Any) -> None:
        used.append(tuple(map(id, (a, b, out))))
        of_cupy(a, b, out=out)

    def measure(rivals: Any, clock: Any, seconds: float) -> dict[str, Any]:
        assert seconds == 0.25 and [*rivals] == ["naive", "tiled 16", BASELINE]
        for call in rivals.values():
            used.clear()
            for i in range(7):
                call(i)
            assert used == [tuple(map(id, sets[i % 3])) for i in range(7)]
        return {}

    monkeypatch.setattr(comparing, "operand_sets", operand_sets)
    monkeypatch.setattr(comparing, "matmul", matmul)
    monkeypatch.setattr(comparing.cupy, "matmul", cupys)
    monkeypatch.setattr(comparing.timing, "measure", measure)
    found = comparing.compare(Size(6, 5, 7), variant_tiles=expand(["naive", "tiled"], [16]), seconds=0.25)
    assert (found.sets, found.ok, found.layout) == (3, True, "NN") and (found.m, found.n, found.k) == (6, 5, 7)


@pytest.mark.parametrize(
    ("dtype", "keywords"),
    [
        ("float32", (None, "full")), ("tf32", (None, "tf32")), ("int8_int32", ("int32", "full")),
        ("int8", (None, "full")),
    ],
)  # fmt: skip
@pytest.mark.cupy
def test_every_kernel_is_asked_for_the_type_that_is_compared(
    comparing: Any, dtype: str, keywords: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[Any] = set()
    fake = SimpleNamespace(COMPUTE_TYPE_TF32=1, get_compute_type=lambda dtype: 0, set_compute_type=lambda *_: None)

    def matmul(a: Any, b: Any, *, out: Any, dtype: Any, precision: str, variant: str, tile: int | None) -> None:
        asked.add((variant, tile, dtype, precision))
        wide = (multiplied(x, precision).astype(out.dtype) for x in (a, b))
        out[...] = product(*wide) if out.dtype.kind == "f" else np.matmul(*wide)

    monkeypatch.setattr(comparing, "matmul", matmul)
    monkeypatch.setattr(comparing, "_routines_linalg", fake)
    variant_tiles = [VariantTile("tensor_core", 64), VariantTile("tensor_core", 128), VariantTile("auto")]
    found = comparing.compare(Size(40, 48, 64), dtype=dtype, variant_tiles=variant_tiles, seconds=0.001)
    rows = [row for row in found.rows if row.ours]
    kernels = {(row.variant, row.tile) for row in rows}
    assert ("auto", None) in kernels and asked == {(*kernel, *keywords) for kernel in kernels}
    assert all(row.ok and row.microseconds for row in found.rows), [row.note for row in found.rows]
    kind = compute_element(dtype)
    moved = (40 + 48) * 64 * kind.itemsize + 40 * 48 * kind.result.itemsize
    for row in found.rows:
        assert row.gbps == pytest.approx(moved / (row.microseconds or 0) / 1e3)


@pytest.mark.parametrize(
    ("dtype", "n"), [("float32", 48), ("complex64", 48), ("float16", 48), ("float64", 320), ("int8", 320)]
)
@pytest.mark.cupy
def test_rates_are_told_as_parts_of_the_roofline(comparing: Any, dtype: str, n: int) -> None:
    size = Size(n, n + 1, n + 2)
    found = comparing.compare(size, dtype=dtype, variant_tiles=expand(["naive", "warp_tiled"], [32]), seconds=0.001)
    for row in found.rows:
        if row.microseconds is None:
            continue
        tensor_cores = row.label == BASELINE and dtype in ("float64", "int8")
        spec = kernel_spec("tensor_core" if tensor_cores else "naive", dtype=dtype)
        bounds = roofline(spec, H100.gpu, *size)
        attained = 2 * size.m * size.n * size.k / (row.microseconds * 1e-6)
        assert row.of_roofline == pytest.approx(attained / min(bounds.fma_bound, bounds.memory_bound))
        assert row.tflops == pytest.approx(attained * element(dtype).multiplies / 1e12)


@pytest.mark.cupy
def test_the_cpu_is_judged_and_compared_too(comparing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    comparing.cupy.asnumpy = np.array
    size, variant_tiles = Size(6, 5, 7), expand(["naive"])
    found = comparing.compare(size, variant_tiles=variant_tiles, seconds=0.001, peers=["cpu"])
    naive, base, numpys, loop = found.rows
    assert numpys.label.startswith("numpy") and loop.label == "triple loop"
    for row in (numpys, loop):
        assert row.peer and row.ok and row.microseconds and row.error is not None and row.of_roofline is None
        assert row.to_cupy == pytest.approx(base.microseconds / row.microseconds)
        assert row.to_naive == pytest.approx(naive.microseconds / row.microseconds)
    monkeypatch.setattr(comparing, "cpu_matmuls", lambda a, b: {"wrong": lambda i: a @ b + 1, "slow": "left out"})
    *_, wrong, slow = comparing.compare(size, variant_tiles=variant_tiles, seconds=0.001, peers=["cpu"]).rows
    assert (wrong.ok, slow.note, slow.microseconds) == (False, "left out", None)


@pytest.mark.cupy
def test_a_peer_is_asked_for_an_error_and_no_figure_where_it_fails(
    comparing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(i: int) -> None:
        raise RuntimeError("not this type\nat all")

    rivals = {
        "refused": refuse, "absent": "OSError: no libcudart", "returns": lambda i: np.matmul(held[0].a, held[0].b),
        "wrong": lambda i: held[0].a[:, :5] * np.float32(0),
    }  # fmt: skip
    held: list[Any] = []

    def peers(names: Any, sets: Any, kind: Any) -> dict[str, Any]:
        held[:] = sets
        return rivals

    monkeypatch.setattr(comparing, "matmuls_of_libraries", peers)
    found = comparing.compare(Size(6, 5, 7), variant_tiles=expand(["naive"]), seconds=0.001, peers=["torch"])
    rows = {row.label: row for row in found.rows[2:]}
    assert {name: (row.ok, row.microseconds is not None, row.note) for name, row in rows.items()} == {
        "refused": (False, False, "RuntimeError: not this type"), "absent": (False, False, "OSError: no libcudart"),
        "returns": (True, True, ""), "wrong": (False, False, ""),
    }  # fmt: skip
    assert all(row.peer for row in rows.values())
    monkeypatch.setattr(comparing, "matmul", lambda *_, **__: refuse(0))
    with pytest.raises(RuntimeError):
        comparing.compare(Size(6, 5, 7), variant_tiles=expand(["naive"]), seconds=0.001)


@pytest.mark.cupy
def test_compare_goes_on_where_cupy_cannot(comparing: Any) -> None:
    found = comparing.compare(Size(3, 3, 3), dtype="float16", variant_tiles=expand(["naive"]), seconds=0.001)
    assert found.ok
    assert found.row(BASELINE).note == "TypeError: not this type"
    assert found.row("naive").to_cupy is None
    assert found.row("naive").microseconds


@pytest.mark.parametrize("dtype", ["complex64", "bool", "uint64", "bfloat16"])
@pytest.mark.cupy
def test_compare_takes_every_kind_of_type(comparing: Any, dtype: str) -> None:
    found = comparing.compare(Size(4, 4, 4), dtype=dtype, variant_tiles=expand(["naive"]), seconds=0.001)
    assert found.ok
    naive = found.row("naive")
    assert naive.tflops == pytest.approx(128 * element(dtype).multiplies / naive.microseconds / 1e6)


@pytest.mark.cupy
def test_compare_has_cupy_take_tf32_too_and_only_meanwhile(comparing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = ["float32"]
    fake = SimpleNamespace(
        COMPUTE_TYPE_TF32="tf32", get_compute_type=lambda dtype: taken[-1],
        set_compute_type=lambda dtype, compute: taken.append(compute),
    )  # fmt: skip
    monkeypatch.setattr(comparing, "_routines_linalg", fake)
    variant_tiles = expand(["warp_tiled", "tensor_core", "auto"])
    found = comparing.compare(Size(40, 40, 70), dtype="tf32", variant_tiles=variant_tiles, seconds=0.001)
    assert taken == ["float32", "tf32", "float32"]
    assert found.ok
    assert [row.variant for row in found.rows] == ["tensor_core", "auto", BASELINE]
    assert 2.0**-24 < (found.row("tensor_core").error or 0) < 2.0**-10 < found.tolerance
    monkeypatch.setattr(comparing, "matmul", lambda a, b, out, **_: np.matmul(a * np.float32(1.01), b, out=out))
    assert not comparing.compare(Size(40, 40, 70), dtype="tf32", variant_tiles=variant_tiles, seconds=0.001).ok


# ---- power under load ----


def test_readings_of_power_are_those_of_the_second_half() -> None:
    text = "100.0, 345\n200.0, 1000\n600.0, 1900\n620.0, 1700\n"
    assert power.readings(text) == (610.0, 1800.0)
    for broken in ("", "No devices were found\n", "600.0, 1900\n"):
        with pytest.raises(ValueError):
            power.readings(broken)


def test_power_stands_beside_speed() -> None:
    (row,) = power.load_table([{"rival": "a", "product": "b", "tflops": 50.0, "watts": 625.0, "mhz": 1700.0}]).rows
    assert row[-1] == "0.0800"


def test_what_no_simulator_runs_is_left_out_and_is_no_failure() -> None:
    size = Size(8, 8, 8)
    rows = simulated.simulate_all([VariantTile("cublas")], size, dtype="float16", layout="NN", target="sm_90")
    assert [row.ok for row in rows] == [True]
    table = simulated.simulated_table(rows, size, dtype="float16", layout="NN", target="sm_90")
    assert table.rows[0][0] == "cublas" and simulated.GPU_ONLY in table.rows[0]
    assert not table.bad


@pytest.mark.parametrize("name", ["warp_tiled", "wgmma", "tiny"])
def test_a_kernel_is_named_by_its_tile(name: str) -> None:
    for tile in find_variant(name).tiles:
        assert resource_tables.tile_name(kernel_spec(name, tile=tile)) == str(tile)
    assert resource_tables.tile_name(kernel_spec("warp_tiled", config={"pad": 0})) == "128x256"


def test_rivals_are_compared_in_the_rounds_that_they_share() -> None:
    slow, fast = timing.Sample({0: 4.0, 2: 6.0}, 1), timing.Sample({0: 2.0, 1: 100.0, 2: 2.0}, 1)
    assert fast.speed_over(slow) == 2.5
    assert slow.speed_over(fast) == pytest.approx(5 / 12)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64])
def test_integers_have_no_tolerance(dtype: Any) -> None:
    assert ref.tolerance(np.dtype(dtype), 1000) == 0


def test_an_error_where_all_terms_are_zero_is_seen() -> None:
    """Check that an error is reported even where it cannot be divided by the size of the terms, which is 0."""
    zeros = np.zeros((2, 3), "f4")
    expected = ref.reference(zeros, zeros.T.copy())
    wrong = ref.judge(np.array([[0, 0], [0, 5]], "f4"), expected)
    assert (wrong.ok, wrong.error) == (False, 5.0)


def test_variants_for_a_target_are_those_that_it_runs() -> None:
    variant_tiles = expand(["tiled", "tensor_core", "wgmma", "auto"], "all")
    runnable_there = runnable({"float16": variant_tiles}, "sm_75")["float16"]
    assert {each.label for each in variant_tiles if each not in runnable_there} >= {"wgmma 256", "tensor_core 256"}
    assert {each.variant for each in runnable_there} == {"tiled", "tensor_core", "auto"}
    (sentence,) = left_out({"float16": variant_tiles}, "sm_75")
    assert sentence.startswith("Left out (not available on sm_75): tensor_core 256, wgmma")
    assert left_out({"float16": variant_tiles}, "sm_90") == []
    with pytest.raises(ConfigError, match="wgmma"):
        runnable({"float16": expand(["wgmma"])}, "sm_80")
    by_type = {"float64": expand(["split_float64"]), "float32": expand(["naive"])}
    assert runnable(by_type, "sm_75") == {"float32": expand(["naive"])}
