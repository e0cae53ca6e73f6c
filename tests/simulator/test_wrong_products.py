"""Tests that wrong products are explained by what is wrong with their kernels, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import ShapeError
from tiledmm.simulated.explanation.wrong import Resemblance, explain_wrong_product

NAIVE = """
__global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        T sum = 0;
        for (int k = 0; k < K; ++k)
            sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""

TILED = """
#define TILE 16
__global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
    __shared__ T As[TILE][TILE], Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    T sum = 0;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        As[ty][tx] = row < M && t * TILE + tx < K ? A[row * K + t * TILE + tx] : T(0);
        Bs[ty][tx] = col < N && t * TILE + ty < K ? B[(t * TILE + ty) * N + col] : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""

GEMM = """
__global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
    const T alpha = 0.5, beta = 3;
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    T sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
"""

STRIDED = """
__global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M) return;
    for (int col = threadIdx.x; col < N; col += blockDim.x) {
        T sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""

REGISTERS = """
__global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 64, col = blockIdx.x * 64;
    T acc[4][4] = {};
    for (int k = 0; k < K; ++k) {
        T a[4], b[4];
        for (int i = 0; i < 4; ++i) a[i] = A[(row + ty + 16 * i) * K + k];
        for (int j = 0; j < 4; ++j) b[j] = B[k * N + col + tx + 16 * j];
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) acc[i][j] += a[i] * b[j];
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) C[(row + ty + 16 * i) * N + col + tx + 16 * j] = acc[i][j];
}
"""

SIZES = ((40, 52, 37), (48, 32, 80), (33, 65, 50))


@dataclass(frozen=True)
class Case:
    """A kernel with an edit, and the pattern by which it is explained; None for a kernel that is not explained."""

    name: str
    text: str
    edits: tuple[tuple[str, str], ...]
    pattern: str | None
    dtype: Any = np.float32
    grid: tuple[int, int] | None = None
    scale: tuple[float, float] = (1, 0)
    sizes: tuple[tuple[int, int, int], ...] = SIZES


def _edit(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((old, new),)


RAGGED = tuple(size for size in SIZES if size[2] % 16)

CASES = (
    # Steps along K.
    Case("last step", NAIVE, _edit("k < K;", "k < K - 1;"), "last step missing"),
    Case("first step", NAIVE, _edit("k = 0;", "k = 1;"), "first step missing"),
    Case("no sum", NAIVE, _edit("sum += A", "sum = A"), "only the last step kept"),
    Case("three steps", NAIVE, _edit("k < K;", "k < K - 3;"), "last steps missing"),
    Case("to N", NAIVE, _edit("k < K;", "k < N;"), "last steps missing", sizes=((48, 32, 80),)),
    Case("every second", NAIVE, _edit("++k", "k += 2"), "step of each tile missing"),
    Case(
        "tiles rounded down", TILED,
        _edit("(K + TILE - 1) / TILE", "K / TILE"),
        "last partial tile missing", sizes=RAGGED,
    ),
    Case(
        "one tile too few", TILED,
        _edit("(K + TILE - 1) / TILE", "K / TILE - 1"),
        "last tile missing", sizes=SIZES[1:2],
    ),
    Case("tile loop too short", TILED, _edit("k < TILE;", "k < TILE - 1;"), "step of each tile missing"),
    Case("tile loop begins late", TILED, _edit("k = 0;", "k = 1;"), "step of each tile missing"),
    Case(
        "sum set for each tile", TILED,
        (
            ("    T sum = 0;\n", "    T sum;\n"),
            ("        __syncthreads();\n        for", "        __syncthreads();\n        sum = 0;\n        for"),
        ),
        "only the last tile kept",
    ),
    Case(
        "stale tile", TILED,
        (
            (" : T(0);\n        Bs", " : As[ty][tx];\n        Bs"),
            (" : T(0);\n        __sync", " : Bs[ty][tx];\n        __sync"),
        ),
        "stale elements of a tile", sizes=RAGGED,
    ),
    # Factors and results at other places.
    Case("A transposed", NAIVE, _edit("A[row * K + k]", "A[k * M + row]"), "factor transposed"),
    Case("B transposed", NAIVE, _edit("B[k * N + col]", "B[col * K + k]"), "factor transposed"),
    Case("C transposed", NAIVE, _edit("C[row * N + col]", "C[col * M + row]"), "result transposed"),
    Case("N for K", NAIVE, _edit("A[row * K + k]", "A[row * N + k]"), "wrong stride"),
    Case("M for K", NAIVE, _edit("A[row * K + k]", "A[row * M + k]"), "wrong stride"),
    Case("K for N", NAIVE, _edit("B[k * N + col]", "B[k * K + col]"), "wrong stride", sizes=SIZES[::2]),
    Case("K for N in C", NAIVE, _edit("C[row * N + col]", "C[row * K + col]"), "wrong stride", sizes=((40, 52, 47),)),
    Case(
        "A twice", NAIVE,
        _edit("B[k * N + col]", "A[k * K + col]"),
        "factor used twice", sizes=((40, 24, 37), (50, 30, 33)),
    ),
    Case(
        "exchanged", NAIVE,
        _edit("A[row * K + k] * B[k * N + col]", "B[row * K + k] * A[k * N + col]"),
        "factors exchanged", sizes=((40, 40, 37),),
    ),
    Case("next step of A", NAIVE, _edit("A[row * K + k]", "A[row * K + (k + 1 < K ? k + 1 : 0)]"), None),
    Case(
        "previous row of C", NAIVE,
        _edit("C[row * N + col] = sum", "if (row) C[(row - 1) * N + col] = sum"),
        "index off by one",
    ),
    Case(
        "column by row", NAIVE,
        _edit("B[k * N + col]", "B[k * N + row % N]"),
        "indices exchanged", sizes=((40, 52, 37),),
    ),
    Case("first row of B", NAIVE, _edit("B[k * N + col]", "B[col]"), "index constant"),
    Case("first step of tiles", TILED, _edit("As[ty][k]", "As[ty][0]"), "step within a tile constant"),
    Case("few places of C", NAIVE, _edit("C[row * N + col]", "C[row + N + col]"), "read before written"),
    Case("short index", NAIVE, _edit("A[row * K + k]", "A[(unsigned char)(row * K + k)]"), "index overflow"),
    Case(
        "short index of B", NAIVE,
        _edit("B[k * N + col]", "B[(unsigned char)(k * N + col)]"),
        "index overflow", sizes=SIZES[::2],
    ),
    # Tiles.
    Case("As by columns", TILED, _edit("As[ty][k]", "As[k][ty]"), "tile transposed"),
    Case("Bs by columns", TILED, _edit("Bs[k][tx]", "Bs[tx][k]"), "tile transposed"),
    Case("both by columns", TILED, (("As[ty][k]", "As[k][ty]"), ("Bs[k][tx]", "Bs[tx][k]")), "tile transposed"),
    Case("A does not advance", TILED, _edit("A[row * K + t * TILE + tx]", "A[row * K + tx]"), "tile not advanced"),
    Case("B does not advance", TILED, _edit("B[(t * TILE + ty) * N + col]", "B[ty * N + col]"), "tile not advanced"),
    Case(
        "B advances by rows", TILED,
        _edit("B[(t * TILE + ty) * N + col]", "B[ty * N + t * TILE + col]"),
        "tile not advanced",
    ),
    Case(
        "a and b exchanged", REGISTERS,
        _edit("a[i] * b[j]", "a[j] * b[i]"),
        "register tile transposed", grid=(2, 1), sizes=((64, 128, 20),),
    ),
    Case(
        "rows side by side", REGISTERS,
        _edit("A[(row + ty + 16 * i) * K + k]", "A[(row + 4 * ty + i) * K + k]"),
        "rows or columns at other places", grid=(2, 1), sizes=((64, 128, 20),),
    ),
    Case(
        "fourth row not read", REGISTERS,
        _edit("i < 4; ++i) a[i]", "i < 3; ++i) a[i]"),
        "read before written", grid=(2, 1), sizes=((64, 128, 20),),
    ),
    Case(
        "threads that return", TILED,
        _edit("T sum = 0;", "T sum = 0;\n    if (row >= M || col >= N) return;"),
        "read before written", sizes=((37, 45, 19),),
    ),
    # Parts of C.
    Case(
        "guard exchanged", NAIVE,
        _edit("row < M && col < N", "row < N && col < N"),
        "guard of another size", sizes=((48, 32, 37), (65, 33, 20)),
    ),
    Case(
        "guard of integers", NAIVE, _edit("row < M", "row < N"), "guard of another size", np.int32, sizes=((48, 32, 3),)
    ),
    Case("grid rounded down", TILED, (), "grid too small", grid=(3, 2), sizes=((40, 48, 37),)),
    Case("a row of each tile", TILED, _edit("As[ty][k]", "As[ty == 3 ? 4 : ty][k]"), "rows or columns shifted"),
    Case("last row", NAIVE, _edit("row < M", "row < M - 1"), "last row or column"),
    Case("last column", NAIVE, _edit("col < N", "col < N - 1"), "last row or column"),
    Case(
        "last column of tiles", TILED,
        _edit("if (row < M", "if (tx < TILE - 1 && row < M"),
        "rows or columns of each tile",
    ),
    # Sums.
    Case("added to C", NAIVE, _edit("] = sum", "] += sum"), "result accumulated"),
    Case("subtracted", NAIVE, _edit("sum += A", "sum -= A"), "sign"),
    Case(
        "not reset", STRIDED,
        (("        T sum = 0;\n", ""), ("    for (int col", "    T sum = 0;\n    for (int col")),
        "sum not reset", grid=(1, 5), sizes=((40, 52, 37), (33, 65, 50)),
    ),
    Case("twice", TILED, _edit("] = sum", "] = 2 * sum"), "product twice"),
    Case("added", NAIVE, _edit("] * B", "] + B"), "other operation"),
    Case("begins at one", NAIVE, _edit("sum = 0", "sum = 1"), "constant added"),
    Case("integer sum", NAIVE, _edit("T sum", "int sum"), "narrow type"),
    Case(
        "half sum", "#include <cuda_fp16.h>\n" + NAIVE,
        (
            ("T sum = 0;", "__half sum = 0.f;"),
            ("sum += A[row * K + k] * B", "sum = __float2half(__half2float(sum) + A[row * K + k] * B"),
            ("+ col];", "+ col]);"),
            ("= sum;", "= __half2float(sum);"),
        ),
        "narrow type",
    ),
    Case("float sum of doubles", NAIVE, _edit("T sum", "float sum"), "narrow type", np.float64),
    Case("byte sum", NAIVE, _edit("T sum", "signed char sum"), "narrow type", np.int32),
    # Alpha and beta.
    Case("alpha ignored", GEMM, _edit("alpha * sum", "sum"), "alpha ignored", scale=(0.5, 3)),
    Case("beta ignored", GEMM, _edit(" + beta * C[row * N + col]", ""), "beta ignored", scale=(0.5, 3)),
    Case(
        "exchanged factors", GEMM,
        _edit("alpha * sum + beta *", "beta * sum + alpha *"),
        "alpha and beta exchanged", scale=(0.5, 3),
    ),
    Case(
        "alpha scales both", GEMM,
        _edit("alpha * sum + beta * C[row * N + col]", "alpha * (sum + beta * C[row * N + col])"),
        "alpha scales both", scale=(0.5, 3),
    ),
    Case("alpha twice", GEMM, _edit("alpha * sum", "alpha * alpha * sum"), "alpha twice", scale=(0.5, 3)),
    # Order.
    Case("no barrier", TILED, _edit("        __syncthreads();\n        for", "        for"), "read before written"),
    # Right kernels, and mistakes of no known kind.
    Case("naive", NAIVE, (), None),
    Case("tiled", TILED, (), None),
    Case("gemm", GEMM, (), None, scale=(0.5, 3)),
    Case("strided", STRIDED, (), None, grid=(1, 5)),
    Case("absolute", NAIVE, _edit("sum += A[row * K + k]", "sum += fabsf(A[row * K + k])"), None),
    Case("squares", NAIVE, _edit("sum += A[row * K + k]", "sum += A[row * K + k] * A[row * K + k]"), None),
    Case("hash of the thread", NAIVE, _edit("] = sum", "] = sum + (row * 31 + col * 17) % 7"), None),
    Case("steps of odd rows", NAIVE, _edit("k < K;", "k < K - row % 2;"), "last step missing"),
    Case("sine", NAIVE, _edit("] = sum", "] = sinf(sum)"), None),
    Case(
        "largest", NAIVE,
        _edit("sum += A[row * K + k] * B[k * N + col]", "sum = fmaxf(sum, A[row * K + k] * B[k * N + col])"),
        None,
    ),
    Case("uneven weights", NAIVE, _edit("sum += A", "sum += k * A"), None),
    Case("a few elements", NAIVE, _edit("] = sum", "] = (row * 7 + col * 3) % 23 == 5 ? 0 : sum"), None),
    Case("one element", NAIVE, _edit("] = sum", "] = row + col == 9 && row == 4 ? 7 : sum"), None),
    Case(
        "columns by a table", NAIVE,
        _edit("B[k * N + col]", "B[k * N + (col * col) % N]"),
        "rows or columns at other places",
    ),
)  # fmt: skip


def _text(case: Case) -> str:
    name = {np.float32: "float", np.float64: "double", np.int32: "int"}[case.dtype]
    text = f"typedef {name} T;\n{case.text}"
    for old, new in case.edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def _explain(case: Case, sizes: tuple[int, int, int], seed: int) -> tuple[list[Resemblance], simulator.Report]:
    m, n, k = sizes
    rng = np.random.default_rng(seed)

    def operand(*shape: int) -> np.ndarray[Any, Any]:
        values = rng.standard_normal(shape) if case.dtype is not np.int32 else rng.integers(-4, 5, shape)
        return values.astype(case.dtype)

    a, b, c = operand(m, k), operand(k, n), operand(m, n)
    before, (alpha, beta) = c.copy(), case.scale
    expected = (alpha * (a @ b) + beta * before).astype(case.dtype)
    grid = case.grid or (-(-n // 16), -(-m // 16))
    report = simulator.launch(_text(case), grid, (16, 16), (a, b, c, m, n, k), expected={"C": expected}, counts=False)
    found = explain_wrong_product(
        a, b, c, expected=expected, before=before, alpha=alpha, beta=beta, report=report
    )  # fmt: skip
    return found, report


# The first case of each pattern is tested every day, on its first sizes; so are four kernels that are not explained.
FIRST = {case.pattern: case.name for case in reversed(CASES) if case.pattern}
EVERY_DAY = {*FIRST.values(), "tiled", "absolute", "steps of odd rows", "a few elements"}


@pytest.mark.parametrize(
    ("case", "sizes"),
    [
        pytest.param(case, sizes, marks=slow_unless(case.name in EVERY_DAY and not at), id=f"{case.name}-{at}")
        for case in CASES
        for at, sizes in enumerate(case.sizes)
    ],
)
def test_a_wrong_product_is_explained_by_what_is_wrong(case, sizes):
    found, report = _explain(case, sizes, seed=sum(sizes))
    patterns = [each.pattern for each in found]
    assert patterns[:1] == ([case.pattern] if case.pattern else []), ([*map(str, found)], report.findings)
    assert len(found) <= 1 or patterns[1:] == ["read before written"], [*map(str, found)]


def test_an_explanation_names_the_line_that_stores_the_first_wrong_element():
    found, report = _explain(next(case for case in CASES if case.name == "tiles rounded down"), (40, 52, 37), 0)
    (explanation,) = found
    assert explanation.text == "if (row < M && col < N) C[row * N + col] = sum;"
    assert report.text.splitlines()[explanation.line - 1].strip() == explanation.text
    assert explanation.message.startswith("looks as if ")
    assert "k = 32 to 36" in explanation.message
    assert explanation.message.endswith(f"{explanation.location}: {explanation.text}")


def test_a_loop_that_ends_at_another_size_is_told_which():
    (explanation,), _ = _explain(next(case for case in CASES if case.name == "to N"), (48, 32, 80), 0)
    assert "does the loop along K end at N, which is 32?" in explanation.message


def test_a_launch_that_ends_early_names_an_element_that_was_written():
    case = next(case for case in CASES if case.name == "N for K")
    _, report = _explain(case, (40, 52, 37), 0)
    wrong = next(each for each in report.findings if each.kind == "wrong result")
    assert "no thread wrote it" not in wrong.message
    assert wrong.text.strip() == "C[row * N + col] = sum;"


@pytest.mark.full  # two gigabytes of memory
def test_an_index_that_overflows_32_bits_is_explained():
    m, n, k, lda = 3, 8, 20, 1 << 30
    memory = np.zeros(2 * lda + k, np.int8)
    a = np.lib.stride_tricks.as_strided(memory, (m, k), (lda, 1))
    b, c = np.ones((k, n), np.int8), np.zeros((m, n), np.int32)
    a[...] = 1
    text = """
    __global__ void mm(const signed char* A, const signed char* B, int* C, int M, int N, int K, int lda) {
        int row = threadIdx.y, col = threadIdx.x, sum = 0;
        for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
    """
    expected = np.full((m, n), k, np.int32)
    report = simulator.launch(text, 1, (n, m), (a, b, c, m, n, k, lda), expected={"C": expected}, counts=False)
    (found,) = explain_wrong_product(a, b, c, expected=expected, before=np.zeros_like(c), report=report)
    assert found.pattern == "index overflow"
    assert "sum += A[row * lda + k]" in found.message


def test_operands_that_do_not_distinguish_variants_give_no_explanation():
    ones = [np.ones(shape, np.float32) for shape in ((40, 37), (37, 52), (40, 52))]
    a, b, c = ones
    c[...] = 30
    assert explain_wrong_product(a, b, c, before=np.full_like(c, 5)) == []


def test_noise_is_not_explained():
    rng = np.random.default_rng(3)
    for m, n, k in ((20, 30, 40), (5, 4, 3), (2, 2, 2), (1, 1, 9), (1, 40, 7)):
        for dtype in (np.float32, np.int32):
            a, b, c, before = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n), (m, n), (m, n)))
            assert explain_wrong_product(a, b, c, before=before) == []


def test_batches_are_explained_where_all_their_products_look_alike():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 20, 17)).astype(np.float32), rng.standard_normal((3, 17, 24)).astype(np.float32)
    before = rng.standard_normal((3, 20, 24)).astype(np.float32)

    def patterns(c: np.ndarray[Any, Any]) -> list[str]:
        return [each.pattern for each in explain_wrong_product(a, b, c.astype(np.float32), before=before)]

    assert patterns(a @ b) == []
    assert patterns(a @ b[:1]) == ["batch offset missing"]
    assert patterns(a[:1] @ b) == ["batch offset missing"]
    assert patterns(a[..., :-1] @ b[:, :-1]) == ["last step missing"]
    assert patterns(np.stack([a[0] @ b[0], a[1, :, 1:] @ b[1, 1:], -(a[2] @ b[2])])) == []


def test_transposed_operands_have_the_strides_of_their_memory():
    rng = np.random.default_rng(0)
    a, bt = rng.standard_normal((40, 37)).astype(np.float32), rng.standard_normal((52, 37)).astype(np.float32)
    before = rng.standard_normal((40, 52)).astype(np.float32)
    read = bt.reshape(-1)[: 37 * 52].reshape(37, 52)  # as if it were (K, N)
    (found,) = explain_wrong_product(a, bt.T, a @ read, before=before)
    assert found.pattern == "factor transposed"
    assert "B[k * N + col] where B[col * K + k] is right" in found.message


def test_shapes_of_no_product_are_refused():
    with pytest.raises(ShapeError, match=r"\(4, 5\)"):
        explain_wrong_product(np.ones((4, 3)), np.ones((3, 6)), np.ones((4, 5)))
