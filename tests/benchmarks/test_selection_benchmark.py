"""Tests of the random products of ``benchmarks.selection``, and of its summaries."""

from __future__ import annotations

import json
import statistics

import pytest

from benchmarks.selection import TYPES, drawn, quality, summary
from benchmarks.studies import choices
from benchmarks.support.results import FOLDER
from tiledmm.bench.sizes import Size
from tiledmm.selection import rates as tables
from tiledmm.selection.choose import call_of
from tiledmm.selection.model import H100


def test_products_are_drawn_by_type_and_seed() -> None:
    first = {dtype: drawn(dtype, 40, 7) for dtype in TYPES}
    assert first == {dtype: drawn(dtype, 40, 7) for dtype in TYPES}
    assert len({str(products) for products in first.values()}) == len(TYPES)
    assert first["float32"] != drawn("float32", 40, 8)
    products = [product for each in first.values() for product in each]
    assert {layout for _, layout in products} == {"NN", "NT", "TN", "TT"}
    assert all(1 <= side <= 2**13 for size, _ in products for side in size)
    skinny = [size for size, _ in products if min(size.m, size.n) <= 64]
    assert 0.4 < len(skinny) / len(products) < 0.8
    assert any(size.m < size.n for size in skinny) and any(size.m > size.n for size in skinny)
    assert any(size.k % 16 for size, _ in products)


def test_choices_are_judged_by_the_fastest() -> None:
    rows = [{"kernels": [{"microseconds": first}, {"microseconds": 8.0}]} for first in (8.0, 16.0, 4.0)]
    assert [quality(row) for row in rows] == [1.0, 0.5, 1.0]
    assert summary(rows) == (
        "3 products: auto's choice is 0.794 x the fastest in the geometric mean, 0.500 at least, and below 0.9 for 1."
    )


def test_a_table_is_judged_by_what_it_would_pick() -> None:
    call, _ = call_of(Size(300, 200, 4000), "float32", "NN", "float32")
    every = {choices.named(each): each.microseconds or 0.0 for each in H100.every(call.multiplied)}
    best = min(H100.alone(call.multiplied), key=lambda each: each.microseconds or 0.0)
    assert min(every, key=every.__getitem__) == choices.named(best) and len(every) > 50
    few = list(dict.fromkeys(map(choices.named, choices.considered(H100, call.multiplied))))
    assert choices.named(best) in few and {*few} <= {*every}
    row = {"type": "float32", "size": [300, 200, 4000], "layout": "NN"}
    for wrong, ratio in ((1.0, 1.0), (4.0, 0.25)):
        kernels = {key: 10.0 * (wrong if key == choices.named(best) else 1.0) for key in few}
        found = choices.judged(H100, {**row, "kernels": kernels})
        assert (found.pick, found.ratio) == (choices.named(best), ratio)
    results = {"machine": {"gpu": H100.rates.gpu.name}, "products": [{**row, "kernels": kernels}] * 2}
    assert [each.ratio for each in choices.judge(results, H100.rates)] == [0.25, 0.25]
    (first, *_) = choices.choices_table(results).rows
    assert first == (str(H100.rates), "2", "0.250", "0.250", "2")


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_the_packages_tables_choose_well_on_their_gpus(every: int) -> None:
    """Check the choices of each shipped table against measured times of random products to which it was not fitted."""
    for gpu, rates in tables.shipped().items():
        results = json.loads((FOLDER / f"choices-{tables.own_path(gpu).stem}.json").read_text("utf-8"))
        assert results["machine"]["gpu"] == gpu
        # A table that was measured later may be one of kernels that were changed in between.
        least = 0.97 if results["machine"]["date"][:10] >= rates.date else 0.95
        if every > 1:
            results["products"], least = results["products"][::every], 0.9
        assert statistics.geometric_mean(each.ratio for each in choices.judge(results, rates)) > least
