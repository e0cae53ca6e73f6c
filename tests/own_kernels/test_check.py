"""Tests of checks of whole files, written in the manner of tutorials, courses, forums and libraries."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tiledmm
from tests.conftest import slow_unless
from tiledmm.errors import CompilationError, ConfigError, SimulationError

FILES = Path(__file__).with_name("files")

# Files of which everyday tests check another of the same kind.
RARER = {"grid_stride", "macro_sizes", "member_launch", "race", "six_extents", "vector_add"}

MATMUL = """
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < M && col < N) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""


@pytest.mark.parametrize(
    ("file", "verdicts"),
    [
        pytest.param(file, verdicts, marks=slow_unless(file not in RARER))
        for file, verdicts in [
            ("atomic_splitk", ["right"]),
            ("block_size_template", ["right where the tile divides the sizes"]),
            ("colmajor", ["right"]),
            ("dynamic_shared", ["right"]),
            ("extension", ["right"]),
            ("grid_stride", ["right"]),
            ("host_vectors", ["right where the tile divides the sizes"]),
            ("last_step_missing", ["WRONG"]),
            ("launchers", ["right where the tile divides the sizes", "right"]),
            ("macro_sizes", ["right"]),
            ("member_launch", ["right"]),
            ("race", ["WRONG"]),
            ("reduce", ["no findings; no result to compare with"]),
            ("rows_of_arrays", ["right where the tile divides the sizes"]),
            ("six_extents", ["right"]),
            ("template_launcher", ["right"]),
            ("vector_add", ["no findings; no result to compare with"]),
            ("wmma_simple", ["right"]),
        ]
    ],
)
def test_files_as_people_have_them(file, verdicts):
    report = tiledmm.check(FILES / f"{file}.cu", checks=True)
    assert [each.verdict for each in report.kernels] == verdicts
    assert report.ok == ("WRONG" not in verdicts)
    assert max(map(len, str(report).splitlines())) <= 90


@pytest.mark.slow
def test_right_kernels_of_many_styles_are_right_or_ask_for_their_launch():
    kernels = tiledmm.check(FILES / "styles.cu").kernels
    right = {each.name for each in kernels if each.verdict == "right"}
    assert right == {"strided_tiles", "persistent", "staged", "halves", "warps", "colmajor_1d"}
    assert {each.verdict for each in kernels if each.name not in right} == {"not checked"}


def test_the_layout_that_a_kernel_expects():
    layouts = {
        name: str(tiledmm.check(FILES / f"{name}.cu", checks=True).kernels[0].trials[0].layout)
        for name in ("extension", "colmajor", "grid_stride")
    }
    assert "B as (N, K)" in layouts["extension"]
    assert "by columns" in layouts["colmajor"]
    assert "B as (K, N)" in layouts["grid_stride"]


def test_a_kernel_alone_is_launched_by_a_guess_that_is_named():
    report = tiledmm.check(MATMUL)
    assert report.ok
    assert "guess" in report.kernels[0].launch
    assert [each.divides for each in report.kernels[0].trials] == [True, False]


def test_a_launch_that_is_given_comes_first():
    report = tiledmm.check(MATMUL, grid="(N+15)/16, (M+15)/16", block=(16, 16), size=(20, 30, 40))
    (trial,) = report.kernels[0].trials
    assert (trial.geometry.grid, trial.geometry.block) == ((2, 2, 1), (16, 16, 1))
    assert trial.sizes == {"M": 20, "N": 30, "K": 40}
    assert report.ok


def test_a_comment_says_what_no_option_does():
    text = "// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16 size=17,18,19\n" + MATMUL
    assert tiledmm.check(text).kernels[0].trials[0].sizes == {"M": 17, "N": 18, "K": 19}
    assert tiledmm.check(text, size=33).kernels[0].trials[0].sizes == {"M": 33, "N": 33, "K": 33}


def test_arguments_that_are_given():
    text = MATMUL
    for size, name in (("M", "first"), ("N", "second"), ("K", "third")):
        text = re.sub(rf"\b{size}\b", name, text)
    report = tiledmm.check(text, args="A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K", grid="6,6", block="16,16")
    assert report.ok
    assert report.kernels[0].trials[0].right
    with pytest.raises(ConfigError, match="2 arguments, but the kernel has 6: const float"):
        tiledmm.check(text, args="A:f32[M,K], 3", grid="6,6", block="16,16")


