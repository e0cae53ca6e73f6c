"""Tests of results that are kept between commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiledmm.bench.kept import kept
from tiledmm.errors import CompilationError


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))


def test_a_result_is_computed_once_per_key() -> None:
    calls: list[str] = []

    def compute(value: str) -> list[str]:
        calls.append(value)
        return [value]

    for value in ("one", "one", "two", "one"):
        assert kept(("key", value), lambda value=value: compute(value)) == [value]
    assert calls == ["one", "two"]


def test_a_file_that_was_cut_off_is_computed_again(tmp_path: Path) -> None:
    assert kept(("key",), lambda: 1) == 1
    (file,) = (tmp_path / "simulator").glob("*.result")
    file.write_bytes(file.read_bytes()[:-1])
    assert kept(("key",), lambda: 2) == 2


def test_an_error_is_not_kept(tmp_path: Path) -> None:
    def fail() -> int:
        raise CompilationError("no")

    with pytest.raises(CompilationError):
        kept(("key",), fail)
    assert kept(("key",), lambda: 3) == 3
