"""Make three changes in a scratch clone, list the files that each changes, and run the tests.

    python -m tools.cost_of_a_change                            # all three, with the tests that ``make test`` runs
    python -m tools.cost_of_a_change --only variant tests/codegen/test_codegen.py

A *comment* in each of five templates may change the goldens that show it. A new *tile* of a variant may change that
variant's row and goldens, and outputs of commands that list its tiles. A new *variant* may take five files, of which
all goldens count as one: its template, its row, its page, and a line in the changelog. ``tools/example_variant/`` is
such a variant. The exit status is 1 if a change touches another file, or if tests fail.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.trees import ROOT, listed

EXAMPLE = Path(__file__).resolve().parent / "example_variant"
NAME = "column_strips"
COMMENT = "// A comment, which changes no instruction."

#: Templates that get a comment: of two variants that share one, of tensor cores, of an auxiliary kernel, and a header.
TEMPLATES = ("naive.cu.j2", "tiled.cu.j2", "tensor_core.cu.j2", "pack.cu.j2", "swizzled_tiles.cuh")

#: Files that a new variant may take.
MOST_FILES = 5

GOLDENS = "tests/golden/"

#: Pages that show a table of all tiles of ``tiled``, which a command writes.
LISTING_TILES = ("docs/tiles.md", "docs/occupancy.md")


def git(clone: Path, *arguments: str) -> str:
    """Run git in a clone, and return its output."""
    who = ("-c", "user.name=tiledmm", "-c", "user.email=tiledmm@localhost")
    return subprocess.run(["git", *who, *arguments], cwd=clone, check=True, capture_output=True, text=True).stdout


def cloned(folder: Path) -> Path:
    """Clone the repository and commit the current state of its files; return the clone."""
    clone = folder / "tiledmm"
    git(folder, "clone", "--quiet", str(ROOT), str(clone))
    names = listed(ROOT)
    for name in set(listed(clone)) - set(names):
        (clone / name).unlink()
    for name in names:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "As it is")
    return clone


def replaced(path: Path, old: str, new: str) -> None:
    """Replace text that occurs once in a file."""
    text = path.read_text("utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{path} has {old!r} {text.count(old)} times")
    path.write_text(text.replace(old, new), "utf-8")


def table_of_variants(clone: Path) -> Path:
    """Return the file that contains the rows of the variants."""
    return clone / git(clone, "grep", "--files-with-matches", "^VARIANTS = ", "--", "tiledmm").strip()


def comment(clone: Path) -> None:
    """Insert a comment into the first function with a declaration of each template."""
    for name in TEMPLATES:
        path = clone / "cuda_src" / name
        text, count = re.subn(r"^(?= +const )", f"    {COMMENT}\n", path.read_text("utf-8"), count=1, flags=re.M)
        if not count:
            raise SystemExit(f"{path} has nothing to comment on")
        path.write_text(text, "utf-8")


def tile(clone: Path) -> None:
    """Add a tile of 4 to ``tiled``."""
    path = table_of_variants(clone)
    text = path.read_text("utf-8")
    before, name, row = text.partition('Variant("tiled",')
    path.write_text(before + name + row.replace("SQUARE_TILES,", "(4, *SQUARE_TILES),", 1), "utf-8")


def variant(clone: Path) -> None:
    """Add the example's template, its row after that of ``tiled``, its page, and a line in the changelog."""
    shutil.copy(EXAMPLE / f"{NAME}.cu.j2", clone / "cuda_src")
    shutil.copy(EXAMPLE / f"{NAME}.md", clone / "docs" / "rungs")
    next_row = '    Variant("tiled_padded",'
    replaced(table_of_variants(clone), next_row, (EXAMPLE / "row.txt").read_text("utf-8") + next_row)
    added = "## [Unreleased]\n\n"
    replaced(clone / "CHANGELOG.md", added, f"{added}- The variant `{NAME}`.\n")


def changed(clone: Path) -> list[str]:
    """Return the files that differ from the commit."""
    return sorted(line[3:] for line in git(clone, "status", "--porcelain", "--untracked-files=all").splitlines())


def after_comment(clone: Path, files: list[str]) -> Iterator[str]:
    """Yield a problem for each file that a comment must not change."""
    for name in files:
        if name in {f"cuda_src/{each}" for each in TEMPLATES}:
            continue
        difference = git(clone, "diff", "--unified=0", "--", name).splitlines()
        lines = [line[1:] for line in difference if line[:1] in "+-" and not line.startswith(("+++", "---"))]
        if not name.startswith(GOLDENS) or not all(COMMENT in line for line in lines):
            yield f"{name} does not show the comment"


def after_tile(clone: Path, files: list[str]) -> Iterator[str]:
    """Yield a problem for each file that a new tile must not change."""
    table = table_of_variants(clone).relative_to(clone).as_posix()
    own = re.compile(rf"{re.escape(table)}|{GOLDENS}tiled_\d+\.diff|{'|'.join(map(re.escape, LISTING_TILES))}")
    yield from (f"{name} changed" for name in files if not own.fullmatch(name))


def after_variant(clone: Path, files: list[str]) -> Iterator[str]:
    """Yield a problem for each golden of another variant that changed, and one if too many files changed."""
    goldens = [name for name in files if name.startswith(GOLDENS)]
    yield from (f"{name} changed" for name in goldens if not name.startswith(f"{GOLDENS}{NAME}"))
    count = len(files) - len(goldens) + bool(goldens)
    if count > MOST_FILES:
        yield f"{count} files, of which goldens are one: more than {MOST_FILES}"


#: Changes by name: the function that makes each, and the one that checks the files that it changed.
CHANGES: dict[str, tuple[Callable[[Path], None], Callable[[Path, list[str]], Iterator[str]]]] = {
    "comment": (comment, after_comment),
    "tile": (tile, after_tile),
    "variant": (variant, after_variant),
}


def run(clone: Path, *command: str) -> int:
    """Run Python on the clone's sources; return the exit status."""
    return subprocess.run([sys.executable, *command], cwd=clone, env=os.environ | {"PYTHONPATH": str(clone)}).returncode


def main(arguments: list[str] | None = None) -> int:
    """Make the changes and print their files; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.cost_of_a_change", description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=CHANGES, action="append", help="this change")
    parser.add_argument("--no-tests", action="store_true", help="list the files, and run no tests")
    parser.add_argument("--jobs", default="auto", metavar="N", help="processes that run tests (default: %(default)s)")
    options, tests = parser.parse_known_args(arguments)
    shown, failed = Table("change", "file", "problem"), False
    with tempfile.TemporaryDirectory() as folder:
        clone = cloned(Path(folder))
        for name in options.only or CHANGES:
            make, check = CHANGES[name]
            make(clone)
            if run(clone, "-m", "tests.golden"):
                return 1
            if name == "tile" and run(clone, "-m", "docs.tools.programs", *LISTING_TILES):
                return 1
            files = changed(clone)
            problems = list(check(clone, files))
            if not options.no_tests and run(
                clone, "-m", "pytest", "-p", "no:benchmark", "-n", options.jobs, "-m", "not network", "-q", *tests
            ):
                problems.append("tests fail")
            for file in files:
                shown.add_row(name, file, "; ".join(each for each in problems if each.startswith(f"{file} ")))
            for problem in problems:
                if not problem.startswith(tuple(f"{file} " for file in files)):
                    shown.add_row(name, "", problem)
            failed |= bool(problems)
            git(clone, "reset", "--hard", "--quiet")
            git(clone, "clean", "-fdq")
    Console().print(shown)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
