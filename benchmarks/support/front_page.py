"""Sentences and the table of README.md and the home page, from the results of the ladder, of layouts and of layers."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks import layers
from benchmarks.support.results import FOLDER
from benchmarks.support.rung_results import NOT_TIMED
from tiledmm.bench.results import BASELINE, Comparison, ComparisonReport, Row, from_json
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.keywords import AUTO
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

#: The fastest variant that computes float32 with float32 multiply-adds.
PLAIN = "warp_tiled"

#: Numbers of rows of x that the table shows together.
ROWS = ((1, 64), (128, 512), (2048, 2048))


def ladder_facts(text: str) -> str:
    """Say what the chart of the ladder does not show: accuracy, and where padding pays.

    Args:
        text: Contents of ``ladder.json``.
    """
    if not any(row.variant == AUTO for row in from_json(text).comparisons[0].rows):
        return NOT_TIMED
    return f"{_accuracy(text)}\n\n{_padding(text)}"


def _accuracy(text: str) -> str:
    comparison = from_json(text).comparisons[0]
    ours, theirs, plain = (comparison.row(AUTO), comparison.row(BASELINE), comparison.row(PLAIN, _tile(PLAIN)))
    return (
        f"**float32 is {significant(ours.to_cupy)} times as fast as cuBLAS, with a smaller error.** For "
        f"{comparison.size} matrices `auto` reaches {significant(ours.tflops)} TFLOP/s and cuBLAS "
        f"{significant(theirs.tflops)}; the largest error, relative to |A| |B|, is {ours.error:.1e} for `auto` and "
        f"{theirs.error:.1e} for cuBLAS. This is not tf32. Each float32 element becomes a high and a low float16 "
        "number, and tensor cores compute three products: high by high, high by low, and low by high. Tensor "
        "cores truncate their sums, so they sum only over a short part of K at a time; ordinary float32 additions, "
        'which round, add these partial sums to the total. `precision="ieee"` selects plain float32 multiply-adds '
        f"instead; with these, `{PLAIN}` reaches {_percent([plain])} of cuBLAS."
    )


def _padding(text: str) -> str:
    report = from_json(text)
    first = report.comparisons[0]
    rows = VariantTile("tiled", _tile("tiled")), VariantTile("tiled_padded", _tile("tiled_padded"))
    transposed = report.find(first.size, first.dtype, "NT", *rows)
    gain = _named(transposed, rows[1]).speed_over(_named(transposed, rows[0]))
    return (
        "`tiled_padded` is slower than `tiled` here, because with row-major matrices there is no bank conflict to "
        f"remove. If B is transposed, `tiled_padded` is {significant(gain)} times as fast as `tiled`."
    )


def wins_table(text: str) -> str:
    """Format the speed of ``auto`` in percent of cuBLAS on large products and on linear layers.

    Args:
        text: Contents of ``layouts.json``; ``layers.json`` is read beside it.
    """
    report = from_json(text)
    plain = [_named(each, VariantTile(PLAIN, _tile(PLAIN))) for each in _of(report, "float32")]
    cells = [
        ("float32", _percent(_autos(report, "float32"))),
        (f'float32, `precision="ieee"`: `{PLAIN}`', _percent(plain)),
        ("float64", _percent(_autos(report, "float64"))),
        ("complex128", _percent(_autos(report, "complex128"))),
        ('float32, `precision="tf32"`', _percent(_autos(report, "tf32"))),
        ("float16 and bfloat16: `wgmma`", _percent([*_autos(report, "float16"), *_autos(report, "bfloat16")])),
    ]
    results = json.loads((FOLDER / "layers.json").read_text(encoding="utf-8"))
    for low, high in ROWS:
        ratios = [
            layers.ratio(row, "cold")
            for row in results["products"]
            if row["type"] in layers.LAYER_TYPES and low <= row["m"] <= high
        ]
        of_rows = f"{low} to {high} rows" if low < high else f"{low} rows"
        found = f"{min(ratios):.0%} to {max(ratios):.0%}, mean {statistics.geometric_mean(ratios):.0%}"
        cells.append((f"linear layers in 16 bits, {of_rows} of x", found))
    return Table("", ("<product", "<percent of cuBLAS"), tuple(cells)).markdown(title=False)


def _of(report: ComparisonReport, dtype: str) -> list[Comparison]:
    """Return the comparisons of a type's squares of 4096 and larger."""
    return [each for each in report.comparisons if each.dtype == dtype and each.n >= 4096]


def _autos(report: ComparisonReport, dtype: str) -> list[Row]:
    return [each.row(AUTO) for each in _of(report, dtype)]


def _percent(rows: Iterable[Row]) -> str:
    """Return the range of the speeds relative to the baseline."""
    found: list[Any] = [f"{row.to_cupy:.0%}" for row in sorted(rows, key=lambda row: row.to_cupy or 0) if row.to_cupy]
    return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def _tile(variant: str) -> int:
    return find_variant(variant).default_tile


def _named(comparison: Comparison, rival: VariantTile) -> Row:
    return comparison.row(rival.variant, rival.tile)
