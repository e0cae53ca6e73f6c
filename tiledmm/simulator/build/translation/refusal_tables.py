"""Tables of what the simulator does not support: patterns, each with a reason and with what to use instead."""

from __future__ import annotations

import re

_HOST = "this is host code, and the simulator runs only kernels"
LIBRARY = "a kernel may use CUDA C and the headers that docs/simulator/language.md lists"
_LIBCUXX = (
    "libcu++ is not supported: use atomicAdd and similar functions for atomic and atomic_ref, __syncthreads for "
    "barrier, cuda_pipeline.h for pipeline and memcpy_async, and <type_traits>, <limits>, <utility>, <tuple> or "
    "<array> for std"
)

#: What is said of an undefined name in a rendered kernel without its headers.
OF_A_PAGE = (
    "is undefined, because this file is only the kernel's page, without its headers: write the file without --page "
    "(`tiledmm source VARIANT` prints all of it)"
)

#: Names that are refused: a pattern, and the reason with what to use instead.
NAMES = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"tex[123]D\w*|texCubemap\w*|tex2Dgather|texture|cudaTextureObject_t|cudaTextureType\w*|cudaReadMode\w*",
         "textures are not supported: read global memory, through __ldg or a const __restrict__ pointer"),
        (r"surf[123]D\w*|surfCubemap\w*|surface|cudaSurfaceObject_t|cudaBoundaryMode\w*",
         "surfaces are not supported: write global memory"),
        (r"cudaMemcpy\w*|cudaMalloc\w*|cudaFree\w*|cudaMemset\w*",
         f"{_HOST}: pass NumPy arrays to launch, which the kernel reads and writes in place"),
        (r"cudaDeviceSynchronize|cudaStream\w*|cudaEvent\w*|cudaLaunch\w*|cudaGraph\w*|cudaTrigger\w*|"
         r"cudaGridDependencySynchronize",
         f"{_HOST}: call launch once for each kernel"),
        (r"cuda(Error\w*|Success|Get\w*|Set\w*|Device\w*|Func\w*|Occupancy\w*|Host\w*|Peek\w*)", _HOST),
        (r"cu[A-Z]\w+", _HOST),
        (r"calloc|realloc|alloca|aligned_alloc", "kernels do not have it: use malloc and free, or new and delete"),
        (r"curand\w*", "cuRAND is not supported: pass random numbers in an array, or compute them in the kernel"),
        (r"(cublas|cusparse|cufft|cusolver|cudnn|nccl|nvshmem)\w*", _HOST),
        (r"thrust|cub|cutlass|cute", f"thrust, CUB and CUTLASS are not supported: {LIBRARY}"),
        (r"cuda", _LIBCUXX),
        (r"cudaLaunchDevice\w*", "dynamic parallelism is not supported: call launch once for each kernel"),
        (r"__shfl(_up|_down|_xor)?|__ballot|__any|__all",
         "removed with compute capability 7.0: use the form with _sync, whose first argument is the mask of lanes"),
        (r"__reduce_\w+_sync",
         "it needs compute capability 8.0 (target=\"sm_80\" or newer): shuffle, or use cooperative_groups/reduce.h"),
        (r"this_cluster|cluster_group|__cluster\w*|__threadfence_cluster",
         "clusters need compute capability 9.0 (target=\"sm_90\" or newer)"),
        (r"clusterIdx|clusterDim", "CUDA C has no such variable: call __clusterIdx() or __clusterDim()"),
        (r"this_multi_grid|multi_grid_group", "removed with CUDA 13: launch once for each GPU"),
        (r"__nv_fp[46]\w*|__nv_fp8\w*_e8m0|__nv_cvt_\w*(fp[46]|e8m0)\w*",
         "of the floating-point types of 8 bits and fewer, only e4m3 and e5m2 are supported (cuda_fp8.h)"),
        (r"(__)?float128|__fp128\w*", "128-bit floating-point types are not supported: use double"),
        (r"__mbarrier\w*|__pipeline_arrive_on",
         "barriers in shared memory are not supported: use __syncthreads or cuda_pipeline.h"),
        (r"b1|s4|u4|bmma_sync|experimental", "wmma with elements of 1 or 4 bits is not supported: use signed char"),
        (r"cout|cerr|endl|cin|fprintf|fputs|puts|fopen|fflush|stderr|stdout|exit|getenv|atoi|atof",
         f"{_HOST}: use printf or __trap"),
        (r"vector|string|map|unordered_map|set|list|deque|function|unique_ptr|shared_ptr|make_\w*ptr|chrono|thread|"
         r"mutex|mt19937",
         f"{_HOST}: use arrays"),
        (r"sort|accumulate|fill|copy|transform|iota|generate|for_each", f"{_HOST}: write the loop"),
        (r"rand|srand|drand48", f"{_HOST}: pass random numbers in an array, or compute them in the kernel"),
    )
)  # fmt: skip

#: Headers that are refused: a pattern, and the reason with what to use instead.
INCLUDES = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"(thrust|cub|cutlass|cute)/.*", f"thrust, CUB and CUTLASS are not supported: {LIBRARY}"),
        (r"cuda/.*|nv/.*", _LIBCUXX),
        (r"curand.*", "cuRAND is not supported: pass random numbers in an array, or compute them in the kernel"),
        (r"(cublas|cusparse|cufft|cusolver|cudnn|nccl|nvshmem|nvml|nvrtc|cupti|helper_).*", _HOST),
        (r"cuda_fp[46].*", "floating-point types of 6 and 4 bits are not supported: use cuda_fp8.h"),
        (r"texture_.*|surface_.*|cuda_texture.*", "textures and surfaces are not supported: use global memory"),
        (r"cuda_awbarrier.*", "barriers in shared memory are not supported: use __syncthreads or cuda_pipeline.h"),
    )
)

#: Code that C++ compilers accept, but NVRTC or the simulator does not: a pattern, and the reason.
TEXTS = (
    (
        re.compile(
            r"\b__shared__\b(?:(?:alignas|__align__|__attribute__)\s*\([^;{}\n]*?\)|[^;(){}\n])*?(?<![=!<>])=(?!=)"
        ),
        "shared memory cannot have an initializer: let threads write it, and then wait at a barrier",
    ),
    (
        re.compile(r"\bthread_local\b"),
        "device code does not support thread_local: each thread has its own variables of a function",
    ),
    (
        re.compile(r"\bdynamic_cast\b"),
        "device code does not support dynamic_cast: call a virtual function, or store the type",
    ),
)
