"""A filter whose weights are in constant memory, and a counter that the module keeps from launch to launch."""

import cupy as cp
import numpy as np

code = r"""
extern "C" {

__constant__ float weights[2 * RADIUS + 1];
__device__ int launches;

__global__ void smooth(const float* in, float* out, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int at = threadIdx.x; at < blockDim.x + 2 * RADIUS; at += blockDim.x) {
        int from = (int)(blockIdx.x * blockDim.x) + at - RADIUS;
        tile[at] = from >= 0 && from < n ? in[from] : 0.0f;
    }
    __syncthreads();
    if (i < n) {
        float sum = 0.0f;
        for (int j = 0; j <= 2 * RADIUS; ++j) sum += weights[j] * tile[threadIdx.x + j];
        out[i] = sum;
    }
    if (i == 0) launches += 1;
}

}
"""
radius = 2
module = cp.RawModule(code=code, options=(f"-DRADIUS={radius}",))
smooth = module.get_function("smooth")

weights = cp.ndarray((2 * radius + 1,), cp.float32, module.get_global("weights"))
weights[...] = cp.asarray([1, 4, 6, 4, 1], dtype=cp.float32) / 16

n, threads = 300, 64
signal = cp.sin(cp.linspace(0, 10, n)).astype(cp.float32)
once, twice = cp.zeros_like(signal), cp.zeros_like(signal)
shared = (threads + 2 * radius) * signal.itemsize
for source, to in ((signal, once), (once, twice)):
    smooth(((n + threads - 1) // threads,), (threads,), (source, to, n), shared_mem=shared)

expected = np.convolve(signal.get(), [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16], "same")
np.testing.assert_allclose(once.get(), expected, atol=1e-5)
launches = cp.ndarray((), cp.int32, module.get_global("launches"))
assert launches.item() == 2
print("launches", int(launches))
