"""Who computes what: rows of C for each of several devices, and the panels of columns that each takes one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tiledmm.distributed.tiling import UNIT

#: Panels that columns are cut into. The first one's copy is not covered; each decomposes the rows of A again.
PANELS = 4


def shares(rows: int, count: int) -> list[slice]:
    """So many ranges of rows, as equal as multiples of ``UNIT`` allow; some are empty where there are few rows."""
    units = -(-rows // UNIT)
    if units < count:
        bounds = [rows * i // count for i in range(count + 1)]
    else:
        bounds = [min(rows, units * i // count * UNIT) for i in range(count + 1)]
    return [slice(begin, end) for begin, end in itertools.pairwise(bounds)]


def panels(cols: int, count: int = PANELS) -> Iterator[slice]:
    """Ranges of columns, as many of one size as there are multiples of ``UNIT``."""
    width = max(UNIT, -(-cols // (count * UNIT)) * UNIT)
    for begin in range(0, cols, width):
        yield slice(begin, min(begin + width, cols))
