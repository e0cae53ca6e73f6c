"""Tests of ``simulator.launch`` on users' kernels."""

import ctypes

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import AlignmentError, ConfigError, OperandTypeError, ShapeError

SCALE = """
template <int N>
__global__ void __launch_bounds__(64) scale(float* x, const float* y, int n, double a) {
    extern __shared__ float s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) s[threadIdx.x] = x[i] + y[i];
    __syncthreads();
    if (i < n) x[i] = s[threadIdx.x] * a + N;
}
"""

FILL = """
__global__ void fill(int* to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    to[(z * height + y) * width + x] = x + 10 * y + 100 * z;
}
"""


def test_a_template_with_arrays_scalars_and_dynamic_shared_memory():
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    right = (x + y) * 2 + 3
    report = simulator.launch(SCALE, 2, 64, (x, y, 100, 2.0), name="scale<3>", shared_bytes=256, expected={"x": right})
    report.check()
    np.testing.assert_array_equal(x, right)
    assert report.source.global_load.lanes == 200
    assert (report.grid, report.block, report.symbol) == ((2, 1, 1), (64, 1, 1), "scale<3>")


@pytest.mark.parametrize("parameters", ["const int* from, int* to", "int* to, const int* from"])
def test_an_array_that_is_passed_twice_may_be_written_by_either_parameter(parameters):
    x = np.arange(4, dtype=np.int32)
    text = f"__global__ void twice({parameters}) {{ to[threadIdx.x] = 2 * from[threadIdx.x]; }}"
    simulator.launch(text, 1, 4, (x, x)).check()
    np.testing.assert_array_equal(x, [0, 2, 4, 6])


@pytest.mark.parametrize(("kind", "value"), [("unsigned", -1), ("int", -(2**40)), ("unsigned char", 256)])
def test_a_number_that_its_parameter_cannot_hold_is_refused(kind, value):
    with pytest.raises(ConfigError, match=f"n is .* {value}$"):
        simulator.launch(f"__global__ void kernel({kind} n) {{}}", 1, 1, (value,))


def test_grids_and_blocks_have_up_to_three_dimensions():
    to = np.zeros((4, 6, 8), np.int32)
    simulator.launch(FILL, (2, 3, 2), (4, 2, 2), (to, 8, 6)).check()
    z, y, x = np.indices(to.shape)
    np.testing.assert_array_equal(to, x + 10 * y + 100 * z)


def test_a_wrong_element_names_who_wrote_it():
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    right = (x + y) * 2 + 3
    right[70] += 1
    report = simulator.launch(SCALE, 2, 64, (x, y, 100, 2.0), name="scale<3>", shared_bytes=256, expected={0: right})
    (found,) = report.findings
    assert (found.kind, found.block, found.thread) == ("wrong result", (1, 0, 0), (6, 0, 0))
    assert found.text.strip() == "if (i < n) x[i] = s[threadIdx.x] * a + N;"
    assert "1 of 100 elements of x; x[70] is 145.0, expected 146.0" in found.message


def test_dynamic_shared_memory_has_the_size_that_the_launch_gives_it():
    x = np.ones(100, np.float32)
    report = simulator.launch(SCALE, 2, 64, (x, x, 100, 2.0), name="scale<3>", shared_bytes=200)
    assert "just past the end of shared array s (200 bytes)" in report.findings[0].message


def test_an_access_that_misses_shared_memory_is_one_to_shared_memory():
    """Check accesses before the shared arrays, far past their end, and in a launch without shared memory."""
    text = """
    __global__ void miss(float* x, int which, int i) {
        extern __shared__ float given[];
        __shared__ float own[32];
        float *p = own, *null = nullptr;
        const unsigned below = i;
        own[threadIdx.x] = 0;
        if (which == 0) x[threadIdx.x] = given[i];
        if (which == 1) x[threadIdx.x] = p[i];
        if (which == 2) x[threadIdx.x] = given[below];
        if (which == 3) x[i] = own[threadIdx.x];
        if (which == 4) x[threadIdx.x] = null[i];
    }
    """
    x = np.zeros(32, np.float32)

    def said(which: int, i: int, shared_bytes: int = 128) -> str:
        (found,) = simulator.launch(text, 1, 32, (x, which, i), shared_bytes=shared_bytes).findings
        return found.message.partition(": ")[2]

    given = said(0, 0, 0)
    assert given.startswith("shared access out of bounds:") and "dynamic shared memory" in given
    for which, i in ((0, -1), (0, 100_000), (1, -1), (1, 100_000), (2, -1)):
        assert said(which, i).startswith("shared access out of bounds:"), (which, i)
    assert "reads 4 bytes, 4 bytes before shared array given (128 bytes), by an unsigned" in said(2, -1)
    assert "writes 4 bytes, 80,000,000 bytes before global array x (128 bytes)" in said(3, -20_000_000)
    assert "reads 4 bytes at the address 0x0" in said(4, 0)


