"""Tests of compiled code on disk: bounded, cleared, and never removed while in use."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tiledmm.simulator.build import shared_folder
from tiledmm.simulator.build.shared_folder import Contents, bound, clear, contents, in_use, mark_used, one_at_a_time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create libraries of 1, 2, 4 and 8 bytes, the smallest used longest ago, and a file that is no compiled code."""
    for i in range(4):
        path = tmp_path / f"{i}.{'so' if i % 2 else 'cubin'}"
        path.write_bytes(b"x" * 2**i)
        os.utime(path, (1000 + i, 1000 + i))
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_what_is_cleared_is_compiled_code(folder: Path) -> None:
    assert contents(folder) == Contents(4, 15)
    assert clear(folder) == Contents(4, 15)
    assert names(folder) == {"notes.txt"}
    assert contents(folder) == clear(folder) == Contents()


def test_a_folder_that_is_not_there_stays_so(tmp_path: Path) -> None:
    assert contents(tmp_path / "none") == clear(tmp_path / "none") == bound(tmp_path / "none", 0) == Contents()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("keep", "left"),
    [(15, {"0.cubin", "1.so", "2.cubin", "3.so"}), (14, {"1.so", "2.cubin", "3.so"}), (12, {"2.cubin", "3.so"}),
     (11, {"3.so"}), (7, set())],
)  # fmt: skip
def test_what_was_used_longest_ago_goes_first(folder: Path, keep: int, left: set[str]) -> None:
    removed = bound(folder, keep)
    assert names(folder) == left | {"notes.txt"}
    assert removed.files == 4 - len(left) and removed.bytes == 15 - contents(folder).bytes


def test_a_folder_is_bounded_once_a_minute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound(folder, 14).files == 1
    assert bound(folder, 0) == Contents()
    monkeypatch.setattr(shared_folder, "BETWEEN_BOUNDS", 0)
    assert bound(folder, 0).files == 3


def test_what_is_used_again_stays(folder: Path) -> None:
    mark_used(folder / "0.cubin")
    mark_used(folder / "gone.so")
    bound(folder, 9)
    assert names(folder) == {"0.cubin", "3.so", "notes.txt"}


pytest.importorskip("fcntl", reason="there are no locks on Windows")


def test_nothing_is_removed_while_it_is_in_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_folder, "BETWEEN_BOUNDS", 0)
    with in_use(folder), in_use(folder):
        assert bound(folder, 0) == Contents()
        found: list[Contents] = []
        clearing = threading.Thread(target=lambda: found.append(clear(folder)))
        clearing.start()
        clearing.join(0.2)
        assert clearing.is_alive() and contents(folder) == Contents(4, 15)
    clearing.join()
    assert found == [Contents(4, 15)]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_can_be_used(folder: Path) -> None:
    folder.chmod(0o500)
    with in_use(folder):
        assert contents(folder) == Contents(4, 15)
    folder.chmod(0o700)


def test_without_locks_files_are_removed_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(shared_folder.fcntl, "flock", no_locks)
    with in_use(folder):
        assert clear(folder) == Contents(4, 15)


def test_one_at_a_time_makes_a_file(folder: Path) -> None:
    inside, most = [0], [0]

    def make() -> None:
        for _ in range(20):
            with one_at_a_time(folder / "new.so"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not list(folder.glob("*.lock"))


def test_two_files_are_made_at_once(folder: Path) -> None:
    with one_at_a_time(folder / "new.so"), one_at_a_time(folder / "other.so"):
        assert len(list(folder.glob("*.lock"))) == 2


def test_what_a_killed_process_locked_is_made(folder: Path) -> None:
    (folder / "tmp-new.lock").write_text("")
    with one_at_a_time(folder / "new.so"):
        pass
    assert not list(folder.glob("*.lock"))


def test_without_locks_a_file_is_made_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(shared_folder.fcntl, "flock", no_locks)
    with one_at_a_time(folder / "new.so"), one_at_a_time(folder / "new.so"):
        pass
    with one_at_a_time(folder / "no" / "folder.so"):
        pass


def test_what_a_killed_compilation_left_is_removed_after_a_while(folder: Path) -> None:
    for name, age in (("tmpold", 7200), ("tmpnew", 60)):
        (folder / name).mkdir()
        (folder / name / "unit.o").write_text("")
        os.utime(folder / name, (time.time() - age,) * 2)
    bound(folder, 100)
    assert "tmpnew" in names(folder) and "tmpold" not in names(folder)
