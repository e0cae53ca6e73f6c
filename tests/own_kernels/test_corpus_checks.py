"""Tests of checks without options of the files in ``tests/simulator/corpus``."""

from __future__ import annotations

import pytest

import tiledmm
from tests.conftest import slow_unless
from tests.simulator.corpus import CORPUS, FOLDER
from tiledmm.errors import ConfigError

EVERY_DAY = {
    "template_tile.cu", "column_major.cu", "no_second_barrier.cu", "batched.cu", "transpose.cu", "float4_everywhere.cu",
}  # fmt: skip

# Wrong files that a check does not find to be wrong, as they are right for another purpose: for whole tiles, for C by
# columns, for a batch with one B, for sizes that are multiples of 4. The verdict, or the layout, says which.
UNFOUND = {
    "no_guard.cu": "right where the tile divides the sizes", "stored_transposed.cu": "right",
    "batch_offset.cu": "right", "float4_everywhere.cu": "right where 4 divides the sizes",
}  # fmt: skip


@pytest.mark.parametrize(
    "file", [pytest.param(each, marks=slow_unless(each.name in EVERY_DAY), id=each.name) for each in CORPUS]
)
def test_checks_without_options(file):
    report = tiledmm.check(FOLDER / file.name)
    assert report.ok == (not file.error or file.name in UNFOUND)
    if file.name in UNFOUND:
        assert report.kernels[0].verdict == UNFOUND[file.name]


KERNELS = [path for folder in ("kernels", "held_out/kernels") for path in sorted((FOLDER.parent / folder).glob("*.cu"))]
GUESSED = {
    "matmul_blocked", "batched_matmul", "dp4a_gemm", "sgemm_double_buffered", "softmax", "spmv_csr", "function_table",
    "brick_sort",
}  # fmt: skip


@pytest.mark.parametrize(
    "path", [pytest.param(each, marks=slow_unless(each.stem in GUESSED), id=each.stem) for each in KERNELS]
)
def test_no_right_kernel_is_called_wrong_because_of_a_guess(path):
    try:
        verdicts = [each.verdict for each in tiledmm.check(path, checks=True).kernels]
    except ConfigError:
        return
    assert not {"WRONG", "FINDINGS"} & set(verdicts)