def test_a_pointer_says_what_memory_it_is_to():
    text = """
    __constant__ int constant;
    __device__ int global;
    __device__ void spaces(const void* at, unsigned* to) {
        to[0] = __isGlobal(at), to[1] = __isShared(at), to[2] = __isLocal(at), to[3] = __isConstant(at);
    }
    __global__ void of(unsigned* to, const float* in) {
        __shared__ float own[2];
        extern __shared__ float given[];
        float mine[2] = {};
        spaces(in, to), spaces(&global, to + 4), spaces(own + 1, to + 8), spaces(given, to + 12);
        spaces(mine + 1, to + 16), spaces(&constant, to + 20);
        __builtin_assume(to != nullptr);
        __assume(__isGlobal(to));
    }
    """
    to = np.zeros((6, 4), np.uint32)
    simulator.launch(text, 1, 1, (to, np.zeros(1, np.float32)), shared_bytes=8).check()
    assert to.argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 3] and (to.sum(axis=1) == 1).all()


def test_an_assumption_that_is_false_is_found():
    text = "__global__ void of(int* x, int n) {\n    __builtin_assume(n % 4 == 0);\n    x[0] = n;\n}"
    x = np.zeros(1, np.int32)
    simulator.launch(text, 1, 1, (x, 8)).check()
    (found,) = simulator.launch(text, 1, 1, (x, 7)).findings
    assert found.line == 2 and "__builtin_assume" in found.message


def test_dynamic_arrays_are_one():
    text = """
    __global__ void both(int* out) {
        extern __shared__ int a[];
        extern __shared__ unsigned char b[];
        a[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = b[4 * threadIdx.x];
    }
    """
    out = np.zeros(32, np.int32)
    simulator.launch(text, 1, 32, (out,), shared_bytes=128, expected={"out": np.arange(32)}).check()


def test_views_of_one_array_share_its_memory():
    text = "__global__ void move(float* to, const float* from) { to[threadIdx.x] = from[threadIdx.x]; }"
    x = np.arange(8, dtype=np.float32)
    simulator.launch(text, 1, 4, (x[4:], x[:4])).check()
    np.testing.assert_array_equal(x, [0, 1, 2, 3, 0, 1, 2, 3])
    simulator.launch(text, 1, 3, (x[1:4], x[4:])).check()
    np.testing.assert_array_equal(x, [0, 0, 1, 2, 0, 1, 2, 3])


def test_a_float_array_passes_for_vectors_of_floats():
    text = "__global__ void sum(float* out, const float4* in) { float4 v = in[0]; out[0] = v.x + v.y + v.z + v.w; }"
    out = np.zeros(1, np.float32)
    simulator.launch(text, 1, 1, (out, np.arange(8, dtype=np.float32))).check()
    assert out[0] == 6
    with pytest.raises(AlignmentError, match=r"in is a const float4\*.*16 bytes.* 28"):
        simulator.launch(text, 1, 1, (out, np.arange(7, dtype=np.float32)))


class Pair(ctypes.Structure):
    _fields_ = [("first", ctypes.c_int), ("second", ctypes.c_double)]


@pytest.mark.parametrize("pair", [Pair(3, 0.5), bytes(Pair(3, 0.5)), np.array([(3, 0.5)], Pair)[0]])
def test_structures(pair):
    text = """
    struct Pair { int first; double second; };
    __global__ void multiply(double* out, Pair pair) { out[0] = pair.first * pair.second; }
    """
    out = np.zeros(1)
    simulator.launch(text, 1, 1, (out, pair)).check()
    assert out[0] == 1.5


def test_a_null_pointer():
    text = "__global__ void choose(int* out, const int* in) { out[0] = in ? in[0] : -1; }"
    out = np.zeros(1, np.int32)
    simulator.launch(text, 1, 1, (out, None)).check()
    assert out[0] == -1


