"""Correct kernels, with bugs that a compiler, a driver or the documented range of a function rules out.

Other bugs are in the branch of an ``#if`` that the target's compiler takes, and show only if the simulator takes it.
"""

from __future__ import annotations

import numpy as np

from tests.simulator.planted_bugs import Bug, Kernel

T = np.arange(32)

KERNELS: dict[str, Kernel] = {}

KERNELS["static shared memory"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    __shared__ int s[12288];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x];
}
""",
    lambda x: 31 - T,
    {
        "one element too many": Bug("s[12288]", "s[12289]", ("shared memory", "49,156", "49,152")),
        "two arrays": Bug(
            "s[12288];",
            "s[12288], other[1];\n    other[0] = 5;",
            ("shared memory",),
            at=("__shared__", "__global__"),
        ),
    },
    launch={"target": "sm_90"},
)

KERNELS["static shared memory of Hopper"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    __shared__ int s[58112];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x];
}
""",
    lambda x: 31 - T,
    {
        "without Hopper's features": Bug(
            "", "", ("shared memory", "232,448", "49,152"), at=("__shared__",), launch={"target": "sm_90"}
        ),
        "one element too many": Bug("s[58112]", "s[58113]", ("shared memory", "232,452", "232,448")),
    },
)

KERNELS["static and dynamic shared memory"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    __shared__ int fixed[256];
    extern __shared__ int s[];
    fixed[threadIdx.x] = x[threadIdx.x];
    s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = fixed[31 - threadIdx.x] + s[31 - threadIdx.x];
}
""",
    lambda x: 32 - T,
    {
        "static too large": Bug("fixed[256];", "fixed[257];", ("shared memory", "1,028", "101,376")),
        "dynamic too large": Bug(
            "",
            "",
            ("shared memory", "101,376"),
            at=("__shared__", "__global__"),
            launch={"shared_bytes": 101376 - 1020},
        ),
        "GPU with less": Bug("", "", ("shared_bytes", "65536"), launch={"target": "sm_75"}),
    },
    launch={"target": "sm_86", "shared_bytes": 101376 - 1024},
)

KERNELS["calls of itself"] = Kernel(
    """
__device__ int sum(const int* x, int n) {
    if (n < 4) return x[0];
    return sum(x, n / 2) + x[0];
}
__global__ void k(const int* x, int* out, int n) {
    out[threadIdx.x] = sum(x, n) + threadIdx.x;
}
""",
    lambda x: T,
    {
        "one at a time": Bug(
            "sum(x, n / 2)", "sum(x, n - 1)", ("deep calls", "1,024"), at=("sum(", "return x[0]"), warns=True
        ),
        "without an end": Bug("if (n < 4) return x[0];", "", ("stack overflow",), at=("sum(",)),
        "large array in each call": Bug(
            "if (n < 4) return x[0];",
            "int here[512]; here[n] = 0;\n    if (n < 4) return x[0] + here[n];",
            ("stack", "1,024"),
            at=("sum(", "here"),
            warns=True,
        ),
    },
)

KERNELS["local memory"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int table[130000];
    for (int i = 0; i < n; ++i) table[x[i] * 1000] = i;
    out[0] = table[5000];
}
""",
    lambda x: [5],
    {"too large": Bug("table[130000]", "table[131400]", ("local memory", "524,288"))},
    block=1,
)

KERNELS["constants"] = Kernel(
    """
__constant__ int table[16384];
__global__ void k(const int* x, int* out, int n) {
    out[threadIdx.x] = x[threadIdx.x] + table[16383];
}
""",
    lambda x: T,
    {
        "one element too many": Bug("table[16384]", "table[16385]", ("constant memory", "65,540", "65,536")),
        "one variable too many": Bug(
            "__constant__ int table[16384];",
            "__constant__ int table[16384];\n__constant__ int another;",
            ("constant memory", "65,536"),
        ),
    },
)

KERNELS["parameters"] = Kernel(
    """
struct Table { int values[8186]; };
__global__ void k(const int* x, int* out, int n, Table table) {
    out[threadIdx.x] = x[threadIdx.x] + table.values[8];
}
""",
    lambda x: T,
    {
        "four bytes too many": Bug(
            "values[8186]",
            "values[8187]",
            ("parameters", "32,768", "32,764"),
            at=("__global__", "values[8187]"),
            launch={"more": ({"values": np.zeros(8187, np.int32)},)},
        ),
        "reference": Bug("int n,", "int& n,", ("reference",)),
        "result": Bug("__global__ void k", "__global__ int k", ("void",)),
    },
    launch={"more": ({"values": np.zeros(8186, np.int32)},)},
)

