"""Tests of kernels that are passed as text, as a file, or as what is neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiledmm
from tiledmm import simulator
from tiledmm.codegen.rendering import page_of, render
from tiledmm.errors import CompilationError, ConfigError, OperandTypeError
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator.build.source_text import is_path

TWICE = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("mine.cu", True), (" mine.cu\n", True), ("../a folder/mine (1).cuh", True), ("mine", True),
        ("", False), (TWICE, False), ("int x;", False), ("#define N 4", False), ("mine.cu\nmine.cu", False),
    ],
)  # fmt: skip
def test_one_line_without_code_is_a_path(source: str, named: bool) -> None:
    assert is_path(source) is named


@pytest.mark.parametrize("path", ["mine.cu", "mine", "a folder/mine.txt"])
def test_a_file_that_does_not_exist_is_named_with_its_folder(path: str, folder: Path) -> None:
    a = np.ones((8, 8), np.float32)
    for run in (
        lambda: simulator.launch(path, 1, 8, (a,)),
        lambda: simulator.run(a, a, variant="naive", source=path),
        lambda: simulator.trace_block(Path(path), 1, 8, (a,)),
    ):
        with pytest.raises(ConfigError) as caught:
            run()
        assert repr(path) in str(caught.value) and str(folder) in str(caught.value)


def test_a_path_is_a_string_or_an_object(folder: Path) -> None:
    (folder / "mine.cu").write_text(TWICE, encoding="utf-8")
    for source in ("mine.cu", Path("mine.cu"), str(folder / "mine.cu"), TWICE):
        x = np.ones(8, np.float32)
        assert simulator.launch(source, 1, 8, (x,)).ok and (x == 2).all()
    with pytest.raises(OperandTypeError, match="bytes"):
        simulator.launch(TWICE.encode(), 1, 8, (np.ones(8, np.float32),))


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "mine.cu").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"'mine\.cu' .*UTF-8"):
        simulator.launch("mine.cu", 1, 8, ())
    with pytest.raises(ConfigError, match="cannot be read"):
        simulator.launch(str(folder), 1, 8, ())


def test_a_product_runs_a_text_as_well_as_a_file() -> None:
    a = np.ones((8, 8), np.float32)
    c, report = simulator.run(a, a, variant="naive", source=tiledmm.source("naive"))
    assert report.ok and (c == 8).all() and report.locations[0] == "kernel.cu:1"


@pytest.mark.parametrize("marker", ["", "// Only the kernel's page, without its headers: it does not compile.\n"])
@pytest.mark.parametrize("variant", ["tiled", "tensor_core", "wgmma"])
def test_a_page_without_its_headers_is_recognized(variant: str, marker: str, folder: Path) -> None:
    spec = kernel_spec(variant)
    (folder / "mine.cu").write_text(marker + page_of(render(spec)), encoding="utf-8")
    line = 2 + bool(marker)
    with pytest.raises(CompilationError, match=rf"mine\.cu:{line}: .*only the kernel's page.*without --page"):
        simulator.launch("mine.cu", 1, 32, ())
    if variant == "tiled":
        a = np.ones((8, 8), np.float32)
        with pytest.raises(CompilationError, match=rf"mine\.cu:{line}: .*only the kernel's page.*without --page"):
            simulator.run(a, a, variant=variant, source="mine.cu")


def test_an_undefined_name_in_a_complete_kernel_is_not_that_of_a_page() -> None:
    with pytest.raises(CompilationError, match="flot32 is undefined; did you mean float32"):
        simulator.launch(tiledmm.source("naive").replace("using TA = float32", "using TA = flot32"), 1, 32, ())


def test_a_rendered_kernel_is_found_by_its_name() -> None:
    name = kernel_spec("naive").symbol
    assert simulator.RawKernel(tiledmm.source("naive"), name).max_threads_per_block == 512
    with pytest.raises(OperandTypeError, match="4 parameters"):
        simulator.launch(tiledmm.source("naive"), 1, 32, (), name=name)


def test_a_raw_kernel_is_told_that_its_code_is_a_file() -> None:
    with pytest.raises(ConfigError, match=r"'mine\.cu'"):
        simulator.RawKernel("mine.cu", "twice")
