"""The variants, one row each, in ladder order. Everything that lists variants iterates ``VARIANTS``."""

from __future__ import annotations

import difflib

from tiledmm.elements import compute_element
from tiledmm.errors import UnknownVariantError
from tiledmm.kernels import cuda_cores, rules, split_variants, tensor_cores
from tiledmm.kernels.config import Config
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variant_table import VariantTable

SQUARE_TILES = (8, 16, 32, 64)

VARIANTS = VariantTable(
    (
        Variant(
            name="naive",
            template="naive.cu.j2",
            summary="one thread per element of C; a warp walks down a column: uncoalesced",
            configure=lambda tile, element: Config(bm=32, bn=16, unroll=8),
            block=lambda config: (config.bm, config.bn),
            shared_bytes=lambda config, element, layout: 0,
            rules=rules.one_element_a_thread,
            down_columns=True,
        ),
        Variant(
            name="coalesced",
            template="coalesced.cu.j2",
            summary="a warp walks along a row of C: its lanes read contiguous elements",
            configure=lambda tile, element: Config(bm=16, bn=32, unroll=8),
            block=cuda_cores.block_of_tiles,
            shared_bytes=lambda config, element, layout: 0,
            rules=rules.one_element_a_thread,
        ),
        Variant(
            name="tiled",
            template="tiled.cu.j2",
            summary="square tiles of A and B in shared memory, each element used once per row or column of the tile",
            configure=cuda_cores.tiled,
            block=cuda_cores.block_of_tiles,
            shared_bytes=cuda_cores.shared_tiled,
            rules=rules.even_copies(1),
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="tiled_padded",
            template="tiled.cu.j2",
            summary="rows of TILE + 1: a column of a tile lies in 32 different banks",
            configure=cuda_cores.tiled_padded,
            block=cuda_cores.block_of_tiles,
            shared_bytes=cuda_cores.shared_tiled,
            rules=rules.even_copies(1),
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="double_buffered",
            template="double_buffered.cu.j2",
            summary="the next tiles are loaded while the current ones are multiplied; one barrier a step",
            configure=cuda_cores.double_buffered,
            block=cuda_cores.block_of_tiles,
            shared_bytes=cuda_cores.shared_double_buffered,
            rules=rules.buffers_of_vectors,
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="register_tiled",
            template="register_tiled.cu.j2",
            summary="8 x 8 elements a thread: one element from shared memory takes part in 8 products",
            configure=cuda_cores.register_tiled,
            block=cuda_cores.block_of_tiles,
            shared_bytes=cuda_cores.shared_k_major,
            rules=rules.even_copies(1),
            shared_reads="K-major",
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="vectorized",
            template="vectorized.cu.j2",
            summary="the same, 16 bytes at a time: float4 to and from global and shared memory",
            configure=cuda_cores.register_tiled,
            block=cuda_cores.block_of_tiles,
            shared_bytes=cuda_cores.shared_k_major,
            rules=rules.square_vectors,
            shared_reads="K-major vectors",
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="warp_tiled",
            template="warp_tiled.cu.j2",
            summary="a tile for each warp, fragments in registers; loads several stages ahead, 16 bytes at a time",
            configure=cuda_cores.warp_tiled,
            block=lambda config: (config.threads, 1),
            shared_bytes=cuda_cores.shared_warp_tiles,
            rules=rules.warp_tiles,
            global_reads="vectors",
            packs_elements=True,
            tiles=(32, 64, 128, 256),
            default_tile=256,
        ),
        Variant(
            name="thin",
            template="warp_tiled.cu.j2",
            summary="the same with tiles of 8 to 64 rows: for skinny products, at the speed of memory",
            configure=cuda_cores.thin,
            block=lambda config: (config.threads, 1),
            shared_bytes=cuda_cores.shared_warp_tiles,
            rules=rules.warp_tiles,
            skinny=lambda config: True,
            tiles=(8, 16, 32, 64),
            default_tile=8,
        ),
        Variant(
            name="dot_products",
            template="dot_products.cu.j2",
            summary="a warp for a few elements of C, its lanes share K: for skinny products of K-major operands",
            configure=cuda_cores.dot_products,
            block=lambda config: (config.threads, 1),
            shared_bytes=lambda config, element, layout: 0,
            rules=rules.lanes_share_k,
            global_reads="K-major",
            skinny=lambda config: True,
            tiles=(1, 2, 4, 8, 16),
            default_tile=4,
        ),
        Variant(
            name="block_dot_products",
            template="dot_products.cu.j2",
            summary="the same with a block for a few elements of C, its threads share K: for long K and a small C",
            configure=cuda_cores.block_dot_products,
            block=lambda config: (config.threads, 1),
            shared_bytes=cuda_cores.shared_block_dot_products,
            rules=rules.threads_share_k,
            global_reads="K-major",
            skinny=lambda config: True,
            tiles=(1, 2, 4),
            default_tile=1,
        ),
        Variant(
            name="axpy",
            template="axpy.cu.j2",
            summary="rows of B times elements of A, a few columns and all of K in a block: for skinny products",
            configure=cuda_cores.axpy,
            block=lambda config: (config.threads, 1),
            shared_bytes=cuda_cores.shared_axpy,
            rules=rules.rows_of_vectors,
            global_reads="rows of B",
            skinny=lambda config: True,
            tiles=(1, 2, 4),
            default_tile=4,
        ),
        Variant(
            name="outer_products",
            template="outer_products.cu.j2",
            summary="rows of B in registers, a warp walks down rows of C: for a K of a few, at the speed of writing C",
            configure=cuda_cores.outer_products,
            block=lambda config: (config.threads, 1),
            shared_bytes=lambda config, element, layout: 0,
            rules=rules.rows_of_words,
            short_k=True,
            tiles=(2, 4),
            default_tile=4,
        ),
        Variant(
            name="tiny",
            template="tiny.cu.j2",
            summary="a warp, or a part of one, for each tile of C: for batches of small products",
            configure=cuda_cores.tiny,
            block=lambda config: (config.threads, 1),
            shared_bytes=cuda_cores.shared_tiny,
            rules=rules.groups_of_threads,
            small_products=True,
            tiles=(4, 8, 16),
            default_tile=8,
        ),
        Variant(
            name="tensor_core",
            template="tensor_core.cu.j2",
            summary="tensor cores: a warp multiplies 16 x 16 by 16 x 8 elements of 16 bits with one instruction",
            waits="first",
            configure=tensor_cores.tensor_core,
            block=lambda config: (config.threads, 1),
            shared_bytes=tensor_cores.shared_tensor_core,
            rules=tensor_cores.double_buffered_fragments,
            skinny=lambda config: config.bm < 64,
            tiles=(16, 32, 64, 128, 256),
            default_tile=128,
            tensor_cores=True,
            dynamic_shared=True,
            types=(
                ("float16", (7, 5)),
                *((name, (8, 0)) for name in ("bfloat16", "tf32")),
                *((name, (7, 5)) for name in ("int8", "uint8")),  # there by smaller instructions
                *((name, (8, 0)) for name in ("float64", "complex128")),
            ),
        ),
        Variant(
            name="wgmma",
            template="wgmma.cu.j2",
            summary="Hopper: a persistent kernel; one warpgroup issues TMA loads, the others multiply 64 rows each",
            waits="first",
            configure=tensor_cores.wgmma,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=tensor_cores.shared_wgmma,
            rules=tensor_cores.warpgroups(64, 128, 192, 256),
            tiles=(64, 96, 128, 192, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=tuple((name, (9, 0)) for name in ("float16", "bfloat16", "tf32", "int8", "uint8")),
            arch="sm_90a",
            tma=True,
            persistent=True,
            warpgroup=True,
        ),
        Variant(
            name="split_float32",
            template="split_float32.cu.j2",
            summary="float32 and complex64 from 16-bit tensor cores: decomposed into limbs, promoted accumulation",
            waits="first",
            configure=split_variants.split_float32,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=split_variants.shared_limbs,
            rules=split_variants.of_limbs(tensor_cores.warpgroups(64, 128, 256)),
            tiles=(64, 128, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=(("float32", (9, 0)), ("complex64", (9, 0))),
            arch="sm_90a",
            tma=True,
            persistent=True,
            warpgroup=True,
            schemes=(("fp16x3", 256), ("bf16x6", 128), ("bf16x9", 128), ("tf32x3", 256)),
            undecomposed="warp_tiled",
        ),
        Variant(
            name="split_tensor_core",
            template="split_tensor_core.cu.j2",
            summary="the same with instructions of a warp: on GPUs without wgmma",
            waits="first",
            configure=split_variants.split_tensor_core,
            block=lambda config: (config.threads, 1),
            shared_bytes=split_variants.shared_swizzled_limbs,
            rules=split_variants.of_limbs(tensor_cores.matrix_fragments),
            tiles=(64, 128),
            default_tile=128,
            tensor_cores=True,
            dynamic_shared=True,
            types=(("float32", (8, 0)), ("complex64", (8, 0))),
            schemes=(("fp16x3", 128), ("bf16x6", 128), ("bf16x9", 128), ("tf32x3", 128)),
            undecomposed="warp_tiled",
        ),
        Variant(
            name="split_integer",
            template="split_integer.cu.j2",
            summary="integers from 8-bit tensor cores: bytes, multiplied pair by pair and summed by their places",
            waits="first",
            configure=split_variants.split_integer,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=split_variants.shared_split_integer,
            rules=split_variants.of_bytes,
            tiles=(64, 128, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=tuple((name, (9, 0)) for name in ("int32", "int64", "int16", "uint16", "uint32", "uint64")),
            arch="sm_90a",
            tma=True,
            persistent=True,
            warpgroup=True,
            decomposes_to_bytes=True,
        ),
        Variant(
            name="split_float64",
            template="split_float64.cu.j2",
            summary="float64 and complex128 from 8-bit tensor cores: integers modulo small numbers (Ozaki scheme II)",
            waits="first",
            configure=split_variants.split_float64,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=split_variants.shared_byte_tiles,
            rules=split_variants.of_residues,
            tiles=(64, 128, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=(("float64", (9, 0)), ("complex128", (9, 0))),
            arch="sm_90a",
            tma=True,
            persistent=True,
            warpgroup=True,
            decomposes_to_residues=True,
            undecomposed="tensor_core",
        ),
        Variant(
            name="split_float64_tensor_core",
            template="split_float64_tensor_core.cu.j2",
            summary="the same with instructions of a warp: on GPUs without wgmma",
            waits="first",
            configure=split_variants.split_float64_tensor_core,
            block=lambda config: (config.threads, 1),
            shared_bytes=split_variants.shared_swizzled_residues,
            rules=split_variants.of_swizzled_residues,
            tiles=(64, 128, 256),
            default_tile=128,
            tensor_cores=True,
            dynamic_shared=True,
            types=(("float64", (8, 0)), ("complex128", (8, 0))),
            decomposes_to_residues=True,
            undecomposed="tensor_core",
        ),
        Variant(
            name="cublas",
            template=None,
            summary="cupy.matmul itself, the baseline; never chosen unless it is named",
            configure=lambda tile, element: Config(0, 0),
            block=lambda config: (0, 0),
            shared_bytes=lambda config, element, layout: 0,
            simulated=False,
        ),
    )
)


def kernel_variants(dtype: str | None = None) -> list[Variant]:
    """The kernels of this package that multiply a type (None: any), in ladder order; ``cublas`` is none of them."""
    kernels = [row for row in VARIANTS.values() if row.template is not None]
    return kernels if dtype is None else [row for row in kernels if row.multiplies(compute_element(dtype))]


def general_variants() -> list[Variant]:
    """Those that multiply every type that arrays have."""
    return [row for row in kernel_variants() if not row.types]


def find_variant(name: str) -> Variant:
    """The row of a name.

    Raises:
        UnknownVariantError: If there is none; the message names the nearest and lists all.
    """
    row = VARIANTS.get(name) if isinstance(name, str) else None
    if row is None:
        if name == "auto":
            raise UnknownVariantError(
                f"'auto' takes another kernel for each product; those with a name are {', '.join(VARIANTS)}"
            )
        near = difflib.get_close_matches(str(name), VARIANTS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownVariantError(
            f"there is no variant {name!r}{hint}; the variants are auto, {', '.join(VARIANTS)}; one of your own "
            "has to be registered first, by tiledmm.register or, for a command, by its option --import FILE.py"
        )
    return row
