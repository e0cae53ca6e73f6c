"""Tests that every kernel compiles without spills and leaves room for its intended blocks per SM. No GPU is needed."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conftest import full_unless, slow_unless
from tiledmm.codegen.rendering import render
from tiledmm.elements import ELEMENTS, SCHEMES, compute_element
from tiledmm.hardware.architectures import TARGETS
from tiledmm.hardware.occupancy import occupancy
from tiledmm.kernels.operands.limbs import decompose_spec
from tiledmm.kernels.spec import ORDERS, KernelSpec
from tiledmm.kernels.split_variants import BLOCK_TILE_BYTES
from tiledmm.kernels.variants import find_variant, general_variants, kernel_spec, kernel_variants
from tiledmm.problem.casting import converts_in_kernel
from tiledmm.problem.epilogue import Epilogue, EpilogueOperand
from tiledmm.schedule.schedule import fallbacks

pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")

from tiledmm.compile.inspection import compile_for

KERNELS = [(row.name, tile) for row in general_variants() for tile in row.tiles or (None,)]
TYPES = list(ELEMENTS)

# NVRTC 12.9 spills 28 bytes of this kernel. Other parameters are a change of the kernel, which a GPU has to measure.
SPILLS = {("dot_products", 1, "bfloat16", "TG"): [pytest.mark.xfail(reason="spills 28 bytes")]}

SOME_TYPES = [
    (row.name, tile, dtype) for row in kernel_variants() for tile in row.tiles for dtype, _ in row.types
]  # kernels that multiply some types only
LAYOUTS = ["".join(pair) for pair in itertools.product(ORDERS, repeat=2)]


def number_of(variant: str, tile: int | None) -> int:
    """Return a number of a kernel that does not depend on the other kernels, so that a new one changes no cases."""
    tiles = find_variant(variant).tiles or (None,)
    return zlib.crc32(variant.encode()) + tiles.index(tile)


def types_of(variant: str, tile: int | None) -> list[str]:
    """Return all types, but only the signed or only the unsigned integers, alternating between tiles."""
    if tile is None:
        return TYPES
    left_out = "int" if number_of(variant, tile) % 2 else "uint"
    return [name for name in TYPES if not name.startswith(left_out)]


def pairwise() -> list[tuple[str, int | None, str, str]]:
    """Return every kernel with its types, and layouts such that all pairs of kernel, type and layout occur."""
    return [
        (*kernel, dtype, LAYOUTS[(number_of(*kernel) + j) % len(LAYOUTS)])
        for kernel in KERNELS
        for j, dtype in enumerate(types_of(*kernel))
    ]


def covering(
    pairs: Callable[[str, int | None, str, str], set[tuple[object, ...]]],
) -> frozenset[tuple[str, int | None, str, str]]:
    """Return a subset of those cases with all of their pairs."""
    left = {case: pairs(*case) for case in pairwise()}
    chosen = []
    while any(left.values()):
        chosen.append(max(left, key=lambda case: len(left[case])))
        met = left.pop(chosen[-1])
        for each in left.values():
            each -= met
    return frozenset(chosen)


@functools.cache
def quick() -> frozenset[tuple[str, int | None, str, str]]:
    """Return cases with all pairs of variant, type and layout, and every tile."""
    return covering(
        lambda variant, tile, dtype, layout: {(variant, dtype), (variant, layout), (dtype, layout), (variant, tile)}
    )


@functools.cache
def quickest() -> frozenset[tuple[str, int | None, str, str]]:
    """Return cases with every variant, every type and every layout."""
    return covering(lambda variant, tile, dtype, layout: {(variant,), (dtype,), (layout,)})


def smaller(target: int) -> list[tuple[str, int | None, str, str]]:
    """Return every other tile of each kernel once per target, with types and layouts spread over all."""
    return [
        (*kernel, TYPES[(5 * i + 3 * target) % len(TYPES)], LAYOUTS[(i + target) % len(LAYOUTS)])
        for kernel, i in ((kernel, number_of(*kernel)) for kernel in KERNELS)
        if kernel[1] is None or (i + target) % 2 == 0
    ]


def turn(variant: str, tile: int, dtype: str) -> int:
    """Return a number whose parity alternates between tiles and between types."""
    row = find_variant(variant)
    return row.tiles.index(tile) + [name for name, _ in row.types].index(dtype)


def half_of_layouts(variant: str, tile: int, dtype: str) -> list[str]:
    """Return half of the layouts; the next tile and the next type have the other half."""
    return LAYOUTS[turn(variant, tile, dtype) % 2 :: 2]


def test_the_covering_sets_cover_all_pairs():
    cases = pairwise()
    assert {(v, d) for v, _, d, _ in cases} == {(v, d) for v, _ in KERNELS for d in TYPES}
    assert {(v, t, x) for v, t, _, x in cases} == {(*k, x) for k in KERNELS for x in LAYOUTS}
    assert {(d, x) for _, _, d, x in cases} == set(itertools.product(TYPES, LAYOUTS))
    assert {(v, d) for v, _, d, _ in quick()} == {(v, d) for v, _, d, _ in cases}
    assert {(v, x) for v, *_, x in quick()} == {(v, x) for v, *_, x in cases}
    assert {(d, x) for *_, d, x in quick()} == {(d, x) for *_, d, x in cases}
    assert {(v, t) for v, t, *_ in quick()} == set(KERNELS)
    for chosen in (quick(), quickest()):
        assert {v for v, *_ in chosen} == {v for v, _ in KERNELS}
        assert {d for *_, d, _ in chosen} == set(TYPES) and {x for *_, x in chosen} == set(LAYOUTS)
    for i in range(len(OTHER_TARGETS)):
        assert {v for v, *_ in smaller(i)} == {v for v, _ in KERNELS}
    some = {(v, d, x) for v, t, d in SOME_TYPES for x in half_of_layouts(v, t, d)}
    assert some == {(v, d, x) for v, _, d in SOME_TYPES for x in LAYOUTS}


def runs_on(variant: str, tile: int, dtype: str, target: str) -> bool:
    """Return whether a target has the instructions and the shared memory."""
    row, arch, compute = find_variant(variant), TARGETS[target], compute_element(dtype)
    return (
        row.runs_on(arch.capability, compute)
        and kernel_spec(row, tile=tile, dtype=dtype).kernel.shared_bytes <= arch.max_shared_bytes
    )


def check(variant: str, tile: int | None, dtype: str, layout: str, target: str, **types: str) -> None:
    check_kernel(kernel_spec(variant, tile=tile, dtype=dtype, layout=layout, **types).kernel, target)


@functools.cache  # of several layouts whose operands are packed, or split, alike
def check_kernel(spec: KernelSpec, target: str) -> None:
    resources = compile_for(render(spec), spec.symbol, spec.variant.hopper.arch or target)
    assert resources.warnings == ()
    assert (resources.spill_store_bytes, resources.spill_load_bytes, resources.stack_bytes) == (0, 0, 0)
    assert resources.shared_bytes + spec.dynamic_shared_bytes == spec.shared_bytes
    room = occupancy(TARGETS[target], spec.threads, resources.registers, spec.shared_bytes)
    spills = target in ("sm_75", "sm_80") or TARGETS[target].capability >= (10, 0)  # with so few registers
    spills = spills or (spec.variant.tensor_cores and target in ("sm_75", "sm_86", "sm_89"))
    spills = spills or (
        spec.variant.operands.schemes and (spec.a.dtype_name, spec.layout[1], target) == ("tf32", "N", "sm_90")
    )
    if spec.config.min_blocks * spec.threads <= TARGETS[target].max_threads and not spills:
        assert room.blocks >= spec.config.min_blocks
    assert room.blocks >= 1


@pytest.mark.parametrize(
    ("tile", "dtype"),
    [
        pytest.param(tile, dtype, marks=slow_unless((tile, dtype) == (64, "float64")))
        for tile in (32, 64)
        for dtype in ("float64", "complex128")
    ],
)
def test_kernel_whose_clusters_share_k(tile, dtype):
    for layout, blocks in zip(("NN", "TN"), (2, 4), strict=True):
        spec = kernel_spec("tensor_core", tile=tile, dtype=dtype, layout=layout, config={"cluster_k": blocks})
        check_kernel(spec, "sm_90")
        assert spec.why_not_on(TARGETS["sm_80"])


@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "layout"),
    [pytest.param(*case, marks=slow_unless(case in quickest()) + SPILLS.get(case, [])) for case in pairwise()],
)
def test_kernel_on_hopper(variant, tile, dtype, layout):
    check(variant, tile, dtype, layout, "sm_90")


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "tile", "dtype"), SOME_TYPES)
def test_kernel_of_some_types_on_hopper(variant, tile, dtype):
    for layout in half_of_layouts(variant, tile, dtype):
        check(variant, tile, dtype, layout, "sm_90")


OTHER_TARGETS = [name for name in TARGETS if name != "sm_90"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "layout", "target"),
    [
        (*case, ("NN", "NT", "TG")[i % 3], target)
        for i, target in enumerate(OTHER_TARGETS)
        for case in SOME_TYPES
        if (turn(*case) + i) % 2 == 0
        if runs_on(*case, target)
    ],
)
def test_kernel_of_some_types_elsewhere(variant, tile, dtype, layout, target):
    check(variant, tile, dtype, layout, target)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "layout", "target"),
    [(*case, target) for i, target in enumerate(OTHER_TARGETS) for case in smaller(i)],
)
def test_kernel_elsewhere(variant, tile, dtype, layout, target):
    check(variant, tile, dtype, layout, target)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a_dtype", "b_dtype", "dtype", "out_dtype"),
    [
        ("int8", "float32", "float32", "float32"),
        ("float64", "bool", "float16", "float64"),
        ("float16", "float16", "float16", "float32"),
        ("bfloat16", "uint8", "bfloat16", "complex64"),
        ("float32", "complex64", "complex128", "complex64"),
        ("int64", "uint16", "int8", "int64"),
        ("bool", "bool", "bool", "int32"),
        ("uint64", "float32", "float64", "bfloat16"),
    ],
)
@pytest.mark.parametrize("variant", ["coalesced", "tiled", "double_buffered"])
def test_kernel_of_mixed_types(variant, a_dtype, b_dtype, dtype, out_dtype):
    spec = kernel_spec(variant, dtype=dtype, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_dtype)
    assert compile_for(render(spec), spec.symbol, "sm_90").warnings == ()


WITH_MMA = ("sm_80", "sm_86", "sm_90", "sm_120")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NN", "TT", "GG"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "tf32"])
def test_kernels_of_operands_that_are_split(dtype, scheme, layout):
    for variant in kernel_variants(dtype):
        if scheme not in variant.operands.schemes_of(compute_element(dtype)):
            continue
        spec = kernel_spec(variant, dtype=dtype, layout=layout, config={"scheme": scheme})
        targets = ("sm_90",) if variant.hopper.arch else ("sm_80", "sm_90") if dtype == "complex64" else WITH_MMA
        for target in targets:
            check_kernel(spec.kernel, target)
        others = (form.spec.kernel for form in fallbacks(spec))
        for each in (decompose_spec(spec, 0, False), decompose_spec(spec, 1, False), *others):
            check_kernel(each, "sm_90")


CONJUGATING = [
    (row.name, tile, dtype)
    for row in kernel_variants()
    for tile in row.tiles or (None,)
    for dtype in ("complex64", "complex128")
    if row.multiplies(compute_element(dtype))
]


@pytest.mark.parametrize(
    ("variant", "tile", "dtype"),
    [
        pytest.param(*case, marks=slow_unless(case in {("warp_tiled", 128, "complex64"), ("thin", 64, "complex128")}))
        for case in CONJUGATING
    ],
)
def test_kernels_of_conjugates_and_of_half_a_hermitian_product(variant, tile, dtype):
    row = find_variant(variant)
    for layout, conjugates in (("NT", "b"), ("TN", "a")):
        spec = replace(kernel_spec(row, tile=tile, dtype=dtype, layout=layout), conjugates=conjugates)
        kernels = set(row.operands.kernels(spec, by_auto=False))
        if row.has_triangle(spec.config):
            half = replace(spec, config=replace(spec.config, triangle=1), hermitian=True)
            kernels |= set(row.operands.kernels(half, by_auto=False))
        for kernel in kernels:
            found = compile_for(render(kernel), kernel.symbol, row.hopper.arch or "sm_90")
            assert (found.spill_store_bytes, found.spill_load_bytes, found.stack_bytes) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "tile", "dtype", "out_dtype"),
    [
        pytest.param(*case, out, marks=full_unless((turn(*case) + i) % 2 == 0))
        for case in SOME_TYPES
        if case[2] in ("float16", "tf32") or case[0] == "split_tensor_core"
        for i, out in enumerate(("float32", "float64", "complex64", "complex128"))
        if converts_in_kernel(compute_element(case[2]).dtype, ELEMENTS[out].dtype)
    ],
)
def test_kernel_of_wider_results(variant, tile, dtype, out_dtype):
    check(variant, tile, dtype, "NN", "sm_90", out_dtype=out_dtype)


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("variant", "tile", "dtype"), [*((*kernel, dtype) for kernel in KERNELS for dtype in TYPES), *SOME_TYPES]
)
def test_kernel_of_the_full_product(variant, tile, dtype, layout, target):
    if runs_on(variant, tile, dtype, target):
        check(variant, tile, dtype, layout, target)


def test_the_tile_that_a_block_keeps_in_shared_memory_has_the_size_that_is_counted() -> None:
    spec = kernel_spec("split_tensor_core", tile=64, dtype="float32").kernel
    check = f"\nstatic_assert(sizeof(BlockTile) == {BLOCK_TILE_BYTES});\n"
    assert compile_for(render(spec) + check, spec.symbol, "sm_80").spill_store_bytes == 0


@pytest.mark.parametrize(("tile", "dtype", "out_dtype", "partitions"), [
    (144, "float16", "float16", 1), (104, "tf32", "float32", 1), (64, "float16", "float16", 8),
    pytest.param(512, "int8", "int32", 1, marks=pytest.mark.slow),
    pytest.param(256, "float16", "complex128", 8, marks=pytest.mark.slow),
])  # fmt: skip
def test_shared_memory_of_wgmma_has_the_size_that_is_counted(tile, dtype, out_dtype, partitions) -> None:
    spec = kernel_spec("wgmma", tile=tile, dtype=dtype, layout="NT", out_dtype=out_dtype)
    config = spec.config if partitions == 1 else spec.variant.hopper.in_cluster(spec.config, partitions, spec.compute)
    spec = replace(spec, config=config).kernel
    counted = spec.dynamic_shared_bytes
    check = f"\nstatic_assert(sizeof(Tiles) <= {counted} && sizeof(Tiles) > 0.9 * {counted});\n"
    assert compile_for(render(spec) + check, spec.symbol, "sm_90a").spill_store_bytes == 0


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        pytest.param(name, tile, marks=slow_unless((name, tile) in {("addend", 64), ("bias", 256)}))
        for name in ("addend", "bias")
        for tile in (64, 256)
    ],
)
def test_an_epilogue_lets_products_overlap(name, tile):
    """Check that ptxas keeps wgmma asynchronous, which it gives up if other code moves accumulators."""
    strides = (0, 1) if name == "bias" else (None, 1)
    epilogue = Epilogue((EpilogueOperand(name, ELEMENTS["bfloat16"], strides),), ("alpha",), "relu")
    spec = replace(kernel_spec("wgmma", tile=tile, dtype="bfloat16", layout="NT").kernel, epilogue=epilogue)
    assert "serialized" not in compile_for(render(spec), spec.symbol, "sm_90a").log
