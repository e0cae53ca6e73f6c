"""Tests that the simulator copies the boxes of tensor maps as a GPU does, and refuses those that the driver refuses."""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
from typing import Any

import cupy
import numpy as np
import pytest
from hypothesis import assume, given, settings

from tests.conftest import missing_simulator
from tests.simulator.map_boxes import (
    GAP,
    MATRIX,
    REFUSED,
    TAKEN,
    TF32,
    built_library,
    copies,
    encoded,
    loaded_box,
    raw_of,
    store_box,
)  # fmt: skip
from tiledmm import simulator
from tiledmm.hardware.device import driver
from tiledmm.simulator.execute.tensor_maps import TYPES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cupy.cuda.Device().compute_capability != "90", reason="needs compute capability 9.0"),
    pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator())),
]

SOURCE = r"""
struct alignas(64) Map {
    char bytes[128];
};
// Copies the window to shared memory, copies the box, and copies the window back; all by one thread.
extern "C" __global__ void copy_box(const __grid_constant__ Map map, int x, int y, int z, int v, int w, unsigned begin,
                                    int bytes, unsigned char* window, int size, int stores) {
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned long long* const barrier = reinterpret_cast<unsigned long long*>(shared + size);
    const unsigned at = __cvta_generic_to_shared(shared) + begin, full = __cvta_generic_to_shared(barrier);
    for (int i = 0; i < size; ++i) shared[i] = window[i];
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n fence.proxy.async;" ::"r"(full) : "memory");
    if (stores) {
        asm volatile("cp.async.bulk.tensor.@d.global.shared::cta.tile.bulk_group [%0, {#}], [%6];\n"
                     "cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;"
                     ::"l"(&map), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w), "r"(at) : "memory");
    } else {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.@d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%6], [%0, {#}], [%7];"
                     ::"l"(&map), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w), "r"(at), "r"(full) : "memory");
        for (unsigned done = 0; !done;) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(full) : "memory");
        }
    }
    for (int i = 0; i < size; ++i) window[i] = shared[i];
}
"""
MOST_SHARED = 227 * 1024


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return built_library(tmp_path_factory.mktemp("maps"))


@functools.cache
def kernel(rank: int) -> Any:
    coordinates = ", ".join(f"%{1 + d}" for d in range(rank))
    text = SOURCE.replace("@d", f"{rank}d").replace("#", coordinates)
    function = cupy.RawModule(code=text).get_function("copy_box")
    function.max_dynamic_shared_size_bytes = MOST_SHARED
    return function


def by_driver(
    address: int,
    dtype: str,
    sizes: Any,
    strides: Any,
    box: Any,
    element_strides: Any = (),
    swizzle: int = 0,
    fill: str = "zeros",
) -> np.ndarray[Any, Any] | None:
    """Return what the driver encodes; None if it refuses to."""
    memory, rank = np.zeros(256, np.uint8), len(sizes)
    raw = memory[-memory.ctypes.data % 64 :][:128]
    status = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(raw.ctypes.data), TYPES[dtype][0], rank, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 6)(*sizes), (ctypes.c_uint64 * 6)(*strides), (ctypes.c_uint32 * 6)(*box),
        (ctypes.c_uint32 * 6)(*(element_strides or [1] * rank)), 0, {0: 0, 32: 1, 64: 2, 128: 3}[swizzle], 0,
        int(fill == "nan"),
    )  # fmt: skip
    return None if status else raw


def copied(
    tensor_map: simulator.TensorMap, at: tuple[int, ...], window: Any, begin: int, bytes: int, stores: bool
) -> Any:
    """Copy a box on the GPU; return its window of shared memory after a load, or the array after a store."""
    array = cupy.asarray(np.ascontiguousarray(tensor_map.array).view(np.uint8).reshape(-1))
    raw = by_driver(
        array.data.ptr, tensor_map.dtype, tensor_map.sizes, tensor_map.strides, tensor_map.box,
        tensor_map.element_strides, tensor_map.swizzle, tensor_map.fill,
    )  # fmt: skip
    assert raw is not None, tensor_map
    on_device = cupy.asarray(window)
    arguments = [raw.view("V128"), *map(np.int32, (*at, 0, 0, 0, 0)[:5]), np.uint32(begin), np.int32(bytes), on_device]
    kernel(len(tensor_map.sizes))(
        (1,), (1,), (*arguments, np.int32(window.size), np.int32(stores)), shared_mem=window.size + 8
    )
    cupy.cuda.runtime.deviceSynchronize()
    return (array if stores else on_device).get()


