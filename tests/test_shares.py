"""Rows and columns of a product on several devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiledmm.distributed.shares import panels, shares
from tiledmm.distributed.tiling import UNIT


@given(st.integers(0, 100_000), st.integers(1, 9))
def test_shares_are_all_rows_and_as_equal_as_units_allow(rows: int, count: int) -> None:
    parts = shares(rows, count)
    assert len(parts) == count
    assert [i for part in parts for i in (part.start, part.stop)][1:-1] == sorted(
        bound for part in parts[:-1] for bound in (part.stop, part.stop)
    )
    assert (parts[0].start, parts[-1].stop) == (0, rows)
    sizes = [part.stop - part.start for part in parts]
    assert max(sizes) - min(sizes) <= 2 * UNIT
    if rows >= count * UNIT:
        assert all(part.start % UNIT == 0 for part in parts) and min(sizes) > 0


@given(st.integers(0, 100_000))
def test_panels_are_all_columns(cols: int) -> None:
    found = list(panels(cols))
    assert [i for part in found for i in range(part.start, part.stop)] == list(range(cols)) and len(found) <= 4
    assert all(part.stop > part.start and part.start % UNIT == 0 for part in found)
