// nvcuda::wmma: products of matrices by a warp, on tensor cores. Which elements a lane holds is not documented for GPUs; here a
// lane holds consecutive ones of the rows. Sums are rounded as in tensor_cores.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "runtime.h"
#include "tensor_cores.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

namespace detail {

// Of an element: how it is stored, how many bytes it has, and its value in a product.
template <class T>
struct Element {
    using Stored = T;
    static constexpr bool twice = false;   // whether two lanes hold each element of A and B
    static __forceinline__ int value(T x) { return x; }
};
template <>
struct Element<__half> {
    using Stored = __half;
    static constexpr bool twice = true;
    static __forceinline__ auto value(__half x) { return tiledmm_detail::aligned(tiledmm_detail::value_of(x), tiledmm_detail::LEAST_HALF); }
};
template <>
struct Element<__nv_bfloat16> {
    using Stored = __nv_bfloat16;
    static constexpr bool twice = false;
    static __forceinline__ auto value(__nv_bfloat16 x) { return tiledmm_detail::aligned(tiledmm_detail::value_of(x), tiledmm_detail::LEAST_FLOAT); }
};
template <>
struct Element<precision::tf32> {
    using Stored = float;
    static constexpr bool twice = false;
    static __forceinline__ auto value(float x) {
        return tiledmm_detail::aligned(__uint_as_float(__float_as_uint(x) & ~0x1fffu), tiledmm_detail::LEAST_FLOAT);
    }
};
template <>
struct Element<double> {
    using Stored = double;
    static constexpr bool twice = false;
    static __forceinline__ double value(double x) { return x; }
};

template <class Use, int M, int N, int K>
struct Extent;
template <int M, int N, int K>
struct Extent<matrix_a, M, N, K> {
    static constexpr int rows = M, cols = K;
};
template <int M, int N, int K>
struct Extent<matrix_b, M, N, K> {
    static constexpr int rows = K, cols = N;
};
template <int M, int N, int K>
struct Extent<accumulator, M, N, K> {
    static constexpr int rows = M, cols = N;
};

// The shapes of A and B by their type, and of sums by theirs.
template <bool IS_SUM, class T, int M, int N, int K>
constexpr bool EXISTS = false;
#define TILEDMM_SHAPE(is_sum, T, M, N, K) \
    template <>                           \
    constexpr bool EXISTS<is_sum, T, M, N, K> = true;
#define TILEDMM_SHAPES(is_sum, T)           \
    TILEDMM_SHAPE(is_sum, T, 16, 16, 16)    \
    TILEDMM_SHAPE(is_sum, T, 32, 8, 16)     \
    TILEDMM_SHAPE(is_sum, T, 8, 32, 16)
TILEDMM_SHAPES(false, __half)
TILEDMM_SHAPES(false, signed char)
TILEDMM_SHAPES(false, unsigned char)
TILEDMM_SHAPES(true, __half)
TILEDMM_SHAPES(true, float)
TILEDMM_SHAPES(true, int)
#if __CUDA_ARCH__ >= 800
TILEDMM_SHAPES(false, __nv_bfloat16)
TILEDMM_SHAPE(false, precision::tf32, 16, 16, 8)
TILEDMM_SHAPE(true, float, 16, 16, 8)
TILEDMM_SHAPE(false, double, 8, 8, 4)
TILEDMM_SHAPE(true, double, 8, 8, 4)
#endif
#undef TILEDMM_SHAPES
#undef TILEDMM_SHAPE

// The layouts of A and B; sums have none.
template <bool IS_SUM, class Layout>
constexpr bool LAYOUT = false;
template <>
constexpr bool LAYOUT<true, void> = true;
template <>
constexpr bool LAYOUT<false, row_major> = true;
template <>
constexpr bool LAYOUT<false, col_major> = true;

// The types of sums of products of a type.
template <class T, class Sum>
constexpr bool ADDS = false;
template <>
constexpr bool ADDS<__half, __half> = true;
template <>
constexpr bool ADDS<__half, float> = true;
template <>
constexpr bool ADDS<__nv_bfloat16, float> = true;
template <>
constexpr bool ADDS<precision::tf32, float> = true;
template <>
constexpr bool ADDS<double, double> = true;
template <>
constexpr bool ADDS<signed char, int> = true;
template <>
constexpr bool ADDS<unsigned char, int> = true;

template <class Use>
constexpr bool IS_SUM = false;
template <>
constexpr bool IS_SUM<accumulator> = true;

template <class Use, int M, int N, int K, class T, class Layout>
struct Checked {
    static_assert(EXISTS<IS_SUM<Use>, T, M, N, K>,
                  "wmma has no fragment of this shape and type on this architecture: A and B are 16x16x16, 32x8x16 and 8x32x16 of __half, "
                  "signed char and unsigned char (from 8.0 also __nv_bfloat16), and from 8.0 16x16x8 of precision::tf32 and 8x8x4 of "
                  "double; sums of them are of float or __half, int, float, and double");
    static_assert(LAYOUT<IS_SUM<Use>, Layout>,
                  "wmma has no fragment of this layout: A and B are row_major or col_major, and a sum gets its layout where it is "
                  "loaded and stored");
};

// All elements of a matrix, of which every lane gives its own.
template <class T, int COUNT, int ALL>
__forceinline__ void gather(const T (&own)[COUNT], T (&all)[ALL]) {
    constexpr int TOGETHER = 8 / sizeof(T) < COUNT ? 8 / sizeof(T) : COUNT;
    for (int at = 0; at < COUNT; at += TOGETHER) {
        unsigned long long bits = 0;
        __builtin_memcpy(&bits, &own[at], TOGETHER * sizeof(T));
        tiledmm_exchange(tiledmm_detail::WHOLE_WARP, bits, tiledmm_detail::TENSOR_CORE);
        for (int lane = 0; lane < ALL / COUNT; ++lane) {
            bits = tiledmm_exchanged(static_cast<unsigned>(lane));
            __builtin_memcpy(&all[lane * COUNT + at], &bits, TOGETHER * sizeof(T));
        }
    }
}

// Waits for all lanes of the warp, which load or store one matrix.
template <class T>
__forceinline__ void begin(const void* at, unsigned ldm, unsigned kind) {
    unsigned long long matrix = reinterpret_cast<unsigned long long>(at);
    __asm__("" : "+r"(matrix));   // or GCC adds the rest to a shared array's offset, of which a relocation has 32 bits
    matrix += static_cast<unsigned long long>(ldm) << 48;
    tiledmm_exchange(tiledmm_detail::WHOLE_WARP, matrix, kind);
    if (matrix != tiledmm_exchanged(0)) tiledmm_broken_rule(1);
    if (reinterpret_cast<size_t>(at) % 32) tiledmm_broken_rule(2);
    if (ldm * sizeof(T) % 16) tiledmm_broken_rule(3);
}

}   // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment : detail::Checked<Use, M, N, K, T, Layout> {
public:
    using element_type = T;
    using storage_element_type = typename detail::Element<T>::Stored;
    static constexpr int rows = detail::Extent<Use, M, N, K>::rows, cols = detail::Extent<Use, M, N, K>::cols;
    static constexpr int num_elements = rows * cols / 32;
    static constexpr int num_storage_elements = num_elements;
    storage_element_type x[num_elements];
};
template <int M, int N, int K, class Layout>
class fragment<matrix_a, M, N, K, __half, Layout> : detail::Checked<matrix_a, M, N, K, __half, Layout> {
public:
    using element_type = __half;
    using storage_element_type = __half;
    static constexpr int rows = M, cols = K, num_elements = 16, num_storage_elements = 16;
    __half x[16];
};
template <int M, int N, int K, class Layout>
class fragment<matrix_b, M, N, K, __half, Layout> : detail::Checked<matrix_b, M, N, K, __half, Layout> {
public:
    using element_type = __half;
    using storage_element_type = __half;
    static constexpr int rows = K, cols = N, num_elements = 16, num_storage_elements = 16;
    __half x[16];
};

