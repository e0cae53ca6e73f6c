"""Tensor-core variants that decompose their operands: configs, rules and shared memory.

Functions are named as in ``cuda_cores``. The tiles are those of ``tensor_cores``, with limbs, bytes or residues as
their elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiledmm.elements import ELEMENTS, SCHEMES, Element
from tiledmm.kernels.config import DYNAMIC_SHARED_BYTES, STATIC_SHARED_BYTES, Config, in_elements, in_real_numbers
from tiledmm.kernels.operands.moduli import DEFAULT_MODULI, FEWEST_MODULI, MOST_MODULI
from tiledmm.kernels.tensor_cores import matrix_fragments, shared_swizzled, tensor_tile, warpgroup_tiles, warpgroups
from tiledmm.kernels.variant import Rule


def of_limbs(rules: Callable[[Config, Element], list[Rule]]) -> Callable[[Config, Element], list[Rule]]:
    """Return a function that returns the rules of a kernel that multiplies limbs.

    Args:
        rules: Function that returns the rules of the same kernel for whole elements. It is called with the config
            counted in real numbers and with the type of a limb.
    """

    def of_both(config: Config, element: Element) -> list[Rule]:
        counted = ", where a complex number counts as two" if element.components > 1 else ""
        own = rules(in_real_numbers(config, element), SCHEMES[config.scheme].limb)
        return [
            (
                not config.launch.pack_a + config.launch.pack_b,
                "pack_a and pack_b must be 0, because limbs are always packed",
            ),
            *((holds, f"{rule}{counted}") for holds, rule in own),
        ]

    return of_both


def shared_limbs(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It holds the tiles of all limbs, the epilogue's chunks of C, and two barriers per stage.
    """
    scheme, real = SCHEMES[config.scheme], in_real_numbers(config, element)
    bm = real.bm // real.cluster
    chunks = bm * 16 * 4  # 16 columns of float32
    return real.stages * (real.bk * (bm + real.bn) * scheme.limbs * scheme.limb.itemsize + 2 * 8) + chunks


