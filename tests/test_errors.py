"""Tests that the docstring's tree of errors matches the classes."""

from __future__ import annotations

import builtins
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.test_operands import builtins_of
from tiledmm import errors

CLASSES = {
    name: row for name, row in vars(errors).items() if inspect.isclass(row) and row.__module__ == errors.__name__
}
# By name: how far a line of the tree is indented, and the builtins that it names.
DRAWN = {
    name: (len(indent), text)
    for indent, name, text in re.findall(r"^ {4}([ │]*)[├└]── (\w+) +(.+?)  ", errors.__doc__ or "", re.MULTILINE)
}

X = np.ones((2, 2))

# Mistakes that are found before arrays are described; those after that are in tests/test_operands.py.
OF_ARGUMENTS: dict[str, dict[str, Any]] = {
    "out read-only": {"out": np.broadcast_to(1.0, (2, 2))},
    "out a list": {"out": [1]},
    "out text": {"out": "x"},
    "out a number": {"out": 2.0},
    "out a tuple of a list": {"out": ([1],)},
    "out two": {"out": (X.copy(), X.copy())},
    "out an empty tuple": {"out": ()},
    "an unknown keyword": {"foo": 1},
}


def parent_of(name: str) -> type[Exception]:
    """Return the class below which another is drawn."""
    names = list(DRAWN)
    for above in reversed(names[: names.index(name)]):
        if DRAWN[above][0] < DRAWN[name][0]:
            return CLASSES[above]
    return errors.TiledmmError


def test_the_tree_in_the_docstring_is_complete_and_in_order() -> None:
    assert list(DRAWN) == [name for name in CLASSES if name != "TiledmmError"]


@pytest.mark.parametrize("name", DRAWN)
def test_an_error_derives_from_what_the_docstring_says(name: str) -> None:
    error = CLASSES[name]
    words = re.findall(r"\w+(?:Error|Warning)", DRAWN[name][1])
    expected = {np.exceptions.AxisError if word == "AxisError" else getattr(builtins, word) for word in words}
    assert len(expected) == 1 or error.__subclasses__(), "one builtin, or classes below that have one"
    assert error.__bases__[0] is parent_of(name)
    assert set(error.__bases__[1:]) == expected
    assert error.__doc__


@pytest.mark.parametrize("mistake", OF_ARGUMENTS)
def test_a_mistake_raises_what_numpy_raises_and_nothing_else(mistake: str) -> None:
    with pytest.raises(Exception) as numpys:
        np.matmul(X, X, **OF_ARGUMENTS[mistake])
    with pytest.raises(Exception) as ours:
        tiledmm.simulator.matmul(X, X, **OF_ARGUMENTS[mistake])
    assert builtins_of(ours.type) == builtins_of(numpys.type), f"NumPy raises {numpys.value!r}"


def test_a_cast_that_is_refused_is_a_type_error_as_cupy_compares_it() -> None:
    with pytest.raises(TypeError) as ours:
        tiledmm.simulator.matmul(X, X, out=np.ones((2, 2), int))
    assert not isinstance(ours.value, ValueError)


def test_keyword_error_is_what_both_of_its_kinds_are() -> None:
    """Check that the base class is never raised itself, so that each keyword error is also a builtin one."""
    raised = re.compile(r"raise (?:errors\.)?KeywordError\b")
    assert not [path for path in Path(tiledmm.__file__).parent.rglob("*.py") if raised.search(path.read_text("utf-8"))]


def test_the_axis_error_is_numpys_and_takes_what_it_takes() -> None:
    assert str(errors.AxisError(5, 2)) == str(np.exceptions.AxisError(5, 2))
    assert str(errors.AxisError("a sentence")) == "a sentence"
    assert issubclass(errors.AxisError, ValueError)
    assert issubclass(errors.AxisError, IndexError)
