"""Tests of the walks for measuring latencies: each line is visited once, and the end is right."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies import latencies
from tests.conftest import missing_simulator


def test_a_cycle_visits_every_line_once() -> None:
    found = latencies.cycle(64 * latencies.LINE)
    at, visited = 0, []
    for _ in range(64):
        visited.append(at)
        at = int(found[at])
    assert at == 0 and sorted(visited) == list(range(0, 64 * 32, 32))


@pytest.mark.skipif(bool(reason := missing_simulator()), reason=str(reason))
@pytest.mark.parametrize("level", latencies.LEVELS)
def test_a_kernel_walks_along_the_cycle(level: str) -> None:
    from tiledmm.simulator import launch

    found, cycles, end = latencies.cycle(16 * latencies.LINE), np.zeros(1, np.int64), np.zeros(1, np.uint32)
    right = 0
    for _ in range(5 + 9):
        right = int(found[right])
    arguments = (found, np.uint32(found.size), np.uint32(5), np.uint32(9), cycles, end)
    shared = found.nbytes if level == "shared memory" else 0
    name = f"walk_{level.partition(' ')[0].lower()}"
    launch(latencies.source(level), 1, 1, arguments, name=name, shared_bytes=shared).check()
    assert end[0] == right


def test_the_table_has_a_row_a_level() -> None:
    rows = [{"level": level, "bytes": size, "cycles": 30.0} for level, (size, _) in latencies.LEVELS.items()]
    assert latencies.latencies_table(rows).rows[2] == ("L2", "8,192", "30.0")
