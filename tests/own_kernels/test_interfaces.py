"""Tests of the ways to a check besides its function: a command, a cell of a notebook, a fixture of pytest."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tiledmm.cli import app

FILES = Path(__file__).with_name("files")

pytest_plugins = ["tiledmm.own_kernels.pytest_fixture"]


def command(*arguments: str):
    return CliRunner().invoke(app, ["check", *arguments])


def test_exit_statuses():
    right = command(str(FILES / "macro_sizes.cu"))
    assert right.exit_code == 0, right.output
    assert right.output.rstrip().endswith("MatrixMulKernel: right")
    assert command(str(FILES / "race.cu")).exit_code == 1
    assert command(str(FILES / "race.cu"), "nothing").exit_code == 2
    assert command(str(FILES / "nothing.cu")).exit_code == 2
    assert command(str(FILES / "structures.cu"), "GetElement").exit_code == 2


def test_options():
    done = command(
        str(FILES / "launchers.cu"), "sgemm_naive", "--size", "40,50,60", "--grid", "(M+7)/8,(N+7)/8", "--block", "8,8",
        "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    (kernel,) = found["kernels"]
    assert kernel["trials"][0]["sizes"] == {"M": 40, "N": 50, "K": 60}
    assert kernel["trials"][0]["block"] == [8, 8, 1]
    assert done.exit_code == 0


def test_watch_checks_again_after_a_save(tmp_path):
    file = tmp_path / "mine.cu"
    file.write_text((FILES / "grid_stride.cu").read_text())
    with subprocess.Popen(
        [sys.executable, "-m", "tiledmm", "check", str(file), "--watch"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            seen = [next(line for line in process.stdout if line.startswith("matmul_1d:"))]
            time.sleep(0.01)
            file.write_text(file.read_text().replace("i < k;", "i < k - 1;"))
            seen.append(next(line for line in process.stdout if line.startswith("matmul_1d:")))
        finally:
            process.kill()
    assert [line.strip() for line in seen] == ["matmul_1d: right", "matmul_1d: WRONG"]


def test_a_cell_of_a_notebook():
    pytest.importorskip("IPython", reason="needs IPython")
    from IPython.core.error import UsageError
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from tiledmm.own_kernels import notebook

    shell = InteractiveShell(config=Config(HistoryAccessor={"enabled": False}))
    notebook.load(shell)
    text = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
    shell.push({"double": lambda x: 2 * x})
    report = shell.run_cell_magic("cuda", "--grid 1 --block 8 --args 'x:f32[8]' --expect double", text)
    assert report.ok
    assert report.kernels[0].trials[0].right
    with pytest.raises(UsageError, match="pass --grid and --block"):
        shell.run_cell_magic("cuda", "", text)


def test_a_fixture_of_pytest(cuda_check):
    assert cuda_check("files/grid_stride.cu", size=33).ok
    with pytest.raises(pytest.fail.Exception, match="race on shared memory"):
        cuda_check("files/race.cu")
    text = "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n"
    assert cuda_check(text, grid=1, block=4, args="x:f32[4]").kernels[0].name == "k"
