"""Tests of tensor maps for TMA: sizes, strides and boxes of operands, and operands that TMA cannot load."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.strategies import np_dtype
from tiledmm.elements import TF32, compute_element, element
from tiledmm.errors import DeviceError, ShapeError
from tiledmm.kernels import tensor_maps
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import TensorMap, can_be_mapped, has_coordinates, map_of
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import Product, resolve
from tiledmm.problem.strides import BatchDimension, Problem
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choose import select

HALF = element("float16")


def array(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "float16") -> np.ndarray:
    """Return an array of any extent over a few bytes, with strides in elements."""
    one = np.zeros(1, np_dtype(dtype))
    return np.lib.stride_tricks.as_strided(one, shape, tuple(step * one.itemsize for step in strides))


def product(x1: np.ndarray, x2: np.ndarray) -> Product:
    return resolve(describe(x1), describe(x2))


@pytest.mark.parametrize(
    ("layout", "maps"),
    [
        ("NN", (((200, 300, 1, 1, 1), 400, (64, 128)), ((512, 200, 1, 1, 1), 1024, (64, 64)))),
        ("TT", (((300, 200, 1, 1, 1), 608, (64, 64)), ((200, 512, 1, 1, 1), 400, (64, 256)))),
    ],
)
def test_maps_of_a_product(layout: str, maps: tuple) -> None:
    x1 = array((300, 200), (200, 1)) if layout[0] == "N" else array((300, 200), (1, 304))
    x2 = array((200, 512), (512, 1)) if layout[1] == "N" else array((200, 512), (1, 200))
    choice = select("wgmma", 256, product(x1, x2))  # two blocks of 128 rows share 256 columns of B
    found = schedule(choice.spec, choice.product.problem).multiplying.maps
    assert [(each.sizes, each.strides[0], each.box) for each in found] == list(maps)
    assert all(each.itemsize == 2 for each in found)


def test_the_copy_engine_rounds_what_tensor_cores_would_cut_off() -> None:
    wgmma = find_variant("wgmma")
    config = wgmma.config(96, TF32)
    wanted = product(array((300, 200), (200, 1), "float32"), array((200, 512), (1, 200), "float32"))
    spec = KernelSpec(wgmma, config, wanted.a, wanted.b, TF32, wanted.c, "NT").with_packing_for_tma(True, True)
    maps = schedule(spec, wanted.problem).multiplying.maps
    assert [(each.rounds, each.itemsize, each.box) for each in maps] == [(True, 4, (32, 64)), (True, 4, (32, 128))]
    # Only 16-bit elements are turned: B is packed, unless it lies along k. A comes by registers then.
    for layout, pack_b, kernels in (("NN", 1, "NT"), ("TT", 0, "TT"), ("TN", 1, "TT"), ("NT", 0, "NT")):
        packed = replace(spec, layout=layout).with_packing_for_tma(True, True)
        assert (packed.config.launch.pack_a, packed.config.launch.pack_b, packed.kernel.layout) == (0, pack_b, kernels)
        assert packed.kernel.symbol.startswith("tiledmm_wgmma_tf32_")
        assert {each.spec.compute.name for each in schedule(packed, wanted.problem).launches[:-1]} <= {"f32"}


def test_what_is_broadcast_has_one_coordinate() -> None:
    choice = select("wgmma", 64, product(array((3, 5, 64, 64), (0, 4096, 64, 1)), array((64, 64), (64, 1))))
    a, b = schedule(choice.spec, choice.product.problem).multiplying.maps
    assert a.sizes == (64, 64, 5, 1, 1)
    assert a.strides[1] == 4096 * 2
    assert b.sizes == (64, 64, 1, 1, 1)


@pytest.mark.parametrize(
    ("x", "reads"),
    [
        (array((64, 64), (64, 1)), True),
        (array((64, 64), (1, 64)), True),
        (array((64, 60), (64, 1)), True),
        (array((64, 64), (65, 1)), False),  # rows begin anywhere
        (array((64, 64), (128, 2)), False),
        (array((64, 64), (-64, 1)), False),
        (array((64, 64), (0, 1)), False),
        (array((1, 64), (65, 1)), True),  # one row: its stride says nothing
        (array((2, 64, 64), (4096, 64, 1)), True),
        (array((2, 64, 64), (4097, 64, 1)), False),
        (array((2, 64, 64), (-4096, 64, 1)), False),
    ],
)
def test_what_can_be_read_in_place(x: np.ndarray, reads: bool) -> None:
    problem = product(x, array((x.shape[-1], 64), (64, 1))).problem
    assert can_be_mapped(problem, 0, HALF) == reads
    chosen = select("wgmma", 128, product(x, array((x.shape[-1], 64), (64, 1)))).spec
    assert (chosen.config.launch.pack_a, chosen.config.launch.pack_b) == (int(not reads), 0)


LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    ("m", "n", "k", "batch", "fits"),
    [
        (LARGEST, 1, 1, (), True),
        (LARGEST + 1, 1, 1, (), False),
        (1, LARGEST, 1, (), True),
        (1, LARGEST + 1, 1, (), False),
        (1, 1, LARGEST, (), True),
        (1, 1, LARGEST + 1, (), False),
        (64, 32, 1, (LARGEST,), True),
        (64, 32, 1, (LARGEST + 1,), False),
        (65, 32, 1, (LARGEST,), False),  # as many tiles again
        (64, 33, 1, (LARGEST,), False),
        (64, 32, 1, (1 << 15, 1 << 15), True),
        (64, 32, 1, (1 << 16, 1 << 15), False),
        (64 * 65_535, 32 << 15, 1, (), True),
        (64 * 65_535 + 1, 32 << 15, 1, (), False),
        (64 << 16, 32 * 32_767, 1, (), True),
        (64 << 16, 32 * 32_767 + 1, 1, (), False),
        (64 << 8, 32 << 8, 1, (32_767,), True),
        (64 << 8, 32 << 8, 1, (32_768,), False),
    ],
)
def test_coordinates_and_tiles_have_31_bits(m: int, n: int, k: int, batch: tuple[int, ...], fits: bool) -> None:
    problem = Problem(m, n, k, (k, 1, n, 1, n, 1), tuple(BatchDimension(size, 1, 1, 1) for size in batch), "NN", ())
    assert has_coordinates(problem) is fits


def test_as_many_tiles_as_its_kernels_count() -> None:
    many = product(array((LARGEST, 1, 300), (0, 300, 1)), array((300, 8), (8, 1)))
    choice = select("wgmma", 64, many)
    assert schedule(choice.spec, choice.product.problem).multiplying.blocks == LARGEST


@pytest.mark.parametrize(
    ("x", "reads"),
    [
        (array((1, 64), (0, 1)), True),
        (array((1, 64), (-65, 1)), True),
        (array((2, 64), (65, 1)), False),
        (array((2, 64), (-64, 1)), False),
        (array((2, 64), (0, 1)), False),
        (array((2, 64), (72, 1)), True),
        (array((2, 64), (2**39 - 8, 1)), True),  # the longest stride
        (array((2, 64), (2**39, 1)), False),
        (array((2, 2, 64), (2**39 - 8, 64, 1)), True),
        (array((2, 2, 64), (2**39, 64, 1)), False),
        (array((2, 2, 2, 2, 2, 64), (72, 8, 800, 8000, 80000, 1)), True),
        (array((2, 3, 2, 3, 2, 64), (72, 4, 800, 8000, 80000, 1)), False),
    ],
)
def test_strides_that_are_long_or_negative_or_of_one_row(x: np.ndarray, reads: bool) -> None:
    assert can_be_mapped(product(x, array((64, 64), (64, 1))).problem, 0, HALF) is reads


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("letter", "NT")
def test_a_matrix_without_elements_has_a_map_that_the_driver_takes(operand: int, letter: str) -> None:
    """Check that maps of empty matrices have sizes of at least 1 and strides of at least 16 bytes."""
    for m, n, k in ((0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0)):
        problem = Problem(m, n, k, (8, 1, 8, 1, 8, 1) if letter == "N" else (1, 8, 1, 8, 8, 1), (), letter * 2, ())
        described = map_of(problem, operand, find_variant("wgmma").config(64, HALF), HALF)
        assert described.sizes[2:] == (1, 1, 1)
        assert described.sizes[:2] == tuple(max(size, 1) for size in _contiguous_and_rows(problem, operand))
        assert all(step % 16 == 0 and step > 0 for step in described.strides)


def _contiguous_and_rows(problem: Problem, operand: int) -> tuple[int, int]:
    rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
    return (cols, rows) if problem.layout[operand] == "N" else (rows, cols)


def test_what_is_stored_as_another_type_is_packed() -> None:
    x1, x2 = array((64, 64), (64, 1), "int8"), array((64, 64), (64, 1))
    config = select("wgmma", 128, product(x1, x2)).spec.config
    assert (config.launch.pack_a, config.launch.pack_b) == (1, 0)


def test_a_part_that_begins_amid_16_bytes_cannot_be_read_in_place() -> None:
    problem = product(array((64, 64), (64, 1)), array((64, 64), (64, 1))).problem
    assert can_be_mapped(replace(problem, begins=(8, 0, 0)), 0, HALF)
    assert not can_be_mapped(replace(problem, begins=(4, 0, 0)), 0, HALF)


def test_sizes_beyond_its_coordinates() -> None:
    wide = product(array((8, 8), (8, 1)), array((8, 2**31 + 8), (2**31 + 8, 1)))
    choice = select("wgmma", 64, wide)
    with pytest.raises(ShapeError, match="warp_tiled"):
        schedule(choice.spec, choice.product.problem)
    assert select("auto", None, wide).spec.variant.name != "wgmma"


@pytest.mark.parametrize(
    ("variant", "dtype"), [("wgmma", "float16"), ("split_float32", "float32"), ("split_tensor_core", "float32")]
)
def test_more_tiles_than_its_kernels_count(variant: str, dtype: str) -> None:
    many = product(array((2**31, 1, 300), (0, 300, 1), dtype), array((300, 8), (8, 1), dtype))
    choice = select(variant, 64, many)
    with pytest.raises(ShapeError, match="warp_tiled"):
        schedule(choice.spec, choice.product.problem)
    assert not select("auto", None, many).spec.variant.is_limited


def test_slices_are_counted_too() -> None:
    many = product(array((2**30, 1, 300), (0, 300, 1)), array((300, 8), (8, 1)))
    schedule((one := select("wgmma", 64, many)).spec, one.product.problem)
    four = select("wgmma", 64, many, {"split_k": 4})
    with pytest.raises(ShapeError, match="warp_tiled"):
        schedule(four.spec, four.product.problem)


def test_pieces_of_complex_numbers_are_counted_as_real_ones() -> None:
    x1, x2 = array((8, 300), (300, 1), "complex64"), array((300, 2**30), (2**30, 1), "complex64")
    choice = select("split_float32", 64, product(x1, x2))
    with pytest.raises(ShapeError, match="warp_tiled"):
        schedule(choice.spec, choice.product.problem)


def test_slices_begin_where_steps_do() -> None:
    choice = select("wgmma", 64, product(array((64, 1000), (1000, 1)), array((1000, 64), (64, 1))), {"split_k": 7})
    words = schedule(choice.spec, choice.product.problem).multiplying.kernel_args
    slices, steps = words[7:9]
    assert steps % 64 == 0
    assert slices * steps >= 1000 > (slices - 1) * steps


def test_a_driver_without_tensor_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "driver", lambda: object())
    with pytest.raises(tensor_maps.DeviceError, match="CUDA 12"):
        TensorMap(2, (64, 64, 1, 1, 1), (128,) * 4, (64, 64)).encode(256)


class Driver:
    """A stand-in driver that records arguments and returns a status."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> int:
        self.map, self.kind, self.rank, self.pointer, *arrays = arguments[:8]
        self.sizes, self.strides, self.box, self.steps = map(tuple, arrays)
        self.interleave, self.swizzle, self.promotion, self.fill = arguments[8:]
        return self.status


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "tf32"])
def test_the_driver_is_told_in_its_own_words(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    words = pytest.importorskip("cuda.bindings.driver")
    driver = Driver()
    monkeypatch.setattr(tensor_maps, "_driver", lambda: driver)
    size = compute_element(dtype).itemsize
    described = TensorMap(size, (40, 30, 2, 1, 1), (40 * size, 1200 * size, 128, 128), (32, 16), dtype == "tf32")
    encoded = described.encode(4096)
    assert encoded.nbytes == 128 and driver.map.value % 64 == 0 and driver.map.value == encoded.ctypes.data
    name = "TFLOAT32" if dtype == "tf32" else f"UINT{8 * size}"
    assert driver.kind == getattr(words.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}").value
    assert (driver.rank, driver.pointer.value) == (5, 4096)
    assert (driver.sizes, driver.strides) == (described.sizes, described.strides)
    assert (driver.box, driver.steps) == ((32, 16, 1, 1, 1), (1, 1, 1, 1, 1))
    assert driver.interleave == words.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE.value
    assert driver.swizzle == words.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B.value
    assert driver.promotion == words.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B.value
    assert driver.fill == words.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE.value


def test_a_map_begins_at_64_bytes_wherever_memory_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "_driver", Driver)
    described, kept = TensorMap(2, (8, 8, 1, 1, 1), (16, 128, 128, 128), (8, 8)), []
    for size in range(1, 200):
        kept += [described.encode(4096), np.zeros(size, np.uint8)]
    assert all(each.ctypes.data % 64 == 0 and each.nbytes == 128 for each in kept[::2])


