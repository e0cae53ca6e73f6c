"""Tests of plain CUDA C that is registered as a variant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tiledmm
from tests.conftest import missing_simulator
from tests.strategies import tight
from tiledmm import simulator
from tiledmm.cli import app
from tiledmm.codegen.rendering import render
from tiledmm.compile.inspection import compile_for
from tiledmm.errors import ConfigError, ShapeError, UnknownVariantError, UnsupportedTypeError
from tiledmm.kernels.variants import VARIANTS, kernel_spec
from tiledmm.own_kernels import registration
from tiledmm.schedule.schedule import required_kernels

INDEX = """
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= M || c >= N) return;"""
GRID = {"grid": "(N+15)/16,(M+15)/16", "block": "16,16"}

# CUDA C, keywords of register, element type.
KERNELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "rows": (
        "__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {" + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c]; C[r * N + c] = s; }""",
        GRID, "float32",
    ),
    "columns_of_b": (
        "__global__ void mm_nt(const float* A, const float* B, float* C, int M, int N, int K) {" + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[c * K + k]; C[r * N + c] = s; }""",
        {**GRID, "args": "A:f32[M,K], B:f32[N,K], C:f32[M,N], M, N, K"}, "float32",
    ),
    "as_cublas": (
        "__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {" + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += A[k * M + r] * B[c * K + k]; C[c * M + r] = s; }""",
        {**GRID, "args": "A:f32[K,M], B:f32[N,K], C:f32[N,M], M, N, K"}, "float32",
    ),
    "scaled": (
        """__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B,
            float beta, float* C) {""" + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c];
            C[r * N + c] = alpha * s + beta * C[r * N + c]; }""",
        GRID, "float32",
    ),
    "leading": (
        "__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc) {"
        + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += A[r * lda + k] * B[k * ldb + c]; C[r * ldc + c] = s; }""",
        GRID, "float32",
    ),
    "wide_sums": (
        """#include <cuda_fp16.h>
        __global__ void hgemm(const __half* A, const __half* B, float* C, int M, int N, int K) {""" + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += __half2float(A[r * K + k]) * __half2float(B[k * N + c]);
            C[r * N + c] = s; }""",
        GRID, "float16",
    ),
}  # fmt: skip

MORE: dict[str, tuple[str, dict[str, Any], str]] = {
    "adding": (
        "__global__ void mm(const float* A, const float* B, float* C, size_t M, size_t N, size_t K) {" + INDEX + """
            for (int k = 0; k < K; ++k) C[r * N + c] += A[r * K + k] * B[k * N + c]; }""",
        GRID, "float32",
    ),
    "halves": (
        """#include <cuda_fp16.h>
        __global__ void hgemm(const half* A, const half* B, half* C, int M, int N, int K) {""" + INDEX + """
            float s = 0; for (int k = 0; k < K; ++k) s += __half2float(A[r * K + k]) * __half2float(B[k * N + c]);
            C[r * N + c] = __float2half(s); }""",
        GRID, "float16",
    ),
    "bytes": (
        "__global__ void igemm(const signed char* A, const signed char* B, int* C, int M, int N, int K) {" + INDEX + """
            int s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c]; C[r * N + c] = s; }""",
        GRID, "int8",
    ),
    "template": (
        """namespace math { template <typename T, int TILE>
        __global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
            int r = blockIdx.y * TILE + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x; if (r >= M || c >= N) return;
            T s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c]; C[r * N + c] = s; } }""",
        {"kernel": "math::mm<double,8>", "grid": "(N+7)/8,(M+7)/8", "block": (8, 8)}, "float64",
    ),
    "complex_numbers": (
        """#include <cuComplex.h>
        typedef cuFloatComplex T;
        __global__ void cgemm(const T* A, const T* B, T* C, int M, int N, int K) {""" + INDEX + """
            cuFloatComplex s = make_cuFloatComplex(0, 0);
            for (int k = 0; k < K; ++k) s = cuCaddf(s, cuCmulf(A[r * K + k], B[k * N + c])); C[r * N + c] = s; }""",
        GRID, "complex64",
    ),
}  # fmt: skip

simulated = pytest.mark.skipif(missing_simulator() is not None, reason=str(missing_simulator()))


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that registers CUDA C by a name; unregister afterwards what it registered."""
    before = set(VARIANTS)

    def registered(name: str, text: str = "", **keywords: Any) -> str:
        file = tmp_path / f"{name}.cu"
        file.write_text(text or KERNELS[name][0])
        keywords = keywords if text else KERNELS[name][1]
        return tiledmm.register(file, like="plain", **keywords)

    yield registered
    for name in VARIANTS.keys() - before:
        tiledmm.unregister(name)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def operands(dtype: str, layout: str, m: int = 50, k: int = 33, n: int = 47) -> tuple[np.ndarray, np.ndarray]:
    a = numbers(dtype, m, k) if layout[0] == "N" else numbers(dtype, k, m).T
    return a, numbers(dtype, k, n) if layout[1] == "N" else numbers(dtype, n, k).T


