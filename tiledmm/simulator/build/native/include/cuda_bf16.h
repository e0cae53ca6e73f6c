// __nv_bfloat16 and __nv_bfloat162. Every operation is rounded once, to nearest even unless its name says otherwise.
#pragma once

#include "halves.h"

#define TILEDMM_ONE __nv_bfloat16
#define TILEDMM_TWO __nv_bfloat162
#define TILEDMM_RAW __nv_bfloat16_raw
#define TILEDMM_RAW2 __nv_bfloat162_raw
#define TILEDMM_NAME bfloat16
#define TILEDMM_NAME2 bfloat162
#define TILEDMM_AS_NAME bfloat16
#define TILEDMM_BITS Bfloat16Bits
#include "half_functions.h"

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7f80u))
#define CUDART_NAN_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7fffu))
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0001u))
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7f7fu))
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x8000u))
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0000u))
#define CUDART_ONE_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x3f80u))
