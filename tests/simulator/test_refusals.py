"""Tests that unsupported features are refused by name and line, with an alternative."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import CompilationError
from tiledmm.simulator.build import cxx, toolchain
from tiledmm.simulator.build.translation import refusals, unit


def refusal(text: str, **options) -> str:
    with pytest.raises(CompilationError) as raised:
        simulator.launch(text, 1, 32, (np.zeros(32, np.int32),), **options)
    return str(raised.value).removeprefix("the kernel does not compile for the CPU: ")


def in_kernel(line: str, **options) -> str:
    return refusal(f"__global__ void kernel(int* out) {{\n    {line}\n}}\n", **options)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("atomicMinn(out, 1);", r"atomicMinn\b.*\batomicMin\b"),
        ("int value = 3; out[0] = valeu;", r"valeu\b.*\bvalue\b"),
        ("out[0] = nothing_like_it(3);", "nothing_like_it is undefined"),
        ("out[0] = tex2D<int>(0, 1, 2);", "tex2D.*textures"),
        ("kernel<<<1, 32>>>(out);", "kernel launch"),
        ("cudaMalloc(&out, 4);", "cudaMalloc: this is host code.*NumPy"),
        ("out[0] = __shfl(out[0], 1);", r"__shfl\b.*7\.0.*_sync"),
        ("std::vector<int> v;", "std::vector: this is host code"),
        ("namespace cg = cooperative_groups;", "cooperative_groups.*<cooperative_groups.h>"),
        ("struct S { int a[9]; } s; __shfl_sync(~0u, s, 0);", "shuffle.*int, unsigned"),
        ("int n = out[0]; int sums[n]; out[1] = sums[0];", "size of an array"),
        ("__shared__ int sums[32] = {0}; out[0] = sums[0];", "initializer"),
        ("int* p = (int*)calloc(4, 4);", "calloc: .*malloc"),
        ("cuda::atomic_ref<int> sum(*out); sum.fetch_add(1);", r"cuda: libcu\+\+.*atomicAdd"),
        ('static_assert(sizeof(int) == 8, "an int of 8 bytes");', "an int of 8 bytes"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("surf2Dwrite(1, 2, 3, 4);", "surf2Dwrite.*surfaces"),
                ("cuda::std::array<int, 3> sums;", r"cuda: libcu\+\+.*<array>"),
                ("__shared__ cuda::barrier<cuda::thread_scope_block> all;", r"cuda: libcu\+\+.*__syncthreads"),
                ("auto stages = cuda::make_pipeline();", r"cuda: libcu\+\+.*cuda_pipeline\.h"),
                ("curand_init(1, 0, 0, out);", "curand_init: cuRAND"),
                ("cub::WarpReduce<int>::TempStorage held;", "cub: .*CUB"),
                ("out[0] = tex1Dfetch<int>(cudaTextureObject_t(), 0);", "textures"),
                ("out[0] = std::min(1, 2);", "std::min.*<algorithm>"),
                ("out[0] = std::numeric_limits<int>::max();", "std::numeric_limits.*<limits>"),
                ("half x;", "half.*<cuda_fp16.h>"),
                ("__pipeline_commit();", "__pipeline_commit.*<cuda_pipeline.h>"),
                ("curandState state;", "curandState.*cuRAND"),
                ("__shared__ alignas(16) float sum = 0.0f; out[0] = sum;", "initializer"),
            )
        ),
    ],
)
def test_one_sentence_at_its_line(line, named):
    said = in_kernel(line)
    assert re.match(rf"kernel\.cu:2: .*{named}", said)
    assert said.endswith("\n  " + line)
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("cuda/std/atomic", r"libcu\+\+"), ("cublas_v2.h", "host code"),
        *(pytest.param(*case, marks=pytest.mark.slow)
          for case in (("thrust/device_vector.h", "thrust"), ("cub/cub.cuh", "CUB"), ("curand_kernel.h", "cuRAND"),
                       ("cuda_fp4.h", "4 bits"))),
    ],
)  # fmt: skip
def test_headers_of_the_host_are_left_out_and_named_where_something_is_missing(header, named):
    kernel = f"// A kernel.\n#include <{header}>\n__global__ void kernel(int* out) {{ out[0] = %s; }}\n"
    out = np.ones(1, np.int32)
    assert simulator.launch(kernel % "0", 1, 1, (out,)).ok and out[0] == 0
    assert re.search(rf"kernel\.cu:2: #include <{header}> is left out: .*{named}", refusal(kernel % "missing(1)"))


def test_functions_of_clusters_need_hopper():
    text = "__global__ void kernel(int* out) { out[0] = __clusterIdx().x; }"
    with pytest.raises(CompilationError, match=r"kernel\.cu:1: __clusterIdx: .*sm_90"):
        simulator.launch(text, 1, 1, (np.zeros(1, np.int32),), target="sm_80")
    assert re.search(r"clusterIdx: .*__clusterIdx\(\)", in_kernel("out[0] = clusterIdx.x;"))


def test_what_looks_like_a_refused_text_is_none():
    text = """
    struct alignas(16) Node { int value; __device__ Node& operator=(const Node& b) { value = b.value; return *this; } };
    __global__ void kernel(int* out) {
        __shared__ int sums[32 >= 8 ? 32 : 8];   // = {0} would be none
        __shared__ union { int i; float f; } both;
        both.i = 3, sums[0] = both.i;
        struct Only { Only(const Only&) = delete; void* operator new(size_t) = delete; };
        printf("a new value, __shared__ = %d", sums[0]);
        out[0] = sums[0];
    }"""
    out = np.zeros(1, np.int32)
    simulator.launch(text, 1, 1, (out,)).check()
    assert out[0] == 3


def test_unused_headers_of_the_host_are_no_error():
    includes = "#include <iostream>\n#include <vector>\nusing namespace std;\n"
    out = np.zeros(1, np.int32)
    simulator.launch(includes + "__global__ void kernel(int* out) { out[0] = 1; }", 1, 1, (out,)).check()
    assert out[0] == 1


def test_architectures_lack_functions():
    said = in_kernel("out[0] = __reduce_add_sync(~0u, out[0]);", target="sm_75")
    assert re.match(r'kernel\.cu:2: __reduce_add_sync.*8\.0.*"sm_80"', said)


def test_other_errors_are_the_first_alone():
    said = in_kernel("out[0] = 1")
    assert re.fullmatch(r"kernel\.cu:2: expected ';' .*\n  out\[0\] = 1", said)
    said = in_kernel("out[threadIdx.w] = 1; out[threadIdx.v] = 2;")
    assert re.match(r"kernel\.cu:2: .*no member named 'w'", said)
    assert "'v'" not in said.splitlines()[0]


def test_an_error_within_a_template_of_the_simulator_is_at_the_kernels_line():
    text = """template <class T>
    __device__ void f(T* x) {
        atomicAdd(x, T(1));
    }
    __global__ void kernel(int* out) { short s; f(&s); }
    """
    assert refusal(text).startswith("kernel.cu:3: CUDA has no atomicAdd")
    text = """#include <mma.h>
    __global__ void kernel(int* out) {
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 8, 8, 8, float> f;
    }
    """
    assert refusal(text).startswith("kernel.cu:3: wmma has no fragment")


def test_a_template_is_named_with_its_arguments():
    said = refusal("template <class T> __global__ void kernel(T* out) { out[0] = 1; }", name="kernel")
    assert "template arguments" in said


def test_errors_of_clang():
    output = """In file included from unit.cpp:2:
