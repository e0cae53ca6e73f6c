"""What is public: names, their types as editors and mypy see them, and what they take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import tiledmm
from tiledmm.errors import ConfigError, OperandTypeError, ShapeError, UnknownVariantError, UnsupportedTypeError
from tiledmm.problem.keywords import Precision
from tiledmm.selection.select import PRECISIONS

ROOT = Path(__file__).resolve().parent.parent


def test_dir_lists_what_is_public() -> None:
    assert dir(tiledmm) == sorted(tiledmm.__all__)
    assert all(getattr(tiledmm, name) is not None for name in dir(tiledmm))


def test_the_literal_of_precisions_is_what_select_takes() -> None:
    assert get_args(Precision) == PRECISIONS


WRONG = """
import tiledmm
tiledmm.matmull
tiledmm.matmul(1, 2, precision="tf23")
tiledmm.matmul(1, 2, precision="tf32", variant="mine")
tiledmm.source("tiled", config={"bk": 8})
"""


def test_mypy_finds_names_and_precisions_that_there_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mypy = pytest.importorskip("mypy.api")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    options = ["--follow-imports=silent", "--ignore-missing-imports", f"--python-executable={sys.executable}"]
    printed, problems, _ = mypy.run([*options, "wrong.py"])
    found = [line for line in printed.splitlines() if line.startswith("wrong.py")]
    assert not problems and len(found) == 2, printed
    assert found[0].startswith("wrong.py:3: error:") and '"matmull"' in found[0]
    assert found[1].startswith("wrong.py:4: error:") and '"precision"' in found[1]


def test_explain_takes_shapes() -> None:
    a, b = np.zeros((512, 300), np.float32), np.zeros((300, 400), np.float32)
    assert str(tiledmm.explain((512, 300), (300, 400))) == str(tiledmm.explain(a, b))
    batch = np.zeros((3, 64, 64), np.float64)
    given = tiledmm.explain((3, 64, 64), (3, 64, 64), dtype="float64")
    assert str(given) == str(tiledmm.explain(batch, batch.copy()))
    out = tiledmm.explain((512, 300), (300, 400), (512, 400), target="A10")
    assert str(out) == str(tiledmm.explain(a, b, np.zeros((512, 400), np.float32), target="A10"))
    assert tiledmm.explain((0, 3), (3, 5)).product.problem.is_empty


@pytest.mark.parametrize("shape", [(-1, 4), (4.0, 4), ("4", 4), (True, 4)])
def test_what_is_no_shape(shape: tuple[object, ...]) -> None:
    with pytest.raises(ShapeError, match="whole numbers"):
        tiledmm.explain(shape, (4, 4))


def test_shapes_have_to_fit_and_types_to_exist() -> None:
    with pytest.raises(ShapeError):
        tiledmm.explain((4, 5), (4, 5))
    with pytest.raises(UnsupportedTypeError):
        tiledmm.explain((4, 4), (4, 4), dtype="float99")


def test_source_takes_a_config() -> None:
    text = tiledmm.source("register_tiled", config={"tm": 4}, page=True)
    assert "TM = 4;" in text and "TM = 8;" in tiledmm.source("register_tiled", page=True)
    with pytest.raises(ConfigError, match="unknown config field"):
        tiledmm.source("tiled", config={"x": 1})


@pytest.mark.parametrize("wrong", [None, 3, [3, 4], "ab"])
def test_explain_names_what_is_no_array(wrong: object) -> None:
    with pytest.raises(OperandTypeError, match=r"x1 is an array, or a shape such as \(512, 300\)"):
        tiledmm.explain(wrong, (4, 5))


def test_explain_names_a_shape_that_no_memory_has() -> None:
    with pytest.raises(ShapeError, match="at most"):
        tiledmm.explain((10**30, 4), (4, 5))


def test_auto_has_no_kernel_of_its_own() -> None:
    with pytest.raises(UnknownVariantError, match="'auto' takes another kernel for each product; those with a name"):
        tiledmm.source("auto")
