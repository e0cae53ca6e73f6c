"""Tests of checks of kernels whose matrices are structures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.api import check

NAIVE = """
typedef struct {{ {members} }} Mat;
__global__ void product(Mat left, Mat right, Mat out) {{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out.{rows} || j >= out.{cols}) return;
    float sum = 0;
    for (int k = 0; k < left.{cols}; ++k)
        sum += left.{data}[i * left.{ld} + k] * right.{data}[k * right.{ld} + j];
    out.{data}[i * out.{ld} + j] = sum;
}}
void run(Mat left, Mat right, Mat out) {{
    dim3 block(16, 16), grid(right.{cols} / 16, left.{rows} / 16);
    product<<<grid, block>>>(left, right, out);
}}
"""


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ("int width; int height; float* elements;", {"rows": "height", "cols": "width", "data": "elements"}),
        (
            "float* data; size_t rows, cols, stride;",
            {"rows": "rows", "cols": "cols", "data": "data", "ld": "stride"},
        ),
    ],
)
def test_matrices_are_structures(members: str, names: dict[str, str]) -> None:
    """Check a right kernel, and one that reads a column too much of A: it names the member's array."""
    text = NAIVE.format(members=members, **{"ld": names["cols"], **names})
    assert check(text, checks=True).ok
    (report,) = check(text.replace("k < left", "k <= left"), checks=True).kernels
    first = report.trials[0].report.findings[0]
    assert not report.ok and "global array right (" in first.message
    assert first.message.startswith("product, kernel.cu:8")


def test_the_guides_product_with_shared_memory() -> None:
    (report,) = check(Path(__file__).parent / "files" / "structures.cu", checks=True).kernels
    assert report.ok and report.trials[0].right and str(report.trials[0].layout).startswith("A as (M, K), B as (K, N)")


@pytest.mark.parametrize(
    "members", ["int color; float* data;", "int rows, cols; float** data;", "int rows, cols, depth; float* data;"]
)
def test_structures_that_are_no_matrices_are_asked_for(members: str) -> None:
    text = f"struct Thing {{ {members} }}; __global__ void mm(Thing a, Thing b, Thing c) {{ for (;;) c = a; }}"
    with pytest.raises(ConfigError, match="Thing a, Thing b, Thing c"):
        check(text)
