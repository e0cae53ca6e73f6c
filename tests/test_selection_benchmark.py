"""The products of ``benchmarks.selection`` that are drawn at random, and what it says of choices."""

from __future__ import annotations

from benchmarks.selection import TYPES, drawn, quality, summary


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
