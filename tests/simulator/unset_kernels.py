"""Correct kernels, with bugs that read what nobody has set: variables, elements, shared and global memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.planted_bugs import Bug, Kernel

_VARIABLE = "variable read before it is set"
_ELEMENT = "read before it is set"
_SHARED = "uninitialised shared memory"
_RESULT = "uninitialised result"
_NO_VALUE = "does not return a value"

T = np.arange(32)

KERNELS: dict[str, Kernel] = {}

KERNELS["place by reference"] = Kernel(
    """
__device__ bool find(const int* x, int n, int wanted, int& place) {
    place = -1;
    for (int i = 0; i < n; ++i) {
        if (x[i] == wanted) {
            place = i;
            return true;
        }
    }
    return false;
}
__global__ void k(const int* x, int* out, int n) {
    int place;
    find(x, n, 3 * threadIdx.x, place);
    out[threadIdx.x] = place;
}
""",
    lambda x: np.where(3 * T < 64, 3 * T, -1),
    {
        "not set where nothing is found": Bug("place = -1;", "", (_VARIABLE, "place"), at=("int place;", "= place;")),
        "parameter by value": Bug("int& place", "int place", (_VARIABLE, "place"), at=("int place;", "= place;")),
        "set only where it is found": Bug(
            "place = -1;", "if (wanted < n) place = -1;", (_VARIABLE, "place"), at=("int place;", "= place;")
        ),
    },
)

KERNELS["range by pointers"] = Kernel(
    """
__device__ void range(const int* x, int n, int* low, int* high) {
    *low = x[0];
    *high = x[0];
    for (int i = 1; i < n; ++i) {
        if (x[i] < *low) *low = x[i];
        if (x[i] > *high) *high = x[i];
    }
}
__global__ void k(const int* x, int* out, int n) {
    int low;
    int high;
    range(x + 4 * threadIdx.x, 4, &low, &high);
    out[2 * threadIdx.x] = low;
    out[2 * threadIdx.x + 1] = high;
}
""",
    lambda x: np.stack([4 * T, 4 * T + 3], 1).ravel(),
    {
        "maximum starts with nothing": Bug(
            "*high = x[0];", "", (_VARIABLE, "high"), at=("int high;", "> *high", "= high;")
        ),
        "one variable for both": Bug("&low, &high", "&low, &low", (_VARIABLE, "high"), at=("int high;", "= high;")),
    },
)

KERNELS["flag of a search"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    bool found = false;
    int last = -1;
    for (int i = 0; i < n; ++i) {
        if (x[i] == 2 * threadIdx.x + 10) found = true;
        if (x[i] % 40 == threadIdx.x + 10) last = i;
    }
    out[threadIdx.x] = found ? 100 + last : last;
}
""",
    lambda x: np.array(
        [(100 if 2 * t + 10 < 64 else 0) + max((i for i in range(64) if i % 40 == t + 10), default=-1) for t in T]
    ),
    {
        "flag without a value": Bug(
            "bool found = false;", "bool found;", (_VARIABLE, "found"), at=("bool found;", "found ?")
        ),
        "last without a value": Bug("int last = -1;", "int last;", (_VARIABLE, "last"), at=("int last;", "found ?")),
    },
)

KERNELS["bounds of a loop"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int begin, end;
    if (threadIdx.x < 31) {
        begin = 2 * threadIdx.x;
        end = begin + 2;
    } else {
        begin = 62;
        end = n;
    }
    int sum = 0;
    for (int i = begin; i < end; ++i) sum += x[i];
    out[threadIdx.x] = sum;
}
""",
    lambda x: 4 * T + 1,
    {
        "last thread has no end": Bug("end = n;", "", (_VARIABLE, "end"), at=("int begin, end;", "i < end")),
        "last thread has no begin": Bug("begin = 62;", "", (_VARIABLE, "begin"), at=("int begin, end;", "i < end")),
        "sum without a value": Bug(
            "int sum = 0;", "int sum;", (_VARIABLE, "sum"), at=("int sum;", "sum += ", "= sum;")
        ),
    },
)

KERNELS["distance by a switch"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int distance;
    switch (threadIdx.x % 4) {
        case 0: distance = 1; break;
        case 1: distance = 5; break;
        case 2: distance = 9; break;
        default: distance = 0;
    }
    out[threadIdx.x] = x[threadIdx.x + distance];
}
""",
    lambda x: T + np.array([1, 5, 9, 0])[T % 4],
    {
        "default without a value": Bug(
            "default: distance = 0;", "default: break;", (_VARIABLE, "distance"), at=("int distance;", "+ distance]")
        ),
        "case without a value": Bug(
            "case 1: distance = 5; break;",
            "case 1: break;",
            (_VARIABLE, "distance"),
            at=("int distance;", "+ distance]"),
        ),
    },
)

