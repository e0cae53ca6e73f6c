"""Structures of a program's own: vectors, nested members whose offsets a kernel tells, and matrices with a pointer."""

import cupy as cp
import numpy as np

# Vector types of CUDA: an array of one structure goes by value, a larger one is in memory.
float3 = np.dtype([(axis, np.float32) for axis in "xyz"])
move = cp.RawKernel(
    r"""
extern "C" __global__ void move(float3* points, float3 by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) points[i] = make_float3(points[i].x + by.x, points[i].y + by.y, points[i].z + by.z);
}
""",
    "move",
)
points = cp.zeros((100, 3), dtype=cp.float32)
move((4,), (32,), (points, np.array([1, 2, 3], np.float32).view(float3), 100))
assert (points == cp.asarray([1, 2, 3], dtype=cp.float32)).all()

# Nested structures: the compiler places the members, and a kernel tells where.
types = r"""
struct Sample { float weight; double values[3]; };
template <typename T> struct Record { char tag; Sample samples[2]; T total; };

template <typename T> __global__ void layout(unsigned long long* to) {
    Record<T> one;
    char *begin = reinterpret_cast<char*>(&one), *samples = reinterpret_cast<char*>(&one.samples);
    to[0] = sizeof(Sample), to[1] = reinterpret_cast<char*>(&one.samples[0].values) - samples;
    to[2] = sizeof(one), to[3] = samples - begin, to[4] = reinterpret_cast<char*>(&one.total) - begin;
}

template <typename T> __global__ void add_up(Record<T>* records, Record<T> more) {
    Record<T>& mine = records[threadIdx.x];
    mine.total = 0;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j)
            mine.total += mine.samples[i].weight * mine.samples[i].values[j] + more.samples[i].values[j];
}
"""
module = cp.RawModule(code=types, options=("--std=c++14",), name_expressions=("layout<float>", "add_up<float>"))
places = cp.zeros(5, dtype=cp.uint64)
module.get_function("layout<float>")((1,), (1,), (places,))
sample_bytes, values, record_bytes, samples, total = places.get().tolist()
sample = np.dtype(
    {"names": ["weight", "values"], "formats": ["f4", "3f8"], "offsets": [0, values], "itemsize": sample_bytes}
)
record = np.dtype(
    {
        "names": ["tag", "samples", "total"],
        "formats": ["i1", (sample, 2), "f4"],
        "offsets": [0, samples, total],
        "itemsize": record_bytes,
    }
)
records = np.zeros(8, record)
records["samples"]["weight"] = np.arange(8)[:, None]
records["samples"]["values"] = 1
more = np.zeros((), record)
more["samples"]["values"][:] = 0.5
on_device = cp.asarray(records.view(np.uint8))
module.get_function("add_up<float>")((1,), (8,), (on_device, more))
np.testing.assert_array_equal(on_device.get().view(record)["total"], 6 * np.arange(8) + 3)

# A matrix with a pointer to its elements, by value and in memory.
matrix = np.dtype([("rows", np.int32), ("cols", np.int32), ("data", np.uint64)], align=True)
products = cp.RawKernel(
    r"""
struct Matrix { int rows, cols; float* data; };
extern "C" __global__ void products(const Matrix* factors, Matrix b, float** results) {
    Matrix a = factors[blockIdx.z];
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.rows || j >= b.cols) return;
    float sum = 0;
    for (int k = 0; k < a.cols; ++k) sum += a.data[i * a.cols + k] * b.data[k * b.cols + j];
    results[blockIdx.z][i * b.cols + j] = sum;
}
""",
    "products",
)
factors = [cp.random.rand(rows, 7, dtype=cp.float32) for rows in (5, 9, 3)]
b = cp.random.rand(7, 6, dtype=cp.float32)
results = [cp.empty((len(a), 6), dtype=cp.float32) for a in factors]
table = np.array([(*a.shape, a.data.ptr) for a in factors], matrix)
pointers = cp.asarray([c.data.ptr for c in results], dtype=cp.uint64)
products((1, 2, 3), (8, 8), (cp.asarray(table.view(np.uint8)), np.array((7, 6, b.data.ptr), matrix), pointers))
for a, c in zip(factors, results, strict=True):
    cp.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
print("products", len(results))
