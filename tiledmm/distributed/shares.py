"""Division of a product among devices: the rows of C for each device, and the panels of columns it computes in turn."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.distributed.tiling_choice import UNIT

#: Panels, as fractions of the columns. The product of each panel covers the copy of the next, which is twice as wide.
#: The last one is narrow, because nothing covers its copy back. There are few panels, because each decomposes the rows
#: of A again.
PANELS = (1 / 8, 1 / 4, 1 / 2, 1 / 8)

# Bisection steps in the search for a device's share.
_HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a product on one device, and of copies of its matrices to another device.

    Attributes:
        product: Seconds of the whole product.
        panels: Seconds of the product of all rows by each of ``PANELS``.
        a, b, c: Seconds to copy each whole matrix.
    """

    product: float
    panels: Sequence[float]
    a: float
    b: float
    c: float

    def elsewhere(self, share: float) -> float:
        """Return the seconds that a device which does not hold the operands needs to compute a share of C's rows.

        Copies of the operands to the device and of C from it are included.

        Args:
            share: Fraction of the rows.
        """
        copied, multiplied, returned = share * self.a, 0.0, 0.0
        for panel, product in zip(PANELS, self.panels, strict=True):
            copied += panel * self.b
            multiplied = max(multiplied, copied) + share * product
            returned = max(returned, multiplied) + share * panel * self.c
        return returned


def share_of_others(times: Times, count: int) -> float:
    """Return the fraction of C's rows that each device other than the one that holds the operands should compute.

    There are ``count`` devices. With this fraction all of them end at the same time. The fraction is 0 if the device
    that holds the operands would end before any other one.
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
    """Split ``extent`` rows or columns into one range per fraction, whose sizes are close to these fractions.

    Ranges begin at multiples of ``UNIT`` if there are at least ``UNIT`` rows per range. A range is empty if there are
    too few rows or columns, or if its fraction is 0.
    """
    unit = UNIT if extent >= len(fractions) * UNIT else 1
    ends = [round(each * extent / unit) * unit for each in itertools.accumulate(fractions)]
    bounds = [0, *(min(end, extent) for end in ends[:-1]), extent]
    return [slice(begin, end) for begin, end in itertools.pairwise(bounds)]