KERNELS["launch bounds"] = Kernel(
    """
__global__ void __launch_bounds__(64) k(const int* x, int* out, int n) {
    out[threadIdx.x] = x[threadIdx.x];
}
""",
    lambda x: np.arange(64),
    {
        "smaller than the block": Bug("__launch_bounds__(64)", "__launch_bounds__(32)", ("launch bounds", "64", "32")),
    },
    block=64,
)

KERNELS["fragments of half"] = Kernel(
    """
#include <mma.h>
#include <cuda_bf16.h>
using namespace nvcuda;
using Element = __half;
__global__ void k(const float* x, float* out, int n) {
    __shared__ Element s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = Element(i / 16 == i % 16 ? 2.0f : 0.0f);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, Element, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, Element, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::load_matrix_sync(a, s, 16);
    wmma::load_matrix_sync(b, s, 16);
    wmma::fill_fragment(c, 0.0f);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}
""",
    lambda x: 4 * np.eye(16).ravel(),
    {
        "shape of tf32": Bug("matrix_a, 16, 16, 16", "matrix_a, 16, 16, 8", ("fragment", "16, 16, 8")),
        "shape of no type": Bug("matrix_a, 16, 16, 16", "matrix_a, 32, 32, 16", ("fragment", "32, 32, 16")),
        "accumulators of double": Bug("16, 16, 16, float> c", "16, 16, 16, double> c", ("fragment", "double")),
        "accumulators of int": Bug(
            "16, 16, 16, float> c", "16, 16, 16, int> c", ("accumulator", "int"), at=("int> c;", "mma_sync", "store_")
        ),
        "accumulators with a layout": Bug(
            "16, 16, 16, float> c", "16, 16, 16, float, wmma::row_major> c", ("fragment", "row_major")
        ),
        "a without a layout": Bug(
            "matrix_a, 16, 16, 16, Element, wmma::row_major", "matrix_a, 16, 16, 16, Element", ("fragment", "layout")
        ),
        "b of another shape": Bug(
            "matrix_b, 16, 16, 16", "matrix_b, 8, 32, 16", ("mma_sync",), at=("mma_sync", "matrix_b")
        ),
        "b of another type": Bug(
            "matrix_b, 16, 16, 16, Element",
            "matrix_b, 16, 16, 16, __nv_bfloat16",
            ("__nv_bfloat16",),
            at=("mma_sync", "matrix_b", "sync(b"),
        ),
        "a where b belongs": Bug("mma_sync(c, a, b, c)", "mma_sync(c, b, a, c)", ("mma_sync",)),
        "layout of the store is a type": Bug("wmma::mem_row_major", "wmma::row_major", ("row_major",)),
        "accumulator loaded without a layout": Bug(
            "wmma::fill_fragment(c, 0.0f);", "wmma::load_matrix_sync(c, out, 16);", ("load_matrix_sync", "layout")
        ),
        "accumulator stored as another type": Bug(
            "16, 16, 16, float> c", "16, 16, 16, __half> c", ("store_matrix_sync",), at=("(out, c",)
        ),
        "stride of 9 elements": Bug("load_matrix_sync(a, s, 16)", "load_matrix_sync(a, s, 9)", ("leading dimension",)),
        "address between two rows": Bug(
            "load_matrix_sync(a, s, 16)", "load_matrix_sync(a, s + 8, 8)", ("multiple of 32",)
        ),
        "bfloat16 of Turing": Bug(
            "Element = __half;",
            "Element = __nv_bfloat16;",
            ("fragment",),
            at=("wmma::fragment",),
            launch={"target": "sm_75"},
        ),
    },
    dtype="float32",
    launch={"target": "sm_80"},
)

KERNELS["fragments of integers"] = Kernel(
    """
#include <mma.h>
using namespace nvcuda;
__global__ void k(const int* x, int* out, int n) {
    __shared__ __align__(32) signed char s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = i / 16 == i % 16 ? 2 : 0;
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
    wmma::load_matrix_sync(a, s, 16);
    wmma::load_matrix_sync(b, s, 16);
    wmma::fill_fragment(c, 0);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}
""",
    lambda x: 4 * np.eye(16).ravel(),
    {
        "accumulators of float": Bug(
            "16, 16, 16, int> c",
            "16, 16, 16, float> c",
            ("accumulator", "float"),
            at=("float> c;", "mma_sync", "store_"),
        ),
        "short integers": Bug(
            "matrix_a, 16, 16, 16, signed char", "matrix_a, 16, 16, 16, short", ("fragment", "short")
        ),
        "shape of halves": Bug("matrix_b, 16, 16, 16", "matrix_b, 16, 16, 8", ("fragment", "16, 16, 8")),
    },
    launch={"target": "sm_80"},
)

