from __future__ import annotations

from dataclasses import replace

import pytest

from tiledmm.errors import ConfigError
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.config import Config
from tiledmm.kernels.variants import general_variants, kernel_spec
from tiledmm.report.inner_loops import global_wavefronts, wavefronts_per_multiply_add
from tiledmm.report.roofline import roofline

H100 = REFERENCE_GPUS["sm_90"]
LANES = range(32)


@pytest.mark.parametrize(
    ("addresses", "width", "lines"),
    [
        ([4 * lane for lane in LANES], 4, 1),
        ([4 * lane + 64 for lane in LANES], 4, 2),
        ([4096 * lane for lane in LANES], 4, 32),
        ([0 for _ in LANES], 4, 1),
        ([16 * lane for lane in LANES], 16, 4),
        ([124], 8, 2),
    ],
)
def test_global_wavefronts(addresses, width, lines):
    assert global_wavefronts(addresses, width) == lines


@pytest.mark.parametrize(
    ("variant", "layout", "dtype", "wavefronts"),
    [
        ("naive", "NN", "float32", 33),
        ("naive", "TN", "float32", 2),
        ("coalesced", "NN", "float32", 2),
        ("coalesced", "NN", "float64", 3),
        ("coalesced", "NT", "float32", 33),
    ],
)
def test_wavefronts_of_direct_kernels(variant, layout, dtype, wavefronts):
    spec = kernel_spec(variant, layout=layout, dtype=dtype)
    assert wavefronts_per_multiply_add(spec, 4096, 4096, 4096) == wavefronts


TILE_16 = Config(16, 16, 16, unroll=16)
TILE_32 = Config(32, 32, 32, unroll=32)
TILE_64 = Config(64, 64, 16, 4, 4, unroll=16)
TILE_64_DEEP = replace(TILE_64, bk=32)


# On a float32 tile of 32: As[ty][k] is a broadcast, four k to a 128-bit load (two wavefronts) unless padding breaks
# the alignment; Bs[k][tx] is a unit stride; Bs[tx][k] is 32 rows in one bank, which padding by one element, or
# by 16 bytes for 128-bit loads, spreads out. On tiles of 64 a warp reads two rows of A and 16 columns of B
# at a time.
@pytest.mark.parametrize(
    ("config", "stages", "pad", "layout", "dtype", "wavefronts"),
    [
        (TILE_32, 1, 0, "NN", "float32", 2 / 4 + 1),
        (TILE_32, 1, 1, "NN", "float32", 1 + 1),
        (TILE_32, 1, 0, "NT", "float32", 2 / 4 + 32 / 4),
        (TILE_32, 1, 1, "NT", "float32", 1 + 1),
        (TILE_32, 1, 0, "TN", "float32", 1 + 1),
        (TILE_32, 1, 0, "NN", "float16", 2 / 4 + 1),
        (TILE_32, 1, 0, "NN", "float64", 2 / 2 + 2),
        (replace(TILE_32, unroll=2), 1, 0, "NN", "float32", 1 / 2 + 1),
        (TILE_16, 1, 0, "NN", "float32", 2 / 4 + 1),
        (TILE_16, 1, 1, "NN", "float32", 1 + 1),
        (TILE_32, 2, 4, "NN", "float32", 2 / 4 + 1),
        (TILE_32, 2, 4, "NT", "float32", 2 / 4 + 4 / 4),
        (TILE_64, 1, 0, "NN", "float32", (2 / 4 + 1) / 4),
        (TILE_64, 2, 4, "NT", "float32", (2 / 4 + 4 / 4) / 4),
        (TILE_64_DEEP, 1, 0, "NN", "float32", (2 / 4 + 1) / 4),
        (TILE_64_DEEP, 1, 4, "NN", "float32", (2 / 4 + 1) / 4),
        (TILE_64_DEEP, 2, 4, "NN", "float32", (2 / 4 + 1) / 4),
        (replace(TILE_64, tn=2), 1, 0, "NN", "float32", 2 / 4 / 2 + 1 / 4),
    ],
)
def test_wavefronts_of_tiled_kernels(config, stages, pad, layout, dtype, wavefronts):
    spec = kernel_spec("double_buffered" if stages == 2 else "tiled", layout=layout, dtype=dtype)
    spec = replace(spec, config=replace(config, stages=stages, pad=pad))
    assert wavefronts_per_multiply_add(spec, 4096, 4096, 4096) == wavefronts


