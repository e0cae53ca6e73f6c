// CUDA's built-ins are there before a kernel's text.
#pragma once
#define CUDA_VERSION CUDART_VERSION
