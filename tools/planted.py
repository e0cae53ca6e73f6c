"""Do the tests see a bug in the host code? Single bugs that some suite once missed, planted again, one at a time.

    python -m tools.planted                  # all of them
    python -m tools.planted results -k span  # those of tools/bugs/results.toml whose name has "span"

Each bug of ``tools/bugs/*.toml`` is an edit of one file, and the tests that have to fail with it. They run in a scratch
copy of the tree, first as it is, which they have to pass, then with the bug: *killed* if a test fails, *survived* if
none does. The exit status is 1 if a bug survived, or if the tests fail without one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.table import Table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
BUGS = Path(__file__).resolve().parent / "bugs"

# A mutant may loop for ever.
_SECONDS = 300


@dataclass(frozen=True)
class Bug:
    """One edit.

    Attributes:
        name: What is wrong, in a few words.
        file: Which file is edited, from the top of the tree.
        old, new: Text that stands there exactly once, and what takes its place.
        tests: What pytest is called with, to see it.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """The file's text with the bug.

        Raises:
            ValueError: If the text is not what the bug was written for.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times what {self.name!r} edits: {self.old!r}")
        return text.replace(self.old, self.new)


def read(path: Path) -> list[Bug]:
    """The bugs of a file, each of which fits the tree as it is."""
    bugs = [Bug(**{**row, "tests": tuple(row["tests"])}) for row in tomllib.loads(path.read_text("utf-8"))["bug"]]
    for bug in bugs:
        bug.planted((ROOT / bug.file).read_text("utf-8"))
    return bugs


class Copies:
    """Scratch copies of the tree, one for each who works on it at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        names = [name for name in os.fsdecode(listed.stdout).split("\0") if (ROOT / name).is_file()]
        self._free: SimpleQueue[Path] = SimpleQueue()
        for i in range(count):
            for name in names:
                target = folder / str(i) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
            self._free.put(folder / str(i))

    @contextmanager
    def one(self) -> Iterator[Path]:
        """A copy that nobody else works on meanwhile."""
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def passes(copy: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Whether tests pass in a copy, and what pytest printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:benchmark", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"no end after {_SECONDS} s"
    if done.returncode not in (0, 1):  # such as a name that no test has: neither passed nor failed
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return done.returncode == 0, done.stdout


def killed(copies: Copies, bug: Bug) -> bool:
    """Whether the tests see a bug."""
    with copies.one() as copy:
        path = copy / bug.file
        text = path.read_text("utf-8")
        path.write_text(bug.planted(text), "utf-8")
        try:
            return not passes(copy, bug.tests)[0]
        finally:
            path.write_text(text, "utf-8")


def main() -> int:
    """Prints a row a bug. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", choices=[[], *sorted(path.stem for path in BUGS.glob("*.toml"))])
    parser.add_argument("-k", default="", help="bugs whose name has this in it")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="how many at a time")
    arguments = parser.parse_args()
    paths = [path for path in sorted(BUGS.glob("*.toml")) if not arguments.files or path.stem in arguments.files]
    bugs = [bug for path in paths for bug in read(path) if arguments.k in bug.name]

    table = Table("bug", "file", "", title="Bugs planted in the host code")
    with tempfile.TemporaryDirectory(prefix="tiledmm-bugs-") as folder, ThreadPoolExecutor(arguments.j) as pool:
        copies = Copies(Path(folder), arguments.j)
        with copies.one() as copy:
            sound, printed = passes(copy, list(dict.fromkeys(test for bug in bugs for test in bug.tests)))
        if not sound:
            print(printed[-6000:], "\nThe tests fail without a bug.", sep="\n")
            return 1
        fates = list(pool.map(lambda bug: killed(copies, bug), bugs))
    for bug, fate in zip(bugs, fates, strict=True):
        table.add_row(bug.name, bug.file, "killed" if fate else "[red]survived")
    Console().print(table)
    print(f"{sum(fates)} of {len(fates)} killed")
    return 0 if all(fates) else 1


if __name__ == "__main__":
    sys.exit(main())
