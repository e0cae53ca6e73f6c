"""Tests of rates fitted to made-up timings of a cost model, and of what an interrupted calibration keeps."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiledmm.codegen import kernel_hash, rendering
from tiledmm.elements import compute_element
from tiledmm.errors import ConfigError
from tiledmm.hardware.data_sheets import DATA_SHEETS, Gpu
from tiledmm.kernels.variants import find_variant
from tiledmm.selection import model
from tiledmm.selection import rates as tables
from tiledmm.selection.cost import Cost
from tiledmm.selection.rates import KernelRates, Rates, nearest_rates, own_path, own_rates
from tiledmm.tuning import calibrate as calibration
from tiledmm.tuning import cases as case_module
from tiledmm.tuning.cases import Case, cases_of, choice_of, type_of
from tiledmm.tuning.fit import errors, fit
from tiledmm.tuning.fit_kernel import KNOTS, LIMITS, Expected

GPU = DATA_SHEETS["H100 SXM 80 GB"]
TRUE = replace(nearest_rates(GPU), gpu=GPU)


def made_up(rates: Rates, rows: tuple[KernelRates, ...], noise: float) -> dict[str, Any]:
    """Compute timings of kernels by a cost model with these rates, and add noise."""
    cost, generator = Cost(rates.gpu, rates), random.Random(7)
    known: dict[str, Any] = {}
    for row in rows:
        residents, cases = len(row.residents) + 1, []
        for case in cases_of(row, rates.gpu, residents):
            try:
                choice, packs = choice_of(row, case)
            except ConfigError:
                continue
            time = cost.on_device(row, choice.spec.config, choice.product, packs, case.split)
            if time < 20_000:
                numbers = [case.batch, case.m, case.n, case.k, case.layout, case.split]
                cases.append((numbers, time * generator.uniform(1 - noise, 1 + noise)))
        known[calibration.name_of(row)] = {"residents": residents, "cases": cases}
    return known


def some(*names: str) -> tuple[KernelRates, ...]:
    return tuple(row for row in TRUE.rows if calibration.name_of(row) in names)


NARROW = ("tensor_core 64 float16", "tensor_core 64 tf32")
OTHERS = ("warp_tiled 64 float32", "wgmma 128 float16", "tensor_core 64 float64")


@pytest.mark.parametrize(
    ("noise", "others", "narrow_ones"),
    [
        (0.03, OTHERS[1:2], NARROW[:1]),
        *(pytest.param(noise, OTHERS, NARROW, marks=pytest.mark.slow) for noise in (0.0, 0.03)),
    ],
)
def test_rates_are_found_from_timings(noise: float, others: tuple[str, ...], narrow_ones: tuple[str, ...]) -> None:
    rows, narrow = some(*others), some(*narrow_ones)
    rows += tuple(replace(row, words=0.6, elements=0.3, writing=0.8) for row in narrow)
    true_rates = replace(TRUE, rows=rows)
    start = tuple(replace(row, tflops=row.tflops / 3, overhead_k=10, residents=(), mn_major=1.0) for row in rows)
    known = made_up(true_rates, rows, noise)
    kernels = calibration.timed(start, known)
    found = fit(GPU, TRUE.device, kernels)
    assert max(errors(found, kernels)) < 0.022 + noise
    for row, true in zip(found.rows, rows, strict=True):
        assert row.name == true.name and len(row.residents) == len(true.residents)
        # What does not overlap looks like a lower rate.
        assert row.tflops == pytest.approx(true.tflops, rel=0.17 + noise)
        assert row.residents == pytest.approx(true.residents, abs=0.12 + noise)
        if true.words:
            assert row.words == pytest.approx(true.words, rel=0.12 + noise)
        assert (row.elements > 0) == (row.name == ("tensor_core", 64) and row.type == "float16")


def test_what_is_fitted_is_what_the_model_expects() -> None:
    rows = some("warp_tiled 64 float32", "split_float32 128 float32", "thin 16 float64", "wgmma 128 int8")
    cost = Cost(GPU, TRUE)
    for row, kernel in zip(rows, calibration.timed(rows, made_up(TRUE, rows, 0.0)), strict=True):
        knots = [knot for knot in KNOTS if knot < kernel.residents]
        values = [getattr(row, name) or 1.0 for name in LIMITS] + [row.residents[knot - 1] for knot in knots]
        found = Expected(row.variant, kernel, knots, cost, TRUE.device)(np.array(values))
        assert found == pytest.approx([each.expected(cost, row) for each in kernel.timings], rel=1e-3)


def test_what_every_kernel_depends_on_is_refined() -> None:
    rows = some("split_float32 128 float32", "wgmma 128 int8")
    known = made_up(TRUE, rows, 0.0)
    for each in known.values():
        each["cases"] = each["cases"][::3]
    device = replace(TRUE.device, decomposing_launches=TRUE.device.decomposing_launches * 2, packing=1.4)
    found = fit(GPU, device, calibration.timed(rows, known)).device
    assert found.decomposing_launches == pytest.approx(TRUE.device.decomposing_launches, rel=0.5)
    assert found.packing == pytest.approx(TRUE.device.packing, rel=0.5)
    assert found.memory == device.memory and found.reduction == device.reduction


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_kernel_has_cases_that_it_takes(every: int) -> None:
    for row in TRUE.rows[::every]:
        cases = cases_of(row, GPU, len(row.residents) + 1)
        taken = []
        for case in cases:
            try:
                choice, _ = choice_of(row, case)
            except ConfigError:
                continue
            taken.append(case)
            assert choice.spec.variant.name == row.variant
            assert choice.product.problem.products == case.batch
        assert len(taken) >= 8 and len({*cases}) == len(cases), calibration.name_of(row)
        assert find_variant(row.variant).multiplies(compute_element(type_of(row)))


def test_tiles_that_no_table_knows_are_timed_too() -> None:
    without = (("tensor_core", 64), ("warp_tiled", 64), ("tensor_core", 16), ("tensor_core", 32))
    kept = ("float64", "complex128")  # without tile 16, the table would have no kernel of these types
    left_out = [
        row for row in TRUE.rows if row.name not in without or (row.name == ("tensor_core", 16) and row.type in kept)
    ]
    left_out = [row for row in left_out if not (row.name == ("tensor_core", 128) and row.type == "float64")]
    kernels = calibration.kernels_of(replace(TRUE, rows=tuple(left_out)))
    assert kernels[: len(left_out)] == left_out
    new = {calibration.name_of(row): row for row in kernels[len(left_out) :]}
    types = {row.type for row in left_out if row.variant == "tensor_core"}
    assert {name for name in new if name.startswith("tensor_core 64")} == {f"tensor_core 64 {each}" for each in types}
    assert "tensor_core 128 float64" not in new, "one of another type is known: this was left out"
    assert "warp_tiled 64 float32" not in new, "tables have those of CUDA cores that are ever the fastest"
    narrow = [row for row in TRUE.rows if row.name != ("split_integer", 256)]
    again = {calibration.name_of(row) for row in calibration.kernels_of(replace(TRUE, rows=tuple(narrow)))}
    assert "split_integer 256 int32" in again and "split_integer 256 int64" not in again, "that is the kernel of 128"
    first = next(row for row in left_out if calibration.name_of(row) == "tensor_core 128 float16")
    assert new["tensor_core 64 float16"] == replace(first, tile=64, residents=()), "the search begins there"


def test_types_that_are_new_for_a_variant_are_timed() -> None:
    rows = tuple(row for row in TRUE.rows if (row.variant, row.type) != ("wgmma", "tf32"))
    found = [row for row in calibration.kernels_of(replace(TRUE, rows=rows)) if row not in rows]
    of_wgmma = {(row.tile, row.type) for row in found if row.variant == "wgmma"}
    assert of_wgmma == {(tile, "tf32") for tile in find_variant("wgmma").tiles}


def test_kernels_for_few_shapes_that_a_table_does_not_have_are_timed() -> None:
    for variant in ("outer_products", "block_dot_products"):
        rows = tuple(row for row in TRUE.rows if row.variant != variant)
        found = [row for row in calibration.kernels_of(replace(TRUE, rows=rows)) if row.variant == variant]
        types = ("float32", "complex128", "float16", "int8", "int64")
        assert set(itertools.product(find_variant(variant).tiles, types)) <= {(row.tile, row.type) for row in found}
        for row in found:
            assert len(cases_of(row, TRUE.gpu, 4)) > 20
    assert not any(row.variant in ("naive", "coalesced") for row in calibration.kernels_of(TRUE))


def test_a_kernel_for_a_short_k_is_timed_with_no_longer_one() -> None:
    row = replace(TRUE.rows[0], variant="outer_products", tile=4, type="float16", residents=())
    assert {case.k for case in cases_of(row, TRUE.gpu, 4)} == {1, 2, 4}


def test_skinny_tiles_of_tensor_cores_are_timed_with_skinny_products() -> None:
    for kind in ("float16", "float64"):
        row = replace(some(f"tensor_core 64 {kind}")[0], tile=16, residents=())
        seen = set()
        for case in cases_of(row, GPU, 4):
            choice, packs = choice_of(row, case)
            assert choice.product.problem.m <= 150 and packs == ()
            seen.add(choice.spec.variant.operands.access(choice.spec.variant, packs, choice.product))
        assert seen == {"chunks", "words", "elements"} - ({"elements"} if kind == "float64" else set())


def test_other_gpus_are_timed_with_kernels_that_they_run() -> None:
    turing = {row.variant for row in TRUE.rows if runs_on(row, DATA_SHEETS["T4"])}
    assert "wgmma" not in turing and {"warp_tiled", "tensor_core", "thin"} <= turing
    assert all(runs_on(row, GPU) for row in TRUE.rows)
    for name in ("T4", "A10", "RTX 5090"):
        for row in TRUE.rows:
            if runs_on(row, DATA_SHEETS[name]):
                assert cases_of(row, DATA_SHEETS[name], 2)


def runs_on(row: KernelRates, gpu: Gpu) -> bool:
    return model.runs_on(row, compute_element(type_of(row)), gpu)


class Devices:
    """A stand-in for the module that queries CuPy."""

    def __init__(self) -> None:
        self.forgotten = 0

    def device_model(self, ieee: bool = False) -> Any:
        return type("Model", (), {"gpu": GPU})

    def forget_models(self) -> None:
        self.forgotten += 1


class Bench:
    """A stand-in that times kernels without a GPU and can be interrupted."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after, self.timed = stop_after, list[str]()

    def __call__(self, gpu: Any) -> Bench:
        return self

    def device_rates(self) -> dict[str, Any]:
        self.timed.append("device")
        return {field: getattr(TRUE.device, field) for field in TRUE.device.__slots__}

    def compiled(self, rows: dict[KernelRates, list[Case] | None], tell: calibration.ProgressCallback) -> Any:
        for row, cases in rows.items():
            tell("timing", len(rows))
            yield row, cases

    def timings(self, row: KernelRates, jobs: list[Case] | None) -> dict[str, Any]:
        if self.stop_after is not None and len(self.timed) > self.stop_after:
            raise KeyboardInterrupt
        self.timed.append(calibration.name_of(row))
        found = made_up(TRUE, (row,), 0.0)[calibration.name_of(row)]
        found["cases"] = [(numbers, time) for numbers, time in found["cases"] if jobs is None or Case(*numbers) in jobs]
        self.cases = len(found["cases"])
        return found


