"""Tests that the launches of chosen products equal the recorded ones, so that no change goes unnoticed."""

from __future__ import annotations

import json

from tests import schedules


def test_launches_are_those_written_down() -> None:
    written = json.loads(schedules.PATH.read_text("utf-8"))
    assert schedules.schedules() == written, "if intended, python -m tests.schedules rewrites them"
