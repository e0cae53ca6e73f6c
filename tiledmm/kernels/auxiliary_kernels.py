"""The auxiliary kernels of a schedule: rows like those of variants, but no user names them."""

from __future__ import annotations

from tiledmm.kernels import cuda_cores, split_variants
from tiledmm.kernels.config import Config
from tiledmm.kernels.variant import Variant

#: The split-K reduction. Its tile is the number of partitions.
SPLIT_K_REDUCTION = Variant(
    name="split_k_reduction",
    template="split_k_reduction.cu.j2",
    summary="adds the partial sums of split-K partitions",
    waits="first",
    configure=cuda_cores.split_k_reduction,
    block=cuda_cores.block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * config.bn * element.sum_bytes if config.bm > 1 else 0,
)

#: Packs an operand into aligned rows.
PACK = Variant(
    name="pack",
    template="pack.cu.j2",
    summary="packs an operand into aligned rows",
    waits="last",
    configure=cuda_cores.pack,
    block=cuda_cores.block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * (config.bn + 1) * element.sum_bytes,
)

#: Packs narrow elements along K. Its tile is how many make one packed element.
PACK_ELEMENTS = Variant(
    name="pack_elements",
    template="pack_elements.cu.j2",
    summary="packs narrow elements along K",
    waits="last",
    configure=lambda tile, element: Config(bm=32, bn=32, bk=tile, tm=4),
    block=cuda_cores.block_of_tiles,
    shared_bytes=lambda config, element, layout: 4 * config.bn * (config.bm + 1),
)

#: Decomposes float32 elements, or the parts of complex64's, into limbs.
DECOMPOSE = Variant(
    name="decompose",
    template="decompose.cu.j2",
    summary="decomposes float32 elements, or the parts of complex64's, into limbs",
    waits="last",
    configure=lambda tile, element, scheme: split_variants.decompose_k_major(element, scheme),
    block=lambda config: (config.threads, 1),
    shared_bytes=lambda config, element, layout: 2 * 4 * config.threads // 32 * config.bm,
)

#: Decomposes float64 elements into residues modulo several moduli. Its tile is the number of moduli.
DECOMPOSE_RESIDUES = Variant(
    name="decompose_residues",
    template="decompose_residues.cu.j2",
    summary="decomposes float64 elements into residues modulo several moduli",
    waits="last",
    configure=lambda tile, element: split_variants.decompose_residues("N", tile),
    block=lambda config: (config.threads, 1),
    shared_bytes=split_variants.shared_decompose_residues,
)

#: Float64 numbers from residues. Its tile is the number of moduli.
RECONSTRUCT = Variant(
    name="reconstruct",
    template="reconstruct.cu.j2",
    summary="float64 elements of C from their residues modulo several moduli",
    waits="first",
    configure=lambda tile, element: Config(bm=16, bn=256, tm=4, tn=4, moduli=tile),
    block=lambda config: (config.threads, 1),
    shared_bytes=lambda config, element, layout: 0,
)

#: Decomposes integers into bytes.
DECOMPOSE_BYTES = Variant(
    name="decompose_bytes",
    template="decompose_bytes.cu.j2",
    summary="decomposes integers into bytes",
    waits="last",
    configure=lambda tile, element: Config(bm=32, bn=128, lanes=256),
    block=lambda config: (config.lanes, 1),
    shared_bytes=lambda config, element, layout: config.bn * (config.bm + 1) * element.sum_bytes,
)
