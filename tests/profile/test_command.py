"""Tests of ``tiledmm profile`` with a made-up ncu and GPU."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.profile.fake_ncu import FakeNcu, install, raw_page, source_page
from tiledmm import cli
from tiledmm.cli import device
from tiledmm.compile.disassembly import Instruction, MachineCode
from tiledmm.kernels.variants import kernel_spec
from tiledmm.profile import collection
from tiledmm.profile.kernel_profile import METRICS
from tiledmm.simulator.build.source_map import SourceMap

TILED, NAIVE = kernel_spec("tiled", tile=16), kernel_spec("naive")
CODE = MachineCode((), {}, {0: Instruction("BAR", (2,))})


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["profile", *arguments])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeNcu:
    """Provide an ncu that reports two variants."""
    kernels = {"tiled": [TILED], "naive": [NAIVE], "cublas": []}
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setattr(collection, "kernels_of", lambda rung, *product: kernels[rung.variant])
    monkeypatch.setattr(collection, "_target", lambda spec: "sm_90")
    text = "int a;\n__syncthreads();\n"
    monkeypatch.setattr(collection, "machine_code_with_lines", lambda *kernel: CODE)
    monkeypatch.setattr(collection, "lines_of", lambda spec: (text, SourceMap.of_file("tiled.cu", text)))
    fake = install(monkeypatch, tmp_path)
    values = {metric: 0.5 for metric in METRICS.values()} | {"smsp__pcsamp_warps_issue_stalled_barrier": 5}
    at = [("BAR.SYNC 0x0 ;", {"stall_barrier": 5})]
    fake.answer(
        raw=raw_page((NAIVE.symbol, values), (TILED.symbol, values)),
        source=source_page((NAIVE.symbol, at), (TILED.symbol, at)),
    )
    return fake


def test_numbers_words_lines_and_the_command(fake: FakeNcu) -> None:
    result = invoke("tiled,naive", "--tiles", "16", "--size", "64x32x16", "--layout", "nt")
    assert result.exit_code == 0, result.output
    for text in (
        "64 x 32 x 16  float32  NT", "tiled 16", "L2 hit rate", "waiting: barrier", "Latency-bound",
        "100% of all waiting is at tiled.cu:2: __syncthreads();", f"where {TILED.symbol} waits",
        "tiledmm.profile.application 64x32x16 float32 NT naive tiled:16",
    ):  # fmt: skip
        assert text in result.output, text


def test_json_has_everything(fake: FakeNcu) -> None:
    result = invoke("tiled", "naive", "--tiles", "16", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["ok"] is True and data["command"][-2:] == ["naive", "tiled:16"]
    naive, tiled = data["profiles"]
    assert (naive["label"], tiled["label"], tiled["issued"]) == ("naive", "tiled 16", 0.5)
    assert tiled["waits"] == {"barrier": 5} and tiled["lines"][0]["number"] == 2 and len(tiled["words"]) >= 2


def test_csv_is_one_table_of_all(fake: FakeNcu) -> None:
    rows = list(csv.DictReader(io.StringIO(invoke("tiled,naive", "--tiles", "16", "--csv").stdout)))
    assert next(row for row in rows if row["figure"] == "occupancy")["tiled 16"] == "0.005"


def test_the_report_is_kept(fake: FakeNcu, tmp_path: Path) -> None:
    kept = tmp_path / "kept.ncu-rep"
    assert invoke("tiled,naive", "--tiles", "16", "--report", str(kept)).exit_code == 0
    assert kept.is_file()


def test_what_ncu_cannot_do_is_one_sentence(fake: FakeNcu) -> None:
    fake.answer(output="==ERROR== ERR_NVGPUCTRPERM - permission", status=1, writes=False)
    result = invoke("tiled")
    assert result.exit_code == 1
    assert "performance counters" in result.output and "Traceback" not in result.output


def test_without_ncu(fake: FakeNcu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiledmm.profile.ncu.find_ncu", lambda: None)
    result = invoke("tiled")
    assert result.exit_code == 1 and "PATH" in result.output


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")
    result = invoke("tiled")
    assert result.exit_code == 1
    assert "this machine has none: none in this test; --print-command" in result.output


@pytest.mark.parametrize("gpu", [None, "none in this test"])
def test_the_command_line_is_printed_without_a_gpu(monkeypatch: pytest.MonkeyPatch, gpu: str | None) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: gpu)
    monkeypatch.setattr("tiledmm.profile.ncu.find_ncu", lambda: None)
    result = invoke("cublas", "tiled", "--tiles", "8", "--report", "my file.ncu-rep", "--print-command")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("ncu --target-processes all")
    assert "--export 'my file.ncu-rep'" in result.output and result.output.endswith("float32 NN tiled:8 cublas\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wgmma",), "float32"),
        (("tiled", "--report", "/not/there/x.ncu-rep"), "/not/there"),
        (("tilde",), "tiled"),
        (("",), "tiledmm variants"),
        ((",", "--print-command"), "tiledmm variants"),
        (("tiled", "--size", "0"), "MxNxK"),
        (("tiled", "--tiles", "24"), "24"),
        (("tiled", "--layout", "NX"), "NX"),
        (("tiled", "--dtype", "float33"), "float33"),
        (("wgmma", "--dtype", "float64"), "float64"),
        (("tiled", "--json", "--csv"), "--csv"),
        ((), "variants"),
    ],
)
def test_mistakes_are_named(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
