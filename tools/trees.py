"""Scratch copies of the tree, and running pytest in them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent


def listed(root: Path) -> list[str]:
    """Return the paths of a checkout's files that git does not ignore, relative to its top."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True)
    return [name for name in sorted(os.fsdecode(done.stdout).split("\0")) if (root / name).is_file()]


class Copies:
    """A pool of copies of a checkout, each for one thread at a time."""

    def __init__(self, folder: Path, count: int, root: Path = ROOT) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for i in range(count):
            for name in listed(root):
                target = folder / str(i) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, target)
            self._free.put(folder / str(i))

    @contextmanager
    def one(self) -> Iterator[Path]:
        """Lend a copy that no other thread uses meanwhile."""
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


@contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """Replace a file's text until the context ends."""
    before = path.read_text("utf-8")
    path.write_text(text, "utf-8")
    try:
        yield
    finally:
        path.write_text(before, "utf-8")


def pytest(
    copy: Path, arguments: Sequence[str], seconds: float | None = None, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """Run pytest in a copy.

    Args:
        copy: Folder of the copy.
        arguments: Arguments of pytest.
        seconds: Time limit after which pytest and all processes that it started are killed.
        environment: Additional environment variables.

    Returns:
        The exit status, or None if it was killed, and the output.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "-p", "no:cacheprovider", *arguments]
    here = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true", **(environment or {})}
    with subprocess.Popen(
        command, cwd=copy, env=os.environ | here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
    return process.returncode, printed
