"""The first kernel of every tutorial: c = a + b, one thread for each element."""

import cupy as cp
import numpy as np

add = cp.RawKernel(
    r"""
extern "C" __global__
void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
""",
    "add",
)

n = 1000
rng = np.random.default_rng(1)
a_host = rng.random(n, dtype=np.float32)
b_host = rng.random(n, dtype=np.float32)

a = cp.asarray(a_host)
b = cp.asarray(b_host)
c = cp.empty(n, dtype=cp.float32)

threads = 256
blocks = (n + threads - 1) // threads
add((blocks,), (threads,), (a, b, c, np.int32(n)))
cp.cuda.Device().synchronize()

np.testing.assert_array_equal(cp.asnumpy(c), a_host + b_host)
print("sum", float(c.sum()))
