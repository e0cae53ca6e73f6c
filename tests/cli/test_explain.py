"""Tests of ``tiledmm explain`` without a GPU."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from tiledmm import cli


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["explain", *arguments], env={"COLUMNS": "200"})


def test_a_row_a_product_and_gpu() -> None:
    result = invoke(
        "4096", "8x9x10", "--dtypes", "float16,tf32", "--layouts", "NN,TN", "--target", "sm_80, A10,sm_90", "--json"
    )
    assert result.exit_code == 0, result.output
    rows = [row for table in json.loads(result.output)["tables"] for row in table["rows"]]
    assert len(rows) == 2 * 2 * 2 * 3
    assert {row["GPU"] for row in rows} == {"A100 SXM4 80 GB", "A10", "H100 SXM 80 GB"}
    assert all(float(row["expected (us)"]) >= float(row["roofline (us)"]) for row in rows)


def test_without_a_gpu_it_is_an_h100s_and_says_what_that_rests_on() -> None:
    result = invoke("300")
    assert result.exit_code == 0, result.output
    assert "300 x 300 x 300" in result.output and "H100 SXM 80 GB" in result.output


def test_mistakes() -> None:
    for arguments, says in (
        (("300", "--target", "sm_42"), "target 'sm_42'"),
        (("300", "--dtypes", "float8"), "float8"),
        (("300", "--layouts", "XY"), "layout"),
        (("300", "--precision", "half"), "precision"),
        (("3x",), "3x"),
        (("0x5x6",), "0x5x6"),
        (("64", "--dtype", ""), "nothing to explain"),
        (("64", "--symmetry", "skew"), "skew"),
        (("64x65x66", "--symmetry", "hermitian"), "64 x 65"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 2 and says in result.output, arguments


def test_a_row_has_the_size_and_the_layout_that_were_asked_for() -> None:
    result = invoke("64x1x1", "4096x1x4096", "--layout", "NN,NT", "--json")
    rows = [row for table in json.loads(result.output)["tables"] for row in table["rows"]]
    assert [(row["shape"], row["layout"]) for row in rows] == [
        (shape, layout) for shape in ("64 x 1 x 1", "4096 x 1 x 4096") for layout in ("NN", "NT")
    ]
    assert all(row["kernel"].endswith(", transposed") for row in rows)


def test_a_symmetric_c_has_the_layout_of_a_and_its_transpose() -> None:
    for symmetry, ends in (("symmetric", "_triangle"), ("hermitian", "_hermitian_triangle")):
        sizes = ("--symmetry", symmetry, "--layout", "NN,TT,GG", "--dtype", "complex64", "--target", "sm_90")
        result = invoke("4096", *sizes, "--json")
        rows = [row for table in json.loads(result.output)["tables"] for row in table["rows"]]
        assert [row["layout"] for row in rows] == ["NT", "TN", "GG"]
        assert all(row["kernel"].split(",")[0].endswith(ends) for row in rows), rows
        assert symmetry == "hermitian" or not any("hermitian" in row["kernel"] for row in rows)
