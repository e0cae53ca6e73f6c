// softmax(Q K^T / 8) V for 64 queries: two products per block of 64 keys, with the softmax's running maximum and sum
// between them. The weights go from the sums of the first product to A's fragments of the second, all in registers.
// Stages of K and V arrive by TMA; V is MN-major for the second product.
#include "hopper.cuh"

constexpr int QUERIES = 64, KEYS = 64, DEPTH = 64, STAGES = 2;   // rows of 128 bytes

struct Stage {
    short k[KEYS * DEPTH], v[KEYS * DEPTH];
};

// D += A @ B: A from registers, B (16, 64) MN-major.
__device__ __forceinline__ void wgmma_values(float (&d)[32], const u32 (&a)[4], u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31},"
        " {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Four lanes hold a row.
__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

extern "C" __global__ void __launch_bounds__(128)
    attention(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
              const __grid_constant__ TensorMap v_map, float* out, int keys) {
    __shared__ alignas(1024) short q[QUERIES * DEPTH];
    __shared__ alignas(1024) Stage stages[STAGES];
    __shared__ mbarrier q_full, full[STAGES];
    const int t = threadIdx.x, row0 = blockIdx.x * QUERIES, steps = keys / KEYS;

    const auto load = [&](int step) {
        const int s = step % STAGES;
        mbarrier_arrive_expect_tx(&full[s], sizeof(Stage));
        tma_load_2d(stages[s].k, k_map, &full[s], 0, step * KEYS);
        tma_load_2d(stages[s].v, v_map, &full[s], 0, step * KEYS);
    };
    if (t == 0) {
        mbarrier_init(&q_full, 1);
        for (int s = 0; s < STAGES; ++s) mbarrier_init(&full[s], 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&q_full, sizeof(q));
        tma_load_2d(q, q_map, &q_full, 0, row0);
        for (int step = 0; step < STAGES && step < steps; ++step) load(step);
    }
    __syncthreads();
    mbarrier_wait(&q_full, 0);

    float result[32] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {};   // of the thread's two rows
    for (int step = 0; step < steps; ++step) {
        const Stage& stage = stages[step % STAGES];
        mbarrier_wait(&full[step % STAGES], step / STAGES % 2);
        float scores[32] = {};
        wgmma_fence();
        for (int i = 0; i < DEPTH; i += 16)
            wgmma_m64n64k16(scores, descriptor(q + i, 16, 1024, SWIZZLE_128),
                            descriptor(stage.k + i, 16, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(scores);

#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float now = most[half], sum = 0;
#pragma unroll
            for (int i = 0; i < 32; ++i)
                if (i / 2 % 2 == half) now = fmaxf(now, scores[i] / 8);
            now = row_max(now);
            const float correction = expf(most[half] - now);   // of what was summed with the maximum so far
#pragma unroll
            for (int i = 0; i < 32; ++i)
                if (i / 2 % 2 == half) {
                    scores[i] = expf(scores[i] / 8 - now);
                    sum += scores[i];
                    result[i] *= correction;
                }
            total[half] = total[half] * correction + row_sum(sum);
            most[half] = now;
        }

        u32 weights[KEYS / 16][4];
#pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) weights[i][j] = pack_half2(scores[8 * i + 2 * j], scores[8 * i + 2 * j + 1]);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
            wgmma_values(result, weights[i], descriptor(stage.v + i * 16 * DEPTH, KEYS * 128, 1024, SWIZZLE_128));
        wgmma_commit_group();
        wgmma_wait_group<0>(result);
        __syncthreads();   // all warps' wgmma have read the stage
        if (t == 0 && step + STAGES < steps) load(step + STAGES);
    }
    for (int i = 0; i < 32; ++i) out[(row0 + wgmma_row(t, i)) * DEPTH + wgmma_col(t, i)] = result[i] / total[i / 2 % 2];
}
