"""Tests of lanes and banks of made-up accesses: the assumed width of an access, and the lanes that take part."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm.compile.disassembly import Access as MachineAccess
from tiledmm.compile.disassembly import MachineCode
from tiledmm.simulated import tracing
from tiledmm.simulated.tracing import Trace
from tiledmm.simulator import explain_conflicts
from tiledmm.simulator.report import conflicts
from tiledmm.simulator.report.events import Event

Access = tuple[tuple[int, int, int], int]  # a thread, and an address


def explained(
    monkeypatch: pytest.MonkeyPatch,
    accesses: list[Access],
    *,
    block: tuple[int, int, int] = (32, 1, 1),
    wide: int | None = None,
    **changes: object,
) -> tuple[conflicts.BankAccess, ...]:
    """Explain accesses to 4-byte elements at line 2, which machine code makes ``wide`` bytes wide."""
    known = {"step": 0, "kind": "load", "space": "shared", "array": "As", "element": (0,), "bytes": 4, "line": 2}
    events = tuple(Event(**{**known, "thread": thread, "address": at, **changes}) for thread, at in accesses)
    text = "one\n  two \nthree"
    recorded = Trace("kernel", (8, 8, 8), (1, 1, 1), block, 0, text, ("k.cu:1", "k.cu:2", "k.cu:3"), events, ())
    monkeypatch.setattr(tracing, "trace", lambda *arguments, **keywords: recorded)

    def disassemble(*arguments: object) -> MachineCode:
        assert arguments == (text, "kernel", "sm_90")
        shared, in_global = (
            MachineAccess("load", space, size, (2,), 0) for space, size in (("shared", wide or 0), ("global", 99))
        )
        return MachineCode((shared, in_global), {}, {})

    monkeypatch.setattr(tracing, "disassemble", disassemble)
    return explain_conflicts("made up") if wide is None else explain_conflicts("made up", sass=True)


def in_a_row(count: int, apart: int = 16, begin: int = 0) -> list[Access]:
    """Return accesses in which every lane reads ``count`` successive elements."""
    return [((lane, 0, 0), begin + apart * lane + 4 * i) for lane in range(32) for i in range(count)]


@pytest.mark.parametrize(
    ("accesses", "wide", "width"),
    [
        (in_a_row(4), None, 4),  # not asked of machine code
        (in_a_row(4), 0, 4),
        (in_a_row(4), 4, 4),
        (in_a_row(4), 8, 8),
        (in_a_row(4), 16, 16),
        (in_a_row(2), 16, 8),
        (in_a_row(3), 16, 8),
        (in_a_row(1), 16, 4),
        (in_a_row(4, begin=4), 16, 4),
        (in_a_row(4, begin=8), 16, 8),
        (in_a_row(4)[:-2], 16, 8),  # the last lane reads two
        ([((0, 0, 0), 0), ((0, 0, 0), 8), ((0, 0, 0), 12)], 16, 4),  # the second element is left out
    ],
)
def test_an_access_is_as_wide_as_machine_code_has_it_and_every_lane_goes_on(
    monkeypatch: pytest.MonkeyPatch, accesses: list[Access], wide: int | None, width: int
) -> None:
    (found,) = explained(monkeypatch, accesses, wide=wide)
    assert found.bytes == width
    assert (found.line, found.text, found.kind, found.array) == (2, "two", "load", "As")
    lane = found.lanes[0]
    assert lane.banks == tuple((lane.address // 4 + i) % 32 for i in range(width // 4))


def test_the_first_warp_is_numbered_along_x_then_y(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [(x, y, 0) for y in range(8) for x in range(8)]
    (found,) = explained(monkeypatch, [(each, 4 * i) for i, each in enumerate(threads)], block=(8, 8, 1))
    assert [(each.lane, each.thread, each.address) for each in found.lanes] == [
        (i, threads[i], 4 * i) for i in range(32)
    ]
    assert (found.wavefronts, found.ideal_wavefronts, found.conflicts) == (1, 1, 0)
    assert np.array([list(words) for words in found.banks.values()]).ravel().tolist() == list(range(32))


def test_the_first_access_of_a_lane_at_a_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = explained(monkeypatch, [*(((lane, 0, 0), 128 * lane) for lane in range(32)), ((0, 0, 0), 4)])
    assert (found.wavefronts, found.ideal_wavefronts, found.conflicts) == (32, 1, 31)
    assert found.lanes[0].address == 0


def test_what_is_not_shared_memory_has_no_banks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explained(monkeypatch, in_a_row(1), space="global") == ()


@pytest.mark.parametrize(("kind", "wavefronts"), [("load", 2), ("store", 4), ("copy", 4)])
def test_only_loads_are_joined(monkeypatch: pytest.MonkeyPatch, kind: str, wavefronts: int) -> None:
    (found,) = explained(monkeypatch, [((lane, 0, 0), 0) for lane in range(32)], kind=kind, bytes=16)
    assert (found.wavefronts, found.ideal_wavefronts) == (wavefronts, wavefronts)


def test_a_line_that_is_not_known_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = explained(monkeypatch, in_a_row(1), line=0)
    assert (found.line, found.text) == (0, "")


def test_accesses_of_part_of_an_element_lie_in_one_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = explained(monkeypatch, [((lane, 0, 0), lane) for lane in range(32)], bytes=1)
    assert [each.banks for each in found.lanes] == [(lane // 4,) for lane in range(32)]


def test_lines_stand_in_the_order_of_the_source_and_those_of_one_line_as_they_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = [(3, "Bs", "load"), (1, "Bs", "store"), (1, "As", "load"), (2, "As", "load"), (2, "As", "store")]
    known = {"step": 0, "thread": (0, 0, 0), "space": "shared", "element": (0,), "bytes": 4, "address": 0}
    events = tuple(Event(line=line, array=array, kind=kind, **known) for line, array, kind in first)
    recorded = Trace("kernel", (8, 8, 8), (1, 1, 1), (32, 1, 1), 0, "one\ntwo\nthree", ("1", "2", "3"), events, ())
    monkeypatch.setattr(tracing, "trace", lambda *arguments, **keywords: recorded)
    assert [(each.line, each.array, each.kind) for each in explain_conflicts("made up")] == [
        (1, "Bs", "store"), (1, "As", "load"), (2, "As", "load"), (2, "As", "store"), (3, "Bs", "load"),
    ]  # fmt: skip