def test_a_function_says_what_is_right(tmp_path):
    text = """__global__ void twice(const float* x, float* y, int n) {
        int i = blockIdx.x * 32 + threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
    }"""
    options = {"grid": 4, "block": 32, "args": "x:f32[100], y:f32[100], 100"}
    assert tiledmm.check(text, expect=lambda x, y, n: 2 * x, **options).ok
    wrong = tiledmm.check(text, expect=lambda x, y, n: {"y": 3 * x}, **options)
    assert wrong.kernels[0].verdict == "WRONG"
    (tmp_path / "reference.py").write_text("def twice(x, y, n):\n    return x + x\n")
    assert tiledmm.check(text, expect=f"{tmp_path / 'reference.py'}:twice", **options).kernels[0].trials[0].right
    with pytest.raises(ConfigError, match="has no function 'other'"):
        tiledmm.check(text, expect=f"{tmp_path / 'reference.py'}:other", **options)


def test_macros_and_folders_of_headers(tmp_path):
    (tmp_path / "tile.cuh").write_text("#define SCALE 1\n")
    text = '#include "tile.cuh"\n#define T 32\n' + MATMUL.replace("16", "T").replace("= sum;", "= SCALE * sum;")
    report = tiledmm.check(text, include=[tmp_path], define={"T": 8})
    assert report.ok
    assert report.kernels[0].trials[0].geometry.block == (8, 8, 1)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("row < M && col < N", "true"), "out of bounds"),
        (("k < K;", "k < K - 1;"), "wrong result"),
        (("B[k * N", "B[k * K"), "wrong result|out of bounds"),
        (("float sum = 0;", "float sum;"), "variable read before it is set"),
    ],
)
def test_a_wrong_kernel_is_wrong_with_its_line(edit, said):
    report = tiledmm.check(MATMUL.replace(*edit), grid="(N+15)/16,(M+15)/16", block="16,16")
    findings = [found for trial in report.kernels[0].trials for found in trial.report.findings]
    assert any(re.search(said, found.message) for found in findings)
    assert not report.ok
    with pytest.raises(SimulationError, match=r"kernel\.cu:"):
        report.check()


@pytest.mark.parametrize(
    ("matrices", "sums", "ok"),
    [
        pytest.param(*types, marks=slow_unless(i % 3 == 0))
        for i, types in enumerate([
            ("double", "float", False), ("float", "float", True), ("float", "__half", False), ("char", "int", True),
            ("double", "double", True), ("int", "int", True), ("int", "short", False), ("int", "float", False),
            ("half", "float", True),
        ])
    ],
)  # fmt: skip
def test_sums_have_room_in_their_type(matrices, sums, ok):
    result = {"char": "int", "half": "float"}.get(matrices, matrices)
    text = f"""
    #include <cuda_fp16.h>
    __global__ void mm(const {matrices}* A, const {matrices}* B, {result}* C, int M, int N, int K) {{
        int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
        if (row >= M || col >= N) return;
        {sums} sum = 0;
        for (int k = 0; k < K; ++k) sum = ({sums})(({result})sum + ({result})A[row * K + k] * ({result})B[k * N + col]);
        C[row * N + col] = ({result})sum;
    }}"""
    assert tiledmm.check(text, checks=True).ok == ok


def test_factors_may_be_converted_to_narrow_types():
    converted = MATMUL.replace("+= A[row * K + k]", "+= __half2float(__float2half(A[row * K + k]))")
    assert tiledmm.check(f"#include <cuda_fp16.h>\n{converted}", checks=True).ok


@pytest.mark.parametrize(("clear", "ok"), [("", False), ("cudaMemset(c, 0, 4 * n * n);", True)])
def test_a_kernel_that_adds_to_c_needs_host_code_that_clears_it(clear, ok):
    host = f"""
    int main() {{
        int n = 100;
        float *a, *b, *c;
        cudaMalloc(&a, 4 * n * n); cudaMalloc(&b, 4 * n * n); cudaMalloc(&c, 4 * n * n);
        {clear}
        mm<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, n, n, n);
    }}"""
    report = tiledmm.check(MATMUL.replace("= sum;", "+= sum;") + host, checks=True)
    assert report.ok == ok
    assert ("nothing in the file sets C to zero" in " ".join(str(report).split())) != ok