@pytest.mark.parametrize("arguments", TAKEN, ids=str)
def test_what_the_driver_takes(arguments):
    assert by_driver(**{"address": 2**40, **MATRIX, **arguments}) is not None


SAID = [each for each, message in REFUSED if "must have" not in message or "bytes" in message]


@pytest.mark.parametrize("arguments", SAID, ids=str)
def test_what_the_driver_refuses(arguments):
    if {-256, "ones", 16} & {*arguments.get("strides", ()), arguments.get("fill"), arguments.get("swizzle")}:
        pytest.skip("cannot be said to the driver")
    assert by_driver(**{"address": 2**40, **MATRIX, **arguments}) is None


@settings(max_examples=300, deadline=None)
@given(copies())
def test_any_load(native, copy):
    reference, array, at, first_step = copy
    tensor_map = encoded(reference, array, first_step)
    expected = loaded_box(native, tensor_map, (*at, 0, 0, 0, 0)[:5])
    assume(expected.size < MOST_SHARED)
    bytes = native.loaded(ctypes.c_void_p(raw_of(tensor_map).ctypes.data))
    found = copied(tensor_map, at, np.full(expected.size, GAP, np.uint8), 0, bytes, stores=False)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=200, deadline=None)
@given(copies())
def test_any_store(native, copy):
    reference, array, at, first_step = copy
    tensor_map = encoded(reference, array, first_step)
    size = native.reached(ctypes.c_void_p(raw_of(tensor_map).ctypes.data))
    size = -(-size // 1024) * 1024
    assume(min(at) >= 0 and size < MOST_SHARED)
    window = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    found = copied(tensor_map, at, window, 0, 0, stores=True)
    store_box(native, tensor_map, (*at, 0, 0, 0, 0)[:5], window)
    np.testing.assert_array_equal(found, np.ascontiguousarray(array).view(np.uint8).reshape(-1))


@pytest.mark.parametrize("begin", [128, 384, 640])
def test_the_swizzle_is_one_of_addresses(native, begin):
    x = np.arange(64 * 32, dtype=np.int32).reshape(64, 32)
    tensor_map = simulator.tensor_map(x, (16, 20), swizzle=64)
    expected = loaded_box(native, tensor_map, (4, 1, 0, 0, 0), begin)
    window = np.full(begin + expected.size, GAP, np.uint8)
    np.testing.assert_array_equal(copied(tensor_map, (4, 1), window, begin, 1280, stores=False)[begin:], expected)


@pytest.mark.parametrize("dtype", ["tfloat32", "tfloat32_ftz", "float32", "float32_ftz"])
def test_float32_is_rounded_to_tf32(native, dtype):
    tensor_map = simulator.tensor_map(np.array(list(TF32), np.uint32), 24, dtype=dtype, fill="nan")
    expected = loaded_box(native, tensor_map, (4, 0, 0, 0, 0))
    found = copied(tensor_map, (4,), np.full(expected.size, GAP, np.uint8), 0, 96, stores=False)
    np.testing.assert_array_equal(found, expected)


ILLEGAL, MISALIGNED = "IllegalInstruction", "MisalignedAddress"
FAULTS = {
    "innermost": ((2, 0), 0, False, ILLEGAL), "stored innermost": ((2, 0), 0, True, ILLEGAL),
    "negative": ((0, -1), 0, False, ""), "stored negative": ((0, -1), 0, True, ILLEGAL),
    "stored at the left": ((-4, 0), 0, True, ILLEGAL), "past the end": ((0, 99), 0, True, ""),
    "shared memory": ((0, 0), 64, False, MISALIGNED), "stored from": ((0, 0), 64, True, MISALIGNED),
}  # fmt: skip


def broken(name: str) -> str:
    """Return the error of a copy in this process, which has no GPU afterwards."""
    at, begin, stores, _ = FAULTS[name]
    tensor_map = simulator.tensor_map(np.zeros((8, 32), np.int32), (4, 2))
    try:
        copied(tensor_map, at, np.zeros(1024, np.uint8), begin, 32, stores)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_that_is_broken(name):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply_async(broken, (name,)).get(60)
    expected = FAULTS[name][-1]
    assert expected in found and bool(expected) == bool(found)
