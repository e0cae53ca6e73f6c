from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="no tests of mutants: Cosmic Ray is not installed (extra 'mutation')")

from tools.bugs.cosmic_ray import Mutant, mutants
from tools.bugs.covering import spread
from tools.bugs.edits import scopes
from tools.bugs.fates import Fate
from tools.bugs.host_mutants import SETTINGS, Recorded, explained, modules, reasons
from tools.trees import ROOT

SOURCE = '''
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    WORDS = 32

Index: TypeAlias = int | slice
LIMIT: int | None = 7


@dataclass(frozen=True)
class Tile:
    __slots__ = ("a",) * 3

    @property
    def area(self) -> int | float:
        """2 * 2"""
        if not self.a:
            raise ValueError(f"{self.a + 9} is 0")
        return self.a * self.a

    def has(self, x):
        print(x)
        return x in self.a
'''


@pytest.fixture
def made(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "tile.py").write_text(SOURCE, encoding="utf-8")
    return mutants(tmp_path, "tile.py")


def test_what_computes_is_edited_and_nothing_else(made: list[Mutant]) -> None:
    """Check that annotations, decorators, TYPE_CHECKING, slots, strings and error texts are not edited."""
    assert [(mutant.where, mutant.change) for mutant in made] == [
        ("", ("LIMIT: int | None = 7", "LIMIT: int | None = 8")),
        ("", ("LIMIT: int | None = 7", "LIMIT: int | None = 6")),
        ("Tile.area", ("if not self.a:", "if  self.a:")),
        ("Tile.area", ("return self.a * self.a", "return self.a + self.a")),
        ("Tile.area", ("return self.a * self.a", "return self.a // self.a")),
        ("Tile.has", ("print(x)", "pass")),
        ("Tile.has", ("return x in self.a", "return x not in self.a")),
    ]
    assert [mutant.imported for mutant in made] == [True, True, *[False] * 5]


def test_a_mutant_differs_in_its_line(made: list[Mutant]) -> None:
    lines = SOURCE.splitlines()
    for mutant in made:
        edited = mutant.text.splitlines()
        assert [i + 1 for i, line in enumerate(lines) if line != edited[i]] == [mutant.line] == [mutant.statement]


def test_tests_that_run_the_line_first_one_case_of_each(made: list[Mutant]) -> None:
    called, imported = made[-1], made[0]
    seconds = {"t.py::a[1]": 0.1, "t.py::a[2]": 0.2, "t.py::b": 3.0, "t.py::c": 9.0}
    tests = Recorded(seconds, {"tile.py": {called.line: ["t.py::b", "t.py::a[2]", "t.py::a[1]"], 20: ["t.py::c"]}})
    assert tests.of(called) == ["t.py::a[1]", "t.py::b", "t.py::a[2]"]
    assert tests.of(imported) == ["t.py::a[1]", "t.py::b", "t.py::c", "t.py::a[2]"]
    assert tests.of(made[3]) == []
    assert list(tests.stages(tests.of(called), budget=60, first=1)) == [["t.py::a[1]"], ["t.py::b", "t.py::a[2]"]]
    assert list(tests.stages(tests.of(called), budget=1)) == [["t.py::a[1]"]], "what there is no time for is left out"
    assert list(tests.stages(["t.py::c"], budget=1)) == [["t.py::c"]], "but one runs"


def test_tests_of_the_modules_own_folder_precede_faster_ones(made: list[Mutant]) -> None:
    own, nested, checks_most = "tests/kernels/test_a.py::a[1]", "tests/kernels/test_b.py::b", "tests/test_c.py::c"
    seconds = {"tests/cli/test_d.py::d": 0.1, own: 0.2, nested: 0.3, checks_most: 9.0}
    mutant = replace(made[0], file="tiledmm/kernels/tile.py")
    tests = Recorded(seconds, {mutant.file: {20: list(seconds)}}, ("tests/test_c.py",))
    assert tests.of(mutant) == [checks_most, own, nested, "tests/cli/test_d.py::d"]


def test_cases_are_spread() -> None:
    names = [*(f"a[{i}]" for i in range(10)), "b"]
    assert spread(names, 3) == {"a[0]", "a[3]", "a[6]", "b"}
    assert spread(names, 10) == set(names)


def test_a_survivor_is_explained_by_its_place_and_change(made: list[Mutant]) -> None:
    survivor, survived = made[-1], Fate("survived", False)
    before, after = survivor.change
    row = {"where": survivor.where, "before": before, "after": [after], "reason": "a round number"}
    assert explained(survivor, survived, {}) == survived
    assert explained(survivor, survived, reasons([row])) == Fate("survived", False, "a round number", expected=True)
    equivalent = explained(survivor, survived, reasons([row | {"reason": "equivalent: so"}]))
    assert equivalent.caught is None
    assert explained(survivor, Fate("killed", True), reasons([row])) == Fate("killed", True)
    assert explained(made[0], survived, reasons([row])) == survived


def test_listed_survivors_have_a_reason_and_their_line() -> None:
    """Check that each listed survivor is unique, has a reason, and that its line still exists."""
    known = SETTINGS.get("survivor", ())
    assert len(reasons(known)) == sum(len(row["after"]) for row in known), "no survivor twice"
    assert all(row["reason"] for row in known)
    sources = [(ROOT / file).read_text(encoding="utf-8") for file in modules(SETTINGS["modules"])]
    lines = " ".join(line.strip() for source in sources for line in source.splitlines())
    places = {name for source in sources for name in scopes(ast.parse(source))}
    assert not [row for row in known if row["before"] not in lines or row["where"] not in places]
