"""Tests that every other installed C++ compiler gives the same findings and counts, and that Zig cross-compiles."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import tiledmm
from tests.conftest import slow_unless
from tests.strategies import small_integers
from tiledmm import simulator
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator.build import toolchain
from tools.bugs.kernels import every_bug, verdict

ZIG = shlex.join((sys.executable, "-m", "ziglang", "c++"))


def compilers() -> list[str]:
    """Return values for $CXX: all releases of g++ and clang++ on PATH, and Zig, but not the usual compiler."""
    folders = (Path(folder) for folder in os.get_exec_path() if Path(folder).is_dir())
    programs = (path for folder in folders for path in folder.iterdir())
    named = (path for path in programs if re.fullmatch(r"(?:g|clang)\+\+(?:-\d+)?", path.name))
    found = {path.resolve(): str(path) for path in sorted(named)}
    if usual := next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None):
        found.pop(Path(usual).resolve(), None)
    return [*found.values(), *([ZIG] if importlib.util.find_spec("ziglang") else [])]


@pytest.fixture(params=compilers(), ids=lambda command: "zig" if command == ZIG else Path(command).name)
def compiler(request, monkeypatch):
    monkeypatch.setenv("CXX", request.param)


KERNELS = [
    pytest.param(*case, marks=slow_unless(case[0] == "tiled"))
    for case in (("naive", None, "float32"), ("tiled", 16, "float16"), ("tiled_padded", 32, "complex64"),
                 ("double_buffered", 64, "float32"))
]  # fmt: skip


@pytest.mark.parametrize(("variant", "tile", "dtype"), KERNELS)
def test_results_and_counts_do_not_depend_on_the_compiler(compiler, monkeypatch, variant, tile, dtype):
    rng = np.random.default_rng(0)
    a, b = (small_integers(rng, shape, dtype) for shape in ((70, 45), (45, 67)))
    found, report = simulator.run(a, b, variant=variant, tile=tile)
    assert report.findings == ()
    np.testing.assert_array_equal(found, a @ b)
    monkeypatch.delenv("CXX")
    _, expected = simulator.run(a, b, variant=variant, tile=tile)
    assert report.source == expected.source


def test_every_compiler_keeps_shared_variables(compiler):
    """Check dynamic shared memory, and variables that an optimizer could split or fold."""
    text = """
    struct Pair { float a, b; };
    __global__ void k(float* x) {
        extern __shared__ float d[];
        __shared__ Pair pair;
        d[threadIdx.x] = x[threadIdx.x];
        if (threadIdx.x == 0) pair.a = 1;
        __syncthreads();
        x[threadIdx.x] = d[31 - threadIdx.x] + pair.a + pair.b;
    }
    """
    x = np.arange(32, dtype=np.float32)
    (found,) = simulator.launch(text, 1, 32, (x,), shared_bytes=128).findings
    assert (found.kind, found.line) == ("uninitialised shared memory", 9)
    x = np.arange(32, dtype=np.float32)
    simulator.launch(text.replace(" + pair.b", ""), 1, 32, (x,), shared_bytes=128).check()
    assert x.tolist() == [32 - i for i in range(32)]


#: Bugs whose findings need the compiler's line numbers, its registers, or its order of accesses.
BUGS = (
    "tiled_16: no barrier after the stores",
    "tiled_16: rows are not guarded in loads",
    "tiled_16: one step of k too many",
    "naive: the sum begins nowhere",
    "naive: k stays",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=slow_unless(name == "naive: the sum begins nowhere")) for name in BUGS]
)
def test_every_compiler_lets_a_planted_bug_be_found(compiler, name):
    bug = next(bug for bug in every_bug() if bug.id == name)
    text, lines = bug.planted(bug.edited.text())
    fate = verdict(bug, lines, bug.edited.run(text, dict(bug.keywords)))
    # Clang gives a variable that is never set no register, and so no line: the finding names the product.
    assert fate.outcome == "found" or ("clang" in os.environ["CXX"] and "that was not set" in fate.detail)


@pytest.mark.full  # Zig makes its C++ library first, which takes minutes
@pytest.mark.skipif(not importlib.util.find_spec("ziglang"), reason="ziglang is not installed")
@pytest.mark.parametrize("system", ["aarch64-linux-gnu", "x86_64-linux-musl"])
def test_zig_builds_for_other_systems(monkeypatch, tmp_path, system):
    monkeypatch.setenv("CXX", f"{ZIG} -target {system}")
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(toolchain, "_machine_flags", tuple)
    monkeypatch.chdir(tmp_path)  # where Zig leaves a file when asked for its version
    spec = kernel_spec("double_buffered", tile=16, dtype="float32", layout="NT")
    text = tiledmm.source("double_buffered", tile=16, layout="NT")
    library = toolchain.build_kernel(text, spec.symbol, target=TARGETS["sm_90"], build="checked")
    assert library.read_bytes().startswith(b"\x7fELF")
