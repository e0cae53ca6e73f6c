"""Tests of ``tiledmm profile`` with Nsight Compute; skipped if it is missing or may not read the counters."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import cupy
import pytest

from benchmarks.studies.bank_conflicts import RESULTS
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, expand, multiplying
from tiledmm.elements import compute_element
from tiledmm.errors import ProfilingError
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.profile.collection import Collection, collect
from tiledmm.profile.diagnosis import diagnose
from tiledmm.profile.ncu import find_ncu

ROOT = Path(__file__).resolve().parents[2]
CUBLAS = VariantTile("cublas")
CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)

# What nobody can change from here.
_NOT_HERE = re.compile("may not read|another program uses|does not support this GPU|profiling library")


def profiled(rungs: list[VariantTile], size: int, dtype: str, layout: str, report: Path | None = None) -> Collection:
    if find_ncu() is None:
        pytest.skip("Nsight Compute is not installed")
    try:
        return collect(rungs, Size(size, size, size), dtype, layout, report=report)
    except ProfilingError as error:
        if _NOT_HERE.search(str(error)):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="module")
def padding(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Path]:
    """Profile ``tiled``, which has bank conflicts, ``tiled_padded``, which has none, and cuBLAS."""
    report = tmp_path_factory.mktemp("profile") / "kept.ncu-rep"
    return profiled(
        [VariantTile("tiled", 32), VariantTile("tiled_padded", 32), CUBLAS], 512, "float32", "NT", report
    ), report


def test_every_number_is_there(padding: tuple[Collection, Path]) -> None:
    found, report = padding
    assert report.stat().st_size > 0
    for each in found.profiles:
        assert each.missing == (), "metrics that this ncu does not have on this GPU"
        assert each.nanoseconds and each.nanoseconds > 1000
        for name in ("sm_throughput", "dram_throughput", "memory_throughput", "issued", "occupancy", "l2_hit_rate"):
            assert 0 < getattr(each, name) <= 1.01, (each.label, name)
        assert each.occupancy <= each.possible_occupancy + 0.02
        assert sum(each.waits.values()) > 100
        assert 2 <= len(diagnose(each)) <= 5


def test_conflicts_are_those_counted_before(padding: tuple[Collection, Path]) -> None:
    counted = {row["symbol"]: row for row in json.loads(RESULTS.read_text())["kernels"]}
    for each in padding[0].profiles[:2]:
        row = counted[each.kernel]
        if CAPABILITY == (9, 0):  # where they were counted
            assert each.shared_wavefronts == row["wavefronts"]
            assert each.ideal_shared_wavefronts == row["ideal_wavefronts"]
    tiled, padded, _ = padding[0].profiles
    assert tiled.conflicts > 0.5 * tiled.shared_wavefronts
    assert padded.conflicts < 0.05 * padded.shared_wavefronts
    assert any("Bank conflicts" in sentence for sentence in diagnose(tiled))
    assert not any("Bank conflicts" in sentence for sentence in diagnose(padded))


def test_lines_add_up_to_their_kernel(padding: tuple[Collection, Path]) -> None:
    for each in padding[0].profiles[:2]:
        assert each.note == "", each.note
        assert sum(line.wavefronts for line in each.lines) == each.shared_wavefronts
        assert sum(line.sectors for line in each.lines) == each.global_sectors
        assert sum(line.share for line in each.lines) == pytest.approx(1)
        waits = sum(samples for line in each.lines for samples in line.waits.values())
        assert waits == sum(each.waits.values()) - each.waits.get("selected", 0)
        assert any("barrier" in line.waits for line in each.lines)
    tiled = padding[0].profiles[0]
    assert "Bs[" in max(tiled.lines, key=lambda line: line.wavefronts - line.ideal_wavefronts).text


@pytest.mark.parametrize(
    "dtype",
    ["float32", *(pytest.param(each, marks=pytest.mark.full) for each in ("float16", "int8", "int32", "float64"))],
)
def test_every_variant_and_its_lines(dtype: str) -> None:
    """Check that every launch is identified, and that its source lines belong to the kernel that ran."""
    kind = compute_element(dtype)
    rungs = [
        rung
        for rung in multiplying(expand([*(row.name for row in kernel_variants()), "auto"]), dtype)
        if rung.variant == "auto" or find_variant(rung.variant).runs_on(CAPABILITY, kind)
    ]
    found = profiled([*rungs, CUBLAS], 512, dtype, "NN")
    assert [each.label for each in found.profiles] == [each.label for each in (*rungs, CUBLAS)]
    assert {each.label: each.note for each in found.profiles if each.note} == {}
    assert all(each.lines for each in found.profiles[:-1])


def test_the_command(padding: tuple[Collection, Path]) -> None:
    line = [sys.executable, "-m", "tiledmm", "profile", "naive", "tiled", "--size", "256", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [each["label"] for each in data["profiles"]] == ["naive", "tiled 32"]
    assert all(each["lines"] and each["words"] for each in data["profiles"])
