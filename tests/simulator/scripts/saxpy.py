"""SAXPY with a grid-stride loop: any grid computes all elements. Timed by events in a stream."""

import cupy as cp

code = r"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}
"""
saxpy = cp.RawKernel(code, "saxpy", options=("--std=c++17", "--use_fast_math"))

properties = cp.cuda.runtime.getDeviceProperties(0)
print("on", properties["name"].decode())
print("with", properties["multiProcessorCount"], "SMs")

cp.random.seed(7)
n = 5000
x = cp.random.rand(n, dtype=cp.float32)
y = cp.random.standard_normal(n, dtype=cp.float32)
expected = 2 * x + y

stream = cp.cuda.Stream(non_blocking=True)
with stream:
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record()
    saxpy((4,), (128,), (cp.float32(2), x, y, n))
    end.record()
    end.synchronize()
milliseconds = cp.cuda.get_elapsed_time(begin, end)
stream.synchronize()

assert milliseconds > 0
cp.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
assert cp.allclose(y, expected, rtol=1e-5, atol=1e-6)
print("largest error", cp.abs(y - expected).max().item())
