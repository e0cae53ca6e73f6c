"""Tests of ``tiledmm validate`` on the simulator and with a made-up GPU."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tiledmm
from tests.conftest import missing_simulator
from tiledmm import api, cli
from tiledmm.bench import validation
from tiledmm.bench.reference import random_matrix, reference
from tiledmm.bench.sizes import Size
from tiledmm.bench.validation import Validation, _validation, explain_tolerance, validation_table
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.cli import device
from tiledmm.cli.output import ALL_RIGHT
from tiledmm.codegen.template_files import template_folder
from tiledmm.elements import ELEMENTS, compute_element
from tiledmm.errors import ConfigError, DeviceError, MissingDependencyError
from tiledmm.simulator import Finding

SIZE = Size(5, 6, 7)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["validate", *arguments])


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")


def validate(multiply: Any, dtype: str = "float32", variant: str = "naive") -> Validation:
    """Validate a variant whose product is computed by ``multiply(a, b)``."""
    rng, kind = np.random.default_rng(0), compute_element(dtype)
    a, b = (random_matrix(rng, *shape, kind.dtype, SIZE.k) for shape in ((SIZE.m, SIZE.k), (SIZE.k, SIZE.n)))
    known = (a, b, reference(a, b, kind))
    told: list[Any] = []
    found = _validation(
        "here",
        [VariantTile(variant)],
        SIZE,
        kind,
        "NN",
        known,
        lambda variant_tile: multiply(a, b),
        lambda *doing: told.append(doing),
    )
    assert told == [(f"{SIZE} {dtype} NN: {variant}", 0, 1)]
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int16", "bool"])
def test_what_is_right_passes(dtype: str) -> None:
    found = validate(lambda a, b: (np.matmul(a, b).astype(a.dtype), ()), dtype)
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
        return c, ()

    found = validate(multiply, dtype)
    assert not found.ok
    table = validation_table(found)
    assert table.bad == {0}
    assert table.rows[0][-1] == "WRONG"
    assert table.records()[0]["difference from NumPy"] > 0


def test_nan_fails() -> None:
    found = validate(lambda a, b: (np.full((SIZE.m, SIZE.n), np.nan, np.float32), ()))
    assert validation_table(found).rows[0][2] == "NaN"
    assert not found.ok


def test_what_else_is_wrong_fails() -> None:
    race = Finding("race", "a race", 1, "a.cu:1", "x = 1;", *[(0, 0, 0)] * 2, *[None] * 5, 1)
    found = validate(lambda a, b: (a @ b, (race,)))
    assert not found.ok
    table = validation_table(found)
    assert table.rows[0][-1] == "FINDINGS"
    assert table.findings == (race,)


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


def worked_out(text: str) -> float:
    """Compute the tolerance from the sentence that describes it."""
    if text.startswith("Exact"):
        return 0.0
    found = re.search(r"(\d+) sqrt\(K\) u for K = (\d+) additions in float\d\d \(u = 2\^(-\d+)\)", text)
    assert found, text
    factor, k, exponent = map(int, found.groups())
    allowed = factor * k**0.5 * 2.0**exponent
    allowed *= 2 if "as many in the reference" in text else 1
    allowed *= 2 if "twice for the two parts of a complex number" in text else 1
    if "rounding of A and B to tf32 (2^-11)" in text:
        allowed += 2 * 2.0**-11  # each factor of a product
    return allowed + (2.0**-11 if "once to float16" in text else 2.0**-8 if "once to bfloat16" in text else 0.0)


@pytest.mark.parametrize("dtype", [*ELEMENTS, "tf32"])
def test_every_tolerance_is_explained(dtype: str) -> None:
    allowed, text = validate(lambda a, b: (np.matmul(a, b), ()), dtype, "auto").tolerance
    assert text.endswith(".")
    assert worked_out(text) == pytest.approx(allowed, rel=1e-12, abs=0)
    assert text.startswith(f"Rounding explains an error of up to {allowed:.1e} |A| |B|" if allowed else "Exact")


simulated = pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))


@simulated
def test_on_the_simulator(no_gpu: None) -> None:
    result = invoke("naive", "wgmma", "tiled", "--tiles", "8", "--sizes", "9x10x11,4000", "--layouts", "nt", "--csv")
    assert result.exit_code == 0, result.output
    assert "none in this test" in result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["variant"], row["tile"], row["dtype"], row["check"]) for row in rows] == [
        ("naive", "", "float32", "ok"), ("tiled", "8", "float32", "ok"),
    ]  # fmt: skip
    assert all((row["m"], row["n"], row["k"], row["layout"]) == ("9", "10", "11", "NT") for row in rows)
    assert all(0 < float(row["max error"]) < float(row["allowed"]) for row in rows)


@simulated
def test_a_race_fails_where_the_result_is_right(no_gpu: None, tmp_path: Path) -> None:
    begins = "    const BlockTile block = locate_block(p, BM, BN);\n"
    template = (template_folder() / "tiled.cu.j2").read_text(encoding="utf-8")
    assert template.count(begins) == 1
    racy = tmp_path / "racy.cu.j2"
    racy.write_text(template.replace(begins, "    __shared__ volatile int all;\n    all = 1;\n" + begins))
    tiledmm.register(racy)
    try:
        result = invoke("tiled", "racy", "--tiles", "8", "--sizes", "9x10x11", "--json")
    finally:
        tiledmm.unregister("racy")
    assert result.exit_code == 1, result.output
    (table,) = json.loads(result.stdout)["tables"]
    assert {row["variant"]: row["check"] for row in table["rows"]} == {"tiled": "ok", "racy": "FINDINGS"}
    assert all(row["max error"] < row["allowed"] for row in table["rows"])
    (finding,) = table["findings"]
    assert "race on shared memory" in finding["message"] and "racy" in finding["message"]


@simulated
def test_a_finding_is_listed_once_with_its_lines(no_gpu: None, tmp_path: Path) -> None:
    racy = tmp_path / "racy.cu"
    racy.write_text(
        "__global__ void racy(const float *A, const float *B, float *C, int M, int N, int K)\n{\n"
        "    __shared__ volatile int all;\n    all = threadIdx.x;\n"
        "    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "    if (row < M && col < N) {\n        float acc = 0;\n"
        "        for (int k = 0; k < K; ++k)\n            acc += A[row * K + k] * B[k * N + col];\n"
        "        C[row * N + col] = acc;\n    }\n}\n",
        encoding="utf-8",
    )
    try:
        result = invoke("--kernel", str(racy), "--size", "9x10x11,12")
    finally:
        tiledmm.unregister("racy")
    assert result.exit_code == 1, result.output
    assert result.output.count("\n- racy, racy.cu:4: race on shared memory") == 1
    assert result.output.count("racy.cu:4 | all = threadIdx.x;\n") == 1
    assert result.output.count("The findings are those above.") == 1
    assert ";." not in result.output


Matmul = Callable[..., None]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[Matmul], None]:
    """Return a function that makes up a GPU with a given product; its result memory is right from the start."""

    class Array(np.ndarray):  # type: ignore[type-arg]
        def set(self, values: Any) -> None:
            self[...] = values

    def operand_sets(size: Size, dtype: str, layout: str) -> list[Any]:
        rng, kind = np.random.default_rng(0), compute_element(dtype).dtype
        a, b = (random_matrix(rng, *shape, kind, size.k) for shape in ((size.m, size.k), (size.k, size.n)))
        return [(a, b, np.matmul(a, b).view(Array))]

    runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda device: {"name": b"a GPU"})
    cupy = SimpleNamespace(asnumpy=np.array, cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "tiledmm.bench.operand_sets", SimpleNamespace(operand_sets=operand_sets))  # type: ignore[misc]
    return lambda matmul: monkeypatch.setattr(api, "matmul", matmul)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int16", "bool"])
def test_a_kernel_that_writes_nothing_does_not_pass_for_the_one_before(gpu: Any, dtype: str) -> None:
    def matmul(a: Any, b: Any, *, out: Any, variant: str, **_: Any) -> None:
        if variant == "coalesced":
            np.matmul(a, b, out=out)

    gpu(matmul)
    result = invoke("naive", "coalesced", "tiled", "--sizes", "5x6x7", "--dtypes", dtype, "--csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    checked = {row["variant"]: row["check"] for row in rows}
    assert checked == {"naive": "WRONG", "coalesced": "ok" if dtype[0] in "fc" else "exact", "tiled": "WRONG"}
    assert result.exit_code == 1


def test_a_simulated_kernel_that_writes_nothing_does_not_pass_for_the_one_before(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(a: Any, b: Any, *, out: Any, variant: str, **_: Any) -> tuple[Any, Any]:
        if variant == "coalesced":
            np.matmul(a, b, out=out)
        return out, SimpleNamespace(findings=())

    monkeypatch.setattr(tiledmm.simulator, "run", run)
    result = invoke("naive", "coalesced", "tiled", "--sizes", "5x6x7", "--csv")
    checked = {row["variant"]: row["check"] for row in csv.DictReader(io.StringIO(result.stdout))}
    assert checked == {"naive": "WRONG", "coalesced": "ok", "tiled": "WRONG"}


@pytest.mark.parametrize("wrong", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)])
@pytest.mark.parametrize("by", ["sizes", "dtypes", "layouts", "variants"])
def test_one_wrong_product_of_many_fails(gpu: Any, by: str, wrong: tuple[int, ...]) -> None:
    left = list(wrong)

    def matmul(a: Any, b: Any, *, out: Any, **_: Any) -> None:
        np.matmul(a, b, out=out)
        out[0, 0] += left.pop(0)

    gpu(matmul)
    many = {
        "sizes": ("naive", "--sizes", "5,6,7"),
        "dtypes": ("naive", "--sizes", "5", "--dtypes", "float32,float64,int16"),
        "layouts": ("naive", "--sizes", "5", "--layouts", "NN,NT,TN"),
        "variants": ("naive", "coalesced", "tiled", "--sizes", "5"),
    }
    result = invoke(*many[by])
    assert not left
    assert result.exit_code == any(wrong), result.output
    assert ("MISMATCH" in result.output) is any(wrong)
    assert (ALL_RIGHT in result.output) is not any(wrong)


def test_by_default_each_is_checked_of_a_type_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, set[str]] = {}

    def on_gpu(variant_tiles: Any, size: Any, *, dtype: str, layout: str, progress: Any) -> Validation:
        asked.setdefault(dtype, set()).update(each.variant for each in variant_tiles)
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
    def on_gpu(variant_tiles: Any, size: Any, *, dtype: str, layout: str, progress: Any) -> Validation:
        rows = (validation.Validated(VariantTile("naive"), validation.Verdict(False, 0.5), 0.5),)
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
        (("naive", "--dtypes", "tf32"), "naive does not multiply tf32"),
        (("tiled", "--layouts", "NX"), "NX"),
        (("tiled", "--target", "sm_1"), "the targets are"),
        (("naive", "--tile", "16"), "naive has no tiles to choose from"),
        (("wgmma", "--target", "sm_75"), "needs compute capability 9.0, which sm_75"),
        (("tensor_core", "--tile", "256", "--target", "sm_75"), "a block of sm_75 has at most 65,536"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str, no_gpu: None) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex128", "int8", "uint64", "bool"])
def test_every_kernel_finds_memory_that_no_result_leaves(gpu: Any, dtype: str) -> None:
    found: list[Any] = []

    def matmul(a: Any, b: Any, *, out: Any, **_: Any) -> None:
        found.append((out.copy(), np.matmul(a, b)))
        np.matmul(a, b, out=out)

    gpu(matmul)
    result = invoke("naive", "tiled", "--sizes", "5x6x7", "--dtypes", dtype)
    assert result.exit_code == 0, result.output
    assert len(found) == 2
    for before, right in found:
        wide = before.astype("c16") if dtype[0] in "fc" or dtype == "bfloat16" else None
        assert (before != right).all() if wide is None else np.isnan(wide).all()


def test_what_the_target_cannot_run_is_left_out(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiledmm.simulator.run", lambda a, b, **_: (np.matmul(a, b), SimpleNamespace(findings=())))
    result = invoke("naive", "wgmma", "--sizes", "5x6x7", "--dtypes", "float16", "--target", "sm_80")
    assert result.exit_code == 0 and ": wgmma 256." in result.output and "sm_80" in result.output
    assert ALL_RIGHT in result.output


def test_where_no_kernel_ran_none_is_said_to_be_right(no_gpu: None) -> None:
    result = invoke("wgmma", "--sizes", "8", "--target", "sm_80")
    assert ALL_RIGHT not in result.output


@pytest.mark.parametrize(("dtype", "rounded"), [("float16", True), ("bfloat16", True), ("float32", False)])
def test_the_tolerance_names_the_narrow_type_of_results(dtype: str, rounded: bool) -> None:
    assert (f"rounding once to {dtype}" in explain_tolerance(compute_element(dtype), 10, 1e-6)) is rounded
