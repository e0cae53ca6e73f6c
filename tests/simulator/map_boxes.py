"""Tensor maps, and the bytes of their boxes: as the simulator copies them, and as NumPy does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.simulator.hopper import case as hopper
from tests.simulator.hopper.case import round_to_tf32, swizzled
from tiledmm import simulator
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.compiler_process import run_compiler
from tiledmm.simulator.build.cxx import compiler
from tiledmm.simulator.execute.tensor_maps import TYPES

GAP = 0xAB  # a byte of shared memory that no copy writes
NAN = np.array([0x7FF7], "<u2").view(np.uint8)  # bytes of the fill, as an H200 writes it

LIBRARY = """
#include "tensor_maps.h"
using namespace tiledmm_detail;
extern "C" {
bool known(const void* map) { return is_map(map); }
unsigned loaded(const TensorMap* map) { return loaded_bytes(*map); }
unsigned reached(const TensorMap* map) { return reached_bytes(*map); }
unsigned broken(const TensorMap* map, const int* at, unsigned copy, unsigned dimensions) {
    return fault(*map, {at[0], at[1], at[2], at[3], at[4]}, static_cast<MapCopy>(copy), dimensions);
}
void load_box(const TensorMap* map, const int* at, unsigned char* shared, unsigned begin) {
    const auto visit = [&](unsigned offset, unsigned char* global, unsigned bytes, unsigned inside) {
        unsigned char row[2048];
        load(*map, row, global, bytes, inside);
        for_pieces(*map, begin, offset, bytes, [&](unsigned to, unsigned from, unsigned count) {
            memcpy(shared + to, row + from, count);
        });
    };
    for_chunks(*map, {at[0], at[1], at[2], at[3], at[4]}, visit);
}
void store_box(const TensorMap* map, const int* at, const unsigned char* shared, unsigned begin) {
    const auto visit = [&](unsigned offset, unsigned char* global, unsigned bytes, unsigned) {
        for_pieces(*map, begin, offset, bytes, [&](unsigned from, unsigned to, unsigned count) {
            if (global) memcpy(global + to, shared + from, count);
        });
    };
    for_chunks(*map, {at[0], at[1], at[2], at[3], at[4]}, visit);
}
}
"""


# Bits of float32, and what an H200 loads with a map of tf32.
TF32 = {
    0x7F7FFFFF: 0x7F800000, 0xFF7FFFFF: 0xFF800000, 0x7F800000: 0x7F800000, 0x7F800001: 0x7FFFE000,
    0x7FFFFFFF: 0x7FFFE000, 0xFFFFFFFF: 0x7FFFE000, 0x7FC00000: 0x7FFFE000, 0x7FBFFFFF: 0x7FFFE000,
    0x00000001: 0x00000000, 0x80000001: 0x80000000, 0x007FFFFF: 0x00800000, 0x00000FFF: 0x00000000,
    0x00001000: 0x00000000, 0x00001001: 0x00002000, 0x00003000: 0x00004000, 0x3F801000: 0x3F800000,
    0x3F803000: 0x3F804000, 0x3F800FFF: 0x3F800000, 0x3F801001: 0x3F802000, 0x7F7FF000: 0x7F800000,
    0x00080FFF: 0x00080000, 0x80001000: 0x80000000, 0x7F800FFF: 0x7FFFE000, 0xFF801234: 0x7FFFE000,
}  # fmt: skip


def built_library(folder: Path) -> ctypes.CDLL:
    """Compile functions around ``tensor_maps.h`` in a folder, and load them."""
    (folder / "maps.cpp").write_text(LIBRARY, "utf-8")
    done = run_compiler(
        [*compiler(), *toolchain._RUNTIME_FLAGS, "-fvisibility=default", "-Wall", "-Wextra", "-Werror", "-shared",
         "-iquote", str(toolchain.NATIVE), "-o", "maps.so", "maps.cpp"],
        folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "maps.so"))
    library.known.restype = ctypes.c_bool
    return library


def raw_of(tensor_map: simulator.TensorMap) -> np.ndarray[Any, Any]:
    memory = np.zeros(256, np.uint8)
    begin = -memory.ctypes.data % 128
    memory[begin : begin + 128] = np.asarray(tensor_map)
    return memory[begin : begin + 128]


def coordinates(at: Sequence[int]) -> Any:
    return (ctypes.c_int * 5)(*at)


def loaded_box(native: ctypes.CDLL, tensor_map: simulator.TensorMap, at: Sequence[int], begin: int = 0) -> Any:
    """Return the bytes of shared memory from ``begin`` on after a load, as far as the box reaches."""
    raw = raw_of(tensor_map)
    reached = native.reached(ctypes.c_void_p(raw.ctypes.data))
    window = np.full(begin + -(-reached // 1024) * 1024, GAP, np.uint8)
    native.load_box(
        ctypes.c_void_p(raw.ctypes.data), coordinates(at), ctypes.c_void_p(window.ctypes.data), ctypes.c_uint(begin)
    )
    return window[begin:]


def store_box(native: ctypes.CDLL, tensor_map: simulator.TensorMap, at: Sequence[int], window: Any) -> None:
    """Store a box from these bytes of shared memory to the map's array."""
    raw = raw_of(tensor_map)
    native.store_box(
        ctypes.c_void_p(raw.ctypes.data), coordinates(at), ctypes.c_void_p(window.ctypes.data), ctypes.c_uint(0)
    )


