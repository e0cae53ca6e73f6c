"""Tests of the division of a product's rows and columns among devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiledmm.distributed.shares import PANELS, Times, ranges, share_of_others
from tiledmm.distributed.tiling_choice import UNIT


def panels_of(product: float, slower: float = 1.0) -> list[float]:
    return [slower * product * panel for panel in PANELS]


@given(st.integers(0, 100_000), st.integers(1, 9))
def test_equal_shares_are_all_rows(rows: int, count: int) -> None:
    parts = ranges(rows, [1 / count] * count)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(rows)) and len(parts) == count
    sizes = [part.stop - part.start for part in parts]
    assert max(sizes) - min(sizes) <= 2 * UNIT
    if rows >= count * UNIT:
        assert all(part.start % UNIT == 0 for part in parts) and min(sizes) > 0


@given(st.integers(0, 100_000))
def test_panels_are_all_columns(cols: int) -> None:
    found = ranges(cols, PANELS)
    assert [i for part in found for i in range(part.start, part.stop)] == list(range(cols))


@given(st.floats(1e-3, 1e2), st.floats(0, 1e2), st.floats(0, 1e2), st.floats(0, 1e2), st.integers(2, 16))
def test_all_devices_end_together(product: float, a: float, b: float, c: float, count: int) -> None:
    times = Times(product, panels_of(product), a, b, c)
    share = share_of_others(times, count)
    home = (1 - (count - 1) * share) * product
    assert 0 <= share <= 1 / count
    assert home <= product + 1e-9
    if share:
        assert times.elsewhere(share) == pytest.approx(home, rel=1e-3)
    else:
        assert times.elsewhere(1e-9) >= product * (1 - 1e-6), "there is no time for any rows"


def test_copies_that_cost_nothing_leave_equal_shares() -> None:
    assert share_of_others(Times(1, panels_of(1), 0, 0, 0), 4) == pytest.approx(1 / 4)


def test_a_slow_link_leaves_little_to_others() -> None:
    times = (Times(44, panels_of(44), *(1074 / rate,) * 3) for rate in (450, 32))  # 16384^3 by 200 TFLOP/s
    fast, slow = (share_of_others(each, 2) for each in times)
    assert 0.4 < fast < 0.5 and slow < 0.15


def test_panels_that_take_longer_than_their_part_leave_less_to_others() -> None:
    even, slower = (share_of_others(Times(1, panels_of(1, each), 0, 0, 0), 2) for each in (1.0, 1.1))
    assert slower == pytest.approx(1 / 2.1) and even == pytest.approx(1 / 2)
