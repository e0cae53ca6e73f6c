// Misuses of Hopper's asynchronous instructions, one for each number; tests/simulator/test_hopper_findings.py says what is found.
// A line that a message names ends with a comment of one word, which stands for its number there.
#include "hopper.cuh"

__device__ __forceinline__ void begin(mbarrier* full, int arrivals = 1) {
    if (threadIdx.x == 0) {
        mbarrier_init(full, arrivals);   // init
        fence_mbarrier_init();
    }
    __syncthreads();
}

__device__ __forceinline__ bool try_wait(mbarrier* barrier, int parity) {
    u32 done;
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(smem(barrier)), "r"(parity)
        : "memory");
    return done;
}

__device__ __forceinline__ void expect_tx(mbarrier* barrier, int bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(smem(barrier)), "r"(bytes) : "memory");
}

extern "C" __global__ void bulk(int which, const int* in, int* out, const __grid_constant__ TensorMap map,
                                const __grid_constant__ TensorMap bytes) {
    __shared__ alignas(128) int data[64];
    __shared__ mbarrier full[2];
    const int t = threadIdx.x;
    switch (which) {
        // ---- copies that are not complete ----
        case 0:   // nobody has waited
            begin(full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
                out[0] = data[3];                 // read
                mbarrier_wait(full, 0);
            }
            break;
        case 1:   // one thread has waited, and the others have not
            begin(full + 1);
            begin(full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
                mbarrier_wait(full, 0);
            }
            if (t == 32) {
                for (int i = 0; i < 2; ++i) try_wait(full + 1, 0);   // long enough for the other
                out[0] = data[3];   // read
            }
            break;
        case 2:   // the parity of the phase before
            begin(full);
            for (int i = 0; i < 2 && t == 0; ++i) {
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
                mbarrier_wait(full, 0);           // wait
                out[i] = data[3];                 // read
            }
            break;
        case 3:   // no second wait
            begin(full);
            if (t == 0) {
                for (int i = 0; i < 2; ++i) {
                    mbarrier_arrive_expect_tx(full, 256);
                    bulk_load(data, in, 256, full);   // load
                    if (i == 0) mbarrier_wait(full, 0);   // wait
                }
                out[0] = data[3];   // read
                mbarrier_wait(full, 1);
            }
            break;
        case 4:   // a store that reads its source, and has not written
            data[t] = t;
            fence_proxy_async();
            __syncthreads();
            if (t == 0) {
                bulk_store(out, data, 256);   // store
                bulk_commit_group();
                bulk_wait_group_read<0>();
                out[1] = out[0] + 1;   // read
            }
            break;
        // ---- memory in use ----
        case 5:
            data[t] = t;
            fence_proxy_async();
            __syncthreads();
            if (t == 0) {
                bulk_store(out, data, 256);   // store
                bulk_commit_group();
                data[0] = 1;   // write
                bulk_wait_group_read<0>();
            }
            break;
        case 6:   // another thread does not know of the wait
            data[t] = t;
            fence_proxy_async();
            __syncthreads();
            if (t == 0) {
                bulk_store(out, data, 256);   // store
                bulk_commit_group();
                bulk_wait_group_read<0>();
            }
            if (t == 32) data[0] = 1;   // write
            break;
        case 7:   // a copy to what threads read
            data[t] = t;
            begin(full);
            out[t] = data[t];   // read
            if (t == 0) {
                fence_proxy_async();
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
            }
            mbarrier_wait(full, 0);
            break;
        case 8:   // no proxy fence
            begin(full);
            data[t] = t;   // write
            __syncthreads();
            if (t == 0) {
                bulk_store(out, data, 256);   // store
                bulk_commit_group();
                bulk_wait_group_read<0>();
            }
            break;
        // ---- deadlocks ----
        case 10:
            begin(full, 2);
            if (t == 0) mbarrier_arrive(full);   // arrive
            if (t < 2) mbarrier_wait(full, 0);   // wait
            break;
        case 11:
            begin(full + 1);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full + 1, 512);   // expect
                bulk_load(data, in, 256, full + 1);
                mbarrier_wait(full + 1, 0);   // wait
            }
            break;
        case 12:
            begin(full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 128);   // expect
                bulk_load(data, in, 256, full);         // load
                mbarrier_wait(full, 0);                 // wait
            }
            break;
        case 13:
            begin(full);
            mbarrier_wait(full, 0);   // wait
            break;
        case 14:   // one missing wait, and several lines that read
            begin(full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
                out[0] = data[3];                 // read
                out[1] = data[4];                 // also
                mbarrier_wait(full, 0);
            }
            break;
        case 15:   // bytes after the phase has completed
            begin(full, 2);
            if (t == 0) {
                bulk_load(data, in, 256, full);   // load
                mbarrier_arrive(full);
                mbarrier_arrive(full);
                mbarrier_arrive_expect_tx(full, 256);
                mbarrier_wait(full, 0);
            }
            break;
        // ---- mbarriers ----
        case 16:
            begin(full);
            asm volatile(   // wait
                "{\n .reg .pred p;\n mbarrier.test_wait.shared::cta.b64 p, [%0], %1;\n}" ::"r"(smem(full)), "l"(0ull)
                : "memory");
            break;
        case 17:
            begin(full);
            if (t == 0) try_wait(full, 2);   // wait
            break;
        case 18:
            begin(full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 16);   // arrive
                expect_tx(full, 16);                   // expect
            }
            break;
        case 21: mbarrier_arrive(full); break;   // arrive
        case 22: mbarrier_init(full, 0); break;   // init
        case 23:
            begin(full);
            if (t == 0) {
                expect_tx(full, 16);
                mbarrier_arrive(full);
                mbarrier_arrive(full);   // arrive
            }
            break;
        case 24:
            begin(full);
            if (t == 0) {
                expect_tx(full, 1 << 19);
                expect_tx(full, 1 << 19);   // expect
            }
            break;
        case 25:
            begin(full);
            if (t == 1) out[0] = (int)*(volatile mbarrier*)full;   // read
            break;
        case 26:
            if (t == 0) {
                mbarrier_init(full, 32);   // init
                fence_mbarrier_init();
            }
            if (t == 32) mbarrier_arrive(full);   // arrive
            break;
        case 27:
            if (t == 0) mbarrier_init(full, 1);   // init
            __syncthreads();
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
                mbarrier_wait(full, 0);
            }
            break;
        case 29:
            begin(full);
            if (t == 0) mbarrier_init(full, 1);   // again
            break;
        // ---- bulk copies ----
        case 31: begin(full); bulk_load(data + 1, in, 16, full); break;   // load
        case 32: begin(full); bulk_load(data, in + 1, 16, full); break;   // load
        case 33: begin(full); bulk_load(data, in, 8, full); break;   // load
        case 36:
            data[t] = t;
            fence_proxy_async();
            __syncthreads();
            if (t == 0) bulk_store(out, data, 256);   // store
            break;
        case 37:
            data[t] = t;
            fence_proxy_async();
            __syncthreads();
            if (t == 0) {
                bulk_store(out, data, 256);   // store
                bulk_commit_group();
            }
            break;
        case 38:
            begin(full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(full, 256);
                bulk_load(data, in, 256, full);   // load
            }
            break;
        case 39: begin(full); tma_load_1d(data, *reinterpret_cast<const TensorMap*>(in), full, 0); break;   // load
        case 40: begin(full); tma_load_2d(data, map, full, 0, 0); break;   // load
        case 41: begin(full); tma_load_1d(data, map, full, 1); break;   // load
        case 42: tma_store_1d(map, data, -4); break;   // store
        case 43:
            asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&bytes), "r"(0), "r"(smem(data)));   // reduce
            break;
        case 44: begin(full); tma_load_1d(data + 4, map, full, 0); break;   // load
        case 45:   // another warp may still test the barrier
        case 46:   // it does not
            begin(full);
            if (t == 0) mbarrier_arrive(full);
            if (t % 32 == 0) mbarrier_wait(full, 0);   // test
            if (which == 46) __syncthreads();
            if (t == 32) mbarrier_inval(full);   // inval
            break;
    }
}

