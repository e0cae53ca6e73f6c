"""The check of a kernel as data, for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiledmm.own_kernels.check_report import KernelReport


def kernel_document(kernel: KernelReport) -> dict[str, Any]:
    """Return the check of a kernel as numbers, strings, lists and dicts."""
    trials = [
        {
            "sizes": dict(each.sizes),
            "divides": each.divides,
            "grid": each.geometry.grid,
            "block": each.geometry.block,
            "shared_bytes": each.geometry.shared_bytes,
            "right": each.right,
            "layout": None if each.layout is None else str(each.layout),
            "numbers": each.numbers or "small integers",
            "findings": [asdict(found) for found in each.report.findings],
            "warnings": [asdict(found) for found in each.report.warnings],
            "explanations": each.explanations,
            "output": each.report.output,
            "flops": each.report.flops,
            "barriers": each.report.barriers,
            "source": asdict(each.report.source),
        }
        for each in kernel.trials
    ]
    return {
        "name": kernel.name, "location": kernel.location, "ok": kernel.ok, "verdict": kernel.verdict,
        "launch": kernel.launch, "missing": kernel.missing, "notes": kernel.notes, "trials": trials,
        "accesses": [asdict(each) for each in kernel.accesses],
        "compiled": kernel.compiled and asdict(kernel.compiled), "unknown": kernel.unknown,
        "bound": kernel.bound and asdict(kernel.bound), "advice": kernel.advice,
        "timed": kernel.timed, "times": [asdict(each) for each in kernel.times],
    }  # fmt: skip
