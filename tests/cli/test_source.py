"""Tests of ``tiledmm source``: the text of kernels, and their compiled code."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

import tiledmm
from tiledmm import cli
from tiledmm.cli import output
from tiledmm.compile import inspection
from tiledmm.compile.disassembly import nvdisasm
from tiledmm.errors import INSTALL, MissingDependencyError


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["source", *arguments])


def test_piped_it_is_the_kernel_as_it_is() -> None:
    result = invoke("tiled", "--tile", "16", "--dtype", "float64", "--layout", "nt")
    assert result.exit_code == 0, result.output
    assert result.output == tiledmm.source("tiled", tile=16, dtype="float64", layout="NT")


def test_numbers_can_be_given() -> None:
    result = invoke("warp_tiled", "--config", "bk=4,unroll=4", "--config", "stages=2")
    assert result.exit_code == 0, result.output
    assert "constexpr int BK = 4;" in result.output
    assert "constexpr int STAGES = 2;" in result.output


def test_the_page_begins_after_the_headers() -> None:
    whole, page = invoke("naive").output, invoke("naive", "--page").output
    first, _, page = page.partition("\n")
    assert first.startswith("// Only the kernel's page") and "`tiledmm source naive`" in first
    assert whole.endswith(page)
    assert page.startswith("#define KERNEL tiledmm_naive_f32")


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.setattr("tiledmm.cli.source.console", lambda: Console(force_terminal=True, width=40))
    shown = invoke("naive", "--page").output
    assert "\x1b[" in shown
    assert "__launch_bounds__(BM" in shown
    assert output.console().is_terminal is False


def test_what_a_rung_changes() -> None:
    result = invoke("tiled_padded", "--tile", "16", "--diff", "tiled")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:2] == ["--- tiledmm_tiled_f32_16x16x16_nn", "+++ tiledmm_tiled_padded_f32_16x16x16_nn"]
    assert not any(line.startswith("-constexpr int PAD") for line in lines)
    assert any(line.startswith("+constexpr int PAD = 1;") for line in lines)
    assert len(lines) < 100, "headers are not shown: they are the same"


@pytest.mark.parametrize(
    ("arguments", "before"),
    [
        (("warp_tiled", "--tile", "256", "--diff", "warp_tiled:128"), "tiledmm_warp_tiled_f32_128x128x8_nn"),
        (("warp_tiled", "--tile", "256", "--diff", "tiled"), "tiledmm_tiled_f32_32x32x32_nn"),
    ],
)
def test_another_tile(arguments: tuple[str, ...], before: str) -> None:
    assert invoke(*arguments).output.startswith(f"--- {before}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tilde",), "did you mean"),
        (("auto",), "chooses a kernel"),
        (("cublas",), "no kernel of this package"),
        (("tiled", "--tile", "24"), "its tiles are"),
        (("tiled", "--dtype", "float33"), "float33"),
        (("tiled", "--layout", "NX"), "NX"),
        (("tiled", "--config", "bk"), "bk=16"),
        (("tiled", "--config", "bq=16"), "the fields are"),
        (("tiled", "--diff", "naive:x"), "tiled:16"),
        (("tiled", "--diff", "naive", "--ptx"), "exclude each other"),
        (("tiled", "--page", "--sass"), "--page"),
        (("tiled", "--target", "sm_1"), "sm_1"),
        (("wgmma", "--ptx", "--target", "sm_80"), "compute capability 9.0"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(("variant", "target", "tile"), [("naive", "sm_80", ()), ("wgmma", "sm_90a", ("--tile", "64"))])
def test_ptx(variant: str, target: str, tile: tuple[str, ...]) -> None:
    needs_compiler()
    result = invoke(variant, *tile, "--ptx", "--target", target.removesuffix("a"))
    assert result.exit_code == 0, result.output
    assert f".target {target}\n" in result.output
    assert f".entry tiledmm_{variant}_f" in result.output


def test_machine_code() -> None:
    needs_compiler()
    try:
        nvdisasm()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    result = invoke("naive", "--sass")
    assert result.exit_code == 0, result.output
    assert "FFMA" in result.output


@pytest.mark.parametrize("option", ["--ptx", "--sass"])
def test_without_a_compiler_it_is_told_how_to_get_one(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise MissingDependencyError(f"cuda-core is missing; {INSTALL}")

    monkeypatch.setattr(inspection, "_cuda_core", missing)
    result = invoke("naive", option)
    assert result.exit_code == 1
    assert result.stderr == f"cuda-core is missing; {INSTALL}\n"
    assert not result.stdout


def needs_compiler() -> None:
    pytest.importorskip("cuda.core")
    try:
        inspection.compile_for('extern "C" __global__ void f() {}', "f", "sm_90")
    except MissingDependencyError as error:
        pytest.skip(str(error))