def test_what_the_driver_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "_driver", lambda: Driver(status=1))
    with pytest.raises(DeviceError, match=r"0x1000.* 1"):
        TensorMap(2, (8, 8, 1, 1, 1), (16, 128, 128, 128), (8, 8)).encode(4096)


@pytest.mark.parametrize(
    ("shape", "strides", "sizes", "steps"),
    [
        ((1, 200), (200, 1), (200, 1, 1, 1, 1), (128, 128, 128, 128)),  # where nothing follows, any stride will do
        ((2, 200), (208, 1), (200, 2, 1, 1, 1), (416, 128, 128, 128)),
        ((3, 2, 200), (800, 208, 1), (200, 2, 3, 1, 1), (416, 1600, 128, 128)),
        ((2, 1, 3, 2, 200), (4800, 0, 1600, 208, 1), (200, 2, 6, 1, 1), (416, 3200, 128, 128)),
    ],
)
def test_sizes_and_strides_of_few_rows_and_of_batches(
    shape: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    x2 = array((200, 64), (1, 200))
    choice = select("wgmma", 64, product(array(shape, strides), x2))
    first, _ = schedule(choice.spec, choice.product.problem).multiplying.maps
    assert (first.sizes, first.strides) == (sizes, steps)


def test_strides_are_shorter_than_a_tebibyte() -> None:
    """Check that the limit of strides is in bytes, not in elements."""

    def mapped(stride: int) -> bool:
        return can_be_mapped(Problem(8, 8, 8, (stride, 1, 8, 1, 8, 1), (), "NN", ()), 0, HALF)

    assert mapped(2**39 - 8) and not mapped(2**39)


@pytest.mark.parametrize("stride", [0, -64, 65])
def test_a_part_of_one_row_is_mapped_whatever_the_stride_to_the_next(stride: int) -> None:
    one, two = (Problem(m, 8, 8, (stride, 1, 8, 1, 8, 1), (), "NN", ()) for m in (1, 2))
    assert can_be_mapped(one, 0, HALF) and not can_be_mapped(two, 0, HALF)


@pytest.mark.parametrize(("itemsize", "kind"), [(1, 0), (2, 1), (4, 2), (8, 4)])
def test_the_driver_is_told_the_size_of_elements(monkeypatch: pytest.MonkeyPatch, itemsize: int, kind: int) -> None:
    """Check the element type by CUtensorMapDataType: UINT8, UINT16, UINT32, UINT64."""
    told: list[int] = []
    driver = SimpleNamespace(cuTensorMapEncodeTiled=lambda encoded, element, *others: told.append(element) or 0)
    monkeypatch.setattr(tensor_maps, "_driver", lambda: driver)
    TensorMap(itemsize, (8, 8, 1, 1, 1), (16, 128, 128, 128), (8, 8)).encode(4096)
    assert told == [kind]