extern "C" __global__ void blocks(int which, int* out, const int* in) {
    __shared__ alignas(128) int data[64];
    __shared__ mbarrier full;
    const int t = threadIdx.x, rank = cluster_ctarank();
    switch (which) {
        case 1:   // twice
            cluster_arrive();
            cluster_arrive();   // arrive
            break;
        case 2: cluster_wait(); break;   // wait
        case 3: out[0] = mapa(data, 2); break;   // mapa
        case 4:   // a deadlock
            if (rank == 0) cluster_sync();   // sync
            if (rank == 1 && t == 0) {
                mbarrier_init(&full, 1);   // init
                mbarrier_wait(&full, 0);   // wait
            }
            break;
        case 5:   // the block may end before
            data[t] = 0;
            cluster_sync();
            if (rank == 0 && t == 0) asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(mapa(data, 1)), "r"(1) : "memory");   // store
            break;
        case 6:   // an mbarrier of another block
            if (t == 0) mbarrier_init(&full, 1);
            cluster_sync();
            if (rank == 0 && t == 0)
                asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(mapa(&full, 1)) : "memory");   // inval
            cluster_sync();
            break;
        case 7:   // the barrier in another block than the data
        case 8:   // a mask of blocks
            if (t == 0) {
                mbarrier_init(&full, 1);
                fence_mbarrier_init();
            }
            cluster_sync();
            if (rank == 0 && t == 0 && which == 7)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(smem(data)), "l"(in), "r"(mapa(&full, 1)) : "memory");   // load
            if (rank == 0 && t == 0 && which == 8)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;" ::"r"(smem(data)), "l"(in), "r"(smem(&full)), "h"((short)7) : "memory");   // multicast
            cluster_sync();
            break;
        case 9:   // its own block may end before the copy reads it
            data[t] = data[t + 32] = t;
            if (t == 0) mbarrier_init(&full, 1);
            fence_mbarrier_init();
            fence_proxy_async();
            cluster_sync();
            if (rank == 0 && t == 0)
                asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(mapa(data, 1)), "r"(smem(data)), "r"(mapa(&full, 1)) : "memory");   // copy
            if (rank == 1 && t == 0) mbarrier_arrive_expect_tx(&full, 256);
            if (rank == 1) mbarrier_wait_cluster(&full, 0);
            break;
        case 10:   // the other block may end before
            data[t] = 0;
            cluster_sync();
            if (rank == 1 && t == 0) asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(mapa(data, 0)), "r"(1) : "memory");   // store
            break;
        case 11:   // a wait in the scope of the block
        case 12:   // an arrival in the scope of the block
        case 13:   // the same, for a thread of the other block that reads in this one
        case 14:   // both in the scope of the cluster
        case 15:   // and further within a block
            if (t == 0) {
                mbarrier_init(&full, 1);
                fence_mbarrier_init();
            }
            data[t] = 0;
            cluster_sync();
            if (rank == 0 && t == 0) {
                if (which == 13) data[0] = 1;   // write
                else asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(mapa(data, 1)), "r"(1) : "memory");   // store
                if (which == 12 || which == 13)
                    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mapa(&full, 1)) : "memory");
                else mbarrier_arrive_remote(mapa(&full, 1));
            }
            if (rank == 1 && t == 0) {
                if (which == 11) mbarrier_wait(&full, 0);
                else mbarrier_wait_cluster(&full, 0);
                int found;
                asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(found) : "r"(mapa(data, which != 13)) : "memory");   // load
                out[0] = found;
            }
            if (which == 15) {
                __syncthreads();
                if (rank == 1) out[t] = data[0];
            }
            cluster_sync();
            break;
        case 16:   // half of the lanes at an instruction of the warp
            if (t % 2) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");   // half
            else cluster_sync();   // others
            break;
    }
}

