// Complex numbers as CUDA's C functions have them.
#pragma once

#include "functions.h"
#include "intrinsics.h"

#ifdef TILEDMM_TRANSLATES_CUCOMPLEX   // CuPy's translate_cucomplex=True
#include <cupy/complex.cuh>
using cuFloatComplex = complex<float>;
using cuDoubleComplex = complex<double>;
#else
using cuFloatComplex = float2;
using cuDoubleComplex = double2;
#endif
using cuComplex = cuFloatComplex;

#define TILEDMM_COMPLEX(T, Part, f, absolute)                                                                          \
    __forceinline__ T make_##T(Part re, Part im) { return {re, im}; }                                                  \
    __forceinline__ Part cuCreal##f(T x) { return x.x; }                                                               \
    __forceinline__ Part cuCimag##f(T x) { return x.y; }                                                               \
    __forceinline__ T cuConj##f(T x) { return {x.x, -x.y}; }                                                           \
    __forceinline__ T cuCadd##f(T x, T y) { return {x.x + y.x, x.y + y.y}; }                                           \
    __forceinline__ T cuCsub##f(T x, T y) { return {x.x - y.x, x.y - y.y}; }                                           \
    __forceinline__ T cuCmul##f(T x, T y) { return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }                   \
    __forceinline__ T cuCdiv##f(T x, T y) {   /* scaled, so that no square overflows */                                \
        const Part size = (y.x < 0 ? -y.x : y.x) + (y.y < 0 ? -y.y : y.y), a = x.x / size, b = x.y / size;             \
        const Part c = y.x / size, d = y.y / size, square = c * c + d * d;                                             \
        return {(a * c + b * d) / square, (b * c - a * d) / square};                                                   \
    }                                                                                                                  \
    __forceinline__ Part cuCabs##f(T x) { return absolute(x.x, x.y); }                                                 \
    __forceinline__ T cuCfma##f(T x, T y, T z) {                                                                       \
        return {x.x * y.x + z.x - x.y * y.y, x.x * y.y + z.y + x.y * y.x};                                             \
    }
TILEDMM_COMPLEX(cuFloatComplex, float, f, hypotf)
TILEDMM_COMPLEX(cuDoubleComplex, double, , hypot)
#undef TILEDMM_COMPLEX

__forceinline__ cuComplex make_cuComplex(float re, float im) { return {re, im}; }
__forceinline__ cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
__forceinline__ cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) {
    return {static_cast<float>(x.x), static_cast<float>(x.y)};
}
