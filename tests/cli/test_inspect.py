"""Tests of ``tiledmm inspect`` with a made-up compiler."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from typer.testing import CliRunner

from tiledmm import cli
from tiledmm.bench import kernel_resources
from tiledmm.compile import inspection
from tiledmm.compile.inspection import Resources
from tiledmm.errors import INSTALL, CompilationError, MissingDependencyError
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import find_variant


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["inspect", *arguments])


@pytest.fixture
def spills(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Make up the bytes that kernels spill, by target."""
    found: dict[str, int] = {}

    def compile_for(source: str, symbol: str, target: str) -> Resources:
        if found.get(target, 0) < 0:
            raise CompilationError("it does not")
        return Resources(target, 32, 0, found.get(target, 0), 0, 0, None, b"", "")

    monkeypatch.setattr(kernel_resources, "compile_for", compile_for)
    return found


def test_every_tile_on_every_target(spills: dict[str, int]) -> None:
    result = invoke("tiled")
    assert result.exit_code == 0, result.output
    for text in ("on sm_90, H100 SXM 80 GB", "sm_75, T4", "tile 64", "on-chip loads", "was measured"):
        assert text in result.output


def test_programs_get_a_row_a_kernel(spills: dict[str, int]) -> None:
    result = invoke("tiled", "--csv", "--size", "64x32x16", "--dtype", "float16", "--layout", "tn")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["target"], row["tile"]) for row in rows] == [
        (target, str(tile)) for tile in find_variant("tiled").tiles for target in TARGETS
    ]
    same = {"variant": "tiled", "m": "64", "n": "32", "k": "16", "dtype": "float16", "layout": "TN", "registers": "32"}
    assert all(row.items() >= same.items() for row in rows)


def test_one_target_and_tile(spills: dict[str, int]) -> None:
    result = invoke("warp_tiled", "--tile", "128", "--target", "sm_80")
    assert result.exit_code == 0, result.output
    assert "sm_80, A100" in result.output
    assert "sm_90" not in result.output


def test_a_variant_for_one_target(spills: dict[str, int]) -> None:
    result = invoke("wgmma", "--tile", "64")
    assert result.exit_code == 0, result.output
    assert "sm_80" not in result.output


@pytest.mark.parametrize(
    ("variant", "dtype"), [("split_float32", "float32"), ("split_float32", "complex64"), ("split_integer", "int32")]
)
def test_numbers_that_are_split_are_what_is_named(spills: dict[str, int], variant: str, dtype: str) -> None:
    result = invoke(variant, "--tile", "64", "--dtype", dtype, "--csv")
    assert result.exit_code == 0, result.output
    assert {row["dtype"] for row in csv.DictReader(io.StringIO(result.stdout))} == {dtype}


def test_numbers_in_place_of_a_tiles_own(spills: dict[str, int]) -> None:
    result = invoke("warp_tiled", "--config", "stages=2", "--target", "sm_90", "--csv")
    assert result.exit_code == 0, result.output
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert int(row["shared (B)"]) < 37_248, "less than with three stages"


@pytest.mark.parametrize(("spilled", "text"), [(8, "spills 8 B"), (-1, "it does not")])
def test_what_spills_or_does_not_compile_fails(spills: dict[str, int], spilled: int, text: str) -> None:
    spills["sm_75"] = spilled
    result = invoke("naive")
    assert result.exit_code == 1
    assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tilde",), "did you mean"),
        (("auto",), "chooses a kernel"),
        (("tiled", "--tile", "24"), "its tiles are"),
        (("tiled", "--tile", "all"), "--tile accepts one tile here; leave it out for all of its tiles; got 'all'"),
        (("tiled", "--tile", "16,32"), "--tile accepts one tile here"),
        (("tiled", "--target", "sm_1"), "the targets are"),
        (("tiled", "--size", "3x4"), "MxNxK"),
        (("wgmma", "--target", "sm_80"), "compute capability 9.0"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str, spills: dict[str, int]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_without_a_compiler_it_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise MissingDependencyError(f"cuda-core is missing; {INSTALL}")

    monkeypatch.setattr(inspection, "_cuda_core", missing)
    result = invoke("naive")
    assert result.exit_code == 1
    assert INSTALL in result.stderr
