"""Where results are kept."""

from __future__ import annotations

from pathlib import Path

#: The repository, and its results: a file a run.
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results"