@simulated
@pytest.mark.parametrize("name", [*KERNELS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_products_in_every_layout(register, name):
    text, keywords, dtype = (KERNELS | MORE)[name]
    assert register(name, text, **keywords) == name
    for layout in ("NN", "NT", "TN", "TT"):
        a, b = operands(dtype, layout)
        c, report = simulator.run(a, b, variant=name)
        np.testing.assert_array_equal(c, a @ b)
        assert report.ok and report.symbol == kernel_spec(name).symbol


@simulated
def test_shapes_batches_strides_and_outputs(register):
    register("rows")
    for a, b in (
        (numbers("f4", 33), numbers("f4", 33, 20)),
        (numbers("f4", 3, 17, 5), numbers("f4", 5, 9)),
        (numbers("f4", 2, 3, 17, 5), numbers("f4", 3, 5, 9)),
        (numbers("f4", 1, 1), numbers("f4", 1, 1)),
        (numbers("f4", 5, 0), numbers("f4", 0, 7)),
        (numbers("f4", 0, 4), numbers("f4", 4, 7)),
        (numbers("f4", 20, 66)[:, ::2], numbers("f4", 33, 9)[::-1]),
    ):
        np.testing.assert_array_equal(simulator.matmul(a, b, variant="rows"), a @ b)
    a, b = operands("f4", "NN")
    for out in (np.full((47, 50), np.nan, "f4").T, np.full((50, 94), np.nan, "f4")[:, ::2]):
        assert simulator.matmul(a, b, out=out, variant="rows") is out
        np.testing.assert_array_equal(out, a @ b)


@simulated
def test_an_epilogue_follows(register):
    register("rows")
    (a, b), bias, c = operands("f4", "NN"), numbers("f4", 47), numbers("f4", 50, 47)
    found = simulator.gemm(a, b, c, alpha=2, beta=3, bias=bias, activation="relu", variant="rows")
    np.testing.assert_array_equal(found, np.maximum(2 * (a @ b) + 3 * c + bias, 0))
    np.testing.assert_array_equal(simulator.gemm(a, b.T.copy(), adjoint_b=True, variant="rows"), a @ b)


@simulated
def test_findings_name_the_file_of_the_kernel(register):
    text = KERNELS["rows"][0].replace("B[k * N + c]", "\nB[k * N + c + 1]")
    register("beyond", text, **GRID)
    _, report = simulator.run(*operands("f4", "NN"), variant="beyond")
    line = text[: text.index("B[k * N + c + 1]")].count("\n") + 1
    assert {each.location for each in report.findings} == {f"beyond.cu:{line}"}


@simulated
def test_a_plan_launches_a_plain_kernel(register, monkeypatch, tmp_path):
    pytest.importorskip("cupy")
    from tests.host_gpu import HostGpu, run_on_simulator

    gpu = HostGpu(run_on_simulator)
    gpu.install(monkeypatch, tmp_path)
    register("scaled")
    for a, b, letter in ((*operands("f4", "NN"), "T"), (numbers("f4", 2, 9, 20), numbers("f4", 2, 20, 7), "N")):
        for _ in range(2):
            c = tiledmm.matmul(gpu.array(a, tight(letter, a.ndim - 2)), gpu.array(b), variant="scaled")
            np.testing.assert_array_equal(c.held, a @ b)
    assert {each.variant.name for each in gpu.launched} == {"copy", "split_k_reduction", "scaled"}
    gpu.memory.check()


def test_row_strides_are_passed_where_the_kernel_takes_them(register):
    from tiledmm.problem.call import resolve_call
    from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
    from tiledmm.selection.choose import choose
    from tiledmm.selection.model import H100

    register("leading")
    register("rows")
    a, b = numbers("f4", 50, 60)[:, :33], numbers("f4", 33, 47)
    call = resolve_call(a, b, None, UfuncKeywords())
    chosen = {name: choose(call, KernelKeywords(name), lambda ieee: H100, tuned=False) for name in ("leading", "rows")}
    assert (str(chosen["leading"]), str(chosen["rows"])) == ("mm", "mm, A copied")
    assert [each.symbol for each in chosen["leading"].kernels] == ["mm"]
    assert [each.variant.name for each in chosen["rows"].kernels] == ["copy", "rows"]
    (launch,) = chosen["leading"].schedules[0].launches
    assert [int(each[0]) for each in launch.numbers] == [50, 47, 33, 60, 47, 47]
    assert (launch.blocks, *launch.along_y_and_z) == (3, 4, 1)


def test_the_launch_is_read_from_the_file(register):
    main = """
        #define TILE 32
        int main() { int M = 64, N = 64, K = 64; float *a, *b, *c;
            mm<<<dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), dim3(TILE, TILE)>>>(a, b, c, M, N, K); }"""
    register("with_main", KERNELS["rows"][0] + main)
    register("with_comment", "// tiledmm: grid=(N+7)/8,(M+7)/8 block=8,8\n" + KERNELS["rows"][0])
    plain = {name: VARIANTS[name].plain for name in ("with_main", "with_comment")}
    sizes = {"M": 100, "N": 200, "K": 3}
    assert [(each.block, each.grid(sizes)) for each in plain.values()] == [
        ((32, 32, 1), (7, 4, 1)),
        ((8, 8, 1), (25, 13, 1)),
    ]


def test_sizes_that_the_kernel_cannot_compute(register):
    square = re.sub(r"int M, int N, int K\) \{", "int n) { int M = n, N = n, K = n;", KERNELS["rows"][0])
    register("square", square, **GRID)
    register("rounds_down", KERNELS["rows"][0], grid="N/16,M/16", block="16,16")
    register("stepwise", KERNELS["rows"][0], multiple_of={"K": 8}, **GRID)
    for name, sizes, said in (
        ("square", (32, 32, 33), ("N = 33", "K = 32")),
        ("rounds_down", (32, 5, 40), ("N = 40", "16")),
        ("stepwise", (5, 12, 3), ("K = 12", "8")),
    ):
        m, k, n = sizes
        with pytest.raises(ShapeError) as error:
            simulator.matmul(numbers("f4", m, k), numbers("f4", k, n), variant=name)
        assert all(each in str(error.value) for each in (repr(name), *said))
    large = np.broadcast_to(np.float32(0), (1 << 16, 1 << 16))
    register("rows")
    with pytest.raises(ShapeError, match="int32"):
        simulator.matmul(large, large[:, :1], variant="rows")


def test_other_types_and_configs_are_refused(register):
    register("rows")
    with pytest.raises(UnsupportedTypeError, match=r"float64.*float32"):
        simulator.matmul(numbers("f8", 2, 2), numbers("f8", 2, 2), variant="rows")
    for keywords in ({"tile": 16}, {"config": {"bk": 8}}):
        with pytest.raises(ConfigError):
            simulator.matmul(numbers("f4", 2, 2), numbers("f4", 2, 2), variant="rows", **keywords)


@pytest.mark.parametrize(
    ("text", "keywords", "said"),
    [
        (KERNELS["rows"][0].replace("blockIdx.y * blockDim.y", "blockIdx.x / 7"), {}, "grid="),
        (KERNELS["rows"][0], {"grid": "1", "block": "N"}, "1024"),
        (KERNELS["rows"][0], {"grid": "1", "block": 2048}, "2,048"),
        (KERNELS["rows"][0], {**GRID, "multiple_of": (1, 2)}, "(1, 2)"),
        (KERNELS["rows"][0], {**GRID, "tiles": (8,)}, "tiles"),
        (KERNELS["rows"][0], {**GRID, "args": "A:f32[M,K], M"}, "args"),
        (KERNELS["rows"][0].replace("int M, int N, int K", "int x, int y, int z"), GRID, "int x"),
        (KERNELS["rows"][0].replace("const float* B", "const double* B"), GRID, "float64"),
        (KERNELS["rows"][0].replace("int K)", "int K, int batch)"), GRID, "int batch"),
        ("__global__ void mm(const float* A, const float* B, float* C) { C[64] = A[64] * B[64]; }", GRID, "M and N"),
        ("struct S { float* p; };\n__global__ void mm(S A, S B, S C) {}", GRID, "S A"),
        ("__global__ void relu(float* x, int n) {}", GRID, "float* x"),
        (KERNELS["rows"][0] + KERNELS["rows"][0].replace("mm", "other"), GRID, "other"),
        ("int main() {}", GRID, "no kernel"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered(register, text, keywords, said):
    before = list(VARIANTS)
    with pytest.raises(ConfigError) as error:
        register("bad", text, **keywords)
    assert said in str(error.value)
    assert list(VARIANTS) == before


def test_keywords_of_plain_kernels_are_not_for_templates(tmp_path):
    (tmp_path / "mine.cu.j2").write_text("")
    with pytest.raises(ConfigError, match="like='plain'"):
        tiledmm.register(tmp_path / "mine.cu.j2", grid="1")
    with pytest.raises(ConfigError, match="package"):
        tiledmm.register(tmp_path / "mine.cu.j2", like="plain", name="tiled")


@pytest.mark.parametrize(
    "name", ["scaled", *(pytest.param(name, marks=pytest.mark.slow) for name in [*KERNELS, *MORE] if name != "scaled")]
)
def test_every_kernel_of_a_product_compiles_for_a_gpu(register, name):
    text, keywords, dtype = (KERNELS | MORE)[name]
    register(name, text, **keywords)
    for spec in required_kernels(kernel_spec(name, dtype=dtype, layout="TN")):
        if "#include" not in text or spec.variant.name != name:  # CUDA's headers are not everywhere
            assert compile_for(render(spec), spec.symbol, "sm_90").spill_store_bytes == 0


def test_a_plain_kernel_can_be_forgotten_and_registered_again(register):
    register("rows")
    first = VARIANTS["rows"]
    register("rows")
    assert VARIANTS["rows"] != first
    tiledmm.unregister("rows")
    with pytest.raises(UnknownVariantError):
        kernel_spec("rows")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Write a file with a kernel and the comment that says its launch; unregister the kernel afterwards."""
    path = tmp_path / "My Kernel.cu"
    path.write_text("// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16\n" + KERNELS["rows"][0])
    yield path
    registration.IMPORTED.clear()
    for name in {"my_kernel", "mm"} & set(VARIANTS):
        tiledmm.unregister(name)


def command(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_commands_take_a_plain_kernel(file):
    source = command("source", "--kernel", str(file))
    assert source.exit_code == 0 and "__global__ void mm(" in source.output
    inspected = command("inspect", "--kernel", str(file), "--target", "sm_90", "--json")
    assert json.loads(inspected.stdout)["tables"][0]["rows"]
    profiled = command("profile", "cublas", "--kernel", str(file), "--print-command")
    assert "my_kernel cublas" in profiled.output and f"--import '{file}'" in profiled.output
    assert command("inspect").exit_code == command("inspect", "--kernel", "nowhere.cu").exit_code == 2


@simulated
def test_a_plain_kernel_is_validated(file):
    assert command("validate", "--kernel", str(file), "--no-gpu", "--size", "20x30x40").exit_code == 0


@simulated
@pytest.mark.slow
def test_a_plain_kernel_is_compared_with_the_rungs(file):
    compared = command("compare", "64", "--kernel", f"{file}:mm", "--no-gpu", "--layout", "NN", "--csv")
    assert compared.exit_code == 0
    assert ",mm," in compared.stdout and ",tiled," in compared.stdout and ",naive," not in compared.stdout


@simulated
def test_sizes_that_a_plain_kernel_cannot_compute_are_left_out(tmp_path):
    path = tmp_path / "whole_tiles.cu"
    path.write_text("// tiledmm: grid=N/16,M/16 block=16,16\n" + KERNELS["rows"][0])
    try:
        validated = command("validate", "--kernel", str(path), "--no-gpu", "--size", "32,33")
        assert validated.exit_code == 0
        assert validated.output.count("Left out: variant 'whole_tiles'") == 1 and "N = 33" in validated.output
    finally:
        registration.IMPORTED.clear()
        tiledmm.unregister("whole_tiles")


def test_kernels_of_one_file_have_names_of_their_own():
    names = [
        registration.variant_name(each) for each in ("My lib.cu", "lib.cu:gemm", "lib.cu:ns::gemm<float, 64>", "4.cu")
    ]
    assert names == ["my_lib", "gemm", "ns_gemm_float_64", "kernel_4"]


@simulated
def test_the_files_comment_says_which_sizes_work(register):
    register(
        "whole",
        "// tiledmm: multiple_of=4,1,8 grid=(N+15)/16,(M+15)/16 block=16,16\n" + KERNELS["rows"][0],
        summary="s",
    )
    with pytest.raises(ShapeError, match="K = 12"):
        simulator.matmul(numbers("f4", 4, 12), numbers("f4", 12, 3), variant="whole")
    assert simulator.matmul(numbers("f4", 4, 16), numbers("f4", 16, 3), variant="whole").shape == (4, 3)


def test_a_program_may_run_on_a_kernel_that_needs_whole_tiles(register):
    from tiledmm.replacement import replacement_by

    register("rounds_down", KERNELS["rows"][0], grid="N/16,M/16", block="16,16")
    assert replacement_by(variant="rounds_down", tile=None, config=None, precision="full").products.total == 0
    with pytest.raises(ConfigError):
        replacement_by(variant="rounds_down", tile=16, config=None, precision="full")


@simulated
@pytest.mark.parametrize(("wrong", "right"), [("* ldb", "* N"), ("r * ldc", "r * N")])
def test_a_check_passes_row_strides_larger_than_the_rows(wrong, right):
    text = "// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16\n" + KERNELS["leading"][0]
    assert tiledmm.check(text, checks=True).ok
    (report,) = tiledmm.check(text.replace(wrong, right), checks=True).kernels
    assert not report.ok and "ldb" in report.trials[-1].numbers
