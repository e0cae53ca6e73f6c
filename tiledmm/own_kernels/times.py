"""Times of a right kernel on this machine's GPU, beside the nearest variant of the ladder and ``cupy.matmul``."""

from __future__ import annotations

from dataclasses import replace

from tiledmm.errors import ConfigError, TiledmmError
from tiledmm.hardware.device import has_driver
from tiledmm.own_kernels.check_report import KernelReport, Timed
from tiledmm.own_kernels.expectation import Layout
from tiledmm.own_kernels.launch_rule import LaunchRule
from tiledmm.own_kernels.roles import Roles
from tiledmm.own_kernels.subject import Subject

# M, N and K of the product that is timed. They are rounded up to multiples that the kernel needs.
_SIZE = 2048

# Approximate time to measure each kernel, in seconds.
_SECONDS = 0.1


def with_times(
    report: KernelReport, subject: Subject, roles: Roles, rule: LaunchRule, layout: Layout | None
) -> KernelReport:
    """Return a report of a right product with times on this machine's GPU; the same report without a GPU.

    Args:
        report: The report.
        subject: The kernel.
        roles: Roles of its parameters.
        rule: How it is launched.
        layout: How it reads A and B and writes C; None if no result is right.
    """
    if layout is None or report.bound is None or not report.ok or not has_driver():
        return report
    from tiledmm.own_kernels.plain_variant import plain_kernel, variant_of

    letters = "".join("NT"[each] for each in (layout.a, layout.b, layout.c))
    try:
        plain = plain_kernel(subject, subject.kernel.parameters, roles, rule, letters, (1, 1, 1))
    except ConfigError:  # such as a kernel whose sizes are constants
        return report
    from tiledmm.bench.comparison import compare
    from tiledmm.bench.sizes import Size
    from tiledmm.bench.variant_tiles import VariantTile, expand
    from tiledmm.kernels.variants import VARIANTS

    name = subject.chosen.declaration.short_name
    label = f"{name} of {plain.file}" if name in VARIANTS else name
    size = Size(*(-(-_SIZE // step) * step for step in plain.multiple_of))
    VARIANTS.add(variant_of(plain, label, label))
    try:
        found = compare(
            size, dtype=plain.types[0].dtype_name, layout=plain.layout, seconds=_SECONDS,
            variant_tiles=[VariantTile(label), *expand([report.bound.rung])],
        )  # fmt: skip
    except (ImportError, MemoryError, TiledmmError) as error:
        return replace(report, notes=(*report.notes, f"Nothing was timed: {error}"))
    finally:
        VARIANTS.remove(label)
    times = [
        Timed(row.label, row.microseconds, row.tflops or 0.0, row.to_cupy or 0.0)
        for row in found.rows
        if row.microseconds
    ]
    wrong = [f"On the GPU, {row.label} gives a wrong result. {row.note}".strip() for row in found.rows if not row.ok]
    return replace(report, times=tuple(times), timed=str(size), notes=(*report.notes, *wrong))
