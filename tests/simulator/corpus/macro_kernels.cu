// One kernel per type, made by a macro, as libraries that call kernels by name do.
#define MATMUL_OP(T, NAME)                                                                   \
    extern "C" __global__ void NAME(const T* lhs, const T* rhs, T* out, int m, int n, int k) \
    {                                                                                        \
        const int j = blockIdx.x * blockDim.x + threadIdx.x;                                 \
        const int i = blockIdx.y * blockDim.y + threadIdx.y;                                 \
        if (i < m && j < n) {                                                                \
            T acc = 0;                                                                       \
            for (int p = 0; p < k; ++p) acc += lhs[i * k + p] * rhs[p * n + j];              \
            out[i * n + j] = acc;                                                            \
        }                                                                                    \
    }

MATMUL_OP(float, matmul_f32)
MATMUL_OP(double, matmul_f64)
MATMUL_OP(int, matmul_i32)
