"""Tests of what kernels print: to the terminal once, and to the report."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import tiledmm
from tiledmm import simulator
from tiledmm.cli import app
from tiledmm.errors import SimulationError

PRINTS = """
extern "C" __global__ void k(float* x, int at) {
    if (threadIdx.x == 0) printf("block %d\\n", blockIdx.x);
    __syncthreads();
    x[at + threadIdx.x] += 1;
}
"""


@pytest.mark.parametrize("checks", [True, False, "full"])
def test_a_launch_prints_what_its_kernel_prints_once(checks: bool | str, capsys: pytest.CaptureFixture[str]) -> None:
    report = simulator.launch(PRINTS, 2, 32, (np.zeros(32, np.float32), 0), checks=checks, workers=1, threads="forward")
    assert capsys.readouterr().out == report.output == "block 0\nblock 1\n"


def test_a_finding_does_not_keep_text_from_being_printed(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(32, np.float32)
    report = simulator.launch(PRINTS, 1, 32, (x, 1), checks="full", expected={"x": x + 1})
    assert not report.ok and capsys.readouterr().out == report.output == "block 0\n"
    kernel = simulator.RawKernel(PRINTS, "k")
    with pytest.raises(SimulationError):
        kernel((1,), (32,), (x, np.int32(1)))
    assert kernel.report is not None and capsys.readouterr().out == kernel.report.output == "block 0\n"


def test_a_launch_can_be_silent(capsys: pytest.CaptureFixture[str]) -> None:
    report = simulator.launch(PRINTS, 1, 32, (np.zeros(32, np.float32), 0), prints=False)
    assert not capsys.readouterr().out and report.output == "block 0\n"


@pytest.mark.parametrize("prints", [True, False])
def test_a_product_prints_what_its_kernels_print(prints: bool, capsys: pytest.CaptureFixture[str]) -> None:
    a = np.ones((8, 8), np.float32)
    text = tiledmm.source("naive")
    at = text.index("{", text.index("KERNEL(")) + 1
    text = text[:at] + 'if (threadIdx.x + threadIdx.y + blockIdx.x == 0) printf("here\\n");' + text[at:]
    _, report = simulator.run(a, a, variant="naive", source=text, prints=prints, checks="full")
    assert report.output == "here\n" and capsys.readouterr().out == prints * report.output


def test_a_check_shows_it_once_in_its_place(tmp_path) -> None:
    file = tmp_path / "k.cu"
    text = """
    __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
        int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
        if (row == 0 && col == 0) printf("%s\\n", "first");
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
    """
    file.write_text(text, encoding="utf-8")
    shown = CliRunner().invoke(app, ["check", str(file)]).output
    assert shown.count("first\n") == 1 and "prints      first" in shown


def test_an_element_that_no_thread_wrote_because_of_a_finding_says_so() -> None:
    x = np.full(32, np.nan, np.float32)
    text = "__global__ void k(float* x, float* y) { float v = y[64 + threadIdx.x]; x[threadIdx.x] = v; }"
    report = simulator.launch(text, 1, 32, (x, np.zeros(32, np.float32)), expected={"x": np.zeros(32, np.float32)})
    first, wrong = report.findings
    assert (first.kind, wrong.kind) == ("global access out of bounds", "wrong result")
    assert "x[0] is nan" in wrong.message and "the finding above ended the launch" in wrong.message


def test_a_variant_that_cannot_be_simulated_says_why() -> None:
    a = np.ones((64, 64), np.float16)
    with pytest.raises(tiledmm.errors.ConfigError, match=r"cublas.*numpy\.matmul"):
        simulator.matmul(a, a, variant="cublas")