def few_cases_of(row: KernelRates, gpu: Gpu, residents: int) -> list[Case]:
    """Return every eighth case of a kernel, for calibrations without fitting."""
    return case_module.cases_of(row, gpu, residents)[::8]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[KernelRates, ...]:
    """Select the kernels of a calibration."""
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    chosen = some("double_buffered 16 float32", "warp_tiled 32 float32", "warp_tiled 64 float32")
    monkeypatch.setattr(calibration, "nearest_rates", lambda gpu: replace(TRUE, rows=chosen))
    monkeypatch.setattr(calibration, "kernels_of", lambda rates: list(rates.rows))
    monkeypatch.setattr(calibration, "_software", lambda: "made up")
    for names in (vars(calibration), globals()):
        monkeypatch.setitem(names, "cases_of", few_cases_of)
    devices = Devices()
    monkeypatch.setattr(calibration, "device_module", lambda name: devices)
    return chosen


def run(monkeypatch: pytest.MonkeyPatch, bench: Bench, **keywords: Any) -> Rates:
    monkeypatch.setattr(calibration, "DeviceBench", bench)
    return calibration.calibrate(**keywords)


@pytest.fixture
def unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fitting, which takes most of a calibration's time and is checked by other tests."""
    rates = lambda gpu, device, kernels: replace(TRUE, rows=tuple(each.row for each in kernels))  # noqa: E731
    monkeypatch.setattr(calibration, "fit", rates)


