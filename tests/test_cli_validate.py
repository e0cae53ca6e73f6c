"""``tiledmm validate`` on the simulator, and on a GPU that is made up."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.conftest import missing_simulator
from tiledmm import cli
from tiledmm.bench import validation
from tiledmm.bench.records import Rung, Size
from tiledmm.bench.reference import random_matrix, reference, tolerance
from tiledmm.bench.validation import Validation, _validation, explain_tolerance, validation_table
from tiledmm.cli import device
from tiledmm.elements import ELEMENTS, TF32, compute_element
from tiledmm.errors import ConfigError, DeviceError, MissingDependencyError

SIZE = Size(5, 6, 7)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["validate", *arguments])


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")


def validate(multiply: Any, dtype: str = "float32") -> Validation:
    """What comes of naive, whose product is that of ``multiply(a, b)``."""
    rng, kind = np.random.default_rng(0), compute_element(dtype)
    a, b = (random_matrix(rng, *shape, kind.dtype, SIZE.k) for shape in ((SIZE.m, SIZE.k), (SIZE.k, SIZE.n)))
    known = (a, b, reference(a, b, kind))
    told: list[Any] = []
    found = _validation(
        "here", [Rung("naive")], SIZE, kind, "NN", known, lambda rung: multiply(a, b), lambda *doing: told.append(doing)
    )
    assert told == [(f"{SIZE} {dtype} NN: naive", 0, 1)]
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int16", "bool"])
def test_what_is_right_passes(dtype: str) -> None:
    found = validate(lambda a, b: (np.matmul(a, b).astype(a.dtype), ""), dtype)
    assert found.ok
    (row,) = found.rows
    assert row.from_numpy == 0
    assert found.numpy_error is not None and found.numpy_error <= found.tolerance[0]
    assert not validation_table(found).bad


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "bool"])
def test_one_wrong_element_fails(dtype: str) -> None:
    def multiply(a: Any, b: Any) -> Any:
        c = np.matmul(a, b).astype(a.dtype)
        c[2, 3] = not c[2, 3] if dtype == "bool" else c[2, 3] + 1
        return c, ""

    found = validate(multiply, dtype)
    assert not found.ok
    table = validation_table(found)
    assert table.bad == {0}
    assert table.rows[0][-1] == "WRONG"
    assert table.records()[0]["from NumPy's"] > 0


def test_nan_fails() -> None:
    found = validate(lambda a, b: (np.full((SIZE.m, SIZE.n), np.nan, np.float32), ""))
    assert validation_table(found).rows[0][2] == "NaN"
    assert not found.ok


def test_what_else_is_wrong_fails() -> None:
    found = validate(lambda a, b: (a @ b, "a race"))
    assert not found.ok
    table = validation_table(found)
    assert table.rows[0][-1] == "FINDINGS"
    assert "naive: a race." in table.notes


@pytest.mark.parametrize(
    ("error", "ok", "check"), [(DeviceError("x"), True, "left out"), (ConfigError("x"), False, "FAILED")]
)
def test_a_kernel_that_did_not_run(error: Exception, ok: bool, check: str) -> None:
    def multiply(a: Any, b: Any) -> Any:
        raise error

    found = validate(multiply)
    assert found.ok is ok
    assert validation_table(found).rows[0][-1] == check


def test_a_missing_compiler_is_no_kernels_fault() -> None:
    def multiply(a: Any, b: Any) -> Any:
        raise MissingDependencyError("no compiler")

    with pytest.raises(MissingDependencyError):
        validate(multiply)


@pytest.mark.parametrize("kind", [*ELEMENTS.values(), TF32], ids=lambda kind: kind.dtype_name)
def test_every_tolerance_is_explained(kind: Any) -> None:
    allowed = tolerance(kind.dtype, 64)
    text = explain_tolerance(kind, 64, allowed)
    assert text.endswith(".")
    assert text.startswith("Exact" if kind.dtype.kind in "biu" else f"Up to {allowed:.1e} of |A| |B|")


@pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))
def test_on_the_simulator(no_gpu: None) -> None:
    result = invoke("naive", "wgmma", "tiled", "--tiles", "8", "--sizes", "9x10x11,4000", "--layouts", "nt", "--csv")
    assert result.exit_code == 0, result.output
    assert "No GPU (none in this test)" in result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["variant"], row["tile"], row["dtype"], row["check"]) for row in rows] == [
        ("naive", "", "float32", "ok"), ("tiled", "8", "float32", "ok"),
    ]  # fmt: skip
    assert all((row["m"], row["n"], row["k"], row["layout"]) == ("9", "10", "11", "NT") for row in rows)
    assert all(0 < float(row["max error"]) < float(row["allowed"]) for row in rows)


def test_by_default_each_is_checked_of_a_type_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, set[str]] = {}

    def on_gpu(rungs: Any, size: Any, *, dtype: str, layout: str, progress: Any) -> Validation:
        asked.setdefault(dtype, set()).update(rung.variant for rung in rungs)
        return Validation("a GPU", size, dtype, layout, (0.0, "Exact."), 0.0, ())

    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setattr(validation, "on_gpu", on_gpu)
    result = invoke("--json")
    assert result.exit_code == 0, result.output
    assert asked["float16"] == {"tensor_core", "wgmma"}
    assert asked["int32"] == {"split_integer"}
    assert {"naive", "split_float32", "auto"} <= asked["float32"]
    assert json.loads(result.stdout)["tables"][0]["title"].endswith("on a GPU")


def test_a_mismatch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_gpu(rungs: Any, size: Any, *, dtype: str, layout: str, progress: Any) -> Validation:
        rows = (validation.Validated(Rung("naive"), validation.Verdict(False, 0.5), 0.5),)
        return Validation("a GPU", size, dtype, layout, (1e-5, "Up to."), 1e-7, rows)

    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setattr(validation, "on_gpu", on_gpu)
    result = invoke("naive")
    assert result.exit_code == 1
    assert "MISMATCH" in result.output and "WRONG" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tilde",), "did you mean"),
        (("cublas",), "nothing to check"),
        (("tiled", "--tiles", "24"), "tiles are"),
        (("tiled", "--sizes", "3x4"), "MxNxK"),
        (("tiled", "--dtypes", "float33"), "float33"),
        (("naive", "--dtypes", "tf32"), "none of naive multiplies tf32"),
        (("tiled", "--layouts", "NX"), "NX"),
        (("tiled", "--target", "sm_1"), "the targets are"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str, no_gpu: None) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
