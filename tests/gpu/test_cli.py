"""Tests of the command line with a GPU: its results are measured there and machine-readable."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tiledmm import cli
from tiledmm.bench.results import from_json
from tiledmm.cli import checks
from tiledmm.kernels.variants import kernel_variants


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, list(arguments))


def rows_of(result: Any) -> list[dict[str, str]]:
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_compare_as_json_is_a_report() -> None:
    result = invoke(
        "compare", "128", "65x66x67", "--variants", "naive,tiled,auto", "--no-peers", "--seconds", "0.01", "--json"
    )
    assert result.exit_code == 0, result.output
    report = from_json(result.stdout)
    assert [tuple(each.size) for each in report.comparisons] == [(128, 128, 128), (65, 66, 67)]
    rows = json.loads(result.stdout)["tables"][0]["rows"]
    assert [row["variant"] for row in rows] == ["naive", "tiled", "auto", "cupy.matmul"]
    assert all(row["time (us)"] > 0 for row in rows)


def test_unasked_auto_is_compared_too() -> None:
    rows = rows_of(invoke("compare", "64", "--no-peers", "--seconds", "0.001", "--csv"))
    assert [row["variant"] for row in rows][-2:] == ["auto", "cupy.matmul"]


def test_every_variant_is_valid() -> None:
    rows = rows_of(invoke("validate", "--layouts", "NN,TT", "--csv"))
    assert {row["variant"] for row in rows} == {*(row.name for row in kernel_variants()), "auto"}
    assert {row["check"] for row in rows} <= {"ok", "exact", "left out"}
    assert all("simulator" not in row["where"] for row in rows)


@pytest.mark.parametrize("dtype", ["bfloat16", "tf32", "complex64", "int8", "bool", "uint64"])
def test_types_are_valid(dtype: str) -> None:
    rows = rows_of(invoke("validate", "--dtypes", dtype, "--sizes", "61x83x47", "--layouts", "GN", "--csv"))
    assert rows
    assert {row["check"] for row in rows} <= {"ok", "exact", "left out"}


@pytest.mark.parametrize("variant", ["tiled", "warp_tiled", "tensor_core"])
def test_tiles_are_timed(variant: str) -> None:
    rows = rows_of(invoke("tiles", variant, "--size", "256", "--seconds", "0.01", "--csv"))
    assert all(row["check"] == "ok" and float(row["time (us)"]) > 0 and int(row["registers"]) > 0 for row in rows)
    assert 1 in [float(row["x the best"]) for row in rows]


def test_tiles_can_be_simulated_all_the_same() -> None:
    assert "time (us)" not in invoke("tiles", "tiled", "--no-gpu", "--size", "32", "--csv").stdout


def test_the_doctor_finds_the_gpu() -> None:
    result = invoke("doctor", "--json")
    assert result.exit_code == 0, result.output
    (table,) = json.loads(result.stdout)["tables"]
    states = {row["what"]: row["state"] for row in table["rows"]}
    for name in ("NVIDIA driver", "CuPy", "devices", "CUDA runtime", "NVRTC", "cuBLAS", checks.ON_GPU):
        assert states[name] == checks.WORKS, table