def expected_box(reference: hopper.TensorMap, array: np.ndarray[Any, Any], at: Sequence[int]) -> Any:
    """Return what ``loaded_box`` does for a window that begins at a multiple of 1024 bytes."""
    words, of_bits = array.view(f"u{array.itemsize}"), replace(reference, fill="zeros")
    box = np.ascontiguousarray(of_bits.box_at({reference.array: words}, at))
    inside = np.ascontiguousarray(of_bits.box_at({reference.array: np.ones_like(words)}, at)) != 0
    if reference.dtype == "tf32":
        box = round_to_tf32(box.view(np.float32)).view(np.uint32)
    raw = box.view(np.uint8)
    if reference.fill == "nan":
        raw[~np.repeat(inside, array.itemsize, axis=-1)] = NAN[0]
        raw[..., 1::2][~np.repeat(inside, array.itemsize // 2, axis=-1)] = NAN[1]
    rows = raw.reshape(-1, raw.shape[-1])
    padded = np.full((len(rows), max(reference.swizzle, rows.shape[1])), GAP, np.uint8)
    padded[:, : rows.shape[1]] = rows
    flat = np.full(-(-padded.size // 1024) * 1024, GAP, np.uint8)
    flat[: padded.size] = padded.reshape(-1)
    return swizzled(flat, reference.swizzle) if reference.swizzle else flat


def encoded(reference: hopper.TensorMap, array: np.ndarray[Any, Any], first_step: int = 1) -> simulator.TensorMap:
    dtype = array.dtype if reference.dtype in ("e4m3", "e5m2") else reference.dtype
    return simulator.tensor_map(
        array, reference.box, sizes=reference.sizes, strides=reference.strides, dtype=dtype,
        element_strides=(first_step, *reference.steps[1:]), swizzle=reference.swizzle, fill=reference.fill,
    )  # fmt: skip


ELEMENTS = {name: np.dtype({1: "u1", 2: "u2", 4: "u4", 8: "u8"}[size]) for name, (_, size) in TYPES.items()}


@st.composite
def copies(draw: st.DrawFn) -> tuple[hopper.TensorMap, np.ndarray[Any, Any], tuple[int, ...], int]:
    """Return a map, its array, coordinates of a box, and the element stride of the first dimension."""
    dtype = draw(st.sampled_from([name for name in TYPES if not name.startswith("tfloat")]))
    element = ELEMENTS[dtype]
    unit = 16 // element.itemsize
    rank = draw(st.integers(1, 5))
    sizes = tuple(draw(st.integers(1, 40 if d == 0 else 7)) for d in range(rank))
    pitch = -(-sizes[0] // unit) * 16
    strides = tuple(pitch * int(np.prod(sizes[1:d], dtype=int)) for d in range(1, rank))
    swizzle = draw(st.sampled_from((0, 32, 64, 128)))
    box = (
        unit * draw(st.integers(1, swizzle // 16 or 12)),
        *(draw(st.integers(1, 12 if rank < 4 else 5)) for _ in range(rank - 1)),
    )
    steps = (1, *(draw(st.integers(1, 8)) for _ in range(rank - 1)))
    at = (
        unit * draw(st.integers(-10, 12)),
        *(draw(st.integers(-9, 9)) for _ in range(rank - 1)),
    )
    fill = draw(st.sampled_from(("zeros", "nan") if "float" in dtype else ("zeros",)))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    array = rng.integers(1, 256, pitch * int(np.prod(sizes[1:], dtype=int)), np.uint8).view(element)
    reference = hopper.TensorMap("x", dtype, sizes, strides, box, swizzle, steps, fill=fill)
    return reference, array.reshape(*sizes[:0:-1], -1), at, draw(st.integers(1, 8))


# ---- what the driver refuses ----

# Arguments of cuTensorMapEncodeTiled, and whether the driver of an H200 takes them.
MATRIX: dict[str, Any] = {"dtype": "uint32", "sizes": (64, 64), "strides": (256,), "box": (4, 4)}
VOLUME: dict[str, Any] = {"dtype": "uint8", "sizes": (2**20,) * 3, "strides": (2**24, 2**28)}
TAKEN = [
    {}, {"sizes": (64, 2**32)}, {"sizes": (2**32, 2**32), "strides": (2**40 - 16,)}, {"strides": (0,)},
    {"strides": (16,)}, {"strides": (2**40 - 16,)}, {"sizes": (4, 2), "box": (8, 4)}, {"box": (256, 1)},
    {"sizes": (64, 8, 8), "strides": (4096, 256), "box": (4, 4, 1)}, {"sizes": (64,), "strides": (), "box": (4,)},
    {"element_strides": (2, 1)}, {"element_strides": (1, 8)}, {"box": (4, 8), "element_strides": (1, 8)},
    {"box": (256, 228)}, {"box": (256, 256), "element_strides": (1, 8)}, {"box": (4, 256), "swizzle": 128},
    {**VOLUME, "box": (256, 256, 3)}, {**VOLUME, "box": (128, 256, 7)}, {**VOLUME, "box": (16, 57, 256)},
    {"dtype": "float64", "box": (256, 114)}, {"dtype": "float32", "fill": "nan"}, {"dtype": "float64", "fill": "nan"},
]  # fmt: skip
REFUSED = [
    ({"address": 8}, "address .* multiple of 16 bytes; got one that is 8 bytes"),
    ({"sizes": (0, 64)}, r"sizes\[0\] must be from 1 to 2\^32; got 0"),
    ({"sizes": (64, 2**32 + 1)}, r"sizes\[1\] .* got 4294967297"),
    ({"strides": (264,)}, r"strides\[0\] must be a multiple of 16 bytes .* got 264"),
    ({"sizes": (64, 1), "strides": (8,), "box": (4, 1)}, r"strides\[0\] .* got 8"),
    ({"strides": (2**40,)}, r"strides\[0\] .* less than 2\^40"),
    ({"strides": (-256,)}, r"strides\[0\] .* from 0 .* got -256"),
    ({"box": (4, 0)}, r"box\[1\] must be from 1 to 256; got 0"),
    ({"box": (4, 257)}, r"box\[1\] .* got 257"),
    ({"box": (256, 256)}, "at most 233,472 bytes; got 262,144"),
    ({"box": (256, 229)}, "at most 233,472 bytes"),
    ({**VOLUME, "box": (256, 256, 4)}, "at most 233,472 bytes"),
    ({**VOLUME, "box": (16, 58, 256)}, "at most 233,472 bytes"),
    ({"dtype": "float64", "box": (256, 115)}, "at most 233,472 bytes"),
    ({"box": (2, 4)}, "row of a box .* multiple of 16 bytes; got 2 elements of 4 bytes"),
    ({"box": (6, 4)}, "row of a box .* multiple of 16 bytes"),
    ({"box": (64, 4), "swizzle": 128}, "at most the 128 bytes of the swizzle; got 256"),
    ({"box": (16, 4), "swizzle": 32}, "at most the 32 bytes of the swizzle; got 64"),
    ({"swizzle": 16}, "swizzle must be 0, 32, 64 or 128 bytes; got 16"),
    ({"element_strides": (1, 0)}, r"element_strides\[1\] must be from 1 to 8; got 0"),
    ({"box": (4, 16), "element_strides": (1, 9)}, r"element_strides\[1\] .* got 9"),
    ({"box": (16, 4), "element_strides": (9, 1)}, r"element_strides\[0\]"),
    ({"box": (16, 4), "element_strides": (0, 1)}, r"element_strides\[0\]"),
    ({"sizes": (), "strides": (), "box": ()}, "1 to 5 dimensions; got 0"),
    ({"sizes": (64,) * 6, "strides": (256,) * 5, "box": (4, *[1] * 5)}, "1 to 5 dimensions; got 6"),
    ({"fill": "nan"}, "fill='nan' is for floating-point numbers; the elements are uint32"),
    ({"dtype": "uint8", "box": (16, 4), "fill": "nan"}, "floating-point"),
    ({"fill": "ones"}, "fill must be 'zeros' or 'nan'; got 'ones'"),
    ({"box": (4,)}, "box must have 2 values for 2 dimensions; got 1"),
    ({"strides": (256, 256)}, r"strides must have 1 values \(of all dimensions but the first\)"),
    ({"element_strides": (1,)}, "element_strides must have 2 values"),
]
