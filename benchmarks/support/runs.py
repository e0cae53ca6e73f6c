"""Several runs of one command merged into one result: the median run of each product, and the spread of the others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiledmm.bench.results import BASELINE
from tiledmm.report.cells import significant

# Figures that are ratios of times of one run: they are compared where there are any, and else all times.
_RATIOS = ("ratio", "to_cupy")


def merged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the results of several runs of one command.

    Each element of the result's lists, such as a product, is copied from one run, since values of different runs must
    not be mixed: from the run whose ratios are closest to the medians of all runs.

    Returns:
        A result with ``runs``: their number, and the least and greatest value of each ratio that differs, by its path.
        A single run is returned unchanged.

    Raises:
        ValueError: If they are not single runs of the same processor, sources and elements.
    """
    first, *others = results
    if not others:
        return dict(first)
    if any("runs" in each for each in results):
        raise ValueError("one is of several runs already")
    if any(processor(other) != processor(first) for other in others):
        raise ValueError("the runs are of different processors")
    if any(other.get("sources") != first.get("sources") for other in others):
        raise ValueError("the runs are of different sources")
    found, spread = dict(results[-1]), dict[str, list[float]]()
    for name, elements in first.items():
        if isinstance(elements, list) and all(isinstance(each, Mapping) for each in elements):
            if any(_identities(other.get(name, ())) != _identities(elements) for other in others):
                raise ValueError(f"the runs have different {name}")
            found[name] = []
            for number, of_runs in enumerate(zip(*(each[name] for each in results), strict=True)):
                middle, differing = _middle(of_runs)
                found[name].append(middle)
                spread |= {f"{name}.{number}.{place}": values for place, values in differing.items()}
    return found | {"runs": {"count": len(results), "spread": spread}}


def processor(result: Mapping[str, Any]) -> str | None:
    """Return the GPU of a result, or the CPU of one without a GPU; None if it names no machine."""
    machine = result.get("machine", {})
    found: str | None = machine.get("gpu") or machine.get("cpu")
    return found


def _identities(elements: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the values of each element that do not depend on the run, such as sizes and names."""
    return [{name: value for name, value in each.items() if isinstance(value, int | str)} for each in elements]


def _middle(elements: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], dict[str, list[float]]]:
    """Return the element closest to the medians of all, and the extremes of each compared value that differs."""
    figures = [dict(_figures(each)) for each in elements]
    shared = [place for place in figures[0] if all(place in each for each in figures)]
    compared = [place for place in shared if place.rpartition(".")[2] in _RATIOS] or shared
    medians = {place: statistics.median(each[place] for each in figures) for place in compared}

    def distance(number: int) -> float:
        return sum(abs(math.log(figures[number][place] / median)) for place, median in medians.items())

    ranges = {place: [pick(each[place] for each in figures) for pick in (min, max)] for place in compared}
    differing = {place: [least, most] for place, (least, most) in ranges.items() if least < most}
    return elements[min(range(len(elements)), key=distance)], differing


def _figures(found: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield the positive floats of an element with their paths, except those in lists of numbers."""
    if isinstance(found, float) and found > 0 and place:
        yield place, found
    elif isinstance(found, Mapping):
        for name, value in found.items():
            yield from _figures(value, f"{place}.{name}" if place else name)
    elif isinstance(found, list) and not any(isinstance(each, float) for each in found):
        for number, value in enumerate(found):
            yield from _figures(value, f"{place}.{number}")


def in_words(results: Mapping[str, Any]) -> str:
    """Format the number of runs and their spread; empty for one run."""
    if not (runs := results.get("runs")):
        return ""
    far = [high / low - 1 for low, high in runs["spread"].values()] or [0.0]
    spread = f"{100 * statistics.median(far):.1f}% typical, {100 * max(far):.0f}% at most"
    return f"{which(results)} (spread: {spread})"


def which(results: Mapping[str, Any]) -> str:
    """Say which of several runs is shown; empty for one run."""
    if not (runs := results.get("runs")):
        return ""
    return f"{'median' if runs['count'] > 2 else 'one'} of {runs['count']} runs"


def extremes(results: Mapping[str, Any], names: Sequence[str]) -> str:
    """Format the extremes of some variants' ratios in a report's first product; empty for one run."""
    if not (runs := results.get("runs")):
        return ""
    parts = [
        f"{significant(low)} to {significant(high)} for {label}"
        for number, row in enumerate(results["comparisons"][0]["rows"])
        if (label := f"{row['variant']} {row['tile'] or ''}".strip()) in names
        for low, high in [runs["spread"].get(f"comparisons.0.rows.{number}.to_cupy", 2 * [row["to_cupy"]])]
    ]
    return f"Speed relative to {BASELINE} in {runs['count']} runs: {', '.join(parts)}."