def test_a_grid_that_leaves_out_elements_of_the_files_own_sizes_is_wrong():
    host = """
    int main() {{
        int n = {0};
        float *a, *b, *c;
        cudaMalloc(&a, 4 * n * n); cudaMalloc(&b, 4 * n * n); cudaMalloc(&c, 4 * n * n);
        mm<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n, n, n);
    }}"""
    assert tiledmm.check(MATMUL + host.format(1024), checks=True).ok
    report = tiledmm.check(MATMUL + host.format(1000), checks=True)
    assert not report.ok
    assert any("3,844 blocks" in note for note in report.kernels[0].notes)


def test_a_file_that_launches_partial_tiles_is_wrong_without_guards():
    text = MATMUL.replace("if (row < M && col < N)", "").replace("float sum", "__shared__ float s[16]; float sum")
    host = """
    int main() {{
        int n = {0};
        float *a, *b, *c;
        cudaMalloc(&a, 4 * n * n); cudaMalloc(&b, 4 * n * n); cudaMalloc(&c, 4 * n * n);
        mm<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, n, n, n);
    }}"""
    whole = tiledmm.check(text + host.format(1024), checks=True)
    assert whole.kernels[0].verdict == "right where the tile divides the sizes"
    assert not tiledmm.check(text + host.format(1000), checks=True).ok


@pytest.mark.parametrize("tail", [True, False])
def test_vectors_in_rows_of_any_length(tail):
    rest = "for (int j = col; j < N && j < col + 4; ++j) store(j);" if tail else ""
    text = """
    __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        int row = blockIdx.y * blockDim.y + threadIdx.y, col = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
        if (row >= M) return;
        auto store = [&](int j) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + j];
            C[row * N + j] = sum;
        };
        if (N % 4 == 0 && col < N) {
            float4 sum = {0, 0, 0, 0};
            for (int k = 0; k < K; ++k) {
                float a = A[row * K + k];
                float4 b = *(const float4*)&B[k * N + col];
                sum.x += a * b.x; sum.y += a * b.y; sum.z += a * b.z; sum.w += a * b.w;
            }
            *(float4*)&C[row * N + col] = sum;
        } else { REST }
    }""".replace("REST", rest)
    report = tiledmm.check(text, grid="(N+63)/64,(M+15)/16", block="16,16", checks=True)
    assert report.ok
    assert report.kernels[0].verdict == ("right" if tail else "right where 4 divides the sizes")


def test_a_guess_that_may_be_at_fault_asks_with_what_it_finds():
    text = """__global__ void k(const int* x, int* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[1000 * x[i] + 500000];
    }"""
    with pytest.raises(ConfigError, match=r"pass --grid, --block and --args. Finding: .*out of bounds"):
        tiledmm.check(text, checks=True)


@pytest.mark.parametrize(
    ("name", "store", "verdict"),
    [
        ("transpose", "y[c * rows + r] = x[r * cols + c];", "right"),
        ("transpose", "y[c * rows + r] = 2 * x[r * cols + c];", "no findings; no result to compare with"),
        ("other", "y[c * rows + r] = x[r * cols + c];", "no findings; no result to compare with"),
    ],
)
def test_what_a_name_says_is_compared(name, store, verdict):
    text = f"""__global__ void {name}(const float* x, float* y, int rows, int cols) {{
        int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
        if (r < rows && c < cols) {store}
    }}"""
    assert tiledmm.check(text, checks=True).kernels[0].verdict == verdict


def test_members_of_a_structure_are_sizes():
    text = "struct Sizes { int rows, cols; int inner; };\n" + MATMUL.replace("int M, int N, int K", "Sizes s")
    for size, member in (("M", "rows"), ("N", "cols"), ("K", "inner")):
        text = re.sub(rf"\b{size}\b", f"s.{member}", text)
    (kernel,) = tiledmm.check(text, checks=True).kernels
    assert kernel.verdict == "right"
    (kernel,) = tiledmm.check(text.replace("k < s.inner", "k < s.inner - 1"), checks=True).kernels
    assert kernel.verdict == "WRONG"