KERNELS["bit-fields"] = Kernel(
    """
struct Bits { unsigned valid : 1, row : 5, column : 10; };
__global__ void k(const int* x, int* out, int n) {
    Bits bits;
    bits.valid = x[threadIdx.x] % 2;
    bits.row = threadIdx.x;
    bits.column = 3 * threadIdx.x;
    const int place = 100 * bits.row + bits.column;
    out[threadIdx.x] = bits.valid ? place : -1;
}
""",
    lambda x: np.where(T % 2, 103 * T, -1),
    {
        "valid is not set": Bug(
            "bits.valid = x[threadIdx.x] % 2;", "", (_VARIABLE, "bits"), at=("Bits bits;", "bits.valid ?")
        ),
        "some rows are not set": Bug(
            "bits.row = threadIdx.x;",
            "if (threadIdx.x < 8) bits.row = threadIdx.x;",
            (_VARIABLE, "bits"),
            at=("Bits bits;", "* bits.row +"),
        ),
    },
)

KERNELS["constructor"] = Kernel(
    """
struct Item {
    int key, value;
    __device__ Item(int k) : key(k), value(2 * k) {}
    __device__ int sum() const { return key + value; }
};
__global__ void k(const int* x, int* out, int n) {
    Item item(x[threadIdx.x]);
    out[threadIdx.x] = item.sum();
}
""",
    lambda x: 3 * T,
    {
        "forgets a member": Bug(
            ", value(2 * k)", "", (_VARIABLE, "item"), at=("Item item", "key + value", "item.sum()", ": key(k)")
        ),
    },
)

KERNELS["counts in registers"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int counts[4] = {};
    for (int i = 0; i <= threadIdx.x; ++i) ++counts[x[i] % 4];
    out[threadIdx.x] = counts[0] + 10 * counts[1] + 100 * counts[2] + 1000 * counts[3];
}
""",
    lambda x: sum(10**r * ((T - r) // 4 + 1) for r in range(4)),
    {
        "not cleared": Bug(
            "counts[4] = {}", "counts[4]", (_ELEMENT, "counts"), at=("int counts[4]", "++counts", "= counts[0]")
        ),
    },
)

KERNELS["tile in registers"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int acc[2][3];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j) acc[i][j] = 0;
    for (int step = 0; step < 4; ++step)
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 3; ++j) acc[i][j] += x[threadIdx.x + step] * (i + j);
    int sum = 0;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j) sum += acc[i][j];
    out[threadIdx.x] = sum;
}
""",
    lambda x: 9 * (4 * T + 6),
    {
        "one row is not cleared": Bug(
            "for (int i = 0; i < 2; ++i)\n        for (int j = 0; j < 3; ++j) acc[i][j] = 0;",
            "for (int i = 0; i < 1; ++i)\n        for (int j = 0; j < 3; ++j) acc[i][j] = 0;",
            (_ELEMENT, "acc"),
            at=("int acc[2][3];", "acc[i][j] +=", "sum += acc"),
        ),
        "one column is not cleared": Bug(
            "j < 3; ++j) acc[i][j] = 0;",
            "j < 2; ++j) acc[i][j] = 0;",
            (_ELEMENT, "acc"),
            at=("int acc[2][3];", "acc[i][j] +=", "sum += acc"),
        ),
    },
)

KERNELS["array by reference"] = Kernel(
    """
template <int N>
__device__ void load(const int* x, int (&values)[N]) {
    for (int i = 0; i < N; ++i) values[i] = x[i];
}
__global__ void k(const int* x, int* out, int n) {
    int values[4];
    load(x + 4 * threadIdx.x, values);
    out[threadIdx.x] = values[0] + values[1] + values[2] + values[3];
}
""",
    lambda x: 16 * T + 6,
    {
        "loads one element less": Bug(
            "i < N; ++i", "i < N - 1; ++i", (_ELEMENT, "values"), at=("int values[4];", "= values[0]")
        ),
        "loads from the second on": Bug(
            "int i = 0; i < N", "int i = 1; i < N", (_ELEMENT, "values"), at=("int values[4];", "= values[0]")
        ),
    },
)

