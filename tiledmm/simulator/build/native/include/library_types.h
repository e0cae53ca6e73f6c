// The 16-bit and complex types, which the headers of NVIDIA's host libraries (cuBLAS, cuDNN, ...) bring with them.
#pragma once

#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