def test_what_is_missing_is_asked_for():
    with pytest.raises(ConfigError, match=r"kernel.cu:1: the file has no launch of k: pass --grid and --block"):
        tiledmm.check("__global__ void k(float* x) { x[threadIdx.x] = 1; }")
    with pytest.raises(ConfigError, match=r"mm is a template <int T> that nothing instantiates: .* 'mm<16>'"):
        tiledmm.check("template <int T> __global__ void mm(float* x) { x[T] = 1; }")
    with pytest.raises(ConfigError, match="no kernel 'other'; its kernels are mm"):
        tiledmm.check(MATMUL, "other")
    with pytest.raises(ConfigError, match="M,N,K, or one positive integer"):
        tiledmm.check(MATMUL, size="3,4")
    with pytest.raises(CompilationError, match=r"kernel\.cu:3"):
        tiledmm.check(MATMUL.replace("int row", "int row ="))


def test_a_wrong_result_is_explained():
    report = tiledmm.check(MATMUL.replace("k < K;", "k < K - 1;"))
    (sentence,) = report.kernels[0].trials[0].explanations
    assert sentence.startswith("looks as if the last step along K") and "why         looks as if" in str(report)


def test_advice_follows_what_a_right_kernel_costs():
    report = tiledmm.check(MATMUL, checks=True)
    assert any("little reuse" in each for each in report.kernels[0].advice)
    assert "advice      " in str(report)


def test_costs_with_what_is_ideal_and_why():
    text = MATMUL.replace("Idx.y", "Idx.z").replace("Idx.x", "Idx.y").replace("Idx.z", "Idx.x")
    report = tiledmm.check(text, grid="(M+15)/16,(N+15)/16", block="16,16", checks=True)
    kernel = report.kernels[0]
    assert report.ok
    loads = {each.text: each for each in kernel.accesses if each.kind == "load"}
    assert loads["A[row * K + k]"].units > loads["A[row * K + k]"].ideal
    assert loads["B[k * N + col]"].units == loads["B[k * N + col]"].ideal
    assert any("A[row * K + k]" in each and "(uncoalesced)" in each for each in kernel.advice)
    assert kernel.bound is not None
    assert kernel.bound.rung == "naive"
    conflict = """__global__ void k(float* x) {
        __shared__ float s[32][32];
        s[threadIdx.x][0] = 1;
        x[threadIdx.x] = s[threadIdx.x][0];
    }"""
    (kernel,) = tiledmm.check(conflict, grid=1, block=32, args="x:f32[32]").kernels
    stored = next(each for each in kernel.accesses if each.space == "shared" and each.kind == "store")
    assert (stored.text, stored.units, stored.ideal) == ("s[threadIdx.x][0]", 32, 1)
    assert any("s[threadIdx.x][0]: 32 wavefronts per request (ideally 1)" in each for each in kernel.advice)


def test_the_report_as_data_and_for_notebooks():
    report = tiledmm.check(FILES / "race.cu")
    found = json.loads(report.json())
    assert found["ok"] is False
    (kernel,) = found["kernels"]
    assert kernel["verdict"] == "WRONG"
    assert kernel["trials"][0]["findings"][0]["location"].startswith("race.cu:")
    assert "&lt;" not in report._repr_html_().replace("&lt; ", "")
    assert report._repr_html_().startswith("<pre")


def test_a_kernel_that_does_not_compile_leaves_the_others():
    text = MATMUL + "__global__ void bad(float* x) { unknown_function(x); }\nint main() {}"
    report = tiledmm.check(text, grid="(N+15)/16,(M+15)/16", block="16,16", checks=True)
    assert [each.verdict for each in report.kernels] == ["right", "not checked"]
    assert "unknown_function" in report.kernels[1].missing
    assert report.ok


def test_large_constants_of_the_file_are_replaced_and_named():
    (kernel,) = tiledmm.check(FILES / "macro_sizes.cu", checks=True).kernels
    assert [each.sizes["N"] for each in kernel.trials] == [64, 59]
    assert any("N is 64 instead of 512" in each for each in kernel.notes)


