from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks import bank_conflicts, nsight
from benchmarks.bank_conflicts import CASES, METRICS, RESULTS, SIZE, conflicts_table, count_all
from benchmarks.nsight import parse
from tiledmm.codegen import specialize

HEADER = ["ID", "Process ID", "Kernel Name", *METRICS.values()]


def ncu_output(*kernels: list[str]) -> str:
    units = ["", "", "", *("inst" for _ in METRICS)]
    lines = [",".join(f'"{cell}"' for cell in row) for row in (HEADER, units, *kernels)]
    return "==PROF== Connected to process 7\n==PROF== Profiling\n" + "\n".join(lines) + "\n"


def test_counts_are_read_from_what_ncu_prints():
    output = ncu_output(["0", "7", "tiledmm_x", "4,194,304", "8,388,608", "10", "20", "8,388,628", "4,194,314"])
    assert parse(output, METRICS) == [
        {
            "symbol": "tiledmm_x",
            "loads": 4_194_304,
            "load_wavefronts": 8_388_608,
            "stores": 10,
            "store_wavefronts": 20,
            "wavefronts": 8_388_628,
            "ideal_wavefronts": 4_194_314,
        }
    ]


def test_a_metric_that_ncu_does_not_have_is_an_error():
    with pytest.raises(ValueError, match="smsp__sass_inst_executed_op_shared_ld"):
        parse(ncu_output(["0", "7", "tiledmm_x", "(!) n/a", "1", "1", "1", "1", "1"]), METRICS)


def test_output_without_a_table_has_no_kernels():
    assert parse("==PROF== nothing\n", METRICS) == []


def test_what_ncu_says_after_the_table_is_no_kernel():
    output = ncu_output(["0", "7", "tiledmm_x", *["1"] * 6], ["1", "7", "tiledmm_y", *["2"] * 6])
    assert [row["symbol"] for row in parse(output + "==WARNING== a remark\n", METRICS)] == ["tiledmm_x", "tiledmm_y"]


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(
    ("stdout", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", "may not read"),
        ("==WARNING== No kernels were profiled.\n", "no kernel|exit status 1"),
        (ncu_output(["0", "7", "another", *["1"] * 6]), "saw .*another|exit status 1"),
    ],
)
def test_failures_of_ncu_say_what_is_wrong(monkeypatch, stdout, message, status):
    monkeypatch.setattr(nsight.shutil, "which", lambda name: name)
    done = subprocess.CompletedProcess([], status, stdout, "")
    monkeypatch.setattr(nsight.subprocess, "run", lambda *args, **keywords: done)
    with pytest.raises(RuntimeError, match=message):
        count_all()


def test_without_ncu_there_is_nothing_to_profile_with(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="not on PATH"):
        count_all()


def test_counts_that_cannot_be_read_end_in_a_message(monkeypatch, capsys):
    def profile():
        raise ValueError("ncu gave 'n/a'")

    monkeypatch.setattr(bank_conflicts, "missing_gpu", lambda: None)
    monkeypatch.setattr(bank_conflicts, "count_all", profile)
    monkeypatch.setitem(sys.modules, "tiledmm.bench.machine", SimpleNamespace(this_machine=None))
    monkeypatch.setattr(sys, "argv", ["bank_conflicts"])
    assert bank_conflicts.main() == 1
    assert "n/a" in capsys.readouterr().err


def ways(words):
    """Wavefronts for 4-byte accesses: the most different words in one bank."""
    return max(len({word for word in words if word % 32 == bank}) for bank in range(32))


def read(rows, pitch):
    """Loads and wavefronts a step of k, for reads along k in the rows of a tile."""
    if pitch % 4:
        return 1, ways([row * pitch for row in rows])
    quarters = [[row * pitch + word for row in rows[i : i + 8] for word in range(4)] for i in range(0, 32, 8)]
    single = all(len(set(rows[i : i + 8])) == 1 for i in range(0, 32, 8))
    return 1 / 4, (2 if single else sum(map(ways, quarters))) / 4


@pytest.mark.parametrize(
    "row",
    json.loads(RESULTS.read_text())["kernels"] if RESULTS.exists() else [],
    ids=lambda row: row["symbol"],
)
def test_the_rules_in_the_documentation_give_what_was_counted(row):
    tile, layout, config = row["tile"], row["layout"], specialize(row["variant"], tile=row["tile"]).config
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
