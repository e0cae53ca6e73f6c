"""Tests of the scripts that run on the simulator after one changed import, with CuPy itself."""

from __future__ import annotations

from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "simulator" / "scripts").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_unchanged_on_a_gpu(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