def test_a_grid_with_exchanged_axes_is_right_for_squares_only():
    report = tiledmm.check(MATMUL, grid="(M+15)/16,(N+15)/16", block="16,16", checks=True)
    assert not report.ok
    assert any("right if M = N = K" in each for each in report.kernels[0].notes)


def test_sizes_that_are_named_in_another_way_are_found_by_trying():
    text = MATMUL
    for size, name in (("N", "q"), ("K", "n"), ("M", "m")):
        text = re.sub(rf"\b{size}\b", name, text)
    report = tiledmm.check(text.replace("int m, int q, int n", "int m, int n, int q"), checks=True)
    assert report.ok
    assert "Parameters m, n, q are M, K, N, where A is (M, K) and B is (K, N)." in report.kernels[0].notes


def test_a_kernel_that_adds_to_c_or_scales_it():
    added = MATMUL.replace("C[row * N + col] = sum", "C[row * N + col] += sum")
    report = tiledmm.check(added, checks=True)
    assert report.ok
    assert any("adds to C" in each for each in report.kernels[0].notes)
    scaled = MATMUL.replace("int K)", "int K, float alpha, float beta)").replace(
        "= sum", "= alpha * sum + beta * C[row * N + col]"
    )
    assert tiledmm.check(scaled, checks=True).ok
    assert not tiledmm.check(scaled.replace("beta * ", ""), checks=True).ok


def test_an_elementwise_kernel_is_launched_by_a_guess():
    text = """__global__ void scale(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        BODY
    }"""
    right = tiledmm.check(text.replace("BODY", "if (i < n) y[i] = 2 * x[i];"))
    assert "guess" in right.kernels[0].launch
    assert right.ok
    without_guard = text.replace("BODY", "y[i] = 2 * x[i];")
    assert tiledmm.check(without_guard).kernels[0].verdict == "FINDINGS"
    with pytest.raises(ConfigError, match="out of bounds"):  # the array may have any number of elements
        tiledmm.check(without_guard.replace("int n", "int steps"), checks=True)


def test_libraries_left_out_leave_their_types():
    text = MATMUL.replace("float*", "real*").replace("= sum", "= __float2half(sum)")
    text = "#include <cublas_v2.h>\ntypedef __half real;\n" + text.replace(
        "A[row * K + k] * B[k * N + col]", "__half2float(A[row * K + k]) * __half2float(B[k * N + col])"
    )
    report = tiledmm.check(text + "int main() {}", checks=True)
    assert report.ok
    assert report.kernels[0].trials[0].right


def test_variables_that_the_file_does_not_say_are_named():
    text = """
    __global__ void scale(float* x, int rows, int columns) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < rows * columns) x[i] *= 2;
    }
    int main(int argc, char** argv) {
        int rows = atoi(argv[1]), columns = atoi(argv[2]);
        float* x;
        cudaMalloc(&x, rows * columns * sizeof(float));
        scale<<<(rows * columns + 255) / 256, 256>>>(x, rows, columns);
    }
    """
    (kernel,) = tiledmm.check(text, checks=True).kernels
    assert kernel.ok
    assert kernel.trials[0].geometry.grid == (16, 1, 1)
    assert any("not in the file are set to 64" in each for each in kernel.notes)


def test_a_host_that_launches_cooperatively_lets_blocks_wait_for_each_other():
    text = """
    #include <cooperative_groups.h>
    __global__ void k(float* x) {
        if (threadIdx.x == 0 && blockIdx.x == 0) x[1] = 2;
        cooperative_groups::this_grid().sync();
        if (threadIdx.x == 0 && blockIdx.x == 1) x[0] = x[1];
    }
    void host(float* x) { void* arguments[] = {&x}; LAUNCH; }
    """
    launch = "cudaLaunchCooperativeKernel((void*)k, 2, 32, arguments)"
    assert tiledmm.check(text.replace("LAUNCH", launch), grid=2, block=32, args="x:f32[32]").ok
    assert not tiledmm.check(text.replace("LAUNCH", "k<<<2, 32>>>(x)"), grid=2, block=32, args="x:f32[32]").ok