def split_float32(tile: int, element: Element, scheme: str) -> Config:
    """Return the config of ``split_float32`` for tiles of C with ``tile`` columns of real numbers.

    It has as many stages as fit into shared memory.

    Args:
        tile: Number of columns. A complex number counts as two.
        element: Computation type, float32 or complex64.
        scheme: Name of the decomposition into limbs, such as ``"fp16x3"``.
    """
    config = in_elements(replace(warpgroup_tiles(tile, SCHEMES[scheme].limb, stages=1), scheme=scheme), element)
    beside, stage = _beside_and_stage(shared_limbs, config, element)
    return replace(config, stages=max((DYNAMIC_SHARED_BYTES - beside) // stage, 2))


def _beside_and_stage(
    shared: Callable[[Config, Element, str], int], config: Config, element: Element
) -> tuple[int, int]:
    """Return the bytes of shared memory per block that do not depend on the number of stages, and those of one stage.

    Args:
        shared: Function that returns the shared memory per block of a config.
        config: The kernel's config, with any number of stages.
        element: Computation type.
    """
    beside, one = (shared(replace(config, stages=stages), element, "NT") for stages in (0, 1))
    return beside, one - beside


#: Size of ``BlockTile`` (``matrices.cuh.j2``), in bytes.
BLOCK_TILE_BYTES = 64


def shared_swizzled_limbs(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It holds the swizzled tiles of all limbs, and the ``BlockTile`` that the block computes.
    """
    scheme = SCHEMES[config.scheme]
    return scheme.limbs * shared_swizzled(in_real_numbers(config, element), scheme.limb, layout) + BLOCK_TILE_BYTES


# Columns as in ``tensor_cores._NARROW_TILES``, for limbs. A stage holds the k of one instruction, because each limb has
# its own tile.
_SPLIT_TILES = {64: (64, 64, 32, 32, 32, 1, 1, 8), 128: (128, 128, 64, 64, 32, 1, 1, 8)}
# Schemes for which accumulators of 64 x 64 per warp would leave too few registers.
_NARROW_WARPS = ("bf16x9", "tf32x3")


def split_tensor_core(tile: int, element: Element, scheme: str) -> Config:
    """Return the config of ``split_tensor_core`` with as many stages as fit into 48 KiB, but at most four.

    Args:
        tile: Number of rows of a tile of C, and of its columns in real numbers.
        element: Computation type, float32 or complex64.
        scheme: Name of the decomposition into limbs, such as ``"fp16x3"``.
    """
    limb = SCHEMES[scheme].limb
    real = replace(tensor_tile(_SPLIT_TILES, tile, limb), scheme=scheme)
    if scheme in _NARROW_WARPS:
        real = replace(real, wn=32, tn=8)
    config = in_elements(real, element)
    _, stage = _beside_and_stage(shared_swizzled_limbs, config, element)
    return replace(config, stages=min(STATIC_SHARED_BYTES // stage, 4))


def split_integer(tile: int, element: Element) -> Config:
    """Return the config of ``split_integer`` for tiles of C with ``tile`` columns.

    64-bit integers have at most 128 columns, because each of their sums needs three registers.
    """
    return _byte_tile(min(tile, 128) if element.itemsize == 8 else tile)


def _byte_tile(tile: int) -> Config:
    """Return the config of a kernel that multiplies bytes, for tiles of C with ``tile`` columns.

    It has as many stages as fit into shared memory.
    """
    return warpgroup_tiles(tile, ELEMENTS["uint8"], {64: 8, 128: 6, 144: 6, 256: 4}[tile])


def of_bytes(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``split_integer``, each paired with whether ``config`` obeys it.

    They are the rules of ``wgmma`` for 8-bit elements, no packing, and a limit on the columns of 64-bit integers.
    """
    return [
        (
            not config.launch.pack_a + config.launch.pack_b,
            "pack_a and pack_b must be 0, because bytes are always packed",
        ),
        (element.itemsize < 8 or config.bn <= 128, "bn must be at most 128 for 64-bit integers"),
        *warpgroups(64, 128, 144, 256)(config, ELEMENTS["uint8"]),
    ]


def shared_byte_tiles(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes: the tiles of 8-bit elements, and two barriers per stage."""
    return config.stages * (config.bk * (config.bm // config.cluster + config.bn) + 2 * 8)


def shared_split_integer(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes.

    It holds the tiles of bytes, the barriers, and parts of rows of C of up to 128 bytes, each padded by a quarter.
    """
    return shared_byte_tiles(config, element, layout) + config.bm // config.cluster * 160


def split_float64(tile: int, element: Element) -> Config:
    """Return the config of ``split_float64`` for tiles of C with ``tile`` columns, with the default number of moduli.

    A block multiplies the residues of one modulus at a time.
    """
    return replace(_byte_tile(tile), moduli=DEFAULT_MODULI)


def _of_moduli(config: Config) -> list[Rule]:
    return [
        (
            not config.launch.pack_a + config.launch.pack_b,
            "pack_a and pack_b must be 0, because residues are always packed",
        ),
        (config.launch.split_k == 1, "split_k must be 1, because the products for all moduli fill a GPU"),
        (FEWEST_MODULI <= config.moduli <= MOST_MODULI, f"moduli must be {FEWEST_MODULI} to {MOST_MODULI}"),
    ]


def of_residues(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``split_float64``, each paired with whether ``config`` obeys it.

    They are the rules of ``wgmma`` for 8-bit elements, and those for the number of moduli.
    """
    return [
        *_of_moduli(config),
        *warpgroups(64, 128, 256)(config, ELEMENTS["uint8"]),
    ]


# Columns as in ``tensor_cores._NARROW_TILES``, for residues. A warp has 64 columns of C, because each lane writes 16 of
# their residues at once.
_RESIDUE_TILES = {
    64: (64, 64, 16, 64, 64, 4, 2, 8),
    128: (128, 128, 64, 64, 64, 4, 1, 8),
    256: (128, 256, 64, 64, 64, 4, 1, 8),
}


def split_float64_tensor_core(tile: int, element: Element) -> Config:
    """Return the config of ``split_float64_tensor_core`` for a tile, with the default number of moduli.

    A block multiplies the residues of one modulus at a time.
    """
    return replace(tensor_tile(_RESIDUE_TILES, tile, ELEMENTS["uint8"]), moduli=DEFAULT_MODULI)


def of_swizzled_residues(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``split_float64_tensor_core``, each paired with whether ``config`` obeys it.

    They are the rules of swizzled tiles of 8-bit elements, and those for the number of moduli.
    """
    return [
        *_of_moduli(config),
        (config.wn % 64 == 0, "wn must be a multiple of 64"),
        *matrix_fragments(config, ELEMENTS["uint8"]),
    ]


def shared_swizzled_residues(config: Config, element: Element, layout: str) -> int:
    """Return the shared memory per block in bytes, which holds the swizzled tiles of residues."""
    return shared_swizzled(config, ELEMENTS["uint8"], layout)
