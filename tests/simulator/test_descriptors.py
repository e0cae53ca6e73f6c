"""Tests of ``native/descriptors.h``: operands are where a GPU read them, and where kernels in ``hopper`` store them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks.studies.wgmma_operands import DEPTH, RECORDED, ROWS, chunks
from tests.conftest import missing_simulator
from tests.simulator.native_library import native_library

pytestmark = pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))

SOURCE = """
#include "descriptors.h"

using namespace tiledmm_detail;

extern "C" void fields(uint64_t bits, unsigned* to) {
    const Descriptor d = decode(bits);
    const unsigned all[5] = {d.address, d.leading, d.stride, d.base_offset, d.swizzle};
    std::memcpy(to, all, sizeof(all));
}
extern "C" void elements(uint64_t bits, int mn_major, unsigned rows, unsigned depth, unsigned size, unsigned* to) {
    for (unsigned mn = 0; mn < rows; ++mn)
        for (unsigned k = 0; k < depth; ++k) to[mn * depth + k] = offset_of(decode(bits), mn_major, mn, k, size);
}
// Returns the number of reads, or 0 if one is not a whole chunk.
extern "C" unsigned gathered(uint64_t bits, int mn_major, unsigned first, unsigned count, unsigned k, unsigned size,
                             const uint8_t* shared, uint8_t* out) {
    unsigned reads = 0;
    bool right = true;
    gather(decode(bits), mn_major, first, count, k, size, [&](unsigned at, unsigned bytes) {
        ++reads;
        right &= bytes == 16 && at % 16 == 0 && at < DESCRIPTOR_WINDOW;
        return shared + at;
    }, out);
    return right ? reads : 0;
}
extern "C" unsigned waves(unsigned count, unsigned k, unsigned size) { return wavefronts(count, k, size); }
"""

WINDOW = 1 << 18
SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    library = native_library(SOURCE, tmp_path_factory.mktemp("descriptors"))
    for function in (library.fields, library.elements, library.gathered):
        function.argtypes = [ctypes.c_uint64]
    return library


def elements(native, described: int, mn_major: bool, shape: tuple[int, int], element_bytes: int = 2):
    """Return where an operand's elements are: an array of shape (rows of M or N, depth along K)."""
    found = np.zeros(shape, np.uint32)
    native.elements(described, mn_major, *shape, element_bytes, found.ctypes.data_as(ctypes.c_void_p))
    return found


def descriptor(address: int, leading: int, stride: int, swizzle: int, base_offset: int = 0) -> int:
    """Return a matrix descriptor, as ``descriptor`` in hopper.cuh."""
    return (
        (address & 0x3FFFF) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base_offset << 49 | SWIZZLES[swizzle] << 62
    )


