"""Tests of the model of products on many GPUs: fitting recovers its constants."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("distributed")

from benchmarks.distributed import BLOCKS, COLLECTIVE, ONE
from benchmarks.studies.scaling import Constants, fitted, predicted, scaling_tables, work_of
from tiledmm.distributed.grid import choose_layout

CONSTANTS = Constants(200e12, 1 / 3e12, 300e9, 30e-6, 0.7, 0.015, 0.002)


def row(size: int, workers: int) -> dict[str, Any]:
    """Compute what ``benchmarks.distributed`` would measure if the constants were true."""
    layout = choose_layout(size, size, size, workers, ((size,), (size,)), ((size,), (size,)))
    assert layout is not None
    usual, parts = layout.panel_width(), []
    for width in (usual, usual // 4):
        work = work_of(layout, 4, width)
        products = work.flops / CONSTANTS.rate + work.added * CONSTANTS.sums
        broadcasts = work.received / CONSTANTS.link + work.passed * CONSTANTS.latency
        parts.append({"width": width, "products": products, "broadcasts": broadcasts})
    found = predicted(CONSTANTS, size, workers)
    assert found is not None
    seconds = {ONE: 2 * size**3 / CONSTANTS.rate, COLLECTIVE: found.collective, BLOCKS: found.seconds}
    return {"size": size, "workers": workers, "dtype": "float32", "parts": parts, "seconds": seconds}


@pytest.mark.parametrize("workers", [2, 4, 6])
@pytest.mark.parametrize("size", [16384, 50000])
def test_constants_come_out_again(workers: int, size: int) -> None:
    found = fitted(row(size, workers), CONSTANTS.dask_rank)
    for name in Constants.__slots__:
        assert getattr(found, name) == pytest.approx(getattr(CONSTANTS, name), rel=1e-6), name


def test_no_prediction_is_better_than_ideal() -> None:
    for ranks in (2, 8, 100, 1000):
        for replication in (1, 2, 4):
            for size in (8192, 65536, 262144):
                found = predicted(CONSTANTS, size, ranks, replication=replication)
                if found is not None:
                    assert found.seconds > 2 * size**3 / CONSTANTS.rate / ranks
                    assert found.products > 0 and found.broadcasts > 0 and found.bound


def test_layers_receive_less_and_add_more() -> None:
    one, four = (predicted(CONSTANTS, 262144, 1000, replication=each) for each in (1, 4))
    assert one is not None and four is not None
    assert four.broadcasts < one.broadcasts and four.sums > one.sums == 0


def test_tables() -> None:
    results = {"rows": [row(16384, 2), row(32768, 2)], "dask_rank": CONSTANTS.dask_rank}
    constants, measured, predictions = scaling_tables(results).values()
    assert ("time that broadcasts add to products, relative to their own", "70%") in constants.rows
    assert all(cells[3] == cells[4] and cells[5] == cells[6] for cells in measured.rows)
    assert {cells[0] for cells in predictions.rows} == {"8", "1000"}