@pytest.mark.usefixtures("unfitted")
def test_a_calibration_is_written_and_taken(rows: tuple[KernelRates, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_rates(GPU) is None
    rates = run(monkeypatch, Bench(), progress=True)
    assert own_rates(GPU) == replace(rates, gpu=own_rates(GPU).gpu)  # type: ignore[union-attr]
    assert [row.name for row in rates.rows] == [row.name for row in rows]
    assert rates.software == "made up"
    assert all(re.fullmatch("[0-9a-f]{12}", kernel) for kernel in rates.kernels.values())
    assert len({*rates.kernels.values()}) == len(rows), "a kernel each"
    assert calibration.device_module("").forgotten == 1


@pytest.mark.usefixtures("unfitted")
def test_an_interrupted_calibration_goes_on(rows: tuple[KernelRates, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["device", *map(calibration.name_of, rows)]
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, Bench(stop_after=1), progress=False)
    assert own_rates(GPU) is None
    second = Bench()
    rates = run(monkeypatch, second, progress=False)
    assert second.timed == names[2:], "what was measured is kept"
    assert len(rates.rows) == 3
    for keywords, timed in (({}, []), ({"again": True}, names)):
        bench = Bench()
        run(monkeypatch, bench, progress=False, **keywords)
        assert bench.timed == timed
    plain = rendering.render
    for changed, text, timed in (
        ("split_k_reduction", "// a comment\n", []),
        (rows[0].variant, "// a comment\n", []),
        ("split_k_reduction", "int changed;\n", names),  # they launch it, too
        (rows[0].variant, "int changed;\n", names[1:2]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(rendering, "render", lambda spec: plain(spec) + text * (spec.variant.name == changed))  # noqa: B023
            kernel_hash._code.cache_clear()
            bench = Bench()
            run(patch, bench, progress=False)
            assert bench.timed == timed, (changed, text)
        kernel_hash._code.cache_clear()
        run(monkeypatch, Bench(), progress=False)
    monkeypatch.setattr(calibration, "_software", lambda: "another driver")
    bench = Bench()
    run(monkeypatch, bench, progress=False)
    assert bench.timed == names


@pytest.mark.usefixtures("unfitted")
def test_timings_of_the_former_format_are_kept(rows: tuple[KernelRates, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, Bench(), progress=False)
    path = own_path(GPU.name).with_suffix(".timings.json")
    known = json.loads(path.read_text(encoding="utf-8"))["known"]
    for row in rows:
        known[calibration.name_of(row)]["text"] = calibration._former_hash(row)
    for sources, timed in (("these", []), ("others", ["device"])):
        text = json.dumps({"kernels": sources, "software": "made up", "known": known})
        path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(calibration, "nearest_rates", lambda gpu: replace(TRUE, rows=rows, sources="these"))
        bench = Bench()
        run(monkeypatch, bench, progress=False)
        assert bench.timed == timed
        assert json.loads(path.read_text(encoding="utf-8"))["format"] == 2


@pytest.mark.usefixtures("unfitted")
def test_a_case_that_is_new_is_measured_alone(rows: tuple[KernelRates, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(monkeypatch, Bench(), progress=False)
    new, plain = Case(1, 320, 320, 96), cases_of

    def more(row: KernelRates, gpu: Gpu, residents: int) -> list[Case]:
        return plain(row, gpu, residents) + [new] * (row.tile == 64)

    monkeypatch.setattr(calibration, "cases_of", more)
    monkeypatch.setitem(made_up.__globals__, "cases_of", more)
    bench = Bench()
    assert run(monkeypatch, bench, progress=False).rows != ()
    assert (bench.timed, bench.cases) == (["warp_tiled 64 float32"], 1)
    again = Bench()
    assert len(run(monkeypatch, again, progress=False).rows) == len(before.rows)
    assert again.timed == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 0}', "null"])
def test_a_table_that_is_none_is_reported(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    path = own_path(GPU.name)
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.warns(UserWarning, match="tiledmm calibrate") as warned:
        assert own_rates(GPU) is None
    assert [each.filename for each in warned] == [__file__]


def test_of_two_tables_of_a_gpu_the_users_is_taken_unless_its_kernels_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(kernel: str, date: str, sources: str = "") -> Rates:
        rows = tuple(replace(row, kernel=kernel) for row in TRUE.rows)
        return replace(TRUE, gpu=replace(GPU, name="a GPU"), rows=rows, date=date, sources=sources)

    early, late = "2026-01-02", "2026-01-03"
    own, changed = measured("these", early), measured("others", late)

    def taken(of_user: Rates | None, shipped: Rates) -> Rates:
        monkeypatch.setattr(tables, "own_rates", lambda gpu: of_user)
        monkeypatch.setattr(tables, "nearest_rates", lambda gpu: shipped)
        return tables.rates_of(own.gpu)

    assert taken(None, changed) is changed
    assert taken(own, changed) is changed, "the package's was measured later, with kernels that have changed since"
    assert taken(own, measured("others", early)) is own
    assert taken(own, measured("these", late)) is own
    assert taken(own, replace(measured("these", late), rows=own.rows[:1])) is own, "the user's may have more kernels"
    assert taken(replace(own, rows=own.rows[:1]), later := measured("these", late)) is later
    assert taken(own, replace(changed, gpu=GPU)) is own, "another GPU's is further off than other kernels"
    unknown = measured("", early)
    assert taken(unknown, later := measured("", late)) is later, "of neither it is known which kernels they are"
    former = measured("", early, "hash of all sources")
    assert taken(former, measured("these", late, "hash of all sources")) is former
    assert taken(former, later := measured("these", late, "another")) is later


def test_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    rates = replace(TRUE, date="2026-01-02", software="made up")
    tables.write(tmp_path / "some" / "where" / "table.json", rates)
    assert replace(tables.read(tmp_path / "some" / "where" / "table.json"), gpu=rates.gpu) == rates
    tables.write(tmp_path / "table.json", rates)
    again = tables.read(tmp_path / "table.json")
    assert replace(again, gpu=rates.gpu) == rates
    assert (again.gpu.name, again.gpu.sms, again.gpu.arch) == (GPU.name, GPU.sms, GPU.arch)
    for name in ("NVIDIA GeForce RTX 3090", "NVIDIA RTX A6000"):
        gpu = replace(DATA_SHEETS["RTX 3090"], name=name, halves_float32_sums="GeForce" in name, nvlink=0.0)
        tables.write(tmp_path / "other.json", replace(rates, gpu=gpu))
        assert replace(tables.read(tmp_path / "other.json").gpu, source=gpu.source) == gpu
    lines = (tmp_path / "table.json").read_text(encoding="utf-8").splitlines()
    assert len(lines) > len(rates.rows) and json.loads("\n".join(lines))


def test_shipped_tables_are_the_nearest_for_their_gpus() -> None:
    for name, table in tables.shipped().items():
        assert nearest_rates(table.gpu) is table and table.gpu.name == name
        assert tables.own_path(name).name == f"{Path(table.gpu.source).name}"
        assert table.date


# The memory of an H200 is faster for the same arithmetic; so is that of these, for theirs.
LIKE_AN_H200 = {"A100 SXM4 80 GB", "A30", "H200 SXM", "B200"}


@pytest.mark.parametrize("gpu", DATA_SHEETS.values(), ids=lambda gpu: gpu.name)
def test_the_nearest_table_has_about_as_much_memory_bandwidth_for_its_arithmetic(gpu: Gpu) -> None:
    expected = "NVIDIA H200" if gpu.name in LIKE_AN_H200 else "NVIDIA H100 80GB HBM3"
    assert nearest_rates(gpu).gpu.name == expected


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2])
def test_a_table_of_the_same_architecture_is_nearest_however_fast_its_memory(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(name: str, like: str, memory: float) -> Rates:
        gpu = replace(DATA_SHEETS[like], name=name)
        return replace(TRUE, gpu=replace(gpu, bandwidth=memory * gpu.peak_flops("float32")))

    intensity = GPU.bandwidth / GPU.peak_flops("float32")
    alike = table("alike, of another architecture", "A10", intensity)
    near = table("near", "H200 SXM", factor * 4 * intensity)
    far = table("far", "H200 SXM", factor * 5 * intensity)
    low = table("low", "H200 SXM", factor / 6 * intensity)
    known = [alike, low, far, near]
    monkeypatch.setattr(tables, "shipped", lambda: {each.gpu.name: each for each in known})
    assert nearest_rates(GPU) is min((near, low, far), key=lambda each: abs(math.log(
        each.gpu.bandwidth / each.gpu.peak_flops("float32") / intensity)))  # fmt: skip
    known.remove(near)
    assert nearest_rates(replace(GPU, name="low")) is low, "the name comes first"
    assert nearest_rates(replace(GPU, arch=DATA_SHEETS["A10"].arch)) is alike


def test_a_case_is_a_product() -> None:
    row = some("warp_tiled 64 float32")[0]
    choice, packs = choice_of(row, Case(3, 10, 20, 300, "NT", 4))
    problem = choice.product.problem
    assert (problem.products, problem.m, problem.n, problem.k, problem.layout) == (3, 10, 20, 300, "NT")
    assert choice.spec.config.launch.split_k == 4 and packs == ()


def test_a_timing_tells_what_it_costs_to_write_rows_that_are_not_aligned() -> None:
    """Check that some timed products have unaligned rows in C only, which isolates the cost of writing them."""
    for name in ("tensor_core 128 float16", "tensor_core 16 float16", "wgmma 128 float16"):
        (row,) = some(name)
        cost, found = Cost(TRUE.gpu, TRUE), 0
        for case in cases_of(row, TRUE.gpu, 4):
            try:
                choice, packs = choice_of(row, case)
            except ConfigError:
                continue
            terms = cost.terms(row.variant, choice.spec.config, choice.product, packs, case.split)
            found += not terms.aligned_c and terms.access == "chunks" and not packs
        assert found >= 2, name