KERNELS["stack of numbers"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int stack[8];
    int top = 0;
    for (int i = 0; i < 4; ++i) stack[top++] = x[threadIdx.x + i];
    int sum = 0;
    while (top > 0) sum = 3 * sum + stack[--top];
    out[threadIdx.x] = sum;
}
""",
    lambda x: 27 * (T + 3) + 9 * (T + 2) + 3 * (T + 1) + T,
    {
        "takes what is above the top": Bug(
            "sum = 3 * sum + stack[--top];",
            "sum = 3 * sum + stack[top--];",
            (_ELEMENT, "stack"),
            at=("int stack[8];", "stack[top--]"),
        ),
    },
)

KERNELS["shared histogram"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    __shared__ int bins[32];
    if (threadIdx.x < 32) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[x[threadIdx.x] % 32], 1);
    __syncthreads();
    if (threadIdx.x < 32) out[threadIdx.x] = bins[threadIdx.x];
}
""",
    lambda x: np.full(32, 2),
    {
        "half of it is cleared": Bug(
            "if (threadIdx.x < 32) bins", "if (threadIdx.x < 16) bins", (_SHARED, "bins"), at=("atomicAdd",)
        ),
        "not cleared": Bug(
            "    if (threadIdx.x < 32) bins[threadIdx.x] = 0;\n", "", (_SHARED, "bins"), at=("atomicAdd",)
        ),
    },
    block=64,
)

KERNELS["shared tile with a halo"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    extern __shared__ int s[];
    const int t = threadIdx.x;
    s[t + 1] = x[t];
    if (t == 0) s[0] = 0;
    if (t == blockDim.x - 1) s[t + 2] = 0;
    __syncthreads();
    out[t] = s[t] + s[t + 1] + s[t + 2];
}
""",
    lambda x: np.select([T == 0, T < 31], [1, 3 * T], 61),
    {
        "no right halo": Bug("    if (t == blockDim.x - 1) s[t + 2] = 0;\n", "", (_SHARED,), at=("out[t] =",)),
        "left halo by the wrong thread": Bug("if (t == 0) s[0]", "if (t == n) s[0]", (_SHARED,), at=("out[t] =",)),
    },
    launch={"shared_bytes": 34 * 4},
)

KERNELS["functions that return"] = Kernel(
    """
__device__ int sign(int value) {
    if (value > 10) return 1;
    if (value < 10) return -1;
    return 0;
}
__device__ int weight(int kind) {
    switch (kind) {
        case 0: return 7;
        case 1: return 9;
        default: return 11;
    }
}
struct Greater {
    __device__ bool operator()(int a, int b) const {
        if (a != b) return a > b;
        return false;
    }
};
__global__ void k(const int* x, int* out, int n) {
    Greater greater;
    int result = sign(x[threadIdx.x]);
    result += weight(x[threadIdx.x] % 3);
    result += greater(x[threadIdx.x], 20) ? 100 : 200;
    out[threadIdx.x] = result;
}
""",
    lambda x: np.sign(T - 10) + np.array([7, 9, 11])[T % 3] + np.where(T > 20, 100, 200),
    {
        "no sign of 10": Bug("return 0;", "", (_NO_VALUE,), at=("int sign(", "= sign(", "value < 10")),
        "no weight of other kinds": Bug(
            "default: return 11;", "default: break;", (_NO_VALUE,), at=("int weight(", "+= weight(")
        ),
        "no order of equal numbers": Bug("return false;", "", (_NO_VALUE,), at=("operator()", "a != b", "+= greater(")),
    },
)

KERNELS["scratch of floats"] = Kernel(
    """
__global__ void k(const float* x, float* out, int n, float* scratch) {
    const int t = threadIdx.x;
    scratch[t] = 2 * x[t];
    __syncthreads();
    out[t] = scratch[31 - t];
}
""",
    lambda x: 2 * (31 - T),
    {
        "half of it is written": Bug(
            "scratch[t] = 2", "if (t < 16) scratch[t] = 2", (_RESULT, "scratch"), at=("= scratch[31 - t]",)
        ),
        "not written": Bug("scratch[t] = 2 * x[t];", "", (_RESULT, "scratch"), at=("= scratch[31 - t]",)),
        "reads one beyond": Bug("scratch[31 - t]", "scratch[32 - t]", (_RESULT, "scratch")),
        "adds to the result": Bug("out[t] = ", "out[t] += ", (_RESULT, "out")),
    },
    dtype="float32",
    scratch="float32",
)

KERNELS["scratch of doubles"] = Kernel(
    """
