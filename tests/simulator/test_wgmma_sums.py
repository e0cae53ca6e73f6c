"""Tests of ``native/wgmma_sums.h``: the simulator's wgmma gives each bit that a GPU gave."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from benchmarks.studies.wgmma_sums import DATA, FORMATS, KINDS, RECORDED, operands, sum_of_products
from tests.conftest import missing_simulator
from tests.simulator.native_library import native_library

pytestmark = pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))

SOURCE = """
#include "wgmma_sums.h"

using namespace tiledmm_detail;

static ElementType type_of(const char* name) {
    const struct { const char* name; ElementType type; } all[] = {
        {"f16", F16}, {"bf16", BF16}, {"tf32", TF32}, {"e4m3", E4M3}, {"e5m2", E5M2}, {"s8", S8}, {"u8", U8},
        {"f32", F32}, {"s32", S32},
    };
    for (const auto& each : all)
        if (!std::strcmp(each.name, name)) return each.type;
    __builtin_trap();
}

extern "C" void multiply_rows(const char* d_type, const char* a_type, const char* b_type, int saturates, unsigned n,
                              unsigned scale_d, int scale_a, int scale_b, const uint8_t* a,
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
    multiply(product, a, b, sums);
}
extern "C" void pack(const uint32_t* registers, uint8_t* a) {
    pack_rows(*reinterpret_cast<const uint32_t(*)[32][4]>(registers), a);
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return native_library(SOURCE, tmp_path_factory.mktemp("wgmma_sums"))


def lanes(n):
    """Return rows and columns of a warp's sums by lane and register; a register holds two in float16."""
    lane, i = np.ogrid[:32, : n // 2]
    return lane // 4 + i // 2 % 2 * 8, i // 4 * 8 + 2 * (lane % 4) + i % 2


def multiplied(native, kind, a, b, c, *, scales=(1, 1, 1)):
    """Return D (M, N) for packed A (M, 8), B (N, 8) and C (M, N): 32-bit words, or float16 for its sums."""
    d_type, _, saturates = kind[0].partition(".")
    d, a, b = c.copy(), np.ascontiguousarray(a), np.ascontiguousarray(b)
    rows, columns = lanes(len(b))
    for first in range(0, len(a), 16):
        sums = np.ascontiguousarray(d[first + rows, columns])
        native.multiply_rows(
            d_type.encode(), kind[1].encode(), kind[2].encode(), bool(saturates), len(b), *scales,
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


def wide_operands(kind, data, columns, rng):
    """Return packed operands as ``operands`` does, of more columns."""
    parts = [operands(*kind, data, rng) for _ in range(columns // 8)]
    a = parts[0][0]
    b = np.concatenate([part[1] for part in parts])
    return a, b, np.concatenate([unpacked(kind, part[2]) for part in parts], axis=1)


def modelled(kind, a, b, c):
    words = np.ascontiguousarray(c).view(np.uint32)
    return unpacked(kind, sum_of_products(*kind, a, b, words))


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_wgmma_has_the_bits_of_the_model(native, kind):
    rng = np.random.default_rng(1)
    for data in DATA:
        a, b, c = wide_operands(kind, data, 24, rng)
        np.testing.assert_array_equal(multiplied(native, kind, a, b, c), modelled(kind, a, b, c), err_msg=data)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[1] in FORMATS], ids=" ".join)
def test_a_sum_of_negative_zeros_is_a_positive_one(native, kind):
    """On an H200 too, whatever the signs of zeros are."""
    negative = {8: 0x80808080, 16: 0x80008000, 32: 0x80000000}[FORMATS[kind[1]].bits]
    a, b = np.full((16, 8), negative, np.uint32), np.zeros((8, 8), np.uint32)
    c = np.full((16, 8), *((0x8000, np.uint16) if kind[0] == "f16" else (0x80000000, np.uint32)))
    assert not multiplied(native, kind, a, b, c).any()


def test_the_widest_wgmma(native):
    kind = ("f32", "bf16", "bf16")
    a, b, c = wide_operands(kind, "near", 256, np.random.default_rng(2))
    np.testing.assert_array_equal(multiplied(native, kind, a, b, c), modelled(kind, a, b, c))


@pytest.mark.parametrize("kind", [("f32", "f16", "f16"), ("f16", "e4m3", "e5m2"), ("s32", "s8", "u8")], ids=" ".join)
def test_without_scale_d_sums_are_not_read(native, kind):
    a, b, c = wide_operands(kind, "near", 16, np.random.default_rng(3))
    c[:] = 0x7FFF if kind[0] == "f16" else 0x7FFFFFFF
    np.testing.assert_array_equal(
        multiplied(native, kind, a, b, c, scales=(0, 1, 1)), modelled(kind, a, b, np.zeros_like(c))
    )


@pytest.mark.parametrize("data", ["near", "special"])
@pytest.mark.parametrize(
    "kind", [("f32", "tf32", "tf32"), ("f32", "e4m3", "e5m2"), ("f16", "f16", "f16")], ids=" ".join
)
def test_scales_negate_operands(native, kind, data):
    a, b, c = wide_operands(kind, data, 16, np.random.default_rng(4))
    sign = {8: 0x80808080, 16: 0x80008000, 32: 0x80000000}[FORMATS[kind[1]].bits]
    negated = modelled(kind, a ^ np.uint32(sign), b, c)
    for scales in ((1, -1, 1), (1, 1, -1)):
        np.testing.assert_array_equal(multiplied(native, kind, a, b, c, scales=scales), negated)
    np.testing.assert_array_equal(multiplied(native, kind, a, b, c, scales=(1, -1, -1)), modelled(kind, a, b, c))


def test_integers_wrap_or_saturate(native):
    a, b = np.full((16, 8), 0x7F7F7F7F, np.uint32), np.full((8, 8), 0x7F7F7F7F, np.uint32)
    a[8:] = 0x80808080  # -128 or 128
    c = np.full((16, 8), 0x7FFFFFFF, np.uint32)
    c[8:] = 0x80000000
    largest, least = 32 * 127 * 127, -32 * 128 * 127
    for d, expected in (
        ("s32", [(1 << 31) - 1 + largest - (1 << 32), -(1 << 31) + least + (1 << 32)]),
        ("s32.satfinite", [(1 << 31) - 1, -(1 << 31)]),
    ):  # fmt: skip
        found = multiplied(native, (d, "s8", "s8"), a, b, c).view(np.int32)
        assert (found[:8] == expected[0]).all() and (found[8:] == expected[1]).all(), d


def test_registers_of_a_as_rows(native):
    lane, i = np.ogrid[:32, :4]
    a = np.random.default_rng(5).integers(0, 1 << 32, (16, 8), dtype=np.uint32)
    registers = np.ascontiguousarray(a[lane // 4 + i % 2 * 8, lane % 4 + i // 2 * 4])
    packed = np.zeros_like(a)
    native.pack(*(each.ctypes.data_as(ctypes.c_void_p) for each in (registers, packed)))
    np.testing.assert_array_equal(packed, a)
