"""Tests that learners' correct kernels give right results without findings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import slow_unless
from tests.simulator.held_out.kernels import HELD_OUT_KERNELS
from tests.simulator.kernels import FOLDER, KERNELS, Kernel
from tiledmm import simulator


def test_every_file_has_a_launch() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(KERNELS)


# Every third kernel of each subject is an everyday test, and those with features of the language that no other has.
EVERYDAY = {*list(KERNELS)[::3]} | {
    "cp_async_stages", "function_table", "half_axpy", "pipeline_copy", "print_values", "reduce_cooperative",
    "template_scale", "wmma_gemm",
}  # fmt: skip


@pytest.mark.parametrize(
    "threads", ["random", *(pytest.param(order, marks=pytest.mark.slow) for order in ("forward", "reverse"))]
)
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(each, marks=slow_unless(name in EVERYDAY), id=name)
        for name, each in (KERNELS | HELD_OUT_KERNELS).items()
    ],
)
def test_a_correct_kernel_has_no_finding(kernel: Kernel, threads: str) -> None:
    launch = kernel.prepare()
    report = simulator.launch(
        kernel.path,
        launch.grid,
        launch.block,
        launch.arguments,
        name=launch.name,
        shared_bytes=launch.shared_bytes,
        expected=launch.expected,
        rtol=launch.rtol,
        threads=threads,
        workers=1,
    )
    assert report.findings == () and report.ok
    for position, values in launch.any_order.items():
        np.testing.assert_array_equal(np.sort(launch.arguments[position]), np.sort(values))
