"""Tests that every bug planted in a Hopper kernel fits its file. The bugs were written before any check of them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.hopper.case import FOLDER
from tests.simulator.hopper.planted_bugs import HopperBug, every_bug

EVERY = every_bug()


def test_there_are_enough_bugs_in_all_kernels() -> None:
    own = [bug for bug in EVERY if bug.rendered]
    assert len(EVERY) - len(own) >= 110 and len(own) >= 40
    assert len({bug.id for bug in EVERY}) == len(EVERY)
    assert {bug.kernel for bug in EVERY if not bug.rendered} == {path.stem for path in FOLDER.glob("*.cu")}
    assert len(Counter(bug.cause for bug in EVERY)) >= 25


@pytest.mark.parametrize("bug", EVERY, ids=lambda bug: bug.id)
def test_a_bug_fits_its_file(bug: HopperBug) -> None:
    text, lines, _ = bug.planted()
    assert bug.why and bool(lines) != bug.refused
    assert (text != bug.text) == bool(bug.old)
    assert bool(bug.rendered) == bool(bug.template)
    if bug.rendered:
        assert text != bug.text
    else:
        assert text != bug.text or bug.maps or bug.launch
        assert set(bug.maps) <= set(bug.shown_by.maps)
        assert bug.shown_by.make()
