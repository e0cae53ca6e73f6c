"""Build ``wgmma`` step by step and measure each change: ``python -m benchmarks.studies.wgmma_steps``.

The steps lead from ``tensor_core`` to ``wgmma`` with its default tile, and one step beyond, in float16. Without a GPU,
counts what machine code and parameters show, and keeps the times in the file if they belong to the same kernel sources.
On a GPU, also times the steps and ``cupy.matmul``, which alternate. Results are checked first; the exit status is 1 if
one is wrong. Needs the extra ``inspect``.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import tiledmm
from benchmarks.support.results import FOLDER, measured, save, sources
from docs.tools.instructions import MULTIPLIES, mainloop
from tiledmm.bench.results import BASELINE
from tiledmm.bench.sizes import Size
from tiledmm.cli import missing_gpu
from tiledmm.codegen.rendering import render
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.report.cells import NONE, significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "wgmma_steps.json"

#: The kernels, as ``benchmarks.support.kernels`` names them.
NAMES = ("tensor_core float16", "wgmma float16")
SIZE = Size(4096, 4096, 4096)
DTYPE, LAYOUT = "float16", "NN"

#: Multiply-adds of one instruction along K, and rows of C of a warpgroup's.
_DEPTH, _ROWS = 16, 64
#: Columns of C of a warp's instruction, whose rows and step along K are 16.
_WARP_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Step:
    """A step on the way to ``wgmma``.

    Attributes:
        name: Description of what it changes.
        variant, tile, config: Kernel that it runs.
    """

    name: str
    variant: str
    tile: int
    config: Mapping[str, int] = field(default_factory=dict)

    @property
    def kernel(self) -> KernelSpec:
        """The kernel's specialization."""
        spec = kernel_spec(self.variant, tile=self.tile, config=dict(self.config) or None, dtype=DTYPE, layout=LAYOUT)
        return spec.kernel


#: Steps, each of which changes one thing in the step before.
STEPS = (
    Step("before: mma.sync, cp.async", "tensor_core", 128),
    Step("wgmma and TMA, two stages", "wgmma", 96, {"stages": 2}),
    Step("as many stages as fit", "wgmma", 96),
    Step("a second consumer", "wgmma", 128),
    Step("256 columns", "wgmma", 256),
    Step("a cluster of two, multicast", "wgmma", 512),
)


def counted(step: Step) -> dict[str, Any]:
    """Count what a step's parameters and machine code show.

    Bytes per cycle and cycles ahead assume that the SM's tensor cores never wait.
    """
    from tiledmm.compile.disassembly import sass

    kernel, target = step.kernel, "sm_90a" if step.variant == "wgmma" else "sm_90"
    config, itemsize = kernel.config, kernel.a.itemsize
    rows = config.bm // config.cluster
    loop = mainloop(sass(render(kernel), kernel.symbol, target))
    multiply = sum(MULTIPLIES.fullmatch(opcode) is not None for opcode, _ in loop)
    each = _ROWS // 4 * config.bn * _DEPTH if step.variant == "wgmma" else _ROWS // 4 * _WARP_COLUMNS * _DEPTH
    loaded = (rows + config.bn // config.cluster) * config.bk * itemsize
    cycles = rows * config.bn * config.bk / TARGETS["sm_90"].half_lanes
    return {
        "name": step.name, "symbol": kernel.symbol, "tile": [rows, config.bn, config.bk], "stages": config.stages,
        "cluster": config.cluster, "warps": kernel.threads // 32, "shared": kernel.shared_bytes,
        "instructions": len(loop), "multiply": multiply, "products": multiply * each / len(loop),
        "bytes_a_cycle": loaded / cycles, "ahead": (config.stages - 1) * cycles,
    }  # fmt: skip


def timed(seconds: float) -> tuple[list[dict[str, float]], float, bool]:
    """Check and time all steps and ``cupy.matmul``; return the steps' rows, CuPy's us, and whether all are right."""
    import cupy

    from tiledmm.bench import reference, timing
    from tiledmm.bench.operand_sets import operand_sets

    a, b, c = operand_sets(SIZE, DTYPE, LAYOUT)[0]
    right = reference.reference(a, b)

    def ours(_: int, step: Step) -> None:
        tiledmm.matmul(a, b, out=c, variant=step.variant, tile=step.tile, config=dict(step.config) or None)

    rivals: dict[str, timing.TimedCall] = {step.name: functools.partial(ours, step=step) for step in STEPS}
    ok = True
    for call in rivals.values():
        c.fill(float("nan"))
        call(0)
        ok &= reference.judge(c, right).ok
    rivals[BASELINE] = lambda _: cupy.matmul(a, b, out=c)
    samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
    rows = [
        {"us": samples[step.name].seconds * 1e6, "to_cupy": samples[step.name].speed_over(samples[BASELINE])}
        for step in STEPS
    ]
    return rows, samples[BASELINE].seconds * 1e6, ok


def steps_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Format one row per step, with times if they were measured."""
    flops = 2 * SIZE.m * SIZE.n * SIZE.k
    cells = []
    for row in rows:
        us = row.get("us")
        cells.append(
            (
                row["name"],
                " x ".join(map(str, row["tile"])),
                str(row["stages"]),
                significant(row["products"]),
                significant(row["bytes_a_cycle"]),
                f"{row['ahead']:,.0f}",
                significant(flops / us / 1e6) if us else NONE,
                significant(row["to_cupy"]) if us else NONE,
            )
        )
    columns = (
        "<step", "tile of a block", "stages", "multiply-adds per instruction", "bytes per cycle", "cycles ahead",
        "TFLOP/s", f"x {BASELINE}",
    )  # fmt: skip
    return Table("wgmma step by step", columns, tuple(cells))


def main() -> int:
    """Count, time if there is a GPU, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each step")
    options = parser.parse_args()
    rows = [counted(step) for step in STEPS]
    machine: Any = {
        "counted": "counted in the machine code",
        "by": f"tiledmm {tiledmm.__version__}",
        "date": date.today().isoformat(),
    }
    found: dict[str, Any] = {"rows": rows}
    ok = True
    if reason := missing_gpu():
        print(f"not timed: {reason}", file=sys.stderr)
        before = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
        known = sources(NAMES)
        if before.get("cupy") and before.get("sources", {}).get("kernels") == known.get("kernels"):
            machine, found["cupy"] = before["machine"], before["cupy"]
            for row, old in zip(rows, before["rows"], strict=True):
                row.update({name: old[name] for name in ("us", "to_cupy")})
    else:
        from tiledmm.bench.environment import this_machine

        times, found["cupy"], ok = timed(options.seconds)
        machine = this_machine()
        for row, time in zip(rows, times, strict=True):
            row.update(time)
    print(steps_table(rows).markdown())
    save(options.out, measured(machine, found, names=NAMES))
    if not ok:
        print("a result is wrong", file=sys.stderr)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
