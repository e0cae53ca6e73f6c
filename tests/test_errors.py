"""The tree of errors: what the docstring draws is what there is."""

from __future__ import annotations

import builtins
import inspect
import re

import numpy as np
import pytest

import tiledmm
from tiledmm import errors

CLASSES = {
    name: row for name, row in vars(errors).items() if inspect.isclass(row) and row.__module__ == errors.__name__
}
DRAWN = dict(re.findall(r"[├└]── (\w+) +(.+?)  ", errors.__doc__ or ""))


def test_the_tree_in_the_docstring_is_complete_and_in_order() -> None:
    assert list(DRAWN) == [name for name in CLASSES if name != "TiledmmError"]


@pytest.mark.parametrize("name", DRAWN)
def test_an_error_derives_from_what_the_docstring_says(name: str) -> None:
    error = CLASSES[name]
    words = re.findall(r"\w+(?:Error|Warning)", DRAWN[name])
    expected = {np.exceptions.AxisError if word == "AxisError" else getattr(builtins, word) for word in words}
    assert expected
    assert error.__bases__[0] is errors.TiledmmError
    assert set(error.__bases__[1:]) == expected
    assert error.__doc__


def test_the_axis_error_is_numpys_and_takes_what_it_takes() -> None:
    assert str(errors.AxisError(5, 2)) == str(np.exceptions.AxisError(5, 2))
    assert str(errors.AxisError("a sentence")) == "a sentence"
    assert issubclass(errors.AxisError, ValueError)
    assert issubclass(errors.AxisError, IndexError)


def test_the_root_is_exported() -> None:
    assert tiledmm.TiledmmError is errors.TiledmmError
    assert issubclass(errors.TiledmmError, Exception)


def test_everything_exported_is_there() -> None:
    assert sorted(tiledmm.__all__) == sorted(set(tiledmm.__all__))
    assert all(hasattr(tiledmm, name) for name in tiledmm.__all__)
