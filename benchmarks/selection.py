"""How well ``auto`` chooses: ``python -m benchmarks.selection --out FILE.json``.

Times the kernels that ``auto`` considers for products from small to large, square to skinny, each with the split-K
partitions that the model gives it, and compares with what the model expected. The tables in
``tiledmm/selection/measured`` are judged by such results. Needs a GPU; exit status 1 if a kernel gave a wrong
result.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.results import BASELINE
from tiledmm.bench.sizes import Size
from tiledmm.cli import missing_gpu
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "selection.json"

TYPES = ("float32", "float64", "complex64", "complex128", "float16", "bfloat16", "int8", "bool", "int32", "int64")
PRODUCTS = (
    *((Size(n, n, n), "NN") for n in (32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)),
    *((Size(n, n, n), "NT") for n in (256, 1024, 4096)),
    *((Size(m, 4096, 4096), layout) for m in (1, 4, 16, 40) for layout in ("NN", "NT")),
    (Size(64, 64, 65536), "NN"),
    (Size(64, 64, 65536), "NT"),
    (Size(4096, 4096, 16), "NN"),
    (Size(257, 511, 2048), "NN"),
    (Size(8192, 200, 200), "NN"),
)

# A kernel that is expected to take this many times as long as the best is left out.
_HOPELESS = 4.0


def measure(dtype: str, seconds: float) -> list[dict[str, Any]]:
    """A row a product of a type: what each kernel was expected to take, and took."""
    import cupy

    from tiledmm.bench import reference, timing
    from tiledmm.bench.comparison import operand_sets
    from tiledmm.devices import device_model
    from tiledmm.launch import Plan
    from tiledmm.problem.operands import describe, resolve

    rows = []
    for size, layout in PRODUCTS:
        print(f"{dtype} {size} {layout} ...", file=sys.stderr, flush=True)
        sets = operand_sets(size, dtype, layout)
        first = sets[0]
        right = reference.reference(first.a, first.b)
        product = resolve(*map(describe, first))
        ranked = sorted(device_model().rank(product), key=lambda choice: choice.microseconds or 0.0)
        rivals: dict[str, timing.TimedCall] = {
            BASELINE: lambda i, s=sets: cupy.matmul(*s[i % len(s)][:2], out=s[i % len(s)].c)
        }
        kernels = []
        for choice in ranked:
            if choice.microseconds > _HOPELESS * ranked[0].microseconds:
                continue
            spec = choice.specialization
            launch = replace(spec.config.launch, split_k=1)  # tables name the partitions apart
            whole_k = replace(spec, config=replace(spec.config, launch=launch))
            name = str(whole_k).removeprefix("tiledmm_")
            name += f", and {len(choice.others)} other parts" if choice.others else ""
            plan = Plan(choice)
            reference.poison(first.c, right)
            plan.run(*first)
            ok = reference.judge(first.c, right).ok
            kernels.append(
                {"kernel": name, "slices": spec.config.launch.split_k, "expected": choice.microseconds, "ok": ok}
            )
            rivals[name] = lambda i, plan=plan, s=sets: plan.run(*s[i % len(s)])
        samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
        for kernel in kernels:
            kernel["microseconds"] = samples[kernel["kernel"]].seconds * 1e6
        cupys = samples[BASELINE].seconds * 1e6
        rows.append({"size": [*size], "type": dtype, "layout": layout, "cupy": cupys, "kernels": kernels})
    return rows


def selection_table(rows: list[dict[str, Any]]) -> Table:
    """A row a product: what ``auto`` takes, how long it was expected to take and took, and the fastest beside it."""
    cells = []
    for row in rows:
        chosen = row["kernels"][0]
        fastest = min(row["kernels"], key=lambda kernel: kernel["microseconds"])
        partitions = f", split-K {chosen['slices']}" if chosen["slices"] > 1 else ""
        cells.append(
            (
                str(Size(*row["size"])),
                row["type"],
                row["layout"],
                f"{chosen['kernel']}{partitions}",
                significant(chosen["expected"]),
                significant(chosen["microseconds"]),
                significant(fastest["microseconds"] / chosen["microseconds"]),
                significant(row["cupy"] / chosen["microseconds"]),
            )
        )
    columns = (
        "<shape",
        "<type",
        "<layout",
        "<auto takes",
        "expected (us)",
        "took (us)",
        "x the fastest",
        "x cupy.matmul",
    )
    return Table("What auto takes, and the fastest of what it considers", columns, tuple(cells))


def main() -> int:
    """Measures, prints the table, writes the results; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument(
        "--types", nargs="+", choices=TYPES, default=TYPES, help="measure these, and keep the results of the others"
    )
    parser.add_argument("--seconds", type=float, default=0.03, help="time for each rival and product")
    options = parser.parse_args()
    reason = missing_gpu()
    if reason:
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from rich.console import Console

    from tiledmm.bench.environment import this_machine

    before = json.loads(options.out.read_text()) if options.out.exists() else {"products": []}
    rows: list[dict[str, Any]] = []
    for dtype in options.types:
        rows += measure(dtype, options.seconds)
        # Written type by type: a run that is cut off leaves what it has measured.
        types = {row["type"] for row in rows}
        kept = [row for row in before["products"] if row["type"] not in types]
        every = sorted(kept + rows, key=lambda row: TYPES.index(row["type"]))
        save(options.out, measured(this_machine(), {"products": every}, beside=before if kept else None))
    Console(width=None if sys.stdout.isatty() else 160).print(selection_table(rows).rich())
    return 0 if all(kernel["ok"] for row in rows for kernel in row["kernels"]) else 1


if __name__ == "__main__":
    sys.exit(main())
