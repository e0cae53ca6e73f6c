"""Tests of ``tiledmm tiles`` on the simulator and with a made-up GPU."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import missing_simulator
from tiledmm import cli
from tiledmm.bench import kernel_resources, simulable
from tiledmm.bench import simulated as simulation
from tiledmm.bench.results import BASELINE, Comparison, Row
from tiledmm.bench.simulated import Simulated
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.cli import device
from tiledmm.compile.inspection import Resources
from tiledmm.errors import MissingDependencyError
from tiledmm.kernels.variants import find_variant


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["tiles", *arguments])


def rows_of(result: Any) -> list[dict[str, str]]:
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")
    monkeypatch.setattr(simulation, "_can_disassemble", lambda: False)  # a second per kernel


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_for(source: str, symbol: str, target: str) -> Resources:
        return Resources(target, 32, 0, 0, 0, 0, None, b"", "")

    monkeypatch.setattr(kernel_resources, "compile_for", compile_for)


simulated = pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))


@simulated
@pytest.mark.parametrize("variant", ["tiled", pytest.param("warp_tiled", marks=pytest.mark.slow)])
def test_an_element_is_used_as_often_as_the_tile_is_large(variant: str, no_gpu: None, compiler: None) -> None:
    rows = rows_of(invoke(variant, "--size", "256" if variant == "warp_tiled" else "64", "--csv"))
    for row in rows:
        bm, bn, _ = map(int, row["block"].split("x"))
        assert float(row["reuse"]) == pytest.approx(2 / (1 / bm + 1 / bn))
        assert row["result"] == "right"
        assert row["registers"] == "32"
    assert [row["tile"] for row in rows] == [str(tile) for tile in find_variant(variant).tiles]


@simulated
def test_conflicts_are_a_part_of_the_wavefronts_and_barriers_are_those_of_a_block(no_gpu: None, compiler: None) -> None:
    rows = {row["tile"]: row for row in rows_of(invoke("tiled", "--size", "64", "--layout", "NT", "--csv"))}
    multiply_adds = 64**3 / 32
    for tile, row in rows.items():
        blocks = (64 / int(tile)) ** 2
        assert int(row["total barriers"]) == blocks * int(row["barriers"])
        assert int(row["total conflicts"]) == pytest.approx(multiply_adds * float(row["conflicts"]))
        assert 0 <= float(row["conflicts"]) < float(row["wavefronts"])
    assert rows["32"]["barriers"] == "4", "two for each of two steps"
    assert float(rows["32"]["conflicts"]) > 1
    assert "total" not in invoke("tiled", "--size", "32").stdout


@simulated
def test_a_variant_without_tiles(no_gpu: None, compiler: None) -> None:
    (row,) = rows_of(invoke("naive", "--size", "32", "--csv"))
    assert (row["tile"], row["reuse"], row["wavefronts"], row["shared (B)"]) == ("", "1.0", "", "0")


@pytest.mark.slow
@simulated
def test_a_variant_with_tma(no_gpu: None, compiler: None) -> None:
    rows = rows_of(invoke("wgmma", "--csv"))
    assert [row["tile"] for row in rows] == [str(tile) for tile in find_variant("wgmma").tiles]
    assert all("ok" in row["result"] for row in rows)
    assert {row["tile"]: row["reuse"] for row in rows}["512"] == "256.0", "by the model"


@pytest.mark.parametrize(("wrong", "spills"), [(None, None), (8, None), (64, None), (None, 8), (None, 64), (16, 32)])
def test_one_tile_of_many_that_is_wrong_or_spills_fails(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, wrong: int | None, spills: int | None
) -> None:
    def compile_for(source: str, symbol: str, target: str) -> Resources:
        return Resources(target, 32, 0, 4 if f"_{spills}x{spills}x" in symbol else 0, 0, 0, None, b"", "")

    def simulate_all(variant_tiles: list[VariantTile], *_: Any, **__: Any) -> list[Simulated]:
        return [Simulated(each, None, None, "it is broken" if each.tile == wrong else "") for each in variant_tiles]

    monkeypatch.setattr(kernel_resources, "compile_for", compile_for)
    monkeypatch.setattr(simulation, "simulate_all", simulate_all)
    result = invoke("tiled", "--size", "32", "--csv")
    assert result.exit_code == (wrong is not None or spills is not None)
    rows = csv.DictReader(io.StringIO(result.stdout))
    assert [row["tile"] for row in rows if row["result"] == "does not compile"] == ([str(wrong)] if wrong else [])


@simulated
def test_without_a_compiler_registers_are_left_out(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: Any) -> Any:
        raise MissingDependencyError("cuda-core is missing")

    monkeypatch.setattr(kernel_resources, "compile_for", missing)
    result = invoke("tiled", "--size", "32", "--csv")
    assert all(row["registers"] == "" and row["result"] == "right" for row in rows_of(result))
    assert "cuda-core is missing" in result.stderr


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Make up a GPU on which the largest tile is the fastest."""
    state = SimpleNamespace(wrong=(), asked=None)

    def compare(size: Any, *, dtype: str, layout: str, variant_tiles: Any, seconds: float, progress: Any) -> Comparison:
        progress("preparing operands")
        state.asked = tuple(size), dtype, layout, seconds
        rows = [
            Row(
                each.variant, each.tile, each.tile not in state.wrong, 1e-7,
                microseconds=100 / each.tile, rounds=(100 / each.tile,),
            )
            for each in variant_tiles
        ]  # fmt: skip
        return Comparison(*size, dtype, layout, 1e-5, 1, (*rows, Row(BASELINE, ok=True, error=1e-7)))

    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setitem(sys.modules, "tiledmm.bench.comparison", SimpleNamespace(compare=compare))  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "tiledmm.bench.environment", SimpleNamespace(this_machine=lambda: "a machine"))
    return state


