"""Picture of one SM of an H100: schedulers, registers, the MIO queue, shared memory, L2 and memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from docs.pictures.svg import WIDTH, document, text
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.simulator.report.requests import BANKS, WARP, WORD_BYTES

#: Results of ``python -m benchmarks.studies.latencies``.
LATENCIES = Path(__file__).parents[2] / "benchmarks" / "results" / "latencies.json"

#: The GPU that is drawn.
GPU = "sm_90"

#: Operands that a multiply-add reads.
_OPERANDS = 3

# px: between boxes, a line of text, a partition's boxes, and the SM.
_GAP, _LINE, _BOX, _SM = 8, 15, 40, 312


def widths(gpu: Gpu) -> dict[str, float]:
    """Return the bytes per cycle that one SM can read from each level, nearest first."""
    arch = gpu.arch
    return {
        "registers": arch.partitions * _OPERANDS * WARP * WORD_BYTES,
        "shared memory": arch.load_bytes,
        "memory": gpu.bandwidth / gpu.clock / gpu.sms,
    }


def cycles() -> dict[str, float]:
    """Read the measured latencies of a load, in cycles, by the level that serves it."""
    measured = json.loads(LATENCIES.read_text(encoding="utf-8"))
    return {row["level"]: row["cycles"] for row in measured["rows"]}


def picture() -> str:
    """Draw boxes from the schedulers down to memory, with the bytes per cycle between each two."""
    gpu = REFERENCE_GPUS[GPU]
    arch, wide = gpu.arch, widths(gpu)
    takes = {level: f"a load takes {each:.0f} cycles" for level, each in cycles().items()}
    parts: list[str] = [*_box("", 0, 0, WIDTH, _SM), text(f"one of {gpu.sms} SMs", 10, 18, "C letter")]
    registers, lanes = arch.registers // arch.partitions, arch.float32_lanes // arch.partitions
    parts += _partitions(arch.partitions, "once", 28, "scheduler", "1 instruction per cycle")
    parts += _partitions(arch.partitions, "A", 72, f"{lanes} lanes, float32", "and a tensor core")
    parts += _link(
        f"a multiply-add of a warp reads {_OPERANDS} x {WARP * WORD_BYTES} bytes: one per cycle per partition", 118
    )
    parts += _partitions(arch.partitions, "B", 142, f"{registers:,} registers", f"of {WORD_BYTES} bytes")
    parts += _link("loads and stores only", 188)
    parts += _box("C", _GAP, 212, WIDTH - 2 * _GAP, 28, "MIO queue: loads and stores of all schedulers wait here")
    parts += _link(f"{wide['shared memory']:g} bytes per cycle: one wavefront; {takes['shared memory']}", 246)
    size = (WIDTH - 2 * _GAP) / BANKS
    for bank in range(BANKS):
        parts.append(
            f'<rect fill="hsl({bank * 360 // BANKS} 65% 58%)" x="{_GAP + bank * size:.2f}" y="270" '
            f'width="{size - 1:.2f}" height="14"/>'
        )
    kib = arch.shared_bytes // 1024
    told = f"{BANKS} banks of {WORD_BYTES} bytes: shared memory, up to {kib} KiB, and L1 in the same array"
    parts.append(text(told, _GAP, 300))
    y = _SM + 8
    parts += _link("all SMs share the levels below", y)
    y += 24
    parts += _box("A", 0, y, WIDTH, 30, f"L2 cache of all SMs: {takes['L2']}")
    y += 36
    share = f"{gpu.bandwidth / 1e12:g} TB/s: {wide['memory']:.1f} bytes per cycle per SM, at {gpu.clock / 1e9:g} GHz"
    parts += _link(share, y)
    y += 24
    parts += _box("B", 0, y, WIDTH, 30, f"memory (HBM): {takes['memory']}")
    described = "; ".join(
        [
            *(f"{name}: {value:.1f} bytes per cycle" for name, value in wide.items()),
            *(f"{level}: {each}" for level, each in takes.items()),
        ]
    )
    told = f"Levels that an SM reads from, with width and latency. {described}"
    return document(f"One SM of an {gpu.name}", told, y + 34, parts)


def _partitions(count: int, look: str, y: float, *lines: str) -> Iterator[str]:
    """Draw the same box in each partition."""
    across = (WIDTH - (count + 1) * _GAP) / count
    for number in range(count):
        yield from _box(look, _GAP + number * (across + _GAP), y, across, _BOX, *lines)


def _box(look: str, x: float, y: float, width: float, height: float, *lines: str) -> Iterator[str]:
    """Draw a box with lines of text in its middle, or without text as a frame around other boxes."""
    kind = {"": "ground", "once": "half C"}.get(look, f"cell {look}")
    yield f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'
    first = y + height / 2 + 4 - (len(lines) - 1) * _LINE / 2
    for number, line in enumerate(lines):
        yield text(line, x + width / 2, first + number * _LINE, "inside")


def _link(words: str, y: float) -> Iterator[str]:
    """Draw the connection of two boxes, and describe what it carries."""
    yield f'<path class="marks" fill="none" stroke-width="2" d="M{_GAP + 12} {y}v18m-5 -6l5 6l5 -6m-10 -6l5 -6l5 6"/>'
    yield text(words, _GAP + 28, y + 13)
