"""Tests of checks without options of the files in ``tests/simulator/corpus``."""

from __future__ import annotations

import pytest

import tiledmm
from tests.conftest import slow_unless
from tests.simulator.corpus import CORPUS, FOLDER
from tiledmm.errors import ConfigError

EVERY_DAY = {
    "template_tile.cu", "double_matmul.cu", "int8_dp4a.cu", "grid_stride.cu", "column_major.cu", "warp_dot.cu",
    "ping_pong.cu", "old_school.cu", "complex_product.cu", "modern.cu", "no_second_barrier.cu",
    "partial_sums_lost.cu", "half_sums.cu", "int_sums.cu", "bytes_overflow.cu", "never_cleared.cu", "sum_outside.cu",
    "grid_rounded_down.cu", "batched.cu", "bt_product.cu", "split_k.cu", "tree_without_barrier.cu",
}  # fmt: skip

# Right files of which a check asks something: a structure, or a launch or arguments that the file does not have.
INCOMPLETE = {
    "namespaces.cu", "gemv.cu", "bias_relu.cu", "row_sums.cu", "transpose.cu",
}  # fmt: skip

# Wrong files that a check does not find to be wrong.
UNFOUND = {
    "no_guard.cu", "stored_transposed.cu", "batch_offset.cu", "float4_everywhere.cu",
}  # fmt: skip


@pytest.mark.parametrize(
    "file", [pytest.param(each, marks=slow_unless(each.name in EVERY_DAY), id=each.name) for each in CORPUS]
)
def test_checks_without_options(file):
    try:
        ok = tiledmm.check(FOLDER / file.name).ok
    except ConfigError as error:
        assert file.name in INCOMPLETE | UNFOUND, error
    else:
        assert file.name not in INCOMPLETE
        assert ok == (not file.error or file.name in UNFOUND)


KERNELS = [path for folder in ("kernels", "held_out/kernels") for path in sorted((FOLDER.parent / folder).glob("*.cu"))]
GUESSED = {"matmul_blocked", "matmul_bt", "batched_matmul", "dp4a_gemm", "sgemm_double_buffered", "min_max", "softmax"}


@pytest.mark.parametrize(
    "path", [pytest.param(each, marks=slow_unless(each.stem in GUESSED), id=each.stem) for each in KERNELS]
)
def test_no_right_kernel_is_called_wrong_because_of_a_guess(path):
    try:
        verdicts = [each.verdict for each in tiledmm.check(path, checks=True).kernels]
    except ConfigError:
        return
    assert "WRONG" not in verdicts
