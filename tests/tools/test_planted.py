from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.planted import BUGS, Bug, killed, passes, read
from tools.trees import Copies

MODULE = "def larger(a, b):\n    return a if a > b else b\n"
TEST = "from module import larger\n\n\ndef test_larger():\n    assert larger(2, 1) == larger(1, 2) == 2\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Create a checkout of a module and its test."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / "module.py").write_text(MODULE, encoding="utf-8")
    (root / "test_module.py").write_text(TEST, encoding="utf-8")
    (root / ".gitignore").write_text("ignored\n", encoding="utf-8")
    (root / "ignored").write_text("not copied", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def bug(old: str, new: str) -> Bug:
    return Bug("a bug", "module.py", old, new, ("test_module.py",))


def test_a_copy_has_what_git_does_not_ignore_and_gets_its_text_back(tree: Path, tmp_path: Path) -> None:
    copies = Copies(tmp_path / "copies", 1, tree)
    assert killed(copies, bug("a > b", "a < b"))
    assert not killed(copies, bug("a > b", "a >= b"))
    assert killed(copies, bug("a > b", "(a > b")), "the tests cannot even be collected"
    with copies.one() as copy:
        assert {path.name for path in copy.iterdir()} == {".gitignore", "module.py", "test_module.py"}
        assert (copy / "module.py").read_text(encoding="utf-8") == MODULE
        with pytest.raises(RuntimeError, match="exit status 4"):
            passes(copy, ["test_of_another_name.py"])
    assert (tree / "module.py").read_text(encoding="utf-8") == MODULE


@pytest.mark.parametrize("old", ["a < b", "a"])
def test_an_edit_has_one_place(tree: Path, old: str) -> None:
    with pytest.raises(ValueError, match=f"has {MODULE.count(old)} times"):
        bug(old, "x").planted(MODULE)
    path = tree / "bugs.toml"
    path.write_text(
        f'[[bug]]\nname = "a bug"\nfile = "module.py"\nold = "{old}"\nnew = "x"\ntests = ["test_module.py"]\n',
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match="times what 'a bug' edits"):
        read(path, tree)


@pytest.mark.parametrize("path", sorted(BUGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_bug_fits_the_tree_as_it_is(path: Path) -> None:
    assert read(path)
