"""Plain CUDA C that is registered as a variant, and the times of a check, on a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cupy
import pytest

import tiledmm
from tests.own_kernels.test_plain_variants import KERNELS, MORE, numbers, operands
from tiledmm.kernels.variants import VARIANTS
from tiledmm.profile import ncu

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.skipif(ncu.find_ncu() is None, reason="there is no ncu")
@pytest.mark.parametrize(
    ("kernel", "launch"),
    [
        (("rows", "mm"), "grid=(N+15)/16,(M+15)/16 block=16,16"),
        (("template", "math::mm<double,8>"), "grid=(N+7)/8,(M+7)/8 block=8,8"),
    ],
)
def test_a_profile_has_its_lines(kernel: tuple[str, str], launch: str, tmp_path: Path):
    key, name = kernel
    (tmp_path / "mine.cu").write_text(f"// tiledmm: {launch}\n{(KERNELS | MORE)[key][0]}")
    line = [sys.executable, "-m", "tiledmm", "profile", "--kernel", f"{tmp_path / 'mine.cu'}:{name}"]
    done = subprocess.run([*line, "cublas", "--size", "256", "--json"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    profiles = {each["label"]: each for each in json.loads(done.stdout)["profiles"]}
    assert profiles.pop("cublas")["words"]
    (mine,) = profiles.values()
    assert not mine["note"] and any("A[" in each["text"] for each in mine["lines"])
