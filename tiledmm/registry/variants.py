"""The ladder: one row a kernel, in the order in which they are read. Everything that lists variants iterates it."""

from __future__ import annotations

import difflib
import threading

from tiledmm.elements import compute_element
from tiledmm.errors import UnknownVariantError
from tiledmm.registry import cuda_cores as tilings
from tiledmm.registry import tensor_cores as tensor_tilings
from tiledmm.registry.variant import Config, Variant

SQUARE_TILES = (8, 16, 32, 64)

VARIANTS: dict[str, Variant] = {
    row.name: row
    for row in (
        Variant(
            name="naive",
            template="naive.cu.j2",
            summary="one thread per element of C; a warp walks down a column: uncoalesced",
            configure=lambda tile, element: Config(bm=32, bn=16, unroll=8),
            block=lambda config: (config.bm, config.bn),
            shared_bytes=lambda config, element, layout: 0,
            rules=tilings.one_element_a_thread,
        ),
        Variant(
            name="coalesced",
            template="coalesced.cu.j2",
            summary="a warp walks along a row of C: neighbouring lanes read neighbouring addresses",
            configure=lambda tile, element: Config(bm=16, bn=32, unroll=8),
            block=tilings.block_of_tiles,
            shared_bytes=lambda config, element, layout: 0,
            rules=tilings.one_element_a_thread,
        ),
        Variant(
            name="tiled",
            template="tiled.cu.j2",
            summary="square tiles of A and B in shared memory, each element used once per row or column of the tile",
            configure=tilings.tiled,
            block=tilings.block_of_tiles,
            shared_bytes=tilings.shared_tiled,
            rules=tilings.even_copies(1),
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="tiled_padded",
            template="tiled.cu.j2",
            summary="rows of TILE + 1: a column of a tile lies in 32 different banks",
            configure=tilings.tiled_padded,
            block=tilings.block_of_tiles,
            shared_bytes=tilings.shared_tiled,
            rules=tilings.even_copies(1),
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="double_buffered",
            template="double_buffered.cu.j2",
            summary="the next tiles are loaded while the current ones are multiplied; one barrier a step",
            configure=tilings.double_buffered,
            block=tilings.block_of_tiles,
            shared_bytes=tilings.shared_double_buffered,
            rules=tilings.buffers_of_vectors,
            tiles=SQUARE_TILES,
            default_tile=32,
        ),
        Variant(
            name="register_tiled",
            template="register_tiled.cu.j2",
            summary="8 x 8 elements a thread: one element from shared memory takes part in 8 products",
            configure=tilings.register_tiled,
            block=tilings.block_of_tiles,
            shared_bytes=tilings.shared_k_major,
            rules=tilings.even_copies(1),
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="vectorized",
            template="vectorized.cu.j2",
            summary="the same, 16 bytes at a time: float4 to and from global and shared memory",
            configure=tilings.register_tiled,
            block=tilings.block_of_tiles,
            shared_bytes=tilings.shared_k_major,
            rules=tilings.square_vectors,
            tiles=(64, 128),
            default_tile=128,
        ),
        Variant(
            name="warp_tiled",
            template="warp_tiled.cu.j2",
            summary="a tile a warp, fragments of it in registers; copies several steps ahead, 16 bytes at a time",
            configure=tilings.warp_tiled,
            block=lambda config: (config.threads, 1),
            shared_bytes=tilings.shared_warp_tiles,
            rules=tilings.warp_tiles,
            tiles=(32, 64, 128, 256),
            default_tile=256,
        ),
        Variant(
            name="thin",
            template="warp_tiled.cu.j2",
            summary="the same with tiles of few rows: a C of few rows or columns at the speed of memory",
            configure=tilings.thin,
            block=lambda config: (config.threads, 1),
            shared_bytes=tilings.shared_warp_tiles,
            rules=tilings.warp_tiles,
            few_rows=True,
            tiles=(8, 16, 32, 64),
            default_tile=8,
        ),
        Variant(
            name="dot_products",
            template="dot_products.cu.j2",
            summary="a warp for a few elements of C, its lanes share k: for a C of few rows or columns",
            configure=tilings.dot_products,
            block=lambda config: (config.threads, 1),
            shared_bytes=lambda config, element, layout: 0,
            rules=tilings.lanes_share_k,
            few_rows=True,
            tiles=(1, 2, 4, 8, 16),
            default_tile=4,
        ),
        Variant(
            name="axpy",
            template="axpy.cu.j2",
            summary="a few columns a block and all of K: rows of B, each times an element of A, for a C of few rows",
            configure=tilings.axpy,
            block=lambda config: (config.threads, 1),
            shared_bytes=tilings.shared_axpy,
            rules=tilings.rows_of_vectors,
            few_rows=True,
            tiles=(1, 2, 4),
            default_tile=4,
        ),
        Variant(
            name="tiny",
            template="tiny.cu.j2",
            summary="a warp, or a part of one, for a tile of C, and many in a block: for batches of small products",
            configure=tilings.tiny,
            block=lambda config: (config.threads, 1),
            shared_bytes=tilings.shared_tiny,
            rules=tilings.groups_of_threads,
            small_products=True,
            tiles=(4, 8, 16),
            default_tile=8,
        ),
        Variant(
            name="tensor_core",
            template="tensor_core.cu.j2",
            summary="tensor cores: a warp multiplies 16 x 16 by 16 x 8 elements of 16 bits with one instruction",
            configure=tensor_tilings.tensor_core,
            block=lambda config: (config.threads, 1),
            shared_bytes=tensor_tilings.shared_swizzled,
            rules=tensor_tilings.matrix_fragments,
            tiles=(64, 128),
            default_tile=128,
            tensor_cores=True,
            dynamic_shared=True,
            types=(
                ("float16", (7, 5)),
                *((name, (8, 0)) for name in ("bfloat16", "tf32", "int8", "uint8", "float64", "complex128")),
            ),
        ),
        Variant(
            name="wgmma",
            template="wgmma.cu.j2",
            summary="Hopper: one warpgroup sends for tiles, the others multiply them, 64 rows with one instruction",
            configure=tensor_tilings.wgmma,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=tensor_tilings.shared_lines,
            rules=tensor_tilings.warpgroups(64, 128, 192, 256),
            tiles=(64, 128, 192, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=tuple((name, (9, 0)) for name in ("float16", "bfloat16", "tf32", "int8", "uint8")),
            target="sm_90a",
        ),
        Variant(
            name="split_float32",
            template="split_float32.cu.j2",
            summary="float32, complex64 from tensor cores: narrow pieces, multiplied and summed a few steps at a time",
            configure=tensor_tilings.split_float32,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=tensor_tilings.shared_pieces,
            rules=tensor_tilings.of_pieces(tensor_tilings.warpgroups(64, 128, 256)),
            tiles=(64, 128, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=(("float32", (9, 0)), ("complex64", (9, 0))),
            target="sm_90a",
            schemes=(("fp16x3", 256), ("bf16x6", 128), ("bf16x9", 128), ("tf32x3", 256)),
        ),
        Variant(
            name="split_tensor_core",
            template="split_tensor_core.cu.j2",
            summary="the same with a warp's own instructions: on tensor cores that are not Hopper's",
            configure=tensor_tilings.split_tensor_core,
            block=lambda config: (config.threads, 1),
            shared_bytes=tensor_tilings.shared_swizzled_pieces,
            rules=tensor_tilings.of_pieces(tensor_tilings.matrix_fragments),
            tiles=(64, 128),
            default_tile=128,
            tensor_cores=True,
            types=(("float32", (8, 0)), ("complex64", (8, 0))),
            schemes=(("fp16x3", 128), ("bf16x6", 128), ("bf16x9", 128), ("tf32x3", 128)),
        ),
        Variant(
            name="split_integer",
            template="split_integer.cu.j2",
            summary="integers from tensor cores: bytes, multiplied pair by pair and summed by their places",
            configure=tensor_tilings.split_integer,
            block=lambda config: (config.threads + 128, 1),
            shared_bytes=tensor_tilings.shared_lines_of_bytes,
            rules=tensor_tilings.bytes_in_lines,
            tiles=(64, 128, 256),
            default_tile=256,
            tensor_cores=True,
            dynamic_shared=True,
            simulated=False,
            types=tuple((name, (9, 0)) for name in ("int32", "int64", "int16", "uint16", "uint32", "uint64")),
            target="sm_90a",
            in_bytes=True,
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
}


# The second kernel of a product whose K is cut into slices; its tile is their number. No rung: it multiplies nothing.
SUM_SLICES = Variant(
    name="sum_slices",
    template="sum_slices.cu.j2",
    summary="adds up the slices of K",
    configure=tilings.sum_slices,
    block=tilings.block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * config.bn * element.sum_bytes if config.bm > 1 else 0,
)


# What copies an operand to rows that a kernel reads fast.
PACK = Variant(
    name="pack",
    template="pack.cu.j2",
    summary="copies an operand to aligned rows",
    configure=tilings.pack,
    block=tilings.block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * (config.bn + 1) * element.sum_bytes,
)


# What packs narrow elements to words; its tile is how many go into one.
PACK_WORDS = Variant(
    name="pack_words",
    template="pack_words.cu.j2",
    summary="packs narrow elements to words along K",
    configure=lambda tile, element: Config(bm=32, bn=32, bk=tile, tm=4),
    block=tilings.block_of_tiles,
    shared_bytes=lambda config, element, layout: 4 * config.bn * (config.bm + 1),
)


# What splits float32 numbers, or complex64's parts, into pieces.
SPLIT = Variant(
    name="split",
    template="split.cu.j2",
    summary="splits float32 numbers, or complex64's parts, into pieces that tensor cores multiply",
    configure=lambda tile, element, scheme: tensor_tilings.split_along_k(element, scheme),
    block=lambda config: (config.threads, 1),
    shared_bytes=lambda config, element, layout: 2 * 4 * config.threads // 32 * config.bm,
)


# What splits integers into bytes.
SPLIT_BYTES = Variant(
    name="split_bytes",
    template="split_bytes.cu.j2",
    summary="splits integers into bytes",
    configure=lambda tile, element: Config(bm=32, bn=128, lanes=256),
    block=lambda config: (config.lanes, 1),
    shared_bytes=lambda config, element, layout: config.bn * (config.bm + 1) * element.sum_bytes,
)


def add_variant(row: Variant) -> None:
    """Puts a user's variant on the ladder, above the kernels and below the baseline; one of that name is replaced."""
    with _LOCK:
        rows = {name: known for name, known in VARIANTS.items() if name not in (row.name, "cublas")}
        _replace({**rows, row.name: row, "cublas": VARIANTS["cublas"]})


def remove_variant(name: str) -> None:
    """Takes a user's variant off the ladder."""
    with _LOCK:
        _replace({known: row for known, row in VARIANTS.items() if known != name})


def _replace(rows: dict[str, Variant]) -> None:
    # In place: everybody holds this dict.
    VARIANTS.clear()
    VARIANTS.update(rows)


_LOCK = threading.Lock()


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
        near = difflib.get_close_matches(str(name), VARIANTS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UnknownVariantError(f"there is no variant {name!r}{hint}; the variants are auto, {', '.join(VARIANTS)}")
    return row
