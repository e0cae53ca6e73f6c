"""Tests of CUDA programs as people write them: host code, headers, macros and namespaces around kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import CompilationError, ConfigError
from tiledmm.hardware.architectures import find_target
from tiledmm.simulator.build.program.launches import HostCode
from tiledmm.simulator.build.program.program import Program

WHOLE = """
#include <iostream>
#include <vector>
#include <opencv2/opencv.hpp>
#include <cublas_v2.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) exit(1); } while (0)
#define DEVICE static __device__ __forceinline__
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
using namespace std;

std::vector<int> sizes = {1, 2, 3};
static cublasHandle_t handle;
struct Timer { cudaEvent_t begin; Timer() { cudaEventCreate(&begin); } };
struct Range {
    int first, count;
    Range(std::vector<int>& all) { first = all[0]; }
    __device__ bool holds(int i) const { return i < count; }
};
int host_only(std::vector<float>& v) { return v.size(); }
DEVICE float twice(float a) { return 2 * a; }

namespace outer { namespace {
template <int N, typename T>
__global__ void scale(T* x, Range range) {
    int i = blockIdx.x * N + threadIdx.x;
    if (range.holds(i)) x[i] = twice(x[i]);
}
} }

__global__ void other(float* x) { curand_init(1, 2, 3, nullptr); }

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 100;
    float* d_x;
    CHECK(cudaMalloc((void**)&d_x, n * sizeof(float)));
    Range range(sizes);
    outer::scale<32, float><<<CEIL_DIV(n, 32), 32>>>(d_x, range);
    cout << "done" << endl;
}
"""

RANGE = np.dtype([("first", np.int32), ("count", np.int32)])


def program(text: str, **options) -> Program:
    return Program(text, "kernel.cu", target=find_target("sm_90"), **options)


def host(text: str) -> HostCode:
    found = program(text)
    return HostCode(found.tokens, found.items)


def test_a_kernel_runs_without_the_host_code_around_it():
    x = np.ones(100, np.float32)
    report = simulator.launch(
        WHOLE,
        4,
        32,
        (x, np.array((0, 90), RANGE)[()]),
        name="scale<32, float>",
        expected={"x": np.repeat([2, 1], [90, 10])},
    )
    assert report.ok
    assert [line.text.strip() for line in report.lines] == [
        "DEVICE float twice(float a) { return 2 * a; }", "if (range.holds(i)) x[i] = twice(x[i]);"
    ]  # fmt: skip
    assert report.text.startswith("\n#include <iostream>\n")


def test_a_finding_is_at_the_line_as_it_is_written():
    report = simulator.launch(
        WHOLE, 4, 32, (np.ones(90, np.float32), np.array((0, 95), RANGE)[()]), name="scale<32, float>"
    )
    line = 1 + WHOLE[: WHOLE.index("if (range.holds")].count("\n")
    assert report.findings[0].location == f"kernel.cu:{line}"
    assert "twice(x[i])" in report.findings[0].text


def test_the_kernels_of_a_program():
    found = program(WHOLE).kernels
    assert [(each.name, each.template) for each in found] == [
        ("outer::scale", ("int N", "typename T")),
        ("other", ()),
    ]
    assert found[0].parameters == (("T*", "x"), ("Range", "range"))
    with pytest.raises(ConfigError, match=r"2 kernels: .*outer::scale, other"):
        program(WHOLE).find_kernel(None)


def test_explicit_instances_overloads_and_macros_name_kernels():
    text = """
    #define AXPB(T, NAME) \\
        extern "C" __global__ void NAME(int n, const T* in, T* out) { if (threadIdx.x < n) out[0] = in[0]; }
    AXPB(float, axpb_f32)
    AXPB(double, axpb_f64)
    template <class T, int N> __global__ void scale(T* x) { x[threadIdx.x] *= N; }
    template __global__ void scale<float, 3>(float*);
    template __global__ void scale<double, 4>(double*);
    __global__ void set(float* x) { x[threadIdx.x] = 1; }
    __global__ void set(int* x) { x[threadIdx.x] = 2; }
    int main() { return 0; }
    """
    names = [each.name for each in program(text).kernels]
    assert names == ["axpb_f32", "axpb_f64", "scale<float,3>", "scale<double,4>", "set", "set"]
    x = np.ones(4)
    simulator.launch(text, 1, 4, (x,), name="scale<double, 4>").check()
    assert x.tolist() == [4] * 4
    y = np.ones(4, np.float32)
    simulator.launch(text, 1, 4, (y,), name="set").check()
    assert y.tolist() == [1] * 4


def test_types_constants_and_members_that_a_kernel_names():
    text = """
    typedef float real;
    typedef float (*Function)(float);
    enum { ROWS = 4, COLUMNS };
    using Index = unsigned;
    template <class T> using Same = T;
    [[maybe_unused]] constexpr int ONE = 1;
    const int N = ONE << 2, M = N * 2;
    __constant__ float weights[N] = {1, 2, 3, 4};
    template <class T> struct Sum {
        T value;
        Sum(std::vector<T>& all);
        __device__ explicit Sum(T first) : value(first) {}
        __device__ void add(T other);
        void print() { std::cout << value; }
    };
    template <class T> __device__ void Sum<T>::add(T other) { value += other; }
    __device__ real half_of(real x) { return x / 2; }
    __device__ Function function = half_of;
    __global__ void k(real* x) {
        Sum<real> sum(weights[threadIdx.x % N]);
        sum.add(COLUMNS);
        Same<Index> i = threadIdx.x;
        if (i < M) x[i] = half_of(sum.value);
    }
    int main() { Sum<float> sum(all); sum.print(); }
    """
    x = np.zeros(8, np.float32)
    simulator.launch(text, 1, 8, (x,)).check()
    assert x.tolist() == [3, 3.5, 4, 4.5] * 2


def test_names_of_other_namespaces_are_left_out():
    text = """
    namespace one { __device__ float load(float* x) { return x[0]; } }
    namespace two { __device__ float load(float* x) { return unknown::load(x); } }
    __global__ void k(float* x) { x[1] = one::load(x); }
    int main() {}
    """
    simulator.launch(text, 1, 1, (np.ones(2, np.float32),)).check()


def test_headers_beside_the_file_and_macros_of_options(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "more.cuh").write_text("#pragma once\n#define MORE 3\n")
    (tmp_path / "twice.cuh").write_text(
        '#include "more.cuh"\n__device__ inline float f(float a) { return MORE * SCALE * a; }\n'
    )
    file = tmp_path / "main.cu"
    file.write_text('#include "twice.cuh"\n__global__ void k(float* x) { x[threadIdx.x] = f(x[threadIdx.x]); }\n')
    x = np.ones(4, np.float32)
    simulator.launch(file, 1, 4, (x,), options=("-DSCALE=2", f"-I{tmp_path / 'inc'}")).check()
    assert x.tolist() == [6] * 4
    assert simulator.launch(str(file), 1, 4, (x,), options=("-DSCALE=2", f"-I{tmp_path / 'inc'}")).ok


def test_what_a_kernel_lacks_is_named():
    text = "#include <nowhere.h>\n#include <sys/time.h>\nint host(int a) { return a; }\n"
    text += "__global__ void k(int* x) { BODY; }\nint main() {}"
    with pytest.raises(CompilationError, match=r"host is a host function \(kernel.cu:3\): write __device__"):
        simulator.launch(text, 1, 1, (np.zeros(1, np.int32),), options=("-DBODY=x[0] = host(1)",))
    with pytest.raises(CompilationError, match=r"kernel.cu:1: #include <nowhere.h> is left out"):
        simulator.launch(text, 1, 1, (np.zeros(1, np.int32),), options=("-DBODY=from_nowhere(x)",))


@pytest.mark.parametrize(
    ("code", "grid", "block"),
    [
        ("dim3 b(16, 8); dim3 g((n + b.x - 1) / b.x, n / b.y); k<<<g, b>>>(p);", (7, 12, 1), (16, 8, 1)),
        ("int t = 1 << 5; k<<<(int)ceil(n / (float)t), t>>>(p);", 4, 32),
        ("dim3 g; g.x = 3; g = dim3{2, 2}; k<<<g, dim3(4)>>>(p);", (2, 2, 1), (4, 1, 1)),
        ("int blocks = std::min(64, up(n, 32)); k<<<blocks, 32>>>(p);", 4, 32),
        ("run(n / 2, p);", 50, 8),
        ("dim3 g, b(8); g.x = n / 10; g.y = 3; k << <g, b >> >(p);", (10, 3, 1), 8),
        ("int blocks[] = {3, 5}; for (int i = 0; i < 2; i++) { int b = blocks[i]; k<<<b, 8>>>(p); }", 3, 8),
        ("int g = 7; if (argc > 1) g = atoi(argv[1]); k<<<g, 8>>>(p);", 7, 8),
        ("unsigned t = 256u, g = n % 7 ? n >> 2 : 0x10; k<<<g, t>>>(p);", 25, 256),
    ],
)
def test_values_of_launches(code, grid, block):
    text = f"""
    __global__ void k(float* p) {{ p[0] = 1; }}
    constexpr int up(int a, int b) {{ return (a + b - 1) / b; }}
    void run(int blocks, float* q) {{ k<<<blocks, 8, 0, 0>>>(q); }}
    int main(int argc, char** argv) {{ const int n = 100; float* p; cudaMalloc(&p, n * sizeof(float)); {code} }}
    """
    found = host(text)
    launch = found.launches[-1]
    assert found.value(launch.grid, launch.at) == grid
    assert found.value(launch.block, launch.at) == block
    assert found.bytes_of(launch.arguments[0], launch.at) == 400


def test_values_that_replace_those_of_the_text():
    found = host("""
    __global__ void k(float* p, int n) { p[0] = n; }
    void run(int count, float* q) { k<<<(count + 31) / 32, 32>>>(q, count); }
    int main() { int n = 1000; float* p; cudaMalloc(&p, n * sizeof(float)); run(n, p); }
    """)
    launch = found.launches[0]
    assert found.value(launch.grid, launch.at) == 32
    other = dict.fromkeys(found.roots(launch.arguments[1], launch.at), 64)
    assert found.value(launch.grid, launch.at, other) == 2
    assert found.bytes_of(launch.arguments[0], launch.at, other) == 256


def test_launches_under_conditions_that_do_not_hold():
    found = host("""
    template <int N> __global__ void k(float* p) { p[0] = N; }
    void run(int size, float* q) {
        if (size == 16) { k<16><<<1, 16>>>(q); } else if (size == 32) k<32><<<1, 32>>>(q);
        else { k<64><<<1, 64>>>(q); }
    }
    int main() { float* p; run(32, p); }
    """)
    assert [found.is_skipped(each) for each in found.launches] == [True, False, True]


def test_types_of_launchers_that_are_templates():
    found = host("""
    template <class T> __global__ void k(T* p) { p[0] = 1; }
    template <typename T, int N> void run(T* q) { k<T><<<N, 32>>>(q); }
    template void run<double, 4>(double*);
    """)
    (launch,) = found.launches
    assert found.template_argument(found.text(launch.template[0]), launch.at) == "double"
    assert found.template_argument("U", launch.at) == ""


def test_variables_that_are_written_as_large_numbers():
    found = host("""
    const int all = 1 << 20;
    __global__ void k(float* p) { p[0] = 1; }
    int main() { int n = 16 * 1024, few = 3; float* p; cudaMalloc(&p, n * sizeof(float)); k<<<all / n, few>>>(p); }
    """)
    (launch,) = found.launches
    large = found.large_literals(launch, 1000)
    assert sorted(name for _, name in large) == ["all", "n"]
    fewer = dict.fromkeys(large, 1000)
    assert found.value(launch.grid, launch.at, fewer) == 1
    assert found.bytes_of(launch.arguments[0], launch.at, fewer) == 4000
