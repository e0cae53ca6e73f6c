"""Explanations of why a result is wrong and why a kernel is slow, from ``simulated.explanation``, for a check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tiledmm.own_kernels.expectation import ALPHA, BETA, Layout, Product
from tiledmm.own_kernels.matrix_values import random_numbers
from tiledmm.simulator.api import launch_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiledmm.compile.inspection import Resources
    from tiledmm.own_kernels.launch_rule import Geometry
    from tiledmm.simulator.build.native_kernel import NativeKernel
    from tiledmm.simulator.execute.settings import Settings
    from tiledmm.simulator.report.report import Report


def why_wrong(
    kernel: NativeKernel,
    product: Product,
    sizes: Mapping[str, int],
    geometry: Geometry,
    settings: Settings,
    layout: Layout,
) -> tuple[str, ...]:
    """Run a wrong kernel again on random numbers, which distinguish mistakes, and return explanations of its result.

    Args:
        kernel: The kernel.
        product: What it should compute.
        sizes: M, N and K.
        geometry: Grid, block and shared memory.
        settings: Settings of the simulator.
        layout: How the kernel should read A and B, and write C.
    """
    from tiledmm.simulated.explanation.wrong import explain_wrong_product

    if product.roles.batch is not None:
        return ()
    arguments = product.arguments(sizes, layout, values=random_numbers)
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    expected = product.result(before, sizes, layout)
    report = launch_kernel(
        kernel, geometry.grid, geometry.block, arguments, geometry.shared_bytes, replace(settings, counts=False),
        expected={product.roles.c: expected},
    )  # fmt: skip
    a, b, c = (before[at] for at in product.roles.order)
    found = explain_wrong_product(
        a.T if layout.a else a,
        b.T if layout.b else b,
        arguments[product.roles.c].T if layout.c else arguments[product.roles.c],
        expected=expected.T if layout.c else expected,
        before=c.T if layout.c else c,
        alpha=1 if product.roles.alpha is None else ALPHA,
        beta=0 if product.roles.beta is None else BETA,
        report=report,
    )
    return tuple(each.message for each in found)


def why_slow(report: Report, resources: Resources | None, shared_bytes: int, dtype: str) -> tuple[str, ...]:
    """Return sentences on what slows a kernel down, from its counts.

    Args:
        report: Report of a launch.
        resources: Registers and spills; None if they are unknown.
        shared_bytes: Dynamic shared memory per block, in bytes.
        dtype: Type in which the kernel multiplies; empty for a kernel that is not a product.
    """
    from tiledmm.simulated.explanation.slow import explain_slow_kernel

    found = explain_slow_kernel(
        report, dtype=dtype or "float32", resources=resources, shared_bytes=shared_bytes, is_product=bool(dtype)
    )
    return tuple(each.message for each in found)