def test_with_a_gpu_they_are_timed(gpu: SimpleNamespace) -> None:
    rows = rows_of(invoke("tiled", "--layout", "nt", "--dtype", "float64", "--seconds", "0.1", "--csv"))
    assert gpu.asked == ((4096, 4096, 4096), "float64", "NT", 0.1)
    tiles = find_variant("tiled").tiles
    assert [float(row["x the best"]) for row in rows] == pytest.approx([tile / max(tiles) for tile in tiles], rel=0.01)
    assert [float(row["reuse"]) for row in rows] == list(tiles)
    assert BASELINE not in {row["variant"] for row in rows}


@pytest.mark.parametrize("wrong", [(8,), (32,), (64,), find_variant("tiled").tiles])
def test_a_wrong_one_fails(gpu: SimpleNamespace, wrong: tuple[int, ...]) -> None:
    gpu.wrong = wrong
    result = invoke("tiled")
    assert result.exit_code == 1
    assert result.output.count("WRONG") == len(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tilde",), "'tiled'"),
        (("auto",), "auto"),
        (("tiled", "--dtype", "float33"), "float33"),
        (("wgmma", "--dtype", "float64"), "wgmma"),
        (("tiled", "--layout", "NX"), "NX"),
        (("tiled", "--size", "99999"), "--size"),
        (("tiled", "--target", "sm_1"), "sm_90"),
        (("tiled", "--chart", "/not/there/x.svg"), "/not/there"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], message: str, no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulable, "_rates", lambda *_: [((32, 32), 1e-6)])  # measuring it takes a second
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_chart_is_drawn(no_gpu: None, compiler: None, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = invoke("tiled", "--size", "32", "--chart", str(tmp_path / "tiles.svg"))
    assert result.exit_code == 0, result.output
    drawn = (tmp_path / "tiles.svg").read_text(encoding="utf-8")
    assert ">64<" in drawn


@pytest.mark.parametrize(
    ("variant", "name", "said"),
    [("tiled", "x.unheard", "svg, svgz"), ("tiled", "x", "svg, svgz"), ("naive", "x.svg", "naive")],
)
def test_what_cannot_be_drawn_is_said(
    no_gpu: None, compiler: None, tmp_path: Path, variant: str, name: str, said: str
) -> None:
    pytest.importorskip("matplotlib")
    result = invoke(variant, "--size", "32", "--chart", str(tmp_path / name))
    assert result.exit_code == 2 and said in " ".join(result.output.replace("│", " ").split())
    assert "Tiles of" not in result.output, "before anything is counted"


@pytest.mark.parametrize("arguments", [("--target", "sm_1"), ("--size", "0")])
def test_mistakes_are_named_where_there_is_a_gpu(gpu: SimpleNamespace, arguments: tuple[str, str]) -> None:
    result = invoke("tiled", *arguments)
    assert result.exit_code == 2, result.output
    assert gpu.asked is None, "nothing is timed"


def test_the_machine_is_named_above_its_times(gpu: SimpleNamespace) -> None:
    result = invoke("tiled")
    assert result.exit_code == 0, result.output
    assert 0 <= result.output.find("a machine") < result.output.find("tile")


@simulated
def test_it_prints_a_table_unless_told_otherwise(no_gpu: None, compiler: None) -> None:
    result = invoke("naive", "--size", "32")
    assert result.exit_code == 0 and "Tiles of naive" in result.output
