"""The speed of each variant as quoted at the top of its page: relative to cuBLAS and to the variant before."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.support.results import origin
from tiledmm.bench.results import BASELINE, Comparison, Row, from_json
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.report.cells import significant

#: Reports that a rung's result may come from, and their types: the first whose type the rung multiplies.
REPORTS = {"ladder": "float32", "sizes_float16": "float16", "sizes_int32": "int32", "layouts": "float64"}

#: Results of ``auto`` on many shapes, for rungs that serve few of them.
SHAPES = "shapes_float32"

#: The product of a report's results.
SIZE = (4096, 4096, 4096)

CUBLAS = f"cuBLAS (`{BASELINE}`)"

#: Text in place of a missing result.
NOT_TIMED = "It was not timed yet."

#: Name of the baseline for integers, which cuBLAS does not multiply.
NOT_CUBLAS = f"`{BASELINE}`"


def result(variant: str, text: str) -> str:
    """Format the result of a variant as a quotation in Markdown.

    Args:
        variant: Name of the variant.
        text: Contents of the result file ``file_of(variant)``.
    """
    few = find_variant(variant).is_for_few_shapes
    found = (_of_many_shapes if few else _of_one)(variant, text)
    return "\n>\n".join(f"> {line}" for line in found)


def file_of(variant: str) -> str:
    """Return the name of the result file that includes a variant, or of a default one if no report has its types."""
    row = find_variant(variant)
    if row.is_for_few_shapes:
        return SHAPES
    having = (name for name, dtype in REPORTS.items() if row.multiplies(ELEMENTS[dtype]))
    return next(having, next(iter(REPORTS)))


def before(variant: str, comparison: Comparison) -> str | None:
    """Return the last general variant before this one that was timed on the same product; None for the first."""
    names = [row.name for row in kernel_variants() if not row.is_for_few_shapes]
    timed = {row.variant for row in comparison.rows if row.microseconds}
    return next((name for name in reversed(names[: names.index(variant)]) if name in timed), None)


def _of_one(variant: str, text: str) -> tuple[str, ...]:
    found = [each for each in from_json(text).comparisons if each.size == SIZE]
    usual = _usual_tile(variant)
    main = next((each for each in found if _row(each, variant, usual)), None)
    row = _row(main, variant, usual) if main else None
    if main is None or row is None:
        return (NOT_TIMED,)
    previous = before(variant, main)
    rival = _row(main, previous, _usual_tile(previous)) if previous else None
    baseline = NOT_CUBLAS if compute_element(main.dtype).dtype.kind in "iub" else CUBLAS
    said = [f"**{significant(row.to_cupy)} times as fast as {baseline}**"]
    if rival:
        said.append(f"**{significant(row.speed_over(rival))} times as fast as [`{previous}`]({previous}.md)**")
    tile = f", tile {usual}" if row.tile else ""
    lines = [f"{' and '.join(said)}{tile}: {significant(row.tflops)} TFLOP/s."]
    best = max((each for each in main.rows if each.variant == variant), key=lambda each: each.tflops or 0)
    if best.tile != row.tile:
        lines.append(
            f"With tile {best.tile}: {significant(best.to_cupy)} times {BASELINE}, {significant(best.tflops)} TFLOP/s."
        )
    alike = [each for each in found if each.dtype == main.dtype]
    if others := list(_other_layouts(variant, previous, alike)):
        lines.append(f"In other layouts, times `{previous}`: {', '.join(others)}.")
    product = f"{main.dtype}, {main.m} x {main.n} x {main.k} (M x N x K), layout {main.layout}"
    return " ".join(lines), f"{product}. {origin(json.loads(text))}"


def _other_layouts(variant: str, previous: str | None, found: list[Comparison]) -> Iterator[str]:
    for each in found:
        mine, theirs = (_row(each, name, _usual_tile(name)) if name else None for name in (variant, previous))
        if each.layout != "NN" and mine and theirs:
            yield f"{each.layout} {significant(mine.speed_over(theirs))}"


def _of_many_shapes(variant: str, text: str) -> tuple[str, str]:
    results: dict[str, Any] = json.loads(text)
    shapes = [shape for shape in results["shapes"] if not shape.get("same")]
    ratios = [shape["device"]["ratio"] for shape in shapes if _variant_of(shape["kernel"]) == variant]
    if not ratios:
        return f"`auto` takes it on none of [{len(shapes)} shapes](../shapes.md).", f"float32. {origin(results)}"
    mean, many = significant(statistics.geometric_mean(ratios)), "shape" if len(ratios) == 1 else "shapes"
    said = f"**{mean} times as fast as {CUBLAS}** on the {len(ratios)} {many}, of [{len(shapes)}](../shapes.md), "
    said += "on which `auto` takes it (time on the device, geometric mean"
    if len(ratios) > 1:
        said += f"; {significant(min(ratios))} to {significant(max(ratios))}"
    return f"{said}).", f"float32. {origin(results)}"


@functools.cache
def _variant_of(kernel: str) -> str | None:
    """Return the variant of a kernel, by its symbol."""
    names = sorted((row.name for row in kernel_variants()), key=len, reverse=True)
    return next((name for name in names if kernel.startswith(f"tiledmm_{name}_")), None)


def _usual_tile(variant: str) -> int | None:
    return find_variant(variant).default_tile or None


def _row(comparison: Comparison, variant: str, tile: int | None) -> Row | None:
    return next(
        (row for row in comparison.rows if row.variant == variant and row.tile == tile and row.microseconds), None
    )
