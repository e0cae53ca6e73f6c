"""Check that the tests notice bugs in the host code that they once missed, planted one at a time.

    python -m tools.planted                  # all of them
    python -m tools.planted results -k span  # those of tools/bugs/results.toml with "span" in their names

Each bug in ``tools/bugs/*.toml`` is an edit of one file, with the tests that it must make fail. They run in a scratch
copy of the tree, first without the bug, where they must pass, then with it. A bug is *killed* if a test fails, and has
*survived* if none does. The exit status is 1 if a bug survived, or if the tests fail without one. Bugs in kernels are
in ``tools/kernel_bugs.py``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.trees import ROOT, Copies, pytest, written

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUGS = Path(__file__).resolve().parent / "bugs"

# A mutant may loop forever.
_SECONDS = 300


@dataclass(frozen=True)
class Bug:
    """An edit that plants a bug.

    Attributes:
        name: Short description of the bug.
        file: Path of the edited file from the top of the tree.
        old, new: Text that occurs there exactly once, and its replacement.
        tests: Arguments of pytest for the tests that must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """Return the file's text with the bug.

        Raises:
            ValueError: If ``old`` does not occur exactly once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times what {self.name!r} edits: {self.old!r}")
        return text.replace(self.old, self.new)


def read(path: Path, root: Path = ROOT) -> list[Bug]:
    """Read the bugs of a file, and check that each fits the tree."""
    bugs = [Bug(**{**row, "tests": tuple(row["tests"])}) for row in tomllib.loads(path.read_text("utf-8"))["bug"]]
    for bug in bugs:
        bug.planted((root / bug.file).read_text("utf-8"))
    return bugs


def passes(copy: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Run tests in a copy; return whether they pass, and pytest's output."""
    status, printed = pytest(copy, ["-x", *tests], _SECONDS)
    if status not in (0, 1, None):  # such as an unknown test: neither passed nor failed
        raise RuntimeError(f"pytest {' '.join(tests)}: exit status {status}\n{printed[-3000:]}")
    return status == 0, printed if status is not None else f"no end after {_SECONDS} s"


def passing(copies: Copies, tests: Sequence[str]) -> tuple[bool, str]:
    """Run tests in any free copy; return whether they pass, and pytest's output."""
    with copies.one() as copy:
        return passes(copy, tests)


def killed(copies: Copies, bug: Bug) -> bool:
    """Return whether a test fails with a bug."""
    with copies.one() as copy:
        path = copy / bug.file
        with written(path, bug.planted(path.read_text("utf-8"))):
            status, _ = pytest(copy, ["-x", *bug.tests], _SECONDS)
            return status != 0  # a bug may break a test's module, too: the tests pass without it


def main() -> int:
    """Run the selected bugs and print a row for each; return the exit status."""
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
        without = pool.map(lambda tests: passing(copies, tests), dict.fromkeys(bug.tests for bug in bugs))
        if failures := [printed for sound, printed in without if not sound]:
            print(*failures, "The tests fail without a bug.", sep="\n")
            return 1
        fates = list(pool.map(lambda bug: killed(copies, bug), bugs))
    for bug, fate in zip(bugs, fates, strict=True):
        table.add_row(bug.name, bug.file, "killed" if fate else "[red]survived")
    Console().print(table)
    print(f"{sum(fates)} of {len(fates)} killed")
    return 0 if all(fates) else 1


if __name__ == "__main__":
    sys.exit(main())
