"""Tests of what ``auto`` selects on every GPU by its data sheet: the fastest units, within their peak rates."""

from __future__ import annotations

import itertools

import pytest

from tests.conftest import slow_unless
from tests.selection.test_selection import product
from tiledmm.elements import ELEMENTS, TF32, Element, compute_element
from tiledmm.hardware.data_sheets import DATA_SHEETS, REFERENCE_GPUS, Gpu
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.selection.model import Model

TYPES = (*ELEMENTS, TF32.dtype_name)

#: The first GPU of each compute capability. The others are slow.
FIRST = {gpu.arch.capability: gpu for gpu in reversed(DATA_SHEETS.values())}
GPUS = pytest.mark.parametrize(
    "gpu",
    [pytest.param(gpu, id=name, marks=slow_unless(gpu in FIRST.values())) for name, gpu in DATA_SHEETS.items()],
)

MODELS = {name: Model(gpu) for name, gpu in DATA_SHEETS.items()}


def of_type(dtype: str, *sizes: int, layout: str = "NN") -> Product:
    if dtype == TF32.dtype_name:
        return product(*sizes, layout=layout).computed_in(TF32)
    return product(*sizes, layout=layout, dtype=dtype)


# TFLOP/s of tensor cores without sparsity, as the vendor prints them: float16 summed in float32, tf32, int8, float64.
@pytest.mark.parametrize(
    ("name", "half", "tf32", "byte", "double"),
    [
        ("T4", 65, 0, 130, 0), ("RTX 2080 Ti", 53.8, 0, 215.2, 0), ("A100 SXM4 80 GB", 312, 156, 624, 19.5),
        ("A30", 165, 82, 330, 10.3), ("RTX 3090", 71, 35.6, 284, None), ("A10", 125, 62.5, 250, None),
        ("RTX A6000", 154.8, 77.4, 309.7, None), ("RTX 4090", 165.2, 82.6, 660.6, None), ("L4", 121, 60, 242, None),
        ("L40S", 366, 183, 733, None), ("H100 SXM 80 GB", 989, 494, 1979, 67), ("H200 SXM", 989, 494, 1979, 67),
        ("B200", 2250, 1100, 4500, 37), ("RTX 5090", 209.5, 104.8, 838, None),
        ("RTX PRO 6000", 503.8, 251.9, 1007, None),
    ],
)  # fmt: skip
def test_tensor_cores_are_those_of_the_data_sheet(
    name: str, half: float, tf32: float, byte: float, double: float | None
) -> None:
    gpu = DATA_SHEETS[name]
    wanted = {2: half, 4: tf32, 1: byte, 8: double}
    # The H100's sheet is for 1.83 GHz; its tensor cores are clocked up to 1.98.
    for itemsize, tflops in wanted.items():
        if tflops is not None:
            assert gpu.tensor_flops(itemsize) == pytest.approx(tflops * 1e12, rel=0.09)


@pytest.mark.slow
@GPUS
@pytest.mark.parametrize("dtype", TYPES)
def test_nothing_is_expected_to_beat_the_roofline(gpu: Gpu, dtype: str) -> None:
    model = MODELS[gpu.name]
    squares = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)]
    for sizes, layout in itertools.product([*squares, (1, 8192, 8192), (8192, 16, 8192)], ("NN", "NT")):
        wanted = of_type(dtype, *sizes, layout=layout)
        best = model.best(wanted)
        assert (best.microseconds or 0.0) >= model.bound(wanted), f"{best} for {sizes} {layout}"


@GPUS
def test_the_bound_is_that_of_the_fastest_unit_or_of_memory(gpu: Gpu) -> None:
    model = MODELS[gpu.name]
    flops = 2.0 * 8192**3
    assert model.bound(product(8192, 8192, 8192, dtype="float16")) >= flops / gpu.tensor_flops(2) * 1e6 * 0.999
    assert model.bound(product(1, 8192, 8192)) == pytest.approx(4 * (8192**2 + 2 * 8192) / gpu.bandwidth * 1e6)
    assert model.bound(product(0, 8, 8)) >= 0.0