extern "C" __global__ void warpgroups(int which, float* out, const __grid_constant__ TensorMap map) {
    __shared__ alignas(1024) short tile[64 * 64];
    __shared__ mbarrier full;
    __shared__ alignas(1024) short a[64 * 8 * 2], b[8 * 16];
    const int t = threadIdx.x;
    for (int i = t; i < 64 * 16; i += blockDim.x) a[i] = 0;
    if (t < 128) b[t] = 0;
    fence_proxy_async();
    __syncthreads();
    const u64 of_a = descriptor(a, 128, 256, NO_SWIZZLE), of_b = descriptor(b, 128, 256, NO_SWIZZLE);
    float d[4] = {};
    switch (which) {
        case 1:
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 2:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, t == 3 ? of_a : of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 3: wgmma_fence(); break;   // fence
        case 4:
        case 5:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            if (which == 4) wgmma_commit_group();
            break;
        case 6:
        case 7:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            if (which == 6) wgmma_commit_group();
            out[t] = d[0];   // read
            if (which == 7) wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 8:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            wgmma_commit_group();
            if (t == 5) a[0] = 1;   // write
            wgmma_wait_group<0>(d);
            break;
        case 9:   // another warpgroup does not know of the wait
            if (t >= 128) {
                if (t == 130) a[1023] = 1;   // write
                break;
            }
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 10:
            if (t == 0) wgmma_commit_group();   // commit
            else asm volatile("wgmma.fence.sync.aligned;" ::: "memory");   // fence
            break;
        case 11: asm volatile("setmaxnreg.dec.sync.aligned.u32 256;"); break;   // registers
        case 12: asm volatile("setmaxnreg.inc.sync.aligned.u32 24;"); break;    // registers
        case 13: asm volatile("setmaxnreg.inc.sync.aligned.u32 256;"); break;   // registers
        case 14:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            if (t < 32) wgmma_commit_group();
            if (t < 32) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            break;
        case 15:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            if (t < 96) wgmma_m64n8k16(d, of_a, of_b);   // more
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 16:
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            if (t == 5) a[1023] = 1;   // write
            break;
        case 17:   // the swizzle of another tile
            begin(&full);
            if (t == 0) {
                mbarrier_arrive_expect_tx(&full, sizeof tile);
                tma_load_2d(tile, map, &full, 0, 0);   // load
            }
            mbarrier_wait(&full, 0);
            wgmma_fence();
            wgmma_m64n8k16(d, descriptor(tile, 16, 1024, SWIZZLE_64), of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 18:   // in order of rows, and not of core matrices
        case 19:   // in order of core matrices
            for (int i = t; i < 64 * 16; i += 128) {
                const int at = which == 18 ? i : i / 128 * 128 + i / 16 % 8 * 8 + i / 8 % 2 * 64 + i % 8;
                a[at] = reinterpret_cast<short*>(out)[i];   // store
            }
            fence_proxy_async();
            __syncthreads();
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 20:   // groups of 8 rows that overlap
            wgmma_fence();
            wgmma_m64n8k16(d, descriptor(a, 128, 64, NO_SWIZZLE), of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 21:   // half a step along k
        case 22:   // a whole one
            for (int i = t; i < 64 * 64; i += 128) tile[i] = 0;
            fence_proxy_async();
            __syncthreads();
            wgmma_fence();
            wgmma_m64n8k16(d, descriptor(tile, 16, 1024, SWIZZLE_128), of_b);   // before
            wgmma_m64n8k16(d, descriptor(tile + (which == 21 ? 8 : 16), 16, 1024, SWIZZLE_128), of_b);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        case 23:   // a swizzle that begins 512 bytes after a multiple of 1024, which the descriptor does not say
        case 24: {   // and which it says
            for (int i = t * 8; i < 8 * 64; i += 128 * 8)
                *reinterpret_cast<int4*>(tile + 256 + swizzled<128>(i * 2) / 2) = reinterpret_cast<int4*>(out)[i / 8];   // store
            for (int i = t * 8; i < 64 * 16; i += 128 * 8) {
                const int at = swizzled<32>(i * 2) / 2;
                *reinterpret_cast<int4*>(a + at) = reinterpret_cast<int4*>(out)[i / 8];
            }
            fence_proxy_async();
            __syncthreads();
            const u64 of_tile = descriptor(tile + 256, 16, 1024, SWIZZLE_128) | (which == 24 ? 4ull << 49 : 0);
            wgmma_fence();
            wgmma_m64n8k16(d, descriptor(a, 16, 256, SWIZZLE_32), of_tile);   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
        }
        case 25:   // the last 16 bytes of a row, and the first of the next
            for (int i = t; i < 64 * 64; i += 128) tile[i] = 0;
            fence_proxy_async();
            __syncthreads();
            wgmma_fence();
            wgmma_m64n8k16(d, of_a, descriptor(tile + 56, 16, 1024, SWIZZLE_128));   // wgmma
            wgmma_commit_group();
            wgmma_wait_group<0>(d);
            break;
    }
}
