"""Tests of ``%%tiledmm`` in IPython on a fake device. Needs IPython and CuPy, but no GPU."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("IPython", reason="needs IPython")
pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tests.host_arrays import numbers, pretend
from tiledmm.launch import plans
from tiledmm.replacement import names, notebook

pytestmark = pytest.mark.cupy


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    pretend(monkeypatch.setattr)
    plans.forget_plans()
    made = InteractiveShell(config=Config(HistoryAccessor={"enabled": False}, InteractiveShell={"colors": "nocolor"}))
    made.run_line_magic("load_ext", "tiledmm")
    made.push({"a": numbers(5, 5)})
    # Set by Python's own display of a result, such as a doctest's; IPython then sets none.
    monkeypatch.delattr(builtins, "_", raising=False)
    yield made
    assert not names._in_force
    assert "__matmul__" not in vars(cupy.ndarray)
    plans.forget_plans()


def run(shell: InteractiveShell, cell: str) -> Any:
    return shell.run_cell(cell)


def test_products_of_a_cell_are_replaced_and_told(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(shell, "%%tiledmm --variant tiled --tile 8\nb = a @ a\nc = cupy = b.dot(a)\n")
    assert result.success and result.result is None
    assert {"b", "c"} <= set(shell.user_ns)
    output = capsys.readouterr().out
    assert output.startswith("2 matrix products: 2 by tiledmm (tiled 2)\n")
    assert "tiledmm_tiled_f32_8x8x8_nn" in output


def test_its_last_line_is_shown(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(shell, "%%tiledmm\n(a @ a).shape")
    assert result.result == (5, 5)
    assert "(5, 5)" in capsys.readouterr().out.splitlines()[-1]
    assert shell.user_ns["_"] == (5, 5)


def test_an_exception_is_shown_once_at_its_line_and_stops_the_notebook(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(shell, "%%tiledmm\nb = a @ a\nraise KeyError('what is not there')")
    assert isinstance(result.error_in_exec, KeyError)
    output = capsys.readouterr().out
    assert output.startswith("1 matrix product: 1 by tiledmm")
    assert output.count("KeyError: 'what is not there'") == 1
    assert "----> 2 raise" in output
    assert "b" in shell.user_ns


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("", {}),
        ("--variant tiled --tile 8 --precision ieee", {"variant": "tiled", "tile": 8, "precision": "ieee"}),
    ],
)
def test_its_line_has_the_keywords_of_replacing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, line: str, given: dict[str, Any]
) -> None:
    got: list[dict[str, Any]] = []
    monkeypatch.setattr(
        notebook, "replacing", lambda **keywords: got.append(keywords) or contextlib.nullcontext("products")
    )
    assert run(shell, f"%%tiledmm {line}\npass").success
    assert got == [{"variant": "auto", "tile": None, "precision": "full"} | given]


@pytest.mark.parametrize(
    ("line", "says"),
    [("--variant tild", "did you mean 'tiled'"), ("--tile x", "invalid int"), ("--nothing", "unrecognized")],
)
def test_a_mistake_in_its_line_is_said(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    result = run(shell, f"%%tiledmm {line}\nran = True")
    assert not result.success
    assert says in "".join(capsys.readouterr())
    assert "ran" not in shell.user_ns


def test_a_cell_may_have_magics_and_mistakes_of_its_own(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shell, "%%tiledmm\nwhere = %pwd\n%time (a @ a).shape").success
    assert shell.user_ns["where"]
    assert isinstance(run(shell, "%%tiledmm\ndef f(:").error_in_exec, SyntaxError)
    assert run(shell, "%%tiledmm\npass").success
    assert "no " in capsys.readouterr().out


def test_it_explains_itself(shell: InteractiveShell) -> None:
    magic = shell.find_cell_magic("tiledmm")
    assert magic.__doc__ and "--variant" in magic.__doc__
