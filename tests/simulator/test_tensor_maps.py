"""Tests of tensor maps: their encoding, the bytes of their boxes, and launches that get them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.hopper.case import Case
from tests.simulator.hopper.cases import CASES
from tests.simulator.map_boxes import (
    GAP,
    MATRIX,
    REFUSED,
    TAKEN,
    TF32,
    built_library,
    coordinates,
    copies,
    encoded,
    expected_box,
    loaded_box,
    raw_of,
    store_box,
)  # fmt: skip
from tiledmm import simulator
from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.execute.tensor_maps import encode

MISALIGNED, NEGATIVE, NO_REDUCTION, OTHER_DIMENSIONS = 1, 2, 3, 4
LOAD, STORE, REDUCE = range(3)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return built_library(tmp_path_factory.mktemp("maps"))


MAPPED = [each for each in CASES if each.maps]


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.name)
def test_boxes_of_the_corpus(native: ctypes.CDLL, case: Case) -> None:
    arrays, _ = case.make()
    rng = np.random.default_rng(0)
    for reference in case.maps.values():
        array = arrays[reference.array]
        tensor_map = encoded(reference, array)
        assert native.loaded(raw_of(tensor_map).ctypes.data_as(ctypes.c_void_p)) == (
            int(np.prod(reference.loaded)) * array.itemsize
        )
        unit = 16 // array.itemsize
        steps = (unit, 1, 1, 1, 1)
        places = [
            sorted({-box, -step, 0, step, size // 2, size - box, size - 1, size, size + box})
            for box, step, size in zip(reference.box, steps, reference.sizes, strict=False)
        ]
        places[0] = sorted({each // unit * unit for each in places[0]})
        every = list(itertools.product(*places))
        for index in rng.permutation(len(every))[:40]:
            at = (*every[index], 0, 0, 0, 0)[:5]
            found = loaded_box(native, tensor_map, at)
            np.testing.assert_array_equal(
                found, expected_box(reference, array, at[: len(reference.sizes)]), err_msg=str((reference, at))
            )


@settings(max_examples=300, deadline=None)
@given(copies(), st.sampled_from((0, 1024)))
def test_any_load(native: ctypes.CDLL, copy: Any, begin: int) -> None:
    reference, array, at, first_step = copy
    tensor_map = encoded(reference, array, first_step)
    found = loaded_box(native, tensor_map, (*at, 0, 0, 0, 0)[:5], begin)
    reached = native.reached(raw_of(tensor_map).ctypes.data_as(ctypes.c_void_p))
    assert reached >= native.loaded(raw_of(tensor_map).ctypes.data_as(ctypes.c_void_p))
    assert (found[reached:] == GAP).all()
    np.testing.assert_array_equal(found, expected_box(reference, array, at))


@settings(max_examples=300, deadline=None)
@given(copies())
def test_any_store(native: ctypes.CDLL, copy: Any) -> None:
    """A store writes each chunk of 16 bytes that begins in the array, from where a load would put it."""
    reference, array, at, _ = copy
    window = np.arange(1 << 20, dtype=np.uint32).view(np.uint8)
    expected = np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy()
    pitch, unit = max(reference.swizzle, reference.box[0] * array.itemsize), 16 // array.itemsize
    for number, index in enumerate(itertools.product(*map(range, reference.loaded[:0:-1]))):
        place = [x + step * i for x, step, i in zip(at[1:], reference.steps[1:], index[::-1], strict=True)]
        for chunk in range(reference.box[0] // unit):
            first = at[0] + chunk * unit
            if not all(0 <= x < size for x, size in zip((first, *place), reference.sizes, strict=True)):
                continue
            offset = number * pitch + 16 * chunk
            if reference.swizzle:
                offset ^= (offset >> 7 & reference.swizzle // 16 - 1) << 4
            to = first * array.itemsize + sum(x * stride for x, stride in zip(place, reference.strides, strict=True))
            expected[to : to + 16] = window[offset : offset + 16]
    store_box(native, encoded(reference, array), (*at, 0, 0, 0, 0)[:5], window)
    np.testing.assert_array_equal(array.view(np.uint8).reshape(-1), expected)


@pytest.mark.parametrize("dtype", ["tfloat32", "tfloat32_ftz", "float32", "float32_ftz"])
def test_float32_is_loaded_as_on_a_gpu(native: ctypes.CDLL, dtype: str) -> None:
    x = np.array(list(TF32), np.uint32)
    found = loaded_box(native, simulator.tensor_map(x, 24, dtype=dtype, fill="nan"), (4, 0, 0, 0, 0)).view(np.uint32)
    expected = [*(TF32.values() if dtype.startswith("t") else TF32)][4:]
    assert found[:24].tolist() == [*expected, *[0x7FF77FF7] * 4]


def test_faults(native: ctypes.CDLL) -> None:
    def found(tensor_map: simulator.TensorMap, at: Sequence[int], copy: int, dimensions: int = 0) -> int:
        raw = raw_of(tensor_map)
        whole = coordinates((*at, 0, 0, 0)[:5])
        return native.broken(ctypes.c_void_p(raw.ctypes.data), whole, ctypes.c_uint(copy), ctypes.c_uint(dimensions))

    half = simulator.tensor_map(np.zeros((8, 64), np.float16), (16, 4), element_strides=(1, 2))
    assert [found(half, (x, 0), copy) for x in (0, 8, 4, -8, 1) for copy in (LOAD, STORE)] == (
        [0, 0, 0, 0, MISALIGNED, MISALIGNED, 0, NEGATIVE, MISALIGNED, MISALIGNED]
    )
    assert [found(half, (0, y), copy) for y in (1, -1, 90) for copy in (LOAD, STORE, REDUCE)] == (
        [0, 0, 0, 0, NEGATIVE, NEGATIVE, 0, 0, 0]
    )
    assert [found(half, (0, 0), LOAD, dimensions) for dimensions in (1, 2, 3)] == (
        [OTHER_DIMENSIONS, 0, OTHER_DIMENSIONS]
    )
    for dtype, expected in (("uint8", NO_REDUCTION), ("int16", NO_REDUCTION), ("int32", 0), ("float16", 0)):
        x = np.zeros((8, 64), dtype)
        assert found(simulator.tensor_map(x, (16, 4)), (0, 0), REDUCE) == expected
        assert found(simulator.tensor_map(x, (16, 4)), (0, 0), STORE) == 0


def test_what_is_a_map(native: ctypes.CDLL) -> None:
    raw = raw_of(simulator.tensor_map(np.zeros((8, 64), np.float16), (16, 4)))
    assert native.known(ctypes.c_void_p(raw.ctypes.data))
    raw[0] ^= 1
    assert not native.known(ctypes.c_void_p(raw.ctypes.data))
    assert not native.known(ctypes.c_void_p(np.zeros(128, np.uint8).ctypes.data))


@settings(deadline=None)
@given(copies())
def test_only_one_word_of_a_map_can_be_an_address(copy: Any) -> None:
    reference, array, _, first_step = copy
    words = np.asarray(encoded(reference, array, first_step)).view(np.uint64)
    assert words[1] == array.ctypes.data
    others = np.delete(words, 1)
    assert ((others == 0) | (others >= 1 << 48)).all()


# ---- what the driver refuses ----


@pytest.mark.parametrize("arguments", TAKEN, ids=str)
def test_what_the_driver_takes(arguments: dict[str, Any]) -> None:
    assert len(encode(2**40, **{**MATRIX, **arguments})) == 128


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=str)
def test_what_the_driver_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encode(**{"address": 2**40, **MATRIX, **arguments})


def test_defaults_are_those_of_the_array() -> None:
    x = np.zeros((3, 10, 24), np.float16)
    tensor_map = simulator.tensor_map(x, (8, 2, 1))
    assert tensor_map.sizes == (24, 10, 3) and tensor_map.strides == (48, 480) and tensor_map.dtype == "float16"
    part = simulator.tensor_map(x[1:, ::2, 8:], [8, np.int64(2), 1], dtype="bfloat16", fill="nan")
    assert part.sizes == (16, 5, 2) and part.strides == (96, 480) and part.dtype == "bfloat16"
    assert np.asarray(part).view(np.uint64)[1] == x.ctypes.data + 480 + 16
    assert simulator.tensor_map(np.zeros(64, np.int8), 16, offset=32).dtype == "uint8"
    assert simulator.tensor_map(np.zeros(64, np.float32), 16, dtype="tf32", l2_promotion=128).dtype == "tfloat32"
    assert "swizzle=0" in repr(part)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x: simulator.tensor_map([1.0], 4), OperandTypeError, "NumPy array; got list"),
        (lambda x: simulator.tensor_map(x.astype(np.complex64), (2, 2)), OperandTypeError, "got complex64"),
        (lambda x: simulator.tensor_map(x, (4, 2), dtype="float31"), OperandTypeError, "got float31"),
        (lambda x: simulator.tensor_map(x.astype(">f4"), (4, 2)), OperandTypeError, "byte order"),
        (lambda x: simulator.tensor_map(x, (4, 2), dtype=np.float16), ConfigError, "pass sizes and strides"),
        (lambda x: simulator.tensor_map(x.T, (4, 2)), ConfigError, "side by side.* 4 bytes; got 64"),
        (lambda x: simulator.tensor_map(x[:, 1:], (4, 2)), ConfigError, "got one that is 4 bytes"),
        (lambda x: simulator.tensor_map(x, (4, 2), offset=8), ConfigError, "got one that is 8 bytes"),
        (lambda x: simulator.tensor_map(x, (4, 2), interleave=16), ConfigError, "interleave=16 is not simulated"),
        (lambda x: simulator.tensor_map(x, (4, 2), interleave=3), ConfigError, "0, 16 or 32; got 3"),
        (lambda x: simulator.tensor_map(x, (4, 2), l2_promotion=3), ConfigError, "l2_promotion"),
        (lambda x: simulator.tensor_map(x, (4, 2.5)), ConfigError, "box must be integers"),
        (lambda x: simulator.tensor_map(x, "42"), ConfigError, "box must be integers"),
        (lambda x: simulator.tensor_map(x[:0], (4, 2)), ConfigError, r"sizes\[1\] must be from 1"),
        (lambda x: simulator.tensor_map(x, 4), ConfigError, "box must have 2 values"),
    ],
)
def test_a_wrong_argument_is_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(np.zeros((4, 16), np.float32))


# ---- launches ----

TEXT = """
#include <cuda.h>
#include <cudaTypedefs.h>
struct Both { int n; CUtensorMap from, to; };
__device__ float* address(const CUtensorMap& map) { return reinterpret_cast<float*>(map.opaque[1]); }
__global__ void by_value(const __grid_constant__ CUtensorMap a_map, CUtensorMap b_map, bool* aligned, int begin) {
    aligned[threadIdx.x] = reinterpret_cast<size_t>(&a_map) % 64 == 0 && sizeof(CUtensorMap) == 128;
    address(b_map)[begin + threadIdx.x] = 2 * address(a_map)[threadIdx.x];
}
__global__ void by_pointer(const CUtensorMap* maps, int begin) {
    address(maps[1])[begin + threadIdx.x] = 2 * address(maps[0])[threadIdx.x];
}
__global__ void in_structure(Both both, int begin) {
    address(both.to)[begin + threadIdx.x] = both.n * address(both.from)[threadIdx.x];
}
__global__ void one(const CUtensorMap* map) { address(*map)[threadIdx.x] += 1; }
"""


def matrices() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], simulator.TensorMap, simulator.TensorMap]:
    """Return two matrices, and maps of the first and of the rows of the second from its row 1 on."""
    a, b = np.arange(64, dtype=np.float32).reshape(4, 16), np.zeros((4, 16), np.float32)
    return a, b, simulator.tensor_map(a, (4, 2)), simulator.tensor_map(b[1:], (4, 2))


@pytest.mark.parametrize("name", ["by_value", "by_pointer", "in_structure"])
def test_arrays_are_reached_through_maps(name: str) -> None:
    a, b, a_map, b_map = matrices()
    aligned = np.zeros(16, np.bool_)
    given = {
        "by_value": ((a_map, b_map, aligned), "b_map"),
        "by_pointer": ((np.stack([np.asarray(a_map), np.asarray(b_map)]),), "maps[1]"),
        "in_structure": (({"n": 2, "from": a_map, "to": b_map},), "both.to"),
    }
    arguments, shown = given[name]
    simulator.launch(TEXT, 1, 16, (*arguments, 0), name=name).check()
    np.testing.assert_array_equal(b, [0 * a[0], 2 * a[0], 0 * a[0], 0 * a[0]])
    assert name != "by_value" or aligned.all()

    found = simulator.launch(TEXT, 1, 16, (*arguments, 64), name=name).findings[0]
    assert found.kind == "global access out of bounds" and f"global array {shown} (" in found.message


def test_a_map_itself_is_an_argument_for_a_pointer() -> None:
    a, _, a_map, _ = matrices()
    simulator.launch(TEXT, 1, 16, (a_map,), name="one").check()
    np.testing.assert_array_equal(a[0], np.arange(16) + 1)


def test_a_map_may_begin_inside_of_an_array() -> None:
    a, b, a_map, _ = matrices()
    b_map = simulator.tensor_map(b, (4, 2), sizes=(16, 2), offset=128)
    simulator.launch(TEXT, 1, 16, (a_map, b_map, np.zeros(16, np.bool_), 0), name="by_value").check()
    np.testing.assert_array_equal(b, [0 * a[0], 0 * a[0], 2 * a[0], 0 * a[0]])


def test_a_map_for_another_parameter() -> None:
    _, _, a_map, _ = matrices()
    with pytest.raises(OperandTypeError, match="parameter begin is an int; got"):
        simulator.launch(TEXT, 1, 16, (a_map, a_map, np.zeros(16, np.bool_), a_map), name="by_value")