# What the rungs are capped at on an H100, and what they were measured at there, in TFLOP/s.
@pytest.mark.parametrize(
    ("variant", "cap", "measured"), [("naive", 0.51, 0.50), ("coalesced", 8.4, 6.3), ("tiled", 11.1, 9.2)]
)
def test_the_load_bound_caps_the_measured_rungs(variant, cap, measured):
    result = roofline(kernel_spec(variant), H100, 4096, 4096, 4096)
    assert result.limited_by == "on-chip loads"
    assert result.bound == result.load_bound == pytest.approx(cap * 1e12, rel=0.01)
    assert result.bound > measured * 1e12


def test_requested_bytes_of_a_direct_kernel_are_two_elements_a_multiply_add():
    result = roofline(kernel_spec("coalesced"), H100, 100, 200, 300)
    assert result.flops == 2 * 100 * 200 * 300
    assert result.requested_bytes == 4 * (2 * 100 * 200 * 300 + 100 * 200)
    assert result.compulsory_bytes == 4 * (100 * 300 + 300 * 200 + 100 * 200)
    assert result.intensity == result.flops / result.requested_bytes


def test_requested_bytes_of_a_tiled_kernel_shrink_with_the_tile():
    m, n, k = 64, 96, 32
    result = roofline(kernel_spec("tiled", tile=32), H100, m, n, k)
    assert result.requested_bytes == 4 * (m * k * 3 + k * n * 2 + m * n)
    # A block at the edge loads what there is of its tiles.
    ragged = roofline(kernel_spec("tiled", tile=32), H100, m, n + 1, k)
    assert ragged.requested_bytes == 4 * (m * k * 4 + k * (n + 1) * 2 + m * (n + 1))


def test_bytes_follow_the_types_in_memory():
    spec = kernel_spec("tiled", tile=32, a_dtype="float16", b_dtype="float64", out_dtype="complex64")
    assert roofline(spec, H100, 32, 32, 32).compulsory_bytes == 32 * 32 * (2 + 8 + 8)


def test_a_matrix_times_a_vector_is_limited_by_memory():
    result = roofline(kernel_spec("tiled", tile=64), H100, 8192, 1, 8192)
    assert result.limited_by == "memory"
    assert result.bound == result.compulsory_intensity * H100.bandwidth


def test_a_large_thread_tile_on_slow_units_is_limited_by_multiply_adds():
    gpu = REFERENCE_GPUS["sm_89"]
    result = roofline(kernel_spec("tiled", tile=64, dtype="float64"), gpu, 4096, 4096, 4096)
    assert result.limited_by == "multiply-adds"
    assert result.bound == gpu.peak_flops("float64")


@pytest.mark.parametrize("variant", general_variants(), ids=lambda variant: variant.name)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG"])
def test_every_kernel_has_bounds(variant, layout):
    for tile in variant.tiles or (None,):
        for dtype in ("int8", "bfloat16", "float32", "complex128"):
            result = roofline(kernel_spec(variant, tile=tile, layout=layout, dtype=dtype), H100, 257, 129, 65)
            assert 0 < result.bound <= H100.peak_flops(dtype)
            assert result.compulsory_intensity >= result.intensity


@pytest.mark.parametrize("tile", [32, 64, 128, 256])
def test_pairs_of_lanes_share_what_they_read(tile: int) -> None:
    config = kernel_spec("warp_tiled", tile=tile).config
    reads = 2 * (config.tm + config.tn) / 4 / (config.tm * config.tn)  # two wavefronts each
    assert wavefronts_per_multiply_add(kernel_spec("warp_tiled", tile=tile), 4096, 4096, 4096) == reads


