from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.bugs.edits import PythonEdit, edit_cuda
from tools.bugs.host import HostBug, every_bug, judge, tree_of
from tools.trees import Copies

MODULE = """
class Pair:
    def larger(self, a, b):
        first = a + 1  # not used
        return a if a > b else b

    def smaller(self, a, b):
        return a if a < b else b


LIMIT = (7 +
         1)
"""
TEST = """
from module import Pair

def test_larger():
    assert Pair().larger(2, 1) == Pair().larger(1, 2) == 2
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a checkout of a module and its test."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / "module.py").write_text(MODULE, encoding="utf-8")
    (root / "test_module.py").write_text(TEST, encoding="utf-8")
    (root / ".gitignore").write_text("ignored\n", encoding="utf-8")
    (root / "ignored").write_text("not copied", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def bug(old: str, new: str, tests: str = "test_larger") -> HostBug:
    return HostBug(f"{old} is {new}", "Pair.larger", old, new, (tests,))


@pytest.mark.parametrize(
    ("scope", "old", "new", "has"),
    [
        ("Pair.larger", "a>b", "a < b", "return a if a < b else b"),
        ("Pair.larger", "first = a + 1", "", "pass\n        return a if a > b"),
        ("Pair.larger", "first = (a + 1)\nreturn a if a > b else b", "return 0", "return 0\n\n"),
        ("Pair", "a < b", "True", "return a if True else b"),
        ("", "LIMIT = 7 + 1", "LIMIT = 9", "LIMIT = 9"),
    ],
)
def test_an_edit_of_python_is_by_its_syntax(scope: str, old: str, new: str, has: str) -> None:
    assert has in PythonEdit(old, new).applied(MODULE, scope)


@pytest.mark.parametrize(("scope", "old"), [("Pair.larger", "a < b"), ("Pair.larger", "a"), ("Pair.least", "a > b")])
def test_an_edit_of_python_has_one_place(scope: str, old: str) -> None:
    with pytest.raises(ValueError, match=old if scope == "Pair.larger" else scope):
        PythonEdit(old, "x").applied(MODULE, scope)


def test_an_edit_of_cuda_is_by_its_tokens() -> None:
    text = "f( a ); // the first\nf(a);   /* the second */ g();\nff(a);"
    assert edit_cuda(text, "f(a); g( )", "h()") == ("f( a ); // the first\nh();\nff(a);", 21)
    assert edit_cuda(text, "f(a);", "", (1, 2)) == (text[7:], 0)
    assert edit_cuda(text, "f(a); // the first", "") == (text[20:], 0)
    for old, which in (("f(a)", (1, 1)), ("f(b)", (1, 1)), ("g()", (1, 2))):
        with pytest.raises(ValueError, match="times"):
            edit_cuda(text, old, "", which)


def test_bugs_are_judged_by_their_tests(root: Path) -> None:
    bugs = [bug("a > b", "a < b"), bug("a > b", "a >= b"), bug("a > b", "a.no", "test_module")]
    assert [fate.outcome for fate in judge(bugs, 1, root=root)] == ["killed", "survived", "killed"]
    assert (root / "module.py").read_text(encoding="utf-8") == MODULE
    (root / "test_module.py").write_text(TEST.replace("== 2", "== 3"), encoding="utf-8")
    with pytest.raises(RuntimeError, match="without a bug"):
        judge(bugs, 1, root=root)


def test_a_copy_has_what_git_does_not_ignore(root: Path, tmp_path: Path) -> None:
    with Copies(tmp_path / "copies", 1, root).one() as copy:
        assert {path.name for path in copy.iterdir()} == {".gitignore", "module.py", "test_module.py"}


@pytest.mark.parametrize(("where", "test"), [("Pair.least", "test_larger"), ("Pair.larger", "test_least")])
def test_a_bug_names_a_place_and_a_test(root: Path, where: str, test: str) -> None:
    with pytest.raises(ValueError, match="least"):
        judge([HostBug("a bug", where, "a > b", "a < b", (test,))], 1, root=root)


def test_every_bug_fits_the_tree_as_it_is() -> None:
    tree, bugs = tree_of(), every_bug()
    assert len({each.name for each in bugs}) == len(bugs)
    for each in bugs:
        each.check(tree)
        assert each.tests and each.old != each.new