def test_read_only_arrays_are_not_written():
    text = "__global__ void write(float* to) { to[0] = 1; }"
    to = np.zeros(1, np.float32)
    to.flags.writeable = False
    assert [each.kind for each in simulator.launch(text, 1, 1, (to,)).findings] == ["write to an operand"]
    assert to[0] == 0


X = np.zeros(8, np.float32)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((X, X, 1), {}, OperandTypeError, r"4 parameters \(float\*, const float\*, int, double\).* 3"),
        ((X.astype(float), X, 1, 1.0), {}, OperandTypeError, r"x is a float\*; .*float64"),
        ((1, X, 1, 1.0), {}, OperandTypeError, r"x is a float\*; .*int 1"),
        ((X, X, X, 1.0), {}, OperandTypeError, "n is an int, .*pointer"),
        ((X, X, "1", 1.0), {}, OperandTypeError, "n is an int; .*'1'"),
        ((X, X, 2**40, 1.0), {}, ConfigError, "n is an int, .*-2147483648.* 2147483647.* 1099511627776"),
        ((X, X, 1.5, 1.0), {}, ConfigError, "n is an int; .*1.5"),
        ((X, X, 1, 1.0), {"name": "scaled"}, ConfigError, "'scaled'.* scale$"),
        ((X, X, 1, 1.0), {"shared_bytes": 10**6}, ConfigError, "shared_bytes .*232448 on sm_90"),
        ((X, X, 1, 1.0), {"block": 2000}, ConfigError, "block .*1024 x 1024 x 64.* 2000 x 1 x 1"),
        ((X, X, 1, 1.0), {"block": (64, 32)}, ConfigError, "1024 threads.* 2048"),
        ((X, X, 1, 1.0), {"grid": (1, 70000)}, ConfigError, "grid .*70000"),
        ((X, X, 1, 1.0), {"grid": 0}, ConfigError, "grid .* 0 x 1 x 1"),
        ((X, X, 1, 1.0), {"grid": "x"}, ConfigError, "grid .*'x'"),
        ((X, X, 1, 1.0), {"grid": 1.5}, ConfigError, r"grid .*1\.5"),
        ((X, X, 1, 1.0), {"block": (32, 2.0)}, ConfigError, r"block .*2\.0"),
        ((X, X, 1, 1.0), {"variables": {"mask": 1}}, ConfigError, "'mask'.*none"),
        ((X, X, 1, 1.0), {"variables": 5}, OperandTypeError, "variables.*int"),
        ((X, X, 1, 1.0), {"expected": {"z": X}}, ConfigError, r"'z'.* x, y, n, a"),
        ((X, X, 1, 1.0), {"expected": {"x": X[:3]}}, ShapeError, r"\(3,\)"),
        ((X, X, 1, 1.0), {"expected": [X]}, OperandTypeError, r"dict.*\(x, y, n, a\)"),
        ((X, X, 1, 1.0), {"rtol": "a"}, ConfigError, "rtol .*'a'"),
        ((X, X, 1, 1.0), {"atol": -1}, ConfigError, "atol .*-1"),
        ((X, X, 1, 1.0), {"timeout": -1}, ConfigError, "timeout .*-1"),
        ((X, X, 1, 1.0), {"max_steps": "a"}, ConfigError, "max_steps .*'a'"),
        (5, {}, OperandTypeError, r"arguments .*tuple.*int"),
    ],
)
def test_what_does_not_fit_the_kernel_is_refused(arguments, options, error, message):
    options = {"grid": 1, "block": 32, "name": "scale<3>", **options}
    with pytest.raises(error, match=message):
        simulator.launch(SCALE, options.pop("grid"), options.pop("block"), arguments, **options)


def test_a_text_with_several_kernels_needs_a_name(tmp_path):
    file = tmp_path / "two.cu"
    file.write_text("__global__ void one(int* x) {} /* __global__ void no(); */ __global__ void two(int* x) {}")
    with pytest.raises(ConfigError, match=r"two.cu .*2 kernels: .*name .*one, two"):
        simulator.launch(file, 1, 1, (np.zeros(1, np.int32),))
    with pytest.raises(ConfigError, match="__global__"):
        simulator.launch("void f() {}", 1, 1, ())
    with pytest.raises(ConfigError, match=r"none\.cu"):
        simulator.launch(tmp_path / "none.cu", 1, 1, ())
    with pytest.raises(OperandTypeError, match=r"source .*int"):
        simulator.launch(5, 1, 1, ())