./kernel.cu:2:5: error: use of undeclared identifier 'atomicMinn'; did you mean 'atomicMin'?
    atomicMinn(out, 1);
    ^~~~~~~~~~
1 error generated.
"""
    found = refusals.explain(output, "a\n    atomicMinn(out, 1);\n", {"atomicMin": ""})
    assert found is not None and found.line == 2 and re.search(r"atomicMinn\b.*\batomicMin\b", found.reason)
    assert refusals.explain("ld: cannot find -lm", "", {}) is None


def test_the_names_that_bring_headers_are_theirs(tmp_path):
    """``unit.needed`` finds every function of the headers that are not always there."""
    command = [*cxx.compiler(), "-x", "c++", "-std=c++17", "-D__CUDA_ARCH__=900", "-iquote", str(toolchain.NATIVE)]
    known = refusals.known_names([*command, f"-I{toolchain.NATIVE / 'include'}"], toolchain.NATIVE, tmp_path)
    for name in unit.FUNCTIONS - {"nanff"}:
        assert name in known, name
    for name in ("atomicAdd_system", "__vadd4", "__float2int_rz", "__match_any_sync", "cuda_fp16.h"):
        assert (name in known) == (name != "cuda_fp16.h")
    assert unit.needed("x = sinf(y); atomicAdd(p, 1);") == ["atomics.h", "functions.h"]
    assert unit.needed("x = __fmaf_rn(y, z, 1) + min(a, b);") == []
