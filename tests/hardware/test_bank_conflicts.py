from __future__ import annotations

import json
import sys
from dataclasses import fields
from types import SimpleNamespace

import pytest

from benchmarks.studies import bank_conflicts
from benchmarks.studies.bank_conflicts import CASES, METRICS, RESULTS, SIZE, conflicts_table, count_all
from benchmarks.support import nsight
from tests.profile.fake_ncu import install, raw_page
from tiledmm.bench.results import Machine
from tiledmm.errors import ProfilingError
from tiledmm.kernels.variants import kernel_spec


def launches(**changes):
    """Format what ncu prints for all cases."""
    counts = {metric: f"{i:,}" for i, metric in enumerate(METRICS.values(), start=1_000_000)} | changes
    return raw_page(*((kernel_spec(name, tile=tile, layout=layout).symbol, counts) for name, tile, layout in CASES))


def test_counts_are_read_from_what_ncu_prints(monkeypatch, tmp_path):
    fake = install(monkeypatch, tmp_path)
    fake.answer(raw=launches())
    rows = count_all()
    assert [(row["variant"], row["tile"], row["layout"]) for row in rows] == CASES
    assert [rows[0][name] for name in METRICS] == list(range(1_000_000, 1_000_000 + len(METRICS)))
    assert fake.calls[0][-2:] == ["benchmarks.studies.bank_conflicts", "--launch"]


@pytest.mark.parametrize("text", ["(!) n/a", "", "0.5"])
def test_a_metric_that_ncu_does_not_have_is_an_error(monkeypatch, tmp_path, text):
    install(monkeypatch, tmp_path).answer(raw=launches(**{METRICS["loads"]: text}))
    with pytest.raises(ProfilingError, match="smsp__sass_inst_executed_op_shared_ld"):
        count_all()


@pytest.mark.parametrize(("raw", "message"), [("", None), (raw_page(("another", {"x": 1})), "another")])
def test_other_kernels_than_were_launched(monkeypatch, tmp_path, raw, message):
    install(monkeypatch, tmp_path).answer(raw=raw)
    with pytest.raises(ProfilingError, match=message):
        count_all()


def benchmark(monkeypatch, *arguments):
    """Run the command and return its exit status."""
    monkeypatch.setattr(nsight, "missing_gpu", lambda: None)
    machine = SimpleNamespace(this_machine=lambda: Machine(*[""] * len(fields(Machine))))
    monkeypatch.setitem(sys.modules, "tiledmm.bench.environment", machine)
    monkeypatch.setattr(sys, "argv", ["bank_conflicts", *arguments])
    return bank_conflicts.main()


def test_results_are_written_and_shown(monkeypatch, tmp_path, capsys):
    install(monkeypatch, tmp_path).answer(raw=launches())
    out = tmp_path / "results.json"
    assert benchmark(monkeypatch, "--out", str(out)) == 0
    assert len(json.loads(out.read_text())["kernels"]) == len(CASES)
    assert "double_buffered" in capsys.readouterr().out


def test_counts_that_cannot_be_read_end_in_a_message(monkeypatch, tmp_path, capsys):
    install(monkeypatch, tmp_path).answer(output="==ERROR== ERR_NVGPUCTRPERM", status=1, writes=False)
    out = tmp_path / "results.json"
    assert benchmark(monkeypatch, "--out", str(out)) == 1
    assert capsys.readouterr().err and not out.exists()


def test_where_ncu_watches_kernels_are_launched(monkeypatch):
    launched = []
    monkeypatch.setattr(bank_conflicts, "launch_all", lambda: launched.append(1))
    assert benchmark(monkeypatch, "--launch") == 0 and launched == [1]


def ways(words):
    """Return the wavefronts of 4-byte accesses: the largest number of different words in one bank."""
    return max(len({word for word in words if word % 32 == bank}) for bank in range(32))


def read(rows, pitch):
    """Return loads and wavefronts per step of k, for reads along k in the rows of a tile."""
    if pitch % 4:
        return 1, ways([row * pitch for row in rows])
    quarters = [[row * pitch + word for row in rows[i : i + 8] for word in range(4)] for i in range(0, 32, 8)]
    single = all(len(set(rows[i : i + 8])) == 1 for i in range(0, 32, 8))
    return 1 / 4, (2 if single else sum(map(ways, quarters))) / 4


@pytest.mark.skipif(not RESULTS.exists(), reason="nothing was counted yet")
def test_the_rules_in_the_documentation_give_what_was_counted():
    for row in json.loads(RESULTS.read_text())["kernels"]:
        check_rules(row)


def check_rules(row):
    """Check the loads, their wavefronts and those of stores of one kernel against the rules."""
    tile, layout, config = row["tile"], row["layout"], kernel_spec(row["variant"], tile=row["tile"]).config
    pad_a = config.pad if config.stages == 1 else 0
    across, down = [lane % tile for lane in range(32)], [lane // tile for lane in range(32)]
    a = read(down, config.bk + pad_a) if layout[0] == "N" else (1, ways(down))
    b = read(across, config.bk + config.pad) if layout[1] == "T" else (1, ways(across))
    multiply_adds = SIZE**3 / 32
    counted = (row["loads"] / multiply_adds, row["load_wavefronts"] / multiply_adds)
    assert counted == (a[0] + b[0], a[1] + b[1])
    stored = ways([y * (tile + pad_a) + x for x, y in zip(across, down, strict=True)])
    assert row["store_wavefronts"] == stored * row["stores"]


@pytest.mark.skipif(not RESULTS.exists(), reason="nothing was counted yet")
def test_every_case_was_counted():
    rows = json.loads(RESULTS.read_text())["kernels"]
    assert [(row["variant"], row["tile"], row["layout"]) for row in rows] == CASES


def test_the_table_is_per_multiply_add_of_a_warp():
    warp_wide = 512**3 // 32
    row = dict.fromkeys(METRICS, warp_wide) | {"variant": "tiled", "tile": 32, "layout": "NT"}
    row |= {"load_wavefronts": 8 * warp_wide, "wavefronts": 9 * warp_wide, "ideal_wavefronts": 3 * warp_wide}
    assert conflicts_table([row]).rows == (("tiled", "32", "NT", "1.00", "8.00", "1.00", "9.00", "3.00"),)
