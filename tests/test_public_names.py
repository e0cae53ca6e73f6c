"""Tests of the public interface: names, their types as editors and mypy see them, and signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tiledmm import errors
from tiledmm.errors import ConfigError, OperandTypeError, ShapeError, UnknownVariantError, UnsupportedTypeError
from tiledmm.problem.keywords import PRECISIONS, Precision

ROOT = Path(__file__).resolve().parent.parent


#: Modules that are public, and the packages that some of them need.
MODULES = {"dask": "dask", "errors": "", "multi_gpu": "", "out_of_core": "", "simulator": "", "torch": "torch"}
OF_EXTRAS = [name for name, package in MODULES.items() if package]


def test_dir_lists_what_is_public() -> None:
    assert dir(tiledmm) == sorted({*tiledmm.__all__, *MODULES})
    assert not set(OF_EXTRAS) & set(tiledmm.__all__), "import * needs no extra"
    assert all(getattr(tiledmm, name) is not None for name in tiledmm.__all__)
    assert tiledmm.TiledmmError is errors.TiledmmError


def test_dir_lists_every_module_of_functions_for_users() -> None:
    """Check that ``dir`` lists every top-level module with an ``__all__``."""
    files = Path(tiledmm.__file__).parent.glob("*.py")
    have = {each.stem for each in files if "__all__ = [" in each.read_text("utf-8")} - {"__init__"}
    assert have == set(MODULES) - {"errors", "simulator"}, "these two are listed, too"


def run(code: str) -> str:
    """Run code in a new process that has only imported the package, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, tiledmm\n{code}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_modules_are_attributes_and_loaded_at_first_use() -> None:
    """Check all modules in one process: none is loaded at first, and each attribute is the imported module."""
    code = f"""
from importlib.util import find_spec
assert not [name for name in sys.modules if name.startswith("tiledmm.")]
assert not {{"numpy", "cupy", "typer", "rich"}} & {{*sys.modules}}
for name, package in {MODULES}.items():
    if package and not find_spec(package):
        continue
    module = getattr(tiledmm, name)
    assert module is sys.modules[f"tiledmm.{{name}}"], name
    print(name, callable(getattr(module, "matmul", None)))
"""
    loaded = dict(line.split() for line in run(code).splitlines())
    assert loaded.keys() >= {"errors", "multi_gpu", "out_of_core", "simulator"}
    assert {name for name, has_matmul in loaded.items() if has_matmul == "False"} == {"errors"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_unless(name == "dask")) for name in OF_EXTRAS])
def test_a_module_whose_extra_is_missing(name: str) -> None:
    """Check that the message is the same for each kind of access, and that code that walks attributes continues."""
    code = f"""
import inspect, pickle
sys.modules[{MODULES[name]!r}] = None
texts = []
for get in (
    lambda: tiledmm.{name},
    lambda: exec("import tiledmm.{name}"),
    lambda: exec("from tiledmm import {name}"),
):
    try:
        get()
    except (AttributeError, ImportError) as error:
        assert isinstance(error, tiledmm.TiledmmError)
        texts.append((AttributeError if isinstance(error, AttributeError) else ImportError, str(error)))
assert [kind for kind, _ in texts] == [AttributeError, ImportError, ImportError], texts
assert len({{text for _, text in texts}}) == 1 and "pip install" in texts[0][1] and "[{name}]" in texts[0][1]
assert not hasattr(tiledmm, {name!r}) and getattr(tiledmm, {name!r}, 5) == 5
assert {name!r} in dir(tiledmm) and {name!r} not in dict(inspect.getmembers(tiledmm))
from tiledmm import *
def {name}(): pass
{name}.__module__ = "tiledmm"
try:
    pickle.dumps({name})
except pickle.PicklingError:
    print("ended well")
"""
    assert run(code) == "ended well"


def test_the_literal_of_precisions_is_what_select_takes() -> None:
    assert get_args(Precision) == PRECISIONS


WRONG = """
import tiledmm
tiledmm.matmull
tiledmm.matmul(1, 2, precision="tf23")
tiledmm.matmul(1, 2, precision="tf32", variant="mine")
tiledmm.source("tiled", config={"bk": 8})
tiledmm.multi_gpu.matmul(1, 2, devices=[0, 1])
tiledmm.multi_gpu.matmull
tiledmm.out_of_core.matmul
tiledmm.dask.matmul
tiledmm.torch.matmul
tiledmm.simulator.matmul
"""


@pytest.mark.slow
def test_mypy_finds_names_and_precisions_that_there_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mypy = pytest.importorskip("mypy.api")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    options = ["--follow-imports=silent", "--ignore-missing-imports", f"--python-executable={sys.executable}"]
    printed, problems, _ = mypy.run([*options, "wrong.py"])
    found = [line for line in printed.splitlines() if line.startswith("wrong.py")]
    assert not problems and len(found) == 3, printed
    assert found[0].startswith("wrong.py:3: error:") and '"matmull"' in found[0]
    assert found[1].startswith("wrong.py:4: error:") and '"precision"' in found[1]
    assert found[2].startswith("wrong.py:8: error:") and '"matmull"' in found[2]


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
    with pytest.raises(ShapeError):
        tiledmm.explain(shape, (4, 4))


def test_shapes_have_to_fit_and_types_to_exist() -> None:
    with pytest.raises(ShapeError):
        tiledmm.explain((4, 5), (4, 5))
    with pytest.raises(UnsupportedTypeError):
        tiledmm.explain((4, 4), (4, 4), dtype="float99")


def test_source_takes_a_config() -> None:
    text = tiledmm.source("register_tiled", config={"tm": 4}, page=True)
    assert "TM = 4;" in text and "TM = 8;" in tiledmm.source("register_tiled", page=True)
    with pytest.raises(ConfigError, match="'x'"):
        tiledmm.source("tiled", config={"x": 1})


@pytest.mark.parametrize("wrong", [None, 3, [3, 4], "ab"])
def test_explain_names_what_is_no_array(wrong: object) -> None:
    with pytest.raises(OperandTypeError, match="x1"):
        tiledmm.explain(wrong, (4, 5))


def test_explain_names_a_shape_that_no_memory_has() -> None:
    with pytest.raises(ShapeError):
        tiledmm.explain((10**30, 4), (4, 5))


def test_auto_has_no_kernel_of_its_own() -> None:
    with pytest.raises(UnknownVariantError, match="'auto'"):
        tiledmm.source("auto")
