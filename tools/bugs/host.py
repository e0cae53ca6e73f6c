"""Bugs planted in the host code by hand, each of which the tests once missed.

Each bug in ``host.toml`` is an edit of one function, with the tests that must notice it. They run in a scratch copy of
the tree, first without the bug, where they must pass, then with it.
"""

from __future__ import annotations

import ast
import functools
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tools.bugs.edits import PythonEdit, edit_cuda, scopes
from tools.bugs.fates import Fate, Progress, tomllib
from tools.trees import ROOT, Copies, listed, pytest, written

PATH = Path(__file__).with_name("host.toml")

# A bug may make a test loop forever.
_SECONDS = 300


@dataclass(frozen=True)
class HostBug:
    """An edit that plants a bug in the host code.

    Attributes:
        name: Short description of the bug.
        where: Module, and function or class, as the end of a dotted name that only one has: ``"Plan.run"``. A template
            is named by its file, ``"epilogue.cuh.j2"``.
        old, new: Expression or statements that occur there exactly once, and their replacement; of a template, tokens.
        tests: Names of the tests, or of their modules, that must fail.
    """

    name: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def id(self) -> str:
        """Name, which no other bug has."""
        return self.name

    @property
    def group(self) -> str:
        """Folder of the edited file."""
        path, _ = tree_of().place(self.where)
        return "/".join(path.split("/")[:2])

    def check(self, tree: Tree) -> None:
        """Check that the bug fits the tree.

        Raises:
            ValueError: If the place, ``old`` or a test does not occur exactly once.
        """
        try:
            path, scope = tree.place(self.where)
            if scope is None:
                edit_cuda(tree.text(path), self.old, self.new)
            else:
                PythonEdit(self.old, self.new).check(tree.scope(path, scope))
            for name in self.tests:
                tree.test(name)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def planted(self, tree: Tree) -> tuple[str, str]:
        """Return the path of the edited file, and its text with the bug, which must fit the tree."""
        path, scope = tree.place(self.where)
        text = tree.text(path)
        if scope is None:
            return path, edit_cuda(text, self.old, self.new)[0]
        return path, PythonEdit(self.old, self.new).applied(text, scope)


class Tree:
    """A checkout's modules and templates by the names of what they define, and its tests by theirs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = listed(root)

    def text(self, path: str) -> str:
        """Return the text of a file."""
        return (self._root / path).read_text("utf-8")

    def scope(self, path: str, name: str) -> ast.AST:
        """Return the syntax tree of a function, class or module (``""``)."""
        return self._scopes[path][name]

    def place(self, where: str) -> tuple[str, str | None]:
        """Return the file of a dotted name's end, and the qualified name in that file; None for a template.

        Raises:
            ValueError: If none or several have it.
        """
        found = self._places.get(where, [])
        if len(found) != 1:
            raise ValueError(f"{len(found)} places are named {where!r}: {found}")
        return found[0]

    def test(self, name: str) -> str:
        """Return what pytest selects by a test's name, a module's name, or both (``"test_plan::test_run"``).

        Raises:
            ValueError: If none or several have that name.
        """
        found = self._tests.get(name, [])
        if len(found) != 1:
            raise ValueError(f"{len(found)} tests are named {name!r}: {', '.join(found)}")
        return found[0]

    @functools.cached_property
    def _scopes(self) -> dict[str, dict[str, ast.AST]]:
        modules = [path for path in self._files if path.endswith(".py") and not path.startswith(("tests/", "tools/"))]
        return {path: scopes(ast.parse(self.text(path))) for path in modules}

    @functools.cached_property
    def _places(self) -> dict[str, list[tuple[str, str | None]]]:
        found: dict[str, list[tuple[str, str | None]]] = {}
        for path in self._files:
            if path.startswith("cuda_src/"):
                found.setdefault(Path(path).name, []).append((path, None))
        for path, names in self._scopes.items():
            module = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for scope in names:
                parts = [*module, *filter(None, scope.split("."))]
                for i in range(len(parts)):
                    found.setdefault(".".join(parts[i:]), []).append((path, scope))
        return found

    @functools.cached_property
    def _tests(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self._files:
            if path.endswith(".py") and Path(path).name.startswith("test_") and not path.startswith("tests/gpu/"):
                module = Path(path).stem
                found.setdefault(module, []).append(path)
                for name in re.findall(r"^(?:async )?def (test_\w+)", self.text(path), re.MULTILINE):
                    found.setdefault(name, []).append(f"{path}::{name}")
                    found.setdefault(f"{module}::{name}", []).append(f"{path}::{name}")
        return found


@functools.cache
def tree_of(root: Path = ROOT) -> Tree:
    """Return the tree of a checkout, which is read once."""
    return Tree(root)


def every_bug() -> list[HostBug]:
    """Read the bugs of ``host.toml``."""
    rows = tomllib.loads(PATH.read_text("utf-8"))["bug"]
    return [HostBug(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def judge(bugs: Sequence[HostBug], workers: int, progress: Progress = lambda _: None, root: Path = ROOT) -> list[Fate]:
    """Run the tests of all bugs without any, and then each bug's tests with it; return the fates in order.

    Raises:
        RuntimeError: If tests fail without a bug.
        ValueError: If a bug does not fit the tree.
    """
    tree = tree_of(root)
    for bug in bugs:
        bug.check(tree)
    tests = [[tree.test(name) for name in bug.tests] for bug in bugs]
    planted = [bug.planted(tree) for bug in bugs]
    with tempfile.TemporaryDirectory(prefix="tiledmm-bugs-") as folder, ThreadPoolExecutor(workers) as pool:
        copies = Copies(Path(folder), workers, root)
        with copies.one() as top:
            status, printed = pytest(top, sorted({name for names in tests for name in names}))
        if status != 0:
            raise RuntimeError(f"{printed[-3000:]}\nThe tests fail without a bug.")

        def one(bug: HostBug, names: Sequence[str], edited: tuple[str, str]) -> Fate:
            path, text = edited
            with copies.one() as top, written(top / path, text):
                status, _ = pytest(top, ["-x", *names], _SECONDS)
            progress(bug.name)
            if status is None:
                return Fate("timed out", True)
            # A bug may break a test's module, too: the tests pass without it.
            return Fate("killed", True) if status else Fate("survived", False)

        return list(pool.map(one, bugs, tests, planted))
