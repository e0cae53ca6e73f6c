// Tensor cores: a warp multiplies small matrices that are distributed over its lanes' registers. All 32 lanes must take part.
//
// A is (16, K), B (K, 8), C (16, 8). A row of A has 8 words of 32 bits: 8 float32, 16 float16 or bfloat16, or 32 bytes, contiguous
// along k, the first in the lowest bits. A word of float64 and complex128 is one element, and a row has 4, 8 or 16 of them. With
// row = lane / 4 and quad = lane % 4, a lane holds
//
//   a[i]   word quad + i / 2 * 4 of row `row` + i % 2 * 8 of A
//   b[i]   word quad + i * 4 of column `row` of B
//   c[i]   element (row + i / 2 * 8, 2 * quad + i % 2) of C
//
// Products are exact. Sums of narrow floats are not IEEE: see the twin, tiledmm/simulator/build/native/tensor_cores.h.
// Source: PTX ISA, "Matrix multiply-accumulate operation using mma instruction", "ldmatrix".

#ifndef TILEDMM_SIMULATOR

#define TILEDMM_MMA(shape_and_types, sum)                            \
    asm("mma.sync.aligned." shape_and_types                          \
        " { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "      \
        "{ %0, %1, %2, %3 };"                                        \
        : "+" sum(c[0]), "+" sum(c[1]), "+" sum(c[2]), "+" sum(c[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// Before compute capability 8.0: half of the rows and half of k at a time.
#define TILEDMM_MMA_QUARTERS(shape_and_types)                                          \
    for (int i = 0; i < 4; ++i)                                                        \
    asm("mma.sync.aligned." shape_and_types " { %0, %1 }, { %2 }, { %3 }, { %0, %1 };" \
        : "+r"(c[i % 2 * 2]), "+r"(c[i % 2 * 2 + 1])                                   \
        : "r"(a[i]), "r"(b[i / 2]))

// C += A @ B, float16 accumulated in float32.
__device__ __forceinline__ void mma_float16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    TILEDMM_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
#else   // half of k at a time
    for (int i = 0; i < 2; ++i)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5 }, { %6 }, { %0, %1, %2, %3 "
            "};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}

// C += A @ B of 8-bit integers. Wraps modulo 2^32.
__device__ __forceinline__ void mma_int8(unsigned (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    TILEDMM_MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
#else
    TILEDMM_MMA_QUARTERS("m8n8k16.row.col.s32.s8.s8.s32");
#endif
}

__device__ __forceinline__ void mma_uint8(unsigned (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    TILEDMM_MMA("m16n8k32.row.col.s32.u8.u8.s32", "r");
#else
    TILEDMM_MMA_QUARTERS("m8n8k16.row.col.s32.u8.u8.s32");
#endif
}

#if __CUDA_ARCH__ >= 800

__device__ __forceinline__ void mma_bfloat16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    TILEDMM_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
}

// Ignores the last 13 bits of float32: see rounded_to_tf32 in elements.cuh.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    TILEDMM_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
}

// COUNT * 4 steps of k: one instruction from compute capability 9.0 on; before, 2 * COUNT of m8n8k4, the only shape of float64.
template <int COUNT>
__device__ __forceinline__ void mma_float64(double (&c)[4], const double (&a)[2 * COUNT], const double (&b)[COUNT]) {
    static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "4, 8 or 16 steps of k");
#if __CUDA_ARCH__ >= 900
    if constexpr (COUNT == 1)
        asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5 }, { %6 }, { %0, %1, %2, %3 "
            "};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(b[0]));
    else if constexpr (COUNT == 2)
        asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "
            "{ %0, %1, %2, %3 };"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7, %8, %9, %10, %11 "
            "}, "
            "{ %12, %13, %14, %15 }, { %0, %1, %2, %3 };"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
              "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 { %0, %1 }, { %2 }, { %3 }, { %0, %1 };"
                : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                : "d"(a[2 * k + half]), "d"(b[k]));
#endif
}

#endif

// Loads an element from shared memory by an instruction of its own.
__device__ __forceinline__ double load_float64(const double* shared) {
    double value;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))) : "memory");
    return value;
}

// Reads four (8, 8) matrices of 16-bit elements from shared memory. Lane 8 i + r points to row r of matrix i, 16 aligned bytes.
// registers[i] becomes word quad of row `row` of matrix i, or of its transpose.
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(unsigned (&registers)[4], const void* shared) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                     : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                     : "r"(from)
                     : "memory");
}

#endif

#if __CUDA_ARCH__ >= 800

// Four products of real matrices.
template <int COUNT>
__device__ __forceinline__ void mma_complex128(complex128 (&c)[4], const complex128 (&a)[2 * COUNT],
                                               const complex128 (&b)[COUNT]) {
    double a_re[2 * COUNT], a_im[2 * COUNT], minus_a_im[2 * COUNT], b_re[COUNT], b_im[COUNT], re[4], im[4];
#pragma unroll
    for (int i = 0; i < 2 * COUNT; ++i) a_re[i] = a[i].re, a_im[i] = a[i].im, minus_a_im[i] = -a[i].im;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b_re[i] = b[i].re, b_im[i] = b[i].im;
#pragma unroll
    for (int i = 0; i < 4; ++i) re[i] = c[i].re, im[i] = c[i].im;
    mma_float64(re, a_re, b_re);
    mma_float64(im, a_re, b_im);
    mma_float64(re, minus_a_im, b_im);
    mma_float64(im, a_im, b_re);
#pragma unroll
    for (int i = 0; i < 4; ++i) c[i] = {re[i], im[i]};
}

// The same, with the elements of A or of B conjugated.
template <bool OF_A, bool OF_B, int COUNT>
__device__ __forceinline__ void mma_conjugates(complex128 (&c)[4], const complex128 (&a)[2 * COUNT], const complex128 (&b)[COUNT]) {
    double a_re[2 * COUNT], a_im[2 * COUNT], signed_a_im[2 * COUNT], b_re[COUNT], b_im[COUNT], signed_b_im[COUNT], re[4], im[4];
#pragma unroll
    for (int i = 0; i < 2 * COUNT; ++i) {
        a_re[i] = a[i].re, a_im[i] = OF_A ? -a[i].im : a[i].im;
        signed_a_im[i] = OF_A == OF_B ? -a[i].im : a[i].im;
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) b_re[i] = b[i].re, b_im[i] = b[i].im, signed_b_im[i] = OF_B ? -b[i].im : b[i].im;
#pragma unroll
    for (int i = 0; i < 4; ++i) re[i] = c[i].re, im[i] = c[i].im;
    mma_float64(re, a_re, b_re);
    mma_float64(im, a_re, signed_b_im);
    mma_float64(re, signed_a_im, b_im);
    mma_float64(im, a_im, b_re);
#pragma unroll
    for (int i = 0; i < 4; ++i) c[i] = {re[i], im[i]};
}

#endif
