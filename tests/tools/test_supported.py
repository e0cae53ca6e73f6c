"""Tests of the choice of interpreters and tests for the oldest and newest versions; ``make test-lowest`` runs those."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tools import supported

MINOR = sys.version_info[1]


def test_the_oldest_python_is_that_of_pyproject() -> None:
    assert supported.oldest_allowed('name = "x"\nrequires-python = ">=3.11"\n') == 11
    assert supported.oldest_allowed((supported.ROOT / "pyproject.toml").read_text("utf-8")) <= MINOR
    with pytest.raises(SystemExit, match="requires-python"):
        supported.oldest_allowed("")


def test_each_pattern_of_the_selection_matches_a_file(tmp_path: Path) -> None:
    files = list(supported.selection(supported.ROOT / "tests"))
    assert len(files) == len(set(files)) >= len(supported.SELECTION)
    with pytest.raises(SystemExit, match=r"test_charts\.py"):
        list(supported.selection(tmp_path))


@pytest.mark.parametrize("works", [True, False])
def test_pyenvs_interpreters_are_found_behind_commands_that_fail(
    works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(folder: str, status: int) -> str:
        path = tmp_path / folder / "python3.77"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!{shutil.which('sh')}\nexit {status}\n")
        path.chmod(0o755)
        return str(path)

    command("shims", 127)
    version = command("versions/3.77.1/bin", 0 if works else 1)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    assert supported.interpreter(77, tmp_path) == (version if works else None)


def test_uv_gets_pips_index_and_certificates() -> None:
    listed = ":env:.index-url='https://a.example/simple'\nglobal.cert='/c.pem'\nglobal.index-url='https://b.example'\n"
    assert supported.uv_settings(listed) == {"UV_DEFAULT_INDEX": "https://a.example/simple", "SSL_CERT_FILE": "/c.pem"}
    assert supported.uv_settings(":env:.no-input='1'\n") == {}