namespace detail {

// The offset in memory of element i of this lane.
template <class Fragment>
__forceinline__ size_t offset(int i, unsigned ldm, bool by_rows) {
    const unsigned element = (tiledmm_lane() * Fragment::num_elements + i) % (Fragment::rows * Fragment::cols);
    const unsigned row = element / Fragment::cols, col = element % Fragment::cols;
    return by_rows ? static_cast<size_t>(row) * ldm + col : static_cast<size_t>(col) * ldm + row;
}
template <class Layout>
constexpr bool BY_ROWS = true;
template <>
constexpr bool BY_ROWS<col_major> = false;

// A row of A times a column of B, and an element of C.
template <class T, int K>
__forceinline__ float multiply_add(const typename Element<T>::Stored* row, const typename Element<T>::Stored* col, int step, float c) {
    tiledmm_detail::Aligned products[K];
    for (int k = 0; k < K; ++k) products[k] = tiledmm_detail::multiplied(Element<T>::value(row[k]), Element<T>::value(col[k * step]));
    return tiledmm_detail::sum_of_products(c, products);
}
template <class T, int K>
__forceinline__ __half multiply_add(const T* row, const T* col, int step, __half c) {
    return __float2half(multiply_add<T, K>(row, col, step, __half2float(c)));
}
template <class T, int K>
__forceinline__ double multiply_add(const double* row, const double* col, int step, double c) {
    for (int k = 0; k < K; ++k) c = __builtin_fma(row[k], col[k * step], c);
    return c;
}
template <class T, int K>
__forceinline__ int multiply_add(const T* row, const T* col, int step, int c) {
    unsigned sum = static_cast<unsigned>(c);   // wraps
    for (int k = 0; k < K; ++k) sum += static_cast<unsigned>(static_cast<int>(row[k]) * static_cast<int>(col[k * step]));
    return static_cast<int>(sum);
}
template <class T, int K>
__forceinline__ int multiply_add_saturated(const T* row, const T* col, int step, int c) {
    long long sum = c;
    for (int k = 0; k < K; ++k) sum += static_cast<int>(row[k]) * static_cast<int>(col[k * step]);
    return static_cast<int>(sum > __INT_MAX__ ? __INT_MAX__ : sum < -__INT_MAX__ - 1ll ? -__INT_MAX__ - 1ll : sum);
}

}   // namespace detail

