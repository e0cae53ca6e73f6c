"""Tests that run the documents' programs on a GPU: those that need one, and those that use one if there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from docs.tools import programs
from tests.docs.test_docs import EXECUTE, NOTEBOOK, run

ROOT = Path(__file__).resolve().parents[2]
EITHER = {"docs/examples.md", "docs/prepared.md"}
PATHS = [
    path.relative_to(ROOT).as_posix()
    for path in programs.documents()
    if any(block.needs == "gpu" for block in programs.blocks(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("path", sorted({*PATHS, *EITHER}))
def test_programs(path: str) -> None:
    if path == "docs/interchange.md":
        pytest.importorskip("torch")
    run(sys.executable, "-W", "error", "-m", "docs.tools.programs", "--check", "--gpu", path)


def test_the_notebook() -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    printed = run(sys.executable, "-c", EXECUTE, str(NOTEBOOK))
    assert "TFLOP/s" in printed
    assert "No GPU" not in printed
