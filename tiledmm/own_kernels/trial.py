"""One launch of a kernel at given sizes: its arguments, its report, and whether its result is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tiledmm.own_kernels.expectation import LAYOUTS, Function, Layout, Product
from tiledmm.own_kernels.explanations import why_wrong
from tiledmm.own_kernels.launch_rule import Geometry
from tiledmm.own_kernels.matrix_values import WIDEST_K, wide_numbers
from tiledmm.simulator.api import launch_kernel
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.check.expected import Tolerance
from tiledmm.simulator.check.finding_kinds import ENDLESS, WRONG_RESULT
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.report import Report

# Elements between the rows of a matrix with a row stride: whole vectors of 16 bytes for every type.
_GAPS = {"A": 16, "B": 32, "C": 48}


@dataclass(frozen=True, slots=True)
class Trial:
    """One launch of a kernel.

    Attributes:
        sizes: M, N and K; empty for a kernel that is not a product.
        divides: Whether the tile divides the sizes.
        geometry: Grid, block and shared memory.
        report: Report of the simulator.
        right: Whether the result is right; None if nothing was compared.
        layout: How the kernel reads A and B, and writes C; None for other kernels.
        adds: Whether the kernel adds to C, which must be zero before the launch.
        numbers: Description of the matrices' elements; empty for small integers.
        explanations: Sentences that explain a wrong result.
        kernel: The kernel.
        arguments: Its arguments before the launch.
    """

    sizes: Mapping[str, int]
    divides: bool
    geometry: Geometry
    report: Report
    right: bool | None
    layout: Layout | None = None
    adds: bool = False
    numbers: str = ""
    explanations: tuple[str, ...] = ()
    kernel: NativeKernel | None = field(default=None, repr=False, compare=False)
    arguments: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """True if there are no findings, and the result is not wrong."""
        return self.report.ok and self.right is not False

    @property
    def ends(self) -> bool:
        """True if the launch ends by itself."""
        return not any(each.kind in ENDLESS for each in self.report.findings)


def try_product(
    kernel: NativeKernel,
    product: Product,
    sizes: Mapping[str, int],
    geometry: Geometry,
    settings: Settings,
    *,
    divides: bool,
    layout: Layout | None = None,
) -> Trial:
    """Run a matmul-like kernel, and find the layout in which its result is right.

    Args:
        kernel: The kernel.
        product: What it should compute.
        sizes: M, N and K.
        geometry: Grid, block and shared memory.
        settings: Settings of the simulator.
        divides: Whether the tile divides the sizes.
        layout: Layout of the kernel; None if it is unknown, so that it must be found.
    """
    found = find_layout(kernel, product, sizes, geometry, settings, layout)
    if found is None or not found.report.ok or settings.checks == "full":
        known, adds = (found.layout, found.adds) if found else (layout, False)
        found = _compared(kernel, product, sizes, geometry, settings, known or Layout(), zero=adds)
    return replace(found, divides=divides)


def try_wide_numbers(kernel: NativeKernel, product: Product, known: Trial, settings: Settings) -> Trial | None:
    """Run a kernel with numbers whose sums need many bits; return the trial if it is wrong, else None.

    The kernel is right for small integers.

    Args:
        kernel: The kernel.
        product: What it should compute.
        known: The launch with small integers.
        settings: Settings of the simulator.
    """
    values, sizes, layout, geometry = wide_numbers(product.types), known.sizes, known.layout, known.geometry
    if values is None or layout is None or sizes["K"] > WIDEST_K:
        return None
    arguments = product.arguments(sizes, layout, zero=known.adds, values=values)
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    expected = product.result(before, sizes, layout)
    report = launch_kernel(
        kernel, geometry.grid, geometry.block, arguments, geometry.shared_bytes,
        replace(settings, checks=bool(settings.checks), counts=False),
        expected={product.roles.c: expected}, tolerance=Tolerance(0, 0),
    )  # fmt: skip
    if not _is_wrong(report):
        return None
    numbers = "large integers" if product.types[2].kind in "iu" else "numbers whose sums need many bits"
    sentences = why_wrong(kernel, product, sizes, geometry, settings, layout)
    return replace(known, report=report, right=False, numbers=numbers, explanations=sentences)


def try_row_strides(kernel: NativeKernel, product: Product, known: Trial, settings: Settings) -> Trial | None:
    """Run a right kernel with row strides that are larger than the rows; return the trial if it is wrong, else None.

    The gaps between rows hold NaN or a large number, and the gaps of C must stay unchanged.

    Args:
        kernel: The kernel.
        product: What it should compute.
        known: The launch with rows that follow each other.
        settings: Settings of the simulator.
    """
    roles, sizes, layout, geometry = product.roles, known.sizes, known.layout, known.geometry
    # A parameter such as strideA may also be the distance between the matrices of a batch.
    leading = {
        at: matrix for at, matrix in roles.leading.items() if product.parameters[at].name.lower().startswith("ld")
    }
    strides = {matrix: at for at, matrix in leading.items() if matrix in "ABC"}
    if layout is None or not strides or roles.batch is not None:
        return None
    arguments = product.arguments(sizes, layout, zero=known.adds)
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    expected = product.result(before, sizes, layout)
    for matrix, at in strides.items():
        place, gap = roles.order["ABC".index(matrix)], _GAPS[matrix]
        arguments[place] = _with_gaps(arguments[place], gap)
        arguments[at] += gap
        if matrix == "C":
            expected = _with_gaps(expected, gap)
    report = launch_kernel(
        kernel, geometry.grid, geometry.block, arguments, geometry.shared_bytes,
        replace(settings, checks=bool(settings.checks), counts=False), expected={roles.c: expected},
    )  # fmt: skip
    if report.ok:
        return None
    named = ", ".join(product.parameters[at].name for at in strides.values())
    return replace(known, report=report, right=not _is_wrong(report), numbers=f"{named} larger than the rows")


def _with_gaps(matrix: np.ndarray[Any, Any], gap: int) -> np.ndarray[Any, Any]:
    """Return a copy of a matrix with elements between its rows that no kernel may use."""
    wide = np.full((matrix.shape[0], matrix.shape[1] + gap), 77 if matrix.dtype.kind in "iub" else np.nan, matrix.dtype)
    wide[:, : matrix.shape[1]] = matrix
    return wide


def find_layout(
    kernel: NativeKernel,
    product: Product,
    sizes: Mapping[str, int],
    geometry: Geometry,
    settings: Settings,
    layout: Layout | None = None,
) -> Trial | None:
    """Run a matmul-like kernel without full checks; return the trial with a layout in which it is right, or None.

    Args:
        kernel, product, sizes, geometry, settings, layout: As for ``try_product``.
    """
    settings = replace(settings, checks=bool(settings.checks))
    starts = [layout or Layout()]
    if product.roles.leading and layout is None:  # row strides depend on the layout
        starts = [Layout(), Layout(b=True), Layout(True, True, True), Layout(a=True)]
    for start in starts:
        for zero in (False, True):
            arguments = product.arguments(sizes, start, zero=zero)
            before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
            report = launch_kernel(kernel, geometry.grid, geometry.block, arguments, geometry.shared_bytes, settings)
            if any(each.kind in ENDLESS for each in report.findings):
                return None
            got = arguments[product.roles.c]
            right = product.matching(before, got, sizes, [layout] if layout else LAYOUTS)
            if right is not None:
                return Trial(sizes, True, geometry, report, True, right, zero, kernel=kernel, arguments=tuple(before))
            if product.roles.beta is not None or not _is_unset(got):
                break  # it does not add to C
    return None


def try_launch(
    kernel: NativeKernel,
    arguments: Sequence[Any],
    geometry: Geometry,
    settings: Settings,
    function: Function | None,
    sizes: Mapping[str, int],
) -> Trial:
    """Run any kernel on given arguments.

    Args:
        kernel: The kernel.
        arguments: Its arguments.
        geometry: Grid, block and shared memory.
        settings: Settings of the simulator.
        function: What it should compute; None if nothing is compared.
        sizes: Sizes in the report.
    """
    before = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in arguments)
    expected = function.expected(arguments, kernel.parameters) if function else None
    report = launch_kernel(
        kernel, geometry.grid, geometry.block, list(arguments), geometry.shared_bytes, settings, expected=expected
    )
    right = None if expected is None else not _is_wrong(report)
    return Trial(sizes, True, geometry, report, right, kernel=kernel, arguments=before)


def _compared(
    kernel: NativeKernel,
    product: Product,
    sizes: Mapping[str, int],
    geometry: Geometry,
    settings: Settings,
    layout: Layout,
    *,
    zero: bool,
) -> Trial:
    """Run a kernel in a layout, and compare its result. A wrong result is a finding with the line that wrote it."""
    arguments = product.arguments(sizes, layout, zero=zero)
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    expected = product.result(before, sizes, layout)
    report = launch_kernel(
        kernel, geometry.grid, geometry.block, arguments, geometry.shared_bytes, settings,
        expected={product.roles.c: expected},
    )  # fmt: skip
    right = not _is_wrong(report)
    sentences = () if right else why_wrong(kernel, product, sizes, geometry, settings, layout)
    return Trial(
        sizes, True, geometry, report, right, layout, zero, explanations=sentences, kernel=kernel,
        arguments=tuple(before),
    )  # fmt: skip


def _is_wrong(report: Report) -> bool:
    return any(each.kind == WRONG_RESULT for each in report.findings)


def _is_unset(array: np.ndarray[Any, Any]) -> bool:
    """Return whether a kernel added to what was in C: then every element of a product of floats is NaN."""
    if array.dtype.kind in "iub":
        return True
    values = array if array.dtype.kind == "c" else array.astype(np.float64)
    return bool(np.isnan(values).mean() > 0.5)
