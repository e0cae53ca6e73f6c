"""A simulator of CUDA C: kernels compiled by the machine's C++ compiler and run on the CPU, thread by thread.

    import numpy as np
    from tiledmm import simulator

    report = simulator.launch(text, grid, block, (x, n))            # any kernel, on NumPy arrays
    c = simulator.matmul(a, b, variant="tiled", tile=16)            # a kernel of this package; an error if it is wrong
    c, report = simulator.run(a, b, variant="tiled", tile=16)       # and counts for each source line

It finds what compute-sanitizer finds and counts what Nsight Compute counts; it does not predict time. It needs a C++
compiler, and neither a GPU nor CuPy.

A launch passes through four folders: ``build``, ``execute``, ``check`` and ``report``. Each imports only the folders
before it. ``api`` calls them in this order; ``cupy`` offers CuPy's functions and arrays.

In: CUDA C and NumPy arrays. Out: the arrays that a kernel wrote, and a ``Report``. May import ``hardware`` and
``errors``. The functions that run this package's kernels are in ``tiledmm.simulated``; only their names are here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiledmm.compile.disassembly import disassemble as disassemble
    from tiledmm.simulated.api import gemm, matmul, prepare, run
    from tiledmm.simulated.product_report import ProductReport
    from tiledmm.simulated.tracing import Trace, explain_conflicts, trace
    from tiledmm.simulator.api import launch, trace_block
    from tiledmm.simulator.check.findings import Finding
    from tiledmm.simulator.cupy.raw_kernel import RawKernel
    from tiledmm.simulator.cupy.raw_module import RawModule
    from tiledmm.simulator.execute.tensor_maps import TensorMap, tensor_map
    from tiledmm.simulator.report.conflicts import BankAccess, Lane
    from tiledmm.simulator.report.events import Event
    from tiledmm.simulator.report.report import Report
    from tiledmm.simulator.report.requests import Request
    from tiledmm.simulator.report.traffic import AccessCounts, GlobalTraffic, LineCounts, SharedTraffic, Traffic

__all__ = [
    "AccessCounts",
    "BankAccess",
    "Event",
    "Finding",
    "GlobalTraffic",
    "Lane",
    "LineCounts",
    "ProductReport",
    "RawKernel",
    "RawModule",
    "Report",
    "Request",
    "SharedTraffic",
    "TensorMap",
    "Trace",
    "Traffic",
    "explain_conflicts",
    "gemm",
    "launch",
    "matmul",
    "prepare",
    "run",
    "tensor_map",
    "trace",
    "trace_block",
]

# Each name's module, imported when the name is first asked for.
_HOMES = {
    **dict.fromkeys(("BankAccess", "Lane"), "tiledmm.simulator.report.conflicts"),
    **dict.fromkeys(
        ("AccessCounts", "GlobalTraffic", "LineCounts", "SharedTraffic", "Traffic"), "tiledmm.simulator.report.traffic"
    ),
    "Event": "tiledmm.simulator.report.events",
    "Finding": "tiledmm.simulator.check.findings",
    "RawKernel": "tiledmm.simulator.cupy.raw_kernel",
    "RawModule": "tiledmm.simulator.cupy.raw_module",
    "Report": "tiledmm.simulator.report.report",
    "Request": "tiledmm.simulator.report.requests",
    **dict.fromkeys(("TensorMap", "tensor_map"), "tiledmm.simulator.execute.tensor_maps"),
    **dict.fromkeys(("launch", "trace_block"), "tiledmm.simulator.api"),
}

# Names of modules above the simulator, which it may not import. The last is what counting as in machine code needs.
_OUTSIDE = {
    **dict.fromkeys(("gemm", "matmul", "prepare", "run"), "tiledmm.simulated.api"),
    **dict.fromkeys(("Trace", "explain_conflicts", "trace"), "tiledmm.simulated.tracing"),
    "ProductReport": "tiledmm.simulated.product_report",
    "disassemble": "tiledmm.compile.disassembly",
}


if not TYPE_CHECKING:  # or every name would do

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name) or _OUTSIDE.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value  # the next access finds it without coming here
        return value


def __dir__() -> list[str]:
    """Return the public names of this module, sorted."""
    return sorted(__all__)
