"""Tests of ``native/wgmma_sums.h``: the simulator's wgmma gives each bit that a GPU gave."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from benchmarks.studies.wgmma_sums import DATA, KINDS, RECORDED
from tests.conftest import missing_simulator
from tests.simulator.native_library import native_library

pytestmark = pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))

SOURCE = """
#include "wgmma_sums.h"

using namespace tiledmm_detail;

static ElementType type_of(const char* name) {
    const struct { const char* name; ElementType type; } all[] = {
        {"f16", F16}, {"bf16", BF16}, {"tf32", TF32}, {"e4m3", E4M3}, {"e5m2", E5M2}, {"s8", S8}, {"u8", U8}, {"f32", F32},
        {"s32", S32},
    };
    for (const auto& each : all)
        if (!std::strcmp(each.name, name)) return each.type;
    __builtin_trap();
}

extern "C" void multiply_rows(const char* d_type, const char* a_type, const char* b_type, int saturates, unsigned n,
                              unsigned scale_d, int scale_a, int scale_b, unsigned repeats, const uint8_t* a,
                              const uint8_t* b, uint32_t* sums) {
    Wgmma product = {};
    product.sum_type = type_of(d_type);
    product.a_type = type_of(a_type);
    product.b_type = type_of(b_type);
    product.n = n;
    product.k = WGMMA_ROW_BYTES;   // bytes; the functions know k by the types
    product.registers = product.sum_type == F16 ? n / 4 : n / 2;
    product.scale_d = scale_d;
    product.scale_a = scale_a;
    product.scale_b = scale_b;
    product.saturates = saturates;
    while (repeats--) multiply(product, a, b, sums);
}
extern "C" void pack(const uint32_t* registers, uint8_t* a) {
    pack_rows(*reinterpret_cast<const uint32_t(*)[32][4]>(registers), a);
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return native_library(SOURCE, tmp_path_factory.mktemp("wgmma_sums"))


def lanes(n, halves):
    """Return the indices of a warp's sums by lane and register, and in float16 by the two of a register."""
    lane, i = np.ogrid[:32, : n // 2]
    return lane // 4 + i // 2 % 2 * 8, i // 4 * 8 + 2 * (lane % 4) + i % 2


def multiplied(native, kind, a, b, c, *, scales=(1, 1, 1), repeats=1):
    """Return D (M, N) for packed A (M, 8), B (N, 8) and C (M, N): 32-bit words, or float16 for its sums."""
    d_type, _, saturates = kind[0].partition(".")
    d, a, b = c.copy(), np.ascontiguousarray(a), np.ascontiguousarray(b)
    rows, columns = lanes(len(b), d_type == "f16")
    for first in range(0, len(a), 16):
        sums = np.ascontiguousarray(d[first + rows, columns])
        native.multiply_rows(
            d_type.encode(), kind[1].encode(), kind[2].encode(), bool(saturates), len(b), *scales, repeats,
            *(each.ctypes.data_as(ctypes.c_void_p) for each in (a[first : first + 16], b, sums)),
        )  # fmt: skip
        d[first + rows, columns] = sums
    return d


def unpacked(kind, words):
    return words.view(np.uint16) if kind[0] == "f16" else words


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_wgmma_has_the_bits_that_a_gpu_gave(native, kind):
    with np.load(RECORDED) as recorded:
        for data in DATA:
            a, b, c, expected = (recorded["/".join((*kind, data, name))] for name in "ABCD")
            found = multiplied(native, kind, a, b, unpacked(kind, c))
            np.testing.assert_array_equal(found, unpacked(kind, expected), err_msg=data)