__global__ void k(const float* x, float* out, int n, double* scratch) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) scratch[i] = 0.5 * x[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int i = 0; i < n; ++i) sum += scratch[i];
        out[0] = sum;
    }
}
""",
    lambda x: np.array([0.5 * sum(range(64))]),
    {
        "strides over two blocks": Bug(
            "i += blockDim.x", "i += 2 * blockDim.x", (_RESULT, "scratch"), at=("sum += scratch",)
        ),
        "sums one more": Bug("i < n; ++i) sum", "i <= n; ++i) sum", (_RESULT, "scratch")),
    },
    dtype="float32",
    scratch="float64",
)

KERNELS["counter in scratch"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n, int* scratch) {
    if (threadIdx.x < 2) scratch[threadIdx.x] = 0;
    __syncthreads();
    if (x[threadIdx.x] % 3 == 0) atomicAdd(&scratch[0], 1);
    if (x[threadIdx.x] % 5 == 0) atomicAdd(&scratch[1], 1);
    __syncthreads();
    if (threadIdx.x < 2) out[threadIdx.x] = scratch[threadIdx.x];
}
""",
    lambda x: np.array([11, 7]),
    {
        "one counter is not cleared": Bug(
            "if (threadIdx.x < 2) scratch",
            "if (threadIdx.x < 1) scratch",
            (_RESULT, "scratch"),
            at=("atomicAdd(&scratch[1]",),
        ),
    },
    scratch="int32",
)

KERNELS["indices in scratch"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n, short* scratch) {
    const int t = threadIdx.x;
    scratch[t] = (7 * t) % 32;
    __syncthreads();
    out[t] = x[scratch[(t + 1) % 32]];
}
""",
    lambda x: 7 * (T + 1) % 32,
    {
        "even ones only": Bug(
            "scratch[t] = (7", "if (t % 2 == 0) scratch[t] = (7", (_RESULT, "scratch"), at=("x[scratch[",)
        ),
        "reads another half": Bug("scratch[(t + 1) % 32]", "scratch[32 + (t + 1) % 32]", (_RESULT, "scratch")),
    },
    scratch="int16",
)

KERNELS["mask in scratch"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n, unsigned char* scratch) {
    const int t = threadIdx.x;
    scratch[t] = x[t] % 3 == 0;
    __syncthreads();
    out[t] = scratch[t ^ 1] ? x[t] : -x[t];
}
""",
    lambda x: np.where((T ^ 1) % 3 == 0, T, -T),
    {
        "only true is written": Bug(
            "scratch[t] = x[t] % 3 == 0;",
            "if (x[t] % 3 == 0) scratch[t] = 1;",
            (_RESULT, "scratch"),
            at=("scratch[t ^ 1]",),
        ),
    },
    scratch="uint8",
)

KERNELS["sum by a lambda"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int total = 0;
    auto add = [&](int value) { total += value; };
    for (int i = 0; i < 4; ++i) add(x[threadIdx.x + i]);
    out[threadIdx.x] = total;
}
""",
    lambda x: 4 * T + 6,
    {
        "total without a value": Bug(
            "int total = 0;", "int total;", (_ELEMENT, "total"), at=("int total;", "total += value", "= total;")
        ),
    },
)

KERNELS["pointer of two"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    const int* from;
    if (threadIdx.x % 2) from = x + 32;
    else from = x;
    out[threadIdx.x] = from[threadIdx.x];
}
""",
    lambda x: np.where(T % 2, T + 32, T),
    {
        "no pointer of even threads": Bug(
            "else from = x;", "", (_VARIABLE, "from"), at=("const int* from;", "= from[")
        ),
        "a pointer of the same name": Bug(
            "else from = x;",
            "else { const int* from = x; (void)from; }",
            (_VARIABLE, "from"),
            at=("const int* from;", "= from["),
        ),
    },
)

KERNELS["predicate in PTX"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int r = -1;
    asm("{ .reg .pred p; setp.gt.s32 p, %1, 9; @p mov.b32 %0, %1; }" : "+r"(r) : "r"(x[threadIdx.x]));
    out[threadIdx.x] = r;
}
""",
    lambda x: np.where(T > 9, T, -1),
    {
        "no value where the predicate is false": Bug(
            "int r = -1;", "int r;", (_VARIABLE, "r"), at=("int r;", "setp.gt.s32", "= r;")
        ),
    },
)

KERNELS["exchange of half a warp"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    const int lane = threadIdx.x;
    int value;
    if (lane < 16) value = x[2 * lane];
    value = __shfl_sync(~0u, value, lane % 16);
    out[lane] = value;
}
""",
    lambda x: 2 * (T % 16),
    {
        "takes from one lane more": Bug(
            "lane % 16", "lane % 17", (_VARIABLE, "value"), at=("int value;", "__shfl_sync", "= value;")
        ),
        "one lane less has a value": Bug(
            "lane < 16", "lane < 15", (_VARIABLE, "value"), at=("int value;", "__shfl_sync", "= value;")
        ),
    },
)