def test_the_file_and_line_of_a_finding(tmp_path):
    file = tmp_path / "mine.cu"
    file.write_text("__global__ void beyond(int* x) {\n    x[threadIdx.x] = 1;\n}\n")
    (found,) = simulator.launch(file, 1, 5, (np.zeros(4, np.int32),), name="beyond").findings
    assert (found.location, found.line, found.thread) == ("mine.cu:2", 2, (4, 0, 0))
    assert "just past the end of global array x (16 bytes)" in found.message


VARIABLES = """
struct Box { float lo[3], hi[3]; float* hits; };
__constant__ float mask[3][3];
__constant__ Box box;
__device__ int total = 5;
__device__ float* table;
__global__ void of(float* out) {
    int i = threadIdx.x;
    out[i] = mask[i / 3][i % 3] * box.hi[2];
    box.hits[i] = i;
    table[i] = 2;
    atomicAdd(&total, 1);
}
"""


def test_variables_get_values_and_give_them_back():
    out, hits, table = np.zeros((3, 9), np.float32)
    mask, total = np.arange(9, dtype=np.float32).reshape(3, 3), np.array([10], np.int32)
    values = {"mask": mask, "box": {"lo": [0, 0, 0], "hi": (1, 2, 3), "hits": hits}, "total": total, "table": table}
    simulator.launch(VARIABLES, 1, 9, (out,), variables=values).check()
    assert (out == 3 * np.arange(9)).all() and (hits == np.arange(9)).all() and (table == 2).all() and total == [19]
    simulator.launch(VARIABLES, 1, 9, (out,), variables={**values, "mask": mask.tolist(), "total": 0}).check()
    assert total == [19] and mask[1, 1] == 4
    (found,) = simulator.launch(VARIABLES, 1, 9, (out,), variables={**values, "table": None}).findings
    assert "null pointer" in found.message
    (found,) = simulator.launch(VARIABLES, 1, 9, (out,), variables={**values, "table": table[:8]}).findings
    assert "just past the end of global array table" in found.message


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"masks": 1}, ConfigError, "'masks'.* mask"),
        ({"mask": np.ones((3, 3))}, OperandTypeError, "mask .*float64"),
        ({"mask": np.ones(8, np.float32)}, OperandTypeError, "mask .*36 bytes; .*32 bytes"),
        ({"mask": [1, 2]}, OperandTypeError, "mask .*9 elements; got 2"),
        ({"total": 1.5}, ConfigError, r"total .*1\.5"),
        ({"box": {"lo": 1}}, ConfigError, "box .*lo, hi, hits; got lo"),
    ],
)
def test_values_that_do_not_fit_their_variables(values, error, message):
    with pytest.raises(error, match=message):
        simulator.launch(VARIABLES, 1, 9, (np.zeros(9, np.float32),), variables=values)


def test_parameters_without_names_do_not_hide_those_of_others():
    text = "__global__ void one(int, float* x, const float*, float (*rows)[2]) { x[0] = 1; rows[1][1] = 1; }"
    x, y = np.zeros(1, np.float32), np.zeros(4, np.float32)
    report = simulator.launch(text, 1, 1, (5, x, x, y), expected={"x": [2.0], "rows": [0, 0, 0, 1]})
    (found,) = report.findings
    assert "x[0] is 1.0, expected 2.0" in found.message


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ('printf("%d\\n", x[0])', 1),
        ('printf("%s %f\\n", "a", 3)', 2),
        ('printf("%d %d\\n", 1)', 2),
        ('printf("%*d\\n", 1.0, 1)', 1),
        ('printf("%lld %5.2f %c %p %s %% %*d %zu\\n", 3LL, x[0], 65, x, "a", 5, 1, sizeof(int))', 0),
        ('printf("none\\n")', 0),
    ],
)
def test_arguments_of_printf_have_the_types_of_its_format(call, wrong):
    report = simulator.launch(f"__global__ void text(float* x) {{ {call}; }}", 1, 1, (X.copy(),))
    assert report.ok and report.output.endswith("\n")
    assert [f"argument {wrong} " in each.message for each in report.warnings] == [True] * (wrong > 0)
