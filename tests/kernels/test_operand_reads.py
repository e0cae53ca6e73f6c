"""Tests of how much kernels read of operands, of row alignment, and of peak rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiledmm.elements import ELEMENTS, TF32, compute_element
from tiledmm.hardware.data_sheets import DATA_SHEETS
from tiledmm.kernels.operands.bytes import Bytes
from tiledmm.kernels.operands.packed_rows import aligned_in_place
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.arrays import Array
from tiledmm.problem.product import Product, resolve
from tiledmm.selection.cost import row_flops
from tiledmm.selection.rates import nearest_rates, rate_type


def matrices(a: tuple[int, ...], b: tuple[int, ...], strides: Any = (None, None), types: Any = ("f4", "f4")) -> Product:
    """Describe a product of arrays with these shapes and strides, in elements."""
    described = []
    for shape, each, dtype in zip((a, b), strides, map(np.dtype, types), strict=True):
        steps = Array.allocated(shape, dtype).strides if each is None else tuple(dtype.itemsize * step for step in each)
        described.append(Array(shape, steps, dtype))
    return resolve(*described)


@pytest.mark.parametrize(
    ("wanted", "elements"),
    [
        (matrices((5, 7), (7, 3)), (35, 21)),
        (matrices((2, 5, 7), (2, 7, 3)), (70, 42)),
        (matrices((2, 5, 7), (7, 3)), (70, 21)),
        (matrices((5, 7), (4, 7, 3)), (35, 84)),
        (matrices((6, 1, 5, 7), (1, 4, 7, 3)), (6 * 35, 4 * 21)),
        (matrices((2, 3, 2, 3, 2, 5, 7), (3, 1, 1, 2, 7, 3)), (72 * 35, 6 * 21)),
    ],
)
def test_what_is_broadcast_is_read_once(wanted: Product, elements: tuple[int, int]) -> None:
    assert (wanted.problem.elements(0), wanted.problem.elements(1)) == elements


@pytest.mark.parametrize(
    ("strides", "types", "aligned"),
    [
        (((32, 1), (64, 1)), ("f4", "f4"), (True, True)), (((33, 1), (64, 1)), ("f4", "f4"), (False, True)),
        (((32, 1), (65, 1)), ("f4", "f4"), (True, False)), (((1, 32), (1, 64)), ("f4", "f4"), (True, True)),
        (((1, 31), (1, 32)), ("f4", "f4"), (False, True)), (((32, 1), (32, 1)), ("f8", "f2"), (True, False)),
        (((16, 1), (64, 1)), ("f8", "f2"), (True, True)), (((64, 1), (16, 1)), ("f2", "f8"), (True, True)),
        (((32, 1), (16, 1)), ("f2", "f4"), (False, False)),
    ],
)  # fmt: skip
def test_rows_of_each_operand_begin_at_cache_lines_or_not(strides: Any, types: Any, aligned: tuple[bool, bool]) -> None:
    assert aligned_in_place(matrices((8, 16), (16, 16), strides, types)) == aligned


@pytest.mark.parametrize(
    ("stride", "dtype", "how", "packs"),
    [((16, 1), "f4", "chunks", False), ((18, 1), "f4", "words", True), ((1, 16), "f4", "chunks", True),
     ((18, 1), "f8", "chunks", False), ((20, 1), "f2", "words", True), ((24, 1), "f2", "chunks", False),
     ((32, 2), "f4", "elements", True)],
)  # fmt: skip
def test_rows_of_b_may_be_wide_enough(stride: tuple[int, int], dtype: str, how: str, packs: bool) -> None:
    wanted = matrices((8, 16), (16, 16), (None, stride), (dtype, dtype))
    variant = find_variant("warp_tiled")
    assert variant.operands.access(variant, (), wanted) == how
    assert list(variant.operands.packings(variant, 256, wanted)) == ([("pack_b",), ()] if packs else [()])


def test_types_that_take_as_long_share_rates() -> None:
    own = ("float32", "float64", "complex64", "complex128")
    wanted = {name: name for name in own} | {
        "tf32": "tf32",
        "float16": "float16",
        "bfloat16": "float16",
        "bool": "int8",
    }
    for bits, name in ((8, "int8"), (16, "float16"), (32, "int32"), (64, "int64")):
        wanted |= {f"int{bits}": name, f"uint{bits}": name}
    assert {name: rate_type(compute_element(name)) for name in (*ELEMENTS, "tf32")} == wanted


@pytest.mark.parametrize("name", ["T4", "A100 SXM4 80 GB", "RTX 3090", "H100 SXM 80 GB", "B200"])
def test_a_kernels_unit_has_the_peak_of_its_instructions(name: str) -> None:
    gpu = DATA_SHEETS[name]
    of = compute_element
    for dtype in ("float32", "float64", "int32", "complex64", "float16", "int64"):
        assert find_variant("tiled").unit_flops(of(dtype), gpu) == gpu.peak_flops(dtype)
    for dtype, itemsize in (("float16", 2), ("bfloat16", 2), ("int8", 1), ("float64", 8), ("complex128", 16)):
        for by_mma in (False, True):
            wanted = gpu.tensor_flops(itemsize, by_mma=by_mma)
            assert find_variant("tensor_core").unit_flops(of(dtype), gpu, by_mma=by_mma) == wanted
    assert find_variant("tensor_core").unit_flops(TF32, gpu) == gpu.tensor_flops(4)
    half, byte = gpu.tensor_flops(2, by_mma=True), gpu.tensor_flops(1, by_mma=True)
    limbs = find_variant("split_float32")
    for scheme, unit in (("bf16x6", half / 6), ("bf16x9", half / 9), ("fp16x3", half / 3),
                         ("tf32x3", gpu.tensor_flops(4, by_mma=True) / 3)):  # fmt: skip
        for dtype, multiplies in (("float32", 1), ("complex64", 4)):
            found = limbs.unit_flops(of(dtype), gpu, scheme=scheme, by_mma=True)
            assert found == pytest.approx(unit / multiplies, abs=0)
    assert limbs.unit_flops(of("float32"), gpu) == limbs.unit_flops(
        of("float32"), gpu, scheme=limbs.operands.schemes[0]
    )
    for dtype, pairs in (("int16", 3), ("int32", 10), ("uint32", 10), ("int64", 36)):
        assert find_variant("split_integer").unit_flops(of(dtype), gpu, by_mma=True) == pytest.approx(
            byte / pairs, abs=0
        )
        assert Bytes().multiplied(of(dtype)) == (1, pairs)


def test_a_row_has_the_peak_of_mma_unless_its_kernel_has_newer_instructions() -> None:
    gpu = DATA_SHEETS["H100 SXM 80 GB"]
    seen = set()
    for row in nearest_rates(gpu).rows:
        if row.variant in ("tensor_core", "wgmma") and row.type in ("float16", "int8"):
            itemsize = {"float16": 2, "int8": 1}[row.type]
            assert row_flops(row, gpu) == gpu.tensor_flops(itemsize, by_mma=row.variant == "tensor_core")
            seen.add(row.variant)
    assert seen == {"tensor_core", "wgmma"}
