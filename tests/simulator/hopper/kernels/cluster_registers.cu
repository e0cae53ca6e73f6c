// Where a block is: its place in its cluster and the cluster's place in the grid, from special registers, for a grid
// of clusters of 2 x 3 blocks. blockIdx counts blocks of the grid, as always.
#include "hopper.cuh"

#define READ(name)                                             \
    [] {                                                       \
        u32 value;                                             \
        asm volatile("mov.u32 %0, %%" name ";" : "=r"(value)); \
        return (int)value;                                     \
    }()

// out (gridDim.y, gridDim.x, 13)
extern "C" __global__ void __cluster_dims__(2, 3, 1) cluster_registers(int* out) {
    __shared__ int shared;   // only its addresses are used
    if (threadIdx.x != 0) return;
    int* const to = out + (blockIdx.y * gridDim.x + blockIdx.x) * 13;
    to[0] = READ("cluster_ctaid.x");
    to[1] = READ("cluster_ctaid.y");
    to[2] = READ("cluster_nctaid.x");
    to[3] = READ("cluster_nctaid.y");
    to[4] = READ("cluster_ctarank");
    to[5] = READ("cluster_nctarank");
    to[6] = READ("clusterid.x");
    to[7] = READ("clusterid.y");
    to[8] = READ("nclusterid.x");
    to[9] = READ("nclusterid.y");
    to[10] = READ("clusterid.z");
    u32 is_explicit;
    asm volatile("{\n .reg .pred p;\n mov.pred p, %%is_explicit_cluster;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(is_explicit));
    to[11] = (int)is_explicit;
    // Back from an address in the cluster's shared memory to the block that it belongs to.
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(to[12]) : "r"(mapa(&shared, to[4] ^ 1)));
}