def has_tensor_cores_for(gpu: Gpu, compute: Element) -> bool:
    """Return whether tensor cores multiply this type much faster than CUDA cores; for tf32, GeForce cards' do not."""
    capability = gpu.arch.capability
    if compute.dtype_name == "float16":
        return True
    if compute.dtype_name == "bfloat16":
        return capability >= (8, 0)
    if compute.dtype_name == "tf32":
        return gpu.tensor_flops(4, by_mma=capability != (9, 0)) > 1.5 * gpu.peak_flops("float32")
    if compute.dtype_name in ("int8", "uint8"):
        return capability >= find_variant("tensor_core").least_capability(compute)
    if compute.dtype_name in ("float64", "complex128"):
        return capability in ((8, 0), (9, 0))
    return False


@GPUS
def test_large_products_go_to_tensor_cores_wherever_there_are_any(gpu: Gpu) -> None:
    layouts = itertools.cycle(("NN", "NT", "TN", "TT", "NN"))  # a type has other layouts for each size
    for dtype in ("float16", "bfloat16", "tf32", "int8", "uint8", "float64", "complex128"):
        if not has_tensor_cores_for(gpu, compute_element(dtype)):
            continue
        for sizes in ((2048, 2048, 2048), (4096, 8192, 4096), (16384, 16384, 16384)):
            choice = MODELS[gpu.name].best(of_type(dtype, *sizes, layout=next(layouts)))
            parts = [part for part in choice.parts if not part.spec.variant.tensor_cores]
            elsewhere = sum(part.product.problem.m * part.product.problem.n for part in parts)  # strips at C's edges
            assert elsewhere < 0.2 * sizes[0] * sizes[1], f"{choice} for {sizes}"


@GPUS
def test_float32_is_decomposed_only_where_that_is_faster(gpu: Gpu) -> None:
    """Check that float32 is not decomposed where three products of limbs take longer than CUDA cores."""
    taken = MODELS[gpu.name].best(product(8192, 8192, 8192)).spec.variant
    by_limbs = gpu.tensor_flops(2, by_mma=gpu.arch.capability != (9, 0)) / 3
    if by_limbs < gpu.peak_flops("float32"):
        assert not taken.operands.schemes
    elif by_limbs > 2 * gpu.peak_flops("float32") and gpu.arch.capability >= (8, 0):
        assert taken.operands.schemes


def test_float64_of_consumer_cards_is_as_slow_as_they_are_unless_it_is_decomposed() -> None:
    wanted = product(4096, 4096, 4096, dtype="float64")
    limit = REFERENCE_GPUS["sm_86"].peak_flops("float64") / 1e12 * 4
    for name in ("RTX 3090", "RTX 4090", "RTX 5090"):
        best, own = MODELS[name].best(wanted), Model(DATA_SHEETS[name], ieee=True).best(wanted)
        tflops, native = (2.0 * 4096**3 / (each.microseconds or 0.0) / 1e6 for each in (best, own))
        assert native < limit
        assert best.spec.variant.name == "split_float64_tensor_core" and tflops > limit


def test_what_a_card_reaches_scales_with_its_units() -> None:
    """Check predicted float16 rates against data sheets, of cards with full and with half rate for float32 sums."""
    wanted = product(8192, 8192, 8192, dtype="float16")
    reached = {
        name: 2.0 * 8192**3 / (MODELS[name].best(wanted).microseconds or 0.0) / 1e6 for name in DATA_SHEETS
    }  # TFLOP/s
    for name, gpu in DATA_SHEETS.items():
        by_mma = gpu.arch.capability != (9, 0)
        assert 0.3 < reached[name] / (gpu.tensor_flops(2, by_mma=by_mma) / 1e12) <= 1, name
    assert reached["L40S"] > 1.8 * reached["RTX 4090"] and reached["RTX A6000"] > 1.8 * reached["RTX 3090"]


@GPUS
def test_a_row_times_a_matrix_is_bound_by_memory(gpu: Gpu) -> None:
    """Check that a row times a matrix is bound by memory even for types that the GPU multiplies slowly."""
    for dtype in ("float32", "float64", "float16"):
        (best, *_) = MODELS[gpu.name].rank(of_type(dtype, 1, 8192, 8192))
        assert best.microseconds is not None
        assert best.microseconds < 2.5 * 1e6 * 8192 * 8192 * compute_element(dtype).itemsize / gpu.bandwidth