KERNELS["functions by name"] = Kernel(
    """
__device__ int twice(int value);
__device__ int twice(int value) { return 2 * value; }
inline __device__ int thrice(int value) { return 3 * value; }
extern __device__ int offset;
__device__ int offset = 1;
__global__ void k(const int* x, int* out, int n) {
    int value = twice(x[threadIdx.x]);
    value += thrice(x[threadIdx.x]);
    out[threadIdx.x] = value + offset;
}
""",
    lambda x: 5 * T + 1,
    {
        "declared alone": Bug(
            "__device__ int twice(int value) { return 2 * value; }",
            "",
            ("twice", "not defined"),
            at=("int twice", "= twice("),
        ),
        "defined for other arguments": Bug(
            "__device__ int twice(int value) {",
            "__device__ int twice(float value) {",
            ("twice", "not defined"),
            at=("int twice", "= twice("),
        ),
        "misspelled": Bug("= twice(x", "= twise(x", ("twise",)),
        "variable of nowhere": Bug("__device__ int offset = 1;", "", ("offset", "not defined"), at=("offset;",)),
        "function of the host": Bug(
            "inline __device__ int thrice",
            "inline __host__ int thrice",
            ("thrice", "host"),
            at=("thrice(",),
        ),
        "function of nobody": Bug(
            "inline __device__ int thrice", "inline int thrice", ("thrice", "__device__"), at=("thrice(",)
        ),
    },
)

KERNELS["braces"] = Kernel(
    """
__device__ int clamp(int value) {
    if (value > 20) {
        return 20;
    }
    return value;
}
/* the kernel */
__global__ void k(const int* x, int* out, int n) {
    int sum = 0;
    for (int i = 0; i < 2; ++i) {
        sum += clamp(x[threadIdx.x] + i);
    }
    out[threadIdx.x] = sum; // twice
}
""",
    lambda x: np.minimum(T, 20) + np.minimum(T + 1, 20),
    {
        "function is not closed": Bug("    return value;\n}", "    return value;", ("{",), at=("int clamp(",)),
        "loop is not closed": Bug("+ i);\n    }", "+ i);", ("{",), at=("for (", "void k(")),
        "one brace too many": Bug("sum; // twice\n}", "sum; // twice\n}\n}", ("}",)),
        "comment is not closed": Bug("/* the kernel */", "/* the kernel", ("comment",)),
        "parenthesis is not closed": Bug("clamp(x[threadIdx.x] + i);", "clamp(x[threadIdx.x] + i;", (")",)),
        "bracket is not closed": Bug("clamp(x[threadIdx.x] + i);", "clamp(x[threadIdx.x + i);", ("]",)),
        "no semicolon": Bug("int sum = 0;", "int sum = 0", (";",), at=("int sum = 0", "for (")),
    },
)

KERNELS["branches by the compiler"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int value = x[threadIdx.x];
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    value += 100; // Hopper alone
#else
    value += 200; // any GPU
#endif
#if CUDART_VERSION >= 12000
    value += 1000; // runtime of today
#else
    value += 2000;
#endif
#if __CUDACC_VER_MAJOR__ >= 12 && defined(__CUDACC_RTC__) && !defined(__NVCC__)
    value += 10000; // NVRTC
#else
    value += 20000;
#endif
#if __CUDA_ARCH__ == 900
    value += 100000; // compute capability 9.0
#elif __CUDA_ARCH__ == 750
    value += 200000; // compute capability 7.5
#endif
#ifdef CUDA_VERSION
    value += 1000000;
#else
    value += 2000000; // without cuda.h
#endif
#if __CUDA_ARCH_SPECIFIC__ == 900
    value += 10000000; // specific to Hopper
#endif
    out[threadIdx.x] = value;
}
""",
    lambda x: T + 12111100,
    {
        "Hopper's features": Bug("value += 100;", "value = x[n + 10000];", ("global access out of bounds",)),
        "without Hopper's features": Bug(
            "value += 200;", "value = x[n + 10000];", ("global access out of bounds",), launch={"target": "sm_90"}
        ),
        "runtime": Bug("value += 1000;", "value = x[n + 10000];", ("global access out of bounds",)),
        "NVRTC": Bug("value += 10000;", "value = x[n + 10000];", ("global access out of bounds",)),
        "capability 9.0": Bug("value += 100000;", "value = x[n + 10000];", ("global access out of bounds",)),
        "capability 7.5": Bug(
            "value += 200000;", "value = x[n + 10000];", ("global access out of bounds",), launch={"target": "sm_75"}
        ),
        "without cuda.h": Bug("value += 2000000;", "value = x[n + 10000];", ("global access out of bounds",)),
        "specific": Bug("value += 10000000;", "value = x[n + 10000];", ("global access out of bounds",)),
        "refused": Bug("value += 1000; //", "\n#error too new\n//", ("too new",)),
    },
)

KERNELS["branches by cuda.h"] = Kernel(
    """