KERNELS["next element"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int now = x[threadIdx.x];
    int next;
    int sum = 0;
    for (int step = 1; step <= 4; ++step) {
        if (step < 4) next = x[threadIdx.x + 32 * step];
        sum += step * now;
        now = next;
    }
    out[threadIdx.x] = sum;
}
""",
    lambda x: sum(s * (T + 32 * (s - 1)) for s in range(1, 5)),
    {
        "second step is not fetched": Bug(
            "if (step < 4) next",
            "if (step > 1 && step < 4) next",
            (_VARIABLE, "next"),
            at=("int next;", "now = next;", "step * now"),
        ),
    },
)

KERNELS["runs of equal numbers"] = Kernel(
    """
__global__ void k(const int* x, int* out, int n) {
    int before;
    int runs = 0;
    for (int i = 0; i < 8; ++i) {
        const int value = x[threadIdx.x + i] / 3;
        if (i == 0 || value != before) ++runs;
        before = value;
    }
    out[threadIdx.x] = runs;
}
""",
    lambda x: (T + 7) // 3 - T // 3 + 1,
    {
        "first is compared": Bug(
            "i == 0 || value", "value", (_VARIABLE, "before"), at=("int before;", "value != before")
        ),
    },
)

KERNELS["largest float"] = Kernel(
    """
__global__ void k(const float* x, float* out, int n) {
    float most = -1;
    for (int i = 0; i < 4; ++i) most = fmaxf(most, x[4 * threadIdx.x + i]);
    float4 v;
    v.x = most;
    v.y = 1;
    v.z = 2;
    v.w = 3;
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
""",
    lambda x: 4 * T + 9,
    {
        "most without a value": Bug(
            "float most = -1;", "float most;", (_VARIABLE, "most"), at=("float most;", "fmaxf", "v.x = most")
        ),
        "w is not set": Bug("v.w = 3;", "", (_VARIABLE, "v"), at=("float4 v;", "= v.x + v.y")),
        "y is set twice": Bug("v.z = 2;", "v.y = 2;", (_VARIABLE, "v"), at=("float4 v;", "= v.x + v.y")),
    },
    dtype="float32",
)

KERNELS["two in order"] = Kernel(
    """
struct Pair { int low, high; };
__device__ Pair ordered(int a, int b) {
    Pair pair;
    if (a < b) {
        pair.low = a;
        pair.high = b;
    } else {
        pair.low = b;
        pair.high = a;
    }
    return pair;
}
__global__ void k(const int* x, int* out, int n) {
    int a = x[threadIdx.x], b = 20;
    int temp;
    temp = a;
    a = b;
    b = temp;
    const Pair pair = ordered(a, b);
    out[threadIdx.x] = 100 * pair.low + pair.high;
}
""",
    lambda x: 100 * np.minimum(T, 20) + np.maximum(T, 20),
    {
        "swap without the first step": Bug("temp = a;", "", (_VARIABLE, "temp"), at=("int temp;", "b = temp;")),
        "low is not set": Bug(
            "pair.low = b;",
            "",
            (_VARIABLE, "pair"),
            at=("    Pair pair;", "return pair;", "const Pair pair", "pair.low +"),
        ),
    },
)

KERNELS["fragment"] = Kernel(
    """
#include <mma.h>
using namespace nvcuda;
__global__ void k(const float* x, float* out, int n) {
    __shared__ __half s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = __float2half(i / 16 == i % 16 ? 2.0f : 0.0f);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
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
        "accumulator is not filled": Bug(
            "    wmma::fill_fragment(c, 0.0f);\n", "", (_ELEMENT,), at=("float> c;", "mma_sync(c", "(out, c")
        ),
        "b is not loaded": Bug(
            "    wmma::load_matrix_sync(b, s, 16);\n", "", (_ELEMENT,), at=("row_major> b;", "mma_sync(c")
        ),
    },
    dtype="float32",
)
