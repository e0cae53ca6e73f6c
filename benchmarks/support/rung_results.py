"""The speed of each variant as quoted at the top of its page: relative to cuBLAS and to the variant before it."""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from tiledmm.bench.results import BASELINE, Comparison, Row, from_json
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.report.cells import error_figure, significant

#: Reports that a rung's result may come from, and their types: the first whose type the rung multiplies.
REPORTS = {"ladder": "float32", "sizes_float16": "float16", "sizes_int32": "int32", "layouts": "float64"}

#: Results of ``auto`` on many shapes, for rungs that serve few of them.
SHAPES = "shapes_float32"

#: The product of a report's results.
SIZE = (4096, 4096, 4096)

CUBLAS = f"cuBLAS (`{BASELINE}`)"

#: Text in place of a missing result.
NOT_TIMED = "It has not been timed yet."

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
    said = [f"**{_speed(row.to_cupy or 0, baseline)}**"]
    if rival:
        ratio, link = row.speed_over(rival) or 0.0, f"[`{previous}`]({previous}.md)"
        said.append(f"**{_speed(ratio, link if ratio >= 1 else f'the speed of {link}')}**")
    tile = f", tile {usual}" if row.tile else ""
    lines = [f"{' and '.join(said)}{tile}: {significant(row.tflops)} TFLOP/s."]
    best = max((each for each in main.rows if each.variant == variant), key=lambda each: each.tflops or 0)
    if best.tile != row.tile:
        speed = _speed(best.to_cupy or 0, baseline.partition(" (")[0])
        lines.append(f"With tile {best.tile}: {speed}, {significant(best.tflops)} TFLOP/s.")
    alike = [each for each in found if each.dtype == main.dtype]
    if others := _other_layouts(variant, previous, alike):
        shown = ", ".join(f"{layout} {significant(ratio)}" for layout, ratio in others.items())
        lines.append(f"Speed relative to `{previous}` in other layouts: {shown}.")
    own = _row(main, BASELINE, None)
    if own and own.error and row.error and not find_variant(variant).operands.reads_elements:
        shown = f"{error_figure(row.error)}; {baseline.partition(' (')[0]}'s: {error_figure(own.error)}"
        lines.append(f"Largest error of an element, relative to |A| |B|: {shown}.")
    product = f"{main.dtype}, {main.m} x {main.n} x {main.k} (M x N x K), layout {main.layout}"
    return " ".join(lines), f"{product}, {_gpu(json.loads(text))}."


def _speed(ratio: float, rival: str) -> str:
    """Format a speed relative to a rival's: in percent if it is lower."""
    return f"{100 * ratio:.0f}% of {rival}" if ratio < 1 else f"{significant(ratio)} times as fast as {rival}"


def _gpu(results: Mapping[str, Any]) -> str:
    gpu: str = results["machine"]["gpu"]
    return gpu


def _other_layouts(variant: str, previous: str | None, found: Iterable[Comparison]) -> dict[str, float]:
    """Return the speed of a variant relative to another in each layout but NN."""
    speeds = {}
    for each in found:
        mine, theirs = (_row(each, name, _usual_tile(name)) if name else None for name in (variant, previous))
        if each.layout != "NN" and mine and theirs:
            speeds[each.layout] = mine.speed_over(theirs) or 0.0
    return speeds


def _of_many_shapes(variant: str, text: str) -> tuple[str, str]:
    results: dict[str, Any] = json.loads(text)
    shapes = [shape for shape in results["shapes"] if not shape.get("same")]
    ratios = [shape["device"]["ratio"] for shape in shapes if _variant_of(shape["kernel"]) == variant]
    if not ratios:
        none = f"`auto` selects this kernel for none of the [{len(shapes)} shapes](../shapes.md) that were timed."
        return none, f"float32, {_gpu(results)}."
    said = f"**{_speed(statistics.geometric_mean(ratios), CUBLAS)}** on the "
    said += f"{'only one' if len(ratios) == 1 else len(ratios)} of the [{len(shapes)} shapes](../shapes.md) "
    said += "for which `auto` selects it (time on the device"
    if len(ratios) > 1:
        said += f", geometric mean; {significant(min(ratios))} to {significant(max(ratios))} by shape"
    return f"{said}).", f"float32, {_gpu(results)}."


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