def test_tensor_cores_have_bounds_of_their_own() -> None:
    bounds = roofline(kernel_spec("tensor_core", dtype="float16"), H100, 4096, 4096, 4096)
    assert bounds.fma_bound == H100.tensor_flops(2) > 10 * H100.peak_flops("float16")
    assert bounds.wavefronts == 8 * 4 / (64 * 64 * 16 / 32)
    assert (
        roofline(kernel_spec("tensor_core", dtype="int8"), H100, 4096, 4096, 4096).wavefronts == bounds.wavefronts / 2
    )
    tf32 = roofline(kernel_spec("tensor_core", dtype="tf32"), H100, 4096, 4096, 4096)
    assert (tf32.fma_bound, tf32.wavefronts) == (H100.tensor_flops(2) / 2, 2 * bounds.wavefronts)
    doubles = roofline(kernel_spec("tensor_core", dtype="float64"), H100, 4096, 4096, 4096)
    assert doubles.fma_bound == H100.tensor_flops(8) == 4 * H100.tensor_flops(16) == 2 * H100.peak_flops("float64")
    assert doubles.wavefronts == 4 * 6 * 4 / (64 * 32 * 16 / 32)
    # 64 rows and 256 columns of 2 bytes, for 64 * 256 multiply-adds: shared memory is no limit.
    hopper = roofline(kernel_spec("wgmma", tile=256), H100, 4096, 4096, 4096)
    assert hopper.wavefronts == (64 + 256) * 2 / 128 / (64 * 256 / 32)
    assert hopper.limited_by == "multiply-adds"


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_empty_products_have_no_bounds(sizes):
    with pytest.raises(ConfigError):
        roofline(kernel_spec("naive"), H100, *sizes)


def test_a_warp_whose_lanes_share_k_reads_its_own_rows_and_columns() -> None:
    spec = kernel_spec("dot_products", tile=4, layout="NT")
    config = spec.config
    assert (config.tm, config.tn, config.bk) == (4, 2, 128)
    bounds = roofline(spec, REFERENCE_GPUS["sm_90"], 4, 4096, 4096)
    # 4 rows and 2 columns, 4 wavefronts each, for 4 * 2 * 4 multiply-adds.
    assert bounds.wavefronts == 6 * 4 / 32
    assert bounds.requested_bytes == 4 * (4 * 4096 * 2048 + 4096 * 4096 + 4 * 4096)
    assert bounds.limited_by == "memory"

    assert wavefronts_per_multiply_add(kernel_spec("dot_products", tile=4, dtype="complex128"), 4, 64, 64) == 5 * 4 / 4


def test_a_warp_of_axpy_reads_four_rows_of_b() -> None:
    assert wavefronts_per_multiply_add(kernel_spec("axpy", tile=4, dtype="int8"), 4, 64, 64) == (4 + 4) / (4 * 8)
    spec = kernel_spec("axpy", tile=2)
    bounds = roofline(spec, REFERENCE_GPUS["sm_90"], 2, 4096, 4096)
    # 512 bytes of B and an element of each row of A a lane, for 2 * 4 multiply-adds.
    assert bounds.wavefronts == (4 + 2) / 8
    assert bounds.requested_bytes == 4 * (2 * 4096 * 1024 + 4096 * 4096 + 2 * 4096)
    assert bounds.limited_by == "memory"


@pytest.mark.parametrize(
    ("tile", "layout", "wavefronts"), [(4, "NN", 1.0), (4, "TN", 0.75), (8, "NN", 0.375), (16, "TT", 0.375)]
)
def test_groups_of_a_warp_read_tiles_of_their_own(tile: int, layout: str, wavefronts: float) -> None:
    assert wavefronts_per_multiply_add(kernel_spec("tiny", tile=tile, layout=layout), 64, 64, 64) == wavefronts


@pytest.mark.parametrize(("k", "reads"), [(4, 32 + 2), (5, 128 + 128)])
def test_outer_products_keep_nothing_where_k_is_longer_than_they_are_for(k: int, reads: int) -> None:
    spec = kernel_spec("outer_products", tile=4)
    found = roofline(spec, H100, 128, 128, k)
    per_element = found.requested_bytes - 4 * 128 * 128
    assert (per_element == 4 * 128 * k * reads) is (k > spec.config.bk)
    assert wavefronts_per_multiply_add(spec, 128, 128, k) > (1.9 if k > spec.config.bk else 0)
