"""Table of the variants, one row each, in ladder order. Everything that lists variants iterates ``VARIANTS``."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from tiledmm.elements import compute_element, compute_element_of, element
from tiledmm.errors import ConfigError, ShapeError, UnknownVariantError, UnsupportedTypeError
from tiledmm.kernels import cuda_cores, rules, split_variants, tensor_cores
from tiledmm.kernels.config import Config, ConfigOverrides
from tiledmm.kernels.operands.bytes import Bytes
from tiledmm.kernels.operands.in_place import IN_PLACE
from tiledmm.kernels.operands.limbs import Limbs
from tiledmm.kernels.operands.residues import Residues
from tiledmm.kernels.spec import ORDERS, KernelSpec
from tiledmm.kernels.variant import Hopper, Reads, Variant, block_of_tiles
from tiledmm.kernels.variant_table import VariantTable
from tiledmm.problem.casting import converts_in_kernel

SQUARE_TILES = (8, 16, 32, 64)

# Values that several rows of the table share.
_HOPPER = Hopper("sm_90a", tma=True, persistent=True, warpgroup=True)
_LIMBS = Limbs(("fp16x3", "bf16x6", "bf16x9", "tf32x3", "fp16x1"), otherwise=("warp_tiled", "tensor_core"))
_LIMBS_ON_HOPPER = replace(_LIMBS, otherwise=("warp_tiled", "wgmma", "tensor_core"))
_RESIDUES = Residues(otherwise=("tensor_core",))


def _on(capability: tuple[int, int], *types: str) -> tuple[tuple[str, tuple[int, int]], ...]:
    """Pair each of the given computation types with the same lowest compute capability."""
    return tuple((name, capability) for name in types)


def _any_tile(config: Config) -> bool:
    return True


def _with_producer(config: Config) -> tuple[int, int]:
    """Return the threads per block along x and y of a kernel with a producer warpgroup.

    The 128 threads of the producer warpgroup compute nothing.
    """
    return config.threads + 128, 1


# fmt: off
VARIANTS = VariantTable((
    Variant("naive", "naive.cu.j2",
            "one thread per element of C; the lanes of a warp compute a column of C, so their loads are uncoalesced",
            lambda tile, element: Config(bm=32, bn=16, unroll=8), block=lambda config: (config.bm, config.bn),
            rules=rules.one_element_a_thread, operands=IN_PLACE, reads=Reads(down_columns=True)),
    Variant("coalesced", "coalesced.cu.j2",
            "the lanes of a warp compute a row of C, so they read contiguous elements",
            lambda tile, element: Config(bm=16, bn=32, unroll=8), block=block_of_tiles,
            rules=rules.one_element_a_thread, operands=IN_PLACE, mends="uncoalesced accesses"),
    Variant("tiled", "tiled.cu.j2",
            "square tiles of A and B in shared memory; each loaded element is used once per row or column of the tile",
            cuda_cores.tiled, block_of_tiles, cuda_cores.shared_tiled, rules.even_copies(1),
            SQUARE_TILES, default_tile=32, operands=IN_PLACE, mends="little reuse"),
    Variant("tiled_padded", "tiled.cu.j2",
            "rows of a shared tile are one element longer: a column lies in 32 different banks",
            cuda_cores.tiled_padded, block_of_tiles, cuda_cores.shared_tiled, rules.even_copies(1),
            SQUARE_TILES, default_tile=32, operands=IN_PLACE, mends="bank conflicts"),
    Variant("double_buffered", "double_buffered.cu.j2",
            "the next tiles are loaded while the current ones are multiplied; one barrier per step",
            cuda_cores.double_buffered, block_of_tiles, cuda_cores.shared_double_buffered, rules.buffers_of_vectors,
            SQUARE_TILES, default_tile=32, operands=IN_PLACE, mends="barriers"),
    Variant("register_tiled", "register_tiled.cu.j2",
            "8 x 8 elements per thread: each value read from shared memory is used in 8 multiply-adds",
            cuda_cores.register_tiled, block_of_tiles, cuda_cores.shared_k_major, rules.even_copies(1),
            (64, 128), default_tile=128, operands=IN_PLACE, reads=Reads(from_shared="K-major"),
            mends="shared-memory loads"),
    Variant("vectorized", "vectorized.cu.j2",
            "register_tiled with 16-byte accesses: float4 to and from global and shared memory",
            cuda_cores.register_tiled, block_of_tiles, cuda_cores.shared_k_major, rules.square_vectors,
            (64, 128), default_tile=128, operands=IN_PLACE, reads=Reads(from_shared="K-major vectors"),
            mends="narrow loads"),
    Variant("warp_tiled", "warp_tiled.cu.j2",
            "one tile per warp, fragments in registers; 16-byte loads run several stages ahead",
            cuda_cores.warp_tiled, shared_bytes=cuda_cores.shared_warp_tiles, rules=rules.warp_tiles,
            tiles=(32, 64, 128, 256), default_tile=256, operands=IN_PLACE,
            reads=Reads("vectors", packs_elements=True)),
    Variant("thin", "warp_tiled.cu.j2",
            "warp_tiled with tiles of 8 to 64 rows: for skinny products, at the speed of memory",
            cuda_cores.thin, shared_bytes=cuda_cores.shared_warp_tiles, rules=rules.warp_tiles,
            tiles=(8, 16, 32, 48, 64), default_tile=8, operands=IN_PLACE, reads=Reads(few_rows=_any_tile)),
    Variant("dot_products", "dot_products.cu.j2",
            "a warp computes a few elements of C, and its lanes share K: for skinny products of K-major operands",
            cuda_cores.dot_products, rules=rules.lanes_share_k,
            tiles=(1, 2, 4, 8, 16), default_tile=4, operands=IN_PLACE, reads=Reads("K-major", few_rows=_any_tile)),
    Variant("block_dot_products", "dot_products.cu.j2",
            "dot_products with a whole block, whose threads share K, in place of each warp: for long K and a small C",
            cuda_cores.block_dot_products, shared_bytes=cuda_cores.shared_block_dot_products,
            rules=rules.threads_share_k, tiles=(1, 2, 4), default_tile=1,
            operands=IN_PLACE, reads=Reads("K-major", few_rows=_any_tile)),
    Variant("axpy", "axpy.cu.j2",
            "a block sums rows of B times elements of A, over a few columns and all of K: for skinny products",
            cuda_cores.axpy, shared_bytes=cuda_cores.shared_axpy, rules=rules.rows_of_vectors,
            tiles=(1, 2, 4), default_tile=4, operands=IN_PLACE, reads=Reads("rows of B", few_rows=_any_tile)),
    Variant("outer_products", "outer_products.cu.j2",
            "rows of B stay in registers, and a warp walks down rows of C: for K up to 4, at the speed of writing C",
            cuda_cores.outer_products, rules=rules.rows_of_words,
            tiles=(2, 4), default_tile=4, operands=IN_PLACE, reads=Reads(short_k=True)),
    Variant("narrow_outer_products", "narrow_outer_products.cu.j2",
            "outer_products for a C of few columns: successive threads write successive elements, across row ends",
            cuda_cores.narrow_outer_products, rules=rules.rows_as_words,
            tiles=(2, 4, 8), default_tile=4, operands=IN_PLACE, reads=Reads(short_k=True, narrow=True)),
    Variant("tiny", "tiny.cu.j2",
            "a warp, or part of a warp, computes each tile of C: for batches of small products",
            cuda_cores.tiny, shared_bytes=cuda_cores.shared_tiny, rules=rules.groups_of_threads,
            tiles=(4, 8, 16), default_tile=8, operands=IN_PLACE, reads=Reads(small_products=True)),
    Variant("tensor_core", "tensor_core.cu.j2",
            "tensor cores: one instruction of a warp multiplies 16 x 16 by 16 x 8 elements of 16 bits",
            tensor_cores.tensor_core, shared_bytes=tensor_cores.shared_tensor_core,
            rules=tensor_cores.double_buffered_fragments, tiles=(16, 32, 64, 128, 256), default_tile=128,
            types=(("float16", (7, 5)), ("bfloat16", (8, 0)), ("tf32", (8, 0)),
                   ("int8", (7, 5)), ("uint8", (7, 5)),  # on 7.5 with smaller instructions
                   ("float64", (8, 0)), ("complex128", (8, 0))),
            tensor_cores=True, operands=IN_PLACE, waits="first", reads=Reads(few_rows=lambda config: config.bm < 64),
            clusters=tensor_cores.CLUSTERS),
    Variant("wgmma", "wgmma.cu.j2",
            "Hopper: a persistent kernel; one warpgroup issues TMA loads, the others multiply 64 rows each",
            tensor_cores.wgmma, _with_producer, tensor_cores.shared_wgmma,
            tensor_cores.warpgroups(16, 32, 64, *range(80, 161, 16), 192, 224, 256),
            (16, 32, 64, 80, 96, 104, 112, 120, 128, 144, 160, 192, 224, 256, 384, 512), default_tile=256,
            types=_on((9, 0), "float16", "bfloat16", "tf32", "int8", "uint8"), tensor_cores=True,
            operands=IN_PLACE, waits="first", reads=Reads(few_columns=lambda config: config.bn < 64),
            hopper=replace(_HOPPER, in_cluster=tensor_cores.sum_in_cluster)),
    Variant("split_float32", "split_float32.cu.j2",
            "float32 and complex64 on 16-bit tensor cores: numbers are decomposed into limbs; promoted accumulation",
            split_variants.split_float32, _with_producer, split_variants.shared_limbs,
            split_variants.of_limbs(tensor_cores.warpgroups(64, 128, 144, 256)),
            (64, 128, 144, 256), default_tile=256, types=_on((9, 0), "float32", "complex64", "tf32"),
            tensor_cores=True, operands=_LIMBS_ON_HOPPER, waits="first", hopper=_HOPPER),
    Variant("split_tensor_core", "split_tensor_core.cu.j2",
            "split_float32 with mma.sync, an instruction of a warp: for GPUs without wgmma",
            split_variants.split_tensor_core, shared_bytes=split_variants.shared_swizzled_limbs,
            rules=split_variants.of_limbs(tensor_cores.matrix_fragments),
            tiles=(64, 128), default_tile=128, types=_on((8, 0), "float32", "complex64", "tf32"),
            tensor_cores=True, operands=_LIMBS, waits="first"),
    Variant("split_integer", "split_integer.cu.j2",
            "integers on 8-bit tensor cores: their bytes are multiplied pair by pair and summed by place",
            split_variants.split_integer, _with_producer, split_variants.shared_split_integer, split_variants.of_bytes,
            (64, 128, 144, 256), default_tile=256,
            types=_on((9, 0), "int32", "int64", "int16", "uint16", "uint32", "uint64"),
            tensor_cores=True, operands=Bytes(), waits="first", hopper=_HOPPER),
    Variant("split_float64", "split_float64.cu.j2",
            "float64 and complex128 on 8-bit tensor cores: integers modulo small numbers (Ozaki scheme II)",
            split_variants.split_float64, _with_producer, split_variants.shared_byte_tiles, split_variants.of_residues,
            (64, 128, 256), default_tile=256, types=_on((9, 0), "float64", "complex128"),
            tensor_cores=True, operands=_RESIDUES, waits="first", hopper=_HOPPER),
    Variant("split_float64_tensor_core", "split_float64_tensor_core.cu.j2",
            "split_float64 with mma.sync, an instruction of a warp: for GPUs without wgmma",
            split_variants.split_float64_tensor_core, shared_bytes=split_variants.shared_swizzled_residues,
            rules=split_variants.of_swizzled_residues,
            tiles=(64, 128, 256), default_tile=128, types=_on((8, 0), "float64", "complex128"),
            tensor_cores=True, operands=_RESIDUES, waits="first"),
    Variant("cublas", None,
            "cupy.matmul itself, the baseline; used only by name",
            lambda tile, element: Config(0, 0)),
))
# fmt: on


def kernel_variants(dtype: str | None = None) -> list[Variant]:
    """Return the variants that have a kernel, in ladder order: all but ``cublas``.

    Args:
        dtype: Computation type that the variants must support; None for any.
    """
    kernels = [row for row in VARIANTS.values() if row.template is not None]
    return kernels if dtype is None else [row for row in kernels if row.multiplies(compute_element(dtype))]


def general_variants() -> list[Variant]:
    """Return the variants that support every element type of arrays, in ladder order."""
    return [row for row in kernel_variants() if not row.types]


def find_variant(name: str) -> Variant:
    """Return the variant of the given name.

    Raises:
        UnknownVariantError: If there is none. The message suggests the closest name, or lists all if none is close.
    """
    row = VARIANTS.get(name) if isinstance(name, str) else None
    if row is None:
        if name == "auto":
            raise UnknownVariantError(
                f"'auto' chooses a kernel for each product; a single kernel needs the name of a variant, one of "
                f"{', '.join(VARIANTS)}"
            )
        if near := difflib.get_close_matches(str(name), VARIANTS, n=1):
            raise UnknownVariantError(
                f"unknown variant {name!r}; did you mean {near[0]!r}? 'tiledmm variants' lists all"
            )
        raise UnknownVariantError(
            f"unknown variant {name!r}; the variants are auto, {', '.join(VARIANTS)}; register a kernel of your own "
            "first, with tiledmm.register or, for a command, with its option --kernel or --import"
        )
    return row


def kernel_spec(
    variant: str | Variant,
    *,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
) -> KernelSpec:
    """Return the specification of a kernel after checking the arguments that describe it.

    Args:
        variant: A variant with a kernel, or its name.
        tile: Tile size; None for the variant's default.
        config: Values of fields of ``Config`` that replace those of the tile, by name.
        dtype: Computation type. It may also be ``"tf32"``, or a type such as ``"int8_int32"`` for int8 operands with
            int32 results, which ``"int32"`` stands for if both operands are int8. None for float32, or for the
            variant's first type if it does not support float32.
        layout: One letter per operand, A then B: N for contiguous rows, T for contiguous columns, G for neither.
        a_dtype, b_dtype, out_dtype: Types in memory of A, B and C if they differ from ``dtype``.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError, ShapeError: If there is no such variant, tile, field,
            type or layout.
    """
    row = variant if isinstance(variant, Variant) else find_variant(variant)
    if row.template is None:
        raise ConfigError(f"variant {row.name!r} has no kernel of this package: it calls cupy.matmul")
    if not isinstance(layout, str) or len(layout) != 2 or not set(layout) <= set(ORDERS):
        raise ShapeError(f"layout must be two letters out of N, T and G, for A and B, such as 'NT'; got {layout!r}")
    compute = compute_element(row.default_type if dtype is None else dtype)
    a, b = (compute.stored if d is None else element(d) for d in (a_dtype, b_dtype))
    c = compute.result if out_dtype is None else element(out_dtype)
    own = compute_element_of(a, b, compute)
    compute = own if row.multiplies(own) else compute
    for source, target in ((a, compute), (b, compute), (compute.result, c)):
        if not converts_in_kernel(source.dtype, target.dtype):
            raise UnsupportedTypeError(f"kernels do not convert {source.dtype_name} to {target.dtype_name}")
    spec = KernelSpec(row, row.config(tile, compute, config), a, b, compute, c, layout)
    return spec.with_packing_for_tma(*("G" not in letter for letter in layout))
