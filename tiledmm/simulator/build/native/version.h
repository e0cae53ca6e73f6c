// The version of CUDA whose compiler is simulated, and what NVRTC defines with its default options (compared with NVRTC 13.5).
// Depends on: nothing
#pragma once

#define CUDART_VERSION 13000
#define __CUDART_API_VERSION 13000
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 48
#define __CUDACC_VER__ "__CUDACC_VER__ is no longer supported: use __CUDACC_VER_MAJOR__"
#define __CUDACC_DEVICE_ATOMIC_BUILTINS__ 1
#define __NVCC_DIAG_PRAGMA_SUPPORT__ 1
#define __CUDANVVM__ 1
#define __CUDA_PREC_DIV 1
#define __CUDA_PREC_SQRT 1
#define __CUDA_FTZ 0
#define __USE_FAST_MATH__ 0