template <class Use, int M, int N, int K, class T, class Layout>
__forceinline__ void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const typename detail::Element<T>::Stored& value) {
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = value;
}
template <class Use, int M, int N, int K, class T, class Layout>
__forceinline__ void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const typename detail::Element<T>::Stored* at, unsigned ldm) {
    static_assert(!__is_same(Use, accumulator), "load_matrix_sync of an accumulator needs its layout: mem_row_major or mem_col_major");
    detail::begin<typename detail::Element<T>::Stored>(at, ldm, tiledmm_detail::LOAD_MATRIX);
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = at[detail::offset<fragment<Use, M, N, K, T, Layout>>(i, ldm, detail::BY_ROWS<Layout>)];
}
template <int M, int N, int K, class T>
__forceinline__ void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* at, unsigned ldm, layout_t layout) {
    detail::begin<T>(at, ldm, tiledmm_detail::LOAD_MATRIX);
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = at[detail::offset<fragment<accumulator, M, N, K, T>>(i, ldm, layout == mem_row_major)];
}
template <int M, int N, int K, class T>
__forceinline__ void store_matrix_sync(T* at, const fragment<accumulator, M, N, K, T>& f, unsigned ldm, layout_t layout) {
    detail::begin<T>(at, ldm, tiledmm_detail::STORE_MATRIX);
    for (int i = 0; i < f.num_elements; ++i) at[detail::offset<fragment<accumulator, M, N, K, T>>(i, ldm, layout == mem_row_major)] = f.x[i];
}

template <int M, int N, int K, class T, class LayoutA, class LayoutB, class D, class C>
__forceinline__ void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                              const fragment<matrix_b, M, N, K, T, LayoutB>& b, const fragment<accumulator, M, N, K, C>& c,
                              bool saturate = false) {
    static_assert(detail::ADDS<T, C> && detail::ADDS<T, D>,
                  "mma_sync has no sum of this type for these factors: float or __half for __half, int for signed and unsigned char, "
                  "float for __nv_bfloat16 and precision::tf32, double for double");
    typename detail::Element<T>::Stored rows[M * K], cols[K * N];
    detail::gather(a.x, rows);
    detail::gather(b.x, cols);
    for (int i = 0; i < c.num_elements; ++i) {
        const int element = static_cast<int>(tiledmm_lane()) * c.num_elements + i;
        const auto *row = &rows[element / N * K], *col = &cols[element % N];
        if constexpr (sizeof(rows[0]) == 1) {
            d.x[i] = saturate ? detail::multiply_add_saturated<T, K>(row, col, N, c.x[i]) : detail::multiply_add<T, K>(row, col, N, c.x[i]);
        } else {
            d.x[i] = static_cast<D>(detail::multiply_add<T, K>(row, col, N, c.x[i]));
        }
    }
    if (sizeof(rows[0]) != 1) TILEDMM_COUNT_FLOPS(2 * M * N * K / 32);
}

__forceinline__ float __float_to_tf32(float x) {   // to nearest, halves away from zero
    return x == x ? __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu) : __uint_as_float(0x7fffffffu);
}

}   // namespace wmma
}   // namespace nvcuda
