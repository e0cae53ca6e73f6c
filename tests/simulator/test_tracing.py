"""Tests of traces by warp: requests, barriers and arithmetic. Traces by thread are in test_reports.py."""

from __future__ import annotations

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.simulator import trace
from tiledmm.simulator.report.events import Event
from tiledmm.simulator.report.requests import requests


def text_of(recorded, line):
    return recorded.text.splitlines()[line - 1]


def test_what_a_warp_does_in_order():
    recorded = trace("tiled", tile=8, arithmetic=True)
    done = [(each.step, each.kind, each.array) for each in recorded.requests(1)]
    copies = [("load", "A"), ("store", "As"), ("load", "B"), ("store", "Bs")]
    products = [("load", "As"), ("load", "Bs"), ("arithmetic", "")] * 8
    steps = [*((0, *each) for each in copies), *((1, *each) for each in products)]
    steps += [*((2, *each) for each in copies), *((3, *each) for each in products), (4, "store", "C")]
    assert done == steps
    assert all(each.lanes == tuple(range(32)) for each in recorded.requests(1))
    assert "multiply_add" in text_of(recorded, next(x.line for x in recorded.requests() if x.kind == "arithmetic"))


def test_arithmetic_is_recorded_when_asked_for():
    assert {event.kind for event in trace("tiled", tile=8).events} == {"load", "store"}
    events = [event for event in trace("tiled", tile=8, arithmetic=True).events if event.kind == "arithmetic"]
    assert len(events) == 8 * 8 * 16  # a multiply-add for each element of the block and step of k
    assert {(x.space, x.array, x.element, x.bytes, x.address) for x in events} == {("registers", "", (), 0, 0)}


def test_elements_of_a_batch_have_the_number_of_their_product():
    events = trace("tiny", tile=8, sizes=(8, 8, 8), products=5).events
    for array in ("A", "B", "C"):
        numbers = {event.element[0] for event in events if event.array == array}
        assert numbers == set(range(5)) and all(len(event.element) == 3 for event in events if event.array == array)


def test_lines_of_barriers():
    recorded = trace("tiled", tile=8)
    assert [text_of(recorded, line).split()[0] for line in recorded.barriers] == ["__syncthreads();"] * 4
    first, second, *_ = recorded.barriers
    assert recorded.barriers == (first, second) * 2 and first < second
    assert trace("naive").barriers == ()


@pytest.mark.parametrize(
    ("variant", "layout"),
    [
        pytest.param(variant, layout, marks=slow_unless((i + j) % 3 == 0))
        for i, variant in enumerate(("tiled", "tiled_padded", "double_buffered"))
        for j, layout in enumerate(("NN", "NT", "TN", "TT"))
    ],
)
def test_requests_are_those_that_a_report_counts(variant, layout):
    tile = 8
    recorded = trace(variant, tile=tile, layout=layout)
    m, n, k = recorded.sizes
    assert recorded.grid == (1, 1, 1)
    warps = recorded.block[0] * recorded.block[1] // 32
    found = [request for warp in range(warps) for request in recorded.requests(warp)]
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    a, b = (np.asfortranarray(x) if letter == "T" else x for x, letter in zip((a, b), layout, strict=True))
    counted = simulator.run(a, b, variant=variant, tile=tile)[1].source
    for space in ("shared", "global"):
        for kind in ("load", "store", "copy"):
            its = [each for each in found if (each.space, each.kind) == (space, kind)]
            name = f"{space}_{kind}" if kind != "copy" else {"shared": "copy_store", "global": "copy_load"}[space]
            traffic = getattr(counted, name)
            assert len(its) == traffic.requests
            assert sum(len(each.lanes) for each in its) == traffic.lanes
            units = (traffic.sectors, traffic.ideal_sectors) if space == "global" else None
            units = units or (traffic.wavefronts, traffic.ideal_wavefronts)
            assert (sum(each.units for each in its), sum(each.ideal_units for each in its)) == units


def test_words_that_lie_in_one_bank():
    loads = [each for each in trace("tiled", tile=16, layout="NT").requests() if each.kind == "load"]
    broadcast = next(each for each in loads if each.array == "As")
    first = broadcast.addresses[0] // 4
    assert broadcast.units == 1
    assert broadcast.banks == {0: {first: tuple(range(16))}, 16: {first + 16: tuple(range(16, 32))}}
    conflict = next(each for each in loads if each.array == "Bs")
    assert {bank: len(words) for bank, words in conflict.banks.items()} == {0: 8, 16: 8}
    assert (conflict.units, conflict.ideal_units) == (8, 1)
    assert next(each for each in loads if each.array == "A").banks == {}


def event(line, lane, address, step=0):
    return lane, Event(step, (lane, 0, 0), "load", "shared", "As", (address // 4,), 4, address, line)


def test_lanes_that_take_different_ways():
    ways = [*(event(10, lane, 4 * lane) for lane in (1, 2)), *(event(20, lane, 0) for lane in (0, 1, 2))]
    found = requests(ways)
    assert [(each.line, each.lanes) for each in found] == [(10, (1, 2)), (20, (0, 1, 2))]
    assert requests([*ways, event(5, 0, 0, step=1)])[-1].line == 5
    assert requests([]) == ()


def test_shared_accesses_stand_in_the_order_of_the_source():
    found = tiledmm.explain_conflicts("tiled", tile=8, layout="NT")
    assert [(each.array, each.kind) for each in found] == [
        ("As", "store"), ("Bs", "store"), ("As", "load"), ("Bs", "load"),
    ]  # fmt: skip
    assert [each.line for each in found] == sorted(each.line for each in found)
