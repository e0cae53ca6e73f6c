"""Tests that read real output of ncu, recorded on a GPU by ``tests/profile/record.py``."""

from __future__ import annotations

import json

from benchmarks.studies.bank_conflicts import RESULTS
from tests.profile.record import FOLDER, RUNGS
from tiledmm.kernels.variants import kernel_spec
from tiledmm.profile.diagnosis import diagnose
from tiledmm.profile.kernel_profile import reduced
from tiledmm.profile.ncu import parse_raw, parse_source

SYMBOLS = [kernel_spec(rung.variant, tile=rung.tile, layout="NT").symbol for rung in RUNGS]


def test_every_metric_is_there_and_the_conflicts_are_those_counted_before() -> None:
    launches = parse_raw((FOLDER / "raw.csv").read_text(encoding="utf-8"))
    assert [each.name for each in launches] == SYMBOLS
    counted = {row["symbol"]: row for row in json.loads(RESULTS.read_text())["kernels"]}
    for launch in launches:
        found, before = reduced("x", launch), counted[launch.name]
        assert found.missing == ()
        assert found.shared_wavefronts == before["wavefronts"]
        assert found.ideal_shared_wavefronts == before["ideal_wavefronts"]
        for name in ("sm_throughput", "memory_throughput", "dram_throughput", "issued", "occupancy", "l2_hit_rate"):
            assert 0 < getattr(found, name) <= 1.01, name
        assert sum(found.waits.values()) > 100
        limit, *others = diagnose(found)
        assert 1 <= len(others) <= 4
        assert limit.startswith("Bound by shared memory" if found.conflicts else "Near a limit: ")


def test_instructions_add_up_to_their_kernel() -> None:
    launches = parse_raw((FOLDER / "raw.csv").read_text(encoding="utf-8"))
    for launch, counted in zip(
        launches, parse_source((FOLDER / "source.csv").read_text(encoding="utf-8")), strict=True
    ):
        assert counted.name == launch.name
        assert [place for place, *_ in counted.rows] == [16 * i for i in range(len(counted.rows))]
        numbers = [each for *_, each in counted.rows]
        assert sum(each.get("L1 Wavefronts Shared", 0) for each in numbers) == reduced("x", launch).shared_wavefronts
        barrier = sum(each.get("stall_barrier", 0) for each in numbers)
        assert barrier == reduced("x", launch).waits.get("barrier", 0)
