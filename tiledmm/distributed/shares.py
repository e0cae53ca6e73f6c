"""Who computes what: rows of C for each of several devices, and the panels of columns that each takes one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.distributed.tiling_choice import UNIT

#: Panels, as fractions of the columns: each covers the copy of the next, which is twice as wide. The last is narrow, as
#: nothing covers its copy back. Every panel decomposes the rows of A again, so they are few.
PANELS = (1 / 8, 1 / 4, 1 / 2, 1 / 8)

# Halvings of the interval in which the share of a device is.
_HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that one device needs for a product, and that its matrices need to another one.

    Attributes:
        product: All of it.
        panels: The products of all rows by each of ``PANELS``.
        a, b, c: Copies of the whole matrices.
    """

    product: float
    panels: Sequence[float]
    a: float
    b: float
    c: float

    def elsewhere(self, share: float) -> float:
        """Seconds of a share of the rows on a device that has nothing yet."""
        copied, multiplied, returned = share * self.a, 0.0, 0.0
        for panel, product in zip(PANELS, self.panels, strict=True):
            copied += panel * self.b
            multiplied = max(multiplied, copied) + share * product
            returned = max(returned, multiplied) + share * panel * self.c
        return returned


def share_of_others(times: Times, count: int) -> float:
    """The share of the rows that each of ``count - 1`` devices gets, to end with the one that has the operands.

    0 if that one would end before any of them.
    """
    low, high = 0.0, 1 / count
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        if times.elsewhere(share) < (1 - (count - 1) * share) * times.product:
            low = share
        else:
            high = share
    return low


def ranges(extent: int, fractions: Sequence[float]) -> list[slice]:
    """Ranges of rows or columns, near these fractions and cut at multiples of ``UNIT`` where there are enough.

    Some are empty where there are few, or where a fraction is 0.
    """
    unit = UNIT if extent >= len(fractions) * UNIT else 1
    ends = [round(each * extent / unit) * unit for each in itertools.accumulate(fractions)]
    bounds = [0, *(min(end, extent) for end in ends[:-1]), extent]
    return [slice(begin, end) for begin, end in itertools.pairwise(bounds)]
