// __half and __half2. Every operation is rounded once, to nearest even unless its name says otherwise.
#pragma once

#include "halves.h"

#define TILEDMM_ONE __half
#define TILEDMM_TWO __half2
#define TILEDMM_RAW __half_raw
#define TILEDMM_RAW2 __half2_raw
#define TILEDMM_NAME half
#define TILEDMM_NAME2 half2
#define TILEDMM_AS_NAME half
#define TILEDMM_BITS Float16Bits
#include "half_functions.h"

using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;
using __nv_half = __half;
using __nv_half2 = __half2;

#define CUDART_INF_FP16 __ushort_as_half(static_cast<unsigned short>(0x7c00u))
#define CUDART_NAN_FP16 __ushort_as_half(static_cast<unsigned short>(0x7fffu))
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(static_cast<unsigned short>(0x0001u))
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(static_cast<unsigned short>(0x7bffu))
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x8000u))
#define CUDART_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x0000u))
#define CUDART_ONE_FP16 __ushort_as_half(static_cast<unsigned short>(0x3c00u))
