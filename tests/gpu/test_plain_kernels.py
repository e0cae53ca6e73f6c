"""Plain CUDA C that is registered as a variant, and the times of a check, on a GPU."""

from __future__ import annotations

from pathlib import Path

import cupy
import pytest

import tiledmm
from tests.own_kernels.test_plain_variants import KERNELS, MORE, numbers, operands
from tiledmm.kernels.variants import VARIANTS

pytestmark = pytest.mark.gpu


@pytest.fixture(params=[*KERNELS, *MORE])
def registered(request: pytest.FixtureRequest, tmp_path: Path):
    text, keywords, dtype = (KERNELS | MORE)[request.param]
    (tmp_path / "mine.cu").write_text(text)
    yield tiledmm.register(tmp_path / "mine.cu", like="plain", **keywords), dtype
    tiledmm.unregister("mine")


def test_products(registered):
    name, dtype = registered
    for layout in ("NN", "NT", "TN", "TT"):
        a, b = (cupy.asarray(x) for x in operands(dtype, layout, 301, 127, 203))
        out = cupy.full((301, 203), cupy.nan if a.dtype.kind in "fc" else 99, a.dtype)
        cupy.testing.assert_array_equal(tiledmm.matmul(a, b, out=out, variant=name), cupy.matmul(a, b))
    a, b = cupy.asarray(numbers(dtype, 3, 40, 50)), cupy.asarray(numbers(dtype, 3, 50, 60))
    cupy.testing.assert_array_equal(tiledmm.matmul(a, b, variant=name), cupy.matmul(a, b))
    strided = cupy.zeros((301, 406), a.dtype)[:, ::2]
    a, b = (cupy.asarray(x) for x in operands(dtype, "NN", 301, 127, 203))
    cupy.testing.assert_array_equal(tiledmm.matmul(a, b, out=strided, variant=name), cupy.matmul(a, b))


def test_a_check_times_the_kernel(tmp_path):
    (tmp_path / "mine.cu").write_text("// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16\n" + KERNELS["rows"][0])
    report = tiledmm.check(tmp_path / "mine.cu").kernels[0]
    assert [each.name for each in report.times][::2] == ["mm", "cupy.matmul"], report.notes
    assert all(each.microseconds > 0 for each in report.times)
    assert "mm" not in VARIANTS
