"""Launches of chosen products to the last field, as they are written down: no line that makes them changes unseen."""

from __future__ import annotations

import json

from tests import schedules


def test_launches_are_those_written_down() -> None:
    written = json.loads(schedules.PATH.read_text("utf-8"))
    assert schedules.schedules() == written, "if intended, python -m tests.schedules rewrites them"