def swizzled(row_bytes: int, offset: int) -> int:
    """Return where a byte of a tile lies, as ``swizzled`` in hopper.cuh."""
    return offset ^ (offset >> 7 & (row_bytes // 16 - 1)) << 4


def core_index(rows: int, row: int, k: int) -> int:
    """Return the element (row, k) of a K-major tile without swizzle."""
    return k // 8 * rows * 8 + row // 8 * 64 + row % 8 * 8 + k % 8


def transposed_core_index(columns: int, k: int, column: int) -> int:
    """Return the element (k, column) of an MN-major tile without swizzle."""
    return k // 8 * columns * 8 + column // 8 * 64 + k % 8 * 8 + column % 8


@dataclass(frozen=True)
class Tile:
    """An operand in shared memory as a kernel has it.

    Attributes:
        name: The kernel.
        rows, depth: Elements along M or N, and along K.
        element_bytes: Bytes of an element.
        place: Byte of the element (row, k) in the tile.
        describe: Arguments of ``descriptor`` for the instruction that begins at a k; the address is in the tile.
        mn_major: Whether the operand is transposed.
    """

    name: str
    rows: int
    depth: int
    element_bytes: int
    place: Callable[[int, int], int]
    describe: Callable[[int], tuple[int, ...]]
    mn_major: bool = False

    @property
    def step(self) -> int:
        """Elements along K of one instruction."""
        return 32 // self.element_bytes


def rows_tile(name: str, rows: int, row_bytes: int, element_bytes: int) -> Tile:
    """Return a K-major tile of rows of 32, 64 or 128 swizzled bytes."""
    return Tile(
        name, rows, row_bytes // element_bytes, element_bytes,
        lambda row, k: swizzled(row_bytes, row * row_bytes + k * element_bytes),
        lambda k: (k * element_bytes, 16, 8 * row_bytes, row_bytes),
    )  # fmt: skip


def slabs_tile(name: str, columns: int, depth: int, row_bytes: int) -> Tile:
    """Return an MN-major tile of slabs of ``depth`` rows of 32, 64 or 128 swizzled bytes."""
    row = row_bytes // 2

    def place(column: int, k: int) -> int:
        return swizzled(row_bytes, 2 * ((column // row * depth + k) * row + column % row))

    return Tile(
        name, columns, depth, 2, place, lambda k: (k * row_bytes, depth * row_bytes, 8 * row_bytes, row_bytes), True
    )


def window_tile(first: int) -> Tile:
    """Return 8 rows from any row on of a tile of rows of 128 swizzled bytes."""
    tile = rows_tile(f"wgmma_windows {first}", 8, 128, 2)
    return Tile(
        tile.name, 8, 64, 2, lambda row, k: tile.place(first + row, k),
        lambda k: (first * 128 + k * 2, 16, 1024, 128),
    )  # fmt: skip


TILES = (
    *(
        Tile(
            f"wgmma_no_swizzle {rows}", rows, 64, 2, lambda row, k, rows=rows: 2 * core_index(rows, row, k),
            lambda k, rows=rows: (2 * k * rows, rows * 16, 128, 0),
        )
        for rows in (64, 8)
    ),
    *(rows_tile(f"wgmma_swizzle_{size} {rows}", rows, size, 2) for size in (32, 64, 128) for rows in (64, 8)),
    *(slabs_tile(f"wgmma_transposed_{size}", 64, 32, size) for size in (32, 64, 128)),
    Tile(
        "wgmma_transposed_no_swizzle", 64, 32, 2, lambda column, k: 2 * transposed_core_index(64, k, column),
        lambda k: (2 * k * 64, 64 * 16, 128, 0), True,
    ),
    *map(window_tile, range(9)),
    Tile(
        "wgmma_shifted", 8, 64, 2, lambda row, k: 512 + swizzled(128, 2 * (row * 64 + k)),
        lambda k: (512 + 2 * k, 16, 1024, 128, 4),
    ),
    rows_tile("wgmma_tf32", 16, 128, 4),
    rows_tile("wgmma_int8", 64, 64, 1),
    rows_tile("wgmma_fp8", 24, 128, 1),
    rows_tile("wgmma_fp8_registers", 8, 32, 1),
    rows_tile("wgmma_wide", 256, 32, 2),
    rows_tile("gemm_ring", 64, 128, 2),
    rows_tile("gemm_fp8_promoted", 16, 128, 1),
    rows_tile("gemm_warp_specialized a", 128, 128, 2),
    slabs_tile("gemm_warp_specialized b", 64, 64, 128),
)  # fmt: skip


def test_fields_of_a_descriptor(native):
    found = (ctypes.c_uint * 5)()
    native.fields(descriptor(0x3FFF0, 0x12340, 0x3ABC0, 64, 5), found)
    assert list(found) == [0x3FFF0, 0x12340, 0x3ABC0, 5, 64]


@pytest.mark.parametrize("base", [0, 3 * 1024, WINDOW - 1024])
@pytest.mark.parametrize("tile", TILES, ids=[tile.name for tile in TILES])
def test_elements_are_where_kernels_store_them(native, tile, base):
    """The last of the addresses wraps within the window."""
    memory = np.random.default_rng(0).integers(0, 256, WINDOW, dtype=np.uint8)
    size = tile.element_bytes
    for k0 in range(0, tile.depth, tile.step):
        at, *rest = tile.describe(k0)
        described = descriptor(base + at, *rest)
        places = np.array(
            [[(base + tile.place(row, k0 + k)) % WINDOW for k in range(tile.step)] for row in range(tile.rows)]
        )
        found = elements(native, described, tile.mn_major, (tile.rows, tile.step), size)
        np.testing.assert_array_equal(found, places)

        first, count = (16, 16) if tile.rows % 32 == 0 else (0, tile.rows)  # the rows of a warp, or all
        out = np.zeros((count, 32), np.uint8)
        reads = native.gathered(
            described, tile.mn_major, first, count, tile.step, size,
            *(each.ctypes.data_as(ctypes.c_void_p) for each in (memory, out)),
        )  # fmt: skip
        assert reads == count * 2
        expected = memory[places[first : first + count, :, None] + np.arange(size)]
        np.testing.assert_array_equal(out, expected.reshape(count, 32))


@pytest.mark.parametrize("operand", ["A/K", "A/MN", "B/K", "B/MN"])
def test_elements_are_where_a_gpu_read_them(native, operand):
    mn_major = operand.endswith("MN")
    with np.load(RECORDED) as recorded:
        given, expected = recorded[f"{operand}/descriptors"], recorded[f"{operand}/chunks"]
    found = np.stack([elements(native, int(each), mn_major, (ROWS, DEPTH)) for each in given])
    np.testing.assert_array_equal(chunks(found, mn_major), expected)
    eighth = found[:, ::8].repeat(8, 1) if mn_major else found[:, :, ::8].repeat(8, 2)
    along = np.arange(ROWS)[:, None] if mn_major else np.arange(DEPTH)
    np.testing.assert_array_equal(found - eighth, np.broadcast_to(2 * along % 16, found.shape))


@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_chunks_of_a_core_matrix_are_in_distinct_banks(native, swizzle, mn_major):
    for address in range(0, 2048, 16):
        described = descriptor(address, 48, 176, swizzle, address // 16 % 8)
        places = elements(native, described, mn_major, (8, 8))
        assert len(set((places[0] if mn_major else places[:, 0]) // 16 % 8)) == 8
    assert native.waves(64, 16, 2) == 16
