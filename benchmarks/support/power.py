"""Products repeated for seconds, with their speed and the GPU's power and clock according to ``nvidia-smi``."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tiledmm.report.cells import significant
from tiledmm.report.tables import Table


def readings(text: str) -> tuple[float, float]:
    """Return the mean watts and MHz in the second half of the output of ``nvidia-smi``.

    Raises:
        ValueError: If the output has fewer than two readings.
    """
    rows = [tuple(map(float, line.split(","))) for line in text.splitlines() if line.count(",") == 1]
    if len(rows) < 2:
        raise ValueError(f"nvidia-smi gave no readings: {text[-500:]!r}")
    watts, clocks = zip(*rows[len(rows) // 2 :], strict=True)
    return statistics.mean(watts), statistics.mean(clocks)


def under_load(call: Callable[[], Any], seconds: float) -> tuple[float, float, float]:
    """Repeat a call without pause; return seconds per call, watts and MHz, each over the second half of the time."""
    import cupy

    command = ["nvidia-smi", "-i", cupy.cuda.Device().pci_bus_id, "--query-gpu=power.draw,clocks.sm"]
    command += ["--format=csv,noheader,nounits", "-lms", "100"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(2):
            calls, begun = 0, time.perf_counter()
            while time.perf_counter() - begun < seconds / 2:
                for _ in range(8):
                    call()
                calls += 8
                cupy.cuda.get_current_stream().synchronize()
            taken = (time.perf_counter() - begun) / calls
    finally:
        watching.terminate()
        text, _ = watching.communicate()
    return taken, *readings(text)


def load_all(rivals: Sequence[tuple[str, str, float, Callable[[], Any]]], seconds: float) -> list[dict[str, Any]]:
    """Run each rival (name, product, floating-point operations per call, call) under load; return one row for each."""
    rows = []
    for name, product, flops, call in rivals:
        print(f"{name} {product} ...", file=sys.stderr, flush=True)
        call()
        taken, watts, clock = under_load(call, seconds)
        rows.append({"rival": name, "product": product, "tflops": flops / taken / 1e12, "watts": watts, "mhz": clock})
    return rows


def load_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Format one row per rival and product."""
    cells = (
        (
            row["rival"],
            row["product"],
            *(significant(row[name]) for name in ("tflops", "watts", "mhz")),
            significant(row["tflops"] / row["watts"]),
        )
        for row in rows
    )
    headings = ("<what", "<product", "TFLOP/s", "W", "MHz", "TFLOP/s per watt")
    return Table("Products for seconds on end", headings, tuple(cells))