#include <cuda.h>
__global__ void k(const int* x, int* out, int n) {
    int value = x[threadIdx.x];
#if CUDA_VERSION >= 13000
    value += 1; // today
#elif CUDA_VERSION > 0
    value += 2;
#else
    value += 3;
#endif
    out[threadIdx.x] = value;
}
""",
    lambda x: T + 1,
    {"version of today": Bug("value += 1;", "value = x[n + 10000];", ("global access out of bounds",))},
)

KERNELS["fast functions"] = Kernel(
    """
__global__ void k(const float* x, float* out, int n) {
    const float value = x[threadIdx.x];
    float sum = 0;
    sum += __powf(value + 1, 0.0f);
    sum += 0 * __sinf(0.1f * value);
    sum += 0 * __cosf(0.1f * value);
    sum += 0 * __tanf(0.02f * value);
    sum += 0 * __fdividef(value, 4.0f);
    float s, c;
    __sincosf(0.05f * value, &s, &c);
    sum += 0 * s + 0 * c;
    sum += 0 * __expf(-value);
    sum += 0 * sinf(100 * value);
    sum += 0 * __logf(value + 1);
    out[threadIdx.x] = sum;
}
""",
    lambda x: T * 0 + 1,
    {
        "negative base": Bug(
            "__powf(value + 1, 0.0f)", "fmaxf(__powf(-2.0f, 2.0f), 1.0f)", ("__powf", "-2"), warns=True
        ),
        "negative base of some": Bug(
            "__powf(value + 1, 0.0f)",
            "(value > 30 ? 1 : 1 + 0 * fmaxf(__powf(value - 3, 2.0f), 0.0f))",
            ("__powf",),
            warns=True,
        ),
        "sine of great angles": Bug("__sinf(0.1f * value)", "__sinf(value)", ("__sinf",), warns=True),
        "cosine of great angles": Bug("__cosf(0.1f * value)", "__cosf(-value)", ("__cosf",), warns=True),
        "tangent of great angles": Bug("__tanf(0.02f * value)", "__tanf(2 * value)", ("__tanf",), warns=True),
        "both of great angles": Bug("__sincosf(0.05f * value,", "__sincosf(50 * value,", ("__sincosf",), warns=True),
        "great divisor": Bug("__fdividef(value, 4.0f)", "__fdividef(value, 2e38f)", ("__fdividef",), warns=True),
        "sine by -use_fast_math": Bug(
            "", "", ("sinf",), at=("sinf(100",), warns=True, launch={"options": ("-use_fast_math",)}
        ),
    },
    dtype="float32",
)

KERNELS["language of NVRTC"] = Kernel(
    """
struct Shape { int rows; __device__ virtual int size() const { return rows; } };
__global__ void k(const int* x, int* out, int n) {
    __shared__ int s[4];
    int local[4] = {1, 2, 3, 4};
    if (threadIdx.x < 4) s[threadIdx.x] = local[threadIdx.x];
    asm volatile("bar.sync 1, 32;" ::: "memory");
    int r;
    asm("add.s32 %0, %1, 1;" : "=r"(r) : "r"(x[threadIdx.x]));
    out[threadIdx.x] = r + s[threadIdx.x % 4];
}
""",
    lambda x: T + 1 + 1 + T % 4,
    {
        "array of a length that is not constant": Bug(
            "int local[4] = {1, 2, 3, 4};",
            "int local[n]; for (int i = 0; i < 4; ++i) local[i] = i + 1;",
            ("must be a compile-time constant",),
        ),
        "shared array with values": Bug("__shared__ int s[4];", "__shared__ int s[4] = {1, 2, 3, 4};", ("__shared__",)),
        "exception": Bug("int r;", "int r; if (n < 0) throw 1;", ("throw",)),
        "typeid": Bug("int r;", "int r; Shape shape; if (&typeid(shape) == nullptr) r = 1;", ("typeid",)),
        "barrier 16": Bug("bar.sync 1, 32", "bar.sync 16, 32", ("bar.sync", "16")),
        "barrier of half a warp": Bug("bar.sync 1, 32", "bar.sync 1, 16", ("bar.sync", "16")),
        "register of another size": Bug('"r"(x[threadIdx.x])', '"l"(x[threadIdx.x])', ("add.s32", "64 bits")),
        "dynamic_cast": Bug(
            "int r;", "int r; Shape shape; if (!dynamic_cast<Shape*>(&shape)) r = 1;", ("dynamic_cast",)
        ),
        "thread_local": Bug("int r;", "thread_local int r;", ("thread_local",)),
        "shared memory of a member": Bug("int rows;", "int rows; __shared__ int s[4];", ("__shared__",)),
        "threads above the limit": Bug("", "", ("1024", "1025"), launch={"block": 1025}),
    },
)
